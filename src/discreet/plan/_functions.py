"""Row functions by name: one table for SQL text and the fluent API.

A function has names in SQL, perhaps a method of a term, the kinds of argument it
takes, and what builds it. A new function is a row here and, where nothing that
exists will do, an operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal

from discreet._dataclass import dataclass
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import _build as build
from discreet.plan import _calendar as calendar
from discreet.plan import _curves as curves
from discreet.plan import _words as words
from discreet.plan._build import Null, Operand, Span, Word
from discreet.plan._expr import Bucket, Divide, Expr, common_step
from discreet.plan._types import Kind

_MOST_BUCKETS: Final = 10_000
_MOST_COLUMNS: Final = 8
Take = Literal["value", "moment", "text", "format", "unit", "number", "whole", "word", "values"]
"""What an argument is: an operand, a constant of some kind, or all that are left."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one row's values."""

    names: tuple[str, ...]
    takes: tuple[Take, ...]
    make: Callable[..., Operand]
    optional: int = 0
    fluent: str | None = None
    """Method of a term that means the same."""

    def __call__(self, name: str, args: Sequence[Operand]) -> Operand:
        """Apply the function, called `name`, to operands."""
        if self.takes == ("values",):
            return self.make(args)
        arity(name, args, len(self.takes) - self.optional, len(self.takes))
        return self.make(*(_READERS[t](a, name) for t, a in zip(self.takes, args, strict=False)))


def arity(name: str, args: Sequence[object], low: int, high: int | None = None) -> None:
    """Refuse a call with the wrong number of arguments."""
    if not low <= len(args) <= (high or low):
        count = f"{low} to {high}" if high is not None and high > low else low
        raise QueryError(f"{name} takes {count} argument{'s' * (count != 1)}")


def constant(operand: Operand, where: str) -> Fraction:
    """Insist on a numeric constant."""
    value = build.constant_value(operand)
    if value is None:
        raise QueryError(f"{where} needs a constant number here")
    return value


def whole(operand: Operand, where: str) -> int:
    """Insist on a constant whole number."""
    value = constant(operand, where)
    if value.denominator != 1:
        raise QueryError(f"{where} needs a whole number here")
    return int(value)


def _word(operand: Operand, where: str) -> str:
    if not isinstance(operand, Word):
        raise QueryError(f"{where} needs a text in quotes here")
    return operand.text


_READERS: Final[dict[str, Callable[[Operand, str], Any]]] = {
    **dict.fromkeys(("value", "moment", "text", "format", "unit"), lambda operand, _: operand),
    "number": constant,
    "whole": whole,
    "word": _word,
}


def _limited(values: Sequence[Operand], *, least: bool) -> Operand:
    """LEAST or GREATEST: constants are public bounds, also in the place of NULL."""
    name = "LEAST" if least else "GREATEST"
    bounds = [v for o in values if (v := build.constant_value(o)) is not None]
    free = [o for o in values if build.constant_value(o) is None and not isinstance(o, Null)]
    first = free[0] if len(free) == 1 else _outermost(free, name, least=least) if free else Null()
    if not bounds:
        return first
    end = min(bounds) if least else max(bounds)
    if not free:
        return build.number(end)
    low, high = (None, end) if least else (end, None)
    clamped = build.clamp(first, low, high, name)
    if not clamped.type.nullable:
        return clamped
    return build.coalesce([clamped, build.number(end)])


def _outermost(operands: Sequence[Operand], name: str, *, least: bool) -> Expr:
    """LEAST or GREATEST of several columns of one kind; NULL is passed over."""
    if len(operands) > _MOST_COLUMNS:
        raise UnsupportedQueryError(f"{name} takes at most {_MOST_COLUMNS} columns")
    exprs = build.unify(operands, name)
    kinds = {e.type.kind for e in exprs}
    if len(kinds) > 1 or not kinds <= {Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP}:
        raise UnsupportedQueryError(f"{name} takes numbers, or dates, or timestamps alone")

    def beats(mine: Expr, other: Expr) -> Operand:
        test = build.compare("<=" if least else ">=", mine, other)
        return build.disjunction([build.is_null(other), test]) if other.type.nullable else test

    branches: list[tuple[Operand, Operand]] = []
    for mine in exprs[:-1]:
        present = [build.negate(build.is_null(mine))] if mine.type.nullable else []
        tests = [*present, *(beats(mine, other) for other in exprs if other is not mine)]
        branches.append((build.conjunction(tests), mine))
    # NULL in the last place is that of a row without any of them
    extreme = build.case(branches, exprs[-1])
    sure = [e for e in exprs if not e.type.nullable]
    if not sure:
        return extreme
    if extreme.type.kind is Kind.NUMBER:  # one that is always there bounds all others
        ends = [(e.type.hi if least else e.type.lo) * e.type.step for e in sure]
        low, high = (None, min(ends)) if least else (max(ends), None)
        extreme = build.clamp(extreme, low, high, name)
    return build.coalesce([extreme, sure[0]]) if extreme.type.nullable else extreme


def _nullif(x: Operand, other: Operand) -> Operand:
    return build.case([(build.compare("=", x, other), Null())], x)


def _power(x: Operand, exponent: Fraction) -> Operand:
    if exponent.denominator != 1:
        return curves.power(x, exponent)
    times = int(exponent)
    if not 1 <= times <= 8:
        raise UnsupportedQueryError("POWER takes whole exponents from 1 to 8", hint="POWER(x, 2)")
    product = build.as_number(x, "POWER")
    if times % 2 == 0:
        product, times = build.arithmetic("*", product, product), times // 2
    factor = product
    for _ in range(times - 1):
        product = build.arithmetic("*", product, factor)
    return product


def infix(op: str, left: Operand, right: Operand) -> Operand:
    """Apply an operator that stands between two operands."""
    if op == "||":
        return words.concat([left, right], skip=False)
    if op in ("+", "-") and any(_timed(o) for o in (left, right)):
        return calendar.combined(op, left, right)
    if op == "%":
        return _remainder(left, constant(right, "%"))
    if op == "//":
        return _whole_quotient(left, right)
    sides = [o for o in (left, right) if isinstance(o, Expr) and o.columns]
    if {o.type.kind for o in sides} == {Kind.DATE, Kind.TIMESTAMP}:
        left, right = map(calendar.seconds, sides)  # a date beside a time is its midnight
    return build.infix(op, left, right)


def fractions_cut() -> UnsupportedQueryError:
    """Refusal of // where it means / to some databases."""
    return UnsupportedQueryError(
        "// of fractions cuts in some databases and not in others, such as DuckDB: it takes whole "
        "numbers"
    )


def _whole_quotient(left: Operand, right: Operand) -> Operand:
    """Divide and cut towards zero, exactly."""
    a, b = (build.as_number(o, "//") for o in (left, right))
    if max(a.type.step.denominator, b.type.step.denominator) > 1:
        raise fractions_cut()
    if build.constant_value(b) is not None:
        return _cut(build.arithmetic("/", a, b))
    if min(a.type.lo, b.type.lo) < 0 or not a.type.step == b.type.step == 1:
        raise UnsupportedQueryError("// takes whole numbers that are not negative, or a constant")
    # rounded, (2a − b + 1) / 2b is a / b rounded down; by zero it is NULL
    one, two = (build.number(Fraction(n)) for n in (1, 2))
    top = build.arithmetic("+", build.arithmetic("-", build.arithmetic("*", two, a), b), one)
    return Divide(top, build.arithmetic("*", two, b), Fraction(1))


def _timed(operand: Operand) -> bool:
    kinds = (Kind.DATE, Kind.TIMESTAMP)
    return isinstance(operand, Span) or (isinstance(operand, Expr) and operand.type.kind in kinds)


def _difference(*args: Operand) -> Operand:
    """DATEDIFF(unit, from, to), or in days DATEDIFF(to, from)."""
    if len(args) == 2:
        return calendar.difference("day", args[1], args[0])
    return calendar.difference(_word(args[0], "DATEDIFF"), args[1], args[2])


def _strftime(x: Operand, pattern: Operand) -> Operand:
    """STRFTIME in either order of its arguments."""
    if isinstance(x, Word) and "%" in x.text:
        x, pattern = pattern, x
    return calendar.strftime(x, _word(pattern, "STRFTIME"))


def _to_char(x: Operand, pattern: str) -> Operand:
    return calendar.strftime(x, calendar.from_to_char(pattern))


def _remainder(left: Operand, by: Fraction) -> Operand:
    """What is left after division by a positive constant; it has the sign of the dividend."""
    if by <= 0:
        raise UnsupportedQueryError("% needs a positive constant after it", hint="age % 10")
    x = build.as_number(left, "%")
    size = x if x.type.lo >= 0 else build.absolute(x)
    whole = build.scaled(build.floor(build.scaled(size, 1 / by)), by)
    most = by - common_step(x.type, build.number(by).type)
    rest = build.clamp(build.arithmetic("-", size, whole), Fraction(0), most, "%")
    if x.type.lo >= 0:
        return rest
    return build.case([(build.compare("<", x, build.number(Fraction(0))), build.minus(rest))], rest)


def _sign(x: Operand) -> Operand:
    zero = build.number(Fraction(0))
    one, less = (build.number(Fraction(n)) for n in (1, -1))
    tests = [(build.compare(">", x, zero), one), (build.compare("<", x, zero), less)]
    return build.case([*tests, (build.is_null(x), Null())], zero)


def _cut(x: Operand, digits: int = 0) -> Operand:
    """Leave out what lies beyond so many digits, towards zero."""
    number = build.as_number(x, "TRUNC")
    if not -18 <= digits <= 18:
        raise QueryError("TRUNC takes between -18 and 18 digits", hint="TRUNC(x, 2)")
    unit = Fraction(10) ** -digits
    down = build.scaled(build.floor(build.scaled(number, 1 / unit)), unit)
    if number.type.lo >= 0:
        return down
    up = build.scaled(build.ceiling(build.scaled(number, 1 / unit)), unit)
    return build.case([(build.compare("<", number, build.number(Fraction(0))), up)], down)


def _width_bucket(operand: Operand, low: Fraction, high: Fraction, count: int) -> Expr:
    """Number of the bucket: 1 to `count` over ``[low, high)``, 0 below, count + 1 above."""
    expr = build.as_number(operand, "WIDTH_BUCKET")
    hint = "WIDTH_BUCKET(age, 0, 100, 10)"
    if not 1 <= count <= _MOST_BUCKETS:
        raise QueryError(f"WIDTH_BUCKET takes between 1 and {_MOST_BUCKETS} buckets", hint=hint)
    if low >= high:
        raise QueryError("WIDTH_BUCKET needs a lower bound below the upper one", hint=hint)
    width = (high - low) / count
    # code >= ceil(edge / step) says exactly value >= edge
    edges = [math.ceil((low + i * width) / expr.type.step) for i in range(count + 1)]
    if any(a >= b for a, b in pairwise(edges)):
        name = build.name_of(expr)
        raise QueryError(f"the buckets are narrower than the step of {name}", hint=hint)
    return Bucket(expr, tuple(edges))


def _bin(x: Operand, width: Fraction) -> Operand:
    """Lower end of the bin of a width in which a number falls: histograms by GROUP BY."""
    if width <= 0:
        raise QueryError("BIN takes a positive width", hint="GROUP BY BIN(age, 10)")
    return build.scaled(build.floor(build.scaled(build.as_number(x, "BIN"), 1 / width)), width)


PARTS: Final = (
    "YEAR", "QUARTER", "MONTH", "DAY", "DAYOFMONTH", "HOUR", "ISODOW", "DOW", "DAYOFWEEK",
    "WEEK", "WEEKOFYEAR", "ISOYEAR", "DOY", "DAYOFYEAR", "MINUTE", "SECOND", "EPOCH",
)  # fmt: skip
_ALL: Final = (
    Function(("ABS",), ("value",), build.absolute),
    Function(("FLOOR",), ("value",), build.floor),
    Function(("TRUNC",), ("value", "whole"), _cut, optional=1),
    Function(("CEIL", "CEILING"), ("value",), build.ceiling),
    Function(("ROUND",), ("value", "whole"), build.rounded, optional=1, fluent="round"),
    Function(("COALESCE", "IFNULL", "NVL"), ("values",), build.coalesce),
    Function(("NULLIF",), ("value", "value"), _nullif),
    Function(("LEAST",), ("values",), partial(_limited, least=True)),
    Function(("GREATEST",), ("values",), partial(_limited, least=False)),
    Function(("POWER", "POW"), ("value", "number"), _power),
    Function(("SQRT",), ("value",), curves.sqrt),
    Function(("LN",), ("value",), curves.ln),
    Function(("LOG", "LOG10"), ("value", "value"), curves.log, optional=1),
    Function(("LOG2",), ("value",), lambda x: curves.log(build.number(Fraction(2)), x)),
    Function(("EXP",), ("value",), curves.exp),
    Function(("WIDTH_BUCKET",), ("value", "number", "number", "whole"), _width_bucket),
    Function(("SIGN",), ("value",), _sign),
    Function(("BIN", "BUCKET"), ("value", "number"), _bin),
    Function(("SQUARE",), ("value",), lambda x: _power(x, Fraction(2))),
    Function(("MOD",), ("value", "number"), _remainder),
    Function(("DATE_PART",), ("word", "moment"), calendar.part),
    *(Function((part,), ("moment",), partial(calendar.part, part)) for part in PARTS),
    Function(("DATE_TRUNC", "DATETRUNC"), ("word", "moment"), calendar.truncated),
    Function(("DATEDIFF", "DATE_DIFF"), ("unit", "moment", "moment"), _difference, optional=1),
    Function(("TIMESTAMPDIFF",), ("word", "moment", "moment"), calendar.complete),
    Function(("LAST_DAY",), ("moment",), calendar.last_day),
    Function(("STRFTIME", "DATE_FORMAT"), ("moment", "format"), _strftime),
    Function(("TO_CHAR",), ("moment", "word"), _to_char),
    Function(("MONTHNAME",), ("moment",), lambda x: calendar.strftime(x, "%B")),
    Function(("DAYNAME",), ("moment",), lambda x: calendar.strftime(x, "%A")),
    Function(("DATE",), ("moment",), calendar.as_date),
    Function(("LOWER", "LCASE"), ("text",), words.lower),
    Function(("UPPER", "UCASE"), ("text",), words.upper),
    Function(("TRIM",), ("text",), words.trim),
    Function(("INITCAP",), ("text",), words.initcap),
    Function(("LENGTH", "LEN", "CHAR_LENGTH"), ("text",), words.length),
    Function(("SUBSTR", "SUBSTRING"), ("text", "whole", "whole"), words.substr, optional=1),
    Function(("LEFT",), ("text", "whole"), words.left),
    Function(("RIGHT",), ("text", "whole"), words.right),
    Function(("SPLIT_PART",), ("text", "word", "whole"), words.split_part),
    Function(("REPLACE",), ("text", "word", "word"), words.replace),
    Function(
        ("REGEXP_LIKE", "REGEXP_MATCHES", "REGEXP_CONTAINS"),
        ("text", "word", "word"),
        words.regexp,
        optional=1,
    ),
    Function(("CONCAT",), ("values",), partial(words.concat, skip=True)),
)

FUNCTIONS: Final = {name: function for function in _ALL for name in function.names}
"""Row functions by their SQL names."""
