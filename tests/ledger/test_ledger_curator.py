"""The curator with a lasting ledger: restarts, retries, stored answers, any interleaving."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import tempfile
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import discreet as dc
from discreet import errors, ledger
from discreet import policy as pol
from discreet.curator import Curator
from discreet.engines import Reference

COUNT = "SELECT COUNT(*) AS n FROM people"
COLUMNS = [
    pol.Category("sex", values=["F", "M"], null="M"),
    pol.Integer("age", min=0, max=99, null=0),
    pol.Date("day", min="2026-01-01", max="2026-01-02", null="2026-01-01"),
]
ROWS = [{"sex": "FM"[i % 2], "age": i, "day": dt.date(2026, 1, 1)} for i in range(50)]
TOML = """
[budget]
epsilon = "1"

[tables.people.columns]
sex = { type = "category", values = ["F", "M"] }
age = { type = "integer", min = 0, max = 99 }
"""


def policy(epsilon="1", **budget):
    return pol.Policy([pol.Table("people", COLUMNS)], pol.Budget(epsilon, **budget), name="people")


def curator(path, *, engine=None, analyst=None, own=None, source="rows"):
    own = own or policy()
    book = ledger.open_ledger(path, own)
    return Curator(own, engine or Reference({"people": ROWS}), book, analyst, source)


class Broken(Reference):
    """An engine that fails, or kills its process, at the chosen moment."""

    def __init__(self, tables, fail=None):
        super().__init__(tables)
        self.fail = fail
        self.calls = 0

    def execute(self, aggregate, salt):
        self.calls += 1
        if self.fail is not None:
            self.fail()
        return super().execute(aggregate, salt)


def stop():
    raise errors.EngineError("the engine could not compute the answer")


@pytest.mark.parametrize("harm", ["gone", "emptied", "truncated", "older"])
def test_a_budget_is_refused_where_a_preview_is(path, harm):
    own = curator(path)
    own.sql(COUNT, epsilon="0.1")
    before = path.read_bytes()
    own.sql(COUNT, epsilon="0.2")
    assert own.budget.left["epsilon"] == Fraction("0.7")  # what is remembered from here on
    own.ledger.disconnect()
    if harm == "gone":
        path.unlink()
    else:
        half = len(before) // 2
        path.write_bytes({"emptied": b"", "truncated": before[:half], "older": before}[harm])
    with pytest.raises(errors.LedgerError):
        own.preview(f"{COUNT} WHERE age < 9", epsilon="0.1")
    with pytest.raises(errors.LedgerError):
        _ = own.budget


def test_spending_survives_a_restart(path):
    curator(path).sql(COUNT, epsilon="0.6")
    again = curator(path)
    assert again.budget.left["epsilon"] == Fraction("0.4")
    with pytest.raises(errors.BudgetExceededError):
        again.sql(COUNT, epsilon="0.6", fresh=True)


def test_the_same_question_again_is_free_and_says_so(path):
    first = curator(path).sql(COUNT, epsilon="0.6")
    again = curator(path).sql(COUNT, epsilon="0.6")
    assert (first.cached, again.cached) == (False, True)
    assert again.record() == first.record()
    assert "free of charge" in repr(again)
    assert curator(path).budget.spent["epsilon"] == Fraction("0.6")


def test_averaging_a_hundred_answers_gives_no_free_accuracy(path):
    asked = curator(path)
    values = {asked.sql(COUNT, epsilon="0.5").to_dicts()[0]["n"] for _ in range(100)}
    assert len(values) == 1
    assert asked.budget.spent["epsilon"] == Fraction("0.5")
    with pytest.raises(errors.BudgetExceededError):
        for _ in range(100):
            asked.sql(COUNT, epsilon="0.5", fresh=True)
    assert asked.budget.spent["epsilon"] == 1


def test_stored_answers_keep_the_types_of_their_keys(path):
    query = "SELECT day, COUNT(*) AS n FROM people GROUP BY day"
    first = curator(path).sql(query, epsilon="0.6").to_dicts()
    again = curator(path).sql(query, epsilon="0.6")
    assert again.cached
    assert again.to_dicts() == first
    assert isinstance(first[0]["day"], dt.date)


def test_other_data_under_the_same_policy_get_no_stored_answer(path):
    curator(path, source="one").sql(COUNT, epsilon="0.5")
    assert not curator(path, source="two").sql(COUNT, epsilon="0.5").cached


def test_a_batch_is_stored_as_a_whole(path):
    asked = curator(path)
    for _ in range(2):
        with asked.batch(epsilon="0.8") as b:
            n = b.sql(COUNT)
            by_sex = b.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex")
    assert n.answer.cached
    assert by_sex.answer.cached
    assert asked.budget.spent["epsilon"] == Fraction("0.8")


def test_a_retry_with_the_same_key_never_pays_twice(path):
    first = curator(path).sql(COUNT, epsilon="0.6", key="r1", fresh=True)
    again = curator(path).sql(COUNT, epsilon="0.6", key="r1", fresh=True)
    assert again.record() == first.record()
    assert again.cached
    with pytest.raises(errors.IdempotencyError):
        curator(path).sql(COUNT, epsilon="0.3", key="r1")


def test_a_failed_run_stays_charged_and_its_key_stays_failed(path):
    broken = curator(path, engine=Broken({"people": ROWS}, stop))
    with pytest.raises(errors.EngineError):
        broken.sql(COUNT, epsilon="0.6", key="r1")
    with pytest.raises(errors.EngineError, match="this key paid for failed"):
        curator(path).sql(COUNT, epsilon="0.6", key="r1")
    assert curator(path).budget.left["epsilon"] == Fraction("0.4")


def test_a_killed_run_stays_charged_and_its_key_finishes_it(path):
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            asked = curator(path, engine=Broken({"people": ROWS}, die))
            asked.sql(COUNT, epsilon="0.6", key="r1")
        finally:
            os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert curator(path).budget.left["epsilon"] == Fraction("0.4")
    with pytest.raises(errors.BudgetExceededError):
        curator(path).sql(COUNT, epsilon="0.5", fresh=True)
    answer = curator(path).sql(COUNT, epsilon="0.6", key="r1")
    assert not answer.cached
    assert curator(path).sql(COUNT, epsilon="0.6", key="r1").record() == answer.record()
    # the further run was metered at the least price: a thousandth of the whole
    assert curator(path).budget.left["epsilon"] == Fraction("0.399")


def test_two_live_runs_with_one_key_release_one_answer(path):
    """The second run stores first; the first must give out that answer, not its own.

    The first run's own noise could equal the second's by chance; at ε = 0.01 all of
    five answers agree with probability below 1e-11.
    """
    for i in range(5):
        query, second = f"{COUNT} WHERE age > {i}", []

        def overtake(query=query, second=second, key=f"r{i}"):
            second.append(curator(path).sql(query, epsilon="0.01", key=key))

        overtaken = curator(path, engine=Broken({"people": ROWS}, overtake))
        first = overtaken.sql(query, epsilon="0.01", key=f"r{i}")
        assert first.cached
        assert first.record() == second[0].record()
    # five prices, and five second runs at the least price
    assert curator(path).budget.spent["epsilon"] == Fraction("0.055")


def test_the_engine_is_not_touched_when_the_debit_cannot_be_stored(path):
    engine = Broken({"people": ROWS})
    asked = curator(path, engine=engine)
    path.write_bytes(b"")
    with pytest.raises(errors.LedgerIntegrityError):
        asked.sql(COUNT, epsilon="0.1")
    assert engine.calls == 0


@pytest.mark.parametrize("fails", [False, True], ids=["answer", "failure"])
def test_what_cannot_be_stored_is_not_told(path, fails):
    """If the ledger breaks during the run, answer and failure look the same."""

    def sabotage():
        path.write_bytes(b"")
        if fails:
            raise errors.EngineError("the engine could not compute the answer")

    asked = curator(path, engine=Broken({"people": ROWS}, sabotage))
    with pytest.raises(errors.LedgerIntegrityError) as told:
        asked.sql(COUNT, epsilon="0.1")
    seen, error = [], told.value
    while error is not None:
        seen.append(type(error))
        error = None if error.__suppress_context__ else error.__context__
    assert errors.EngineError not in seen


def test_the_default_ledger_stands_beside_the_policy_file(folder):
    import pyarrow as pa

    file = folder / "people.toml"
    file.write_text(TOML)
    data = pa.table({"sex": ["F", "M"], "age": [30, 40]})
    dc.open(data, policy=file).sql(COUNT, epsilon="0.6")
    assert (folder / "people.toml.ledger").exists()
    again = dc.open(data, policy=str(file))
    assert again.budget.left["epsilon"] == Fraction("0.4")
    # an edited budget is no budget until the owner has recorded it
    file.write_text(TOML.replace('"1"', '"9"'))
    with pytest.raises(errors.LedgerError, match="differs from the one on record"):
        dc.open(data, policy=file)


def test_a_renamed_or_copied_policy_file_spends_from_the_same_ledger(folder):
    import pyarrow as pa

    data = pa.table({"sex": ["F", "M"], "age": [30, 40]})
    (folder / "people.toml").write_text(TOML)
    dc.open(data, policy=folder / "people.toml").sql(COUNT, epsilon="1")
    shutil.copy(folder / "people.toml", folder / "fresh.toml")
    with pytest.raises(errors.LedgerIntegrityError, match="second budget"):
        dc.open(data, policy=folder / "fresh.toml")
    known = dc.open(data, policy=folder / "fresh.toml", ledger=folder / "people.toml.ledger")
    assert known.budget.left["epsilon"] == 0


def test_a_policy_without_a_file_must_say_where_its_ledger_is():
    import pyarrow as pa

    with pytest.raises(errors.ParameterError, match="fresh budget") as no:
        dc.open(pa.table({"sex": ["F"], "age": [1]}), policy=TOML)
    assert no.value.hint == 'ledger="people.ledger"'
    assert '":memory:" is one to try' in str(no.value)


def test_nothing_in_a_debit_depends_on_the_data(folder, monkeypatch):
    lines = []
    for i, rows in enumerate((ROWS, ROWS[:-1], [])):
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / f"state {i}"))
        asked = curator(folder / f"{i}.ledger", engine=Reference({"people": rows}))
        asked.sql("SELECT sex, SUM(age) AS a FROM people GROUP BY sex", epsilon="0.5")
        lines.append([line.body for line in asked.ledger.lines if line.kind != "settle"])
        # the line that settles holds the number and hash of the debit, and the record's hash
        (settled,) = (line.content for line in asked.ledger.lines if line.kind == "settle")
        assert set(settled) == {"debit", "line", "question", "record"}
    assert lines[0] == lines[1] == lines[2]


# -- any interleaving ------------------------------------------------------------------------


class Interleaving(RuleBasedStateMachine):
    """Curators come and go, ask, retry, fail and are copied; the owner decides.

    The model is a list of prices paid. Whatever happens, their sum per period
    is what the ledger says and never passes the budget in force when each was paid.
    """

    curators = Bundle("curators")

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(prefix="machine-", dir=_fast()))
        self.home = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = str(self.folder / "state")
        self.path = self.folder / "people.ledger"
        self.paid: list[Fraction] = []
        self.total = Fraction(1)
        self.answers: dict[object, object] = {}
        self.keys: dict[str, object] = {}
        self.period = 1

    @rule(target=curators, analyst=st.sampled_from(["ann", "bob", None]))
    def open(self, analyst):
        return curator(self.path, analyst=analyst, own=policy())

    @rule(
        asked=curators,
        where=st.integers(0, 3),
        price=st.sampled_from(["0.1", "0.25", "1/3", "1e-18"]),
        fresh=st.booleans(),
        fails=st.booleans(),
    )
    def ask(self, asked, where, price, fresh, fails):
        question, charge = (where, price), max(Fraction(price), pol.Budget("1").minimum)
        free = not fresh and question in self.answers
        asked._engine = Broken({"people": ROWS}, stop if fails else None)
        try:
            query = f"{COUNT} WHERE age > {where}"
            answer = asked.sql(query, epsilon=Fraction(price), fresh=fresh)
        except errors.BudgetExceededError:
            assert not free
            assert sum(self.paid) + charge > self.total
            return
        except errors.EngineError:
            assert fails
            assert not free
            self.paid.append(charge)
            return
        assert answer.cached == free
        if free:
            assert answer.record() == self.answers[question]
        else:
            self.paid.append(charge)
            self.answers[question] = answer.record()

    @rule(asked=curators, key=st.sampled_from("xyz"), price=st.sampled_from(["0.1", "0.2"]))
    def ask_with_key(self, asked, key, price):
        name = (asked.analyst, key)
        asked._engine = Broken({"people": ROWS})
        known = self.keys.get(name)
        query = f"{COUNT} WHERE age > 50"
        try:
            answer = asked.sql(query, epsilon=price, key=key, fresh=True)
        except errors.IdempotencyError:
            assert known is not None
            assert known[0] != price or known[2] != self.period
            return
        except errors.BudgetExceededError:
            assert known is None
            assert sum(self.paid) + Fraction(price) > self.total
            return
        if known is not None:
            assert known == (price, answer.record(), self.period)
        else:
            self.paid.append(Fraction(price))
            self.keys[name] = (price, answer.record(), self.period)

    @rule(asked=curators, total=st.sampled_from(["0.5", "1", "1.5"]))
    def decide(self, asked, total):
        same = Fraction(total) == self.total
        with pytest.raises(errors.ParameterError) if same else nullcontext():
            asked.ledger.raise_budget(epsilon=total, lower=True)
        self.total = Fraction(total)

    @rule(asked=curators)
    def new_period(self, asked):
        asked.ledger.new_period()
        self.period += 1
        self.paid, self.answers = [], {}

    @invariant()
    def the_ledger_agrees_with_the_model(self):
        if not self.path.exists():
            return
        book = ledger.open_ledger(self.path)
        spent, total = book.balance().amounts["epsilon"]
        assert spent == sum(self.paid)
        assert total == self.total
        book.verify()

    def teardown(self):
        shutil.rmtree(self.folder)
        if self.home is None:
            os.environ.pop("XDG_STATE_HOME", None)
        else:
            os.environ["XDG_STATE_HOME"] = self.home


def _fast():
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


TestInterleaving = Interleaving.TestCase
TestInterleaving.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
