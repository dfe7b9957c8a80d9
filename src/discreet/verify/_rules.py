"""The engines' typing and failure rules, one expression at a time.

:meth:`Rules.value` returns what holds for an expression on any row, or raises
:class:`Unproven`. Only a WHEN guards: facts that it tells hold in its own THEN
and, negated, in the branches after it. AND, OR and COALESCE guard nothing,
because engines evaluate their parts in any order.

A branch that no row can reach is read as well, since PostgreSQL computes
constants before it looks at a guard; there only constants can fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Final

from discreet.verify._domain import (
    INF,
    INTEGERS,
    ROWS,
    TEXTS,
    VOID,
    Fact,
    Facts,
    Value,
    join,
    meet,
    narrowed,
)
from discreet.verify._read import PRIME, Node, Select, Unproven
from discreet.verify._walk import bare

_FLIPPED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
_OPPOSITE: Final = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "<>", "<>": "="}
_WORK: Final = 50_000
"""Evaluations after which a proof is given up: seconds, where a question takes thousands."""
_SINGLE: Final = 2**24
_DIGITS: Final = 38
_LEAVES: Final = frozenset({"number", "string", "hole", "truth", "null"})
_KINDS: Final = ("number", "column", "collate", "negative", "binary", "bit", "cast", "trycast",
                 "case", "extract", "call")  # fmt: skip
_EXACT_IN_DOUBLE: Final = frozenset({"i8", "i16", "i32", "u8", "u16", "u32", "f32"})


NOTHING: Final = Facts()


class Scope:
    """Columns that an expression may name, and values found so far."""

    def __init__(self, columns: tuple[tuple[str, str, Value], ...]) -> None:
        self.columns: dict[tuple[str | None, str], Value | None] = {}
        self.memo: dict[Node, Value] = {}
        for alias, name, v in columns:
            self.columns[alias, name] = v
            # a bare name that two sources have means nothing
            self.columns[None, name] = None if (None, name) in self.columns else v


class Rules:
    """Evaluates leaves, conditions and CASE in the domain of :mod:`discreet.verify._domain`."""

    most_rows: int = ROWS
    """Rows that sums are shown to hold."""
    rank: tuple[str, int] = ("i64", ROWS)
    """Type of the number of a row in its window, and the largest."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.duck, self.post = dialect == "duckdb", dialect == "postgresql"
        self.dead = False
        self.work = 0
        self.constants: dict[Node, Value] = {}
        self.rules: dict[str, Callable[[Node, Scope, Facts], Value]] = {
            **{kind: getattr(self, f"_{kind}") for kind in _KINDS},
            **dict.fromkeys(("string", "hole", "truth", "null"), self._leaf),
            **dict.fromkeys(("and", "or", "not"), self._logic),
            **dict.fromkeys(("compare", "in"), self._comparison),
            "isnull": self._isnull,
            "like": self._like,
        }

    @property
    def cut(self) -> str:
        """The quotient of integers."""
        return "//" if self.duck else "/"

    @property
    def integers(self) -> tuple[str, ...]:
        """Types of integers in which two of them meet, narrow ones first."""
        return ("i16", "i32", "i64", "i128")[: 4 if self.duck else 3]

    def fence(self, select: Select) -> bool:
        """Whether a SELECT hands on columns behind a fence, and does nothing else."""
        return select.fence and select.where is None and bare(select)

    def value(self, node: Node, scope: Scope, facts: Facts) -> Value:
        """Value of an expression where `facts` hold."""
        memo = facts.memo if facts else scope.memo
        hit = memo.get(node) or self.constants.get(node)
        if hit is not None:
            return hit
        self.work += 1
        if self.work > _WORK:
            raise Unproven("more work than a proof may take")
        rule = self.rules.get(node.kind)
        if rule is None:
            raise Unproven(f"{node.kind} cannot stand here")
        v = rule(node, scope, facts)
        fact = facts.get(node)
        # a guard does not hold constants back: they are computed first
        if fact is not None and not v.constant:
            # where no number can be, what is neither NaN nor infinite is NULL: it has no range
            nothing = v if v.nan or v.infinite else v.void()
            v = narrowed(v, fact, self.dialect) or nothing
        if not self.dead:
            store = self.constants if _bare(node) else memo
            store[node] = v
        return v

    def converted(self, v: Value, kind: str, form: tuple[Any, ...], node: Node) -> Value:
        """A value cast to a type, where the cast cannot fail."""
        raise NotImplementedError

    def parsed(self, text: str, kind: str, node: Node, form: tuple[Any, ...] = ()) -> Value:
        """A constant that is written as a string."""
        raise NotImplementedError

    def fail(self, reason: str, node: Node, *values: Value) -> None:
        """Refuse, unless no row comes here and the engine cannot know the values before."""
        if self.dead and not all(v.constant for v in values):
            return
        raise Unproven(f"{reason}: {str(node)[:200]}")

    def fit(self, v: Value, node: Node, *values: Value) -> Value:
        """Refuse an integer that may leave its type."""
        if v.type in INTEGERS:
            lo, hi = INTEGERS[v.type]
            if v.lo < lo or v.hi > hi:
                self.fail(f"may leave {v.type}", node, *values)
                return v._replace(lo=lo, hi=hi, fields=(), per=None)
        return v

    def _like(self, node: Node, scope: Scope, facts: Facts) -> Value:
        """LIKE of text is total where its escape sign stands before a wild card or itself."""
        v = self.value(node.args[0], scope, facts)
        if v.type != "text" or not re.fullmatch(r"(?:[^!\0]|![!%_])*", node.args[1], re.DOTALL):
            raise Unproven(f"LIKE: {str(node)[:80]}")
        return Value("bool", 0, 1, null=v.null, dep=v.dep)

    # leaves

    def _leaf(self, node: Node, scope: Scope, facts: Facts) -> Value:  # noqa: ARG002 - one face
        match node.kind:
            case "string":
                if "\0" in node.args[0]:
                    raise Unproven("a NUL in a string")
                return Value("text", null=False, literal=True, form=("literal", node.args[0]))
            case "truth":
                return Value("bool", 0, 1, null=False)
            case "hole":
                least = 0 if node.args[0] == "offset" else 1
                return Value("i64", least, PRIME - 1, null=False, far=least, whole=True)
        return Value("null", 0, 0)

    def _number(self, node: Node, scope: Scope, facts: Facts) -> Value:  # noqa: ARG002 - one face
        text = node.args[0]
        if not text.lstrip("-").isdigit():
            if not self.post:
                raise Unproven("a literal with a point")
            exact = Fraction(text)
            return Value("num", exact, exact, null=False, far=abs(exact), literal=True)
        n = int(text)
        fitting = [k for k in self.integers[1:] if INTEGERS[k][0] <= n <= INTEGERS[k][1]]
        if not (fitting or self.post):
            raise Unproven("a literal beyond the widest integers")
        kind = fitting[0] if fitting else "num"
        return Value(kind, n, n, null=False, far=abs(n), whole=True, literal=True)

    def _column(self, node: Node, scope: Scope, facts: Facts) -> Value:  # noqa: ARG002 - one face
        v = scope.columns.get(node.args)
        if v is None:
            raise Unproven(f"no one column {node.args[1]!r} that can be used here")
        return v

    def _collate(self, node: Node, scope: Scope, facts: Facts) -> Value:
        v = self.value(node.args[0], scope, facts)
        if v.type != "text":
            raise Unproven(f"collation of {v.type}")
        return v

    # conditions

    def truth(self, node: Node, scope: Scope, facts: Facts) -> Value:
        """Value of a condition."""
        v = self.value(node, scope, facts)
        if v.type not in ("bool", "null"):
            raise Unproven(f"{v.type} as a condition")
        return v

    def _logic(self, node: Node, scope: Scope, facts: Facts) -> Value:
        parts = [self.truth(part, scope, facts) for part in node.args]
        return Value("bool", 0, 1, any(v.null for v in parts), dep=deps(parts))

    def _isnull(self, node: Node, scope: Scope, facts: Facts) -> Value:
        return Value("bool", 0, 1, null=False, dep=self.value(node.args[0], scope, facts).dep)

    def _comparison(self, node: Node, scope: Scope, facts: Facts) -> Value:
        terms = node.args[1:] if node.kind == "compare" else (node.args[0], *_listed(node))
        first, *others = (self.value(term, scope, facts) for term in terms)
        for other in others:
            self.aligned(first, other, node)
        values = (first, *others)
        return Value("bool", 0, 1, any(v.null for v in values), dep=deps(values))

    def aligned(self, a: Value, b: Value, node: Node) -> tuple[Value, Value, str]:
        """Two values as they are compared or chosen from, and their common type."""
        if "null" in (a.type, b.type):
            return a, b, a.type if b.type == "null" else b.type
        if self.post and a.type != b.type:
            # PostgreSQL reads a bare string as whatever stands beside it
            if b.type == "text" and b.literal:
                b = self.parsed(b.form[1], a.type, node)
            elif a.type == "text" and a.literal:
                a = self.parsed(a.form[1], b.type, node)
        kind = self.common(a, b, node)
        if kind == "f64":
            for v in (a, b):
                if v.type == "num":
                    self.converted(v, "f64", (), node)
        if kind == "dec":
            for x, y in ((a, b), (b, a)):
                scale = x.form[1] if x.type == "dec" else 0
                digits = y.form[0] - y.form[1] if y.type == "dec" else len(str(int(y.size)))
                if digits + scale > _DIGITS:
                    self.fail("no common decimal", node, a, b)
        return a, b, kind

    def common(self, a: Value, b: Value, node: Node) -> str:
        """Type in which two values meet; no conversion to it can fail but those checked above."""
        s, t = a.type, b.type
        if s == t and s not in ("other", "json", "bit"):
            return s
        if not (a.number and b.number):
            raise Unproven(f"{s} beside {t}: {str(node)[:200]}")
        kinds = {s, t}
        if "f32" in kinds:
            other = b if s == "f32" else a
            if other.type == "f64":
                return "f64"
            if other.type in INTEGERS and other.constant and other.size <= _SINGLE:
                return "f32" if self.duck else "f64"
            raise Unproven(f"{s} beside {t}")
        for kind in ("f64", "num", "dec"):
            if kind in kinds:
                return kind
        if self.duck:
            # an integer literal takes the type of the other side where it fits
            for x, y in ((a, b), (b, a)):
                if x.literal and INTEGERS[y.type][0] <= x.lo and x.hi <= INTEGERS[y.type][1]:
                    return y.type
        for kind in self.integers:
            if all(INTEGERS[kind][0] <= INTEGERS[k][0] and INTEGERS[k][1] <= INTEGERS[kind][1]
                   for k in kinds):  # fmt: skip
                return kind
        raise Unproven(f"{s} beside {t}")

    # facts that conditions tell

    def facts(self, node: Node, scope: Scope, premises: Facts, outcome: str) -> Facts:
        """Facts where a condition is ``true``, ``false``, or ``other`` (false or NULL)."""
        match node.kind:
            case "not":
                if outcome == "other":
                    return self._never_null(node.args[0], scope, premises)
                flipped = "false" if outcome == "true" else "true"
                return self.facts(node.args[0], scope, premises, flipped)
            case "and" | "or":
                parts = [self.facts(part, scope, premises, outcome) for part in node.args]
                both = (node.kind == "and") == (outcome == "true")
                combination = parts[0]
                for part in parts[1:]:
                    combination = meet(combination, part) if both else join(combination, part)
                return combination
            case "isnull":
                return NOTHING if outcome == "true" else _one(node.args[0], known=True)
            case "call" if node.args[0] == "isfinite" and outcome == "true":
                return _one(node.args[1], known=True, real=True, finite=True)
            case "call" if node.args[0] == "isnan" and outcome != "true":
                return _one(node.args[1], known=outcome == "false", compared=True)
            case "in" if outcome == "true":
                first, *others = _listed(node)
                combination = self._compared("=", (node.args[0], first), scope, premises, outcome)
                for term in others:
                    more = self._compared("=", (node.args[0], term), scope, premises, outcome)
                    combination = join(combination, more)
                return combination
            case "compare":
                sign, left, right = node.args
                one = self._compared(sign, (left, right), scope, premises, outcome)
                two = self._compared(_FLIPPED[sign], (right, left), scope, premises, outcome)
                sure = NOTHING if outcome == "other" else _present((left, right))
                return meet(meet(one, two), sure)
        return NOTHING

    def _never_null(self, node: Node, scope: Scope, premises: Facts) -> Facts:
        """Facts where the negation of a condition is not true: it is true, or it is NULL."""
        if self.truth(node, scope, premises).null:
            return NOTHING
        return self.facts(node, scope, premises, "true")

    def _compared(
        self, sign: str, sides: tuple[Node, Node], scope: Scope, premises: Facts, outcome: str
    ) -> Facts:
        """Facts about the left side of a comparison with a constant."""
        left, right = sides
        x, k = self.value(left, scope, premises), self.value(right, scope, premises)
        if x.constant or not k.constant or k.null:
            return NOTHING
        x, k, kind = self.aligned(x, k, right)
        if not (x.type == kind or (kind == "f64" and x.type in _EXACT_IN_DOUBLE)
                or (x.type in INTEGERS and kind in (*INTEGERS, "num", "dec"))):  # fmt: skip
            return NOTHING  # the left side is rounded before it is compared
        holds = outcome == "true"
        if not holds:
            sign = _OPPOSITE[sign]
        if k.form == ("nan",):
            return _one(left, known=outcome != "other", compared=True) if sign == "<>" else NOTHING
        if k.nan or k.lo != k.hi or kind in TEXTS:
            return _one(left, known=True) if outcome != "other" else NOTHING
        end = float(k.lo) if kind in ("f32", "f64") else k.lo
        lo = end if sign in (">", ">=", "=") else -INF
        hi = end if sign in ("<", "<=", "=") else INF
        # NaN stands above every number: "not above" excludes it, "not below" does not
        compared = sign in ("<", "<=", "=")
        far = 1 if sign == "<>" and end == 0 and x.whole else 0
        return Facts({left: Fact(lo, hi, sign == "<", sign == ">", outcome != "other",
                                 compared=compared, far=far)})  # fmt: skip

    def _case(self, node: Node, scope: Scope, facts: Facts) -> Value:
        branches, other = node.args
        results: list[tuple[Value, bool]] = []
        dep: frozenset[int] = frozenset()
        subjects: dict[Node, Value] = {}
        current, passed = facts, NOTHING
        for condition, result in branches:
            dep |= self.truth(condition, scope, current).dep
            truths = self.facts(condition, scope, current, "true")
            rest = self.facts(condition, scope, current, "other")
            subjects |= {n: self.value(n, scope, current) for n in (*truths, *rest)}
            results.append(self._branch(result, scope, meet(current, truths), subjects))
            passed = meet(passed, rest)
            current = meet(facts, passed)
        results.append(self._branch(other, scope, current, subjects))
        return self.hull(results, node, dep.union(*(v.dep for v, _ in results)))

    def _branch(
        self, node: Node, scope: Scope, facts: Facts, subjects: dict[Node, Value]
    ) -> tuple[Value, bool]:
        """Value of a branch, and whether a row can come there."""
        live = True
        for subject, v in subjects.items():
            fact = facts.get(subject)
            if (
                fact
                and not v.constant
                and (v.form == VOID or narrowed(v, fact, self.dialect) is None)
            ):
                # NULL and NaN may pass where no number does
                live = live and (v.nan or v.infinite or (v.null and not fact.known))
        outside, self.dead = self.dead, self.dead or not live
        v = self.value(node, scope, facts)
        self.dead = outside
        return v, live

    def hull(self, results: list[tuple[Value, bool]], node: Node, dep: frozenset[int]) -> Value:
        """One of several values: their common type and hull."""
        null = any(v.null for v, live in results if live)
        some = [(v, live) for v, live in results if v.type != "null"]
        if not some:
            return Value("null", 0, 0, dep=dep)
        # the type of a bare string is that of its neighbours, so it comes last
        some.sort(key=lambda pair: pair[0].type == "text" and pair[0].literal)
        head, values = some[0][0], []
        for candidate, live in some:
            _, v, kind = self.aligned(head, candidate, node)
            if kind == "dec" and head.form != v.form:
                raise Unproven("decimals of different scales in one CASE")
            if head.literal or head.type != kind:
                head = v if v.type == kind else head._replace(type=kind)
            if live and v.form != VOID:
                values.append(v)
        kind = head.type
        finite = [v for v in values if not (v.lo == v.hi and abs(v.lo) == INF)]
        infinite = len(finite) < len(values) or any(v.infinite for v in values)
        values = finite or values
        form = head.form if kind == "dec" else ()
        sure = all(v.present for v, live in results if live)
        if not values:  # no row comes here with anything but NULL
            return Value(kind, null=null, dep=dep, sure=sure, form=form).void()
        hull = [(v.lo, v.hi) for v in values]
        if kind in ("f32", "f64"):
            hull = [(float(lo), float(hi)) for lo, hi in hull]
        return Value(
            kind,
            min(lo for lo, _ in hull),
            max(hi for _, hi in hull),
            null,
            any(v.nan for v in values),
            min(v.away for v in values),
            min(v.clear for v in values),
            infinite,
            all(v.whole for v in values) and not infinite,
            dep=dep,
            sure=sure,
            form=form,
        )


def _listed(node: Node) -> tuple[Node, ...]:
    """Terms of an IN that stand for all: of integers, which may be many, the ends."""
    terms = node.args[1:]
    if all(t.kind == "number" and t.args[0].lstrip("-").isdigit() for t in terms):
        ends = sorted(terms, key=lambda t: int(t.args[0]))
        return (ends[0], ends[-1]) if len(ends) > 1 else (ends[0],)
    return terms


def _bare(node: Node) -> bool:
    """Whether an expression is a constant wherever it stands."""
    return node.kind in _LEAVES or (node.kind == "cast" and node.args[0].kind in _LEAVES)


def _one(node: Node, **what: Any) -> Facts:
    return Facts({node: Fact(**what)})


def _present(nodes: Iterable[Node]) -> Facts:
    """Columns that have a value where a comparison, or an operator, of them is not NULL."""
    facts = Facts()
    for node in nodes:
        match node.kind:
            case "column":
                facts[node] = Fact(known=True)
            case "binary":
                facts.update(_present(node.args[1:]))
            case "negative":
                facts.update(_present(node.args))
    return facts


def deps(values: Iterable[Value]) -> frozenset[int]:
    return frozenset().union(*(v.dep for v in values))
