"""Charts as files: SVG, PNG, or one HTML page that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from discreet._text import json_safe
from discreet.cli._outcome import UsageError
from discreet.cli._session import check_writable, write

FORMS: Final = (".svg", ".png", ".html", ".json")
_PNG_SCALE: Final = 2.0
_EMPTY: Final[Mapping[str, Any]] = {"data": {"values": []}, "mark": "point"}
_PLACE: Final = re.compile(r"const spec = \{[^\n]*\};")
_SCRIPT: Final = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)


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
    renderer = _renderer()
    if form == ".svg":
        write(path, str(renderer.vegalite_to_svg(dict(spec))))
    elif form == ".png":
        write(path, bytes(renderer.vegalite_to_png(dict(spec), scale=_PNG_SCALE)))
    else:
        write(path, _page(str(renderer.vegalite_to_html(dict(_EMPTY), bundle=True)), spec))


def _page(frame: str, spec: Mapping[str, Any]) -> str:
    """Put a chart into the renderer's page for an empty one.

    Labels come from data and from anybody's records. No ``<`` of theirs stands in the
    page, and only the two scripts that we have written into it may run, by their hashes.
    Vega compiles expressions, so these two may evaluate; nothing may connect anywhere.
    """
    text = json.dumps(spec, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    page, places = _PLACE.subn(lambda _: f"const spec = {text};", frame)
    if places != 1:
        raise UsageError(
            "this version of vl-convert writes pages of an unknown shape",
            hint="--chart chart.svg",
        )
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in _SCRIPT.findall(page))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return page.replace("<head>", f"<head>{meta}", 1)


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _renderer() -> Any:
    try:
        import vl_convert  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise UsageError(
            "drawing charts needs the extra 'charts' (a .json chart does not)",
            hint='pip install "discreet[charts]"',
        ) from None
    return vl_convert
