"""What other databases call it: their spellings, written as ours.

The same question is written ``DATEPART(month, d)``, ``DATE_TRUNC(d, MONTH)`` or ``DATEADD(day, 7,
d)`` elsewhere. Each is rewritten here, in the syntax tree, where it means exactly one thing. What
means different things in different databases (WEEKDAY, or a WEEK that begins on Sunday elsewhere)
is refused, with a spelling that is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from discreet.errors import UnsupportedQueryError

RENAMED: Final = {
    "STDEV": "STDDEV", "STDEVP": "STDDEV_POP", "VARP": "VAR_POP", "PERCENTILE": "QUANTILE",
    "FORMAT_DATE": "STRFTIME", "FORMAT_DATETIME": "STRFTIME", "FORMAT_TIMESTAMP": "STRFTIME",
    "TRUNCATE": "TRUNC", "EOMONTH": "LAST_DAY",
    "TIMESTAMP_TRUNC": "DATE_TRUNC", "DATETIME_TRUNC": "DATE_TRUNC",
    "DATETIME_DIFF": "DATEDIFF",
    "STARTSWITH": "STARTS_WITH", "ENDSWITH": "ENDS_WITH",
}  # fmt: skip
"""Names that mean the same as one of ours, arguments and all."""
_UNITS: Final = {
    **{u: u for u in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")},
    "isoweek": "week", "iso_week": "week", "dayofyear": "doy", "yy": "year",
    "yyyy": "year", "qq": "quarter", "q": "quarter",
    "mm": "month", "wk": "week", "ww": "week", "dd": "day", "d": "day",
    "hh": "hour", "mi": "minute", "n": "minute", "ss": "second", "s": "second", "dy": "doy",
    "doy": "doy", "dow": "dow", "isodow": "isodow", "isoyear": "isoyear", "epoch": "epoch",
    "years": "year", "months": "month", "weeks": "week", "days": "day", "hours": "hour",
    "minutes": "minute", "seconds": "second",
}  # fmt: skip
NOW: Final = frozenset({"NOW", "GETDATE", "SYSDATE", "CURRENT_TIMESTAMP", "SYSDATETIME"})
TODAY: Final = frozenset({"CURRENT_DATE", "TODAY", "CURDATE"})
FINDS: Final = frozenset({"POSITION", "STRPOS", "CHARINDEX", "INSTR"})
_FORMAT: Final = (
    ("yyyy", "%Y"), ("MMMM", "%B"), ("MMM", "%b"), ("MM", "%m"), ("dddd", "%A"), ("EEEE", "%A"),
    ("ddd", "%a"), ("EEE", "%a"), ("dd", "%d"), ("HH", "%H"),
)  # fmt: skip
_WEEKS: Final = frozenset({"week", "weeks", "wk", "ww"})
_SUNDAYS: Final = {"DATETRUNC": "DATE_TRUNC", "DATEPART": "DATE_PART", "DATEDIFF": "DATEDIFF"}
"""Names under which a bare WEEK is one of Sundays somewhere, and ours for each."""
_Call = Sequence[exp.Expr]


def ours(root: exp.Expr) -> exp.Expr:
    """Write a tree as we would have written it, from the leaves up."""
    for node in reversed(list(root.walk())):
        made = _changed(node)
        if made is not node:
            node.replace(made)
            root = made if node is root else root
    return root


def _changed(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Anonymous():
            name = str(node.name).upper()
            name = RENAMED.get(name, name)
            if name != str(node.name).upper():
                node.set("this", name)
            made = CALLS[name](node.expressions) if name in CALLS else None
            return node if made is None else made
        case exp.Fetch(args={"count": exp.Literal() as count}):
            return exp.Limit(expression=count.copy())
        case exp.Window(this=exp.Anonymous() as call) if call.name.upper() == "RATIO_TO_REPORT":
            total = node.copy()
            total.this.set("this", "SUM")
            return exp.Div(this=call.expressions[0].copy(), expression=total)
        case exp.EQ(expression=exp.Any() as choice):
            listed = choice.this.unnest()
            found = isinstance(listed, exp.Array | exp.Tuple)
            return exp.In(this=node.this, expressions=listed.expressions) if found else node
        case exp.Extract(this=part, expression=exp.Anonymous() as call):
            return _age(part.name, call) or node
        case exp.GT() | exp.GTE() | exp.NEQ() | exp.EQ():
            return _found(node) or node
    return node


def _call(name: str, *args: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[a.copy() for a in args])


def _text(text: str) -> exp.Literal:
    return exp.Literal.string(text)


def _unit(node: exp.Expr) -> str | None:
    """A unit of time, written as a bare word or in quotes."""
    plain = isinstance(node, exp.Column) and not node.args.get("table")
    word = node.name if plain or (isinstance(node, exp.Literal) and node.is_string) else ""
    return _UNITS.get(str(word).casefold())


def _unit_first(name: str, *, swap: bool = False) -> Callable[[_Call], exp.Expr | None]:
    """Write the unit first and in quotes; where it stood last, `swap` what stood before it."""

    def change(args: _Call) -> exp.Expr | None:
        if len(args) < 2 or (_unit(args[0]) and _unit(args[-1])):
            return None  # a column may be called like a unit
        if _unit(args[0]) is not None:
            return _by_unit(name, args[0], args[1:])
        return _by_unit(name, args[-1], args[-2::-1] if swap else args[:-1], last=True)

    return change


def _by_unit(name: str, word: exp.Expr, rest: _Call, *, last: bool = False) -> exp.Expr | None:
    """Call `name` with its unit in quotes.

    A bare WEEK that stood `last`, or in a call of `_SUNDAYS`, is refused where it is a week of the
    calendar: it begins on Sunday where people write it so.
    """
    if (unit := _unit(word)) is None:
        return None
    made = _call(_SUNDAYS.get(name, name), _text(unit), *rest)
    bare = isinstance(word, exp.Column) and word.name.casefold() in _WEEKS
    if bare and name != "TIMESTAMPDIFF" and (last or name in _SUNDAYS):
        raise UnsupportedQueryError(
            "written like this, a week begins on Sunday in some databases and on Monday in "
            "others: write 'week' first and in quotes for weeks that begin on Monday",
            hint=made.sql(),
        )
    return made


def _shift(sign: int) -> Callable[[_Call], exp.Expr | None]:
    """DATEADD(unit, n, x), DATE_ADD(x, INTERVAL n unit)."""

    def change(args: _Call) -> exp.Expr | None:
        if len(args) == 2 and isinstance(args[1], exp.Interval):
            moved = exp.Add if sign > 0 else exp.Sub
            return exp.paren(moved(this=args[0].copy(), expression=args[1].copy()), copy=False)
        count = _whole(args[1]) if len(args) == 3 else None
        unit = _unit(args[0]) if args else None
        return None if count is None or unit is None else _moved(args[2], sign * count, unit)

    return change


def _moved(moment: exp.Expr, count: int, unit: str) -> exp.Expr:
    span = exp.Interval(this=_text(str(count)), unit=exp.Var(this=unit.upper()))
    return exp.paren(exp.Add(this=moment.copy(), expression=span), copy=False)


def _whole(node: exp.Expr) -> int | None:
    sign = -1 if isinstance(node, exp.Neg) else 1
    node = node.this if isinstance(node, exp.Neg) else node
    number = isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()
    return sign * int(str(node.this)[:9]) if number else None


def _months(args: _Call) -> exp.Expr | None:
    count = _whole(args[1]) if len(args) == 2 else None
    return None if count is None else _moved(args[0], count, "month")


def _isnull(args: _Call) -> exp.Expr | None:
    if len(args) == 1:
        return exp.paren(exp.Is(this=args[0].copy(), expression=exp.Null()), copy=False)
    return _call("COALESCE", *args)


def _decode(args: _Call) -> exp.Expr | None:
    pairs = list(zip(args[1::2], args[2::2], strict=False))
    default = args[-1].copy() if len(args) % 2 == 0 and pairs else None
    return _case(args[0], pairs, default) if pairs else None


def _choose(args: _Call) -> exp.Expr | None:
    pairs = [(exp.Literal.number(i), value) for i, value in enumerate(args[1:], 1)]
    return _case(args[0], pairs, None) if pairs else None


def _case(
    x: exp.Expr, pairs: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None
) -> exp.Expr:
    """Choose by equality, for which NULL is like any other value."""
    ifs = []
    for value, result in pairs:
        same = exp.Is if isinstance(value, exp.Null) else exp.EQ
        ifs.append(exp.If(this=same(this=x.copy(), expression=value.copy()), true=result.copy()))
    return exp.Case(ifs=ifs, default=default)


def _convert(args: _Call) -> exp.Expr | None:
    """CONVERT(type, x)."""
    kind = args[0].name.upper() if len(args) == 2 else ""
    known = {t.value for t in exp.DataType.Type}
    return exp.cast(args[1].copy(), kind) if kind in known else None


def _dated(kind: str) -> Callable[[_Call], exp.Expr | None]:
    """TO_DATE of what is a date, or is written as one."""
    formats = {"YYYY-MM-DD", "%Y-%m-%d", "yyyy-MM-dd"}

    def change(args: _Call) -> exp.Expr | None:
        plain = len(args) == 1 or (len(args) == 2 and args[1].name in formats)
        return exp.cast(args[0].copy(), kind) if plain else None

    return change


def _like(before: str, after: str) -> Callable[[_Call], exp.Expr | None]:
    """A test for a constant piece of text."""

    def change(args: _Call) -> exp.Expr | None:
        piece = args[1] if len(args) == 2 else None
        if not isinstance(piece, exp.Literal) or not piece.is_string:
            return None
        return _liked(args[0], before, str(piece.this), after)

    return change


def _liked(x: exp.Expr, before: str, piece: str, after: str) -> exp.Expr:
    escaped = "".join(f"!{c}" if c in "!%_" else c for c in piece)
    test = exp.Like(this=x.copy(), expression=_text(before + escaped + after))
    return exp.Escape(this=test, expression=_text("!")) if escaped != piece else test


def _found(node: exp.Expr) -> exp.Expr | None:
    """POSITION('@' IN x) > 0, and its relatives, as LIKE."""
    call, least = node.this.unnest(), _whole(node.expression)
    wanted = int(isinstance(node, exp.GTE))
    test = _held(call) if least == wanted else None
    if test is None:
        return None
    return exp.Not(this=exp.paren(test, copy=False)) if isinstance(node, exp.EQ) else test


def _held(call: exp.Expr) -> exp.Expr | None:
    """Test whether a text holds the constant piece that POSITION or a relative looks for."""
    name = str(call.name).upper() if isinstance(call, exp.Anonymous) else ""
    args = call.expressions if name in FINDS else []
    if args and isinstance(args[0], exp.In):
        args = [args[0].this, args[0].args.get("field")]
    elif name in ("STRPOS", "INSTR"):
        args = args[::-1]
    piece, x = (args[0], args[1]) if len(args) == 2 else (None, None)
    if not isinstance(piece, exp.Literal) or not piece.is_string or x is None:
        return None
    return _liked(x, "%", str(piece.this), "%")


def contained(call: exp.Expr) -> str | None:
    """LIKE in the place of a POSITION that is compared with nothing."""
    compared = isinstance(call.parent, exp.Binary | exp.Between | exp.In)
    test = None if compared else _held(call)
    return None if test is None else test.sql()


def _age(part: str, call: exp.Expr) -> exp.Expr | None:
    """EXTRACT(YEAR FROM AGE(end, start)): full years."""
    is_age = isinstance(call, exp.Anonymous) and str(call.name).upper() == "AGE"
    if not is_age or len(call.expressions) != 2 or part.casefold() not in ("year", "years"):
        return None
    end, start = call.expressions
    return _call("TIMESTAMPDIFF", _text("year"), start, end)


def _part(name: str) -> Callable[[_Call], exp.Expr | None]:
    def change(args: _Call) -> exp.Expr | None:
        if len(args) != 2:
            return None
        made = _age(args[0].name, args[1]) or _by_unit(name, args[0], args[1:])
        if made is None and isinstance(args[0], exp.Column):  # a part that we name and refuse
            return _call("DATE_PART", _text(args[0].name), args[1])
        return made

    return change


def _datename(args: _Call) -> exp.Expr | None:
    word = args[0].name.casefold() if len(args) == 2 else ""
    name = {"month": "MONTHNAME", "mm": "MONTHNAME", "weekday": "DAYNAME", "dw": "DAYNAME"}
    return _call(name[word], args[1]) if word in name else None


def _format(args: _Call) -> exp.Expr | None:
    """FORMAT(x, 'yyyy-MM')."""
    pattern = args[1] if len(args) == 2 else None
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or "%" in pattern.name:
        return None
    made, rest = "", str(pattern.this)
    while rest:
        letters, sign = next((p for p in _FORMAT if rest.startswith(p[0])), (rest[0], rest[0]))
        if sign.isalpha():  # a field that we do not write, which is no text either
            return None
        made, rest = made + sign, rest[len(letters) :]
    return _call("STRFTIME", args[0], _text(made))


def _bucket(args: _Call) -> exp.Expr | None:
    """TIME_BUCKET(INTERVAL '1 week', x)."""
    span = args[0] if len(args) == 2 else None
    if not isinstance(span, exp.Interval) or span.this.name != "1" or span.args.get("unit") is None:
        return None
    unit = _UNITS.get(span.args["unit"].name.casefold())
    return None if unit is None else _call("DATE_TRUNC", _text(unit), args[1])


def _first_day(args: _Call) -> exp.Expr | None:
    """MAKE_DATE(YEAR(x), MONTH(x), 1), as it begins the month of x."""
    parts = [_part_of(a) for a in args[:2]]
    if len(args) != 3 or None in parts or _whole(args[2]) != 1:
        return None
    (year, x), (month, y) = (p for p in parts if p is not None)
    same = (year, month) == ("year", "month") and x == y
    return _call("DATE_TRUNC", _text("month"), x) if same else None


def _part_of(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    if isinstance(node, exp.Extract):
        return node.this.name.casefold(), node.expression
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        return str(node.name).casefold(), node.expressions[0]
    return None


CALLS: Final[dict[str, Callable[[_Call], exp.Expr | None]]] = {
    **dict.fromkeys(NOW, lambda args: None if args else exp.CurrentTimestamp()),
    **dict.fromkeys(TODAY, lambda args: None if args else exp.CurrentDate()),
    **{n: _unit_first(n) for n in ("DATE_TRUNC", "DATETRUNC", "TIMESTAMPDIFF")},
    **{n: _unit_first(n, swap=True) for n in ("DATEDIFF", "DATE_DIFF")},
    # this one counts whole units, as TIMESTAMPDIFF does; its relatives count boundaries
    "TIMESTAMP_DIFF": _unit_first("TIMESTAMPDIFF", swap=True),
    **{n: _part(n) for n in ("DATE_PART", "DATEPART")},
    "DATENAME": _datename,
    **dict.fromkeys(("DATEADD", "DATE_ADD", "TIMESTAMPADD", "TIMESTAMP_ADD"), _shift(1)),
    **dict.fromkeys(("DATE_SUB", "TIMESTAMP_SUB"), _shift(-1)),
    "ADD_MONTHS": _months,
    "ISNULL": _isnull,
    "DECODE": _decode,
    "CHOOSE": _choose,
    "CONVERT": _convert,
    "TO_DATE": _dated("DATE"),
    "TO_TIMESTAMP": _dated("TIMESTAMP"),
    "STARTS_WITH": _like("", "%"),
    "ENDS_WITH": _like("%", ""),
    "CONTAINS": _like("%", "%"),
    "FORMAT": _format,
    "DATE_FORMAT": _format,
    "TIME_BUCKET": _bucket,
    **dict.fromkeys(("MAKE_DATE", "DATEFROMPARTS", "DATE_FROM_PARTS"), _first_day),
}
"""Calls that are written anew; None leaves them as they are."""
