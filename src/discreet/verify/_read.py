"""A strict reader of the SQL that engines are handed.

It knows the little language that statements are written in and nothing else:
one SELECT, subqueries in FROM, inner and left joins, WHERE, GROUP BY of names,
``OFFSET 0``, windows with PARTITION BY and ORDER BY. Whatever it does not know
is refused; so is a mix of bit and arithmetic operators without parentheses,
whose precedence engines do not agree on.

Equal expressions are one and the same :class:`Node`, so that a fact about an
expression is found again by identity wherever the expression stands in a SELECT.

A *base* is a subquery of two SELECTs over one table: where raw columns become codes. Most
questions about a table have one of a few, so what its words mean is read once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from typing import Any, Final, NoReturn, Protocol

from discreet._dataclass import dataclass, replace

PRIME: Final = 2**31 - 1
"""Modulus of the ranking: coefficients that stand as placeholders lie below it."""


def _tokens(string: str, quoted: str, signs: str) -> re.Pattern[str]:
    """Blanks, then a word, a number, a placeholder, a sign or a text; or what is none of these."""
    return re.compile(
        rf"""([ \n]*)(?:(
          [A-Za-z_][A-Za-z0-9_]*
        | \d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])
        | :[a-z][a-z0-9_]*
        | {signs}|<=|>=|<>|>>|<<|[-+*/%&=<>(),.]
        | {string}
        | {quoted}
        )|([^ \n]))""",
        re.VERBOSE | re.ASCII,
    )


_STANDARD: Final = _tokens(
    r"'(?:[^']|'')*'", r'"(?:[^"]|"")+"', r"->>|\|\||//|[\#\[\]:]"
)  # fmt: skip
# in Spark a backslash escapes, and whatever a dollar sign begins is replaced before it is read
_SPARK: Final = _tokens(r"'(?:[^'\\$]|\\[\\']|\\u0024)*'", r"`(?:[^`$]|``)+`", r"\^")
_ESCAPED: Final = re.compile(r"\\(u0024|.)")
_KEYWORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "SELECT FROM WHERE GROUP BY ORDER AS AND OR NOT IS NULL BETWEEN IN CASE WHEN THEN ELSE END "
        "CAST TRY_CAST EXTRACT OVER PARTITION INNER LEFT JOIN ON OFFSET COLLATE TRUE FALSE NULLS "
        "LAST DATE DISTINCT LIKE ESCAPE",
    )
)
_COMPARISONS: Final = frozenset({"=", "<>", "<", ">", "<=", ">="})
_BITS: Final = frozenset({">>", "<<", "&", "#", "^", "||", "->>"})
_SUMS: Final = frozenset({"+", "-"})
_PRODUCTS: Final = frozenset({"*", "/", "//", "%", "div"})
_OPERATORS: Final = _COMPARISONS | _BITS | _SUMS | _PRODUCTS
_SIGNS: Final = _OPERATORS - {"div"}
_SPECIAL: Final = frozenset(
    re.findall(
        r"\w+",
        "user current_user session_user current_role current_catalog current_schema current_date "
        "current_time current_timestamp localtime localtimestamp rowid",
    )
)
"""Bare words that an engine does not take for columns."""
_TESTS: Final = frozenset({"IS", "BETWEEN", "IN", "LIKE"})
_TERMS: Final = frozenset({"word", "quoted", "number", "string", "hole"})
_ENDS: Final = frozenset({
    ",", ")", "]", ":", "AS", "FROM", "WHERE", "GROUP", "OFFSET", "WHEN", "THEN", "ELSE", "END",
    "end",
})  # fmt: skip
"""What may follow an expression: one term before it is the whole of it."""
_BOUNDS: Final = _ENDS | _COMPARISONS | _TESTS | {"AND", "OR"}
"""What may follow a side of a comparison."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_SELECTS: Final = 200
_DEPTH: Final = 60
_LONGEST: Final = 4_000
"""Words of a base that is remembered."""


class Unproven(Exception):  # noqa: N818 - internal; leaves the package as an error of the tree
    """The statement cannot be read or proved; the text says where."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An expression: what kind it is, and its parts (nodes, names, numbers)."""

    kind: str
    args: tuple[Any, ...]

    def __str__(self) -> str:
        inner = ", ".join(str(a) for a in self.args if a is not None)
        return f"{self.kind}({inner})"


@dataclass(frozen=True, slots=True)
class From:
    """A source of rows: a table by its text, or a subquery; and its alias."""

    source: str | Select
    alias: str


@dataclass(frozen=True, slots=True)
class Join:
    """A joined source."""

    left: bool
    source: From
    on: Node


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT; an item is an expression and its name, a star has no name."""

    items: tuple[tuple[Node, str | None], ...]
    source: From
    joins: tuple[Join, ...]
    where: Node | None
    group: tuple[Node, ...]
    fence: bool
    """Whether it ends with ``OFFSET 0``: nothing from above is moved below it."""
    base: bool = False
    """Whether it is a base, and one and the same object wherever its words stand."""


def read(sql: str, dialect: str = "duckdb") -> Select:
    """Read one statement, whole."""
    return _Reader(
        [text for _, text, _ in _scan(sql, dialect)], spark=dialect == "spark"
    ).statement()


class Numbers(Protocol):
    """Numbers by the names of their placeholders."""

    def __getitem__(self, name: str, /) -> int: ...


def fill(sql: str, values: Numbers, dialect: str = "duckdb") -> str:
    """Put numbers in place of the placeholders of a proved statement.

    What runs is then the text that was proved, but for numbers that the proof
    covers.

    >>> fill("SELECT u * :salt0 FROM t", {"salt0": 5})
    'SELECT u * CAST(5 AS BIGINT) FROM t'
    """
    if ":" not in sql:
        return sql
    pieces = []
    for blank, text, _ in _scan(sql, dialect):
        if _kind(text) != "hole":
            pieces += [blank, text]
            continue
        value = values[text[1:]]
        least = 0 if text == ":offset" else 1
        assert least <= value < PRIME, "outside the range that was proved"
        pieces += [blank, f"CAST({value} AS BIGINT)"]
    return "".join([*pieces, sql[len(sql.rstrip(" \n")) :]])


@lru_cache(64)  # a statement is scanned to be proved and each time that it is filled
def _scan(sql: str, dialect: str) -> list[tuple[str, str, str]]:
    """Tokens with the blanks before them; together they are the whole text."""
    tokens = (_SPARK if dialect == "spark" else _STANDARD).findall(sql)
    before = ""
    for blank, text, unknown in tokens:
        if unknown:
            raise Unproven("a character outside the language")
        # engines take signs that touch for one operator, or for a comment
        if not blank and text in _OPERATORS and before in _SIGNS:
            raise Unproven("operators that touch")
        before = text
    return tokens


def _kind(text: str) -> str:
    """Kind of a token; a sign or a keyword is its own."""
    first = text[0]
    if first.isalpha() or first == "_":
        upper = text.upper()
        return upper if upper in _KEYWORDS else "word"
    if first.isdigit():
        return "number"
    if first in "'\"`":
        return "string" if first == "'" else "quoted"
    return "hole" if first == ":" and len(text) > 1 else text


@lru_cache(256)
def _base(words: tuple[str, ...], *, spark: bool) -> Select:
    """Read the words of a base: alone they mean what they mean in any statement."""
    return replace(_Reader(list(words), spark=spark).statement(), base=True)


class _Reader:
    def __init__(self, texts: list[str], *, spark: bool) -> None:
        self.spark = spark
        kinds = {text: _kind(text) for text in set(texts)}
        if spark and "div" in kinds:
            kinds["div"] = "div"
        # room to look ahead
        self.kinds = [*[kinds[text] for text in texts], *["end"] * 4]
        self.texts = [*texts, *[""] * 4]
        self.starts = [i for i, kind in enumerate(self.kinds) if kind == "SELECT"]
        self.at = 0
        self.depth = self.selects = 0
        self.nodes: dict[tuple[Any, ...], Node] = {}

    def node(self, kind: str, *args: Any) -> Node:
        key = (kind, *args)
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(kind, args)
        return node

    # tokens

    def take(self, kind: str, *more: str) -> bool:
        """Step over signs or keywords if they are what comes next."""
        if self.kinds[self.at] != kind:
            return False
        at = self.at + 1
        for other in more:
            if self.kinds[at] != other:
                return False
            at += 1
        self.at = at
        return True

    def text(self, kind: str) -> str:
        """Step over a token that must be of a kind, and give its text."""
        self.need(self.kinds[self.at] == kind)
        self.at += 1
        return self.texts[self.at - 1]

    def fail(self) -> NoReturn:
        near = " ".join(self.texts[self.at : self.at + 4])
        raise Unproven(f"cannot read on at: {near[:80]}")

    def plain(self, text: str) -> str:
        """Text that a string literal stands for."""
        if self.spark:
            return _ESCAPED.sub(lambda m: "$" if m[1] == "u0024" else m[1], text[1:-1])
        return text[1:-1].replace("''", "'")

    def need(self, found: bool) -> None:
        if not found:
            self.fail()

    def name(self) -> str:
        kind, text = self.kinds[self.at], self.texts[self.at]
        # engines fold the case of bare names in different ways
        if kind == "quoted":
            text = text[1:-1].replace(text[0] * 2, text[0])
        elif kind != "word" or not _NAME.fullmatch(text) or text in _SPECIAL:
            self.fail()
        self.at += 1
        return text

    # statements

    def statement(self) -> Select:
        root = self.select()
        self.need(self.kinds[self.at] == "end")
        return root

    def select(self) -> Select:
        self.selects += 1
        if self.selects > _SELECTS:
            raise Unproven("nested too deeply")
        self.need(self.take("SELECT"))
        items = [self.item()]
        while self.take(","):
            items.append(self.item())
        self.need(self.take("FROM"))
        source, joins = self.source(), []
        while (left := self.take("LEFT", "JOIN")) or self.take("INNER", "JOIN"):
            other = self.source()
            self.need(self.take("ON"))
            joins.append(Join(left, other, self.expression()))
        where = self.expression() if self.take("WHERE") else None
        group = tuple(self.listed()) if self.take("GROUP", "BY") else ()
        fence = self.take("OFFSET")
        if fence:
            self.need(self.text("number") == "0")
        self.selects -= 1
        return Select(tuple(items), source, tuple(joins), where, group, fence)

    def item(self) -> tuple[Node, str | None]:
        if self.take("*"):
            return self.node("star", None), None
        if self.kinds[self.at : self.at + 3] == ["word", ".", "*"]:
            term = self.node("star", self.name())
            self.at += 2
            return term, None
        term = self.expression()
        if self.take("AS"):
            return term, self.name()
        return term, term.args[1] if term.kind == "column" else ""

    def source(self) -> From:
        if self.take("("):
            end = self.base()
            if end is None:
                inner = self.select()
            else:
                inner = _base(tuple(self.texts[self.at : end]), spark=self.spark)
                self.at = end
            self.need(self.take(")") and self.take("AS"))
            return From(inner, self.name())
        parts, texts = [], []
        while True:
            texts.append(self.texts[self.at])
            parts.append(self.name())
            if not self.take("."):
                break
        return From(".".join(texts), self.name() if self.take("AS") else parts[-1])

    def base(self) -> int | None:
        """Where a base ends that begins here: one more SELECT inside, and no join."""
        inside = bisect_right(self.starts, self.at)
        if self.starts[inside - 1] != self.at or inside == len(self.starts):
            return None
        after = self.starts[inside + 1] if inside + 1 < len(self.starts) else len(self.texts)
        depth = 1
        for end in range(self.at, min(after, self.at + _LONGEST)):
            kind = self.kinds[end]
            depth += (kind == "(") - (kind == ")")
            if not depth:
                alone = self.starts[inside] < end and "JOIN" not in self.kinds[self.at : end]
                return end if alone else None
        return None

    def listed(self) -> list[Node]:
        terms = [self.expression()]
        while self.take(","):
            terms.append(self.expression())
        return terms

    # expressions, loosest first

    def expression(self) -> Node:
        if self.kinds[self.at + 1] in _ENDS and self.kinds[self.at] in _TERMS:
            return self.atom()
        self.depth += 1
        if self.depth > _DEPTH:
            raise Unproven("nested too deeply")
        parts = [self.conjunction()]
        while self.kinds[self.at] == "OR":
            self.at += 1
            parts.append(self.conjunction())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else self.node("or", *parts)

    def conjunction(self) -> Node:
        parts = [self.negation()]
        while self.kinds[self.at] == "AND":
            self.at += 1
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else self.node("and", *parts)

    def negation(self) -> Node:
        if self.kinds[self.at] == "NOT":
            self.at += 1
            return self.node("not", self.negation())
        return self.comparison()

    def comparison(self) -> Node:
        left = self.bits()
        kind = self.kinds[self.at]
        if kind in _COMPARISONS:
            self.at += 1
            return self.node("compare", kind, left, self.bits())
        if kind not in _TESTS:
            return left
        if self.take("IS", "NOT", "NULL"):
            return self.node("not", self.node("isnull", left))
        if self.take("IS", "NULL"):
            return self.node("isnull", left)
        if self.take("BETWEEN"):
            low = self.bits()
            self.need(self.take("AND"))
            high = self.bits()
            return self.node(
                "and", self.node("compare", ">=", left, low), self.node("compare", "<=", left, high)
            )
        if self.take("LIKE"):
            pattern = self.plain(self.text("string"))
            self.need(self.take("ESCAPE") and self.text("string") == "'!'")
            return self.node("like", left, pattern)
        if self.take("IN"):
            self.need(self.take("("))
            values = [self.member()]
            while self.take(","):
                values.append(self.member())
            self.need(self.take(")"))
            return self.node("in", left, *values)
        return left

    def member(self) -> Node:
        """Term of a list; lists may be long, so a plain constant takes the short way."""
        if self.kinds[self.at] in ("number", "string") and self.kinds[self.at + 1] in (",", ")"):
            return self.atom()
        return self.expression()

    def bits(self) -> Node:
        if self.kinds[self.at + 1] in _BOUNDS and self.kinds[self.at] in _TERMS:
            return self.atom()
        term, loose = self.sum()
        while (sign := self.kinds[self.at]) in _BITS:
            self.at += 1
            # what these mean in Spark depends on the words before them
            self.need(not (self.spark and sign in (">>", "<<")))
            right, also = self.sum()
            if loose or also:
                raise Unproven("bit and arithmetic operators mixed without parentheses")
            term = self.node("bit", sign, term, right)
        return term

    def sum(self) -> tuple[Node, bool]:
        term, loose = self.product()
        while (sign := self.kinds[self.at]) in _SUMS:
            self.at += 1
            term, loose = self.node("binary", sign, term, self.product()[0]), True
        return term, loose

    def product(self) -> tuple[Node, bool]:
        term, loose = self.unary(), False
        while (sign := self.kinds[self.at]) in _PRODUCTS:
            self.at += 1
            term, loose = self.node("binary", sign, term, self.unary()), True
        return term, loose

    def unary(self) -> Node:
        if self.kinds[self.at] == "-":
            self.at += 1
            if self.kinds[self.at] == "number":
                return self.node("number", "-" + self.text("number"))
            return self.node("negative", self.unary())
        term = self.atom()
        while self.kinds[self.at] in ("[", "COLLATE"):
            if self.take("["):
                first = self.expression()
                self.need(self.take(":"))
                last = self.expression()
                self.need(self.take("]"))
                term = self.node("call", "substr", term, first, last)
            else:
                self.at += 1
                name = self.text("word" if self.spark else "quoted")
                self.need(name == ("UTF8_BINARY" if self.spark else '"C"'))
                term = self.node("collate", term)
        return term

    def atom(self) -> Node:
        kind, text = self.kinds[self.at], self.texts[self.at]
        if kind in ("word", "quoted"):
            return self.by_name(kind)
        self.at += 1
        if kind == "number":
            return self.node("number", text)
        if kind == "string":
            return self.node("string", self.plain(text))
        if kind == "hole":
            return self.node("hole", text[1:])
        if kind == "(":
            inner = self.expression()
            self.need(self.take(")"))
            return inner
        if kind in _KEYWORDS:
            return self.keyword(kind)
        self.at -= 1
        return self.fail()

    def keyword(self, text: str) -> Node:
        if text in ("TRUE", "FALSE"):
            return self.node("truth", text == "TRUE")
        if text == "NULL":
            return self.node("null")
        if text == "CASE":
            return self.case()
        if text == "DATE":
            return self.node("cast", self.node("string", self.text("string")[1:-1]), "DATE", ())
        if text in ("CAST", "TRY_CAST"):
            self.need(self.take("("))
            inner = self.expression()
            self.need(self.take("AS"))
            name, parameters = self.type()
            self.need(self.take(")"))
            return self.node("cast" if text == "CAST" else "trycast", inner, name, parameters)
        if text == "EXTRACT":
            self.need(self.take("("))
            part = self.text("word").lower()
            self.need(self.take("FROM"))
            inner = self.expression()
            self.need(self.take(")"))
            return self.node("extract", part, inner)
        self.at -= 1
        return self.fail()

    def case(self) -> Node:
        subject = None if self.kinds[self.at] == "WHEN" else self.expression()
        branches = []
        while self.take("WHEN"):
            condition = self.expression()
            if subject is not None:
                condition = self.node("compare", "=", subject, condition)
            self.need(self.take("THEN"))
            branches.append((condition, self.expression()))
        other = self.expression() if self.take("ELSE") else self.node("null")
        self.need(bool(branches) and self.take("END"))
        return self.node("case", tuple(branches), other)

    def by_name(self, kind: str) -> Node:
        if kind == "word" and self.kinds[self.at + 1] == "(":
            name = self.texts[self.at].lower()
            self.at += 2
            return self.call(name)
        name = self.name()
        if self.take("."):
            return self.node("column", name, self.name())
        return self.node("column", None, name)

    def call(self, name: str) -> Node:
        distinct = self.take("DISTINCT")
        arguments: list[Node] = []
        if self.take("*"):
            arguments = [self.node("star", None)]
            self.need(self.take(")"))
        elif not self.take(")"):
            arguments = self.listed()
            self.need(self.take(")"))
        if distinct:
            name += " distinct"
        if not self.take("OVER"):
            if self.spark and name == "shiftright" and len(arguments) == 2:
                return self.node("bit", ">>", *arguments)
            return self.node("call", name, *arguments)
        self.need(not arguments and self.take("("))
        self.need(self.take("PARTITION", "BY"))
        partition, order = self.listed(), []
        if self.take("ORDER", "BY"):
            order.append(self.ordered())
            while self.take(","):
                order.append(self.ordered())
        self.need(self.take(")"))
        return self.node("window", name, tuple(partition), tuple(order))

    def ordered(self) -> Node:
        term = self.expression()
        self.take("NULLS", "LAST")
        return term

    def type(self) -> tuple[str, tuple[str, ...]]:
        words = []
        while self.kinds[self.at] in ("word", "DATE"):
            words.append(self.texts[self.at].upper())
            self.at += 1
        parameters = []
        if self.take("("):
            while True:
                kind = self.kinds[self.at]
                self.need(kind in ("number", "string"))
                text = self.text(kind)
                parameters.append(self.plain(text) if kind == "string" else text)
                if not self.take(","):
                    break
            self.need(self.take(")"))
        return " ".join(words), tuple(parameters)
