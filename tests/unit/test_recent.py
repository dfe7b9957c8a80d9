"""Results of late."""

from __future__ import annotations

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
