"""Net of ``mechanisms``: what they release from given bits, at what price; sensitivities."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction as F
from functools import partial

import numpy as np
from scipy import sparse
from tests.snapshots import Case
from tests.snapshots._noise import Bits, bits, drawn

from discreet import mechanisms as m
from discreet import noise
from discreet.mechanisms import (
    _exponential,
    _lattice,
    _linear,
    _median,
    _noisy_max,
    _orders,
    _refine,
)

LEVELS = (0.5, 0.95, 0.999)


def released(ask: Callable[[], object], seed: str, shape: str = "plain") -> object:
    """Everything that a release says, and how many words it took."""
    with bits(seed, shape) as source:
        r = ask()
        words = source.used
        told = [
            getattr(r, name, None)
            for name in (
                "value",
                "law",
                "step",
                "loss",
                "price",
                "mechanism",
                "rounded",
                "threshold",
                "min_count",
                "asked",
                "measured",
                "tainted",
            )
        ]
        told += [_tried(getattr(r, "interval", None), x) for x in LEVELS]
        told += [_tried(getattr(r, "accuracy", None), x) for x in LEVELS]
        return told, repr(r), words


def _tried(function: Callable[..., object] | None, *given: object) -> object:
    try:
        return None if function is None else function(*given)
    except Exception as refusal:
        return type(refusal).__name__, str(refusal)


VALUES: dict[str, object] = {
    "int": 1000,
    "float": 3.25,
    "third": F(1, 3),
    "decimal": Decimal("2.675"),
    "none": None,
    "nan": float("nan"),
    "inf": float("inf"),
    "huge": 10**400,
    "text": "12",
    "true": True,
    "ints": [3, -5, 2],
    "floats": [0.5, 1.5, 2.5, -0.5],
    "mixed": [1, None, 2.5, F(7, 3), "x"],
    "square": [[1, 2], [3, 4]],
    "array": np.array([1.5, np.nan, np.inf, -np.inf]),
    "unsigned": np.array([2**64 - 1, 0], dtype=np.uint64),
    "small": np.array([1, 2], dtype=np.uint8),
    "half": np.array([0.5, 2.0], dtype=np.float16),
    "empty": [],
    "wide": [2**62, -(2**62), 2**62 - 1],
}


def _additive() -> Iterator[tuple[str, Case]]:
    ways: dict[str, dict[str, object]] = {
        "plain": {},
        "integer": {"integer": True},
        "step": {"step": "0.1"},
        "coarse": {"step": 8, "integer": True},
        "tenths": {"step": "1/4", "integer": True},
        "add": {"neighbours": "add-remove"},
    }
    for (name, value), (way, given) in itertools.product(VALUES.items(), ways.items()):
        yield (
            f"laplace {name} {way}",
            lambda v=value, g=given, s=name: released(partial(m.laplace, v, 2, "0.5", **g), s),
        )
        yield (
            f"gauss {name} {way}",
            lambda v=value, g=given, s=name: released(
                partial(m.gaussian, v, "1.5", rho="0.1", **g), s
            ),
        )
    for name in ("int", "floats", "third", "wide"):
        yield (
            f"geometric {name}",
            lambda v=VALUES[name], s=name: released(partial(m.geometric, v, 3, 1), s),
        )
        for eps, delta in ((1, "1e-6"), ("0.01", "1e-9"), (20, "0.01")):
            yield (
                f"calibrated {name} {eps}",
                lambda v=VALUES[name], e=eps, d=delta, s=name: released(
                    partial(m.gaussian, v, 1, e, d, integer=s == "int"), s
                ),
            )
    for reach in ("0.3", "1.7320508075688772", 3**0.5, 2**0.5, "0.5", 7, "1e-30", 10**30):
        yield (
            f"root {reach}",
            lambda r=reach: released(
                partial(m.gaussian, [1, 2, 3], r, rho="0.5", integer=True), "root"
            ),
        )
        yield (
            f"laplace reach {reach}",
            lambda r=reach: released(partial(m.laplace, [1, 2, 3], r, "0.5"), "reach"),
        )


def _lattices() -> Iterator[tuple[str, Case]]:
    steps = (F(1), F(1, 10), F(1, 8), F(8), F(3), F(2, 3), F(1, 2**80), F(2**80))
    for name, value in VALUES.items():
        yield f"read {name}", lambda v=value: _lattice.read_values(v)
        for step in steps:
            yield (
                f"quantised {name} {step}",
                lambda v=value, s=step: _lattice.quantise(_lattice.read_values(v), s),
            )
    edges = [0.5, 1.5, -0.5, 0.49999999999999994, 2**52 + 0.5, 2.0**62, -(2.0**62), 2.0**61, 5e-324]
    yield (
        "edges",
        lambda: [_lattice.quantise(_lattice.read_values(x), s) for x in edges for s in steps],
    )
    yield (
        "decimals",
        lambda: [
            _lattice._number(Decimal(x))
            for x in (
                "0E+999999",
                "1E+400",
                "1E+401",
                "-1E+401",
                "1E-400",
                "1E-401",
                "NaN",
                "-Infinity",
            )
        ],
    )
    yield (
        "scaled",
        lambda: [
            _lattice._scale_up(np.array([x, -1]), k)
            for x in (1, 2**31, 2**61, 2**62 - 1)
            for k in (1, 2, 3, 2**31, 2**62, 2**63)
        ],
    )
    arrays = [
        np.array(x, dtype=d)
        for x, d in (
            ([1, 2], np.int64),
            ([2**62 - 1, 0], np.int64),
            ([2**62, 0], np.int64),
            ([-(2**62), 1], np.int64),
            ([1 - 2**62, 1], np.int64),
            ([2**70, 1], object),
            ([1, 2], object),
        )
    ]
    yield "added", lambda: [_lattice.add(a, b) for a in arrays for b in arrays]
    yield "shrunk", lambda: [_lattice.shrink(a.astype(object)) for a in arrays]
    yield (
        "units",
        lambda: [
            _lattice.to_units(a, s, shape)
            for a in (*arrays, np.array([2**1030, 1], dtype=object), np.array([5], dtype=np.int64))
            for s in (F(1), F(5), F(1, 4), F(3, 10), F(1, 2**1060))
            for shape in ((a.size,), (1, a.size), ())
        ],
    )
    yield (
        "powers",
        lambda: [
            _lattice.power_of_two_below(F(x))
            for x in (1, 2, 3, 4, 5, "1/2", "1/3", "3/4", "0.7", 2**90)
        ],
    )
    yield (
        "fine",
        lambda: [
            _lattice.fine_step(F(a), F(b))
            for a, b in ((1, 1), (3, 1), (1, 7), ("1/3", 5), (1024, 2000))
        ],
    )
    yield (
        "reach",
        lambda: [
            _lattice.l1_on_lattice(n, F(r), F(s), integer=i)
            for n in (0, 1, 2, 9)
            for r in (1, "1.5")
            for s in (1, "1/4", 2, "2/3")
            for i in (True, False)
        ],
    )


MATRICES: dict[str, object] = {
    "identity": [[1, 0], [0, 1]],
    "one": [[3]],
    "signs": [[1, -1, 2], [0, 4, -3]],
    "zero": [[0, 0]],
    "twins": [[1, 1, 1], [2, 2, 2]],
    "floats": [[0.1, 0.2], [0.3, -0.7]],
    "tiny": [[5e-324, 0]],
    "huge": [[1e300, -1e300]],
    "large": [[2**51, 1]],
    "larger": [[2**53, 1]],
    "bools": [[True, False]],
    "objects": np.array([[F(1), 2], [3, 4]], dtype=object),
    "halves": np.array([[F(1, 2)]], dtype=object),
    "unsigned": np.array([[2**63, 1]], dtype=np.uint64),
    "prefix": np.tri(12, dtype=int),
    "wide": np.arange(60).reshape(4, 15) % 7 - 3,
    "sparse": sparse.csc_matrix(np.arange(60).reshape(6, 10) % 5 - 1),
    "sparse floats": sparse.csr_matrix(np.sin(np.arange(40).reshape(5, 8))),
    "sparse positive": sparse.csc_matrix(np.eye(7, dtype=int)),
    "sines": np.sin(np.arange(60).reshape(5, 12)),
    "cosines": np.cos(np.arange(8)).reshape(2, 4) ** 2,
}


def _linears() -> Iterator[tuple[str, Case]]:
    for name, matrix in MATRICES.items():
        for relation, norm in itertools.product(("add-remove", "change-one"), (1, 2)):
            yield (
                f"{name} {relation} {norm}",
                lambda b=matrix, r=relation, n=norm: m.sensitivity(b, r, n),
            )

        def told(b: object = matrix, norm: int = 2) -> object:
            columns = _linear._Columns(_linear._read_matrix(b), norm)
            reach = [columns._reach(i) for i in range(len(columns.powers) - 1)]
            return columns.integer, columns.exponent, columns.powers, columns.non_negative, reach

        yield f"columns {name}", told
        yield f"columns {name} 1", partial(told, norm=1)
    for name, bad in {
        "flat": [1, 2],
        "text": [["a"]],
        "nan": [[np.nan]],
        "none": [],
        "inf": [[np.inf]],
        "complex": [[1j]],
        "rows": [[]],
        "big": [[1.7e308], [1.7e308]],
    }.items():
        yield f"bad {name}", lambda b=bad: m.sensitivity(b, "add-remove")
    yield "norm 3", lambda: m.sensitivity([[1]], "add-remove", 3)
    yield "no relation", lambda: m.sensitivity([[1]], None)  # type: ignore[arg-type]


def _choices() -> Iterator[tuple[str, Case]]:
    scores: dict[str, object] = {
        "ints": [24, 8, 28, 5],
        "ties": [3, 3, 3],
        "floats": [0.1, 0.2, 0.30000000000000004],
        "far": [2**70, 0],
        "one": [7],
        "fractions": [F(1, 3), F(2, 3)],
        "edge": [2**61, 0, -(2**61)],
        "odd": [float("nan"), None, 4],
    }
    for name, q in scores.items():
        for monotone in (False, True):
            for ask in (m.exponential, m.permute_and_flip):
                yield (
                    f"{ask.__name__} {name} {monotone}",
                    lambda q=q, f=ask, k=monotone: [
                        released(partial(f, q, "1.5", "0.8", monotone=k), f"{i}") for i in range(4)
                    ],
                )
            for law in ("geometric", "laplace"):
                yield (
                    f"noisy max {name} {monotone} {law}",
                    lambda q=q, k=monotone, w=law: [
                        released(
                            partial(m.noisy_max, q, "1.5", "0.8", monotone=k, noise=w, **g), f"{g}"
                        )
                        for g in (
                            {},
                            {"integer": True},
                            {"step": "0.5"},
                            {"with_value": True},
                            {"with_value": "0.2", "candidates": [f"c{i}" for i in range(len(q))]},
                        )
                    ],
                )
        yield f"gaps {name}", lambda q=q: _exponential._gaps(_lattice.read_values(q).flat)
        yield (
            f"odds {name}",
            lambda q=q: [
                m.Exponential(2, e, monotone=k).probabilities(q)
                for e in (0, "0.5", 40)
                for k in (True, False)
            ],
        )
    yield "flips", lambda: drawn(partial(_exponential.flip, np.array([0, 1, 5]), F(2), 40), "flips")
    yield (
        "winners",
        lambda: drawn(
            partial(_noisy_max.winners, np.array([0, 1, 5]), noise.Geometric(2), 40), "winners"
        ),
    )
    yield (
        "orders",
        lambda: [
            drawn(partial(_orders.random_orders, r, n), "orders", s)
            for r, n in ((0, 3), (1, 1), (5, 4), (2, 8))
            for s in ("plain", "first")
        ],
    )
    bad = {
        "exponential 0": lambda: m.Exponential(1, 0).select([1]),
        "epsilon": lambda: m.exponential([1], 1, 0),
        "none": lambda: m.exponential([], 1, 1),
        "names": lambda: m.exponential([1, 2], 1, 1, candidates=["a"]),
        "law": lambda: m.noisy_max([1], 1, 1, noise="gauss"),  # type: ignore[arg-type]
        "flat": lambda: m.noisy_max([[1]], 1, 1),
        "temperature": lambda: m.Exponential(1, 0).temperature,
        "loss": lambda: [m.Exponential(1, e, neighbours="change-one").loss for e in (0, 2)],
    }
    for name, case in bad.items():
        yield f"refused {name}", partial(drawn, case, name)


def _sparse() -> Iterator[tuple[str, Case]]:
    values = [0, 500, 1, 900, 700, 249, 250, 251]
    for given in (
        {},
        {"cutoff": 3},
        {"cutoff": 2, "monotone": True},
        {"cutoff": 2, "numeric": "0.3"},
        {"step": 1},
        {"step": 7, "cutoff": 9},
        {"neighbours": "add-remove", "numeric": "0.5"},
    ):
        yield (
            f"all {given}",
            lambda g=given: [
                released(partial(m.sparse_vector, values, "250.5", "1.5", e, **g), f"{e}")
                for e in (1, "0.02")
            ],
        )

        def asked(given: dict[str, object] = given) -> object:
            with bits("sparse") as source:
                one = m.SparseVector("250.5", "1.5", "0.05", **given)
                told: list[object] = [one.loss, repr(one)]
                for value in [*values, None, float("nan"), F(1, 3)] * 2:
                    told.append(_tried(one.ask, value))
                    told.append((source.used, repr(one)))
                return told

        yield f"one by one {given}", asked
    bad = {
        "flat": lambda: m.sparse_vector([[1]], 1, 1, 1),
        "cutoff": lambda: m.sparse_vector([1], 1, 1, 1, 0),
        "numeric": lambda: m.sparse_vector([1], 1, 1, 1, numeric=1),
        "pickled": lambda: m.SparseVector(1, 1, 1).__reduce__(),
        "several": lambda: m.SparseVector(1, 1, 1).ask([1, 2]),
    }
    for name, case in bad.items():
        yield f"refused {name}", partial(drawn, case, name)


def _keys() -> Iterator[tuple[str, Case]]:
    counts = {
        f"k{i:02}": n for i, n in enumerate((0, 1, 2, 5, 8, 12, 15, 16, 17, 18, 20, 30, 100, 1000))
    }
    ways: list[dict[str, object]] = [
        {"delta": "1e-6"},
        {"delta": "1e-3", "max_groups": 3},
        {"threshold": 12},
        {"threshold": 12, "strict": True},
        {"delta": "1e-6", "neighbours": "change-one"},
        {"delta": "1e-6", "noise": "gaussian"},
        {"delta": "1e-6", "sensitivity": 2, "min_count": 4},
        {"delta": "1e-6", "strict": True},
        {"delta": "1e-6", "noise": "gaussian", "max_groups": 2, "neighbours": "change-one"},
        {"threshold": 40, "min_count": 16, "max_groups": 2, "sensitivity": 3},
    ]
    for given, eps in itertools.product(ways, (1, "0.3")):
        yield (
            f"{eps} {given}",
            lambda g=given, e=eps: released(partial(m.threshold_keys, counts, e, **g), f"{e}"),
        )
    for law in (noise.DiscreteLaplace(2), noise.DiscreteGaussian(4)):
        yield (
            f"ends {law}",
            lambda law=law: [
                m.interval_given_release(y, t, law, c, least)
                for t in (1, 9)
                for y in (t, t + 1, t + 5, t + 40)
                for c in LEVELS
                for least in (1, 4)
            ],
        )
    orders: dict[str, dict[object, int]] = {
        "ints": {3: 99, 1: 98, 2: 97},
        "mixed": {"a": 99, 1: 98},
        "tuples": {(2,): 99, (1,): 98},
        "nan": {float("nan"): 99, 1.0: 98},
        "dates": {date(2020, 1, 2): 99, date(2020, 1, 1): 98},
        "zones": {datetime(2020, 1, 1): 99, datetime(2020, 1, 1, tzinfo=UTC): 98},
        "none": {},
        "floats": {2.5: 99, 1.5: 98},
    }
    for name, held in orders.items():
        yield (
            f"order {name}",
            lambda h=held: released(partial(m.threshold_keys, h, 1, "1e-6"), "order"),
        )
    bad = {
        "both": lambda: m.threshold_keys(counts, 1, "1e-6", threshold=3),
        "neither": lambda: m.threshold_keys(counts, 1),
        "low": lambda: m.threshold_keys(counts, 1, threshold=1),
        "gauss": lambda: m.threshold_keys(counts, 1, threshold=30, noise="gaussian"),
        "law": lambda: m.threshold_keys(counts, 1, "1e-6", noise="x"),  # type: ignore[arg-type]
        "list": lambda: m.threshold_keys([1], 1, "1e-6"),  # type: ignore[arg-type]
        "relation": lambda: m.threshold_keys(counts, 1, "1e-6", neighbours=None),  # type: ignore[arg-type]
    }
    for name, case in bad.items():
        yield f"refused {name}", partial(drawn, case, name)


def _medians() -> Iterator[tuple[str, Case]]:
    data: dict[str, list[object]] = {
        "ages": [20 + i * 7 % 60 for i in range(41)],
        "even": [1, 2, 4, 9, 10, 10],
        "one": [5],
        "two": [1, 9],
        "none": [],
        "out": [-50, 500, 3, None, float("nan")],
        "equal": [4] * 9,
        "ends": [0] * 5 + [120] * 4,
        "dense": [60 + i / 100 for i in range(30)],
    }
    for name, values in data.items():
        for eps, delta, step in (
            (1, None, None),
            (2, "1e-6", None),
            (2, "1e-6", 1),
            ("0.2", "0.01", "0.5"),
            (30, None, 1),
            (60, "0.1", None),
        ):
            yield (
                f"{name} {eps} {delta} {step}",
                lambda v=values, e=eps, d=delta, s=step: [
                    released(partial(m.smooth_median, v, 0, 120, e, d, step=s), f"{i}")
                    for i in range(3)
                ],
            )
        yield (
            f"smooth {name}",
            lambda v=values: [
                m.smooth_sensitivity_median(v, b, 0, 120) for b in ("0.001", "0.1", "0.5", 3)
            ],
        )
        yield f"local {name}", lambda v=values: m.local_sensitivity_median(v, 0, 120)
        yield (
            f"bound {name}",
            lambda v=values: [
                _median._smooth_bound(_median._sorted_records(v, F(0), F(120)), b, F(0), F(120))
                for b in (0.01, 0.7, 90.0)
            ],
        )
    yield (
        "betas",
        lambda: [
            _median.laplace_beta(e, d)
            for e in (0.01, 1.0, 5.0, 60.0)
            for d in (1e-12, 1e-6, 0.3, 0.9)
        ],
    )
    bad = {
        "relation": lambda: m.smooth_median([1], 0, 1, 1, neighbours="add-remove"),
        "equal": lambda: m.smooth_median([1], 1, 1, 1),
        "turned": lambda: m.smooth_median([1], 2, 1, 1),
        "far": lambda: m.smooth_median([1], 0, "1e301", 1),
        "square": lambda: m.smooth_median([[1]], 0, 1, 1),
        "beta": lambda: m.smooth_median([1], 0, 1, "1e-8"),
        "beta far": lambda: m.smooth_median([1], 0, 1, 1500),
        "edges": lambda: [_median._read_beta(b) for b in (1e-7, 699.0)],
        "at 700": lambda: _median._read_beta(700.0),
        "largest": lambda: _median._read_bounds("-1e300", "1e300"),
    }
    for name, case in bad.items():
        yield f"refused {name}", partial(drawn, case, name)


def _refined() -> Iterator[tuple[str, Case]]:
    for name, ask in (("laplace", _refine.rounded_laplace), ("cauchy", _refine.rounded_cauchy)):
        for scale, step in (
            (F(1), F(1, 100)),
            (F(7, 3), F(1)),
            (F(1, 1000), F(1, 2**40)),
            (F(5), F(1, 2**700)),
        ):
            yield (
                f"{name} {scale} {step}",
                lambda f=ask, c=scale, s=step: [
                    drawn(partial(f, F(1, 3), c, s), f"{i}", w)
                    for i in range(8)
                    for w in ("plain", "first", "high")
                ],
            )

    def told(words: tuple[int, ...]) -> object:
        one = _refine._Bits.__new__(_refine._Bits)
        one.prefix, one.count, one.tainted = 0, 0, False
        for word in words:
            one.prefix, one.count = one.prefix << 64 | word, one.count + 64
        ends = _refine._exponential(one)
        return (
            _refine._sign(one),
            None if ends is None else [float(x) for x in ends],
            (None if ends is None else (f"{ends[0].numerator:x}", f"{ends[1].numerator:x}")),
        )

    top = 2**64 - 1
    for words in (
        (0, 0, 0, 1),
        (top,) * 4,
        (2**63, 0, 0, 0),
        (2**63 - 1, top, top, top),
        (5, 6, 7, 8),
    ):
        yield f"exponential {words}", partial(told, words)
    thirds = lambda t: 2**t // 3  # noqa: E731 - the binary digits of a third
    yield (
        "coins",
        lambda: [
            drawn(partial(_refine.bernoulli_real, thirds, n), "coins", s)
            for n in (0, 5, 60)
            for s in ("plain", "first")
        ],
    )

    def compared(offset: int) -> object:
        with bits("compared") as source:
            first = thirds(128) & (2**64 - 1)

            class Tied(Bits):
                def fill(self, out: np.ndarray) -> None:
                    super().fill(out)
                    if self.used == 1:
                        out.reshape(-1)[0] = first + offset

            source.__class__ = Tied
            return _refine._compare(thirds), source.used

    for offset in (-1, 0, 1):
        yield f"compared {offset}", partial(compared, offset)
    yield (
        "floors",
        lambda: [
            _refine.floor_scaled(lambda d, y=y: noise.exp_bounds(F(y), d), t)
            for y in ("1/3", 1, 9)
            for t in (1, 10, 64, 128)
        ],
    )
    yield "nearest", lambda: [_refine._nearest(F(x)) for x in ("0.5", "-0.5", "0.4999", 2, "-1.5")]


def _responses() -> Iterator[tuple[str, Case]]:
    answers = [0, 1, 1, 0, 2, None, "x", 1.0, 0.5, -1] * 4
    for given in (
        {"p": "0.5"},
        {"p": "0.01"},
        {"p": "0.999"},
        {"epsilon": 1},
        {"epsilon": "0.001"},
        {"epsilon": 9},
        {"p": "1/3", "categories": 3},
        {"epsilon": 1, "categories": 7},
    ):

        def told(given: dict[str, object] = given) -> object:
            with bits("answers") as source:
                design = m.RandomizedResponse(**given)
                r = design.respond(answers)
                one = design.respond(1)
                shares = [
                    (e.value, e.standard_error, e.n, e.interval(), repr(e))
                    for e in (r.estimate(c) for c in range(design.categories))
                ]
                rest = design.truth, design.loss, r.interval(0.9), repr(r), one.value
                return r.value, rest, shares, source.used

        yield f"{given}", told
    bad = {
        "both": lambda: m.RandomizedResponse("0.5", 1),
        "neither": lambda: m.RandomizedResponse(),
        "p 0": lambda: m.RandomizedResponse(0),
        "p 1": lambda: m.RandomizedResponse(1),
        "categories": lambda: m.RandomizedResponse("0.5", categories=1),
        "none": lambda: m.RandomizedResponse("0.5").estimate([]),
        "zero": lambda: m.RandomizedResponse(epsilon="1e-300").estimate([1]),
    }
    for name, case in bad.items():
        yield f"refused {name}", partial(drawn, case, name)
    yield (
        "bounds",
        lambda: [
            [float(x) for x in m._randomized_response._lie_bounds(F(e), k, 30)]
            for e in (1, "0.1", 20)
            for k in (2, 5)
        ],
    )


FAMILIES = {
    "additive": _additive,
    "lattices": _lattices,
    "linear": _linears,
    "choices": _choices,
    "sparse": _sparse,
    "keys": _keys,
    "medians": _medians,
    "refined": _refined,
    "responses": _responses,
}
