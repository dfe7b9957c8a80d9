"""Which protocol: the least exact variance among those that fit, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.local._categorical import KaryResponse, OptimizedUnary, SymmetricUnary
from discreet.local._frequency import FrequencyProtocol
from discreet.local._hadamard import HadamardResponse
from discreet.local._hashing import LocalHashing
from discreet.local._mean import METHODS, LocalMean
from discreet.local._ordinal import Hierarchy
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_epsilon, read_whole
from discreet.local._subset import SubsetSelection

_TIE = 1.01
_LARGE = 256
"""Bytes that a report must save for a protocol within 1 % of the best to be preferred."""
TASKS = ("frequency", "mean", "distribution")
_FANOUTS = (2, 3, 4, 5, 8, 16)


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
        Number of items (for ``task="frequency"``).
    epsilon
        ε of one report.
    task
        ``"frequency"``: shares of items. ``"mean"``: the mean on [−1, 1].
        ``"distribution"``: cumulative shares of ordered values, by a hierarchy.
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
    if task == "mean":
        made: list[LocalProtocol] = [LocalMean(eps, method=m) for m in METHODS]
    elif task == "distribution":
        size = read_whole(domain_size, "domain_size", least=2, most=1024)
        made = [Hierarchy(size, eps, fanout=f) for f in _FANOUTS if f <= size]
    elif task == "frequency":
        made = _frequency_protocols(read_whole(domain_size, "domain_size", least=2), eps)
    else:
        raise ParameterError(
            f"task must be one of {', '.join(TASKS)}, got {str(task)[:40]!r}", hint='task="mean"'
        )
    cap = math.inf if max_bytes is None else read_whole(max_bytes, "max_bytes")
    fitting = [Candidate(p, _variance(p), p.report_bytes) for p in made if p.report_bytes <= cap]
    if not fitting:
        shortest = min(p.report_bytes for p in made)
        raise ParameterError(
            f"no protocol has reports of at most {max_bytes} bytes", hint=f"max_bytes={shortest}"
        )
    ranked = sorted(fitting, key=lambda c: (c.variance, c.report_bytes))
    least = ranked[0]
    smaller = [
        c
        for c in ranked
        if c.variance <= _TIE * least.variance and c.report_bytes + _LARGE <= least.report_bytes
    ]
    chosen = min(smaller, key=lambda c: (c.report_bytes, c.variance), default=least)
    others = [c for c in ranked if c is not chosen]
    return Choice(chosen.protocol, _why(chosen, others, task), (chosen, *others))


def _variance(protocol: LocalProtocol) -> float:
    """Return what protocols are compared by, for one report."""
    if isinstance(protocol, Hierarchy):
        return float(protocol.variance(cumulative=True).mean())
    assert isinstance(protocol, FrequencyProtocol | LocalMean)
    return protocol.variance()


def _frequency_protocols(domain: int, eps: Any) -> list[LocalProtocol]:
    made: list[LocalProtocol] = []
    kinds: tuple[type[FrequencyProtocol], ...] = (
        KaryResponse,
        SymmetricUnary,
        OptimizedUnary,
        LocalHashing,
        SubsetSelection,
        HadamardResponse,
    )
    for kind in kinds:
        try:
            protocol = kind(domain=domain, epsilon=eps)  # type: ignore[call-arg]
        except ParameterError:  # this protocol does not go so far
            continue
        # a set of one item is a k-ary response: name it so
        if not (isinstance(protocol, SubsetSelection) and protocol.size == 1):
            made.append(protocol)
    return made


def _why(chosen: Candidate, others: list[Candidate], task: str) -> str:
    about = {
        "frequency": "for rare items",
        "mean": "in the worst case",
        "distribution": "for a cumulative share",
    }[task]
    text = (
        f"{chosen.name}: variance {chosen.variance:.4g}/n {about}, "
        f"{chosen.report_bytes} byte{'s' * (chosen.report_bytes > 1)} per report"
    )
    if not others:
        return text
    rest = ", ".join(
        f"{_label(c)} {c.variance / chosen.variance:.3g}× ({c.report_bytes} B)" for c in others[:3]
    )
    return f"{text}. Against it: {rest}"


def _label(candidate: Candidate) -> str:
    protocol = candidate.protocol
    detail = getattr(protocol, "method", None) or getattr(protocol, "fanout", None)
    return f"{candidate.name} ({detail})" if detail else candidate.name
