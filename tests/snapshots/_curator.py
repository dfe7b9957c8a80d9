"""What the curator says of room, batches, parts and losses from elsewhere: net of ``ledger``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from fractions import Fraction as F
from types import SimpleNamespace

import pyarrow as pa
from tests.snapshots import Case
from tests.snapshots._entries import BUDGETS, alone, only, tried
from tests.snapshots._noise import bits

import discreet as dc
from discreet import policy as pol
from discreet import privacy as p
from discreet.curator import _batch, _room


def _asked(budget: pol.Budget, **table: object):  # type: ignore[no-untyped-def]
    columns = [pol.Integer("age", 0, 115), pol.Category("sex", ["F", "M"]), pol.Text("town")]
    own = pol.Policy([pol.Table("people", columns, fixed=["sex"], **table)], budget, name="people")
    rows = {
        "age": [i * 7 % 116 for i in range(200)],
        "sex": ["F", "M"] * 100,
        "town": ["a", "b", "c", "d"] * 50,
    }
    return dc.open(pa.table(rows), policy=own, ledger=":memory:", analyst="ann")


OFFERS: list[dict[str, object]] = [
    {"epsilon": "0.1"},
    {"epsilon": "0.3", "delta": "1e-7"},
    {"rho": "0.01"},
    {"epsilon": "5"},
    {"within": {"n": 20}},
    {"within": {"n": "0.5"}},
    {"epsilon": "0.1", "delta": "1e-3"},
    {"rho": "3"},
]
QUESTIONS = {
    "count": "SELECT COUNT(*) AS n FROM people",
    "by sex": "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY sex",
    "women": "SELECT COUNT(*) AS n FROM people WHERE sex = 'F'",
    "men": "SELECT COUNT(*) AS n, SUM(age) AS s FROM people WHERE sex = 'M'",
    "towns": "SELECT town, COUNT(*) AS n FROM people GROUP BY town",
    "median": "SELECT MEDIAN(age) AS m FROM people",
}


def _rooms() -> Iterator[tuple[str, Case]]:
    """What a preview says of price and room, before and after some spending."""
    for name, budget in BUDGETS.items():

        def run(budget: pol.Budget = budget) -> object:
            with alone(), bits("rooms"):
                told: list[object] = []
                with _asked(budget) as curator:
                    for spend in (None, {"epsilon": "0.2"}, {"epsilon": "0.25"}):
                        if spend:
                            told.append(
                                str(tried(curator.sql, QUESTIONS["count"], fresh=True, **spend))[
                                    :200
                                ]
                            )
                        for text, offer in itertools.product(("count", "towns"), OFFERS):
                            quote = tried(curator.preview, QUESTIONS[text], **offer)
                            told.append(
                                quote
                                if isinstance(quote, tuple)
                                else (
                                    quote.plan.cost,
                                    quote.plan.why,
                                    quote.left,
                                    quote.refused,
                                    quote.stored,
                                )
                            )
                        balances = curator._balances
                        told += [
                            _room.pays_rho(balances),
                            _room.stated_at(balances),
                            str(_room._delta(balances)),
                            curator._standing.least,
                        ]
                        told += [
                            tried(_room.check_delta, balances, d)
                            for d in (None, F(1, 10**7), F(1, 10**6), F(1, 10**5))
                        ]
                    told += [repr(curator.budget), dict(curator.budget.spent)]
                return told

        yield name, run


def _batches() -> Iterator[tuple[str, Case]]:
    sets = [
        ["count"],
        ["count", "by sex"],
        ["women", "men"],
        ["women", "men", "count", "by sex"],
        ["towns", "count"],
        ["median", "men", "women"],
    ]
    for (i, names), offer, kind in itertools.product(
        enumerate(sets),
        ({"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}, {"epsilon": "0.05", "delta": "1e-7"}),
        ("approx", "rho", "zcdp"),
    ):

        def run(
            names: list[str] = names, offer: dict[str, object] = offer, kind: str = kind
        ) -> object:
            with alone(), bits("batch"), _asked(BUDGETS[kind]) as curator:
                batch = curator.batch(**offer)
                weights = itertools.cycle((1, 3, "0.5"))
                added = [tried(batch.sql, QUESTIONS[n], weight=next(weights)) for n in names]
                priced = tried(batch.priced)
                if len(priced) == 2 and isinstance(priced[0], str):  # type: ignore[arg-type, index]
                    return [str(a)[:60] for a in added], priced
                plans, whole = priced  # type: ignore[misc]
                return whole, [[(x.law, x.losses) for x in plan.parts] for plan in plans]

        yield f"{i} {offer} {kind}", run
    for kind, delta in (("approx", None), ("approx", "1e-6"), ("rho", None), ("zcdp", None)):

        def margins(kind: str = kind, delta: str | None = delta) -> object:
            with alone(), bits("margins"), _asked(BUDGETS[kind]) as curator:
                batch = curator.batch(delta=delta)
                for n, within in (
                    ("count", {"n": 30}),
                    ("women", {"n": 25}),
                    ("men", {"n": 40, "s": 4000}),
                ):
                    batch.sql(QUESTIONS[n], within=within)
                plans, whole = batch.priced()
                return whole, [[(x.law, x.losses) for x in plan.parts] for plan in plans]

        yield f"margins {kind} {delta}", margins
    fakes = [
        SimpleNamespace(weight=F(w), lowered=SimpleNamespace(draws=k))
        for w, k in ((1, 1), (2, 1), ("0.5", 3), (1, 0), (7, 2))
    ]
    for groups, rho in itertools.product(
        ([[0, 1, 2, 3, 4]], [[0], [1], [2], [3], [4]], [[0, 4], [1, 2], [3]], [[3]]), (False, True)
    ):
        yield (
            f"shares {groups} {rho}",
            lambda g=groups, r=rho: _batch._shares(
                [fakes[i] for i in sorted(itertools.chain(*g))] if g != [[3]] else [fakes[3]],
                g if g != [[3]] else [[0]],
                rho=r,
            ),
        )
    kinds = [
        SimpleNamespace(losses=x)
        for x in (
            [p.Pure("0.1")],
            [p.Pure("0.2"), p.Gaussian("0.1")],
            [],
            [p.Pure("0.1")],
            [p.Laplace("0.3")],
        )
    ]
    yield (
        "together",
        lambda: [
            _batch.together(kinds, g)
            for g in ([[0, 1, 2, 3, 4]], [[0], [1], [2], [3], [4]], [[0, 1], [2, 4], [3]], [[2]])
        ],
    )
    yield (
        "many kinds",
        lambda: [
            _batch.together(
                [SimpleNamespace(losses=[p.Pure(F(i + 1, 100))]) for i in range(n)],
                [list(range(n // 2)), list(range(n // 2, n))],
            )
            for n in (9, 10, 12)
        ],
    )
    yield (
        "charged",
        lambda: [
            tried(_batch.charged, u, c)
            for u in ([[p.Pure(1)], [p.Pure(2), p.Approx(0, "1e-6")]], [[]], [[p.Gaussian("0.2")]])
            for c in (None, (F(3), F(1, 10**6)), (F(1), F(0)))
        ],
    )
    yield (
        "least",
        lambda: [
            _batch._least(x, F(1, 10**6))
            for x in (
                [],
                [p.Approx(0, "1e-7")],
                [p.Pure("0.1")],
                [p.Gaussian("0.2"), p.Approx(0, "1e-7")],
            )
        ],
    )
    for weight in ("1e-6", "1e-7", "1e6", "1e7", 0, -1):

        def weighed(weight: object = weight) -> object:
            with alone(), bits("weights"), _asked(BUDGETS["approx"]) as curator:
                return str(tried(curator.batch(epsilon=1).sql, QUESTIONS["count"], weight=weight))

        yield f"weight {weight}", weighed


def _parts() -> Iterator[tuple[str, Case]]:
    """Partitions, losses from elsewhere."""
    for offer, kind in itertools.product(
        ({"epsilon": "0.5"}, {"rho": "0.02"}, {}, {"epsilon": "0.5", "rho": 1}),
        ("approx", "zcdp", "rho", "pure"),
    ):

        def run(offer: dict[str, object] = offer, kind: str = kind) -> object:
            with alone(), bits("parts"), _asked(BUDGETS[kind]) as curator:
                made = tried(curator.partition, "sex", **offer)
                if isinstance(made, tuple) and isinstance(made[0], str):
                    return made
                told: list[object] = [repr(made), made.values, made.price, made.currency]  # type: ignore[attr-defined]
                for value, part in itertools.product(
                    ("F", "M", "X"),
                    (
                        {"epsilon": "0.2"},
                        {"rho": "0.01"},
                        {"epsilon": "0.31"},
                        {"epsilon": "0.1", "fresh": True},
                    ),
                ):
                    one = tried(made.__getitem__, value)  # type: ignore[attr-defined]
                    if isinstance(one, tuple):
                        told.append(one)
                        break
                    answer = tried(one.sql, QUESTIONS["count"], **part)  # type: ignore[attr-defined]
                    told.append(answer if isinstance(answer, tuple) else answer.to_dicts())
                    told += [one.spent, one.left, repr(one)]  # type: ignore[attr-defined]
                told += [
                    dict(curator.budget.spent),
                    tried(curator.partition, "age", epsilon="0.1"),
                    tried(curator.partition, "town", epsilon="0.1"),
                ]
                return told

        yield f"{offer} {kind}", run
    losses = [
        p.Pure("0.1"),
        p.Approx("0.1", "1e-7"),
        p.Gaussian("0.1"),
        p.Zcdp("0.01"),
        p.Pure("0.1").under("change-one"),
        p.Pure("0.1").under("add-remove"),
        p.Pure("0.1").under("add-remove", "person"),
        p.Pure("0.1").beside("the total"),
        p.DiscreteGaussian(9, 1),
        p.Renyi({2: "0.1"}),
        p.Pure(0),
    ]
    for kind in ("approx", "zcdp", "rho", "pure"):

        def outside(kind: str = kind) -> object:
            with alone(), bits("outside"), _asked(BUDGETS[kind]) as curator:
                told: list[object] = []
                for loss, more in itertools.product(losses, ({}, {"delta": "1e-7"})):
                    told.append(
                        str(tried(curator.record_external, loss, what="elsewhere", **more))[:160]
                    )
                told += [
                    str(tried(curator.record_external, p.Pure("0.01"), what=w, **m))[:160]
                    for w, m in (
                        ("", {}),
                        ("x" * 500, {}),
                        ("x" * 501, {}),
                        ("x", {"table": "people"}),
                        ("x", {"table": "no"}),
                        ("x", {"key": "k"}),
                        ("x", {"key": "k"}),
                    )
                ]
                return (
                    [re.sub(r"[0-9a-f]{64}|\d{4}-\d\d-\d\dT[^'\"]*", "#", str(t)) for t in told],
                    dict(curator.budget.spent),
                    [e.noise for e in curator.ledger.entries],
                    [e.cost for e in curator.ledger.entries],
                )

        yield f"outside {kind}", outside


CURATED = {
    **{f"rooms {b}": only(_rooms, b, last=True) for b in ("pure", "approx", "rho", "minimum")},
    "rooms zcdp": lambda: (
        (n, c) for n, c in _rooms() if n in ("zcdp", "shares", "all shares", "zcdp shares")
    ),
    **{f"batches {k}": only(_batches, k, last=True) for k in ("approx", "rho", "zcdp")},
    "margins": only(_batches, "margins"),
    "shares": lambda: (
        (n, c)
        for n, c in _batches()
        if not n.startswith("margins") and not n.endswith(("approx", "rho", "zcdp"))
    ),
    "parts": lambda: ((n, c) for n, c in _parts() if not n.startswith("outside")),
    "outside": only(_parts, "outside"),
}
