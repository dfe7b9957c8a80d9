"""Replay: everything around the noise, on two neighbouring inputs.

What differential privacy needs of everything *around* the noise can be checked
without statistics: on neighbouring tables the same laws are drawn the same
number of times, the answer has the same shape and keys in the same order, and
the exact integers that the noise is added to differ by no more than the
declared sensitivity. One pair of tables that violates any of these is a bug;
no false alarm is possible. (The idea is Re:cord-play's, Haeusler et al. 2026.)

Every part of a plan answers for itself, so a new kind of part is replayed like the others.
Code that calls mechanisms is replayed by giving it the same outcomes a second time.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet import engines, sql
from discreet import policy as pol
from discreet._dataclass import dataclass, field, replace
from discreet.audit._alike import Uncomparable, alike
from discreet.audit._steps import Replay, Step, step_of
from discreet.curator import fresh_salt, measure
from discreet.engines import Engine, Reference
from discreet.errors import ParameterError
from discreet.mechanisms import Call, Norm, recording
from discreet.mechanisms import recorded as _recorded
from discreet.plan import (
    Aggregate,
    Cells,
    Choice,
    Code,
    Draw,
    Groups,
    Plan,
    Priced,
    Query,
    Question,
    Salt,
    Scan,
    Sensitivity,
    distance,
    lower,
)

F = TypeVar("F", bound=Callable[..., Any])
_Pair = tuple[str, Priced, Groups, Groups]


@dataclass
class _Frozen(Draw):
    """Noise replaced by zeros, every call written down."""

    calls: list[tuple[object, ...]] = field(default_factory=list)

    def sample(self, law: Any, n: int) -> NDArray[Any]:
        """Write the call down; add nothing."""
        self.calls.append((repr(law), n))
        return np.zeros(n, dtype=np.int64)

    def choose(self, scores: NDArray[Any], choice: Choice) -> int:
        """Write the public part of the call down; pick the first."""
        self.calls.append((repr(choice), len(scores)))
        return 0

    def answer(self, question: Question, counts: Any) -> NDArray[Any]:
        """Write the public part of the question down; answer without looking."""
        del counts
        self.calls.append(("question", repr(question.record())))
        return question.blank()


def replay(
    function: Callable[[Any], Any] | Plan, data: Any, neighbour: Any, salt: Salt | None = None
) -> Replay:
    """Run a function on two neighbouring inputs with the same outcomes of all mechanisms.

    On `data` every mechanism draws its noise, and each call is written down. On `neighbour`
    the same outcomes are given again. So both runs must make the same calls with the same public
    arguments, private arguments may differ by the declared sensitivity, and what is
    returned must be equal: a function of released numbers cannot tell the inputs apart.
    Whatever differs is a fault, and it is certain: types, names, order, warnings and what an
    error carries count. What cannot be compared is told in a note, and then the replay is
    not ok. A pair on which nothing differs proves nothing about other pairs.

    Parameters
    ----------
    function
        Code that calls discreet's mechanisms, or functions marked :func:`recorded`, on its one
        argument; or a priced plan, which runs on two engines with the noise frozen.
    data, neighbour
        Inputs that differ in one unit (for a plan: engines that hold them).
    salt
        For a plan: key of the contribution limits, the same on both sides.

    Examples
    --------
    >>> from discreet import audit, mechanisms as m
    >>> def average(ages):
    ...     n = max(m.geometric(len(ages), 1, "0.5").value, 1)
    ...     return m.geometric(sum(ages), 100, "0.5").value / n
    >>> audit.replay(average, [31, 47, 60], [31, 47, 60, 99]).ok
    True
    >>> found = audit.replay(average, [31, 47, 60], [31, 47, 60, 900])  # nobody clips
    >>> found.violations
    ('geometric declares L1 100, but it moved by 900 (... average)',)
    """
    if isinstance(function, Plan):
        return _of_plan(function, data, neighbour, fresh_salt() if salt is None else salt)
    if salt is not None:
        raise ParameterError("only plans take a salt", hint="audit.replay(function, data, other)")
    return _of_function(function, data, neighbour)


class Once(Reference):
    """An engine whose answers are kept, so that nothing runs twice."""

    def __init__(self, engine: Engine) -> None:
        super().__init__({})
        self._engine, self._answers = engine, dict[tuple[Aggregate, Salt], Groups]()

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Ask the engine once."""
        key = aggregate, salt
        if key not in self._answers:
            self._answers[key] = self._engine.execute(aggregate, salt)
        return self._answers[key]


def _of_plan(plan: Plan, left: Engine, right: Engine, salt: Salt) -> Replay:
    lowered = plan.lowered
    left, right = (e if isinstance(e, Once) else Once(e) for e in (left, right))
    violations: list[str] = []
    steps: list[Step] = []
    sides = [
        [engine.execute(a, salt) if a.measures else {} for a in lowered.aggregates]
        for engine in (left, right)
    ]
    pairs: list[_Pair] = []
    for i, priced in enumerate(plan.parts):
        a, b = (side[priced.part.aggregate] for side in sides)
        pairs.append((f"part {i}", priced, a, b))
    for name, priced, a, b in pairs + _further(pairs, (left, right), salt):
        part = priced.part
        moved = part.moved(a, b)
        violations += [f"{name}: {what}" for what in moved]
        for (suffix, declared, one), (_, _, two) in zip(part.steps(a), part.steps(b), strict=True):
            step = f"{part.kind}{suffix}", name
            steps.append(Step(*step, _norms(declared), _norms(distance(one, two)), tuple(moved)))
    if lowered.selector is None:
        draws = _Frozen(), _Frozen()
        records = [measure(plan, e, salt, d) for e, d in zip((left, right), draws, strict=True)]
        if draws[0].calls != draws[1].calls:
            violations.append("different noise calls")
        if records[0].keys != records[1].keys:
            violations.append("different keys or order")
    return Replay(tuple(violations), tuple(steps))


def _further(pairs: Sequence[_Pair], sides: tuple[Engine, Engine], salt: Salt) -> list[_Pair]:
    """Second rounds of selecting keys, as if the first had released half of them."""
    rounds = []
    for name, priced, a, b in pairs:
        keys = sorted({key[:1] for key in a.keys() | b.keys()}, key=str)[::2]
        again = priced.part.further(priced, Cells(keys, None, (0,) * len(keys)))
        if again is not None:
            left, right = (engine.execute(again, salt) for engine in sides)
            rounds.append((f"{name}, second round", priced, left, right))
    return rounds


def _norms(s: Sensitivity) -> dict[str, Fraction]:
    return {"L1": Fraction(s.l1), "L2²": Fraction(s.l2_squared), "L∞": Fraction(s.linf)}


# -- any code ---------------------------------------------------------------------------

_FLOW = "control flow depends on the data"


class _Diverged(BaseException):
    """The second run made a call that the first did not; not for the code's own handlers."""


@dataclass
class _Tape:
    """Writes calls down, and gives earlier outcomes again as long as the calls are the same."""

    before: _Tape | None = None
    calls: list[Call] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)
    end: tuple[str, Any] = ("", None)
    warned: list[tuple[str, str]] = field(default_factory=list)
    difference: str = ""

    def outcome(self, call: Call, run: Callable[[], Any]) -> Any:
        """Draw, or replay."""
        number = len(self.calls)
        # the code may change its arguments and outcomes afterwards; what counted is kept
        call = replace(call, private=_copy(call.private), public=_copy(call.public))
        self.calls.append(call)
        if self.before is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a mechanism's own, which replays do not repeat
                try:
                    self.outcomes.append(run())
                except Exception as error:  # noqa: BLE001 - raised again below, and by the replay
                    self.outcomes.append(_Raised(error))
        elif number >= len(self.before.calls):
            self.difference = (
                f"{_FLOW}: call {number + 1}, {_label(call)}, is made on the neighbour only"
            )
            raise _Diverged
        elif words := _unlike(self.before.calls[number], call, f"call {number + 1}"):
            self.difference = words
            raise _Diverged
        else:
            self.outcomes.append(self.before.outcomes[number])
        answer = self.outcomes[-1]
        if isinstance(answer, _Raised):
            raise answer.error
        return _copy(answer)

    def run(self, function: Callable[[Any], Any], data: Any) -> _Tape:
        """Run a function and write down how it ends."""
        with recording(self), warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            try:
                self.end = "returns", _copy(function(data))
            except _Diverged:
                self.end = "diverges", None
            except Exception as error:  # noqa: BLE001 - how a run ends is what is compared
                carried = _copy((error.args, dict(vars(error))))
                self.end = "raises", (type(error).__qualname__, str(error), carried)
        self.warned = [(w.category.__qualname__, str(w.message)) for w in messages]
        return self


@dataclass(frozen=True)
class _Raised:
    """A mechanism's refusal, to be raised again."""

    error: Exception


def _copy(x: Any) -> Any:
    """Return a copy that later changes do not reach; what has none is kept as it is."""
    try:
        return copy.deepcopy(x)
    except Exception:  # noqa: BLE001 - generators, connections and the like refuse in many ways
        return x


def _label(call: Call) -> str:
    return f"{call.mechanism} ({call.where})"


def _unlike(left: Call, right: Call, number: str) -> str:
    """Say how two calls differ in what is public, or nothing."""
    if left.mechanism != right.mechanism or left.where != right.where:
        return f"{_FLOW}: {number}: {_label(left)} on one side, {_label(right)} on the other"
    for name, value in left.public.items():
        other = right.public.get(name)
        if not _public_alike(value, other):
            what = f"{name}={value!r} and {name}={other!r}"
            return f"a parameter depends on the data: {what} in {number}, {_label(left)}"
    return ""


def _public_alike(a: Any, b: Any) -> bool:
    try:
        return alike(a, b)
    except Uncomparable:
        return repr(a) == repr(b)


def _of_function(function: Callable[[Any], Any], data: Any, neighbour: Any) -> Replay:
    first = _Tape().run(function, data)
    again = _Tape(first).run(function, data)
    other = _Tape(first).run(function, neighbour)
    both = len(first.calls) if not other.difference else len(other.calls) - 1
    pairs = list(zip(first.calls[:both], other.calls[:both], strict=False))
    steps = tuple(step_of(a, b) for a, b in pairs)
    violations = [f"{fault} ({step.where})" for step in steps for fault in step.faults]
    notes = [f"{step.unjudged} ({step.where})" for step in steps if step.unjudged]
    try:
        if again.difference or not _ends_alike(first, again):
            notes.append(
                "two runs on the same data do not end alike, though all mechanisms gave the same: "
                "the function has randomness, a clock or a state of its own, so what it does and "
                "returns cannot be compared"
            )
        else:
            violations += _differences(first, other)
    except Uncomparable as error:
        notes.append(f"a {error} comes out, which cannot be compared: return numbers or a table")
    compared = not notes
    if not first.calls:
        notes.append("no mechanism was called")
    return Replay(tuple(violations), steps, tuple(notes), compared)


def _ends_alike(a: _Tape, b: _Tape) -> bool:
    return a.warned == b.warned and alike(a.end, b.end)


def _differences(first: _Tape, other: _Tape) -> Iterator[str]:
    """Differences of control flow, of parameters and of what comes out."""
    if other.difference:
        yield other.difference
        return
    if len(other.calls) < len(first.calls):
        missing = _label(first.calls[len(other.calls)])
        yield f"{_FLOW}: {missing} is not called on the neighbour"
    if first.end[0] != other.end[0]:
        yield f"the function {first.end[0]} on one side, {other.end[0]} on the other"
    elif not _ends_alike(first, other):
        what = first.end[0] if first.warned == other.warned else "warns of"
        after = "the same outcomes" if first.calls else "no mechanism at all"
        yield (f"what the function {what} differs after {after}: it is not only released numbers")


def recorded(function: F | None = None, /, *, norm: Norm = "l1") -> Any:
    """Mark a function, so that replays see it.

    A function with a parameter ``sensitivity`` is a mechanism of one's own: its first
    parameter is private, all others are public, and each call is a step of a replay.
    Any other function is an analysis and gets a method ``replay(data, neighbour)``.

    Parameters
    ----------
    norm
        For a mechanism: which distance its ``sensitivity`` bounds (``"l1"``, ``"l2"``, ``"linf"``).

    Examples
    --------
    >>> from discreet import audit, noise
    >>> @audit.recorded
    ... def triangle(value, sensitivity, width):
    ...     return value + int(noise.uniform_below(width * sensitivity, 2).sum())
    >>> @audit.recorded
    ... def analysis(rows):
    ...     return triangle(len(rows), sensitivity=1, width=9)
    >>> [(step.name, step.measured) for step in analysis.replay([5, 5], [5, 5, 5]).steps]
    [('triangle', {'L1': Fraction(1, 1)})]
    """
    if function is None:
        return functools.partial(recorded, norm=norm)
    if "sensitivity" in inspect.signature(function).parameters:
        return _recorded(norm)(function)

    @functools.wraps(function)
    def analysis(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    analysis.replay = functools.partial(replay, analysis)  # type: ignore[attr-defined]  # a function carries its own audit
    return analysis


@dataclass(frozen=True)
class Measurement:
    """Integers to which one draw of noise is added, before the noise.

    Attributes
    ----------
    name
        Which part of the question, and which of its draws.
    declared
        How far one unit moves them at most: ``l1``, ``l2_squared``, ``linf``.
    exact
        The integers as the engine returned them, by key (and leaf, label or query).
    """

    name: str
    declared: Sensitivity
    exact: Mapping[tuple[Code, ...], int]


def measurements(
    policy: pol.Policy | str,
    question: str | Query,
    tables: Any,
    *,
    salt: Salt | bytes | str | int | None = None,
) -> list[Measurement]:
    """Return everything that a question measures, before any noise.

    With two neighbouring tables and one `salt`, anybody can replay a question without
    discreet's help: each ``exact`` must move by at most ``declared``. A publication asks its
    questions one after the other; they are shown at answers that know no data (zeros, first
    choices), so that both neighbours are asked the same.

    Parameters
    ----------
    policy
        A policy, or its file or text.
    question
        One SELECT, or a question as the plan sees it (a publication, for instance).
    tables
        Test data, as :func:`discreet.open` takes them. What comes back is *not*
        private: never call this on people's data.
    salt
        Key of the contribution limits, the same for both neighbours; left out, a fresh one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from discreet.policy import Budget, Integer, Policy, Table
    >>> policy = Policy([Table("people", [Integer("age", 0, 115)])], Budget("1"))
    >>> people = pa.table({"age": [31, 47]})
    >>> found = measurements(policy, "SELECT SUM(age) AS s FROM people", people)
    >>> [(m.declared.l1, dict(m.exact)) for m in found]
    [(115, {(): 78})]
    """
    loaded = policy if isinstance(policy, pol.Policy) else pol.load(policy)
    with closing(engines.connect(tables, loaded)) as engine:

        def fanout(table: str, columns: tuple[str, ...]) -> int:
            return engine.fanout(Scan(loaded.table(table)), columns)

        if isinstance(question, str):
            question = sql.parse(question, loaded, public_fanout=fanout).query
        lowered, key = lower(question), _salt(salt)
        groups = [engine.execute(a, key) if a.measures else {} for a in lowered.aggregates]
    return [
        Measurement(f"{part.kind} {i}{suffix}", declared, exact)
        for i, part in enumerate(lowered.parts)
        for suffix, declared, exact in part.steps(groups[part.aggregate])
    ]


def _salt(salt: Salt | bytes | str | int | None) -> Salt:
    if isinstance(salt, Salt):
        return salt
    if salt is None:
        return fresh_salt()
    return Salt(salt if isinstance(salt, bytes) else str(salt).encode())
