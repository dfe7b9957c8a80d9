"""Typed construction of row expressions, shared by SQL and the fluent API.

The nodes of ``_expr`` are strict: kinds must agree, grids must match, category
codes are integers. People write ``sex = 'F'``, ``income / 12`` and
``CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END``. The functions here carry
one to the other, once, so that both front ends mean the same thing:

* text constants take the type of what they meet (a label, a date, a text);
* constants are folded exactly, in rationals;
* multiplying or dividing by a constant stretches the grid and is exact; dividing
  by a column is rounded to a power of two about a millionth of the quotient's
  range (:func:`quotient_step`), and NULL by zero;
* ``ROUND`` rounds halves away from zero; ``LEAST`` and ``GREATEST`` pass over NULL;
* CASE with text results makes a category, labels in order of appearance.

Everything is decided from public facts: the policy and the question.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, TypeAlias, cast

from discreet import _text
from discreet._dataclass import dataclass
from discreet._exact import show
from discreet.errors import QueryError, UnknownNameError, UnsupportedQueryError
from discreet.plan import _normal
from discreet.plan._expr import (
    Abs,
    Arithmetic,
    AsNumber,
    Capped,
    Case,
    Clamp,
    Coalesce,
    Compare,
    Comparison,
    Constant,
    Divide,
    Expr,
    IsNull,
    Not,
    OneOf,
    Rescale,
    Square,
    align,
    labels_as_numbers,
    numeric_labels,
    plain_column,
)
from discreet.plan._logic import COMPARE, MIRROR
from discreet.plan._normal import junction, negation
from discreet.plan._numbers import ARITHMETIC
from discreet.plan._rising import Mode, curve_of
from discreet.plan._types import EPOCH, EPOCH_TIME, Kind, Type, timestamp_code

MAX_RELABELLED: Final = 256
_QUOTIENT_CELLS: Final = 2**20
_MICRO: Final = Fraction(1, 1_000_000)


@dataclass(frozen=True, slots=True)
class Word:
    """A text constant: its type is that of what it meets."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _text.plain_str(self.text))


@dataclass(frozen=True, slots=True)
class Null:
    """The constant NULL, of any type."""


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time: calendar months, and seconds."""

    months: int = 0
    seconds: Fraction = Fraction(0)

    def __neg__(self) -> Span:
        return Span(-self.months, -self.seconds)


Operand: TypeAlias = Expr | Word | Null | Span
"""What a row expression is made of while its type is still being decided."""


nearest, quote = _text.nearest, _text.quote


def unknown(what: str, name: str, names: Sequence[str]) -> UnknownNameError:
    """Build the error for a name that the policy does not have, with the nearest one."""
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    near = names[0] if len(names) == 1 else nearest(name, names)
    return UnknownNameError(
        f"there is no {what} {quote(name)}; known: {listed or 'none'}",
        hint=near and _text.written(near),
    )


number, truth = Constant.number, _normal.truth


def typed(operand: Operand, where: str) -> Expr:
    """Insist on an operand whose type is known by itself."""
    if isinstance(operand, Expr):
        return operand
    what = "NULL alone" if isinstance(operand, Null) else "an interval alone"
    what = f"the text {quote(operand.text)}" if isinstance(operand, Word) else what
    raise QueryError(f"{where}: {what} is not a value to compute with")


def constant_value(operand: Operand) -> Fraction | None:
    """Return the number that a numeric constant is, or None for anything else."""
    if isinstance(operand, Constant) and operand.code is not None and operand.type.is_numeric:
        return operand.code * operand.type.step
    return None


# --- constants that meet a typed expression ------------------------------------------------


def _label_code(arg: Expr, operand: Operand) -> int:
    """Code of a category's label; an unknown label is refused, labels are public."""
    labels = arg.type.labels
    target: str | int | bool | None = None
    if isinstance(operand, Word):
        target = operand.text
    elif isinstance(operand, Constant) and operand.type.kind is Kind.BOOLEAN:
        target = bool(operand.code)
    elif (value := constant_value(operand)) is not None and value.denominator == 1:
        target = int(value)
    for code, label in enumerate(labels):
        if type(label) is type(target) and label == target:
            return code
    if target is None:
        raise UnsupportedQueryError("a category is compared with constants only")
    words = [str(v) for v in labels]
    if str(target) in words:
        own = labels[words.index(str(target))]
        kind = {str: "texts", int: "numbers", bool: "truth values"}[type(own)]
        raise UnknownNameError(f"the values of {name_of(arg)} are {kind}", hint=_example(arg, own))
    error = unknown(f"value of {name_of(arg)} called", str(target), words)
    near = nearest(str(target), words) or _abbreviated(str(target), words)
    hint = None if near is None else _example(arg, labels[words.index(near)])
    raise UnknownNameError(error.message, hint=hint)


def _abbreviated(word: str, labels: Sequence[str]) -> str | None:
    """The one label that a word begins with, or that begins with the word."""
    own = word.casefold()
    matches = [v for v in labels if v and (own.startswith(v.casefold()) or
             (own and v.casefold().startswith(own)))]  # fmt: skip
    return matches[0] if len(matches) == 1 else None


def _example(arg: Expr, label: str | int | bool) -> str | None:
    column = plain_column(arg)
    value = _text.literal(label) if isinstance(label, str) else str(label).upper()
    return None if column is None else f"{_text.written(column.name)} = {value}"


def name_of(expr: Expr) -> str:
    """Call an expression by its column, or by what it is."""
    column = plain_column(expr)
    return "the expression" if column is None else column.name


def _when(text: str) -> dt.datetime:
    try:
        when = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise QueryError(
            f"{quote(text)} is not a date or time, which are written as 2024-01-31 or "
            "2024-01-31 23:59:59",
            hint=_text.iso_day(text),
        ) from None
    if when.tzinfo is not None:
        when = when.astimezone(dt.UTC).replace(tzinfo=None)
    return when


def date(text: str) -> Constant:
    """Return the constant of an ISO date.

    >>> date("1970-01-02").code
    1
    """
    when = _when(text)
    if when.time() != dt.time():
        raise QueryError(f"{quote(text)} is a time, not a date", hint=f"DATE '{when.date()}'")
    code = (when.date() - EPOCH).days
    return Constant.like(code, Type(Kind.DATE))


def instant(text: str) -> Constant:
    """Return the constant of an ISO date, or of a time where the text has one."""
    return date(text) if _when(text).time() == dt.time() else timestamp(text)


def timestamp(text: str, step: Fraction | None = None) -> Constant:
    """Return the constant of an ISO instant (UTC), on the grid `step` if it lies there."""
    when = _when(text)
    micros = (when - EPOCH_TIME) // dt.timedelta(microseconds=1)
    if step is None or (micros * _MICRO / step).denominator != 1:
        step = _MICRO
    code = timestamp_code(when, step)
    return Constant.like(code, Type(Kind.TIMESTAMP, step=step))


def fit(operand: Operand, like: Expr) -> Expr:
    """Give a constant the kind of the expression it stands beside."""
    kind = like.type.kind
    if isinstance(operand, Null):
        raise QueryError("NULL is compared with IS NULL", hint=f"{name_of(like)} IS NULL")
    if isinstance(operand, Word):
        if kind is Kind.DATE:
            return date(operand.text)
        if kind is Kind.TIMESTAMP:
            return timestamp(operand.text, like.type.step)
        bare = _text.digits(operand.text)
        raise QueryError(
            f"{name_of(like)} is a {kind}, {quote(operand.text)} is text",
            hint=f"{name_of(like)} = TRUE" if kind is Kind.BOOLEAN else bare,
        )
    if isinstance(operand, Span):
        days = f"{name_of(like)} >= 30" if like.type.is_numeric else None
        raise QueryError(f"{name_of(like)} is a {kind}, not an interval", hint=days)
    moment = isinstance(operand, Constant) and operand.code is not None and operand.type.moment
    if kind is Kind.TIMESTAMP and isinstance(operand, Constant) and moment:
        return timestamp(str(operand.type.value(operand.code)), like.type.step)
    return operand


# --- conditions ----------------------------------------------------------------------------


def compare(op: Comparison, left: Operand, right: Operand) -> Expr:
    """Compare two operands; constants take the type of the other side."""
    if _bare(left) and not _bare(right):
        left, right, op = right, left, MIRROR[op]
    if isinstance(left, Word | Null | Span):
        raise QueryError("a comparison needs a column on one side", hint="age >= 18")
    if left.type.kind in (Kind.CATEGORY, Kind.TEXT):
        return _compare_label(op, left, right)
    right = fit(right, left)
    if (x := constant_value(left)) is not None and (y := constant_value(right)) is not None:
        return truth(value=COMPARE[op](x, y))
    if left.type.kind is Kind.BOOLEAN and op not in ("=", "<>"):
        raise UnsupportedQueryError(f"truth values have no order: {op}", hint="married = TRUE")
    if left.type.kind is Kind.BOOLEAN and isinstance(right, Constant) and right.code in (0, 1):
        # x = TRUE is x, also when x is NULL
        return left if (right.code == 1) is (op == "=") else negate(left)
    if isinstance(right, Constant) and right.code is not None:
        pair = left.type.kind, right.type.kind
        midnight = pair == (Kind.DATE, Kind.TIMESTAMP)
        if (curve := curve_of(left)) is not None:
            places = curve.compared(op, right.code * right.type.step)
            test = conjunction([_compare_place(o, curve.arg, place) for o, place in places])
            return _instead(left, negate(test) if op == "<>" else test)
        if midnight or pair[0] is pair[1]:
            unit = Fraction(86_400) if midnight else left.type.step
            return _compare_place(op, left, right.code * right.type.step / unit)
    return Compare(op, left, right)


def _compare_place(op: Comparison, left: Expr, place: Fraction) -> Expr:
    """Compare with a constant, as one code of the left side's own grid.

    A constant between two codes moves to the one that decides the same, one beyond
    the range to its end.
    """
    t = left.type
    code = math.ceil(place) if op in ("<", ">=") else math.floor(place)
    if op in ("=", "<>"):
        if code != place or not t.lo <= code <= t.hi:
            never = OneOf(left, ())  # false, or NULL for NULL
            return never if op == "=" else Not(never)
    elif COMPARE[op](t.lo, code) and COMPARE[op](t.hi, code):
        op, code = ("<=", t.hi) if op in ("<", "<=") else (">=", t.lo)
    elif not (COMPARE[op](t.lo, code) or COMPARE[op](t.hi, code)):
        op, code = ("<", t.lo) if op in ("<", "<=") else (">", t.hi)
    return Compare(op, left, Constant.like(code, t))


def _instead(expr: Expr, exact: Expr) -> Expr:
    """Put what is exact in the place of a curve, which may be NULL where it has no value."""
    return when(expr.branches[0][0], exact) if isinstance(expr, Case) else exact


def _bare(operand: Operand) -> bool:
    return isinstance(operand, Word | Null | Span | Constant)


def _compare_label(op: Comparison, left: Expr, right: Operand) -> Expr:
    if op not in ("=", "<>") and numeric_labels(left.type):
        limit = constant_value(right)
        if limit is None:
            return compare(op, labels_as_numbers(left), right)
        labels = ((c, Fraction(str(left.type.labels[c]))) for c in left.possible)
        return OneOf(left, tuple(c for c, n in labels if COMPARE[op](n, limit)))
    if op not in ("=", "<>"):
        text = right.text if isinstance(right, Word) else None
        listed = [x for x in left.type.labels if isinstance(x, str) and text is not None]
        values = ", ".join(f"'{x}'" for x in listed if COMPARE[op](x, text))
        raise UnsupportedQueryError(
            f"a {left.type.kind} has no order: {op}",
            hint=f"{name_of(left)} IN ({values})" if values else None,
        )
    test = one_of(left, [right])
    return test if op == "=" else negate(test)


def one_of(arg: Operand, items: Sequence[Operand]) -> Expr:
    """Test membership in a list of constants."""
    expr = typed(arg, "IN")
    if any(isinstance(i, Null) for i in items) or not items:
        raise QueryError("an IN list holds constants, and not NULL", hint="x IN (1, 2)")
    kind = expr.type.kind
    if kind is Kind.CATEGORY:
        return OneOf(expr, tuple(sorted({_label_code(expr, i) for i in items})))
    if kind is Kind.TEXT:
        words = [i.text for i in items if isinstance(i, Word)]
        if len(words) != len(items):
            raise QueryError("a text column is compared with text constants only", hint="x = 'a'")
        return OneOf(expr, tuple(dict.fromkeys(words)))
    if kind is Kind.BOOLEAN or curve_of(expr) is not None:
        return disjunction([compare("=", expr, i) for i in items])
    return _one_of_grid(expr, [fit(i, expr) for i in items])


def _one_of_grid(expr: Expr, items: list[Expr]) -> Expr:
    codes: set[int] = set()
    for item in items:
        if not isinstance(item, Constant) or item.code is None or item.type.kind != expr.type.kind:
            raise QueryError("an IN list holds constants of the column's own type")
        place = item.code * item.type.step / expr.type.step
        if place.denominator == 1:  # a constant between grid points never matches
            codes.add(int(place))
    if len(codes) == 1:
        return _compare_place("=", expr, Fraction(*codes))
    return OneOf(expr, tuple(sorted(codes)))


def between(arg: Operand, low: Operand, high: Operand) -> Expr:
    """Test ``low <= arg <= high``."""
    return conjunction([compare(">=", arg, low), compare("<=", arg, high)])


def conjunction(conditions: Iterable[Operand]) -> Expr:
    """Join conditions by AND; nested ANDs become one."""
    return junction("and", map(condition, conditions))


def disjunction(conditions: Iterable[Operand]) -> Expr:
    """Join conditions by OR; nested ORs become one."""
    return junction("or", map(condition, conditions))


def condition(operand: Operand) -> Expr:
    """Insist on a truth value."""
    expr = typed(operand, "a condition")
    if expr.type.kind is not Kind.BOOLEAN:
        raise QueryError(
            f"a condition is needed here, but {name_of(expr)} is a {expr.type.kind}",
            hint=f"{name_of(expr)} <> 0" if expr.type.kind is Kind.NUMBER else None,
        )
    return expr


def negate(operand: Operand) -> Expr:
    """Negate in three-valued logic, as far inside as it goes."""
    return negation(condition(operand))


def is_null(operand: Operand) -> Expr:
    """Test for NULL."""
    return IsNull(typed(operand, "IS NULL"))


# --- numbers -------------------------------------------------------------------------------


def as_number(operand: Operand, where: str = "arithmetic") -> Expr:
    """Insist on a number; a truth value counts as 0 or 1, NULL stays NULL."""
    expr = typed(operand, where)
    if expr.type.kind is Kind.BOOLEAN:
        return AsNumber(expr)
    if numeric_labels(expr.type):
        return labels_as_numbers(expr)
    if not expr.type.is_numeric:
        raise QueryError(
            f"{where} needs a number, {name_of(expr)} is a {expr.type.kind}",
            hint=_number_hint(where, expr),
        )
    return expr


def arithmetic(op: str, left: Operand, right: Operand) -> Expr:
    """Add, subtract, multiply or divide two numbers."""
    a, b = as_number(left, op), as_number(right, op)
    x, y = constant_value(a), constant_value(b)
    if op == "/":
        return _divide(a, b, x, y)
    if x is not None and y is not None:
        return number(ARITHMETIC[op](x, y))
    if op == "*" and (x is not None or y is not None):
        return scaled(b, x) if x is not None else scaled(a, y or Fraction(0))
    if op == "*" and a == b:
        return Square(a)
    return Arithmetic("+" if op == "+" else "-" if op == "-" else "*", a, b)


def infix(op: str, left: Operand, right: Operand) -> Expr:
    """Apply an operator that stands between two operands."""
    if op in MIRROR:
        return compare(cast("Comparison", op), left, right)
    if op in ("and", "or"):
        return junction(op, map(condition, [left, right]))
    return arithmetic(op, left, right)


def scaled(expr: Expr, factor: Fraction) -> Expr:
    """Multiply by a constant: the grid stretches, the codes stay small."""
    if factor == 1:
        return expr
    if factor == 0:
        return Arithmetic("*", expr, number(factor))
    sign = Constant.like(1 if factor > 0 else -1, Type.number(0, 0, abs(factor)))
    return Arithmetic("*", expr, sign)


def _divide(a: Expr, b: Expr, x: Fraction | None, y: Fraction | None) -> Expr:
    if y == 0:
        raise QueryError("division by the constant zero")
    if y is not None:
        return number(x / y) if x is not None else scaled(a, 1 / y)
    return Divide(a, b, quotient_step(a.type, b.type))


def quotient_step(a: Type, b: Type) -> Fraction:
    """Public step of a quotient: a power of two near its range over 2^20.

    >>> quotient_step(Type.number(0, 200_000), Type.number(1, 20))
    Fraction(1, 8)
    """
    divisors = [d for d in (b.lo, b.hi, 1, -1) if d and b.lo <= d <= b.hi]
    ends = [Fraction(n) / d for n in (a.lo, a.hi) for d in divisors] or [Fraction(0)]
    span = (max(ends) - min(ends)) * a.step / b.step / _QUOTIENT_CELLS
    return Fraction(1) if span == 0 else _power_of_two_below(span)


def _power_of_two_below(x: Fraction) -> Fraction:
    power = x.numerator.bit_length() - x.denominator.bit_length()
    step = Fraction(2) ** power
    return step if step <= x else step / 2


def minus(operand: Operand) -> Expr:
    """Change the sign."""
    return arithmetic("*", number(Fraction(-1)), operand)


def rounded(operand: Operand, digits: int = 0) -> Expr:
    """Round half away from zero to decimal digits (negative: tens, hundreds)."""
    if not -18 <= digits <= 18:
        raise QueryError("ROUND takes between -18 and 18 digits", hint="ROUND(x, 2)")
    return _onto(as_number(operand, "ROUND"), Fraction(10) ** -digits, "round")


def floor(operand: Operand) -> Expr:
    """Round down to a whole number."""
    return _onto(as_number(operand, "FLOOR"), Fraction(1), "floor")


def ceiling(operand: Operand) -> Expr:
    """Round up to a whole number."""
    return _onto(as_number(operand, "CEIL"), Fraction(1), "ceiling")


def _onto(expr: Expr, step: Fraction, mode: Mode) -> Expr:
    if (curve := curve_of(expr)) is not None:
        return _instead(expr, curve.onto(step, mode))
    if (expr.type.step / step).denominator == 1:
        return expr  # already on that grid
    if mode == "ceiling":
        return minus(Rescale(minus(expr), step, "floor"))
    return Rescale(expr, step, mode)


def absolute(operand: Operand) -> Expr:
    """Drop the sign."""
    return Abs(as_number(operand, "ABS"))


def clamp(
    operand: Operand, low: Fraction | None, high: Fraction | None, where: str = "bounds"
) -> Expr:
    """Move a number into public bounds, which may lie between its grid points."""
    expr = as_number(operand, where)
    if isinstance(expr, Capped) and high is not None:
        expr = expr.arg
    if low is not None and high is not None and low > high:
        raise QueryError(f"{where}: {show(low)} is above {show(high)}")
    t = expr.type
    # an end beyond the range never acts and needs no place on the grid
    low = None if low is not None and low <= t.lo * t.step else low
    high = None if high is not None and high >= t.hi * t.step else high
    expr = align([expr, *(number(v) for v in (low, high) if v is not None)])[0]
    t = expr.type
    hi = t.hi if high is None else int(high / t.step)
    lo = min(t.lo, hi) if low is None else int(low / t.step)
    return expr if lo <= t.lo and t.hi <= hi else Clamp(expr, lo, max(lo, hi))


# --- choices -------------------------------------------------------------------------------


def case(branches: Sequence[tuple[Operand, Operand]], default: Operand) -> Expr:
    """First branch whose condition is true, else the default."""
    values = unify([value for _, value in branches] + [default], "CASE")
    pairs = tuple((condition(c), v) for (c, _), v in zip(branches, values, strict=False))
    return Case(pairs, values[-1])


def when(test: Operand, operand: Operand) -> Expr:
    """Give the operand where a condition is true, NULL elsewhere (SQL's FILTER)."""
    return case([(test, operand)], Null())


def coalesce(operands: Sequence[Operand]) -> Expr:
    """First value that is not NULL."""
    candidates = [o for o in operands if not isinstance(o, Null)]
    values = unify(candidates, "COALESCE")
    return values[0] if len(values) == 1 else Coalesce(tuple(values))


def unify(operands: Sequence[Operand], where: str) -> list[Expr]:
    """Bring alternatives to one type: labels, grid and kind."""
    values = [o for o in operands if not isinstance(o, Null)]
    exprs = [o for o in values if isinstance(o, Expr)]
    if not values:
        raise QueryError(f"every value of {where} is NULL: write at least one other")
    if exprs and exprs[0].type.moment:
        like = next((e for e in exprs if e.columns), exprs[0])
        settled = align([fit(o, like) for o in values])
    elif len(exprs) < len(values) or exprs[0].type.kind is Kind.CATEGORY:
        settled = _labelled(values, where)
    elif {Kind.NUMBER} <= {e.type.kind for e in exprs} <= {Kind.BOOLEAN, Kind.NUMBER}:
        settled = align([as_number(e, where) for e in exprs])
    else:
        settled = exprs
    rest = iter(settled)
    null = Constant.null(settled[0].type)
    return [null if isinstance(o, Null) else next(rest) for o in operands]


def _labelled(operands: Sequence[Operand], where: str) -> list[Expr]:
    """Make every alternative a category over all labels, in order of appearance."""
    labels: dict[str | int | bool, None] = {}
    for o in operands:
        if isinstance(o, Word):
            labels.setdefault(o.text)
        elif isinstance(o, Expr) and o.type.kind is Kind.CATEGORY:
            labels.update(dict.fromkeys(o.type.labels))
        else:
            kind = o.type.kind if isinstance(o, Expr) else "NULL"
            kind = "open text, which has no list of values" if kind == "text" else kind
            raise UnsupportedQueryError(f"{where} mixes constant text and {kind}")
    if len({type(label) for label in labels}) > 1:
        raise UnsupportedQueryError(f"{where} mixes text labels and numbers")
    return [_relabelled(o, tuple(labels)) for o in operands]


def label(code: int, labels: tuple[str | int | bool, ...]) -> Constant:
    """Return the constant label with a code."""
    return Constant.like(code, Type(Kind.CATEGORY, labels=labels))


def _relabelled(operand: Operand, labels: tuple[str | int | bool, ...]) -> Expr:
    if isinstance(operand, Word):
        return label(labels.index(operand.text), labels)
    expr = typed(operand, "CASE")
    old = expr.type
    if old.labels == labels:
        return expr
    if isinstance(expr, Constant) and expr.code is not None:
        return label(labels.index(old.labels[expr.code]), labels)
    if old.size > MAX_RELABELLED:
        raise UnsupportedQueryError(
            f"text cannot stand beside {name_of(expr)}, which has more than {MAX_RELABELLED} values"
        )
    codes = range(old.lo, old.hi + 1)
    pairs = tuple((OneOf(expr, (c,)), label(labels.index(old.labels[c]), labels)) for c in codes)
    return Case(pairs, Constant.null(pairs[0][1].type))


def _number_hint(where: str, expr: Expr) -> str | None:
    """What someone who wanted a number from a label or text probably meant."""
    labels = expr.type.labels
    if labels:
        label = f"'{labels[0]}'" if isinstance(labels[0], str) else labels[0]
        # a share of rows, or a number of them
        return f"{where}({name_of(expr)} = {label})" if where in ("AVG", "SUM") else None
    if expr.type.moment:
        first = str(expr.type.value(expr.type.lo))[:10]
        days = f"DATEDIFF('day', DATE '{first}', {name_of(expr)})"
        return f"{where}({days})" if where.isupper() else days
    return None
