"""``discreet preview`` and ``discreet ask``: one question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet._exact import confidence as read_confidence
from discreet._text import json_safe
from discreet.answer import as_data
from discreet.cli import _answers, _charts
from discreet.cli._console import heading, say, stderr, verbatim, working
from discreet.cli._outcome import Reply
from discreet.cli._session import (
    Where,
    check_offer,
    check_writable,
    question,
    whoever,
    write,
)
from discreet.service import Price

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.curator import Quote


def preview(
    where: Where, sql: str | None, file: str | None, offer: Mapping[str, Any], *, show_sql: bool
) -> Reply:
    """Price a question; nothing is charged or run."""
    text = question(sql, file)
    with whoever(where, spend=False) as opened:
        check_offer(offer, opened)
        quote = opened.preview(text, **offer)
    if isinstance(quote, Price):
        price = quote
        return Reply(
            dict(price.data), lambda console: _show_quote(console, price, show_sql=show_sql)
        )
    plan, level = quote.plan, read_confidence(offer["confidence"])
    data = {
        "cost": quote.cost,
        "left": quote.left,
        "noise": plan.noise,
        "why": plan.why,
        "error": quote.error(level),
        "refused": quote.refused,
        "stored": quote.stored,
        "warnings": quote.warnings,
        "confidence": level,
        "plan": plan.lowered.measured,
        "sql": list(quote.sql),
    }
    return Reply(data, lambda console: _show_quote(console, quote, show_sql=show_sql))


def _show_quote(console: Console, quote: Quote | Price, *, show_sql: bool) -> None:
    verbatim(console, repr(quote))
    if show_sql:
        heading(console, "What would run")
        for statement in quote.sql:
            verbatim(console, statement)
    say(console, "Nothing was read and nothing was charged.", "dim")


def ask(
    where: Where,
    sql: str | None,
    file: str | None,
    offer: Mapping[str, Any],
    *,
    chart: Path | None,
    save: Path | None,
    fresh: bool,
    key: str | None,
) -> Reply:
    """Answer a question; what could refuse the result's files is checked before paying."""
    text = question(sql, file)
    _charts.check_chart(chart)
    check_writable(save, "the record")
    with working("asking…"), whoever(where, spend=True) as opened:
        check_offer(offer, opened)
        answer = opened.sql(text, **offer, fresh=fresh, key=key)
    level = str(offer["confidence"])
    files = []
    if save is not None:
        record = answer.record() if answer.signed is None else dict(answer.signed)
        write(save, json_safe(json.dumps(record, ensure_ascii=False, indent=1)) + "\n")
        files.append(save)
    if chart is not None:
        _charts.draw(answer.chart(level), chart)
        files.append(chart)

    def show(console: Console) -> None:
        _answers.show(console, answer, level)
        for path in files:
            say(stderr(), f"wrote {path}", "dim")

    def data() -> dict[str, Any]:
        vouched = {k: v for k, v in (answer.signed or {}).items() if k != "records"}
        return {**as_data(answer, level), **vouched}

    return Reply(data, show)
