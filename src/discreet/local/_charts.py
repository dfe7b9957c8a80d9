"""Charts of estimates and of what to expect, as Vega-Lite dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from discreet.local._intervals import Interval

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


def bars(estimate: Any, labels: Sequence[Any], centre: Any, ends: Interval) -> dict[str, Any]:
    """Draw bars with error bars, one per item."""
    centre, low, high = (np.ravel(x) for x in (centre, ends.low, ends.high))
    data = [
        {"item": str(name), "share": float(f), "low": float(a), "high": float(b)}
        for name, f, a, b in zip(labels, centre, low, high, strict=True)
    ]
    y = {"field": "item", "type": "nominal", "sort": None, "title": None}
    return {
        "$schema": _SCHEMA,
        "title": {
            "text": f"{estimate.n} reports, ε = {estimate.loss.epsilon():.6g}, "
            f"{100 * ends.confidence:.4g} % intervals for {ends.covers}",
            "fontSize": 11,
        },
        "data": {"values": data},
        "layer": [
            {
                "mark": {"type": "bar", "opacity": 0.6},
                "encoding": {
                    "y": y,
                    "x": {"field": "share", "type": "quantitative", "title": "share"},
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {
                    "y": y,
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                },
            },
        ],
    }


def lines(
    rows: Iterable[Mapping[str, Any]], *, x: str, y: str, colour: str, title: str
) -> dict[str, Any]:
    """Draw lines on logarithmic axes."""
    return {
        "$schema": _SCHEMA,
        "title": title,
        "data": {"values": [dict(r) for r in rows]},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": x, "type": "quantitative", "scale": {"type": "log"}},
            "y": {"field": y, "type": "quantitative", "scale": {"type": "log"}},
            "color": {"field": colour, "type": "nominal"},
        },
    }
