"""Audits: evidence, from runs alone, against a privacy claim.

:func:`epsilon_lower_bound` runs a mechanism on two neighbouring inputs and
certifies how much it leaks at least; :func:`clopper_pearson` is the exact
binomial bound beneath it. :func:`replay` runs one plan on two neighbouring
tables with the noise frozen and compares everything around the noise, and
:func:`measurements` hands out what a question measures, so that anybody can.
"""

from __future__ import annotations

from discreet.audit._replay import Measurement, Replay, measurements, replay
from discreet.audit._statistical import Audit, clopper_pearson, epsilon_lower_bound

__all__ = [
    "Audit",
    "Measurement",
    "Replay",
    "clopper_pearson",
    "epsilon_lower_bound",
    "measurements",
    "replay",
]
