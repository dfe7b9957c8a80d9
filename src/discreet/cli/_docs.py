"""``discreet docs``: the pages that came with the program, in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.markdown import Markdown

import discreet
from discreet.cli._console import grid, say, show_table
from discreet.cli._outcome import Reply, UsageError

if TYPE_CHECKING:
    from rich.console import Console

_HOME: Final = Path(discreet.__file__).parent
_PLACES: Final = (_HOME / "_docs", _HOME.parents[1] / "docs")
"""Where pages are: in an installed package, or beside the sources."""


def run(page: str | None) -> Reply:
    """Show a page, or list them all."""
    pages = {path.stem: path for path in _pages()}
    if page is None:
        titles = {name: _title(path) for name, path in pages.items()}

        def listed(console: Console) -> None:
            show_table(console, grid(("page", "about"), list(titles.items())))
            say(console, "\nRead one: discreet docs tutorial")

        return Reply({"pages": titles}, listed)
    file = pages.get(page.removesuffix(".md"))
    if file is None:
        raise UsageError("there is no such page", hint="discreet docs")
    text = file.read_text("utf-8")

    def show(console: Console) -> None:
        if console.is_terminal:
            console.print(Markdown(text))
        else:
            console.out(text, highlight=False, end="")

    return Reply({"page": file.stem, "text": text}, show)


def _pages() -> list[Path]:
    for place in _PLACES:
        files = sorted(place.glob("*.md"))
        if files:
            return [path for path in files if path.stem != "index"]
    return []


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()
