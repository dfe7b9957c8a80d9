"""Columns of a design: what terms of a formula become, with their public bounds.

Each column is one expression of SQL, measured from the middle of its range. Bounds of functions
and products are those of the curator's own operators: exact, and off the policy alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet._exact import show
from discreet._text import literal, quoted
from discreet.errors import ParameterError, QueryError
from discreet.inference._factors import Factor, test
from discreet.inference._formula import Formula, example, no_column, read_formula
from discreet.inference._laws import Floats
from discreet.plan import Expr
from discreet.policy import Policy
from discreet.sql import condition, parse


@dataclass(frozen=True)
class Term:
    """A column of the design: its name, SQL, and where its scaled values lie."""

    name: str
    sql: str
    centre: float = 0.0
    half: float = 1.0
    source: str | None = None
    value: object = None
    """For an indicator: the column and the value that it stands for."""
    listed: tuple[object, ...] = ()
    """All values of that column, where they are listed."""
    parts: tuple[tuple[Factor, object], ...] = ()
    """What it is a product of, for functions and interactions: factors, and values of flags."""


def design_column(term: Term, data: Mapping[str, Any]) -> Floats:
    """Values of one column of the design."""
    if term.name == "Intercept":
        return np.asarray(1.0)
    if term.parts:
        # cells are counted by some flags, whose columns are not there
        factors = [
            np.asarray(data[f.name] if f.name in data else f.of(data)) for f, _ in term.parts
        ]
        each = [
            np.asarray(v if level is None else v == level, dtype=np.float64)
            for v, (_, level) in zip(factors, term.parts, strict=True)
        ]
        return np.asarray(math.prod(each[1:], start=each[0]), dtype=np.float64)
    source = term.source or term.name
    if source not in data:
        raise ParameterError(f"predictions need the column {source!r}")
    values = np.asarray(data[source])
    if term.value is not None:
        return np.asarray(values == term.value, dtype=np.float64)
    return np.asarray(values, dtype=np.float64)


def check_listed(terms: Sequence[Term], data: Mapping[str, Any]) -> None:
    """Refuse values that no row of the fit can have: they would count as the reference."""
    listed = {str(t.source): t.listed for t in terms if t.listed}
    listed |= {f.columns[0]: f.listed for t in terms for f, _ in t.parts if f.listed}
    for name, values in listed.items():
        own = np.asarray(data[name]).ravel().tolist() if name in data else []
        odd = next((v for v in own if v not in values), None)
        if odd is not None:
            some = ", ".join(map(str, values[:8]))
            raise ParameterError(f"{name} has no value {odd!r} in this fit", hint=f"one of {some}")


def terms_of(table: Any, name: str) -> list[Term]:
    """Columns of the design that a column of the table becomes."""
    column = table.columns.get(name)
    if column is None:
        raise no_column(table, name)
    sql = quoted(name)
    if column.type in ("integer", "real"):
        low, high = float(column.min), float(column.max)
        step = 1.0 if column.type == "integer" else float(column.step)
        centre = low + step * ((high - low) / step // 2)
        half = max(high - centre, centre - low, step)
        return [Term(name, f"({sql} - ({centre!r}))", centre, half, name)]
    if column.type == "boolean":
        return [Term(name, f"(CASE WHEN {sql} THEN 1 ELSE 0 END)", 0.0, 1.0, name, value=True)]
    if column.type == "category":
        listed = [*column.values, *([] if column.other is None else [column.other])]
        return [
            Term(f"{name}[{v}]", f"(CASE WHEN {sql} = {literal(v)} THEN 1 ELSE 0 END)",
                 source=name, value=v, listed=tuple(listed))
            for v in listed[1:]
        ]  # fmt: skip
    raise ParameterError(
        f"{name!r} is {column.type}; a regression takes numbers, truth values and listed categories"
    )


@dataclass(frozen=True)
class Bounds:
    """Where values of expressions lie, by the policy."""

    policy: Policy
    table: str
    where: str
    response: str | None = None
    """What hints explain."""

    def read(self, sql: str, text: str) -> Expr:
        """The expression that SQL means."""
        question = f"SELECT SUM({sql}) AS s FROM {quoted(self.table)} WHERE {self.where}"  # noqa: S608 - a type is read off it, and nothing runs
        try:
            expr = parse(question, self.policy).query.statistics[0].expr
        except QueryError as error:
            raise ParameterError(f"{text}: {error.message}", hint=self._hint) from None
        assert expr is not None
        return expr

    def of(self, sql: str, text: str) -> tuple[float, float, str]:
        """Middle and half of a range, and the middle in SQL, on the grid of the values."""
        t = self.read(sql, text).type
        code = (t.lo + t.hi) // 2
        half = max(t.hi - code, code - t.lo, 1) * t.step
        centre = code * t.step if _decimal(t.step) else Fraction(round(code * t.step))
        return float(centre), float(half), show(centre)

    def check(self, formula: Formula) -> Bounds:
        """Refuse what is no number or flag, and terms that nothing could tell apart.

        Hints of what is given name the formula's own response.
        """
        if formula.left.plain is None:
            self._meaning(formula.left)
        bounds = replace(self, response=formula.left.name)
        bounds._check_terms(formula)  # noqa: SLF001 - its own
        return bounds

    def _check_terms(self, formula: Formula) -> None:
        meanings: list[Any] = []
        places: dict[str, int] = {}
        # functions first: rows are those where they have a value, so what is wrong is theirs
        for own in sorted(formula.factors, key=lambda f: f.plain is not None):
            meaning = self._meaning(own)
            if self._single(own, meaning):
                raise self._refused(f"{own.name} has one value by the policy: it explains nothing")
            if meaning not in meanings:
                meanings.append(meaning)
            places[own.name] = meanings.index(meaning)
        names: dict[tuple[int, ...], str] = {}
        for term in formula.terms:
            name = ":".join(f.name for f in term)
            twin = names.setdefault(tuple(sorted(places[f.name] for f in term)), name)
            if twin != name:
                raise self._refused(f"{name} is the same as {twin}: leave one of them out")

    def _meaning(self, own: Factor) -> Any:
        """What a factor means: its expression, or its values and their column."""
        if own.kind == "number":
            return self.read(own.sql, own.name)
        # values may be the numbers 0 and 1, which equal truth values
        if own.kind == "category" and not isinstance(own.listed[0], bool):
            return (own.sql, own.listed)[: len(own.listed)]
        return self.read(_case([(own, True)]), own.name)

    def _single(self, own: Factor, meaning: Any) -> bool:
        if isinstance(meaning, tuple):
            return len(meaning) < 2
        flag = own.kind == "flag" and own.plain is None
        sides = (own.sql, f"NOT ({own.sql})") if flag else ()
        return bool(meaning.type.lo == meaning.type.hi or any(map(self._never, sides)))

    def narrowed(self, table: Any, columns: Sequence[str]) -> Any:
        """The table with those values of categories alone that rows can have."""
        changed = {}
        for own in (c for c in map(table.columns.get, columns) if c.type == "category"):
            tests = {v: f"({self.where}) AND {quoted(own.name)} = {literal(v)}"
                     for v in (*own.values, own.other) if v is not None}  # fmt: skip
            never = {v for v, test_ in tests.items() if self._never(test_)}
            values = tuple(v for v in own.values if v not in never)
            if never and values:
                other = None if own.other in never else own.other
                changed[own.name] = replace(own, values=values, other=other)
        return replace(table, columns={**table.columns, **changed}) if changed else table

    def _never(self, test_: str) -> bool:
        question = f"SELECT COUNT(*) AS n FROM {quoted(self.table)} WHERE {test_}"  # noqa: S608 - as above
        return parse(question, self.policy).query.is_empty

    def _refused(self, words: str) -> ParameterError:
        return ParameterError(words, hint=self._hint)

    @property
    def _hint(self) -> str | None:
        return example(self.policy.table(self.table), self.response)


def narrowed(policy: Policy, table: Any, formula: str, where: str | None) -> tuple[Any, Formula]:
    """Read a formula; a category has those values alone that rows under a condition can have."""
    read = read_formula(formula, table)
    if where is None:
        return table, read
    plain = condition(where, "where")
    own = Bounds(policy, table.name, plain).narrowed(table, read.columns)
    return own, read_formula(formula, own)


def _case(parts: Sequence[tuple[Factor, Any]], then: str = "1") -> str:
    tests = " AND ".join(f"({test(f, v)})" for f, v in parts)
    return f"CASE WHEN {tests} THEN {then} ELSE 0 END"


def _decimal(step: Fraction) -> bool:
    """Whether multiples can be written out."""
    rest = step.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def where_of(formula: Formula, where: str | None) -> str:
    """Rows in which all columns, and functions of them, have a value."""
    factors = (formula.left, *formula.factors)
    functions = [f.sql for f in factors if f.kind == "number" and f.plain is None]
    tests = where_known(formula.columns, where)
    return " AND ".join([tests, *(f"({sql}) IS NOT NULL" for sql in functions)])


def columns_of(table: Any, own: Factor, bounds: Bounds, *, full: bool = False) -> list[Term]:
    """Columns that a term of one factor becomes; `full` has one for the first value as well."""
    if own.plain is not None and not full:
        return terms_of(table, own.plain)
    if own.kind == "number":
        return [_number(own.name, own.sql, ((own, None),), bounds)]
    levels = _levels(own, full=full)
    return [_flag(_level_name(own, v, full=full), ((own, v),)) for v in levels]


def design_of(table: Any, formula: Formula, bounds: Bounds) -> list[Term]:
    """All columns but the intercept.

    Where nothing else spans them, all values of a category have a column: in the first main
    term without an intercept, and in slopes of a number that does not stand alone.
    """
    columns: list[Term] = []
    alone = {term[0].name for term in formula.terms if len(term) == 1}
    free = not formula.intercept
    for term in formula.terms:
        if len(term) == 1:
            full = free and term[0].kind != "number"
            columns += columns_of(table, term[0], bounds, full=full)
            free = free and not full
        else:
            columns += _interaction(term, alone, bounds)
    return columns


def _interaction(term: Sequence[Factor], alone: set[str], bounds: Bounds) -> Iterator[Term]:
    a, b = term
    if a.kind == b.kind == "number":
        yield _number(
            f"{a.name}:{b.name}", f"({a.sql}) * ({b.sql})", ((a, None), (b, None)), bounds
        )
        return
    if "number" not in (a.kind, b.kind) and not {a.name, b.name} <= alone:
        raise ParameterError(
            f"{a.name}:{b.name}: an interaction of categories stands beside both of them",
            hint=f"{a.name}*{b.name}",
        )
    sides = [
        [None] if f.kind == "number" else _levels(f, full=other.name not in alone)
        for f, other in ((a, b), (b, a))
    ]
    for one in sides[0]:
        for two in sides[1]:
            parts = ((a, one), (b, two))
            name = ":".join(f.name if v is None else _level_name(f, v, t=True) for f, v in parts)
            if one is not None and two is not None:
                yield _flag(name, parts)
                continue
            number, flag = (a, (b, two)) if one is None else (b, (a, one))
            yield _number(name, _case([flag], number.sql), parts, bounds)


def _levels(own: Factor, *, full: bool) -> tuple[Any, ...]:
    listed = own.listed or (False, True)
    return listed if full else listed[1:]


def _level_name(own: Factor, value: Any, *, full: bool = False, t: bool = False) -> str:
    """Print a value of a category; columns alone have had their own way."""
    if own.plain is not None and not t:
        return f"{own.name}[{value}]"
    return f"{own.name}[{'' if full else 'T.'}{value}]"


def _number(name: str, sql: str, parts: tuple[tuple[Factor, object], ...], bounds: Bounds) -> Term:
    centre, half, middle = bounds.of(sql, name)
    return Term(name, f"({sql} - ({middle}))", centre, half, parts=parts)


def _flag(name: str, parts: tuple[tuple[Factor, Any], ...]) -> Term:
    # values of one factor exclude each other; no column has such a name
    source = f"\x00{parts[0][0].name if len(parts) == 1 else name}"
    return Term(name, f"({_case(parts)})", source=source, value=parts[0][1], parts=parts)


def where_known(columns: Sequence[str], where: str | None) -> str:
    """Rows in which no column is NULL, and the caller's own condition."""
    tests = [f"{quoted(c)} IS NOT NULL" for c in columns]
    own = [] if not where else [f"({condition(where, 'where')})"]
    return " AND ".join([*own, *tests])
