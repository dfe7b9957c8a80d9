"""Declared releases from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discreet.cli._console import clean
from discreet.cli._outcome import Reply, UsageError


def run(words: list[str], *, dummy: bool, output: str | None, **where: Any) -> Reply:
    """Publish, or only preview, the release that a file declares."""
    from discreet import release  # noqa: PLC0415 - loads when asked

    looking = len(words) == 2 and words[0] == "preview"
    if not looking and len(words) != 1:
        raise UsageError("name one release plan", hint="discreet release plan.toml")
    plan = Path(words[-1])
    outcome: Any = (
        release.preview(plan, **where)
        if looking
        else release.run(plan, dummy=dummy, output=output, **where)
    )
    return Reply(
        outcome.to_dict(),
        lambda console: console.print(clean(repr(outcome), lines=True), markup=False),
    )
