"""What a stranger proved on streams: ticks that were seen twice, or never paid for.

Each test is exact: at ε = 1000 and above noise is 0 but with probability below e^{-160}, and
numbers of two releases at the prices below agree in all ticks by chance with probability
below 10^{-9}.
"""

from __future__ import annotations

import datetime as dt
import itertools
from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import errors, ledger, release
from discreet import policy as pol
from discreet.plan import Cost

_NAMES = itertools.count()
FIRST = dt.date(2026, 1, 1)
ROWS = pa.table({"day": [FIRST + dt.timedelta(days=i % 20) for i in range(90)]})


def held(budget):
    columns = [pol.Date("day", "2025-06-01", "2026-12-31")]
    return pol.Policy([pol.Table("visits", columns)], budget, name=f"streams {next(_NAMES)}")


def opened(policy, place):
    return dc.open(ROWS, policy, ledger=place)


def follow(curator, start=FIRST, **price):
    stream = release.Stream(every="day", horizon=16, **price)
    return stream.follow(curator, "visits", "day", start=str(start))


def released(feed):
    return feed.record()["released"]


@pytest.fixture
def file(tmp_path):
    """Data that have a lasting name, and their ledger."""
    (tmp_path / "visits.csv").write_text(
        "day\n" + "\n".join(str(r["day"]) for r in ROWS.to_pylist())
    )
    return str(tmp_path / "visits.csv"), str(tmp_path / "visits.ledger")


def test_one_stream_that_follows_from_many_days_pays_for_each():
    curator = opened(held(pol.Budget("2500")), ":memory:")
    stream = release.Stream(every="day", horizon=16, epsilon=1000)
    feeds = [
        stream.follow(curator, "visits", "day", start=str(FIRST - dt.timedelta(days=i)))
        for i in range(3)
    ]
    feeds[0].tick()
    feeds[1].tick()
    with pytest.raises(errors.BudgetExceededError):
        feeds[2].tick()
    assert (stream.now, feeds[0].now, feeds[2].now) == (0, 1, 0)


def test_the_callers_stream_does_not_move_a_feed():
    curator = opened(held(pol.Budget("1")), ":memory:")
    stream = release.Stream(every="day", horizon=16, epsilon=1000)
    feed = stream.follow(curator, "visits", "day", start=str(FIRST))
    stream.tick(0)  # a missed tick, on another copy
    with pytest.raises(errors.BudgetExceededError):
        feed.tick()
    cheap = release.Stream(every="day", horizon=16, epsilon="0.1")
    other = cheap.follow(curator, "visits", "day", start=str(FIRST))
    with pytest.raises(errors.ParameterError, match="fixed"):
        cheap.law = stream.law
    vars(cheap)["law"] = stream.law  # past the seal
    other.tick()
    assert other.record()["law"] == release.Stream(horizon=16, epsilon="0.1").law.to_dict()


def test_a_stream_over_another_table_pays_nothing_for_this_one():
    stream = release.Stream(every="day", horizon=16, epsilon=1000)
    mine = opened(held(pol.Budget("1000")), ":memory:")
    stream.follow(mine, "visits", "day", start=str(FIRST)).tick()
    theirs = opened(held(pol.Budget("1")), ":memory:")
    with pytest.raises(errors.BudgetExceededError):
        stream.follow(theirs, "visits", "day", start=str(FIRST)).tick()


@pytest.mark.parametrize(
    ("budget", "price", "more"),
    [
        (pol.Budget(rho="1", delta="1e-6"), {"rho": "0.001"}, {"rho": "1.1"}),
        (pol.Budget("1", delta="1e-6"), {"epsilon": "0.01"}, {"epsilon": "2"}),
        (pol.Budget("1"), {"epsilon": "0.01"}, {"epsilon": "2"}),
    ],
    ids=["rho", "epsilon and delta", "epsilon"],
)
def test_a_raise_releases_no_tick_again(file, budget, price, more):
    source, book = file
    own = held(budget)
    with dc.open(source, own, ledger=book) as curator:
        feed = follow(curator, **price)
        for _ in range(8):
            feed.tick()
        first = released(feed)
    ledger.open_ledger(book, own, purpose="decide").raise_budget(**more)
    with dc.open(source, own, ledger=book) as curator:
        before = len(curator.ledger.lines)
        back = follow(curator, **price)
        assert released(back) == first
        assert len(curator.ledger.lines) == before
        back.tick()
        assert released(back)[:8] == first
        assert len([e for e in curator.ledger.entries if e.once]) == 9
        curator.ledger.verify()


def test_a_stream_is_paid_for_in_each_period(file):
    """Rows that arrive in a period are protected by what is paid in it."""
    source, book = file
    own = held(pol.Budget("1"))
    with dc.open(source, own, ledger=book) as curator:
        feed = follow(curator, epsilon="0.9")
        feed.tick()
        ledger.open_ledger(book, own, purpose="decide").new_period()
        with pytest.raises(errors.LedgerError, match="has paid for this"):
            feed.tick()
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.5")
        anew = follow(curator, epsilon="0.9")
        assert anew.now == 0
        with pytest.raises(errors.BudgetExceededError):
            anew.tick()
        curator.ledger.verify()


def test_after_an_older_backup_a_stream_is_a_new_one(file, tmp_path):
    """What was seen on lost ticks is not known: its stream ends with them."""
    source, book = file
    own = held(pol.Budget("1"))
    with dc.open(source, own, ledger=book) as curator:
        feed = follow(curator, epsilon="0.01")
        feed.tick()
        ledger.backup(curator.ledger, tmp_path / "kept")
        for _ in range(3):
            feed.tick()
        lost = released(feed)
    (tmp_path / "visits.ledger").unlink()
    ledger.restore(tmp_path / "kept", book, older=True, policy=own)
    ledger.open_ledger(book, own, purpose="decide").raise_budget(epsilon="3")
    with dc.open(source, own, ledger=book) as curator:
        back = follow(curator, epsilon="0.01")
        assert back.now == 0
        for _ in range(4):
            back.tick()
        assert released(back) != lost
        paid = [e.cost.epsilon for e in curator.ledger.entries if e.plan.endswith("tick 0")]
        assert len(paid) == 2
        assert paid[0] == paid[1] > 0.009


def test_a_live_feed_ends_where_lines_are_lost_or_forgotten(file, tmp_path):
    source, book = file
    own = held(pol.Budget("1"))
    with dc.open(source, own, ledger=book) as one, dc.open(source, own, ledger=book) as two:
        first, second = follow(one, epsilon="0.5"), follow(two, epsilon="0.5")
        first.tick()
        second.tick()
        ledger.backup(one.ledger, tmp_path / "kept")
        first.tick()
        (tmp_path / "visits.ledger").unlink()
        ledger.restore(tmp_path / "kept", book, older=True, policy=own)
        ledger.open_ledger(book, own, purpose="decide").raise_budget(epsilon="9")
        with pytest.raises(errors.LedgerError, match="has paid for this"):
            second.tick()
        (tmp_path / "visits.ledger").unlink()
        ledger.forget(own, book, fresh_budget=True)
        ledger.open_ledger(book, own)
        with pytest.raises(errors.LedgerError, match="has paid for this"):
            second.tick()


def test_what_is_released_once_is_one_line_whatever_it_costs(tmp_path):
    """The rule of the ledger itself: two handles, two prices, two analysts, one debit."""
    own = held(pol.Budget("1"))
    book = ledger.open_ledger(tmp_path / "x.ledger", own)

    def entry(price, analyst):
        return ledger.Entry(
            policy=own.identity, fingerprint="f", analyst=analyst, plan="a tick",
            cost=Cost(*map(Fraction, price)), noise="n", neighbours="add-remove",
            unit=None, tables=("visits",), once=True,
        )  # fmt: skip

    first = book.debit(entry(("0.1", 0, "0.005", 0), "ann"))
    second = book.debit(entry(("0.2", 0, "0.02", 0), "ben"))
    assert (second.number, second.charged, second.stored) == (first.number, False, None)
    book.settle(first, '["seen"]')
    assert book.settle(second, '["another"]') == '["seen"]'
    assert book.debit(entry(("0.3", 0, "0.045", 0), None)).stored == '["seen"]'
    book.verify()
