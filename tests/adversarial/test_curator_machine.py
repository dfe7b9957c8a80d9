"""Any sequence of calls on curators that share a policy, against a model that only adds up.

The model knows prices and nothing else. After every step the ledger holds what the
model holds, never more than the budget; refusals happen exactly when the model says
so; previews, failing parses and refused batches are free; failing runs are not.
All comparisons are of exact rationals.
"""

from __future__ import annotations

import copy
import itertools
from fractions import Fraction

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import discreet as dc
from discreet import policy as pol
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import (
    BudgetExceededError,
    DiscreetError,
    EngineError,
    IdempotencyError,
    ParameterError,
)
from discreet.ledger import MemoryLedger, _budget
from discreet.ledger._state import after

_NAMES = itertools.count()
COLUMNS = [
    pol.Category("sex", values=["F", "M"]),
    pol.Integer("age", min=0, max=99),
    pol.Text("town"),
]
ROWS = [{"sex": "FM"[i % 2], "age": i, "town": "Ulm"} for i in range(30)]
QUESTIONS = [
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY sex",
    "SELECT MEDIAN(age) AS m FROM people",
    "SELECT MODE(sex) AS m FROM people",
]
KEYED = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
WRONG = [
    "SELECT nope FROM people",
    "SELECT",
    "DROP TABLE people",
    "SELECT * FROM people",
    "",
    "\x00",
]
EPSILONS = st.sampled_from(
    ["0.1", "0.25", "1/3", "0.5", "1", "2", "7", "1e-9", Fraction(1, 7), 0.3]
)
DELTAS = st.sampled_from(["1e-7", "1e-6", "3e-6", Fraction(1, 10**6)])
ANALYSTS = (None, "ann", "bob")


class Moody(Reference):
    """An engine that fails when told to."""

    def __init__(self):
        super().__init__({"people": ROWS})
        self.fails = False
        self.touched = 0

    def execute(self, aggregate, salt):
        self.touched += 1
        if self.fails:
            raise RuntimeError("engine")
        return super().execute(aggregate, salt)


def priced(epsilon):
    """What a question at ε costs: never less than the policy's least price."""
    return max(exact(epsilon), Fraction(1, 1000))


def exact(value):
    return Fraction(str(value))


class Machine(RuleBasedStateMachine):
    """Curators of one policy under approx accounting, with a share for ann."""

    handles = Bundle("handles")

    @initialize(share=st.sampled_from([None, "0.25", "0.5"]))
    def start(self, share):
        shares = {} if share is None else {"ann": share}
        self.budget = pol.Budget("3", delta="1e-5", accounting="approx", shares=shares)
        self.policy = pol.Policy(
            [pol.Table("people", COLUMNS)], self.budget, name=f"machine {next(_NAMES)}"
        )
        part = Fraction(share or 0)
        self.parts = dict.fromkeys(ANALYSTS, 1 - part) | {"ann": part if share else Fraction(1)}
        self.engine = Moody()
        self.spent = {}  # group of analysts → (ε, δ)
        self.answered = {}  # (group, question, price) → noisy rows
        self.keys = {}  # (analyst, key) → (question, price, rows or None when it failed)

    # -- the model ---------------------------------------------------------------------

    def group(self, who):
        return "ann" if who == "ann" and self.budget.shares else "rest"

    def total(self):
        sums = [sum(s[i] for s in self.spent.values()) for i in (0, 1)]
        return Fraction(sums[0]), Fraction(sums[1])

    def fits(self, who, cost):
        group = self.spent.get(self.group(who), (0, 0))
        caps = Fraction(3), Fraction(1, 10**5)
        whole = all(t + c <= cap for t, c, cap in zip(self.total(), cost, caps, strict=True))
        part = self.parts[who]
        return whole and all(
            s + c <= part * cap for s, c, cap in zip(group, cost, caps, strict=True)
        )

    def charge(self, who, cost):
        now = self.spent.get(self.group(who), (Fraction(0), Fraction(0)))
        self.spent[self.group(who)] = tuple(a + b for a, b in zip(now, cost, strict=True))

    # -- handles -------------------------------------------------------------------------

    @rule(target=handles, who=st.sampled_from(ANALYSTS))
    def open(self, who):
        return Curator(self.policy, self.engine, MemoryLedger(self.policy), who, "data")

    @rule(target=handles, handle=handles)
    def copied(self, handle):
        return copy.copy(handle)

    @rule(fails=st.booleans())
    def mood(self, fails):
        self.engine.fails = fails

    # -- asking -----------------------------------------------------------------------------

    def asked(self, handle, question, ask, cost, *, key=None, fresh=False):
        """Call `ask`; check that exactly what the model expects happens."""
        who = handle.analyst
        name = (self.group(who), question, cost)
        touched = self.engine.touched
        slot = (who, key)
        if who is None and self.budget.shares:  # somebody's share cannot be asked from by nobody
            self.refused_or(ask, ParameterError)
            assert self.engine.touched == touched
            return
        if key is not None and slot in self.keys:
            known, rows = self.keys[slot]
            self.refused_or(ask, IdempotencyError if known != (question, cost) else
                            (EngineError if rows is None else rows))  # fmt: skip
            assert self.engine.touched == touched
            return
        if not fresh and name in self.answered:
            self.refused_or(ask, self.answered[name])
            assert self.engine.touched == touched
            return
        if not self.fits(who, cost):
            self.refused_or(ask, BudgetExceededError)
            assert self.engine.touched == touched
            return
        self.charge(who, cost)
        rows = self.refused_or(ask, EngineError if self.engine.fails else None)
        if key is not None:
            self.keys[slot] = ((question, cost), rows)
        if rows is not None:
            self.answered[name] = rows

    @staticmethod
    def refused_or(ask, expected):
        """Expect an error type, given rows, or anything new (None)."""
        rows, error = None, None
        try:
            rows = ask().to_dicts()
        except DiscreetError as refusal:
            error = refusal
        if error is not None:
            assert type(error) is expected, error
            return None
        assert not isinstance(expected, type), expected
        assert expected is None or rows == expected
        return rows

    @rule(handle=handles, question=st.sampled_from(QUESTIONS), epsilon=EPSILONS,
          key=st.sampled_from([None, None, "k", "l"]), fresh=st.booleans())  # fmt: skip
    def sql(self, handle, question, epsilon, key, fresh):
        cost = (priced(epsilon), Fraction(0))
        self.asked(handle, question,
                   lambda: handle.sql(question, epsilon=epsilon, key=key, fresh=fresh),
                   cost, key=key, fresh=fresh)  # fmt: skip

    @rule(handle=handles, epsilon=EPSILONS, delta=DELTAS)
    def keys_from_data(self, handle, epsilon, delta):
        plan = handle.preview(KEYED, epsilon=epsilon, delta=delta).plan
        cost = plan.cost.epsilon, plan.cost.delta
        assert cost <= (priced(epsilon), exact(delta))
        self.asked(
            handle,
            KEYED,
            lambda: handle.sql(KEYED, epsilon=epsilon, delta=delta, fresh=True),
            cost,
            fresh=True,
        )

    @rule(handle=handles, epsilon=EPSILONS, low=st.integers(0, 3))
    def frame(self, handle, epsilon, low):
        question = handle.table("people").where(f"age > {low}").agg(n=dc.count())
        self.asked(handle, f"age {low}", lambda: question.answer(epsilon=epsilon),
                   (priced(epsilon), Fraction(0)))  # fmt: skip

    @rule(handle=handles, margin=st.sampled_from([5, 40, 400]))
    def within(self, handle, margin):
        question = QUESTIONS[0]
        cost = handle.preview(question, within={"n": margin}).plan.cost
        self.asked(handle, question, lambda: handle.sql(question, within={"n": margin}),
                   (cost.epsilon, cost.delta))  # fmt: skip

    @rule(handle=handles, epsilon=EPSILONS, many=st.integers(1, 3))
    def batch(self, handle, epsilon, many):
        questions = (QUESTIONS * many)[: 2 * many]
        cost = (priced(epsilon), Fraction(0))

        def ask():
            with handle.batch(epsilon=epsilon) as batch:
                pending = [batch.sql(q) for q in questions]
            for one in pending:
                one.answer.to_dicts()
            return pending[0].answer

        self.asked(handle, f"batch {many}", ask, cost)

    # -- what must be free ---------------------------------------------------------------------

    @rule(handle=handles, question=st.sampled_from(QUESTIONS), epsilon=EPSILONS)
    def preview(self, handle, question, epsilon):
        touched = self.engine.touched
        repr(handle.preview(question, epsilon=epsilon))
        assert self.engine.touched == touched

    @rule(handle=handles, text=st.sampled_from(WRONG))
    def mistake(self, handle, text):
        touched = self.engine.touched
        for call in (
            lambda: handle.sql(text, epsilon="0.1"),
            lambda: handle.preview(text, epsilon="0.1"),
            lambda: handle.sql(QUESTIONS[0]),
            lambda: handle.sql(QUESTIONS[0], epsilon=-1),
            lambda: handle.sql(KEYED, epsilon=1),
        ):
            self.refused(call)
        assert self.engine.touched == touched

    @rule(handle=handles)
    def abandoned_batch(self, handle):
        def abandon():
            with handle.batch(epsilon=1) as batch:
                batch.sql(QUESTIONS[0])
                batch.sql("SELECT nope FROM people")

        self.refused(abandon)

    @staticmethod
    def refused(call):
        refused = False
        try:
            call()
        except DiscreetError:
            refused = True
        assert refused

    # -- always ----------------------------------------------------------------------------------

    @invariant()
    def the_books_agree(self):
        if not hasattr(self, "policy"):
            return
        balance = MemoryLedger(self.policy).balance()
        spent = {c: s for c, (s, _) in balance.amounts.items()}
        assert (spent["epsilon"], spent["delta"]) == self.total()
        assert spent["epsilon"] <= 3
        assert spent["delta"] <= Fraction(1, 10**5)
        entries = MemoryLedger(self.policy).entries
        assert sum((e.cost.epsilon for e in entries), Fraction(0)) == spent["epsilon"]


TestCurator = Machine.TestCase
TestCurator.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.long
def test_many_more_sequences():
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=600, stateful_step_count=60, deadline=None)
    )


LEDGERS = {
    "admits everything": ("admit", lambda state, _entry, body, n: after(state, "debit", body, n)),
    "charges nothing": ("charge", lambda *_: {"epsilon": Fraction(0)}),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_the_machine_notices_a_broken_ledger(monkeypatch, name):
    monkeypatch.setattr(_budget, *LEDGERS[name])
    found = settings(
        max_examples=200, stateful_step_count=30, database=None, phases=[Phase.generate]
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Machine, settings=found)
