"""Aggregates and what is computed from them after the noise."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from sqlglot import exp

from discreet._dataclass import dataclass, field
from discreet.errors import DiscreetError, ParameterError, QueryError, UnsupportedQueryError
from discreet.plan import (
    CALLS,
    Apply,
    Assembly,
    Count,
    CountDistinct,
    CountUnits,
    Expr,
    Grouping,
    KeyValue,
    Kind,
    Null,
    Number,
    Operand,
    OutputExpr,
    Scope,
    Statistic,
    StatisticValue,
    Text,
    Type,
    Word,
    build,
    functions,
    statistic,
    statistics_of,
)
from discreet.sql._absent import (
    ABSENT,
    absent,
    placed,
    tallied,
    tested_in_having,
    without_inner,
)
from discreet.sql._bounds import Bounds, check_ratio, read_bounds
from discreet.sql._hints import on_its_own, question, with_keys
from discreet.sql._over import of_rows, over_rows, window
from discreet.sql._rows import TIMES, Rows, arity, constant, whole
from discreet.sql._text import (
    INFIX,
    called,
    columns_of,
    function_name,
    is_unit,
    label,
    only,
    refuse,
)
from discreet.sql._walk import all_of, count_different

LISTED: Final = "list of values"
_ARITHMETIC: Final = ("+", "-", "*", "/", "//", "%", "round")
_BETWEEN_MOMENTS: Final = frozenset({"-", "<", "<=", "=", "<>", ">=", ">"})
AGGREGATES: Final = frozenset(CALLS)
_SCALARS: Final = {
    **{n: (n.lower(), 1, 1) for n in ("ABS", "SQRT", "LN", "LOG", "EXP", "FLOOR", "CEIL")},
    "LOG10": ("log", 1, 1),
    "CEILING": ("ceil", 1, 1),
    "LEAST": ("least", 1, 100),
    "GREATEST": ("greatest", 1, 100),
    "COALESCE": ("coalesce", 2, 2),
    "IFNULL": ("coalesce", 2, 2),
    "NULLIF": ("nullif", 2, 2),
}
"""Functions of outputs: how the answer calls them, and how many arguments they take."""


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands anywhere in a tree."""
    return any(str(n.name).upper() in AGGREGATES for n in all_of(node, exp.Anonymous))


@dataclass
class Outputs:
    """Lowers what stands in SELECT, HAVING and ORDER BY, after grouping."""

    assembly: Assembly
    rows: Rows
    bounds: Bounds
    aliases: dict[str, OutputExpr] = field(default_factory=dict)
    reading: bool = True

    def lower(self, node: exp.Expr) -> OutputExpr:
        """Lower an output expression."""
        name = function_name(node)
        if isinstance(node, exp.Filter | exp.WithinGroup) or name in AGGREGATES:
            return self.assembly.measure(self.aggregate(node))
        if isinstance(node, exp.Window):
            return window(self, node)
        if name == "GROUPING":
            return self._grouping(node)
        if name in ABSENT:
            raise absent(name, node, self._row)
        if not has_aggregate(node) and (out := self._plain(node)) is not None:
            return out
        handler = _NODES.get(type(node))
        if handler is not None:
            return handler(self, node)
        if name == "ROUND":
            return self._rounded(node)
        if name in ("SQUARE", "POWER", "POW") and has_aggregate(node):
            return self._power(node)
        if name in _SCALARS:
            op, least, most = _SCALARS[name]
            arity(name, node.expressions, least, most)
            args = [self.lower(n) for n in node.expressions]
            return self._total(op, args) or self.make(op, *args)
        if name in ("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "MONTHS_BETWEEN"):
            return self._days_between(node)
        if has_aggregate(node):
            raise refuse(
                f"{label(node)} of aggregates (arithmetic, comparisons, CASE and ROUND are)"
            )
        return self._ungrouped(node)

    def _total(self, op: str, args: Sequence[OutputExpr]) -> OutputExpr | None:
        """COALESCE(key, 'Total'): what stands in the place of a key in rows of totals."""
        key, text = args[0], args[-1]
        if op != "coalesce" or not isinstance(key, KeyValue) or self.kind(key) != self.kind(text):
            return None
        own = self.make("=", Grouping(key.name), Number(Fraction(1)))
        return Apply("case", (own, text, key))

    def _plain(self, node: exp.Expr) -> OutputExpr | None:
        """A key, an alias or a constant; None if the node must be taken apart first."""
        if isinstance(node, exp.Column) and not node.args.get("table"):
            alias = self.aliases.get(node.name.casefold())
            # while SELECT is read, an earlier item's name stands behind the table's own
            if alias is not None:
                columns = columns_of(self.assembly.scope) if self.reading else ()
                if node.name.casefold() not in columns:
                    return alias
        if isinstance(node, exp.Literal) and node.is_string:
            return Text(str(node.this))
        if isinstance(node, exp.Literal):
            return Number(constant(self.rows.lower(node), "an output"))
        if isinstance(node, exp.Boolean):
            return Number(Fraction(int(node.this)))
        if isinstance(node, exp.Null):
            return Apply("null", ())
        expr = self._row(node)
        for key in self.assembly.keys:
            if expr is not None and key.expr == expr:
                return KeyValue(key.name)
        return None

    def _row(self, node: exp.Expr) -> Operand | None:
        try:
            return self.rows.lower(node)
        except DiscreetError:
            # an alias inside, or no row expression at all: taken apart by the caller
            if isinstance(node, exp.Column):
                raise
            return None

    def _ungrouped(self, node: exp.Expr) -> OutputExpr:
        if (over := node.find_ancestor(exp.Window)) is not None:
            raise over_rows(self.rows.scope, over)
        if isinstance(node, exp.Column):
            select = node.find_ancestor(exp.Select)
            items = [] if select is None else [e.unalias() for e in select.expressions]
            over = next((w for e in items for w in e.find_all(exp.Window) if of_rows(w)), None)
            group = None if select is None else select.args.get("group")
            if over is not None and not group:
                raise over_rows(self.rows.scope, over)
            raise QueryError(
                f"{build.quote(node.name)} is neither a key nor inside an aggregate",
                hint=with_keys(node, select, has_aggregate),
            )
        self.rows.lower(node)  # a row expression is refused by its own name first
        raise QueryError(
            f"{label(node)} is neither a key nor inside an aggregate", hint="GROUP BY 1"
        )

    def make(self, op: str, *args: OutputExpr) -> Apply:
        """Apply an operation to outputs that it suits."""
        kinds = [self.kind(a) for a in args]
        if op in ("and", "or", "not"):
            suits = all(s in ("truth", "flag") for s in kinds)
        elif op in ("=", "<>") and "text" in kinds:
            suits = kinds == ["text", "text"]
        else:
            suits = all(s in ("number", "flag") for s in kinds)
        if not suits:
            raise QueryError(
                f"{op.upper()} does not suit these outputs ({', '.join(kinds)})",
                hint="HAVING COUNT(*) > 10 AND sex = 'F'",
            )
        return Apply(op, args)

    def kind(self, out: OutputExpr) -> str:
        """What an output is: a number, text, a truth value, a flag (0 or 1), or a date."""
        if isinstance(out, Apply) and out.op == "null":
            return "null"
        if isinstance(out, Apply) and out.op == "case":
            kinds = {self.kind(a) for a in out.args[1:]} - {"null"}
            return kinds.pop() if len(kinds) == 1 else "number"
        if isinstance(out, Apply):
            numbers = {*_ARITHMETIC, *(op for op, _, _ in _SCALARS.values())}
            return "number" if out.op in numbers else "truth"
        if isinstance(out, Text):
            return "text"
        if isinstance(out, KeyValue):
            return _kind(next(k.expr for k in self.assembly.keys if k.name == out.name).type)
        if isinstance(out, StatisticValue):
            statistic = self.assembly.statistics[out.index]
            if statistic.listed:
                return LISTED
            return "number" if statistic.result is None else _kind(statistic.result)
        return "number"

    def _grouping(self, node: exp.Expr) -> OutputExpr:
        arity("GROUPING", node.expressions, 1)
        key = self.lower(node.expressions[0])
        if not isinstance(key, KeyValue):
            raise QueryError("GROUPING takes a key", hint="GROUP BY ROLLUP (…)")
        return Grouping(key.name)

    def _rounded(self, node: exp.Expr) -> OutputExpr:
        args = node.expressions
        arity("ROUND", args, 1, 2)
        digits = whole(self.rows.lower(args[1]), "ROUND") if len(args) > 1 else 0
        if not -18 <= digits <= 18:
            raise QueryError("ROUND takes between -18 and 18 digits", hint="ROUND(x, 2)")
        return self.make("round", self.lower(args[0]), Number(Fraction(digits)))

    def binary(self, node: exp.Expr) -> OutputExpr:
        """Arithmetic and comparison between outputs."""
        if isinstance(node, exp.DPipe):
            side = node.this if has_aggregate(node.this) else node.expression
            raise refuse("text made of an aggregate", side.sql())
        only(node, "this", "expression")
        op, sides = INFIX[type(node)], [node.this, node.expression]
        outs = [None if _is_moment(s.unnest()) else self.lower(s) for s in sides]
        kinds = {self.kind(out) for out in outs if out}
        noisy = all(statistics_of(out) for out in outs if out)
        if noisy and kinds in ({"date"}, {"timestamp"}) and op in _BETWEEN_MOMENTS:
            # days or seconds between, or which is the earlier
            day = kinds == {"date"}
            return Apply(
                op, tuple(o or self._moment(s, day=day) for s, o in zip(sides, outs, strict=True))
            )
        keys = [s for s, o in zip(sides, outs, strict=True) if isinstance(o, KeyValue)]
        if None in outs and keys and self.kind(self.lower(keys[0])) in ("date", "timestamp"):
            raise QueryError("a date among the keys is tested in WHERE, before rows are grouped")
        return self.make(op, *(o or self.lower(s) for s, o in zip(sides, outs, strict=True)))

    def _moment(self, node: exp.Expr, *, day: bool) -> OutputExpr:
        """Days or seconds of a constant, as those of the dates beside which it stands."""
        operand = self.rows.lower(node)
        text = operand.text if isinstance(operand, Word) else None
        moment = build.typed(operand if text is None else build.timestamp(text), "a comparison")
        value = moment.type.value(moment.type.lo)
        assert isinstance(value, dt.date)
        when = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
        passed = when.replace(tzinfo=dt.UTC) - dt.datetime.fromtimestamp(0, dt.UTC)
        seconds = Fraction(passed // dt.timedelta(microseconds=1), 10**6)
        return Number(seconds / 86_400 if day else seconds)

    def _power(self, node: exp.Expr) -> OutputExpr:
        """A small power of a number of the answer, as a product."""
        name, args = label(node), node.expressions
        arity(name, args, 1 if name == "SQUARE" else 2)
        times = 2 if name == "SQUARE" else whole(self.rows.lower(args[1]), name)
        if not 1 <= times <= 4:
            raise refuse(f"{name} of aggregates beyond 4", f"EXP({times} * LN({args[0].sql()}))")
        out = base = self.lower(args[0])
        for _ in range(times - 1):
            out = self.make("*", out, base)
        return out

    def _days_between(self, node: exp.Expr) -> OutputExpr:
        """DATEDIFF('day', MIN(d), MAX(d)), after the noise."""
        name, args = label(node), node.expressions
        arity(name, args, 2, 3)
        *unit, first, last = args if len(args) == 3 else args[::-1]
        word = unit[0].name if unit else "month" if name == "MONTHS_BETWEEN" else "day"
        if word != "day":
            days = f"DATEDIFF('day', {first.sql()}, {last.sql()})"
            raise UnsupportedQueryError(
                f"{name} of aggregates by {word} is not supported; by day it is: {days}"
            )
        return self.binary(exp.Sub(this=last.copy(), expression=first.copy()))

    def chain(self, node: exp.Expr) -> OutputExpr:
        """AND and OR, flattened."""
        parts = [self.lower(n) for n in node.flatten(unnest=False)]
        return self.make("and" if isinstance(node, exp.And) else "or", *parts)

    def between(self, node: exp.Expr) -> OutputExpr:
        """A closed range, as two comparisons."""
        only(node, "this", "low", "high")
        x = self.lower(node.this)
        low, high = self.lower(node.args["low"]), self.lower(node.args["high"])
        return self.make("and", self.make(">=", x, low), self.make("<=", x, high))

    def membership(self, node: exp.Expr) -> OutputExpr:
        """A list, as equalities."""
        only(node, "this", "expressions")
        x = self.lower(node.this)
        tests = [self.make("=", x, self.lower(n)) for n in node.expressions]
        return tests[0] if len(tests) == 1 else self.make("or", *tests)

    def case(self, node: exp.Expr) -> OutputExpr:
        """Choose the first true branch, after the noise."""
        only(node, "this", "ifs", "default")
        default = node.args.get("default")
        out = Apply("null", ()) if default is None else self.lower(default)
        subject = None if node.this is None else self.lower(node.this)
        for branch in reversed(node.args["ifs"]):
            test = self.lower(branch.this)
            test = test if subject is None else self.make("=", subject, test)
            if self.kind(test) not in ("truth", "flag"):
                raise QueryError("CASE needs a comparison", hint="CASE WHEN COUNT(*) > 10 THEN 1")
            value = self.lower(branch.args["true"])
            kinds = {self.kind(value), self.kind(out)} - {"null"}
            if len(kinds) > 1 and not kinds <= {"number", "flag"}:
                raise QueryError(f"the branches of CASE differ: {', '.join(sorted(kinds))}")
            out = Apply("case", (test, value, out))
        return out

    def cast(self, node: exp.Expr) -> OutputExpr:
        """CAST to a number changes nothing, to whole numbers it rounds."""
        if node.args["to"].this.name in ("INT", "BIGINT", "SMALLINT", "TINYINT"):
            return self.make("round", self.lower(node.this))
        if node.args["to"].this.name not in ("DOUBLE", "FLOAT", "DECIMAL"):
            raise refuse(f"CAST of an aggregate to {node.args['to'].this.name}", node.this.sql())
        digits = [p.name for p in node.args["to"].expressions[1:] if p.name in "0123456789"]
        out = self.lower(node.this)
        return self.make("round", out, Number(Fraction(digits[0]))) if digits else out

    # --- aggregates ------------------------------------------------------------------------

    def aggregate(self, node: exp.Expr) -> Statistic:
        """Lower one aggregate call, with its FILTER and WITHIN GROUP."""
        test: Expr | None = None
        if isinstance(node, exp.Filter):
            only(node, "this", "expression")
            if has_aggregate(node.expression):
                raise refuse("FILTER tests rows; an aggregate in it", tested_in_having(node))
            test = self.rows.condition(node.expression.this)
            node = node.this
        order: exp.Expr | None = None
        if isinstance(node, exp.WithinGroup):
            only(node, "this", "expression")
            node, order = node.this, node.expression
        name = function_name(node)
        if name in ABSENT:
            raise absent(name, node, self._row)
        if name not in AGGREGATES:
            what = f"{label(node)} with FILTER or WITHIN GROUP"
            raise refuse(what, placed(name, node.expressions, order))
        args = [a for a in node.expressions if not isinstance(a, exp.Kwarg)]
        kwargs = [a for a in node.expressions if isinstance(a, exp.Kwarg)]
        return _Call(self, name, called(node), args, test, order).lower(kwargs)


def _kind(t: Type) -> str:
    """What an output with values of a type is."""
    if t.kind is Kind.CATEGORY:
        first = t.labels[0]
        return "flag" if isinstance(first, bool) else "text" if isinstance(first, str) else "number"
    same = {Kind.NUMBER: "number", Kind.BOOLEAN: "flag", Kind.TEXT: "text"}
    return same.get(t.kind, str(t.kind))


@dataclass
class _Call:
    """One aggregate call being lowered."""

    outputs: Outputs
    name: str
    called: str
    args: list[exp.Expr]
    test: Expr | None
    order: exp.Expr | None

    def lower(self, kwargs: Sequence[exp.Kwarg]) -> Statistic:
        name, (kind, entry) = self.called, CALLS[self.name]
        by_keyword = {
            k.name.lower(): k.expression for k in kwargs if k.name.lower() in kind.by_name
        }
        rest = [k for k in kwargs if k.name.lower() not in by_keyword]
        if len(rest) + len(by_keyword) < len(kwargs):
            raise QueryError(
                f"{name} states {min(by_keyword)} twice", hint=f"{min(by_keyword)} => 0.7"
            )
        kwargs = rest
        if kwargs and not kind.bounded:
            raise refuse(f"{kwargs[0].name} in {name}", "SUM(x, contribution_bounds_per_row => …)")
        self.limits = read_bounds(kwargs, self.outputs.rows)
        if kind.ordered:
            self._take_order(len(entry.takes) - entry.optional)
        elif self.order is not None:
            raise refuse(f"WITHIN GROUP after {name}", "PERCENTILE_CONT(x, 0.5)")
        if self.name == "COUNT":
            return self._count()
        if kind is CountDistinct:
            return self._distinct(self.args)
        if kind is Count:  # of the rows for which a condition is true
            arity(name, self.args, 1)
            passed = build.when(self._argument(self.args[0]), build.number(Fraction(1)))
            return statistic(Count, self._filtered(passed))
        if kind.pairs:
            return self._pair(kind, entry.fixed)
        takes = len(entry.takes)
        if name == "QUANTILE" and len(self.args) == 1 and not by_keyword:
            hint = f"QUANTILE({self.args[0].sql()}, 0.5)"
            raise QueryError("QUANTILE takes 2 arguments", hint=hint)
        arity(name, self.args, 1 + takes - (takes if entry.optional else 0), 1 + takes)
        if len(self.args) == 2 and isinstance(self.args[1], exp.Array):
            each = [f"{name}({self.args[0].sql()}, {q.sql()})" for q in self.args[1].expressions]
            raise refuse(f"{name} of several places at once", ", ".join(each))
        stated = [*zip(entry.takes, self.args[1:], strict=False), *by_keyword.items()]
        options = {
            parameter: kind.parameter(constant(self.outputs.rows.lower(arg), name))
            for parameter, arg in stated
        }
        value = self._value()
        try:
            return statistic(kind, value, **entry.fixed, **options)
        except ParameterError as error:  # MIN is a quantile, and is called MIN
            message = error.message.replace(f"{kind.word.upper()} needs", f"{name} needs")
            instead = error.hint or self._tallied(value)
            if instead is not None and instead.startswith("QUANTILE(x"):
                instead = instead.replace("x", self.args[0].sql(), 1)
            raise QueryError(message, hint=instead) from None

    def _pair(self, kind: type[Statistic], fixed: Mapping[str, object]) -> Statistic:
        """A statistic of two columns, each filtered alike."""
        arity(self.called, self.args, 2)
        operands = (self._value(), self._filtered(self._argument(self.args[1])))
        sides = [build.typed(operand, self.called) for operand in operands]
        one, other = (
            e if e.type.kind is Kind.BOOLEAN else build.as_number(e, self.called) for e in sides
        )
        return statistic(kind, one, other=other, **fixed)

    def _tallied(self, value: Operand) -> str | None:
        """The most frequent texts and numbers: their list is private."""
        mode = CALLS[self.name][0] is CALLS["MODE"][0]
        return tallied(self.args, value) if mode else None

    def _take_order(self, constants: int) -> None:
        """Turn ``F(q) WITHIN GROUP (ORDER BY x)`` into ``F(x, q)``."""
        if self.order is None:
            return
        items = self.order.expressions
        if len(items) != 1 or len(self.args) != constants:
            raise QueryError(
                f"{self.called} WITHIN GROUP takes one fraction and one ORDER BY",
                hint="PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY income)",
            )
        if items[0].args.get("desc"):
            raise refuse("WITHIN GROUP (ORDER BY … DESC)", "QUANTILE(income, 0.9)")
        self.args = [items[0].this, *self.args]

    def _count(self) -> Statistic:
        if not self.args:
            raise QueryError("COUNT takes 1 argument", hint="COUNT(*)")
        arity(self.called, self.args, 1)
        arg = self.args[0]
        if isinstance(arg, exp.Distinct):
            only(arg, "expressions")
            return self._distinct(arg.expressions)
        self.outputs.bounds.count(self.limits)
        if isinstance(arg, exp.Star):
            only(arg)
            one = build.number(Fraction(1))
            return statistic(Count, None if self.test is None else self._filtered(one))
        if self._is_unit(arg):  # rows without a unit do not exist
            return statistic(Count, None if self.test is None else self._filtered(Word("")))
        return statistic(Count, self._filtered(self._argument(arg)))

    def _distinct(self, args: Sequence[exp.Expr]) -> Statistic:
        if len(args) == 1 and isinstance(args[0], exp.Tuple):
            listed = args[0].expressions
            raise refuse("COUNT(DISTINCT …) of several columns in brackets", self._several(listed))
        if len(args) > 1 and (joined := self._joined(args)) is not None:
            return statistic(CountDistinct, self._filtered(joined))
        if len(args) != 1:
            raise refuse(
                "COUNT(DISTINCT …) of no column, or of several columns,",
                self._several(args) if args else None,
            )
        if self._is_unit(args[0]):
            if self.test is not None:
                raise UnsupportedQueryError(
                    "people who pass a test are counted on their own, or beside other counts of "
                    "people",
                    hint=on_its_own(args[0]),
                )
            return statistic(CountUnits, None)
        return statistic(CountDistinct, self._filtered(self._argument(args[0])))

    def _joined(self, args: Sequence[exp.Expr]) -> Operand | None:
        """Combinations of listed values, as labels; a sign that nobody types stands between."""
        nodes: list[exp.Expr] = [exp.Literal.string("\x1f")] * (2 * len(args) - 1)
        nodes[::2] = args
        try:
            return functools.reduce(
                lambda a, b: functions.infix("||", a, b), [self._argument(n) for n in nodes]
            )
        except DiscreetError:
            return None  # open text, or more combinations than can be listed

    def _several(self, args: Sequence[exp.Expr]) -> str | None:
        """What counts combinations: a row for each; those of people, person by person."""
        own = [a for a in args if self._is_unit(a)]
        rest = [a for a in args if not self._is_unit(a)]
        select = args[0].find_ancestor(exp.Select)
        if not own or len(rest) != 1 or select is None:
            return None
        inner = question(args[0], own[:1], [count_different(rest[0])])
        return inner and f"SELECT SUM(n) AS pairs FROM ({inner}) AS p"  # noqa: S608 - a hint

    def _is_unit(self, node: exp.Expr) -> bool:
        return is_unit(self.outputs.assembly.scope, node)

    def _value(self) -> Operand:
        """The aggregated expression, clamped to stated bounds, filtered."""
        arg = self.args[0]
        if isinstance(arg, exp.Distinct):
            own = ", ".join(a.sql() for a in arg.expressions)
            raise UnsupportedQueryError(
                f"{self.called}(DISTINCT …) is not supported: whether a row counts would depend on "
                "other people's rows; what comes nearest counts every row",
                hint=f"{self.called}({own})",
            )
        if isinstance(arg, exp.Star):
            raise QueryError(f"{self.called} needs a column")
        operand = self._argument(arg)
        if self.name in ("AVG", "MEAN") and self.limits.per_row is None:
            check_ratio(operand, self.called, arg)
        return self._filtered(self.outputs.bounds.apply(operand, self.limits, self.called))

    def _argument(self, node: exp.Expr) -> Operand:
        rows = self.outputs.rows
        if has_aggregate(node):
            raise refuse("an aggregate inside an aggregate", without_inner(node))
        return rows.lower(node) if self.test is None else rows.branch(self.test, node)

    def _filtered(self, operand: Operand) -> Operand:
        if self.test is None:
            return operand
        if isinstance(operand, Word):
            operand = build.number(Fraction(1))
        return Null() if isinstance(operand, Null) else build.when(self.test, operand)


def _is_moment(node: exp.Expr) -> bool:
    """Whether a node may be a date or a time, written as a constant."""
    cast = isinstance(node, exp.Cast) and node.to.this.name in TIMES
    return isinstance(node.this if cast else node, exp.Literal) and (cast or node.is_string)


_NODES: Final[dict[type, Callable[[Outputs, exp.Expr], OutputExpr]]] = {
    **dict.fromkeys(INFIX, Outputs.binary),
    exp.Paren: lambda out, node: out.lower(node.this),
    exp.Neg: lambda out, node: out.make("-", out.lower(node.this)),
    exp.Not: lambda out, node: out.make("not", out.lower(node.this)),
    exp.And: Outputs.chain,
    exp.Or: Outputs.chain,
    exp.Between: Outputs.between,
    exp.In: Outputs.membership,
    exp.Case: Outputs.case,
    exp.Cast: Outputs.cast,
    exp.TryCast: Outputs.cast,
}


def names_number(scope: Scope, select: exp.Select, part: exp.Expr) -> bool:
    """Whether a condition names an aggregate among the outputs, and no column."""
    names = {c.name.casefold() for c in all_of(part, exp.Column) if not c.table}
    names -= columns_of(scope)
    return any(e.alias.casefold() in names and has_aggregate(e) for e in select.expressions)
