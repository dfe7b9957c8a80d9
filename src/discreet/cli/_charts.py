"""Charts as files, checked before anything is paid for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.answer import FORMS, Chart, check_renderer
from discreet.cli._outcome import UsageError
from discreet.cli._session import check_writable, write


def check_chart(path: Path | None) -> None:
    """Refuse a chart that could not be drawn, before anything is paid for."""
    if path is None:
        return
    if path.suffix.lower() not in FORMS:
        raise UsageError(
            f"a chart's file ends in {', '.join(FORMS)}, not {path.suffix or 'nothing'!r}",
            hint=f"--chart {path.with_suffix('.svg')}",
        )
    check_writable(path, "the chart")
    if path.suffix.lower() != ".json":
        check_renderer()


def draw(spec: Mapping[str, Any], path: Path) -> None:
    """Write a Vega-Lite chart in the form that the file's name asks for."""
    write(path, Chart(spec).content(path.suffix))
