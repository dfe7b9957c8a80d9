"""One SELECT read into a query: keys, statistics, outputs, limits."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest

from discreet import plan, sql
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import (
    Apply,
    Count,
    CountDistinct,
    CountUnits,
    KeyValue,
    Kind,
    Limits,
    Number,
    StatisticValue,
)
from discreet.plan._statistics import Average, Deviation, ModeOf, QuantileOf, Sum, Variance
from discreet.policy import (
    Boolean,
    Budget,
    Category,
    Date,
    Integer,
    Policy,
    Real,
    Table,
    Text,
    Timestamp,
)
from discreet.privacy import Neighbours

COLUMNS = [
    Category("sex", ["F", "M", "X"]),
    Category("grade", [1, 2, 3]),
    Category("region", ["N", "S"]),
    Integer("age", 0, 115),
    Real("income", 0, 200_000, step="0.01"),
    Boolean("married"),
    Date("joined", "2000-01-01", "2024-12-31"),
    Timestamp("seen", "2020-01-01", "2025-01-01"),
    Text("city"),
]
PUBLIC = Table("regions", [Category("region", ["N", "S"]), Integer("pop", 0, 50)], public=True)
POLICY = Policy(
    tables=[
        Table("people", COLUMNS, unit="person_id", max_rows_per_unit=3),
        Table("rows", COLUMNS, neighbours="change-one"),
        Table("visits", COLUMNS, unit="id", max_groups_per_unit=4, max_rows_per_group=2),
        PUBLIC,
    ],
    budget=Budget("2", delta="1e-6"),
)


def ask(text, **options):
    return sql.parse(text, POLICY, public_fanout={"regions": 1}, **options)


def query(text):
    return ask(text).query


def only(text):
    """The one statistic of ``SELECT text FROM people``."""
    (found,) = query(f"SELECT {text} FROM people").statistics
    return found


def test_a_grouped_question_has_keys_in_policy_order_and_shared_statistics():
    q = query(
        "SELECT sex, COUNT(*) AS n, AVG(income) AS pay, COUNT(*) * 2 AS twice FROM people "
        "GROUP BY sex HAVING n > 10 ORDER BY pay DESC, 1 LIMIT 2"
    )
    (key,) = q.keys
    assert (key.name, key.codes) == ("sex", (0, 1, 2))
    assert [type(s) for s in q.statistics] == [Count, Average]
    assert [o.name for o in q.outputs] == ["sex", "n", "pay", "twice"]
    assert q.outputs[3].expr == Apply("*", (StatisticValue(0), Number(Fraction(2))))
    assert q.having == Apply(">", (StatisticValue(0), Number(Fraction(10))))
    assert q.order == ((StatisticValue(1), True), (KeyValue("sex"), False))
    assert q.limit == 2
    assert q.limits == Limits(rows=3)


def test_limits_and_relation_come_from_the_policy():
    assert query("SELECT COUNT(*) FROM rows").neighbours is Neighbours.CHANGE_ONE
    assert query("SELECT COUNT(*) FROM rows").limits == Limits(rows=1)
    assert query("SELECT COUNT(*) FROM visits").limits == Limits(rows=8)
    grouped = query("SELECT sex, COUNT(*) FROM visits GROUP BY sex")
    assert grouped.limits == Limits(groups=4, rows_per_group=2)


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        ("COUNT(*)", Count, None),
        ("COUNT(income)", Count, None),
        ("COUNT(DISTINCT person_id)", CountUnits, None),
        ("COUNT(DISTINCT people.person_id)", CountUnits, None),
        ("COUNT(DISTINCT city)", CountDistinct, None),
        ("APPROX_COUNT_DISTINCT(sex)", CountDistinct, None),
        ("SUM(income)", Sum, None),
        ("AVG(income)", Average, None),
        ("AVG(age >= 18)", Average, None),
        ("VARIANCE(age)", Variance, None),
        ("STDDEV_POP(age)", Deviation, None),
        ("MEDIAN(age)", QuantileOf, Fraction(1, 2)),
        ("QUANTILE(age, 0.1)", QuantileOf, Fraction(1, 10)),
        ("PERCENTILE_CONT(age, 0.25)", QuantileOf, Fraction(1, 4)),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age)", QuantileOf, Fraction(9, 10)),
        ("APPROX_QUANTILE(age, 1)", QuantileOf, Fraction(1)),
        ("MIN(income)", QuantileOf, Fraction(0)),
        ("MAX(joined)", QuantileOf, Fraction(1)),
        ("MODE(sex)", ModeOf, None),
        ("MODE() WITHIN GROUP (ORDER BY sex)", ModeOf, None),
        ("COUNTIF(age > 3)", Count, None),
        ("sum(INCOME)", Sum, None),
    ],
)
def test_each_aggregate_is_understood(text, kind, at):
    found = only(text)
    assert (type(found), getattr(found, "at", None)) == (kind, at)


def test_variances_say_whether_they_divide_by_n_minus_one():
    assert only("VAR(age)").sample
    assert only("STDDEV_SAMP(age)").sample
    assert not only("VAR_POP(age)").sample


def test_top_k_is_a_mode_of_several():
    assert only("APPROX_TOP_COUNT(sex, 2)").top == 2


def test_counting_what_cannot_be_null_is_counting_rows():
    q = query("SELECT COUNT(*), COUNT(1), COUNT(person_id), COUNT(age) FROM people WHERE age > 3")
    assert q.statistics == (Count(),)
    assert only("COUNT(age)").expr is not None


def test_filter_counts_only_rows_that_pass():
    q = query("SELECT COUNT(*) FILTER (WHERE age > 3) AS n FROM rows")
    expr = q.statistics[0].expr
    assert [expr.evaluate({"age": a}) for a in (3, 4, None)] == [None, 1, None]


def test_outputs_without_alias_get_readable_and_distinct_names():
    q = query(
        "SELECT sex, COUNT(*), COUNT(*) FILTER (WHERE married), SUM(income), AVG(income / 12), "
        "COUNT(DISTINCT city), PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age), 2 * COUNT(*) "
        "FROM people GROUP BY sex"
    )
    assert [o.name for o in q.outputs] == [
        "sex", "count", "count_2", "sum_income", "avg_income", "count_distinct_city",
        "percentile_cont", "column_8",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("select", "group", "codes"),
    [
        ("married", "married", (0, 1)),
        ("grade", "1", (0, 1, 2)),
        ("EXTRACT(MONTH FROM joined) AS m", "m", tuple(range(1, 13))),
        ("YEAR(joined) AS y", "YEAR(joined)", tuple(range(2000, 2025))),
        ("CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END AS g", "g", (0, 1)),
        ("WIDTH_BUCKET(age, 0, 100, 4) AS b", "b", (1, 2, 3, 4, 5)),
        ("FLOOR(age / 10) * 10 AS decade", "decade", tuple(range(12))),
        ("age >= 18 AS adult", "ALL", (0, 1)),
    ],
)
def test_keys_have_their_public_codes(select, group, codes):
    (key,) = query(f"SELECT {select}, COUNT(*) FROM people GROUP BY {group}").keys
    assert key.codes == codes


def test_case_labels_stand_in_order_of_appearance():
    q = query("SELECT CASE WHEN age < 18 THEN 'z' WHEN age < 65 THEN 'a' END g, COUNT(*) "
              "FROM people GROUP BY g")  # fmt: skip
    assert q.keys[0].expr.type.labels == ("z", "a")
    assert q.keys[0].expr.evaluate({"age": 70}) is None


def test_text_keys_are_selected_unless_the_question_lists_them():
    assert query("SELECT city, COUNT(*) FROM people GROUP BY city").keys[0].codes is None
    listed = query("SELECT city, COUNT(*) FROM people WHERE city IN ('b', 'a', 'b') GROUP BY city")
    assert listed.keys[0].codes == ("b", "a")


def test_unselected_text_keys_may_be_gathered():
    text = "SELECT city, COUNT(*) FROM people GROUP BY city"
    assert ask(text, other="rest").query.other == "rest"
    assert "rest as rest" in str(ask(text, other="rest").query)
    with pytest.raises(QueryError, match="policy does not list"):
        ask("SELECT sex, COUNT(*) FROM people GROUP BY sex", other="rest")


def test_a_key_called_like_a_column_does_not_stand_for_it():
    with pytest.raises(QueryError, match="neither a key nor"):
        query("SELECT FLOOR(age / 10) AS age, age AS x, COUNT(*) FROM people GROUP BY 1")


def test_lists_of_values_have_no_order():
    with pytest.raises(QueryError, match="no order"):
        query("SELECT MODE(sex, 2) AS top FROM people ORDER BY top")


def test_grouping_twice_by_one_expression_is_grouping_once():
    q = query("SELECT sex, sex AS s, COUNT(*) FROM people GROUP BY sex, 1")
    assert len(q.keys) == 1
    assert [o.expr for o in q.outputs[:2]] == [KeyValue("sex"), KeyValue("sex")]


def test_a_column_wins_over_an_alias_of_the_same_name():
    q = query("SELECT age AS sex, COUNT(*) FROM people GROUP BY sex, age")
    assert [k.expr.type.kind for k in q.keys] == [Kind.CATEGORY, Kind.NUMBER]


def test_public_joins_multiply_nothing_they_should_not():
    q = query(
        "SELECT pop, COUNT(*) FROM people p JOIN regions r ON r.region = p.region GROUP BY pop"
    )
    join = q.relation
    assert (join.on, join.how, join.fanout) == ((("region", "region"),), "inner", 1)
    assert q.limits == Limits(rows=3)
    three = sql.parse(
        "SELECT COUNT(*) FROM rows LEFT JOIN regions USING (region)",
        POLICY,
        public_fanout=lambda table, columns: (
            3 if (table, columns) == ("regions", ("region",)) else 0
        ),
    )
    assert three.query.limits == Limits(rows=3)
    assert three.query.relation.how == "left"


def test_an_inner_join_may_name_the_public_table_first():
    one = query("SELECT COUNT(*) FROM regions JOIN people USING (region)")
    assert one.hash == query("SELECT COUNT(*) FROM people JOIN regions USING (region)").hash


def test_joins_need_equally_declared_columns():
    with pytest.raises(UnsupportedQueryError, match="declared differently"):
        query("SELECT COUNT(*) FROM people JOIN regions ON people.age = regions.region")


def test_a_subquery_that_filters_and_computes_is_seen_through():
    inner = query(
        "WITH a AS (SELECT person_id, income / 12 AS m, sex FROM people WHERE age >= 18) "
        "SELECT sex, AVG(m) AS pay, COUNT(DISTINCT person_id) AS n FROM a "
        "WHERE sex <> 'X' GROUP BY sex"
    )
    outer = query(
        "SELECT sex, AVG(income / 12) AS pay, COUNT(DISTINCT person_id) AS n FROM people "
        "WHERE age >= 18 AND sex <> 'X' GROUP BY sex"
    )
    assert inner.hash == outer.hash
    direct = query("SELECT COUNT(*) FROM (SELECT * FROM people WHERE age > 3) AS t")
    assert direct.hash == query("SELECT COUNT(*) FROM people WHERE age > 3").hash


def test_a_subquery_hides_what_it_does_not_select():
    with pytest.raises(QueryError, match="no column"):
        query("WITH a AS (SELECT sex FROM people) SELECT AVG(age) FROM a")


@pytest.mark.races
def test_equal_questions_have_equal_hashes_in_every_process():
    text = "SELECT sex, AVG(income) AS a FROM people WHERE age BETWEEN 18 AND 65 GROUP BY sex"
    same = "select sex, avg(income) as a from People where age >= 18 and age <= 65 group by 1"
    assert query(text).hash == query(same).hash
    assert query(text).hash != query(text.replace("65", "66")).hash
    code = (
        "from discreet import sql; from discreet.policy import *;"
        "t = Table('t', [Integer('x', 0, 9), Category('c', ['a', 'b'])]);"
        "p = Policy(tables=[t], budget=Budget('1'));"
        "print(sql.parse('SELECT c, SUM(x) FROM t WHERE x IN (1, 2) GROUP BY c', p).query.hash)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(runs) == 1


def test_names_ignore_case_and_may_be_quoted():
    assert query('SELECT "Sex", COUNT(*) n FROM `PEOPLE` GROUP BY SEX').keys[0].expr.name == "sex"


def test_a_question_prints_itself():
    text = plan.describe(
        query(
            "SELECT region, city, COUNT(*) AS n, ROUND(SUM(income) / COUNT(*), 2) AS pay "
            "FROM people LEFT JOIN regions USING (region) "
            "WHERE sex IN ('F', 'M') AND NOT (age < 18) AND income IS NOT NULL "
            "GROUP BY region, city HAVING n > 5 ORDER BY n DESC LIMIT 3"
        )
    )
    assert text == "\n".join(
        "  " * depth + line
        for depth, line in enumerate(
            [
                "first 3 rows",
                "order by count(*) descending",
                "having (count(*) > 5)",
                "select region, city, count(*) as n, round((sum(income) / count(*)), 2) as pay",
                "group by region: N, S; city: selected from the data",
                "limit each person_id to 3 rows",
                "where sex in ('F', 'M') and age >= 18 and not (income is null)",
                "left join regions on region = regions.region (1 match at most)",
                "scan people",
            ]
        )
    )


@pytest.mark.races
def test_importing_the_front_ends_does_not_load_the_parser():
    code = "import discreet.sql, discreet.frame, sys; print('sqlglot' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "False"


# --- BigQuery's clause ---------------------------------------------------------------------

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) sex, {} FROM {} GROUP BY sex"


def test_the_clause_gives_epsilon_and_delta_exactly():
    found = ask(DP.format("epsilon=0.1, delta=1e-6", "COUNT(*) AS n", "people"))
    assert (found.epsilon, found.delta) == (Fraction(1, 10), Fraction(1, 10**6))
    assert ask("SELECT COUNT(*) FROM people").epsilon is None


def test_the_clause_lowers_limits_and_never_raises_them():
    def limits(options, table="visits"):
        return ask(DP.format(options, "COUNT(*) AS n", table)).query.limits

    assert limits("max_groups_contributed=2") == Limits(groups=2, rows_per_group=2)
    assert limits("max_groups_contributed=9") == Limits(groups=4, rows_per_group=2)
    assert limits("max_rows_contributed=1", "people") == Limits(rows=1)
    assert limits("max_rows_contributed=99", "people") == Limits(rows=3)
    assert limits("max_groups_contributed=1", "people") == Limits(rows=3, groups=1)
    assert limits("max_groups_contributed=1", "rows").rows == 1


def test_a_count_bound_limits_rows_per_group():
    text = DP.format("epsilon=1", "COUNT(*, contribution_bounds_per_group => (0, 1)) n", "visits")
    assert ask(text).query.limits == Limits(groups=4, rows_per_group=1)


def test_bounds_per_row_clamp_within_the_policy():
    def kind(low, high):
        call = f"SUM(income, contribution_bounds_per_row => ({low}, {high})) AS s"
        return ask(DP.format("epsilon=1", call, "people")).query.statistics[0].expr

    narrow = kind(100, 500)
    assert (narrow.type.lo, narrow.type.hi) == (10_000, 50_000)
    assert narrow.evaluate({"income": 5}) == 10_000
    assert kind(-5, 10**9) == kind(0, 200_000)
    assert kind(-5, 10**9).type.hi == 20_000_000


def test_bounds_per_group_are_exact_or_refused():
    call = "SUM(income, contribution_bounds_per_group => (0, 500)) AS s"
    rows = ask(DP.format("epsilon=1", call, "rows")).query.statistics[0].expr
    assert (rows.type.lo, rows.type.hi) == (0, 50_000)
    with pytest.raises(UnsupportedQueryError, match="3 rows per group") as refused:
        ask(DP.format("epsilon=1", call, "people"))
    assert refused.value.hint == "contribution_bounds_per_row => (0, 500)"
    wide = call.replace("500", "600000")
    assert (
        ask(DP.format("epsilon=1", wide, "people")).query.statistics[0].expr.type.hi == 20_000_000
    )


@pytest.mark.parametrize(
    ("options", "table", "message"),
    [
        ("privacy_unit_column=sex", "people", "cannot choose another"),
        ("privacy_unit_column=age", "rows", "cannot choose another"),
        ("kappa=3", "people", "kappa"),
        ("epsilon=0", "people", "positive"),
        ("delta=2", "people", "between 0 and 1"),
        ("max_groups_contributed=0", "people", "at least 1"),
        ("epsilon=1, epsilon=2", "people", "epsilon"),
        ("group_selection_strategy=MAGIC", "people", "group_selection_strategy"),
        ("3", "people", "option"),
    ],
)
def test_the_clause_cannot_ask_for_more_than_the_policy(options, table, message):
    with pytest.raises(QueryError, match=message):
        ask(DP.format(options, "COUNT(*) AS n", table))


def test_the_units_own_column_is_accepted():
    ask(DP.format("privacy_unit_column=people.person_id", "COUNT(*) AS n", "people"))


def test_public_groups_need_public_keys():
    text = ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy=PUBLIC_GROUPS) "
            "city, COUNT(*) FROM people {} GROUP BY city")  # fmt: skip
    with pytest.raises(QueryError, match="public keys"):
        ask(text.format(""))
    ask(text.format("WHERE city = 'Bern'"))
