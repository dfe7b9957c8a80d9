"""The black-box auditor itself: bounds by enumeration, false alarms, power, families of events."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import beta

from discreet import audit, noise
from discreet import mechanisms as m
from discreet import privacy as p
from discreet.audit import _draws, _events
from discreet.audit._estimate import _stages
from discreet.errors import ParameterError
from discreet.noise._deterministic import deterministic

SURE = "0.9999999999"
"""A false accusation has probability at most 1e-10."""


def shifted(law):
    return lambda x, n: x + law.sample(n)


@pytest.mark.parametrize(("hits", "draws"), [(0, 10), (3, 10), (10, 10), (57, 1000)])
def test_clopper_pearson_inverts_the_binomial(hits, draws):
    low, high = audit.clopper_pearson(hits, draws, 0.01)

    def tail(q, ks):
        return sum(math.comb(draws, k) * q**k * (1 - q) ** (draws - k) for k in ks)

    if hits:
        assert tail(low, range(hits, draws + 1)) == pytest.approx(0.01, rel=1e-8)
    else:
        assert low == 0
    if hits < draws:
        assert tail(high, range(hits + 1)) == pytest.approx(0.01, rel=1e-8)
    else:
        assert high == 1


def test_clopper_pearson_keeps_its_digits_at_tiny_errors():
    low, high = audit.clopper_pearson(40, 100_000, 1e-15)
    assert low == pytest.approx(beta.ppf(1e-15, 40, 99_961), rel=1e-9)
    assert high == pytest.approx(beta.isf(1e-15, 41, 99_960), rel=1e-9)


def test_false_alarms_are_as_rare_as_promised():
    # an exactly ε-DP mechanism at confidence 90 %, 300 audits with stages: ≤ 10 % + six sigma
    law = noise.DiscreteLaplace(1)
    alarms = [
        audit.estimate(shifted(law), 0, 1, 1, draws=8000, confidence="0.9", workers=1).violated
        for _ in range(300)
    ]
    assert len(_stages(8000)) > 1
    assert np.mean(alarms) < 0.1 + 6 * math.sqrt(0.09 / 300)


def test_false_alarms_with_many_features_and_a_mutant_that_tests_what_it_searched():
    # honest: at most 10 % + six sigma of 300. The mutant chooses the event on the draws that test
    # it, and is accused in more than a third of the audits (below the bar with p < 1e-9)
    law, wide = noise.DiscreteLaplace(1), noise.DiscreteLaplace(3)
    bar = 0.1 + 6 * math.sqrt(0.09 / 300)

    def draw(x, n):
        return np.column_stack([x + law.sample(n), wide.sample(n)])

    def honest():
        return audit.estimate(draw, 0, 1, 1, draws=3000, confidence="0.9", workers=1)

    def mutant():
        xs, ys = draw(0, 3000), draw(1, 3000)
        found = _events.search(xs, ys, ((1.0, 0.0),), 1.96)
        return audit.estimate(
            lambda drawn, _: drawn, xs, ys, 1,
            draws=3000, event=found.event, confidence="0.9", workers=1,
        )  # fmt: skip

    assert np.mean([honest().violated for _ in range(300)]) < bar
    assert np.mean([mutant().violated for _ in range(300)]) > bar


def test_power_at_ten_percent_excess():
    verdict = audit.estimate(
        shifted(noise.DiscreteLaplace("0.9")), 0, 1, 1, draws=400_000, confidence=SURE
    )
    assert verdict.violated
    assert verdict.refutes(1)
    assert 1 < verdict.epsilon_lower_bound < 1 / 0.9
    assert verdict.visible_epsilon < 1.15


def test_the_smallest_visible_excess_is_one_that_is_seen():
    # at the excess that is reported as visible with power 99 %, 40 audits: fewer than 20
    # fail with probability below 1e-9 if the search finds the event (it is a half-line)
    seen = audit.estimate(shifted(noise.DiscreteLaplace(1)), 0, 1, 1, draws=20_000)
    law = noise.DiscreteLaplace(1 / (seen.visible_epsilon * 1.02))
    caught = [audit.estimate(shifted(law), 0, 1, 1, draws=20_000).violated for _ in range(40)]
    assert sum(caught) > 20
    # and a third of that excess is seen rarely: the figure says something
    law = noise.DiscreteLaplace(1 / (1 + (seen.visible_epsilon - 1) / 3))
    caught = [audit.estimate(shifted(law), 0, 1, 1, draws=20_000).violated for _ in range(40)]
    assert sum(caught) < 20


@pytest.mark.parametrize(
    ("data", "side"),
    [((1, 0), "first input against second"), ((0, 1), "second input against first")],
)
def test_hits_are_printed_in_the_order_of_the_label(data, side):
    verdict = audit.estimate(
        lambda x, n: np.full(n, x), *data, 1, draws=2000, event=lambda o: o == 1, confidence=SURE
    )
    assert verdict.hits == (2000 * data[0], 2000 * data[1])  # by input, whatever the label
    assert f"({side}); 2000 against 0 hits in 2000 tests each" in repr(verdict)


def test_rarer_events_than_reported_cannot_refute():
    # reveals everything with probability a: below the visible probability nothing can be said
    seen = audit.estimate(shifted(noise.DiscreteLaplace(1)), 0, 1, 1, draws=20_000)
    tested, share = seen.tested, 0.5 * (1 - seen.confidence)
    hits = math.floor(seen.visible_probability * tested) - 1
    low, _ = audit.clopper_pearson(hits, tested, share / 2)
    _, high = audit.clopper_pearson(0, tested, share / 2)
    assert low <= math.e * high


def test_sequential_stopping_saves_draws_on_gross_violations():
    verdict = audit.estimate(shifted(noise.DiscreteLaplace("0.25")), 0, 1, 1, draws=640_000)
    assert verdict.violated
    assert verdict.draws <= 10_000
    assert sum(_stages(640_000)) == 640_000


def test_both_directions_are_searched():
    # only the second input can give 2: the leak is visible from there alone
    verdict = audit.estimate(lambda k, n: np.arange(n) % k, 2, 3, 3, draws=10_000, confidence=SURE)
    assert verdict.violated
    assert "second input" in verdict.event.words


def test_vector_outputs():
    law = noise.DiscreteLaplace(1)

    def draw(shift, n):
        return np.column_stack([law.sample(n) * 0, (law.sample(n) + shift).clip(-3, 3)])

    verdict = audit.estimate(draw, 0, 2, 2, draws=40_000, confidence=SURE)
    assert not verdict.violated
    assert verdict.refutes(1)


def test_learned_events_find_what_no_single_coordinate_shows():
    # ten coordinates, each moved a little: only their weighted sum tells the inputs apart
    law = noise.DiscreteLaplace(2)
    signs = np.array([1, -1] * 5)

    def draw(shift, n):
        return law.sample(10 * n).reshape(n, 10) + shift * signs

    def alone(shift, n):
        return draw(shift, n)[:, :1]

    assert not audit.estimate(alone, 0, 1, 1, draws=100_000, confidence=SURE).violated
    verdict = audit.estimate(draw, 0, 1, 1, draws=100_000, confidence=SURE)
    assert verdict.violated
    assert "learned" in verdict.event.words


@pytest.mark.parametrize("kind", ["laplace", "normal"])
def test_low_bits_of_float_noise_are_found_without_being_named(kind):
    rng = np.random.default_rng(3)
    verdict = audit.estimate(
        lambda x, n: x + getattr(rng, kind)(size=n), 0.0, 1.0, 1, "0.01", 10_000, confidence=SURE
    )
    assert verdict.violated
    assert "low bits" in verdict.event.words


def test_low_bits_of_integers():
    # even noise on an odd and an even count
    law = noise.DiscreteLaplace(50)
    verdict = audit.estimate(lambda x, n: x + 2 * law.sample(n), 0, 1, 1, confidence=SURE)
    assert verdict.violated


def test_not_being_a_number_is_an_event():
    def draw(x, n):
        values = noise.DiscreteLaplace(1).sample(n).astype(float)
        return np.where(values == x, np.nan, values)

    assert audit.estimate(draw, 0, 9, 1, draws=10_000, confidence=SURE).violated


def test_texts_are_outputs_too():
    def draw(x, n):
        return np.where(noise.uniform_below(4, n) < x, "tea", "coffee")

    fair = audit.estimate(draw, 1, 3, math.log(3) + 1e-9, draws=40_000, confidence=SURE)
    assert not fair.violated
    assert fair.epsilon_lower_bound > 0.9
    assert audit.estimate(draw, 1, 3, 1, draws=200_000, confidence=SURE).violated


def test_delta_is_allowed_for():
    # reveals everything once in twenty times
    def leak(value, n):
        return np.where(noise.uniform_below(20, n) == 0, value, 0)

    assert audit.estimate(leak, 1, 2, 1, "0.06", 40_000).epsilon_lower_bound == 0
    verdict = audit.estimate(leak, 1, 2, 3, draws=40_000)
    assert verdict.violated
    assert 0 < verdict.delta_lower_bound < 0.05


def test_a_profile_is_walked():
    # a Gaussian at its own loss passes at every point; at the loss of a wider one it falls
    law = noise.DiscreteGaussian(20)

    def on(x, n):
        return x * 20 + law.sample(n)

    assert not audit.estimate(on, 0, 1, p.Gaussian(1), confidence=SURE).violated
    verdict = audit.estimate(on, 0, 1, p.Gaussian("0.8"), confidence=SURE)
    assert verdict.violated
    assert verdict.delta > 0
    assert audit.estimate(on, 0, 1, lambda e: p.Gaussian("0.8").delta(e), confidence=SURE).violated


def test_probabilistic_dp_is_tested_output_by_output():
    # one output of probability 0.758 against e·0.242: not probabilistic (1, 0.1), yet (1, 0.1)-DP
    def answers(x, n):
        return np.searchsorted([0.758 if x else 0.242], np.random.default_rng().random(n))

    assert audit.estimate(
        answers, 1, 0, 1, "0.1", confidence=SURE, definition="probabilistic"
    ).violated
    assert not audit.estimate(answers, 1, 0, 1, "0.1", confidence=SURE).violated


def test_a_fixed_event_is_tested_on_all_draws():
    law = noise.DiscreteLaplace("0.5")
    verdict = audit.estimate(
        shifted(law), 0, 1, 1, draws=20_000, event=lambda o: o >= 1, confidence=SURE
    )
    assert verdict.violated
    assert verdict.tested == verdict.draws == 20_000
    assert verdict.event(np.array([0, 1])).tolist() == [False, True]


def constant(x, n):
    return np.full(n, x)


def noisy(x, n):
    return x + noise.DiscreteLaplace("0.5").sample(n)


class Seeded:
    """A mechanism that carries its generator: copies of it repeat each other."""

    def __init__(self):
        self.generator = np.random.default_rng(1)

    def __call__(self, x, n):
        return x + self.generator.normal(size=n)


def test_workers_that_repeat_each_other_are_noticed():
    # processes import a mechanism by name, which a test module without a package has not;
    # the check itself is what matters here
    parts = [Seeded()(0, 1000), Seeded()(0, 1000)]
    with pytest.raises(ParameterError, match="same outputs"):
        _draws._refuse_repeats(parts)
    _draws._refuse_repeats([constant(1, 50), constant(1, 50)])
    _draws._refuse_repeats([noisy(0, 1000), noisy(0, 1000)])


def test_repeatable_noise_is_drawn_by_one_thread():
    def run():
        with deterministic(7):
            return audit.estimate(noisy, 0, 1, 2, draws=200_000, workers=4)

    first, second = run(), run()
    assert first.hits == second.hits
    assert first.event.words == second.event.words


@pytest.mark.races
def test_processes_draw_too():
    from discreet.audit import _gallery

    verdict = audit.estimate(
        _gallery.half_noise, 0, 1, 1, draws=20_000, workers=2, processes=True, confidence=SURE
    )
    assert verdict.violated


def test_a_deterministic_mechanism_is_told_at_once():
    verdict = audit.estimate(constant, 1, 2, 5, draws=10_000, confidence=SURE)
    assert verdict.violated
    assert not audit.estimate(constant, 1, 1, 0, draws=10_000, confidence=SURE).violated


@pytest.mark.races
def test_progress_is_shown_when_it_takes_long(capsys, monkeypatch):
    monkeypatch.setattr(_draws, "_PATIENCE", 0.0)
    audit.estimate(noisy, 0, 1, 1, draws=10_000, show_progress=True)
    assert "auditing" in capsys.readouterr().err
    audit.estimate(noisy, 0, 1, 1, draws=10_000)
    assert not capsys.readouterr().err


@pytest.mark.races
def test_events_print_and_results_print():
    verdict = audit.estimate(noisy, 0, 1, 1, draws=20_000)
    assert repr(verdict).startswith("VIOLATED: claimed ε = 1; certified ε ≥")
    assert verdict.event.words in repr(verdict)
    assert repr(verdict.event) == verdict.event.words
    assert verdict.seconds < time.monotonic()


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ([1, 0, 0], "< 10"),
        ([0, 0, 1], "≥ 20"),
        ([0, 1, 0], "in [10, 20)"),
        ([1, 0, 1], "in 2 of 3 bins"),
        ([1, 1, 1], "being anything"),
    ],
)
def test_sets_are_described(inside, words):
    assert _events._where(np.array(inside, dtype=bool), np.array([10, 20])) == words


@pytest.mark.parametrize(
    "options",
    [
        {"draws": 10},
        {"draws": 1000.5},
        {"delta": 1},
        {"delta": -0.1},
        {"confidence": 1},
        {"epsilon": -1},
        {"epsilon": p.Pure(1), "delta": "0.1"},
        {"epsilon": lambda _: 1.0},
        {"definition": "certain"},
        {"workers": 0},
    ],
)
def test_bad_audits_are_refused(options):
    with pytest.raises(ParameterError):
        audit.estimate(constant, 0, 1, **{"epsilon": 1} | options)


def test_a_mechanism_must_return_what_was_asked():
    with pytest.raises(ParameterError, match="n outputs"):
        audit.estimate(lambda _, n: np.zeros(n // 2), 0, 1, 1)
    with pytest.raises(ParameterError, match="numbers or texts"):
        audit.estimate(lambda _, n: np.array([object()] * n), 0, 1, 1)


def test_probabilistic_dp_is_never_accused_by_a_union_of_outputs():
    # probabilistic (1, 0.1) holds: a tenth of the draws is unlike the other side, the rest differs
    # by e^0.9. Of their union, P = 0.1 + 0.9·0.71 is above δ and above e·Q = e·0.9·0.29
    def draw(x, n):
        rare = noise.uniform_below(10, n) == 0
        side = np.asarray(m.randomized_response(np.full(n, x), epsilon="0.9").value)
        usual = 1000 * side + np.asarray(noise.uniform_below(1000, n))
        return np.where(rare, 5000 + 1000 * x + np.asarray(noise.uniform_below(900, n)), usual)

    options = {"draws": 100_000, "confidence": SURE, "definition": "probabilistic"}
    assert not audit.estimate(draw, 0, 1, 1, "0.1", **options).violated
    union = np.array([np.isin(draw(x, 100_000) // 1000, (0, 5)).mean() for x in (0, 1)])
    assert union[0] > max(0.2, math.e * union[1])


@pytest.mark.parametrize("mechanism", [lambda data: data, lambda: 0, 7])
def test_what_cannot_be_called_with_data_and_a_number_is_refused(mechanism):
    with pytest.raises(ParameterError, match=r"called as mechanism\(data, n\)"):
        audit.estimate(mechanism, 0, 1, 1, draws=1000)


def test_a_type_error_inside_a_mechanism_is_its_own():
    with pytest.raises(TypeError, match="unsupported"):
        audit.estimate(lambda data, _: data + None, 0, 1, 1, draws=1000)


def test_what_draws_may_miss_is_said_and_not_below_what_they_certified():
    # an exact count certifies far more than the smallest ε that could have been seen
    verdict = audit.estimate(lambda x, n: np.full(n, x), 0, 1, 1, draws=20_000)
    assert verdict.epsilon_lower_bound > verdict.visible_epsilon
    assert f"may pass below ε = {verdict.visible_epsilon:.4g}" in repr(verdict)
    assert "at best" not in repr(verdict)


def test_forms_that_change_by_chance_are_no_accusation():
    """A kit that says "it depends on the input" of them would be wrong; it states what it saw."""
    widths = itertools.cycle([1, 2])

    def ragged(_, n):
        return np.zeros((n, next(widths)))

    (check, _) = audit.check_mechanism(ragged, [(0, 1)], 1).checks
    assert (check.name, check.passed, check.words) == (
        "form", False, "calls differ in kind or shape",
    )  # fmt: skip
