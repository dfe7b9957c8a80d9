"""The source of randomness: fresh, erased, safe across threads and forks, and unseedable."""

from __future__ import annotations

import inspect
import os
import threading

import numpy as np
import pytest

import discreet.mechanisms
import discreet.noise
from discreet.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Geometric,
    _entropy,
    bernoulli_exp_many,
    categorical_exp,
    is_deterministic,
    is_tainted,
    permutation,
    random_words,
    sum_of,
    uniform_below,
)
from discreet.noise._deterministic import deterministic

# the likeliest false alarm: 10^5 words of 64 bits, two of them equal, 3e-10
pytestmark = pytest.mark.fresh(1e-9)


def test_words_never_repeat():
    words = np.concatenate([random_words(n) for n in (1, 5, 2048, 2049, 100_000, 7)])
    assert np.unique(words).size == words.size


def test_every_bit_of_a_word_is_balanced():
    """64 bits, 10⁶ words, 7.5 standard deviations: false alarm below 64·1e-13."""
    words = random_words(1_000_000)
    for bit in range(64):
        ones = int((words >> np.uint64(bit) & np.uint64(1)).sum())
        assert abs(ones - 500_000) < 7.5 * 500, bit


def test_words_that_were_handed_out_are_erased():
    source = _entropy.SystemSource()
    source.words(100)
    used = source._buffer[: source._next]
    assert not used.any()
    assert source._buffer[source._next :].any()


def test_each_refill_takes_a_new_key(monkeypatch):
    keys = []
    monkeypatch.setattr(
        _entropy,
        "KeyStream",
        lambda key, kind=_entropy.KeyStream: keys.append(key) or kind(key),
    )
    source = _entropy.SystemSource()
    for _ in range(20):
        source.words(2000)
    assert len(keys) >= 4
    assert len(set(keys)) == len(keys)


def test_refills_mix_in_fresh_system_entropy():
    """Two copies of one state, as after restoring a snapshot twice, part at the next refill."""
    first, second = _entropy.SystemSource(), _entropy.SystemSource()
    first.words(10)
    second._key, second._buffer, second._next = first._key, first._buffer.copy(), first._next
    assert (first.words(100) == second.words(100)).all()
    for _ in range(5):
        a, b = first.words(2000), second.words(2000)
    assert not (a == b).any()


def _in_child(work):
    """Run `work` in a forked child and return the bytes it produced."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "wb") as out:
            out.write(work())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as received:
        data = received.read()
    assert os.waitpid(pid, 0)[1] == 0
    return data


@pytest.mark.races
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_children_never_share_noise():
    random_words(1)
    children = [_in_child(lambda: random_words(10_000).tobytes()) for _ in range(3)]
    children += [_in_child(lambda: random_words(100).tobytes()) for _ in range(3)]
    mine = [random_words(10_000), random_words(100)]
    words = np.concatenate([np.frombuffer(c, dtype=np.uint64) for c in children] + mine)
    assert np.unique(words).size == words.size


def test_a_fork_behind_pythons_back_is_noticed(monkeypatch):
    source = _entropy.SystemSource()
    source.words(1)
    key = source._key
    monkeypatch.setattr(os, "getpid", lambda: -1)
    source.words(1)
    assert source._key != key
    assert source._pid == -1


@pytest.mark.races
def test_a_lock_held_while_forking_does_not_stop_the_child():
    with _entropy._SYSTEM._lock:
        data = _in_child(lambda: random_words(3).tobytes())
    assert len(data) == 24


@pytest.mark.races
def test_threads_never_share_words():
    taken: list[np.ndarray] = []

    def work():
        taken.extend([random_words(50) for _ in range(200)] + [random_words(5000)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(taken)
    assert words.size == 8 * 15_000
    assert np.unique(words).size == words.size


@pytest.mark.parametrize("package", [discreet.noise, discreet.mechanisms])
def test_no_public_function_takes_a_seed(package):
    forbidden = {"seed", "rng", "random_state", "generator", "rand", "prng"}
    names = getattr(package, "__all__", dir(package))
    looked_at = 0
    for name in names:
        thing = getattr(package, name)
        parts = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
        for part in parts:
            function = getattr(part, "__func__", part)
            if callable(function):
                try:
                    parameters = inspect.signature(function).parameters
                except (TypeError, ValueError):
                    continue
                looked_at += 1
                assert not forbidden & {p.lower() for p in parameters}, name
    assert looked_at or package is discreet.mechanisms


def test_the_deterministic_source_is_not_public():
    assert not {"deterministic", "_deterministic"} & set(discreet.noise.__all__)


def _draws():
    return [
        DiscreteLaplace(3).sample(10),
        DiscreteGaussian(3).sample(1000),
        Geometric(2**60).sample(5),
        sum_of([DiscreteLaplace(3), Geometric(1)]).sample(4),
        random_words(3),
        permutation(5),
        uniform_below(10),
        uniform_below(10, 3),
        uniform_below(2**80, 3),
        categorical_exp([0, 1]),
        categorical_exp([0, 1], size=3),
        bernoulli_exp_many([1, 2]),
    ]


def test_the_deterministic_source_repeats_and_marks_everything():
    with deterministic(1):
        first = _draws()
        assert is_deterministic()
    with deterministic(1):
        second = _draws()
    with deterministic(2):
        other = _draws()
    for a, b in zip(first, second, strict=True):
        assert is_tainted(a)
        assert np.array_equal(a, b)
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert not is_deterministic()
    assert not any(is_tainted(x) for x in _draws())


MARK_KEEPING = {
    "plus": lambda x: x + 1,
    "reflected": lambda x: 10 - x,
    "with a plain array": lambda x: np.arange(4) + x,
    "in place": lambda x: x.__iadd__(np.int64(1)),
    "slice": lambda x: x[1:3],
    "item": lambda x: x[0],
    "item plus": lambda x: x[0] + 5,
    "sum": lambda x: x.sum(),
    "np.sum": np.sum,
    "mean": np.mean,
    "concatenate": lambda x: np.concatenate([np.arange(3), x]),
    "stack": lambda x: np.stack([x, x]),
    "where": lambda x: np.where(x > 0, x, 0),
    "clip": lambda x: np.clip(x, 0, 1),
    "astype": lambda x: x.astype(float) / 3,
    "copy": lambda x: x.copy(),
    "reshape": lambda x: x.reshape(2, 2).T,
    "matmul": lambda x: np.ones((2, 4)) @ x,
    "out": lambda x: np.add(np.arange(4), x),
    "iteration": lambda x: next(iter(x)),
    "argmax": np.argmax,
    "rounding": np.rint,
}


@pytest.mark.parametrize("way", MARK_KEEPING)
def test_marks_survive(way):
    with deterministic("marks"):
        x = DiscreteLaplace(5).sample(4)
    assert is_tainted(MARK_KEEPING[way](x))


def test_marked_integers_stay_marked_through_arithmetic():
    with deterministic("ints"):
        x = uniform_below(100)
    for y in (x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x // 2, x % 7, -x, abs(x)):
        assert is_tainted(y)


@pytest.mark.races
def test_other_threads_do_not_see_the_deterministic_source():
    seen = []
    with deterministic(1):
        thread = threading.Thread(target=lambda: seen.append(is_tainted(random_words(1))))
        thread.start()
        thread.join()
    assert seen == [False]
