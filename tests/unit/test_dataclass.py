"""Our dataclasses mean what the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field, replace
from typing import ClassVar

import pytest

from discreet._dataclass import dataclass
from discreet._dataclass import replace as ours


def forms(make):
    """Classes of every form that is in use, made by one decorator."""

    @make(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        tags: tuple[str, ...] = field(default=(), compare=False)
        names: list[str] = field(default_factory=list, repr=False, hash=False, compare=False)
        kind: ClassVar[str] = "point"

    @make(frozen=True, slots=True)
    class Solid(Point):
        z: int = 3
        sum: int = field(init=False, default=0)

        def __post_init__(self):
            object.__setattr__(self, "sum", self.x + self.y + self.z)

    @make(frozen=True)
    class Plain:
        x: int
        fixed: int = field(default=7, init=False)
        last: int = field(kw_only=True)

    @make(frozen=True, eq=False)
    class Thing:
        x: int = 0

    @make(frozen=True)
    class Own:  # noqa: PLW1641 - the decorator gives it one
        x: int = 0

        def __eq__(self, other):
            return isinstance(other, Own)

        def __repr__(self):
            return "own"

    @make(frozen=True, slots=True, init=False)
    class Read:
        x: int

        def __init__(self, text):
            object.__setattr__(self, "x", int(text))

    @make
    class Open:
        x: int = 0
        more: list[int] = field(default_factory=list)

    @make(slots=True)
    class Box:
        x: int = 0

    @make(frozen=True)
    class Empty:
        pass

    return Point, Solid, Plain, Thing, Own, Read, Open, Box, Empty


def facts(make):
    """What can be seen of them."""
    point, solid, plain, thing, own, read, opened, box, empty = forms(make)
    values = [
        point(1), point(1, 5, ("a",)), solid(1, z=9), plain(1, last=2), own(3), read("4"),
        opened(1, [2]), box(5), empty(), thing(),
    ]  # fmt: skip
    for v in values:
        kind = type(v)
        yield "repr", repr(v) if kind is not thing else None
        yield "signature", [p.replace(annotation=1) for p in _parameters(kind)]
        yield "names", [(f.name, f.init, f.repr, f.compare) for f in dataclasses.fields(v)]
        yield "match", kind.__match_args__
        yield "slots", getattr(kind, "__slots__", None)
        yield "equal", [v == w for w in values]
        yield "hash", _tried(lambda v=v: len({v, copy.copy(v)}))
        yield "copy", copy.copy(v) == v, copy.deepcopy(v) == v
        yield "assign", _tried(lambda v=v: setattr(v, "x", 1))
        # 3.11 raises TypeError here for slots, by mistake
        yield "add", _tried(lambda v=v: setattr(v, "other", 1)) is None
        yield "delete", _tried(lambda v=v: delattr(v, "x"))
    yield "replace", repr(replace(values[0], y=8)), repr(replace(values[2], x=0))
    yield "apart", values[0].names is values[1].names, values[0] == replace(values[0], tags=("b",))
    yield "refused", [_tried(w) for w in (point, lambda: point(1, 2, (), [], 5), lambda: plain(1))]


def _parameters(kind):
    own = list(inspect.signature(kind).parameters.values())
    # a default that is made anew shows as some object
    return [p.replace(default=0) if type(p.default) is object or "factory" in repr(p.default)
            else p for p in own]  # fmt: skip


def _tried(work):
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - kinds are compared
        return type(error)


def test_classes_mean_what_those_of_the_standard_library_do():
    ours, theirs = list(facts(dataclass)), list(facts(dataclasses.dataclass))
    assert ours == theirs


def replaced(replace):
    """What comes of replacing fields, and what is refused."""
    point, solid, plain, thing, own, read, opened, box, empty = forms(dataclass)
    kept = point(1, 5, ("a",), ["b"])
    other = replace(kept, y=8)
    yield repr(other), other.tags, other.names is kept.names, repr(kept)
    yield repr(replace(solid(1, z=9), x=0)), repr(replace(plain(1, last=2), last=3))
    yield repr(replace(opened(1, [2]), more=[3])), repr(replace(box(5))), repr(replace(empty()))
    yield replace(thing(4)).x, repr(replace(own(3), x=4))
    refused = [
        lambda: replace(kept, z=1), lambda: replace(solid(1), sum=4), lambda: replace(read("4")),
        lambda: replace(plain(1, last=2), fixed=1), lambda: replace(5, x=1),
    ]  # fmt: skip
    yield [_tried(work) for work in refused]


def test_replace_means_what_that_of_the_standard_library_does():
    once, again, theirs = (list(map(repr, replaced(r))) for r in (ours, ours, replace))
    assert once == again == theirs


def test_a_class_that_forgets_a_value_is_seen():

    def forgetful(cls=None, **choices):
        def make(plain):
            made = dataclass(**choices)(plain)
            if choices.get("slots") and choices.get("frozen"):
                made.__setstate__ = lambda *_: None
            return made

        return make if cls is None else make(cls)

    with pytest.raises(AttributeError):
        list(facts(forgetful))


@dataclass(frozen=True, slots=True)
class Kept:
    x: int
    rest: tuple[int, ...] = ()


def test_frozen_values_are_pickled():
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_a_subclass_may_hold_more():
    class More(Kept):
        def __init__(self):
            super().__init__(1)
            self.own = 2

    more = More()
    del more.own
    with pytest.raises(dataclasses.FrozenInstanceError):
        more.x = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        del more.x
