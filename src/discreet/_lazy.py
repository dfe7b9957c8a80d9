"""Modules that load on first use: scipy takes longer to import than most answers take."""

from __future__ import annotations

import importlib
from typing import Any


class _Lazy:
    """Stands for a module until an attribute of it is wanted."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


special: Any = _Lazy("scipy.special")
fft: Any = _Lazy("scipy.fft")
optimize: Any = _Lazy("scipy.optimize")
