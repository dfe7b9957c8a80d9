"""What every local protocol is: a client half, a server half, one spec between them.

The client half turns values into :class:`~discreet.local.Reports`; the server half is an
additive vector of integers (so that aggregators merge by addition) and a way to
read estimates from it. A protocol object is public, immutable and the same on
both sides.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet import privacy as p_
from discreet._dataclass import dataclass
from discreet.errors import BudgetExceededError, Hint, ParameterError
from discreet.local import _wire
from discreet.local._bits import HASH, Counts, adds_up, stray_bits, unpack
from discreet.local._draws import Rng
from discreet.local._rationals import read_whole, text
from discreet.local._wire import Columns, Field, Reports

if TYPE_CHECKING:
    from discreet.local._aggregator import Aggregator, Tally

_BLOCK_BYTES = 1 << 20
"""Randomised at once: what a core's cache holds."""

_KINDS: dict[str, type[LocalProtocol]] = {}


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class LocalProtocol(ABC):
    """Base of all protocols of the local model.

    Attributes
    ----------
    claimed
        ε of one report as stated, an exact rational.
    odds
        The largest likelihood ratio of one report, exactly; never above e^ε.
    fields
        Fields of a report, all of fixed width.
    state_shape
        Shape of the additive integer state.
    row_bytes
        Working memory of one user in bytes, roughly.
    spec_id
        Eight bytes that every report carries.
    version
        Of what the fields of a report mean; older reports and totals are foreign.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    stated: ClassVar[tuple[str, ...]] = ("domain", "epsilon")
    options: ClassVar[tuple[str, ...]] = ()
    in_one_cell: ClassVar[bool] = False
    """Whether the state counts each report in exactly one cell."""
    claimed: Fraction
    odds: Fraction
    fields: tuple[Field, ...]
    state_shape: tuple[int, ...]
    row_bytes: int
    spec_id: bytes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super(LocalProtocol, cls).__init_subclass__(**kwargs)  # noqa: UP008 - slots make it anew
        if "name" in cls.__dict__:
            _KINDS[cls.name] = cls

    def _set(self, **values: Any) -> None:
        """Set the fields of a frozen protocol under construction, its identifier last."""
        for key, value in values.items():
            object.__setattr__(self, key, value)
        if "row_bytes" not in values:
            object.__setattr__(self, "row_bytes", 48 + 4 * self.report_bytes)
        object.__setattr__(self, "spec_id", _wire.identifier(self.spec))

    # -- what it promises -------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """ε of one report (rounded up where it is irrational)."""
        return self.loss.epsilon()

    @property
    def loss(self) -> p_.PrivacyLoss:
        """What one report costs the person who sends it, against everybody."""
        return p_.Pure(self.claimed).under(p_.Neighbours.CHANGE_ONE)

    @property
    def spec(self) -> dict[str, Any]:
        """Protocol, version and exact parameters, ready for JSON."""
        return {"v": self.version, "protocol": self.name, **self.parameters}

    @property
    def parameters(self) -> dict[str, Any]:
        """Exact parameters, as the spec carries them."""
        return stated_parameters(self)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Build a protocol from the parameters of its spec."""
        values = dict(parameters)
        if "hash" in cls.stated and values.pop("hash", HASH) != HASH:
            raise ParameterError(f"the hash must be {HASH!r}", hint=f'"hash":"{HASH}"')
        return cls(**values)

    # -- client -----------------------------------------------------------------

    @property
    def report_bytes(self) -> int:
        """Payload of one report in bytes."""
        return sum(f.width for f in self.fields)

    def randomize(self, values: Any) -> Reports:
        """Randomise one value, or an array with one value per person.

        Randomising the same person twice costs twice: hand the protocol's
        :meth:`client` to devices, which keeps count.
        """
        flat, scalar = self.parse(values)
        if not len(flat):
            return self.empty()
        block = max(1, _BLOCK_BYTES // self.row_bytes)
        if len(flat) <= block:
            columns = self.draw(flat)
        else:
            parts = [self.draw(flat[i : i + block]) for i in range(0, len(flat), block)]
            columns = tuple(np.concatenate(c) for c in zip(*parts, strict=True))
        return Reports(self, columns, scalar=scalar, tainted=noise.is_deterministic())

    def empty(self) -> Reports:
        """Return no reports."""
        columns = tuple(np.zeros((0, f.width) if f.bits else 0, dtype=f.dtype) for f in self.fields)
        return Reports(self, columns)

    def client(self, *, max_reports: int = 1) -> Client:
        """Return one person's client, which refuses to report more often than it may."""
        return Client(self, max_reports=max_reports)

    @abstractmethod
    def parse(self, values: Any) -> tuple[Any, bool]:
        """Parse values; return them in one dimension, and whether there was just one."""

    @abstractmethod
    def draw(self, flat: Any) -> Columns:
        """Randomise parsed values, each independently."""

    # -- server -----------------------------------------------------------------

    def aggregator(self, *, unit: str | None = None, reports_per_unit: int = 1) -> Aggregator:
        """Return an empty aggregator.

        Parameters
        ----------
        unit, reports_per_unit
            Whose privacy the loss of the estimate is stated for, and how many
            reports one such unit sends at most. Nobody can see in the reports
            who sent them: this is the caller's declaration.
        """
        from discreet.local._aggregator import Aggregator  # noqa: PLC0415 - clients need no server

        return Aggregator(self, unit=unit, reports_per_unit=reports_per_unit)

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Tell which reports are possible outputs; the rest is refused."""
        good = np.ones(len(columns[0]), dtype=bool)
        for field, column in zip(self.fields, columns, strict=True):
            if field.bits:
                good &= ~stray_bits(column, field.bits)
            elif field.limit <= np.iinfo(field.dtype).max:
                good &= column < field.limit
        return good

    def possible(self, state: Counts, n: int) -> bool:
        """Tell whether `n` reports may add up to a saved state (cheap, necessary conditions)."""
        if self.in_one_cell:
            return adds_up(state, n)
        return bool((state >= 0).all() and (state <= n).all())

    @abstractmethod
    def tally(self, state: Counts, columns: Columns) -> None:
        """Add valid reports to the state, in place."""

    def estimate(self, tally: Tally, **options: Any) -> Any:
        """Read estimates from what was tallied; ``options`` says what may be asked."""
        if not options.keys() <= set(self.options):
            names = " and ".join(self.options) or "no options"
            raise ParameterError(f"{type(self).__name__} estimates take {names}")
        reader: Any = self.read
        return reader(tally, **options)

    @abstractmethod
    def read(self, tally: Tally) -> Any:
        """Read estimates from what was tallied, the options being known."""

    @abstractmethod
    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw the aggregator's state from its joint law, without drawing people (not private).

        Parameters
        ----------
        counts
            People who hold each of the values.
        rng
            NumPy's generator.
        values
            The values, as ``randomize`` takes them; left out: 0, …, domain − 1.
        """

    def readable(self, columns: Columns) -> NDArray[Any]:
        """Show payloads as an array: numbers, rows of bits, or records of both."""
        pairs = zip(self.fields, columns, strict=True)
        arrays = {f.name: unpack(c, f.bits) if f.bits else c for f, c in pairs}
        if len(arrays) == 1:
            return arrays[self.fields[0].name]
        kinds = [(name, column.dtype, column.shape[1:]) for name, column in arrays.items()]
        out = np.zeros(len(columns[0]), dtype=np.dtype(kinds))
        for name, column in arrays.items():
            out[name] = column
        return out

    # -- identity ---------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalProtocol) and self.spec_id == other.spec_id

    def __hash__(self) -> int:
        return hash(self.spec_id)

    def __repr__(self) -> str:
        parameters = ", ".join(
            f"{k}={v}" for k, v in self.parameters.items() if v not in (None, "")
        )
        return f"{type(self).__name__}({parameters})"


def stated_parameters(protocol: LocalProtocol) -> dict[str, Any]:
    """Return the parameters that a protocol's class names, rationals as text."""
    special = {"hash": HASH, "epsilon": protocol.claimed}
    values = {k: special[k] if k in special else getattr(protocol, k) for k in protocol.stated}
    return {k: text(v) if isinstance(v, Fraction) else v for k, v in values.items()}


def protocol_from_spec(spec: Mapping[str, Any] | str | bytes) -> LocalProtocol:
    """Rebuild a protocol from its spec, as a file's metadata or a letter carries it.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.KaryResponse(domain=8, epsilon="0.5")
    >>> local.protocol_from_spec(protocol.spec) == protocol
    True
    """
    try:
        parameters = dict(json.loads(spec) if isinstance(spec, str | bytes) else spec)
    except (ValueError, TypeError, RecursionError):
        raise ParameterError("a spec is a JSON object") from None
    version, kind = parameters.pop("v", None), parameters.pop("protocol", None)
    family = _KINDS.get(kind) if isinstance(kind, str) else None
    if family is None or type(version) is not int or version != family.version:
        raise ParameterError(
            "this spec is of a version or protocol that is not known here",
            hint='{"v":1,"protocol":"kary","domain":4,"epsilon":"1"}',
        )
    try:
        return family.from_parameters(parameters)
    except TypeError:
        raise ParameterError(f"the parameters of this spec are not those of {kind!r}") from None


class Client:
    """One person's half: randomises values and keeps count of what that has cost.

    Examples
    --------
    >>> from discreet import local
    >>> client = local.RandomizedResponse(p="0.5").client(max_reports=1)
    >>> report = client.randomize(1)
    >>> client.randomize(0)
    Traceback (most recent call last):
        ...
    discreet.errors.BudgetExceededError: this client has sent all of its reports (1)
        try: protocol.client(max_reports=2)
    """

    __slots__ = ("_lock", "max_reports", "protocol", "sent")

    def __init__(self, protocol: LocalProtocol, *, max_reports: int = 1) -> None:
        self.protocol = protocol
        self.max_reports = read_whole(max_reports, "max_reports")
        self.sent = 0
        # counts and memos are read and written as one step, whatever the threads
        self._lock = threading.Lock()

    @property
    def loss(self) -> p_.PrivacyLoss | None:
        """What the reports sent so far have cost together; None before the first."""
        return None if not self.sent else total_loss(self.protocol, self.sent)

    def randomize(self, value: Any) -> Reports:
        """Randomise one value, or refuse when the agreed number is used up."""
        with self._lock:
            self._check()
            report = self.protocol.randomize(value)
            if not report.scalar:
                raise ParameterError(
                    "a client randomises the value of one person at a time",
                    hint="protocol.randomize(values)",
                )
            self.sent += 1
            return report

    def _check(self) -> None:
        if self.sent >= self.max_reports:
            raise BudgetExceededError(
                f"this client has sent all of its reports ({self.max_reports})",
                hint=Hint.call("protocol.client", max_reports=self.max_reports + 1),
            )


def total_loss(protocol: LocalProtocol, reports: int, unit: str | None = None) -> p_.PrivacyLoss:
    """Return the loss of several reports of one unit, whatever their values."""
    loss = p_.Pure(protocol.claimed * reports)
    return loss.under(p_.Neighbours.CHANGE_ONE, unit)
