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
_PIECES: Final = (exp.Condition, exp.Star, exp.Interval, exp.Tuple, exp.Distinct, exp.Aliases)
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
    made = _clause(hint) or _items(hint)
    if made is None or root is None:
        return hint if made is None else None
    seen = {root.sql()}
    for place, asked in enumerate(_places(root, made)):
        if place >= _MOST or place * len(text) > _WORK:
            return None
        if asked not in seen and _works(asked, read, beside):
            return asked
        seen.add(asked)
    return None


def with_comma(text: str, end: int, read: Callable[[str], object]) -> str | None:
    """The question with a comma that is missing before the word at which reading it ended."""
    starts = [m.start() for m in _WORD.finditer(text) if m.start() < end][-2:]
    for start in reversed(starts):
        around = (*_WORD.findall(text[:start])[-1:], *_WORD.findall(text[start:])[:1])
        if any(word.upper() in _RESERVED for word in around):
            continue  # a name is missing there, and no comma
        asked = f"{text[:start].rstrip()}, {text[start:]}"
        if _works(asked, read, None):
            return asked
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
    found = _raw(f"{start} {hint}")
    if not isinstance(found, exp.Select) or found.args["from_"].this.alias:
        return None
    return found if any(found.args.get(c) for c in _CLAUSES) else None


def _items(hint: str) -> list[exp.Expr] | None:
    found = _raw(f"SELECT {hint}")
    plain = isinstance(found, exp.Select) and {k for k, v in found.args.items() if v}
    return list(found.expressions) if plain == {"expressions"} and found is not None else None


def _places(root: exp.Expr, made: exp.Select | list[exp.Expr]) -> Iterator[str]:
    """The question with a hint in each of its places."""
    try:
        if isinstance(made, exp.Select):
            yield from _with_clause(root, made)
        elif len(made) == 1:
            yield from _with_piece(root, made[0])
        else:
            yield from _with_items(root, made)
    except SqlglotError:
        return


def _with_clause(root: exp.Expr, made: exp.Select) -> Iterator[str]:
    name = next(c for c in _CLAUSES if made.args.get(c))
    for place, select in enumerate(root.find_all(exp.Select)):
        joins = len(select.args.get("joins") or ())
        for join in range(joins) if name == "joins" else (0,):
            asked = root.copy()
            own = list(asked.find_all(exp.Select))[place]
            if name == "joins" and made.args["joins"][0].name == "u":
                own.args["joins"][join].set("on", made.args["joins"][0].args["on"].copy())
            elif name == "joins":
                own.args["joins"][join].replace(made.args["joins"][0].copy())
            else:
                own.set(name, made.args[name].copy())
            if _keeps(root, asked):
                yield asked.sql()
            if name == "qualify" and own.args.get("having"):
                own.set("having", None)
                yield asked.sql()


def _with_piece(root: exp.Expr, made: exp.Expr) -> Iterator[str]:
    """Replace each piece, wherever it stands; a plain name also the name of a table or an alias."""
    pieces: dict[exp.Expr, None] = {}
    kinds: tuple[type[exp.Expr], ...] = _PIECES
    name = made.this if isinstance(made, exp.Column) and not made.args.get("table") else None
    if isinstance(name, exp.Identifier):
        kinds = (*kinds, exp.Identifier)
    for node in root.walk():
        if isinstance(node, kinds) and node is not root and not isinstance(node, exp.Subquery):
            pieces[node] = None
    words = made.sql().casefold()

    def unlike(piece: exp.Expr) -> float:
        return -difflib.SequenceMatcher(None, piece.sql().casefold(), words).ratio()

    for piece in sorted(pieces, key=unlike):
        asked = root.copy()
        for node in [n for n in asked.walk() if n == piece]:
            own = name if name is not None and isinstance(node, exp.Identifier) else made
            node.replace(own.copy())
        yield asked.sql()


def _with_items(root: exp.Expr, made: list[exp.Expr]) -> Iterator[str]:
    for place, select in enumerate(root.find_all(exp.Select)):
        for item in range(len(select.expressions)):
            asked = root.copy()
            own = list(asked.find_all(exp.Select))[place]
            items = own.expressions
            own.set("expressions", [*items[:item], *(m.copy() for m in made), *items[item + 1 :]])
            yield asked.sql()
