"""Net of ``privacy``: what losses say of themselves, alone, composed, sampled and in groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction as F
from functools import partial

import numpy as np
from tests.snapshots import Case, quiet, rough

from discreet import noise
from discreet import privacy as p
from discreet.privacy import _additive, _convert, _kov, _pair, _pld
from discreet.privacy._loss import PrivacyLoss

EPSILONS = (0.0, 1e-9, 0.003, 0.1, 0.5, 1.0, 1.7, 3.0, 7.5, 20.0, 100.0, 1000.0)
DELTAS = ("1e-300", "1e-100", "1e-40", "1e-12", "1e-6", "0.001", "0.05", "0.4", "0.9")
ORDERS = ("1.0000000001", "1.01", "1.5", 2, 3, 8, 64, 1000)
RATES = (0.0, 0.05, 0.5, 1.0)


def losses() -> dict[str, PrivacyLoss]:
    """Losses of every kind, at usual and at extreme parameters."""
    made: dict[str, PrivacyLoss] = {}
    made |= {f"pure {e}": p.Pure(e) for e in (0, "1e-9", "0.001", "0.1", 1, "2.5", 30, 700)}
    made |= {
        f"approx {e} {d}": p.Approx(e, d)
        for e, d in ((0, "1e-6"), ("0.1", "1e-9"), (1, "1e-6"), (3, "0.2"), (40, "0.5"))
    }
    made |= {f"zcdp {r}": p.Zcdp(r) for r in ("1e-9", "0.001", "0.1", 1, 50)}
    made |= {f"zcdp {r} {d}": p.Zcdp(r, d) for r, d in (("0.1", "1e-6"), (2, "0.1"))}
    made |= {
        f"concentrated {m} {t}": p.Concentrated(m, t)
        for m, t in (("0.005", "0.1"), ("0.001", "0.1"), (0, 1), (9, 2))
    }
    made["renyi one"] = p.Renyi(alpha=8, epsilon="0.5")
    made["renyi"] = p.Renyi({"1.5": "0.02", 2: "0.1", 8: "0.5", 64: 3, 256: "11.5"})
    made["renyi zero"] = p.Renyi({2: 0, 32: 1})
    made |= {f"range {e}": p.BoundedRange(e) for e in ("0.001", 1, 5, 40)}
    made["probabilistic"] = p.Probabilistic("1.5", "1e-5")
    made |= {f"gaussian {m}": p.Gaussian(m) for m in ("0.001", "0.05", "0.7", 3, 12, 14, 60)}
    made |= {f"laplace {e}": p.Laplace(e) for e in ("1e-8", "0.1", 1, 12)}
    made |= {
        f"lattice laplace {s} {d}": p.DiscreteLaplace(s, d)
        for s, d in ((10, 1), ("0.2", 1), (3, 7), ("1/3", 2), (900, 4096), (900, 4097), (10**6, 3))
    }
    made |= {
        f"lattice gaussian {s} {d} {n}": p.DiscreteGaussian(s, d, n)
        for s, d, n in (
            ("0.3", 1, 1),
            (2, 1, 1),
            (2, 3, 1),
            (20, 1, 1),
            (700, 30, 1),
            (10001, 5, 1),
            (3, 2, 3),
            (5, 3, 4),
            (13, 2, 2),
            (4, 4, 9),
            (40, 10, 7),
        )
    }
    made["lattice gaussian 150"] = p.DiscreteGaussian.from_variance(150, 12, 5)
    made["lattice gaussian 151"] = p.DiscreteGaussian.from_variance(151, 13, 20)
    return made


def derived() -> dict[str, PrivacyLoss]:
    """Losses made of others: samples, groups, parts, both."""
    made: dict[str, PrivacyLoss] = {}
    bases = {
        "pure": p.Pure(1),
        "pure 40": p.Pure(40),
        "gauss": p.Gaussian("0.7"),
        "gauss 5": p.Gaussian(5),
        "laplace": p.Laplace("0.5"),
        "approx": p.Approx(1, "1e-6"),
        "lattice": p.DiscreteGaussian(3, 1),
        "zcdp": p.Zcdp("0.1"),
    }
    for name, base in bases.items():
        for rate in ("0.001", "0.3", 1):
            made[f"poisson {name} {rate}"] = p.sample(base, rate)
            made[f"fixed {name} {rate}"] = p.sample(base, rate, scheme="without-replacement")
            change = {"neighbours": "change-one", "covers_change": True}
            made[f"swap {name} {rate}"] = p.sample(base, rate, **change)
    return made


def groups() -> dict[str, PrivacyLoss]:
    """Groups of several units, and parts of a partition."""
    made: dict[str, PrivacyLoss] = {}
    small = {
        "pure": p.Pure("0.3"),
        "approx": p.Approx("0.2", "1e-9"),
        "approx 0": p.Approx(0, "1e-9"),
        "zcdp": p.Zcdp("0.02"),
        "concentrated": p.Concentrated("0.001", "0.1"),
        "renyi": p.Renyi({2: "0.1", 8: "0.5", 64: 3}),
        "range": p.BoundedRange("0.5"),
        "probabilistic": p.Probabilistic("0.1", "1e-9"),
        "gauss": p.Gaussian("0.2"),
        "laplace": p.Laplace("0.2"),
        "lattice laplace": p.DiscreteLaplace(9, 2),
        "lattice gauss": p.DiscreteGaussian(9, 1),
        "lattice gauss 2": p.DiscreteGaussian(9, 2, 3),
        "both": p.compose([p.Pure("0.1"), p.Gaussian("0.2")]),
        "sampled": p.sample(p.Gaussian("0.5"), "0.1"),
    }
    for name, loss in small.items():
        for k in (1, 2, 3, 5):
            made[f"group {name} {k}"] = _made(p.group, loss, k)
        made[f"change {name}"] = _made(p.to_change_one, loss)
        other = p.Pure("0.25")
        made[f"parallel {name}"] = p.parallel([loss, other, loss], "add-remove")
        made[f"moved {name}"] = _made(p.parallel, [loss, other, loss], "change-one")
        made[f"covered {name}"] = p.parallel([loss, other, loss], "change-one", covers_change=True)
    pair = [
        p.Pure("0.1"),
        p.Pure("0.4"),
        p.Laplace("0.3"),
        p.Gaussian("0.2"),
        p.Gaussian("0.3"),
        p.BoundedRange(1),
        p.Zcdp("0.05"),
        p.Zcdp("0.06"),
        p.Zcdp("0.01", "1e-7"),
    ]
    made["parallel many"] = p.parallel(pair, "add-remove")
    made["covered two"] = p.parallel(pair[:2], "change-one", covers_change=True)
    sampled = [p.sample(p.Gaussian("0.5"), "0.1"), p.sample(p.Pure("0.5"), "0.2")]
    made["covered sampled"] = p.parallel(sampled, "change-one", covers_change=True)
    return {name: loss for name, loss in made.items() if loss is not None}


def _made(function, *given):  # type: ignore[no-untyped-def]
    try:
        return function(*given)
    except Exception:
        return None


def _of(loss: PrivacyLoss) -> Iterator[object]:
    yield repr(loss), loss.top, loss.mass_at_infinity, loss.label
    yield [loss.delta(e) for e in EPSILONS]
    yield [_said(loss.epsilon, d) for d in (0, *DELTAS)]
    yield _said(lambda: loss.rho), _said(loss.zcdp)
    yield [_said(loss.renyi, a) for a in ORDERS]
    yield [_said(loss.tradeoff, x) for x in RATES]


def _said(function, *given):  # type: ignore[no-untyped-def]
    try:
        return function(*given)
    except Exception as refusal:
        return type(refusal).__name__, str(refusal)


def _whole(loss: PrivacyLoss) -> object:
    with quiet():
        return list(_of(loss))


def _cheap(loss: PrivacyLoss) -> object:
    """Without trade-offs, and at fewer places: what is composed costs a convolution each."""
    with quiet():
        few = [loss.delta(e) for e in (0.0, 0.5, 2.0)]
        more = [_said(loss.epsilon, d) for d in (0, "1e-12", "1e-6", "0.01")]
        rest = [_said(loss.renyi, a) for a in (2, 8)]
        return repr(loss), loss.top, loss.mass_at_infinity, few, more, rest, _said(loss.zcdp)


def _pairs(loss: PrivacyLoss) -> object:
    with quiet():
        found = []
        for pair in loss.pairs():
            spread = pair.spread if pair.spread < 8 else 8.0
            found.append((pair.top, pair.bottom, pair.convex, pair.atoms, spread))
            for step in (F(1, 8), F(1, 20)):
                grid = pair.on_grid(step)
                masses = grid.masses[:: max(1, len(grid.masses) // 200)]
                # the others are rounding errors of larger ones
                kept = rough(masses, 1e-6 * float(masses.max()))
                infinite = rough(float(grid.infinite), 1e-9)
                found.append((grid.offset, grid.start, len(grid.masses), kept, infinite))
        return found


COMPOSED = {
    "pure": [p.Pure("0.1")] * 40,
    "two pure": [p.Pure("0.1")] * 30 + [p.Pure("0.07")] * 11,
    "three pure": [p.Pure("0.1"), p.Pure("0.27"), p.Pure("0.9")],
    "approx": [p.Approx("0.2", "1e-8")] * 25,
    "unlike": [p.Pure("0.3"), p.Approx("0.1", "1e-7"), p.Laplace("0.4"), p.BoundedRange("0.3")],
    "laplace": [p.Laplace("0.2")] * 50,
    "gauss": [p.Gaussian("0.1"), p.Gaussian("0.2"), p.Pure("0.1")],
    "lattice laplace": [p.DiscreteLaplace(10, 1)] * 20 + [p.DiscreteLaplace(7, 2)] * 3,
    "lattice gauss": [p.DiscreteGaussian(6, 1)] * 12,
    "lattice gausses": [p.DiscreteGaussian(20, 1), p.DiscreteGaussian(30, 2)],
    "wide gausses": [p.DiscreteGaussian(20000, 5)] * 3,
    "zcdp": [p.Zcdp("0.01"), p.Zcdp("0.02"), p.Zcdp("0.03", "1e-9")],
    "concentrated": [p.Zcdp("0.01"), p.Concentrated("0.001", "0.1")],
    "renyi": [p.Renyi({2: "0.1", 8: "0.5"}), p.Renyi({3: "0.2", 6: "0.4"}), p.Pure("0.2")],
    "sampled": [p.sample(p.Gaussian("0.8"), "0.05")] * 60,
    "sampled pure": [p.sample(p.Pure(1), "0.1")] * 30 + [p.Pure("0.1")],
    "with nothing": [p.Pure(0), p.Pure("0.4"), p.Pure(0)],
    "nothing": [p.Pure(0)] * 3,
    "large": [p.Pure(8)] * 5,
    "humps": [p.Pure(6), p.Gaussian("0.3")],
    "many kinds": [p.Laplace(F(i, 100)) for i in range(3, 23)],
    "certain": [p.Approx("0.1", "0.9")] * 9,
}
"""Losses that are composed, by name."""


def _composed(name: str) -> Case:
    return lambda: _cheap(p.compose(COMPOSED[name]))


def _window() -> Iterator[tuple[str, Case]]:
    """Convolutions and their windows, step by step."""
    sets = {
        "pure": ([(p.Pure("0.5"), 30)], F(1, 2)),
        "laplace": ([(p.Laplace("0.5"), 12), (p.Laplace("0.3"), 5)], F(1, 40)),
        "gauss": ([(p.Gaussian("0.6"), 4)], F(1, 50)),
        "failing": ([(p.Approx("0.5", "1e-3"), 20), (p.Gaussian("0.2"), 2)], F(1, 10)),
        "many": ([(p.Laplace(F(i, 50)), 1) for i in range(5, 25)], F(1, 30)),
    }

    def made(name: str) -> _pld.Composed:
        terms, step = sets[name]
        return _pld.Composed([(x.pairs()[0].on_grid(step), k) for x, k in terms], step)

    def told(name: str) -> object:
        with quiet():
            one = made(name)
            lost = rough(float(one.infinite), 1e-9)
            start = [one.top, lost, one.loss_at(0), one.loss_at(17), one.count]
            return start, [_cumulant(one, t) for t in (0.0, 0.3, 2.0, 9.0)]

    def seen(name: str, tilt: float) -> object:
        with quiet():
            window = made(name).window(tilt)
            lost = rough(float(window.infinite), 1e-9)
            facts = (
                window.base,
                window.step,
                rough(window.log_scale, 1e-9),
                lost,
                len(window.masses),
            )
            places = [window.base + x for x in (0.0, 0.01, 0.7, 2.0, 5.0)]
            deltas = [window.delta(max(e, 0.0)) for e in places if e > -20]
            rest = [(window.solve(d), window.solve(d, loose=True)) for d in (1e-3, 1e-6, 1e-9)]
            return facts, rough(float(window.masses.sum())), rough(deltas, 1e-9), rough(rest)

    for name in sets:
        yield f"{name} composed", partial(told, name)
        for tilt in (0.0, 1.0, 6.0):
            yield f"{name} window {tilt}", partial(seen, name, tilt)


def _cumulant(one: _pld.Composed, tilt: float) -> object:
    found = one.cumulant(tilt)
    return rough(found.value, 1e-9), found.mean, found.variance


def _errors() -> Iterator[tuple[str, Case]]:
    """Bounds of rounding errors: sizes that no result shows."""
    yield "transform", lambda: [_pld._transform_error(n) for n in (0, 1, 2, 3, 64, 1000, 2**20)]
    rng = np.arange(1.0, 41.0)

    def factors(count: int, length: int) -> list[np.ndarray]:
        rows = [np.abs(np.sin(rng[:length] * (i + 1))) for i in range(count)]
        return [row / row.sum() for row in rows]

    def convolved(count: int, length: int, size: int, k: int) -> object:
        masses, error = _pld._convolve([(w, k) for w in factors(count, length)], size)
        return rough(masses, 1e-9), rough(error)

    for count, length, size, k in (
        (1, 5, 8, 1),
        (3, 9, 64, 1),
        (3, 9, 20, 4),
        (20, 7, 160, 1),
        (40, 6, 60, 1),
        (17, 30, 32, 1),
        (2, 40, 12, 2),
    ):
        yield f"convolved {count} {length} {size} {k}", partial(convolved, count, length, size, k)
    yield "folded", lambda: [_pld._fold(rng[:n], 7) for n in (1, 6, 7, 8, 14, 15, 40)]
    yield "merged", lambda: [_merged(factors(n, 5), s) for n, s in ((17, 99), (33, 60), (40, 20))]
    atoms = [
        _pair.Atoms(F(-1, 2), F(1), np.array([0.3, 0.6]), 0.1),
        _pair.Atoms(F(-1), F(1, 2), np.array([0.1, 0.1, 0.2, 0.2, 0.4]), 0.0),
    ]

    def listed() -> object:
        one = _pld.Enumerated.of(atoms * 2)
        return (
            rough(one.losses, 1e-9),
            np.sort(one.masses),  # equal losses come in any order
            one.infinite,
            [one.delta(e) for e in (0, 0.3, 1, 2.99, 5)],
            [one.solve(d) for d in (0.01, 0.195, 0.3, 0.7, 1.0)],
        )

    yield "listed", listed


def _merged(factors: list[np.ndarray], size: int) -> object:
    rows, error, progress = _pld._merge_blocks(factors, size)
    return [rough(r, 1e-9) for r in rows], rough(error), progress


def _formulas() -> Iterator[tuple[str, Case]]:
    """Closed forms and conversions over grids."""
    e = np.array([0.0, 1e-9, 0.01, 0.3, 1.0, 4.0, 30.0, 500.0])
    signed = np.concatenate([-e[::-1], e])
    for mu in (1e-5, 0.01, 0.5, 3.0, 12.0, 13.0, 50.0):
        yield f"gaussian {mu}", lambda mu=mu: np.exp(_additive.log_gaussian_delta(mu, signed))
    yield "mills", lambda: _additive.mills(np.array([-6.0, -1.0, 0.0, 0.5, 9.0, 1e5]))
    for rho in ("1e-12", "0.01", 1, 400):
        for mean in (None, F(0), F(1, 300)):
            yield (
                f"zcdp {rho} {mean}",
                lambda r=rho, m=mean: np.exp(_convert.zcdp_to_log_delta(F(r), e, m)),
            )
    yield "zcdp 0", lambda: _convert.zcdp_to_log_delta(0.0, signed)
    for x in (1e-9, 0.1, 1.0, 70.0):
        yield f"renyi {x}", lambda x=x: np.exp(_convert.renyi_to_log_delta(x, 0.2, e))
    yield "pure to rho", lambda: [_convert.pure_to_rho(F(i, 7)) for i in (0, 1, 5, 50, 5000)]
    yield (
        "pure to renyi",
        lambda: [
            _convert.pure_to_renyi(F(i, 7), F(a))
            for i in (1, 5, 90)
            for a in ("1.0000001", "1.000001", "1.00001", 2, 70)
        ],
    )
    for eps in (0.01, 1.0, 30.0):
        yield (
            f"largest rho {eps}",
            lambda x=eps: [_convert.largest_rho(x, d) for d in (1e-100, 1e-9, 1e-3, 0.5)],
        )
    yield (
        "smoothing",
        lambda: [
            _additive.smoothing_price(s, d)
            for s in (*_additive.SMOOTHING, F(1, 100), F(1, 27), F(1, 16))
            for d in (1, 3, 1000)
        ],
    )
    yield (
        "shapes",
        lambda: {
            (s, d): _additive._shapes(s, d) for s in range(1, 14) for d in (1, 2, 3, 12) if d <= s
        },
    )
    yield (
        "atoms",
        lambda: [
            _additive._shape_atoms(F(v), shape)
            for v in ("0.2", 4, 50)
            for shape in ((1,), (3,), (1, 1), (2, 1, 1))
        ],
    )
    yield "roots", lambda: [_additive.sqrt_up(F(x)) for x in (4, 2, "1/3", "1e-300", "2e300")]
    yield from _counted()


def _counted() -> Iterator[tuple[str, Case]]:
    for eps, k, d in (
        ("0.1", 1, 0),
        ("0.1", 30, 0),
        ("0.1", 30, "1e-6"),
        (2, 7, "0.01"),
        (0.5, 2, 0),
    ):
        totals = ("0", "0.05", "0.1", "0.6", "1", "2.9", "3", "14")
        yield (
            f"kov {eps} {k} {d}",
            lambda e=eps, k=k, d=d: [_kov.kov_delta(e, k, t, d) for t in totals],
        )
        yield (
            f"kov epsilon {eps} {k} {d}",
            lambda e=eps, k=k, d=d: [
                _kov.kov_epsilon(e, k, d, t) for t in ("1e-9", "1e-3", "0.069", "0.3", "0.9")
            ],
        )
        yield (
            f"kov closed {eps} {k}",
            lambda e=eps, k=k: [
                _kov.kov_closed_form(e, k, s) for s in ("1e-30", "1e-6", "0.1", "0.9")
            ],
        )
    lists = (["0.1"], ["0.1", "0.2"], ["0.1", "0.1", "0.3", "0.7"], ["1", "2", "3"])
    for steps in lists:
        for deltas in (None, ["1e-3", "1e-4"]):
            yield (
                f"murtagh vadhan {'+'.join(steps)} {deltas}",
                lambda s=steps, d=deltas: [
                    _kov.murtagh_vadhan_delta(s, t, d)
                    for t in ("0", "0.05", "0.2", "0.3", "1", "4")
                ],
            )
    yield "subsets", lambda: dict(sorted(_kov._subset_sums([F(1), F(2), F(3), F(1)]).items()))


def _calibrations() -> Iterator[tuple[str, Case]]:
    for eps, delta in ((F(1, 100), "1e-9"), (1, "1e-5"), (1, "0.2"), (9, "1e-6"), (60, "1e-12")):
        for reach in ("0.001", 1, 77):
            yield f"sigma {eps} {delta} {reach}", partial(p.gaussian_sigma, reach, eps, delta)
    for squares, places, eps, delta in (
        ([1], [1], 4, "1e-6"),
        ([1], [1], "0.5", "1e-6"),
        ([9], [1], 2, "1e-3"),
        ([5], [5], 1, "1e-6"),
        ([1, 100], [1, 1], 1, "1e-6"),
        ([2, 3, 8], [2, 3, 1], 3, "1e-5"),
        ([1] * 5, [1] * 5, 8, "1e-4"),
        ([10**6], [40], "0.1", "1e-9"),
        (["2.9"], [7], 1, "1e-6"),
        ([1], [1], 40, "1e-3"),
        ([1, 1], [1, 1], 30, "1e-6"),
        ([4], [4], 60, "0.1"),
    ):
        yield (
            f"variances {squares} {places} {eps} {delta}",
            partial(_variances, squares, eps, delta, places),
        )
    for law in (
        noise.DiscreteLaplace(1),
        noise.DiscreteLaplace("0.05"),
        noise.DiscreteGaussian(30),
    ):
        for delta in ("0.5", "1e-3", "1e-6", "1e-30"):
            for keys, each, least in ((1, 1, 1), (5, 1, 1), (40, 3, 2)):
                yield (
                    f"threshold {law} {delta} {keys} {each} {least}",
                    partial(p.key_threshold, law, delta, keys, sensitivity=each, min_count=least),
                )
        yield (
            f"threshold deltas {law}",
            lambda law=law: [
                p.key_threshold_delta(law, t, k, sensitivity=s, min_count=least)
                for t in (-3, 0, 1, 2, 9, 40, 5000)
                for k, s, least in ((1, 1, 1), (7, 2, 3))
            ],
        )


def _variances(squares, eps, delta, places):  # type: ignore[no-untyped-def]
    return p.discrete_gaussian_variances(squares, eps, delta, coordinates=places)


def _budgets() -> Iterator[tuple[str, Case]]:
    spent = [
        p.Pure("0.1"),
        p.Pure("0.35"),
        p.Approx("0.2", "1e-7"),
        p.Gaussian("0.3"),
        p.Zcdp("0.02"),
        p.Zcdp("0.01", "1e-7"),
        p.DiscreteLaplace(4, 1),
        p.Pure("0.2"),
        p.BoundedRange("0.3"),
        p.sample(p.Pure(1), "0.1"),
        p.Renyi({2: "0.1"}),
        p.Pure("0.15").under("add-remove"),
        p.Pure("0.01").under("change-one"),
        p.Pure("0.05"),
        p.Pure("1e-18"),
        p.Pure(0),
    ]
    filters = {
        "basic": lambda: p.BasicFilter(1),
        "basic delta": lambda: p.BasicFilter(1, "2e-7"),
        "zcdp": lambda: p.ZcdpFilter("0.1"),
        "zcdp delta": lambda: p.ZcdpFilter("0.1", "1e-7"),
        "zcdp target": lambda: p.ZcdpFilter.for_target(1, "1e-6"),
        "zcdp aside": lambda: p.ZcdpFilter.for_target(2, "1e-6", "5e-7"),
        "gauss": lambda: p.GaussianFilter("0.5"),
        "gauss target": lambda: p.GaussianFilter.for_target(1, "1e-6"),
    }

    def run(make) -> object:  # type: ignore[no-untyped-def]
        one, told = make(), []
        for loss in spent:
            told.append((_said(one.admits, loss), _spent(one, loss), one.spent, one.remaining))
        return told, one.budget, one.guarantee, repr(one)

    for name, make in filters.items():
        yield f"filter {name}", partial(run, make)
    for kind in p.Accounting:
        yield f"charges {kind}", lambda kind=kind: [_said(kind.charge, x) for x in spent]
        for given in (
            {"epsilon": 1},
            {"epsilon": 1, "delta": "1e-6"},
            {"rho": "0.1"},
            {"rho": "0.1", "delta": "1e-6"},
            {"epsilon": 1, "rho": 1},
            {},
            {"epsilon": 3, "delta": "1e-3", "aside": 0},
            {"epsilon": "1e-3", "delta": "1e-9"},
            {"epsilon": 3, "delta": "1e-3", "aside": "1e-3"},
        ):
            yield f"cap {kind} {sorted(given.items())}", lambda k=kind, g=given: _capped(k, g)
    yield (
        "admit",
        lambda: [
            _said(p.admit, *(p.Amount(F(x), F(d)) for x, d in rows))
            for rows in (
                ((0, 0), (1, 0), (1, 0)),
                ((0, 0), (1, 0), ("0.99", 0)),
                (("0.5", 0), ("0.5", 0), (1, 0)),
                (("0.5", "0.1"), ("0.1", "0.1"), (1, "0.2")),
                (("0.5", "0.1"), ("0.1", "0.11"), (1, "0.2")),
                ((0, 0), (-1, 0), (1, 0)),
                ((0, 0), (0, -1), (1, 1)),
                ((1, 0), (1, 0), (1, 0)),
                ((0, 0), (0, 0), (0, 0)),
                ((0, 0), (1, "0.1"), (2, 0)),
            )
        ],
    )
    for delta, around in (("1e-6", "0.01"), ("1e-3", "0.2")):

        def read(delta: str = delta, around: str = around) -> object:
            meter = p.Odometer(delta, around)
            told: list[object] = [(meter.epsilon, meter.delta)]
            for loss in spent:
                told.append(_said(meter.record, loss))
                told.append((meter.rho, meter.delta, meter.epsilon))
            return told

        yield f"odometer {delta} {around}", read


def _capped(kind: p.Accounting, given: dict[str, object]) -> object:
    cap = kind.cap(**given)  # type: ignore[arg-type]
    return cap, kind.guarantee(cap), kind.symbol


def _spent(one: p.Filter, loss: PrivacyLoss) -> object:
    try:
        return one.spend(loss)
    except Exception as refusal:
        return type(refusal).__name__, str(refusal), str(getattr(refusal, "hint", ""))


def _refusals() -> Iterator[tuple[str, Case]]:
    pure, gauss = p.Pure(1), p.Gaussian(1)
    asked = {
        "gaussian 0": lambda: p.Gaussian(0),
        "zcdp delta 1": lambda: p.Zcdp(1, 1),
        "zcdp delta -1": lambda: p.Zcdp(1, "-0.1"),
        "zcdp rho 0": lambda: p.Zcdp(0),
        "concentrated": lambda: p.Concentrated("-0.1", 1),
        "renyi none": lambda: p.Renyi({}),
        "renyi half": lambda: p.Renyi(alpha=2),
        "renyi negative": lambda: p.Renyi({2: "-0.1"}),
        "lattice half": lambda: p.DiscreteLaplace(1, "0.5"),
        "lattice gauss half": lambda: p.DiscreteGaussian(1, "0.5"),
        "dimension 0": lambda: p.DiscreteGaussian(1, 1, 0),
        "compose": lambda: p.compose([]),
        "parallel none": lambda: p.parallel([], "add-remove"),
        "parallel change": lambda: p.parallel([pure.under("change-one")], "add-remove"),
        "group 0": lambda: p.group(pure, 0),
        "group true": lambda: p.group(pure, True),
        "group sampled": lambda: p.group(p.sample(p.Approx(1, "0.1"), "0.1"), 2),
        "group approx": lambda: p.group(p.Approx(1, "0.1"), 9),
        "group renyi": lambda: p.group(p.Renyi({2: 1}), 2),
        "rate 0": lambda: p.sample(pure, 0),
        "rate 2": lambda: p.sample(pure, 2),
        "scheme": lambda: p.sample(pure, "0.1", scheme="shuffle"),
        "sample change": lambda: p.sample(pure.under("change-one"), "0.1"),
        "sample wanted": lambda: p.sample(pure, "0.1", neighbours="change-one"),
        "fixed add": lambda: p.sample(
            pure, "0.1", scheme="without-replacement", neighbours="add-remove"
        ),
        "fixed of add": lambda: p.sample(
            pure.under("add-remove"), "0.1", scheme="without-replacement"
        ),
        "opposite": lambda: _whole(p.sample(gauss, "0.1", neighbours="change-one")),
        "opposite 1": lambda: _whole(p.sample(gauss, 1, neighbours="change-one")),
        "opposite small": lambda: _whole(
            p.sample(p.Gaussian("0.01"), "0.5", neighbours="change-one")
        ),
        "nothing sampled": lambda: _whole(p.sample(p.Pure(0), "0.1")),
        "concentrated of": lambda: [p.Concentrated.of(x) for x in (pure, p.DiscreteLaplace(3, 1))],
        "concentrated of gauss": lambda: p.Concentrated.of(gauss),
        "concentrated of approx": lambda: p.Concentrated.of(p.Approx(1, "0.1")),
        "under": lambda: pure.under("add-remove", "person").under("change-one"),
        "under unit": lambda: pure.under("add-remove", "person").under("add-remove", "house"),
        "beside": lambda: pure.beside("a", "b").beside("b", "c"),
        "tradeoff 2": lambda: gauss.tradeoff(2),
        "tradeoff -1": lambda: pure.tradeoff(-0.1),
        "order 1": lambda: pure.renyi(1),
        "delta 1": lambda: gauss.epsilon(1),
        "tiny": lambda: p.compose([p.Gaussian(1), p.Laplace(1)]).epsilon("1e-130"),
        "threshold keys 0": lambda: p.key_threshold(noise.DiscreteLaplace(1), "0.1", 0),
        "threshold sure": lambda: p.key_threshold(noise.DiscreteLaplace(1), "0.1", 1, min_count=0),
        "variances": lambda: p.discrete_gaussian_variances([1], 1, "0.1", coordinates=[]),
        "variances none": lambda: p.discrete_gaussian_variances([], 1, "0.1", coordinates=[]),
        "far": lambda: p.discrete_gaussian_variance(1, "1e-12", "1e-300"),
    }
    yield from asked.items()


def _paired() -> dict[str, PrivacyLoss]:
    """Losses whose grid is short: what fails outright would fill the longest there is."""
    made = losses() | derived()
    long = [n for n, x in made.items() if "zcdp" in n and x.mass_at_infinity]
    # what is left of a loss of 40 after sampling is rounding
    return {n: x for n, x in made.items() if n not in long and "pure 40" not in n}


def _some(made, told, start: int, step: int):  # type: ignore[no-untyped-def]
    def cases() -> Iterable[tuple[str, Case]]:
        for name, loss in list(made().items())[start::step]:
            yield name, partial(told, loss)

    return cases


def _part(names: Iterable[str]):  # type: ignore[no-untyped-def]
    return lambda: ((name, _composed(name)) for name in names)


FAMILIES = {
    **{f"losses {i}": _some(losses, _whole, i, 6) for i in range(6)},
    **{f"sampled {i}": _some(derived, _whole, i, 8) for i in range(8)},
    **{f"groups {i}": _some(groups, _cheap, i, 8) for i in range(8)},
    **{f"pairs {i}": _some(_paired, _pairs, i, 6) for i in range(6)},
    **{f"composed {i}": _part(list(COMPOSED)[i::7]) for i in range(7)},
    "windows": _window,
    "errors": _errors,
    "formulas": _formulas,
    "calibrations": _calibrations,
    "budgets": _budgets,
    "refusals": _refusals,
}
