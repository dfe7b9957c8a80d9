"""Publishing: whole workloads, answered together, with the error known beforehand.

>>> from discreet import release
>>> ages = release.Workload.prefix(128)
>>> plan = release.plan(ages, epsilon="0.5", method="hb")
>>> round(plan.rmse, 1)
14.2
>>> table = plan.publish([10] * 128)
>>> low, high = table.interval(0.95)
>>> table.answers.shape == low.shape
True

A mechanism is a generator that yields *questions* and is sent released answers; it never
holds the counts (:mod:`discreet.release._questions`). So its guarantee is that of its
questions, and everything else is post-processing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from discreet.release._counts import Counts, Records
from discreet.release._domain import Domain
from discreet.release._mechanism import Job, Mechanism, Strategy
from discreet.release._optimum import Optimum, gaussian_optimum
from discreet.release._plan import METHODS, Plan, plan, publish
from discreet.release._price import Price
from discreet.release._publication import Publication
from discreet.release._queries import Query
from discreet.release._questions import Choice, Course, Measurement, Question, conduct
from discreet.release._stream import Stream
from discreet.release._synthetic import Combined, Synthetic, combine, synthetic
from discreet.release._workload import Workload

if TYPE_CHECKING:
    from discreet.release._curated import Proposal, question
    from discreet.release._registry import About, deployment
    from discreet.release._run import Preview, made_up, preview, run

_LATER = {
    **dict.fromkeys(("Proposal", "question"), "_curated"),
    **dict.fromkeys(("About", "deployment"), "_registry"),
    **dict.fromkeys(("Preview", "made_up", "preview", "run"), "_run"),
}
"""What needs a curator loads with its first use."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "METHODS",
    "About",
    "Choice",
    "Combined",
    "Counts",
    "Course",
    "Domain",
    "Job",
    "Measurement",
    "Mechanism",
    "Optimum",
    "Plan",
    "Preview",
    "Price",
    "Proposal",
    "Publication",
    "Query",
    "Question",
    "Records",
    "Strategy",
    "Stream",
    "Synthetic",
    "Workload",
    "combine",
    "conduct",
    "deployment",
    "gaussian_optimum",
    "made_up",
    "plan",
    "preview",
    "publish",
    "question",
    "run",
    "synthetic",
]
