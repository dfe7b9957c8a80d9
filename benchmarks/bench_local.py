"""How fast people randomise and aggregators count, as ratios to pure-LDP and multi-freq-ldpy.

Each figure is client and server together, per person: randomise, aggregate, estimate all
64 items at ε = 1. Ours take an array of values, theirs one value at a time: that is what each
offers. Peers are warmed up (one of them compiles at its first call) and both sides
run in turns, best of several rounds. A peer that crashes with the pinned dependencies is said
to, and has no ratio.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from discreet import local

ITEMS, EPSILON = 64, 1
OURS, THEIRS = 100_000, 2_000
ROUNDS = 3
GOAL = 20.0
STREAM = 10_000_000


class Figure(NamedTuple):
    """`ours` and `peer` in microseconds per person; `ratio` > 1 means we are faster."""

    name: str
    peer_name: str
    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        return self.peer / self.ours


def collect(protocol, values):
    """Randomise, aggregate, estimate."""
    aggregator = protocol.aggregator().update(protocol.randomize(values))
    options = {"candidates": range(ITEMS)} if protocol.name == "rappor" else {}
    return aggregator.estimate(**options)


def ours(protocol):
    values = np.random.default_rng(0).integers(0, ITEMS, OURS)
    return lambda: collect(protocol, values)


def pure(kind, module, *, client=None, server=None, hashes=False):
    """A pair of pure-LDP, items 1 … d, one value at a time."""

    def run():
        package = __import__(f"pure_ldp.frequency_oracles.{module}", fromlist=["x"])
        s = getattr(package, f"{kind}Server")(**(server or {"epsilon": EPSILON, "d": ITEMS}))
        given = dict(client or {"epsilon": EPSILON, "d": ITEMS})
        if hashes:
            given["hash_funcs"] = s.get_hash_funcs()
        c = getattr(package, f"{kind}Client")(**given)
        for value in PEOPLE:
            s.aggregate(c.privatise(value + 1))
        s.estimate_all(range(1, ITEMS + 1))

    return run


def multi(module, client, aggregator):
    """A pair of multi-freq-ldpy: functions of one value, and of a list of reports."""

    def run():
        package = __import__(f"multi_freq_ldpy.pure_frequency_oracles.{module}", fromlist=["x"])
        reports = [client(package, value) for value in PEOPLE]
        aggregator(package, reports)

    return run


PEOPLE = np.random.default_rng(1).integers(0, ITEMS, THEIRS).tolist()
BASIC = {"epsilon": EPSILON, "d": ITEMS}
SKETCH = {"epsilon": EPSILON, "m": 1024}
RAPPOR = {"f": 0.5, "m": 128, "num_of_cohorts": 8}


def pairs() -> list[tuple[str, str, object, Callable[[], object]]]:
    """Every protocol that a peer has, too."""
    kary = local.KaryResponse(ITEMS, EPSILON)
    sue, oue = local.SymmetricUnary(ITEMS, EPSILON), local.OptimizedUnary(ITEMS, EPSILON)
    olh, ss = local.LocalHashing(ITEMS, EPSILON), local.SubsetSelection(ITEMS, EPSILON)
    hr = local.HadamardResponse(ITEMS, EPSILON)
    cms = local.CountMeanSketch(EPSILON, ITEMS, 1024, 256)
    hcms = local.HadamardSketch(EPSILON, ITEMS, 1024, 256)
    rappor = local.Rappor(bits=128, hashes=2, cohorts=8)
    k, e = ITEMS, EPSILON
    optimal = BASIC | {"use_oue": True}
    server = SKETCH | {"k": 256}
    flag = {"is_hadamard": True}
    return [
        ("k-ary", "pure-LDP", kary, pure("DE", "direct_encoding")),
        ("k-ary", "multi-freq", kary, multi(
            "GRR", lambda m, v: m.GRR_Client(v, k, e), lambda m, r: m.GRR_Aggregator_MI(r, k, e))),
        ("symmetric unary", "pure-LDP", sue, pure("UE", "unary_encoding")),
        ("symmetric unary", "multi-freq", sue, multi(
            "UE", lambda m, v: m.UE_Client(v, k, e, False),
            lambda m, r: m.UE_Aggregator_MI(r, e, False))),
        ("optimised unary", "pure-LDP", oue, pure(
            "UE", "unary_encoding", client=optimal, server=optimal)),
        ("optimised unary", "multi-freq", oue, multi(
            "UE", lambda m, v: m.UE_Client(v, k, e, True),
            lambda m, r: m.UE_Aggregator_MI(r, e, True))),
        ("local hashing", "pure-LDP", olh, pure(
            "LH", "local_hashing", client=BASIC | {"use_olh": True},
            server=BASIC | {"use_olh": True})),
        ("local hashing", "multi-freq", olh, multi(
            "LH", lambda m, v: m.LH_Client(v, k, e, True),
            lambda m, r: m.LH_Aggregator_MI(r, k, e, True))),
        ("subset selection", "multi-freq", ss, multi(
            "SS", lambda m, v: m.SS_Client(v, k, e), lambda m, r: m.SS_Aggregator_MI(r, k, e))),
        ("Hadamard response", "pure-LDP", hr, pure(
            "HadamardResponse", "hadamard_response", hashes=True)),
        ("count-mean-sketch", "pure-LDP", cms, pure(
            "CMS", "apple_cms", client=SKETCH, server=server, hashes=True)),
        ("Hadamard sketch", "pure-LDP", hcms, pure(
            "CMS", "apple_cms", client=SKETCH | flag, server=server | flag, hashes=True)),
        ("RAPPOR, decoded", "pure-LDP", rappor, pure(
            "RAPPOR", "rappor", client=RAPPOR, server=RAPPOR | {"k": 2, "d": k}, hashes=True)),
    ]  # fmt: skip


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        run()
    return time.perf_counter() - start


def measure(name, peer_name, protocol, peer) -> Figure | str:
    mine = ours(protocol)
    try:
        seconds(peer)
    except ImportError:
        return f"no ratio: {peer_name} is not installed here"
    except Exception as error:
        # no figure is made up for a peer that does not run
        return f"no ratio: {peer_name} crashes with these dependencies ({type(error).__name__})"
    seconds(mine)
    both = [(seconds(mine), seconds(peer)) for _ in range(ROUNDS)]
    us, them = (min(t) for t in zip(*both, strict=True))
    return Figure(name, peer_name, us / OURS * 1e6, them / THEIRS * 1e6)


def run() -> list[tuple[str, Figure | str]]:
    """Measure everything; see :class:`Figure`."""
    return [(name, measure(name, *rest)) for name, *rest in pairs()]


def stream() -> tuple[float, float, float]:
    """Return seconds, megabytes of the file and growth of memory for ten million reports."""
    import pyarrow.parquet as pq

    protocol = local.OptimizedUnary(ITEMS, EPSILON)
    values = np.random.default_rng(2).integers(0, ITEMS, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        schema = protocol.empty().to_arrow().schema
        with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
            for _ in range(STREAM // len(values)):
                writer.write_table(protocol.randomize(values).to_arrow())
        size = path.stat().st_size / 1e6
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        counted = protocol.aggregator().update(path)
        spent = time.perf_counter() - start
        assert counted.n == STREAM
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return spent, size, (after - before) / 1024


def main() -> None:
    """Print one line for each figure."""
    os.environ.setdefault("PYTHONHASHSEED", "0")
    print(f"local: times faster than the peer, client and server together (goal {GOAL:g})")
    figures = run()
    for name, figure in figures:
        if isinstance(figure, str):
            print(f"  {name:20} {figure}", flush=True)
            continue
        print(
            f"  {name:20} {figure.ratio:8.1f} × {figure.peer_name:11} "
            f"({figure.ours:.4f} against {figure.peer:.2f} µs per person)",
            flush=True,
        )
    ratios = [f.ratio for _, f in figures if isinstance(f, Figure)]
    none = sum(isinstance(f, str) for _, f in figures)
    if ratios:
        print(f"  least ratio {min(ratios):.1f} of {len(ratios)}; {none} pairs have none")
    spent, size, grown = stream()
    print(
        f"  {STREAM // 10**6} million unary reports from Parquet ({size:.0f} MB): {spent:.2f} s, "
        f"memory + {grown:.0f} MB"
    )


if __name__ == "__main__":
    main()
