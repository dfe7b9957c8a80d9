"""Engines: exact integers from where the data lives."""

from __future__ import annotations

from discreet.engines._connect import connect
from discreet.engines._protocol import Engine

__all__ = ["Engine", "connect"]
