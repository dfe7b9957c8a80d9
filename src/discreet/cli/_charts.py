"""Charts as files: SVG, PNG, or one HTML page that needs no network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from discreet.cli._outcome import UsageError
from discreet.cli._session import check_writable, write

FORMS: Final = (".svg", ".png", ".html", ".json")
_PNG_SCALE: Final = 2.0
# The page draws with Vega, which compiles expressions; it may not connect anywhere.
_POLICY: Final = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:\">"
)


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
        write(path, json.dumps(spec, ensure_ascii=False, indent=1) + "\n")
        return
    renderer = _renderer()
    if form == ".svg":
        write(path, str(renderer.vegalite_to_svg(dict(spec))))
    elif form == ".png":
        write(path, bytes(renderer.vegalite_to_png(dict(spec), scale=_PNG_SCALE)))
    else:
        page = str(renderer.vegalite_to_html(dict(spec), bundle=True))
        write(path, page.replace("<head>", f"<head>{_POLICY}", 1))


def _renderer() -> Any:
    try:
        import vl_convert  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise UsageError(
            "drawing charts needs the extra 'charts' (a .json chart does not)",
            hint='pip install "discreet[charts]"',
        ) from None
    return vl_convert
