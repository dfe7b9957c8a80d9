"""Composition against dp-accounting: time ratios in one run, and how the answers differ.

Both sides get the better of two runs; ours start from cold caches.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from discreet import privacy as p
from discreet.privacy._compose import clear_caches


def _best(run):
    best, value = float("inf"), None
    for _ in range(2):
        clear_caches()
        start = time.perf_counter()
        value = run()
        best = min(best, time.perf_counter() - start)
    return best, value


def _different_laplace():
    from dp_accounting.pld import privacy_loss_distribution as pld

    epsilons = np.random.default_rng(0).uniform(0.01, 0.1, 1000)

    def ours():
        return p.compose([p.Laplace(float(e)) for e in epsilons]).epsilon(1e-6)

    def theirs():
        total = pld.identity(value_discretization_interval=1e-4)
        for e in epsilons:
            one = pld.from_laplace_mechanism(1 / e, value_discretization_interval=1e-4)
            total = total.compose(one)
        return total.get_epsilon_for_delta(1e-6)

    return "1000 different Laplace losses, one by one", ours, theirs


def _equal_laplace():
    from dp_accounting.pld import privacy_loss_distribution as pld

    def ours():
        return p.compose([p.Laplace("0.1")] * 10_000).epsilon(1e-6)

    def theirs():
        one = pld.from_laplace_mechanism(10.0, value_discretization_interval=1e-4)
        return one.self_compose(10_000).get_epsilon_for_delta(1e-6)

    return "10 000 equal Laplace losses", ours, theirs


def _sampled_gaussian():
    from dp_accounting.pld import privacy_loss_distribution as pld

    def ours():
        return p.compose([p.sample(p.Gaussian(1), "0.01")] * 1000).epsilon(1e-6)

    def theirs():
        one = pld.from_gaussian_mechanism(
            1.0, sampling_prob=0.01, value_discretization_interval=1e-4
        )
        return one.self_compose(1000).get_epsilon_for_delta(1e-6)

    return "1000 Poisson-sampled Gaussian steps", ours, theirs


def _lattice_gaussian():
    from dp_accounting.pld import privacy_loss_distribution as pld

    def ours():
        return p.compose([p.DiscreteGaussian(20, 1)] * 1000).epsilon(1e-6)

    def theirs():
        one = pld.from_discrete_gaussian_mechanism(20.0, value_discretization_interval=1e-4)
        return one.self_compose(1000).get_epsilon_for_delta(1e-6)

    return "1000 discrete Gaussian losses", ours, theirs


def _small_delta():
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    def ours():
        return p.compose([p.Pure("0.1")] * 1000).epsilon(1e-14)

    def theirs():
        one = pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(0.1, 0), value_discretization_interval=1e-4
        )
        return one.self_compose(1000).get_epsilon_for_delta(1e-14)

    return "1000 pure losses at δ = 1e-14 (truth 28.44753)", ours, theirs


def main() -> None:
    """Print one line per task: ε of both, and how many times faster we are."""
    print("accounting, against dp-accounting (ratio > 1: discreet is faster)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in (
            _different_laplace,
            _equal_laplace,
            _sampled_gaussian,
            _lattice_gaussian,
            _small_delta,
        ):
            name, ours, theirs = make()
            our_time, our_epsilon = _best(ours)
            their_time, their_epsilon = _best(theirs)
            print(
                f"  {name:48s} {their_time / our_time:7.1f} ×   "
                f"ε {our_epsilon:.6f}  peer {their_epsilon:.6f}"
            )


if __name__ == "__main__":
    main()
