"""Net of ``plan``: how questions are bounded, priced, released and read, policy by policy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction as F
from functools import cache, partial

import numpy as np
from tests.snapshots import Case
from tests.snapshots._noise import bits

from discreet import noise, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet.answer import Answer
from discreet.curator import measure
from discreet.engines import Reference
from discreet.plan import _disjoint, _joins, _keys, _parts, _picks, _price, _relation, _stability
from discreet.plan import _trees as trees
from discreet.plan import _variances as va
from discreet.plan import _vectors as vectors
from discreet.plan._lowered import Lowered

SALT = pl.Salt(b"0123456789abcdef")
TOWNS = ["Ulm", "Bonn", "Köln", None, "x'y"]
COLUMNS = [
    pol.Category("sex", ["F", "M", "X"], null="F"),
    pol.Integer("age", 0, 99, null=0),
    pol.Integer("kids", -2, 7),
    pol.Real("pay", -100, 1000, "0.5"),
    pol.Boolean("well"),
    pol.Text("town"),
    pol.Date("day", "2020-01-01", "2021-12-31"),
    pol.Timestamp("at", "2020-01-01", "2020-03-01", 3600),
]
VISITS = [pol.Integer("cost", 0, 500), pol.Category("ward", ["a", "b"])]
RULES: dict[str, dict[str, object]] = {
    "rows": {},
    "changed rows": {"neighbours": "change-one"},
    "few rows": {"unit": "id", "max_rows_per_unit": 3},
    "groups": {"unit": "id", "max_groups_per_unit": 4, "max_rows_per_group": 2},
    "changed": {
        "unit": "id",
        "max_rows_per_unit": 5,
        "max_groups_per_unit": 3,
        "max_rows_per_group": 2,
        "neighbours": "change-one",
    },
}
TEXTS = {
    "count": "SELECT COUNT(*) AS n FROM t",
    "where": "SELECT COUNT(*) AS n FROM t WHERE age > 3 AND well",
    "several": "SELECT COUNT(*) AS n, SUM(age) AS s, AVG(pay) AS a FROM t",
    "signed": "SELECT SUM(kids) AS s, SUM(pay) AS q FROM t",
    "mean": "SELECT AVG(kids) AS a FROM t",
    "by sex": "SELECT sex, COUNT(*) AS n, AVG(pay) AS a FROM t GROUP BY sex",
    "by two": "SELECT sex, well, SUM(kids) AS s, COUNT(*) AS n FROM t GROUP BY sex, well",
    "variance": "SELECT VAR_POP(age) AS v FROM t",
    "deviation": "SELECT STDDEV(pay) AS v, AVG(pay) AS a FROM t",
    "moments": "SELECT sex, VAR(age) AS v, SUM(pay) AS s FROM t GROUP BY sex",
    "distinct": "SELECT COUNT(DISTINCT age) AS d, COUNT(DISTINCT sex) AS e FROM t",
    "median": "SELECT MEDIAN(age) AS m FROM t",
    "quantiles": "SELECT sex, QUANTILE(pay, 0.9) AS q FROM t GROUP BY sex",
    "mode": "SELECT MODE(well) AS k FROM t",
    "modes": "SELECT well, MODE(sex) AS k FROM t GROUP BY well",
    "open keys": "SELECT town, COUNT(*) AS n FROM t GROUP BY town",
    "open and listed": "SELECT town, sex, SUM(age) AS s FROM t GROUP BY town, sex",
    "days": "SELECT EXTRACT(MONTH FROM day) AS m, COUNT(*) AS n FROM t GROUP BY m",
    "filtered": "SELECT SUM(age) FILTER (WHERE sex = 'F') AS f, "
    "SUM(age) FILTER (WHERE sex = 'M') AS g FROM t",
    "cases": "SELECT SUM(CASE WHEN age < 30 THEN pay WHEN age < 60 THEN kids ELSE 1 END) AS s "
    "FROM t",
    "rollup": "SELECT sex, well, COUNT(*) AS n FROM t GROUP BY ROLLUP(sex, well)",
    "largest": "SELECT age, COUNT(*) AS n FROM t GROUP BY age ORDER BY n DESC LIMIT 3",
    "having": "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING COUNT(*) > 5 ORDER BY n",
    "buckets": "SELECT WIDTH_BUCKET(pay, 0, 800, 4) AS b, COUNT(*) AS n FROM t GROUP BY b",
    "ratio": "SELECT SUM(pay) / COUNT(*) AS r, COUNT(*) FILTER (WHERE well) / COUNT(*) AS w FROM t",
    "per unit": "SELECT AVG(n) AS a FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id)",
    "people": "SELECT COUNT(DISTINCT id) AS n FROM t WHERE age >= 18",
    "joined": "SELECT r.zone, COUNT(*) AS n FROM t JOIN r ON t.sex = r.sex GROUP BY r.zone",
    "own join": "SELECT SUM(v.cost) AS s FROM t JOIN v ON t.id = v.id WHERE t.age > 40",
    "correlation": "SELECT CORR(age, pay) AS c FROM t",
    "bounded": "SELECT SUM(LEAST(GREATEST(pay, 0), 100)) AS s, AVG(ABS(kids)) AS k FROM t",
    "hours": "SELECT DATE_TRUNC('day', at) AS d, COUNT(*) AS n FROM t "
    "WHERE at < TIMESTAMP '2020-01-08' GROUP BY d",
}
ASKS: dict[str, dict[str, object]] = {
    "epsilon": {"epsilon": F(1)},
    "small": {"epsilon": F(1, 50), "delta": F(1, 10**6)},
    "delta": {"epsilon": F(2), "delta": F(1, 10**5)},
    "rho": {"rho": F(1, 10)},
    "rho delta": {"rho": F(1, 10), "delta": F(1, 10**7), "currency": "rho"},
    "in rho": {"epsilon": F(1), "delta": F(1, 10**6), "currency": "rho"},
}


@cache
def policy(rules: str) -> pol.Policy:
    """A policy with a private table under some rules, another of the same units, a public one."""
    given = RULES[rules]
    tables = [
        pol.Table("t", COLUMNS, **given),
        pol.Table("r", [COLUMNS[0], pol.Integer("zone", 0, 2)], public=True),
    ]
    if "unit" in given:
        tables.append(pol.Table("v", VISITS, **given))
    return pol.Policy(tables, pol.Budget("1", "1e-6"), name=rules)


def rows() -> dict[str, list[dict[str, object]]]:
    """Rows of some people, one of whom has far more than any limit."""
    start, when = date(2020, 1, 1), datetime(2020, 1, 1)
    held = [
        {
            "id": i % 37 if i % 5 else 7,
            "sex": "FMX"[i % 3] if i % 11 else None,
            "age": i * 7 % 120 - 5,
            "kids": i % 9 - 1 if i % 6 else None,
            "pay": i * 13.7 % 1300 - 150,
            "well": (i % 3 == 0) if i % 7 else None,
            "town": TOWNS[i * i % 5],
            "day": start + timedelta(days=i * 11 % 800),
            "at": when + timedelta(hours=i * 17),
        }
        for i in range(150)
    ]
    visits = [{"id": i % 40, "cost": i * 31 % 600, "ward": "ab"[i % 2]} for i in range(90)]
    zones = [{"sex": s, "zone": z} for s, z in (("F", 0), ("M", 1), ("X", 1), ("F", 2))]
    return {"t": held, "v": visits, "r": zones}


@cache
def lowered(rules: str, text: str) -> Lowered:
    """Plan of a question before it is priced."""
    return pl.lower(sql.parse(TEXTS[text], policy(rules), public_fanout={"r": 2}).query)


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


# -- pieces -----------------------------------------------------------------------------------


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


def _squares() -> Iterator[tuple[str, Case]]:
    """Variances in two rounds, piece by piece."""
    laws = {
        "laplace": va.TwoRounds(noise.DiscreteLaplace(2**33), noise.DiscreteLaplace(2**28)),
        "narrow": va.TwoRounds(noise.DiscreteLaplace(2**20), noise.DiscreteLaplace(2**15)),
        "none": va.TwoRounds(noise.DiscreteLaplace("0.01"), noise.DiscreteLaplace("0.01")),
        "gauss": va.TwoRounds(noise.DiscreteGaussian(2**31), noise.DiscreteGaussian(2**27)),
    }
    for name, law in laws.items():
        for n in (0, 1, 2, 3, 10, 30, 100, 1000, 50000):
            yield (
                f"chosen {name} {n}",
                lambda n=n, w=law: [
                    va.chosen(r / 8, n, w) for r in (-40, -9, -8, -7, -3, 0, 1, 5, 8, 9, 40)
                ],
            )
    asked = [va.ITSELF, va.ABOUT_THE_MIDDLE, *va.SHOWN[1::3], va.Asked(F(1, 3), F(1, 320))]
    sums = [
        va.ExactSums(n, a, b)
        for n, a, b in ((0, 0, 0), (1, 5, 25), (7, 30, 200), (1000, 40000, 2 * 10**6))
    ]
    for gaussian in (False, True):
        yield (
            f"factors {gaussian}",
            lambda g=gaussian: [
                [str(x) for x in q.factors(top, n, gaussian=g)]
                for q in asked
                for top in (1, 9, 1000)
                for n in (1, 2, 50)
            ],
        )
        yield (
            f"measured {gaussian}",
            lambda g=gaussian: (
                [s.measured(q, 99, gaussian=g) for q in asked for s in sums]
                + [s.rough(99) for s in sums]
            ),
        )
        yield (
            f"norms {gaussian}",
            lambda g=gaussian: [va._norm(F(i, 24), gaussian=g) for i in range(25)],
        )
        yield (
            f"expected {gaussian}",
            lambda g=gaussian: [
                va._expected(c, s, t, w, gaussian=g)
                for c in (0.0, 0.5, -1.0)
                for s in (0.0, 0.01)
                for t in va._TILTS[::5]
                for w in (0.001, 0.3)
            ],
        )
    for name, law in laws.items():
        for sample, root in itertools.product((False, True), (False, True)):
            yield f"read {name} {sample} {root}", partial(_read_squares, law, sample, root)
    yield (
        "checks",
        lambda: [
            _check_squares(change)
            for change in (
                {},
                {"centre": F(-1)},
                {"factors": (F(0),)},
                {"factors": ()},
                {"times": F(0)},
                {"values": (1, 2)},
                {"factors": (F(1),) * 3, "values": (1,) * 3},
                {"centre": F(10)},
                {"centre": F(9)},
            )
        ],
    )


def _read_squares(law: va.TwoRounds, sample: bool, root: bool) -> object:
    told = []
    gaussian = law.gaussian
    for top, low, step in ((1, 0, 1), (9, -3, F(1, 2)), (1000, 10, 1)):
        formula = va.PublicVariance(0, 1, F(low), F(step), top, sample, root)
        for n, q in itertools.product(
            (0, 1, 2, 40, 3000), (va.ITSELF, va.ABOUT_THE_MIDDLE, va.Asked(F(1, 4), F(1, 14)))
        ):
            sums = va.ExactSums(n, n * top // 3, n * top * top // 5)
            factors = q.factors(top, n, gaussian=gaussian)
            exact = sums.measured(q, top, gaussian=gaussian)
            for off in (0, int(law.law.std), -3 * int(law.law.std)):
                centre = (1 + q.centre) * F(top, 2)
                release = va.Squares(
                    sums.rough(top),
                    F(va.WHOLE, top),
                    law.first,
                    centre,
                    factors,
                    tuple(x + off for x in exact),
                    law.law,
                )
                releases = [release, pl.Numbers((n,), None)]
                for level in (0.5, 0.95):
                    box = formula.box(releases, level)
                    told.append((formula.estimate(releases), box.low, box.high))
                assert va.Squares.read(release.to_dict()) == release
    return told


def _check_squares(change: dict[str, object]) -> object:
    from discreet._dataclass import replace

    law = noise.DiscreteLaplace(5)
    release = replace(va.Squares(1, F(1), law, F(1), (F(1),), (1,), law), **change)
    try:
        release.check(1)
        va.PublicVariance(0, 1, F(0), F(1), 9, False, False).check(
            [release, pl.Numbers((1,), None)]
        )
    except Exception as refusal:
        return type(refusal).__name__, str(refusal)
    return "passed"


def _levels() -> Iterator[tuple[str, Case]]:
    """Trees of counts, and quantiles read off them."""

    def made(depth: int, branching: int, cells: int, law: noise.Law, step: F) -> trees.Levels:
        draw = np.random.Generator(np.random.PCG64(depth * 100 + branching))
        leaves = draw.integers(-3, 20, (cells, branching**depth))
        rows = []
        for d in range(1, depth + 1):
            level = leaves.reshape(cells, branching**d, -1).sum(axis=2) + draw.integers(
                -4, 5, (cells, branching**d)
            )
            rows.append(tuple(tuple(int(x) for x in row) for row in level))
        return trees.Levels(
            tuple(rows), law, branching, F(-5), F(1, 2), F(-5) + F(branching**depth, 2), step
        )

    laws = (noise.DiscreteLaplace(3), noise.DiscreteGaussian(5))
    for depth, branching, law, step in itertools.product((1, 2, 3), (2, 4), laws, (F(0), F(1, 2))):

        def told(
            given: tuple[int, int, int, noise.Law, F] = (depth, branching, 3, law, step),
        ) -> object:
            one = made(*given)
            at = [F(x) for x in ("0", "0.01", "0.25", "0.5", "0.9", "1")]
            found = [
                (one.quantile(q), [_box(one.interval(q, c)) for c in (0.5, 0.95, 0.999)])
                for q in at
            ]
            rest = (
                one.leaves,
                one.size,
                _box(one.whole),
                _box(one.sizes(0.95)),
                one.ranked(1, F(1), F(1, 2), 0.9),
            )
            return found, rest, one.to_dict(), trees.Levels.read(one.to_dict()) == one

        yield f"levels {depth} {branching} {law} {step}", told
    yield (
        "coefficients",
        lambda: [
            trees._squares(n, b, q) for n in (1, 2, 3) for b in (2, 5) for q in (0.0, 0.3, 1.0)
        ],
    )
    tree = trees.Tree(
        0,
        pl.Sensitivity(2, 4, 2),
        3,
        levels=2,
        leaves=256,
        lo=F(0),
        width=F(1, 2),
        hi=F(128),
        step=F(1, 4),
        name="x",
    )
    yield (
        "tree",
        lambda: [
            (
                trees.typical(tree, w),
                [trees.rank_error(tree, w, q, c) for q in (0.1, 0.5) for c in (0.5, 0.95)],
                tree.facts(w),
                tree.draws,
                tree.numbers,
            )
            for w in laws
        ],
    )
    groups = {(i % 3, i * 7 % 256): (i % 5,) for i in range(60)}
    yield "nodes", lambda: list(tree.measurements(groups))

    def released() -> object:
        priced = tree.price(_parts.LaplaceRule(F(1)))
        with bits("tree"):
            return tree.release(
                priced, groups, pl.Cells([(0,), (1,), (5,)]), pl.Draw()
            ), priced.losses

    yield "released", released
    base = made(2, 4, 2, laws[0], F(1, 4))
    from discreet._dataclass import replace

    for name, change in {
        "as it is": {},
        "one branch": {"branching": 1},
        "no levels": {"levels": ()},
        "step": {"step": F(1)},
        "no width": {"width": F(0), "step": F(0)},
        "turned": {"lo": F(99)},
        "equal": {"lo": base.hi},
        "negative": {"step": F(-1)},
        "uneven": {"levels": (base.levels[0], base.levels[0])},
        "deep": {"levels": base.levels * 33},
        "far": {"levels": (((2**62, 0, 0, 0),) * 2, base.levels[1])},
        "near": {"levels": (((2**62 - 1, 0, 0, 0),) * 2, base.levels[1])},
    }.items():
        yield f"check {name}", lambda c=change: [replace(base, **c).check(n) for n in (2, 2)]
    yield "check cells", lambda: base.check(3)


def _box(box: vectors.Box) -> object:
    return box.low, box.high


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
            labels[0].shown,
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
    "variances": _squares,
    "trees": _levels,
    "sensitivities": _reaches,
    "conditions": _conditions,
    "selections": _selections,
    "relations": _relations,
}
