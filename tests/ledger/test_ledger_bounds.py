"""What one question may take: time, names, and runs that were cut short."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import errors, ledger
from discreet import policy as pol
from discreet.curator import _curator
from discreet.ledger._state import NAMES

COUNT = "SELECT COUNT(*) AS n FROM people"


def test_a_question_that_takes_too_long_is_cancelled_and_stays_paid(path):
    """Four joins with a public table: 8.1e12 rows, hours without a limit."""
    columns = [pol.Integer("a", 0, 999)]
    table = pol.Table("people", columns, max_rows_per_unit=1, unit="u")
    public = pol.Table("pub", [pol.Integer("k", 0, 999)], public=True)
    policy = pol.Policy([table, public], pol.Budget("10"), name="slow")
    people = pa.table({"a": np.arange(1000), "u": np.arange(1000)})
    pub = pa.table({"k": np.repeat(np.arange(1000), 300)})
    curator = dc.open({"people": people, "pub": pub}, policy, ledger=path, engine={"timeout": 0.3})
    joins = " ".join(f"JOIN pub p{i} ON people.a = p{i}.k" for i in range(4))
    with pytest.raises(errors.EngineError):
        curator.sql(f"SELECT COUNT(*) AS n FROM people {joins}", epsilon=1, key="slow")
    assert curator.budget.spent["epsilon"] == 1
    with pytest.raises(errors.EngineError, match="this key paid for failed"):
        curator.sql(f"SELECT COUNT(*) AS n FROM people {joins}", epsilon=1, key="slow")
    # the engine goes on, and what is quick is answered
    curator.sql(COUNT, epsilon="0.5")
    assert curator.ledger.verify().debits == 2


def opened(path, **budget):
    policy = pol.Policy(
        [pol.Table("people", [pol.Integer("age", 0, 115)])], pol.Budget("2", **budget), name="p"
    )
    return dc.open(pa.table({"age": [31, 47]}), policy, ledger=path, analyst=None)


def test_once_there_are_shares_everybody_has_a_name(path):
    curator = opened(path, shares={"ana": "0.5"})
    with pytest.raises(errors.ParameterError, match="say who asks") as no:
        curator.sql(COUNT, epsilon="0.1")
    assert no.value.hint == 'analyst="NAME"'
    assert curator.ledger.verify().debits == 0
    curator.record_external(dc.privacy.Pure("0.1"), what="the owner's own")
    curator._analyst = "ana"
    curator.sql(COUNT, epsilon="0.1")


def test_made_up_names_do_not_make_every_line_longer(given):
    book = ledger.open_ledger(":memory:", given.policy("1000", name="names"))
    for i in range(NAMES + 40):
        book.debit(given.entry("1", plan=f"q{i}", own="names", analyst=f"n{i}", runs=False))
    state = book.state
    assert len(state.spent) == NAMES + 1
    assert state.spent[""].epsilon == 40
    assert book.balance().amounts["epsilon"][0] == NAMES + 40
    book.verify()


def test_a_fresh_question_takes_up_a_run_that_was_cut_short(path, monkeypatch):
    curator = opened(path)
    with monkeypatch.context() as m:
        m.setattr(_curator, "measured", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            curator.sql(COUNT, epsilon="0.5", fresh=True)
    curator.sql(COUNT, epsilon="0.5", fresh=True)
    assert curator.budget.spent["epsilon"] == Fraction("0.501")  # the further run is metered
    curator.sql(COUNT, epsilon="0.5", fresh=True)
    assert curator.budget.spent["epsilon"] == Fraction("1.001")


def test_fresh_questions_at_once_are_none_of_each_other_s(path, monkeypatch):
    curator, real = opened(path), _curator.measured
    both = threading.Barrier(2)

    def together(*what):
        both.wait(30)
        return real(*what)

    monkeypatch.setattr(_curator, "measured", together)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(curator.sql, COUNT, epsilon="0.5", fresh=True) for _ in range(2)]
        assert not any(a.result().cached for a in asked)
    assert curator.budget.spent["epsilon"] == 1


def test_a_ledger_in_memory_that_could_not_begin_is_not_taken_for_one_that_was_emptied(
    given, monkeypatch
):
    from discreet.ledger import _ledger

    with monkeypatch.context() as m:
        m.setattr(_ledger, "next_line", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ledger.open_ledger(":memory:", given.policy(name="interrupted"))
    assert ledger.open_ledger(":memory:", given.policy(name="interrupted")).verify().lines == 1
