"""Pictures as SVG, drawn on the server: no script, and the table beside each says the same."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from fractions import Fraction
from html import escape
from typing import Any, Final

from discreet._dataclass import dataclass
from discreet._print import number
from discreet._text import visible
from discreet.answer import Answer
from discreet.ledger import Balance, Line
from discreet.meaning import Meaning

_ROW: Final = 26
_LETTER: Final = 10.5
"""Width of a letter where a narrow screen makes them large."""
_LABEL: Final = 22
"""Letters of a label that are shown."""
_WIDTH: Final = 640
_MOST: Final = 30
_LINES: Final = 4
_LONG: Final = 3653.0
_FEW: Final = 3
"""Debits, and days, before which a rate is none."""


def error_bars(answer: Answer, confidence: str) -> list[tuple[str, str]]:
    """One picture for each noisy column: a point and its interval for each row."""
    rows, ends = answer.to_dicts()[:_MOST], answer.interval(confidence)[:_MOST]
    noisy = [n for n in answer.columns if ends and isinstance(ends[0][n], tuple)]
    labels = [", ".join(str(r[n]) for n in answer.columns if n not in noisy) or "all" for r in rows]
    found = []
    for name in noisy:
        values = [(r[name], *e[name]) for r, e in zip(rows, ends, strict=True)]
        if values and all(_finite(v) for v in values):
            part = "" if len(answer) <= _MOST else f": the first {_MOST} of {len(answer)} rows"
            found.append((f"{visible(name)}{part}", _bars(visible(name), labels, values)))
    return found


def shortened(text: str, most: int) -> str:
    """Cut a text where it is longer than there is room for, and show that it was cut.

    >>> shortened("north, pregnancy", 9), shortened("north", 9)
    ('north, p…', 'north')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _finite(values: tuple[Any, ...]) -> bool:
    return all(isinstance(v, int | float) and math.isfinite(v) for v in values)


def _bars(name: str, labels: Sequence[str], values: Sequence[tuple[Any, ...]]) -> str:
    low = min(0.0, *(v[1] for v in values))
    high = max(0.0, *(v[2] for v in values))
    left = 12 + _LETTER * min(_LABEL, max(map(len, labels)))
    scale = (_WIDTH - left - 20) / ((high - low) or 1.0)

    def x(value: float) -> str:
        return f"{left + (value - low) * scale:.1f}"

    height = _ROW * len(values) + 24
    said = f"{escape(name)} with its intervals; the table says the same"
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{said}">',
        f'<line class="axis" x1="{x(0)}" x2="{x(0)}" y1="0" y2="{height - 20}"/>',
    ]
    for i, (label, (value, start, end)) in enumerate(zip(labels, values, strict=True)):
        y = i * _ROW + 14
        shown = escape(visible(shortened(label, _LABEL)))
        parts.append(f'<text class="label" x="{left - 8:g}" y="{y + 4}">{shown}</text>')
        parts.append(f'<line class="bar" x1="{x(start)}" x2="{x(end)}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="point" cx="{x(value)}" cy="{y}" r="4"/>')
    for value, kind in ((low, "tick"), (high, "tick last")):
        shown = escape(number(float(round(value))).replace("-", "−"))
        parts.append(f'<text class="{kind}" x="{x(value)}" y="{height - 4}">{shown}</text>')
    return "".join([*parts, "</svg>"])


def people(found: Meaning, prior: Fraction = Fraction(1, 50)) -> str:
    """A hundred people: how many a belief of `prior` may become, at most, after the releases.

    Where something was released with δ > 0, no belief is bounded always: nothing is drawn.
    """
    if found.epsilon == math.inf:
        return ""
    most = round(100 * found.posterior(prior).high, 9)  # what was rounded up makes no dot
    before, after = round(100 * prior), min(100, math.ceil(most))
    said = f"Of 100 chances, {before} without these data and at most {after} with what is released"
    parts = [f'<svg class="people" viewBox="0 0 220 220" role="img" aria-label="{said}">']
    for i in range(100):
        kind = "before" if i < before else "after" if i < after else "none"
        cx, cy = 11 + 22 * (i % 10), 11 + 22 * (i // 10)
        parts.append(f'<circle class="{kind}" cx="{cx}" cy="{cy}" r="8"/>')
    return "".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class Spent:
    """One debit, as a budget's page shows it."""

    when: str
    who: str
    price: Fraction


def spending(lines: Sequence[Line], who: str | None) -> list[Spent]:
    """Debits of this period, oldest first: everybody's, or one analyst's."""
    own = [x for x in _period(lines) if x.kind == "debit"]
    found = [Spent(x.when[:19], x.content.get("analyst") or "",
                   Fraction(x.content["cost"]["epsilon"])) for x in own]  # fmt: skip
    return [s for s in found if who is None or s.who == who]


def _period(lines: Sequence[Line]) -> Sequence[Line]:
    begun = [i for i, line in enumerate(lines) if line.kind == "period"]
    return lines[begun[-1] :] if begun else lines


def forecast(lines: Sequence[Line], balance: Balance, remaining: Fraction) -> str:
    """Say until when what remains lasts, at the rate of this period's spending so far.

    `lines` are those that draw on `balance`. A few debits, or a few days, are no rate.
    """
    debits = [x for x in _period(lines) if x.kind == "debit"]
    if not debits or not balance.used:
        return "Nothing has been spent."
    if not remaining:
        return "Everything is spent."
    now = dt.datetime.now(dt.UTC)
    days = (now - _moment(debits[0].when)).total_seconds() / 86400
    if len(debits) < _FEW or days < _FEW:
        return ""
    lasts = days * float(remaining / (balance.total * balance.used))
    if lasts > _LONG:
        return "At the rate so far, what is left lasts for more than ten years."
    until = (now + dt.timedelta(days=lasts)).date()
    return f"At the rate so far, what is left lasts until about {until.isoformat()}."


def _moment(when: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(when)
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def timeline(spent: Sequence[Spent]) -> str:
    """Spending over time: a staircase for each analyst, the largest spenders named."""
    by: dict[str, list[tuple[float, float]]] = {}
    for s in spent:
        steps = by.setdefault(s.who, [])
        before = steps[-1][1] if steps else 0.0
        steps.append((_moment(s.when).timestamp(), before + float(s.price)))
    shown = sorted(by, key=lambda who: -by[who][-1][1])[:_LINES]
    moments = [t for who in shown for t, _ in by[who]]
    first, last = min(moments, default=0.0), max(moments, default=1.0)
    most = max((by[who][-1][1] for who in shown), default=0.0)
    said = ", ".join(f"{who or 'nobody named'} {by[who][-1][1]:.4g}" for who in shown) or "nothing"
    label = f"Spending over time: {escape(visible(said))}; the table says the same"
    left, tall, bottom = 70, 140.0, 160.0
    wide = _WIDTH - 20 - left

    def x(t: float) -> float:
        return left + wide * (t - first) / ((last - first) or 1.0)

    parts = [
        f'<svg class="steps" viewBox="0 0 {_WIDTH} 190" role="img" aria-label="{label}">',
        f'<line class="axis" x1="{left}" x2="{_WIDTH - 20}" y1="{bottom:g}" y2="{bottom:g}"/>',
        f'<line class="axis" x1="{left}" x2="{left}" y1="{bottom - tall:g}" y2="{bottom:g}"/>',
    ]
    for value, y in ((most, bottom - tall), (0.0, bottom)) if shown else ():
        parts.append(f'<text x="{left - 6}" y="{y + 5:g}" text-anchor="end">ε {value:.3g}</text>')
    for i, who in enumerate(shown):
        path = f"M{left} {bottom:g}"
        for t, value in by[who]:
            path += f"H{x(t):.1f}V{bottom - tall * value / (most or 1.0):.1f}"
        parts.append(f'<path class="line line{i}" d="{path}H{_WIDTH - 20}"/>')
        parts.append(f'<text class="label{i}" x="{left + 8}" y="{14 + 16 * i}">'
                     f"{escape(visible(who[:30] or 'nobody named'))}: "
                     f"ε = {by[who][-1][1]:.4g}</text>")  # fmt: skip
    ends = [dt.datetime.fromtimestamp(at, dt.UTC).isoformat(" ") for at in (first, last)]
    # as much as tells them apart: days, minutes or seconds
    size = next((n for n in (10, 16) if ends[0][:n] != ends[1][:n]), 19)
    for place, anchor, end in zip((left, _WIDTH - 20), ("start", "end"), ends, strict=True):
        if shown:
            parts.append(
                f'<text x="{place}" y="180" text-anchor="{anchor}">{end[:size]} UTC</text>'
            )
    return "".join([*parts, "</svg>"])
