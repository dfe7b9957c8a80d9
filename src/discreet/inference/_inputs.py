"""One reading of everything that carries a noisy number.

Procedures accept a plain number with a law (or with the name and ε of a
mechanism), a :class:`~discreet.mechanisms.Release`, a column of an
:class:`~discreet.answer.Answer` or of its record, and :class:`Noisy`, which is
what all of them become. Here, and only here, is refused what must not be read:
test noise, unknown laws, columns without one known law, answers under different
relations or units, sample sizes that contradict the record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

import numpy as np

from discreet import _exact, noise
from discreet import mechanisms as m
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.answer import Answer, Record, Union, read
from discreet.errors import Hint, ParameterError, RelationError, TaintedNoiseError
from discreet.inference._chosen import Chosen, choice_of, left_over, selects, unchosen
from discreet.inference._laws import (
    AnyLaw,
    Floats,
    Gaussian,
    Laplace,
    Noise,
    Rng,
    generator,
    noise_by_name,
)
from discreet.plan import (
    Formula,
    Mean,
    OutputColumn,
    PublicVariance,
    Spread,
    StatisticValue,
    Total,
    WeightedSum,
)


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """A released number (or a vector with independent noise per cell) and its noise.

    Attributes
    ----------
    value
        What was released, in units: a float or an array of floats.
    noise
        Law and step of the noise of every cell.
    neighbours, unit
        What was protected, None where nobody said.
    n
        Public number of rows behind the number, where the record states it.
    rows, rows_in_all
        Most rows of one unit behind one cell, and behind all cells of the column, where
        the record states it.
    coin
        Public random bits of the release, for chances that must not be tossed twice.
    chosen
        What chose the row, where noisy numbers did; see :mod:`discreet.inference._chosen`.
    """

    value: Any
    noise: Noise
    neighbours: str | None = None
    unit: str | None = None
    n: int | None = None
    rows: int | None = None
    rows_in_all: int | None = None
    coin: str | None = None
    chosen: tuple[Chosen, ...] = ()

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(np.size(self.value))

    def __add__(self, other: Noisy) -> Noisy:
        """Add independent releases; the noise becomes the law of the sum."""
        if not isinstance(other, Noisy):
            return NotImplemented
        relation, unit = shared([self, other])
        return Noisy(
            self.value + other.value,
            add(self.noise, other.noise),
            relation,
            unit,
            rows=_most(self.rows, other.rows),
            rows_in_all=_most(self.rows_in_all, other.rows_in_all),
            chosen=left_over(self.chosen + other.chosen),
        )

    def sum(self) -> Noisy:
        """Add up the cells of a vector."""
        total = self.noise
        if self.size > 1:
            law, k = self.noise.law, self.size
            if isinstance(law, noise.Law):
                total = Noise(law * k, self.noise.step)
            elif isinstance(law, Laplace):
                total = Noise(Laplace(law.scale, law.copies * k), self.noise.step)
            else:
                total = Noise(Gaussian(law.sigma * k**0.5), self.noise.step)
        value, rows = float(np.sum(self.value)), self.rows_in_all
        return replace(self, value=value, noise=total, rows=rows, coin=None)


def _most(*rows: int | None) -> int | None:
    return max((r for r in rows if r is not None), default=None)


def sampled(*items: Noisy, across: bool = False) -> None:
    """Refuse numbers in which one unit may stand for several rows.

    Procedures about a population take what they count as drawn independently.
    People are; the rows of one person are not, and would pass for more people than
    there are. `across` asks the same of all cells together.
    """
    for item in items:
        rows = item.rows_in_all if across and item.rows_in_all is not None else item.rows
        if rows is not None and rows > 1:
            raise ParameterError(
                f"one {item.unit or 'unit'} may stand behind {rows} rows of this number, and such "
                "rows are not an independent sample of a population",
                hint="ask for one row of each: SELECT WITH DIFFERENTIAL_PRIVACY "
                "OPTIONS(max_rows_contributed=1) …, or count units: COUNT(DISTINCT …)",
            )


def add(a: Noise, b: Noise) -> Noise:
    """Return the noise of a sum of independent releases."""
    if a.step == b.step:
        match a.law, b.law:
            case noise.Law(), noise.Law():
                return Noise(a.law + b.law, a.step)
            case Laplace(s, i), Laplace(t, j) if s == t:
                return Noise(Laplace(s, i + j), a.step)
            case Gaussian(s), Gaussian(t):
                return Noise(Gaussian((s * s + t * t) ** 0.5), a.step)
    raise ParameterError(
        "the sum of these two noises has no closed law here",
        hint="inf.combine([y1, y2], [[1, 0], [0, 1]], [law1, law2]).estimate([1, 1])",
    )


def shared(items: Iterable[Noisy]) -> tuple[str | None, str | None]:
    """Return the one relation and unit that all items agree on, or refuse."""
    relation: str | None = None
    unit: str | None = None
    for item in items:
        if item.neighbours is not None and relation not in (None, item.neighbours):
            raise RelationError(
                f"answers under {relation} and {item.neighbours} were mixed: they are promises "
                "about different pairs of data sets",
                hint="use answers of one curator, or give plain (value, law) pairs",
            )
        if item.unit is not None and unit not in (None, item.unit):
            raise RelationError(
                f"answers that protect one {unit} and one {item.unit} were mixed",
                hint="use answers that protect the same unit",
            )
        relation, unit = item.neighbours or relation, item.unit or unit
    return relation, unit


def read_law(law: object, step: Number = 1) -> Noise:
    """Accept a noise law, its record, or a :class:`Noise`."""
    if isinstance(law, Noise):
        return law
    if isinstance(law, Mapping):
        law = noise.law_from_dict(law)
    if not isinstance(law, noise.Law | Laplace | Gaussian):
        raise ParameterError(
            f"unknown noise law: {type(law).__name__}",
            hint=Hint("noise", "laplace").also("epsilon", 1),
        )
    return Noise(law, _exact.positive(_exact.decimal(step, "step"), "step", example=1))


def noisy(
    source: Any,
    column: str | None = None,
    row: Mapping[str, object] | None = None,
    *,
    law: AnyLaw | Mapping[str, Any] | Noise | None = None,
    step: Number = 1,
    neighbours: str | None = None,
    unit: str | None = None,
) -> Noisy:
    """Turn whatever carries a noisy number into a :class:`Noisy`.

    Parameters
    ----------
    source
        A number or array (then give `law`), a release of a mechanism, an answer,
        or an answer's record (object, mapping or JSON text).
    column, row
        For answers: the output column, a count or a sum, and the group, as in
        ``{"sex": "F"}``. Without `row`, all groups in the record's order.
    law, step, neighbours, unit
        For plain numbers: the noise law in steps, and what was protected.

    Examples
    --------
    >>> from discreet import mechanisms as m, inference as inf
    >>> count = inf.noisy(m.geometric([120, 80], sensitivity=1, epsilon=1))
    >>> count.sum().noise.law
    2*DiscreteLaplace(scale=1)
    """
    if isinstance(source, Noisy):
        return source
    if isinstance(source, m.Release):
        return _of_release(source)
    if isinstance(source, m.Selection):
        raise ParameterError(f"{source.mechanism} released a choice, not a number")
    if isinstance(source, Answer | Record | Mapping | str):
        return _of_answer(answer_of(source), column, row)
    if law is None:
        raise ParameterError(
            "a plain number does not say how it was noised",
            hint=Hint("noise", "laplace").also("epsilon", 1),
        )
    return Noisy(_numbers(source), read_law(law, step), neighbours, unit)


def answer_of(source: Any) -> Answer:
    """Read an answer, or its record (object, mapping or JSON text)."""
    if isinstance(source, Answer):
        check_untainted(source)
        if isinstance(source, Union):
            read(source.record())  # which says that it is of several
        return source
    return Answer(source if isinstance(source, Record) else read(source))


class Description(TypedDict, total=False):
    """How the noise of a plain number is described, in every procedure with the same words.

    ``law=`` is the law itself; or ``noise=`` names the mechanism ("laplace",
    "geometric", "gaussian") and the others its parameters, see :func:`noise_by_name`.
    """

    law: Any
    noise: str | None
    epsilon: Number | None
    delta: Number | None
    rho: Number | None
    sigma: Number | None
    sensitivity: Number | None


def resolve(value: Any, *, of_chosen: bool = False, **description: Unpack[Description]) -> Noisy:
    """Read the ``value=`` of a procedure together with its description of the noise.

    Rows that noise chose are refused, unless the procedure knows what to do `of_chosen` ones.
    """
    item = _resolved(value, **description)
    if not of_chosen:
        unchosen(item.chosen)
    return item


def _resolved(value: Any, **description: Unpack[Description]) -> Noisy:
    settings: dict[str, Any] = {k: v for k, v in description.items() if v is not None}
    law = settings.pop("law", None)
    described = bool(settings)
    if isinstance(value, tuple) and value and not isinstance(value[0], int | float | np.number):
        value = noisy(*value)
    if isinstance(value, Noisy | m.Release | m.Selection | Answer | Record | Mapping | str):
        if described or law is not None:
            raise ParameterError(
                "the release already says its noise; a second description could contradict it",
                hint="leave out law, noise and epsilon",
            )
        return noisy(value)
    if law is not None:
        if described:
            raise ParameterError(
                "give the law, or noise and epsilon, not both", hint="leave out noise and epsilon"
            )
        return noisy(value, law=law)
    return Noisy(_numbers(value), noise_by_name(settings.pop("noise", "laplace"), **settings))


def read_n(n: object, item: Noisy | None = None, *, least: int = 1) -> int:
    """Parse a public sample size; refuse one that the record contradicts."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise ParameterError(
            f"n must be a whole number, got {type(n).__name__}", hint=Hint("n", 100)
        )
    size = int(n.__index__())
    if size < least:
        raise ParameterError(f"n must be at least {least}, got {size}", hint=Hint("n", 100))
    if item is not None and item.n is not None and item.n != size:
        raise ParameterError(f"n={size} contradicts the record, which says {item.n} rows")
    return size


def private(values: Any) -> Floats:
    """Read private values; NaN stays."""
    try:
        x = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise ParameterError("values must be numbers") from None
    # neither an error nor a warning may depend on private values
    return np.clip(x, -1e150, 1e150)


IMPOSSIBLE = 1e-12
"""Probability below which a noisy count is taken to contradict the stated n."""


def check_count(item: Noisy, n: int) -> None:
    """Refuse a noisy count that lies impossibly far outside 0…n."""
    z = np.asarray(item.value, dtype=np.float64)
    if np.any(item.noise.at_least(z - n) < IMPOSSIBLE) or np.any(
        item.noise.at_most(z) < IMPOSSIBLE
    ):
        raise ParameterError(
            f"n={n} contradicts the released count: the noise alone would carry a count of 0 to n "
            f"this far with probability below {IMPOSSIBLE:g}",
            hint="check n, the noise and its epsilon",
        )


def check_untainted(value: Any) -> None:
    """Refuse an answer of a test, or numbers of one."""
    if value.tainted if isinstance(value, Answer | m.Release) else noise.is_tainted(value):
        raise TaintedNoiseError(
            "this carries noise of the deterministic test source; no conclusion from it holds"
        )


def _numbers(x: Any) -> Any:
    check_untainted(x)
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"not a number or an array of numbers: {type(x).__name__}") from None
    if isinstance(x, bool) or not np.isfinite(array).all():
        raise ParameterError("released values must be finite numbers")
    return float(array) if array.ndim == 0 else array


def _of_release(release: m.Release) -> Noisy:
    check_untainted(release)
    if release.law is None:
        raise ParameterError(
            f"{release.mechanism} keeps its noise scale private, so no law is known for it"
        )
    return Noisy(
        _numbers(release.value),
        Noise(release.law, release.step),
        release.loss.neighbours,
        release.loss.unit,
        coin=release.coin,
    )


def output_formula(record: Record, column: str | None) -> Formula:
    """Return the formula of an output column that shows one statistic."""
    expr = output_of(record, column).expr
    assert isinstance(expr, StatisticValue)
    return record.formulas[expr.index]


def output_of(record: Record, column: str | None) -> OutputColumn:
    """Return the output column of a name, or the only one, that shows one statistic."""
    names = [o.name for o in record.outputs]
    plain = [o for o in record.outputs if isinstance(o.expr, StatisticValue)]
    outputs = [o for o in plain if o.name == column] if column is not None else plain
    if len(outputs) != 1:
        choices = ", ".join(repr(o.name) for o in plain)
        raise ParameterError(
            "say which column"
            if column is None
            else f"no column {column!r} that shows a single statistic; there are {names}",
            hint=f"column one of {choices}",
        )
    return outputs[0]


def _of_answer(answer: Answer, column: str | None, row: Mapping[str, object] | None) -> Noisy:
    record = answer.full_record
    cell = find_cell(record, row)
    item = of_formula(record, output_formula(record, column), repr(column), cell)
    return replace(item, chosen=chosen_in(answer, column, cell))


def chosen_in(answer: Answer, column: str | None, cell: int | None) -> tuple[Chosen, ...]:
    """What chose a cell of an answer, where noise did."""
    record = answer.full_record
    # two answers to one question, asked once, hold the same noise
    measured = record.statement.get("coin") or id(record)
    out = output_of(record, column)
    assert isinstance(out.expr, StatisticValue)
    selected = selects(record, out.expr.index)
    return choice_of(answer, out.name, cell, measured, selected=selected)


def of_formula(record: Record, formula: Formula, what: str, cell: int | None) -> Noisy:
    """A count or sum of a record, in one cell or in all."""
    if isinstance(formula, Total):
        formula = WeightedSum((formula.vector,), (formula.step,))
    if not isinstance(formula, WeightedSum) or len(set(map(abs, formula.weights))) > 1:
        raise ParameterError(
            f"column {what} is not a plain count or sum; its interval comes with the answer",
            hint="answer.interval(0.95)",
        )
    first, *others = formula.cells
    law = record.numbers(first).law
    if law is None:
        raise ParameterError(f"column {what} is public and exact: it has no noise to read")
    values = formula.estimate(record.parts)
    public = _public_counts(record)
    return Noisy(
        values if cell is None else float(values[cell]),
        Noise(law * len(formula.cells) if others else law, abs(formula.weights[0])),
        _stated(record, "neighbours"),
        _stated(record, "unit"),
        None if public is None or cell is None else int(public[cell]),
        *rows_of(record, first, one=cell is not None),
        None if cell is None else coin_of(record, first, cell),
    )


def rows_of(record: Record, part: int, *, one: bool) -> tuple[int | None, int | None]:
    """Most rows of one unit in a cell and in all cells of a part, as the record states them."""
    stated = record.statement.get("rows_of_one_unit")
    entry = stated[part] if isinstance(stated, list) and part < len(stated) else None
    if not isinstance(entry, list) or len(entry) != 2:
        return None, None
    cell, all_cells = (e if type(e) is int else None for e in entry)
    return (cell if one else all_cells), all_cells


def repeatable(rng: Rng, *items: Noisy) -> np.random.Generator:
    """Read ``rng=``; left out, it follows from what was released: one release, one p-value.

    The release's own random bits decide where there are any, and the numbers.
    """
    pieces = (repr(i.coin).encode() + np.asarray(i.value, np.float64).tobytes() for i in items)
    return seeded(rng, *pieces)


def seeded(rng: Rng, *pieces: bytes) -> np.random.Generator:
    """Read ``rng=``; left out, the generator is a function of these bytes."""
    if rng is not None:
        return generator(rng)
    digest = hashlib.sha256(b"".join(pieces)).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def coin_of(record: Record, part: int, cell: int) -> str | None:
    """Random bits of the record for one of its numbers."""
    coin = record.statement.get("coin")
    return f"{coin}/{part}/{cell}" if isinstance(coin, str) and coin else None


def _stated(record: Record, what: str) -> str | None:
    value = record.statement.get(what)
    return None if value is None else str(value)


def find_cell(record: Record, row: Mapping[str, object] | None) -> int | None:
    """Return the index of a group, None for all; a record without groups has one."""
    if row is None:
        return None if record.keys else 0
    if not isinstance(row, Mapping) or set(row) != set(record.keys):
        raise ParameterError(
            f"a row is named by its keys: {sorted(record.keys)}", hint=Hint("row", {"sex": "F"})
        )
    cells = [i for i in range(record.cells) if all(record.keys[k][i] == v for k, v in row.items())]
    if len(cells) != 1:
        raise ParameterError(f"the record has no group {dict(row)!r}")
    return cells[0]


def _public_counts(record: Record) -> tuple[int, ...] | None:
    """Row counts that the record states without noise."""
    for formula in record.formulas:
        if isinstance(formula, Mean | Spread | PublicVariance):
            count = record.numbers(formula.count)
            if count.law is None:
                return count.values
    return None
