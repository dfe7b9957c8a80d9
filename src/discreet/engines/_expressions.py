# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""Row expressions to SQL.

A node that uses an operand more than once binds it to a name first, in a
subquery of its own, so that the text grows linearly with the expression
however it is nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from discreet.engines._dialect import Dialect
from discreet.engines._ingest import WORD, floor_div
from discreet.plan import Kind, Type
from discreet.plan import expr as ex

_DAY = Fraction(86_400)
_HOUR = Fraction(3_600)
_PARTS = {"weekday": "isodow"}


@dataclass(slots=True)
class Renderer:
    """Renders expressions over one relation's columns (name to identifier)."""

    dialect: Dialect
    columns: Mapping[str, str]
    names: Iterator[str]
    bindings: list[tuple[str, str]] = field(default_factory=list)
    _known: dict[ex.Expr, str] = field(default_factory=dict)

    def over(self, body: str) -> str:
        """Select every bound operand, and all columns, from `body`."""
        for name, sql in self.bindings:
            body = f"SELECT *, {sql} AS {name} FROM ({body}) AS s{self.dialect.barrier}"
        return body

    def bind(self, node: ex.Expr) -> str:
        """Name of a node's value, which may then be written more than once."""
        if isinstance(node, ex.Column | ex.Constant):
            return self.value(node)
        if node not in self._known:
            sql = self.value(node)
            self._known[node] = next(self.names)
            self.bindings.append((self._known[node], sql))
        return self._known[node]

    def truth(self, node: ex.Expr) -> str:
        """Condition as a truth value of the engine."""
        match node:
            case ex.Compare(op=op, left=left, right=right):
                f, g = node.factors
                return f"({self._times(f, left)} {op} {self._times(g, right)})"
            case ex.OneOf(arg=arg, codes=codes):
                return member(self.dialect, self.value(arg), codes)
            case ex.Logic(op=op, args=args):
                if not args:
                    return "TRUE" if op == "and" else "FALSE"
                return "(" + f" {op.upper()} ".join(self.truth(a) for a in args) + ")"
            case ex.Not(arg=arg):
                return f"(NOT {self.truth(arg)})"
            case ex.IsNull(arg=arg):
                return f"({self.value(arg)} IS NULL)"
        return f"({self.value(node)} = 1)"

    def value(self, node: ex.Expr) -> str:
        """Code of an expression: a 64-bit integer, a text, or NULL."""
        match node:
            case ex.Column(name=name):
                return self.columns[name]
            case ex.Constant(code=code):
                return self._constant(code, node.type)
            case ex.Compare() | ex.OneOf() | ex.Logic() | ex.Not() | ex.IsNull():
                return self.dialect.bit(self.truth(node))
            case ex.Case(branches=branches, default=default):
                if not branches:
                    return self.value(default)
                whens = " ".join(f"WHEN {self.truth(c)} THEN {self.value(v)}" for c, v in branches)
                return f"CASE {whens} ELSE {self.value(default)} END"
            case ex.Coalesce(args=args):
                return "COALESCE(" + ", ".join(self.value(a) for a in args) + ")"
        return self._number(node)

    def _number(self, node: ex.Expr) -> str:
        match node:
            case ex.Arithmetic():
                return self._arithmetic(node)
            case ex.Divide():
                return self._divide(node)
            case ex.Rescale():
                return self._rescale(node)
            case ex.AsNumber(arg=arg):
                return self.value(arg)
            case ex.Square(arg=arg):
                x = self.bind(arg)
                return f"({x} * {x})"
            case ex.Abs(arg=arg):
                return self.dialect.absolute(self.value(arg))
            case ex.AsNumber(arg=arg):
                return self.value(arg)
            case ex.Square(arg=arg):
                x = self.bind(arg)
                return f"({x} * {x})"
            case ex.Clamp():
                return self._clamp(node)
            case ex.DatePart():
                return self._date_part(node)
            case ex.Bucket():
                return self._bucket(node)
        raise AssertionError(node)

    def _constant(self, code: int | None, kind: Type) -> str:
        if code is None:
            return f"CAST(NULL AS {'VARCHAR' if kind.kind is Kind.TEXT else 'BIGINT'})"
        return self.dialect.integer(code)

    def _times(self, factor: int, node: ex.Expr) -> str:
        value = self.value(node)
        return value if factor == 1 else f"({value} * {self.dialect.integer(factor)})"

    def _arithmetic(self, node: ex.Arithmetic) -> str:
        if node.op == "*":
            return f"({self.value(node.left)} * {self.value(node.right)})"
        f, g = node.factors
        return f"({self._times(f, node.left)} {node.op} {self._times(g, node.right)})"

    def _divide(self, node: ex.Divide) -> str:
        """Round half up: floor((2A + B) / 2B), made non-negative by adding the least quotient.

        The divisor B may have either sign; A/B is the same for (−A)/(−B), and a
        non-negative quotient is cut off downwards whatever the signs.
        """
        f, g = node.factors
        shift = max(0, -node.type.lo)
        a, b = node.left.type, node.right.type
        most = 2 * f * _size(a) + g * (1 + 2 * shift) * _size(b)
        wide = max(most, 2 * g * _size(b)) >= WORD
        cast = f"AS {self.dialect.wide}" if wide else "AS BIGINT"
        divisor = f"CAST({self.bind(node.right)} {cast})"
        top = (
            f"(CAST({self.value(node.left)} {cast}) * {2 * f} + {divisor} * {g * (1 + 2 * shift)})"
        )
        quotient = self.dialect.divide(top, f"(NULLIF({divisor}, 0) * {2 * g})", wide=wide)
        return f"(CAST({quotient} AS BIGINT) - {self.dialect.integer(shift)})"

    def _rescale(self, node: ex.Rescale) -> str:
        f, g = node.ratio.numerator, node.ratio.denominator
        if g == 1:
            return self._times(f, node.arg)
        t = node.arg.type
        if node.mode == "floor":
            return floor_div(self.dialect, self._times(f, node.arg), g, (t.lo * f, t.hi * f))
        twice = f"({self._times(2 * f, node.arg)} + {self.dialect.integer(g)})"
        bounds = (2 * f * t.lo + g, 2 * f * t.hi + g)
        return floor_div(self.dialect, twice, 2 * g, bounds)

    def _clamp(self, node: ex.Clamp) -> str:
        t = node.arg.type
        whens = [("<", node.lo)] if node.lo > t.lo else []
        whens += [(">", node.hi)] if node.hi < t.hi else []
        if not whens:
            return self.value(node.arg)
        x = self.bind(node.arg)
        cases = " ".join(
            f"WHEN {x} {op} {self.dialect.integer(end)} THEN {self.dialect.integer(end)}"
            for op, end in whens
        )
        return f"CASE {cases} ELSE {x} END"

    def _ticks(self, node: ex.DatePart, unit: Fraction) -> str:
        """Whole units (days or hours) since the epoch."""
        t = node.arg.type
        ratio = t.step / unit
        f, g = ratio.numerator, ratio.denominator
        return floor_div(self.dialect, self._times(f, node.arg), g, (t.lo * f, t.hi * f))

    def _date_part(self, node: ex.DatePart) -> str:
        if node.part == "hour":
            hours = self._ticks(node, _HOUR)
            return f"(({hours} % 24 + 24) % 24)"
        date = node.arg.type.kind is Kind.DATE
        days = self.value(node.arg) if date else self._ticks(node, _DAY)
        part = _PARTS.get(node.part, node.part)
        return f"CAST(EXTRACT({part} FROM {self.dialect.day(days)}) AS BIGINT)"

    def _bucket(self, node: ex.Bucket) -> str:
        x, edges = self.bind(node.arg), node.edges
        integer = self.dialect.integer
        widths = {b - a for a, b in pairwise(edges)}
        if len(widths) != 1:
            return f"CASE WHEN {x} IS NOT NULL THEN {self._search(x, edges, 0)} END"
        inside = self.dialect.divide(f"({x} - {integer(edges[0])})", integer(widths.pop()))
        return (
            f"CASE WHEN {x} < {integer(edges[0])} THEN {integer(0)} "
            f"WHEN {x} >= {integer(edges[-1])} THEN {integer(len(edges))} ELSE {inside} + 1 END"
        )

    def _search(self, x: str, edges: tuple[int, ...], below: int) -> str:
        """Binary search as nested cases: `below` edges are known to lie at or under x."""
        if not edges:
            return self.dialect.integer(below)
        middle = len(edges) // 2
        lower = self._search(x, edges[:middle], below)
        upper = self._search(x, edges[middle + 1 :], below + middle + 1)
        edge = self.dialect.integer(edges[middle])
        return f"CASE WHEN {x} < {edge} THEN {lower} ELSE {upper} END"


def _size(t: Type) -> int:
    return max(abs(t.lo), abs(t.hi))


def member(dialect: Dialect, x: str, codes: tuple[int | str, ...]) -> str:
    """Membership of an operand, written once, in a public list; NULL for NULL."""
    if not codes:
        return f"({x} IS NULL AND CAST(NULL AS BOOLEAN))"
    whole = sorted(c for c in codes if isinstance(c, int))
    if len(whole) == len(codes) and whole[-1] - whole[0] + 1 == len(set(whole)):
        return f"({x} BETWEEN {dialect.integer(whole[0])} AND {dialect.integer(whole[-1])})"
    listed = ", ".join(dialect.text(c) if isinstance(c, str) else str(c) for c in codes)
    return f"({x} IN ({listed}))"
