"""Charts of publications, as Vega-Lite dictionaries.

A table that fits on a page is drawn row by row: its label, its number, its interval; numbers of
different sizes (levels of a hierarchy, marginals) have panels of their own, each with its scale.
A large table over two axes is a map, any other large one a line over the queries in their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet import _vega
from discreet.release._domain import BETWEEN, EVERY, Domain

ROWS: Final = 60
"""Most rows that are drawn with their labels."""

_POINTS: Final = 2000
_WIDTH: Final = 420
_COLOUR: Final = "#0072b2"


def rows(
    columns: Mapping[str, Sequence[str]],
    panels: Sequence[str],
    table: Mapping[str, NDArray[np.float64]],
    title: str,
) -> _vega.Chart:
    """Draw one line for each row of a table; a row whose value is NaN is left empty.

    Parameters
    ----------
    columns
        What each row asks.
    panels
        Name of the panel of each row.
    table
        The columns ``value`` and, where known, ``low`` and ``high``.
    title
        Title of the chart.
    """
    names: list[str] = []
    for parts in zip(*columns.values(), strict=True):
        name = " · ".join(part for part in parts if part != EVERY) or EVERY
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    values: dict[str, list[dict[str, Any]]] = {panel: [] for panel in panels}
    for i, (name, panel) in enumerate(zip(names, panels, strict=True)):
        numbers = {k: float(v[i]) for k, v in table.items() if not np.isnan(v[i])}
        values[panel].append({"row": name} | numbers)
    layers: list[dict[str, Any]] = []
    if "low" in table:
        layers.append(_vega.layer("rule", _vega.between("x", _number("low")), color=_COLOUR))
    dot = {"filled": True, "size": 40, "color": _COLOUR}
    layers.append(_vega.layer("point", {"x": _number("value")}, **dot))
    label = {"field": "row", "type": "ordinal", "sort": None, "title": None}
    body: dict[str, Any] = {"width": _WIDTH, "encoding": {"y": label}, "layer": layers}
    if len(values) == 1:
        label["title"] = " · ".join(columns)
        return _vega.chart(title, values[panels[0]], **body)
    charts = [
        {"title": {"text": panel, "anchor": "start", "fontSize": 11}, **body,
         "data": {"values": content}}
        for panel, content in values.items()
    ]  # fmt: skip
    return _vega.chart(title, vconcat=charts)


def grid(domain: Domain, counts: NDArray[Any], title: str) -> _vega.Chart:
    """Draw counts over two axes as a map; cells that are NaN stay empty."""
    (down, across), (first, second) = domain.names, domain.values
    tall, wide = counts.shape
    size = min(16.0, 640 / max(tall, wide))
    width, height = max(wide * size, 80.0), max(tall * size, 80.0)
    values = [
        {down: first[r], across: second[c], "count": float(v)}
        for (r, c), v in np.ndenumerate(counts)
        if not np.isnan(v)
    ]
    encoding = {
        "x": _side(across, second, width / wide),
        "y": _side(down, first, height / tall),
        "color": _vega.number("count", scale={"scheme": "viridis"}),
    }
    more = {"width": width, "height": height, "encoding": encoding, "layer": [{"mark": "rect"}]}
    return _vega.chart(title, values, **more)


def _side(name: str, values: Sequence[str], size: float) -> dict[str, Any]:
    """One side of a map, with as many labels as there is room for."""
    every = max(1, math.ceil(14 / size))
    axis = {"values": list(values[::every]), "labelOverlap": True}
    return {"field": name, "type": "ordinal", "sort": list(values), "axis": axis}


def line(
    table: Mapping[str, NDArray[np.float64]], title: str, domain: Domain | None = None
) -> _vega.Chart:
    """Draw many numbers over their place in the workload, with a band where one is known.

    A `domain` of one axis names the place, where each query belongs to a value of it.
    """
    n = len(table["value"])
    name, places = _places(domain, n)
    at = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).astype(np.int64))  # enough for any screen
    values = [
        {"place": places[i]} | {k: float(v[i]) for k, v in table.items() if not np.isnan(v[i])}
        for i in at.tolist()
    ]
    layers: list[dict[str, Any]] = []
    if "low" in table:
        layers.append(_vega.layer("area", _vega.between("y", _number("low")), opacity=0.3))
    layers.append({"mark": "line", "encoding": {"y": _number("value")}})
    encoding = {"x": _vega.number("place", title=name)}
    return _vega.chart(title, values, width=_WIDTH, encoding=encoding, layer=layers)


def _places(domain: Domain | None, n: int) -> tuple[str, list[float]]:
    """Name of the places of a line, and the numbers that stand for them."""
    if domain is not None and len(domain.names) == 1 and len(domain.values[0]) == n:
        try:
            return domain.names[0], [float(v.split(BETWEEN)[-1]) for v in domain.values[0]]
        except ValueError:
            pass  # words have no place on a line
    return "query", list(map(float, range(n)))


def _number(name: str) -> dict[str, Any]:
    return _vega.number(name, title="value")
