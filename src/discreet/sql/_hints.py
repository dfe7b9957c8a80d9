"""Hints in the words of the user's own policy.

Refusals show examples over a table ``people`` with columns such as ``sex`` and ``age``. Whoever
has no such table gets the example with names of theirs, or, where none fits, no example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet._text import plain_str, quote, written
from discreet.errors import QueryError, UnknownNameError, UnsupportedQueryError
from discreet.sql._paste import pasted, with_comma
from discreet.sql._text import function_name
from discreet.sql._walk import (
    count_different,
    count_rows,
    set_group,
    set_tests,
    tests_of,
    with_clauses,
)
from discreet.sql._wrap import resolved

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
        if (elsewhere := _in_other_table(error, text, policy)) is not None:
            raise elsewhere from None
        hint = error.hint
        if hint is None and error.line and error.column:
            before = text.split("\n")[: error.line - 1]
            end = sum(len(line) + 1 for line in before) + error.column
            if (hint := with_comma(text, end, read)) is not None:
                raise error.with_hint(hint) from None
        if type(hint) is not str:
            raise
        own = rewritten(hint, policy, frozenset(_WORD.findall(text)))
        # a name that is mended may leave another fault
        beside = error.message if isinstance(error, UnknownNameError) else None
        query = None if own is None else pasted(own, text, read, beside)
        if query is None or (beside and _of_another_kind(str(own), error, query, read)):
            own = None
        if own == hint:
            raise
        raise error.with_hint(own) from None


def _in_other_table(error: QueryError, text: str, policy: pol.Policy) -> UnknownNameError | None:
    """Say which table that the question does not name has the column that it lacks."""
    name = error.missing if isinstance(error, UnknownNameError) else None
    if name is None:
        return None
    folded = text.casefold()
    tables = [
        quote(t.name)
        for t in policy.tables.values()
        if t.name.casefold() not in folded and name.casefold() in {c.casefold() for c in t.columns}
    ]
    if not tables:
        return None
    listed = " and ".join(tables)
    message = f"there is no column {quote(name)} in the table that is asked about: {listed} has it"
    return UnknownNameError(message, line=error.line, column=error.column)


_KINDS: Final = re.compile(
    r"\bneeds an? |\bcannot compare\b|\bis an? \w+, .* is text|\bvalues? of "
)
"""How a value of the wrong kind is refused."""


def _of_another_kind(
    near: str, error: QueryError, query: str, read: Callable[[str], object]
) -> bool:
    """Whether a name that is not quite alike is that of a column of another kind."""
    name = error.missing if isinstance(error, UnknownNameError) else None
    if name is None or SequenceMatcher(None, name.casefold(), near.casefold()).ratio() > _ALIKE:
        return False
    try:
        read(query)
    except QueryError as refused:
        return bool(_KINDS.search(refused.message))
    return False


_ALIKE: Final = 0.85
"""Names that are as like as this differ by a slip of the pen."""
_OTHER: Final = re.compile(r"\s*(=|\w+\s*(?:\.\s*\w+|\[[^\]]*\])\s*[.\[(=]|\w+\s*=[^=])")
"""How formulas of spreadsheets and lines of pandas begin."""
_LISTS: Final = frozenset({"DESCRIBE", "DESC", "SHOW", "SUMMARIZE"})


def _summary(words: Sequence[str], policy: pol.Policy) -> UnsupportedQueryError:
    """Refuse SUMMARIZE t, with a question about the numbers of the table."""
    names = {w.strip('`"[]').casefold() for w in words[1:]}
    tables = [t for t in policy.tables.values() if t.name.casefold() in names and not t.public]
    hint = None
    if tables:
        kinds = (pol.Integer, pol.Real)
        own = [written(n) for n, c in tables[0].columns.items() if isinstance(c, kinds)]
        means = [f"AVG({n}) AS mean_{i}" if n[0] == '"' else f"AVG({n}) AS mean_{n}"
                 for i, n in enumerate(own)]  # fmt: skip
        items = ", ".join(["COUNT(*) AS n", *means])
        hint = f"SELECT {items} FROM {written(tables[0].name)}"  # noqa: S608 - a hint
    return UnsupportedQueryError(
        "SUMMARIZE would tell extremes and counts of every column, each at a price: ask for the "
        "numbers that matter (DESCRIBE(x) in SELECT is a summary of one column)",
        hint=hint,
    )


def check_catalogue(text: str, policy: pol.Policy) -> None:
    """Answer DESCRIBE and SHOW in the refusal: tables and columns are public, and free to know."""
    start = plain_str(text, "a question", QueryError)[:200]
    words = start.replace(";", " ").split()
    first = words[0].upper() if words else ""
    if match := _OTHER.match(start):
        manner = "a formula of a spreadsheet" if match[1] == "=" else "a line of Python"
        raise UnsupportedQueryError(
            f"this is {manner}; a question is SQL, and begins with SELECT (in Python, "
            "curator.table has methods)",
            hint="SELECT COUNT(*) AS n FROM people",
        )
    if first == "EXPLAIN":
        raise UnsupportedQueryError(
            "EXPLAIN is not supported: a preview of the question says what it costs and how "
            "exact it will be, for free",
            hint=text.strip()[len(first) :].strip() or None,
        )
    if first not in _LISTS:
        return
    if first == "SUMMARIZE":
        raise _summary(words, policy)
    names = {written(w.strip('`"[]')).casefold() for w in words[1:]}
    tables = [t for t in policy.tables.values() if written(t.name).casefold() in names]
    lists = [
        f"{written(t.name)} ("
        + ", ".join(f"{written(n)} {type(c).__name__.casefold()}" for n, c in t.columns.items())
        + ")"
        for t in tables or policy.tables.values()
    ]
    raise UnsupportedQueryError(
        f"{first} is no question about people; the policy lists {'; '.join(lists)}",
        hint="SELECT COUNT(*) AS n FROM people",
    )


def rewritten(hint: str, policy: pol.Policy, words: frozenset[str] = frozenset()) -> str | None:
    """Write an example with names of the policy; None where it has none that fit.

    `words` of the question are names of the user's, which nothing else can stand for.
    """
    tables = [t for t in policy.tables.values() if not t.public]
    own = {n.casefold() for t in policy.tables.values() for n in (t.name, *t.columns)}
    strange = [w for w in _WORD.findall(_QUOTED.sub("", hint)) if w in _SAMPLES and w not in own]
    # an example with constants is about its own columns
    if not strange:
        return hint
    if "'" in hint or words.intersection(strange):
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
    calls = values or [count_rows()]
    query = exp.select(*(k.copy() for k in keys), *(exp.alias_(c.copy(), "n") for c in calls))
    set_group(with_clauses(query, select, "from_", "joins", "where"), keys)
    return query.sql()


def tested_later(part: exp.Expr) -> str | None:
    """The question with a part of its WHERE in HAVING."""
    select = part.find_ancestor(exp.Select)
    if select is None or select.parent is not None:
        return None
    query = select.copy()
    set_tests(query, [p for p in tests_of(select.args["where"]) if p != part])
    return query.having(part.copy()).sql()


def joined_otherwise(join: exp.Join) -> str | None:
    """The question with another join, or none: RIGHT turned round, SEMI and ANTI with IN."""
    select = join.find_ancestor(exp.Select)
    if select is None or select.parent is not None or len(select.args["joins"]) != 1:
        return None
    other = select.copy()
    start, own = other.args["from_"].this, other.args["joins"][0]
    if join.args.get("side") == "RIGHT" and join.args.get("kind") in (None, "", "OUTER"):
        own.set("side", "LEFT")
        other.args["from_"].set("this", own.this.copy())
        own.set("this", start.copy())
        return other.sql()
    if join.args.get("kind") not in ("SEMI", "ANTI"):
        return None
    names = own.args.get("using") or [exp.Identifier()]
    on, alias = own.args.get("on"), own.this.alias_or_name.casefold()
    pair = [exp.column(names[0].name, start.alias_or_name), exp.column(names[0].name, alias)]
    if isinstance(on, exp.EQ):
        pair = sorted((on.this, on.expression), key=lambda c: c.table.casefold() == alias)
    if len(names) != 1 or not all(isinstance(c, exp.Column) and c.name for c in pair):
        return None
    inner = exp.select(pair[1].copy()).from_(own.this.copy())
    test: exp.Expr = exp.In(this=pair[0].copy(), query=exp.Subquery(this=inner))
    other.set("joins", None)
    return other.where(exp.Not(this=test) if join.args["kind"] == "ANTI" else test).sql()


def levels_apart(select: exp.Select, levels: Sequence[Sequence[exp.Expr]]) -> str | None:
    """A question with totals, as a question for each level with UNION ALL between them."""
    groupings = [n for e in select.expressions for n in e.walk() if function_name(n) == "GROUPING"]
    if (
        groupings
        or select.parent is not None
        or select.args.get("with_")
        or select.args.get("hint")
    ):
        return None
    every = [resolved(select, k) for level in levels for k in level]
    queries: list[exp.Select] = []
    for level in levels:
        own, keys = select.copy(), [resolved(select, k) for k in level]
        for item in own.expressions:
            value = item.unalias()
            if value in every and value not in keys:
                item.replace(exp.alias_(exp.null(), item.alias_or_name))
        set_group(own, keys)
        own.set("order", None)
        own.set("limit", None)
        queries.append(own)
    text = " UNION ALL ".join(s.sql() for s in queries)
    after = [c.sql() for n in ("order", "limit") if (c := select.args.get(n)) is not None]
    return " ".join([text, *after])


def with_keys(
    column: exp.Expr, select: exp.Select | None, aggregated: Callable[[exp.Expr], bool]
) -> str | None:
    """GROUP BY with what SELECT shows beside its statistics: columns, and places of the rest."""
    group = None if select is None else select.args.get("group")
    keys = [] if group is None else [k.sql() for k in group.expressions]
    for place, item in enumerate([] if select is None else select.expressions, 1):
        own = item.unalias()
        if aggregated(own):
            twice = [n for n in own.find_all(exp.Column) if n == column]
            if len(twice) > 1 and any(n is column for n in twice):
                return None  # a row beside a number of all rows
        elif own.find(exp.Column) and not {own.sql(), item.alias, str(place)}.intersection(keys):
            keys.append(written(own.name) if isinstance(own, exp.Column) else str(place))
    within = select is not None and any(
        n is column for e in select.expressions if not aggregated(e) for n in e.walk()
    )
    own_name = [] if within or written(column.name) in keys else [written(column.name)]
    return f"GROUP BY {', '.join([*keys, *own_name])}"


def on_its_own(unit: exp.Expr) -> str | None:
    """The people who pass the test of a FILTER, as a question of their own."""
    aggregate, select = unit.find_ancestor(exp.Filter), unit.find_ancestor(exp.Select)
    if aggregate is None or select is None:
        return None
    query = exp.select(exp.alias_(count_different(unit), "n"))
    with_clauses(query, select, "with_", "from_", "joins", "where")
    return query.where(aggregate.expression.this.copy()).sql()


def about_people(select: exp.Select, key: exp.Expr) -> str:
    """A statistic about people, where a question has a row for each person."""
    calls = [c for e in select.expressions if function_name(c := e.unalias()) == "SUM"]
    call = calls[0] if calls else count_rows()
    inner = exp.select(key.copy(), exp.alias_(call.copy(), "n"))
    set_group(with_clauses(inner, select, "from_", "joins", "where", "having"), [key])
    item = "AVG(n) AS per_person"
    if having := inner.args.get("having"):  # how many pass it
        items = {e.alias.casefold(): e.this for e in select.expressions if e.alias}
        for column in list(having.find_all(exp.Column)):
            column.replace(items.get(column.name.casefold(), column).copy())
        item = "COUNT(*) AS persons"
    before = select.args.get("with_")
    defined = "" if before is None else f"{before.sql()} "
    return f"{defined}SELECT {item} FROM ({inner.sql()})"  # noqa: S608 - a hint
