"""The release record: everything public about one answer, as plain JSON.

From a record anybody can recompute every value, interval and test, without the
data and without discreet's help: it holds the noisy integers, the exact noise
laws (rationals as strings), the formulas, and the statement of what was
protected. :func:`read` validates a record from a file before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, cast

from discreet import noise
from discreet.answer import _valid
from discreet.errors import ParameterError
from discreet.plan import Apply, KeyOf, Number, Of, Out, Output, Text
from discreet.plan._formula import Formula, Mean, Mode, Quantile, Spread, Total

VERSION = 1

_NODES: dict[str, type] = {
    c.__name__: c
    for c in (Apply, KeyOf, Number, Of, Output, Text, Mean, Mode, Quantile, Spread, Total)
}


def encode(node: object) -> Any:
    """Turn a formula or output expression into JSON-able data."""
    if is_dataclass(node) and not isinstance(node, type):
        return {"is": type(node).__name__} | {
            f.name: encode(getattr(node, f.name)) for f in fields(node)
        }
    if isinstance(node, tuple | list):
        return [encode(n) for n in node]
    return str(node) if isinstance(node, Fraction) else node


def decode(data: Any, depth: int = 0) -> Any:
    """Invert :func:`encode`; refuse anything that is not one of our nodes."""
    if depth > 2 * _valid.DEEPEST:
        raise _valid.damaged("it is nested too deeply")
    if isinstance(data, list):
        return tuple(decode(d, depth + 1) for d in data)
    if not isinstance(data, Mapping):
        return data
    kind = _NODES.get(str(data.get("is")))
    if kind is None:
        raise ParameterError(f"the record holds an unknown node {str(data.get('is'))[:40]!r}")
    values = {}
    for f in fields(kind):
        if f.name not in data:
            raise ParameterError(f"the record's {kind.__name__} lacks {f.name!r}")
        read = _valid.FIELDS.get(str(f.type))
        values[f.name] = decode(data[f.name], depth + 1) if read is None else read(data[f.name])
    return kind(**values)


@dataclass(frozen=True)
class ReleasedVector:
    """Noisy integers of one vector, one per cell, with their law."""

    values: tuple[int, ...]
    law: Any  # a noise law, or None when the vector is public
    threshold: int | None = None  # cells were released because they reached this
    bucket: bool = False  # the last cell holds all other keys and was not selected


@dataclass(frozen=True)
class ReleasedTree:
    """Noisy levels of one quantile tree, cell by cell."""

    levels: tuple[tuple[tuple[int, ...], ...], ...]
    law: Any
    branching: int
    lo: Fraction
    width: Fraction
    hi: Fraction


@dataclass(frozen=True)
class Record:
    """One release; see the module's docstring."""

    keys: Mapping[str, tuple[object, ...]]
    vectors: tuple[ReleasedVector, ...]
    trees: tuple[ReleasedTree, ...]
    picks: tuple[tuple[tuple[object, ...], ...], ...]
    formulas: tuple[Formula, ...]
    outputs: tuple[Output, ...]
    having: Out | None
    order: tuple[tuple[Out, bool], ...]
    limit: int | None
    cost: Mapping[str, str]
    statement: Mapping[str, object]  # relation, unit, policy, plan, noise, when…

    @property
    def cells(self) -> int:
        """Number of groups released."""
        for column in self.keys.values():
            return len(column)
        return 1

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-able data."""
        return {
            "discreet": VERSION,
            "keys": {name: [_plain(v) for v in column] for name, column in self.keys.items()},
            "vectors": [
                {
                    "law": _law(v.law),
                    "values": [int(x) for x in v.values],
                    "threshold": v.threshold,
                    "bucket": v.bucket,
                }
                for v in self.vectors
            ],
            "trees": [
                {
                    "law": _law(t.law),
                    "levels": [[[int(x) for x in row] for row in level] for level in t.levels],
                    "branching": t.branching,
                    "lo": str(t.lo),
                    "width": str(t.width),
                    "hi": str(t.hi),
                }
                for t in self.trees
            ],
            "picks": [[[_plain(v) for v in cell] for cell in pick] for pick in self.picks],
            "formulas": encode(self.formulas),
            "outputs": encode(self.outputs),
            "having": encode(self.having),
            "order": [[encode(out), descending] for out, descending in self.order],
            "limit": self.limit,
            "cost": dict(self.cost),
            "statement": dict(self.statement),
        }


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _law(law: Any) -> Any:
    return None if law is None else law.to_dict()


def read(data: Mapping[str, Any] | str) -> Record:
    """Validate a record and return it; every defect is one clear error."""
    if isinstance(data, str):
        try:
            data = cast("Mapping[str, Any]", json.loads(data))
        except (ValueError, RecursionError):
            raise ParameterError("the record is not JSON") from None
    if not isinstance(data, Mapping) or data.get("discreet") != VERSION:
        raise ParameterError(f"this is no discreet record of version {VERSION}")
    try:
        record = _read(data)
    except ParameterError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise _valid.damaged(f"{type(e).__name__} near {str(e)[:40]}") from None
    _valid.check(record)
    return record


def _read(data: Mapping[str, Any]) -> Record:
    return Record(
        keys={str(k): tuple(column) for k, column in data["keys"].items()},
        vectors=tuple(
            ReleasedVector(
                _valid.integers(v["values"]),
                _read_law(v["law"]),
                None if v["threshold"] is None else _valid.integer(v["threshold"]),
                bool(v["bucket"]),
            )
            for v in data["vectors"]
        ),
        trees=tuple(
            ReleasedTree(
                tuple(tuple(_valid.integers(row) for row in level) for level in t["levels"]),
                _read_law(t["law"]),
                _valid.integer(t["branching"]),
                _valid.rational(t["lo"]),
                _valid.rational(t["width"]),
                _valid.rational(t["hi"]),
            )
            for t in data["trees"]
        ),
        picks=tuple(tuple(tuple(cell) for cell in pick) for pick in data["picks"]),
        formulas=decode(data["formulas"]),
        outputs=decode(data["outputs"]),
        having=decode(data["having"]),
        order=tuple((decode(out), bool(descending)) for out, descending in data["order"]),
        limit=data["limit"],
        cost=dict(data["cost"]),
        statement=dict(data["statement"]),
    )


def _read_law(data: Any) -> Any:
    return None if data is None else noise.law_from_dict(data)
