r"""Room in a budget: which way a question is paid, whether it would be refused, what would fit.

All of it is a function of prices and balances, which are public: that a law is chosen by them
costs nothing, for whatever is chosen is admitted by the ledger like any other question.

The law of a budget with two ways
---------------------------------
Under zcdp with (ε, δ) Laplace noise keeps both ways to pay open (sums of ε, sums of ρ), while
Gaussian noise leaves ρ alone: what is asked later is then paid by its ρ, pure or not. A law is
judged by what it leaves, on the better of the ways that are open after it:

.. math:: \min_{\text{whole, share}}\;\max_{\text{ways with room}}\;
   1-\frac{\text{spent}+\text{price}}{\text{total}},

read off the balances by which the ledger admits (:meth:`~discreet.ledger.Balance.after`), the least
price of any question included. ``within`` takes the law that leaves more; at a draw Laplace, which
closes nothing. With ``epsilon`` and a δ the accuracies differ as well: Gaussian noise is taken
where it is the smaller and leaves no less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from discreet._dataclass import replace
from discreet._exact import floor_decimal, show, turning
from discreet._print import short_down
from discreet.errors import BudgetExceededError, Hint, ParameterError
from discreet.ledger import Balance, refusal
from discreet.plan import Ask, Cost, Lowered, Plan, price

_SYMBOLS: Final = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
_NAMES: Final = ("the budget", "your share")
_DOUBLINGS: Final = 20
_USUAL_DELTA: Final = Fraction(1, 10**6)
_PART: Final = 10
"""A question that needs a δ is told this part of what is left: others may need one, too."""
_NOTHING: Final = Fraction(0)
_NO_ROOM: Final = Fraction(-1)


def pays_either(balances: Sequence[Balance]) -> bool:
    """Whether a question can be paid in ε or in ρ, so that its law decides about later ones."""
    return balances[0].accounting == "zcdp" and all(len(b.routes) > 1 for b in balances)


def pays_rho(balances: Sequence[Balance]) -> bool:
    """Whether ρ is the only currency in which a question can be paid."""
    return balances[0].accounting == "zcdp" and any(len(b.routes) == 1 for b in balances)


def check_delta(balances: Sequence[Balance], delta: Fraction | None) -> None:
    """Refuse a δ above the budget's own where no δ is debited: there any ρ has a small ε."""
    whole = balances[0]
    if delta is not None and whole.accounting == "zcdp" and delta > whole.delta:
        raise BudgetExceededError(
            f"δ {show(delta)} is offered, and the budget states δ {show(whole.delta)} for all "
            "questions together",
            hint=Hint("delta", show(whole.delta)),
        )


def stated_at(balances: Sequence[Balance]) -> Fraction:
    """δ at which a price in ρ is stated as an ε where none is offered: never above the budget's."""
    whole = balances[0]
    return min(Ask.stated, whole.delta) if whole.accounting == "zcdp" else Ask.stated


def in_currency(
    balances: Sequence[Balance], lowered: Lowered, offer: Ask, least: Cost | None = None
) -> Plan:
    """Price a question in the currency in which it will be paid; `least` is charged anyway."""
    check_delta(balances, offer.delta)
    offer = replace(offer, stated=stated_at(balances))
    with fitting_delta(balances, offer.delta):
        plan = _in_currency(balances, lowered, offer, least)
    return replace(plan, least=least)


def _in_currency(
    balances: Sequence[Balance], lowered: Lowered, offer: Ask, least: Cost | None
) -> Plan:
    by_epsilon, by_rho = replace(offer, currency="epsilon"), replace(offer, currency="rho")
    if balances[0].accounting != "zcdp":
        return price(lowered, by_epsilon)
    if offer.rho is not None or "epsilon" not in balances[0].amounts:
        return price(lowered, by_rho)
    if pays_rho(balances):
        return _or(price(lowered, by_rho), price(lowered, by_epsilon, "laplace"))
    if offer.within is not None:
        laplace = price(lowered, by_epsilon, "laplace")
        try:
            gaussian = price(lowered, by_rho, "gaussian")
        except (ParameterError, OverflowError):
            return laplace  # so small a margin that no ε is known for its ρ
        return _leaving_more(balances, laplace, gaussian, least)
    first = price(lowered, by_epsilon)
    laplace = price(lowered, by_epsilon, "laplace") if first.noise == "gaussian" else first
    if _fits(balances, first, least):
        return first if laplace is first else _leaving_more(balances, laplace, first, least)
    others = (laplace, price(lowered, by_rho))
    return next((_or(plan, first) for plan in others if _fits(balances, plan, least)), first)


def _or(plan: Plan, other: Plan) -> Plan:
    """A plan, and another law by which the same offer may have been taken up before."""
    return replace(plan, instead=other if plan.instead is None else _or(plan.instead, other))


def _leaving_more(
    balances: Sequence[Balance], laplace: Plan, gaussian: Plan, least: Cost | None
) -> Plan:
    """Whichever of two laws leaves more of the budget; Laplace noise where both leave as much."""
    if gaussian.noise != "gaussian" or not gaussian.losses:
        return laplace
    if room_after(balances, gaussian.cost, least) > room_after(balances, laplace.cost, least):
        why = f"{gaussian.why}; Laplace noise would leave less of the budget"
        return _or(replace(gaussian, why=why), laplace)
    why = f"{laplace.why}; Gaussian noise would leave no more of the budget"
    return _or(replace(laplace, why=why), gaussian)


def room_after(balances: Sequence[Balance], cost: Cost, least: Cost | None = None) -> Fraction:
    """Part of the budget that is left after a price, by the better way that has room; else −1."""
    cost = cost if least is None else cost.at_least(least)
    rooms = []
    for balance in balances:
        after = balance.after(cost)
        ways = [way for way in after.routes if all(after.left(c) >= 0 for c in way)]
        rooms.append(max((1 - after.used_of(way) for way in ways), default=_NO_ROOM))
    return min(rooms)


def later(balances: Sequence[Balance], plan: Plan) -> str | None:
    """What a question leaves to those after it, where it closes one of two ways to pay."""
    after = [b.after(plan.cost) for b in balances]
    if len(balances[0].routes) == len(after[0].routes) or not all(b.fits for b in after):
        return None
    most = short_down(min(b.remaining for b in after))
    return f"paid in ρ, as all that follows: one question without δ may then cost ε {most} at most"


@contextmanager
def fitting_delta(balances: Sequence[Balance], delta: Fraction | None) -> Iterator[None]:
    """Let a question that lacks a δ be told one that fits, where a price is worked out."""
    try:
        yield
    except ParameterError as refused:
        hint = refused.hint
        if delta is not None or not isinstance(hint, Hint) or "delta" not in dict(hint.parameters):
            raise
        raise refused.with_hint(_delta(balances)) from None


def _delta(balances: Sequence[Balance]) -> str | None:
    """δ that the whole and the share have room for, as a line to paste."""
    if any("delta" not in b.amounts for b in balances):
        return 'its owner may state delta = "1e-6" under [budget] in the policy'
    left = min(b.left("delta") for b in balances)
    text = floor_decimal(min(_USUAL_DELTA, left / _PART), 1)
    return Hint("delta", text.replace("e-0", "e-")) if text else None


def _fits(balances: Sequence[Balance], plan: Plan, least: Cost | None = None) -> bool:
    return room_after(balances, plan.cost, least) >= 0


def what_fits(
    balances: Sequence[Balance], plan: Plan, offer: Ask, refused: BudgetExceededError
) -> str | None:
    """Offer of the same kind at which the same question would be admitted, if there is one.

    In ε that is what is printed as left. Where only δ is short, the refusal itself knows more.
    """

    def fits(other: Ask) -> bool:
        return _fits(balances, in_currency(balances, plan.lowered, other, plan.least))

    if offer.within is not None:
        wider = offer.within
        for _ in range(_DOUBLINGS):
            wider = {name: 2 * margin for name, margin in wider.items()}
            if fits(replace(offer, within=wider)):
                return Hint("within", {n: _margin(m) for n, m in wider.items()})
        return None
    name = "epsilon" if offer.rho is None else "rho"

    def refuses(amount: Fraction) -> bool:
        by_rho = replace(offer, rho=amount) if offer.rho is not None else None
        return not fits(by_rho or replace(offer, epsilon=amount))

    if name in balances[0].amounts:
        own = balances[0].currency == name
        left = min(b.remaining if own else b.left(name) for b in balances)
    else:  # asked in ε of a budget in ρ, whose law of noise decides
        left, _ = turning(refuses, _NOTHING, offer.epsilon or _NOTHING, 2.0**-24)
    digits = short_down(max(left, _NOTHING))
    if digits != "0" and not refuses(Fraction(digits)):
        return Hint(name, digits)
    short = refused.hint if isinstance(refused.hint, Hint) else None
    return short if short and short.parameters[0][0] == "delta" else None


def _margin(value: Fraction) -> object:
    return int(value) if value.denominator == 1 else show(value)


def would_refuse(balances: Sequence[Balance], plan: Plan, offer: Ask) -> str | None:
    """Why a question would be refused now, and what would fit; None: it would be answered."""
    for name, balance in zip(_NAMES, balances, strict=True):
        if name != _NAMES[0] and balance is balances[0]:
            continue  # there are no shares
        refused = refusal(name, balance, plan.cost)
        if refused is not None:
            offers = getattr(what_fits(balances, plan, offer, refused), "parameters", ())
            room = [f"{_SYMBOLS.get(n, n)} {_spelling(v)}" for n, v in offers]
            return refused.message + (f"; what fits: {', '.join(room)}" if room else "")
    return None


def _spelling(value: object) -> str:
    """Write a margin of each column, or a number."""
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{column} ± {margin}" for column, margin in value.items())
