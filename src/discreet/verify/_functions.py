"""Functions and aggregates: the closed list of those that statements may call."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Final

from discreet.verify._casts import Casts
from discreet.verify._domain import DAYS, INF, INSTANTS, INTEGERS, ROWS, Facts, Value
from discreet.verify._patterns import compiles
from discreet.verify._read import Node, Unproven
from discreet.verify._rules import Scope, deps

_PARTS: Final = {
    "month": (1, 12), "day": (1, 31), "isodow": (1, 7), "quarter": (1, 4), "week": (1, 53),
    "doy": (1, 366),
}  # fmt: skip


_LONGEST: Final = 10_000
"""Places in a text beyond this are not written by us."""


class Functions(Casts):
    """Rules for calls; each method ``_f_name`` is a function that may be called."""

    def _extract(self, node: Node, scope: Scope, facts: Facts) -> Value:
        part, inner = node.args
        v = self.value(inner, scope, facts)
        out = Value("i64" if self.duck else "num", null=v.null, dep=v.dep)
        if part == "epoch" and self.post and v.type in ("ts", "tz"):
            lo, hi = (x if abs(x) == INF else Fraction(x, 10**6) for x in (v.lo, v.hi))
            return out._replace(lo=lo, hi=hi)
        if v.type != "date":
            raise Unproven(f"{part} of {v.type}")
        if part == "year":
            if v.lo < DAYS[self.dialect][0] or v.hi > DAYS[self.dialect][1]:
                if not self.duck:
                    return out
                v = v._replace(lo=DAYS["duckdb"][0], hi=DAYS["duckdb"][1])
                out = out._replace(null=True)
            return out._replace(lo=_year(int(v.lo)), hi=_year(int(v.hi)), whole=True)
        if part not in _PARTS:
            raise Unproven(f"part {part}")
        if part == "week" and self.duck and v.lo < DAYS["duckdb"][0] + 366:
            self.fail("DuckDB has no weeks in its first year", node, v)
        out = out._replace(lo=_PARTS[part][0], hi=_PARTS[part][1], whole=True)
        # an infinite date has no parts
        known = DAYS[self.dialect][0] <= v.lo and v.hi <= DAYS[self.dialect][1]
        return out._replace(sure=v.sure) if known else out._replace(null=True)

    def _call(self, node: Node, scope: Scope, facts: Facts) -> Value:
        name, *arguments = node.args
        if name in ("sum", "count", "count distinct", "max", "min"):
            return self._aggregate(name, arguments, node, scope, facts)
        values = [self.value(a, scope, facts) for a in arguments]
        out = Value("i64", null=any(v.null for v in values), dep=deps(values))
        rule = getattr(self, f"_f_{name}", None)
        if rule is None:
            raise Unproven(f"function {name}")
        result: Value = rule(values, node, out)
        return result

    def _aggregate(
        self, name: str, arguments: list[Node], node: Node, scope: Scope, facts: Facts
    ) -> Value:
        if facts or len(arguments) != 1:
            raise Unproven("an aggregate in a branch")
        (argument,) = arguments
        if name == "count" and argument.kind == "star":
            return Value("i64", 0, ROWS, null=False, whole=True, per=(1, 1), form=("sum",))
        v = self.value(argument, scope, facts)
        out = Value("i64", 0, ROWS, null=False, whole=True, dep=v.dep, per=(0, 1))
        if name == "count":
            return out._replace(form=("sum",))
        if name == "count distinct":
            codes = v.hi - v.lo + 1 if v.type in INTEGERS else INF
            return out._replace(form=("once",) if v.unit else ("distinct", codes, v.id))
        if name in ("max", "min"):
            return v._replace(null=True, id=None, per=None, fields=(), unit=False, literal=False)
        if v.type not in INTEGERS and not (v.type == "num" and v.whole and v.size < INF):
            raise Unproven(f"the sum of {v.type}")
        per = v.per or (v.lo, v.hi)
        lo, hi = min(per[0], 0) * self.most_rows, max(per[1], 0) * self.most_rows
        empty = "null" in v.form or (v.null and not v.per)
        out = out._replace(type=self.sum_of(v), lo=lo, hi=hi, null=True, per=per,
                           form=("sum", "null" if empty else ""))  # fmt: skip
        return self.fit(out, node, v)

    def sum_of(self, v: Value) -> str:
        """Type of a sum."""
        return "i128" if self.duck else "i64" if v.type in ("i16", "i32") else "num"

    def _f_coalesce(self, values: list[Value], node: Node, out: Value) -> Value:
        v = self.hull([(x, True) for x in values], node, out.dep)
        first, rest = values[0], values[1:]
        v = v._replace(null=all(x.null for x in values))
        if not first.null:
            return v._replace(id=first.id, per=first.per, form=first.form)
        if len(rest) == 1 and rest[0].constant and rest[0].lo == rest[0].hi:
            if first.per is not None and rest[0].lo == 0:
                return v._replace(per=first.per, form=first.form)
            if first.type in INTEGERS and not first.lo <= rest[0].lo <= first.hi:
                return v._replace(id=first.id)
        return v

    def _f_nullif(self, values: list[Value], node: Node, out: Value) -> Value:
        x, y = values
        self.aligned(x, y, node)
        x = x._replace(literal=False, fields=(), per=None, dep=out.dep, unit=False,
                       id=x.id if x.present else None, null=True)  # fmt: skip
        if y.form == ("nan",):
            return x._replace(nan=False)
        if not (y.constant and y.lo == y.hi and x.whole) or y.null:  # nothing equals NULL
            return x
        if x.lo == x.hi == y.lo and x.type in INTEGERS:
            return x.void()  # NULL on every row
        if y.lo == 0:
            x = x._replace(far=max(x.far, 1))
        if x.lo < x.hi:
            x = x._replace(lo=x.lo + (x.lo == y.lo), hi=x.hi - (x.hi == y.lo))
        return x

    def _f_abs(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.type not in INTEGERS and not (v.type == "num" and v.whole):
            raise Unproven(f"abs of {v.type}")
        # NULL only where its argument is
        out = out._replace(type=v.type, lo=v.away, hi=v.size, far=v.away, whole=True, sure=v.sure)
        return self.fit(out, node, v)

    def _f_least(self, values: list[Value], node: Node, out: Value) -> Value:
        v = self.hull([(x, True) for x in values], node, out.dep)
        sure = [x.hi for x in values if not x.null]
        v = v._replace(null=all(x.null for x in values), hi=min([v.hi, *sure]), far=0)
        first = values[0]
        if first.form == ("sum",) and first.per in ((0, 1), (1, 1)) and (v.lo, v.hi) == (0, 1):
            return v._replace(per=(0, 1), form=("once",))
        return v

    def _f_greatest(self, values: list[Value], node: Node, out: Value) -> Value:
        v = self.hull([(x, True) for x in values], node, out.dep)
        sure = [x.lo for x in values if not x.null]
        return v._replace(null=all(x.null for x in values), lo=max([v.lo, *sure]), far=0)

    def _f_isfinite(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.type not in ("f32", "f64", "date", "ts", "tz") and (
            v.type != "ts_ns" or not self.duck
        ):
            # seconds and milliseconds are cast to microseconds first, which may fail
            self.fail(f"isfinite of {v.type}", node, v)
        return out._replace(type="bool", lo=0, hi=1)

    def _f_isnan(self, values: list[Value], node: Node, out: Value) -> Value:
        if values[0].type not in ("f32", "f64") or not self.duck:
            raise Unproven(f"isnan of {values[0].type}: {str(node)[:80]}")
        return out._replace(type="bool", lo=0, hi=1)

    def _f_epoch_us(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        lo, hi = INTEGERS["i64"]
        if v.type not in INSTANTS or not self.duck:
            raise Unproven(f"epoch_us of {v.type}")
        if v.type in ("ts_s", "ts_ms") and (v.lo < -(2**62) or v.hi > 2**62):
            self.fail(f"{v.type} beyond microseconds", node, v)
        if v.type in ("ts_ns", "tz_ns"):
            raise Unproven("epoch_us rounds nanoseconds")
        null = v.null or v.lo == -INF or v.hi == INF
        if v.type in ("ts_s", "ts_ms"):
            # a constant that was compared with may have been rounded to the second
            v = v._replace(lo=v.lo - 10**6, hi=v.hi + 10**6)
        return out._replace(lo=max(v.lo, lo), hi=min(v.hi, hi), null=null, whole=True)

    def _f_epoch_ns(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        lo, hi = INTEGERS["i64"]
        if v.type not in ("ts_ns", "tz_ns") or not self.duck:
            raise Unproven(f"epoch_ns of {v.type}: {str(node)[:80]}")
        lo, hi = max(v.lo * 1000, lo), min(v.hi * 1000, hi)
        return out._replace(lo=lo, hi=hi, null=True, whole=True)

    def _f_xor(self, values: list[Value], node: Node, out: Value) -> Value:
        if not self.duck:
            raise Unproven("xor is no function here")
        if any(v.type not in INTEGERS for v in values):
            raise Unproven("xor of other than integers")
        return self._xor(values[0], values[1], node, out._replace(whole=True))

    def _f_floor(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.type not in ("f32", "f64", "dec", "num"):
            raise Unproven(f"floor of {v.type}: {str(node)[:80]}")
        return v._replace(lo=v.lo - 1, far=0, id=None, dep=out.dep, literal=False)

    def _f_md5(self, values: list[Value], node: Node, out: Value) -> Value:
        if values[0].type != "text":
            raise Unproven(f"md5 of {values[0].type}: {str(node)[:80]}")
        return out._replace(type="text", form=("digits", 32))

    def _f_substr(self, values: list[Value], node: Node, out: Value) -> Value:
        v, first, last = values
        self._text(v, node)
        begin, length = self._count(first, 1, node), self._count(last, 0, node)
        if v.form[:1] == ("digits",) and begin == 1 and 1 <= length <= v.form[1]:
            return out._replace(type="text", form=("digits", length))
        return out._replace(type="text", form=("short", length))

    def _text(self, v: Value, node: Node) -> None:
        if v.type != "text":
            raise Unproven(f"text is needed: {str(node)[:80]}")

    def _count(self, v: Value, least: int, node: Node) -> int:
        """Value of a literal that counts characters, within what every engine takes."""
        if not v.literal or v.lo != v.hi or not least <= v.lo <= _LONGEST:
            raise Unproven(f"a place in a text: {str(node)[:80]}")
        return int(v.lo)

    def _f_right(self, values: list[Value], node: Node, out: Value) -> Value:
        self._text(values[0], node)
        self._count(values[1], 0, node)
        return out._replace(type="text")

    def _f_ltrim(self, values: list[Value], node: Node, out: Value) -> Value:
        v, signs = values
        self._text(v, node)
        if signs.form != ("literal", " "):
            raise Unproven(f"signs to trim: {str(node)[:80]}")
        return out._replace(type="text")

    _f_rtrim = _f_ltrim

    def _f_translate(self, values: list[Value], node: Node, out: Value) -> Value:
        v, *signs = values
        self._text(v, node)
        old, new = (s.form[1] if s.form[:1] == ("literal",) else "" for s in signs)
        if not old or len(old) != len(new) or not (old + new).isascii():
            raise Unproven(f"signs to translate: {str(node)[:80]}")
        return out._replace(type="text")

    def _f_split_part(self, values: list[Value], node: Node, out: Value) -> Value:
        v, separator, place = values
        self._text(v, node)
        self._count(place, 1, node)
        if separator.form[:1] != ("literal",) or not separator.form[1]:
            raise Unproven(f"a separator: {str(node)[:80]}")
        return out._replace(type="text")

    def _f_length(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        self._text(v, node)
        # a text holds at most a gigabyte on either engine
        most = v.form[1] if v.form[:1] in (("digits",), ("short",)) else 2**30
        kind = "i64" if self.duck else "i32"
        return out._replace(type=kind, lo=0, hi=most, whole=True)

    def _f_strlen(self, values: list[Value], node: Node, out: Value) -> Value:
        return self._octets(values, node, out, known=self.duck)

    def _f_octet_length(self, values: list[Value], node: Node, out: Value) -> Value:
        return self._octets(values, node, out, known=not self.duck)

    def _octets(self, values: list[Value], node: Node, out: Value, *, known: bool) -> Value:
        """Bytes of a text, of which engines hold fewer than 2³¹."""
        (v,) = values
        if not known:
            raise Unproven(f"no function here: {str(node)[:80]}")
        self._text(v, node)
        return out._replace(type="i64" if self.duck else "i32", lo=0, hi=2**31 - 1, whole=True)

    def _f_regexp_matches(self, values: list[Value], node: Node, out: Value) -> Value:
        if not self.duck or len(values) != 3 or values[2].form != ("literal", "s"):
            raise Unproven(f"a regular expression: {str(node)[:80]}")
        return self._matched(values[0], values[1], node, out)

    def _f_regexp_like(self, values: list[Value], node: Node, out: Value) -> Value:
        if self.duck or len(values) != 2:
            raise Unproven(f"a regular expression: {str(node)[:80]}")
        return self._matched(values[0], values[1], node, out)

    def _matched(self, v: Value, pattern: Value, node: Node, out: Value) -> Value:
        """A match is true or false where the pattern compiles and the text is short."""
        self._text(v, node)
        if pattern.form[:1] != ("literal",) or not compiles(pattern.form[1]):
            raise Unproven(f"a regular expression: {str(node)[:80]}")
        if v.form[:1] not in (("short",), ("digits",)):
            raise Unproven(f"a regular expression on a text of any length: {str(node)[:80]}")
        return out._replace(type="bool", lo=0, hi=1)

    def _f_div(self, values: list[Value], node: Node, out: Value) -> Value:
        a, b = values
        if self.duck or self.common(a, b, node) != "num":
            raise Unproven("div of other than numerics")
        return self.quotient(a, b, node, out._replace(type="num", whole=a.whole and b.whole))

    def _f_enum_code(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.form[:1] != ("enum",):
            raise Unproven(f"enum_code: {str(node)[:80]}")
        kind = "u8" if v.form[1] < 2**8 else "u16" if v.form[1] < 2**16 else "u32"
        return out._replace(type=kind, lo=v.lo, hi=v.hi, whole=True)


def _year(day: int) -> int:
    try:
        return (dt.date(1970, 1, 1) + dt.timedelta(days=day)).year
    except OverflowError:
        return 1970 + int(day / 365.2425) + (2 if day > 0 else -2)
