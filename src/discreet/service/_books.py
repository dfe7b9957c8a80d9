"""What the page of a budget shows: spent and left, what limits besides it, when it will be gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from markupsafe import Markup

from discreet import meaning
from discreet._print import short, short_down
from discreet.ledger import Line
from discreet.service import _pictures, _views
from discreet.service._desk import Desk
from discreet.service._keys import Actor, Role

_LATEST: Final = 50
_NOTHING: Final = Fraction(0)


def contents(desk: Desk, actor: Actor) -> dict[str, Any]:
    """Collect what the page says to somebody; in a thread of the ledger's."""
    budget = _views.budget_of(desk, actor)
    everybody = actor.role in (Role.OWNER, Role.AUDITOR)
    lines = desk.ledger.lines
    debits = _pictures.spending(lines, None if everybody else actor.name)
    whole = meaning.of(desk.ledger)
    return {
        "says": budget["says"],
        "amounts": _amounts(budget, everybody=everybody),
        "notes": _notes(desk),
        "limits": _limits(desk, actor, everybody=everybody),
        "everybody": everybody,
        "meaning": str(whole),
        "debits": [{"when": d.when, "who": d.who, "price": short(d.price)}
                   for d in debits[-_LATEST:]],
        "forecast": _forecast(desk, actor, lines, everybody=everybody),
        "timeline": Markup(_pictures.timeline(debits)),  # noqa: S704 - every text in it is escaped
        "people": Markup(_pictures.people(whole)),  # noqa: S704 - numbers alone
    }  # fmt: skip


def _amounts(budget: Mapping[str, Any], *, everybody: bool) -> list[dict[str, str]]:
    """Rows of the table: spent, total and left, in as many digits each."""
    parts = {"everybody": budget["whole"], **budget["shares"]}
    if not everybody and budget["draws_on"] != "the whole":
        parts[budget["draws_on"]] = budget["share"]
    rows = [
        {"of": of, "currency": c, "spent": short(x["spent"]), "total": short(x["total"]),
         "left": short_down(max(x["left"], _NOTHING))}
        for of, part in parts.items() for c, x in _in_order(part)
    ]  # fmt: skip
    if not everybody:
        rows += [{"of": "you", "currency": c, "spent": short(x), "total": "", "left": ""}
                 for c, x in _in_order(budget["mine"])]  # fmt: skip
    return rows


def _in_order(amounts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Amounts of each currency, ε first."""
    return sorted(amounts.items(), key=lambda item: (item[0] != "epsilon", item[0]))


def _notes(desk: Desk) -> list[str]:
    """Say what the table's currencies are to each other, where there are several."""
    balance = desk.ledger.balance()
    if not {"epsilon", "rho"} <= set(balance.amounts):
        return []
    ways = ("Questions are paid in ε or in ρ, whichever has room: one of them may be used up while "
            "the other lasts.")  # fmt: skip
    halves = (f"The budget's δ is {short(balance.delta)}: half of it turns ρ into ε, the other "
              "half, shown in the table, is for questions that need a δ themselves.")  # fmt: skip
    return [ways, halves]


def _limits(desk: Desk, actor: Actor, *, everybody: bool) -> list[str]:
    """Say what may refuse a question besides the budget: by the rule of asking."""
    room = desk.admission.room(actor.name, everybody=everybody)
    service, sentences = desk.counter.policy.service, []
    if room.closed:
        what = "This policy is" if "*" in room.closed else f"Tables are ({', '.join(room.closed)})"
        sentences.append(f"{what} closed for new questions.")
    if room.daily is not None:
        own = f"; you have spent ε = {short(room.today)} of it today"
        sentences.append(f"The limit of a day (UTC) for one analyst is ε = {short(room.daily)}"
                         f"{'' if everybody else own}.")  # fmt: skip
    if service.approval is not None:
        sentences.append(f"A question above ε = {short(service.approval)} waits for an owner; what "
                         "it costs is set aside until the decision.")  # fmt: skip
    if room.aside:
        sentences.append(
            f"ε = {short(room.aside)} is set aside for questions that wait for an owner."
        )
    return sentences


def _forecast(desk: Desk, actor: Actor, lines: Sequence[Line], *, everybody: bool) -> str:
    """Say how long what the reader draws on will last."""
    whole = desk.ledger.balance()
    if everybody:
        return _pictures.forecast(lines, whole, whole.remaining)
    shares = desk.ledger.state.limits.shares
    share = desk.ledger.balance(actor.name)

    def draws(line: Line) -> bool:
        who = line.content.get("analyst")
        return who == actor.name if actor.name in shares else who not in shares

    own = [x for x in lines if x.kind != "debit" or draws(x)]
    return _pictures.forecast(own, share, min(share.remaining, whole.remaining))
