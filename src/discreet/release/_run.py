"""Running a declared release: price everything, pay table by table, write the folder.

Each table has a key in the ledger, made of the release's title, its edition and what the file
says. A run that was killed is taken up where it was: tables that are paid for come from the
ledger, and none is paid twice. A new edition pays anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import policy as pol
from discreet._dataclass import dataclass, replace
from discreet._print import short_down
from discreet.curator import execute, open_curator
from discreet.errors import BudgetExceededError, ParameterError
from discreet.ledger import Balance, refusal
from discreet.plan import Kind, of_column
from discreet.release import _folder, _registry, _report
from discreet.release._curated import Proposal
from discreet.release._declared import MEANINGS, Declaration, Declared, proposal, read
from discreet.release._folder import Issue
from discreet.release._progress import progress
from discreet.release._publishing import Publishing

if TYPE_CHECKING:
    from discreet.curator import Curator

_MARKER = "release.txt"
_DUMMY = 2000
"""Rows of made-up data."""
_REMAINDER = (
    "left is the largest price of one more question. Gaussian noise is counted by ρ alone from "
    "then on, so spent and left need not add up to the total"
)


@dataclass(frozen=True, repr=False)
class Preview:
    """Price and expected error of every table of a release, before anything is touched."""

    release: Declaration
    proposals: Mapping[str, Proposal]
    left: str
    refused: str | None = None
    """Why the release would be refused, where the budget does not cover it."""
    hint: str | None = None
    """What would fit then."""

    @property
    def cost(self) -> dict[str, Fraction]:
        """Sum of all tables, by currency."""
        bills = [p.bill.cost for p in self.proposals.values()]
        return {
            name: sum((getattr(bill, name) for bill in bills), Fraction(0))
            for name in ("epsilon", "delta", "rho")
        }

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it: each table by its name."""
        return {
            name: {
                "method": p.plan.method,
                "workload": p.plan.workload.describe(),
                "queries": p.plan.workload.queries,
                "price": str(p.plan.price),
                "rmse": p.plan.rmse,
                "cost": p.cost,
                "unprotected": list(self.declared(name).unprotected),
            }
            for name, p in self.proposals.items()
        }

    def declared(self, name: str) -> Declared:
        """What the plan says of a table."""
        return next(t for t in self.release.tables if t.name == name)

    def __repr__(self) -> str:
        lines = [f"{self.release.title}, edition {self.release.edition}"]
        for name, p in self.proposals.items():
            error = "depends on the data" if p.plan.rmse is None else f"{p.plan.rmse:.4g}"
            lines.append(
                f"  {name}: {p.plan.workload.describe()} by {p.plan.method}, {p.plan.price}, "
                f"expected error {error}"
            )
            table = self.declared(name)
            lines += [f"    UNPROTECTED: {MEANINGS[what]}" for what in table.unprotected]
        total = self.cost
        sums = f"ε={float(total['epsilon']):.6g} (ρ={float(total['rho']):.4g})"
        lines.append(f"  cost      {sums}: the sum of all tables, as the budget is charged")
        lines.append(f"  budget    {self.left}")
        if self.refused is not None:
            lines += [f"  would be refused: {self.refused}", f"  try: {self.hint}"]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Done:
    """A release that has been written."""

    folder: Path
    issues: tuple[Issue, ...]
    left: str

    @property
    def paid(self) -> list[str]:
        """Tables that this run paid for; the others had been paid before."""
        return [i.declared.name for i in self.issues if not i.publication.cached]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "folder": str(self.folder),
            "tables": [i.declared.name for i in self.issues],
            "paid": self.paid,
            "left": self.left,
        }

    def __repr__(self) -> str:
        again = len(self.issues) - len(self.paid)
        free = f", {again} had been paid for before" if again else ""
        summary = f"{len(self.issues)} tables in {self.folder}{free}; budget left: {self.left}"
        if all(i.publication.plan.price.pure for i in self.issues) or "made-up" in self.left:
            return summary
        return f"{summary}\n{_REMAINDER}"


def preview(
    plan: Any, *, source: Any = None, ledger: Any = None, analyst: str | None = None
) -> Preview:
    """Price a declared release; nothing is read but public facts, nothing is charged.

    Parameters
    ----------
    plan
        Path of a release plan (TOML), or its content.
    source, ledger, analyst
        As for :func:`discreet.open`.
    """
    release = read(plan)
    if _makes_ledger(release, ledger):
        ledger = ":memory:"  # looking makes no ledger
    with open_curator(source, release.policy, ledger=ledger, analyst=analyst) as curator:
        offered = _preview(curator, release)
        beyond = _beyond(curator, offered, release.output)
        if beyond is None:
            return offered
        return replace(offered, refused=beyond.message, hint=str(beyond.hint))


def run(
    plan: Any,
    *,
    source: Any = None,
    ledger: Any = None,
    analyst: str | None = None,
    output: Any = None,
    dummy: bool = False,
) -> Done:
    """Publish a declared release and write its folder.

    Parameters
    ----------
    plan
        Path of a release plan (TOML), or its content.
    source, ledger, analyst
        As for :func:`discreet.open`.
    output
        The folder, if not where the plan says.
    dummy
        Rehearse on made-up data: nothing is read and nothing is charged.
    """
    release = read(plan)
    _folder.renderer()
    folder = Path(output) if output is not None else release.output
    folder = folder.with_name(f"{folder.name}-dummy") if dummy and output is None else folder
    _check_folder(folder, release, dummy=dummy)
    if not dummy and _makes_ledger(release, ledger):
        # a refusal leaves nothing behind, no ledger either
        first = preview(plan, source=source, analyst=analyst)
        if first.refused is not None:
            raise BudgetExceededError(first.refused, hint=first.hint)
    # made-up data are another policy's: the budget is not touched, and not known to be free
    where = {"dummy": True} if dummy else {"source": source, "ledger": ledger}
    with open_curator(policy=release.policy, analyst=analyst, **where) as curator:
        offered = _preview(curator, release)
        if (beyond := _beyond(curator, offered, folder)) is not None:
            raise beyond
        _folder.write(folder / _MARKER, _mark(release, dummy=dummy))
        issues = []
        with progress(release.title, len(release.tables)) as bar:
            for table in release.tables:
                bar.step(table.name)
                issue = _published(curator, release, table, offered.proposals[table.name], dummy)
                _folder.write_issue(folder, issue)
                issues.append(issue)
        whom = _whom(curator, offered)
        _folder.write(
            folder / "report.html", _report.report(release, issues, whom, offered.cost, dummy=dummy)
        )
        _folder.write(folder / "registry.yaml", _registry.registry(release, issues, whom))
        _folder.write(folder / "read_measurements.py", _folder.PYTHON)
        _folder.write(folder / "read_measurements.R", _folder.R_CODE)
        left = "untouched: made-up data cost nothing" if dummy else curator.budget.shown
    return Done(folder, tuple(issues), left)


def _preview(curator: Curator, release: Declaration) -> Preview:
    offers = {table.name: proposal(curator, release, table) for table in release.tables}
    return Preview(release, offers, next(iter(offers.values())).left)


def _check_folder(folder: Path, release: Declaration, *, dummy: bool) -> None:
    """Refuse a folder that holds another release, or is no folder of a release."""
    marker = folder / _MARKER
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not marker.is_file() or marker.read_text(encoding="utf-8") != _mark(release, dummy=dummy):
        raise ParameterError(
            f"the folder {folder.name!r} holds something else; nothing was charged",
            hint="output = a new folder",
        )


def _mark(release: Declaration, *, dummy: bool) -> str:
    """What a folder says about whose it is."""
    return f"{release.title}, edition {release.edition}{' (made-up data)' if dummy else ''}\n"


def _makes_ledger(release: Declaration, ledger: Any) -> bool:
    """Whether opening the release's table would make a ledger."""
    return ledger is None and not Path(f"{release.policy.resolve()}.ledger").exists()


def _beyond(curator: Curator, offered: Preview, folder: Path) -> BudgetExceededError | None:
    """Return the refusal of a release that the budget does not cover, before anything is paid.

    The ledger's rule is asked about one table after the other, as they will be paid.
    """
    budget = curator.budget
    balances = {"the budget": budget.table, "your share": budget.share}
    for name, offer in offered.proposals.items():
        if (folder / "tables" / f"{name}.parquet").is_file():
            continue
        cost = offer.bill.cost
        for holder, balance in balances.items():
            refused = refusal(holder, balance, cost)
            if refused is not None:
                reason = refused.message.replace("this query", "this table")
                return BudgetExceededError(
                    f"the budget does not cover the release up to table {name!r}: {reason}; "
                    "nothing was charged",
                    hint=_fitting(offered, name, list(balances.values())),
                )
        balances = {holder: b.after(cost) for holder, b in balances.items()}
    return None


def _fitting(offered: Preview, name: str, balances: Sequence[Balance]) -> str:
    """The largest price that the budget has left for a table, as a line of the plan."""
    by_rho = offered.declared(name).get("rho") is not None
    currency = "rho" if by_rho and all("rho" in b.amounts for b in balances) else "epsilon"
    rooms = [b.left("rho") if currency == "rho" else b.remaining for b in balances]
    if min(rooms) <= 0:
        return f"leave out [tables.{name}], or lower the prices of the tables before it"
    return f'[tables.{name}] {currency} = "{short_down(min(rooms))}", or lower prices before it'


def _published(
    curator: Curator, release: Declaration, table: Declared, offer: Proposal, dummy: bool
) -> Issue:
    publication = offer.publish(
        key=release.key(table), fresh=True, nonnegative=bool(table.get("nonnegative"))
    )
    band = None
    if publication.plan.mechanism.linear and not publication.nonnegative:
        band = publication.interval(release.confidence)
    achieved = None
    if dummy:
        # made-up data: the truth may be looked at
        (part,), aggregate = offer.bill.lowered.parts, offer.bill.lowered.aggregates[0]
        assert isinstance(part, Publishing)
        truth = part.counts(execute(curator, aggregate))
        if truth.small:
            gap = publication.answers - publication.plan.workload.answers(truth.array())
            achieved = math.sqrt(float((gap**2).mean()))
    return Issue(table, publication, band, achieved)


def _whom(curator: Curator, offered: Preview) -> dict[str, str]:
    """Say whom the release protects, from the policy."""
    queries = [p.bill.lowered for p in offered.proposals.values()]
    units = sorted({q.aggregates[0].unit or "row" for q in queries})
    relations = sorted({q.query.neighbours.value for q in queries})
    rows = {name: p.plan.rows for name, p in offered.proposals.items()}
    unit = " and ".join("one row" if u == "row" else f"one {u}, with all rows" for u in units)
    return {
        "unit": f"Unit of protection: {unit}.",
        "relation": "Neighbouring tables differ in one unit, "
        + " or ".join("added or removed" if r == "add-remove" else "changed" for r in relations)
        + ".",
        "limits": "Records of one unit that count: "
        + ", ".join(f"{name} at most {n}" for name, n in rows.items())
        + f". Policy {curator.policy.identity}.",
    }


def made_up(policy: pol.Policy, rows: int = _DUMMY) -> dict[str, Any]:
    """Return tables of made-up values from a policy's public domains: the same every time."""
    import pyarrow as pa  # noqa: PLC0415 - an engine's library, loaded on use

    rng = np.random.default_rng(rows)
    tables = {}
    for name, table in policy.tables.items():
        columns: dict[str, Any] = {}
        for column_name, column in table.columns.items():
            kind = of_column(column)
            if kind.kind is Kind.TEXT:
                columns[column_name] = [f"text {i % (rows // 3 + 1)}" for i in range(rows)]
                continue
            codes = kind.lo + np.floor(rng.beta(2, 3, rows) * kind.size).astype(np.int64)
            values = [kind.value(int(code)) for code in codes]
            real = isinstance(column, pol.Real)
            columns[column_name] = [float(str(v)) for v in values] if real else values
        if table.unit is not None and table.unit not in columns:
            columns[table.unit] = np.arange(rows)
        tables[name] = pa.table(columns)
    return tables
