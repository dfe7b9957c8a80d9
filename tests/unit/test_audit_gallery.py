"""The gallery: every known fault is flagged, every shipped mechanism passes; the kit for others.

Each sound exhibit is accused with probability at most 1e-10, 13 of them: 2e-9 in all.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from discreet import audit, noise
from discreet import mechanisms as m
from discreet.audit import _gallery as g
from discreet.cli import main
from discreet.errors import ParameterError

EXHIBITS = audit.exhibits()


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.name)
def test_the_auditor_is_right_about(exhibit):
    verdict = exhibit.audit()
    assert verdict.violated == exhibit.broken, verdict


def test_the_faults_the_field_knows_are_all_there():
    names = " ".join(e.name for e in EXHIBITS if e.broken)
    for fault in ("float Laplace", "classic Gaussian", "vector 3", "vector 4", "vector 5",
                  "vector 6", "noisy max", "threshold", "unclipped", "change-one",
                  "probabilistic"):  # fmt: skip
        assert fault in names


def test_every_shipped_mechanism_stands_in_the_gallery():
    shipped = {name for name in m.__all__ if name.islower()}
    helpers = {"interval_given_release", "local_sensitivity_median", "sensitivity",
               "smooth_sensitivity_median", "recorded", "recording"}  # fmt: skip
    assert shipped - helpers <= {e.name for e in EXHIBITS if not e.broken}


def test_classic_formula_is_broken_where_the_gallery_says():
    # by the exact profile of the Gaussian: the formula promises less than is true at ε = 5
    sigma = g.classic_sigma(20, 1e-6)
    mu = 1 / sigma

    def phi(t):
        return math.erfc(-t / math.sqrt(2)) / 2

    def true(e):
        return phi(mu / 2 - e / mu) - math.exp(e) * phi(-mu / 2 - e / mu)

    assert g.classic_profile(20) == pytest.approx(1e-6)
    assert true(20) == pytest.approx(161e-6, rel=0.01)
    assert true(5) > g.classic_profile(5) + 0.05


def test_four_outputs_have_the_law_of_the_slide():
    # frequencies of 10⁵ draws within 7 sigma: false alarm below 1e-10
    e = math.e / (1 + math.e) * 0.9
    for bit, law in ((0, [0.1, e, 0.9 - e, 0]), (1, [0, 0.9 - e, e, 0.1])):
        seen = np.bincount(g.four_outputs(bit, 100_000), minlength=4) / 100_000
        assert np.abs(seen - law).max() < 7 * math.sqrt(0.25 / 100_000)
    # merged, it is still (1, 0.1)-DP in the approximate sense
    assert not audit.estimate(g.merged_outputs, 0, 1, 1, "0.1", confidence="0.9999999999").violated


def test_no_single_ticket_is_likely():
    tickets = g.rare_tickets(1, 10_000)
    shown = tickets[tickets > 0]
    assert len(np.unique(shown)) == len(shown)
    assert (shown % 2 == 1).all()


def test_rows_and_text():
    few = [e for e in EXHIBITS if e.name in ("half the noise", "geometric")]
    seen = []
    result = audit.gallery(few, draws=50_000, each=seen.append)
    assert result.ok
    assert [f.exhibit.name for f in seen] == ["half the noise", "geometric"]
    assert repr(result).splitlines()[0].startswith("half the noise  flagged  ε ≥ 1.")
    row = result.to_dicts()[1]
    assert (row["broken"], row["flagged"], row["draws"]) == (False, False, 50_000)


def test_a_row_says_which_claim_its_bound_is_held_against():
    # of the classic Gaussian a whole profile is claimed: its name says ε = 20, the bound does not
    few = [e for e in EXHIBITS if e.name in ("classic Gaussian at ε = 20", "threshold without δ")]
    result = audit.gallery(few)
    classic, keys = result.to_dicts()
    assert classic["epsilon_lower_bound"] > classic["claimed_epsilon"]
    assert classic["at_delta"] == g.classic_profile(classic["claimed_epsilon"])
    words = f"ε = {classic['claimed_epsilon']:.6g}, δ = {classic['at_delta']:.3g}"
    assert (classic["claimed"], keys["claimed"]) == (words, "ε = 1, δ = 0.01")
    first, second = repr(result).splitlines()
    assert f"claimed {words}  " in first
    assert "claimed ε = 1, δ = 0.01  " in second


def test_a_wrong_verdict_is_shown_as_wrong():
    few = [g.Exhibit("half the noise, called sound", g.half_noise, 0, 1, 1)]
    result = audit.gallery(few)
    assert not result.ok
    assert "WRONG" in repr(result)


def test_other_libraries_that_are_installed_are_audited():
    shown = audit.gallery(e for e in audit.peers() if e.name.startswith("numpy"))
    assert [row["flagged"] for row in shown.to_dicts()] == [True, True]
    # nobody has said whether they are sound, so no verdict is wrong
    assert [row["right"] for row in shown.to_dicts()] == [None, None]
    assert shown.ok
    assert "WRONG" not in repr(shown)


# -- the command -----------------------------------------------------------------------


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        main(["audit", *arguments])
    return left.value.code, capsys.readouterr()


def test_the_command_prints_the_gallery(capsys, monkeypatch):
    few = tuple(e for e in EXHIBITS if e.name in ("float Laplace", "geometric"))
    monkeypatch.setattr(audit, "exhibits", lambda: few)
    code, shown = run(capsys, "--gallery", "--peers")
    assert code == 0
    assert "every verdict is right" in shown.out
    for word in ("float Laplace", "Known faults", "flagged", "Shipped", "passed", "numpy: normal",
                 "claimed", "ε = 1, δ = 1e-05"):  # fmt: skip
        assert word in shown.out
    code, shown = run(capsys, "--gallery", "--draws", "20000", "--json")
    result = json.loads(shown.out)["result"]
    assert result["ok"]
    assert [row["flagged"] for row in result["rows"]] == [True, False]
    assert [row["claimed"] for row in result["rows"]] == ["ε = 1", "ε = 1"]
    assert [row["claimed_epsilon"] for row in result["rows"]] == [1, 1]


def test_the_command_says_when_the_auditor_is_wrong(capsys, monkeypatch):
    wrong = (g.Exhibit("half the noise, called sound", g.half_noise, 0, 1, 1),)
    monkeypatch.setattr(audit, "exhibits", lambda: wrong)
    assert "these are sound: half the noise, called sound" in run(capsys, "--gallery")[1].out
    missed = (
        g.Exhibit(
            "hardly broken", partial(g._added, m.laplace), 0, 1, "0.99", fault="one per cent"
        ),
    )
    monkeypatch.setattr(audit, "exhibits", lambda: missed)
    assert "so few draws: hardly broken" in run(capsys, "--gallery", "--draws", "1000")[1].out


def test_the_command_needs_to_know_what_to_audit(capsys):
    code, shown = run(capsys)
    assert code == 2
    assert "discreet audit people.toml" in shown.err


# -- the kit ----------------------------------------------------------------------------


LAW = noise.DiscreteLaplace(1)


def failures(mechanism, pairs=((0, 1),), epsilon=1, **options):
    report = audit.check_mechanism(
        mechanism, pairs, epsilon, draws=20_000, confidence="0.9999999999", **options
    )
    assert report.ok == (not report.failures)
    return [check.name for check in report.failures]


def test_a_sound_mechanism_passes_the_kit():
    assert not failures(lambda x, n: x + LAW.sample(n), [(0, 1), (1, 0), (5, 6)])
    assert not failures(lambda x, n: (x + LAW.sample(n)) * 0.25)
    assert not failures(lambda _, n: np.zeros(n))


def test_the_kit_finds_each_fault_by_its_name():
    assert failures(lambda x, n: np.full(n, x)) == ["randomness", "claim"]
    assert failures(lambda x, n: np.full(n, x + LAW.sample(1)[0])) == ["freshness"]
    seeded = lambda x, n: x + 4 * np.random.default_rng(1).integers(-99, 99, n)  # noqa: E731
    assert "freshness" in failures(seeded)
    floats = lambda x, n: x + np.random.default_rng().laplace(size=n)  # noqa: E731
    assert "lattice" in failures(floats)
    assert "lattice" not in failures(floats, lattice=False)
    assert "numbers" in failures(lambda x, n: np.where(LAW.sample(n) == 0, np.nan, 0.0) + 0 * x)
    assert "form" in failures(lambda x, n: np.zeros((n, 1 + x)))
    half = noise.DiscreteLaplace(Fraction(1, 2))
    assert failures(lambda x, n: x + half.sample(n)) == ["claim"]


def test_the_worst_pair_decides():
    def clipped_too_late(x, n):
        return x + LAW.sample(n)

    report = audit.check_mechanism(clipped_too_late, [(0, 1), (0, 5)], 1, draws=20_000)
    assert [(check.name, check.pair) for check in report.failures] == [("claim", 2)]
    assert repr(report).splitlines()[-1] == "1 found; an audit can accuse, not prove"
    assert len(report.estimates) == 2


def test_the_kit_needs_a_pair():
    with pytest.raises(ParameterError, match="pair"):
        audit.check_mechanism(lambda x, n: np.full(n, x), [], 1)
