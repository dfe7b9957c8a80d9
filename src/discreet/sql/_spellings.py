"""What other databases call it: their spellings, written as ours.

The same question is written ``DATEPART(month, d)``, ``DATE_TRUNC(d, MONTH)`` or ``DATEADD(day, 7,
d)`` elsewhere. Each is rewritten here, in the syntax tree, where it means exactly one thing. What
means different things in different databases (WEEKDAY, or a WEEK that begins on Sunday elsewhere)
is refused, with a spelling that is certain.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

from sqlglot import exp

from discreet.errors import UnsupportedQueryError
from discreet.sql._values import (
    VALUES,
    Call,
    if_,
    integer,
    literal,
    one_of_pieces,
    one_of_quantiles,
    part_of,
)
from discreet.sql._walk import calling, nodes

RENAMED: Final = {
    "STDEV": "STDDEV", "STDEVP": "STDDEV_POP", "VARP": "VAR_POP", "PERCENTILE": "QUANTILE",
    "FORMAT_DATE": "STRFTIME", "FORMAT_DATETIME": "STRFTIME", "FORMAT_TIMESTAMP": "STRFTIME",
    "TRUNCATE": "TRUNC", "EOMONTH": "LAST_DAY",
    "TIMESTAMP_TRUNC": "DATE_TRUNC", "DATETIME_TRUNC": "DATE_TRUNC",
    "DATETIME_DIFF": "DATEDIFF",
    "STARTSWITH": "STARTS_WITH", "ENDSWITH": "ENDS_WITH",
    "COUNT_BIG": "COUNT", "RLIKE": "REGEXP_LIKE", "ADDDATE": "DATE_ADD", "SUBDATE": "DATE_SUB",
    "COUNT_DISTINCT": "NUNIQUE", "N_UNIQUE": "NUNIQUE", "PERCENTILE_APPROX": "APPROX_PERCENTILE",
    "TO_VARCHAR": "TO_CHAR", "COV": "COVAR_SAMP", "ELT": "CHOOSE", "AVERAGE": "AVG",
    "FAVG": "AVG", "FSUM": "SUM", "SUMKAHAN": "SUM", "KAHAN_SUM": "SUM", "TOTAL": "SUM",
    "SUM_IF": "SUMIF", "AVG_IF": "AVGIF", "RESERVOIR_QUANTILE": "QUANTILE",
    "APPROX_DISTINCT": "NUNIQUE", "NDV": "NUNIQUE", "UNIQ": "NUNIQUE",
    "PEARSON": "CORR", "PEARSONR": "CORR", "CORRELATION": "CORR",
    "EVERY": "BOOL_AND",
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


def ours(root: exp.Expr) -> exp.Expr:
    """Write a tree as we would have written it, from the leaves up."""
    for node in reversed(nodes(root)):
        spelling = _changed(node)
        if spelling is not node:
            node.replace(spelling)
            root = spelling if node is root else root
    return root


def _changed(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Anonymous():
            return _call_changed(node)
        case exp.Fetch(args={"count": exp.Literal() as count}):
            options = node.args.get("limit_options")
            shared = options if options is not None and options.args.get("percent") else None
            return exp.Limit(expression=count.copy(), limit_options=shared)
        case exp.Window(this=exp.Anonymous() as call) if call.name.upper() == "RATIO_TO_REPORT":
            total = node.copy()
            total.this.set("this", "SUM")
            return exp.Div(this=call.expressions[0].copy(), expression=total)
        case exp.If() if not isinstance(node.parent, exp.Case):
            no = node.args.get("false") or exp.Null()
            return if_([node.this, node.args["true"], no]) or node
        case exp.DataType(args={"kind": str() as kind}) if kind.upper() in _TYPES:
            return exp.DataType.build(_TYPES[kind.upper()])
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _distinct(node)
        case exp.EQ(expression=exp.Any() as choice):
            listed = choice.this.unnest()
            found = isinstance(listed, exp.Array | exp.Tuple)
            return exp.In(this=node.this, expressions=listed.expressions) if found else node
        case exp.Extract(this=exp.Anonymous() as part):
            raise UnsupportedQueryError(
                f"EXTRACT({part.sql()} …) is not supported: it counts weeks from the year's first "
                "such day, and calls the days before it week 0; WEEK is the ISO week"
            )
        case exp.Extract(this=part) if part.name.casefold() == "dayofweek":
            _check_weekday(node, node.expression)
        case exp.Extract(this=part, expression=exp.Anonymous() as call):
            return _age(part.name, call) or node
        case exp.GT() | exp.GTE() | exp.NEQ() | exp.EQ() if not isinstance(node.this, exp.Tuple):
            return _search(node) or node
    return _written_so(node)


def _distinct(node: exp.Expr) -> exp.Expr:
    """Write IS [NOT] DISTINCT FROM, and <=>, with IS NULL."""
    left, right = sides = [node.this, node.expression]
    plain = [s.this if isinstance(s, exp.Cast | exp.Neg) else s for s in sides]
    equal = exp.Is(this=exp.paren(exp.EQ(this=left, expression=right)), expression=exp.true())
    nulls = [exp.Is(this=s.copy(), expression=exp.Null()) for s in sides]
    alike: exp.Expr
    if isinstance(right, exp.Null) or isinstance(left, exp.Null):
        alike = nulls[isinstance(left, exp.Null)]
    elif any(isinstance(s, exp.Literal) for s in plain):
        alike = equal
    elif all(isinstance(s, exp.Column) for s in sides):
        alike = exp.or_(equal, exp.and_(*nulls))
    else:  # each side would be written twice, and what stands in it four times
        raise UnsupportedQueryError(
            "IS [NOT] DISTINCT FROM (<=>) compares a column with a column or a constant"
        )
    return exp.Not(this=exp.paren(alike)) if isinstance(node, exp.NullSafeNEQ) else exp.paren(alike)


def _each(names: exp.Tuple, values: exp.Expr) -> exp.Expr | None:
    """Compare rows of values place by place."""
    if not isinstance(values, exp.Tuple) or len(values.expressions) != len(names.expressions):
        return None
    pairs = zip(names.expressions, values.expressions, strict=True)
    return exp.and_(*(exp.EQ(this=n.copy(), expression=v.copy()) for n, v in pairs))


_SIMILAR: Final = {"%": ".*", "_": ".", **{c: f"\\{c}" for c in ".^$"}}


def _similar(node: exp.SimilarTo) -> exp.Expr:
    """Write SIMILAR TO as a regular expression of the whole text, where databases agree on it."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.name:
        raise UnsupportedQueryError("SIMILAR TO takes a pattern in quotes, without backslashes")
    words = "".join(_SIMILAR.get(c, c) for c in pattern.name)
    test = exp.RegexpLike(this=node.this.copy(), expression=literal(f"^({words})$"))
    if words != pattern.name:
        raise UnsupportedQueryError(
            "SIMILAR TO reads % and _ as LIKE does in PostgreSQL and in the standard, and as plain "
            "characters of a regular expression in DuckDB: write the regular expression",
            hint=f"{node.this.sql()} ~ {literal(f'^({words})$').sql()}",
        )
    return test


def _written_so(node: exp.Expr) -> exp.Expr:
    """Change what is a call only in its meaning: places in lists, methods, raw texts."""
    match node:
        case exp.Bracket(this=exp.Anonymous() as call, expressions=[place]):
            return one_of_quantiles(call, place) or one_of_pieces(call, place) or node
        case exp.Column(args={"db": exp.Expr() as owner}) if node.table == "dt":  # day.dt.month
            return calling(node.name.upper(), exp.Column(this=owner.copy()))
        case exp.In(this=exp.Tuple() as names):
            tests = [_each(names, choice) for choice in node.expressions]
            whole = [exp.paren(f, copy=False) for f in tests if f is not None]
            same = 0 < len(whole) == len(tests) and node.args.get("query") is None
            return exp.paren(exp.or_(*whole), copy=False) if same else node
        case exp.EQ(this=exp.Tuple() as names, expression=exp.Tuple() as values):
            return _each(names, values) or node
        case exp.SimilarTo():
            return _similar(node)
        case exp.RawString():
            return literal(str(node.this))
        case exp.Dot(this=exp.Identifier(this="pd" | "np"), expression=exp.Expr() as call):
            return call  # the name of a library
        case exp.Dot(expression=exp.Anonymous() as call):
            return _method(node.this, call) or node
        case exp.Aliases(this=exp.Column() as name, expressions=given):  # a keyword, called
            return calling(name.name, *(exp.Column(this=g) for g in given))
    return node


def _call_changed(node: exp.Anonymous) -> exp.Expr:
    called = str(node.name).upper()
    name = RENAMED.get(called, called)
    if name != called:
        node.set("this", name)
        node.meta["called"] = called  # refusals name what was written
    if name == "DAYOFWEEK" and node.expressions:
        _check_weekday(node, node.expressions[0])
    call = CALLS[name](node.expressions) if name in CALLS else None
    return node if call is None else call


def _unit(node: exp.Expr) -> str | None:
    """A unit of time, written as a bare word or in quotes."""
    plain = isinstance(node, exp.Column) and not node.args.get("table")
    word = node.name if plain or (isinstance(node, exp.Literal) and node.is_string) else ""
    return _UNITS.get(str(word).casefold())


def _unit_first(name: str, *, swap: bool = False) -> Callable[[Call], exp.Expr | None]:
    """Write the unit first and in quotes; where it stood last, `swap` what stood before it."""

    def change(args: Call) -> exp.Expr | None:
        if len(args) < 2 or (_unit(args[0]) and _unit(args[-1])):
            return None  # a column may be called like a unit
        if (start := _week_from(args[-1])) is not None:
            return _by_week(name, start, args[-2::-1] if swap else args[:-1])
        if _unit(args[0]) is not None:
            return _by_unit(name, args[0], args[1:])
        return _by_unit(name, args[-1], args[-2::-1] if swap else args[:-1], last=True)

    return change


_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _week_from(node: exp.Expr) -> int | None:
    """How many days after Monday WEEK(SUNDAY) begins."""
    args = (
        node.expressions if isinstance(node, exp.Anonymous) and node.name.upper() == "WEEK" else []
    )
    word = args[0].name.casefold() if len(args) == 1 and isinstance(args[0], exp.Column) else ""
    return _DAYS.index(word) if word in _DAYS else None


def _by_week(name: str, start: int, rest: Call) -> exp.Expr:
    """Call `name` by weeks that begin on any day: moved so that it is a Monday, and back."""
    ahead = -start % 7
    moved = [_moved(x, ahead, "day") if ahead else x for x in rest]
    call: exp.Expr = calling(_SUNDAYS.get(name, name), literal(_week(name)), *moved)
    back = ahead and name in ("DATE_TRUNC", "DATETRUNC")
    return _moved(call, -ahead, "day") if back else call


def _week(name: str) -> str:
    """A week of the calendar: DATEDIFF by 'week' counts seven days from any day."""
    return "isoweek" if name in ("DATEDIFF", "DATE_DIFF") else "week"


def _by_unit(name: str, word: exp.Expr, rest: Call, *, last: bool = False) -> exp.Expr | None:
    """Call `name` with its unit in quotes.

    A bare WEEK that stood `last`, or in a call of `_SUNDAYS`, is refused where it is a week of the
    calendar: it begins on Sunday where people write it so.
    """
    if (unit := _unit(word)) is None:
        return None
    bare = isinstance(word, exp.Column) and word.name.casefold() in _WEEKS
    if unit == "week" and (bare or word.name.casefold() not in _WEEKS):
        unit = _week(name)
    call = calling(_SUNDAYS.get(name, name), literal(unit), *rest)
    if bare and name != "TIMESTAMPDIFF" and (last or name in _SUNDAYS):
        raise UnsupportedQueryError(
            "written like this, a week begins on Sunday in some databases and on Monday in "
            f"others: write '{unit}' first and in quotes for weeks that begin on Monday",
            hint=call.sql(),
        )
    return call


def _shift(sign: int) -> Callable[[Call], exp.Expr | None]:
    """DATEADD(unit, n, x), DATE_ADD(x, INTERVAL n unit)."""

    def change(args: Call) -> exp.Expr | None:
        if len(args) == 2 and isinstance(args[1], exp.Interval):
            moved = exp.Add if sign > 0 else exp.Sub
            return exp.paren(moved(this=args[0].copy(), expression=args[1].copy()), copy=False)
        count = integer(args[1]) if len(args) == 3 else None
        unit = _unit(args[0]) if args else None
        if len(args) == 2 and (days := integer(args[1])) is not None:
            return _moved(args[0], sign * days, "day")  # as Spark and Hive write it
        return None if count is None or unit is None else _moved(args[2], sign * count, unit)

    return change


def _moved(moment: exp.Expr, count: int, unit: str) -> exp.Expr:
    span = exp.Interval(this=literal(str(count)), unit=exp.Var(this=unit.upper()))
    return exp.paren(exp.Add(this=moment.copy(), expression=span), copy=False)


def _months(args: Call) -> exp.Expr | None:
    count = integer(args[1]) if len(args) == 2 else None
    return None if count is None else _moved(args[0], count, "month")


_DASHES: Final[dict[int | None, str]] = {4: "%Y", 7: "%Y-%m", 10: "%Y-%m-%d"}
_STYLES: Final[dict[str, dict[int | None, str]]] = {
    **dict.fromkeys(("20", "21", "120", "121", "126"), _DASHES),  # a time follows the date
    "23": _DASHES | {None: "%Y-%m-%d"},
    "112": {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", None: "%Y%m%d"},
}
"""Styles of CONVERT that begin with the year, and how many characters end with a field."""


def _convert(args: Call) -> exp.Expr | None:
    """CONVERT(type, x), and CONVERT(varchar(7), d, 120) of dates."""
    kind = args[0].name.upper() if len(args) in (2, 3) else ""
    if len(args) == 3 and kind in ("VARCHAR", "NVARCHAR", "CHAR", "NCHAR"):
        # so many characters of a date are its first fields, where they end with one
        length = integer(args[0].expressions[0]) if args[0].expressions else None
        form = _STYLES.get(args[2].name, {}).get(length)
        return None if form is None else calling("STRFTIME", args[1], literal(form))
    types = {t.value for t in exp.DataType.Type}
    return exp.cast(args[1].copy(), kind) if kind in types else None


_NUMERIC: Final = (
    ("YYYY", "%Y"), ("yyyy", "%Y"), ("MM", "%m"), ("DD", "%d"), ("dd", "%d"), ("HH24", "%H"),
    ("HH", "%H"), ("MI", "%M"), ("mi", "%M"), ("SS", "%S"), ("ss", "%S"), ("%i", "%M"),
    ("%s", "%S"), ("%T", "%H:%M:%S"), ("%F", "%Y-%m-%d"),
)  # fmt: skip


def _dated(kind: str, *, form_first: bool = False) -> Callable[[Call], exp.Expr | None]:
    """TO_DATE of what is a date, or of a constant that is written as one by a format."""

    def change(args: Call) -> exp.Expr | None:
        if len(args) == 1:
            return exp.cast(args[0].copy(), kind)
        text, form = args[::-1] if form_first else args
        if not all(isinstance(a, exp.Literal) and a.is_string for a in (text, form)):
            return exp.cast(text.copy(), kind) if form.name in _ISO else None
        pattern = str(form.this)
        for letters, sign in _NUMERIC:
            pattern = pattern.replace(letters, sign)
        try:
            moment = dt.datetime.strptime(str(text.this), pattern)  # noqa: DTZ007 - naive throughout
        except (ValueError, re.error, OverflowError):
            return None
        iso = moment.date().isoformat() if kind == "DATE" else moment.isoformat(" ")
        return exp.cast(literal(iso), kind)

    return lambda args: change(args) if 1 <= len(args) <= 2 else None


_ISO: Final = frozenset({"YYYY-MM-DD", "%Y-%m-%d", "yyyy-MM-dd"})


def _like(before: str, after: str) -> Callable[[Call], exp.Expr | None]:
    """A test for a constant piece of text."""

    def change(args: Call) -> exp.Expr | None:
        piece = args[1] if len(args) == 2 else None
        if not isinstance(piece, exp.Literal) or not piece.is_string:
            return None
        return _liked(args[0], before, str(piece.this), after)

    return change


def _liked(x: exp.Expr, before: str, piece: str, after: str) -> exp.Expr:
    escaped = "".join(f"!{c}" if c in "!%_" else c for c in piece)
    test = exp.Like(this=x.copy(), expression=literal(before + escaped + after))
    return exp.Escape(this=test, expression=literal("!")) if escaped != piece else test


def _search(node: exp.Expr) -> exp.Expr | None:
    """POSITION('@' IN x) > 0, and its relatives, as LIKE."""
    call, least = node.this.unnest(), integer(node.expression)
    first = int(isinstance(node, exp.GTE))
    test = _holds(call) if least == first else None
    if test is None:
        return None
    return exp.Not(this=exp.paren(test, copy=False)) if isinstance(node, exp.EQ) else test


def _holds(call: exp.Expr) -> exp.Expr | None:
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


def _age(part: str, call: exp.Expr) -> exp.Expr | None:
    """EXTRACT(YEAR FROM AGE(end, start)): full years."""
    is_age = isinstance(call, exp.Anonymous) and str(call.name).upper() == "AGE"
    if not is_age or len(call.expressions) != 2 or part.casefold() not in ("year", "years"):
        return None
    end, start = call.expressions
    return calling("TIMESTAMPDIFF", literal("year"), start, end)


def _part(name: str) -> Callable[[Call], exp.Expr | None]:
    def change(args: Call) -> exp.Expr | None:
        if len(args) != 2:
            return None
        call = _age(args[0].name, args[1]) or _by_unit(name, args[0], args[1:])
        if call is None and isinstance(args[0], exp.Column):  # a part that we name and refuse
            return calling("DATE_PART", literal(args[0].name), args[1])
        return call

    return change


def _datename(args: Call) -> exp.Expr | None:
    word = args[0].name.casefold() if len(args) == 2 else ""
    name = {"month": "MONTHNAME", "mm": "MONTHNAME", "weekday": "DAYNAME", "dw": "DAYNAME"}
    return calling(name[word], args[1]) if word in name else None


def _format(args: Call) -> exp.Expr | None:
    """FORMAT(x, 'yyyy-MM')."""
    pattern = args[1] if len(args) == 2 else None
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or "%" in pattern.name:
        return None
    form, rest = "", str(pattern.this)
    while rest:
        letters, sign = next((p for p in _FORMAT if rest.startswith(p[0])), (rest[0], rest[0]))
        if sign.isalpha():  # a field that we do not write, which is no text either
            return None
        form, rest = form + sign, rest[len(letters) :]
    return calling("STRFTIME", args[0], literal(form))


_MYSQL: Final = {"M": "%B", "W": "%A", "x": "%G", "v": "%V", **{c: f"%{c}" for c in "YmdHbaj%"}}


def _date_format(args: Call) -> exp.Expr | None:
    """DATE_FORMAT of Spark, or of MySQL with its own letters: %M is a month's name."""
    pattern = args[1] if len(args) == 2 else None
    if not isinstance(pattern, exp.Literal) or "%" not in pattern.name:
        return _format(args)
    pieces = re.split("%(.)", str(pattern.this))  # every second piece is a letter
    if set(pieces[1::2]) & {"u", "U", "V"}:
        raise UnsupportedQueryError(
            "weeks are named by their own year, and begin on Monday", hint="'%x-%v'"
        )
    if any(letter not in _MYSQL for letter in pieces[1::2]):
        return None
    pieces[1::2] = [_MYSQL[letter] for letter in pieces[1::2]]
    return calling("STRFTIME", args[0], literal("".join(pieces)))


def _date_of_pieces(args: Call) -> exp.Expr | None:
    """CONCAT(YEAR(d), '-', STRFTIME(d, '%m')): one format of one date."""
    pattern, dates = "", []
    for arg in args:
        part = part_of(arg)
        if isinstance(arg, exp.Literal) and arg.is_string and "%" not in arg.name:
            pattern += arg.name
        elif part is not None and part[0] in ("year", "quarter"):
            pattern += {"year": "%Y", "quarter": "%q"}[part[0]]
            dates.append(part[1])
        elif str(arg.name).upper() == "STRFTIME" and len(arg.expressions) == 2:
            pattern += arg.expressions[1].name
            dates.append(arg.expressions[0])
        else:
            return None
    alike = len(dates) > 1 and all(d == dates[0] for d in dates)
    return calling("STRFTIME", dates[0], literal(pattern)) if alike else None


def _bucket(args: Call) -> exp.Expr | None:
    """TIME_BUCKET(INTERVAL '1 week', x)."""
    span = args[0] if len(args) == 2 else None
    if not isinstance(span, exp.Interval) or span.this.name != "1" or span.args.get("unit") is None:
        return None
    unit = _UNITS.get(span.args["unit"].name.casefold())
    return None if unit is None else calling("DATE_TRUNC", literal(unit), args[1])


def _first_day(args: Call) -> exp.Expr | None:
    """MAKE_DATE(YEAR(x), MONTH(x), 1), as it begins the month of x."""
    parts = [part_of(a) for a in args[:2]]
    if len(args) != 3 or None in parts or integer(args[2]) != 1:
        return None
    (year, x), (month, y) = (p for p in parts if p is not None)
    same = (year, month) == ("year", "month") and x == y
    return calling("DATE_TRUNC", literal("month"), x) if same else None


METHODS: Final = frozenset({
    "MEAN", "SUM", "MEDIAN", "STD", "VAR", "MIN", "MAX", "COUNT", "QUANTILE", "NUNIQUE", "MODE",
    "ROUND", "ABS", "LOWER", "UPPER", "LEN", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "REPLACE",
    "VALUE_COUNTS", "ISNULL",
})  # fmt: skip
"""Methods of pandas that are calls here: ``price.mean()``."""


def _method(owner: exp.Expr, call: exp.Expr) -> exp.Expr | None:
    """Write ``price.mean()`` as a call; ``.str`` and ``.dt`` only lead to methods."""
    if not all(isinstance(n, exp.Dot | exp.Identifier) for n in owner.walk()):
        return None
    names = [n for n in owner.find_all(exp.Identifier) if n.name not in ("str", "dt")]
    column = exp.Column(this=names[0].copy()) if len(names) == 1 else None
    if len(names) == 2:
        table, own = sorted(names, key=lambda n: n.arg_key == "expression")
        column = exp.Column(this=own.copy(), table=table.copy())
    name, args = str(call.name).upper(), [a.copy() for a in call.expressions]
    match name, column, args:
        case _, None, _:
            return None
        case "BETWEEN", x, [low, high]:
            return exp.Between(this=x, low=low, high=high)
        case "ISIN", x, [exp.Array() as listed]:
            return exp.In(this=x, expressions=listed.expressions)
        case "ISNA" | "NOTNA" | "NOTNULL", x, []:
            test = exp.paren(exp.Is(this=x, expression=exp.Null()), copy=False)
            return test if name == "ISNA" else exp.Not(this=test)
        case _, x, _ if name in METHODS:
            return _call_changed(exp.Anonymous(this=name, expressions=[x, *args]))
    return None


_COMPARED: Final = (exp.Where, exp.Case, exp.If, exp.Filter, exp.Having, exp.Predicate)


def _check_weekday(node: exp.Expr, day: exp.Expr) -> None:
    """Refuse DAYOFWEEK in a condition: its numbers differ between databases.

    As a key or in an average the number is shown, and the answer says how days are counted.
    """
    above = node.parent
    while above is not None and not isinstance(above, exp.Select):
        if isinstance(above, _COMPARED):
            numbers = {n.name for n in above.find_all(exp.Literal)}
            own = calling("DOW", day).sql()
            raise UnsupportedQueryError(
                "DAYOFWEEK of Sunday is 1 in MySQL, BigQuery and Spark, and 0 in DuckDB and "
                f"Snowflake: write {own} + 1 for days from 1 (Sunday) to 7, or {own} for days "
                "from 0 (Sunday) to 6",
                hint=f"({own} + 1)" if "7" in numbers else own,
            )
        above = above.parent


CALLS: Final[dict[str, Callable[[Call], exp.Expr | None]]] = {
    **VALUES,
    "ARRAY": lambda args: exp.Array(expressions=args),
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
    "CONVERT": _convert,
    **dict.fromkeys(("TO_DATE", "STR_TO_DATE"), _dated("DATE")),
    "TO_TIMESTAMP": _dated("TIMESTAMP"),
    "PARSE_DATE": _dated("DATE", form_first=True),
    "STARTS_WITH": _like("", "%"),
    "ENDS_WITH": _like("%", ""),
    "CONTAINS": _like("%", "%"),
    "FORMAT": _format,
    "DATE_FORMAT": _date_format,
    "TIME_BUCKET": _bucket,
    "CONCAT": _date_of_pieces,
    **dict.fromkeys(("MAKE_DATE", "DATEFROMPARTS", "DATE_FROM_PARTS"), _first_day),
}
"""Calls that are written anew; None leaves them as they are."""
