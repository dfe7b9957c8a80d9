"""Room in a budget: which way a question is paid, whether it would be refused, what would fit.

All of it is a function of prices and balances, which are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from discreet._exact import floor_decimal
from discreet.errors import Hint
from discreet.ledger import Balance, refusal
from discreet.plan import Ask, Lowered, Plan, price
from discreet.policy import Budget

_SYMBOLS: Final = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
_NAMES: Final = ("the budget", "your share")


def in_currency(budget: Budget, balances: Sequence[Balance], lowered: Lowered, offer: Ask) -> Plan:
    """Price a question in the currency in which it will be paid."""
    by_epsilon, by_rho = replace(offer, currency="epsilon"), replace(offer, currency="rho")
    if budget.accounting != "zcdp":
        return price(lowered, by_epsilon)
    if offer.rho is not None or any(len(b.routes) == 1 for b in balances):
        return price(lowered, by_rho)
    # both ways are open: the one by ε stays so with Laplace noise, if that has room
    first = price(lowered, by_epsilon)
    if _fits(balances, first):
        return first
    others = (price(lowered, by_epsilon, "laplace"), price(lowered, by_rho))
    return next((plan for plan in others if _fits(balances, plan)), first)


def _fits(balances: Sequence[Balance], plan: Plan) -> bool:
    return all(b.after(plan.cost).fits for b in balances)


def what_fits(balances: Sequence[Balance], plan: Plan, offer: Ask) -> str | None:
    """Largest ε at which the same question would be admitted, for who asked in ε."""
    if offer.epsilon is None or "rho" not in balances[0].amounts:
        return None
    low, high = Fraction(0), offer.epsilon
    for _ in range(24):
        middle = (low + high) / 2
        found = _fits(balances, price(plan.lowered, replace(offer, epsilon=middle)))
        low, high = (middle, high) if found else (low, middle)
    digits = floor_decimal(low)
    return Hint("epsilon", digits) if digits else None


def would_refuse(balances: Sequence[Balance], plan: Plan, offer: Ask) -> str | None:
    """Why a question would be refused now, and what would fit; None: it would be answered."""
    for name, balance in zip(_NAMES, balances, strict=True):
        refused = refusal(name, balance, plan.cost)
        if refused is not None:
            fits = what_fits(balances, plan, offer) or refused.hint
            given = getattr(fits, "parameters", ())
            room = [f"{_SYMBOLS[n]} {v}" for n, v in given if n in _SYMBOLS]
            return refused.message + (f"; what fits: {', '.join(room)}" if room else "")
    return None
