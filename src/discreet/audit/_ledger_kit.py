"""The kit for a ledger of one's own: what every ledger must do, wherever it is kept.

Each check opens a ledger of a fresh policy and uses the :class:`~discreet.ledger.Ledger`
protocol alone. Our own tests run the same checks on all our stores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import uuid4

from discreet import errors, ledger
from discreet import policy as pol
from discreet.audit._check import Check, Report
from discreet.ledger import Entry, Ledger, Receipt
from discreet.plan import Cost

Open = Callable[[pol.Policy], Ledger]
"""Opens the ledger of a policy; the same policy twice is the same ledger."""

_THREADS = 32


class Desk:
    """A policy of a fresh name, its ledger, and entries for it."""

    def __init__(self, opener: Open, epsilon: str = "1", **budget: Any) -> None:
        table = pol.Table("people", [pol.Integer("age", 0, 115)])
        self.policy = pol.Policy([table], pol.Budget(epsilon, **budget), name=f"kit {uuid4()}")
        self._opener = opener
        self.book = self.open()

    def open(self) -> Ledger:
        """Open the ledger once more."""
        return self._opener(self.policy)

    def entry(self, epsilon: object = "0.1", *, delta: object = 0, **more: Any) -> Entry:
        """A debit of pure cost unless a δ is given."""
        e, d = Fraction(str(epsilon)), Fraction(str(delta))
        defaults: dict[str, Any] = {
            "policy": self.policy.identity, "fingerprint": "f", "analyst": None, "plan": "count",
            "noise": "laplace", "neighbours": "add-remove", "unit": None, "tables": ("people",),
        }  # fmt: skip
        return Entry(**(defaults | {"cost": Cost(e, d, e * e / 2, d)} | more))

    def spend(self, *args: Any, **more: Any) -> Receipt:
        """Debit."""
        return self.book.debit(self.entry(*args, **more))

    def left(self, currency: str = "epsilon") -> Fraction:
        """What remains."""
        return self.book.balance().left(currency)


def need(holds: bool, words: str) -> None:
    """State what must hold."""
    if not holds:
        raise AssertionError(words)


def refuses(action: Callable[[], object], kind: type[Exception], words: str) -> None:
    """State that something must be refused by an error of a kind."""
    try:
        action()
    except kind:
        return
    raise AssertionError(words)


# -- the checks ---------------------------------------------------------------------------


def _exact(opener: Open) -> None:
    """Ten tenths fit one, and not a crumb more."""
    desk = Desk(opener)
    for i in range(10):
        desk.spend("0.1", plan=f"q{i}")
    for crumb in ("1e-18", "1e-300"):
        refuses(partial(desk.spend, crumb), errors.BudgetExceededError, f"{crumb} is overspent")
    need(desk.book.balance().amounts["epsilon"][0] == 1, "sums are not exact")


def _refusals(opener: Open) -> None:
    """A refusal records nothing; what protects nobody is refused."""
    desk = Desk(opener)
    refuses(lambda: desk.spend("1.1"), errors.BudgetExceededError, "more than all is admitted")
    refuses(
        lambda: desk.spend("0.1", tainted=True), errors.TaintedNoiseError, "test noise is admitted"
    )
    refuses(lambda: desk.spend("-0.1"), errors.ParameterError, "a negative price is admitted")
    other = replace(desk.entry(), policy="another")
    refuses(
        lambda: desk.book.debit(other), errors.LedgerError, "another policy's debit is admitted"
    )
    need(desk.left() == 1 and not desk.book.entries, "a refusal was recorded")
    for accounting in ("approx", "zcdp"):
        desk = Desk(opener, "1", delta="1e-6", accounting=accounting)
        for name in ("epsilon", "delta", "rho", "rho_delta"):
            cost = replace(desk.entry("1e-3", delta="1e-7").cost, **{name: Fraction(-1, 10**7)})
            refuses(
                partial(desk.spend, cost=cost), errors.ParameterError, f"{name} below 0 is admitted"
            )
        need(not desk.book.entries, "a refusal was recorded")


def _durable(opener: Open) -> None:
    """Whoever opens the policy again finds what was spent and who asked, in order."""
    desk = Desk(opener)
    debits = [
        desk.entry("0.2", plan=f"q{i}", analyst="ann", key=f"k{i}", source="s") for i in range(3)
    ]
    for entry in debits:
        desk.open().debit(entry)
    again = desk.open()
    need(list(again.entries) == debits, "entries are not what was debited, oldest first")
    need(again.balance().left("epsilon") == Fraction("0.4"), "a handle has a budget of its own")


def _shares(opener: Open) -> None:
    """Shares bound each analyst, and the others together."""
    desk = Desk(opener, shares={"ann": "0.25"})
    desk.spend("0.2", analyst="ann")
    over = errors.BudgetExceededError
    refuses(lambda: desk.spend("0.06", analyst="ann", plan="b"), over, "a share is overspent")
    desk.spend("0.7", analyst="bob")
    refuses(lambda: desk.spend("0.06", analyst="eve", plan="c"), over, "others take from a share")
    need(desk.book.balance("bob").left("epsilon") == Fraction("0.05"), "the rest is not the rest")


def _currencies(opener: Open) -> None:
    """Zero-concentrated accounting adds ρ, and the δ of selected keys."""
    desk = Desk(opener, "2", delta="1e-6", accounting="zcdp")
    desk.spend("0.1", delta="1e-7")
    amounts = desk.book.balance().amounts
    need(amounts["rho"][0] == Fraction(1, 200), "ρ is not the sum")
    need(amounts["delta"] == (Fraction("1e-7"), Fraction("5e-7")), "δ is not the sum")
    refuses(lambda: desk.spend("0.1", delta="5e-7", plan="b"), errors.BudgetExceededError,
            "δ is overspent")  # fmt: skip
    both = Desk(opener, "1", delta="1e-6", accounting="approx")
    both.spend("0.1", delta="9e-7")
    refuses(lambda: both.spend("0.1", delta="2e-7", plan="b"), errors.BudgetExceededError,
            "δ is overspent under (ε, δ)")  # fmt: skip


def _stored(opener: Open) -> None:
    """An equal question is answered from the store, free of charge; any other one pays."""
    desk = Desk(opener, "1", delta="1e-6", accounting="approx")
    first = desk.spend("0.1", source="s")
    need(first.charged and first.stored is None, "a first debit is not charged")
    resumed = desk.spend("0.1", source="s")
    need((resumed.charged, resumed.number) == (False, first.number), "a run cut short pays again")
    need(desk.book.settle(first, '["record"]') == '["record"]', "settling gives another outcome")
    again = desk.spend("0.1", source="s")
    need((again.charged, again.stored) == (False, '["record"]'), "an answer was not kept")
    need(desk.left() == Fraction("0.9"), "a stored answer was charged")
    for change in ({"plan": "b"}, {"source": "t"}, {"fresh": True}, {"delta": "1e-9"}):
        need(desk.spend("0.1", **{"source": "s", **change}).charged, f"{change} is not charged")


def _lookups(opener: Open) -> None:
    """What is found without a debit is what was stored, whole, for the equal question alone."""
    desk = Desk(opener)
    entry, long = desk.entry("0.1", source="s"), f'["{"x" * 300_000}"]'
    need(not desk.book.knows(entry) and desk.book.found(entry) is None, "an answer is made up")
    receipt = desk.book.debit(entry)
    need(not desk.book.knows(entry) and desk.book.found(entry) is None, "a run is an answer")
    need(desk.book.settle(receipt, long) == long, "a long outcome is cut")
    hit = desk.book.found(entry)
    need(desk.book.knows(entry), "an answered question is not known")
    need(hit is not None and hit.stored == long, "the stored answer is not found")
    for other in (desk.entry("0.1", source="t"), desk.entry("0.1", source="s", plan="b")):
        need(not desk.book.knows(other), "a question that nobody asked is known")
        need(desk.book.found(other) is None, "another question's answer is found")
    need(desk.left() == Fraction("0.9") and len(desk.book.entries) == 1, "a look is recorded")


def _paid(opener: Open) -> None:
    """What is released once has one price and one outcome; what it pays for waits for it."""
    desk = Desk(opener)
    part = desk.entry("0.01", plan="part", paid_by="stream")
    refuses(lambda: desk.book.debit(part), errors.LedgerError, "what nobody has paid for")
    first = desk.spend("0.1", plan="stream", once=True)
    refuses(lambda: desk.book.debit(part), errors.LedgerError, "what is not paid for in full")
    desk.book.settle(first, '["once"]')
    again = desk.spend("0.2", plan="stream", once=True)
    need((again.charged, again.stored) == (False, '["once"]'), "another price buys it again")
    need(desk.book.debit(part).charged, "what was paid for is refused, or free")
    need(desk.left() == Fraction("0.89"), "a part is not charged its own price")
    other = desk.entry("0.01", plan="more", paid_by="part")
    refuses(lambda: desk.book.debit(other), errors.LedgerError, "another one's price counts")


def _keys(opener: Open) -> None:
    """A key names one question of one analyst, pays once and gives one outcome."""
    desk = Desk(opener)
    entry = desk.entry("0.6", key="request 7", fresh=True)
    first, retried = desk.book.debit(entry), desk.book.debit(entry)
    need((retried.charged, retried.number) == (False, first.number), "a key pays twice")
    need(desk.book.settle(retried, '["b"]') == '["b"]', "the first outcome is not kept")
    need(desk.book.settle(first, '["a"]') == '["b"]', "a second outcome replaces the first")
    need(desk.book.debit(entry).stored == '["b"]', "a key gives another outcome")
    need(desk.left() == Fraction("0.4"), "a key was charged more than once")
    twice = desk.entry("0.1", key="request 7", fresh=True)
    refuses(lambda: desk.book.debit(twice), errors.IdempotencyError, "a key names two questions")
    other = desk.book.debit(desk.entry("0.1", key="request 7", analyst="bob", fresh=True))
    need(other.charged and other.stored is None, "analysts share keys")
    for bad in ("", "x" * 201):
        refuses(lambda k=bad: desk.spend("0.1", key=k), errors.ParameterError, "a bad key is taken")  # type: ignore[misc]  # the default binds the loop variable


def _failures(opener: Open) -> None:
    """A failure is an outcome: it is kept, and nothing is refunded."""
    desk = Desk(opener)
    entry = desk.entry("0.6", key="k")
    receipt = desk.book.debit(entry)
    need(desk.book.settle(receipt, None) is None, "a failure gives an outcome")
    need(desk.book.settle(receipt, '["late"]') is None, "a failure is undone")
    need(desk.book.debit(entry).failed, "a failed run is not reported as failed")
    need(desk.left() == Fraction("0.4"), "a failure is refunded")
    refuses(lambda: desk.spend("0.6"), errors.BudgetExceededError, "a failed run is taken up")


def _forged(opener: Open) -> None:
    """Only a debit of this ledger can be settled."""
    desk = Desk(opener)
    receipt = desk.spend()
    for forged in (
        Receipt(receipt.number, "0" * 64, ""),
        Receipt(receipt.number + 90, receipt.hash, ""),
    ):
        refuses(lambda f=forged: desk.book.settle(f, "[]"), errors.LedgerError, "a forged receipt")  # type: ignore[misc]  # the default binds the loop variable


def _together(work: Callable[[int], object]) -> list[BaseException]:
    """Run many threads at once; return what they raise."""
    raised: list[BaseException] = []
    start = threading.Barrier(_THREADS)

    def one(i: int) -> None:
        start.wait()
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            raised.append(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def _threads(opener: Open) -> None:
    """Many at once spend the last crumb, and no more; a refused one loses nothing."""
    desk = Desk(opener)
    desk.spend("0.7", plan="before")
    won: list[int] = []
    raised = _together(lambda i: won.append(desk.spend("0.1", plan=f"q{i}").number))
    odd = [e for e in raised if not isinstance(e, errors.BudgetExceededError)]
    need(not odd, f"threads get in each other's way: {odd[:1]}")
    need(len(won) == len(set(won)) == 3 and desk.left() == 0, "threads overspend or lose debits")


def _one_key(opener: Open) -> None:
    """Many at once under one key pay once and see one outcome."""
    desk = Desk(opener)
    entry, outcomes = desk.entry("0.6", key="once", fresh=True), list[str | None]()
    barrier = threading.Barrier(_THREADS, timeout=60)

    def ask(i: int) -> None:
        try:
            receipt = desk.book.debit(entry)
        except BaseException:
            barrier.abort()  # the others need not wait for it
            raise
        barrier.wait()  # all have their receipts before the first outcome is stored
        outcomes.append(receipt.stored or desk.book.settle(receipt, f"[{i}]"))

    raised = _together(ask)
    need(not raised, f"threads get in each other's way: {raised[:1]}")
    need(len(set(outcomes)) == 1 and desk.left() == Fraction("0.4"), "one key, several outcomes")


def _totals(opener: Open) -> None:
    """Prices of any denominator add up to no less than they are."""
    desk = Desk(opener, "1000")
    exact = Fraction(0)
    for k in range(20):
        price = Fraction(1, 10) + Fraction(1, (1 << 200) + 2 * k + 1)
        desk.book.debit(
            replace(desk.entry(fresh=True), cost=Cost(price, Fraction(0), price, Fraction(0)))
        )
        exact += price
    spent = desk.book.balance().amounts["epsilon"][0]
    need(exact <= spent <= exact + Fraction(1, 2**128), "totals are rounded down, or far up")


_CHECKS: tuple[Callable[[Open], None], ...] = (
    _exact, _refusals, _durable, _shares, _currencies, _stored, _lookups, _paid, _keys,
    _failures, _forged, _totals, _threads, _one_key,
)  # fmt: skip


def check_ledger(opener: Open | None = None) -> Report:
    """Check a ledger of one's own against the rules that every ledger keeps.

    Parameters
    ----------
    opener
        ``opener(policy)`` opens the ledger of a policy; called twice with one policy it must
        give the same ledger. Each check uses policies of its own. Without it, discreet's
        own ledger in memory is checked.

    Returns
    -------
    Report
        One check for each rule; ``.ok``, ``.failures``, and a table when printed.

    Examples
    --------
    >>> from discreet import audit, ledger
    >>> audit.check_ledger(lambda policy: ledger.open_ledger(":memory:", policy)).ok
    True
    """
    opener = opener or (lambda policy: ledger.open_ledger(":memory:", policy))
    return Report(tuple(_run(opener)), ())


def _run(opener: Open) -> Iterator[Check]:
    for check in _CHECKS:
        name, rule = check.__name__.strip("_").replace("_", " "), str(check.__doc__).rstrip(".")
        try:
            check(opener)
        except AssertionError as error:
            yield Check(name, 0, False, f"{rule}: {error}")
        except Exception as error:  # noqa: BLE001 - a part that raises what it should not has failed
            yield Check(name, 0, False, f"{rule}: {type(error).__name__}: {error}")
        else:
            yield Check(name, 0, True, rule)
