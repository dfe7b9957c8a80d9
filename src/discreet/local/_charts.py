"""Charts of estimates and of what to expect, as Vega-Lite dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from discreet import _vega
from discreet.local._intervals import Interval


def bars(estimate: Any, labels: Sequence[Any], centre: Any, ends: Interval) -> _vega.Chart:
    """Draw bars with error bars, one per item."""
    centre, low, high = (np.ravel(x) for x in (centre, ends.low, ends.high))
    data = [
        {"item": str(name), "share": float(f), "low": float(a), "high": float(b)}
        for name, f, a, b in zip(labels, centre, low, high, strict=True)
    ]
    title = (
        f"{estimate.n} reports, ε = {estimate.loss.epsilon():.6g}, "
        f"{100 * ends.confidence:.4g} % intervals for {ends.covers}"
    )
    y = _vega.name("item", sort=None, title=None)
    share = {"y": y, "x": _vega.number("share", title="share")}
    reach = {"y": y, **_vega.between("x", _vega.number("low"))}
    return _vega.chart(
        {"text": title, "fontSize": 11},
        data,
        layer=[
            _vega.layer("bar", share, opacity=0.6),
            _vega.layer("rule", reach, strokeWidth=2),
        ],
    )


def lines(
    rows: Iterable[Mapping[str, Any]], *, x: str, y: str, colour: str, title: str
) -> _vega.Chart:
    """Draw lines on logarithmic axes."""
    log = {"scale": {"type": "log"}}
    encoding = {
        "x": _vega.number(x, **log), "y": _vega.number(y, **log), "color": _vega.name(colour),
    }  # fmt: skip
    return _vega.chart(title, map(dict, rows), **_vega.layer("line", encoding, point=True))
