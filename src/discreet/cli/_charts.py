"""Charts as files: SVG, PNG, or one HTML page that needs no network."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from discreet._text import json_safe, visible
from discreet.cli._outcome import UsageError
from discreet.cli._session import check_writable, write

FORMS: Final = (".svg", ".png", ".html", ".json")
_PNG_SCALE: Final = 2.0
_RULES: Final = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


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
        _renderer()


def draw(spec: Mapping[str, Any], path: Path) -> None:
    """Write a Vega-Lite chart in the form that the file's name asks for."""
    form = path.suffix.lower()
    if form == ".json":
        write(path, json_safe(json.dumps(spec, ensure_ascii=False, indent=1)) + "\n")
        return
    renderer, shown = _renderer(), _shown(spec)
    if form == ".png":
        write(path, bytes(renderer.vegalite_to_png(shown, scale=_PNG_SCALE)))
        return
    svg = str(renderer.vegalite_to_svg(shown))
    write(path, svg if form == ".svg" else _page(svg))


def _shown(value: Any) -> Any:
    """Take out characters that no image can hold: the renderer ends the process at some."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value


def _page(svg: str) -> str:
    """Put a drawn chart into a page that runs nothing.

    Labels come from data and from anybody's records. In an image nothing of them can
    become markup or script, and the page's own rules allow neither scripts nor connections:
    Vega's own page would need to evaluate text as code.
    """
    image = base64.b64encode(svg.encode()).decode()
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_RULES}"><title>chart</title></head>'
        f'<body><img alt="chart" src="data:image/svg+xml;base64,{image}"></body></html>\n'
    )


def _renderer() -> Any:
    try:
        import vl_convert  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise UsageError(
            "drawing charts needs the extra 'charts' (a .json chart does not)",
            hint='pip install "discreet[charts]"',
        ) from None
    return vl_convert
