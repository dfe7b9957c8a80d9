"""The notebooks of examples/ run, and what they store is what the site shows.

They draw real noise and check nothing about it, so chance cannot fail them.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _load():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = _load()


def shapes(notebook):
    """What each cell shows, by kind."""
    return [
        [sorted(o.get("data", {o["output_type"]: ""})) for o in cell.get("outputs", ())]
        for cell in notebook["cells"]
    ]


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_and_shows_what_it_stores(path):
    stored = notebooks.read(path)
    done = notebooks.run(stored)
    assert shapes(done) == shapes(stored), "run: make notebooks"
    assert any("image/svg+xml" in kinds for cell in shapes(done) for kinds in cell)
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda p: p.stem)
def test_a_page_holds_every_cell_and_picture(path):
    stored = notebooks.read(path)
    text = notebooks.page(stored)
    assert text.startswith("# ")
    assert text.count("<svg") == sum(
        "image/svg+xml" in kinds for cell in shapes(stored) for kinds in cell
    )
    for cell in stored["cells"]:
        assert "".join(cell["source"]) in text
    listed = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert f"notebooks/{path.stem}\n" in listed


def test_there_is_a_notebook_for_each_shared_table_and_two_more():
    assert {p.stem for p in notebooks.NOTEBOOKS} >= {"adult", "hospital", "web_log", "budget"}


def test_a_cell_that_fails_fails_the_run():
    cell = {"cell_type": "code", "source": ["1 / 0"], "outputs": []}
    with pytest.raises(ZeroDivisionError):
        notebooks.run({"cells": [cell]})


def test_nothing_of_the_machine_is_stored():
    for path in notebooks.NOTEBOOKS:
        assert not re.search(r"/(?:home|root|tmp|work|Users)/", json.dumps(notebooks.read(path)))
