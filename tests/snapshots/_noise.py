"""Net of ``noise``: what samplers make of given random bits, their heaps, and what laws say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction as F
from functools import partial
from unittest import mock

import numpy as np
from tests.snapshots import Case, quiet

from discreet import noise as z
from discreet.noise import _cells, _compare, _entropy, _laws, _uniform
from discreet.noise._deterministic import DeterministicSource

TOP = 2**64 - 1
HARD = (0, TOP, 1, 2**63, 2**63 - 1, 2**52, 0, 0, TOP, 3, 2**12, TOP - 1, 2**40, 7, 0, 2**58 + 1)
"""Words that chance would not show in a lifetime."""


class Bits(DeterministicSource):
    """The same words in every run, counted; some of them hard ones."""

    tainted = False

    def __init__(self, seed: str, shape: str = "plain") -> None:
        super().__init__(seed)
        self.used = 0
        self._shape = shape

    def fill(self, out: np.ndarray) -> None:
        """Overwrite `out` with the next words."""
        super().fill(out)
        flat = out.reshape(-1)
        if self._shape == "first":
            left = HARD[self.used : self.used + flat.size]
            flat[: len(left)] = np.array(left, dtype=np.uint64)
        elif self._shape == "low":
            flat[-self.used % 3 :: 3] >>= np.uint64(52)  # the first cells: a heap's tails
        elif self._shape == "high":
            flat[-self.used % 3 :: 3] |= np.uint64(TOP - 2**50 + 1)
        self.used += flat.size


@contextmanager
def bits(seed: str, shape: str = "plain") -> Iterator[Bits]:
    """Draw from given bits inside the block."""
    source = Bits(seed, shape)
    token = _entropy.OVERRIDE.set(source)
    try:
        with quiet():
            yield source
    finally:
        _entropy.OVERRIDE.reset(token)


def drawn(draw: Callable[[], object], seed: str, shape: str = "plain") -> object:
    """What is drawn from given bits, and how many words that takes."""
    with bits(seed, shape) as source:
        return draw(), source.used


LAPLACE = ("1/1000", "0.1", "0.7", 1, 10, "1000/3", 10**6, 2**40, 2**55, 2**60)
GAUSS = ("0.01", "0.4", 1, "5.5", 300, 10**5, 2**45, 2**57)
ONE_SIDED = ("0.1", 1, "37.5", 10**5, 2**56)
LAWS: dict[str, z.Law] = {
    **{f"laplace {s}": z.DiscreteLaplace(s) for s in LAPLACE},
    **{f"gauss {s}": z.DiscreteGaussian(s) for s in GAUSS},
    **{f"geometric {s}": z.Geometric(s) for s in ONE_SIDED},
    "gauss of 1/3": z.DiscreteGaussian.from_variance("1/3"),
    "gauss of 65535": z.DiscreteGaussian.from_variance(65535),
    "gauss of 65536": z.DiscreteGaussian.from_variance(65536),
    "gauss of 0.159": z.DiscreteGaussian.from_variance("0.159"),
    "gauss of 0.16": z.DiscreteGaussian.from_variance("0.16"),
}


def _samples(kind: str, sizes: tuple[int, ...], shapes: tuple[str, ...]):  # type: ignore[no-untyped-def]
    def cases() -> Iterator[tuple[str, Case]]:
        for name, law in LAWS.items():
            if name.startswith(kind):
                for n, shape in itertools.product(sizes, shapes):
                    yield f"{name} {n} {shape}", partial(drawn, partial(law.sample, n), name, shape)

    return cases


def _heaps() -> Iterator[tuple[str, Case]]:
    def told(heap: _cells.Cells) -> object:
        return heap, heap.sure.sum(), np.diff(heap.sure)[:: max(1, heap.sure.size // 50)]

    for name, law in LAWS.items():
        kernel = law._kernel  # type: ignore[attr-defined]
        yield (
            f"small {name}",
            lambda k=kernel: told(_cells.cells.__wrapped__(k, bits=7, resolution=1, tail_bits=20)),
        )
        yield f"width {name}", lambda k=kernel: (k.width, k.exponent(7), k.exponent(-3), k.rate(5))
    for tail in (0, 8, 300):
        kernel = z.DiscreteGaussian(3)._kernel
        yield (
            f"tail bits {tail}",
            lambda k=kernel, t=tail: told(
                _cells.cells.__wrapped__(k, bits=6, resolution=2, tail_bits=t)
            ),
        )


def _hex(x: F) -> str:
    return f"{x.numerator:x}/{x.denominator:x}"


def _tests() -> Iterator[tuple[str, Case]]:
    """Comparisons of a uniform real with a real number, at the number itself."""
    values = (F(0), F(1, 3), F(1), F(7, 2), F(700), F(10**6, 7))
    for y in values:
        for digits in (5, 30, 55):
            yield f"exp {y} {digits}", lambda y=y, d=digits: [_hex(x) for x in z.exp_bounds(y, d)]
    for y, factor, offset in itertools.product(
        (F(0), F(1, 3), F(2), F(60)), (F(1), F(7, 3)), (0, 1)
    ):

        def near(y: F = y, factor: F = factor, offset: int = offset) -> object:
            low, _ = z.exp_bounds(y, 60)
            edge = int((factor * low - offset) * 2**64)
            words = [w for w in (edge - 2, edge - 1, edge, edge + 1, 0, TOP) if 0 <= w <= TOP]
            return [
                drawn(partial(_compare.below_scaled_exp, w, y, factor, offset), f"{w}", shape)
                for w in words
                for shape in ("plain", "first", "high")
            ]

        yield f"near {y} {factor} {offset}", near
    yield (
        "far",
        lambda: [
            drawn(partial(_compare.below_scaled_exp, w, F(y), F(1)), "far", shape)
            for w in (0, 1, 5)
            for y in (44, 45, 50, 88, 89, 1000, 10**12)
            for shape in ("plain", "first")
        ],
    )
    yield (
        "log2",
        lambda: [_compare.log2(F(x)) for x in (1, 2, 3, "1/3", "5/4", 2**3000, F(1, 3**900))],
    )
    yield "float below", lambda: [_compare.float_below(F(x)) for x in (1, "1/3", 10**400, 0)]
    yield from _settled()


def _settled() -> Iterator[tuple[str, Case]]:
    for name in ("laplace 10", "gauss 5.5", "geometric 1", "gauss 300", f"laplace {2**60}"):
        heap = _cells.cells(LAWS[name]._kernel, bits=8, resolution=2)  # type: ignore[attr-defined]

        def settled(heap: _cells.Cells = heap) -> object:
            told = []
            first = len(heap.tails)
            for cell in range(first, min(first + 40, int(np.isfinite(heap.edge_level).sum()))):
                x = int(heap.edge_low[cell]) << heap.unit
                share = F(1 << int(heap.edge_log[cell])) / F(heap.area)
                low, _ = z.exp_bounds(heap.kernel.exponent(x), 50)
                edge = int((share * low - int(heap.edge_level[cell])) * 2**64)
                for word in (edge - 1, edge, edge + 1, 2**63):
                    if 0 <= word <= TOP:
                        told.append(drawn(partial(_cells._settle, heap, cell, 0, word), "edge"))
            return told

        def beyond(heap: _cells.Cells = heap) -> object:
            return [
                drawn(partial(_cells._tail, heap, cell, word), f"{word}")
                for cell in range(len(heap.tails))
                for word in (0, 1, 2**20, 2**40, 2**55, TOP)
            ]

        yield f"settled {name}", settled
        yield f"tail {name}", beyond
    yield (
        "geometric",
        lambda: [
            drawn(partial(_cells.geometric, F(r)), f"{r} {i}", shape)
            for r in ("1/7", "3/2", 5, "2/1001")
            for i in range(6)
            for shape in ("plain", "first")
        ],
    )


def _plain() -> Iterator[tuple[str, Case]]:
    """Uniform, Bernoulli, permutations, softmax."""
    shapes = ("plain", "first", "high")
    for n, shape in itertools.product(
        (1, 2, 3, 255, 256, 257, 10**9, 2**63, 2**63 + 1, 10**30), shapes
    ):
        yield (
            f"uniform {n} {shape}",
            lambda n=n, s=shape: [
                drawn(partial(z.uniform_below, n), "one", s),
                drawn(partial(z.uniform_below, n, 7), "7", s),
                drawn(partial(z.uniform_below, n, 0), "0", s),
            ],
        )
    for n, shape in itertools.product(
        (1, 2, 6, 256, 257, 1000, 2**24, 2**24 + 1, 2**40 - 3, 2**63), shapes
    ):
        yield (
            f"uniform many {n} {shape}",
            lambda n=n, s=shape: [
                drawn(partial(z.uniform_many, n, k), "many", s) for k in (0, 1, 9, 40)
            ],
        )
    for p in (0, 1, "1/2", "1/3", "255/256", "1/256", "1e-9", "0.3", "1/18446744073709551617"):
        yield (
            f"bernoulli {p}",
            lambda p=p: [
                drawn(partial(z.bernoulli, p), f"{i}", s) for i in range(6) for s in shapes
            ],
        )
        yield (
            f"bernoulli many {p}",
            lambda p=p: [
                drawn(partial(z.bernoulli_many, p, n), "many", s)
                for n in (0, 1, 8, 300)
                for s in shapes
            ],
        )
        yield (
            f"bernoulli bits {p}",
            lambda p=p: [
                drawn(partial(z.bernoulli_bits, p, n), "bits", s)
                for n in (0, 1, 30)
                for s in shapes
            ],
        )
    yield "ties", lambda: _tied()
    yield (
        "permutations",
        lambda: [
            drawn(partial(z.permutation, n), f"{n}", s)
            for n in (0, 1, 2, 5, 40)
            for s in ("plain", "first")
        ],
    )
    yield "words", lambda: [drawn(partial(z.random_words, n), "w") for n in (0, 1, 5)]
    yield (
        "bits",
        lambda: [drawn(partial(_entropy.bits, n), "b") for n in (1, 7, 63, 64, 65, 128, 200)],
    )
    yield "word", lambda: drawn(_entropy.word, "w")
    given = {
        "ints": [0, 1, 5, 40, 700],
        "floats": [0.0, 0.1, 2.5, 690.0, 745.0],
        "large": [2**61, 0, 1],
        "fractions": [F(1, 3), F(10**30, 7), F(0)],
        "texts": ["0.5", "1/7", "3"],
    }
    for name, values in given.items():
        array = np.array(values) if name in ("ints", "floats", "large") else values
        for denominator in (1, "3/2", 10**6):
            yield (
                f"exp many {name} {denominator}",
                lambda a=array, d=denominator: [
                    drawn(partial(z.bernoulli_exp_many, a, d), f"{i}", s)
                    for i in range(4)
                    for s in shapes
                ],
            )
            signed = [-array, array] if isinstance(array, np.ndarray) else [array]
            yield (
                f"softmax {name} {denominator}",
                lambda many=signed, d=denominator: [
                    [
                        drawn(partial(z.categorical_exp, a, d), f"{i}", s)
                        for i in range(4)
                        for s in shapes
                    ]
                    + [drawn(partial(z.categorical_exp, a, d, size=60), "many", s) for s in shapes]
                    for a in many
                ],
            )
    yield "near exp", lambda: [_near_exp(y) for y in (F(1, 3), F(1), F(5), F(20))]


def _near_exp(y: F) -> object:
    """Coins whose first word is the first word of their probability."""
    low, _ = z.exp_bounds(y, 40)
    edge = int(low * 2**64)
    told = []
    for word in (edge - 2**27, edge - 2, edge - 1, edge, edge + 1, edge + 2**27):
        with bits("near") as source:
            fill = Bits.fill

            def first(self: Bits, out: np.ndarray, word: int = word) -> None:
                began = not self.used
                fill(self, out)
                if began and out.size:
                    out.reshape(-1)[0] = word

            with mock.patch.object(Bits, "fill", first):
                told.append((z.bernoulli_exp(y), source.used))
    return told


def _tied() -> object:
    """Coins whose words are those of their probability, so that a second look decides."""
    told = []
    for p in (F(1, 3), F(2, 7)):
        second = int((p * 256 % 1) * 2**64)
        with bits("ties") as source:

            def tied(self: Bits, out: np.ndarray, p: F = p, second: int = second) -> None:
                DeterministicSource.fill(self, out)
                flat = out.reshape(-1)
                self.used += flat.size
                if self.used <= 2:
                    flat[:] = int.from_bytes(bytes([int(p * 256)] * 8), "little")
                elif self.used <= 20:
                    flat[::2] = second

            with mock.patch.object(Bits, "fill", tied):
                told.append((z.bernoulli_many(p, 16), source.used))
    return told


KS = (
    -(10**18),
    -50000,
    -400,
    -31,
    -6,
    -2,
    -1,
    0,
    1,
    2,
    5,
    6,
    30,
    299,
    5000,
    10**5,
    10**9,
    2**61,
    2.5,
    -0.5,
)
LEVELS = ("0.0001", "0.5", "0.6827", "0.95", "0.999", "0.999999999")


def _said() -> Iterator[tuple[str, Case]]:
    for name, law in LAWS.items():

        def told(law: z.Law = law) -> object:
            with quiet():
                ks = np.array(KS)
                tables = law.pmf(ks), law.cdf(ks), law.sf(ks), law.pmf(3), law.cdf(3), law.sf(3)
                small = [[x if x > 1e-14 else 0.0 for x in t] for t in (tables[1],)]
                rest = law.mean, law.variance, law.std, law.symmetric, law.to_dict(), repr(law)
                return tables[0], small, tables[2:4], tables[5], rest

        yield f"law {name}", told
        yield (
            f"intervals {name}",
            lambda law=law: (
                # far ends are doubles that were rounded to integers
                [float(c) if abs(c) > 2**40 else c for x in LEVELS for c in law.interval(x)[:2]]
                + [law.interval(level).confidence for level in LEVELS]
            ),
        )
    for guess in (0, 1, 5, 6, 7, 8, 100):
        yield (
            f"smallest {guess}",
            lambda g=guess: [
                _laws.smallest(lambda c, n=n: c >= n, g) for n in (0, 1, 6, 7, 8, 63, 64, 500)
            ],
        )
    yield (
        "tails",
        lambda: [
            _laws._euler_maclaurin(np.array([0.5, 10.5, 3000.5]), s) for s in (256.0, 1000.0, 1e6)
        ],
    )
    yield "sums", lambda: [_laws._tail_sums(F(v)) for v in ("0.01", 1, 9)]


def _refused() -> Iterator[tuple[str, Case]]:
    law = z.DiscreteLaplace(1)
    asked = {
        "laplace 0": lambda: z.DiscreteLaplace(0),
        "laplace small": lambda: z.DiscreteLaplace("1e-10"),
        "laplace edges": lambda: [z.DiscreteLaplace("1e-9"), z.DiscreteLaplace(2**60)],
        "laplace large": lambda: z.DiscreteLaplace(2**60 + 1),
        "gauss": lambda: z.DiscreteGaussian(-1),
        "variance": lambda: z.DiscreteGaussian.from_variance(0),
        "variance small": lambda: z.DiscreteGaussian.from_variance("1e-19"),
        "variance edges": lambda: [z.DiscreteGaussian.from_variance(v) for v in ("1e-18", 2**120)],
        "variance large": lambda: z.DiscreteGaussian.from_variance(2**120 + 1),
        "confidence 1": lambda: law.interval(1),
        "confidence 0": lambda: law.interval(0),
        "confidence far": lambda: law.interval("0.9999999999999999"),
        "count -1": lambda: law.sample(-1),
        "count true": lambda: law.sample(True),
        "uniform 0": lambda: z.uniform_below(0),
        "many 0": lambda: z.uniform_many(0, 1),
        "many far": lambda: z.uniform_many(2**63 + 1, 1),
        "p": lambda: z.bernoulli("1.1"),
        "p many": lambda: z.bernoulli_many("-0.1", 1),
        "p bits": lambda: z.bernoulli_bits(2, 1),
        "exp -1": lambda: z.bernoulli_exp(-1),
        "denominator": lambda: z.bernoulli_exp_many([1], 0),
        "softmax none": lambda: z.categorical_exp([]),
        "softmax flat": lambda: z.categorical_exp(np.zeros((2, 2))),
        "softmax nan": lambda: z.categorical_exp(np.array([np.nan])),
        "levels": lambda: [_laws.level("0.9"), _laws.level("0.9", 0.04)],
        "level far": lambda: _laws.level("0.95", 0.04),
    }
    for name, case in asked.items():
        yield name, partial(drawn, case, name)
    yield (
        "numbers",
        lambda: [
            _uniform._numbers(np.array([0, x]), 1, "x") for x in (2**61 - 1, 2**61, -(2**61), 5)
        ],
    )


def _system() -> Iterator[tuple[str, Case]]:
    """The system's source, with the system's entropy known."""

    def run(sizes: tuple[int, ...]) -> object:
        count = itertools.count(1)
        with mock.patch.object(_entropy.os, "urandom", lambda n: bytes([next(count) % 256] * n)):
            source, told = _entropy.SystemSource(), []
            for n in sizes:
                told.append((source.words(n)[:5], source._next, source._key.hex()))
            left = source._buffer[: source._next]
            return told, int(left.any()), source.stream().words(3), next(count)

    for sizes in (
        (1,),
        (3, 4, 5),
        (2048, 2048, 2048, 2044, 1),
        (2048, 2048, 2048, 2045),
        (2049,),
        (0, 2048, 1),
    ):
        yield f"words {sizes}", partial(run, sizes)

    def stream() -> object:
        one = _entropy.KeyStream(bytes(range(32)))
        return one.words(3), one.words(0), one.words(40000).sum(), one.words(2)

    yield "stream", stream

    def forked() -> object:
        source = _entropy.SystemSource()
        with mock.patch.object(_entropy.os, "urandom", lambda n: bytes(n)):
            first = source.words(2)
            source._pid -= 1
            again = source.words(2)  # the same: it has begun anew
        return first, again, source._next

    yield "fork", forked


FAMILIES = {
    "small laplace": _samples("laplace", (0, 1, 5, 60), ("plain", "low", "first", "high")),
    "small gauss": _samples("gauss", (1, 60), ("plain", "low", "high")),
    "small geometric": _samples("geometric", (1, 60), ("plain", "low", "high")),
    "bulk laplace": _samples("laplace", (257, 2000), ("plain",)),
    "bulk gauss": _samples("gauss", (256, 257), ("plain",)),
    "bulk geometric": _samples("geometric", (257, 40000), ("plain",)),
    "bulk hard": _samples("laplace 1", (300,), ("low", "high", "first")),
    "heaps": _heaps,
    "comparisons": _tests,
    "coins": _plain,
    "laws": _said,
    "refusals": _refused,
    "system": _system,
}
