"""Modules that load on first use: some take longer to import than most answers take."""

from __future__ import annotations

import gc
import importlib
from typing import Any


def load(name: str) -> Any:
    """Import a module; the search for garbage, which modules are not, would take an eighth."""
    searching = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if searching:
            gc.enable()


class _Lazy:
    """Stands for a module until an attribute of it is wanted."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(load(self._name), attribute)
        setattr(self, attribute, value)
        return value


special: Any = _Lazy("scipy.special")
fft: Any = _Lazy("scipy.fft")
optimize: Any = _Lazy("scipy.optimize")
sparse: Any = _Lazy("scipy.sparse")
linalg: Any = _Lazy("scipy.linalg")
arrow: Any = _Lazy("pyarrow")
