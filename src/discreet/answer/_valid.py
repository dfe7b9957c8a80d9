"""Whether a record holds together: sizes, references and types, before anything is computed.

Records travel as files, so a record may come from anybody. Whatever passes here
refers only to what it contains, and to no more than it contains: evaluating it is
bounded by its own length.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, get_args

from discreet import _exact, noise
from discreet.errors import ParameterError
from discreet.plan import Apply, KeyOf, Number, Of, Output, Text
from discreet.plan._formula import Formula, Mean, Mode, Quantile, Spread, Total

if TYPE_CHECKING:
    from discreet.answer._record import Record, ReleasedTree, ReleasedVector

DEEPEST: Final = 64
_BITS: Final = 900
"""Longest integer: what a double can still stand for."""

_ARITY: Final = {
    **dict.fromkeys(["+", "*", "/", "<", "<=", "=", "<>", ">=", ">"], (2, 2)),
    "-": (1, 2),
    "not": (1, 1),
    "abs": (1, 1),
    "round": (1, 2),
    "and": (1, 10_000),
    "or": (1, 10_000),
}


def damaged(what: str) -> ParameterError:
    """Refusal of a record."""
    return ParameterError(f"the record is damaged: {what}")


def integer(value: Any) -> int:
    """Read an integer of bearable length; truth values are none."""
    if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > _BITS:
        raise damaged("an integer is missing or too long")
    return value


def integers(values: Any) -> tuple[int, ...]:
    """Read a list of integers."""
    if not isinstance(values, list | tuple):
        raise damaged("a list is missing")
    return tuple(integer(v) for v in values)


def rational(value: Any) -> Fraction:
    """Read an exact number of bearable size."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise damaged("a number is missing")
    read = _exact.decimal(value, "a number of the record")
    if max(read.numerator.bit_length(), read.denominator.bit_length()) > 2 * _BITS or (
        abs(read) >= 2**_BITS
    ):
        raise damaged("a number is too long")
    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise damaged("a truth value is missing")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise damaged("a text is missing")
    return value


FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": integer,
    "Fraction": rational,
    "bool": _flag,
    "str": _text,
}
"""How a field of a node is read, by its declared type."""


def check(record: Record) -> None:
    """Refuse a record whose parts do not fit together."""
    if not isinstance(record.formulas, tuple) or not isinstance(record.outputs, tuple):
        raise damaged("its formulas or outputs are missing")
    cells = record.cells
    columns = [*record.keys.values(), *(v.values for v in record.vectors), *record.picks]
    if any(len(column) != cells for column in columns):
        raise damaged("its columns differ in length")
    labels = [v for column in record.keys.values() for v in column]
    labels += [v for pick in record.picks for cell in pick for v in cell]
    if any(isinstance(v, list | tuple | dict) for v in labels):
        raise damaged("a label is no single value")
    for label in labels:
        if isinstance(label, int):
            integer(int(label))
    if any(not cell for pick in record.picks for cell in pick):
        raise damaged("a selection is empty")
    for vector in record.vectors:
        _vector(vector)
    for tree in record.trees:
        _tree(tree, cells)
    for formula in record.formulas:
        _formula(formula, record)
    _outputs(record)
    for name in ("epsilon", "delta", "rho", "rho_delta"):
        rational(record.cost.get(name))


def _vector(vector: ReleasedVector) -> None:
    _law(vector.law, optional=True)
    if vector.threshold is None:
        return
    selected = vector.values[:-1] if vector.bucket else vector.values
    if vector.law is None or any(v < integer(vector.threshold) for v in selected):
        raise damaged("a group is shown that was not selected")


def _law(law: Any, *, optional: bool = False) -> None:
    if not (optional and law is None) and not isinstance(
        law, noise.DiscreteLaplace | noise.DiscreteGaussian
    ):
        raise damaged("a noise law is missing")
    if law is not None and law.variance > 2.0**_BITS:
        raise damaged("a noise law is too wide")


def _tree(tree: ReleasedTree, cells: int) -> None:
    _law(tree.law)
    if tree.branching < 2 or not 1 <= len(tree.levels) <= DEEPEST:
        raise damaged("a tree has no levels")
    if tree.width <= 0 or tree.lo > tree.hi:
        raise damaged("a tree has no range")
    for depth, level in enumerate(tree.levels, start=1):
        wide = any(len(row) != tree.branching**depth for row in level)
        if len(level) != cells or wide or any(abs(x) >= 2**62 for row in level for x in row):
            raise damaged("a tree's levels do not fit it")


def _formula(formula: Any, record: Record) -> None:
    if not isinstance(formula, get_args(Formula)):
        raise damaged("a formula is missing")
    match formula:
        case Total() | Mean() | Spread():
            used, there = formula.vectors, len(record.vectors)
        case Quantile(tree, at):
            used, there = (tree,), len(record.trees)
            if not 0 <= at <= 1:
                raise damaged("a quantile lies outside 0 and 1")
        case Mode(selection):
            used, there = (selection,), len(record.picks)
    if any(not 0 <= i < there for i in used):
        raise damaged("a formula names a vector that is not there")
    if isinstance(formula, Mean) and formula.lo > formula.hi:
        raise damaged("a mean has no range")


def _outputs(record: Record) -> None:
    names = [o.name for o in record.outputs if isinstance(o, Output)]
    if not names or len(names) != len(record.outputs) or len(set(names)) != len(names):
        raise damaged("its outputs are missing or not distinct")
    having = [] if record.having is None else [record.having]
    for out in (*(o.expr for o in record.outputs), *having, *(o for o, _ in record.order)):
        _out(out, record, 0)
    if record.limit is not None and integer(record.limit) < 0:
        raise damaged("its limit is negative")


def _out(out: Any, record: Record, depth: int) -> None:
    match out:
        case Of(index) if 0 <= index < len(record.formulas):
            return
        case KeyOf(name) if name in record.keys:
            return
        case Number() | Text():
            return
        case Apply(op, args) if isinstance(op, str) and isinstance(args, tuple):
            least, most = _ARITY.get(op, (1, 0))
            if least <= len(args) <= most and depth < DEEPEST:
                for arg in args:
                    _out(arg, record, depth + 1)
                return
    raise damaged("an output refers to something that is not there")
