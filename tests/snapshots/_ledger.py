"""Net of ``ledger`` and ``curator``: lines, debits, refusals, batches, parts; states and hashes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction as F
from functools import partial

from tests.snapshots import Case
from tests.snapshots._curator import CURATED
from tests.snapshots._entries import BUDGETS, COSTS, alone, cost, entry, only, tried

from discreet import ledger
from discreet import policy as pol
from discreet._dataclass import replace
from discreet.ledger import _budget, _chain, _outcomes, _state

WHEN = "2026-01-01T00:00:00+00:00"


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


FAMILIES = {
    **{f"admissions {b}": only(_admissions, f"{b} ") for b in BUDGETS},
    "caps": lambda: ((n, c) for n, c in _admissions() if n in ("caps", "shares", "closed")),
    "chains": _chains,
    "forged": _forged,
    "books in memory": only(_books, "memory"),
    "books in files": only(_books, "file"),
    **CURATED,
}
