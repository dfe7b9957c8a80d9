"""From text to a syntax tree: size limits, one dialect, one statement.

The dialect is permissive (double quotes and backticks quote names) and knows no
functions: every call is parsed as *name and arguments*, and the meaning of names
is ours (``_rows``, ``_aggregates``). BigQuery's differential privacy clause is
accepted after SELECT. Trees are limited in length and depth, so that everything
that walks them later ends.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import ErrorLevel, TokenType, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token

from discreet import policy as pol
from discreet._text import plain_str
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import Expr, Scope, build
from discreet.sql._spellings import ours

MAX_LENGTH: Final = 20_000
MAX_NESTING: Final = 60
_SYNTAX: Final = frozenset({"CAST", "TRY_CAST", "SAFE_CAST", "EXTRACT"})
_HALF: Final = re.compile("[\0\ud800-\udfff]")
_BRACKETS: Final = re.compile(r"[()\[\]]")
_CHAINS: Final = (exp.And, exp.Or)
_WORDS: Final = re.compile("[A-Z][a-z]*")
INFIX: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.LT: "<", exp.LTE: "<=",
    exp.EQ: "=", exp.NEQ: "<>", exp.GTE: ">=", exp.GT: ">", exp.And: "and", exp.Or: "or",
    exp.Mod: "%", exp.IntDiv: "//", exp.DPipe: "||",
}  # fmt: skip
"""Operators between two operands, as the plan calls them."""
_INSTEAD: Final = {"offset": "LIMIT 10", "query": "x IN (1, 2)"}


class _Parser(parser.Parser):
    FUNCTIONS = {}  # noqa: RUF012 - sqlglot's way to declare it; no function is known but ours
    FUNCTION_PARSERS = {  # noqa: RUF012 - likewise
        **{n: parse for n, parse in parser.Parser.FUNCTION_PARSERS.items() if n in _SYNTAX},
        "SUBSTRING": lambda self: self._substring(),
    }
    _returns = 0

    def _retreat(self, index: int) -> None:
        # reading "a JOIN b JOIN c …" tries every way to pair joins with conditions; honest
        # questions turn back at most three times per word
        self._returns += 1
        if self._returns > 2_000 + 10 * len(self._tokens):
            raise QueryError("the question can be read in too many ways", hint="JOIN … USING (…)")
        super()._retreat(index)

    def _substring(self) -> exp.Anonymous:
        # SUBSTRING(x FROM 1 FOR 3), or with commas
        args = self._parse_csv(self._parse_bitwise)
        while self._match(TokenType.FROM) or self._match(TokenType.FOR):
            args += [a for a in (self._parse_bitwise(),) if a is not None]
        return exp.Anonymous(this="SUBSTRING", expressions=args)

    def _parse_hint(self) -> exp.Hint | None:
        # called right after SELECT, where BigQuery's clause stands
        if not self._match_text_seq("WITH", "DIFFERENTIAL_PRIVACY"):
            return super()._parse_hint()
        options: list[exp.Expr] = []
        if self._match_text_seq("OPTIONS"):
            options = self._parse_wrapped_csv(self._parse_disjunction)
        return exp.Hint(expressions=[exp.Anonymous(this="OPTIONS", expressions=options)])


class _Dialect(Dialect):
    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - likewise
        RAW_STRINGS = [("r'", "'"), ("R'", "'")]  # noqa: RUF012 - likewise
        KEYWORDS = {  # noqa: RUF012 - likewise
            **tokens.Tokenizer.KEYWORDS,
            "~": TokenType.RLIKE,
            "~*": TokenType.IRLIKE,
            "REGEXP": TokenType.RLIKE,
            "&&": TokenType.AND,
            "//": TokenType.DIV,
        }

    Parser = _Parser


_DIALECT: Final = _Dialect()


def tree(text: str, *, spelled: bool = True) -> exp.Expr:
    """Parse exactly one statement or expression into a tree of limited size.

    Where it is not `spelled` our way, it stays as its author wrote it.
    """
    text = plain_str(text, "a question", QueryError)
    _check_text(text)
    try:
        words, top = _without_top(_without_option(_with_names(_DIALECT.tokenize(text), text)))
        first = words[0].text.upper() if words else "SELECT"
        if first not in ("SELECT", "WITH", "FROM", "PIVOT", "(", ";"):
            raise refuse(build.quote(first), _with_select(text, words))
        statements = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(words, text)
    except ParseError as error:
        raise _syntax(error) from None
    except SqlglotError:
        raise QueryError("the text cannot be read as SQL: an open quote or bad character") from None
    except RecursionError:
        raise too_deep() from None
    trees = [s for s in statements if s is not None]
    if len(trees) != 1:
        raise QueryError(
            "one SELECT is asked at a time" if trees else "the question is empty",
            hint=trees[0].sql() if trees else "SELECT COUNT(*) AS n FROM people",
        )
    check_depth(trees[0])
    root = ours(trees[0]) if spelled else trees[0]
    if top is not None and isinstance(root, exp.Select):
        root.set("limit", top)
    return root


def _with_select(text: str, words: list[Token]) -> str:
    """Put SELECT before a question, or in the place of a first word that is almost SELECT."""
    named = len(words) > 1 and words[1].text.upper() in (",", "(", "FROM", "AS")
    meant = not named and build.nearest(words[0].text, ("SELECT",), 0.8) is not None
    return f"SELECT {text[words[0].end + 1 if meant else words[0].start :].strip()}"


def _with_names(words: list[Token], text: str) -> list[Token]:
    """Read [brackets] around a name as quotes, as T-SQL does; lists and places stay as they are."""
    tokens: list[Token] = []
    place = 0
    while place < len(words):
        first, end = words[place], place
        if first.token_type is TokenType.L_BRACKET:
            closed = (i for i in range(place, len(words)) if words[i].text == "]")
            end = next(closed, place)
        if _is_name(tokens, words[place + 1 : end]):
            name, last = text[first.end + 1 : words[end].start], words[end].end
            first = Token(TokenType.IDENTIFIER, name, first.line, first.col, first.start, last)
            place = end
        tokens.append(first)
        place += 1
    return tokens


_VALUES: Final = {TokenType.NUMBER, TokenType.STRING, TokenType.DASH, TokenType.L_BRACKET}


def _is_name(before: list[Token], inside: list[Token]) -> bool:
    """Whether brackets hold a name: no list, no number, no OFFSET(2)."""
    kinds = [w.token_type for w in inside]
    listed = TokenType.COMMA in kinds or set(kinds) <= _VALUES
    called = kinds[1:2] == [TokenType.L_PAREN]
    return not (listed or called or (before and before[-1].text.upper() == "ARRAY"))


def _without_option(words: list[Token]) -> list[Token]:
    """Leave out OPTION (…) at the end of a question: it speaks to an optimiser."""
    last = [i for i, w in enumerate(words[:-1]) if w.text.upper() == "OPTION"][-1:]
    for place in last:
        rest = [w.text for w in words[place + 1 :] if w.text != ";"]
        if rest[0] == "(" and rest.index(")") == len(rest) - 1 if ")" in rest else False:
            return words[:place]
    return words


def _without_top(words: list[Token]) -> tuple[list[Token], exp.Limit | None]:
    """Take TOP 3 or TOP (3) off the beginning of a question: it is a LIMIT."""
    first = [w.text.upper() for w in words[:5]]
    length = 5 if first[2:3] == ["("] and first[4:5] == [")"] else 3
    number = first[3:4] if length == 5 else first[2:3]
    if first[:2] != ["SELECT", "TOP"] or not number or not number[0].isdigit():
        return words, None
    percent = len(words) > length and words[length].text.upper() == "PERCENT"
    limit = exp.Limit(expression=exp.Literal.number(number[0]))
    if percent:
        limit.set("limit_options", exp.LimitOptions(percent=True))
    return [words[0], *words[length + percent :]], limit


def fragment(text: str, clause: str) -> exp.Expr:
    """Parse an expression, as it could stand in a clause of a SELECT."""
    text = plain_str(text, clause, QueryError)
    select = tree(f"SELECT {text}")
    only = isinstance(select, exp.Select) and {k for k, v in select.args.items() if v}
    if only != {"expressions"} or len(select.expressions) != 1:
        raise QueryError(
            f"{clause} takes one expression, got {build.quote(text)}", hint="age >= 18"
        )
    expression: exp.Expr = select.expressions[0]
    return expression


def condition(text: str, clause: str) -> str:
    """Read one expression alone, and write it from its first word to its last.

    What comes back stands in brackets without closing them: no comment is left open.
    """
    text = plain_str(text, clause, QueryError)
    if isinstance(fragment(text, clause), exp.Alias):
        raise QueryError(f"{clause} takes a condition, which has no name", hint="age >= 18")
    words = [w for w in _DIALECT.tokenize(text) if w.token_type is not TokenType.SEMICOLON]
    return text[words[0].start : words[-1].end + 1]


def _check_text(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the question is longer than {MAX_LENGTH} characters")
    if _HALF.search(text):
        raise QueryError("the question holds a NUL or half of a surrogate pair")
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise too_deep()


def check_depth(root: exp.Expr) -> None:
    """Refuse deep trees; chains of AND and OR count once, they are flattened later."""
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_NESTING:
            raise too_deep()
        own = type(node) if isinstance(node, _CHAINS) else None
        for value in node.args.values():
            stack += [
                (child, depth if type(child) is own else depth + 1)
                for child in (value if isinstance(value, list) else (value,))
                if isinstance(child, exp.Expr)
            ]


def too_deep() -> QueryError:
    """Build the error for a question that is nested too deeply."""
    return QueryError(f"the question is nested more than {MAX_NESTING} levels deep")


def _syntax(error: ParseError) -> QueryError:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    near = str(first.get("highlight") or "")
    place = f" at line {line}, column {column}" if line else ""
    return QueryError(
        f"the text cannot be read as SQL{place}" + (f", near {build.quote(near)}" if near else ""),
        line=line,
        column=column,
    )


def refuse(what: str, hint: str | None = None) -> UnsupportedQueryError:
    """Refuse a construct by name, with the nearest supported thing."""
    return UnsupportedQueryError(f"{what} is not supported", hint=hint)


def at_most(value: str, bound: int) -> str:
    """Write a bound that NULL does not become: LEAST passes over it."""
    return f"CASE WHEN {value} IS NOT NULL THEN LEAST({value}, {bound}) END"


WHOLE: Final = "whole"
"""Mark of the SELECT that is the question; those inside it have none."""


def only(node: exp.Expr, *allowed: str, hint: str | None = None) -> None:
    """Refuse a node that carries any clause besides the `allowed` ones."""
    for name, value in node.args.items():
        if name not in allowed and value:
            raise refuse(f"{name.strip('_').upper()} in {label(node)}", _INSTEAD.get(name, hint))


def label(node: exp.Expr) -> str:
    """Name of a node as its author would write it."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).upper()
    words = _WORDS.findall(type(node).__name__)
    return ("_" if words[0] == "Current" else " ").join(words).upper()


def function_name(node: exp.Expr) -> str:
    """Upper-case name of a called function, empty for anything else."""
    return str(node.name).upper() if isinstance(node, exp.Anonymous) else ""


def called(node: exp.Expr) -> str:
    """Name of a called function as it was written, in upper case."""
    return str(node.meta.get("called") or function_name(node))


def identifier(node: exp.Expr | None) -> str | None:
    """Text of an optional identifier."""
    return None if node is None else str(node.name)


def is_unit(scope: Scope, node: exp.Expr) -> bool:
    """Whether a node is the column that tells people apart."""
    own = isinstance(node, exp.Column)
    return own and scope.is_unit(node.name, identifier(node.args.get("table")))


def column_of(scope: Scope, node: exp.Expr) -> Expr:
    """Look a column up."""
    return scope.column(node.name, identifier(node.args.get("table")))


def columns_of(scope: Scope) -> set[str]:
    """Names of all columns that can be read."""
    return {name.casefold() for source in scope.sources for name in source.columns}


def table_of(policy: pol.Policy, node: exp.Expr | None) -> pol.Table | None:
    """The table of the policy that a node names, whatever its case."""
    name = node.name.casefold() if isinstance(node, exp.Table) else None
    return next((t for n, t in policy.tables.items() if n.casefold() == name), None)


def units_of(policy: pol.Policy) -> set[str]:
    """Names of the columns that tell people apart."""
    return {t.unit.casefold() for t in policy.tables.values() if t.unit is not None}


def limit_of(node: exp.Expr | None) -> int | None:
    """How many rows LIMIT keeps."""
    if node is None:
        return None
    only(node, "expression", hint="LIMIT 10")
    value = node.expression
    text = str(value.this) if isinstance(value, exp.Literal) and not value.is_string else ""
    if not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise QueryError("LIMIT takes a whole number of at least 1")
    return int(text)


def default_name(node: exp.Expr, place: int) -> str:
    """Readable name of an output without alias: count, avg_income, year_joined."""
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.Window):
        inner = node.this
        return default_name(inner if inner.expressions or inner.this else node, place)
    words: list[str] = []
    if name := function_name(node):
        words.append(name.lower())
        if any(isinstance(a, exp.Distinct) for a in node.expressions):
            words.append("distinct")
    elif isinstance(node, exp.Extract):
        words.append(node.this.name.lower())
    elif isinstance(node, exp.Case):
        return "case"
    else:
        return f"column_{place}"
    words += [str(c.name) for c in node.find_all(exp.Column)][:1]
    return "_".join(words)
