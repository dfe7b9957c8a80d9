"""Declared releases: a file that says everything, read and checked before anything is paid.

Nothing here reads data. A declaration names a policy, tables over the policy's columns, their
workloads, methods and prices, what is released exactly and who answers for that, and what is
done to the numbers after the noise.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import _canonical, _exact
from discreet._dataclass import dataclass, field
from discreet._lazy import sparse
from discreet.errors import ParameterError, PrivacyError
from discreet.release._curated import Proposal
from discreet.release._domain import BETWEEN, Domain
from discreet.release._keyed import keyed
from discreet.release._workload import Workload

if TYPE_CHECKING:
    from discreet.curator import Curator

_TOP: Final = frozenset(
    {"title", "edition", "description", "region", "use", "policy", "output", "confidence", "owner",
     "tables", "hierarchies"}
)  # fmt: skip
_TABLE: Final = frozenset(
    {"from", "where", "columns", "bins", "workload", "ways", "hierarchies", "method", "options",
     "epsilon", "delta", "rho", "unprotected", "group", "groups", "nonnegative", "suppress_below",
     "round_to", "records"}
)  # fmt: skip
_OWNER: Final = frozenset({"name", "unprotected", "reason"})
_AXES: Final = ("identity", "total", "prefix", "all_range")


@dataclass(frozen=True)
class Declared:
    """One table of a release, as its author wrote it."""

    name: str
    content: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """What the file says under a key."""
        return self.content.get(key, default)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Numbers that come out exactly, or that are taken as public."""
        names = list(self.get("unprotected", ()))
        options = self.get("options", {})
        if isinstance(options.get("total"), int) and "total" not in names:
            names.append("total")
        if self.get("groups") is not None:
            names.append("groups")
        return tuple(names)


@dataclass(frozen=True)
class Declaration:
    """A release as declared."""

    title: str
    edition: str
    policy: Path
    output: Path
    confidence: float
    owner: Mapping[str, Any]
    tables: tuple[Declared, ...]
    hierarchies: Mapping[str, Any]
    document: Mapping[str, Any] = field(repr=False)
    file: str = "plan.toml"
    """The path of its file, as the caller spelled it: for hints."""

    @property
    def hash(self) -> str:
        """Identity of everything that decides what is measured."""
        return _canonical.digest(_canonical.canonical(_plain(self.document)))

    def key(self, table: Declared) -> str:
        """Name of one table's debit: the same declaration never pays twice."""
        content = _plain({**table.content, "hierarchies": self.hierarchies})
        text = _canonical.digest(_canonical.canonical(content))[:16]
        return f"release {self.title[:60]}/{self.edition[:40]}/{table.name[:40]}/{text}"


def _plain(value: Any) -> Any:
    """TOML data as canonical JSON takes it: numbers as they are spelled."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) else value


def _check_texts(content: Any) -> None:
    """Refuse characters that steer terminals and pages: what a plan says is published."""
    if isinstance(content, str) and not content.replace("\n", "").replace("\t", "").isprintable():
        raise ParameterError(f"a release plan holds a character that cannot be shown: {content!r}")
    if isinstance(content, Mapping):
        content = [*content, *content.values()]
    if isinstance(content, list | tuple):
        for part in content:
            _check_texts(part)


def read(plan: Any) -> Declaration:
    """Read a declaration from a file's path or from a mapping.

    Parameters
    ----------
    plan
        Path of a TOML file, or what such a file holds. Paths in it are relative to it.
    """
    if isinstance(plan, Declaration):
        return plan
    folder, document, file = Path(), plan, "plan.toml"
    if not isinstance(plan, Mapping):
        path = Path(plan)
        folder, file = path.parent, shlex.quote(str(plan))
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError:
            raise ParameterError(f"there is no release plan {path.name!r}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
            raise ParameterError(f"{path.name} is not TOML: {wrong}") from None
    _check_texts(document)
    _check_names(document, _TOP, "a release plan")
    owner = dict(document.get("owner", {}))
    _check_names(owner, _OWNER, "[owner]")
    tables = document.get("tables", {})
    if not document.get("title") or not document.get("policy") or not tables:
        raise ParameterError(
            "a release plan needs a title, a policy and at least one table",
            hint='title = "…"\\npolicy = "people.toml"\\n[tables.ages]',
        )
    declared = []
    for name, content in tables.items():
        _check_names(content, _TABLE, f"[tables.{name}]")
        if not name.replace("-", "_").isidentifier():
            raise ParameterError(
                f"a table's name is used in names of files, and {name!r} cannot be",
                hint="[tables.ages]",
            )
        _check_options(name, content.get("options", {}))
        declared.append(Declared(name, content))
    title = str(document["title"])
    declaration = Declaration(
        title,
        str(document.get("edition", "1")),
        folder / str(document["policy"]),
        folder / str(document.get("output", "release")),
        _exact.confidence(document.get("confidence", 0.95)),
        owner,
        tuple(declared),
        document.get("hierarchies", {}),
        document,
        file,
    )
    for table in declared:
        _agreed(declaration, table)
    return declaration


def _check_names(settings: Any, names: frozenset[str], where: str) -> None:
    if not isinstance(settings, Mapping):
        raise ParameterError(f"{where} must be a table of settings")
    for name in settings:
        if name not in names:
            near = ", ".join(sorted(names))
            raise ParameterError(f"{where} does not take {name!r}; it takes {near}")


def _check_options(table: str, options: Any) -> None:
    """Refuse options that are settings of their own: they are the method's, nobody else's."""
    if not isinstance(options, Mapping):
        raise ParameterError(f"options of [tables.{table}] must be a table of settings")
    for name in options:
        if name in _TABLE or name in ("owner", "key", "fresh", "rows", "neighbours"):
            where = f"[tables.{table}]" if name in _TABLE else "the plan or the policy"
            raise ParameterError(
                f"options of [tables.{table}] are those of its method, and {name!r} is none; "
                f"it is said in {where}, if at all"
            )


def _agreed(release: Declaration, table: Declared) -> None:
    """Refuse exact numbers that the owner has not named."""
    owner = release.owner
    allowed = owner.get("unprotected", {})
    for what in table.unprotected:
        if what not in MEANINGS:
            names = ", ".join(MEANINGS)
            raise ParameterError(f"unprotected takes {names}, not {str(what)[:40]!r}")
        if not owner.get("name") or what not in allowed.get(table.name, ()):
            raise PrivacyError(
                f"table {table.name!r} would release exactly, without any protection: "
                f"{MEANINGS[what]}; the data owner has not said so",
                hint=f'[owner]\nname = "…"\nunprotected.{table.name} = ["{what}"]',
            )


MEANINGS: Final = {
    "total": "the number of all records (under max_rows_per_unit, of those that it keeps: so "
    "many of each unit at most). Whoever knows all records but one learns whether "
    "there is one more",
    "area-totals": "the number of records of each area. Whoever knows all records but one "
    "learns in which area it is",
    "groups": "the number of groups. Whoever knows all groups but one learns whether there is "
    "one more",
}
"""What each exact number gives away."""


def proposal(curator: Curator, release: Declaration, table: Declared) -> Proposal:
    """Price one table; nothing is read but public facts."""
    private = [name for name, t in curator.policy.tables.items() if not t.public]
    started = curator.table(table.get("from", private[0]))
    if table.get("where"):
        started = started.where(table.get("where"))
    columns, bins = table.get("columns", []), table.get("bins")
    sizes = table.get("options", {}).get("sizes", 0)
    domain = keyed(started, columns, bins).domain if columns else Domain((), ())
    options = {k: v for k, v in table.get("options", {}).items() if k != "sizes"}
    if table.get("group"):
        domain = Domain((*domain.names, "size"), (*domain.values, tuple(map(str, range(sizes)))))
        options["groups"] = table.get("groups")
    exact = table.get("unprotected")
    if exact:
        options["unprotected"] = list(exact)
    return curator.publication(
        started,
        workload_of(release, table, domain),
        columns=columns,
        method=table.get("method", "auto"),
        owner=str(release.owner["name"]) if exact else None,
        **{name: table.get(name) for name in ("bins", "epsilon", "delta", "rho", "group")},
        **options,
    )


# -- workloads by name ----------------------------------------------------------------------


def workload_of(release: Declaration, table: Declared, domain: Domain) -> Workload:
    """Build the workload that a table names, over its domain."""
    choice = table.get("workload", "identity")
    if choice == "marginals":
        ways = table.get("ways", 2)
        return Workload.marginals(domain.shape, ways if isinstance(ways, int) else tuple(ways))
    names = [choice] * len(domain.shape) if isinstance(choice, str) else list(choice)
    if len(names) != len(domain.shape):
        raise ParameterError(
            f"table {table.name!r} has {len(domain.shape)} columns and {len(names)} workloads",
            hint='workload = ["identity", "prefix"]',
        )
    hierarchies = {h["column"]: h for h in _hierarchies(release, table)}
    axes = []
    for name, column, values in zip(names, domain.names, domain.values, strict=True):
        if column in hierarchies:
            axes.append(Workload.matrix(*_levels(hierarchies[column], column, values)))
        elif name in _AXES or name.replace("-", "_") in _AXES:
            axes.append(getattr(Workload, name.replace("-", "_"))(len(values)))
        else:
            kinds = ", ".join((*_AXES, "marginals"))
            raise ParameterError(f"there is no workload {str(name)[:40]!r}; there are {kinds}")
    return Workload.kron(*axes)


def _hierarchies(release: Declaration, table: Declared) -> Sequence[Mapping[str, Any]]:
    hierarchies = []
    for name in table.get("hierarchies", []):
        if name not in release.hierarchies:
            raise ParameterError(
                f"table {table.name!r} names a hierarchy {name!r} that is not there"
            )
        hierarchy = release.hierarchies[name]
        if (
            not isinstance(hierarchy, Mapping)
            or "column" not in hierarchy
            or not hierarchy.get("levels")
        ):
            raise ParameterError(
                f"hierarchy {name!r} needs a column and levels",
                hint=f'[hierarchies.{name}]\ncolumn = "age"\nlevels = [{{ young = "0..17" }}]',
            )
        hierarchies.append(hierarchy)
    return hierarchies


def _levels(
    hierarchy: Mapping[str, Any], column: str, values: Sequence[str]
) -> tuple[Any, list[str], list[str]]:
    """Return groups of an axis's cells as rows of 0 and 1, with their names and levels."""
    rows, labels, levels = [], [], []
    for place, level in enumerate(hierarchy["levels"]):
        levels += [f"{column}, level {place + 1}"] * len(level)
        for label, members in level.items():
            rows.append(np.array([_inside(v, members) for v in values], dtype=np.float64))
            labels.append(str(label))
            if not rows[-1].any():
                raise ParameterError(f"group {label!r} of {column!r} holds no public value")
    if hierarchy.get("cells", True):
        rows.extend(np.eye(len(values)))
        labels.extend(values)
        levels += [column] * len(values)
    return sparse.csr_array(np.array(rows)), labels, levels


def _inside(value: str, members: Any) -> bool:
    """Whether a cell's value (or range) lies in a list, or in a range such as "18..64"."""
    if isinstance(members, str):
        first, _, last = members.partition("..")
        low, high = (_exact.decimal(end, "the end of a range") for end in (first, last or first))
        ends = value.split(BETWEEN)
        a, b = (_exact.decimal(end, "a value of a range") for end in (ends[0], ends[-1]))
        if (a < low <= b and low != a) or (a <= high < b):
            raise ParameterError(
                f"the range {members!r} cuts the bin {value!r}", hint="ends of bins as ends"
            )
        return bool(low <= a and b <= high)
    return value in [str(m) for m in members]
