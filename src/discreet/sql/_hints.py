"""Hints in the words of the user's own policy.

Refusals show examples over a table ``people`` with columns such as ``sex`` and ``age``. Whoever
has no such table gets the example with names of theirs, or, where none fits, no example.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet._text import plain_str, written
from discreet.errors import QueryError, UnknownNameError, UnsupportedQueryError
from discreet.sql._paste import pasted, with_comma

_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED: Final = re.compile(r"""'[^']*'|"[^"]*\"""")
_SPLIT: Final = re.compile(f"({_QUOTED.pattern})")
_SAMPLES: Final = {
    "people": None,
    "regions": None,
    "region": None,
    "sex": pol.Category,
    "married": pol.Boolean,
    "city": pol.Text,
    "name": pol.Text,
    "age": pol.Integer,
    "income": pol.Real,
}
"""Names that examples use, and what kind of column each is."""


@contextmanager
def own_hints(text: str, policy: pol.Policy, read: Callable[[str], object]) -> Iterator[None]:
    """Let errors leave with hints that name only what the policy has, and that work when pasted.

    A hint that is a line of SQL stands in the place of a piece of the question, or of the whole:
    whatever `read` then refuses is no hint. Sentences, and lines for the policy, stay.
    """
    try:
        yield
    except QueryError as error:
        hint = error.hint
        if hint is None and error.line and error.column:
            before = text.split("\n")[: error.line - 1]
            end = sum(len(line) + 1 for line in before) + error.column
            if (hint := with_comma(text, end, read)) is not None:
                raise error.with_hint(hint) from None
        if type(hint) is not str:
            raise
        own = rewritten(hint, policy)
        # a name that is mended may leave another fault
        beside = error.message if isinstance(error, UnknownNameError) else None
        if own is not None and pasted(own, text, read, beside) is None:
            own = None
        if own == hint:
            raise
        raise error.with_hint(own) from None


_LISTS: Final = frozenset({"DESCRIBE", "DESC", "SHOW"})


def check_catalogue(text: str, policy: pol.Policy) -> None:
    """Answer DESCRIBE and SHOW in the refusal: tables and columns are public, and free to know."""
    words = plain_str(text, "a question", QueryError)[:200].replace(";", " ").split()
    first = words[0].upper() if words else ""
    if first == "EXPLAIN":
        raise UnsupportedQueryError(
            "EXPLAIN is not supported: a preview of the question says what it costs and how "
            "exact it will be, for free",
            hint=text.strip()[len(first) :].strip() or None,
        )
    if first not in _LISTS:
        return
    named = {written(w.strip('`"[]')).casefold() for w in words[1:]}
    asked = [t for t in policy.tables.values() if written(t.name).casefold() in named]
    lists = [
        f"{written(t.name)} ("
        + ", ".join(f"{written(n)} {type(c).__name__.casefold()}" for n, c in t.columns.items())
        + ")"
        for t in asked or policy.tables.values()
    ]
    raise UnsupportedQueryError(
        f"{first} is no question about people; the policy lists {'; '.join(lists)}",
        hint="SELECT COUNT(*) AS n FROM people",
    )


def rewritten(hint: str, policy: pol.Policy) -> str | None:
    """Write an example with names of the policy; None where it has none that fit."""
    tables = [t for t in policy.tables.values() if not t.public]
    known = {n.casefold() for t in policy.tables.values() for n in (t.name, *t.columns)}
    strange = [w for w in _WORD.findall(_QUOTED.sub("", hint)) if w in _SAMPLES and w not in known]
    # an example with constants is about its own columns
    if not strange:
        return hint
    if "'" in hint:
        return None
    names = {"people": written(tables[0].name)} if "people" in strange else {}
    for word in set(strange) - {"people"}:
        kind = _SAMPLES[word]
        fitting = [n for n, c in tables[0].columns.items() if kind and isinstance(c, kind)]
        if not fitting:
            return None
        names[word] = written(fitting[0])
    pieces = _SPLIT.split(hint)  # every second piece stands in quotes
    pieces[::2] = [_WORD.sub(lambda m: names.get(m[0], m[0]), piece) for piece in pieces[::2]]
    return "".join(pieces)


def question(node: exp.Expr, keys: Sequence[exp.Expr], values: Sequence[exp.Expr]) -> str | None:
    """Write a question about the same rows as that in which a node stands, by other keys."""
    select = node.find_ancestor(exp.Select)
    if select is None or select.args.get("from_") is None or select.args.get("with_"):
        return None
    calls = values or [exp.Anonymous(this="COUNT", expressions=[exp.Star()])]
    asked = exp.select(*(k.copy() for k in keys), *(exp.alias_(c.copy(), "n") for c in calls))
    for clause in ("from_", "joins", "where"):
        asked.set(clause, select.args.get(clause))
    asked.set("group", exp.Group(expressions=[k.copy() for k in keys]))
    return asked.sql()


def on_its_own(unit: exp.Expr) -> str | None:
    """The people who pass the test of a FILTER, as a question of their own."""
    kept, select = unit.find_ancestor(exp.Filter), unit.find_ancestor(exp.Select)
    if kept is None or select is None:
        return None
    call = exp.Anonymous(this="COUNT", expressions=[exp.Distinct(expressions=[unit.copy()])])
    asked = exp.select(exp.alias_(call, "n"))
    for clause in ("with_", "from_", "joins", "where"):
        asked.set(clause, select.args.get(clause) and copy.deepcopy(select.args[clause]))
    return asked.where(kept.expression.this.copy()).sql()
