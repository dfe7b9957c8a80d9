"""Casts and constants written as strings: which values they take, and what they give."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from fractions import Fraction
from typing import Any, Final

from discreet.verify._domain import (
    INF,
    INSTANTS,
    INTEGERS,
    LARGEST,
    Facts,
    Number,
    Value,
    named_type,
)
from discreet.verify._operators import TINY, Operators
from discreet.verify._read import Node, Unproven
from discreet.verify._rules import Scope


class Casts(Operators):
    """Rules for casts."""

    def _cast(self, node: Node, scope: Scope, facts: Facts) -> Value:
        inner, name, parameters = node.args
        v = self.value(inner, scope, facts)
        kind, form = named_type(name, parameters, self.dialect)
        if v.type == "text" and v.literal:
            return self.parsed(v.form[1], kind, node, form)
        return self.converted(v, kind, form, node)

    def parsed(self, text: str, kind: str, node: Node, form: tuple[Any, ...] = ()) -> Value:
        """A constant that is written as a string."""
        out = Value(kind, null=False)
        if kind in ("f64", "num"):
            plain = text.lower().lstrip("+-")
            if plain == "nan":
                return out._replace(nan=True, form=("nan",))
            if plain in ("inf", "infinity"):
                end = -INF if text.startswith("-") else INF
                return out._replace(lo=end, hi=end)
            if not _NUMBER.fullmatch(text):
                raise Unproven("a number that cannot be read")
            exact: Number = Fraction(text)
            if abs(exact) > LARGEST:
                raise Unproven("a constant beyond doubles")
            end = float(exact) if kind == "f64" else exact
            if exact and not end:
                raise Unproven("a constant below doubles")
            return out._replace(lo=end, hi=end, far=abs(end))
        if kind == "dec":
            out = out._replace(form=_decimal(text, form))
            return out._replace(lo=Fraction(text), hi=Fraction(text))
        if kind == "date" or kind in INSTANTS:
            at = _moment(text, kind)
            return out._replace(lo=at, hi=at)
        if kind == "json" and self.post:
            return _object(text, out)
        if kind == "text":
            return out._replace(literal=True, form=("literal", text))
        raise Unproven(f"a string read as {kind}: {str(node)[:80]}")

    def converted(self, v: Value, kind: str, form: tuple[Any, ...], node: Node) -> Value:
        """A value cast to a type, where the cast cannot fail."""
        out = Value(kind, null=v.null, dep=v.dep, form=form, sure=v.sure)
        if v.type == "null":
            return out.void()
        if kind in INTEGERS:
            return self._to_integer(v, node, out)
        if kind == "f64":
            return self._to_double(v, node, out)
        if kind == "text":
            whole = v.type in INTEGERS or v.type in ("uuid", "enum", "text")
            # PostgreSQL's enumerations have names of their own
            whole = whole or (v.type == "other" and self.post)
            if not (v.number or whole):
                raise Unproven(f"the text of {v.type}")
            form = ("number", v.lo, v.hi, v.nan) if v.number else v.form if v.type == "text" else ()
            return out._replace(form=form, id=v.id if whole else None, unit=v.unit and whole)
        if kind == "num" and (v.type in INTEGERS or v.type == "num"):
            return v._replace(type=kind, literal=False, form=(), fields=())
        if kind == "dec" and v.type in INTEGERS:
            if v.size >= 10 ** (form[0] - form[1]):
                self.fail("may leave the decimal", node, v)
            return out._replace(lo=v.lo, hi=v.hi)
        if kind == "bool" and v.type == "bool":
            return v
        if kind == "bit" and form == ("64",) and v.form == ("bits", 15):
            return out._replace(form=("bits", 15))
        raise Unproven(f"{v.type} cast to {kind}: {str(node)[:80]}")

    def _to_integer(self, v: Value, node: Node, out: Value) -> Value:
        lo, hi = INTEGERS[out.type]
        out = out._replace(whole=True)
        if v.type == "bool":
            return out._replace(lo=0, hi=1, id=v.id)
        if v.form and v.form[0] in ("integer", "hexadecimal", "bits"):
            ends = (v.form[1], v.form[2]) if v.form[0] == "integer" else (0, 16 ** v.form[1] - 1)
            return self.fit(out._replace(lo=ends[0], hi=ends[1]), node, v)
        if not v.number:
            self.fail(f"{v.type} read as a number", node, v)
            return out._replace(lo=lo, hi=hi)
        if v.nan or v.infinite:
            self.fail("NaN has no integer", node, v)
        if v.type in ("f32", "f64") and out.type in ("i64", "i128"):
            hi -= hi >> 53  # the largest double below
        if v.size == INF or v.lo < lo or v.hi > hi:
            self.fail(f"may leave {out.type}", node, v)
            return out._replace(lo=lo, hi=hi)
        same = v.type in INTEGERS or v.whole
        ends = (v.lo, v.hi) if same else (self.rounded(v.lo, -1, v), self.rounded(v.hi, 1, v))
        out = out._replace(lo=ends[0], hi=ends[1])
        if same:
            unit = v.unit and v.type in INTEGERS
            return out._replace(far=v.far, id=v.id, fields=v.fields, per=v.per, unit=unit)
        return self.fit(out, node, v)

    def rounded(self, x: Number, way: int, v: Value) -> Number:
        """End of a range after a cast: doubles to even, decimals away from zero."""
        if v.type in ("f32", "f64"):
            return round(x)
        return math.floor(x) if way < 0 else math.ceil(x)

    def _to_double(self, v: Value, node: Node, out: Value) -> Value:
        if v.type == "text":
            if not (v.form and v.form[0] == "number"):
                self.fail("text read as a number", node, v)
                return out._replace(nan=True)
            _, lo, hi, nan = v.form
            return out._replace(lo=float(lo), hi=float(hi), nan=nan)
        if not v.number:
            raise Unproven(f"{v.type} cast to a double")
        infinite = v.infinite or (v.lo == v.hi and abs(v.lo) == INF)
        # an infinite end stands for infinity and for every finite number before it
        far_out = v.size > LARGEST and not (v.lo == v.hi and infinite)
        if v.type == "num" and (far_out or (v.clear < TINY and not v.whole)):
            self.fail("a numeric that no double is near", node, v)
            return out._replace(nan=True)
        if v.infinite:
            v = v._replace(lo=-INF, hi=INF, far=0)
        lo, hi = float(v.lo), float(v.hi)
        if v.type in ("dec", "i128", "u64"):
            lo, hi = lo - abs(lo) * 2**-50, hi + abs(hi) * 2**-50  # these round twice
        far = 0.0 if v.type == "dec" else float(v.far) if v.far < LARGEST else 0.0
        return out._replace(lo=lo, hi=hi, nan=v.nan, far=far, statistics=v.statistics)

    def _trycast(self, node: Node, scope: Scope, facts: Facts) -> Value:
        inner, name, parameters = node.args
        v = self.value(inner, scope, facts)
        kind, form = named_type(name, parameters, self.dialect)
        if not self.duck or v.type not in ("text", "f32", "f64", *INTEGERS):
            raise Unproven(f"TRY_CAST of {v.type}")
        out = Value(kind, dep=v.dep, form=form)
        if kind == "enum":
            return out._replace(lo=0, hi=form[1] - 1)
        if kind not in INTEGERS:
            raise Unproven(f"TRY_CAST to {kind}")
        lo, hi = INTEGERS[kind]
        if v.number and v.lo > -INF:
            lo = min(max(lo, round(v.lo)), hi)
        if v.number and v.hi < INF:
            hi = max(min(hi, round(v.hi)), lo)
        return out._replace(lo=lo, hi=hi, whole=True)


_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(\+00)?", re.ASCII)


def _moment(text: str, kind: str) -> Number:
    """Days or microseconds since 1970 of a constant; years 1 to 9999 or an infinity."""
    if text in ("infinity", "-infinity"):
        return -INF if text.startswith("-") else INF
    if kind == "date" and _DAY.fullmatch(text):
        return (dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days
    match = _MOMENT.fullmatch(text if " " in text else text + " 00:00:00")
    if match is None or (match[3] is None) != (kind not in ("tz", "tz_ns")):
        raise Unproven("an instant that cannot be read, or that needs a time zone")
    since = dt.datetime.fromisoformat(match[1]) - dt.datetime(1970, 1, 1)  # noqa: DTZ001 - UTC
    micros = since // dt.timedelta(microseconds=1) + Fraction(f"0.{match[2] or 0}") * 10**6
    if kind.endswith("_ns") and abs(micros) * 1000 >= 2**63 - 1:  # these two are infinities
        raise Unproven("an instant beyond nanoseconds")
    return micros


def _decimal(text: str, form: tuple[int, int]) -> tuple[int, int]:
    """Width and scale of a decimal that is written out in full."""
    digits, _, places = text.removeprefix("-").partition(".")
    if not (digits + (places or "0")).isdecimal() or not text.isascii():
        raise Unproven("a decimal that cannot be read")
    if len(digits.lstrip("0")) > form[0] - form[1] or len(places) > form[1]:
        raise Unproven("a constant that its decimal cannot hold")
    return form


def _object(text: str, out: Value) -> Value:
    """A constant object whose values are integers; the range of these."""
    try:
        table = json.loads(text)
    except ValueError:
        raise Unproven("an object that cannot be read") from None
    if not isinstance(table, dict) or not table:
        raise Unproven("a lookup in other than an object")
    if any(type(v) is not int for v in table.values()) or "\\u0000" in text:
        raise Unproven("an object of other than integers")
    if any("\ud800" <= c <= "\udfff" for key in table for c in key):
        raise Unproven("half a character")
    return out._replace(lo=min(table.values()), hi=max(table.values()))
