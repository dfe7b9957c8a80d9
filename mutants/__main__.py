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
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from mutants._change import Mutant, compiles, mutants_of

ROOT = Path(__file__).parent.parent
HOME = Path(os.environ.get("MUTANTS_HOME", ROOT / ".mutants"))
TREE, MAP, VERDICTS = HOME / "tree", HOME / "map.json", HOME / "verdicts.jsonl"
PARTS = ("src", "tests", "docs", "examples", "benchmarks", "conftest.py", "pyproject.toml",
         "README.md", "CHANGELOG.md", "SECURITY.md", "ARCHITECTURE.md", "Makefile")  # fmt: skip

CRITICAL = {
    "sensitivities": ("plan/_stability.py", "plan/_relation.py", "plan/_vectors.py",
                      "plan/_trees.py", "plan/_picks.py", "mechanisms/_lattice.py",
                      "mechanisms/_linear.py", "mechanisms/_additive.py"),
    "limits": ("plan/_assemble.py", "engines/_ranking.py", "verify/_limits.py",
               "verify/_readings.py"),
    "pricing": ("plan/_price.py", "plan/_parts.py", "curator/_batch.py", "privacy/_calibrate.py"),
    "composition": ("privacy/_compose.py", "privacy/_combine.py", "privacy/_filters.py",
                    "privacy/_account.py", "privacy/_convert.py"),
    "admission": ("ledger/_budget.py", "ledger/_state.py", "ledger/_ledger.py",
                  "curator/_road.py"),
    "settling": ("ledger/_outcomes.py", "ledger/_turn.py", "ledger/_store.py"),
    "thresholds": ("privacy/_keys.py", "mechanisms/_thresholds.py"),
    "samplers": ("noise/_cells.py", "noise/_compare.py", "noise/_laws.py", "noise/_uniform.py",
                 "noise/_flips.py", "noise/_entropy.py", "mechanisms/_noisy_max.py",
                 "mechanisms/_exponential.py", "mechanisms/_sparse_vector.py",
                 "mechanisms/_refine.py", "mechanisms/_median.py"),
}  # fmt: skip
FILES = tuple(
    f for files in CRITICAL.values() for f in files if (ROOT / "src/discreet" / f).exists()
)

_NEAR, _ALL = 15.0, 180.0
"""Seconds of tests that a mutant meets: first the ones nearest to it, then the others."""


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


def environment() -> dict[str, str]:
    """Environment of a test run in the tree."""
    more = {
        "PYTHONPATH": str(TREE / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
        "MUTANTS_MAP": str(MAP), "MUTANTS_FILES": ":".join(FILES),
    }  # fmt: skip
    return os.environ | more


def chart(tests: Sequence[str]) -> None:
    """Run the tests once without any fault and write down who enters what."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not long", "-p", "mutants._cover",
               "-p", "no:cacheprovider", "--tb=no", *(tests or ("tests",))]  # fmt: skip
    subprocess.run(
        command, cwd=TREE, env=environment() | {"PYTHONPATH": f"{TREE}/src:{ROOT}"}, check=False
    )


# -- one mutant -----------------------------------------------------------------------


def covering(known: dict[str, dict[str, object]], mutant: Mutant) -> list[tuple[str, float]]:
    """Tests that enter the mutant's function, the nearest first."""
    seconds, tests = known["seconds"], known["tests"]
    breadth = known["breadth"]
    exact = tests.get(f"{mutant.file}|{mutant.function}")
    if exact is None:  # code of a module or class runs when it is imported
        inside = mutant.function.removeprefix("<module>")
        head = f"{mutant.file}|{inside}"
        exact = sorted({t for f, listed in tests.items() if f.startswith(head) for t in listed})
    timed = [(t, seconds[t]) for t in exact if seconds.get(t, -1) >= 0]
    return sorted(timed, key=lambda pair: (pair[1] + 0.02) * breadth[pair[0]])


def batches(tests: list[tuple[str, float]]) -> Iterator[tuple[list[str], float]]:
    """First the tests nearest to the fault, of few files; then the others, up to a limit."""
    near: list[tuple[str, float]] = []
    files: set[str] = set()
    for test, took in tests:
        file = test.partition("::")[0]
        if (file in files or len(files) < 3) and sum(t for _, t in near) + took <= _NEAR:
            files.add(file)
            near.append((test, took))
    chosen = {t for t, _ in near}
    rest, total = [], 0.0
    for test, took in tests:
        if test not in chosen and total + took <= _ALL:
            rest.append((test, took))
            total += took
    for batch in (near, rest):
        if batch:
            yield [t for t, _ in batch], sum(t for _, t in batch)


def judge(mutant: Mutant, known: dict[str, dict[str, object]]) -> tuple[str, str]:
    """Plant a fault, run the tests that enter it, take the fault out again."""
    tests = covering(known, mutant)
    if not tests:
        return "survived", "no test enters this function"
    path = TREE / "src/discreet" / mutant.file
    original, when = path.read_text("utf-8"), path.stat()
    path.write_text(mutant.apply(original), "utf-8")
    try:
        ran = 0
        for batch, seconds in batches(tests):
            ran += len(batch)
            code, words = run(batch, 60 + 8 * seconds)
            if code is None:
                return "killed", "time ran out"
            if code in (1, 2):  # a test failed, or could not even be imported
                return "killed", words
            if code != 0:
                sys.exit(f"pytest itself failed ({code}): {words}")
        return "survived", f"{ran} of {len(tests)} tests that enter the function"
    finally:
        path.write_text(original, "utf-8")
        os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))


def run(tests: list[str], limit: float) -> tuple[int | None, str]:
    """Run tests in a fork that has the heavy libraries loaded; None when time runs out."""
    log = HOME / "log.txt"
    child = os.fork()
    if child == 0:
        _child(tests, log)
    ends = time.monotonic() + limit
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), _first_failure(log)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None, ""


def _child(tests: list[str], log: Path) -> None:
    os.setsid()
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(TREE)
    os.environ.update(environment())
    sys.dont_write_bytecode = True  # the map's run has cached what is not changed
    sys.path[:] = [str(TREE / "src"), *(p for p in sys.path if p not in ("", str(ROOT)))]
    code = 70
    try:
        import pytest  # noqa: PLC0415 - loaded by the parent, named here

        options = ["-x", "-q", "--tb=line", "-p", "no:cacheprovider", "--no-header"]
        code = int(pytest.main([*options, *tests]))
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _first_failure(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()
    found = [x for x in lines if x.startswith(("FAILED", "ERROR"))]
    return found[0].split(" - ")[0] if found else (lines[-1] if lines else "died")


def preload() -> None:
    """Load what is slow to load and not ours, once for all forks."""
    # not hypothesis: pytest rewrites its plugins when it loads them
    for name in ("cryptography.hazmat.primitives.ciphers", "duckdb", "numpy", "psycopg", "pytest",
                 "pyarrow.compute", "rich.progress", "scipy.optimize", "scipy.sparse",
                 "scipy.special", "sqlglot", "typer"):  # fmt: skip
        importlib.import_module(name)


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
    drawn = (
        every if count is None or count >= len(every) else random.Random(seed).sample(every, count)
    )
    texts = {f: (ROOT / "src/discreet" / f).read_text("utf-8") for f in files}
    return [m for m in drawn if compiles(m, texts[m.file])]


def reasons() -> dict[str, str]:
    """Why some survivors change nothing."""
    with (Path(__file__).parent / "equivalent.toml").open("rb") as file:
        return dict(tomllib.load(file))


def report(sample: list[Mutant]) -> int:
    """Print the rate and every survivor; 1 if some have no reason."""
    known, why = verdicts(), reasons()
    judged = [m for m in sample if m.name in known]
    alive = [m for m in judged if known[m.name]["verdict"] == "survived"]
    open_ = [m for m in alive if m.name not in why]
    counted = len(judged) - (len(alive) - len(open_))
    print(f"{len(judged)} of {len(sample)} judged: {len(judged) - len(alive)} killed, "
          f"{len(alive) - len(open_)} equivalent, {len(open_)} survive")  # fmt: skip
    if counted:
        print(f"killed: {(len(judged) - len(alive)) / counted:.1%} of those that change anything")
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
    parser.add_argument("--map", nargs="*", metavar="TESTS", help="only (re)make the map")
    given = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    sample = chosen(given.modules, None if given.all else given.count, given.seed)
    if given.survivors:
        return report(sample)
    refresh()
    if given.map is not None or not MAP.exists():
        chart(given.map or ())
        if given.map is not None:
            return 0
    known, before = json.loads(MAP.read_text("utf-8")), verdicts()
    known["breadth"] = Counter(test for listed in known["tests"].values() for test in listed)
    preload()
    for i, mutant in enumerate(sample, 1):
        old = before.get(mutant.name, {}).get("verdict")
        if old == "killed" or (old and not given.again):
            continue
        began = time.monotonic()
        verdict, words = judge(mutant, known)
        line = {"name": mutant.name, "file": mutant.file, "digest": digest(mutant.file),
                "verdict": verdict, "words": words}  # fmt: skip
        with VERDICTS.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        took = time.monotonic() - began
        print(f"{i}/{len(sample)} {took:5.1f} s  {verdict}  {mutant}  [{words}]", flush=True)
    return report(sample)


if __name__ == "__main__":
    sys.exit(main())
