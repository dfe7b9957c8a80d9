r"""Admission: whether one more debit fits the policy's budget.

The rule, its caps and its proof are those of ``discreet.privacy`` (``admit`` and
``Accounting``): sums with fixed caps, decided before the query runs, valid for
adaptive use (design rule 5). A zCDP budget stated as (ε, δ) reserves half of δ for the
conversion and half for key selections.

An analyst's share is a part of every currency of the whole, never an addition:
both the share and the whole must have room. Analysts without a share may use
what the shares leave over.

When the owner raises the budget, what has been spent stays spent, in every
currency, and the guarantee is that of the largest budget in force; it presumes
that raising is not decided by the answers. A new period starts at zero: its
guarantee is for itself, and over periods losses add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet import privacy
from discreet._exact import show
from discreet.errors import BudgetExceededError, Hint, LedgerClosedError, ParameterError
from discreet.ledger._protocol import Balance, Entry
from discreet.ledger._state import (
    EVERYTHING,
    State,
    after,
    amount,
    budget_body,
    rational,
)
from discreet.plan import Cost
from discreet.policy import Budget
from discreet.privacy import Amount


def charge(budget: Budget, cost: Cost) -> dict[str, Fraction]:
    """Cost of a query in the budget's currency."""
    if budget.accounting == "zcdp":
        return {"rho": cost.rho, "delta": cost.rho_delta}
    price = {"epsilon": cost.epsilon, "delta": cost.delta}
    return price if budget.accounting == "approx" else {"epsilon": cost.epsilon}


@lru_cache(maxsize=256)
def _cap(
    accounting: str, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None
) -> Amount:
    return privacy.Accounting(accounting).cap(epsilon, delta, rho=rho)


def caps(budget: Budget) -> dict[str, Fraction]:
    """Total of each currency."""
    cap = _cap(budget.accounting, budget.epsilon, budget.delta, budget.rho)
    size = {"rho" if budget.accounting == "zcdp" else "epsilon": cap.size}
    return size if budget.accounting == "pure" else size | {"delta": cap.delta}


def least_cost(budget: Budget) -> Cost:
    """What any question costs at least: the same part of the whole in every currency."""
    part, total = budget.least_part, caps(budget)
    epsilon = (budget.epsilon or Fraction(1)) * part
    return Cost(epsilon, Fraction(0), total.get("rho", Fraction(0)) * part, Fraction(0))


def decided(budget: Budget) -> dict[str, object]:
    """What a line that decides the budget says: the budget, and what it allows."""
    allowed = {currency: rational(total) for currency, total in caps(budget).items()}
    return {"budget": budget_body(budget), "caps": allowed}


def share_of(budget: Budget, analyst: str | None) -> Fraction:
    """Part of the whole that an analyst may spend."""
    if not budget.shares:
        return Fraction(1)
    if analyst in budget.shares:
        assert analyst is not None
        return budget.shares[analyst]
    return 1 - sum(budget.shares.values(), Fraction(0))


def group_of(budget: Budget, analyst: str | None) -> str:
    """Name of the share that an analyst draws on: the whole, a share, or the remainder."""
    if not budget.shares:
        return "whole"
    return f"share {analyst}" if analyst in budget.shares else "remainder"


def balance(state: State, analyst: str | None = None) -> Balance:
    """Spending against the budget in force; with `analyst`, of that share alone."""
    budget = state.limits
    part = Fraction(1) if analyst is None else share_of(budget, analyst)
    group = None if analyst is None else group_of(budget, analyst)
    totals = {currency: amount(text) for currency, text in state.caps.items()}
    spent = dict.fromkeys(totals, Fraction(0))
    for who, cost in state.spent.items():
        if group is None or group_of(budget, who) == group:
            for currency, price in charge(budget, cost).items():
                spent[currency] += price
    amounts = {c: (spent[c], total * part) for c, total in totals.items()}
    return Balance(budget.accounting, amounts)


def check_total(state: State) -> None:
    """Refuse a state that has spent more than the whole."""
    total = balance(state)
    if any(total.left(c) < 0 for c in total.amounts):
        raise BudgetExceededError("more was spent than the budget holds")


def admit(state: State, entry: Entry, body: Mapping[str, Any], number: int | None = None) -> State:
    """Refuse `entry` unless its tables are open and it fits the whole and its share.

    Returns the state after its line, whose `body` and `number` these are.
    """
    shut = sorted({EVERYTHING, *entry.tables} & set(state.closed))
    if shut:
        what = "this policy" if shut[0] == EVERYTHING else f"table {shut[0]!r}"
        raise LedgerClosedError(f"the owner has closed {what}: no new questions")
    budget, price = state.limits, charge(state.limits, entry.cost)
    if budget.shares and not entry.analyst and entry.external is None:
        raise ParameterError(
            "this budget is shared out among analysts: say who asks",
            hint=Hint("analyst", next(iter(budget.shares))),
        )
    if any(part < 0 for part in price.values()):
        raise ParameterError("a cost must not be negative")
    if budget.accounting == "pure" and entry.cost.delta:
        raise BudgetExceededError(
            "this query needs a delta, but the policy's accounting is pure",
            hint='accounting = "zcdp" and delta = "1e-6" in the policy',
        )
    spent = after(state, "debit", body, number)
    _room("the budget", balance(state), balance(spent), price)
    if budget.shares:
        who = entry.analyst or ""
        name = f"the share of {who}" if who in budget.shares else "the share of other analysts"
        _room(name, balance(state, who), balance(spent, who), price)
    return spent


def _amount(amounts: Mapping[str, Fraction]) -> Amount:
    size = amounts["rho"] if "rho" in amounts else amounts["epsilon"]
    return Amount(size, amounts.get("delta", Fraction(0)))


def _room(name: str, now: Balance, then: Balance, price: dict[str, Fraction]) -> None:
    """Refuse what the one rule of admission refuses (:func:`discreet.privacy.admit`)."""
    spent, total = ({c: x[i] for c, x in now.amounts.items()} for i in (0, 1))
    after_it = {c: x[0] for c, x in then.amounts.items()}
    # what the total grows by: never less than the price, whatever was rounded
    cost = _amount(after_it) - _amount(spent)
    try:
        privacy.admit(_amount(spent), cost, _amount(total), holder=name)
    except BudgetExceededError:
        raise _refusal(name, now, then, price) from None


def _refusal(
    name: str, now: Balance, then: Balance, price: dict[str, Fraction]
) -> BudgetExceededError:
    """Say which currency is short, and what would fit."""
    currency = next(c for c in ("epsilon", "rho", "delta") if c in price and then.left(c) < 0)
    symbol = {"epsilon": "ε", "rho": "ρ", "delta": "δ"}[currency]
    left = max(now.left(currency), Fraction(0))
    return BudgetExceededError(
        f"{name} has {symbol}={_down(left)} left; this query costs "
        f"{symbol}={show(price[currency])}",
        hint=_fits(currency, left),
    )


def _down(value: Fraction) -> str:
    text = show(value)
    return text if len(text) <= 12 else f"{float(value) * (1 - 1e-6):.5g}"


def _fits(currency: str, left: Fraction) -> str | None:
    return Hint(currency, _down(left)) if left > 0 else None
