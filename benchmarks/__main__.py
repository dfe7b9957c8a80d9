"""Run every benchmark module of this package, one after the other."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks

for module in pkgutil.iter_modules(benchmarks.__path__):
    if module.name.startswith("bench_"):
        importlib.import_module(f"benchmarks.{module.name}").main()
