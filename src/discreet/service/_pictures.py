"""Pictures as SVG, drawn on the server: no script, and the table beside each says the same."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import Any, Final

from discreet._dataclass import dataclass
from discreet._text import visible
from discreet.answer import Answer
from discreet.ledger import Balance, Line
from discreet.meaning import Meaning

_ROW: Final = 30
_LETTER: Final = 12.5
"""Width of a letter where a narrow screen makes them large."""
_LABEL: Final = 18
"""Letters of a label that are shown."""
_TITLE: Final = 48
"""Letters of an axis's title that are shown."""
_WIDTH: Final = 640
_EDGE: Final = 34
"""Room behind the last line of an axis."""
_ENDS: Final = 3
"""Numbers of an axis that are shown even where there is little room."""
_MOST: Final = 30
_LINES: Final = 4
_LONG: Final = 3653.0
_TALL: Final = 150.0
_FEW: Final = 3
"""Debits, and days, before which a rate is none."""


def error_bars(answer: Answer, confidence: str) -> list[tuple[str, str]]:
    """One picture for each noisy column: a point and its interval for each row."""
    rows, ends = answer.to_dicts()[:_MOST], answer.interval(confidence)[:_MOST]
    noisy = [n for n in answer.columns if ends and isinstance(ends[0][n], tuple)]
    labels = [", ".join(str(r[n]) for n in answer.columns if n not in noisy) or "all" for r in rows]
    keys = visible(", ".join(n for n in answer.columns if n not in noisy))
    level, charts = f"{100 * float(confidence):.4g} %", []
    for name in noisy:
        values = [(r[name], *e[name]) for r, e in zip(rows, ends, strict=True)]
        if values and all(_finite(v) for v in values):
            part = "" if len(answer) <= _MOST else f": the first {_MOST} of {len(answer)} rows"
            bars = _bars(visible(name), keys, level, labels, values)
            charts.append((f"{visible(name)}{part}", bars))
    return charts


def shortened(text: str, most: int) -> str:
    """Cut a text where it is longer than there is room for, and show that it was cut.

    >>> shortened("north, pregnancy", 9), shortened("north", 9)
    ('north, p…', 'north')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _finite(values: tuple[Any, ...]) -> bool:
    return all(isinstance(v, int | float) and math.isfinite(v) for v in values)


def round_steps(low: float, high: float, room: float) -> list[tuple[float, str]]:
    """Round numbers from at most `low` to at least `high`, as many as there is room for in words.

    >>> [text for _, text in round_steps(0, 109, 500)]
    ['0', '20', '40', '60', '80', '100', '120']
    >>> [text for _, text in round_steps(-0.03, 0.4, 300)]
    ['−0.2', '0.0', '0.2', '0.4']
    """
    span = (high - low) or 1.0
    power = math.floor(math.log10(span)) - 1
    while True:
        for first in (1, 2, 5):
            step = first * 10.0**power
            ends = range(math.floor(low / step), max(math.ceil(high / step), 1) + 1)
            if len(ends) > room / _LETTER:
                continue
            texts = [_number_text(k * step, -power) for k in ends]
            if len(texts) * (max(map(len, texts)) + 2) * _LETTER <= room or len(texts) <= _ENDS:
                return [(k * step, text) for k, text in zip(ends, texts, strict=True)]
        power += 1


def axis(low: float, high: float, room: float) -> tuple[float, float, list[tuple[float, str]]]:
    """Ends of an axis a little beyond `low` and `high`, and round numbers between them.

    >>> low, high, steps = axis(-16, 1196, 369)
    >>> low, high, [text.replace("\u2009", " ") for _, text in steps]
    (-100.0, 1200.0, ['0', '500', '1 000'])
    """
    span = (high - low) or 1.0
    power = math.floor(math.log10(span)) - 1
    for tens, first in ((p, f) for p in (power, power + 1) for f in (1, 2, 5)):
        step = first * 10.0**tens
        start, end = math.floor(5 * low / step), math.ceil(5 * high / step)  # in fifths of a step
        places = range(-(-start // 5), end // 5 + 1)
        steps = [(k * step, _number_text(k * step, -tens)) for k in places]
        wide = (max((len(text) for _, text in steps), default=0) + 1) * _LETTER
        if len(steps) > 1 and wide <= room * 5 / (end - start):
            return start * step / 5, end * step / 5, steps
    steps = round_steps(low, high, room)  # few numbers have room: the ends are among them
    return steps[0][0], steps[-1][0], steps


def _number_text(value: float, decimals: int) -> str:
    text = f"{value:,.{max(0, decimals)}f}".replace(",", "\u2009")
    return text.replace("-", "−") if value else text.lstrip("-")


def _title(text: str, x: float, y: float, anchor: str) -> str:
    label = escape(shortened(text, _TITLE))
    return f'<text class="title" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{label}</text>'


def _bars(
    name: str, keys: str, level: str, labels: Sequence[str], values: Sequence[tuple[Any, ...]]
) -> str:
    left = 12 + _LETTER * min(_LABEL, max(map(len, labels)))
    wide = _WIDTH - left - _EDGE
    least, most = min(0.0, *(v[1] for v in values)), max(0.0, *(v[2] for v in values))
    low, high, steps = axis(least, most, wide)

    def x(value: float) -> str:
        return f"{left + (value - low) * wide / (high - low):.1f}"

    bottom = _ROW * (len(values) + 1)
    caption = f"{escape(name)} with its intervals; the table says the same"
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {bottom + 2 * _ROW}" role="img"',
        f' aria-label="{caption}">',
        _title(keys, 4, _ROW - 8, "start"),
        _title(f"{name}, with its {level} interval", _WIDTH - 4, bottom + 2 * _ROW - 8, "end"),
    ]
    for value, text in steps:
        kind = "axis" if value else "axis zero"
        inside = min(float(x(value)), _WIDTH - _LETTER * len(text) / 2)
        parts.append(
            f'<line class="{kind}" x1="{x(value)}" x2="{x(value)}" y1="{_ROW}" y2="{bottom}"/>'
            f'<text class="tick" x="{inside:.1f}" y="{bottom + _ROW - 8}">{text}</text>'
        )
    for i, (label, (value, start, end)) in enumerate(zip(labels, values, strict=True)):
        y = _ROW * (i + 1) + _ROW // 2
        text = escape(visible(shortened(label, _LABEL)))
        parts.append(f'<text class="label" x="{left - 8:g}" y="{y + 6}">{text}</text>')
        parts.append(f'<line class="bar" x1="{x(start)}" x2="{x(end)}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="point" cx="{x(value)}" cy="{y}" r="5"/>')
    return "".join([*parts, "</svg>"])


def people(meaning: Meaning, prior: Fraction = Fraction(1, 50)) -> str:
    """A hundred people: how many a belief of `prior` may become, at most, after the releases.

    Where something was released with δ > 0, no belief is bounded always: nothing is drawn.
    """
    if meaning.epsilon == math.inf:
        return ""
    most = round(100 * meaning.posterior(prior).high, 9)  # what was rounded up makes no dot
    before, after = round(100 * prior), min(100, math.ceil(most))
    caption = (
        f"Of 100 chances, {before} without these data and at most {after} with what is released"
    )
    parts = [f'<svg class="people" viewBox="0 0 220 220" role="img" aria-label="{caption}">']
    for i in range(100):
        kind = "before" if i < before else "after" if i < after else "none"
        cx, cy = 11 + 22 * (i % 10), 11 + 22 * (i // 10)
        parts.append(f'<circle class="{kind}" cx="{cx}" cy="{cy}" r="8"/>')
    return "".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class Debit:
    """One debit, as a budget's page shows it."""

    when: str
    who: str
    price: Fraction


def spending(lines: Sequence[Line], who: str | None) -> list[Debit]:
    """Debits of this period, oldest first: everybody's, or one analyst's."""
    own = [x for x in _period(lines) if x.kind == "debit"]
    debits = [Debit(x.when[:19], x.content.get("analyst") or "",
                    Fraction(x.content["cost"]["epsilon"])) for x in own]  # fmt: skip
    return [d for d in debits if who is None or d.who == who]


def _period(lines: Sequence[Line]) -> Sequence[Line]:
    starts = [i for i, line in enumerate(lines) if line.kind == "period"]
    return lines[starts[-1] :] if starts else lines


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


def timeline(debits: Sequence[Debit]) -> str:
    """Spending over time: a staircase for each analyst, the largest spenders named."""
    by: dict[str, list[tuple[float, float]]] = {}
    for debit in debits:
        steps = by.setdefault(debit.who, [])
        before = steps[-1][1] if steps else 0.0
        steps.append((_moment(debit.when).timestamp(), before + float(debit.price)))
    largest = sorted(by, key=lambda who: -by[who][-1][1])[:_LINES]
    totals = (
        ", ".join(f"{who or 'nobody named'} {by[who][-1][1]:.4g}" for who in largest) or "nothing"
    )
    label = f"Spending over time: {escape(visible(totals))}; the table says the same"
    tall = _ROW * (3 + len(largest)) + 10 + _TALL
    head = f'<svg class="steps" viewBox="0 0 {_WIDTH} {tall:g}" role="img" aria-label="{label}">'
    return f"{head}{_stairs({who: by[who] for who in largest}) if largest else ''}</svg>"


def _stairs(by: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    moments = [t for steps in by.values() for t, _ in steps]
    first, last = min(moments), max(moments)
    marks = round_steps(0.0, max(steps[-1][1] for steps in by.values()), _TALL * _LETTER / 7)
    left = 16 + _LETTER * max(len(text) for _, text in marks)
    top, right = _ROW * (1 + len(by)) + 10, _WIDTH - _EDGE
    bottom = top + _TALL

    def x(t: float) -> float:
        return left + (right - left) * (t - first) / ((last - first) or 1.0)

    def y(value: float) -> float:
        return bottom - _TALL * value / marks[-1][0]

    parts = [
        _title("ε spent so far", 4, top - 20, "start"),
        _title("time (UTC)", right, bottom + 2 * _ROW - 8, "end"),
    ]
    for value, text in marks:
        parts.append(
            f'<line class="axis" x1="{left:g}" x2="{right}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}"/><text x="{left - 8:g}" y="{y(value) + 6:.1f}" '
            f'text-anchor="end">{text}</text>'
        )
    for i, (who, steps) in enumerate(by.items()):
        path = "".join(f"H{x(t):.1f}V{y(value):.1f}" for t, value in steps)
        label = f"{escape(visible(who[:30] or 'nobody named'))}: ε = {steps[-1][1]:.4g}"
        at = _ROW * i + 16
        parts.append(
            f'<path class="line line{i}" d="M{left:g} {bottom:g}{path}H{right}"/>'
            f'<line class="line line{i}" x1="4" x2="44" y1="{at}" y2="{at}"/>'
            f'<text x="54" y="{at + 6}">{label}</text>'
        )
    ends = [dt.datetime.fromtimestamp(at, dt.UTC).isoformat(" ") for at in (first, last)]
    # as much as tells them apart: days, minutes or seconds
    size = next((n for n in (10, 16) if ends[0][:n] != ends[1][:n]), 19)
    for place, anchor, end in zip((left, right), ("start", "end"), ends, strict=True):
        parts.append(
            f'<text x="{place:g}" y="{bottom + _ROW - 6:g}" text-anchor="{anchor}">'
            f"{end[:size]}</text>"
        )
    return "".join(parts)
