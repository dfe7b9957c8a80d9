"""Engines: exact integers from where the data lives."""

from __future__ import annotations

from discreet.engines._connect import SPARK, connect
from discreet.engines._described import Described, Description, describe
from discreet.engines._java import local_session
from discreet.engines._lengths import check_lengths
from discreet.engines._limit import TIME_LIMIT
from discreet.engines._protocol import SERVER, Engine, conceal_errors
from discreet.engines._reference import Reference
from discreet.engines._statements import Statements
from discreet.verify import Table as Held

__all__ = [
    "SERVER",
    "SPARK",
    "TIME_LIMIT",
    "Described",
    "Description",
    "Engine",
    "Held",
    "Reference",
    "Statements",
    "check_lengths",
    "conceal_errors",
    "connect",
    "describe",
    "local_session",
]
