"""How an answer looks on the command line, as a table and as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from discreet._exact import confidence as read_confidence
from discreet._print import plural
from discreet.answer import Answer, cells, footer
from discreet.cli._console import grid, say, show_table

if TYPE_CHECKING:
    from rich.console import Console

MOST: Final = 500
"""Rows that are printed."""


def show(console: Console, answer: Answer, confidence: str, *, simultaneous: bool = False) -> None:
    """Print every row with its margins, then price and what is left."""
    values, ends = answer.to_dicts(), answer.interval(confidence, simultaneous=simultaneous)
    names = answer.columns
    noisy = [i for i, n in enumerate(names) if ends and isinstance(ends[0][n], tuple)]
    rows = cells(answer, ends, MOST)
    keys = next((i for i in range(len(names)) if i in noisy), len(names))
    for fact in answer.cut:
        say(console, fact)
    show_table(console, grid(names, rows, right=noisy, keys=keys))
    if len(values) > MOST:
        surplus = len(values) - MOST
        say(
            console, f"… {plural(surplus, 'more row')}: --json prints all, --save keeps them", "dim"
        )
    level = f"{100 * read_confidence(confidence):.6g} %"
    all_at_once = ", all at once" if simultaneous else ""
    say(console, footer(answer, level + all_at_once), "dim")
