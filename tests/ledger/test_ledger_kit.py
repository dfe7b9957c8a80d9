"""The kit of rules for ledgers: ours keep them, and broken ones are told apart.

No randomness decides anything here but the order of threads; a sound ledger passes in any.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet import audit, errors, ledger
from discreet.plan import Cost


@pytest.mark.races
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_our_ledgers_keep_the_rules(kind, folder, request):
    def opener(policy):
        where = {"memory": ":memory:", "sqlite": folder / f"{policy.name}.ledger"}.get(kind)
        return ledger.open_ledger(where or request.getfixturevalue("postgres_url"), policy)

    report = audit.check_ledger(opener)
    assert report.ok, report
    assert len(report.checks) >= 12


class Book:
    """A ledger that hands everything on to one of ours."""

    def __init__(self, policy):
        self.book = ledger.open_ledger(":memory:", policy)

    def debit(self, entry):
        return self.book.debit(entry)

    def settle(self, receipt, record):
        return self.book.settle(receipt, record)

    def knows(self, entry):
        return self.book.knows(entry)

    def found(self, entry):
        return self.book.found(entry)

    def balance(self, analyst=None):
        return self.book.balance(analyst)

    @property
    def entries(self):
        return self.book.entries


class Rounded(Book):
    """Prices in doubles, cut off."""

    def debit(self, entry):
        price = Fraction(int(entry.cost.epsilon * 10**9), 10**9 + 1)
        return self.book.debit(replace(entry, cost=replace(entry.cost, epsilon=price)))


class Noted(Book):
    """Writes refusals down as debits."""

    def debit(self, entry):
        try:
            return self.book.debit(entry)
        except errors.BudgetExceededError:
            small = Cost(Fraction(1, 10**9), Fraction(0), Fraction(0), Fraction(0))
            self.book.debit(replace(entry, cost=small, key=None, fresh=True))
            raise


class Trusting(Book):
    """Takes test noise."""

    def debit(self, entry):
        return self.book.debit(replace(entry, tainted=False))


class Forgetful(Book):
    """Each handle has a budget of its own."""

    numbers = itertools.count()

    def __init__(self, policy):
        from discreet import policy as pol

        self.own = pol.Policy(
            policy.tables.values(), policy.budget, name=f"other {next(self.numbers)}"
        )
        super().__init__(self.own)

    def debit(self, entry):
        return self.book.debit(replace(entry, policy=self.own.identity))


class Anonymous(Book):
    """Shares are not looked at."""

    def debit(self, entry):
        return self.book.debit(replace(entry, analyst=None))


class Blind(Book):
    """δ costs nothing."""

    def debit(self, entry):
        cost = replace(entry.cost, delta=Fraction(0), rho_delta=Fraction(0))
        return self.book.debit(replace(entry, cost=cost))


class Greedy(Book):
    """Every question pays."""

    def debit(self, entry):
        return self.book.debit(replace(entry, fresh=True, key=None))


class Unpaid(Book):
    """Does not ask whether what pays is there."""

    def debit(self, entry):
        return self.book.debit(replace(entry, paid_by=None))


class Repeating(Book):
    """Sells again what is released once."""

    def debit(self, entry):
        return self.book.debit(replace(entry, once=False))


class Refunding(Book):
    """Takes a price below zero in a currency that it does not count in."""

    def debit(self, entry):
        cost = entry.cost
        if self.book.balance().accounting == "approx":
            cost = replace(cost, rho=max(cost.rho, Fraction(0)))
        return self.book.debit(replace(entry, cost=cost))


class Keyless(Book):
    """Keys are ignored."""

    def debit(self, entry):
        return self.book.debit(replace(entry, key=None))


class Hopeful(Book):
    """A failure is tried again."""

    def settle(self, receipt, record):
        return None if record is None else self.book.settle(receipt, record)


class Careless(Book):
    """Settles whatever it is given."""

    def settle(self, receipt, record):
        try:
            return self.book.settle(receipt, record)
        except errors.LedgerError:
            return record


class Racing(Book):
    """Looks at the balance first, and pays later without looking again."""

    def debit(self, entry):
        import time

        if self.book.balance().left("epsilon") < entry.cost.epsilon:
            raise errors.BudgetExceededError("too much")
        time.sleep(0.01)
        try:
            return self.book.debit(entry)
        except errors.BudgetExceededError:
            return ledger.Receipt(10**6, "x", "")


class Hasty(Book):
    """The last to settle decides what its own caller sees."""

    def settle(self, receipt, record):
        self.book.settle(receipt, record)
        return record


BROKEN = {
    Rounded: "exact", Noted: "refusals", Trusting: "refusals", Forgetful: "durable",
    Anonymous: "shares", Blind: "currencies", Greedy: "stored", Keyless: "keys",
    Unpaid: "paid", Repeating: "paid", Refunding: "refusals",
    Hopeful: "failures", Careless: "forged", Racing: "threads", Hasty: "one key",
}  # fmt: skip


@pytest.mark.races
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_ledgers_are_told_apart(kind):
    report = audit.check_ledger(kind)
    assert BROKEN[kind] in {check.name for check in report.failures}, report
    assert "FAIL" in repr(report)


@pytest.mark.races
def test_the_kit_passes_what_only_hands_on():
    assert audit.check_ledger(Book).ok
