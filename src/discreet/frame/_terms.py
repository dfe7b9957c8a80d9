# ruff: noqa: A001 - sum, min and max are the names of the statistics
"""Terms of the fluent API: columns, conditions and statistics, as plain values.

A term is a piece of a question that knows no table yet. Text inside is SQL and
is read by ``sql`` when the question is complete, so that both ways of asking
mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Given: TypeAlias = "Term | str | int | float | bool | object"
"""What may stand for a term: text is SQL where an expression is expected."""


@dataclass(frozen=True, eq=False)
class Term:
    """A piece of a question; combines with ``+ - * / < <= == != >= > & | ~``."""

    op: str
    args: tuple[object, ...]

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"

    def _with(self, op: str, other: object) -> Term:
        return Term(op, (self, value(other)))

    def __add__(self, other: object) -> Term:
        return self._with("+", other)

    def __radd__(self, other: object) -> Term:
        return value(other)._with("+", self)

    def __sub__(self, other: object) -> Term:
        return self._with("-", other)

    def __rsub__(self, other: object) -> Term:
        return value(other)._with("-", self)

    def __mul__(self, other: object) -> Term:
        return self._with("*", other)

    def __rmul__(self, other: object) -> Term:
        return value(other)._with("*", self)

    def __truediv__(self, other: object) -> Term:
        return self._with("/", other)

    def __rtruediv__(self, other: object) -> Term:
        return value(other)._with("/", self)

    def __neg__(self) -> Term:
        return Term("neg", (self,))

    def __lt__(self, other: object) -> Term:
        return self._with("<", other)

    def __le__(self, other: object) -> Term:
        return self._with("<=", other)

    def __gt__(self, other: object) -> Term:
        return self._with(">", other)

    def __ge__(self, other: object) -> Term:
        return self._with(">=", other)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]  # a condition, as in pandas
        return self._with("=", other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]  # likewise
        return self._with("<>", other)

    __hash__ = object.__hash__

    def __and__(self, other: object) -> Term:
        return self._with("and", other)

    def __or__(self, other: object) -> Term:
        return self._with("or", other)

    def __invert__(self) -> Term:
        return Term("not", (self,))

    def __bool__(self) -> bool:
        raise TypeError("a term has no truth value yet: combine conditions with & | ~")

    def is_in(self, *values: object) -> Term:
        """Test membership in a list of constants."""
        return Term("in", (self, *map(value, values)))

    def is_null(self) -> Term:
        """Test for NULL."""
        return Term("is null", (self,))

    def between(self, low: object, high: object) -> Term:
        """Test ``low <= x <= high``."""
        return (self >= low) & (self <= high)

    def round(self, digits: int = 0) -> Term:
        """Round to decimal digits."""
        return Term("call", ("ROUND", self, value(digits)))


def value(given: object) -> Term:
    """Take a constant as a term; a term stays itself."""
    return given if isinstance(given, Term) else Term("value", (given,))


def sql(given: object) -> Term:
    """Take text as an SQL expression; a term stays itself."""
    return given if isinstance(given, Term) else Term("sql", (given,))


def col(name: str) -> Term:
    """Refer to a column by its exact name.

    >>> (col("age") >= 18) & ~(col("sex") == "X")
    and(>=(column('age'), value(18)), not(=(column('sex'), value('X'))))
    """
    return Term("column", (name,))


def _statistic(name: str, *args: object, where: Given | None = None) -> Term:
    call = Term("call", (name, *args))
    return call if where is None else Term("filter", (call, sql(where)))


def count(of: Given | None = None, *, where: Given | None = None) -> Term:
    """Count rows; with an expression, rows where it is not NULL."""
    return _statistic("COUNT", Term("star", ()) if of is None else sql(of), where=where)


def count_distinct(of: Given, *, where: Given | None = None) -> Term:
    """Count different values; of the unit column, units."""
    return _statistic("COUNT", Term("distinct", (sql(of),)), where=where)


def sum(of: Given, *, where: Given | None = None) -> Term:
    """Add values up."""
    return _statistic("SUM", sql(of), where=where)


def mean(of: Given, *, where: Given | None = None) -> Term:
    """Average values."""
    return _statistic("AVG", sql(of), where=where)


def proportion(condition: Given, *, where: Given | None = None) -> Term:
    """Share of rows for which a condition is true, among those where it is known."""
    return _statistic("AVG", sql(condition), where=where)


def var(of: Given, *, sample: bool = True, where: Given | None = None) -> Term:
    """Variance; divided by n − 1, or by n without `sample`."""
    return _statistic("VAR_SAMP" if sample else "VAR_POP", sql(of), where=where)


def std(of: Given, *, sample: bool = True, where: Given | None = None) -> Term:
    """Standard deviation; see :func:`var`."""
    return _statistic("STDDEV_SAMP" if sample else "STDDEV_POP", sql(of), where=where)


def quantile(of: Given, q: object, *, where: Given | None = None) -> Term:
    """Quantile at a probability between 0 and 1."""
    return _statistic("QUANTILE", sql(of), value(q), where=where)


def median(of: Given, *, where: Given | None = None) -> Term:
    """Median: the quantile at one half."""
    return _statistic("MEDIAN", sql(of), where=where)


def min(of: Given, *, where: Given | None = None) -> Term:
    """Smallest value, as the quantile at 0."""
    return _statistic("MIN", sql(of), where=where)


def max(of: Given, *, where: Given | None = None) -> Term:
    """Largest value, as the quantile at 1."""
    return _statistic("MAX", sql(of), where=where)


def mode(of: Given, top: int = 1, *, where: Given | None = None) -> Term:
    """Most frequent category, or the `top` most frequent ones."""
    return _statistic("MODE", sql(of), *([] if top == 1 else [value(top)]), where=where)
