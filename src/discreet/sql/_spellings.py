"""What other databases call it: their spellings, written as ours.

The same question is written ``DATEPART(month, d)``, ``DATE_TRUNC(d, MONTH)`` or ``DATEADD(day, 7,
d)`` elsewhere. Each is rewritten here, in the syntax tree, where it means exactly one thing. What
means different things in different databases (WEEKDAY, or a WEEK that begins on Sunday elsewhere)
is refused, with a spelling that is certain.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
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
    "COUNT_BIG": "COUNT", "RLIKE": "REGEXP_LIKE", "ADDDATE": "DATE_ADD", "SUBDATE": "DATE_SUB",
    "COUNT_DISTINCT": "NUNIQUE", "N_UNIQUE": "NUNIQUE", "PERCENTILE_APPROX": "APPROX_PERCENTILE",
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
_TYPES: Final = {"FLOAT64": "DOUBLE", "SIGNED": "BIGINT", "UNSIGNED": "BIGINT"}
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
            return _call_changed(node)
        case exp.Fetch(args={"count": exp.Literal() as count}):
            return exp.Limit(expression=count.copy())
        case exp.Window(this=exp.Anonymous() as call) if call.name.upper() == "RATIO_TO_REPORT":
            total = node.copy()
            total.this.set("this", "SUM")
            return exp.Div(this=call.expressions[0].copy(), expression=total)
        case exp.If() if not isinstance(node.parent, exp.Case):
            return _if([node.this, node.args["true"], node.args.get("false") or exp.Null()])
        case exp.DataType(args={"kind": str() as kind}) if kind.upper() in _TYPES:
            return exp.DataType.build(_TYPES[kind.upper()])
        case exp.Bracket(this=exp.Anonymous() as call, expressions=[place]):
            return _one_of_quantiles(call, place) or node
        case exp.Dot(this=exp.Identifier(this="pd" | "np"), expression=call):
            return call  # the name of a library
        case exp.Dot(expression=exp.Anonymous() as call):
            return _method(node.this, call) or node
        case exp.EQ(expression=exp.Any() as choice):
            listed = choice.this.unnest()
            found = isinstance(listed, exp.Array | exp.Tuple)
            return exp.In(this=node.this, expressions=listed.expressions) if found else node
        case exp.Extract(this=part) if part.name.casefold() == "dayofweek":
            _check_weekday(node, node.expression)
        case exp.Extract(this=part, expression=exp.Anonymous() as call):
            return _age(part.name, call) or node
        case exp.GT() | exp.GTE() | exp.NEQ() | exp.EQ():
            return _found(node) or node
    return node


def _call_changed(node: exp.Anonymous) -> exp.Expr:
    name = str(node.name).upper()
    name = RENAMED.get(name, name)
    if name != str(node.name).upper():
        node.set("this", name)
    if name == "DAYOFWEEK" and node.expressions:
        _check_weekday(node, node.expressions[0])
    made = CALLS[name](node.expressions) if name in CALLS else None
    return node if made is None else made


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
        if len(args) == 2 and (days := _whole(args[1])) is not None:
            return _moved(args[0], sign * days, "day")  # as Spark and Hive write it
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


_STYLES: Final = {
    **dict.fromkeys(("20", "21", "23", "120", "121", "126"), "%Y-%m-%d"),
    "112": "%Y%m%d",
}
"""Styles of CONVERT that begin with the year."""


def _convert(args: _Call) -> exp.Expr | None:
    """CONVERT(type, x), and CONVERT(varchar(7), d, 120) of dates."""
    kind = args[0].name.upper() if len(args) in (2, 3) else ""
    if len(args) == 3 and kind in ("VARCHAR", "NVARCHAR", "CHAR", "NCHAR"):
        form, lengths = _STYLES.get(args[2].name), args[0].expressions
        length = 10 if not lengths else _whole(lengths[0])
        # so many characters of a date are its first fields, where they end with one
        cut = {4: "%Y", 6: "%Y%m", 7: "%Y-%m", 8: "%Y%m%d"}.get(length or 0, form)
        fits = form is not None and cut is not None and form.startswith(cut)
        return _call("STRFTIME", args[1], _text(cut)) if fits and (length or 0) != 9 else None
    known = {t.value for t in exp.DataType.Type}
    return exp.cast(args[1].copy(), kind) if kind in known else None


_NUMERIC: Final = (
    ("YYYY", "%Y"), ("yyyy", "%Y"), ("MM", "%m"), ("DD", "%d"), ("dd", "%d"), ("HH24", "%H"),
    ("HH", "%H"), ("MI", "%M"), ("mi", "%M"), ("SS", "%S"), ("ss", "%S"), ("%i", "%M"),
    ("%s", "%S"), ("%T", "%H:%M:%S"), ("%F", "%Y-%m-%d"),
)  # fmt: skip


def _dated(kind: str, *, form_first: bool = False) -> Callable[[_Call], exp.Expr | None]:
    """TO_DATE of what is a date, or of a constant that is written as one by a format."""

    def change(args: _Call) -> exp.Expr | None:
        if len(args) == 1:
            return exp.cast(args[0].copy(), kind)
        given, form = args[::-1] if form_first else args
        if not all(isinstance(a, exp.Literal) and a.is_string for a in (given, form)):
            return exp.cast(given.copy(), kind) if form.name in _ISO else None
        pattern = str(form.this)
        for letters, sign in _NUMERIC:
            pattern = pattern.replace(letters, sign)
        try:
            moment = dt.datetime.strptime(str(given.this), pattern)  # noqa: DTZ007 - naive throughout
        except ValueError:
            return None
        written = moment.date().isoformat() if kind == "DATE" else moment.isoformat(" ")
        return exp.cast(_text(written), kind)

    return lambda args: change(args) if 1 <= len(args) <= 2 else None


_ISO: Final = frozenset({"YYYY-MM-DD", "%Y-%m-%d", "yyyy-MM-dd"})


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


_MYSQL: Final = {"M": "%B", "W": "%A", "x": "%G", "v": "%V", **{c: f"%{c}" for c in "YmdHbaj%"}}


def _date_format(args: _Call) -> exp.Expr | None:
    """DATE_FORMAT of Spark, or of MySQL with its own letters: %M is a month's name."""
    pattern = args[1] if len(args) == 2 else None
    if not isinstance(pattern, exp.Literal) or "%" not in pattern.name:
        return _format(args)
    pieces = re.split("%(.)", str(pattern.this))  # every second piece is a letter
    if any(letter not in _MYSQL for letter in pieces[1::2]):
        return None
    pieces[1::2] = [_MYSQL[letter] for letter in pieces[1::2]]
    return _call("STRFTIME", args[0], _text("".join(pieces)))


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


def _if(args: _Call) -> exp.Expr | None:
    """IFF(test, a, b)."""
    if len(args) != 3:
        return None
    test, yes, no = (a.copy() for a in args)
    return exp.Case(ifs=[exp.If(this=test, true=yes)], default=no)


def _nvl2(args: _Call) -> exp.Expr | None:
    there = exp.Not(this=exp.Is(this=args[0].copy(), expression=exp.Null())) if args else None
    return None if there is None else _if([there, *args[1:]])


def _divided(*, zero: bool, null: bool = False) -> Callable[[_Call], exp.Expr | None]:
    """SAFE_DIVIDE and DIV0: by zero the result is NULL, or zero."""

    def change(args: _Call) -> exp.Expr | None:
        if len(args) != 2:
            return None
        top, bottom = (exp.paren(a.copy(), copy=False) for a in args)
        made: exp.Expr = exp.paren(exp.Div(this=top, expression=bottom), copy=False)
        if zero:
            nought = exp.Literal.number(0)
            made = _case(args[1], [(nought, nought)], made)
        return _call("COALESCE", made, exp.Literal.number(0)) if null else made

    return change


def _with_zero(name: str) -> Callable[[_Call], exp.Expr | None]:
    return lambda args: _call(name, *args, exp.Literal.number(0)) if len(args) == 1 else None


def _unique(args: _Call) -> exp.Expr | None:
    if len(args) != 1 or isinstance(args[0], exp.Star):
        return None
    return exp.Anonymous(this="COUNT", expressions=[exp.Distinct(expressions=[args[0].copy()])])


def _size(args: _Call) -> exp.Expr | None:
    return None if args else exp.Anonymous(this="COUNT", expressions=[exp.Star()])


def _percentile(args: _Call) -> exp.Expr | None:
    """APPROX_PERCENTILE(x, q, accuracy): the accuracy is that of a sketch."""
    return _call("QUANTILE", *args[:2]) if len(args) == 3 else None


def _steps(args: _Call) -> exp.Expr | None:
    """RANGE_BUCKET(x, [10, 20]): how many of the bounds are not above x."""
    bounds = args[1].expressions if len(args) == 2 and isinstance(args[1], exp.Array) else []
    numbers = [_whole(b) for b in bounds]
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


def _cut(args: _Call) -> exp.Expr | None:
    """Name intervals that hold their upper end, as CUT(x, [0, 18, 65]) of pandas does."""
    bounds = args[1].expressions if len(args) == 2 and isinstance(args[1], exp.Array) else []
    numbers = [n for b in bounds if (n := _whole(b)) is not None]
    if len(numbers) < len(bounds) or len(numbers) < 2 or numbers != sorted(set(numbers)):
        return None
    ifs = []
    for low, high in itertools.pairwise(bounds):
        above = exp.GT(this=args[0].copy(), expression=low.copy())
        below = exp.LTE(this=args[0].copy(), expression=high.copy())
        name = _text(f"({low.sql()}, {high.sql()}]")
        ifs.append(exp.If(this=exp.and_(above, below), true=name))
    return exp.Case(ifs=ifs)


_TRUNCS: Final = {
    "MM": "month", "MON": "month", "MONTH": "month", "YY": "year", "YYYY": "year", "YEAR": "year",
    "Q": "quarter", "QUARTER": "quarter", "IW": "week", "DD": "day", "DAY": "day",
}  # fmt: skip


def _truncated(args: _Call) -> exp.Expr | None:
    """TRUNC(date, 'MM')."""
    word = args[1] if len(args) == 2 else None
    unit = _TRUNCS.get(word.name.upper()) if word is not None and word.is_string else None
    return None if unit is None else _call("DATE_TRUNC", _text(unit), args[0])


def _one_of_quantiles(call: exp.Expr, place: exp.Expr) -> exp.Expr | None:
    """APPROX_QUANTILES(x, 4)[OFFSET(2)]."""
    name = str(call.name).upper()
    word = str(place.name).upper() if isinstance(place, exp.Anonymous) else ""
    first = {"OFFSET": 0, "SAFE_OFFSET": 0, "ORDINAL": 1, "SAFE_ORDINAL": 1}.get(word)
    if name != "APPROX_QUANTILES" or first is None or len(call.expressions) != 2:
        return None
    pieces, at = _whole(call.expressions[1]), _whole(place.expressions[0])
    if not pieces or at is None or not 0 <= at - first <= pieces:
        return None
    x, share = call.expressions[0], (exp.Literal.number(n) for n in (at - first, pieces))
    if at - first in (0, pieces):
        return _call("MAX" if at > first else "MIN", x)
    top, bottom = share
    return _call("QUANTILE", x, exp.Div(this=top, expression=bottom))


METHODS: Final = {
    **{n: n for n in ("MEAN", "SUM", "MEDIAN", "STD", "VAR", "MIN", "MAX", "COUNT", "QUANTILE")},
    "NUNIQUE": "NUNIQUE", "MODE": "MODE", "ROUND": "ROUND", "ABS": "ABS",
}  # fmt: skip
"""Methods of pandas that are calls here: ``price.mean()``."""


def _method(owner: exp.Expr, call: exp.Expr) -> exp.Expr | None:
    name = METHODS.get(str(call.name).upper())
    parts = [p.strip() for p in owner.sql().split(".")] if name else []
    if name is None or not all(isinstance(n, exp.Dot | exp.Identifier) for n in owner.walk()):
        return None
    column = exp.to_column(".".join(parts[-2:]))
    made = exp.Anonymous(this=name, expressions=[column, *(a.copy() for a in call.expressions)])
    return _changed(made)


_COMPARED: Final = (exp.Where, exp.Case, exp.If, exp.Filter, exp.Having, exp.Predicate)


def _check_weekday(node: exp.Expr, day: exp.Expr) -> None:
    """Refuse DAYOFWEEK in a condition: its numbers differ between databases.

    As a key or in an average the number is shown, and the answer says how days are counted.
    """
    above = node.parent
    while above is not None and not isinstance(above, exp.Select):
        if isinstance(above, _COMPARED):
            raise UnsupportedQueryError(
                "DAYOFWEEK of Sunday is 1 in MySQL, BigQuery and Spark, and 0 in DuckDB and "
                "Snowflake: write DOW, from 0 (Sunday) to 6, or ISODOW, from 1 (Monday) to 7",
                hint=_call("DOW", day).sql(),
            )
        above = above.parent


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
    **dict.fromkeys(("TO_DATE", "STR_TO_DATE"), _dated("DATE")),
    "TO_TIMESTAMP": _dated("TIMESTAMP"),
    "PARSE_DATE": _dated("DATE", form_first=True),
    **dict.fromkeys(("IF", "IFF", "IIF"), _if),
    "NVL2": _nvl2,
    "SAFE_DIVIDE": _divided(zero=False),
    "DIV0": _divided(zero=True),
    "DIV0NULL": _divided(zero=True, null=True),
    "ZEROIFNULL": _with_zero("COALESCE"),
    "NULLIFZERO": _with_zero("NULLIF"),
    "NUNIQUE": _unique,
    "SIZE": _size,
    "APPROX_PERCENTILE": _percentile,
    "RANGE_BUCKET": _steps,
    "TRUNC": _truncated,
    "CUT": _cut,
    "STARTS_WITH": _like("", "%"),
    "ENDS_WITH": _like("%", ""),
    "CONTAINS": _like("%", "%"),
    "FORMAT": _format,
    "DATE_FORMAT": _date_format,
    "TIME_BUCKET": _bucket,
    **dict.fromkeys(("MAKE_DATE", "DATEFROMPARTS", "DATE_FROM_PARTS"), _first_day),
}
"""Calls that are written anew; None leaves them as they are."""
