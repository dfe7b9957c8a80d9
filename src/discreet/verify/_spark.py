r"""The rules of Spark 4, where they differ from those of the other engines.

They hold with ``spark.sql.ansi.enabled`` and without: what one mode raises and the other
wraps or makes NULL is refused. Sums have 64 bits, so they are shown to hold for 2⁴⁰
rows, not 2⁶⁰; a window numbers rows in 32 bits, so a unit has fewer than 2³¹ of them.
``OFFSET 0`` is dropped by the optimizer. A condition that is not deterministic is passed
by nothing, so that is the fence. The session's clock is UTC, which engines see to.

Sums of pieces
--------------
Integers that are too large for 64 bits after 2⁴⁰ additions are added up in pieces of bits.
For every integer, :math:`x = (x \mathbin{\&} (2^k-1)) + 2^k (x \gg k)`, the shift being
arithmetic. So :math:`\sum x` is the sum of the pieces' sums times their weights; it is read
back as one sum, with the addends of :math:`x`. A sum of no values is NULL in all pieces alike.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from discreet.verify._domain import DAYS, INTEGERS, Facts, Number, Value
from discreet.verify._functions import Functions
from discreet.verify._read import Node, Select, Unproven
from discreet.verify._rules import Scope, deps
from discreet.verify._walk import bare

_SHARED: Final = frozenset(
    {"coalesce", "nullif", "abs", "least", "greatest", "md5", "substr", "right", "translate",
     "split_part", "length", "octet_length"}
)  # fmt: skip
"""Functions that do on Spark what they do elsewhere."""
_PARTS: Final = frozenset({"year", "quarter", "month", "week", "day", "doy", "dow_iso"})
_FAR: Final = 2**62
_BLANKS: Final = 100
"""Signs for any one character in a pattern, at most: each takes some of the stack."""


class Spark(Functions):
    """Rules for Spark; each method ``_s_name`` is a function of its own."""

    most_rows = 2**40
    rank = ("i32", 2**31 - 1)
    cut = "div"
    integers = ("i16", "i32", "i64", "d38")

    def fence(self, select: Select) -> bool:
        """Whether a SELECT has the condition that nothing passes, and nothing else."""
        where = select.where
        return (
            bare(select)
            and where is not None
            and where.kind == "compare"
            and where.args[0] == ">="
            and where.args[1].args == ("monotonically_increasing_id",)
            and where.args[2].args == ("0",)
        )

    def common(self, a: Value, b: Value, node: Node) -> str:
        """Type in which two values meet; decimals only meet their own kind."""
        kinds = {a.type, b.type}
        if ("dec" in kinds and (a.type, a.form) != (b.type, b.form)) or (
            "f32" in kinds and a.type != b.type
        ):
            raise Unproven(f"{a.type} beside {b.type}: {str(node)[:200]}")
        return super().common(a, b, node)

    def _collate(self, node: Node, scope: Scope, facts: Facts) -> Value:
        v = self.value(node.args[0], scope, facts)
        if v.type not in ("text", "collated"):
            raise Unproven(f"collation of {v.type}")
        # texts that its own collation took for one are two from here on
        if v.form == ("unit",):
            return v._replace(type="text", unit=True, form=())
        return v._replace(type="text")

    # operators

    def _like(self, node: Node, scope: Scope, facts: Facts) -> Value:
        """LIKE is total in bounded time where one % at most is tried at each place of a text."""
        plain = re.sub("!.", "x", node.args[1], flags=re.DOTALL)
        if plain[:-1].count("%") > 1 or plain.count("_") > _BLANKS:
            raise Unproven(f"LIKE may take forever: {str(node)[:80]}")
        return super()._like(node, scope, facts)

    def _binary(self, node: Node, scope: Scope, facts: Facts) -> Value:
        sign, left, right = node.args
        a, b = self.value(left, scope, facts), self.value(right, scope, facts)
        if "date" in (a.type, b.type):
            raise Unproven(f"{a.type} {sign} {b.type}")
        if sign in ("%", "div") and "d38" in (a.type, b.type):
            raise Unproven("the quotient of decimals wraps")
        if sign == "/" and not {a.type, b.type} & {"f32", "f64"}:
            raise Unproven("the quotient of integers is no integer")
        v = super()._binary(node, scope, facts)
        if sign == "+":
            return self._united(a, b, v)
        factor = b if b.constant else a
        piece = a if b.constant else b
        if sign == "*" and piece.form[:1] == ("piece",) and factor.lo == factor.hi > 0:
            *what, weight = piece.form
            return v._replace(form=(*what, weight * int(factor.lo)))
        return v if v.form[:1] != ("piece",) else v._replace(form=())

    def _bit(self, node: Node, scope: Scope, facts: Facts) -> Value:
        sign, left, right = node.args
        if sign in ("||", "->>"):
            raise Unproven(f"{sign} is not an operator here")
        if sign != "^":
            return super()._bit(node, scope, facts)
        a, b = self.value(left, scope, facts), self.value(right, scope, facts)
        if a.type not in ("i32", "i64") or b.type not in ("i32", "i64"):
            raise Unproven(f"{a.type} ^ {b.type}")
        sure = a.present and b.present
        out = Value(a.type, null=a.null or b.null, dep=a.dep | b.dep, whole=True, sure=sure)
        return self._xor(a, b, node, out)

    # casts

    def parsed(self, text: str, kind: str, node: Node, form: tuple[Any, ...] = ()) -> Value:
        """A constant that is written as a string."""
        if "infinity" in text and kind in ("date", "ts", "tz"):
            raise Unproven("no date is infinite here")
        if kind == "d38":
            v = super().parsed(text, "dec", node, (38, 0))
            return v._replace(type=kind, form=(), whole=True)
        return super().parsed(text, kind, node, form)

    def converted(self, v: Value, kind: str, form: tuple[Any, ...], node: Node) -> Value:
        """A value cast to a type, where the cast cannot fail."""
        if kind == "d38" and v.type in INTEGERS and v.type != "i128":
            return v._replace(type=kind, literal=False, fields=())
        if kind == "text" and v.type not in (*INTEGERS, "text", "null"):
            raise Unproven(f"the text of {v.type}")
        if kind == "tz" and v.type == "ts":
            if v.lo < -_FAR or v.hi > _FAR:
                self.fail("an instant near the ends of 64 bits", node, v)
            return v._replace(type=kind, literal=False)
        return super().converted(v, kind, form, node)

    def rounded(self, x: Number, way: int, v: Value) -> Number:  # noqa: ARG002 - one face
        """End of a range after a cast, which cuts off."""
        return math.trunc(x)

    # functions

    def _extract(self, node: Node, scope: Scope, facts: Facts) -> Value:
        part, inner = node.args
        if part not in _PARTS:
            raise Unproven(f"part {part}")
        if part == "dow_iso":
            v = self.value(inner, scope, facts)
            if v.type != "date":
                raise Unproven(f"{part} of {v.type}")
            return Value("i32", 1, 7, null=v.null, dep=v.dep, whole=True)
        return super()._extract(node, scope, facts)._replace(type="i32")

    def _call(self, node: Node, scope: Scope, facts: Facts) -> Value:
        name, *arguments = node.args
        rule = getattr(self, f"_s_{name}", None)
        if rule is not None:
            values = [self.value(a, scope, facts) for a in arguments]
            out = Value("i64", null=any(v.null for v in values), dep=deps(values))
            result: Value = rule(values, node, out)
            return result
        if name not in _SHARED and name not in ("sum", "count", "count distinct", "max", "min"):
            raise Unproven(f"function {name}")
        return super()._call(node, scope, facts)

    def sum_of(self, v: Value) -> str:
        """Type of a sum: 64 bits, or the widest decimal."""
        return "d38" if v.type == "d38" else "i64"

    def _aggregate(
        self, name: str, arguments: list[Node], node: Node, scope: Scope, facts: Facts
    ) -> Value:
        v = super()._aggregate(name, arguments, node, scope, facts)
        piece = _piece(arguments[0]) if name == "sum" else None
        if piece is None:
            return v
        inner, at, width = piece
        whole = self.value(inner, scope, facts)
        if whole.type != "i64" or whole.per is not None:
            return v
        return v._replace(form=("piece", inner, whole, at, width, 1))

    def _united(self, a: Value, b: Value, out: Value) -> Value:
        """Sum of sums of pieces: of the integer itself once all of its bits are there."""
        if a.form[:1] != ("piece",) or b.form[:1] != ("piece",):
            return out
        _, inner, whole, at, width, weight = a.form
        _, other, _, above, more, by = b.form
        fits = at == 0 and weight == 1 and width == above and by == 2**above
        if other is not inner or not fits:
            return out
        if more is not None:
            return out._replace(form=("piece", inner, whole, 0, width + more, 1))
        per = (whole.lo, whole.hi)
        lo, hi = (end * self.most_rows for end in (min(per[0], 0), max(per[1], 0)))
        form = ("sum", "null" if whole.null else "")
        return out._replace(lo=lo, hi=hi, per=per, form=form)

    def _s_rint(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.type != "f64":
            raise Unproven(f"rint of {v.type}: {str(node)[:80]}")
        lo, hi = (x if math.isinf(x) else float(round(x)) for x in (v.lo, v.hi))
        return out._replace(type="f64", lo=lo, hi=hi, nan=v.nan, infinite=v.infinite)

    def _s_pmod(self, values: list[Value], node: Node, out: Value) -> Value:
        a, b = values
        if not (a.type == b.type == "i64" and b.constant and b.lo == b.hi > 0):
            raise Unproven(f"pmod: {str(node)[:80]}")
        return out._replace(lo=0, hi=b.hi - 1, whole=True)

    def _s_conv(self, values: list[Value], node: Node, out: Value) -> Value:
        v, old, new = values
        if v.form[:1] != ("digits",) or v.form[1] > 15 or (old.lo, new.lo) != (16, 10):
            raise Unproven(f"conv: {str(node)[:80]}")
        return out._replace(type="text", form=("integer", 0, 16 ** v.form[1] - 1))

    def _s_trim(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        self._text(v, node)
        return out._replace(type="text")

    def _s_try_validate_utf8(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        self._text(v, node)
        return out._replace(type="text", null=True)

    def _s_unix_date(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.type != "date":
            raise Unproven(f"unix_date of {v.type}: {str(node)[:80]}")
        lo, hi = DAYS[self.dialect]
        return out._replace(type="i32", lo=max(v.lo, lo), hi=min(v.hi, hi), whole=True, id=v.id)

    def _s_unix_micros(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.type != "tz":
            raise Unproven(f"unix_micros of {v.type}: {str(node)[:80]}")
        lo, hi = INTEGERS["i64"]
        return out._replace(lo=max(v.lo, lo), hi=min(v.hi, hi), whole=True, id=v.id)

    def _s_date_from_unix_date(self, values: list[Value], node: Node, out: Value) -> Value:
        (v,) = values
        if v.type != "i32":
            raise Unproven(f"a date from {v.type}: {str(node)[:80]}")
        return out._replace(type="date", lo=v.lo, hi=v.hi, id=v.id)

    def _s_map(self, values: list[Value], node: Node, out: Value) -> Value:
        keys, codes = values[::2], values[1::2]
        names = {k.form[1] if k.type == "text" else int(k.lo) for k in keys}
        plain = all(k.type == keys[0].type and k.constant and not k.null for k in keys)
        if not plain or len(names) != len(codes) or keys[0].type not in ("text", "i64"):
            raise Unproven(f"a map: {str(node)[:80]}")
        if any(c.type != "i64" or not c.constant or c.null for c in codes):
            raise Unproven(f"a map to other than integers: {str(node)[:80]}")
        ends = min(c.lo for c in codes), max(c.hi for c in codes)
        return out._replace(type="map", lo=ends[0], hi=ends[1], form=("map", keys[0].type))

    def _s_array(self, values: list[Value], node: Node, out: Value) -> Value:
        kind = values[0].type if values else ""
        plain = all(v.type == kind and v.constant and not v.null and v.lo == v.hi for v in values)
        if not plain or kind not in ("i32", "i64"):
            raise Unproven(f"a list: {str(node)[:80]}")
        ends = min(v.lo for v in values), max(v.hi for v in values)
        return out._replace(type="array", lo=ends[0], hi=ends[1], form=(kind, len(values)))

    def _s_try_element_at(self, values: list[Value], node: Node, out: Value) -> Value:
        table, key = values
        if table.type == "array":
            kind, size = table.form
            if key.type != "i32":
                raise Unproven(f"a place of type {key.type}: {str(node)[:80]}")
            if key.lo < 1:  # there is no place 0, and those below are counted from the end
                self.fail("a place in a list", node, key)
            null = key.null or key.hi > size
            return out._replace(type=kind, lo=table.lo, hi=table.hi, null=null, whole=True)
        if table.form != ("map", key.type):
            raise Unproven(f"a lookup of {key.type}: {str(node)[:80]}")
        return out._replace(lo=table.lo, hi=table.hi, null=True, whole=True)


def _piece(node: Node) -> tuple[Node, int, int | None] | None:
    """Integer, first bit and number of bits (None: all above) of ``(x >> 22) & 4194303``."""
    width = None
    if node.kind == "bit" and node.args[0] == "&" and node.args[2].kind == "number":
        mask = int(node.args[2].args[0])
        if mask <= 0 or mask & (mask + 1):
            return None
        node, width = node.args[1], mask.bit_length()
    if node.kind == "bit" and node.args[0] == ">>" and node.args[2].kind == "number":
        return node.args[1], int(node.args[2].args[0]), width
    return None if width is None else (node, 0, width)
