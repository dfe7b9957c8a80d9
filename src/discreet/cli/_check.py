"""``discreet check``: whether a policy is usable, and whether the data fit it."""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet._exact import decimal, show
from discreet._print import number, plural
from discreet._text import quoted, visible
from discreet.answer import Answer, cell
from discreet.cli._console import facts, grid, heading, say, show_table, working
from discreet.cli._outcome import Reply
from discreet.cli._session import Where, curator, policy_file
from discreet.curator import HEADER, rows_of, whom
from discreet.policy import Budget, Policy, Table

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.curator import Curator

_BLANK: Final = re.compile(r"^#[ \t]*([^=\n]+?)[ \t]*=[ \t]*\{[^\n]*…", re.MULTILINE)
"""A column of a draft that is still a comment."""
_LISTED: Final = 8
_MOST_SHARES: Final = 60
_MOSTLY: Final = 0.8
"""Share of missing values from which a form that is not read is the likely cause."""


def run(path: Path | None, source: str | None, *, schema: bool, spend: str | None = None) -> Reply:
    """Load a policy, compare it with the schema of its data, sum it up.

    `spend` buys, for each column of the private tables, the shares of values that are
    missing or unreadable, and of those that lie at an end of the range.
    """
    where = Where(policy_file(path), source, None, None)
    policy = where.load()
    left, shares, budget = None, {}, policy.budget
    if spend is not None:
        with working("measuring…"), curator(where, spend=True) as opened:
            shares = _shares(opened, spend)
            left, budget = repr(opened.budget), _on_record(opened)
    elif schema:
        with working("comparing with the schema…"), curator(where, spend=False) as opened:
            left, budget = repr(opened.budget), _on_record(opened)
    blanks = _blanks(where.path, {t.unit for t in policy.tables.values()})
    data: dict[str, Any] = {
        "file": str(where.path),
        "identity": policy.identity,
        "fingerprint": policy.fingerprint,
        "schema": "fits" if schema else "not compared",
        "ledger": where.place(),
        "budget": _budget(budget),
        "differs": _differs(budget, policy.budget),
        "delta": delta_words(budget.delta, policy.service.rows),
        "policy": policy.to_mapping(),
        "shares": {name: answer.to_dicts() for name, answer in shares.items()},
        "blanks": blanks,
    }

    def show_all(console: Console) -> None:
        _show(console, where, policy, budget, left, shares=shares)
        if blanks:
            say(console, _unfilled(blanks), "yellow")

    return Reply(data, show_all)


def _blanks(path: Path, units: set[str | None]) -> list[str]:
    """Columns that a draft names in comments with blanks, but for units: nobody can ask of them."""
    text = path.read_text(encoding="utf-8", errors="replace")
    names = [name.strip().strip('"') for name in _BLANK.findall(text)]
    return [visible(name) for name in names if name not in units]


def _unfilled(blanks: list[str]) -> str:
    listed = ", ".join(blanks[:_LISTED]) + (", …" if len(blanks) > _LISTED else "")
    return (
        f"{plural(len(blanks), 'column')} of the draft {'is' if len(blanks) == 1 else 'are'} still "
        f"to be filled in, and nobody can ask about them yet: {listed}"
    )


def _shares(opened: Curator, spend: str) -> dict[str, Answer]:
    """Ask what part of each column's values is missing, and what part lies at an end."""
    answers = {}
    tables = [t for t in opened.policy.tables.values() if not t.public]
    private = {t.name: text for t in tables if (text := _question(t)) is not None}
    for name, text in private.items():
        answers[name] = opened.sql(text, epsilon=decimal(spend, "spend") / len(private))
    return answers


def _question(table: Table) -> str | None:
    outputs = []
    for name, column in table.columns.items():
        own, label = quoted(name), name.replace('"', "'")
        if column.null is None and column.nullable and name != table.unit:
            outputs.append(f'AVG({own} IS NULL) AS "{label}: missing"')
        low, high = getattr(column, "min", None), getattr(column, "max", None)
        if low is not None and getattr(column, "outside", None) == "clamp":
            ends = " OR ".join(f"{own} = {_literal(end)}" for end in (low, high))
            outputs.append(f'AVG({ends}) AS "{label}: at an end"')
    selection = outputs[:_MOST_SHARES]
    return f'SELECT {", ".join(selection)} FROM "{table.name}"' if selection else None  # noqa: S608 - names are quoted


def _literal(value: object) -> str:
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return f"DATE '{value.isoformat()}'" if isinstance(value, dt.date) else show(value)  # type: ignore[arg-type]  # numbers


def unread_columns(table: Table, shares: Answer) -> list[str]:
    """Say of which columns, by the noisy shares, most is surely missing, and the likely cause."""
    (ends,) = shares.interval(0.95)
    lines = []
    for name, column in table.columns.items():
        low, _ = ends.get(f"{name.replace(chr(34), chr(39))}: missing", (0.0, 0.0))
        if low <= _MOSTLY:
            continue
        cause = "is its type the right one?"
        if column.type in ("date", "timestamp"):
            form = getattr(column, "format", None)
            cause = f'does the file write it as "{form}"?'
            if form is None:
                cause = 'if a CSV file writes 31.08.2025, add format = "%d.%m.%Y" to the column'
        elif column.type in ("integer", "real"):
            cause = f'is numbers = "1.234,50" or "1,234.50" to stand in [tables.{table.name}]?'
        lines.append(
            f"{name}: most values are missing, or cannot be read as {column.type}; {cause}"
        )
    return lines


def _show_shares(console: Console, shares: dict[str, Answer]) -> None:
    for name, answer in shares.items():
        heading(console, f"{name}: shares of values, bought")
        (values,), (ends,) = answer.to_dicts(), answer.interval(0.95)
        rows = [(what, cell(values[what], ends[what])) for what in answer.columns]
        show_table(console, grid(("values", "share at 95 %"), rows, keys=1))


def _differs(record: Budget, file: Budget) -> bool:
    return _budget(record) != _budget(file)


def _on_record(opened: Curator) -> Budget:
    state = getattr(opened.ledger, "state", None)
    return opened.policy.budget if state is None else state.limits


def _show(
    console: Console,
    where: Where,
    policy: Policy,
    budget: Budget,
    left: str | None,
    *,
    shares: dict[str, Answer],
) -> None:
    name = policy.name or f"unnamed ({policy.identity[:19]}…)"
    lines = [
        ("policy", f"{where.path}: {name}"),
        ("budget", _budget(budget)),
        ("ledger", where.place() if Path(where.place()).exists() else "none yet: nothing asked"),
    ]
    if _differs(budget, policy.budget):
        lines.insert(2, ("the file", f"{_budget(policy.budget)}; what is on record counts"))
    if left is not None:
        lines.append(("left", left.partition(": ")[2]))
    if words := delta_words(budget.delta, policy.service.rows):
        lines.append(("δ", words))
    if budget.accounting == "zcdp" and budget.epsilon is not None and budget.delta:
        lines.append(("δ of debits", f"{show(budget.delta / 2)}; the other half turns ρ into ε"))
    facts(console, lines)
    for table in policy.tables.values():
        heading(console, f"{table.name}: {whom(table)}")
        show_table(console, grid(HEADER, rows_of(table), keys=1))
    console.print()
    if left is None:
        console.print("The policy is usable. The data were not looked at.", style="green")
    else:
        _show_shares(console, shares)
        unread = [line for n, a in shares.items() for line in unread_columns(policy.tables[n], a)]
        fits = "The policy is usable, and the schema of the data fits it"
        if unread:
            console.print(f"{fits}, but much of it cannot be read:", style="yellow")
        else:
            console.print(f"{fits}.", style="green")
        for line in unread:
            say(console, line)
        if not shares:
            console.print(
                "No value was looked at (views are read through once, to see that they can be): "
                "what does not fit its column will count as missing or be clamped. --spend 0.1 "
                "tells how much.",
                style="dim",
            )


def _budget(budget: Budget) -> str:
    parts = [
        f"{symbol} = {show(value)}"
        for symbol, value in (("ε", budget.epsilon), ("ρ", budget.rho), ("δ", budget.delta))
        if value
    ]
    shares = ", ".join(f"{who} {show(part)}" for who, part in budget.shares.items())
    return f"{', '.join(parts)} ({budget.accounting} accounting)" + (
        f"; shares: {shares}" if shares else ""
    )


def delta_words(delta: Fraction, rows: int | None) -> str | None:
    """Warn of a δ that one person in so many may pay with everything.

    `rows` is what the policy declares as a public fact; the table itself is never counted. A
    mechanism that publishes one row in n, whole, has δ = 1/n: a δ near it promises nothing.
    """
    if not delta:
        return None
    most = math.ceil(1 / delta)
    if rows is None:
        return f"{show(delta)} is for far fewer than {number(most)} people"
    if rows < most:
        return None
    return (
        f"{show(delta)} is at least 1/n for the {number(rows)} rows that the policy declares: it "
        f"would allow somebody's row to be published whole; choose far less than {1 / rows:.1g}"
    )
