"""The project's own conformance, for engines and ledgers that others write.

:func:`check_engine` and :func:`check_ledger` are the kits of :mod:`discreet.audit`;
:func:`check_url` runs the first on made-up rows in a database that is named by its URL, or on an
engine that a function opens. ``discreet engine check`` prints what it finds.

Examples
--------
>>> from discreet import testing
>>> testing.check_url("duckdb:", rows=40, every=400).ok
True
"""

from __future__ import annotations

from discreet.audit import Check, Report, Sample, check_engine, check_ledger
from discreet.testing._url import check_url

__all__ = ["Check", "Report", "Sample", "check_engine", "check_ledger", "check_url"]
