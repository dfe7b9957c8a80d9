"""Run every benchmark module of this package but those that have a target of their own."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks

for module in pkgutil.iter_modules(benchmarks.__path__):
    if module.name.startswith("bench_") and module.name not in {"bench_release", "bench_service"}:
        importlib.import_module(f"benchmarks.{module.name}").main()
