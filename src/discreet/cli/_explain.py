"""``discreet explain``: everything a record says, without data and without the curator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet._exact import confidence as read_confidence
from discreet._exact import show as exactly
from discreet._print import number, short
from discreet.answer import Answer, Record, as_data, read
from discreet.cli import _answers, _charts
from discreet.cli._console import facts, grid, heading, say, show_table
from discreet.cli._outcome import Reply
from discreet.cli._session import read_text
from discreet.errors import ParameterError
from discreet.plan import Quantile, Total, WeightedSum, statistics_of

if TYPE_CHECKING:
    from rich.console import Console

# what computing on a record that was tampered with can raise, beside our own refusals
_DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def run(record: str, confidence: str, chart: Path | None, *, simultaneous: bool) -> Reply:
    """Recompute an answer and its intervals."""
    read_confidence(confidence)
    _charts.check_chart(chart)
    raw = _record(read_text(record, "the record"))
    try:
        answer = Answer.from_record(raw)
        data = as_data(answer, confidence, simultaneous=simultaneous, record=False)
        noise, price = _noise(raw, confidence), ", ".join(_price(raw["cost"]))
    except ParameterError:
        raise
    except _DAMAGE:
        raise ParameterError("the record is damaged: it does not describe an answer") from None
    data = {k: v for k, v in data.items() if k not in ("left", "cached")}
    data |= {"noise": noise, "statement": dict(raw["statement"])}
    if chart is not None:
        _charts.draw(answer.chart(confidence), chart)

    def show(console: Console) -> None:
        _answers.show(console, answer, confidence, simultaneous=simultaneous)
        _show(console, answer, raw["statement"], price, noise=noise, confidence=confidence)

    return Reply(data, show)


def _record(text: str) -> Mapping[str, Any]:
    """Read a record as saved, signed, or inside the envelope that ``ask --json`` prints."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise ParameterError("the record is not JSON") from None
    for inside in ("result", "record"):
        if isinstance(raw, Mapping) and inside in raw:
            raw = raw[inside]
    if isinstance(raw, Mapping) and "signature" in raw:
        records = raw.get("records", raw.get("answers"))
        if not isinstance(records, list) or len(records) != 1:
            raise ParameterError("this file holds the records of several answers, or of none",
                                 hint="save one of its records to a file of its own")  # fmt: skip
        raw = records[0]
    if not isinstance(raw, Mapping):
        raise ParameterError("this is not a record of discreet")
    return raw


def _noise(raw: Mapping[str, Any], confidence: str) -> list[dict[str, Any]]:
    """Every noise law once, with its margin and the level that margin achieves."""
    laws: dict[str, dict[str, Any]] = {}
    record = read(raw)
    for place, part in enumerate(record.parts):
        if (law := part.noise) is None:
            continue
        margin = law.interval(confidence)
        row = {
            "law": repr(law),
            "standard_deviation": law.variance**0.5,
            "margin": margin.high,
            "achieved": margin.confidence,
            "numbers": 0,
            "one_step": {},
        }
        own = laws.setdefault(repr(law), row)
        own["numbers"] += part.size
        own["one_step"] |= _steps(record, place)
    return list(laws.values())


def _steps(record: Record, part: int) -> dict[str, str]:
    """What one step of a part's integers is in the units of each column made of it."""
    found = {}
    for column in record.outputs:
        for index in sorted(statistics_of(column.expr)):
            match record.formulas[index]:
                case Total(vector=vector, step=step) if vector == part:
                    found[column.name] = short(abs(step))
                case WeightedSum(cells=cells, weights=weights) if part in cells:
                    found[column.name] = short(abs(weights[cells.index(part)]))
                case Quantile(tree=tree) if tree == part:
                    found[column.name] = "one row"
    return found


def _show(
    console: Console,
    answer: Answer,
    statement: Mapping[str, Any],
    price: str,
    *,
    noise: list[dict[str, Any]],
    confidence: str,
) -> None:
    heading(console, "What the intervals cover")
    say(console, f"Each interval covers {answer.covers}.")
    heading(console, "Noise")
    header = (
        "law",
        "σ",
        f"margin at {100 * read_confidence(confidence):.6g} %",
        "holds with",
        "numbers",
    )
    rows = [
        (
            n["law"],
            f"{n['standard_deviation']:.4g}",
            f"± {number(n['margin'])}",
            f"{100 * n['achieved']:.4f} %",
            str(n["numbers"]),
        )
        for n in noise
    ]
    show_table(console, grid(header, rows, right=(1, 2, 3, 4)))
    say(
        console,
        "These are integers as they were released; the answer's own margins stand above.",
        "dim",
    )
    for row in noise:
        steps = [
            f"one row to {name}" if step == "one row" else f"{step} of {name}"
            for name, step in row["one_step"].items()
        ]
        if steps:
            say(console, f"{row['law']}: one step is {', '.join(steps)}.", "dim")
    heading(console, "What was protected, and what it cost")
    unit = statement.get("unit", "row")
    pairs = [
        ("unit", "one row" if unit == "row" else f"all kept rows of one {unit}"),
        ("neighbours", str(statement.get("neighbours", "?"))),
        ("cost", price),
        ("policy", str(statement.get("policy", "?"))),
        ("fingerprint", str(statement.get("fingerprint", "?"))),
        ("plan", str(statement.get("plan", "?"))),
    ]
    facts(console, pairs)


def _price(cost: Mapping[str, str]) -> list[str]:
    symbols = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "rho_delta": "δ beside ρ"}
    return [
        f"{symbols.get(name, name)} = {exactly(Fraction(value))}"
        for name, value in cost.items()
        if Fraction(value)
    ]
