"""Which protocol: the least exact variance among those that fit, and why."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local._categorical import KaryResponse, OptimizedUnary, SymmetricUnary
from discreet.local._hadamard import HadamardResponse
from discreet.local._hashing import LocalHashing
from discreet.local._heavy import HeavyHitters
from discreet.local._keyvalue import KeyValue
from discreet.local._mean import METHODS, LocalMean
from discreet.local._ordinal import Hierarchy
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_epsilon, read_whole
from discreet.local._sketch import CountMeanSketch, HadamardSketch
from discreet.local._subset import SubsetSelection
from discreet.local._vector import LocalVector

_TIE = 1.01
_LARGE = 256
"""Bytes that a report must save for a protocol within 1 % of the best to be preferred."""
_FANOUTS, _SMALL = 64, 256
"""Largest fanout tried; above _SMALL values, where each costs a second, the largest is 10."""
_WIDTHS = (256, 1024, 4096)
_STEPS = (1, 2, 4, 8)
_CANDIDATES = 1 << 16
"""Candidates that a search for heavy hitters may ask about at each level."""

ABOUT = {
    "frequency": "for rare items",
    "mean": "in the worst case",
    "vector": "for each mean in the worst case",
    "distribution": "for a cumulative share, on average",
    "quantile": "for a cumulative share, on average",
    "key-value": "for rare keys",
    "heavy-hitters": "for rare values, people being spread over the levels",
    "sketch": "for rare values, plus collisions that more people do not remove",
}
"""Tasks, and what the variance of each is about."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A protocol, the variance of one report for a rare item (or the worst mean), its size."""

    protocol: LocalProtocol
    variance: float
    report_bytes: int

    @property
    def name(self) -> str:
        """Name of the protocol's class."""
        return type(self.protocol).__name__


@dataclass(frozen=True, slots=True)
class Choice:
    """The protocol chosen, the reason in words, and all candidates, best first."""

    protocol: LocalProtocol
    why: str
    ranking: tuple[Candidate, ...]

    def __repr__(self) -> str:
        return f"{self.protocol!r}\n{self.why}"


def best(
    domain_size: int | None = None,
    epsilon: Number = 1,
    task: str = "frequency",
    *,
    max_bytes: int | None = None,
) -> Choice:
    """Choose the protocol of least variance.

    Parameters
    ----------
    domain_size
        Number of items, ordered values or keys; of numbers per person for ``"vector"``; not
        for ``"mean"`` and ``"sketch"``, which have none.
    epsilon
        ε of one report.
    task
        ``"frequency"``: shares of items. ``"mean"``: the mean on [−1, 1]; ``"vector"``: several.
        ``"distribution"``: cumulative shares of ordered values; ``"quantile"``: the middle one.
        ``"key-value"``: keys with numbers, one pair per person. ``"heavy-hitters"``: the most
        frequent of very many values. ``"sketch"``: strings of an unbounded domain, read for
        candidates.
    max_bytes
        Largest payload of a report that may be chosen.

    Notes
    -----
    Variances are those of rare items, exactly. A protocol within 1 % of the least
    is preferred when its reports are smaller by 256 bytes or more.

    Examples
    --------
    >>> from discreet import local
    >>> local.best(4, 1).protocol
    KaryResponse(domain=4, epsilon=1)
    >>> type(local.best(64, 1).protocol).__name__
    'SubsetSelection'
    >>> type(local.best(2**20, 1).protocol).__name__
    'LocalHashing'
    """
    eps = read_epsilon(epsilon)
    if task not in ABOUT:
        raise ParameterError(
            f"task must be one of {', '.join(ABOUT)}, got {str(task)[:40]!r}",
            hint=Hint("task", "mean"),
        )
    protocols = _protocols(domain_size, eps, task)
    cap = math.inf if max_bytes is None else read_whole(max_bytes, "max_bytes")
    fitting = [
        Candidate(p, _variance(p), p.report_bytes) for p in protocols if p.report_bytes <= cap
    ]
    if not fitting:
        raise ParameterError(
            f"no protocol has reports of at most {max_bytes} bytes",
            hint=Hint("max_bytes", min(p.report_bytes for p in protocols)),
        )
    ranked = sorted(fitting, key=lambda c: (c.variance, c.report_bytes))
    least = ranked[0]
    smaller = [
        c
        for c in ranked
        if c.variance <= _TIE * least.variance and c.report_bytes + _LARGE <= least.report_bytes
    ]
    winner = min(smaller, key=lambda c: (c.report_bytes, c.variance), default=least)
    others = [c for c in ranked if c is not winner]
    return Choice(winner.protocol, _why(winner, others, task), (winner, *others))


def _variance(protocol: Any) -> float:
    """Return what protocols are compared by, for one report."""
    if isinstance(protocol, Hierarchy):
        # on average over the cuts: at one cut a fanout may be lucky
        return float(protocol.variance(cumulative=True).mean())
    return float(protocol.variance())


def _protocols(domain_size: int | None, eps: Any, task: str) -> list[LocalProtocol]:
    """Return what can do the task."""
    if task == "mean":
        return [LocalMean(eps, method=m) for m in METHODS]
    if task == "sketch":
        kinds = (CountMeanSketch, HadamardSketch)
        return [kind(eps, width=m, hashes=1 << 16) for kind in kinds for m in _WIDTHS]
    if task in ("distribution", "quantile"):
        size = read_whole(domain_size, "domain_size", least=2, most=1024)
        most = min(size, _FANOUTS if size <= _SMALL else 10)
        return [Hierarchy(size, eps, fanout=f) for f in range(2, most + 1)]
    if task == "frequency":
        return _frequency_protocols(read_whole(domain_size, "domain_size", least=2), eps)
    if task == "vector":
        d = read_whole(domain_size, "domain_size", most=1 << 16)
        least = LocalVector(d, eps)
        others = {k for k in (1, least.reported - 1, least.reported + 1) if 1 <= k <= d}
        return [least, *(LocalVector(d, eps, reported=k) for k in others - {least.reported})]
    if task == "key-value":
        return [KeyValue(read_whole(domain_size, "domain_size", most=1 << 16), eps)]
    bits = max(2, (read_whole(domain_size, "domain_size", least=2, most=1 << 62) - 1).bit_length())
    # of each step, the longest first prefix that the server may ask about
    return [HeavyHitters(bits, eps, min(_CANDIDATES.bit_length() - 1, bits), s) for s in _STEPS]


_BY_ITEM = (KaryResponse, SymmetricUnary, OptimizedUnary, LocalHashing, SubsetSelection,
            HadamardResponse)  # fmt: skip


def _frequency_protocols(domain: int, eps: Any) -> list[LocalProtocol]:
    protocols: list[LocalProtocol] = []
    for kind in _BY_ITEM:
        with suppress(ParameterError):  # some protocols do not go so far
            protocols.append(kind(domain=domain, epsilon=eps))
    # a set of one item is a k-ary response: name it so
    return [p for p in protocols if not (isinstance(p, SubsetSelection) and p.size == 1)]


def _why(winner: Candidate, others: list[Candidate], task: str) -> str:
    text = (
        f"{winner.name}: variance {winner.variance:.4g}/n {ABOUT[task]}, "
        f"{winner.report_bytes} byte{'s' * (winner.report_bytes > 1)} per report"
    )
    if not others:
        return f"{text}. The only protocol for this task"
    rest = ", ".join(
        f"{_label(c)} {c.variance / winner.variance:.3g}× ({c.report_bytes} B)" for c in others[:3]
    )
    return f"{text}. Against it: {rest}"


def _label(candidate: Candidate) -> str:
    protocol = candidate.protocol
    names = ("method", "fanout", "reported", "step", "width")
    detail = next((getattr(protocol, n) for n in names if hasattr(protocol, n)), None)
    return f"{candidate.name} ({detail})" if detail else candidate.name
