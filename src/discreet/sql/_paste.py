"""Hints are tried before they are shown.

A hint that is a line of SQL is pasted: a statement in the place of the question, a clause in the
place of that clause, an expression in the place of a piece of the question, the most similar piece
first. What then is refused, or has lost a table or a constant of a condition, is no hint.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from discreet.errors import DiscreetError
from discreet.sql._text import tree

_WORD: Final = re.compile(r"\w+|[^\w\s]", re.ASCII)
_MOST: Final = 60
_WORK: Final = 60_000
"""Characters that are read at most, so that long questions are refused soon too."""
_CLAUSES: Final = ("group", "order", "having", "qualify", "limit", "where", "joins")
_PIECES: Final = (
    exp.Condition,
    exp.WithinGroup,
    exp.Star,
    exp.Interval,
    exp.Tuple,
    exp.Distinct,
    exp.Aliases,
)
_RESERVED: Final = frozenset({"AS", "FROM", "WHERE", "SELECT", "BY", "AND", "OR", "NOT", "ON"})
_TESTS: Final = (exp.Where, exp.Having, exp.Join, exp.Filter, exp.Qualify)


def pasted(
    hint: str, text: str, read: Callable[[str], object], beside: str | None = None
) -> str | None:
    """The question with its hint, where it can be read; a sentence is given back as it is.

    Where a refusal is named, one for another reason counts as read.
    """
    words = hint.split(maxsplit=1)
    if words and words[0].upper() in ("SELECT", "WITH", "PIVOT"):
        return hint if _keeps(_raw(text), _raw(hint)) and _works(hint, read, beside) else None
    root = _raw(text)
    patch = _clause(hint) or _items(hint)
    if patch is None or root is None:
        return hint if patch is None else None
    seen = {root.sql()}
    for place, query in enumerate(_places(root, patch)):
        if place >= _MOST or place * len(text) > _WORK:
            return None
        if query not in seen and _works(query, read, beside):
            return query
        seen.add(query)
    return None


def with_comma(text: str, end: int, read: Callable[[str], object]) -> str | None:
    """The question with a comma that is missing before the word at which reading it ended."""
    starts = [m.start() for m in _WORD.finditer(text) if m.start() < end][-2:]
    for start in reversed(starts):
        around = (*_WORD.findall(text[:start])[-1:], *_WORD.findall(text[start:])[:1])
        if any(word.upper() in _RESERVED for word in around):
            continue  # a name is missing there, and no comma
        query = f"{text[:start].rstrip()}, {text[start:]}"
        if _works(query, read, None):
            return query
    return None


def _raw(text: str) -> exp.Expr | None:
    try:
        return tree(text, spelled=False)
    except DiscreetError:
        return None


def _works(text: str, read: Callable[[str], object], beside: str | None) -> bool:
    try:
        read(text)
    except DiscreetError as error:
        return beside is not None and error.message != beside
    return True


def _keeps(root: exp.Expr | None, other: exp.Expr | None) -> bool:
    """Whether a statement reads the tables of another, and tests the same constants.

    A subquery of the question, asked on its own, is a step on the way.
    """
    if root is None or other is None:
        return other is not None
    if any(other == part for part in root.find_all(exp.Select)):
        return True
    tables = ({t.name.casefold() for t in r.find_all(exp.Table)} for r in (root, other))
    before, after = tables
    tested = {str(n.this) for n in root.find_all(exp.Literal) if n.find_ancestor(*_TESTS)}
    return before == after and tested <= {str(n.this) for n in other.find_all(exp.Literal)}


def _clause(hint: str) -> exp.Select | None:
    start = "SELECT 1 FROM t JOIN u" if hint.startswith("ON ") else "SELECT 1 FROM t"
    select = _raw(f"{start} {hint}")
    if not isinstance(select, exp.Select) or select.args["from_"].this.alias:
        return None
    return select if any(select.args.get(c) for c in _CLAUSES) else None


def _items(hint: str) -> list[exp.Expr] | None:
    select = _raw(f"SELECT {hint}")
    plain = isinstance(select, exp.Select) and {k for k, v in select.args.items() if v}
    return list(select.expressions) if plain == {"expressions"} and select is not None else None


def _places(root: exp.Expr, patch: exp.Select | list[exp.Expr]) -> Iterator[str]:
    """The question with a hint in each of its places."""
    try:
        if isinstance(patch, exp.Select):
            yield from _with_clause(root, patch)
        elif len(patch) == 1:
            yield from _with_piece(root, patch[0])
        else:
            yield from _with_items(root, patch)
    except SqlglotError:
        return


def _with_clause(root: exp.Expr, patch: exp.Select) -> Iterator[str]:
    name = next(c for c in _CLAUSES if patch.args.get(c))
    for place, select in enumerate(root.find_all(exp.Select)):
        joins = len(select.args.get("joins") or ())
        for join in range(joins) if name == "joins" else (0,):
            query = root.copy()
            own = list(query.find_all(exp.Select))[place]
            if name == "joins" and patch.args["joins"][0].name == "u":
                own.args["joins"][join].set("on", patch.args["joins"][0].args["on"].copy())
            elif name == "joins":
                own.args["joins"][join].replace(patch.args["joins"][0].copy())
            else:
                own.set(name, patch.args[name].copy())
            if _keeps(root, query):
                yield query.sql()
            if name == "qualify" and own.args.get("having"):
                own.set("having", None)
                yield query.sql()


def _with_piece(root: exp.Expr, patch: exp.Expr) -> Iterator[str]:
    """Replace each piece, wherever it stands; a plain name also the name of a table or an alias."""
    pieces: dict[exp.Expr, None] = {}
    kinds: tuple[type[exp.Expr], ...] = _PIECES
    name = patch.this if isinstance(patch, exp.Column) and not patch.args.get("table") else None
    if isinstance(name, exp.Identifier):
        kinds = (*kinds, exp.Identifier)
    for node in root.walk():
        if isinstance(node, kinds) and node is not root and not isinstance(node, exp.Subquery):
            pieces[node] = None
    words = patch.sql().casefold()

    def unlike(piece: exp.Expr) -> float:
        return -difflib.SequenceMatcher(None, piece.sql().casefold(), words).ratio()

    for piece in sorted(pieces, key=unlike):
        query = root.copy()
        for node in [n for n in query.walk() if n == piece]:
            own = name if name is not None and isinstance(node, exp.Identifier) else patch
            node.replace(own.copy())
        yield query.sql()


def _with_items(root: exp.Expr, patch: list[exp.Expr]) -> Iterator[str]:
    for place, select in enumerate(root.find_all(exp.Select)):
        for item in range(len(select.expressions)):
            query = root.copy()
            own = list(query.find_all(exp.Select))[place]
            items = own.expressions
            own.set("expressions", [*items[:item], *(m.copy() for m in patch), *items[item + 1 :]])
            yield query.sql()
