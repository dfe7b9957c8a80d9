"""Charts of answers: every number with its interval, as Vega-Lite, SVG, PNG or a page.

Groups stand below each other, dates and long runs of numbers on an axis of their own. The title is
the question, the lines below it say what the bars cover and what was left out. Colours are
those of Okabe and Ito, which people with any kind of colour vision tell apart.
"""

from __future__ import annotations

import datetime as dt
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from discreet import _vega
from discreet._print import plural
from discreet._text import visible
from discreet._vega import Chart

if TYPE_CHECKING:
    from discreet.answer._answer import Answer

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_GROUPS: Final = 40
"""Most groups that are drawn below each other."""
_POINTS: Final = 1000
"""Most rows that are drawn along an axis."""
_BARS: Final = 60
"""Most points of a line with a bar each; more have a band."""
_AXIS: Final = 12
"""From so many numbers on, a key of numbers is an axis."""
_WIDTHS: Final = (420, 270, 180)
"""Width of a panel, by how many stand side by side."""
_LINE: Final = 88


def chart(answer: Answer, confidence: float, title: str | None = None) -> Chart:
    """Draw an answer: one panel for each noisy column, an interval for each number."""
    values, ends = answer.to_dicts(), answer.interval(confidence)
    noisy = [n for n in answer.columns if ends and isinstance(ends[0][n], tuple)]
    labels = [n for n in answer.columns if n not in noisy]
    words = [n for n in noisy if any(isinstance(row[n], str | list | tuple) for row in values)]
    noisy = [n for n in noisy if n not in words]
    if words and not noisy:
        return _words(answer, words, labels, title)
    # panels share the kind of their axis: numbers, or moments where there are no numbers
    dated = all(n in answer.moments for n in noisy)
    left_out = words + [n for n in noisy if (n in answer.moments) != dated]
    noisy = [n for n in noisy if n not in left_out]
    axis = _axis(values, labels)
    most = _GROUPS if axis is None else _POINTS
    rows = list(zip(values, ends, strict=True))[:most]
    others = [n for n in labels if n != axis]
    data, unknown = _data(rows, answer.totals[:most], noisy, others, axis)
    notes = [f"points with {100 * confidence:.6g} % intervals", answer.margins]
    notes += [*_chosen(answer), *answer.target]
    if len(values) > most:
        notes.append(f"the first {most} of {plural(len(values), 'row')}")
    if left_out:
        notes.append(f"{', '.join(left_out)} not drawn beside numbers")
    if unknown:
        notes.append(f"{plural(unknown, 'number')} not determined and not drawn")
    series = len({row["group"] for row in data}) if axis is not None and others else 1
    columns = 1 if axis is not None else max(1, min(len(_WIDTHS), len(noisy)))
    spec = (
        _groups(others, _WIDTHS[columns - 1])
        if axis is None
        else _run(values, axis, others, len(data), series)
    )
    if dated and noisy:
        spec = _temporal(spec)
    heading = title or answer.question or _described(noisy, labels)
    return Chart(
        _head(heading, notes)
        | _panels(data, noisy, spec)
        | {
            "columns": columns,
            "resolve": {"scale": {"x" if axis is None else "y": "independent"}},
        }
    )


def _head(heading: str, notes: Sequence[str]) -> dict[str, Any]:
    """The title, and a line of notes below it."""
    return _vega.chart(
        {
            "text": _lines(heading, 3),
            "subtitle": _lines("; ".join(notes), 4),
            "anchor": "start",
            "fontSize": 14,
            "subtitleFontSize": 11,
            "subtitleColor": "#444444",
            "subtitlePadding": 4,
            "offset": 12,
        }
    )


def _panels(
    data: list[dict[str, Any]], names: Sequence[str], spec: dict[str, Any]
) -> dict[str, Any]:
    """One panel for each column."""
    return {
        "data": {"values": data},
        "facet": {"field": "column", "type": "nominal", "title": None, "sort": names},
        "spec": spec,
        "config": {"header": {"labelFontSize": 12, "labelFontWeight": "bold"}},
    }


def _words(answer: Answer, words: Sequence[str], keys: Sequence[str], title: str | None) -> Chart:
    """Labels that were chosen, where there is no number beside them."""
    values = answer.to_dicts()
    groups = _group_names(values[:_GROUPS], answer.totals[:_GROUPS], keys)
    data = [
        {"group": group, "column": name, "value": _label(row[name])}
        for group, row in zip(groups, values, strict=False)
        for name in words
    ]
    notes = ["chosen labels: they have no interval", *_chosen(answer), *answer.target]
    if len(values) > _GROUPS:
        notes.append(f"the first {_GROUPS} of {plural(len(values), 'row')}")
    width = _WIDTHS[min(len(_WIDTHS), len(words)) - 1]
    mark = {"type": "text", "align": "left", "fontSize": 12, "color": _COLOURS[0], "x": 8}
    spec = {
        "width": width,
        "height": {"step": 24},
        "mark": mark | {"limit": width - 16},
        "encoding": {"y": _down(keys), "text": {"field": "value", "type": "nominal"}},
    }
    head = _head(title or answer.question or _described(words, keys), notes)
    return Chart(head | _panels(data, words, spec) | {"columns": min(len(_WIDTHS), len(words))})


def _chosen(answer: Answer) -> list[str]:
    """Say that noise chose the rows; how intervals allow for that is said below the table."""
    return ["rows chosen by noisy numbers, which intervals allow for"] if answer.chosen else []


def _described(noisy: Sequence[str], labels: Sequence[str]) -> str:
    """Say what is shown where the question's own words are not known."""
    by = f" by {', '.join(labels)}" if labels else ""
    return visible(", ".join(noisy) + by)


def _lines(text: str, most: int) -> list[str]:
    """Wrap a text; what is too long ends in dots."""
    words = visible(" ".join(text.split()))
    return textwrap.wrap(words, _LINE, max_lines=most, placeholder=" …") or [""]


def _axis(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str | None:
    """Key that is drawn as an axis: the first of dates, or else of many numbers."""
    columns = {name: [row[name] for row in rows] for name in labels}
    dates = [n for n, c in columns.items() if len(c) > 1 and all(isinstance(v, dt.date) for v in c)]
    runs = (n for n, c in columns.items() if all(map(_is_number, c)) and len(set(c)) >= _AXIS)
    return dates[0] if dates else next(runs, None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _label(value: object) -> str:
    """Name a key; a whole number is written as one, also beside NULL or fractions."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "NULL" if value is None else str(value)


def _data(
    rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    totals: Sequence[frozenset[str]],
    noisy: Sequence[str],
    others: Sequence[str],
    axis: str | None,
) -> tuple[list[dict[str, Any]], int]:
    """Lay out one record for each number, and count those without a finite interval."""
    data, unknown = [], 0
    groups = _group_names([row for row, _ in rows], totals, others)
    for (row, ends), group in zip(rows, groups, strict=True):
        at = {} if axis is None else {"at": _place(row[axis])}
        for name in noisy:
            value, (low, high) = row[name], ends[name]
            if isinstance(value, dt.date) and low is not None and high is not None:
                value, low, high = _place(value), _place(low), _place(high)
            elif not (_is_number(value) and math.isfinite(low) and math.isfinite(high)):
                unknown += 1
                continue
            data.append(
                {"group": group, **at, "column": name, "value": value, "low": low, "high": high}
            )
    return data, unknown


_LABEL: Final = 42


def _group_names(
    rows: Sequence[Mapping[str, Any]], totals: Sequence[frozenset[str]], keys: Sequence[str]
) -> list[str]:
    """Name the groups; the middle of long labels is left out, where all of them stay different."""
    whole = [
        ", ".join("all" if n in over else _label(row[n]) for n in keys) or "all"
        for row, over in zip(rows, totals, strict=True)
    ]
    half = _LABEL // 2
    short = [n if len(n) <= _LABEL else f"{n[:half]}…{n[-half:]}" for n in whole]
    return short if len(set(short)) == len(set(whole)) else whole


def _place(value: Any) -> Any:
    """Write a key for an axis; moments have no zone, so the same one is meant everywhere."""
    if isinstance(value, dt.datetime):
        return f"{value.isoformat()}Z"
    return value.isoformat() if isinstance(value, dt.date) else value


_THOUSANDS: Final = (
    "abs(datum.value) >= 1e5 ? format(datum.value, '~s') : format(datum.value, ',~r')"
)
"""Labels of an axis: large numbers are written 1.5M, so that they stand beside each other."""


_APART: Final = {"labelFlush": False, "labelOverlap": "greedy", "labelSeparation": 8}


def _number(field: str) -> dict[str, Any]:
    axis = {"labelExpr": _THOUSANDS, "tickCount": 5, **_APART}
    return _vega.number(field, scale={"zero": False}, axis=axis, title=None)


def _temporal(spec: Any) -> Any:
    """Draw the numbers of a panel as moments."""
    if isinstance(spec, list):
        return [_temporal(item) for item in spec]
    if not isinstance(spec, dict):
        return spec
    if spec.get("field") in ("low", "value") and spec.get("type") == "quantitative":
        axis = {"format": "%Y-%m-%d", "tickCount": 3, **_APART}
        return spec | {"type": "temporal", "scale": {"type": "utc"}, "axis": axis}
    return {key: _temporal(item) for key, item in spec.items()}


def _down(labels: Sequence[str]) -> dict[str, Any]:
    """Groups below each other; the title stands beyond the longest label."""
    axis = {"labelLimit": 260, "maxExtent": 300}
    title = ", ".join(labels) or None
    return {"field": "group", "type": "nominal", "sort": None, "axis": axis, "title": title}


def _groups(labels: Sequence[str], width: int) -> dict[str, Any]:
    """A point and a bar for each group."""
    y = _down(labels)
    ends, middle = {"y": y, **_vega.between("x", _number("low"))}, {"y": y, "x": _number("value")}
    dot = {"filled": True, "size": 55, "color": _COLOURS[0], "opacity": 1}
    bars = _vega.layer("rule", ends, color=_COLOURS[0], strokeWidth=2)
    layers = [bars, _vega.layer("point", middle, **dot)]
    return {"width": width, "height": {"step": 24}, "layer": layers}


def _run(
    rows: Sequence[Mapping[str, Any]], axis: str, others: Sequence[str], points: int, series: int
) -> dict[str, Any]:
    """A line along dates or numbers, with a bar at each point or, where there are many, a band."""
    dated = isinstance(rows[0][axis], dt.date)
    x: dict[str, Any] = {
        "field": "at",
        "type": "temporal" if dated else "quantitative",
        "title": axis,
    }
    x["scale"] = {"type": "utc"} if dated else {"zero": False, "nice": False}
    ends = {"x": x, "y": _number("low"), "y2": {"field": "high"}}
    middle = {"x": x, "y": _number("value")}
    colour: dict[str, Any] = {}
    if 1 < series <= len(_COLOURS):
        scale = {"range": list(_COLOURS[:series])}
        legend = {"title": ", ".join(others), "symbolOpacity": 1, "labelLimit": 260}
        colour = {"color": {"field": "group", "type": "nominal", "sort": None, "scale": scale}}
        colour["color"]["legend"] = legend
    elif series > 1:  # more lines than colours can be told apart
        colour = {"detail": {"field": "group"}}
    own: dict[str, Any] = {} if "color" in colour else {"color": _COLOURS[0]}
    mark: dict[str, Any] = {"type": "rule", "strokeWidth": 1.5, **own}
    dots: dict[str, Any] = {"point": {"size": 30, **own}}
    if points > _BARS:
        mark, dots = {"type": "area", "opacity": 0.25, **own}, {"point": False}
    line = {"type": "line", "strokeWidth": 1.5, **dots, **own}
    return {
        "width": 640,
        "height": 240,
        "layer": [
            {"mark": mark, "encoding": ends | colour},
            {"mark": line, "encoding": middle | colour},
        ],
    }
