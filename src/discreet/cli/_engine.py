"""``discreet engine``: the conformance kit on an engine that a URL names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli._options import command
from discreet.cli._outcome import Reply

if TYPE_CHECKING:
    from rich.console import Console

engine_app = typer.Typer(
    help="Engines: does one give the reference's integers?",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@engine_app.callback()
def _group() -> None:
    """Keep the group a group, though it has one command."""


@command(engine_app, "engine check")
def check(
    url: Annotated[str, "URL", "duckdb:, postgresql://…, spark://, sc://HOST, or module:function."],
    *,
    rows: Annotated[int, "Made-up rows.", {"min": 1}] = 400,
    every: Annotated[int, "Ask every n-th case only.", {"min": 1}] = 1,
) -> Reply:
    """Put made-up rows into an engine, ask everything, and compare with the reference."""
    # what is being written stands in the folder where one works, and is found last
    sys.path.append(str(Path.cwd()))
    from discreet import testing  # noqa: PLC0415 - only for this command
    from discreet.cli._console import grid, say, show_table, working  # noqa: PLC0415 - as above

    with working("asking the engine and the reference"):
        report = testing.check_url(url, rows=rows, every=every)
    checks = [{"check": c.name, "passed": c.passed, "words": c.words} for c in report.checks]

    def show(console: Console) -> None:
        lines = [["pass" if c.passed else "FAIL", c.name, c.words] for c in report.checks]
        show_table(console, grid(["", "check", "what was seen"], lines, keys=2))
        console.print()
        say(console, "nothing found" if report.ok else f"{len(report.failures)} found")

    return Reply({"ok": report.ok, "checks": checks}, show, found=not report.ok)
