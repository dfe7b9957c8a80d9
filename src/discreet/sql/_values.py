"""Calls of other databases that compute values: choices, quotients, quantiles, pieces of text.

Each takes the arguments of a call and gives what we would have written, or None to leave it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from discreet.sql._walk import calling, count_different, count_rows

Call = Sequence[exp.Expr]


def literal(text: str) -> exp.Literal:
    return exp.Literal.string(text)


def integer(node: exp.Expr) -> int | None:
    sign = -1 if isinstance(node, exp.Neg) else 1
    node = node.this if isinstance(node, exp.Neg) else node
    text = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
    return sign * int(text) if text.isdigit() and len(text) <= 9 else None


def isnull(args: Call) -> exp.Expr | None:
    if len(args) == 1:
        return exp.paren(exp.Is(this=args[0].copy(), expression=exp.Null()), copy=False)
    return calling("COALESCE", *args)


def decode(args: Call) -> exp.Expr | None:
    pairs = list(zip(args[1::2], args[2::2], strict=False))
    default = args[-1].copy() if len(args) % 2 == 0 and pairs else None
    return case_of(args[0], pairs, default) if pairs else None


def choose(args: Call) -> exp.Expr | None:
    pairs = [(exp.Literal.number(i), value) for i, value in enumerate(args[1:], 1)]
    return case_of(args[0], pairs, None) if pairs else None


def case_of(
    x: exp.Expr, pairs: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None
) -> exp.Expr:
    """Choose by equality, for which NULL is like any other value."""
    ifs = []
    for value, result in pairs:
        same = exp.Is if isinstance(value, exp.Null) else exp.EQ
        ifs.append(exp.If(this=same(this=x.copy(), expression=value.copy()), true=result.copy()))
    return exp.Case(ifs=ifs, default=default)


def part_of(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    if isinstance(node, exp.Extract):
        return node.this.name.casefold(), node.expression
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        return str(node.name).casefold(), node.expressions[0]
    return None


def if_(args: Call) -> exp.Expr | None:
    """IFF(test, a, b)."""
    if len(args) != 3:
        return None
    test, yes, no = (a.copy() for a in args)
    return exp.Case(ifs=[exp.If(this=test, true=yes)], default=no)


def nvl2(args: Call) -> exp.Expr | None:
    there = exp.Not(this=exp.Is(this=args[0].copy(), expression=exp.Null())) if args else None
    return None if there is None else if_([there, *args[1:]])


def divided(*, zero: bool, null: bool = False) -> Callable[[Call], exp.Expr | None]:
    """SAFE_DIVIDE and DIV0: by zero the result is NULL, or zero."""

    def change(args: Call) -> exp.Expr | None:
        if len(args) != 2:
            return None
        top, bottom = (exp.paren(a.copy(), copy=False) for a in args)
        quotient: exp.Expr = exp.paren(exp.Div(this=top, expression=bottom), copy=False)
        if zero:
            nought = exp.Literal.number(0)
            quotient = case_of(args[1], [(nought, nought)], quotient)
        return calling("COALESCE", quotient, exp.Literal.number(0)) if null else quotient

    return change


def with_zero(name: str) -> Callable[[Call], exp.Expr | None]:
    return lambda args: calling(name, *args, exp.Literal.number(0)) if len(args) == 1 else None


def unique(args: Call) -> exp.Expr | None:
    if len(args) != 1 or isinstance(args[0], exp.Star):
        return None
    return count_different(args[0])


def size(args: Call) -> exp.Expr | None:
    return None if args else count_rows()


def percentile(args: Call) -> exp.Expr | None:
    """APPROX_PERCENTILE(x, q, accuracy): the accuracy is that of a sketch."""
    return calling("QUANTILE", *args[:2]) if len(args) == 3 else None


def steps(args: Call) -> exp.Expr | None:
    """RANGE_BUCKET(x, [10, 20]): how many of the bounds are not above x."""
    bounds = args[1].expressions if len(args) == 2 and isinstance(args[1], exp.Array) else []
    numbers = [integer(b) for b in bounds]
    plain = [n for n in numbers if n is not None]
    if not plain or len(plain) < len(numbers) or plain != sorted(set(plain)):
        return None
    ifs = [
        exp.If(this=exp.LT(this=args[0].copy(), expression=b.copy()), true=exp.Literal.number(i))
        for i, b in enumerate(bounds)
    ]
    last = exp.GTE(this=args[0].copy(), expression=bounds[-1].copy())
    ifs.append(exp.If(this=last, true=exp.Literal.number(len(bounds))))
    return exp.Case(ifs=ifs)


def cut(args: Call) -> exp.Expr | None:
    """Name intervals that hold their upper end, as CUT(x, [0, 18, 65]) of pandas does."""
    bounds = args[1].expressions if len(args) == 2 and isinstance(args[1], exp.Array) else []
    numbers = [n for b in bounds if (n := integer(b)) is not None]
    if len(numbers) < len(bounds) or len(numbers) < 2 or numbers != sorted(set(numbers)):
        return None
    ifs = []
    for low, high in itertools.pairwise(bounds):
        above = exp.GT(this=args[0].copy(), expression=low.copy())
        below = exp.LTE(this=args[0].copy(), expression=high.copy())
        name = literal(f"({low.sql()}, {high.sql()}]")
        ifs.append(exp.If(this=exp.and_(above, below), true=name))
    return exp.Case(ifs=ifs)


_TRUNCS: Final = {
    "MM": "month", "MON": "month", "MONTH": "month", "YY": "year", "YYYY": "year", "YEAR": "year",
    "Q": "quarter", "QUARTER": "quarter", "IW": "week", "DD": "day", "DAY": "day",
}  # fmt: skip


def truncated(args: Call) -> exp.Expr | None:
    """TRUNC(date, 'MM')."""
    word = args[1] if len(args) == 2 else None
    unit = _TRUNCS.get(word.name.upper()) if word is not None and word.is_string else None
    return None if unit is None else calling("DATE_TRUNC", literal(unit), args[0])


def one_of_quantiles(call: exp.Expr, place: exp.Expr) -> exp.Expr | None:
    """APPROX_QUANTILES(x, 4)[OFFSET(2)]."""
    name = str(call.name).upper()
    word = str(place.name).upper() if isinstance(place, exp.Anonymous) else ""
    first = {"OFFSET": 0, "SAFE_OFFSET": 0, "ORDINAL": 1, "SAFE_ORDINAL": 1}.get(word)
    if name != "APPROX_QUANTILES" or first is None or len(call.expressions) != 2:
        return None
    pieces = integer(call.expressions[1])
    at = integer(place.expressions[0]) if len(place.expressions) == 1 else None
    if not pieces or at is None or not 0 <= at - first <= pieces:
        return None
    x, share = call.expressions[0], (exp.Literal.number(n) for n in (at - first, pieces))
    if at - first in (0, pieces):
        return calling("MAX" if at > first else "MIN", x)
    top, bottom = share
    return calling("QUANTILE", x, exp.Div(this=top, expression=bottom))


def one_of_pieces(call: exp.Expr, place: exp.Expr) -> exp.Expr | None:
    """SPLIT(x, '.')[0]: lists begin with 0 wherever they come from SPLIT."""
    word = str(place.name).upper() if isinstance(place, exp.Anonymous) else "OFFSET"
    args = place.expressions if isinstance(place, exp.Anonymous) else [place]
    at = integer(args[0]) if len(args) == 1 else None
    if str(call.name).upper() != "SPLIT" or len(call.expressions) != 2 or at is None:
        return None
    first = {"OFFSET": 0, "SAFE_OFFSET": 0, "ORDINAL": 1, "SAFE_ORDINAL": 1}.get(word)
    mark = str(call.expressions[1].name)
    mark = mark.lstrip("\\") or mark  # Spark reads a regular expression here
    if first is None or len(mark) != 1 or at < first:
        return None
    piece = exp.Literal.number(at - first + 1)
    return calling("SPLIT_PART", call.expressions[0], literal(mark), piece)


def first_piece(args: Call) -> exp.Expr | None:
    """SUBSTRING_INDEX(x, '.', 1): what stands before the first one."""
    first = len(args) == 3 and integer(args[2]) == 1
    return calling("SPLIT_PART", *args) if first else None


def padded(args: Call) -> exp.Expr | None:
    """LPAD(MONTH(d), 2, '0')."""
    number = args[0] if len(args) == 3 else None
    number = number.this if isinstance(number, exp.Cast) else number
    part = None if number is None else part_of(number)
    letter = {"month": "%m", "day": "%d", "hour": "%H"}.get(part[0]) if part else None
    plain = letter and integer(args[1]) == 2 and args[2].name == "0"
    return calling("STRFTIME", part[1], literal(letter)) if part and letter and plain else None


def instant(args: Call) -> exp.Expr | None:
    """TIMESTAMP(x): a date is an instant already."""
    if len(args) != 1:
        return None
    literal = isinstance(args[0], exp.Literal)
    return exp.cast(args[0].copy(), "TIMESTAMP") if literal else args[0].copy()


def count_of(args: Call) -> exp.Expr | None:
    return count_rows() if len(args) == 1 and isinstance(args[0], exp.Star) else None


def aggregate_where(name: str) -> Callable[[Call], exp.Expr | None]:
    """SUMIF(x, test): an aggregate of the rows that pass."""

    def change(args: Call) -> exp.Expr | None:
        if len(args) != 2 or isinstance(args[1], exp.Literal):
            return None
        return calling(name, exp.Case(ifs=[exp.If(this=args[1].copy(), true=args[0].copy())]))

    return change


def counted_where(args: Call) -> exp.Expr | None:
    """COUNTIFS(x, 1, y, 2): rows in which each value is the one that follows it."""
    if args and all(isinstance(a, exp.Predicate | exp.Connector) for a in args):
        return calling("COUNTIF", exp.and_(*(a.copy() for a in args)))
    pairs = list(zip(args[::2], args[1::2], strict=False))
    constant = all(isinstance(v, exp.Literal | exp.Boolean) for _, v in pairs)
    if not pairs or len(args) % 2 or not constant:
        return None
    tests = [exp.EQ(this=x.copy(), expression=v.copy()) for x, v in pairs]
    return calling("COUNTIF", exp.and_(*tests))


def given_first(name: str) -> Callable[[Call], exp.Expr | None]:
    """AVERAGEIF(test, x), and AVERAGEIF(range, value, x) as spreadsheets have it."""

    def change(args: Call) -> exp.Expr | None:
        if len(args) == 3 and isinstance(args[1], exp.Literal | exp.Boolean):
            args = [args[2], exp.EQ(this=args[0].copy(), expression=args[1].copy())]
        elif len(args) == 2 and isinstance(args[0], exp.Predicate | exp.Connector):
            args = args[::-1]
        return aggregate_where(name)(args)

    return change


def summed_product(args: Call) -> exp.Expr | None:
    """SUMPRODUCT(x, y)."""
    if len(args) < 2:
        return None
    product: exp.Expr = exp.paren(args[0].copy(), copy=False)
    for arg in args[1:]:
        product = exp.Mul(this=product, expression=exp.paren(arg.copy(), copy=False))
    return calling("SUM", product)


def same(args: Call) -> exp.Expr | None:
    """EQUAL_NULL(x, 'a'): an equality that is false where x is NULL."""
    if len(args) != 2 or not isinstance(args[1], exp.Literal):
        return None
    test = exp.EQ(this=args[0].copy(), expression=args[1].copy())
    return calling("COALESCE", test, exp.false())


VALUES: Final[dict[str, Callable[[Call], exp.Expr | None]]] = {
    "ISNULL": isnull,
    "DECODE": decode,
    "CHOOSE": choose,
    **dict.fromkeys(("IF", "IFF", "IIF"), if_),
    "NVL2": nvl2,
    "SAFE_DIVIDE": divided(zero=False),
    "DIV0": divided(zero=True),
    "DIV0NULL": divided(zero=True, null=True),
    "ZEROIFNULL": with_zero("COALESCE"),
    "NULLIFZERO": with_zero("NULLIF"),
    "NUNIQUE": unique,
    "SIZE": size,
    **{f"{name}IF": given_first(name) for name in ("SUM", "AVG", "MIN", "MAX")},
    "AVERAGEIF": given_first("AVG"),
    "SUMPRODUCT": summed_product,
    "COUNTIFS": counted_where,
    "EQUAL_NULL": same,
    "APPROX_PERCENTILE": percentile,
    "RANGE_BUCKET": steps,
    "TRUNC": truncated,
    "CUT": cut,
    "SUBSTRING_INDEX": first_piece,
    "LPAD": padded,
    **dict.fromkeys(("TIMESTAMP", "DATETIME"), instant),
    "LEN": count_of,
}
"""Calls that are written anew, by name."""
