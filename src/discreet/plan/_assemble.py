"""Putting a question together: statistics deduplicated, keys named, limits set.

Both front ends call this, so that the same question has the same hash whichever
way it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, product
from typing import Final

from discreet._dataclass import dataclass, field, replace
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan._build import Operand, Word, as_number, quote, typed
from discreet.plan._expr import Expr, columns_of, plain_column
from discreet.plan._facts import conditions
from discreet.plan._query import (
    Apply,
    KeyValue,
    Number,
    OutputColumn,
    OutputExpr,
    Query,
    StatisticValue,
    Text,
    limits_of,
    weight_of,
    windows_of,
    with_null_groups,
)
from discreet.plan._relation import Key, Limits, base, combinations
from discreet.plan._scope import Scope
from discreet.plan._spans import Values
from discreet.plan._statistic import Statistic
from discreet.plan._statistics import Count
from discreet.plan._types import Code, Kind
from discreet.plan._weight import MOST, weighed

MAX_CELLS: Final = 1_000_000
"""Public groups of one question, all keys together."""

MAX_STATISTICS: Final = 200


@dataclass
class Assembly:
    """A question under construction."""

    scope: Scope
    keys: list[Key] = field(default_factory=list)
    statistics: list[Statistic] = field(default_factory=list)
    outputs: list[OutputColumn] = field(default_factory=list)
    levels: dict[tuple[str, ...], None] = field(default_factory=dict)
    """Keys of each level of totals; one level holds them all."""
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        self.weight = self.scope.relation.weight

    def _weigh(self, more: Iterable[int]) -> None:
        self.weight = weighed(self.weight + sum(more))

    def group(self, name: str, expr: Expr, spelling: Callable[[], str] | None = None) -> KeyValue:
        """Group by an expression; grouping twice by the same one is grouping once.

        Hints name it by its `spelling` in the question.
        """
        for key in self.keys:
            if key.expr == expr:
                return KeyValue(key.name)
        if any(key.name.casefold() == name.casefold() for key in self.keys):
            raise QueryError(f"two keys are called {quote(name)}", hint=f"… AS {name}_2")
        self._weigh([expr.weight])
        self.keys.append(self.scope.key(name, expr, spelling))
        cells = combinations([k for k in self.keys if k.codes is not None]) or 0
        if cells > MAX_CELLS:
            raise UnsupportedQueryError(
                f"the keys have {cells} combinations, at most {MAX_CELLS} are possible",
                hint="group by fewer or coarser keys, or narrow them with WHERE … IN",
            )
        return KeyValue(name)

    def measure(self, statistic: Statistic) -> StatisticValue:
        """Ask for a statistic; equal ones are asked once."""
        if statistic not in self.statistics:
            if len(self.statistics) == MAX_STATISTICS:
                raise QueryError(f"a question asks for at most {MAX_STATISTICS} statistics")
            self._weigh([e.weight for e in statistic.exprs])
            self.statistics.append(statistic)
        return StatisticValue(self.statistics.index(statistic))

    def show(self, name: str, expr: OutputExpr) -> None:
        """Add an output column."""
        self._weigh([weight_of(expr)])
        self.outputs.append(OutputColumn(name, expr))

    def limits(self, **request: int | None) -> Limits:
        """Contribution limits: the policy's, or lower ones that the question asks for.

        `request` may name rows, groups and rows_per_group. A question may lower
        the policy's limits and never raise them. Where a row is a unit nothing
        could enforce a lower limit, so none is set.
        """
        limits = limits_of(self.scope.relation, grouped=bool(self.keys))
        if self.scope.unit is None:
            return limits
        if not self.keys:
            # all rows are one group, so a limit per group is a limit on rows
            rows = [
                n for n in (request.get("rows"), request.get("rows_per_group")) if n is not None
            ]
            request = {"rows": min(rows)} if rows else {}
        lower = {
            name: min(n for n in (getattr(limits, name), value) if n is not None)
            for name, value in request.items()
            if value is not None
        }
        return replace(limits, **lower)

    def finish(
        self,
        *,
        having: OutputExpr | None = None,
        order: tuple[tuple[OutputExpr, bool], ...] = (),
        limit: int | None = None,
        other: str | None = None,
        qualify: OutputExpr | None = None,
        **request: int | None,
    ) -> Query:
        """Close the question, under the limits that :meth:`limits` gives."""
        if other is not None and all(key.codes is not None for key in self.keys):
            raise QueryError(
                "a label for other keys needs a key whose values the policy does not list",
                hint="GROUP BY city",
            )
        after = [*(t for t in (having, qualify) if t is not None), *(out for out, _ in order)]
        self._weigh(map(weight_of, after))
        levels = tuple(self.levels)
        if len(levels) == 1 and set(levels[0]) == {key.name for key in self.keys}:
            levels = ()
        if levels:
            self.check_levels()
        elif (test := self._possible()) is not None:
            having = test if having is None else Apply("and", (test, having))
        vague = tuple(k.name for k in self.keys if self.scope.vague(k.expr))
        exprs = [*(o.expr for o in self.outputs), *(out for out, _ in order)]
        _check_rows(vague, [*exprs, *(t for t in (having, qualify) if t is not None)])
        query = Query(
            self.scope.relation,
            tuple(self.keys),
            tuple(self.statistics),
            tuple(self.outputs),
            self.limits(**request),
            base(self.scope.relation).table.neighbours,
            having,
            order,
            limit,
            other,
            levels,
            qualify,
            vague,
        )
        # totals are sums over the finest level: rows without a key are a group of it
        return with_null_groups(query) if levels else query

    def _possible(self) -> OutputExpr | None:
        """Test for the combinations that keys of one column, or in one condition, can have."""
        tests: list[OutputExpr] = []
        for keys, values in chain(self._of_one_column(), self._of_one_condition()):
            if values is None or any(_constant(k, k.expr.type.lo) is None for k in keys):
                continue
            listed = {
                v for v in values if all(c in (k.codes or ()) for k, c in zip(keys, v, strict=True))
            }
            if 0 < len(listed) <= _LISTED and len(listed) < (combinations(keys) or 0):
                test = _among(keys, listed)
                if sum(map(weight_of, tests)) + weight_of(test) < MOST * 3 // 4:
                    tests.append(test)
        return tests[0] if len(tests) == 1 else Apply("and", tuple(tests)) if tests else None

    def _of_one_column(self) -> Iterator[tuple[list[Key], Values | None]]:
        names = dict.fromkeys(c.name for k in self.keys for c in k.expr.columns)
        for name in names:
            keys = [k for k in self.keys if {c.name for c in k.expr.columns} == {name}]
            if len(keys) > 1:
                yield keys, self.scope.together([k.expr for k in keys])

    def _of_one_condition(self) -> Iterator[tuple[list[Key], Values | None]]:
        """Keys that are all columns of a condition, with the values that meet it."""
        own = {c.name: k for k in self.keys if (c := plain_column(k.expr)) is not None}
        for test in conditions(self.scope.relation)[0]:
            names = [n for n in own if n in columns_of(test)]
            keys = [own[n] for n in names]
            if len(names) < 2 or set(names) != columns_of(test):
                continue
            if 0 < (combinations(keys) or 0) * test.weight <= _MOST_TRIALS:
                rows = product(*(k.codes or () for k in keys))
                matches = (v for v in rows if test.evaluate(dict(zip(names, v, strict=True))) == 1)
                yield keys, frozenset(matches)

    def check_levels(self) -> None:
        """Refuse totals of what does not add up."""
        for key in self.keys:
            if key.codes is None:
                raise UnsupportedQueryError(
                    f"totals over {quote(key.name)} would leave out the values that are not "
                    "selected",
                    hint=f"GROUP BY {key.name}",
                )
        for statistic in self.statistics:
            if not statistic.adds_up:
                raise UnsupportedQueryError(
                    f"{statistic} of several groups together does not follow from that of "
                    "each group",
                    hint="ask for each level on its own",
                )


def _check_rows(vague: Sequence[str], outputs: Sequence[OutputExpr]) -> None:
    """Refuse numbers over the rows of an answer that has rows which WHERE excludes."""
    ops = {w.op for out in outputs for w in windows_of(out)} - {"SUM"}
    if vague and ops:
        raise UnsupportedQueryError(
            f"WHERE excludes values of {quote(vague[0])} that cannot be told apart one by one, so "
            f"the answer lists them too, and {min(ops)} over its rows would count them"
        )


_LISTED: Final = 2_000
"""Combinations that one test names."""
_MOST_TRIALS: Final = 200_000
"""Parts of a condition that are tried: once for each combination of its keys."""


def _constant(key: Key, code: Code) -> Number | Text | None:
    """A value of a key as a constant of the answer; dates and truth values have none."""
    t = key.expr.type
    value = t.value(code) if t.kind in (Kind.NUMBER, Kind.CATEGORY) else None
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(Fraction(value))
    return None


def _among(keys: Sequence[Key], values: Iterable[tuple[Code, ...]]) -> OutputExpr:
    """Test whether the keys have one of some combinations, key after key."""
    key, rest = keys[0], keys[1:]
    rests: dict[Code, list[tuple[Code, ...]]] = {}
    for value in sorted(values):
        rests.setdefault(value[0], []).append(value[1:])
    tests: list[OutputExpr] = []
    for code, others in rests.items():  # none is NULL
        constant = _constant(key, code)
        assert constant is not None
        own: OutputExpr = Apply("=", (KeyValue(key.name), constant))
        tests.append(Apply("and", (own, _among(rest, others))) if rest else own)
    return tests[0] if len(tests) == 1 else Apply("or", tuple(tests))


def statistic(kind: type[Statistic], operand: Operand | None, **parameters: object) -> Statistic:
    """Make a statistic of an operand in its one canonical form."""
    if operand is None or (kind is Count and isinstance(operand, Word)):
        return kind.of(None, **parameters)
    expr = typed(operand, kind.word.upper())
    numeric = kind.suits <= {Kind.NUMBER, Kind.BOOLEAN}
    if numeric and expr.type.kind is not Kind.BOOLEAN:
        expr = as_number(expr, kind.word.upper())
    return kind.of(expr, **parameters)
