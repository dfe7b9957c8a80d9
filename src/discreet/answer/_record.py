"""The release record: everything public about one answer, as plain JSON.

From a record anybody can recompute every value, interval and test, without the
data and without discreet's help: it holds the releases of all parts (noisy integers
with their exact laws), the formulas, and the statement of what was protected.
Records travel as files, so a record may come from anybody: :func:`read` lets
through only what refers to what it contains, and to no more than it contains, so
that evaluating it is bounded by its own length.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final, cast

from discreet._dataclass import dataclass, fields
from discreet.answer._outputs import OPERATIONS
from discreet.answer._windows import check_window
from discreet.errors import ParameterError
from discreet.plan import (
    Apply,
    Formula,
    Grouping,
    KeyValue,
    Number,
    Numbers,
    OutputColumn,
    OutputExpr,
    Release,
    StatisticValue,
    Text,
    Window,
    check_label,
    damaged,
    integer,
    integers,
    parts_of,
    plain,
    rational,
    windows_of,
)

VERSION: Final = 2
UNION: Final = "union"
"""Where a record of several answers holds theirs."""
_DEEPEST: Final = 64
_NODES: Final[dict[str, type]] = {
    "Apply": Apply,
    "Grouping": Grouping,
    "KeyOf": KeyValue,
    "Number": Number,
    "Of": StatisticValue,
    "Output": OutputColumn,
    "Text": Text,
    "Window": Window,
}
"""Nodes by their names in records."""
_NAMES: Final = {node: name for name, node in _NODES.items()}
CURRENCIES: Final = ("epsilon", "delta", "rho", "rho_delta")


@dataclass(frozen=True)
class Record:
    """One release; see the module's docstring."""

    keys: Mapping[str, tuple[object, ...]]
    parts: tuple[Release, ...]
    formulas: tuple[Formula, ...]
    outputs: tuple[OutputColumn, ...]
    having: OutputExpr | None
    order: tuple[tuple[OutputExpr, bool], ...]
    limit: int | None
    cost: Mapping[str, str]
    statement: Mapping[str, object]  # relation, unit, policy, plan, noise, when…
    levels: tuple[tuple[str, ...], ...] = ()  # keys of each level of totals; (): all keys
    qualify: OutputExpr | None = None

    @property
    def cells(self) -> int:
        """Number of groups released."""
        for column in self.keys.values():
            return len(column)
        return 1

    def numbers(self, index: int) -> Numbers:
        """The noisy integers of one part."""
        part = self.parts[index]
        if not isinstance(part, Numbers):
            raise damaged("a formula names a part that is not there")
        return part

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-able data."""
        return {
            "discreet": VERSION,
            "keys": {name: [plain(v) for v in column] for name, column in self.keys.items()},
            "parts": [{"kind": part.kind} | part.to_dict() for part in self.parts],
            "formulas": encode(self.formulas),
            "outputs": encode(self.outputs),
            "having": encode(self.having),
            "order": [[encode(out), descending] for out, descending in self.order],
            "limit": self.limit,
            "cost": dict(self.cost),
            "statement": dict(self.statement),
            **({"levels": encode(self.levels)} if self.levels else {}),
            **({} if self.qualify is None else {"qualify": encode(self.qualify)}),
        }


def encode(node: object) -> Any:
    """Turn a formula or output expression into JSON-able data."""
    kind: Any = type(node)
    name = kind.__name__ if isinstance(node, Formula) else _NAMES.get(kind)
    if name is not None:
        return {"is": name} | {n: encode(getattr(node, n)) for n, _ in _fields_of(kind)}
    if isinstance(node, tuple | list):
        return [encode(n) for n in node]
    return str(node) if isinstance(node, Fraction) else node


def read(data: Mapping[str, Any] | str) -> Record:
    """Validate a record and return it; every defect is one clear error."""
    data = parsed(data)
    if UNION in data:
        raise ParameterError(
            "this is the record of several answers", hint="answer.branches[0].record()"
        )
    try:
        record = _read(data)
        _check(record)
    except ParameterError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise damaged(f"{type(e).__name__} near {str(e)[:40]}") from None
    return record


def parsed(data: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """A record as data, of this version."""
    if isinstance(data, str):
        try:
            data = cast("Mapping[str, Any]", json.loads(data))
        except (ValueError, RecursionError):
            raise ParameterError("the record is not JSON") from None
    if not isinstance(data, Mapping) or data.get("discreet") != VERSION:
        raise ParameterError(f"this is not a discreet record of version {VERSION}")
    return data


def read_union(
    data: Mapping[str, Any],
) -> tuple[list[Any], list[tuple[int, bool]], int | None, dict[str, str]]:
    """Take a record of several answers apart: theirs, the order, the limit and the cost."""
    try:
        records, limit, cost = list(data[UNION]), data["limit"], dict(data["cost"])
        order = [(integer(place), _flag(down)) for place, down in data["order"]]
        for name in CURRENCIES:
            rational(cost.get(name))
        widths = {len(r["outputs"]) for r in records}
        if len(widths) != 1 or any(not 0 <= place < min(widths) for place, _ in order):
            raise damaged("its branches do not fit together")
        if limit is not None and integer(limit) < 0:
            raise damaged("its limit is negative")
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise damaged(f"{type(e).__name__} near {str(e)[:40]}") from None
    return records, order, limit, cost


def _read(data: Mapping[str, Any]) -> Record:
    return Record(
        keys={str(k): tuple(column) for k, column in data["keys"].items()},
        parts=tuple(
            _kind(part["kind"], Release.kinds, "part").read(part) for part in data["parts"]
        ),
        formulas=_decode(data["formulas"]),
        outputs=_decode(data["outputs"]),
        having=_decode(data["having"]),
        order=tuple((_decode(out), bool(descending)) for out, descending in data["order"]),
        limit=data["limit"],
        cost=dict(data["cost"]),
        statement=dict(data["statement"]),
        levels=tuple(tuple(map(str, names)) for names in data.get("levels", ())),
        qualify=_decode(data.get("qualify")),
    )


def _kind(name: object, kinds: Mapping[str, Any], what: str) -> Any:
    if str(name) not in kinds:
        raise damaged(f"it holds an unknown {what} {str(name)[:40]!r}")
    return kinds[str(name)]


def _decode(data: Any, depth: int = 0) -> Any:
    """Invert :func:`encode`; refuse anything that is not one of our nodes."""
    if depth > 2 * _DEEPEST:
        raise damaged("it is nested too deeply")
    if isinstance(data, list):
        return tuple(_decode(d, depth + 1) for d in data)
    if not isinstance(data, Mapping):
        return data
    name = str(data.get("is"))
    kind = _kind(name, _NODES if name in _NODES else Formula.kinds, "node")
    values = {}
    for own, reader in _fields_of(kind):
        if own not in data:
            if own in _LATER:
                continue
            raise damaged(f"{kind.__name__} lacks {own!r}")
        values[own] = _decode(data[own], depth + 1) if reader is None else reader(data[own])
    return kind(**values)


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, Callable[[Any], Any] | None], ...]:
    """Names of a node's fields, and how each is read; None: it is a node, or holds some."""
    return tuple([(f.name, _FIELDS.get(str(f.type))) for f in fields(kind)])


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise damaged("a truth value is missing")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise damaged("a text is missing")
    return value


_LATER: Final = {"moment", "times", "turned", "x_off", "y_off"}
"""Fields that records of earlier releases lack."""

_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": integer,
    "Fraction": rational,
    "bool": _flag,
    "str": _text,
    "tuple[int, ...]": integers,
    "tuple[Fraction, ...]": lambda values: tuple(rational(v) for v in values),
}
"""How a field of a node is read, by its declared type."""


def _check(record: Record) -> None:
    """Refuse a record whose pieces do not fit together."""
    if not isinstance(record.formulas, tuple) or not isinstance(record.outputs, tuple):
        raise damaged("its formulas or outputs are missing")
    cells = record.cells
    if any(len(column) != cells for column in record.keys.values()):
        raise damaged("its columns differ in length")
    for label in (v for column in record.keys.values() for v in column):
        check_label(label)
    for part in record.parts:
        part.check(cells)
    if len(record.levels) > 64 or any(n not in record.keys for x in record.levels for n in x):
        raise damaged("its levels name keys that are not there")
    for formula in record.formulas:
        if not isinstance(formula, Formula):
            raise damaged("a formula is missing")
        formula.check(record.parts)
    _check_outputs(record)
    for name in CURRENCIES:
        rational(record.cost.get(name))


def _check_outputs(record: Record) -> None:
    names = [o.name for o in record.outputs if isinstance(o, OutputColumn)]
    if not names or len(names) != len(record.outputs) or len(set(names)) != len(names):
        raise damaged("its outputs are missing or not distinct")
    having = [test for test in (record.having, record.qualify) if test is not None]
    for out in (*(o.expr for o in record.outputs), *having, *(o for o, _ in record.order)):
        _check_out(out, record, 0)
    if record.having is not None and windows_of(record.having):
        raise damaged("HAVING looks at other rows")
    if record.limit is not None and integer(record.limit) < 0:
        raise damaged("its limit is negative")


def _check_out(out: Any, record: Record, depth: int) -> None:
    match out:
        case StatisticValue(index) if 0 <= index < len(record.formulas):
            return
        case KeyValue(name) | Grouping(name) if name in record.keys:
            return
        case Window() if not any(windows_of(part) for part in parts_of(out)):
            check_window(out)
            for part in parts_of(out):
                _check_out(part, record, depth + 1)
            return
        case Number() | Text():
            return
        case Apply(str(op), tuple(args)) if op in OPERATIONS and depth < _DEEPEST:
            if OPERATIONS[op].least <= len(args) <= OPERATIONS[op].most:
                for arg in args:
                    _check_out(arg, record, depth + 1)
                return
    raise damaged("an output refers to something that is not there")
