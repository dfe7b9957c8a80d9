"""Notebooks of examples/: run them, keep what they show, write them as pages of the site.

A notebook is JSON, and its cells are Python: running them needs no server and no kernel. What
the last line of a cell gives is shown as Jupyter shows it: a picture, a table, or text.

    python docs/_notebooks.py      # run all of them and store their output
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
NOTEBOOKS: Final = sorted((ROOT / "examples").glob("*.ipynb"))
PAGES: Final = ROOT / "docs" / "notebooks"
_SHOWN: Final = ("image/svg+xml", "text/html", "text/plain")


def read(path: Path) -> dict[str, Any]:
    """Read a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the cells in order, in a new folder; return the notebook with what they show."""
    names: dict[str, Any] = {"__name__": "__main__"}
    done, count, home = [], 0, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] != "code":
                    done.append(cell)
                    continue
                count += 1
                outputs = _outputs("".join(cell["source"]), names, count)
                done.append({**cell, "execution_count": count, "outputs": outputs})
        finally:
            for value in names.values():  # files of an engine are still open
                if hasattr(value, "close") and hasattr(value, "ledger"):
                    value.close()
            os.chdir(home)
    return {**notebook, "cells": done}


def _outputs(code: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), names)  # noqa: S102 - our own examples
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)  # noqa: S307 - likewise
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if value is not None:
        data = {kind: lines(text) for kind, text in _bundle(value).items()}
        found.append({"output_type": "execute_result", "execution_count": count,
                      "data": data, "metadata": {}})  # fmt: skip
    return found


def _bundle(value: Any) -> dict[str, str]:
    if hasattr(value, "_repr_mimebundle_"):
        return dict(value._repr_mimebundle_())
    html = value._repr_html_() if hasattr(value, "_repr_html_") else None
    return ({"text/html": html} if html else {}) | {"text/plain": repr(value)}


def lines(text: str) -> list[str]:
    """Split a text as notebooks store it."""
    return text.splitlines(keepends=True)


def page(notebook: dict[str, Any]) -> str:
    """Write a notebook that was run as Markdown."""
    return "\n\n".join(part for cell in notebook["cells"] for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        shown = output.get("data", {"text/plain": output.get("text", [])})
        kind = next(k for k in _SHOWN if k in shown)
        text = "".join(shown[kind])
        if kind == "text/plain":
            yield f"```text\n{text.rstrip()}\n```"
        else:
            # an empty line would end the HTML
            body = "\n".join(line for line in text.splitlines() if line.strip())
            yield f'<div class="output" style="overflow-x:auto">\n{body}\n</div>'


def write_pages() -> None:
    """Write every notebook, as it was last run, into the folder of the site."""
    PAGES.mkdir(exist_ok=True)
    for path in NOTEBOOKS:
        text = page(read(path))
        target = PAGES / f"{path.stem}.md"
        if not target.exists() or target.read_text("utf-8") != text:
            target.write_text(text, "utf-8")


if __name__ == "__main__":
    for path in NOTEBOOKS:
        done = run(read(path))
        path.write_text(json.dumps(done, ensure_ascii=False, indent=1) + "\n", "utf-8")
        sys.stdout.write(f"{path.name}: {len(done['cells'])} cells\n")
