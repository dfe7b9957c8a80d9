r"""Publications of a curator's tables: a part of a plan like any other.

The road is the curator's own. A publication is a :class:`~discreet.plan.Query` with one
statistic; it is lowered to one part over the counts of all cells, priced, proved, debited,
measured, stored and given again for free, as every question is. What it asks of the counts is a
mechanism's course (:mod:`._questions`); all that is shown is computed from its released integers.
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet import _canonical, _exact
from discreet._dataclass import dataclass, field, replace
from discreet._text import plain_str
from discreet.errors import Hint, ParameterError, PrivacyError
from discreet.plan import (
    Aggregate,
    Formula,
    Key,
    KeyValue,
    Kind,
    LimitRows,
    Lowering,
    OutputColumn,
    Part,
    Project,
    Query,
    Scan,
    Sensitivity,
    Statistic,
    StatisticValue,
    expr,
)
from discreet.plan import Plan as Bill
from discreet.privacy import Neighbours
from discreet.release._domain import Domain
from discreet.release._factors import fingerprint
from discreet.release._keyed import Keyed, keyed
from discreet.release._plan import Plan
from discreet.release._publication import Publication
from discreet.release._publishing import Published, Publishing, Transcript
from discreet.release._topdown import EXACT
from discreet.release._workload import Workload, rebuilt

if TYPE_CHECKING:
    from discreet.answer import Answer
    from discreet.frame import Table

# -- the question ----------------------------------------------------------------------


@dataclass(frozen=True)
class Publish(Statistic):
    """A workload over the counts of all cells, by a method."""

    spelling: str = ""
    workload: Workload | None = field(default=None, compare=False)
    method: str = "auto"
    options: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    owner: str | None = None
    bins: Mapping[str, Fraction] = field(default_factory=dict, compare=False)
    numbers: tuple[int, ...] = ()
    """Public numbers of groups, region by region, where sizes of groups are counted."""

    word: ClassVar[str] = "publish"
    needs_expr: ClassVar[bool] = False
    selects: ClassVar[bool] = False

    def lower(self, low: Lowering) -> Formula:
        """One part that asks the mechanism's questions."""
        assert self.workload is not None
        workload = self.workload
        codes = tuple(tuple(key.codes) for key in low.query.keys if key.codes is not None)
        exact = bool(dict(self.options).get("unprotected"))

        def part(main: Aggregate, place: int, counts: Sensitivity) -> Part:
            relation, rows = _relation(main, counts, exact=exact)
            return Publishing(
                0, counts, counts.l1, place, codes, self.method, relation, rows,
                self.spelling, workload, self.options, self.owner, self.numbers,
                (main.neighbours, main.unit or "row"),
            )  # fmt: skip

        return Published(low.on_counts(part, ()))

    def __str__(self) -> str:
        workload = "" if self.workload is None else f" {self.workload.describe()}"
        return f"publish{workload} by {self.method}"


def question(
    table: Table,
    workload: Workload,
    *,
    columns: Sequence[str] | Mapping[str, str] = (),
    bins: Mapping[str, Any] | None = None,
    method: str = "auto",
    owner: str | None = None,
    group: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Query:
    """Return a publication as a question about a table.

    Parameters
    ----------
    table
        A table of the fluent API, with its conditions.
    workload, method, options
        As for :func:`discreet.release.plan`.
    columns
        Columns that make up the domain, in the order of the workload's axes; a mapping gives
        names to row expressions.
    bins
        Widths: values of these columns are gathered in steps of so much.
    owner
        Who answers for numbers that are released exactly.
    group
        For ``count-of-counts``: the text column that says to which group a row belongs; the
        last axis of the workload is then the size of groups, and the option ``groups`` their
        public number (a list, one for each region of the one column that there may be).
    """
    settings = {plain_str(n): _plain(n, value) for n, value in dict(options or {}).items()}
    workload, columns = rebuilt(workload), _read_columns(columns)
    bins = {plain_str(n): width for n, width in dict(bins or {}).items()}
    method, group = plain_str(method, "method"), None if group is None else plain_str(group)
    owner = None if owner is None else plain_str(owner, "owner")
    if settings.keys() & {"rows", "neighbours"}:
        raise ParameterError("rows= and neighbours= are read from the policy here: leave them out")
    if (group is None) == (method == "count-of-counts"):
        raise ParameterError(
            "count-of-counts needs group=, the column that names a row's group; no other method "
            "takes it",
            hint=Hint.of({"method": "count-of-counts", "group": "household_id", "groups": 1000}),
        )
    numbers: tuple[int, ...] = ()
    if group is not None:
        numbers = _numbers(settings, len(columns))
        settings["groups"] = "public"
    grouping = keyed(table, columns, bins, group)
    _check(grouping.query, workload, numbers)
    if "unprotected" in settings:
        _permitted(table, grouping, settings["unprotected"], owner, own=isinstance(columns, tuple))
    spelling = _canonical.canonical([repr(workload.key()), method, _spelled(settings)])
    fixed = tuple(settings.items())
    statistic = Publish(None, spelling, workload, method, fixed, owner, grouping.widths, numbers)
    outputs = (OutputColumn("query", KeyValue("query")), OutputColumn("value", StatisticValue(0)))
    return replace(grouping.query, statistics=(statistic,), outputs=outputs)


def _read_columns(columns: object) -> tuple[str, ...] | dict[str, str]:
    """Copy the columns: names alone, or names of row expressions."""
    if issubclass(type(columns), Mapping):
        pairs = dict(columns).items()  # type: ignore[call-overload]  # a mapping, read once
        return {plain_str(n, "columns"): plain_str(e, "columns") for n, e in pairs}
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise ParameterError("columns is a list of names", hint=Hint("columns", ["age"]))
    return tuple([plain_str(name, "columns") for name in columns])


def _plain(name: str, value: Any) -> Any:
    """Copy an option, so that whoever gave it can change it no more: numbers, text, lists.

    What is checked here is what the method will see.
    """
    if value is None or type(value) in (bool, int, float, Fraction):
        return value
    if isinstance(value, str):
        return plain_str(value)
    if isinstance(value, numbers.Number):
        exact = _exact.decimal(value, name)  # type: ignore[arg-type]  # refuses what it cannot read
        return int(exact) if isinstance(value, numbers.Integral) else float(exact)
    if hasattr(value, "shape"):
        array = np.array(value.toarray() if hasattr(value, "toarray") else value)
        if array.dtype.kind in "biuf":
            array.setflags(write=False)
            return array
    elif isinstance(value, Sequence | AbstractSet):
        return tuple([_plain(name, item) for item in value])
    raise ParameterError(f"{name} takes numbers, text or a list, not {type(value).__name__}")


def _permitted(
    table: Table, grouping: Keyed, totals: object, owner: str | None, *, own: bool
) -> None:
    """Refuse exact totals that the owner's policy does not name, or that it does not mean.

    The policy names totals of whole tables by a declared column. A condition, a join, an
    expression or a value that is left out would make another number of it, and so may a limit
    (:func:`_whole`); many such numbers tell every record. Bins of the column are no such case:
    ⌊a·x⌋ is a function of x, so a total by bins is a sum of totals that the owner has named, and
    tells nothing that they do not.
    """
    if not isinstance(totals, tuple) or any(name not in EXACT for name in totals):
        raise ParameterError(
            f"unprotected lists what is released exactly: {', '.join(EXACT)}",
            hint=Hint("unprotected", ["area-totals"]),
        )
    if not totals:
        return
    permissions, keys = table.policy.table(table.name).unprotected, grouping.query.keys
    column = keys[0].name
    needed = [f"total by {column}" if name == "area-totals" else "total" for name in totals]
    missing = [word for word in needed if word not in permissions]
    if missing or not owner:
        raise PrivacyError(
            f"{' and '.join(missing or needed)} would be released exactly, without any noise; "
            "the data owner has to say so, in the policy and by name",
            hint=f'unprotected = ["{missing[0]}"] under [tables.{table.name}] of the policy'
            if missing
            else Hint("owner", "name of the data owner"),
        )
    bare = not (table.conditions or table.joins or table.keys or table.inner)
    if not bare or not own or not all(_declared(key, grouping.widths) for key in keys):
        raise PrivacyError(
            "exact totals are those of a whole table by its own columns: with a condition, a "
            "join, or values that are left out they would be other numbers than the owner named",
            hint="no where, no join, and null = … for columns that may be NULL",
        )
    if not _whole(grouping.query, areas="area-totals" in totals):
        raise PrivacyError(
            f"rows of {table.name!r} are limited, or belong to units through an owner: which of "
            "them count depends on protected values, and an exact number of those that count "
            "would tell about these",
            hint='a table in which a row is a unit, or "total" under max_rows_per_unit alone',
        )


def _whole(query: Query, *, areas: bool) -> bool:
    r"""Whether the exact numbers follow from how many rows there are (of each unit, and area).

    Counted are the rows of one scan: all of them, where a row is a unit. A limit of n rows for
    each unit keeps :math:`\sum_u \min(n_u, n)` of them, whatever stands in them and whichever
    are chosen; but in which area the chosen rows lie, the other rows and the coins decide too.
    Limits by groups keep what the groups make of a row's protected values, and an owner's table
    decides which rows there are.
    """
    scan, limits = query.relation, query.limits
    if type(scan) is not Scan or scan.table.owner is not None:
        return False
    if scan.table.unit is None:
        return True
    return not areas and limits.groups is None and limits.rows_per_group is None


def _declared(key: Key, widths: Mapping[str, Fraction]) -> bool:
    """Whether a key is the column of its name, or bins of it, and every row has a value of it."""
    itself = isinstance(key.expr, expr.Column) or key.name in widths
    return itself and {c.name for c in key.expr.columns} == {key.name} and covers(key)


def _spelled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as text that is the same in every process."""
    return {
        name: fingerprint(value)
        if hasattr(value, "shape")
        else repr(list(value) if isinstance(value, tuple) else value)
        for name, value in options.items()
    }


def _numbers(options: Mapping[str, Any], regions: int) -> tuple[int, ...]:
    """Public numbers of groups, as given."""
    groups = options.get("groups")
    listed = [groups] if isinstance(groups, int) else list(groups or ())
    if regions > 1 or not listed or any(type(n) is not int or n < 1 for n in listed):
        raise ParameterError(
            "count-of-counts needs the public number of groups, one for each region of at most "
            "one column: read off the data it would not be private",
            hint=Hint("groups", 1000),
        )
    return tuple(listed)


def _check(query: Query, workload: Workload, numbers: Sequence[int]) -> None:
    """Refuse a workload over another domain than that of the policy."""
    keys = query.keys[:-1] if numbers else query.keys
    for key in keys:
        if key.codes is None:
            raise ParameterError(
                f"{key.name!r} has no public values: which values there are would be read off "
                "the data",
                hint="list its values in the policy",
            )
    shape = tuple(len(key.codes or ()) for key in keys)
    if numbers:
        if query.keys[-1].codes is not None or math.prod(shape) != len(numbers):
            raise ParameterError(
                "group names a text column, and groups has one number for each region",
                hint=Hint("group", "household_id").also("groups", 1000),
            )
        shape = (*shape, workload.shape[-1])
    if workload.shape != shape:
        sizes = ", ".join(f"{k.name} {n}" for k, n in zip(keys, shape, strict=False))
        raise ParameterError(
            f"the workload is over a domain of shape {workload.shape}, the columns have {sizes}",
            hint=f"release.Workload.identity({shape[0]})" if len(shape) == 1 else "Workload.kron",
        )


def domain_of(query: Query) -> Domain:
    """Names and values of a publication's cells, in words."""
    (statistic,) = query.statistics
    assert isinstance(statistic, Publish)
    domain = Keyed(query, statistic.bins).domain
    if not statistic.numbers or statistic.workload is None:
        return domain
    sizes = tuple(map(str, range(statistic.workload.shape[-1])))
    return Domain((*domain.names, "size"), (*domain.values, sizes))


def covers(key: Key) -> bool:
    """Whether every row has one of a key's public values."""
    kind = key.expr.type
    return not kind.nullable and kind.kind is not Kind.TEXT and len(key.codes or ()) == kind.size


def _relation(main: Aggregate, counts: Sensitivity, *, exact: bool) -> tuple[Neighbours, int]:
    """Relation of records, and how many of them one unit stands for."""
    if main.neighbours is Neighbours.ADD_REMOVE:
        return Neighbours.ADD_REMOVE, max(counts.l1, 1)
    most = main.relation.m or 1
    # a filter or a join may drop a row
    whole = all(isinstance(node, Scan | Project | LimitRows) for node in main.relation.nodes)
    inside = all(map(covers, main.keys))
    if exact or (main.unit is None and most == 1 and inside and whole):
        return Neighbours.CHANGE_ONE, most
    return Neighbours.ADD_REMOVE, max(counts.l1, 1)


# -- before and after ---------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Proposal:
    """A publication of a curator's table that has not been paid for.

    Attributes
    ----------
    plan
        The mechanism and its expected error.
    cost
        What the ledger would be debited.
    left
        What is left of the budget.
    """

    bill: Bill
    left: str
    _pay: Callable[..., Sequence[Answer]]

    @classmethod
    def of(cls, bill: Bill, left: str, pay: Callable[..., Sequence[Answer]]) -> Proposal:
        """Show a copy of what `pay` will run, arrays and all: changing it changes nothing."""
        return cls(copy.deepcopy(bill), left, pay)

    @property
    def plan(self) -> Plan:
        """The mechanism at its price."""
        plan: Plan = self.bill.parts[0].law.plan
        return plan

    @property
    def cost(self) -> dict[str, str]:
        """Price in every currency defined for it."""
        return self.bill.cost.to_dict()

    @property
    def domain(self) -> Domain:
        """Names and values of the cells."""
        return domain_of(self.bill.lowered.query)

    def publish(
        self, *, nonnegative: bool = False, key: str | None = None, fresh: bool = False
    ) -> Publication:
        """Pay and publish; the same publication again is free."""
        (answer,) = self._pay(key=key, fresh=fresh)
        transcript = answer.parts[0]
        assert isinstance(transcript, Transcript)
        released = [
            (q, np.asarray(y))
            for q, y in zip(transcript.questions, transcript.answers, strict=True)
        ]
        publication = Publication.of(
            self.plan, transcript.retold(self.plan), released, nonnegative=nonnegative
        )
        return replace(
            publication, loss=self.bill.losses[0], domain=self.domain,
            tainted=answer.tainted, cached=answer.cached,
            stored=answer.record(), left=answer.left,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.plan!r}\n  cost      {self.bill.cost}\n  budget    {self.left}"
