"""Streams: exact integer factor, published figures, replay, refusals. No test is random."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest

from discreet import policy as pol
from discreet import release
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import BudgetExceededError, EngineError, ParameterError
from discreet.ledger import MemoryLedger, open_ledger
from discreet.noise._deterministic import deterministic
from discreet.plan import Salt
from discreet.release._stream import column_moves, inverse_series, square_root


@pytest.mark.parametrize(
    ("n", "squares", "figure"), [(4096, 62_311_100, 3.71390), (65_536, 77_112_897, 4.59677)]
)
def test_integer_square_root(n, squares, figure):
    """Exact Σĉ² and largest error per σ at S = 4096 [3.7139, 4.5968]."""
    c = square_root(n)
    assert int((c * c).sum()) == squares
    decoder = np.cumsum(inverse_series(c))
    assert math.sqrt(squares * (decoder**2).sum()) == pytest.approx(figure, abs=2e-5)


def test_std_is_the_error_of_the_decoder():
    stream = release.Stream(horizon=4096, rho="0.5")
    assert stream.std() == pytest.approx(3.7139, abs=1e-4)
    assert stream.std(1) < stream.std(2) < stream.std()


@pytest.mark.parametrize(("n", "figure"), [(4096, 28.5), (65_536, 43.8)])
def test_the_tree_of_sixteen(n, figure):
    stream = release.Stream(horizon=n, epsilon="0.01")
    worst = max(stream.std(t) for t in (15, 255, 4095, n - 1))
    assert worst * 0.01 == pytest.approx(figure, abs=0.05)


@pytest.mark.parametrize("price", [{"rho": "1e6"}, {"epsilon": "1e6"}])
def test_without_noise_to_speak_of_the_sums_are_right(price):
    stream = release.Stream(horizon=40, **price)
    values = [(7 * t) % 5 for t in range(40)]
    for t, value in enumerate(values):
        assert stream.tick(value) == pytest.approx(sum(values[: t + 1]), abs=0.02)
    assert stream.total == pytest.approx(sum(values), abs=0.02)


def past(history):
    """What the table shows at each tick, if nothing comes late."""
    return [history[: t + 1] for t in range(len(history))]


@pytest.mark.parametrize("price", [{"rho": "0.5"}, {"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}])
def test_one_person_at_one_tick_moves_it_as_declared(price):
    for ticks, bound in ((1, 1), (1, 3), (2, 1)):
        stream = release.Stream(horizon=40, ticks=ticks, bound=bound, **price)
        base = [5] * 40
        reached = []
        for s in (0, 1, 17, 39):
            other = list(base)
            other[s] += bound
            if ticks == 2:
                other[(s + 1) % 40] += bound
            reached.append(column_moves(stream, past(base), past(other)))
        assert max(reached) <= 1
        assert max(reached) > 0.4
        # one tick more than declared is caught
        greedy = [v + bound for v in base]
        assert column_moves(stream, past(base), past(greedy)) > 1


def test_the_loss_is_that_of_the_whole_horizon_and_names_the_unit():
    stream = release.Stream(every="day", horizon=100, rho="0.5")
    assert stream.loss.rho <= 0.5
    assert stream.loss.unit == stream.unit == "person-day"
    for _ in range(100):
        stream.tick()
    assert stream.loss.rho <= 0.5
    with pytest.raises(ParameterError, match="they are over"):
        stream.tick(1)
    tree = release.Stream(horizon=100, epsilon=1, neighbours="change-one")
    assert tree.loss.epsilon() == 1
    approx = release.Stream(horizon=100, epsilon=1, delta="1e-6")
    assert approx.loss.delta(1) <= 1e-6


def test_errors_have_the_stated_size():
    """100 streams of 30 ticks: the mean squared error is about the stated one (fixed noise)."""
    for price in ({"rho": "0.5"}, {"epsilon": 1}):
        gaps = []
        with deterministic("streams"):
            for _ in range(100):
                stream = release.Stream(horizon=30, **price)
                for _ in range(30):
                    stream.tick(3)
                gaps.append(stream.total - 90)
        assert np.mean(np.square(gaps)) == pytest.approx(stream.std(30) ** 2, rel=0.4)
        low, high = stream.interval()
        assert low < stream.total < high


def test_nothing_private_is_shown():
    stream = release.Stream(horizon=10, rho=1)
    stream.tick(987_654)
    assert "987654" not in repr(stream)
    assert set(stream.record()) == {"kind", "every", "unit", "horizon", "neighbours", "price",
                                    "law", "released"}  # fmt: skip


@pytest.mark.parametrize(
    "kwargs",
    [
        {"horizon": 0, "rho": 1},
        {"horizon": 10},
        {"horizon": 10, "rho": 1, "bound": 0},
        {"horizon": 10, "rho": 1, "ticks": 11},
        {"horizon": 2**21, "rho": 1},
        {"horizon": 10, "rho": 1, "ticks": 2, "anew": True},
    ],
)
def test_refusals(kwargs):
    with pytest.raises(ParameterError):
        release.Stream(**kwargs)
    stream = release.Stream(horizon=3, rho=1)
    with pytest.raises(ParameterError, match="whole number"):
        stream.tick(1.5)
    with pytest.raises(ParameterError, match="nothing has been released"):
        stream.interval()


# -- over a curator's table -----------------------------------------------------------------

DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(40)]
VISITS = [{"day": DAYS[i * 7 % 30], "cost": i % 4} for i in range(600)]


def visits_policy(name, budget="50", **table):
    columns = [pol.Date("day", "2026-01-01", "2026-02-09"), pol.Integer("cost", 0, 3)]
    return pol.Policy(
        tables=[pol.Table("visits", columns, **table)],
        budget=pol.Budget(budget, delta="1e-4", accounting="approx"),
        name=name,
    )


def visits(name, ledger=None, rows=VISITS, **options):
    own = visits_policy(name, **options)
    return Curator(own, Reference({"visits": rows}), ledger or MemoryLedger(own), None, "visits")


@pytest.mark.parametrize("value", [None, "cost"])
def test_a_stream_follows_a_table(value):
    """At ε = 2000 the noise of a node is 0 but with probability 2e^{-333}."""
    asked = visits(f"follows {value}", budget="5000")
    stream = release.Stream(every="day", horizon=40, bound=3 if value else 1, epsilon=2000)
    feed = stream.follow(asked, "visits", "day", start="2026-01-01", value=value)
    for t in range(30):
        wanted = sum(r[value] if value else 1 for r in VISITS if r["day"] <= DAYS[t])
        assert feed.tick() == pytest.approx(wanted)


def test_a_restart_finds_the_state_in_the_ledger_and_pays_nothing(tmp_path):
    own = visits_policy(f"restart {tmp_path}")
    price = {"every": "day", "horizon": 40, "rho": "0.5"}
    with_ledger = open_ledger(tmp_path / "visits.ledger", own)
    asked = visits(own.name, with_ledger)
    feed = release.Stream(**price).follow(asked, "visits", "day", start="2026-01-01")
    first = [feed.tick() for _ in range(3)]
    spent = asked.budget.spent
    again = visits(own.name, open_ledger(tmp_path / "visits.ledger", own))
    back = release.Stream(**price).follow(again, "visits", "day", start="2026-01-01")
    assert back.now == 3
    assert back.total == first[-1]
    assert back.record() == feed.record()
    assert again.budget.spent == spent
    back.tick()
    # the whole price came with the first tick; another tick costs the least there is
    more = again.budget.spent["epsilon"] - spent["epsilon"]
    assert 0 < more < spent["epsilon"] / 100


def test_missed_ticks_are_released_once_each():
    asked = visits("missed")
    price = {"every": "day", "horizon": 40, "rho": "0.5"}
    feed = release.Stream(**price).follow(asked, "visits", "day", start="2026-01-01")
    feed.tick()
    feed.until("2026-01-08")
    assert feed.now == 7
    spent = asked.budget.spent
    feed.until("2026-01-08")
    assert asked.budget.spent == spent
    ticks = [e.plan for e in asked.ledger.entries if e.plan.startswith("stream")]
    assert len(ticks) == len(set(ticks)) == 7


def test_a_killed_tick_is_finished_under_its_debit():
    class Dying(Reference):
        dead = True

        def execute(self, aggregate, salt):
            if self.dead:
                raise KeyboardInterrupt
            return super().execute(aggregate, salt)

    own = visits_policy("killed")
    engine = Dying({"visits": VISITS})
    asked = Curator(own, engine, MemoryLedger(own), None, "visits")
    price = {"every": "day", "horizon": 40, "rho": "0.5"}
    feed = release.Stream(**price).follow(asked, "visits", "day", start="2026-01-01")
    with pytest.raises(KeyboardInterrupt):
        feed.tick()
    paid = asked.budget.spent["epsilon"]
    engine.dead = False
    back = release.Stream(**price).follow(asked, "visits", "day", start="2026-01-01")
    assert back.now == 1
    # running again is metered at the least price, the price itself is paid once
    assert asked.budget.spent["epsilon"] < paid * 1.01


@pytest.mark.parametrize("t", [0, 2])
def test_a_failed_tick_is_an_outcome_and_runs_again_for_the_whole_price(t):
    """It had run again and again for the least price, and told each time whether it failed."""

    class Failing(Reference):
        broken = False

        def execute(self, aggregate, salt):
            if self.broken:
                raise MemoryError
            return super().execute(aggregate, salt)

    own = visits_policy(f"failed {t}")
    engine = Failing({"visits": VISITS})
    asked = Curator(own, engine, MemoryLedger(own), None, "visits")
    price = {"every": "day", "horizon": 40, "rho": "0.1"}

    def follow():
        return release.Stream(**price).follow(asked, "visits", "day", start="2026-01-01")

    feed = follow()
    for _ in range(t):
        feed.tick()
    engine.broken = True
    with pytest.raises(EngineError, match="could not compute"):
        feed.tick()
    paid = asked.budget.spent["epsilon"]
    for broken in (True, False):
        engine.broken = broken
        for same in (feed, follow()):
            assert same.now == t
            with pytest.raises(EngineError, match=f"tick {t} has failed"):
                same.tick()
    assert asked.budget.spent["epsilon"] == paid
    engine.broken = True
    with pytest.raises(EngineError, match="could not compute"):
        feed.tick(again=True)
    twice = asked.budget.spent["epsilon"]
    assert twice > 1.9 * paid
    engine.broken = False
    feed.tick(again=True)
    assert asked.budget.spent["epsilon"] > 2.9 * paid
    whole = asked.budget.spent
    back = follow()
    assert (back.now, back.total, asked.budget.spent) == (t + 1, feed.total, whole)
    back.tick()
    assert asked.budget.spent["epsilon"] < float(whole["epsilon"]) * 1.01


def test_streams_that_cannot_be_bounded_are_refused_for_free():
    stream = {"every": "day", "horizon": 40, "rho": "0.5"}
    people = [{**r, "id": i % 50} for i, r in enumerate(VISITS)]
    asked = visits("units", rows=people, unit="id", max_rows_per_unit=3)
    with pytest.raises(ParameterError, match="changes from tick to tick"):
        release.Stream(**stream).follow(asked, "visits", "day", start="2026-01-01")
    with pytest.raises(ParameterError, match="one unit may add 3 steps"):
        release.Stream(**stream, anew=True).follow(asked, "visits", "day", start="2026-01-01")
    asked = visits("refused")
    for more, how, match in (
        ({}, {"value": "cost"}, "may add 3 steps"),
        ({"neighbours": "change-one"}, {}, "policy's relation"),
        ({"ticks": 2}, {}, "one tick for each row"),
        ({"every": "month"}, {}, "days or weeks"),
        ({}, {"start": "soon"}, "a day or a whole number"),
    ):
        with pytest.raises(ParameterError, match=match):
            release.Stream(**{**stream, **more}).follow(
                asked, "visits", "day", **{"start": "2026-01-01", **how}
            )
    assert asked.budget.spent["epsilon"] == 0
    poor = visits("poor", budget="1")
    feed = release.Stream(**stream).follow(poor, "visits", "day", start="2026-01-01")
    with pytest.raises(BudgetExceededError):
        feed.tick()
    assert feed.now == 0


@pytest.mark.parametrize("price", [{"rho": "0.5"}, {"epsilon": 1}])
def test_a_late_row_moves_less_than_its_whole_column(price):
    """Replay of ticks computed from a growing table, one row arriving at any time."""
    stream = release.Stream(every="day", horizon=20, **price)
    base = past([3] * 20)
    for s in (0, 4, 15):
        for arrives in range(s, 20):
            other = [list(shown) for shown in base]
            for shown in other[arrives:]:
                shown[s] += 1
            moved = column_moves(stream, base, other)
            assert moved <= 1
            if arrives == s == 0 and not stream.price.pure:
                assert moved == 1


# -- whole persons ----------------------------------------------------------------------------

PRICES = [{"rho": "0.5"}, {"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}]


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_a_person_whose_rows_are_chosen_anew_moves_no_tick_farther_than_the_limit(price, relation):
    """At every tick three rows, anywhere; a fourth is caught, and so is a stream per tick."""
    stream = release.Stream(every="day", horizon=20, bound=3, anew=True, neighbours=relation,
                            **price)  # fmt: skip
    base = past([5] * 20)
    kept = [sorted({t, t // 2, 0})[:3] for t in range(20)]

    def moved(rows):
        other = [list(shown) for shown in base]
        for t, shown in enumerate(other):
            shown[kept[t][-1]] += rows
        return column_moves(stream, base, other)

    sides = 1 if relation == "add-remove" else 2
    assert moved(3 * sides) == 1
    assert moved(3 * sides + 1) > 1
    assert stream.unit == "person"
    if sides == 1:
        # the newest row takes an older one's place each time: no column holds that
        other = [[*shown[:-1], shown[-1] + 1] for shown in base]
        assert column_moves(release.Stream(horizon=20, **price), base, other) > 1


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_the_price_of_whole_persons_is_that_of_all_ticks(price):
    stream = release.Stream(horizon=50, bound=2, anew=True, **price)
    single = release.Stream(horizon=1, bound=2, anew=True, **price)
    if "rho" in price:
        assert stream.loss.rho <= 0.5
        assert stream.std() == pytest.approx(math.sqrt(50) * single.std(), rel=1e-6)
    elif "delta" in price:
        assert stream.loss.delta(1) <= 1e-6
    else:
        assert stream.loss.epsilon() == 1
        assert stream.law.scale == 50 * single.law.scale == 100
    assert [stream.std(t) for t in (1, 50)] == [stream.std()] * 2


@pytest.mark.parametrize("value", [None, "cost"])
def test_a_stream_of_whole_persons_follows_a_table(value):
    """At ε = 10⁵ and twelve rows a person the noise is 0 but with probability below 1e-30.

    Every person has twelve rows and all of them are kept, so that sums are known.
    """
    people = [{**r, "id": i % 50} for i, r in enumerate(VISITS)]
    asked = visits(f"persons {value}", rows=people, budget="1000000", unit="id",
                   max_rows_per_unit=12)  # fmt: skip
    bound = 36 if value else 12
    stream = release.Stream(every="day", horizon=30, bound=bound, anew=True, epsilon=100_000)
    feed = stream.follow(asked, "visits", "day", start="2026-01-01", value=value)
    for t in range(30):
        wanted = sum(r[value] if value else 1 for r in VISITS if r["day"] <= DAYS[t])
        assert feed.tick() == pytest.approx(wanted)
    (first, *_) = [e for e in asked.ledger.entries if e.plan.startswith("stream")]
    assert first.unit == "id"


def test_persons_are_limited_and_a_restart_pays_nothing(tmp_path):
    """Three of twelve rows a person: no sum exceeds 150, at noise that is 0 as above."""
    people = [{**r, "id": i % 50} for i, r in enumerate(VISITS)]
    own = visits_policy(f"limited {tmp_path}", budget="1000000", unit="id", max_rows_per_unit=3)
    price = {"every": "day", "horizon": 40, "bound": 3, "anew": True, "epsilon": 100_000}

    def following():
        engine = Reference({"visits": people})
        asked = Curator(own, engine, open_ledger(tmp_path / "limited.ledger", own), None, "visits")
        return asked, release.Stream(**price).follow(asked, "visits", "day", start="2026-01-01")

    asked, feed = following()
    feed.until("2026-02-05")
    assert feed.total == 150
    spent = asked.budget.spent
    again, back = following()
    assert back.record() == feed.record()
    assert again.budget.spent == spent
    low, high = back.interval()
    assert low <= 150 <= high


def test_replay_of_a_followed_table_under_its_limits():
    """Tables that differ in one person, read tick by tick under salts of their own."""
    rng = np.random.default_rng(5)
    rows = [{"day": DAYS[int(rng.integers(20))], "cost": 1, "id": int(rng.integers(12))}
            for _ in range(120)]  # fmt: skip
    less = [r for r in rows if r["id"] != 4]
    own = visits_policy("replayed", unit="id", max_rows_per_unit=3)
    stream = release.Stream(every="day", horizon=20, bound=3, anew=True, rho="0.5")
    asked = [Curator(own, Reference({"visits": v}), MemoryLedger(own), None, "visits")
             for v in (rows, less)]  # fmt: skip
    feeds = [stream.follow(a, "visits", "day", start="2026-01-01") for a in asked]
    pasts = []
    for feed, held in zip(feeds, (rows, less), strict=True):
        engine = Reference({"visits": held})
        shown = []
        for t in range(20):
            counts = [0] * (t + 1)
            for (code,), (n, *_) in engine.execute(feed._aggregate, Salt(b"tick %d" % t)).items():
                if (at := code - feed._first) <= t:
                    counts[at] += n
            shown.append(counts)
        pasts.append(shown)
    moved = column_moves(stream, *pasts)
    assert 0 < moved <= 1
    # ten of the person's rows, unlimited, would break it
    assert sum(r["id"] == 4 for r in rows) > 3


def test_intervals_of_streams_are_those_of_the_noise():
    """A tree's and a person's from the law itself; a root's near the normal one (fixed noise)."""
    for price, width in (({"epsilon": 1}, None), ({"rho": "0.5"}, 1.96)):
        stream = release.Stream(horizon=20, **price)
        with deterministic("intervals of streams"):
            for _ in range(7):
                stream.tick(2)
            found = stream.interval(0.95)
        low, high = found
        assert found.confidence >= 0.95
        if width is None:
            reach = (stream.law * 7).interval(0.95)
            assert (low, high) == (stream.total + reach.low, stream.total + reach.high)
        else:
            assert (high - low) / 2 == pytest.approx(width * stream.std(7), rel=0.15)
        wide = stream.interval(0.9999)
        assert wide.high - wide.low > high - low
