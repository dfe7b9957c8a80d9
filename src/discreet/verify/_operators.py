"""Arithmetic, comparison of bits, joining of texts: where they raise or wrap, and their ranges."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from discreet.verify._domain import (
    DAYS,
    INF,
    INTEGERS,
    VOID,
    Facts,
    Field,
    Number,
    Value,
    packed,
    side_by_side,
    word,
)
from discreet.verify._read import Node, Unproven
from discreet.verify._rules import Rules, Scope

TINY: Final = Fraction(1, 10**300)
"""Doubles above this stay clear of underflow."""


class Operators(Rules):
    """Rules for operators."""

    def _negative(self, node: Node, scope: Scope, facts: Facts) -> Value:
        v = self.value(node.args[0], scope, facts)
        if not v.number or v.type == "dec":
            raise Unproven(f"minus {v.type}")
        return self.fit(
            v._replace(lo=-v.hi, hi=-v.lo, literal=False, per=None, fields=(), form=()), node, v
        )

    def _binary(self, node: Node, scope: Scope, facts: Facts) -> Value:
        sign, left, right = node.args
        a, b = self.value(left, scope, facts), self.value(right, scope, facts)
        sure = a.present and b.present
        out = Value("i64", null=a.null or b.null, dep=a.dep | b.dep, sure=sure)
        if a.type == "date":
            return self._date(sign, a, b, node, out)
        if not (a.number and b.number) or a.infinite or b.infinite:
            raise Unproven(f"{a.type} {sign} {b.type}")
        kind = self.common(a, b, node)
        out = out._replace(type=kind, nan=a.nan or b.nan, whole=a.whole and b.whole)
        if kind in ("dec", "f32"):
            raise Unproven(f"arithmetic on {kind}")
        signs = ("+", "-", "*", "/") if kind == "f64" else ("+", "-", "*", "%", self.cut)
        if VOID in (a.form, b.form) and sign in signs:
            return out.void()  # NULL, whatever stands beside it
        if kind == "f64":
            return self._float(sign, a, b, node, out)
        if sign in "+-":
            lo, hi = (a.lo + b.lo, a.hi + b.hi) if sign == "+" else (a.lo - b.hi, a.hi - b.lo)
            fields = side_by_side(a, b) if sign == "+" else ()
            out = out._replace(lo=lo, hi=hi, fields=fields, id=_shifted(a, b))
            return self.fit(out, node, a, b)
        if sign == "*":
            out = _product(a, b, out)
            if left == right:  # a value times itself is never negative
                ends = sorted((_times(a.lo, a.lo), _times(a.hi, a.hi)))
                out = out._replace(lo=0 if a.lo <= 0 <= a.hi else ends[0], hi=ends[1])
            if kind == "i128" and out.lo <= INTEGERS[kind][0]:
                self.fail("DuckDB's product is never the least integer", node, a, b)
            return self.fit(out, node, a, b)
        if sign == "%":
            return self._remainder(a, b, node, out)
        if sign != self.cut or kind == "num":
            raise Unproven(f"{sign} does not cut off to an integer here")
        return self.quotient(a, b, node, out)

    def _date(self, sign: str, a: Value, b: Value, node: Node, out: Value) -> Value:
        lo, hi = DAYS[self.dialect]
        if sign == "-" and b.type == "date" and b.constant:
            if a.lo < lo or a.hi > hi:
                if not self.duck:
                    self.fail("an infinite date has no distance", node, a)
                lo, hi = lo - 1, hi + 1
            ends = {"lo": max(a.lo, lo) - b.lo, "hi": min(a.hi, hi) - b.lo}
            kind = "i64" if self.duck else "i32"
            return self.fit(out._replace(type=kind, whole=True, id=a.id, **ends), node, a)
        if sign == "+" and b.type == "i32" and a.constant and lo <= a.lo and a.hi <= hi:
            if a.lo + b.lo < lo or a.hi + b.hi > hi:
                self.fail("beyond the last date", node, a, b)
            ends = {"lo": max(a.lo + b.lo, lo), "hi": min(a.hi + b.hi, hi)}
            return out._replace(type="date", id=b.id, **ends)
        raise Unproven(f"{a.type} {sign} {b.type}")

    def _remainder(self, a: Value, b: Value, node: Node, out: Value) -> Value:
        if not out.whole or a.size == INF:
            raise Unproven("the remainder of what is not an integer")
        if b.away == 0:
            self.fail("division by zero", node, a, b)
        least = INTEGERS.get(out.type, (-INF, INF))[0]
        if a.lo <= least and b.lo <= -1 <= b.hi and b.away <= 1:
            self.fail("least integer modulo -1", node, a, b)
        if a.lo >= 0 and a.hi < b.away:
            return out._replace(lo=a.lo, hi=a.hi, id=a.id)
        top = b.size - 1
        lo = max(a.lo, -top) if a.lo < 0 else 0
        return out._replace(lo=lo, hi=min(a.hi, top) if a.hi > 0 else 0)

    def quotient(self, a: Value, b: Value, node: Node, out: Value) -> Value:
        """Integer quotient, cut off towards zero."""
        if INF in (a.size, b.size) or a.nan or b.nan or not out.whole:
            raise Unproven("the quotient of what is not an integer")
        if b.away == 0:
            self.fail("division by zero", node, a, b)
        near = max(b.away, 1)
        # divisors of either sign, kept away from zero: the quotient is monotone in each
        ends = [x for x in (b.lo, min(b.hi, -near)) if x <= -near and b.lo <= -near]
        ends += [x for x in (max(b.lo, near), b.hi) if x >= near and b.hi >= near]
        corners = [_cut(x, y) for x in (a.lo, a.hi) for y in ends] or [0]
        return self.fit(out._replace(lo=min(corners), hi=max(corners)), node, a, b)

    def _float(self, sign: str, a: Value, b: Value, node: Node, out: Value) -> Value:
        """IEEE double arithmetic: rounding is monotone, so the ends round to the ends."""
        for v in (a, b):
            if v.type == "num":
                self.converted(v, "f64", (), node)
        x, y = (float(a.lo), float(a.hi)), (float(b.lo), float(b.hi))
        out = out._replace(whole=False)
        unknown = out._replace(lo=-INF, hi=INF, nan=True)
        if sign == "/" and b.lo <= 0 <= b.hi:
            self.fail("division by zero", node, a, b)
            return unknown
        if INF in (-x[0], x[1], -y[0], y[1]):
            if self.post:
                self.fail("a double may overflow", node, a, b)
            return unknown
        match sign:
            case "+":
                ends = [x[0] + y[0], x[1] + y[1]]
            case "-":
                ends = [x[0] - y[1], x[1] - y[0]]
            case "*":
                ends = [p * q for p in x for q in y]
            case "/":
                ends = [p / q for p in x for q in y]
            case _:
                raise Unproven(f"{sign} of doubles")
        if self.post:
            self._flow(sign, a, b, max(*ends, *(-e for e in ends)), node)
        return out._replace(lo=min(ends), hi=max(ends))

    def _flow(self, sign: str, a: Value, b: Value, largest: float, node: Node) -> None:
        """PostgreSQL raises where a double overflows, and where a product or quotient vanishes."""
        if largest == INF:
            self.fail("a double may overflow", node, a, b)
        if sign == "*":
            least = 1 if max(a.away, b.away) >= 1 else Fraction(a.away) * Fraction(b.away)
        elif sign == "/":
            least = 1 if b.size <= 1 else Fraction(a.away) / Fraction(b.size)
        else:
            return
        if least < TINY:
            self.fail("a double may underflow", node, a, b)

    def _bit(self, node: Node, scope: Scope, facts: Facts) -> Value:
        sign, left, right = node.args
        a, b = self.value(left, scope, facts), self.value(right, scope, facts)
        sure = a.present and b.present
        out = Value(a.type, null=a.null or b.null, dep=a.dep | b.dep, whole=True, sure=sure)
        if sign == "||":
            return _joined(a, b, out)
        if sign == "->>":
            if a.type != "json" or b.type != "text":
                raise Unproven("a lookup in anything but a constant object")
            return out._replace(type="text", null=True, form=("integer", a.lo, a.hi))
        if a.type not in ("i32", "i64") or b.type not in ("i32", "i64"):
            raise Unproven(f"{a.type} {sign} {b.type}")
        if sign == "#":
            if not self.post:
                raise Unproven("# is not an operator here")
            return self._xor(a, b, node, out)
        if sign == "&":
            return self._mask(a, b, node, out)
        if not (b.constant and b.lo == b.hi and 0 <= b.lo < (64 if a.type == "i64" else 32)):
            raise Unproven("a shift by other than a small constant")
        by = int(b.lo)
        if sign == "<<":
            if a.lo < 0:
                self.fail("a negative number shifted up", node, a)
            fields = tuple(f._replace(at=f.at + by) for f in packed(a))
            lo, hi = int(a.lo) << by, int(a.hi) << by
            return self.fit(out._replace(lo=lo, hi=hi, id=a.id, fields=fields), node, a)
        fields = packed(a)
        if fields and all(f.at >= by or (f.hi << f.at) < (1 << by) for f in fields):
            return _word(tuple(f._replace(at=f.at - by) for f in fields if f.at >= by), out)
        return out._replace(lo=int(a.lo) >> by, hi=int(a.hi) >> by)

    def _mask(self, a: Value, b: Value, node: Node, out: Value) -> Value:
        out = out._replace(type=self.common(a, b, node))
        fields = packed(a)
        if fields and b.lo == b.hi and b.lo >= 0 and int(b.lo) & (int(b.lo) + 1) == 0:
            width = int(b.lo).bit_length()
            low = tuple(f for f in fields if f.at < width)
            if all((f.hi << f.at) < (1 << width) for f in low):
                return _word(low, out)
        tops = [v.hi for v in (a, b) if v.lo >= 0]
        if not tops:
            raise Unproven("bits of two negative numbers")
        return out._replace(lo=0, hi=min(tops))

    def _xor(self, a: Value, b: Value, node: Node, out: Value) -> Value:
        if a.lo < 0 or b.lo < 0:
            raise Unproven("exclusive or of negative numbers")
        top = 2 ** max(int(a.hi).bit_length(), int(b.hi).bit_length()) - 1
        return out._replace(type=self.common(a, b, node), lo=0, hi=top)


def _shifted(a: Value, b: Value) -> int | None:
    """Identity of a sum: moving by a constant is one to one."""
    if b.constant and b.lo == b.hi and not b.null:
        return a.id
    if a.constant and a.lo == a.hi and not a.null:
        return b.id
    return None


def _times(x: Number, y: Number) -> Number:
    return 0 if x == 0 or y == 0 else x * y


def _product(a: Value, b: Value, out: Value) -> Value:
    if a.constant and not b.constant:
        a, b = b, a
    corners = [_times(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    out = out._replace(lo=min(corners), hi=max(corners), far=_times(a.away, b.away))
    if not (b.constant and b.lo == b.hi and not b.null):
        return out
    factor = b.lo
    if a.per is not None:
        ends = (_times(a.per[0], factor), _times(a.per[1], factor))
        out = out._replace(per=(min(ends), max(ends)), form=a.form)
    if factor != 0 and out.whole:
        out = out._replace(id=a.id)
    if factor > 0 and out.type in INTEGERS and int(factor) & (int(factor) - 1) == 0:
        by = int(factor).bit_length() - 1
        out = out._replace(fields=tuple(f._replace(at=f.at + by) for f in packed(a)))
    return out


def _word(fields: tuple[Field, ...], out: Value) -> Value:
    lo, hi = word(fields)
    if len(fields) == 1 and fields[0].at == 0:
        return out._replace(lo=lo, hi=hi, id=fields[0].id)
    return out._replace(lo=lo, hi=hi, fields=fields)


def _cut(x: Number, y: Number) -> int:
    return math.trunc(Fraction(x) / Fraction(y))


def _joined(a: Value, b: Value, out: Value) -> Value:
    if a.type != "text" or b.type != "text":
        raise Unproven(f"{a.type} || {b.type}")
    form: tuple[Any, ...] = ()
    if a.literal and b.form[:1] == ("digits",):
        if a.form[1] == "0x" and b.form[1] <= 15:
            form = ("hexadecimal", b.form[1])
        if a.form[1] == "x0" and b.form[1] == 15:
            form = ("bits", 15)
    return out._replace(type="text", whole=False, form=form)
