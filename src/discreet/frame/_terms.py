"""Terms of the fluent API: columns, conditions and statistics, as plain values.

A term is a piece of a question that knows no table yet. Text inside is SQL and
is read by ``sql`` when the question is complete, so that both ways of asking
mean the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from discreet._dataclass import dataclass
from discreet.plan import FLUENT, Fluent

TermLike: TypeAlias = "Term | str | int | float | bool | object"
"""What may stand for a term: text is SQL where an expression is expected."""


def _operator(op: str) -> Callable[[Term, object], Term]:
    return lambda self, other: Term(op, (self, value(other)))


def _turned(op: str) -> Callable[[Term, object], Term]:
    return lambda self, other: Term(op, (value(other), self))


@dataclass(frozen=True, eq=False)
class Term:
    """A piece of a question; combines with ``+ - * / < <= == != >= > & | ~``."""

    op: str
    args: tuple[object, ...]

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"

    __add__, __radd__ = _operator("+"), _turned("+")
    __sub__, __rsub__ = _operator("-"), _turned("-")
    __mul__, __rmul__ = _operator("*"), _turned("*")
    __truediv__, __rtruediv__ = _operator("/"), _turned("/")
    __lt__, __le__ = _operator("<"), _operator("<=")
    __gt__, __ge__ = _operator(">"), _operator(">=")
    __eq__, __ne__ = _operator("="), _operator("<>")  # type: ignore[assignment]  # as in pandas
    __and__, __or__ = _operator("and"), _operator("or")
    __hash__ = object.__hash__

    def __neg__(self) -> Term:
        return Term("neg", (self,))

    def __invert__(self) -> Term:
        return Term("not", (self,))

    def __bool__(self) -> bool:
        raise TypeError("a term has no truth value yet: combine conditions with & | ~")

    def is_in(self, *values: object) -> Term:
        """Test membership in a list of constants."""
        return Term("in", (self, *map(value, values)))

    def is_null(self) -> Term:
        """Whether the value is NULL: true or false, never NULL."""
        return Term("is null", (self,))

    def between(self, low: object, high: object) -> Term:
        """Test ``low <= x <= high``."""
        return (self >= low) & (self <= high)

    def total(self, *by: object) -> Term:
        """Add an output up over the rows of the answer that agree on the keys `by`.

        ``n / n.total()`` is the share of the whole.
        """
        return Term("total", (self, *map(sql, by)))

    def round(self, digits: int = 0) -> Term:
        """Round to decimal digits."""
        return Term("call", ("ROUND", self, value(digits)))


def value(operand: object) -> Term:
    """Take a constant as a term; a term stays itself."""
    return operand if isinstance(operand, Term) else Term("value", (operand,))


def sql(text: object) -> Term:
    """Take text as an SQL expression; a term stays itself."""
    return text if isinstance(text, Term) else Term("sql", (text,))


def col(name: str) -> Term:
    """Refer to a column by its exact name.

    >>> (col("age") >= 18) & ~(col("sex") == "X")
    and(>=(column('age'), value(18)), not(=(column('sex'), value('X'))))
    """
    return Term("column", (name,))


def function(name: str) -> Callable[..., Term]:
    """Make a function of the fluent API from its row in the table of statistics.

    >>> function("mean")("income", where="age >= 18")
    filter(call('AVG', sql('income')), sql('age >= 18'))
    """
    entry = FLUENT[name]
    one = inspect.Parameter.POSITIONAL_OR_KEYWORD
    only = inspect.Parameter.KEYWORD_ONLY
    listed = [inspect.Parameter("of", one, default=None if entry.sql == "COUNT" else _MUST)]
    listed += [inspect.Parameter(n, one, default=_MUST if d is ... else d) for n, d in entry.takes]
    if entry.population is not None:
        listed.append(inspect.Parameter("sample", only, default=True))
    listed += [inspect.Parameter(n, only, default=None) for n in (*entry.keywords, "where")]
    signature = inspect.Signature(listed)

    def statistic(*args: object, **options: object) -> Term:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        return _call(entry, bound.arguments)

    statistic.__name__ = statistic.__qualname__ = name
    statistic.__doc__ = entry.doc
    statistic.__signature__ = signature  # type: ignore[attr-defined]  # what inspect reads
    return statistic


_MUST: Final = inspect.Parameter.empty


def _call(entry: Fluent, arguments: Mapping[str, object]) -> Term:
    sql_name, of = entry.sql, arguments["of"]
    if arguments.get("sample") is False and entry.population is not None:
        sql_name = entry.population
    operand = Term("star", ()) if of is None else sql(of)
    if sql_name == "COUNT DISTINCT":
        sql_name, operand = "COUNT", Term("distinct", (operand,))
    as_term = sql if entry.paired else value
    more = [
        as_term(arguments[n])
        for n, default in entry.takes
        if entry.paired or arguments[n] != default
    ]
    options = [
        Term("named", (n, value(arguments[n]))) for n in entry.keywords if arguments[n] is not None
    ]
    call = Term("call", (sql_name, operand, *more, *options))
    where = arguments["where"]
    return call if where is None else Term("filter", (call, sql(where)))
