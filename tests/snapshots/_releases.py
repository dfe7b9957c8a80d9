"""Variances in two rounds and trees of counts, piece by piece: a part of the net of ``plan``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction as F
from functools import partial

import numpy as np
from tests.snapshots import Case
from tests.snapshots._noise import bits

from discreet import noise
from discreet import plan as pl
from discreet.plan import _parts
from discreet.plan import _trees as trees
from discreet.plan import _variances as va
from discreet.plan import _vectors as vectors


def _squares() -> Iterator[tuple[str, Case]]:
    """Variances in two rounds, piece by piece."""
    laws = {
        "laplace": va.TwoRounds(noise.DiscreteLaplace(2**33), noise.DiscreteLaplace(2**28)),
        "narrow": va.TwoRounds(noise.DiscreteLaplace(2**20), noise.DiscreteLaplace(2**15)),
        "none": va.TwoRounds(noise.DiscreteLaplace("0.01"), noise.DiscreteLaplace("0.01")),
        "gauss": va.TwoRounds(noise.DiscreteGaussian(2**31), noise.DiscreteGaussian(2**27)),
    }
    for name, law in laws.items():
        # almost without noise the choice is between questions that are as good as each other
        for n in (0, 1, 2, 3) if name == "none" else (0, 1, 2, 3, 10, 30, 100, 1000, 50000):
            yield (
                f"chosen {name} {n}",
                lambda n=n, w=law: [
                    va.choose_focus(r / 8, n, w) for r in (-40, -9, -8, -7, -3, 0, 1, 5, 8, 9, 40)
                ],
            )
    asked = [va.ITSELF, va.ABOUT_THE_MIDDLE, *va.EXAMPLES[1::3], va.Focus(F(1, 3), F(1, 320))]
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
            (0, 1, 2, 40, 3000), (va.ITSELF, va.ABOUT_THE_MIDDLE, va.Focus(F(1, 4), F(1, 14)))
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


RELEASES = {"variances": _squares, "trees": _levels}
