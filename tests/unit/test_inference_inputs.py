"""What inference reads, and what it refuses to read."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import inference as inf
from discreet import mechanisms as m
from discreet.answer import Answer, Record
from discreet.errors import DiscreetError, ParameterError, RelationError, TaintedNoiseError
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from discreet.noise._deterministic import deterministic
from discreet.plan import Mean, Numbers, OutputColumn, Spread, StatisticValue, Total

LAW = DiscreteLaplace(2)


def record(neighbours="add-remove", unit="row", public=False, law=LAW):
    """Two groups: a count, a sum in cents, a mean and a spread over four vectors."""
    half, step = 5, Fraction(1)
    return Record(
        keys={"sex": ("F", "M")},
        parts=(
            Numbers((100, 80), None if public else law),
            Numbers((12345, 6789), law),
            Numbers((10, -400), law),
            Numbers((-900, -700), law),
        ),
        formulas=(
            Total(0, Fraction(1)),
            Total(1, Fraction(1, 100)),
            Mean(2, 0, Fraction(5), step, Fraction(0), Fraction(10)),
            Spread(2, 3, 0, 12, Fraction(5), step, Fraction(2 * half), sample=True, root=True),
        ),
        outputs=tuple(
            OutputColumn(n, StatisticValue(i)) for i, n in enumerate(("n", "total", "mean", "sd"))
        ),
        having=None,
        order=(),
        limit=None,
        cost={"epsilon": "1/2", "delta": "0", "rho": "1/8", "rho_delta": "0"},
        statement={"neighbours": neighbours, "unit": unit},
    )


# -- reading ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source", [record(), Answer(record()), record().to_dict(), json.dumps(record().to_dict())]
)
def test_columns_of_answers_and_records(source):
    found = inf.noisy(source, "total", {"sex": "M"})
    assert found.value == pytest.approx(67.89)
    assert found.noise == inf.Noise(LAW, Fraction(1, 100))
    assert (found.neighbours, found.unit) == ("add-remove", "row")
    assert inf.noisy(source, "n").value.tolist() == [100, 80]


def test_procedures_take_columns_directly():
    found = inf.interval((Answer(record()), "n", {"sex": "F"}))
    assert (found.low, found.high) == (100 - 6, 100 + 6)
    test = inf.proportion_test((record(), "n", {"sex": "F"}), n=200, p0=0.5)
    assert 0 < test.pvalue <= 1
    assert inf.chisquare_gof((record(), "n"), rng=1).pvalue > 0


def test_answer_and_inference_agree_on_intervals():
    answer = Answer(record())
    own = [row["n"] for row in answer.interval(0.95)]
    found = inf.interval((answer, "n"))
    assert own == list(zip(found.low, found.high, strict=True))


def test_two_groups_of_one_answer_are_compared_for_free():
    answer = Answer(record())
    found = inf.two_sample_test((answer, "sd", {"sex": "F"}), (answer, "sd", {"sex": "M"}), rng=1)
    # means 5.1 and 0: far apart, whatever noise of scale 2 does
    assert found.parameters["estimate"] == pytest.approx(0.1 + 5)
    assert found.pvalue < 0.01
    assert found.loss is None


def test_moments_of_a_record_are_its_moments():
    found = inf.moments_of(record(), "sd", {"sex": "F"})
    # Σ(y² − 12) = −900 over 100 rows: mean square 3, in units of 5²
    assert found.values == pytest.approx([100, 10 / 5, 100 * (3 / 25 - 0.5)])


def _precise(centre, total, squares, n=10_000, widest=100):
    """One group of `n` values about `centre`, hardly noisy: Σy and Σ(y² − 1250) in whole steps."""
    law = DiscreteLaplace(Fraction(1, 2))
    return Record(
        keys={},
        parts=(Numbers((n,), law), Numbers((total,), law), Numbers((squares,), law)),
        formulas=(
            Spread(
                1,
                2,
                0,
                1250,
                Fraction(centre),
                Fraction(1),
                Fraction(widest),
                sample=True,
                root=True,
            ),
        ),
        outputs=(OutputColumn("sd", StatisticValue(0)),),
        having=None,
        order=(),
        limit=None,
        cost={"epsilon": "1", "delta": "0", "rho": "1/2", "rho_delta": "0"},
        statement={"neighbours": "add-remove", "unit": "row"},
    )


def test_mean_test_of_an_answer_is_about_the_mean_and_not_its_distance_from_the_centre():
    # mean 30 on 0…100, standard deviation 8: Σ(x − 50) = −20n, Σ(x − 50)² = (64 + 400)n
    answer = _precise(50, -200_000, 10_000 * (464 - 1250))
    found = inf.mean_test((answer, "sd"), 30, rng=1)
    # Monte Carlo of 1999 draws: the statistic is within a hair of 0
    assert found.pvalue > 0.9
    assert found.parameters["estimate"] == pytest.approx(30, abs=0.01)
    ends = found.confidence_interval(0.95)
    assert ends.low == pytest.approx(30 - 1.96 * 0.08, abs=0.02)
    assert ends.high == pytest.approx(30 + 1.96 * 0.08, abs=0.02)
    assert inf.mean_test((answer, "sd"), 31, rng=1).pvalue < 0.01
    assert inf.mean_test((answer, "sd"), 70, rng=1).pvalue < 0.01


def test_two_groups_of_different_ranges_are_compared_in_units():
    # U(0, 100) and U(50, 150): variances 2500/3, means 50 and 100
    squares = round(10_000 * (2500 / 3 - 1250))
    x, y = _precise(50, 0, squares), _precise(100, 0, squares)
    found = inf.two_sample_test((x, "sd"), (y, "sd"), rng=1)
    ends = found.confidence_interval(0.95)
    assert found.parameters["estimate"] == pytest.approx(-50, abs=0.1)
    assert ends.low < -50 < ends.high
    assert ends.half_width < 1.5
    with pytest.raises(ParameterError, match="do not meet"):
        inf.two_sample_test((x, "sd"), (_precise(200, 0, squares), "sd"))


def test_a_centre_off_the_middle_keeps_values_inside_the_range():
    # 0…5 has its centre at 2 steps: values reach three steps above it
    found = inf.moments_of(_precise(2, 0, 0, widest=5), "sd")
    assert (found.low, found.high) == (-1, 5)


def test_curators_answers_carry_the_centre():
    table = pa.table({"x": [30] * 50})
    policy = {
        "policy": {"name": "centres"},
        "budget": {"epsilon": "2e9", "accounting": "pure"},
        "tables": {"t": {"columns": {"x": {"type": "integer", "min": 0, "max": 100}}}},
    }
    curator = dc.open(table, policy=policy, ledger=":memory:")
    answer = curator.sql("SELECT STDDEV(x) AS sd FROM t", epsilon="1e9")
    found = inf.moments_of(answer, "sd")
    assert (found.low, found.high) == (0, 100)
    assert found.low + (found.values[1] / found.values[0] + 1) * 50 == pytest.approx(30)


def test_releases_bring_their_noise():
    release = m.laplace([3.5, 2.25], sensitivity=1, epsilon=1, neighbours="change-one")
    found = inf.noisy(release)
    assert found.noise.step == release.step
    assert found.neighbours == "change-one"
    assert inf.interval(release).high == pytest.approx(release.interval().high, rel=1e-6)


def test_law_records_are_laws():
    assert inf.interval(5, law=LAW.to_dict()).high == 11


# -- refusals ---------------------------------------------------------------------------


def test_mixed_relations_and_units_are_refused():
    a = inf.noisy(record(), "n", {"sex": "F"})
    for other in (record(neighbours="change-one"), record(unit="person")):
        b = inf.noisy(other, "n", {"sex": "F"})
        for mix in (
            lambda b=b: a + b,
            lambda b=b: inf.combine([a, b], np.eye(2)),
            lambda b=b: inf.ratio_interval(a, b),
            lambda b=b: inf.inverse_variance([a, b]),
            lambda b=b: inf.proportion_interval(a, n=b),
        ):
            with pytest.raises(RelationError, match="mixed"):
                mix()
    two = [inf.moments_of(record(u), "sd", {"sex": "F"}) for u in ("add-remove", "change-one")]
    with pytest.raises(RelationError):
        inf.two_sample_test(*two)


def test_unstated_labels_mix_with_stated_ones():
    a, b = inf.noisy(record(), "n", {"sex": "F"}), inf.noisy(3, law=LAW)
    assert (a + b).neighbours == "add-remove"


def test_test_noise_is_refused_everywhere():
    with deterministic(1):
        release = m.geometric(10, sensitivity=1, epsilon=1)
        drawn = LAW.sample(2)
    for bad in (
        lambda: inf.noisy(release),
        lambda: inf.interval(release),
        lambda: inf.combine([release]),
        lambda: inf.noisy(drawn, law=LAW),
        lambda: inf.combine(drawn, np.eye(2), LAW),
        lambda: inf.ump_test(release, 20, "0.5"),
        lambda: inf.interval((Answer(record(), tainted=True), "n")),
        lambda: inf.moments_of(Answer(record(), tainted=True), "sd", {"sex": "F"}),
    ):
        with pytest.raises(TaintedNoiseError):
            bad()


@pytest.mark.parametrize(
    "law", ["laplace", 3, {"law": "cauchy"}, {"law": "discrete-laplace"}, object(), {}]
)
def test_unknown_laws_are_refused(law):
    with pytest.raises(ParameterError):
        inf.interval(3, law=law)
    with pytest.raises(ParameterError):
        inf.combine([3.0], [[1]], law)


def test_noise_must_be_said_once():
    release = m.geometric(10, sensitivity=1, epsilon=1)
    with pytest.raises(ParameterError, match="already says"):
        inf.interval(release, epsilon=1)
    with pytest.raises(ParameterError, match="not both"):
        inf.interval(3, law=LAW, epsilon=1)
    with pytest.raises(ParameterError, match="epsilon alone"):
        inf.interval(3)
    with pytest.raises(ParameterError, match="bring their own"):
        inf.combine([release], laws=LAW)
    with pytest.raises(ParameterError, match="already says"):
        inf.ump_test(release, 20, "0.5", epsilon=1)


def test_contradictory_n_is_refused():
    with pytest.raises(ParameterError, match="contradicts"):
        inf.proportion_test(value=500, n=100, p0=0.5, epsilon=1, noise="geometric")
    with pytest.raises(ParameterError, match="contradicts"):
        inf.proportion_interval(value=-200, n=100, epsilon=1)
    with pytest.raises(ParameterError, match="contradicts"):
        inf.chisquare_gof([100, 100], n=5000, epsilon=1)
    item = inf.noisy(record(public=True), "total", {"sex": "F"})
    assert item.n == 100
    with pytest.raises(ParameterError, match="record, which says 100 rows"):
        inf.mean_interval(item, n=99, sd=1)


@pytest.mark.parametrize("n", [0, -3, 2.5, "100", True, None])
def test_bad_sample_sizes(n):
    with pytest.raises(ParameterError):
        inf.proportion_test(value=3, n=n, p0=0.5, epsilon=1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "abc", None, [1, "x"], True])
def test_bad_values(value):
    with pytest.raises(ParameterError):
        inf.interval(value, law=LAW)


@pytest.mark.parametrize(
    "call",
    [
        lambda: inf.proportion_test(value=3, n=10, p0=0, epsilon=1),
        lambda: inf.proportion_test(value=3, n=10, p0=1.5, epsilon=1),
        lambda: inf.proportion_test(value=3, n=10, p0=0.5, epsilon=1, alternative="both"),
        lambda: inf.proportion_test(value=3, n=10, p0=0.5, epsilon=1, noise="cauchy"),
        lambda: inf.proportion_test(value=3, n=10, p0=0.5, epsilon=0),
        lambda: inf.proportion_test(value=3, n=10, p0=0.5, noise="gaussian", epsilon=1),
        lambda: inf.proportion_test(value=3, n=10, p0=0.5, epsilon=1, method="guess"),
        lambda: inf.proportion_test(value=3, n=10, p0=0.5, epsilon=1, method="montecarlo", draws=3),
        lambda: inf.proportion_test(value=3, n=10, p0=0.5, epsilon=1, method="montecarlo", rng="x"),
        lambda: inf.proportion_interval(value=[1, 2], n=10, epsilon=1),
        lambda: inf.interval(3, 1.5, law=LAW),
        lambda: inf.interval(3, law=LAW, side="left"),
        lambda: inf.interval(3, law=LAW, simultaneous="yes"),
        lambda: inf.combine([1, 2], [[1]], LAW),
        lambda: inf.combine([1, 2], np.eye(2), [LAW]),
        lambda: inf.combine([1, 2], np.eye(2), Geometric(2)),
        lambda: inf.combine([1, 2], [[1, 0], [0, np.nan]], LAW),
        lambda: inf.combine([]),
        lambda: inf.combine([1, 2], np.eye(2), LAW).estimate([1, 2, 3]),
        lambda: inf.combine([1, 2], np.eye(2), LAW).nonnegative(total=-1),
        lambda: inf.chisquare_gof([5], epsilon=1),
        lambda: inf.chisquare_gof([5, 5], [0.5, 0.6], epsilon=1),
        lambda: inf.chisquare_gof([5, 5], [1, 0], epsilon=1),
        lambda: inf.chisquare_gof([50, 50], epsilon=1, method="quadratic"),
        lambda: inf.chisquare_gof([50, 50], epsilon=1, method="guess"),
        lambda: inf.chisquare_independence([50, 50, 50, 50], epsilon=1),
        lambda: inf.chisquare_independence([50, 50, 50], epsilon=1, shape=(2, 2)),
        lambda: inf.two_sample_test([1, 2], [3, 4], low=0, high=10),
        lambda: inf.two_sample_test([1, 2], [3, 4], low=10, high=0, epsilon=1),
        lambda: inf.two_sample_test(["a"], [3, 4], low=0, high=10, epsilon=1),
        lambda: inf.two_sample_test([1], inf.moments([3], 0, 10, 1), low=0, high=10, epsilon=1),
        lambda: inf.two_sample_test([1], [2], low=0, high=10, epsilon=1, draws=1),
        lambda: inf.paired_test([1, 2], [3], bound=3, epsilon=1),
        lambda: inf.rank_test([1], [2], epsilon=1),
        lambda: inf.normal_mean_interval([1.0, 2, 3, 4], epsilon=1, bound=10),
        lambda: inf.normal_mean_interval([1.0, 2, 3, 4], epsilon=1, sigma=1),
        lambda: inf.normal_mean_interval([1.0, 2], epsilon=1, sigma=1, bound=10),
        lambda: inf.normal_mean_interval([1.0] * 9, epsilon=1, sigma_bounds=(2, 1), bound=10),
        lambda: inf.test_of_tests(3, len, epsilon=1, parts=5, alpha0=0.1),
        lambda: inf.test_of_tests([1.0, 2], len, epsilon=1, parts=1, alpha0=0.1),
        lambda: inf.ump_test(m.gaussian(3, 1, rho=1), 10, "0.5"),
        lambda: inf.ump_test(3.5, 10, "0.5"),
        lambda: inf.Tulap(1.5),
        lambda: inf.Laplace(-1),
        lambda: inf.Laplace(1, copies=0),
        lambda: inf.usefulness(None, -1, epsilon=1),
        lambda: inf.usefulness_of_runs([], 1),
        lambda: inf.errors([1, 2], [1]),
        lambda: inf.parametric_bootstrap(0, print, print, draws=10),
        lambda: inf.noisy(record(), "mean", {"sex": "F"}),
        lambda: inf.noisy(record(), "nobody"),
        lambda: inf.noisy(record()),
        lambda: inf.noisy(record(), "n", {"sex": "X"}),
        lambda: inf.noisy(record(), "n", {"age": 3}),
        lambda: inf.noisy(record(public=True), "n", {"sex": "F"}),
        lambda: inf.moments_of(record(), "n", {"sex": "F"}),
        lambda: inf.moments_of(record(), "sd"),
        lambda: inf.noisy(m.exponential([1, 2], 1, 1)),
        lambda: inf.noisy({"discreet": 99}, "n"),
        lambda: inf.noisy("no json", "n"),
    ],
)
def test_bad_input_is_one_clear_error(call):
    with pytest.raises(DiscreetError):
        call()


def test_a_damaged_record_is_refused_before_use():
    data = record().to_dict()
    data["parts"][0]["law"]["scale"] = "-3"
    with pytest.raises(ParameterError):
        inf.noisy(data, "n")
    data = record().to_dict()
    data["parts"][0]["values"] = [1.5, 2]
    with pytest.raises(ParameterError, match="integer"):
        inf.noisy(data, "n")


def test_private_values_never_decide_whether_a_call_fails():
    strange = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308] * 20)
    inf.two_sample_test(strange, strange, low=0, high=1, epsilon=1)
    inf.paired_test(strange, strange, bound=1, epsilon=1)
    inf.rank_test(strange, strange, epsilon=1)
    inf.signed_rank_test(strange, strange, epsilon=1)
    inf.normal_mean_interval(np.tile(strange, 50), epsilon=1, sigma=1, bound=10)
    inf.normal_mean_interval(np.tile(strange, 50), epsilon=1, sigma_bounds=(1, 2), bound=10)
    inf.normal_mean_interval(np.tile(strange, 50), epsilon=1, sigma=1, delta="1e-6")


# -- bought error estimates ---------------------------------------------------------------


class Asked:
    """A curator that answers every question with one record."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def sql(self, query, *, epsilon=None, delta=None, fresh=False):
        assert fresh
        self.asked.append((query, epsilon, delta))
        return self.answer


def test_error_of_a_published_number():
    curator = Asked(Answer(record()))
    found = inf.error_of(curator, 0, "SELECT …", "0.5", column="n", row={"sex": "F"})
    assert curator.asked == [("SELECT …", "0.5", None)]
    assert found.value == 100
    assert found.cost == found.total_cost == Fraction(1, 2)
    assert tuple(found.corrected(0, 0.95)) == (94, 106)


def test_error_of_an_answer_adds_up_the_costs():
    curator = Asked(Answer(record()))
    found = inf.error_of(curator, Answer(record()), "SELECT …", "0.5", column="n")
    assert found.value.tolist() == [0, 0]
    assert found.total_cost == 1
    assert "in total ε=1" in repr(found)


def test_gaussian_answers_have_intervals_too():
    item = inf.noisy(record(law=DiscreteGaussian(4)), "n", {"sex": "F"})
    assert tuple(inf.interval(item)) == (92, 108)


def test_a_note_is_part_of_what_a_test_shows():
    counts = m.geometric([[3, 1], [2, 4]], sensitivity=1, epsilon="0.1")
    found = inf.chisquare_independence(counts, draws=99)
    note = found.parameters["note"]
    assert note in repr(found)
    assert note in found._repr_html_()


# -- p-values that are bounds --------------------------------------------------------------


def test_a_p_value_that_draws_cannot_tell_from_smaller_ones_is_printed_as_a_bound():
    far = inf.chisquare_gof([900, 100], [0.5, 0.5], law=inf.Laplace(1), method="montecarlo", rng=1)
    assert far.pvalue == far.floor == 1 / 2000
    assert far.at_floor
    assert "p-value      ≤ 0.0005 (greater)" in far.summary()
    assert "pvalue=≤ 0.0005," in repr(far)
    near = inf.chisquare_gof([505, 495], [0.5, 0.5], law=inf.Laplace(1), method="montecarlo", rng=1)
    assert not near.at_floor
    assert "≤" not in repr(near)
    closed = inf.chisquare_gof([900, 100], [0.5, 0.5], law=DiscreteGaussian(4), method="quadratic")
    assert closed.floor is None
    assert not closed.at_floor


def test_only_those_of_several_p_values_that_are_bounds_are_printed_so():
    found = inf.proportion_test([90, 52], 100, 0.5, law=inf.Laplace(1), method="montecarlo", rng=1)
    assert found.at_floor.tolist() == [True, False]
    assert "pvalue=[≤ 0.0" in repr(found)
    assert repr(found).count("≤") == 1


@pytest.mark.parametrize(
    "test",
    [
        inf.two_sample_test,
        lambda a, b: inf.anova_test([a, b]),
    ],
)
def test_tests_of_means_state_their_floor(test):
    groups = [inf.moments([low] * 500, 0, 10, epsilon=5) for low in (1.0, 9.0)]
    found = test(*groups)
    assert found.at_floor
    assert f"≤ {found.floor:.6g}" in repr(found)
