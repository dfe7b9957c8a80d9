"""Net of ``ledger`` and ``curator``: lines, debits, refusals, batches, parts; states and hashes."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction as F
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa
from tests.snapshots import Case
from tests.snapshots._noise import bits

import discreet as dc
from discreet import ledger
from discreet import policy as pol
from discreet import privacy as p
from discreet._dataclass import replace
from discreet.curator import _batch, _room
from discreet.ledger import _budget, _chain, _ledger, _memory, _outcomes, _state, _turn
from discreet.plan import Cost

WHEN = "2026-01-01T00:00:00+00:00"


def cost(epsilon: object, delta: object = 0, rho: object = None, rho_delta: object = None) -> Cost:
    """A cost; of pure loss unless more is said."""
    e, d = F(str(epsilon)), F(str(delta))
    return Cost(
        e,
        d,
        e * e / 2 if rho is None else F(str(rho)),
        d if rho_delta is None else F(str(rho_delta)),
    )


def entry(price: object = "0.1", **more: object) -> ledger.Entry:
    """A debit of a ledger of ``people``."""
    known = {"analyst": None, "plan": "q", "tables": ("people",), **more}
    own = price if isinstance(price, Cost) else cost(price)
    return ledger.Entry(
        "people", "f", cost=own, noise="laplace", neighbours="add-remove", unit=None, **known
    )  # type: ignore[arg-type]


def tried(function: Callable[..., object], *given: object, **more: object) -> object:
    """What a call gives, or how it is refused."""
    try:
        return function(*given, **more)
    except Exception as refusal:
        return type(refusal).__name__, re.sub(r"/\S*/(ledger-\w+|state\S*)", "PLACE", str(refusal))


BUDGETS: dict[str, pol.Budget] = {
    "pure": pol.Budget("1"),
    "approx": pol.Budget("1", "1e-6"),
    "zcdp": pol.Budget("1", "1e-6", accounting="zcdp"),
    "rho": pol.Budget(rho="0.1", delta="1e-6", accounting="zcdp"),
    "shares": pol.Budget("1", "1e-6", shares={"ann": "0.5", "bob": "0.25"}),
    "all shares": pol.Budget("1", shares={"ann": "0.5", "bob": "0.5"}),
    "zcdp shares": pol.Budget("2", "1e-5", accounting="zcdp", shares={"ann": "1/3"}),
    "minimum": pol.Budget("1", minimum="0.1"),
}
COSTS = {
    "tenth": cost("0.1"),
    "half": cost("0.5"),
    "all": cost(1),
    "hair": cost("1e-18"),
    "more": cost("1.000001"),
    "nothing": cost(0),
    "selects": cost("0.2", "1e-7"),
    "much delta": cost("0.2", "6e-7"),
    "gauss": Cost(F(1, 5), F(1, 10**7), F(1, 100), F(0)),
    "by rho": Cost(F(9), F(1, 10**6), F(3, 100), F(0)),
    "negative": Cost(F(-1, 10), F(0), F(1), F(0)),
    "negative rho": Cost(F(1, 10), F(0), F(-1), F(0)),
}
SCRIPTS = {
    "tens": ["tenth"] * 11,
    "halves": ["half", "half", "hair", "nothing"],
    "mixed": ["selects", "gauss", "tenth", "by rho", "selects", "much delta", "half"],
    "whole": ["all", "hair", "nothing"],
    "too much": ["more", "tenth", "all"],
    "deltas": ["selects"] * 6,
    "rhos": ["by rho"] * 5,
    "signs": ["negative", "negative rho", "tenth"],
}


def opened(budget: pol.Budget, version: int = _state.FORMAT) -> ledger.State:
    """State of a ledger that was just opened."""
    return _state.after(
        None, "open", {"policy": "people", "format": version, **_budget.decided(budget)}
    )


def _told(balance: ledger.Balance) -> object:
    return (
        dict(balance.amounts),
        balance.routes,
        balance.fits,
        balance.currency,
        balance.total,
        balance.used,
        balance.remaining,
        [balance.used_of(r) for r in balance.routes],
        [balance.more(c) for c in COSTS.values() if c.epsilon >= 0 and c.rho >= 0],
    )


def _admissions() -> Iterator[tuple[str, Case]]:
    for (name, budget), (script, steps) in itertools.product(BUDGETS.items(), SCRIPTS.items()):

        def run(budget: pol.Budget = budget, steps: list[str] = steps) -> object:
            told: list[object] = []
            for who in (None, "ann", "eve"):
                state, number = opened(budget), 1
                for i, step in enumerate(steps):
                    one = entry(
                        COSTS[step],
                        analyst=who if i % 3 else ("bob" if who else None),
                        plan=f"q{i}",
                    )
                    number += 1
                    body = _outcomes.debit_body(state, one)
                    refused = _budget.refuses(state, one)
                    held = _budget.refuses(state, one, [("ann", COSTS["tenth"])])
                    made = tried(_budget.admit, state, one, body, number)
                    told += [
                        body,
                        str(refused),
                        str(held),
                        made if isinstance(made, tuple) else made.to_text(),
                    ]
                    said = ledger.refusal("the budget", _budget.balance(state), one.cost)
                    told.append((str(said), str(getattr(said, "hint", None))))
                    if isinstance(made, ledger.State):
                        state = made
                told += [_told(_budget.balance(state, x)) for x in (None, "ann", "eve")]
                told.append(tried(_budget.check_total, state))
            return told

        yield f"{name} {script}", run
    yield (
        "caps",
        lambda: [
            (_budget.caps(b), _budget.least_cost(b), _budget.decided(b)) for b in BUDGETS.values()
        ],
    )
    yield (
        "shares",
        lambda: [
            (_budget.share_of(b, w), _budget.group_of(b, w), _budget.groups_of(w))
            for b in BUDGETS.values()
            for w in (None, "ann", "eve")
        ],
    )
    shut = [
        replace(opened(BUDGETS["pure"]), closed=c)
        for c in ((), ("people",), ("*",), ("other",), ("*", "people"))
    ]
    yield (
        "closed",
        lambda: [
            tried(_budget.admit, s, entry(tables=t), _outcomes.debit_body(s, entry(tables=t)))
            for s in shut
            for t in (("people",), ("x",), ())
        ],
    )


LINES: list[tuple[str, object]] = [
    ("debit", entry(analyst="ann", plan="a")),
    ("settle", {"debit": 2}),
    ("debit", entry("0.2", plan="b", runs=False)),
    ("debit", entry(COSTS["gauss"], plan="c")),
    ("close", {"table": "people"}),
    ("close", {"table": "*"}),
    ("reopen", {"table": "people"}),
    ("close", {"table": "x"}),
    ("reopen", {"table": "*"}),
    ("consent", {"policy": "guest", "units": {"people": ["add-remove", None]}}),
    ("vouch", {"source": "view"}),
    ("vouch", {"source": "a"}),
    ("adopt", {}),
    ("key", {}),
    ("budget", None),
    ("debit", entry("0.3", plan="restore")),
    ("period", {}),
    ("debit", entry("0.4", plan="d")),
    ("format", {"format": 5, "open": {"9": "x"}, "by_rho": True}),
    ("debit", entry("0.01", analyst="zed", plan="e")),
    ("strange", {}),
]


def _chains() -> Iterator[tuple[str, Case]]:
    """Lines one after another, in every format: states, texts, hashes."""

    def written(version: int, budget: pol.Budget) -> object:
        told: list[object] = []
        state: ledger.State | None = None
        head, hashes = None, [_chain.GENESIS]
        opening = {"policy": "people", "format": version, **_budget.decided(budget)}
        for kind, body in [("open", opening), *LINES]:
            if kind == "budget":
                body = _budget.decided(pol.Budget("2", "1e-6"))
            if isinstance(body, ledger.Entry):
                assert state is not None
                body = {
                    **_outcomes.debit_body(state, body),
                    "question": _outcomes.question_of(state, body, _state.cost_body(body.cost)),
                }
            number = len(hashes)
            made = tried(
                _chain.next_line, head, WHEN, kind, body, jump=hashes[_chain.jump_of(number)]
            )
            if isinstance(made[0], str):  # type: ignore[index]
                told.append(made)
                continue
            line, head = made  # type: ignore[misc]
            hashes.append(line.hash)
            state = head.content
            told += [
                line,
                head.state,
                state.pure,
                _chain.seals(line),
                _state.read_budget(state.budget),
                ledger.State.from_text(head.state) == state,
            ]
        return told

    for version, name in itertools.product((1, 2, 3, 4, 5), ("pure", "zcdp", "shares")):
        yield f"format {version} {name}", partial(written, version, BUDGETS[name])
    yield "jumps", lambda: [_chain.jump_of(n) for n in range(70)]
    yield (
        "rationals",
        lambda: [
            tried(_state.rational, F(x))
            for x in (0, 1, "1/3", F(1, 2**12000), F(1, 2**11998), F(2**12000), F(2**11999))
        ],
    )
    yield (
        "coarse",
        lambda: [
            (x.bit_length(), str(_state.coarse(F(1, 3) + F(1, x)))[:60])
            for x in (2**500, 2**510, 2**511, 2**512, 2**513, 3**400)
        ],
    )
    many = {f"n{i}": cost("0.001") for i in range(_state.NAMES)}

    def crowded(version: int, held: int, who: str | None) -> object:
        state = replace(
            opened(pol.Budget("9", shares={"ann": "0.5"}), version),
            spent=dict(itertools.islice(many.items(), held)),
        )
        body = {"analyst": who, "plan": "", "cost": _state.cost_body(cost("0.5"))}
        after = _state.after(state, "debit", body)
        return sorted(set(after.spent) - set(state.spent)), after.spent.get(who or "")

    yield (
        "names",
        lambda: [
            crowded(v, n, w)
            for v in (2, 3, 5)
            for n in (0, _state.NAMES - 1, _state.NAMES)
            for w in ("new", "n0", "ann", None)
        ],
    )
    yield (
        "damaged",
        lambda: [
            tried(ledger.State.from_text, t)
            for t in ("{}", "x", '{"policy": 1}', opened(BUDGETS["pure"], 6).to_text())
        ],
    )


def _forged() -> Iterator[tuple[str, Case]]:
    """A chain, and what is said of it after one change."""

    def chain() -> tuple[list[ledger.Line], _chain.Head]:
        lines, head = [], None
        opening = {"policy": "people", "format": 5, **_budget.decided(pol.Budget("1"))}
        steps: list[tuple[str, object]] = [
            ("open", opening),
            *[("debit", entry(plan=f"q{i}")) for i in range(4)],
            ("settle", {"debit": 2}),
            ("period", {}),
            ("debit", entry(plan="last")),
        ]
        for kind, body in steps:
            if isinstance(body, ledger.Entry):
                body = _outcomes.debit_body(head.content, body)  # type: ignore[union-attr]
            hashes = [_chain.GENESIS, *(x.hash for x in lines)]
            line, head = _chain.next_line(
                head, WHEN, kind, body, jump=hashes[_chain.jump_of(len(hashes))]
            )  # type: ignore[arg-type]
            lines.append(line)
        return lines, head  # type: ignore[return-value]

    changes = [
        {"number": 9},
        {"when": "x"},
        {"kind": "close"},
        {"body": "{}"},
        {"state": "0" * 64},
        {"previous": "0" * 64},
        {"hash": "0" * 64},
        {"jump": "0" * 64},
        {"jump": None},
        {},
    ]

    def looked(at: int, change: dict[str, object], resealed: bool) -> object:
        lines, head = chain()
        made = replace(lines[at], **change)
        if resealed:
            parts = (made.number, made.when, made.kind, made.body, made.state, made.previous)
            made = replace(
                made, hash=_chain.line_hash(*parts, *(() if made.jump is None else (made.jump,)))
            )
        lines[at] = made
        found = {x.number: x for x in lines}
        return (
            tried(_chain.check_links, lines, head),
            tried(_chain.check_replay, lines, head),
            tried(_chain.check_head, head, lines[-1]),
            [tried(_chain.reached, found.get, head, n) for n in range(1, 9)],
        )

    for at, (i, change), resealed in itertools.product(
        (0, 1, 4, 7), enumerate(changes), (False, True)
    ):
        yield f"{at} {i} {resealed}", partial(looked, at, change, resealed)
    yield "short", lambda: [tried(_chain.check_links, chain()[0][:n], chain()[1]) for n in range(9)]
    yield (
        "heads",
        lambda: [
            tried(_chain.check_head, replace(chain()[1], **c), line)
            for c in ({}, {"number": 7}, {"hash": "x"}, {"state": "{}"})
            for line in (chain()[0][-1], chain()[0][0], None)
        ],
    )


# -- ledgers ------------------------------------------------------------------------------------


@contextmanager
def alone() -> Iterator[str]:
    """A folder, a state directory and a clock of one's own; ledgers in memory end here."""
    before, ticks = set(_memory._BOOKS), itertools.count()

    def now() -> str:
        return f"2026-01-01T00:00:{next(ticks):02}.000000+00:00"

    with (
        tempfile.TemporaryDirectory(
            prefix="ledger-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
        ) as folder,
        mock.patch.dict(os.environ, {"XDG_STATE_HOME": f"{folder}/state"}),
        mock.patch.object(_turn, "now", now),
        mock.patch.object(_ledger, "now", now),
    ):
        try:
            yield folder
        finally:
            for name in set(_memory._BOOKS) - before:
                del _memory._BOOKS[name]


def policy(budget: pol.Budget, name: str = "people") -> pol.Policy:
    """A policy with one table."""
    return pol.Policy([pol.Table("people", [pol.Integer("age", 0, 115)])], budget, name=name)


def _books() -> Iterator[tuple[str, Case]]:
    """Scripts on real ledgers, in memory and in a file."""
    for place, name in itertools.product(("memory", "file"), ("pure", "approx", "zcdp", "shares")):

        def run(place: str = place, name: str = name) -> object:
            with alone() as folder:
                where = ":memory:" if place == "memory" else f"{folder}/people.ledger"
                told: list[object] = []

                def book() -> ledger.ChainedLedger:
                    return ledger.open_ledger(where, policy(BUDGETS[name]))

                for step in _steps():
                    told.append(_clean(tried(step, book()), folder))
                one = book()
                told += [x.hash for x in one.lines]
                told += [
                    one.state.to_text(),
                    _told(one.balance()),
                    _told(one.balance("ann")),
                    str(one.verify()),
                    len(one.entries),
                ]
                return told

        yield f"{place} {name}", run


def _clean(value: object, folder: str) -> object:
    return value.replace(folder, "PLACE") if isinstance(value, str) else value


def _steps() -> list[Callable[[ledger.ChainedLedger], object]]:
    def ask(
        price: object, settle: object = ..., **more: object
    ) -> Callable[[ledger.ChainedLedger], object]:
        def step(book: ledger.ChainedLedger) -> object:
            one = entry(price, **{"analyst": "ann", **more})
            known = book.knows(one)
            found = book.found(one)
            receipt = book.debit(one)
            again = None if settle is ... else tried(book.settle, receipt, settle)
            rest = None if settle is ... else tried(book.outcome, receipt.number, receipt.hash)
            return known, found, receipt, again, rest, tried(book.bound, one.analyst, one.key or "")

        return step

    return [
        ask("0.1", "r1", plan="a"),
        ask("0.1", "r2", plan="a"),
        ask("0.1", "r2", plan="a", fresh=True),
        ask("0.1", plan="b"),
        ask("0.1", "r3", plan="b"),
        ask("0.05", None, plan="c"),
        ask("0.05", "r4", plan="c"),
        ask("0.02", "r5", plan="d", key="k"),
        ask("0.02", "r6", plan="d", key="k"),
        ask("0.03", plan="d", key="k"),
        ask("0.02", "r7", plan="d", key="k2"),
        ask("0.01", "r8", plan="e", once=True),
        ask("0.02", "r9", plan="e", once=True),
        ask("0.01", "r10", plan="g", paid_by="e"),
        ask("0.01", plan="h", paid_by="zz"),
        ask("0.01", plan="i", runs=False),
        ask("0.01", plan="j", runs=False, external="elsewhere"),
        ask("9", plan="j", external="elsewhere"),
        ask("0.01", plan="k", source="other"),
        ask("0.2", plan="l", analyst="bob"),
        ask("0.2", plan="l", analyst="eve"),
        ask("0.2", plan="l", analyst=None),
        ask("0.1", plan="m", tainted=True),
        ask("0.1", plan="m", analyst="x" * 201),
        ask("0.01", plan="m", analyst="x" * 200),
        ask("0.1", plan="m", key=""),
        ask("0.01", plan="n", key="x" * 200),
        ask("0.1", plan="n", key="x" * 201),
        ask(COSTS["selects"], "r11", plan="o"),
        ask(COSTS["gauss"], "r12", plan="p"),
        lambda b: b.close("people", by="me", note="why"),
        ask("0.01", plan="q"),
        lambda b: b.reopen("people"),
        lambda b: b.close(),
        ask("0.01", plan="q"),
        lambda b: b.reopen(),
        lambda b: b.raise_budget(epsilon="3"),
        lambda b: b.raise_budget(epsilon="2"),
        lambda b: b.raise_budget(epsilon="2.5", lower=True),
        lambda b: b.raise_budget(),
        lambda b: b.raise_budget(epsilon="2.5"),
        lambda b: b.raise_budget(accounting="pure"),
        lambda b: b.raise_budget(delta="1e-5"),
        lambda b: b.set_shares({"ann": "0.25"}),
        ask("0.1", "r13", plan="r"),
        lambda b: b.set_shares({}),
        ask("0.1", "r14", plan="r"),
        lambda b: b.new_period(),
        ask("0.1", "r15", plan="a"),
        ask("0.01", "r16", plan="e", once=True),
        ask("0.02", plan="d", key="k"),
        lambda b: b.consent("guest"),
        lambda b: b.vouch("nonsense"),
        lambda b: b.raise_budget(rho="0.5", accounting="zcdp", delta="1e-6"),
        ask(COSTS["by rho"], "r17", plan="s"),
        ask("0.1", "r18", plan="t"),
    ]


# -- the curator --------------------------------------------------------------------------------


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


def _only(cases: Callable[[], Iterator[tuple[str, Case]]], word: str, *, last: bool = False):  # type: ignore[no-untyped-def]
    """Cases whose names begin (or end) with a word."""
    return lambda: (
        (n, c) for n, c in cases() if (n.endswith(word) if last else n.startswith(word))
    )


FAMILIES = {
    **{f"admissions {b}": _only(_admissions, f"{b} ") for b in BUDGETS},
    "caps": lambda: ((n, c) for n, c in _admissions() if n in ("caps", "shares", "closed")),
    "chains": _chains,
    "forged": _forged,
    "books in memory": _only(_books, "memory"),
    "books in files": _only(_books, "file"),
    **{f"rooms {b}": _only(_rooms, b, last=True) for b in ("pure", "approx", "rho", "minimum")},
    "rooms zcdp": lambda: (
        (n, c) for n, c in _rooms() if n in ("zcdp", "shares", "all shares", "zcdp shares")
    ),
    **{f"batches {k}": _only(_batches, k, last=True) for k in ("approx", "rho", "zcdp")},
    "margins": _only(_batches, "margins"),
    "shares": lambda: (
        (n, c)
        for n, c in _batches()
        if not n.startswith("margins") and not n.endswith(("approx", "rho", "zcdp"))
    ),
    "parts": lambda: ((n, c) for n, c in _parts() if not n.startswith("outside")),
    "outside": _only(_parts, "outside"),
}
