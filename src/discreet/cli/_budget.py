"""``discreet budget``: who spent what and when, the chain, and the owner's decisions."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet import _print
from discreet._exact import show as exactly
from discreet._print import plural, short_down
from discreet._text import json_safe, visible
from discreet.cli._check import delta_words
from discreet.cli._console import (
    bar,
    facts,
    grid,
    heading,
    say,
    show_table,
    sparkline,
    stderr,
    verbatim,
    working,
)
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._session import (
    Where,
    check_writable,
    connected,
    curator,
    ledger_of,
    pairs,
    write,
)
from discreet.ledger import RESTORED, UNKNOWN, Balance, ChainedLedger, Line, charge

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.curator import Budget as Spending
    from discreet.policy import Budget

_SYMBOLS: Final = {"epsilon": "ε", "rho": "ρ", "delta": "δ"}
_OTHERS: Final = "(others)"
_NOBODY: Final = "(nobody named)"
_WIDTH: Final = 48
_REMAINDER: Final = (
    "left is the largest ε that one more question may have. Many small questions may add up to "
    "more than the total: together they reveal less than their sum says. Gaussian noise (a price "
    "in ρ, or with a δ) is counted by ρ alone from then on, so spent and left need not add up to "
    "the total. Half of the budget's δ turns ρ into ε, so the δ total is the other half."
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_FIELDS: Final = (
    "number", "when", "kind", "analyst", "tables", "epsilon", "delta", "rho", "rho_delta", "noise",
    "neighbours", "unit", "plan", "external", "text", "fingerprint", "source", "key", "by", "note",
    "hash",
)  # fmt: skip


# -- looking --------------------------------------------------------------------------


def show(where: Where, *, analyst: str | None, last: int) -> Reply:
    """Sum up a ledger, or say what the service that the environment names says."""
    remote = None if where.ledger else connected(where)
    if remote is not None:
        with remote:
            return _remote(remote.budget)
    ledger = ledger_of(where, "try")
    state, lines = ledger.state, ledger.lines
    spenders = _spenders(ledger, analyst)
    data = {
        "policy": ledger.identity,
        "ledger": ledger.where,
        "period": state.period,
        "closed": list(state.closed),
        "missing": list(ledger.unmarked),
        "accounting": state.limits.accounting,
        "whole": _amounts(ledger.balance()),
        "shares": {who: exactly(part) for who, part in state.limits.shares.items()},
        "analysts": {
            who: _spending(state.limits, b, ledger.balance()) for who, b in spenders.items()
        },
        "entries": [_row(line) for line in lines[-last:]] if last else [],
    }

    def print_all(console: Console) -> None:
        _show_head(console, ledger)
        _show_spenders(console, state.limits, ledger.balance(), spenders)
        _show_time(console, state.limits, lines)
        if last:
            _show_entries(console, state.limits, lines[-last:])

    return Reply(data, print_all)


def _remote(spending: Spending) -> Reply:
    data = {
        "analyst": spending.analyst,
        "accounting": spending.table.accounting,
        "whole": _amounts(spending.table),
        "share": _amounts(spending.share, spending.table),
        "set_aside": exactly(spending.held),
    }
    return Reply(data, lambda console: say(console, repr(spending)))


def _spenders(ledger: ChainedLedger, analyst: str | None) -> dict[str, Balance]:
    """Balance of every share or, where there are none, what every analyst has spent."""
    state, whole = ledger.state, ledger.balance()
    shares = state.limits.shares
    if analyst is not None:
        return {analyst: ledger.balance(analyst)}
    if shares:
        others = {_OTHERS: ledger.balance("")} if set(state.spent) - set(shares) else {}
        return {name: ledger.balance(name) for name in shares} | others
    return {
        name or _NOBODY: Balance(
            whole.accounting,
            {
                currency: (amount, whole.amounts[currency][1])
                for currency, amount in charge(whole.amounts, cost).items()
            },
            whole.routes,
        )
        for name, cost in sorted(state.spent.items())
    }


def _amounts(balance: Balance, whole: Balance | None = None) -> dict[str, dict[str, str]]:
    """What is spent and left; of a share, no more is left than of the `whole`."""
    return {
        currency: {
            "spent": exactly(spent),
            "total": exactly(total),
            "left": exactly(min(total - spent, (whole or balance).left(currency))),
        }
        for currency, (spent, total) in balance.amounts.items()
    }


def _spending(budget: Budget, balance: Balance, whole: Balance) -> dict[str, Any]:
    amounts = _amounts(balance, whole)
    return amounts if budget.shares else {c: {"spent": a["spent"]} for c, a in amounts.items()}


short = partial(_print.short, longest=7, digits=3)


def _show_head(console: Console, ledger: ChainedLedger) -> None:
    state = ledger.state
    place = "none yet: nothing asked" if ledger.where == ":memory:" else ledger.where
    lines = [
        ("policy", ledger.identity),
        ("ledger", place),
        ("period", f"{state.period}, {state.limits.accounting} accounting"),
    ]
    if state.closed:
        closed = "everything" if "*" in state.closed else ", ".join(state.closed)
        lines.append(("closed", closed))
    lines += [("missing", name) for name in ledger.unmarked]
    facts(console, lines)
    console.print()


def _show_spenders(
    console: Console, budget: Budget, whole: Balance, spenders: dict[str, Balance]
) -> None:
    symbol = _SYMBOLS[whole.currency]
    rows = []
    for who, balance in [*spenders.items(), ("together", whole)]:
        # without shares everybody draws on the whole: nobody has a total of their own
        own = balance is whole or bool(budget.shares)
        spent, total = balance.amounts[whole.currency]
        left = min(balance.remaining, whole.remaining)
        row = [who, short(spent), *([short(total), short_down(left)] if own else "  ")]
        if "delta" in balance.amounts:
            spent, total = balance.amounts["delta"]
            row += [short(spent), short(total) if own else ""]
        share = float(balance.used)
        rows.append([*row, f"{bar(share, 10)} {share:4.0%}" if own else ""])
    header = ["analyst", f"{symbol} spent", f"{symbol} total", f"{symbol} left"]
    header += ["δ spent", "δ total"] if "delta" in whole.amounts else []
    numeric = range(1, len(header))
    show_table(console, grid([*header, ""], rows, right=tuple(numeric), keys=1))
    if {"epsilon", "rho"} <= set(whole.amounts):
        say(console, _REMAINDER, "dim")


def _show_time(console: Console, budget: Budget, lines: Sequence[Line]) -> None:
    debits = [line for line in lines if line.kind == "debit"]
    if not debits:
        say(console, "Nothing has been spent.")
        return
    line, first, final = _timeline(budget, debits)
    symbol = _SYMBOLS[_main(budget)]
    console.print()
    say(console, f"{symbol} over time, {plural(len(debits), 'question')}, all periods")
    say(console, f"{line}")
    say(console, f"{first}{final:>{max(1, len(line) - len(first))}}", "dim")


def _timeline(budget: Budget, debits: Sequence[Line]) -> tuple[str, str, str]:
    """Spending in equal slices of the time between the first debit and the last."""
    moments = [dt.datetime.fromisoformat(line.when) for line in debits]
    begin, end = min(moments), max(moments)
    length = max((end - begin).total_seconds(), 1.0)
    slices = [0.0] * _WIDTH
    for moment, line in zip(moments, debits, strict=True):
        at = min(_WIDTH - 1, int((moment - begin).total_seconds() / length * _WIDTH))
        slices[at] += float(_price(budget, line))
    form = "%Y-%m-%d" if begin.date() != end.date() else "%Y-%m-%d %H:%M:%S"
    return sparkline(slices), begin.strftime(form), end.strftime(form)


def _main(budget: Budget) -> str:
    return "epsilon" if budget.rho is None else "rho"


def _price(budget: Budget, line: Line) -> Fraction:
    cost: Fraction = getattr(line.entry("").cost, _main(budget))
    return cost


def _show_entries(console: Console, budget: Budget, lines: Sequence[Line]) -> None:
    heading(console, "Last entries" if len(lines) > 1 else "Last entry")
    symbol = _SYMBOLS[_main(budget)]
    rows = []
    for line in lines:
        body = line.content
        price = short(_price(budget, line)) if line.kind == "debit" else ""
        who = body.get("analyst") or body.get("by") or ""
        rows.append(
            [str(line.number), line.when[:19].replace("T", " "), who, price, _description(line)]
        )
    header = ("line", "when (UTC)", "who", symbol, "what")
    show_table(console, grid(header, rows, right=(0, 3)))


def _description(line: Line) -> str:
    body = line.content
    match line.kind:
        case "open":
            past = len(body.get("forgotten", ()))
            before = f", a fresh budget: {plural(past, 'earlier ledger')} forgotten"
            return f"the ledger begins{before if past else ''}"
        case "debit":
            if body["plan"] == RESTORED:
                return str(body["external"])
            if "external" in body:
                return f"elsewhere: {body['external']}"
            if "text" in body:
                return str(body["text"])
            tables = ", ".join(body.get("tables") or ()) or "?"
            return f"{tables}: {_noise(body['noise'])}, plan {body['plan'][:12]}"
        case "settle":
            return f"line {body['debit']} {'is answered' if body['record'] else 'has failed'}"
        case "key":
            return f"key {body['key']} is given what line {body['debit']} has paid for"
        case "format":
            return f"format {body['format']} begins"
    words = _decision(line.kind, body)
    return f"{words}: {body['note']}" if body.get("note") else words


def _decision(kind: str, body: dict[str, Any]) -> str:
    """What an owner has decided."""
    match kind:
        case "budget":
            return "new totals or shares"
        case "close" | "reopen":
            return f"{kind} {'everything' if body['table'] == '*' else body['table']}"
        case "consent":
            return f"policy {body['policy']} may spend from it"
        case "vouch":
            return f"its owner answers for {body['source']}"
        case "period":
            return "a new period"
    return kind


def _noise(text: str) -> str:
    """Kinds of noise in an entry's own description."""
    try:
        parts = [part for plan in json.loads(text) for part in plan]
        laws = [part["law"].get("law", part["law"]) for part in parts if part["law"]]
        kinds = [str(x.get("law", "choice")) if isinstance(x, dict) else str(x) for x in laws]
    except (ValueError, TypeError, KeyError, AttributeError):
        return "noise"
    return " and ".join(dict.fromkeys(k.replace("-", " ") for k in kinds)) or "no noise"


def verify(where: Where) -> Reply:
    """Recompute the whole chain."""
    with working("recomputing the chain…"):
        ledger = ledger_of(where, "look")
        check = ledger.verify()
    data = {
        "policy": ledger.identity,
        "ledger": ledger.where,
        "lines": check.lines,
        "debits": check.debits,
        "period": check.period,
        "head": check.head,
        "missing": list(check.unmarked),
    }
    color = "yellow" if check.unmarked else "green"
    return Reply(data, lambda console: say(console, str(check), color))


# -- export ---------------------------------------------------------------------------


def export(where: Where, *, form: str, output: str | None) -> Reply:
    """Write every line of the ledger."""
    ledger = ledger_of(where, "look")
    rows = [_row(line) for line in ledger.lines]
    text = (
        _csv(rows)
        if form == "csv"
        else json_safe(json.dumps(rows, ensure_ascii=False, indent=1)) + "\n"
    )
    data: dict[str, Any] = {"policy": ledger.identity, "lines": rows}
    if output is None or output == "-":
        return Reply(data, lambda console: verbatim(console, text.rstrip("\n")))
    path = Path(output)
    check_writable(path, "the export")
    if path.exists():
        raise UsageError(f"{output!r} already exists: an export is a new file")
    write(path, text)
    data["written"] = output
    message = f"wrote {plural(len(rows), 'line')} to {output}"
    return Reply(data, lambda _: say(stderr(), message, "dim"))


def _row(line: Line) -> dict[str, Any]:
    body = line.content
    row: dict[str, Any] = {"number": line.number, "when": line.when, "kind": line.kind}
    row |= {name: value for name, value in body.items() if name in _FIELDS}
    amounts = {name: Fraction(value) for name, value in body.get("cost", {}).items()}
    row |= {name: exactly(value) for name, value in amounts.items() if value < UNKNOWN}
    for name in ("table", "budget", "forgotten"):
        if name in body:
            row[name] = body[name]
    if past := body.get("forgotten"):
        row["note"] = "; ".join(map(_predecessor, past))
    return row | {"hash": line.hash}


def _predecessor(past: dict[str, Any]) -> str:
    """Say of a ledger that was forgotten who decided, when, and how long it was."""
    lines = f", of {plural(past['lines'], 'line')}" if "lines" in past else ""
    return f"an earlier ledger{lines}, was forgotten by {past.get('by')} at {past.get('at')}"


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_FIELDS)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in _FIELDS])
    return out.getvalue()


def _cell(value: Any) -> str:
    """Write a cell; what a spreadsheet would take for a formula becomes text."""
    if value is None:
        return ""
    text = visible(" ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


# -- planning ---------------------------------------------------------------------------


def plan(
    where: Where, *, questions: int, within: str, months: int, confidence: str, table: str | None
) -> Reply:
    """Say what a number of counts of a margin cost together."""
    from discreet.privacy import Zcdp  # noqa: PLC0415 - imported when used

    with curator(where, spend=False) as opened:
        private = [t.name for t in opened.policy.tables.values() if not t.public]
        name = private[0] if table is None else opened.policy.table(table).name
        question = f'SELECT COUNT(*) AS n FROM "{name}"'  # noqa: S608 - a name of the policy
        quote = opened.preview(question, within={"n": within}, confidence=confidence)
        budget, balance = opened.policy.budget, opened.ledger.balance()
        rows = opened.policy.service.rows
    cost, number, span = quote.plan.cost, questions * months, plural(months, "month")
    delta = budget.delta or Fraction(1, 10**6)
    by_sum = cost.epsilon * number
    by_rho = Fraction(Zcdp(cost.rho * number).epsilon(delta / 2))
    needed = min(by_sum, by_rho) if budget.delta else by_sum
    fits = balance.more(cost)
    data = {
        "table": name, "questions": number, "each": exactly(cost.epsilon),
        "epsilon": float(needed), "epsilon_by_sum": float(by_sum),
        "epsilon_with_delta": float(by_rho), "delta": exactly(delta),
        "fits_now": fits, "months_now": None if fits is None else fits // questions,
    }  # fmt: skip

    def show_plan(console: Console) -> None:
        facts(console, [
            ("questions", f"{questions} a month for {span}: {number} counts of {name}"),
            ("margin", f"± {within} at {confidence}, ε {short(cost.epsilon)} each"),
            ("needed", f"ε {float(needed):.4g} in all" + (f", δ {float(delta):.3g}"
                                                         if budget.delta else "")),
            ("without δ", f"ε {float(by_sum):.4g}"),
            ("with δ", f"ε {float(by_rho):.4g} at δ {float(delta):.3g}"),
            ("left now", "any number" if fits is None else
             f"{fits} such counts, {plural(fits // questions, 'month')}"),
        ])  # fmt: skip
        if words := delta_words(delta, rows):
            say(console, f"δ {words}", "dim")

    return Reply(data, show_plan)


# -- the owner's decisions ------------------------------------------------------------


def raise_totals(where: Where, *, lower: bool, note: str, by: str, **totals: Any) -> Reply:
    """Put new totals of the budget on record."""
    changes = {name: value for name, value in totals.items() if value is not None}
    if not changes:
        raise UsageError("no new total was stated", hint="discreet budget raise --epsilon 3")
    ledger = ledger_of(where, "decide")
    ledger.raise_budget(**changes, lower=lower, by=by, note=note)
    return decided(ledger, "new totals are on record")


def set_shares(where: Where, *, parts: Sequence[str] | None, note: str, by: str) -> Reply:
    """Put new shares of the analysts on record."""
    portions = pairs(parts or [], "discreet budget shares ana=0.5 ben=0.25")
    ledger = ledger_of(where, "decide")
    ledger.set_shares(portions, by=by, note=note)
    return decided(
        ledger, "new shares are on record" if portions else "there are no shares any more"
    )


def close(where: Where, *, table: str | None, note: str, by: str) -> Reply:
    """Record that a table is closed."""
    _check_table(where, table)
    ledger = ledger_of(where, "decide")
    ledger.close(table, by=by, note=note)
    return decided(ledger, f"{table or 'everything'} is closed")


def reopen(where: Where, *, table: str | None, note: str, by: str) -> Reply:
    """Record that a table is open again."""
    _check_table(where, table)
    ledger = ledger_of(where, "decide")
    ledger.reopen(table, by=by, note=note)
    return decided(ledger, f"{table or 'everything'} is open")


def new_period(where: Where, *, note: str, by: str) -> Reply:
    """Record that a new period begins."""
    ledger = ledger_of(where, "decide")
    ledger.new_period(by=by, note=note)
    return decided(ledger, f"period {ledger.state.period} has begun with the whole budget")


def _check_table(where: Where, table: str | None) -> None:
    if table is not None:
        where.load().table(table)


def decided(ledger: ChainedLedger, words: str, number: int | None = None) -> Reply:
    """Say what has become a line, the last one unless it is named."""
    lines = ledger.lines
    line = lines[-1 if number is None else number - 1]
    data = {"decision": words, "entry": _row(line), "whole": _amounts(ledger.balance())}
    return Reply(data, lambda console: say(console, f"Line {line.number}: {words}.", "green"))
