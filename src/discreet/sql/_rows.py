"""Row expressions: syntax of one row's values lowered to the plan's total functions.

Only the node types listed in :data:`_NODES` and the functions of
``discreet.plan.functions`` exist; all else is refused by name.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from sqlglot import exp

from discreet._dataclass import dataclass
from discreet._text import plain_str, written
from discreet.errors import ParameterError, QueryError, UnknownNameError, UnsupportedQueryError
from discreet.plan import (
    CALLS,
    Expr,
    Kind,
    Null,
    Operand,
    Scope,
    Word,
    build,
    calendar,
    curve_of,
    functions,
    words,
)  # fmt: skip
from discreet.sql._over import over_rows
from discreet.sql._spellings import FINDS
from discreet.sql._text import (
    INFIX,
    WHOLE,
    called,
    function_name,
    identifier,
    label,
    only,
    refuse,
)

_NUMBER: Final = re.compile(r"(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,2})?")
_LONGEST_TEXT: Final = 60
"""Signs of a name that may have been meant as a text; a longer one is not repeated."""
_REGULAR: Final = (exp.RegexpLike, exp.RegexpILike)
_TODAY: Final = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime)


arity, constant, whole = functions.arity, functions.constant, functions.whole


@dataclass(frozen=True)
class Rows:
    """Lowers row expressions within one scope."""

    scope: Scope

    def lower(self, node: exp.Expr) -> Operand:
        """Lower any allowed node."""
        handler = _NODES.get(type(node))
        if isinstance(node, exp.Window):
            raise over_rows(self.scope, node)
        if isinstance(node, _TODAY):
            raise UnsupportedQueryError(
                f"{label(node)} changes from day to day, and so would the rows that the question "
                f"means: write the date{self._ends(node)}",
                hint=f"DATE '{dt.datetime.now(dt.UTC).date()}'",
            )
        if handler is None:
            form = _BITWISE.get(type(node))
            sides = [] if form is None else [node.this.sql(), node.expression.sql()]
            raise refuse(label(node), form and form.format(*sides))
        return handler(self, node)

    def _ends(self, node: exp.Expr) -> str:
        """Where the dates end with which today is compared, by the policy."""
        test = node.find_ancestor(exp.Predicate)
        names = {c.name.casefold() for c in test.find_all(exp.Column)} if test else set()
        ends = {
            n: str(e.type.value(e.type.hi))[:10]
            for s in self.scope.sources
            for n, e in s.columns.items()
            if n.casefold() in names and e.type.kind in (Kind.DATE, Kind.TIMESTAMP)
        }
        text = " and ".join(f"{build.quote(n)} ends on {day}" for n, day in ends.items())
        return f" (in the policy {text})" if text else ""

    def expr(self, node: exp.Expr, where: str) -> Expr:
        """Lower to an expression with a type of its own."""
        return build.typed(self.lower(node), where)

    def condition(self, node: exp.Expr) -> Expr:
        """Lower a truth value."""
        return build.condition(self.lower(node))

    def parts(self, node: exp.Expr, *names: str) -> list[Operand]:
        """Lower the named arguments of a node that has no others."""
        only(node, *names)
        return self.many([node.args[name] for name in names])

    def many(self, nodes: Sequence[exp.Expr]) -> list[Operand]:
        """Lower several nodes."""
        return [self.lower(n) for n in nodes]

    def column(self, node: exp.Expr) -> Operand:
        """Look a column up."""
        only(node, "this", "table", hint="people.age")
        if isinstance(node.this, exp.Star):
            raise refuse("*", "COUNT(*)")
        table = identifier(node.args.get("table"))
        try:
            return self.scope.column(node.name, table)
        except UnknownNameError as error:
            if table is not None and error.missing is None and error.hint is None:
                raise self._no_table(error, node, table) from None
            if self.scope.is_unit(node.name, table):
                raise UnknownNameError(_about_people(node)) from None
            names = [*(n for s in self.scope.sources for n in s.columns), self.scope.unit or ""]
            if (near := build.nearest(node.name, names)) and near == self.scope.unit:
                raise error.with_hint(written(near)) from None
            named = isinstance(node.this, exp.Identifier) and node.this.quoted
            text = named and len(node.name) <= _LONGEST_TEXT
            if error.hint is not None or not text or node.args.get("table"):
                raise
            refused = UnknownNameError(
                f"{error.message}; if {build.quote(node.name)} is a text, write single quotes",
                hint=exp.Literal.string(node.name).sql(),
            )
            refused.missing = error.missing
            raise refused from None
        except QueryError as error:
            if error.hint is not None:
                raise
            instead = (
                "write JOIN instead of LEFT JOIN to count the rows that it finds"
                if _reads_only(table, node.find_ancestor(exp.Select))
                else "people for whom it finds a row are a question of their own, with "
                "WHERE EXISTS (SELECT …) instead of the join"
            )
            raise QueryError(f"{error.message}; {instead}") from None

    def _no_table(self, error: QueryError, node: exp.Expr, table: str) -> QueryError:
        """Say what an unknown name before a dot may be: a row outside, a column, another alias."""
        select, (first, *more) = node.find_ancestor(exp.Select), self.scope.sources
        if select is None or not select.meta.get(WHOLE):
            return UnknownNameError(
                f"{error.message} (inside a subquery the row outside is known by its unit alone; "
                "MIN and MAX of a person's rows, in a subquery that groups by the unit, can be "
                "compared)"
            )
        columns = {n.casefold() for n in first.columns}
        if table.casefold() in columns and node.name.upper() in functions.FUNCTIONS:
            return error.with_hint(f"{node.name.upper()}({written(table)})")
        alone = not more and node.name.casefold() in columns
        return error.with_hint(written(node.name)) if alone else error

    def literal(self, node: exp.Expr) -> Operand:
        """Read a constant exactly as written."""
        if node.is_string:
            return Word(node.this)
        text = plain_str(node.this)
        if not _NUMBER.fullmatch(text):
            raise QueryError("a number in the question is too long or too large")
        return build.number(Fraction(text))

    def chain(self, node: exp.Expr) -> Operand:
        """Flatten AND or OR."""
        parts = self.many(list(node.flatten(unnest=False)))
        joined = build.conjunction if isinstance(node, exp.And) else build.disjunction
        return joined(parts)

    def infix(self, node: exp.Expr) -> Operand:
        """Compare two operands, or compute with two numbers."""
        node.args.pop("safe", None)  # a mark of the parser's about || that changes nothing here
        only(node, "this", "expression")
        if (absent := self._instead_of_null(node)) is not None:
            return absent
        operands = self._compared([node.this, node.expression])
        try:
            if isinstance(node, exp.IntDiv):
                return _whole_quotient(node, operands)
            return functions.infix(INFIX[type(node)], *operands)
        except (QueryError, ParameterError) as error:
            if (day := _bare_day(node.expression)) is not None:
                raise error.with_hint(_with_text(node.expression, day)) from None
            if any(isinstance(o, Null) for o in operands):
                raise error.with_hint(_of_null(node)) from None
            if isinstance(node, exp.NEQ) and error.hint and Word("") not in operands:
                raise error.with_hint(error.hint.replace(" = ", " <> ", 1)) from None
            if Word("") not in operands or not isinstance(node, exp.EQ | exp.NEQ):
                raise
            own, no = node.this if operands[1] == Word("") else node.expression, " NOT"
            raise error.with_hint(f"{own.sql()} IS{no * isinstance(node, exp.NEQ)} NULL") from None

    def _instead_of_null(self, node: exp.Expr) -> Operand | None:
        """COALESCE(x, 'none') = 'A' of open text: whether it holds is known where x is NULL."""
        call, value = node.this.unnest(), node.expression
        args = call.expressions if function_name(call) in _COALESCE else []
        texts = [a for a in (*args[1:], value) if isinstance(a, exp.Literal) and a.is_string]
        if not isinstance(node, exp.EQ | exp.NEQ) or len(args) != 2 or len(texts) != 2:
            return None
        x = self.lower(args[0])
        if not isinstance(x, Expr) or x.type.kind is not Kind.TEXT:
            return None
        op, holds = INFIX[type(node)], (texts[0].name == value.name) is isinstance(node, exp.EQ)
        test = functions.infix(op, x, Word(value.name))
        return build.coalesce([build.condition(test), build.truth(value=holds)])

    def membership(self, node: exp.Expr) -> Operand:
        """Test a list of constants."""
        field = node.args.get("field")
        if isinstance(field, exp.Literal):
            raise refuse("IN without parentheses", f"{node.this.sql()} IN ({field.sql()})")
        only(node, "this", "expressions", hint="x IN (1, 2)")
        x, *listed = self._compared([node.this, *node.expressions])
        try:
            return build.one_of(x, listed)
        except QueryError as error:  # the one value is mended, and the others stay
            one = (error.hint or "").partition(" = ")[2]
            raise error.with_hint(one if one.startswith("'") else None) if one else error from None

    def _compared(self, nodes: Sequence[exp.Expr]) -> list[Operand]:
        """Lower what is compared; ``sex = "F"`` is a text where F is a listed value of sex.

        A name in double quotes that is no column is a text in MySQL and BigQuery. It is read so
        only beside a category that lists it: a column's name with a typo is not a constant.
        """
        operands: list[Operand] = []
        strange: dict[exp.Expr, UnknownNameError] = {}
        for node in nodes:
            try:
                operands.append(self.lower(node))
            except UnknownNameError as error:
                if not isinstance(node, exp.Column) or node.args.get("table"):
                    raise
                operands.append(Word(node.name))
                strange[node] = error
        labels = {x for o in operands if isinstance(o, Expr) for x in o.type.labels}
        for node, unknown in strange.items():
            name = node.name
            if not node.this.quoted and name not in labels:
                raise unknown
            if not node.this.quoted:
                raise UnknownNameError(
                    f"{unknown.message}; a text stands in quotes", hint=_with_text(node, name)
                )
            if name not in labels:
                own = bool(labels) and unknown.hint == exp.Literal.string(name).sql()
                raise unknown.with_hint(None) if own else unknown
        return operands

    def identity(self, node: exp.Expr) -> Operand:
        """IS NULL, IS TRUE, IS FALSE, and their negations."""
        only(node, "this", "expression", "negate")
        try:
            arg, other = self.lower(node.this), node.expression
        except QueryError as error:
            absent = _absent(self.scope, node)
            raise error if absent is None else error.with_hint(absent) from None
        if isinstance(other, exp.Null):
            test = build.is_null(arg)
        elif isinstance(other, exp.Boolean):
            condition = arg if other.this else build.negate(arg)
            test = build.coalesce([build.condition(condition), build.truth(value=False)])
        else:
            equal = "<>" if isinstance(node.parent, exp.Not) else "="
            given = isinstance(other, exp.Literal)
            hint = f"{node.this.sql()} {equal} {other.sql()}" if given else "x IS NULL"
            raise refuse(f"IS {'of a constant' if given else label(other)}", hint)
        return build.negate(test) if node.args.get("negate") else test

    def case(self, node: exp.Expr) -> Operand:
        """Choose the first true branch."""
        subject = None if node.this is None else self.lower(node.this)
        branches: list[tuple[Operand, Operand]] = []
        for branch in node.args["ifs"]:
            test = self.lower(branch.this)
            if subject is not None:
                test = build.compare("=", subject, test)
            branches.append((test, self.branch(test, branch.args["true"])))
        default = node.args.get("default")
        return build.case(branches, Null() if default is None else self.lower(default))

    def branch(self, test: Operand, node: exp.Expr) -> Operand:
        """Lower a value that counts only where `test` is true, with the bounds that proves."""
        return Rows(self.scope.assuming(build.condition(test))).lower(node)

    def cast(self, node: exp.Expr) -> Operand:
        """CAST of constants to dates and times, of truth to numbers."""
        only(node, "this", "to", "safe")
        target = node.args["to"].this.name
        arg = self.lower(node.this)
        if target in TIMES and isinstance(arg, Word):
            return build.date(arg.text) if target == "DATE" else build.timestamp(arg.text)
        if target == "DATE":
            return calendar.as_date(arg)
        if target in _EXACT or target in _WHOLE:
            number = build.as_number(arg, "CAST")
            curve = curve_of(number)
            whole = number.type.step.denominator == 1 and (curve is None or curve.rounded)
            if target in _WHOLE and not whole:
                raise refuse(
                    "CAST of fractions to whole numbers, which rounds in some databases and cuts "
                    "in others,",
                    f"ROUND({node.this.sql()})",
                )
            return number
        if target == "BOOLEAN":
            return build.condition(arg)
        if target in _TEXTS:
            length = [p.name for p in node.args["to"].expressions if p.name.isdecimal()]
            try:
                text = words.as_text(arg, own := node.this.sql())
            except QueryError as error:  # inside a call, a number is not what its text is
                raise (
                    error if isinstance(node.parent, _KEEPING) else error.with_hint(None)
                ) from None
            return words.shortened(text, int(length[0][:9]), own) if length else text
        raise refuse(f"CAST to {target}", node.this.sql())

    def match(self, node: exp.Expr) -> Operand:
        """Match a text with a constant pattern: LIKE, or x RLIKE '…', x ~ '…', x ~* '…'."""
        escape = None
        if isinstance(node, exp.Escape):
            escape, node = node.expression.name, node.this
            if not isinstance(node, exp.Like | exp.ILike):
                raise refuse("ESCAPE here", "city LIKE 'B%'")
        only(node, "this", "expression", "negate")
        pattern, regular = self.lower(node.expression), isinstance(node, _REGULAR)
        if not isinstance(pattern, Word) and regular:
            raise QueryError("a regular expression is written in quotes", hint="city ~ '^B'")
        if not isinstance(pattern, Word):
            raise QueryError("LIKE takes a pattern in quotes", hint="LIKE 'A%'")
        x, fold = self.lower(node.this), isinstance(node, exp.ILike | exp.RegexpILike)
        if regular:
            test = words.regexp(x, pattern.text, "i" if fold else "")
        else:
            test = words.matches(x, pattern.text, fold=fold, escape=escape)
        return build.negate(test) if node.args.get("negate") else test

    def interval(self, node: exp.Expr) -> Operand:
        """Read a length of time."""
        only(node, "this", "unit")
        amount, unit = node.this, node.args.get("unit")
        if not isinstance(amount, exp.Literal):
            raise QueryError("an interval is a constant", hint="INTERVAL 30 DAY")
        return calendar.span(amount.name, None if unit is None else unit.name)

    def call(self, node: exp.Expr) -> Operand:
        """Call one of our functions."""
        name = function_name(node)
        if name in functions.FUNCTIONS:
            args = self.many(node.expressions)
            if name in _COALESCE and args and isinstance(args[0], Expr):
                _check_null(args, node.expressions[0])
            return functions.FUNCTIONS[name](called(node), args)
        if name in FINDS:
            raise UnsupportedQueryError(
                f"{name} tells here whether a text holds another, and not where: compare it with 0"
            )
        if name in ("CUT", "QCUT") and node.expressions:
            x = node.expressions[0].sql()
            raise refuse(
                f"function {build.quote(name)}, whose bins follow the data, "
                f"(BIN({x}, width) and WIDTH_BUCKET({x}, low, high, count) have public ones)"
            )
        if name in _INSTEAD:
            place, form = _INSTEAD[name]
            args = [a.sql() for a in node.expressions]
            hint = form.format(*args[place:], *args[:place]) if len(args) > place else None
            raise refuse(_SAYS.get(name, f"function {build.quote(name)}"), hint)
        # a typing error, not another function that begins alike
        near = build.nearest(name, functions.FUNCTIONS, 0.78)
        text = ", ".join(a.sql() for a in node.expressions)
        raise refuse(f"function {build.quote(name)}", near and f"{near}({text})")


def _with_text(node: exp.Expr, text: str) -> str | None:
    """The comparison in which a node stands, with a text in its place."""
    constant = exp.Literal.string(text)
    above = node.parent
    return None if above is None else above.transform(lambda n: constant if n == node else n).sql()


def _bare_day(node: exp.Expr) -> str | None:
    """A day that was written without quotes: a difference of three numbers, or one number."""
    text = node.sql().replace(" ", "")
    match = re.fullmatch(r"(\d{4})(-?)([01]\d)\2([0-3]\d)", text, re.ASCII)
    return f"{match[1]}-{match[3]}-{match[4]}" if match else None


def _of_null(node: exp.Expr) -> str | None:
    """The test that a comparison with NULL means; none of others than = and <>."""
    if not isinstance(node, exp.EQ | exp.NEQ):
        return None
    own = node.expression if isinstance(node.this.unnest(), exp.Null) else node.this
    return f"{own.sql()} IS{' NOT' * isinstance(node, exp.NEQ)} NULL"


def _reads_only(table: str | None, select: exp.Select | None) -> bool:
    """Whether every aggregate of a whole question skips the rows that a joined table lacks."""
    if table is None or select is None or select.parent is not None or select.args.get("having"):
        return False
    calls = [n for n in select.walk() if function_name(n) in CALLS]
    args = [
        a.expressions if isinstance(a, exp.Distinct) else [a] for n in calls for a in n.expressions
    ]
    return not select.find(exp.Filter, exp.Window) and all(
        isinstance(a, exp.Column) and a.table.casefold() == table.casefold()
        for each in args
        for a in each
    )


_COALESCE: Final = ("COALESCE", "IFNULL", "NVL")


def _check_null(args: Sequence[Operand], x: exp.Expr) -> None:
    """Refuse a text in the place of NULL among open text, which has no list to add it to."""
    texts = isinstance(args[0], Expr) and args[0].type.kind is Kind.TEXT
    if texts and any(isinstance(a, Word) for a in args):
        raise UnsupportedQueryError(
            f"no text can stand for NULL in {x.sql()}: it is open text, which has no list of "
            f"values; its NULLs are counted beside it, COUNT(*) FILTER (WHERE {x.sql()} IS NULL)"
        )


def _absent(scope: Scope, node: exp.Expr) -> str | None:
    """Write ``theirs.unit IS NULL`` after a LEFT JOIN as a test of who has no row there."""
    column, select = node.this, node.find_ancestor(exp.Select)
    if select is None or not isinstance(column, exp.Column) or isinstance(node.parent, exp.Not):
        return None
    alias = (identifier(column.args.get("table")) or "").casefold()
    joined = [j.this for j in select.args.get("joins") or () if j.args.get("side") == "LEFT"]
    other = [t.name for t in joined if t.alias_or_name.casefold() == alias]
    if not other or scope.unit is None:
        return None
    mine = f"{written(scope.sources[0].alias)}.{written(scope.unit)}"
    return f"{mine} NOT IN (SELECT {written(column.name)} FROM {written(other[0])})"  # noqa: S608 - a hint


def _about_people(unit: exp.Expr) -> str:
    """Say why the unit is no value: it names people, or chooses some of them."""
    name, test = build.quote(unit.name), unit.find_ancestor(exp.Where, exp.Filter, exp.Having)
    if test is None and unit.find_ancestor(exp.Predicate) is None:
        return (
            f"{name} is the privacy unit: its people can be counted, "
            f"COUNT(DISTINCT {written(unit.name)}), and nothing else"
        )
    return (
        f"{name} is the privacy unit: a question about one person, or about people who are chosen "
        "by what identifies them, is refused"
    )


def _whole_quotient(node: exp.Expr, operands: Sequence[Operand]) -> Operand:
    """Divide and cut; 2.0 is a fraction to DuckDB, which does not cut then."""
    sides = node.this, node.expression
    try:
        if any(isinstance(e, exp.Literal) and "." in e.name for e in sides):
            raise functions.fractions_cut()
        return functions.infix("//", *operands)
    except UnsupportedQueryError as error:
        raise error.with_hint(f"TRUNC({sides[0].sql()} / {sides[1].sql()})") from None


_BITWISE: Final[dict[type[exp.Expr], str]] = {
    exp.BitwiseXor: "POWER({}, {})",
    exp.BitwiseAnd: "{} AND {}",
    exp.BitwiseOr: "{} OR {}",
}
"""What is meant by signs that compute with bits: powers, and conditions of pandas."""
_INSTEAD: Final = {
    "ADD_MONTHS": (0, "{} + INTERVAL {} MONTH"),
    "EXPM1": (0, "EXP({}) - 1"),
    "LOG1P": (0, "LN(1 + {})"),
    "RANGE": (0, "MAX({0}) - MIN({0})"),
    "WEEKDAY": (0, "ISODOW({})"),
    "YEARWEEK": (0, "STRFTIME({}, '%G%V')"),
}
"""Functions that are not here: which argument counts, and what there is for it."""
_SAYS: Final = {
    "WEEKDAY": "WEEKDAY (0 is Monday in MySQL and Sunday elsewhere; ISODOW is 1 on Monday)",
    "YEARWEEK": "YEARWEEK (it is a text here, of ISO weeks, and other weeks in MySQL)",
}
_KEEPING: Final = (exp.Select, exp.Alias, exp.Group, exp.EQ, exp.NEQ, exp.In)
"""Places where a number does what its text does."""
_TEXTS: Final = frozenset({"VARCHAR", "TEXT", "CHAR", "NVARCHAR", "NCHAR"})
_WHOLE: Final = frozenset({"INT", "BIGINT", "SMALLINT", "TINYINT"})
_EXACT: Final = frozenset({"DOUBLE", "FLOAT", "DECIMAL", "BIGDECIMAL"})
TIMES: Final = frozenset({"DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ", "TIMESTAMPTZ"})
_NODES: Final[dict[type, Callable[[Rows, exp.Expr], Operand]]] = {
    exp.Column: Rows.column,
    exp.Literal: Rows.literal,
    exp.Boolean: lambda _, node: build.truth(value=bool(node.this)),
    exp.Null: lambda _, __: Null(),
    exp.Paren: lambda rows, node: rows.lower(node.this),
    exp.Neg: lambda rows, node: build.minus(rows.lower(node.this)),
    exp.Not: lambda rows, node: build.negate(rows.lower(node.this)),
    **dict.fromkeys(INFIX, Rows.infix),
    exp.And: Rows.chain,
    exp.Or: Rows.chain,
    exp.Between: lambda rows, node: build.between(*rows.parts(node, "this", "low", "high")),
    exp.In: Rows.membership,
    exp.Is: Rows.identity,
    exp.Case: Rows.case,
    exp.Cast: Rows.cast,
    exp.TryCast: Rows.cast,
    exp.Extract: lambda rows, node: calendar.part(node.this.name, rows.lower(node.expression)),
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape, *_REGULAR), Rows.match),
    exp.Interval: Rows.interval,
    exp.Anonymous: Rows.call,
}
