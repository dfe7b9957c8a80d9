"""What a formula names: ``y ~ a + b``, a column's name plain, in double quotes or in backquotes."""

from __future__ import annotations

import re
from typing import Any, Final

from discreet._text import nearest, written
from discreet.errors import ParameterError, QueryError

_QUOTED: Final = re.compile(r'"(?:[^"]|"")+"|`(?:[^`]|``)+`')
"""A name in double quotes, as in SQL, or in backquotes, as in R; its own quotes stand twice."""
_PIECE: Final = re.compile(rf"({_QUOTED.pattern})|([~+])")
_NUMBERS: Final = ("integer", "real")


def read_formula(formula: str, table: Any) -> tuple[str, list[str]]:
    """Split ``y ~ a + b`` into columns of a table.

    An odd name may stand without quotes if it is a column's: nothing else could be meant.
    """
    sides = _sides(formula) if isinstance(formula, str) else []
    if len(sides) != 2 or len(sides[0]) != 1:
        raise ParameterError("a regression is written y ~ a + b", hint=example(table))
    left, *names = (_named(part, table) for side in sides for part in side)
    if len(set(names)) != len(names) or left in names:
        raise ParameterError("a column can stand in a regression only once", hint=example(table))
    return left, names


def read_name(name: str, table: Any) -> str:
    """Take a column's name out of its quotes, if it has any that are not its own."""
    odd = isinstance(name, str) and name not in table.columns
    return _unquoted(name) if odd and _QUOTED.fullmatch(name) else name


def no_column(table: Any, name: str) -> QueryError:
    """Refuse a name that no column has."""
    meant = nearest(name, table.columns) or next(iter(table.columns), None)
    words = f"table {table.name!r} has no column {name!r}"
    return QueryError(words, hint=None if meant is None else written(meant))


def example(table: Any, left: str | None = None, *, flag: bool = False) -> str | None:
    """Write a formula of a table's own columns, one that explains a truth value if asked."""
    usable = [n for n, c in table.columns.items() if c.type in (*_NUMBERS, "boolean", "category")]
    sought = [n for n in usable if _explained(table.columns[n], flag=flag)]
    first = left or next(iter(sought), None)
    others = [written(n) for n in usable if n != first][:2]
    if first is None or not others:
        return None
    text = f"{written(first)} ~ {' + '.join(others)}"
    return repr(text) if '"' in text else f'"{text}"'


def _explained(column: Any, *, flag: bool) -> bool:
    if not flag:
        return column.type in _NUMBERS
    if column.type != "category":
        return bool(column.type == "boolean")
    return len(column.values) + (column.other is not None) == 2


def _sides(formula: str) -> list[list[str]]:
    """Split at ~ and + that stand outside of quotes."""
    sides, part = [[""]], 0
    for match in _PIECE.finditer(formula):
        sides[-1][-1] += formula[part : match.end() if match[1] else match.start()]
        part = match.end()
        if match[2] == "~":
            sides.append([""])
        elif match[2] == "+":
            sides[-1].append("")
    sides[-1][-1] += formula[part:]
    return [[piece.strip() for piece in side] for side in sides]


def _named(part: str, table: Any) -> str:
    if _QUOTED.fullmatch(part):
        return _unquoted(part)
    # y ~ 0 + a is a line without an intercept elsewhere, so a number is no name
    if part.isidentifier() or (part in table.columns and not part.isdecimal()):
        return part
    raise ParameterError(
        f"{part!r} is not a column's name; products and functions are not supported here, "
        "and odd names stand in double quotes",
        hint=example(table),
    )


def _unquoted(part: str) -> str:
    return part[1:-1].replace(part[0] * 2, part[0])
