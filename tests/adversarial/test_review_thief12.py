"""What a stranger proved on streams: ticks that were seen twice, or never paid for.

And what a thief got out of exact totals, of ticks that rows do not keep, and of objects that
public methods hand out. Each theft stands beside its unmended twin where one can be planted.

Each test is exact: at ε = 1000 and above noise is 0 but with probability below e^{-160}, and
numbers of two releases at the prices below agree in all ticks by chance with probability
below 10^{-9}.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import errors, ledger, release
from discreet import policy as pol
from discreet._recent import Recent
from discreet.curator import Batch, _partition
from discreet.inference._testoftests import plan_parts
from discreet.plan import Cost, _relation, expr
from discreet.privacy import Neighbours
from discreet.release import _curated, _feed
from discreet.release._stream import column_moves

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


# -- exact totals of what a limit keeps --------------------------------------------------------

W = release.Workload
AREA = pol.Category("area", ["A", "B"], null="A")
CROWD = [(str(i), "AB"[i % 2], (37 * i) % 100) for i in range(60)]


def totals(victim, width=50, *, exact="total", **limits):
    """Publish with exact totals of rows, of which the victim has these; return them."""
    rows = CROWD + [("victim", "A", x) for x in victim]
    data = {n: [r[i] for r in rows] for i, n in enumerate(("id", "area", "x"))}
    columns = [AREA, pol.Integer("x", 0, 99, null=0)]
    table = pol.Table("people", columns, neighbours="change-one",
                      unprotected=["total", "total by area"], **limits)  # fmt: skip
    own = pol.Policy([table], pol.Budget("1"), name=f"totals {next(_NAMES)}")
    made = dc.open(pa.table(data), own, ledger=":memory:").publish(
        "people", W.kron(W.identity(2), W.identity(100 // width)), columns=["area", "x"],
        bins={"x": width}, epsilon="0.001", method="topdown", owner="me", unprotected=[exact],
    )  # fmt: skip
    return np.asarray(made.estimate).reshape(2, -1).sum(axis=1).tolist()


GROUPS = {"unit": "id", "max_groups_per_unit": 4, "max_rows_per_group": 1}
ROWS_OF_UNIT = {"unit": "id", "max_rows_per_unit": 3}


@pytest.mark.parametrize(
    ("limits", "exact"),
    [
        (GROUPS, "total"),
        ({**GROUPS, "max_rows_per_unit": 3}, "total"),
        ({**ROWS_OF_UNIT, "max_groups_per_unit": 2}, "total"),
        ({**ROWS_OF_UNIT, "max_rows_per_group": 1}, "total"),
        (ROWS_OF_UNIT, "area-totals"),
    ],
)
def test_no_exact_total_of_what_a_limit_makes_of_protected_values(limits, exact):
    with pytest.raises(errors.PrivacyError, match="which of them count depends"):
        totals((10, 90), exact=exact, **limits)


def test_a_limit_by_groups_would_tell_values_by_exact_totals(monkeypatch):
    """The mutant: with the bins that an analyst chooses, one bit of the victim each."""
    monkeypatch.setattr(_curated, "_whole", lambda *_, **__: True)
    assert sum(totals((10, 12), **GROUPS)) + 1 == sum(totals((10, 90), **GROUPS))


def test_an_exact_total_under_a_limit_of_rows_depends_on_their_number_alone():
    few = {**ROWS_OF_UNIT, "max_rows_per_unit": 2}
    for victim in ((10, 12, 14), (10, 50, 90), (99, 99, 99)):
        for width in (50, 10):
            assert sum(totals(victim, width, **few)) == len(CROWD) + 2
    assert totals((10, 12, 14), exact="area-totals") == [33, 30]  # rows that are units


@pytest.mark.parametrize("limit", [{"max_rows_per_parent": 1}, {"max_rows_per_unit": 3}])
def test_no_exact_total_of_rows_that_belong_to_units_through_an_owner(limit, monkeypatch):
    key = pol.Category("ward", ["E", "I"], null="E")
    visits = pol.Table("visits", [key], unit="id", key="visit", neighbours="change-one",
                       max_rows_per_unit=3)  # fmt: skip
    tests = pol.Table("tests", [AREA, pol.Boolean("c", null=False)], neighbours="change-one",
                      owner={"table": "visits", "column": "visit"}, unprotected=["total"],
                      **limit)  # fmt: skip

    def total(visit, made):
        own = pol.Policy([visits, tests], pol.Budget("1"), name=f"owners {next(_NAMES)}")
        data = {
            "visits": pa.table({"id": ["1", "v"], "visit": ["a", visit], "ward": ["E"] * 2}),
            "tests": pa.table({"visit": made, "area": ["A"] * 3, "c": [True] * 3}),
        }
        published = dc.open(data, own, ledger=":memory:").publish(
            "tests", W.kron(W.identity(2), W.identity(2)), columns=["area", "c"],
            epsilon="0.001", method="topdown", owner="me", unprotected=["total"],
        )  # fmt: skip
        return np.asarray(published.estimate).sum()

    with pytest.raises(errors.PrivacyError, match="through an owner"):
        total("p", ["a", "p", "p"])
    monkeypatch.setattr(_curated, "_whole", lambda *_, **__: True)
    assert total("p", ["a", "p", "p"]) > total("z", ["a", "p", "p"])


# -- streams: the tick, the start, the noise, the door -------------------------------------------

SCORE = pol.Integer("score", 0, 20)


def scores(*, victim=True, **table):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS pid, i % 9 AS score FROM range(50) r(i)")
    if victim:
        connection.execute("INSERT INTO t VALUES (999, 0)")
    own = pol.Policy([pol.Table("t", [SCORE], **table)], pol.Budget("5"), name=f"s {next(_NAMES)}")
    return connection, dc.open(connection, own, ledger=":memory:")


def test_a_stream_follows_a_column_that_rows_keep():
    stream = release.Stream(horizon=16, epsilon=1)
    _, curator = scores()
    for column in ("score", "score + 1", '"score"', "CAST(score AS BIGINT)", "missing"):
        with pytest.raises(errors.ParameterError, match="given another value"):
            stream.follow(curator, "t", column, start=0)
    assert curator.budget.spent["epsilon"] == 0
    _, curator = scores(fixed=["score"])
    stream.follow(curator, "t", "score", start=0).tick()


def test_a_row_that_moves_from_tick_to_tick_moves_more_than_is_paid_for(monkeypatch):
    """The mutant: a tick that is any expression."""
    monkeypatch.setattr(_feed, "_tick", lambda _, name: name)
    pasts, stream = ([], []), release.Stream(horizon=16, epsilon=1)
    for past, victim in zip(pasts, (True, False), strict=True):
        connection, curator = scores(victim=victim)
        feed = stream.follow(curator, "t", "score + 0", start=0)
        for t in range(16):
            connection.execute("UPDATE t SET score = ? WHERE pid = 999", [t])
            past.append(feed._history(t))
    assert column_moves(stream, *pasts) == 16


def test_a_stream_follows_the_days_of_a_timestamp():
    """At ε = 2000 noise is 0 but with probability below 2e^{-999}."""
    at = [f"2026-01-0{1 + i % 3} {i % 24:02}:00:00" for i in range(30)]
    own = pol.Policy([pol.Table("t", [pol.Timestamp("at", "2026-01-01", "2026-01-09")])],
                     pol.Budget("2100"), name=f"at {next(_NAMES)}")  # fmt: skip
    curator = dc.open(
        pa.table({"at": pa.array(at).cast(pa.timestamp("us"))}), own, ledger=":memory:"
    )
    stream = release.Stream(horizon=4, epsilon=2000, every="day")
    feed = stream.follow(curator, "t", "at", start="2026-01-01")
    assert [feed.tick() for _ in range(3)] == [10, 20, 30]


class Spy(int):
    """A number that watches what is subtracted from."""

    seen: ClassVar[set[int]] = set()

    def __rsub__(self, code):
        self.seen.add(code)
        return 0


class Day(dt.date):
    """A day whose distance is a spy."""

    def __sub__(self, _):
        return SimpleNamespace(days=Spy(0))


@pytest.mark.parametrize("start", [Spy(0), Day(1970, 1, 1)])
def test_the_start_of_a_stream_sees_no_private_code(start, monkeypatch):
    Spy.seen.clear()
    stream = release.Stream(horizon=16, epsilon="0.01")
    _, curator = scores(fixed=["score"])
    stream.follow(curator, "t", "score", start=start).tick()
    assert not Spy.seen
    monkeypatch.setattr(
        _feed, "_code", lambda s: s if isinstance(s, int) else (s - dt.date(1970, 1, 1)).days
    )
    stream.follow(curator, "t", "score", start=start).tick()
    assert Spy.seen == set(range(9))


def test_the_number_of_parts_that_meets_private_rows_is_a_plain_one():
    parts, _ = plan_parts(1, Spy(20), "0.1", "0.05")
    assert (type(parts), parts) == (int, 20)


def test_no_function_of_an_object_stands_for_the_noise_of_its_stream():
    _, curator = scores(fixed=["score"])
    cheap, dear = (release.Stream(horizon=16, epsilon=e) for e in ("0.01", 1000))
    vars(cheap)["fresh"] = lambda: dear
    assert cheap.fresh() is dear  # what an unmended follow asked for
    feed = cheap.follow(curator, "t", "score", start=0)
    assert feed.record()["law"] == cheap.law.to_dict() != dear.law.to_dict()


def test_a_feed_cannot_be_made_past_the_checks():
    own = pol.Policy([pol.Table("t", [pol.Integer("day", 0, 3), pol.Integer("pay", 0, 10**6)],
                                fixed=["day"])], pol.Budget("1"), name="pay")  # fmt: skip
    rows = pa.table({"day": [0, 1, 2], "pay": [10**5] * 3})
    curator = dc.open(rows, own, ledger=":memory:")
    stream = release.Stream(horizon=4, epsilon="0.1")
    with pytest.raises(errors.ParameterError, match="may add 1000000 steps"):
        _feed.Feed(stream, curator, "t", "day", start=0, value="pay")
    found = curator.preview("SELECT day, SUM(pay) AS s FROM t GROUP BY day", epsilon="0.1").plan
    with pytest.raises(TypeError):
        _feed.Feed(stream, curator, found.lowered.aggregates[0], first=0, width=1, step=1,
                   moves=found.lowered.parts[0].sensitivity)  # fmt: skip

    class Modest(int):
        def __lt__(self, _):
            return False

        def __mul__(self, _):
            return 10**9

    kept = release.Stream(horizon=Modest(4), bound=Modest(1), epsilon=1)
    assert {type(n) for n in (kept.horizon, kept.bound, kept.ticks)} == {int}
    with pytest.raises(errors.ParameterError, match="at least 1"):
        release.Stream(horizon=4, bound=Modest(-1), epsilon=1)


# -- what previews and proposals show --------------------------------------------------------------

SUMS = pol.Table("t", [pol.Integer("x", 0, 9), pol.Category("c", ["a", "b"])])
TRUTH = [sum(i % 10 for i in range(169) if (i % 3 != 0) == known) for known in (True, False)]


def summed():
    data = {"x": [i % 10 for i in range(169)], "c": ["ba"[bool(i % 3)] for i in range(169)]}
    own = pol.Policy([SUMS], pol.Budget("1"), name=f"sums {next(_NAMES)}")
    return dc.open(pa.table(data), own, ledger=":memory:")


def tampered(curator):
    """Multiply a sum that is priced and proved by a million, through what a preview shows."""
    question = "SELECT c, SUM(x) AS s FROM t GROUP BY c"
    with curator.batch(epsilon="0.011") as batch:
        pending = batch.sql(question)
        shown = curator.preview(question, epsilon="0.011").plan.lowered.aggregates[0]
        by = expr.Constant.number(Fraction(10**6))
        shown.relation.exprs["v0"] = expr.Arithmetic("*", shown.relation.exprs["v0"], by)
        curator._engine._proofs = Recent()  # 257 other previews do it too
    return [round(row["s"] / 10**6) for row in pending.answer.to_dicts()]


def test_what_a_preview_shows_cannot_be_changed(monkeypatch):
    """The mutant reads sums off: noise of scale 819 moves a millionth of it by a half never.

    It does so with probability below e^{-600}.
    """
    with pytest.raises(TypeError, match="item assignment"):
        tampered(summed())
    monkeypatch.setattr(_relation, "MappingProxyType", dict)
    assert tampered(summed()) == TRUTH


def changeable(found, seen):
    """Walk everything that an object of a plan holds, caches included; list what can change."""
    if id(found) in seen or isinstance(found, type | str | int | Fraction | Enum | ModuleType):
        return []
    seen[id(found)] = found  # kept, so that no other takes its place
    if isinstance(found, dict | list | set | bytearray | np.ndarray):
        return [type(found).__name__]
    if isinstance(found, Mapping):
        inside = [*found.keys(), *found.values()]
    elif isinstance(found, tuple | frozenset):
        inside = list(found)
    else:
        slots = [n for kind in type(found).__mro__ for n in getattr(kind, "__slots__", ())]
        inside = [getattr(found, n, None) for n in slots] if not hasattr(found, "__dict__") else []
        inside += [v for n, v in getattr(found, "__dict__", {}).items() if not n.startswith("_")]
    return [f"{type(found).__name__} > {one}" for i in inside for one in changeable(i, seen)]


QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT ward, AVG(cost) AS a, STDDEV(cost) AS s FROM visits WHERE cost > 2 GROUP BY ward",
    "SELECT name, COUNT(*) AS n FROM visits GROUP BY name",
    "SELECT MEDIAN(cost) AS m, COUNT(DISTINCT ward) AS d FROM visits",
    "SELECT k.size, SUM(v.cost) AS s FROM visits v JOIN kinds k ON v.ward = k.ward GROUP BY k.size",
    "SELECT COUNT(*) AS n FROM (SELECT id, SUM(cost) AS s FROM visits GROUP BY id) u WHERE s > 9",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_plan_holds_nothing_that_can_be_changed(question, monkeypatch):
    ward = pol.Category("ward", ["E", "I"])
    visits = pol.Table("visits", [ward, pol.Real("cost", 0, 50, step="0.5"), pol.Text("name")],
                       unit="id", max_rows_per_unit=3)  # fmt: skip
    size = pol.Category("size", ["small", "large"])
    kinds = pol.Table("kinds", [ward, size], public=True)
    own = pol.Policy([visits, kinds], pol.Budget("9", delta="1e-6"), name="plans")
    data = {
        "visits": pa.table({"id": [1], "ward": ["E"], "cost": [1.5], "name": ["a"]}),
        "kinds": pa.table({"ward": ["E", "I"], "size": ["small", "large"]}),
    }

    def shown():
        curator = dc.open(data, own, ledger=":memory:")
        quote = curator.preview(question, epsilon=1, delta="1e-7")
        repr(quote)  # fills what is worked out when it is asked for
        return changeable(quote.plan, {})

    assert not shown()
    monkeypatch.setattr(_relation, "MappingProxyType", dict)
    assert any(" > dict" in path for path in shown())


def answers(proposal):
    (part,) = proposal.publish().stored["parts"]
    return [q["released"][0] for q in part["questions"] if "answer" in q["label"]]


def test_a_proposal_shows_copies_of_arrays(monkeypatch):
    """Noise of scale 300 reaches 10^5 with probability below e^{-300}."""
    ones = W.matrix(np.eye(2))
    how = {"columns": ["c"], "epsilon": "0.01", "method": "mwem", "rounds": 2, "total": 169}

    def proposed():
        made = summed().publication("t", ones, **how)
        part = made.bill.lowered.parts[0]
        for held in (part, made.bill.parts[0].part, made.plan):
            for _, axes in held.workload.terms:
                for axis in axes:
                    axis.matrix.data[:] = 10**6
        return made

    assert all(abs(n) < 10**5 for n in answers(proposed()))
    monkeypatch.setattr(_curated.copy, "deepcopy", lambda bill: bill)
    assert any(abs(n) > 10**6 for n in answers(proposed()))


# -- questions and prices of a batch -----------------------------------------------------------


def test_a_batch_takes_no_question_that_others_have_read():
    curator = summed()
    query = curator.table("t").agg(n=dc.count()).query
    forged = replace(query, neighbours=Neighbours.CHANGE_ONE)
    with curator.batch(epsilon="0.01") as batch:
        assert not hasattr(batch, "add")
        pending = batch._add(forged)  # what it would tell
    assert pending.answer.to_dicts()[0]["n"] == 169
    with pytest.raises(errors.DiscreetError, match="table"):
        curator.batch(epsilon="0.01").ask(forged)


def test_a_batch_charges_its_own_price():
    class Free(Batch):
        def priced(self):
            plans, _ = super().priced()
            return plans, Cost(*[Fraction(0)] * 4)

    curator = summed()
    with Free(curator, "0.5", None) as batch:
        batch.sql("SELECT COUNT(*) AS n FROM t")
    assert curator.budget.spent["epsilon"] == Fraction(1, 2)


# -- partitions ---------------------------------------------------------------------------


class Lie(str):
    """A name that is quoted as a condition."""

    __slots__ = ()

    def replace(self, *_):
        return 'c" IS NULL AND "c" = \'a\' AND "c'


def test_a_partition_is_made_by_its_curator_of_plain_texts(monkeypatch):
    own = replace(SUMS, fixed=["c"])
    held = pol.Policy([own], pol.Budget("2"), name="divided")
    rows = pa.table({"x": [1] * 4, "c": ["a", "b"] * 2})
    curator = dc.open(rows, held, ledger=":memory:")
    whole = "SELECT COUNT(*) AS n FROM t WHERE c IS NOT NULL"
    honest = curator.partition("c", epsilon="0.1")
    for lies in ({"column": Lie("c")}, {"currency": Lie("rho")}, {"price": Fraction(9)}):
        with pytest.raises(TypeError):
            replace(honest, **lies)

    def evil():
        return curator.partition(Lie("c"), table=Lie("t"), name=Lie("e"), epsilon="0.1")

    assert {type(getattr(evil(), n)) for n in ("column", "table", "currency", "name")} == {str}
    with pytest.raises(errors.QueryError, match="outside of the part"):
        evil()["a"].sql(whole, epsilon="0.1")
    monkeypatch.setattr(_partition, "plain_str", lambda text, *_: text)
    evil()["a"].sql(whole, epsilon="0.1")  # about all rows, for the price of a part


# -- the terms of a curator -----------------------------------------------------------------------


def test_terms_and_methods_of_a_curator_are_fixed():
    curator, other = summed(), summed()
    for name in ("policy", "ledger", "analyst", "preview", "sql", "table", "__class__"):
        with pytest.raises(errors.ParameterError, match="is fixed"):
            setattr(curator, name, getattr(other, name))
    assert curator.policy is not other.policy
