"""Results of late."""

from __future__ import annotations

import os
import threading

import pytest

from discreet._recent import Recent


def test_equal_work_is_done_once_and_the_oldest_goes():
    made: list[int] = []

    def work(n: int) -> int:
        made.append(n)
        return n * n

    recent = Recent[int, int](2)
    for n in (1, 2, 1, 2, 3, 2, 1):
        assert recent(n, lambda n=n: work(n)) == n * n
    assert made == [1, 2, 3, 1]
    assert (recent.get(2), recent.get(1), recent.get(7)) == (None, 1, None)


def test_what_fails_is_not_kept():
    recent = Recent[str, str](2)
    for _ in range(2):
        try:
            recent("a", lambda: {}["a"])
        except KeyError:
            continue
    assert recent.get("a") is None


class Deep:
    """A key that counts how often it is hashed."""

    hashed = 0

    def __hash__(self):
        Deep.hashed += 1
        return 1

    def __eq__(self, other):
        return isinstance(other, Deep)


def test_a_key_is_hashed_once_for_each_look():
    recent = Recent[Deep, int]()
    assert recent(Deep(), lambda: 5) == 5
    assert Deep.hashed == 1
    assert recent(Deep(), lambda: 6) == 5
    assert Deep.hashed == 2


def test_what_is_worked_out_may_be_nothing():
    recent = Recent[str, None]()
    made: list[int] = []
    for _ in range(2):
        assert recent("a", lambda: made.append(1)) is None
    assert made == [1]


def test_what_weighs_much_makes_room_for_less():
    recent = Recent[int, str](10, lambda _, text: len(text))
    for n in (4, 5, 3):
        recent(n, lambda n=n: "x" * n)
    assert recent.load == 8
    assert (recent.get(4), recent.get(5), recent.get(3)) == (None, "xxxxx", "xxx")
    assert recent(11, lambda: "x" * 11) == "x" * 11
    assert (recent.load, recent.get(11)) == (0, None)


@pytest.mark.races
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_does_not_wait_for_a_thread_of_its_parent():
    """Without a lock of its own it would hang at the first thing that it works out."""
    inside, go, own = threading.Event(), threading.Event(), threading.get_ident()

    def weigh(_key: int, _value: int) -> int:
        if threading.get_ident() != own:
            inside.set()
            go.wait(60)
        return 1

    recent = Recent[int, int](2, weigh)
    holder = threading.Thread(target=lambda: recent(1, lambda: 1))
    holder.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            free = recent._lock.acquire(timeout=5)
            if free:
                recent._lock.release()
                code = 0 if recent(2, lambda: 4) == 4 and recent.load == 1 else 2
        finally:
            os._exit(code)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        go.set()
        holder.join()


def test_what_is_cut_short_leaves_weights_as_they_were():
    """Else nothing could make room for the weight of something that is not there."""
    weighed: list[int] = []

    def weigh(_key: int, value: int) -> int:
        weighed.append(value)
        if weighed == [2, 2, 3, 2]:  # the oldest is about to make room for the third
            raise KeyboardInterrupt
        return value

    recent = Recent[int, int](5, weigh)
    recent(1, lambda: 2)
    recent(2, lambda: 2)
    with pytest.raises(KeyboardInterrupt):
        recent(3, lambda: 3)
    assert (recent.load, recent.get(1), recent.get(3)) == (4, 2, None)
