r"""Admission: whether one more debit fits the policy's budget.

Valid for adaptive use (design rule 5): sums with fixed caps, decided before the
query runs. Under ``pure`` and ``approx``, ε and δ add up (basic composition
holds for adaptively chosen parameters). Under ``zcdp``, ρ and the δ of key
selections add up: by Whitehouse et al. (2023, Thm 1) a filter that stops before
:math:`\sum\rho_i > \rho_B` or :math:`\sum\delta_i > \delta_B` is
:math:`\delta_B`-approximate :math:`\rho_B`-zCDP, which converts to (ε, δ). A
budget stated as (ε, δ) reserves half of δ for the conversion and half for key
selections.

An analyst's share is a part of every currency of the whole, never an addition:
both the share and the whole must have room. Analysts without a share may use
what the shares leave over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from discreet._exact import show
from discreet.errors import BudgetExceededError, TaintedNoiseError
from discreet.ledger._protocol import Balance, Entry
from discreet.plan import Cost
from discreet.policy import Budget
from discreet.privacy import Zcdp


def charge(budget: Budget, cost: Cost) -> dict[str, Fraction]:
    """Cost of a query in the budget's currency."""
    if budget.accounting == "zcdp":
        return {"rho": cost.rho, "delta": cost.rho_delta}
    if budget.accounting == "approx":
        return {"epsilon": cost.epsilon, "delta": cost.delta}
    return {"epsilon": cost.epsilon}


def caps(budget: Budget) -> dict[str, Fraction]:
    """Total of each currency."""
    if budget.accounting == "zcdp":
        if budget.rho is not None:
            return {"rho": budget.rho, "delta": budget.delta}
        assert budget.epsilon is not None
        half = budget.delta / 2
        return {"rho": largest_rho(budget.epsilon, half), "delta": half}
    assert budget.epsilon is not None
    if budget.accounting == "approx":
        return {"epsilon": budget.epsilon, "delta": budget.delta}
    return {"epsilon": budget.epsilon}


@lru_cache(maxsize=256)
def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Largest ρ (to 12 digits, rounded down) that is within (ε, δ) by tight conversion."""
    low, high = 0.0, float(epsilon)
    while Zcdp(Fraction(high)).epsilon(delta) <= epsilon:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if Zcdp(Fraction(middle)).epsilon(delta) <= epsilon:
            low = middle
        else:
            high = middle
    digits = 12 - math.ceil(math.log10(low))
    return Fraction(math.floor(Fraction(low) * 10**digits), 10**digits)


def share_of(budget: Budget, analyst: str | None) -> Fraction:
    """Part of the whole that an analyst may spend."""
    if not budget.shares:
        return Fraction(1)
    if analyst in budget.shares:
        assert analyst is not None
        return budget.shares[analyst]
    return 1 - sum(budget.shares.values(), Fraction(0))


def balance(budget: Budget, entries: Iterable[Entry], analyst: str | None = None) -> Balance:
    """Add up debits; with `analyst`, of that share alone."""
    part = Fraction(1) if analyst is None else share_of(budget, analyst)
    spent = {currency: Fraction(0) for currency in caps(budget)}
    for e in entries:
        if analyst is None or _same_share(budget, e.analyst, analyst):
            for currency, amount in charge(budget, e.cost).items():
                spent[currency] += amount
    amounts = {c: (spent[c], total * part) for c, total in caps(budget).items()}
    return Balance(budget.accounting, amounts)


def _same_share(budget: Budget, a: str | None, b: str | None) -> bool:
    return a == b or (a not in budget.shares and b not in budget.shares)


def admit(budget: Budget, entries: Iterable[Entry], entry: Entry) -> None:
    """Refuse `entry` unless it fits the whole and its share, and its noise is real."""
    if entry.tainted:
        raise TaintedNoiseError(
            "noise would come from the deterministic test source: nothing drawn from it is private"
        )
    past = list(entries)
    price = charge(budget, entry.cost)
    if budget.accounting == "pure" and entry.cost.delta:
        raise BudgetExceededError(
            "this query needs a delta, but the policy's accounting is pure",
            hint='accounting = "zcdp" and delta = "1e-6" in the policy',
        )
    whole = balance(budget, past)
    shares = [("the budget", whole)]
    if budget.shares:
        who = entry.analyst or ""
        shares.append(
            (f"the share of {entry.analyst or 'other analysts'}", balance(budget, past, who))
        )
    for name, state in shares:
        short = [c for c, amount in price.items() if amount > state.left(c)]
        if short:
            currency = short[0]
            left = state.left(currency)
            symbol = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}[currency]
            raise BudgetExceededError(
                f"{name} has {symbol}={_down(left)} left; this query costs "
                f"{symbol}={show(price[currency])}",
                hint=_fits(budget, currency, left),
            )


def _down(value: Fraction) -> str:
    text = show(value)
    return text if len(text) <= 12 else f"{float(value) * (1 - 1e-6):.5g}"


def _fits(budget: Budget, currency: str, left: Fraction) -> str | None:
    if left <= 0:
        return None
    name = "rho" if currency == "rho" else currency
    if budget.accounting == "zcdp" and currency == "delta":
        name = "delta"
    return f'{name}="{_down(left)}"'
