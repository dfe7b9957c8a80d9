"""Pictures as SVG, drawn on the server: no script, and the table beside each says the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from discreet._print import number
from discreet._text import visible
from discreet.answer import Answer

_ROW: Final = 26
_LEFT: Final = 150
_WIDTH: Final = 640
_MOST: Final = 30


def error_bars(answer: Answer, confidence: str) -> list[tuple[str, str]]:
    """One picture for each noisy column: a point and its interval for each row."""
    rows, ends = answer.to_dicts()[:_MOST], answer.interval(confidence)[:_MOST]
    noisy = [n for n in answer.columns if ends and isinstance(ends[0][n], tuple)]
    labels = [", ".join(str(r[n]) for n in answer.columns if n not in noisy) or "all" for r in rows]
    found = []
    for name in noisy:
        values = [(r[name], *e[name]) for r, e in zip(rows, ends, strict=True)]
        if values and all(_finite(v) for v in values):
            found.append((visible(name), _bars(visible(name), labels, values)))
    return found


def _finite(values: tuple[Any, ...]) -> bool:
    return all(isinstance(v, int | float) and math.isfinite(v) for v in values)


def _bars(name: str, labels: Sequence[str], values: Sequence[tuple[Any, ...]]) -> str:
    low = min(0.0, *(v[1] for v in values))
    high = max(0.0, *(v[2] for v in values))
    scale = (_WIDTH - _LEFT - 20) / ((high - low) or 1.0)

    def x(value: float) -> str:
        return f"{_LEFT + (value - low) * scale:.1f}"

    height = _ROW * len(values) + 24
    said = f"{escape(name)} with its intervals; the table says the same"
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{said}">',
        f'<line class="axis" x1="{x(0)}" x2="{x(0)}" y1="0" y2="{height - 20}"/>',
    ]
    for i, (label, (value, start, end)) in enumerate(zip(labels, values, strict=True)):
        y = i * _ROW + 14
        shown = escape(visible(label[:22]))
        parts.append(f'<text class="label" x="{_LEFT - 8}" y="{y + 4}">{shown}</text>')
        parts.append(f'<line class="bar" x1="{x(start)}" x2="{x(end)}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="point" cx="{x(value)}" cy="{y}" r="4"/>')
    for value in (low, high):
        shown = escape(number(float(round(value))))
        parts.append(f'<text class="tick" x="{x(value)}" y="{height - 4}">{shown}</text>')
    return "".join([*parts, "</svg>"])


def people(factor: float, prior: float = 0.02) -> str:
    """A hundred people: how many a belief of `prior` may become, at most, after the releases."""
    odds = prior / (1 - prior) * factor
    most = 100 * odds / (1 + odds)
    before, after = round(100 * prior), min(100, math.ceil(most))
    said = f"Of 100 chances, {before} without these data and at most {after} with what is released"
    parts = [f'<svg class="people" viewBox="0 0 220 220" role="img" aria-label="{said}">']
    for i in range(100):
        kind = "before" if i < before else "after" if i < after else "none"
        cx, cy = 11 + 22 * (i % 10), 11 + 22 * (i // 10)
        parts.append(f'<circle class="{kind}" cx="{cx}" cy="{cy}" r="8"/>')
    return "".join([*parts, "</svg>"])


def steps(spent: Sequence[float], total: float) -> str:
    """Spending after each question, as a staircase below the total."""
    width, height = 640.0, 160.0
    points = [(0.0, 0.0), *((i + 1.0, s) for i, s in enumerate(spent))]
    wide, tall = max(1, len(points) - 1), total or 1.0
    path, before = "", None
    for i, value in points:
        x, y = 10 + (width - 20) * i / wide, height - 10 - (height - 20) * min(1, value / tall)
        path += f"M{x:.1f} {y:.1f}" if before is None else f"H{x:.1f}V{y:.1f}"
        before = y
    last = spent[-1] if spent else 0.0
    return (
        f'<svg class="steps" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="Spending after each question: {last:.4g} of {total:.4g}">'
        f'<line class="cap" x1="10" x2="{width - 10:g}" y1="10" y2="10"/>'
        f'<path class="line" d="{path}"/></svg>'
    )
