"""GROUP BY with several levels: ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations, product
from typing import Final

from sqlglot import exp

from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import Assembly, Expr, Kind
from discreet.sql._hints import levels_apart
from discreet.sql._text import at_most, only

_MOST: Final = 64
"""Levels of one question."""
_LENGTHS: Final = 1_000

Level = tuple[exp.Expr, ...]


def levels(group: exp.Group) -> list[Level]:
    """What each level groups by; one level without ROLLUP, CUBE or GROUPING SETS."""
    only(group, "expressions", "all", "rollup", "cube", "grouping_sets", hint="GROUP BY sex, age")
    kinds: Sequence[type[exp.Expr]] = (exp.Rollup, exp.Cube, exp.GroupingSets)
    clauses = list(group.expressions)
    for kind, name in zip(kinds, ("rollup", "cube", "grouping_sets"), strict=True):
        for clause in group.args.get(name) or ():
            if clause.expressions:
                clauses.append(clause)
            else:  # GROUP BY a, b WITH ROLLUP
                clauses = [kind(expressions=clauses)]
    return _crossed([_choices(node) for node in clauses])


def check_totals(assembly: Assembly, select: exp.Select) -> None:
    """Refuse totals of what does not add up, with a question for each level."""
    if len(assembly.levels) < 2:
        return
    try:
        assembly.check_levels()
    except UnsupportedQueryError as error:
        apart = levels_apart(select, levels(select.args["group"]))
        raise error.with_hint(apart or error.hint) from None


def _crossed(parts: list[list[Level]]) -> list[Level]:
    count = 1
    for part in parts:
        count *= len(part)
        if count > _MOST:
            raise QueryError(f"a question has at most {_MOST} levels of totals")
    return [tuple(chain.from_iterable(level)) for level in product(*parts)]


def _choices(node: exp.Expr) -> list[Level]:
    """Levels of one item of GROUP BY."""
    if isinstance(node, exp.Rollup):
        parts = [_columns(n) for n in node.expressions]
        return [_joined(parts[:n]) for n in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube):
        parts = [_columns(n) for n in node.expressions]
        if len(parts) > 6:  # 2^6 levels
            raise QueryError(f"a question has at most {_MOST} levels of totals")
        sizes = range(len(parts), -1, -1)
        return [_joined(some) for n in sizes for some in combinations(parts, n)]
    if isinstance(node, exp.GroupingSets):
        return [level for n in node.expressions for level in _choices(n)]
    return [_columns(node)]


def _columns(node: exp.Expr) -> Level:
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node.unnest(),)


def _joined(parts: Sequence[Level]) -> Level:
    return tuple(chain.from_iterable(parts))


def check_length(key: Expr, node: exp.Expr) -> None:
    """Refuse a key that has a row for every length that a text may have."""
    texts = key.columns and all(c.of.kind is Kind.TEXT for c in key.columns)
    if texts and key.type.kind is Kind.NUMBER and len(key.possible) > _LENGTHS:
        raise UnsupportedQueryError(
            f"{node.sql()} may be any number up to {key.type.hi}, and each would be a row: say "
            "which is the largest that matters, all above it are counted with it",
            hint=at_most(node.sql(), 100),
        )


def each_place(items: Sequence[exp.Expr], count: int) -> list[exp.Expr]:
    """Write ORDER BY ALL as the places of all outputs."""
    if len(items) != 1 or items[0].this != exp.column("ALL"):
        return list(items)
    copies = [items[0].copy() for _ in range(count)]
    for place, item in enumerate(copies, 1):
        item.set("this", exp.Literal.number(place))
    return copies
