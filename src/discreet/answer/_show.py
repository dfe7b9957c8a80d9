"""How an answer looks as text and HTML."""

from __future__ import annotations

import datetime as dt
import html as _html
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._exact import Number, show
from discreet._exact import confidence as read_confidence
from discreet._print import interval, number
from discreet._text import visible

if TYPE_CHECKING:
    from discreet.answer._answer import Answer

Row = list[str]

MOST_ROWS = 30
"""Rows printed before a table is cut."""

UNDETERMINED = "not determined at this ε"

ALL = "(all)"
"""A key over which ROLLUP, CUBE or GROUPING SETS add a row up; a missing key is NULL."""


def scalar(value: Any) -> Any:
    """Turn a NumPy scalar into a Python one; whole numbers become ints, NaN is NULL: None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def unused(name: str, names: set[str]) -> str:
    """Take a name for one more column; where somebody's column has it, it gets another end.

    >>> unused("n_low", {"n", "n_low"})
    'n_low_'
    """
    while name in names:
        name += "_"
    names.add(name)
    return name


def marks(answer: Answer) -> dict[str, str]:
    """What a table carries beside its columns: what ± covers, and that rows were made up."""
    return {"covers": answer.covers} | ({"dummy": "true"} if answer.dummy else {})


def cell(value: Any, ends: Any, *, exact: bool = False) -> str:
    """Print one value with ± when its interval is symmetric, else with both ends.

    `exact` says that no noise was added; an interval of width zero alone does not.
    """
    if not isinstance(ends, tuple):
        return "NULL" if value is None else visible(str(value))
    low, high = ends
    if isinstance(value, str):
        return visible(value)
    if isinstance(low, dt.date) or isinstance(high, dt.date) or low is high is None:
        text = "NULL" if value is None else str(value)
        return text if low is high is None else f"{text} [{low or '?'}, {high or '?'}]"
    if exact:
        return "NULL" if value is None else f"{number(float(value))} (exact)"
    if math.isnan(low) or math.isnan(high):  # a chosen value has no interval, and may be a number
        return "NULL" if scalar(value) is None else visible(str(scalar(value)))
    if low == -math.inf and high == math.inf:
        return UNDETERMINED
    margin = (high - low) / 2
    if scalar(value) is None:
        # no estimate; where a range is known it is said
        return f"NULL {interval(low, high)}"
    if not math.isfinite(margin):
        return f"{number(float(value))} {interval(low, high)}"
    # what ROUND has cut is not padded again
    most = max(_decimals(float(x)) for x in (value, low, high))
    text = number(float(value), margin, most)
    if math.isclose(float(value) - low, high - float(value), rel_tol=1e-6, abs_tol=1e-9):
        return f"{text} ± {number(margin, margin, most)}"
    return f"{text} {interval(float(low), float(high), margin, most)}"


def cells(answer: Answer, ends: Sequence[Mapping[str, Any]], most: int | None = None) -> list[Row]:
    """Print the first `most` rows, cell by cell, with the `ends` of their intervals."""
    names, exact, values = answer.columns, answer.exact, answer.to_dicts()
    rolled = answer.rolled_up
    # a label of that name must not look like a total
    everything = unused(ALL, {str(row[n]) for row in values for n in names}) if any(rolled) else ALL
    rows = zip(values[:most], ends[:most], rolled[:most], strict=True)
    return [
        [everything if n in over else cell(v[n], e[n], exact=n in exact) for n in names]
        for v, e, over in rows
    ]


def _decimals(value: float) -> int:
    """Digits after the point that a number has."""
    return next((d for d in range(12) if round(value, d) == value), 12)


def _table(answer: Answer) -> tuple[list[str], list[Row], str]:
    """Header and rows, and what stands below them."""
    rows = cells(answer, answer.interval(0.95), MOST_ROWS)
    hidden = any(c.startswith((UNDETERMINED, "NULL [")) for row in rows for c in row)
    return [visible(name) for name in answer.columns], rows, footer(answer, undetermined=hidden)


def price(cost: Mapping[str, str], left: str | None) -> str:
    """Say what a question costs in the currency of what is `left`, and the δ where it has one.

    >>> price({"epsilon": "1/2", "delta": "1/1000000", "rho": "1/9"}, "1.5 of 2 left")
    'ε 0.5, δ 1e-06'
    """
    in_rho = (left or "").startswith("ρ")
    names = {"rho": "ρ", "rho_delta": "δ"} if in_rho else {"epsilon": "ε", "delta": "δ"}
    first = "rho" if in_rho else "epsilon"
    exact = {name: Fraction(cost.get(name, 0)) for name in names}
    return ", ".join(f"{names[n]} {_amount(x)}" for n, x in exact.items() if x or n == first)


def _amount(value: Fraction) -> str:
    """Print a price exactly where that is short, and otherwise rounded up."""
    text = show(value)
    if len(text) <= 8:
        return text
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 3)
    return show(-(-value // unit) * unit)


def footer(answer: Answer, level: str = "95 %", *, undetermined: bool = False) -> str:
    """Say cost, what is left and what the margins mean: `level` is theirs."""
    words = f"cost {price(answer.cost, answer.left)}"
    if answer.cached:
        words = "stored answer, free of charge"
    parts = [f"± at {level}", words]
    if answer.dummy:  # its own budget is made up, too
        real = "" if answer.cached else f"; the real answer would {words}"
        words = f"nothing was charged{real}"
        parts = ["MADE-UP DATA: NOT A RELEASE", f"± at {level}", words]
    elif answer.left:
        parts.append(answer.left)
    if answer.tainted:
        parts.append("TEST NOISE: NOT PRIVATE")
    lines = [" · ".join(parts)]
    facts = ", ".join(answer.target)
    lines.append(f"{facts}; {answer.margins}" if facts else answer.margins)
    if selection := answer.selection:
        lines.append(f"rows chosen by noisy numbers: {selection}")
    if undetermined:
        lines.append(
            "NULL, not determined: the noise hides whether there is anything to divide by; the "
            "exact value is anywhere in its interval. More ε, or more rows, will tell"
        )
    return "\n".join(lines)


def _numeric(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Tell which columns are aligned to the right."""
    columns = list(zip(*rows, strict=True)) or [("text",)] * len(header)
    return [all(c[:1] in "-−0123456789∞?" for c in column) for column in columns]


def text(answer: Answer) -> str:
    """Print the answer as a plain table."""
    header, rows, below = _table(answer)
    widths = [max([len(h), *(len(r[i]) for r in rows)]) for i, h in enumerate(header)]
    numeric = _numeric(header, rows)

    def line(cells: list[str]) -> str:
        fields = [
            c.rjust(w) if right else c.ljust(w)
            for c, w, right in zip(cells, widths, numeric, strict=True)
        ]
        return "  ".join(fields).rstrip()

    body = [line(header), "  ".join("─" * w for w in widths), *map(line, rows)]
    if len(answer) > MOST_ROWS:
        body.append(f"… {len(answer) - MOST_ROWS} more rows")
    return "\n".join([*answer.cut, *body, below])


def as_data(
    answer: Answer, confidence: Number, *, simultaneous: bool = False, record: bool = True
) -> dict[str, Any]:
    """Rows, intervals, cost and, for later, the record."""
    fields = {
        "columns": answer.columns,
        "rows": answer.to_dicts(),
        "confidence": read_confidence(confidence),
        "simultaneous": simultaneous,
        "intervals": answer.interval(confidence, simultaneous=simultaneous),
        "covers": answer.covers,
        "cost": dict(answer.cost),
        "left": answer.left,
        "cached": answer.cached,
    }
    return {**fields, "record": answer.record()} if record else fields


def html(answer: Answer) -> str:
    """Print the answer as an HTML table, every text escaped."""
    header, rows, below = _table(answer)
    numbers = _numeric(header, rows)
    sides = [f"text-align:{'right' if right else 'left'};padding:2px 12px" for right in numbers]

    def line(cells: Sequence[str], kind: str) -> str:
        each = zip(cells, sides, strict=True)
        inner = "".join(f'<{kind} style="{s}">{_html.escape(c)}</{kind}>' for c, s in each)
        return f"<tr>{inner}</tr>"

    head, body = line(header, "th"), "".join(line(row, "td") for row in rows)
    if len(answer) > MOST_ROWS:
        body += f'<tr><td colspan="{len(header)}">… {len(answer) - MOST_ROWS} more rows</td></tr>'
    foot = "<br>".join(_html.escape(line) for line in below.split("\n"))
    above = "<br>".join(_html.escape(line) for line in answer.cut)
    table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"{above and f'<p>{above}</p>'}{table}<p><small>{foot}</small></p>"
