"""Run every benchmark module of this package but `bench_release`, which has its own target."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks

for module in pkgutil.iter_modules(benchmarks.__path__):
    if module.name.startswith("bench_") and module.name != "bench_release":
        importlib.import_module(f"benchmarks.{module.name}").main()
