"""Net of ``plan``: how questions are bounded, priced, released and read, policy by policy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction as F
from functools import partial

from tests.snapshots import Case
from tests.snapshots._noise import bits
from tests.snapshots._pieces import PIECES
from tests.snapshots._questions import (
    ASKS,
    RULES,
    SALT,
    TEXTS,
    lowered,
    rows,
)
from tests.snapshots._releases import RELEASES

from discreet import plan as pl
from discreet.answer import Answer
from discreet.curator import measure
from discreet.engines import Reference
from discreet.plan import _joins, _price, _relation
from discreet.plan._lowered import Lowered


def _bounds(rules: str, text: str) -> object:
    """Everything before the price: aggregates, limits, sensitivities, words."""
    low = lowered(rules, text)
    aggregates = [
        (
            a.hash,
            a.relation.m,
            a.share,
            a.reach,
            a.unit,
            _relation.weight(a.keys),
            [pl.sensitivity(a, x) for x in a.measures],
            a.unit and _joins.rows_let_in(a.relation),
            [type(n).__name__ for n in a.relation.nodes],
        )
        for a in low.aggregates
    ]
    parts = [
        (
            x.kind,
            x.sensitivity,
            x.coordinates,
            x.draws,
            x.numbers,
            x.outlets,
            x.inputs,
            x.groups,
            x.degree,
            x.private,
            x.gaussian,
            x.aggregate,
            getattr(x, "work", None),
        )
        for x in low.parts
    ]
    formulas = [(type(f).__name__, f.parts) for f in low.formulas]
    rest = low.target, low.selector, low.labels, low.rows_of_one_unit, low.values_of_one_row
    return aggregates, parts, formulas, rest, low.measured, low.draws


def _told(plan: pl.Plan) -> object:
    parts = [
        (priced.law, priced.losses, priced.part.sensitivity, priced.to_dict(), _drawn(priced))
        for priced in plan.parts
    ]
    return parts, plan.cost, plan.why, plan.noise, plan.claim, plan.target, plan.spread


def _drawn(priced: pl.Priced) -> object:
    return list(itertools.islice(priced.part.drawn(priced.law), 12))


def _prices(rules: str, text: str, asks: tuple[str, ...]) -> object:
    low = lowered(rules, text)
    told = []
    for name in asks:
        try:
            told.append((name, _told(pl.price(low, pl.Ask(**ASKS[name])))))
        except Exception as refusal:
            told.append((name, type(refusal).__name__, str(refusal)))
    return told


def _released(rules: str, text: str, ask: str) -> object:
    plan = pl.price(lowered(rules, text), pl.Ask(**ASKS[ask]))
    with bits(f"{rules} {text}") as source:
        record = measure(plan, Reference(rows()), SALT)
        answer = Answer(record)
        ends = {name: _ends(answer, name) for name in answer.columns}
        return answer.to_dicts(), ends, _written(record.to_dict()), source.used


def _ends(answer: Answer, name: str) -> object:
    try:
        return [answer.interval(name, c) for c in (0.5, 0.95)]
    except Exception as refusal:
        return type(refusal).__name__


def _written(record: dict[str, object]) -> object:
    return {name: record[name] for name in ("parts", "cost") if name in record}


def _each(told, rules: str, *given, texts=None):  # type: ignore[no-untyped-def]
    def cases() -> Iterator[tuple[str, Case]]:
        for text in texts or TEXTS:
            yield text, partial(told, rules, text, *given)

    return cases


def _margins() -> Iterator[tuple[str, Case]]:
    margins = {"n": 25, "s": "1000", "a": 3, "f": 500, "g": 400, "q": 900, "d": 9, "e": 2}
    for rules, text in itertools.product(
        RULES, ("count", "several", "by sex", "filtered", "distinct", "signed", "rollup")
    ):

        def told(rules: str = rules, text: str = text) -> object:
            low = lowered(rules, text)
            names = [o.name for o in low.outputs if o.name in margins]
            found = []
            for some, more in itertools.product(
                ([names[0]], names), ({}, {"delta": F(1, 10**6)}, {"currency": "rho"})
            ):
                within = {n: F(margins[n]) for n in some if n != "a"}
                found.append(_tried(low, {"within": within, **more}))
            return found

        yield f"{rules} {text}", told
    for name, given in {
        "none": {},
        "unknown": {"zz": F(1)},
        "negative": {"n": F(-1)},
        "zero": {"n": F(0)},
        "mean": {"a": F(1)},
        "tight": {"n": F(1, 10**12)},
        "wide": {"n": F(10**15)},
    }.items():
        yield f"asked {name}", lambda g=given: _tried(lowered("few rows", "by sex"), {"within": g})
    yield "two offers", lambda: pl.Ask(epsilon=F(1), rho=F(1))
    yield "no offer", lambda: pl.Ask()
    yield (
        "insisted",
        lambda: [
            _told(pl.price(lowered(r, t), pl.Ask(epsilon=F(1), delta=F(1, 10**6)), noise=n))
            for r in ("rows", "groups")
            for t in ("several", "by two", "largest")
            for n in ("laplace", "gaussian")
        ],
    )
    yield (
        "rounded up",
        lambda: [_price.rounded_up(F(x)) for x in ("1", "0.12345678", "99999", "1e-9", "1.00004")],
    )


def _tried(low: Lowered, ask: dict[str, object]) -> object:
    try:
        return _told(pl.price(low, pl.Ask(**ask)))
    except Exception as refusal:
        return type(refusal).__name__, str(refusal)


FAMILIES = {
    **{f"bounds {r}": _each(_bounds, r) for r in RULES},
    **{f"prices {r}": _each(_prices, r, ("epsilon", "delta", "rho")) for r in RULES},
    **{
        f"other prices {r}": _each(
            _prices, r, ("small", "rho delta", "in rho"), texts=list(TEXTS)[i::3]
        )
        for i, r in enumerate(RULES)
    },
    **{
        f"answers {r}": _each(_released, r, "delta", texts=list(TEXTS)[i % 2 :: 2])
        for i, r in enumerate(RULES)
    },
    "answers by rho": _each(_released, "groups", "rho delta"),
    "margins": _margins,
    **RELEASES,
    **PIECES,
}
