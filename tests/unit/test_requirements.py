"""What is installed is what was pinned: every pin has a hash, and no place is named."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"[A-Za-z0-9._-]+==[^\s;]+( \\\n    --hash=sha256:[0-9a-f]{64})+")
INSTALL = re.compile(r"pip install .*-r (requirements/\S+)")


def unpinned(text):
    """Lines of a file of requirements that pip could answer with more than one set of files."""
    return [
        line for line in PIN.sub("", text).splitlines() if line.strip() and not line.startswith("#")
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_pin_has_a_hash(file):
    text = file.read_text()
    assert len(PIN.findall(text)) > 40
    assert unpinned(text) == []
    assert "://" not in text
    # a pin without a hash, a range, an option and a short hash are seen
    digest = "0" * 63
    for bad in ("a==1", "a>=1", "--pre", f"a==1 \\\n    --hash=sha256:{digest}", "https://x/a.whl"):
        assert unpinned(f"{text}{bad}\n")


def test_all_that_is_installed_is_checked_against_hashes():
    installed = INSTALL.findall((ROOT / "Makefile").read_text())
    assert sorted(installed) == [f"requirements/{file.name}" for file in FILES]
    for line in (ROOT / "Makefile").read_text().splitlines():
        if INSTALL.search(line):
            assert "--require-hashes" in line
        elif "pip install" in line:  # the project itself: nothing is fetched
            assert "--no-deps --no-build-isolation -e ." in line
    assert "pip install" not in (ROOT / ".ci" / "run").read_text()


def missing(text):
    """What packages of a file ask for and it lacks, as far as the same versions are installed."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    pins = {canonicalize_name(name): version for name, version in found}
    here = {canonicalize_name(d.name): d for d in metadata.distributions()}
    known = [here[n] for n, v in pins.items() if n in here and here[n].version == v]
    asked = [Requirement(line) for d in known for line in d.requires or ()]
    needed = {r.name for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})}
    return {name for name in needed if canonicalize_name(name) not in pins}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_pins_ask_for_is_pinned_too(file):
    text = file.read_text()
    assert missing(text) == set()
    assert missing(text.replace("pydantic_core==", "pydantic_other==")) == {"pydantic-core"}
