"""``make mutants``: how many planted faults the tests see.

    python -m mutants                      # a sample of 200 over all critical modules
    python -m mutants --count 50 plan/_price.py ledger
    python -m mutants --all plan/_stability.py
    python -m mutants --survivors          # what is known, with the reasons given

A run can be stopped and started again: verdicts are kept in ``.mutants/`` until the module that
they speak of changes. The first run makes the map of which test reaches which line,
which takes about as long as the tests do. ``equivalent.toml`` says which survivors change
nothing, and why; it is read here, so a reason whose code has gone is reported. A survivor has met
every test that reaches its line, up to four minutes of them, whatever package they are of; one of
the service also those that ask a service in a process of its own, with the fault in its file.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from mutants._carry import carried
from mutants._change import Mutant, compiles, mutants_of
from mutants._suite import OPTIONS, STALLED, Suite, culprit

ROOT = Path(__file__).parent.parent
HOME = Path(os.environ.get("MUTANTS_HOME", ROOT / ".mutants"))
HOMES = [Path(x) for x in os.environ.get("MUTANTS_CARRY", "").split(os.pathsep) if x]
"""Earlier homes, whose maps of tests are taken over where this one has none."""
TREE, MAP, VERDICTS = HOME / "tree", HOME / "map.jsonl", HOME / "verdicts.jsonl"
PARTS = ("src", "tests", "docs", "examples", "benchmarks", "chaos", "mutants", "conftest.py",
         "pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md", "ARCHITECTURE.md",
         "Makefile")  # fmt: skip

CRITICAL = {
    "sensitivities": ("plan/_stability.py", "plan/_relation.py", "plan/_vectors.py",
                      "plan/_trees.py", "plan/_picks.py", "mechanisms/_lattice.py",
                      "mechanisms/_linear.py", "mechanisms/_additive.py", "plan/_disjoint.py",
                      "plan/_joint.py", "plan/_per_unit.py", "plan/_variances.py"),
    "limits": ("plan/_assemble.py", "engines/_ranking.py", "verify/_limits.py",
               "verify/_readings.py", "plan/_joins.py"),
    "verifier": ("verify/_rules.py", "verify/_operators.py", "verify/_functions.py",
                 "verify/_casts.py", "verify/_domain.py", "verify/_patterns.py",
                 "verify/_read.py", "verify/_prove.py", "verify/_spark.py", "verify/_walk.py"),
    "pricing": ("plan/_price.py", "plan/_parts.py", "curator/_batch.py", "privacy/_calibrate.py"),
    "composition": ("privacy/_compose.py", "privacy/_combine.py", "privacy/_filters.py",
                    "privacy/_account.py", "privacy/_convert.py", "privacy/_pld.py",
                    "privacy/_kov.py", "privacy/_additive.py", "privacy/_sampling.py",
                    "privacy/_losses.py", "privacy/_pair.py"),
    "admission": ("ledger/_budget.py", "ledger/_state.py", "ledger/_ledger.py",
                  "curator/_road.py", "curator/_room.py", "curator/_partition.py",
                  "curator/_release.py", "curator/_external.py", "ledger/_decisions.py"),
    "settling": ("ledger/_outcomes.py", "ledger/_turn.py", "ledger/_store.py", "ledger/_group.py",
                 "ledger/_chain.py", "ledger/_data.py", "ledger/_sqlite.py"),
    "cleaning": ("engines/_ingest.py", "engines/_physical.py", "engines/_render.py",
                 "engines/_dialect.py", "engines/_statements.py"),
    "queue": ("service/_admission.py", "service/_ticks.py", "service/_pool.py",
              "service/_desk.py", "service/_daybook.py"),
    "thresholds": ("privacy/_keys.py", "mechanisms/_thresholds.py", "plan/_keys.py"),
    "samplers": ("noise/_cells.py", "noise/_compare.py", "noise/_laws.py", "noise/_uniform.py",
                 "noise/_flips.py", "noise/_entropy.py", "mechanisms/_noisy_max.py",
                 "mechanisms/_exponential.py", "mechanisms/_sparse_vector.py",
                 "mechanisms/_refine.py", "mechanisms/_median.py",
                 "mechanisms/_randomized_response.py", "mechanisms/_orders.py"),
}  # fmt: skip
FILES = tuple(f for files in CRITICAL.values() for f in files)

_NO_FUNCTION = 77
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST = 240.0
"""Seconds of tests that a fault meets at most, the nearest first, unless a run says otherwise."""
SEEN = ("killed", "stalled")
"""Verdicts of a fault that tests saw: one failed, or one did not end."""
TESTS = ("tests/unit", "tests/ledger", "tests/adversarial", "tests/conformance",
         "tests/statistical", "tests/docs", "src")  # fmt: skip


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


@dataclass(slots=True)
class Chart:
    """Which test reaches which line, a bit for each, and how long it takes (−1: not to be run)."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)
    killers: dict[str, list[str]] = field(default_factory=dict)
    """Tests that saw faults of a function, or of a file, the last one first."""
    texts: dict[str, str] = field(default_factory=dict)
    """Hash of a test's file and of the modules it reached: of another text nothing is known."""
    sound: set[str] = field(default_factory=set)
    """Tests that failed with a fault and, after the same others, passed without it."""

    def met(self, test: str) -> str:
        """Name of a test as its text is now."""
        return hashlib.sha256(f"{test} {self.texts[test]}".encode()).hexdigest()[:10]

    @classmethod
    def read(cls) -> Chart:
        """Return what the map says."""
        chart = cls()
        for row in MAP.read_text("utf-8").splitlines() if MAP.exists() else ():
            test, seconds, lines, chart.texts[test] = json.loads(row)
            chart.seconds[test] = seconds
            chart.lines[test] = {file: int(bits, 16) for file, bits in lines.items()}
        return chart

    def covering(self, mutant: Mutant) -> list[tuple[str, float]]:
        """Tests that reach a fault and their seconds, the most promising first."""
        places = _places(mutant).items()
        found = []
        for test, lines in self.lines.items():
            if self.seconds[test] >= 0 and any(lines.get(f, 0) & bits for f, bits in places):
                breadth = _breadth(tuple(lines.values()))
                found.append((test, self.seconds[test], (self.seconds[test] + 0.02) * breadth))
        last = self.killers.get(f"{mutant.file}|{mutant.function}", [])[:20]
        near = self.killers.get(mutant.file, [])[:40]
        # each fork starts a server of its own, so what needs one comes last
        # nets are wide, and made to see whatever moves: those of the fault's own package come first
        net = _net(mutant.file)
        found.sort(
            key=lambda row: (row[0] not in last, row[0] not in near, "postgres" in row[0],
                             net not in row[0], row[1] if net in row[0] else row[2])
        )  # fmt: skip
        return [row[:2] for row in found]

    def saw(self, mutant: Mutant, test: str) -> None:
        """Remember what saw a fault: it may see those beside it."""
        for place in (f"{mutant.file}|{mutant.function}", mutant.file):
            self.killers[place] = list(dict.fromkeys([test, *self.killers.get(place, [])]))


def _net(file: str) -> str:
    """How names of the tests begin that hold the net of a module's package."""
    package = file.split("/", maxsplit=1)[0]
    return f"test_nothing_has_moved_unnoticed[{'ledger' if package == 'curator' else package}-"


@cache
def _breadth(lines: tuple[int, ...]) -> int:
    return sum(map(int.bit_count, lines))


def _places(mutant: Mutant) -> dict[str, int]:
    """Statement that a fault changes, as a bit; of a name of a module, those that use it."""
    tree = ast.parse((TREE / "src/discreet" / mutant.file).read_text("utf-8"))
    around = [s for f in ast.walk(tree) if isinstance(f, _FUNCTION) for s in ast.walk(f)
              if s is not f and isinstance(s, ast.stmt)
              and s.lineno <= mutant.line <= (s.end_lineno or 0)]  # fmt: skip
    if not around:
        return _uses(mutant.file, mutant.line) or {mutant.file: -1}
    return {mutant.file: 1 << max(s.lineno for s in around)}


@cache
def _uses(file: str, line: int) -> dict[str, int]:
    """Lines of functions that name what a statement of a module or a class binds."""
    root = TREE / "src/discreet"
    trees = {path: ast.parse((root / path).read_text("utf-8")) for path in {file, *FILES}
             if (root / path).exists()}  # fmt: skip
    names = {name for statement in _bare(trees[file])
             if statement.lineno <= line <= (statement.end_lineno or 0)
             for name in _bound(statement)}  # fmt: skip
    for _ in range(3):  # a name may be made of another one
        names |= {
            name for tree in trees.values() for statement in _bare(tree)
            if names & {n for n, _ in _named(statement)} for name in _bound(statement)
        }  # fmt: skip
    found: dict[str, int] = {}
    for path, tree in trees.items():
        inside = [f for f in ast.walk(tree) if isinstance(f, _FUNCTION)]
        lines = {at for f in inside for name, at in _named(f) if name in names}
        if lines:
            found[path] = sum(1 << at for at in lines)
    return found


def _bare(tree: ast.Module) -> list[ast.stmt]:
    """Statements of a module and of its classes that are run when it is imported."""
    classes = [c.body for c in ast.walk(tree) if isinstance(c, ast.ClassDef)]
    return [s for body in (tree.body, *classes) for s in body
            if isinstance(s, ast.Assign | ast.AnnAssign)]  # fmt: skip


def _bound(statement: ast.stmt) -> set[str]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name)}


def _named(tree: ast.AST) -> list[tuple[str, int]]:
    return [(n.id if isinstance(n, ast.Name) else n.attr, n.lineno) for n in ast.walk(tree)
            if isinstance(n, ast.Name | ast.Attribute)]  # fmt: skip


def chart(suite: Suite) -> None:
    """Run tests that the map does not have, without any fault, and write down what they reach."""
    known = Chart.read()
    for row in carried(HOMES, TREE, set(suite.items) - known.texts.keys()):
        with MAP.open("a", encoding="utf-8") as out:
            out.write(json.dumps([*row, _text(row[0], row[2])]) + "\n")
    known = Chart.read()
    new = [name for name in suite.items
           if known.texts.get(name) != _text(name, known.lines.get(name, ()))]  # fmt: skip

    def keep(test: str, lines: dict[str, int], seconds: float) -> None:
        reached = {file: f"{bits:x}" for file, bits in lines.items()}
        row = [test, round(seconds, 3), reached, _text(test, reached)]
        with MAP.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")

    if not new:
        return
    with suite.tracing(frozenset(FILES)):
        for file, group in groupby(new, key=lambda name: name.split("::")[0]):
            names = list(group)  # a process for each file: what one remembers is no other's
            code, words = suite.forked(lambda n=names: suite.traced(n, keep), 3600)
            print(f"map: {file} {len(names)} tests, {code} {words if code else ''}", flush=True)


@cache
def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else "gone"


def _text(test: str, reached: Iterable[str]) -> str:
    own = TREE / test.split("::", maxsplit=1)[0]
    texts = [_hash(own), *(_hash(TREE / "src/discreet" / file) for file in sorted(reached))]
    if own.stem == "test_snapshots":  # a net's cases and what they gave stand beside it
        texts += map(_hash, sorted((TREE / "tests/snapshots").glob("*.*")))
    return hashlib.sha256(" ".join(texts).encode()).hexdigest()[:16]


# -- one mutant -----------------------------------------------------------------------


def judge(
    suite: Suite, mutant: Mutant, known: Chart, met: Collection[str] = (), most: float = _MOST
) -> tuple[str, str, list[str]]:
    """Plant a fault and run the tests that reach it, but for those it has met; which they were."""
    timed, total = [], 0.0
    for test, took in known.covering(mutant):
        if test in suite.items and total + took <= most and known.met(test) not in met:
            total += took
            timed.append((test, took))
    now = [known.met(test) for test, _ in timed]
    verdict, words = _asked(suite, mutant, timed, total, known) if timed else ("survived", "")
    if verdict == "unsound":
        known.seconds[words] = -1
        return judge(suite, mutant, known, met, most)
    if verdict == "survived" and mutant.file.startswith("service/") and suite.served:
        # a service is slow to start, and each of its tests asks much of the code
        code, words = suite.alone(mutant, _nearest(mutant, suite.served, known), 60)
        verdict = _verdict(code)
    if verdict == "survived":
        words = f"{len(now) + len(met)} tests that reach the line"
    return verdict, words, now


def _asked(
    suite: Suite, mutant: Mutant, timed: list[tuple[str, float]], total: float, known: Chart
) -> tuple[str, str]:
    path = TREE / "src/discreet" / mutant.file

    def job() -> int:
        return suite.run(timed) if suite.plant(mutant, path) else _NO_FUNCTION

    code, words = suite.forked(job, 30 + 5 * total)
    if code == _NO_FUNCTION:
        code, words = suite.alone(mutant, [test for test, _ in timed], total)
    elif _verdict(code) in SEEN and (test := culprit(words)) not in known.sound:
        if blind := _fails_anyway(suite, timed, words):
            return "unsound", blind
        known.sound |= {test} & known.seconds.keys()
    return _verdict(code), words


def _verdict(code: int) -> str:
    """What an exit code says of a fault, once the same tests have passed without it."""
    if code == 0:
        return "survived"
    if code == STALLED:
        return "stalled"
    # a failed test, a module that cannot be imported (4: by conftest.py), or a crash; anything
    # else is our own fault, and a kill is the system's, for want of memory
    crash = code < 0 and code != -signal.SIGKILL
    return "killed" if code in (1, 2, 4) or crash else "unclear"


def _nearest(mutant: Mutant, tests: list[str], known: Chart) -> list[str]:
    last = [t for place, seen in known.killers.items() if place.startswith(mutant.file)
            for t in seen]  # fmt: skip
    return sorted(tests, key=lambda test: (test not in last, test.split("::")[0]))


def _fails_anyway(suite: Suite, timed: list[tuple[str, float]], words: str) -> str:
    """Name of a test that fails without the fault, too, in the run that seemed to see it."""
    names = [test for test, _ in timed]
    seen = culprit(words)
    same = timed[: names.index(seen) + 1] if seen in names else timed
    code, words = suite.forked(lambda: suite.run(same), 30 + 5 * sum(took for _, took in same))
    failed = culprit(words)
    return "" if code == 0 else failed if failed in names else same[-1][0]


# -- many -----------------------------------------------------------------------------


def digest(file: str) -> str:
    """Hash of a module: verdicts on another text of it do not count."""
    return _hash(ROOT / "src/discreet" / file)


def verdicts() -> dict[str, dict[str, Any]]:
    """Verdicts that still hold."""
    if not VERDICTS.exists():
        return {}
    digests = {f: digest(f) for f in FILES}
    lines = map(json.loads, VERDICTS.read_text("utf-8").splitlines())
    return {v["name"]: v for v in lines if digests.get(v["file"]) == v["digest"]}


def chosen(modules: Sequence[str], count: int | None, seed: int, skip: int = 0) -> list[Mutant]:
    """Draw a sample, each module by its share: a function of the seed and the mutants' names.

    A larger sample goes on where a smaller one ends, so what follows the first ``skip`` is fresh.
    """
    placed: list[tuple[float, Mutant]] = []
    for file in (f for f in FILES if not modules or any(f.startswith(m) for m in modules)):
        every = mutants_of(ROOT / "src/discreet", file)
        every.sort(key=lambda m: _chance(seed, m.name))
        begin = _chance(seed, file)
        placed += [((i + begin) / len(every), m) for i, m in enumerate(every)]
    placed.sort(key=lambda pair: pair[0])
    drawn = [m for _, m in placed[skip : None if count is None else skip + count]]
    return [m for m in drawn if compiles(m, (ROOT / "src/discreet" / m.file).read_text("utf-8"))]


def _chance(seed: int, name: str) -> float:
    return random.Random(f"{seed}|{name}").random()


def reasons() -> dict[str, str]:
    """Why some survivors change nothing; a function that only chooses stands for all of its own."""
    with (Path(__file__).parent / "equivalent.toml").open("rb") as file:
        given = tomllib.load(file)
    for place, reason in given.pop("choices", {}).items():
        file, function = place.split("|")
        own = [m.name for m in mutants_of(ROOT / "src/discreet", file)
               if f"{m.function}.".startswith(f"{function}.")]  # fmt: skip
        given |= dict.fromkeys(own or [place], reason)  # a place without faults is reported
    return given


def report(sample: list[Mutant]) -> int:
    """Print the rate and every survivor; 1 if some have no reason or no verdict."""
    known, why = verdicts(), reasons()
    said = {m: known.get(m.name, {}).get("verdict") for m in sample}
    seen = [m for m in sample if said[m] in SEEN]
    same = [m for m in sample if said[m] == "survived" and m.name in why]
    alive = [m for m in sample if said[m] == "survived" and m.name not in why]
    unjudged = [m for m in sample if m not in {*seen, *same, *alive}]
    stalled = sum(said[m] == "stalled" for m in seen)
    print(f"{len(sample)} drawn: {len(seen)} killed ({stalled} of them by a test without end), "
          f"{len(same)} equivalent, {len(alive)} survive, {len(unjudged)} not judged")  # fmt: skip
    if counted := len(sample) - len(same):
        from discreet.audit import clopper_pearson  # noqa: PLC0415 - the tree is on the path by now

        low, high = clopper_pearson(len(seen), counted, 0.025)
        print(f"killed: {len(seen)} of {counted} that change anything ({len(seen) / counted:.1%}), "
              f"what was not judged among them; 95 % interval of a random sample: "
              f"{low:.1%} to {high:.1%}")  # fmt: skip
    for mutant in unjudged:
        print(f"  not judged: {mutant}")
    for mutant in (*same, *alive):
        print(f"  {mutant}\n      {why.get(mutant.name) or known[mutant.name]['words']}")
    every = {m.name for f in FILES for m in mutants_of(ROOT / "src/discreet", f)}
    for name in why.keys() - every:
        print(f"equivalent.toml: {name} is no mutant any more")
    return 1 if alive or unjudged else 0


def main() -> int:
    """Read the command and do it."""
    parser = argparse.ArgumentParser(prog="python -m mutants")
    parser.add_argument("modules", nargs="*", help="files or folders under src/discreet")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--all", action="store_true", help="every mutant of the modules")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of the sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=_MOST, help="of tests for a fault, at most"
    )
    parser.add_argument("--again", action="store_true", help="judge survivors anew")
    parser.add_argument("--survivors", action="store_true", help="only say what is known")
    parser.add_argument("--map", action="store_true", help="make the map of the tests anew")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="files or folders of tests")
    given = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    sample = chosen(given.modules, None if given.all else given.count, given.seed, given.skip)
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
        judge_all(suite, sample, given.seconds, again=given.again)

    suite = Suite(TREE, HOME / "log.txt", work)
    if pytest.main([*OPTIONS, f"--basetemp={HOME / 'tmp'}", *given.tests], plugins=[suite]) != 0:
        return 2
    return report(sample)


def judge_all(suite: Suite, sample: list[Mutant], most: float, *, again: bool) -> None:
    """Judge every mutant that has no verdict yet."""
    known, before = Chart.read(), verdicts()
    for told in before.values():
        known.killers.setdefault(told["file"], []).insert(0, culprit(told["words"]))
    for i, mutant in enumerate(sample, 1):
        old = before.get(mutant.name, {}).get("verdict")
        if old in SEEN or (old == "survived" and not again):
            continue
        began = time.monotonic()
        met = before.get(mutant.name, {}).get("met", [])
        verdict, words, now = judge(suite, mutant, known, met, most)
        if (test := culprit(words)) in known.seconds:
            known.saw(mutant, test)
        line = {"name": mutant.name, "file": mutant.file, "digest": digest(mutant.file),
                "verdict": verdict, "words": words, "met": met + now}  # fmt: skip
        with VERDICTS.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        took = time.monotonic() - began
        print(f"{i}/{len(sample)} {took:5.1f} s  {verdict}  {mutant}  [{words}]", flush=True)


if __name__ == "__main__":
    sys.exit(main())
