"""The curator's road from question to answer: prices, refusals, records."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import pytest

import discreet as dc
from discreet import policy as pol
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import (
    BudgetExceededError,
    DiscreetError,
    EngineError,
    ParameterError,
    QueryError,
    TaintedNoiseError,
    UnknownNameError,
)
from discreet.ledger import MemoryLedger
from discreet.noise._deterministic import deterministic

_NAMES = itertools.count()

COLUMNS = [
    pol.Category("sex", values=["F", "M", "X"], null="X"),
    pol.Integer("age", min=0, max=99, null=0),
    pol.Real("pay", min=0, max=1000, step="0.5"),
    pol.Text("town"),
]

ROWS = [
    {"id": i // 2, "sex": "FMX"[i % 3], "age": i % 100, "pay": float(i % 900), "town": f"t{i % 2}"}
    for i in range(600)
]


def curator(rows=ROWS, *, budget=None, analyst=None, **table):
    """A curator over Python rows with a budget of its own."""
    own = pol.Policy(
        tables=[pol.Table("people", COLUMNS, **table)],
        budget=budget or pol.Budget("10", delta="1e-5", accounting="approx"),
        name=f"test {next(_NAMES)}",
    )
    return Curator(own, Reference({"people": rows}), MemoryLedger(own), analyst)


GROUPED = "SELECT sex, COUNT(*) AS n, AVG(pay) AS pay FROM people GROUP BY sex"


def test_an_answer_has_every_public_key_in_policy_order():
    answer = curator([]).sql(GROUPED, epsilon=1)
    assert [r["sex"] for r in answer.to_dicts()] == ["F", "M", "X"]
    assert answer.columns == ["sex", "n", "pay"]


def test_epsilon_means_the_whole_query():
    asked = curator()
    answer = asked.sql(GROUPED, epsilon="0.5")
    assert answer.cost["epsilon"] == "1/2"
    assert asked.budget.spent["epsilon"] == Fraction(1, 2)
    quote = asked.preview(GROUPED, epsilon="0.5")
    shares = [priced.part.sensitivity.l1 / priced.law.scale for priced in quote.plan.parts]
    assert sum(shares) == Fraction(1, 2)


def test_the_count_is_read_off_one_of_two_averages():
    quote = curator().preview(
        "SELECT AVG(age) AS a, AVG(age * 2) AS b, COUNT(*) AS n FROM people", epsilon=1
    )
    assert [part.numbers for part in quote.plan.lowered.parts] == [2, 2]


def test_an_average_is_one_draw_over_two_integers():
    plan = curator().preview("SELECT AVG(age) AS a FROM people", epsilon=1).plan
    (only,) = plan.lowered.parts
    assert (only.sensitivity.l1, only.numbers) == (99, 2)


def test_preview_touches_neither_data_nor_budget():
    class Untouchable(Reference):
        def execute(self, aggregate, salt):
            raise AssertionError

    asked = curator()
    asked._engine = Untouchable({"people": []})
    quote = asked.preview(GROUPED, epsilon="0.5")
    assert asked.budget.spent["epsilon"] == 0
    assert "cost    ε 0.5" in repr(quote)
    assert set(quote.error()) == {"n", "pay"}


def test_a_question_reads_the_ledger_no_more_often_than_it_must(monkeypatch):
    asked, read = curator(), []
    reading = MemoryLedger.reading
    monkeypatch.setattr(MemoryLedger, "reading", lambda self: read.append(1) or reading(self))
    asked.preview(GROUPED, epsilon="0.5")
    assert len(read) == 2  # what is left, and whether it has been answered
    asked.sql(GROUPED, epsilon="0.5")
    assert len(read) == 4  # before the debit and after it


def test_a_failed_run_stays_charged():
    class Broken(Reference):
        def execute(self, aggregate, salt):
            raise RuntimeError

    asked = curator()
    asked._engine = Broken({"people": []})
    with pytest.raises(EngineError):
        asked.sql(GROUPED, epsilon="0.5")
    assert asked.budget.spent["epsilon"] == Fraction(1, 2)


def test_the_debit_comes_before_the_engine():
    order = []

    class Watching(Reference):
        def execute(self, aggregate, salt):
            order.append("engine")
            return super().execute(aggregate, salt)

    class Book(MemoryLedger):
        def debit(self, entry):
            order.append("debit")
            return super().debit(entry)

    asked = curator()
    asked._engine = Watching({"people": ROWS})
    asked._ledger = Book(asked.policy)
    asked.sql(GROUPED, epsilon="0.5")
    assert order[0] == "debit"


def test_ten_tenths_fit_one_and_not_a_crumb_more():
    asked = curator(budget=pol.Budget("1"))
    for _ in range(10):
        asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=0.1, fresh=True)
    with pytest.raises(BudgetExceededError, match="left"):
        asked.sql("SELECT COUNT(*) AS n FROM people", epsilon="1e-18")


def test_refusal_says_what_would_fit():
    asked = curator(budget=pol.Budget("1"))
    with pytest.raises(BudgetExceededError) as refused:
        asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=2)
    assert refused.value.hint == 'epsilon="1"'
    asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=refused.value.hint.split('"')[1])


def test_refusal_in_rho_tells_who_asked_in_epsilon_an_epsilon_that_fits():
    asked = curator(budget=pol.Budget(rho="0.02", delta="1e-6", accounting="zcdp"))
    with pytest.raises(BudgetExceededError) as refused:
        asked.sql(GROUPED, epsilon=1)
    name, text, _ = refused.value.hint.split('"')
    assert name == "epsilon="
    asked.sql(GROUPED, epsilon=text)
    assert asked.budget.left["rho"] < Fraction("0.0001")


def test_two_handles_share_one_budget():
    first = curator(budget=pol.Budget("1"))
    second = Curator(first.policy, Reference({"people": ROWS}), MemoryLedger(first.policy))
    first.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.6")
    with pytest.raises(BudgetExceededError):
        second.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.6")


def test_shares_are_parts_of_the_whole():
    budget = pol.Budget("1", shares={"ann": "0.25"})
    ann = curator(budget=budget, analyst="ann")
    bob = Curator(ann.policy, Reference({"people": ROWS}), MemoryLedger(ann.policy), "bob")
    with pytest.raises(BudgetExceededError, match="share of ann"):
        ann.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.3")
    ann.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.25")
    with pytest.raises(BudgetExceededError):
        bob.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.8")
    bob.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.75")


def test_test_noise_is_refused_by_the_ledger():
    asked = curator()
    with deterministic(1), pytest.raises(TaintedNoiseError):
        asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=1)
    assert asked.budget.spent["epsilon"] == 0


def test_plain_count_is_exact_under_change_one_and_costs_the_least():
    asked = curator(neighbours="change-one")
    answer = asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=1)
    assert answer.to_dicts() == [{"n": 600}]
    assert answer.cost["epsilon"] == "1/1000"  # nothing is free
    assert answer.interval()[0]["n"] == (600.0, 600.0)
    assert (
        asked.sql("SELECT COUNT(*) AS n FROM people WHERE age > 5", epsilon=1).cost["epsilon"]
        == "1"
    )


def test_zcdp_charges_rho_and_shows_both():
    asked = curator(budget=pol.Budget(rho="0.5", delta="1e-6", accounting="zcdp"))
    answer = asked.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.1")
    assert Fraction(answer.cost["rho"]) == asked.budget.spent["rho"]
    assert 0.00499 < float(Fraction(answer.cost["rho"])) <= 0.005
    gaussian = asked.sql("SELECT COUNT(*) AS n FROM people", rho="0.01")
    assert gaussian.cost["rho"] == "1/100"


def test_many_groups_per_unit_choose_the_gaussian():
    asked = curator(unit="id", max_groups_per_unit=30, max_rows_per_group=1)
    many = asked.preview(
        "SELECT age, COUNT(*) AS n FROM people GROUP BY age", epsilon=1, delta="1e-6"
    )
    assert many.plan.noise == "gaussian"
    few = asked.preview("SELECT COUNT(*) AS n FROM people", epsilon=1, delta="1e-6")
    assert few.plan.noise in ("laplace", "gaussian")
    assert few.plan.cost.epsilon == many.plan.cost.epsilon == 1


@pytest.mark.parametrize("margin", [3, 10, 25, 400])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_within_is_met_and_no_cheaper_price_would_do(margin, confidence):
    asked = curator(budget=pol.Budget("100"))
    quote = asked.preview(
        "SELECT COUNT(*) AS n FROM people", within={"n": margin}, confidence=confidence
    )
    law = quote.plan.parts[0].law
    assert law.interval(confidence).high <= margin
    cheaper = type(law)(law.scale * Fraction(101, 100))
    assert cheaper.interval(confidence).high >= margin


def test_within_refuses_what_depends_on_private_counts():
    with pytest.raises(ParameterError, match="private counts"):
        curator().sql("SELECT AVG(pay) AS pay FROM people", within={"pay": 5})


# -- the first ten minutes: five mistakes, five pasteable fixes ----------------------


def test_mistake_no_bounds():
    with pytest.raises(DiscreetError) as error:
        pol.loads('[budget]\nepsilon = "1"\n[tables.people.columns]\nage = { type = "integer" }\n')
    assert error.value.hint == 'age = { type = "integer", min = 0, max = 100 }'


def test_mistake_unknown_column():
    with pytest.raises(UnknownNameError) as error:
        curator().sql("SELECT AVG(pya) AS pay FROM people", epsilon=1)
    assert error.value.hint == "pay"


def test_mistake_missing_delta_for_unknown_keys():
    with pytest.raises(DiscreetError) as error:
        curator().sql("SELECT town, COUNT(*) AS n FROM people GROUP BY town", epsilon=1)
    assert "town" in error.value.message
    assert 'delta="1e-6"' in error.value.hint


def test_mistake_overspending():
    with pytest.raises(BudgetExceededError) as error:
        curator(budget=pol.Budget("1")).sql(GROUPED, epsilon=5)
    assert error.value.hint == 'epsilon="1"'


def test_mistake_wrong_type():
    with pytest.raises(QueryError) as error:
        curator().sql("SELECT AVG(sex) AS a FROM people", epsilon=1)
    assert "sex" in str(error.value)
    assert error.value.hint


def test_no_price_is_one_clear_error():
    with pytest.raises(ParameterError, match="exactly one"):
        curator().sql(GROUPED)


# -- keys, batches, records ------------------------------------------------------------


def test_selected_keys_are_sorted_and_lonely_ones_hidden():
    rows = [*ROWS, ROWS[0] | {"town": "hamlet of one"}]
    answer = curator(rows).sql(
        "SELECT town, COUNT(*) AS n FROM people GROUP BY town", epsilon=2, delta="1e-6"
    )
    assert [r["town"] for r in answer.to_dicts()] == ["t0", "t1"]


def test_other_keys_go_to_a_bucket_that_is_paid_for():
    rows = [*ROWS, *(ROWS[0] | {"town": f"hamlet {i}"} for i in range(50))]
    asked = curator(rows)
    towns = asked.table("people").group_by("town").agg(n=dc.count()).other("elsewhere")
    answer = towns.answer(epsilon=4, delta="1e-6")
    assert [r["town"] for r in answer.to_dicts()] == ["t0", "t1", "elsewhere"]
    low, high = answer.interval(0.9999)[2]["n"]
    assert low <= 50 <= high
    plan = towns.preview(epsilon=4, delta="1e-6").plan
    # one share for the counts, one for using them twice
    assert plan.parts[0].law.law.scale == Fraction(1, 2)
    assert len(plan.losses) == 3  # two draws and the δ of selecting
    again = dc.Answer.from_record(answer.record())
    assert again.interval() == answer.interval()


def test_a_batch_is_charged_once_and_beats_adding_up():
    asked = curator(budget=pol.Budget("1", delta="1e-5", accounting="approx"))
    with asked.batch(epsilon=1, delta="1e-6") as batch:
        many = [batch.sql(f"SELECT COUNT(*) AS n FROM people WHERE age >= {k}") for k in range(60)]
        with pytest.raises(ParameterError, match="not run"):
            _ = many[0].answer
    assert asked.budget.spent == {"epsilon": Fraction(1), "delta": Fraction(1, 10**6)}
    single = Fraction(many[0].answer.cost["epsilon"])
    assert single > Fraction(1, 60) * Fraction(11, 10)
    with pytest.raises(ParameterError, match="has run"):
        batch.sql("SELECT COUNT(*) AS n FROM people")


def test_a_text_is_read_once_but_one_that_compares_as_it_likes_each_time(monkeypatch):
    class Chameleon(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return True

    asked, read = curator(), []
    parse = dc.sql.parse_any
    monkeypatch.setattr(dc.sql, "parse_any", lambda t, *a, **k: read.append(t) or parse(t, *a, **k))
    for _ in range(3):
        asked.preview(GROUPED, epsilon=1)
    assert len(read) == 1
    for _ in range(2):
        with pytest.raises(QueryError):
            asked.preview(Chameleon("SELECT nothing FROM nowhere"), epsilon=1)
    assert len(read) == 3


def test_a_batch_that_raises_costs_nothing():
    asked = curator()
    with pytest.raises(KeyError), asked.batch(epsilon=1) as batch:
        batch.sql("SELECT COUNT(*) AS n FROM people")
        raise KeyError
    assert asked.budget.spent["epsilon"] == 0


EVERYTHING = (
    "SELECT sex, COUNT(*) AS n, SUM(pay) AS s, AVG(pay) AS a, STDDEV(age) AS d, MEDIAN(age) AS m, "
    "SUM(pay) / COUNT(*) AS r, ROUND(AVG(age), 1) AS q FROM people GROUP BY sex "
    "HAVING COUNT(*) > 5 ORDER BY n DESC LIMIT 2"
)


def test_a_record_recomputes_the_whole_answer():
    answer = curator().sql(EVERYTHING, epsilon=8)
    again = dc.Answer.from_record(json.loads(json.dumps(answer.record())))
    assert again.to_dicts() == answer.to_dicts()
    assert again.interval(0.9) == answer.interval(0.9)
    assert again.interval(0.9, simultaneous=True) == answer.interval(0.9, simultaneous=True)
    assert len(again) == 2
    assert again.to_dicts()[0]["n"] >= again.to_dicts()[1]["n"]


@pytest.mark.parametrize(
    "damage",
    [
        {"discreet": 1},
        {"parts": [{"law": None, "values": [1.5]}]},
        {"parts": []},
        {"formulas": [{"is": "System"}]},
        {"outputs": [1]},
        {"keys": {"sex": [1]}},
        {"parts": [{"law": {"law": "magic"}, "values": [1, 2, 3]}]},
    ],
)
def test_a_damaged_record_is_refused(damage):
    record = curator().sql(GROUPED, epsilon=1).record() | damage
    with pytest.raises(DiscreetError):
        dc.Answer.from_record(record)


def test_ways_out_agree():
    answer = curator().sql(GROUPED, epsilon=1)
    rows = answer.to_dicts()
    assert list(answer) == rows
    assert answer.to_arrow(None).to_pylist() == rows
    ends = answer.interval("0.9")
    pandas, polars, arrow = answer.to_pandas("0.9"), answer.to_polars("0.9"), answer.to_arrow("0.9")
    assert pandas.to_dict("list") == polars.to_dict(as_series=False) == arrow.to_pydict()
    columns = arrow.to_pydict()
    assert list(columns)[:4] == ["sex", "n", "n_low", "n_high"]
    assert list(zip(columns["n_low"], columns["n_high"], strict=True)) == [e["n"] for e in ends]


def test_a_bound_that_is_an_integer_stands_among_other_ends():
    """Polars refused a column whose first ends were bounds of the policy, and others were not."""
    answer = curator().sql("SELECT AVG(age) AS a FROM people GROUP BY sex", epsilon=1)
    ends = [{"a": (0, 13126.8)}, *answer.interval()[1:]]
    answer.interval = lambda *_given, **_named: ends
    assert answer.to_polars()["a_high"][0] == 13126.8
    assert answer.to_polars()["a_low"].dtype.is_float()


def test_ends_of_a_frame_do_not_hide_a_column_of_their_name():
    text = "SELECT COUNT(*) AS n, SUM(age) AS n_low FROM people"
    columns = curator().sql(text, epsilon=1).to_columns()
    assert list(columns) == ["n", "n_low_", "n_high", "n_low", "n_low_low", "n_low_high"]


def test_text_and_html_show_margin_cost_and_rest():
    answer = curator().sql(GROUPED, epsilon="0.5")
    text = repr(answer)
    assert "±" in text
    assert "cost ε 0.5" in text
    assert "9.5 of 10 left (≈ 19 more like this)" in text
    assert "<table>" in answer._repr_html_()


def test_counts_stay_whole_numbers_however_small_the_margin():
    text = repr(curator().sql("SELECT COUNT(*) AS n FROM people", epsilon=1))
    assert "." not in text.splitlines()[2]


def test_html_escapes_labels():
    label = "<script>alert(1)</script>"
    table = pol.Table("people", [pol.Category("g", values=[label, "b"])])
    own = pol.Policy(tables=[table], budget=pol.Budget("1"), name=f"html {next(_NAMES)}")
    asked = Curator(own, Reference({"people": []}), MemoryLedger(own))
    page = asked.sql("SELECT g, COUNT(*) AS n FROM people GROUP BY g", epsilon=1)._repr_html_()
    assert "<script>" not in page


def test_chart_has_error_bars():
    chart = curator().sql(GROUPED, epsilon=1).chart()
    assert {"low", "high", "value"} <= chart["data"]["values"][0].keys()


def test_signed_values_are_kept():
    answers = [curator([]).sql("SELECT COUNT(*) AS n FROM people", epsilon=1) for _ in range(60)]
    assert any(a.to_dicts()[0]["n"] < 0 for a in answers)


def test_the_error_of_a_published_number_can_be_bought():
    asked = curator()
    published = asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=2)
    found = asked.error_of(published, "SELECT COUNT(*) AS n FROM people", epsilon=5)
    low, high = found.interval(0.9999)
    assert low <= 600 - published.to_dicts()[0]["n"] <= high
    # the costs add up (J exercises 15 and 16)
    assert found.total_cost == 7 == asked.budget.spent["epsilon"]


def test_the_fluent_api_asks_the_same_question():
    asked = curator()
    from discreet import frame as f

    fluent = (
        asked.table("people").where("age >= 18").group_by("sex").agg(n=f.count(), pay=f.mean("pay"))
    )
    written = asked._question(
        "SELECT sex, COUNT(*) AS n, AVG(pay) AS pay FROM people WHERE age >= 18 GROUP BY sex"
    )
    assert fluent.query.hash == written.query.hash
    assert fluent.answer(epsilon=1).columns == ["sex", "n", "pay"]


class Loud(str):
    """A text that says something else when it is asked."""

    __slots__ = ()

    def __str__(self):
        return "visits"

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def test_names_from_outside_are_copied_to_plain_text():
    asked = curator(analyst=Loud("ada"))
    assert type(asked.analyst) is str
    assert type(asked.table(Loud("people")).name) is str
    keyed = asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=1, key=Loud("first"))
    again = asked.sql("SELECT COUNT(*) AS n FROM people", epsilon=1, key="first")
    assert again.cached
    assert keyed.to_dicts() == again.to_dicts()
    matrix = [[1, 1, 1], [1, 0, 0]]
    image = asked.linear(matrix, ["sex"], labels=[Loud("all"), "f"], epsilon=1)
    assert [(type(r["query"]), r["query"]) for r in image.to_dicts()] == [(str, "all"), (str, "f")]


def test_equal_questions_are_lowered_and_proved_once():
    asked = curator()
    one, two = (asked.preview(GROUPED, epsilon=e).plan.lowered for e in (1, 2))
    other = asked.preview(GROUPED.replace("pay)", "age)"), epsilon=1).plan.lowered
    assert one is two
    assert other is not one


def test_a_median_of_whole_numbers_is_a_whole_number():
    # sevens alone and hardly any noise: P(wrong leaf) is below e^-1000
    asked = curator([{**ROWS[0], "age": 7}] * 2000, budget=pol.Budget("1e6"))
    answer = asked.sql("SELECT MEDIAN(age) AS m FROM people", epsilon=100)
    assert answer.to_dicts() == [{"m": 7}]
    (ends,) = answer.interval()
    assert all(low <= 7 <= high for low, high in ends.values())


def test_a_margin_that_is_too_dear_is_doubled_until_it_fits():
    asked = curator(budget=pol.Budget("0.1"))
    question = "SELECT COUNT(*) AS n FROM people"
    with pytest.raises(BudgetExceededError) as refused:
        asked.sql(question, within={"n": 5})
    assert refused.value.hint.parameters == (("within", {"n": 40}),)
    with pytest.raises(BudgetExceededError):
        asked.sql(question, within={"n": 20})
    asked.sql(question, within={"n": 40})
