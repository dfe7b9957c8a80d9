"""``make mutants``: how many planted faults the tests see.

    python -m mutants                      # a sample of 200 over all critical modules
    python -m mutants --count 50 plan/_price.py ledger
    python -m mutants --all plan/_stability.py
    python -m mutants --survivors          # what is known, with the reasons given

A run can be stopped and started again: verdicts are kept in ``.mutants/`` until the module that
they speak of changes. The first run makes the map of which test enters which function,
which takes about as long as the tests do. ``equivalent.toml`` says which survivors change
nothing, and why; it is read here, so a reason whose code has gone is reported.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mutants._change import Mutant, compiles, mutants_of
from mutants._suite import OPTIONS, Suite

ROOT = Path(__file__).parent.parent
HOME = Path(os.environ.get("MUTANTS_HOME", ROOT / ".mutants"))
TREE, MAP, VERDICTS = HOME / "tree", HOME / "map.json", HOME / "verdicts.jsonl"
PARTS = ("src", "tests", "docs", "examples", "benchmarks", "conftest.py", "pyproject.toml",
         "README.md", "CHANGELOG.md", "SECURITY.md", "ARCHITECTURE.md", "Makefile")  # fmt: skip

CRITICAL = {
    "sensitivities": ("plan/_stability.py", "plan/_relation.py", "plan/_vectors.py",
                      "plan/_trees.py", "plan/_picks.py", "mechanisms/_lattice.py",
                      "mechanisms/_linear.py", "mechanisms/_additive.py", "plan/_disjoint.py",
                      "plan/_joint.py", "plan/_per_unit.py"),
    "limits": ("plan/_assemble.py", "engines/_ranking.py", "verify/_limits.py",
               "verify/_readings.py", "plan/_joins.py"),
    "pricing": ("plan/_price.py", "plan/_parts.py", "curator/_batch.py", "privacy/_calibrate.py"),
    "composition": ("privacy/_compose.py", "privacy/_combine.py", "privacy/_filters.py",
                    "privacy/_account.py", "privacy/_convert.py", "privacy/_pld.py",
                    "privacy/_kov.py", "privacy/_additive.py", "privacy/_sampling.py",
                    "privacy/_losses.py", "privacy/_pair.py"),
    "admission": ("ledger/_budget.py", "ledger/_state.py", "ledger/_ledger.py",
                  "curator/_road.py"),
    "settling": ("ledger/_outcomes.py", "ledger/_turn.py", "ledger/_store.py", "ledger/_group.py"),
    "thresholds": ("privacy/_keys.py", "mechanisms/_thresholds.py", "plan/_keys.py"),
    "samplers": ("noise/_cells.py", "noise/_compare.py", "noise/_laws.py", "noise/_uniform.py",
                 "noise/_flips.py", "noise/_entropy.py", "mechanisms/_noisy_max.py",
                 "mechanisms/_exponential.py", "mechanisms/_sparse_vector.py",
                 "mechanisms/_refine.py", "mechanisms/_median.py",
                 "mechanisms/_randomized_response.py", "mechanisms/_orders.py"),
}  # fmt: skip
FILES = tuple(f for files in CRITICAL.values() for f in files)

_NO_FUNCTION = 77
_MOST = 60.0
"""Seconds of tests that a mutant meets at most, the nearest first."""


# -- the tree and the map -------------------------------------------------------------


def refresh() -> None:
    """Copy what the tests need into a tree of its own; times are kept, so caches stay."""
    TREE.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source, target = ROOT / part, TREE / part
        if source.is_dir():
            shutil.copytree(
                source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
            for stale in target.rglob("*.py"):
                if not (ROOT / stale.relative_to(TREE)).exists():
                    stale.unlink()
        elif source.exists():
            shutil.copy2(source, target)


def charted() -> dict[str, Any]:
    """Map of which tests enter which function, and their seconds (−1: too slow, or failing)."""
    return json.loads(MAP.read_text("utf-8")) if MAP.exists() else {"seconds": {}, "tests": {}}


def chart(suite: Suite) -> None:
    """Run tests that the map does not have, without any fault, and write down what they enter."""
    known = charted()
    new = [name for name in suite.items if name not in known["seconds"]]
    if not new:
        return

    def keep(test: str, functions: list[str], seconds: float) -> None:
        known["seconds"][test] = seconds
        for function in functions:
            known["tests"][function] = sorted({*known["tests"].get(function, ()), test})
        if len(known["seconds"]) % 200 == 0 or test == new[-1]:
            MAP.write_text(json.dumps(known), "utf-8")

    code, words = suite.forked(lambda: suite.traced(new, frozenset(FILES), keep), 10 * 3600)
    if code != 0:
        sys.exit(f"the map could not be made: {words}")


# -- one mutant -----------------------------------------------------------------------


def covering(known: dict[str, Any], mutant: Mutant) -> list[tuple[str, float]]:
    """Tests that enter the mutant's function, the nearest first."""
    seconds, tests = known["seconds"], known["tests"]
    breadth = known["breadth"]
    exact = tests.get(f"{mutant.file}|{mutant.function}")
    if exact is None:  # code of a module or class runs when it is imported
        head = f"{mutant.file}|"
        exact = sorted({t for f, listed in tests.items() if f.startswith(head) for t in listed})
    timed = [(t, seconds[t]) for t in exact if seconds.get(t, -1) >= 0]
    return sorted(timed, key=lambda pair: (pair[1] + 0.02) * breadth[pair[0]])


def judge(suite: Suite, mutant: Mutant, known: dict[str, Any]) -> tuple[str, str]:
    """Plant a fault and run the tests that enter it."""
    tests, total = covering(known, mutant), 0.0
    names = []
    for test, took in tests:
        if test in suite.items and (total := total + took) <= _MOST:
            names.append(test)
    if not names:
        return "survived", "no test enters this function"
    path = TREE / "src/discreet" / mutant.file

    def job() -> int:
        return suite.run(names) if suite.plant(mutant, path) else _NO_FUNCTION

    code, words = suite.forked(job, 30 + 5 * min(total, _MOST))
    if code == _NO_FUNCTION:
        code, words = suite.alone(mutant, names[:200], min(total, _MOST))
    if code == 0:
        return "survived", f"{len(names)} of {len(tests)} tests that enter the function"
    if code is None:
        return "killed", "time ran out"
    # a failed test, a module that cannot be imported, or a crash; anything else is our own fault
    return "killed" if code in (1, 2) or code < 0 else "unclear", words


# -- many -----------------------------------------------------------------------------


def digest(file: str) -> str:
    """Hash of a module: verdicts on another text of it do not count."""
    return hashlib.sha256((ROOT / "src/discreet" / file).read_bytes()).hexdigest()[:16]


def verdicts() -> dict[str, dict[str, str]]:
    """Verdicts that still hold."""
    if not VERDICTS.exists():
        return {}
    digests = {f: digest(f) for f in FILES}
    lines = map(json.loads, VERDICTS.read_text("utf-8").splitlines())
    return {v["name"]: v for v in lines if digests.get(v["file"]) == v["digest"]}


def chosen(modules: Sequence[str], count: int | None, seed: int) -> list[Mutant]:
    """Draw a sample: the same for the same modules, count, seed and sources."""
    files = [f for f in FILES if not modules or any(f.startswith(m) for m in modules)]
    every = [m for f in files for m in mutants_of(ROOT / "src/discreet", f)]
    random.Random(seed).shuffle(every)  # so that a smaller sample is the beginning of a larger one
    drawn = every if count is None else every[:count]
    texts = {f: (ROOT / "src/discreet" / f).read_text("utf-8") for f in files}
    return [m for m in drawn if compiles(m, texts[m.file])]


def reasons() -> dict[str, str]:
    """Why some survivors change nothing."""
    with (Path(__file__).parent / "equivalent.toml").open("rb") as file:
        return dict(tomllib.load(file))


def report(sample: list[Mutant]) -> int:
    """Print the rate and every survivor; 1 if some have no reason."""
    known, why = verdicts(), reasons()
    judged = [m for m in sample if known.get(m.name, {}).get("verdict") in ("killed", "survived")]
    alive = [m for m in judged if known[m.name]["verdict"] == "survived"]
    open_ = [m for m in alive if m.name not in why]
    counted = len(judged) - (len(alive) - len(open_))
    print(f"{len(judged)} of {len(sample)} judged: {len(judged) - len(alive)} killed, "
          f"{len(alive) - len(open_)} equivalent, {len(open_)} survive")  # fmt: skip
    if counted:
        from discreet.audit import clopper_pearson  # noqa: PLC0415 - the tree is on the path by now

        killed = len(judged) - len(alive)
        low, high = clopper_pearson(killed, counted, 0.025)
        print(f"killed: {killed / counted:.1%} of those that change anything; 95 % interval of a "
              f"random sample: {low:.1%} to {high:.1%}")  # fmt: skip
    for mutant in alive:
        print(f"  {mutant}\n      {why.get(mutant.name) or known[mutant.name]['words']}")
    every = {m.name for f in FILES for m in mutants_of(ROOT / "src/discreet", f)}
    for name in why.keys() - every:
        print(f"equivalent.toml: {name} is no mutant any more")
    return 1 if open_ else 0


def main() -> int:
    """Read the command and do it."""
    parser = argparse.ArgumentParser(prog="python -m mutants")
    parser.add_argument("modules", nargs="*", help="files or folders under src/discreet")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--all", action="store_true", help="every mutant of the modules")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="judge survivors anew")
    parser.add_argument("--survivors", action="store_true", help="only say what is known")
    parser.add_argument("--map", action="store_true", help="make the map of the tests anew")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="files or folders of tests")
    given = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    sample = chosen(given.modules, None if given.all else given.count, given.seed)
    sys.path.insert(0, str(ROOT / "src"))
    if given.survivors:
        return report(sample)
    refresh()
    if given.map:
        MAP.unlink(missing_ok=True)
    os.chdir(TREE)
    os.environ |= {"PYTHONPATH": str(TREE / "src"), "OPENBLAS_NUM_THREADS": "1",
                   "OMP_NUM_THREADS": "1"}  # fmt: skip
    sys.path[:] = [str(TREE / "src"), *(p for p in sys.path if p)]

    def work(suite: Suite) -> None:
        chart(suite)
        judge_all(suite, sample, again=given.again)

    suite = Suite(TREE, HOME / "log.txt", work)
    if pytest.main([*OPTIONS, f"--basetemp={HOME / 'tmp'}", *given.tests], plugins=[suite]) != 0:
        return 2
    return report(sample)


def judge_all(suite: Suite, sample: list[Mutant], *, again: bool) -> None:
    """Judge every mutant that has no verdict yet."""
    known, before = charted(), verdicts()
    known["breadth"] = Counter(test for listed in known["tests"].values() for test in listed)
    for i, mutant in enumerate(sample, 1):
        old = before.get(mutant.name, {}).get("verdict")
        if old == "killed" or (old and not again):
            continue
        began = time.monotonic()
        verdict, words = judge(suite, mutant, known)
        line = {"name": mutant.name, "file": mutant.file, "digest": digest(mutant.file),
                "verdict": verdict, "words": words}  # fmt: skip
        with VERDICTS.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        took = time.monotonic() - began
        print(f"{i}/{len(sample)} {took:5.1f} s  {verdict}  {mutant}  [{words}]", flush=True)


if __name__ == "__main__":
    sys.exit(main())
