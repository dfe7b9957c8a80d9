r"""Admission: whether one more debit fits the policy's budget.

The rules, caps and proofs are those of ``discreet.privacy`` (``admit`` and
``Accounting``): sums with fixed caps, decided before the query runs, valid for
adaptive use (design rule 5).

A budget stated as (ε, δ) under zcdp has **two routes**. Half of δ converts ρ to ε, the other
half, d, is one cap for the δ of key selections on both routes:

* Σε ≤ ε_B and Σδ ≤ d, open while every question so far was pure apart from selections
  (no Gaussian noise, nothing composed numerically);
* Σρ ≤ ρ_B and Σδ ≤ d.

A question is admitted if either route admits it. Everything together is (ε_B, δ)-DP. *Proof.*
Let K be the event that no selection fails; as both routes count the same failures and
Σδ ≤ d along every path, P(not K) ≤ d. The sums only grow. So a transcript that ends within the
first route was within it all along: on K each answer's density ratio is at most e^εᵢ, the
product at most e^{ε_B}, hence P(T ∩ A ∩ K) ≤ e^{ε_B}·Q(T ∩ A) for the set A of these
transcripts. Every other transcript ends within the second route, was within it all along, and
has the same probability as under that filter alone: P(T ∩ B ∩ K) ≤ e^{ε_B}·Q(T ∩ B) + δ/2. Add
up: P(T) ≤ e^{ε_B}·Q(T) + δ/2 + d. With two separate caps on δ this fails: (1, 1e-6) by sums of
ε or by sums of ρ, each with its own δ, reaches δ(1) = 1.145e-6.

Stating a δ therefore never makes a budget smaller. The guarantee is (ε, δ)-DP and no more: a
budget that must be zCDP (for groups, or for other δ) is stated in ρ.

An analyst's share is a part of every currency of the whole, never an addition:
both the share and the whole must have room. Analysts without a share may use
what the shares leave over.

When the owner raises the budget, what has been spent stays spent, in every
currency, and the guarantee is that of the largest budget in force; it presumes
that raising is not decided by the answers. A new period starts at zero: its
guarantee is for itself, and over periods losses add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet import privacy
from discreet._exact import show
from discreet._print import short_down
from discreet.errors import (
    BudgetExceededError,
    DiscreetError,
    Hint,
    LedgerClosedError,
    ParameterError,
)
from discreet.ledger._protocol import Balance, Entry, Route, charge, routes
from discreet.ledger._state import (
    CURRENCIES,
    EVERYTHING,
    State,
    after,
    amount,
    budget_body,
    cost_body,
    rational,
    read_budget,
)
from discreet.plan import Cost
from discreet.policy import Budget
from discreet.privacy import Amount


@lru_cache(maxsize=256)
def _cap(
    accounting: str, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None
) -> Amount:
    return privacy.Accounting(accounting).cap(epsilon, delta, rho=rho)


def caps(budget: Budget) -> dict[str, Fraction]:
    """Total of each currency."""
    cap = _cap(budget.accounting, budget.epsilon, budget.delta, budget.rho)
    if budget.accounting != "zcdp":
        size = {"epsilon": cap.size}
        return size if budget.accounting == "pure" else size | {"delta": cap.delta}
    either = {} if budget.epsilon is None else {"epsilon": budget.epsilon}
    return {**either, "rho": cap.size, "delta": cap.delta}


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


def groups_of(analyst: str | None) -> tuple[str, ...]:
    """Every name that :func:`group_of` may give for an analyst."""
    return "whole", f"share {analyst}", "remainder"


def balance(state: State, analyst: str | None = None) -> Balance:
    """Spending against the budget in force; with `analyst`, of that share alone."""
    return _balance(state.budget, state.caps, state.spent, analyst, pure=state.pure)


@lru_cache(maxsize=32)  # of a state before a debit, after it, and when its outcome is stored
def _balance(
    limits: Mapping[str, Any],
    caps: Mapping[str, str],
    costs: Mapping[str, Cost],
    analyst: str | None,
    *,
    pure: bool,
) -> Balance:
    budget = read_budget(limits)
    part = Fraction(1) if analyst is None else share_of(budget, analyst)
    group = None if analyst is None else group_of(budget, analyst)
    totals = {currency: amount(text) for currency, text in caps.items()}
    spent = dict.fromkeys(totals, Fraction(0))
    payments = [cost for who, cost in costs.items() if group in (None, group_of(budget, who))]
    for cost in payments:
        for currency, price in charge(totals, cost).items():
            spent[currency] += price
    amounts = {c: (spent[c], total * part) for c, total in totals.items()}
    # whether a route is open is a matter of the whole, on which the proof rests
    ways = routes(totals, pure=pure)
    return Balance(budget.accounting, amounts, ways, budget.delta)


def check_total(state: State) -> None:
    """Refuse a state that has spent more than the whole."""
    if not balance(state).fits:
        raise BudgetExceededError("more was spent than the budget holds")


def admit(state: State, entry: Entry, body: Mapping[str, Any], number: int | None = None) -> State:
    """Refuse `entry` unless its tables are open and it fits the whole and its share.

    Returns the state after its line, whose `body` and `number` these are.
    """
    shut = sorted({EVERYTHING, *entry.tables} & set(state.closed))
    if shut:
        names = () if shut[0] == EVERYTHING else (shut[0],)
        what = "this policy" if shut[0] == EVERYTHING else f"table {shut[0]!r}"
        raise LedgerClosedError(
            f"the owner has closed {what}: no new questions",
            hint=Hint.call("reopen", "discreet budget reopen", *names),
        )
    budget, price = state.limits, charge(state.caps, entry.cost)
    if budget.shares and not entry.analyst and entry.external is None:
        raise ParameterError(
            "this budget is shared out among analysts: say who asks",
            hint=Hint("analyst", "NAME"),
        )
    if any(getattr(entry.cost, c) < 0 for c in CURRENCIES):  # the owner may change the accounting
        raise ParameterError("a cost must not be negative")
    if budget.accounting == "pure" and entry.cost.delta:
        raise BudgetExceededError(
            "this query needs a delta, but the policy's accounting is pure",
            hint='accounting = "zcdp" and delta = "1e-6" in the policy',
        )
    then = after(state, "debit", body, number)
    _room("the budget", balance(state), balance(then), price)
    if budget.shares:
        who = entry.analyst or ""
        name = f"the share of {who}" if who in budget.shares else "the share of other analysts"
        _room(name, balance(state, who), balance(then, who), price)
    return then


def _amount(amounts: Mapping[str, Fraction], route: Route) -> Amount:
    size = next(amounts[c] for c in route if c != "delta")
    return Amount(size, amounts.get("delta", Fraction(0)))


def _room(name: str, now: Balance, then: Balance, price: dict[str, Fraction]) -> None:
    """Refuse what the one rule of admission refuses on every route that stays open."""
    spent, total = ({c: x[i] for c, x in now.amounts.items()} for i in (0, 1))
    after_it = {c: x[0] for c, x in then.amounts.items()}
    for route in then.routes:
        # what the total grows by: never less than the price, whatever was rounded
        cost = _amount(after_it, route) - _amount(spent, route)
        try:
            privacy.admit(_amount(spent, route), cost, _amount(total, route), holder=name)
        except BudgetExceededError:
            continue
        return
    raise _refusal(name, now, then, price)


def refusal(name: str, balance: Balance, cost: Cost) -> BudgetExceededError | None:
    """What `admit` would say to a cost now; None if it fits. Nothing is recorded."""
    try:
        _room(name, balance, balance.after(cost), charge(balance.amounts, cost))
    except BudgetExceededError as refused:
        return refused
    return None


def refuses(
    state: State, entry: Entry, waiting: Sequence[tuple[str, Cost]] = ()
) -> DiscreetError | None:
    """What :func:`admit` would say to an entry now; None: it would be admitted.

    With `waiting`, what these analysts wait to pay counts as paid. Nothing is recorded.
    """
    for who, cost in waiting:
        state = after(state, "debit", _debit_body(who, cost))
    try:
        admit(state, entry, _debit_body(entry.analyst, entry.cost))
    except DiscreetError as refused:
        return refused
    return None


def _debit_body(who: str | None, cost: Cost) -> dict[str, Any]:
    """What of a debit's line changes the state."""
    return {"analyst": who, "plan": "", "cost": cost_body(cost), "by_rho": cost.by_rho}


def _refusal(
    name: str, now: Balance, then: Balance, price: dict[str, Fraction]
) -> BudgetExceededError:
    """Say which currency is short on the route that was nearest, and what would fit."""
    route = min(then.routes, key=then.used_of)
    currency = next(c for c in (*route[:1], "delta") if c in price and then.left(c) < 0)
    left = max(now.left(currency), Fraction(0))
    if currency == "rho" and price.get("epsilon", 0) > now.remaining:
        # said as everywhere else: in what the budget is stated in
        currency, left = "epsilon", now.remaining
    symbol = {"epsilon": "ε", "rho": "ρ", "delta": "δ"}[currency]
    if not price[currency]:
        return BudgetExceededError(
            f"{name} has spent more {symbol} than it holds: nothing more can be asked",
            hint="its owner may raise it, or begin a new period: discreet budget raise --help",
        )
    return BudgetExceededError(
        f"{name} has {symbol} {short_down(left)} left; this query costs "
        f"{symbol} {show(price[currency])}",
        hint=Hint(currency, short_down(left)) if left > 0 else None,
    )
