"""Functions of text: of labels in Python, of open text in the engine.

A listed category is public, so a function of it is computed here, label by label,
and gives a new category, number or condition; no engine function takes part. Open
text goes through the operators of ``_texts``. The same definitions hold for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final

from discreet._print import plural
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import _build as build
from discreet.plan import _calendar as calendar
from discreet.plan import _regex as regex
from discreet.plan._build import Null, Operand, Word
from discreet.plan._expr import (
    Case,
    Constant,
    Expr,
    Fold,
    IsNull,
    Labelled,
    Length,
    Like,
    Matches,
    OneOf,
    Piece,
    Slice,
    Suffix,
    Trim,
    folded,
    like,
    plain_column,
)
from discreet.plan._texts import LONGEST
from discreet.plan._types import Kind

MAX_LABELS: Final = 2_000
"""Labels of a category that a text function may rewrite."""
MAX_PAIRS: Final = 400
"""Combinations of labels that CONCAT may make."""


def text_of(operand: Operand, where: str, pattern: str | None = None) -> Expr | Word:
    """Insist on text, labels or a text constant; of a date, show how to test a `pattern`."""
    if isinstance(operand, Word):
        return operand
    expr = build.typed(operand, where)
    if expr.type.kind not in (Kind.TEXT, Kind.CATEGORY):
        name, moment = build.name_of(expr), expr.type.kind in (Kind.DATE, Kind.TIMESTAMP)
        hint = f"STRFTIME({name}, '%Y-%m-%d')"
        if moment and pattern is not None:  # days are written 2024-03-31: some patterns match none
            days = calendar.strftime(calendar.as_date(expr), "%Y-%m-%d").type.labels
            moment = any(like(pattern, str(day)) for day in days)
            hint = f"{hint} LIKE '{pattern}'"
        raise QueryError(
            f"{where} needs text, {name} is a {expr.type.kind}", hint=hint if moment else None
        )
    return expr


def _mapped(expr: Expr, change: Callable[[str], str]) -> Expr:
    """Rewrite the labels of a category; labels that fall together are one."""
    codes = expr.possible
    if len(codes) > MAX_LABELS:
        raise UnsupportedQueryError(
            f"{build.name_of(expr)} has more than {MAX_LABELS} values to rewrite"
        )
    places: dict[str, list[int]] = {}
    for code in codes:
        places.setdefault(change(str(expr.type.labels[code])), []).append(code)
    labels = tuple(places)
    return _by_code(expr, [(c, build.label(i, labels)) for i, c in enumerate(places.values())])


def _by_code(expr: Expr, values: Sequence[tuple[Sequence[int], Constant]]) -> Expr:
    branches = tuple((OneOf(expr, tuple(codes)), value) for codes, value in values)
    return Case(branches, Constant.null(values[0][1].type))


def changed(
    where: str, operand: Operand, change: Callable[[str], str], node: Callable[[Expr], Expr]
) -> Operand:
    """Change a text: a constant and labels here, open text by an operator."""
    arg = text_of(operand, where)
    if isinstance(arg, Word):
        return Word(change(arg.text))
    return _mapped(arg, change) if arg.type.kind is Kind.CATEGORY else node(arg)


def lower(x: Operand) -> Operand:
    """Fold ASCII letters to lower case."""
    return changed("LOWER", x, folded, lambda e: Fold(e, upper=False))


def upper(x: Operand) -> Operand:
    """Fold ASCII letters to upper case."""
    return changed("UPPER", x, lambda t: folded(t, upper=True), lambda e: Fold(e, upper=True))


def trim(x: Operand) -> Operand:
    """Take off spaces at both ends."""
    return changed("TRIM", x, lambda t: t.strip(" "), Trim)


def initcap(x: Operand) -> Operand:
    """Write the first letter of each word large and the others small, in labels."""

    def refuse(expr: Expr) -> Expr:
        name = build.name_of(expr)
        raise UnsupportedQueryError(
            f"INITCAP needs a listed category, {name} is open text", hint=f"LOWER({name})"
        )

    return changed("INITCAP", x, _initcap, refuse)


def _initcap(text: str) -> str:
    spaced = zip(" " + text, text, strict=False)
    return "".join(folded(c, upper=not before.isalnum()) for before, c in spaced)


def as_text(x: Operand, words: str) -> Operand:
    """CAST to text: of a whole number or a day, a category whose labels are public."""
    if isinstance(x, Word):
        return x
    expr = build.typed(x, "CAST")
    t = expr.type
    if t.kind in (Kind.TEXT, Kind.CATEGORY):
        return expr
    if t.kind is Kind.DATE:
        return calendar.strftime(expr, "%Y-%m-%d")
    if t.kind is Kind.TIMESTAMP:
        raise UnsupportedQueryError(
            "CAST of a time to text is not supported; its day is a text, "
            f"STRFTIME({words}, '%Y-%m-%d')"
        )
    if t.kind is not Kind.NUMBER or t.step.denominator != 1 or t.size > MAX_LABELS:
        digits = {len(str(v * t.step)) for v in (t.lo, t.hi)}
        firsts = t.lo > 99 and t.step == 1 and len(digits) == 1
        instead = f"; the first two digits are {words} // {10 ** (max(digits) - 2)}"
        raise UnsupportedQueryError(
            f"CAST to text takes whole numbers with at most {MAX_LABELS} values"
            + (instead if firsts else ""),
            hint=words,
        )
    return Labelled(expr, tuple(str(c * t.step) for c in range(t.lo, t.hi + 1)))


def shortened(x: Operand, length: int, words: str) -> Operand:
    """CAST to a text of limited length: what is longer is cut, and numbers must fit."""
    labels = x.type.labels if isinstance(x, Expr) else ()
    if labels and max(len(str(label)) for label in labels) <= length:
        return x
    if isinstance(x, Labelled):
        raise UnsupportedQueryError(
            f"{plural(length, 'character')} cannot hold every value of {words}",
            hint=f"CAST({words} AS TEXT)",
        )
    return left(x, length)


def substr(x: Operand, start: int, length: int = LONGEST) -> Operand:
    """Characters from a place on, counted from one."""
    if start < 1 or length < 0:
        raise QueryError("SUBSTR counts from 1", hint="SUBSTR(name, 1, 3)")
    length = min(length, LONGEST)
    return changed(
        "SUBSTR", x, lambda t: t[start - 1 : start - 1 + length], lambda e: Slice(e, start, length)
    )


def left(x: Operand, length: int) -> Operand:
    """Return the first characters."""
    return substr(x, 1, length)


def right(x: Operand, length: int) -> Operand:
    """Return the last characters."""
    if length < 0:
        raise QueryError("RIGHT takes a length of at least 0", hint="RIGHT(name, 3)")
    size = min(length, LONGEST)
    return changed("RIGHT", x, lambda t: t[-size:] if size else "", lambda e: Suffix(e, size))


def split_part(x: Operand, separator: str, place: int) -> Operand:
    """Return one of the pieces between separators."""
    if place < 1 or not separator:
        raise QueryError("SPLIT_PART counts from 1", hint="SPLIT_PART(name, '-', 1)")

    def piece(text: str) -> str:
        pieces = text.split(separator)
        return pieces[place - 1] if place <= len(pieces) else ""

    return changed("SPLIT_PART", x, piece, lambda e: Piece(e, separator, place))


def replace(x: Operand, old: str, new: str) -> Operand:
    """Replace every occurrence, in labels."""

    def refuse(expr: Expr) -> Expr:
        raise UnsupportedQueryError(
            f"REPLACE needs a listed category, {build.name_of(expr)} is open text",
            hint=f"SUBSTR({build.name_of(expr)}, 1, 3)",
        )

    if not old:
        raise QueryError("REPLACE needs a text to replace", hint="REPLACE(name, 'a', 'b')")
    return changed("REPLACE", x, lambda t: t.replace(old, new), refuse)


def length(x: Operand) -> Operand:
    """Count characters."""
    arg = text_of(x, "LENGTH")
    if isinstance(arg, Word):
        return build.number(Fraction(len(arg.text)))
    if arg.type.kind is Kind.TEXT:
        return Length(arg)
    lengths = [(c, Fraction(len(str(arg.type.labels[c])))) for c in arg.possible]
    return _by_code(arg, [((c,), build.number(n)) for c, n in lengths])


def _spelled(x: Operand) -> Operand:
    """A whole number among texts is written out."""
    number = isinstance(x, Expr) and x.type.kind is Kind.NUMBER
    return as_text(x, "the number") if number else x


def concat(parts: Sequence[Operand], *, skip: bool) -> Operand:
    """Join constants and listed categories; `skip` leaves NULL out, else it wins."""
    operands = [p for p in parts if not isinstance(p, Null)]
    if len(operands) < len(parts) and not skip:
        return Null()
    texts = [text_of(_spelled(p), "CONCAT") for p in operands]
    columns = [t for t in texts if isinstance(t, Expr)]
    if not columns:
        return Word("".join(t.text for t in texts if isinstance(t, Word)))
    if any(c.type.kind is not Kind.CATEGORY for c in columns):
        raise UnsupportedQueryError("CONCAT joins listed categories and constants, not open text")
    if len(columns) > 1:
        return _pairs(texts, columns, skip=skip)
    column = columns[0]

    def whole(label: str) -> str:
        return "".join(t.text if isinstance(t, Word) else label for t in texts)

    joined = _mapped(column, whole)
    if not (skip and column.type.nullable):
        return joined
    return build.case([(IsNull(column), Word(whole("")))], joined)


def _pairs(texts: Sequence[Expr | Word], columns: Sequence[Expr], *, skip: bool) -> Expr:
    """Join several listed categories: a label for each combination."""
    choices = [
        [(OneOf(c, (code,)), str(c.type.labels[code])) for code in c.possible]
        + ([(IsNull(c), "")] if skip and c.type.nullable else [])
        for c in columns
    ]
    if prod(len(c) for c in choices) > MAX_PAIRS:
        plain = [plain_column(c) for c in columns]
        names = [None if c is None else c.name for c in plain]
        raise UnsupportedQueryError(
            f"CONCAT joins listed categories with at most {MAX_PAIRS} combinations of values",
            hint=f"GROUP BY {', '.join(filter(None, names))}" if all(names) else None,
        )
    by_label: dict[str, list[Expr]] = {}
    for choice in product(*choices):
        values = iter([label for _, label in choice])
        whole = "".join(t.text if isinstance(t, Word) else next(values) for t in texts)
        by_label.setdefault(whole, []).append(build.conjunction([test for test, _ in choice]))
    labels = tuple(by_label)
    branches = [(build.disjunction(tests), build.label(i, labels))
                for i, tests in enumerate(by_label.values())]  # fmt: skip
    return build.typed(build.case(branches, Null()), "CONCAT")


def matches(x: Operand, pattern: str, *, fold: bool = False, escape: str | None = None) -> Expr:
    """Test LIKE (or ILIKE, where `fold`)."""
    form = _rewritten(folded(pattern) if fold else pattern, escape)
    if isinstance(x, Expr) and x.type.moment and escape is None and _DAYS.fullmatch(pattern):
        x = calendar.strftime(calendar.as_date(x), "%Y-%m-%d")  # as a database writes it
    arg = text_of(x, "LIKE", pattern)
    if isinstance(arg, Word):
        return build.truth(value=like(form, folded(arg.text) if fold else arg.text))
    if arg.type.kind is Kind.TEXT:
        return Like(Fold(arg, upper=False) if fold else arg, form)
    labels = ((c, str(arg.type.labels[c])) for c in arg.possible)
    return OneOf(arg, tuple(c for c, t in labels if like(form, folded(t) if fold else t)))


def regexp(x: Operand, pattern: str, flags: str = "") -> Expr:
    """Test a regular expression anywhere in a text; the flag i ignores the case of letters."""
    if flags.strip("ci"):
        raise QueryError("a regular expression takes the flag i or none", hint="'i'")
    arg, form = text_of(x, "REGEXP_LIKE"), regex.read(pattern, fold="i" in flags)
    if isinstance(arg, Word):
        return build.truth(value=form.matches(arg.text[:LONGEST]))
    if arg.type.kind is Kind.TEXT:
        return Matches(arg, pattern, fold="i" in flags)
    labels = ((c, str(arg.type.labels[c])) for c in arg.possible)
    return OneOf(arg, tuple(c for c, t in labels if form.matches(t[:LONGEST])))


_DAYS: Final = re.compile(r"[0-9-]{4,10}%")
"""Patterns that look only at the day of a time."""


def _rewritten(pattern: str, escape: str | None) -> str:
    """Write a pattern with our own escape sign."""
    if escape is not None and len(escape) != 1:
        raise QueryError("ESCAPE takes one character", hint="LIKE '50!%' ESCAPE '!'")
    if len(pattern) > LONGEST // 2:
        raise QueryError("the pattern is too long")
    pieces, signs = [], iter(pattern)
    for sign in signs:
        if sign == escape:
            sign = next(signs, "")  # noqa: PLW2901 - the escaped sign stands for itself
            if not sign:
                raise QueryError("the pattern ends in its escape character")
            pieces.append("!" + sign if sign in "!%_" else sign)
        else:
            pieces.append("!!" if sign == "!" else sign)
    return "".join(pieces)
