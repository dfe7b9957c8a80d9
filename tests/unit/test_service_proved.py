"""What was proved before the debit is what a worker runs: it is not written and proved again."""

import pickle

import pyarrow as pa
import pytest

import discreet as dc
from discreet import engines
from discreet.curator import Counter, Proved, run_bill
from discreet.engines import _statements
from discreet.service._worker import ALLOWANCE, _read

SQL = "SELECT COUNT(*) AS n FROM people WHERE age > 40"
TWO = "SELECT COUNT(DISTINCT age) AS n, MAX(age) AS m FROM people"


@pytest.fixture
def priced():
    """A desk's counter, which sees no rows, and a worker's own curator."""
    own = dc.policy
    table = own.Table("people", [own.Integer("age", 0, 115)])
    policy = own.Policy([table], own.Budget("10"), name="proved")
    rows = pa.table({"age": [31, 47, 60] * 100})
    with dc.open({"people": rows}, policy=policy, ledger=":memory:") as worker:
        described = engines.Described(engines.describe(worker._engine, policy), policy)
        desk = dc.curator.open_curator(None, policy, ledger=":memory:", engine=described)
        yield Counter(desk), worker


def _sent(bill, proved=None):
    text = ALLOWANCE.pack(1.0) + pickle.dumps(bill)
    return text if proved is None else text + pickle.dumps(proved)


def _count(monkeypatch):
    """Statements that are proved from now on."""
    made, real = [], _statements.prove
    monkeypatch.setattr(
        _statements, "prove", lambda text, **k: (made.append(text), real(text, **k))[1]
    )
    return made


def _mark(worker):
    return engines.describe(worker._engine, worker.policy).mark


@pytest.mark.parametrize("sql", [SQL, TWO])
def test_a_worker_runs_what_was_proved_before_the_debit(priced, monkeypatch, sql):
    counter, worker = priced
    bill = counter.bill(sql, "ana", epsilon="1")
    made = _count(monkeypatch)
    ran, real = [], worker._engine._groups
    monkeypatch.setattr(worker._engine, "_groups", lambda a, s: (ran.append(s), real(a, s))[1])
    read, statements = _read(_sent(bill, counter.proved(bill)), _mark(worker))
    assert statements == counter.statements(bill)
    text = run_bill(read.plans, worker._engine, worker.policy, statements)
    assert text.startswith("[{")
    assert not made
    shown = [s[:60] for s in statements]
    assert [s[:60] for s in ran] == shown  # up to where numbers of the salt come in
    run_bill(read.plans, worker._engine, worker.policy)
    assert len(made) == len(statements)  # without them it proves its own, as ever


def test_a_worker_with_other_tables_proves_its_own_statements(priced):
    counter, worker = priced
    bill = counter.bill(SQL, "ana", epsilon="1")
    proved = counter.proved(bill)
    for other in (Proved("another", proved.statements), Proved("", proved.statements), None):
        read, statements = _read(_sent(bill, other), _mark(worker))
        assert (len(read.plans), statements) == (1, None)


def test_the_mark_follows_all_that_is_known_of_the_tables(priced):
    _, worker = priced
    here = engines.describe(worker._engine, worker.policy)
    (name,) = here.catalog
    wider = dc.verify.Table({"age": "HUGEINT"}, None)
    others = [
        dc._dataclass.replace(here, name="postgres"),
        dc._dataclass.replace(here, catalog={name: wider}),
        dc._dataclass.replace(here, sources={}),
        dc._dataclass.replace(here, repeats={("people", "age"): 7}),
    ]
    assert len({here.mark, *(other.mark for other in others)}) == 5
    assert pickle.loads(pickle.dumps(here)).mark == here.mark


def test_statements_of_one_question_are_not_run_for_another(priced, monkeypatch):
    """Not even for one that is equal: the proof came with these very objects."""
    counter, worker = priced
    bill, engine = counter.bill(SQL, "ana", epsilon="1"), worker._engine
    (aggregate,) = [a for a in bill.plans[0].lowered.aggregates if a.measures]
    (text,) = counter.statements(bill)
    made = _count(monkeypatch)
    engine.take([(aggregate, text)])
    salt = dc.curator.fresh_salt()
    assert engine.sql(aggregate, salt)
    assert not made
    assert engine._filled(aggregate, salt, (0, 8))
    assert len(made) == 1
    again = pickle.loads(pickle.dumps(aggregate))
    assert again == aggregate
    assert engine.sql(again, salt)
    assert len(made) == 2
    engine.take(())
    assert engine.sql(aggregate, salt)
    assert len(made) == 2
