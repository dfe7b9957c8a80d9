"""Steps of a replay: how far a call's private argument moved, against what was declared."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from discreet import _exact
from discreet._dataclass import dataclass
from discreet.mechanisms import Call

_ULP = Fraction(1, 2**51)
"""Cells that are doubles were rounded when they were computed; that much is no fault."""
_FARTHEST = 2**1023
_HEADER = ("", "call", "where", "declared", "measured")


@dataclass(frozen=True, slots=True)
class Step:
    """One call or measurement, on both inputs.

    Attributes
    ----------
    name, where
        What was called, and from which line.
    declared, measured
        Distances by name (``L1``, ``L2``, ``L∞``, ``keys``, ``records``): the most that neighbours
        may lie apart, and how far these two do.
    faults
        What is wrong; empty when all is well.
    unjudged
        Why the distance could not be measured; empty when it was.
    """

    name: str
    where: str
    declared: Mapping[str, Fraction]
    measured: Mapping[str, Fraction]
    faults: tuple[str, ...] = ()
    unjudged: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Replay:
    """What a replay found; ``violations`` is empty when all is well.

    Attributes
    ----------
    violations
        One sentence for each thing that is wrong.
    steps
        Every call that both sides made, with distances.
    notes
        What the replay could not judge.
    compared
        Whether all calls could be measured and what came out could be compared.
    """

    violations: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    compared: bool = True

    @property
    def ok(self) -> bool:
        """Whether everything was compared and nothing is violated."""
        return self.compared and not self.violations

    def to_dicts(self) -> list[dict[str, Any]]:
        """Steps as plain data."""
        return [
            {
                "call": s.name,
                "where": s.where,
                "declared": {k: float(v) for k, v in s.declared.items()},
                "measured": {k: float(v) for k, v in s.measured.items()},
                "faults": list(s.faults),
            }
            for s in self.steps
        ]

    def __repr__(self) -> str:
        rows = [_HEADER]
        for s in self.steps:
            mark = "FAIL" if s.faults else "?" if s.unjudged else "pass"
            rows.append((mark, s.name, s.where, listing(s.declared), listing(s.measured)))
        lines = [*columns(rows)] if self.steps else ["no call was measured"]
        lines += [f"VIOLATED  {text}" for text in self.violations]
        lines += [f"note      {text}" for text in self.notes]
        quiet = "nothing found" if self.compared else "not everything could be compared"
        lines.append(f"{len(self.violations)} found" if self.violations else quiet)
        return "\n".join(lines)


def listing(distances: Mapping[str, Fraction]) -> str:
    """Distances on one line."""
    return ", ".join(f"{name} {_exact.show(x)}" for name, x in distances.items()) or "-"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table in plain text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()


def step_of(left: Call, right: Call) -> Step:
    """Measure how far one call's private argument moved."""
    measure = {"keys": _keys, "records": _records}.get(left.norm, _vector)
    try:
        declared, measured, faults = measure(left, right)
    except _Unmeasured as error:
        return Step(left.mechanism, left.where, {}, {}, (), f"{left.mechanism} {error}")
    faults += [
        f"{left.mechanism} declares {name} {_exact.show(most)}, but it moved by "
        f"{_exact.show(measured[name])}"
        for name, most in declared.items()
        if measured[name] > most
    ]
    return Step(left.mechanism, left.where, declared, measured, tuple(faults))


class _Unmeasured(Exception):  # noqa: N818 - no error: the step says so
    """A private argument whose distance to another cannot be measured."""


_Distances = tuple[dict[str, Fraction], dict[str, Fraction], list[str]]


def _vector(left: Call, right: Call) -> _Distances:
    name = {"l1": "L1", "l2": "L2", "linf": "L∞"}[left.norm]
    bound = _exact.decimal(left.public["sensitivity"], "sensitivity")
    a, b = cells(left.private), cells(right.private)
    if len(a) != len(b):
        words = f"{left.mechanism} gets {len(a)} numbers on one side, {len(b)} on the other"
        return {name: bound}, {name: Fraction(0)}, [words]
    moves = [x - y for x, y in zip(a, b, strict=True)]
    floats = _doubles(left.private) or _doubles(right.private)
    slack = [
        _ULP * (abs(x) + abs(y)) if floats and x != y else Fraction(0)
        for x, y in zip(a, b, strict=True)
    ]
    if 8 * _length(left.norm, slack) > bound > 0:
        raise _Unmeasured("gets doubles so large that their rounding hides its sensitivity")
    sizes = [max(abs(d) - s, Fraction(0)) for d, s in zip(moves, slack, strict=True)]
    faults = []
    if left.public.get("monotone") and min(moves, default=0) < 0 < max(moves, default=0):
        faults.append(f"{left.mechanism} is called monotone, but cells moved both ways")
    if left.public.get("integer") and any(x.denominator != 1 for x in (*a, *b)):
        faults.append(f"{left.mechanism} is called on integers, but a cell is not an integer")
    moved = _length(left.norm, sizes)
    # the double nearest to a root such as √3 may lie below it
    if left.norm == "l2" and sum(d * d for d in sizes) <= bound * bound * (1 + _ULP):
        moved = min(moved, bound)
    return {name: bound}, {name: moved}, faults


def _length(norm: str, sizes: list[Fraction]) -> Fraction:
    if norm == "l2":
        return _root(sum((d * d for d in sizes), Fraction(0)))
    return sum(sizes, Fraction(0)) if norm == "l1" else max(sizes, default=Fraction(0))


def _root(square: Fraction) -> Fraction:
    whole = math.isqrt(square.numerator * square.denominator)
    if whole * whole == square.numerator * square.denominator:
        return Fraction(whole, square.denominator)
    return Fraction(math.isqrt(math.floor(square * 2**120)) + 1, 2**60)


def _keys(left: Call, right: Call) -> _Distances:
    """Counts by key: how many keys moved, and how far the one that moved most."""
    change = str(left.public["neighbours"]).endswith(("change-one", "CHANGE_ONE"))
    declared = {
        "keys": Fraction(int(left.public["max_groups"]) * (2 if change else 1)),
        "L∞": Fraction(int(left.public["sensitivity"])),
    }
    a, b = left.private, right.private
    moves = [abs(Fraction(a.get(k, 0)) - Fraction(b.get(k, 0))) for k in a.keys() | b.keys()]
    measured = {
        "keys": Fraction(sum(d > 0 for d in moves)),
        "L∞": max(moves, default=Fraction(0)),
    }
    return declared, measured, []


def _records(left: Call, right: Call) -> _Distances:
    """Records of people: how many changed; their number is public."""
    a, b = cells(left.private), cells(right.private)
    faults = []
    if len(a) != len(b):
        faults.append(f"{left.mechanism} treats the number of records as public, but it moved")
    changed = sum(x != y for x, y in zip(a, b, strict=False)) if not faults else 0
    if changed > 1 and left.mechanism.startswith("smooth"):
        changed = (Counter(b) - Counter(a)).total()  # their order does not matter to a median
    return {"records": Fraction(1)}, {"records": Fraction(changed)}, faults


def cells(x: object) -> list[Fraction]:
    """Numbers of an argument, exactly; nan and None count as 0, as mechanisms read them."""
    if isinstance(x, np.ndarray):
        return [_number(cell) for cell in x.ravel().tolist()]
    if hasattr(x, "__array__") and not isinstance(x, np.generic):
        return cells(np.asarray(x))
    if isinstance(x, Sequence) and not isinstance(x, str | bytes):
        return [number for part in x for number in cells(part)]
    return [_number(x)]


def _number(x: object) -> Fraction:
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float | Decimal):
        if math.isnan(x):
            return Fraction(0)
        far = Fraction(_FARTHEST if x > 0 else -_FARTHEST)
        return Fraction(x) if -_FARTHEST < x < _FARTHEST else far
    if x is None:
        return Fraction(0)
    if not isinstance(x, numbers.Rational):
        raise _Unmeasured(f"gets a {type(x).__name__}, whose distance cannot be measured")
    return Fraction(x)


def _doubles(x: object) -> bool:
    """Whether an argument holds doubles, which carry rounding of their own."""
    if isinstance(x, Sequence) and not isinstance(x, str | bytes):
        return any(map(_doubles, x))
    return np.asarray(x).dtype.kind == "f"
