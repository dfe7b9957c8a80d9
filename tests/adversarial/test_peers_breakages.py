# ruff: noqa: E501 - one line per breakage
"""Privacy bugs published about other systems; each is one test that this one passes.

Replays and probabilities are exact; the two simulations say their false-alarm
probability.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from discreet import audit, engines, noise, sql
from discreet import mechanisms as m
from discreet import plan as pl
from discreet import policy as pol
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import DiscreetError
from discreet.ledger import MemoryLedger
from discreet.privacy import Neighbours

_NAMES = itertools.count()
SALT = pl.Salt(b"peers")
COLUMNS = [
    pol.Category("sex", values=["F", "M"]),
    pol.Integer("age", min=0, max=9),
    pol.Real("pay", min=0, max=100, step="0.01"),
    pol.Text("town"),
]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("sex", pa.string()), ("age", pa.int64()), ("pay", pa.float64()),
     ("town", pa.string())]
)  # fmt: skip
ROWS = [
    {"id": i // 3, "sex": "FM"[i % 2], "age": i % 10, "pay": i * 1.37 % 100, "town": f"t{i % 3}"}
    for i in range(90)
]


def policy(columns=COLUMNS, budget=None, **table):
    return pol.Policy(
        [pol.Table("people", columns, **table)], budget or pol.Budget("9"), name=f"p {next(_NAMES)}"
    )


def plan_of(text, own, **ask):
    return pl.price(
        pl.lower(sql.parse(text, own).query), pl.Ask(Fraction(ask.pop("epsilon", 1)), **ask)
    )


def duck(rows, own):
    return engines.connect(pa.Table.from_pylist(rows, schema=SCHEMA), own)


def unharmed(text, own, left, right):
    """Replay in DuckDB on two neighbouring tables."""
    found = audit.replay(
        plan_of(text, own, delta=Fraction(1, 10**6)), duck(left, own), duck(right, own), SALT
    )
    assert found.ok, found.violations


# -- OpenDP, August and September 2026 --------------------------------------------------


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("groups", [1, 3])
def test_thresholds_count_the_mass_at_the_threshold(kind, groups):
    """opendp#2922: δ .0049 claimed, .0133 true: "≥ T" was priced as "> T"."""
    design = m.KeyThreshold.design(1, "0.01", max_groups=groups, noise=kind)
    alone = float(design.law.sf(design.threshold - 2))  # P(1 + X ≥ T), T included
    assert 1 - (1 - alone) ** groups <= 0.01
    plan = plan_of(
        "SELECT town, COUNT(*) AS n FROM people GROUP BY town", policy(), delta=Fraction(1, 100)
    )
    assert (
        float(
            plan.parts[plan.lowered.selector].law.law.sf(
                plan.parts[plan.lowered.selector].law.at - 2
            )
        )
        <= 0.01
    )


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
def test_group_limits_bound_both_lengths_and_changes(relation):
    """opendp#2945: the longest group was taken for the largest change; ε 1 claimed, 2 true."""
    own = policy(unit="id", max_groups_per_unit=2, max_rows_per_group=3, neighbours=relation)
    text = "SELECT age, COUNT(*) AS n, SUM(pay) AS s FROM people GROUP BY age"
    one = [{"id": 99, "sex": "F", "age": i % 5, "pay": 100.0, "town": "t"} for i in range(40)]
    two = [{**row, "age": row["age"] + 5} for row in one]
    unharmed(text, own, ROWS + (one if relation == "change-one" else []), ROWS + two)
    plan = plan_of("SELECT age, COUNT(*) AS n FROM people GROUP BY age", own)
    expected = 6 if relation == "add-remove" else 12
    assert plan.lowered.parts[0].sensitivity.l1 == expected


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(town AS INTEGER)",  # opendp#2938: a cast that makes NULLs
        "WIDTH_BUCKET(pay, 0, 100, 4)",  # opendp#2939: cut on NaN
        "age % 0",  # opendp#2940: remainder of zero
        "pay / (age - age)",
        "CASE WHEN pay > 50 THEN age END",
        "NULLIF(age, 3)",
    ],
)
def test_nulls_made_by_expressions_are_part_of_the_type(expression):
    """opendp#2938, #2939, #2940: "no nulls here" was wrong, and a count came out exact at ε=0."""
    own = policy(neighbours="change-one")
    text = f"SELECT COUNT({expression}) AS n, COUNT(*) AS all_rows FROM people"
    try:
        plan = plan_of(text, own)
    except DiscreetError:
        return  # refused from the text alone
    counted = plan.lowered.parts[plan.lowered.formulas[0].vector]
    if plan.parts[plan.lowered.formulas[0].vector].law is None:
        # free only because it is the public size of the table, whatever a row holds
        assert counted.sensitivity.l1 == 0
    for pay, age in ((float("nan"), None), (None, 0), (float("inf"), 3), (75.0, 5)):
        unharmed(text, own, [*ROWS, ROWS[0]], [*ROWS, ROWS[0] | {"pay": pay, "age": age}])


@pytest.mark.parametrize("value", [None, float("nan"), 1e300, -5.0])
def test_a_free_count_does_not_depend_on_the_row(value):
    """opendp#2938–2940, consequence: under change-one the free count is the size and nothing else."""
    rows = [*ROWS, ROWS[0] | {"pay": value, "age": None}]
    own = policy(neighbours="change-one")
    asked = Curator(own, duck(rows, own), MemoryLedger(own))
    answer = asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=1)
    assert answer.to_dicts() == [{"n": len(rows)}]
    noisy = asked.sql("SELECT COUNT(pay) AS n FROM people", epsilon=1)
    assert noisy.cost["epsilon"] == "1"


def test_bin_codes_depend_on_their_own_row_only():
    """opendp#2944: physical codes of categories depend on other rows: 0 against 100 at ε=1."""
    text = "SELECT WIDTH_BUCKET(pay, 0, 100, 4) AS b, COUNT(*) AS n FROM people GROUP BY b"
    own = policy()
    low = [ROWS[0] | {"pay": 99.0}] * 100
    unharmed(text, own, low, [ROWS[0] | {"pay": 1.0}, *low])
    unharmed("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", own, low, [*low, ROWS[1]])
    unharmed("SELECT SUM(WIDTH_BUCKET(pay, 0, 100, 4)) AS s FROM people", own, low, [*low, ROWS[3]])


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
def test_sums_of_squares_are_integers(relation):
    """opendp#2923, tumult's list: sensitivity 40.6 claimed, 63.9 true, by rounding the mean."""
    own = policy(neighbours=relation)
    text = "SELECT VAR(pay) AS v, STDDEV(age) AS s FROM people"
    close = [ROWS[0] | {"pay": 99.99 - i * 1e-9} for i in range(200)]
    for pay in (0.0, 100.0, 50.0, 1e-9, None):
        extra = [] if relation == "add-remove" else [ROWS[1]]
        unharmed(text, own, close + extra, [*close, ROWS[0] | {"pay": pay}])
    groups = duck(close, own).execute(plan_of(text, own).lowered.aggregates[0], SALT)
    assert all(type(x) is int for values in groups.values() for x in values)


def test_randomized_response_has_no_length_to_leak():
    """opendp#2930: a randomised bit vector was as long as the private one."""
    for answer in (0, 1):
        assert np.ndim(m.randomized_response(answer, epsilon=1).value) == 0
    # a list holds one answer of each of n people; the promise is for one of them changing
    several = m.randomized_response([0, 1, 1], epsilon=1)
    assert len(several.value) == 3
    assert several.loss.neighbours is Neighbours.CHANGE_ONE
    # vectors of bits of different lengths are nobody's answers
    with pytest.raises(DiscreetError):
        m.randomized_response([[0, 1], [1]], epsilon=1)
    # what is no category counts as the first one: a refusal would be an honest answer
    for odd in ("01", b"01", None, 2, -1, 0.5):
        assert m.randomized_response(odd, epsilon=1).value in (0, 1)


# -- Tumult's, SmartNoise's and Qrlew's trackers ------------------------------------------


def test_truncation_follows_the_column_that_is_used():
    """opendp#2949: a column was redefined and kept the bounds of the old one."""
    own = policy()
    for text in (
        "SELECT SUM(age) AS s FROM (SELECT pay * 7 AS age FROM people) AS people",
        "WITH p AS (SELECT age * 1000 AS age FROM people) SELECT SUM(age) AS s FROM p",
        "SELECT SUM(x) AS s FROM (SELECT age + pay AS x FROM people) AS q",
    ):
        unharmed(text, own, ROWS, [*ROWS, ROWS[0] | {"age": 9, "pay": 100.0}])
    plan = plan_of(
        "WITH p AS (SELECT age * 1000 AS age FROM people) SELECT SUM(age) AS s FROM p", own
    )
    (vector,), (formula,) = plan.lowered.parts, plan.lowered.formulas
    assert vector.sensitivity.l1 * formula.step == 9000
    # a column may take the unit's name; the limits stay those of the unit itself
    limited = policy(unit="id", max_rows_per_unit=2)
    someone = [{"id": 99, "sex": "F", "age": i % 10, "pay": 9.0, "town": "t"} for i in range(40)]
    for text in (
        "SELECT COUNT(*) AS n FROM (SELECT age AS id FROM people) AS q WHERE id < 9",
        "SELECT id, COUNT(*) AS n FROM (SELECT age AS id FROM people) AS q GROUP BY id",
        "WITH people AS (SELECT age AS id, pay AS age FROM people) SELECT SUM(age) AS n FROM people",
    ):
        unharmed(text, limited, ROWS, ROWS + someone)


def test_epsilon_is_split_over_the_aggregates():
    """smartnoise-sdk#200: each of k aggregates got the whole ε."""
    own = policy()
    asked = Curator(own, Reference({"people": ROWS}), MemoryLedger(own))
    for k in (1, 2, 5):
        sums = ", ".join(f"SUM(age + {i}) AS s{i}" for i in range(k))
        plan = asked.preview(f"SELECT {sums} FROM people", epsilon=1).plan
        shares = [
            Fraction(v.sensitivity.l1) / law.scale
            for v, law in zip(plan.lowered.parts, [part.law for part in plan.parts], strict=True)
            if law is not None
        ]
        assert sum(shares) == 1 == plan.cost.epsilon


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_count_intervals_cover_what_they_say(epsilon):
    """smartnoise-sdk#73: 95 % intervals of counts covered 91 %. Exact, and 4000 draws at 1e-9."""
    plan = plan_of("SELECT COUNT(*) AS n FROM people", policy(), epsilon=epsilon)
    (law,) = (part.law for part in plan.parts)
    margin = law.interval(0.95).high
    covered = sum(float(law.pmf(k)) for k in range(-margin, margin + 1))
    assert covered >= 0.95 - 1e-12
    drawn = np.abs(law.sample(4000)) <= margin
    assert drawn.mean() > 0.95 - 6.1 * (0.95 * 0.05 / 4000) ** 0.5


def test_sums_without_bounds_are_refused_not_left_without_noise():
    """smartnoise-sdk#317: SUM over a column without bounds got no noise at all."""
    with pytest.raises(DiscreetError):
        pol.Integer("x")
    own = policy()
    with pytest.raises(DiscreetError):
        sql.parse("SELECT SUM(town) AS s FROM people", own)
    with pytest.raises(DiscreetError):
        sql.parse("SELECT SUM(id) AS s FROM people", policy(unit="id", max_rows_per_unit=1))


def test_clamping_comes_after_the_expression():
    """smartnoise-sdk#201: columns were clamped, the expression built on them was not bounded."""
    own = policy()
    text = "SELECT SUM(pay * age - 3) AS s FROM people WHERE pay * 2 > 1"
    unharmed(text, own, ROWS, [*ROWS, ROWS[0] | {"pay": 1e9, "age": 10**9}])


def test_noisy_max_keeps_its_price():
    """opendp#2911: noisy max spent four times its ρ. Audited at 10⁵ draws, false alarm 1e-9."""
    low, high = [3, 3, 3], [4, 2, 2]

    def wins(scores):
        law = noise.DiscreteLaplace(2)
        return lambda n: np.argmax(
            (np.array(scores) + law.sample(3 * n).reshape(n, 3)) * 3 + np.arange(3), axis=1
        )

    verdict = audit.estimate(
        lambda scores, n: wins(scores)(n), low, high, 1, draws=100_000, confidence="0.999999999"
    )
    assert not verdict.violated
    assert m.noisy_max(low, 1, 1).loss.epsilon() == 1


def test_bad_dates_do_not_abort():
    """opendp#2942: an impossible date stopped the process."""
    own = pol.Policy(
        [pol.Table("people", [pol.Date("d", "2000-01-01", "2001-01-01")])], pol.Budget("1")
    )
    rows = pa.table({"d": pa.array([0, 10**5, -(10**9), 2**31 - 1, None], type=pa.date32())})
    aggregate = pl.lower(sql.parse("SELECT COUNT(d) AS n FROM people", own).query).aggregates[0]
    assert engines.connect(rows, own).execute(aggregate, SALT)[()] == (4,)


def test_joins_are_not_rewritten_into_something_else():
    """qrlew#274: a join was rewritten wrongly; here all but the provable joins are refused."""
    people = pol.Table("people", COLUMNS, unit="id", max_rows_per_unit=3)
    visits = pol.Table("visits", [pol.Integer("cost", 0, 9)], unit="id", max_rows_per_unit=2)
    own = pol.Policy([people, visits], pol.Budget("1"))
    for join in ("JOIN visits ON TRUE", "RIGHT JOIN visits USING (id)", "FULL JOIN visits USING (id)",
                 "CROSS JOIN visits", "JOIN visits ON people.age = visits.cost"):  # fmt: skip
        with pytest.raises(DiscreetError):
            sql.parse(f"SELECT COUNT(*) AS n FROM people {join}", own)
    query = sql.parse("SELECT COUNT(*) AS n FROM people JOIN visits USING (id)", own).query
    assert query.limits.rows == 6
