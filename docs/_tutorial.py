"""Follow the tutorial word for word in a fresh environment, and time the first answer.

    python docs/_tutorial.py       # `make tutorial`

Builds the wheel, makes a virtual environment with nothing else in it, and does what
docs/tutorial.md says, in order: writes its files, runs its lines, compares what they show.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FIRST: Final = "discreet ask"
MOST: Final = 180.0
"""Seconds from the beginning of the installation to the first answer."""


def _checker() -> ModuleType:
    """Load what reads and compares pages: the same code that tests all of them."""
    spec = importlib.util.spec_from_file_location("docs", ROOT / "tests" / "docs" / "test_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs"] = module  # its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def _run(*words: object, **more: object) -> None:
    subprocess.run([str(w) for w in words], check=True, **more)  # type: ignore[call-overload]  # noqa: S603 - our own words


def follow(folder: Path) -> float:
    """Do what the page says; return the seconds to the first answer."""
    docs, page = _checker(), (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "-w", folder, ROOT)  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    begin, first = time.monotonic(), 0.0
    venv.create(folder / "env", with_pip=True)
    own = folder / "env" / "bin"
    _run(own / "python", "-m", "pip", "install", "--quiet", wheel)
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    kept["PATH"] = f"{own}{os.pathsep}{kept['PATH']}"
    kept["XDG_STATE_HOME"] = str(folder / "state")  # an account that has not done the page before
    work = folder / "work"
    work.mkdir()
    for block in docs.blocks(page):
        if block.file is not None:
            (work / block.file).write_text(block.code, "utf-8")
            continue
        words = block.code if block.language == "console" else "python -"
        given = None if block.language == "console" else block.code
        done = subprocess.run(  # noqa: S602 - the page's own lines
            words,
            shell=True,
            cwd=work,
            env=kept,
            input=given,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if block.language == "console":
            wrong = docs.disagreement(block.expected, done.stdout, noisy=block.noisy)
            assert wrong is None, f"line {block.line}: {wrong}"
        else:
            assert done.returncode == 0, done.stdout
        if not first and block.code.startswith(FIRST):
            first = time.monotonic() - begin
    return first


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        seconds = follow(Path(place))
    sys.stdout.write(f"first answer {seconds:.0f} s after the installation began\n")
    if not 0 < seconds < MOST:
        raise SystemExit(1)
