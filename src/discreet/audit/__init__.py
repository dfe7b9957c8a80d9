"""Audits: evidence, from runs alone, against a privacy claim.

:func:`estimate` runs a mechanism on two neighbouring inputs and certifies how
much it leaks at least; :func:`clopper_pearson` is the exact binomial bound
beneath it. :func:`check_mechanism` is the kit for a mechanism of one's own, and
:func:`gallery` shows that the auditor flags known faults. :func:`replay` runs one
plan on two neighbouring tables with the noise frozen and compares everything
around the noise; :func:`measurements` hands out what a question measures, so that
anybody can replay it.
"""

from __future__ import annotations

from discreet.audit._binomial import clopper_pearson
from discreet.audit._certificate import Audited, Certificate, Violation, certify
from discreet.audit._check import Check, Report, check_mechanism
from discreet.audit._draws import Mechanism
from discreet.audit._engine_kit import Sample, check_engine
from discreet.audit._estimate import Claim, Estimate, estimate
from discreet.audit._events import Event
from discreet.audit._fuzz import Counterexample, Fuzz, fuzz
from discreet.audit._gallery import Exhibit, Finding, Gallery, gallery, peers
from discreet.audit._gallery import all_exhibits as exhibits
from discreet.audit._ledger_kit import check_ledger
from discreet.audit._replay import Measurement, measurements, recorded, replay
from discreet.audit._steps import Replay, Step

__all__ = [
    "Audited",
    "Certificate",
    "Check",
    "Claim",
    "Counterexample",
    "Estimate",
    "Event",
    "Exhibit",
    "Finding",
    "Fuzz",
    "Gallery",
    "Measurement",
    "Mechanism",
    "Replay",
    "Report",
    "Sample",
    "Step",
    "Violation",
    "certify",
    "check_engine",
    "check_ledger",
    "check_mechanism",
    "clopper_pearson",
    "estimate",
    "exhibits",
    "fuzz",
    "gallery",
    "measurements",
    "peers",
    "recorded",
    "replay",
]
