"""Values that expressions of one column can have, alone and together.

Keys such as MONTH(day) and MONTHNAME(day) have 144 combinations, of which twelve are possible:
the others are no rows of an answer. Nor are the days of other years where YEAR(day) = 2024. What
is possible follows from the column's public bounds and from WHERE, so it is public too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Final

from discreet.plan._nodes import Column, Expr
from discreet.plan._types import Code, Kind

_MOST: Final = 10_000
"""Codes of a column that are tried."""
_FEW: Final = 400
_STRIDE: Final = 27
"""Days at which every month is met: what is common is found soon."""

Values = frozenset[tuple[Code, ...]]


@lru_cache(maxsize=512)
def image(
    exprs: tuple[Expr, ...], codes: Sequence[int] | None = None, *, null: bool = True
) -> Values | None:
    """Tuples of values without NULL that expressions can have, and perhaps some more.

    None where that is not known.

    `codes` are those of the column that rows can have, None: all. Where a row can have none
    (`null`), what the expressions make of it counts.
    """
    columns = {c for e in exprs for c in e.columns}
    if len({c.name for c in columns}) != 1 or any(c.of.kind is Kind.TEXT for c in columns):
        return None
    types = [c.of for c in columns]
    if codes is None:
        codes = range(min(t.lo for t in types), max(t.hi for t in types) + 1)
    node = _common(exprs)
    if node is not None:
        inner = image((node,), codes, null=null)
        tried: Iterator[Code] = iter(node.possible) if inner is None else (v for (v,) in inner)
    elif len(codes) <= _MOST:
        node = next(iter(columns))
        tried = chain.from_iterable(codes[i::_STRIDE] for i in range(_STRIDE))
    else:
        return None
    most = prod(len(e.possible) for e in exprs)
    found: set[tuple[Code, ...]] = set()
    for code in chain([None] if null or node.type.nullable else [], tried):
        values = tuple(_value(e, node, code) for e in exprs)
        if None not in values:
            found.add(values)
            if len(found) == most:
                break
    return frozenset(found)


@lru_cache(maxsize=512)
def met(test: Expr, codes: Sequence[int]) -> tuple[tuple[int, ...], bool] | None:
    """Codes of its one column for which a condition is true, and whether it is for NULL.

    None where the condition reads other columns too, or too many codes would be tried.
    """
    columns = {c for c in test.columns if c.of.kind is not Kind.TEXT}
    if len({c.name for c in test.columns}) != 1 or not columns or len(codes) > _MOST:
        return None
    node = next(iter(columns))
    return tuple(c for c in codes if _value(test, node, c) == 1), _value(test, node, None) == 1


def _common(exprs: Sequence[Expr]) -> Expr | None:
    """A part with few values through which alone the expressions read the column."""
    alone = exprs[0] if len(exprs) == 1 else None
    for node in _nodes(exprs[0]):
        few = node.columns and not isinstance(node, Column) and len(node.possible) <= _FEW
        if few and node is not alone and all(_only(e, node) for e in exprs):
            return node
    return None


def _nodes(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in expr.children:
        yield from _nodes(child)


def _only(expr: Expr, node: Expr) -> bool:
    return expr == node or (
        not isinstance(expr, Column) and all(_only(c, node) for c in expr.children)
    )


def _value(expr: Expr, node: Expr, code: Code) -> Code:
    """Value of an expression where a part of it, or its column, is known."""
    if expr == node or isinstance(expr, Column):
        return code
    codes = [_value(c, node, code) for c in expr.children]
    return None if expr.strict and None in codes else expr._apply(*codes)  # noqa: SLF001 - of its own package
