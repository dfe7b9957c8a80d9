"""What every chart here is made of: Vega-Lite dictionaries that can be drawn and saved."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from discreet._text import json_safe, visible
from discreet.errors import ParameterError

FORMS: Final = (".svg", ".png", ".html", ".json")
"""Endings of the files that a chart can be saved as."""

_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
_PNG_SCALE: Final = 2.0
_RULES: Final = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


class Chart(dict[str, Any]):
    """A Vega-Lite specification that notebooks draw and that can be saved as a picture.

    Drawing needs the extra ``discreet[charts]``; the specification itself does not.

    >>> Chart({"mark": "point"})["mark"]
    'point'
    """

    def svg(self) -> str:
        """Return the picture as SVG."""
        return str(_renderer().vegalite_to_svg(_drawable(self)))

    def png(self) -> bytes:
        """Return the picture as PNG, for screens of double density."""
        return bytes(_renderer().vegalite_to_png(_drawable(self), scale=_PNG_SCALE))

    def html(self) -> str:
        """Return a page that shows the picture, runs nothing and loads nothing.

        Labels come from data and from anybody's records. In an image nothing of them can
        become markup or script, and the page's own rules allow neither scripts nor connections.
        """
        image = base64.b64encode(self.svg().encode()).decode()
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta '
            f'http-equiv="Content-Security-Policy" content="{_RULES}"><title>chart</title></head>'
            f'<body><img alt="chart" src="data:image/svg+xml;base64,{image}"></body></html>\n'
        )

    def json(self) -> str:
        """Return the specification as text."""
        return json_safe(json.dumps(self, ensure_ascii=False, indent=1)) + "\n"

    def content(self, form: str) -> str | bytes:
        """Return what a file with this ending holds."""
        ways: dict[str, Callable[[], str | bytes]]
        ways = {".svg": self.svg, ".png": self.png, ".html": self.html, ".json": self.json}
        if form.lower() not in ways:
            raise ParameterError(
                f"a chart's file ends in {', '.join(FORMS)}, not {form or 'nothing'!r}",
                hint='chart.save("chart.svg")',
            )
        return ways[form.lower()]()

    def save(self, path: str | Path) -> None:
        """Write the chart to a file; its ending (.svg, .png, .html, .json) says how."""
        target = Path(path)
        content = self.content(target.suffix)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """Draw it in a notebook: as a picture, or as Vega-Lite where no renderer is installed."""
        words = {"text/plain": f"chart: {self._title()}"}
        try:
            return {"image/svg+xml": self.svg()} | words
        except ParameterError:
            return {"application/vnd.vegalite.v5+json": dict(self)} | words

    def _title(self) -> str:
        """Read what stands above: a line, several, or either with a style."""
        title = self.get("title", "")
        text = title.get("text", "") if isinstance(title, Mapping) else title
        return text if isinstance(text, str) else " ".join(text)


def _renderer() -> Any:
    try:
        import vl_convert  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise ParameterError(
            "drawing charts needs the extra 'charts' (a .json chart does not)",
            hint='pip install "discreet[charts]"',
        ) from None
    return vl_convert


def check_renderer() -> None:
    """Refuse a picture that could not be drawn."""
    _renderer()


def _drawable(value: Any) -> Any:
    """Take out characters that no image can hold: the renderer ends the process at some."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {key: _drawable(item) for key, item in value.items()}
    return [_drawable(item) for item in value] if isinstance(value, list | tuple) else value


# -- words --------------------------------------------------------------------------


def chart(title: Any, values: Iterable[Mapping[str, Any]] | None = None, **more: Any) -> Chart:
    """Make a specification, of these rows where all of its layers have the same."""
    head = {"$schema": _SCHEMA, "title": title}
    return Chart(head | ({} if values is None else {"data": {"values": list(values)}}) | more)


def layer(kind: str, encoding: Mapping[str, Any], **mark: Any) -> dict[str, Any]:
    """Draw marks of a kind."""
    return {"mark": {"type": kind, **mark}, "encoding": encoding}


def number(field: str, **more: Any) -> dict[str, Any]:
    """Place marks by a number."""
    return {"field": field, "type": "quantitative", **more}


def name(field: str, **more: Any) -> dict[str, Any]:
    """Place marks by a name."""
    return {"field": field, "type": "nominal", **more}


def between(axis: str, low: Mapping[str, Any]) -> dict[str, Any]:
    """Reach from the low to the high end of an interval."""
    return {axis: low, f"{axis}2": {"field": "high"}}
