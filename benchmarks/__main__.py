"""Run every benchmark module of this package but those that ``make`` runs by themselves."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks

OWN = {
    "bench_growth",
    "bench_ledger",
    "bench_release",
    "bench_accuracy",
    "bench_keys",
    "bench_quantiles",
    "bench_service",
    "bench_servers",
}

for module in pkgutil.iter_modules(benchmarks.__path__):
    if module.name.startswith("bench_") and module.name not in OWN:
        importlib.import_module(f"benchmarks.{module.name}").main()
