"""Row expressions: syntax of one row's values lowered to the plan's total functions.

Only the node types listed in :data:`_NODES` and the functions in
:data:`_FUNCTIONS` exist; all else is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from sqlglot import exp

from discreet.errors import QueryError
from discreet.plan import Scope, build
from discreet.plan._build import Null, Operand, Word
from discreet.plan._expr import Comparison, Expr
from discreet.sql._text import function_name, identifier, label, only, refuse

_NUMBER: Final = re.compile(r"\d{0,40}\.?\d{0,40}(?:[eE][+-]?\d{1,2})?")
_HINTS: Final = {
    exp.Mod: "x - FLOOR(x / 10) * 10",
    exp.IntDiv: "FLOOR(x / 10)",
    exp.Like: "city IN ('Bern', 'Basel')",
    exp.ILike: "city IN ('Bern', 'Basel')",
    exp.CurrentDate: "DATE '2024-01-31'",
    exp.CurrentTimestamp: "TIMESTAMP '2024-01-31 00:00:00'",
    exp.Interval: "DATE '2024-01-31'",
    exp.NullSafeEQ: "x = 3",
    exp.Window: "GROUP BY sex",
    exp.Select: "WITH adults AS (SELECT * FROM people WHERE age >= 18) SELECT …",
    exp.Subquery: "WITH adults AS (SELECT * FROM people WHERE age >= 18) SELECT …",
    exp.DPipe: "CASE WHEN … THEN 'a' ELSE 'b' END",
}


def constant(operand: Operand, where: str) -> Fraction:
    """Insist on a numeric constant."""
    value = build.constant_value(operand)
    if value is None:
        raise QueryError(f"{where} needs a constant number here")
    return value


def whole(operand: Operand, where: str) -> int:
    """Insist on a constant whole number."""
    value = constant(operand, where)
    if value.denominator != 1:
        raise QueryError(f"{where} needs a whole number here")
    return int(value)


@dataclass(frozen=True)
class Rows:
    """Lowers row expressions within one scope."""

    scope: Scope

    def lower(self, node: exp.Expr) -> Operand:
        """Lower any allowed node."""
        handler = _NODES.get(type(node))
        if handler is None:
            raise refuse(label(node), _HINTS.get(type(node)))
        return handler(self, node)

    def expr(self, node: exp.Expr, where: str) -> Expr:
        """Lower to an expression with a type of its own."""
        return build.typed(self.lower(node), where)

    def condition(self, node: exp.Expr) -> Expr:
        """Lower a truth value."""
        return build.condition(self.lower(node))

    def many(self, nodes: Sequence[exp.Expr]) -> list[Operand]:
        """Lower several nodes."""
        return [self.lower(n) for n in nodes]

    def column(self, node: exp.Expr) -> Operand:
        """Look a column up."""
        only(node, "this", "table", hint="people.age")
        if isinstance(node.this, exp.Star):
            raise refuse("*", "COUNT(*)")
        return self.scope.column(node.name, identifier(node.args.get("table")))

    def literal(self, node: exp.Expr) -> Operand:
        """Read a constant exactly as written."""
        if node.is_string:
            return Word(str(node.this))
        text = str(node.this)
        if not _NUMBER.fullmatch(text) or not any(c.isdigit() for c in text):
            raise QueryError("a number in the question is too long or too large")
        return build.number(Fraction(text))

    def negative(self, node: exp.Expr) -> Operand:
        """Change a sign."""
        return build.minus(self.lower(node.this))

    def negation(self, node: exp.Expr) -> Operand:
        """Negate a condition."""
        return build.negate(self.lower(node.this))

    def chain(self, node: exp.Expr) -> Operand:
        """Flatten AND or OR."""
        parts = self.many(list(node.flatten(unnest=False)))
        joined = build.conjunction if isinstance(node, exp.And) else build.disjunction
        return joined(parts)

    def comparison(self, node: exp.Expr) -> Operand:
        """Compare two operands."""
        only(node, "this", "expression")
        op: Comparison = _COMPARISONS[type(node)]
        return build.compare(op, self.lower(node.this), self.lower(node.expression))

    def arithmetic(self, node: exp.Expr) -> Operand:
        """Compute with two numbers."""
        only(node, "this", "expression")
        op = _ARITHMETIC[type(node)]
        return build.arithmetic(op, self.lower(node.this), self.lower(node.expression))

    def between(self, node: exp.Expr) -> Operand:
        """Test a closed range."""
        only(node, "this", "low", "high")
        low, high = node.args["low"], node.args["high"]
        return build.between(self.lower(node.this), self.lower(low), self.lower(high))

    def membership(self, node: exp.Expr) -> Operand:
        """Test a list of constants."""
        only(node, "this", "expressions", hint="x IN (1, 2)")
        return build.one_of(self.lower(node.this), self.many(node.expressions))

    def identity(self, node: exp.Expr) -> Operand:
        """IS NULL, IS TRUE, IS FALSE, and their negations."""
        only(node, "this", "expression", "negate")
        arg, other = self.lower(node.this), node.expression
        if isinstance(other, exp.Null):
            test = build.is_null(arg)
        elif isinstance(other, exp.Boolean):
            wanted = arg if other.this else build.negate(arg)
            test = build.coalesce([build.condition(wanted), build.truth(value=False)])
        else:
            raise refuse(f"IS {label(other)}", "x IS NULL")
        return build.negate(test) if node.args.get("negate") else test

    def case(self, node: exp.Expr) -> Operand:
        """Choose the first true branch."""
        subject = None if node.this is None else self.lower(node.this)
        branches: list[tuple[Operand, Operand]] = []
        for branch in node.args["ifs"]:
            test = self.lower(branch.this)
            if subject is not None:
                test = build.compare("=", subject, test)
            branches.append((test, self.given(test, branch.args["true"])))
        default = node.args.get("default")
        return build.case(branches, Null() if default is None else self.lower(default))

    def conditional(self, node: exp.Expr) -> Operand:
        """IF(condition, a, b)."""
        return self.choose([node.this, node.args["true"], node.args.get("false")])

    def choose(self, nodes: Sequence[exp.Expr | None]) -> Operand:
        """Choose between two values by a condition."""
        arity("IF", nodes, 3)
        test, yes, no = nodes
        assert test is not None
        assert yes is not None
        passed = self.condition(test)
        otherwise = Null() if no is None else self.lower(no)
        return build.case([(passed, self.given(passed, yes))], otherwise)

    def given(self, test: Operand, node: exp.Expr) -> Operand:
        """Lower a value that counts only where `test` is true, with the bounds that proves."""
        return Rows(self.scope.assuming(build.condition(test))).lower(node)

    def cast(self, node: exp.Expr) -> Operand:
        """CAST of constants to dates and times, of truth to numbers."""
        only(node, "this", "to", "safe")
        target = node.args["to"].this.name
        arg = self.lower(node.this)
        if target in _TIMES and isinstance(arg, Word):
            return build.date(arg.text) if target == "DATE" else build.timestamp(arg.text)
        if target in _EXACT or target in _WHOLE:
            number = build.as_number(arg, "CAST")
            if target in _WHOLE and number.type.step.denominator != 1:
                raise refuse("CAST of fractions to whole numbers", "ROUND(x) or FLOOR(x)")
            return number
        if target == "BOOLEAN":
            return build.condition(arg)
        raise refuse(f"CAST to {target}", "CAST(married AS INTEGER)")

    def extract(self, node: exp.Expr) -> Operand:
        """EXTRACT(part FROM day)."""
        return build.date_part(node.this.name, self.lower(node.expression))

    def call(self, node: exp.Expr) -> Operand:
        """Call one of our functions."""
        name = function_name(node) or ""
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](self, node.expressions)
        if name in build_parts():
            arity(name, node.expressions, 1)
            return build.date_part(name, self.lower(node.expressions[0]))
        known = [*_FUNCTIONS, *build_parts()]
        near = build.nearest(name, known)
        raise refuse(f"function {build.quote(name)}", near and f"{near}(…)")

    def date_part(self, args: Sequence[exp.Expr]) -> Operand:
        """DATE_PART('year', day)."""
        arity("DATE_PART", args, 2)
        part = self.lower(args[0])
        if not isinstance(part, Word):
            raise QueryError("DATE_PART needs the part in quotes", hint="DATE_PART('year', day)")
        return build.date_part(part.text, self.lower(args[1]))

    def rounded(self, args: Sequence[exp.Expr]) -> Operand:
        """ROUND(x) or ROUND(x, digits)."""
        arity("ROUND", args, 1, 2)
        digits = whole(self.lower(args[1]), "ROUND") if len(args) > 1 else 0
        return build.rounded(self.lower(args[0]), digits)

    def bucket(self, args: Sequence[exp.Expr]) -> Operand:
        """WIDTH_BUCKET(x, low, high, count)."""
        arity("WIDTH_BUCKET", args, 4)
        x, low, high, count = self.many(args)
        name = "WIDTH_BUCKET"
        return build.width_bucket(x, constant(low, name), constant(high, name), whole(count, name))

    def limited(self, args: Sequence[exp.Expr], *, least: bool) -> Operand:
        """LEAST and GREATEST of one number and constants: a public bound."""
        name = "LEAST" if least else "GREATEST"
        values = self.many(args)
        bounds = [v for o in values if (v := build.constant_value(o)) is not None]
        free = [o for o in values if build.constant_value(o) is None]
        if len(free) != 1 or not bounds:
            raise refuse(f"{name} of several columns", f"{name}(income, 100000)")
        if least:
            return build.clamp(free[0], None, min(bounds), name)
        return build.clamp(free[0], max(bounds), None, name)

    def nullif(self, args: Sequence[exp.Expr]) -> Operand:
        """NULLIF(x, constant)."""
        arity("NULLIF", args, 2)
        x, other = self.many(args)
        return build.case([(build.compare("=", x, other), Null())], x)

    def power(self, args: Sequence[exp.Expr]) -> Operand:
        """POWER(x, n) for a small whole n."""
        arity("POWER", args, 2)
        x, n = self.many(args)
        times = whole(n, "POWER")
        if not 1 <= times <= 8:
            raise refuse("POWER beyond 1 to 8", "POWER(x, 2)")
        product = build.as_number(x, "POWER")
        if times % 2 == 0:
            product, times = build.arithmetic("*", product, product), times // 2
        factor = product
        for _ in range(times - 1):
            product = build.arithmetic("*", product, factor)
        return product


def arity(name: str, args: Sequence[object], low: int, high: int | None = None) -> None:
    """Refuse a call with the wrong number of arguments."""
    if not low <= len(args) <= (high or low):
        raise QueryError(f"{name} takes {low if high is None else f'{low} to {high}'} arguments")


def build_parts() -> tuple[str, ...]:
    """Functions that read a part of a date, by their own names."""
    return ("YEAR", "QUARTER", "MONTH", "DAY", "DAYOFMONTH", "HOUR", "ISODOW", "DOW", "DAYOFWEEK")


def _one(name: str, make: Callable[[Operand], Expr]) -> _Function:
    def call(rows: Rows, args: Sequence[exp.Expr]) -> Operand:
        arity(name, args, 1)
        return make(rows.lower(args[0]))

    return call


_Function = Callable[[Rows, Sequence[exp.Expr]], Operand]
_FUNCTIONS: Final[dict[str, _Function]] = {
    "ABS": _one("ABS", build.absolute),
    "FLOOR": _one("FLOOR", build.floor),
    "CEIL": _one("CEIL", build.ceiling),
    "CEILING": _one("CEILING", build.ceiling),
    "ROUND": Rows.rounded,
    "COALESCE": lambda rows, args: build.coalesce(rows.many(args)),
    "IFNULL": lambda rows, args: build.coalesce(rows.many(args)),
    "NVL": lambda rows, args: build.coalesce(rows.many(args)),
    "NULLIF": Rows.nullif,
    "IIF": Rows.choose,
    "LEAST": lambda rows, args: rows.limited(args, least=True),
    "GREATEST": lambda rows, args: rows.limited(args, least=False),
    "POWER": Rows.power,
    "POW": Rows.power,
    "WIDTH_BUCKET": Rows.bucket,
    "DATE_PART": Rows.date_part,
}

_WHOLE: Final = frozenset({"INT", "BIGINT", "SMALLINT", "TINYINT"})
_EXACT: Final = frozenset({"DOUBLE", "FLOAT", "DECIMAL", "BIGDECIMAL"})
_TIMES: Final = frozenset({"DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ", "TIMESTAMPTZ"})
_COMPARISONS: Final[dict[type, Comparison]] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_ARITHMETIC: Final[dict[type, str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}

_NODES: Final[dict[type, Callable[[Rows, exp.Expr], Operand]]] = {
    exp.Column: Rows.column,
    exp.Literal: Rows.literal,
    exp.Boolean: lambda _, node: build.truth(value=bool(node.this)),
    exp.Null: lambda _, __: Null(),
    exp.Paren: lambda rows, node: rows.lower(node.this),
    exp.Neg: Rows.negative,
    exp.Not: Rows.negation,
    exp.And: Rows.chain,
    exp.Or: Rows.chain,
    **dict.fromkeys(_COMPARISONS, Rows.comparison),
    **dict.fromkeys(_ARITHMETIC, Rows.arithmetic),
    exp.Between: Rows.between,
    exp.In: Rows.membership,
    exp.Is: Rows.identity,
    exp.Case: Rows.case,
    exp.If: Rows.conditional,
    exp.Cast: Rows.cast,
    exp.TryCast: Rows.cast,
    exp.Extract: Rows.extract,
    exp.Anonymous: Rows.call,
}
