"""Charts of publications, as Vega-Lite dictionaries.

A table that fits on a page is drawn row by row: its label, its number, its interval. A large
one over two axes is a map, any other large one a line over the queries in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet.release._domain import EVERY, Domain

ROWS: Final = 60
"""Most rows that are drawn with their labels."""

_POINTS: Final = 2000
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
_COLOUR: Final = "#0072b2"


def rows(
    columns: Mapping[str, Sequence[str]], table: Mapping[str, NDArray[np.float64]], title: str
) -> dict[str, Any]:
    """Draw one line for each row of a table; a row whose value is NaN is left empty.

    Parameters
    ----------
    columns
        What each row asks.
    table
        The columns ``value`` and, where known, ``low`` and ``high``.
    title
        Title of the chart.
    """
    names: list[str] = []
    for parts in zip(*columns.values(), strict=True):
        name = " · ".join(part for part in parts if part != EVERY) or EVERY
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    values = [
        {"row": name} | {k: float(v[i]) for k, v in table.items() if not np.isnan(v[i])}
        for i, name in enumerate(names)
    ]
    label = {"field": "row", "type": "ordinal", "sort": None, "title": " · ".join(columns)}
    layers: list[dict[str, Any]] = []
    if "low" in table:
        ends = {"x": _number("low"), "x2": {"field": "high"}}
        layers.append({"mark": {"type": "rule", "color": _COLOUR}, "encoding": ends})
    dot = {"type": "point", "filled": True, "size": 40, "color": _COLOUR}
    layers.append({"mark": dot, "encoding": {"x": _number("value")}})
    return {
        "$schema": _SCHEMA,
        "title": title,
        "width": 420,
        "data": {"values": values},
        "encoding": {"y": label},
        "layer": layers,
    }


def grid(domain: Domain, estimate: NDArray[Any], title: str) -> dict[str, Any]:
    """Draw counts over two axes as a map."""
    (down, across), (first, second) = domain.names, domain.values
    return {
        "$schema": _SCHEMA,
        "title": title,
        "data": {
            "values": [
                {down: first[r], across: second[c], "count": float(v)}
                for (r, c), v in np.ndenumerate(estimate)
            ]
        },
        "encoding": {
            "x": {"field": across, "type": "ordinal", "sort": None},
            "y": {"field": down, "type": "ordinal", "sort": None},
            "color": {"field": "count", "type": "quantitative"},
        },
        "layer": [{"mark": "rect"}],
    }


def line(table: Mapping[str, NDArray[np.float64]], title: str) -> dict[str, Any]:
    """Draw many numbers over their place in the workload, with a band where one is known."""
    n = len(table["value"])
    at = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).astype(np.int64))  # enough for any screen
    values = [
        {"query": int(i)} | {k: float(v[i]) for k, v in table.items() if not np.isnan(v[i])}
        for i in at
    ]
    layers: list[dict[str, Any]] = []
    if "low" in table:
        ends = {"y": _number("low"), "y2": {"field": "high"}}
        layers.append({"mark": {"type": "area", "opacity": 0.3}, "encoding": ends})
    layers.append({"mark": "line", "encoding": {"y": _number("value")}})
    return {
        "$schema": _SCHEMA,
        "title": title,
        "width": 420,
        "data": {"values": values},
        "encoding": {"x": {"field": "query", "type": "quantitative"}},
        "layer": layers,
    }


def _number(name: str) -> dict[str, Any]:
    return {"field": name, "type": "quantitative", "title": "value"}
