"""Sensitivities, conditions, selections and relations: a part of the net of ``plan``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction as F
from functools import cache, partial

from tests.snapshots import Case
from tests.snapshots._noise import bits
from tests.snapshots._questions import (
    ASKS,
    RULES,
    VISITS,
    lowered,
    policy,
)
from tests.snapshots._releases import _box

from discreet import noise, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet.plan import _disjoint, _joins, _keys, _parts, _picks, _relation, _stability
from discreet.plan import _vectors as vectors


def _reaches() -> Iterator[tuple[str, Case]]:
    """Sensitivities over relations, keys and limits, without any question."""
    integer = pol.Integer("a", -3, 7)
    for (name, rules), groups, measure_name in itertools.product(
        RULES.items(), (None, 1, 2, 6), ("sum", "up", "down", "units", "distinct")
    ):

        def told(
            rules: dict[str, object] = rules, groups: int | None = groups, kind: str = measure_name
        ) -> object:
            text = {
                "sum": "SUM(a)",
                "up": "SUM(b)",
                "down": "SUM(-b)",
                "units": "COUNT(DISTINCT id)",
                "distinct": "COUNT(DISTINCT k)",
            }[kind]
            columns = [
                integer,
                pol.Integer("b", 1, 4),
                pol.Integer("k", 0, 2),
                pol.Category("c", [f"c{i}" for i in range(groups or 1)]),
            ]
            table = pol.Table("t", columns, **rules)
            by = "" if groups is None else " GROUP BY c"
            query = sql.parse(
                f"SELECT {'c, ' if by else ''}{text} AS x FROM t{by}",
                pol.Policy([table], pol.Budget("1")),
            ).query
            found = []
            for limit in (None, 1, 2, 3):
                low = pl.lower(query)
                for a in low.aggregates:
                    found += [pl.sensitivity(a, x) for x in a.measures]
                    found += [_stability.partition_sensitivity(a, t, turned=False) for t in (1, 5)]
                    found += [
                        _stability.form_sensitivity(a, lo, hi)
                        for lo, hi in ((0, 1), (-2, 5), (-9, -1))
                    ]
                    found.append(_stability._counts(a, limit or a.share))
            return found

        yield f"{name} {groups} {measure_name}", told
    changed = lowered("changed rows", "variance").aggregates[0]
    yield (
        "powers",
        lambda: [
            _stability.powers_sensitivity(changed, ends, factors)
            for ends in ((-5, 5), (0, 9), (-9, 0), (-3, 11), (2, 6), (-6, -1), (0, 1))
            for factors in ((1, 1), (5, 1), (1, 3), (12, 2), (40, 1))
        ],
    )
    for rules in RULES:
        yield (
            f"linear {rules}",
            lambda r=rules: [
                _stability.linear_sensitivity(lowered(r, "by sex").aggregates[0], m)
                for m in (
                    ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
                    ((1, 1, 1),),
                    ((1, -1, 0), (2, 0, 3)),
                    ((0, 0, 0),),
                    ((5, 5, 5), (1, 2, 3)),
                )
            ],
        )


def _conditions() -> Iterator[tuple[str, Case]]:
    """Conditions, what must hold where they do, and which exclude each other."""
    texts = [
        "age < 30",
        "age <= 30",
        "age > 30",
        "age >= 30",
        "age = 30",
        "age <> 30",
        "30 < age",
        "30 >= age",
        "NOT age < 30",
        "age BETWEEN 30 AND 40",
        "sex = 'F'",
        "sex <> 'F'",
        "sex IN ('F', 'M')",
        "sex NOT IN ('F', 'M')",
        "well",
        "NOT well",
        "kids IS NULL",
        "kids IS NOT NULL",
        "kids < 0",
        "kids > 2.5",
        "pay < 10.25",
        "pay >= 10.25",
        "pay = 10.5",
        "pay = 10.3",
        "age < 30 AND sex = 'F'",
        "age < 30 OR age > 60",
        "(age < 30 AND well) OR (age > 60 AND NOT well)",
        "town = 'Ulm'",
        "town <> 'Ulm'",
        "COALESCE(kids, 0) > 1",
        "kids IS NULL OR kids = 3",
        "age < 0",
        "age <= 99",
        "age > 98",
        "kids = -2",
        "day < DATE '2020-06-01'",
        "day >= DATE '2020-06-01'",
        "CASE WHEN well THEN age ELSE 0 END > 5",
    ]

    @cache
    def query(text: str) -> pl.Query:
        return sql.parse(f"SELECT COUNT(*) AS n FROM t WHERE {text}", policy("rows")).query

    for text in texts:
        yield (
            f"facts {text}",
            lambda t=text: [
                {str(e): v for e, v in facts.items()}
                for facts in _disjoint.rows_of(query(t).relation)
            ],
        )
    yield "apart", lambda: pl.apart([query(t) for t in texts])
    yield (
        "pairs",
        lambda: "".join(
            "1"
            if _disjoint.disjoint(
                _disjoint.rows_of(query(a).relation), _disjoint.rows_of(query(b).relation)
            )
            else "0"
            for a in texts
            for b in texts
        ),
    )
    sums = [
        "CASE WHEN age < 9 THEN pay END",
        "CASE WHEN age < 9 THEN 0 ELSE pay END",
        "kids",
        "COALESCE(kids, NULL)",
        "kids + age",
        "CASE WHEN well THEN 1 END",
        "well",
        "0",
        "ABS(kids)",
    ]

    def support(text: str, zero: bool) -> object:
        asked = (
            sql.parse(f"SELECT SUM({text}) AS s FROM t", policy("rows")).query.statistics[0].expr
        )
        return (
            None
            if asked is None
            else [{str(e): v for e, v in f.items()} for f in _disjoint.support(asked, zero=zero)]
        )

    for text, zero in itertools.product(sums, (False, True)):
        yield f"support {text} {zero}", partial(support, text, zero)
    sets = [
        _disjoint.Values(),
        _disjoint.Values(null=True),
        _disjoint.Values(low=1, high=3),
        _disjoint.Values(low=3, high=3, but=frozenset({3})),
        _disjoint.Values(low=1, high=2, but=frozenset({1, 2})),
        _disjoint.Values(low=1, high=3, but=frozenset({1, 2})),
        _disjoint.Values(only=frozenset({1, "a"})),
        _disjoint.Values(only=frozenset({5}), high=4),
        _disjoint.Values(only=frozenset()),
        _disjoint.Values(low=4, high=3),
        _disjoint.Values(low=5),
        _disjoint.Values(null=True, only=frozenset()),
        _disjoint.Values(low=1, high=2, but=frozenset({0, 3, "a"})),
        _disjoint.Values(only=frozenset({2, 9}), but=frozenset({2})),
    ]
    yield "sets", lambda: [(a & b, (a & b).empty) for a in sets for b in sets]


def _selections() -> Iterator[tuple[str, Case]]:
    """Thresholds and weights of keys, picks, records that do not hold together."""
    low = lowered("groups", "open keys")
    part = low.parts[low.selector or 0]
    for law in (
        noise.DiscreteLaplace(2**17),
        noise.DiscreteLaplace(3),
        noise.DiscreteGaussian(2**18),
    ):
        for most in (1, 2, 5, 64, 65, 66, 130, 1000):
            yield (
                f"threshold {law} {most}",
                lambda w=law, m=most: [
                    _weighted(part, most=m, root=r).threshold(w, F(d))
                    for d in ("1e-3", "1e-9")
                    for r in (False, True)
                ],
            )
    yield (
        "weights",
        lambda: [[_weighted(part, root=r).weight(d) for d in range(1, 40)] for r in (False, True)],
    )
    yield (
        "by roots",
        lambda: [
            _weighted(part, most=m, sides=s)._by_roots().sensitivity
            for m in (1, 2, 3, 7, 50)
            for s in (1, 2)
        ],
    )
    yield "moves", lambda: [_keys.WeightedKeys.moves(s) for s in (1, 2)]
    groups = {
        ("a", 1): (5,),
        ("a", 2): (3,),
        ("b", 2): (30,),
        ("c", 1): (1,),
        ("d", 4): (900,),
        ("e", 3): (40,),
    }
    for name in ("epsilon", "small", "delta", "rho delta"):

        def selected(name: str = name) -> object:
            plan = pl.price(low, pl.Ask(**({"delta": F(1, 10**6)} | ASKS[name])))
            priced = plan.parts[low.selector or 0]
            one = priced.part
            with bits("keys"):
                first = one.select(priced, groups, pl.Draw())
                further = one.further(priced, first)
                both = (
                    first
                    if further is None
                    else one.select_further(priced, first, groups, pl.Draw())
                )
                release = one.release(priced, groups, both, pl.Draw())
            again = type(release).read(release.to_dict()) == release
            return (
                first,
                None if further is None else further.hash,
                both,
                release,
                again,
                release.reached,
                one.weights(groups),
            )

        yield f"selected {name}", selected
    yield (
        "moved",
        lambda: [
            part.moved(groups, {**groups, ("z", k): (n,), ("y", k): (n,)})
            for k in (1, 2, 3)
            for n in (1, 2)
        ],
    )
    yield (
        "writable",
        lambda: [_keys._writable(k) for k in ("a", "a\n", "x" * 200, "x" * 201, "\ud800", 5, "")],
    )
    law, before = (
        noise.DiscreteLaplace(5),
        vectors.Threshold(noise.DiscreteLaplace(9), 7, _keys.SCALE),
    )
    for values, first, with_before in itertools.product(
        ((10, 20), (10, 9), (7, 20), (6, 20)), ((), (0,), (0, 0), (2,), (0, 1)), (True, False)
    ):
        yield (
            f"check {values} {first} {with_before}",
            lambda v=values, f=first, b=with_before: _keys.Weights(
                v, law, 10, first=f, before=before if b else None
            ).check(2),
        )
    for values, rest, at in itertools.product(
        ((10, 20), (9, 20), (20, 9)), (True, False), (10, None)
    ):
        numbers = vectors.Numbers(values, law, at, rest)
        yield (
            f"numbers {values} {rest} {at}",
            lambda n=numbers: [_box(n.box(c)) for c in (0.5, 0.95)],
        )
        yield f"numbers check {values} {rest} {at}", lambda n=numbers: n.check(2)
    yield "numbers cells", lambda: vectors.Numbers((1,), None).check(2)
    yield "laws", lambda: [vectors.read_law(w.to_dict()) for w in (law, noise.DiscreteGaussian(3))]
    yield "wide law", lambda: vectors.read_law(noise.DiscreteLaplace(2**60).to_dict())
    pick = next(x for x in lowered("groups", "modes").parts if isinstance(x, _picks.Pick))
    tables = {
        (w, s): (n,)
        for (w, s), n in zip(itertools.product((0, 1), (0, 1, 2)), (9, 4, 0, 7, 7, 2), strict=True)
    }

    def picked(rule: _parts.Rule) -> object:
        priced = pick.price(rule)
        with bits("picks"):
            labels = [
                pick.release(priced, tables, pl.Cells([(0,), (1,), (3,)]), pl.Draw())
                for _ in range(5)
            ]
        return (
            priced.law,
            priced.losses,
            labels,
            pick.facts(priced.law),
            labels[0].texts,
            labels[0].to_dict(),
        )

    yield "picked", partial(picked, _parts.LaplaceRule(F(1)))
    yield "picked by rho", partial(picked, _parts.GaussianRule(F(5)))
    other = {**tables, (0, 0): (6,), (1, 2): (4,)}
    yield (
        "squares moved",
        lambda: [
            _picks.squares_moved("x", tables, t, d, apart=a)
            for t in (other, {}, tables)
            for d in (0, 9, 13, 24, 25, 200)
            for a in (True, False)
        ],
    )
    yield (
        "moves of parts",
        lambda: [
            (
                rules,
                text,
                [
                    x.moved(tables, other)
                    for x in lowered(rules, text).parts
                    if x.kind in ("vector", "pick", "keys")
                ],
            )
            for rules in RULES
            for text in ("by two", "modes")
        ],
    )
    yield (
        "rules",
        lambda: [
            (
                rule.rho,
                rule.epsilon,
                rule.delta,
                rule.flip,
                rule.times(F(1, 3)),
                rule.law(pl.Sensitivity(3, 5, 2)),
            )
            for rule in (
                _parts.LaplaceRule(F(1, 2), F(1, 9)),
                _parts.GaussianRule(F(3)),
                _parts.GaussianRule(F(0), F(9)),
                _parts.GaussianRule(F(2), F(1)),
            )
        ],
    )
    yield (
        "too wide",
        lambda: _parts.LaplaceRule(F(1)).law(pl.Sensitivity(2**60 + 1, 2**120 + 2**62, 2**60)),
    )
    yield "as wide", lambda: _parts.LaplaceRule(F(1)).law(pl.Sensitivity(2**60, 2**120, 2**60))
    yield (
        "charges",
        lambda: [
            _charged(losses, claim)
            for losses in (
                [],
                [p.Pure(1), p.Pure("0.5")],
                [p.Pure(1), p.Approx(0, "1e-6")],
                [p.Gaussian("0.3")],
                [p.DiscreteGaussian(9, 1), p.Approx(0, "1e-7")],
            )
            for claim in (
                None,
                (F(1), F(0)),
                (F(3, 2), F(1, 10**6)),
                (F(2), F(1, 10**5)),
                (F(1, 5), F(1, 10**7)),
            )
        ],
    )


def _charged(losses: list[p.PrivacyLoss], claim: tuple[F, F] | None) -> object:
    try:
        return pl.charge(losses, claim), None if claim is None else pl.fits(losses, *claim)
    except Exception as refusal:
        return type(refusal).__name__, str(refusal)


def _weighted(part: object, **change: object) -> _keys.WeightedKeys:
    from discreet._dataclass import replace

    assert isinstance(part, _keys.WeightedKeys)
    return replace(part, **change)


def _relations() -> Iterator[tuple[str, Case]]:
    """Bounds that relations state of the rows of one unit."""
    table = pol.Table(
        "t",
        [
            pol.Integer("a", 0, 4),
            pol.Category("c", ["x", "y"], null="x"),
            pol.Text("s"),
            pol.Boolean("b"),
        ],
        unit="id",
        max_rows_per_unit=3,
    )
    scan = pl.Scan(table)
    nodes = {
        "scan": scan,
        "rows": pl.LimitRows(scan, 3),
        "by a": pl.LimitRows(scan, 2, ("a",)),
        "groups": pl.LimitGroups(scan, 2, ("c",)),
        "both": pl.LimitGroups(pl.LimitRows(scan, 2, ("a", "c")), 3, ("a", "c")),
        "text": pl.LimitGroups(scan, 5, ("s",)),
        "capped": pl.LimitRows(pl.LimitGroups(pl.LimitRows(scan, 2, ("c",)), 3, ("c",)), 4),
        "upto": pl.LimitGroups(pl.LimitRows(scan, 3), 2, ("c",), 0, "a"),
        "alone": pl.Scan(pol.Table("u", [pol.Integer("a", 0, 4)])),
    }
    names = [(), ("a",), ("c",), ("s",), ("b",), ("a", "c"), ("a", "s"), ("a", "b", "c", "s")]
    for name, node in nodes.items():
        yield (
            name,
            lambda n=node: (
                [
                    (n.most(set(c)), n.spread(set(c)), [sorted(x) for x in n.needs(set(c))])
                    for c in names
                    if set(c) <= set(n.schema)
                ]
                + [n.m]
            ),
        )
    yield "least", lambda: [_relation.least(*b) for b in ((), (None,), (3, None), (3, 2))]
    yield "times", lambda: [_relation.times(*b) for b in ((), (None,), (3, None), (3, 2), (0, 5))]
    for limits in (
        {"rows": 0},
        {"groups": 0, "rows": 1},
        {"rows_per_group": 0, "rows": 1},
        {"groups": 2},
        {"rows_per_group": 2},
        {"groups": 2, "rows_per_group": 1},
        {"rows": 1},
    ):
        yield f"limits {limits}", lambda g=limits: pl.Limits(**g)
    yield "limit 0", lambda: pl.LimitRows(scan, 0)
    yield "limit of rows", lambda: pl.LimitRows(nodes["alone"], 1)
    for given in (
        {"max_rows_per_unit": 3},
        {"max_groups_per_unit": 3, "max_rows_per_group": 4},
        {"max_rows_per_unit": 3, "max_groups_per_unit": 3, "max_rows_per_group": 4},
    ):
        own = pol.Table("t", [pol.Integer("a", 0, 4)], unit="id", **given)
        yield (
            f"rows of unit {given}",
            lambda t=own: (
                _relation.rows_of_unit(t),
                _joins.bounded(pl.Scan(t)).m,
                _joins.rows_let_in(pl.Scan(t)),
            ),
        )
    left, right = (
        pl.LimitRows(scan, 3),
        pl.LimitRows(pl.Scan(pol.Table("v", VISITS, unit="id", max_rows_per_unit=2)), 2),
    )
    public = pl.Scan(
        pol.Table("r", [pol.Category("c", ["x", "y"]), pol.Integer("z", 0, 2)], public=True)
    )
    for how, on in itertools.product(("inner", "left"), ((), (("a", "cost"),))):
        join = _joins.JoinUnit(left, right, "v.", how, on)
        yield (
            f"join {how} {on}",
            lambda j=join: (
                [
                    (
                        j.most(set(c)),
                        j.spread(set(c)),
                        [sorted(x) for x in j.needs(set(c))],
                        j.single,
                    )
                    for c in ((), ("a",), ("v.cost",), ("a", "v.ward"))
                ]
                + [{n: str(t) for n, t in j.schema.items()}]
            ),
        )
    for how, fanout in itertools.product(("inner", "left"), (0, 1, 3)):
        join2 = _joins.JoinPublic(left, public, (("c", "c"),), how, fanout, "r.")
        yield (
            f"public {how} {fanout}",
            lambda j=join2: (
                [
                    (j.most(set(c)), j.spread(set(c)), [sorted(x) for x in j.needs(set(c))])
                    for c in ((), ("a",), ("r.z",), ("a", "r.z"))
                ]
                + [{n: str(t) for n, t in j.schema.items()}, _joins.rows_let_in(j)]
            ),
        )
    bad = {
        "not public": lambda: _joins.JoinPublic(left, scan, ()),
        "no unit": lambda: _joins.JoinUnit(left, nodes["alone"]),
        "unlimited": lambda: _joins.JoinUnit(scan, right),
        "unlimited other": lambda: _joins.JoinUnit(left, pl.Scan(right.below.table)),
        "relation": lambda: _joins.JoinUnit(
            left,
            pl.LimitRows(
                pl.Scan(
                    pol.Table("w", VISITS, unit="id", max_rows_per_unit=1, neighbours="change-one")
                ),
                1,
            ),
        ),
        "clash": lambda: _joins.JoinUnit(left, pl.LimitRows(scan, 1)).schema,
    }
    for name, case in bad.items():
        yield f"refused {name}", case
    expr = scan.schema  # types by name
    yield (
        "keys",
        lambda: [
            pl.Key("k", pl.expr.Column("a", expr["a"]), codes).codes
            for codes in ((0, 1, 9, -1), range(-3, 3), range(2, 99), ())
        ],
    )
    yield "open key", lambda: pl.Key("k", pl.expr.Column("a", expr["a"]), None)


PIECES = {
    "sensitivities": _reaches,
    "conditions": _conditions,
    "selections": _selections,
    "relations": _relations,
}
