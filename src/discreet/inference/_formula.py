"""Formulas: ``y ~ a + np.log(b) + C(c) + a:c``, odd names in double quotes or in backquotes."""

from __future__ import annotations

import ast
import math
import re
from typing import Any, Final
from unicodedata import normalize

from discreet._dataclass import dataclass
from discreet._text import nearest, written
from discreet.errors import ParameterError, QueryError
from discreet.inference._factors import Factor, factor, text_of

_QUOTED: Final = re.compile(r'"(?:[^"]|"")+"|`(?:[^`]|``)+`')
"""A name in double quotes, as in SQL, or in backquotes, as in R; its own quotes stand twice."""
_PLACE: Final = re.compile(r"(?<!\w)_c(\d{1,6})_(?!\w)")
_TEXT: Final = re.compile(rf"{_QUOTED.pattern}|'(?:[^'\\]|\\.)*'|:|{_PLACE.pattern}")
_LARGEST: Final = 2**62
"""An integer as large as this fits no question."""
_PIECE: Final = re.compile(rf"({_QUOTED.pattern})|([~+])")
_NUMBERS: Final = ("integer", "real")
_SHORT: Final = 100
"""Characters of a response that a hint repeats."""


@dataclass(frozen=True)
class Formula:
    """A formula that was read: the response, the terms in order, and whether a line is free."""

    left: Factor
    terms: tuple[tuple[Factor, ...], ...]
    """Factors of each term; two of them make an interaction."""
    intercept: bool

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All factors of the right side, each once."""
        return tuple({f.name: f for term in self.terms for f in term}.values())

    @property
    def columns(self) -> list[str]:
        """All columns, the response's first."""
        names = [c for f in (self.left, *self.factors) for c in f.columns]
        return list(dict.fromkeys(names))


def read_formula(formula: str, table: Any) -> Formula:
    """Read ``y ~ a + np.log(b) + C(c) + a:c``.

    An odd name may stand without quotes if it is a column's: nothing else could be meant.
    """
    sides = _sides(formula) if isinstance(formula, str) else []
    if len(sides) != 2 or len(sides[0]) != 1 or not all(map(all, sides)):
        first = _first(formula, table) if isinstance(formula, str) else None
        raise ParameterError("a regression is written y ~ a + b", hint=example(table, first))
    for place in sorted(_places(normalize("NFKC", formula))):  # as Python reads names
        if place not in table.columns or place not in _places(formula):
            raise no_column(table, place)  # it stands for an odd name here
    try:
        return _read(sides, table)
    except RecursionError:
        first = _first(sides[0][0], table)
        raise ParameterError("the formula is too long", hint=example(table, first)) from None


def _places(formula: str) -> set[str]:
    return {match[0] for match in _PLACE.finditer(formula)}


def _read(sides: list[list[str]], table: Any) -> Formula:
    names: list[str] = []
    response = _first(sides[0][0], table)
    trees = [
        _tree(" + ".join(_with_places(p, table, names) for p in side), table, response)
        for side in sides
    ]
    visitor = _Names(table, names)
    trees = [visitor.visit(tree) for tree in trees]
    right: list[tuple[Factor, ...]] = []
    reader = _Terms(table, tuple(names), right, example(table, response))
    if isinstance(trees[0], ast.BinOp):
        raise ParameterError(
            "the response is one column, or a function of it: np.log(y), I(y / 1000)",
            hint=reader.hint,
        )
    left = reader.factor(trees[0])
    reader.hint = example(table, left.name)
    reader.read(trees[1])
    right = list({frozenset(f.name for f in t): t for t in right}.values())
    if not right:
        raise ParameterError("a regression needs a column to explain with", hint=reader.hint)
    if {*left.columns} & {c for term in right for f in term for c in f.columns}:
        raise ParameterError("a column can stand on one side only", hint=reader.hint)
    return Formula(left, tuple(sorted(right, key=len)), reader.intercept)


class _Names(ast.NodeTransformer):
    """Puts placeholders in the places of columns."""

    def __init__(self, table: Any, names: list[str]) -> None:
        self.table, self.names, self.odd = table, names, len(names)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A function is no column, whatever it is called; Q("…") is a name in quotes."""
        if isinstance(node.func, ast.Name) and node.func.id == "Q" and len(node.args) == 1:
            (inner,) = node.args
            if isinstance(inner, ast.Constant):
                inner = ast.Name(str(inner.value))  # numbers have been found to be short
            return inner if _PLACE.fullmatch(getattr(inner, "id", "")) else self.visit(inner)
        node.args = [self.visit(arg) for arg in node.args]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """One column."""
        if (place := _PLACE.fullmatch(node.id)) and int(place[1]) < self.odd:
            return node
        if node.id not in self.table.columns:
            raise no_column(self.table, node.id)
        self.names.append(node.id)
        return ast.Name(f"_c{len(self.names) - 1}_")


@dataclass
class _Terms:
    """Reads the right side."""

    table: Any
    names: tuple[str, ...]
    terms: list[tuple[Factor, ...]]
    hint: str | None
    """A formula of the response that was written."""
    intercept: bool = True

    def factor(self, node: ast.expr) -> Factor:
        """Read one factor."""
        return factor(node, self.names, self.table, self.hint)

    def read(self, node: ast.expr) -> None:
        """Collect terms of sums; 0, -1 and 1 say whether there is an intercept."""
        match node:
            case ast.BinOp(left, ast.Add(), right):
                self.read(left)
                self.read(right)
            case ast.BinOp(left, ast.Sub(), ast.Constant(int(number))) if number in (0, 1):
                self.read(left)
                self.intercept = number == 0
            case ast.Constant(int(number)) if number in (0, 1):
                self.intercept = number == 1
            case ast.UnaryOp(ast.USub(), ast.Constant(1)):
                self.intercept = False
            case ast.BinOp(left, ast.Mult() | ast.MatMult() as op, right):
                pair = tuple(self._one(side) for side in (left, right))
                if isinstance(op, ast.Mult):
                    self.terms += [(pair[0],), (pair[1],)]
                self.terms.append(pair if pair[0].name != pair[1].name else pair[:1])
            case ast.BinOp(left, op, right):
                power = isinstance(op, ast.Pow | ast.BitXor)
                sums = isinstance(op, ast.Sub)
                own = ast.BinOp(left, ast.Pow() if power else op, right)
                raise ParameterError(
                    "terms are joined by + : and *; arithmetic stands in I(…)",
                    hint=self.hint if sums else f"I({text_of(own, self.names)})",
                )
            case _:
                self.terms.append((self.factor(node),))

    def _one(self, node: ast.expr) -> Factor:
        if isinstance(node, ast.BinOp | ast.Constant):
            raise ParameterError(
                "an interaction is one of two factors, a:b or a*b; arithmetic stands in I(…)",
                hint=self.hint,
            )
        return self.factor(node)


def read_name(name: str, table: Any) -> str:
    """Take a column's name out of its quotes, if it has any that are not its own."""
    odd = isinstance(name, str) and name not in table.columns
    return _unquoted(name) if odd and _QUOTED.fullmatch(name) else name


def no_column(table: Any, name: str) -> QueryError:
    """Refuse a name that no column has."""
    near = nearest(name, table.columns) or next(iter(table.columns), None)
    words = f"table {table.name!r} has no column {name!r}"
    return QueryError(words, hint=None if near is None else written(near))


def example(table: Any, left: str | None = None, *, flag: bool = False) -> str | None:
    """Write a formula of a table's own columns, one that explains a truth value if asked.

    `left` is the response as it was written; without a column of the table it is left out.
    """
    usable = [n for n, c in table.columns.items() if _varies(c)]
    mine = [] if left is None or len(left) > _SHORT else _columns_in(left, table)
    if not mine:
        mine = [n for n in usable if _explained(table.columns[n], flag=flag)][:1]
        left = written(mine[0]) if mine else None
    elif left in table.columns or any(written(n) != n for n in mine):
        left = written(mine[0])  # odd names inside of functions would need quotes
    others = [written(n) for n in usable if n not in mine][:2]
    if left is None or not others:
        return None
    text = f"{left} ~ {' + '.join(others)}"
    return repr(text) if '"' in text else f'"{text}"'


def _columns_in(text: str, table: Any) -> list[str]:
    """Columns that stand in a short text and can be used, the first one first."""
    names = [re.escape(n) for n in sorted(table.columns, key=len, reverse=True)]
    matches = re.findall(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", text[:_SHORT])
    return [n for n in dict.fromkeys(matches) if _varies(table.columns[n])]


def _first(formula: str, table: Any) -> str | None:
    return next(iter(_columns_in(formula, table)), None)


def _varies(column: Any) -> bool:
    """Whether a column that can be used has several values."""
    if column.type == "category":
        return len(column.values) + (column.other is not None) > 1
    return bool(column.type == "boolean" or (column.type in _NUMBERS and column.min < column.max))


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


def _with_places(part: str, table: Any, names: list[str]) -> str:
    """Put placeholders in the places of odd names, which Python cannot read."""

    def place(name: str) -> str:
        names.append(name)
        return f"_c{len(names) - 1}_"

    def quoted(match: re.Match[str]) -> str:
        if match[0][0] == "'":
            return match[0]
        if match[0][0] == "_":
            return place(match[0])  # a column that has the name of a place
        name = _unquoted(match[0])
        if part[: match.start()][-1:].isalnum():
            return match[0]  # the quote belongs to a name that is not quoted: no Python either
        if name not in table.columns:
            raise no_column(table, name)
        return place(name)

    # y ~ 0 + a is a line without an intercept, so a number is no name
    if part in table.columns and not part.isdecimal():
        return place(part)
    return _TEXT.sub(lambda m: quoted(m) if m[0] != ":" else "@", part)


def _tree(text: str, table: Any, response: str | None) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        excerpt = _PLACE.sub("…", text)[:80]
        raise ParameterError(
            f"{excerpt!r} cannot be read as terms of a formula; odd names stand in double quotes",
            hint=example(table, response),
        ) from None
    numbers = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    if not all(_short(v) for v in numbers if isinstance(v, int | float)):
        raise ParameterError("a number in the formula is too large", hint=example(table, response))
    return tree


def _short(value: float) -> bool:
    return abs(value) < _LARGEST if isinstance(value, int) else math.isfinite(value)


def _unquoted(part: str) -> str:
    return part[1:-1].replace(part[0] * 2, part[0])
