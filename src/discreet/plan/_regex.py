r"""Regular expressions that every engine reads alike, and that match in linear time.

The language: characters, ``.`` (any character, newlines too), ``[a-z]`` and ``[^a-z]``,
``\d \w \s`` (ASCII), groups, ``|``, ``? * + {m} {m,} {m,n}``, ``^`` as the first sign and
``$`` as the last. Patterns are read here into a tree and written anew, so that no engine sees
a construct about which engines differ; what is matched is true or false, so that leftmost and
longest do not matter. A text is cut to a public length first, and the size of the
pattern's automaton is bounded: the reference, which simulates it state by state, ends soon
whatever the text, and so do engines that do the same (RE2 in DuckDB, the automaton of
PostgreSQL).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from discreet._dataclass import dataclass
from discreet.errors import QueryError

LONGEST_PATTERN: Final = 200
_MOST_REPEATS: Final = 100
_MOST_STATES: Final = 1_000
_MOST_EFFORT: Final = 8_000
"""States in all sets that are looked at, to find out whether there are few."""
_SPECIAL: Final = frozenset("\\^$.|?*+()[]{}")
_PLAIN_IN_SET: Final = frozenset(" !\"#$%'()*+,/;<>?@_`{}")
_CLASSES: Final = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 13), (32, 32)),
}
_FIRST: Final = 0  # PostgreSQL's text holds no such character; elsewhere it is one like others
_LAST: Final = 0x10FFFF
_HINT: Final = "REGEXP_LIKE(city, '^B.*n$')"

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class One:
    """One character, in ranges of code points."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Row:
    """Parts one after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several branches."""

    branches: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part several times; no upper end is None."""

    part: Tree
    least: int
    most: int | None


Tree = One | Row | Either | Repeat


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that was read: what it matches, and whether its ends are fixed."""

    tree: Tree
    begins: bool
    ends: bool

    @property
    def text(self) -> str:
        """The pattern, written anew."""
        inner = _text(self.tree)
        if isinstance(self.tree, Either) and (self.begins or self.ends):
            inner = f"(?:{inner})"
        return "^" * self.begins + inner + "$" * self.ends

    @property
    def states(self) -> int:
        """States that an engine may have to follow at each character; see :func:`_states`."""
        return _states(self.tree, begins=self.begins)

    def matches(self, text: str) -> bool:
        """Whether it matches anywhere in a text."""
        return _run(_program(self.tree), text, begins=self.begins, ends=self.ends)


def wrong(why: str) -> QueryError:
    """Refusal of a pattern."""
    return QueryError(f"the regular expression {why}", hint=_HINT)


@lru_cache(maxsize=128)
def read(text: str, *, fold: bool = False) -> Pattern:
    """Read a pattern; with `fold`, ASCII letters match either case.

    >>> read("^(B|C).+n$").matches("Bern"), read("a{2,3}$").matches("baab")
    (True, False)
    """
    if len(text) > LONGEST_PATTERN:
        raise wrong(f"is longer than {LONGEST_PATTERN} characters")
    begins, ends = text.startswith("^"), text.endswith("$") and not _escaped(text)
    reader = _Reader(text[begins : len(text) - ends], fold)
    tree = reader.either()
    if reader.at < len(reader.text):
        raise wrong("closes a group that is not open")
    if (begins or ends) and reader.split:
        raise wrong("fixes an end of one branch only: put the branches in a group, ^(a|b)$")
    if len(_program(tree)) > _MOST_STATES:
        raise wrong("repeats too much")
    return Pattern(tree, begins, ends)


def _escaped(text: str) -> bool:
    """Whether the last sign stands behind an odd number of backslashes."""
    before = text[:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


@dataclass
class _Reader:
    text: str
    fold: bool
    at: int = 0
    depth: int = 0
    split: bool = False
    """Whether there are branches outside all groups."""

    def take(self, sign: str) -> bool:
        found = self.text.startswith(sign, self.at)
        self.at += len(sign) * found
        return found

    def next(self) -> str:
        if self.at >= len(self.text):
            raise wrong("ends too soon")
        self.at += 1
        return self.text[self.at - 1]

    def either(self) -> Tree:
        branches = [self.row()]
        while self.take("|"):
            branches.append(self.row())
            self.split |= self.depth == 0
        return branches[0] if len(branches) == 1 else Either(tuple(branches))

    def row(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self.repeated(self.one()))
        if not parts:
            raise wrong("has an empty branch or group")
        return parts[0] if len(parts) == 1 else Row(tuple(parts))

    def repeated(self, part: Tree) -> Tree:
        repeat: Tree | None = None
        for sign, least, most in (("?", 0, 1), ("*", 0, None), ("+", 1, None)):
            if self.take(sign):
                repeat = Repeat(part, least, most)
        if repeat is None and self.take("{"):
            repeat = Repeat(part, *self.counts())
        if repeat is None:
            return part
        if self.text[self.at : self.at + 1] in ("?", "*", "+", "{"):
            raise wrong("repeats a repetition (lazy and possessive forms are not supported)")
        return repeat

    def counts(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : max(end, self.at)].partition(",")
        if end < 0 or not (low.isascii() and low.isdigit()) or len(low) > 3:
            raise wrong("repeats by other than {m}, {m,} or {m,n}")
        self.at = end + 1
        least = int(low)
        if comma and not high:
            most = None
        elif comma and not (high.isascii() and high.isdigit() and len(high) <= 3):
            raise wrong("repeats by other than {m}, {m,} or {m,n}")
        else:
            most = int(high) if comma else least
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise wrong(f"repeats more than {_MOST_REPEATS} times, or from more to less")
        return least, most

    def one(self) -> Tree:
        sign = self.next()
        if sign == "(":
            return self.group()
        if sign == "[":
            return self.members()
        if sign == ".":
            return One(((_FIRST, _LAST),))
        if sign == "\\":
            return self.folded(self.escape())
        if sign in _SPECIAL:
            raise wrong(f"has {sign} where it means nothing")
        return self.folded(((ord(sign), ord(sign)),))

    def group(self) -> Tree:
        if self.text.startswith("?", self.at) and not self.take("?:"):
            raise wrong("looks ahead or behind, or sets flags")
        self.depth += 1
        if self.depth > 20:
            raise wrong("is nested too deeply")
        inner = self.either()
        if not self.take(")"):
            raise wrong("leaves a group open")
        self.depth -= 1
        return inner

    def escape(self) -> Ranges:
        sign = self.next()
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.isalnum() or not sign.isascii() or not sign.isprintable():
            raise wrong(f"has \\{sign}, which engines read in different ways")
        return ((ord(sign), ord(sign)),)

    def members(self) -> Tree:
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            if self.text.startswith(("[:", "[.", "[=", "&&", "--", "||", "~~"), self.at):
                raise wrong("has a class in a class")
            sign = self.next()
            if sign == "\\":
                ranges += self.escape()
                continue
            low = high = ord(sign)
            after = self.text[self.at : self.at + 2]
            if after[:1] == "-" and after[1:] not in ("]", ""):
                self.at += 1
                high = ord(self.next())
            if high < low or chr(high) == "\\":
                raise wrong("has a range that goes down")
            ranges.append((low, high))
        if not ranges:
            raise wrong("has an empty class")
        whole = self.folded(tuple(ranges)).ranges
        return One(_complement(whole)) if negated else One(whole)

    def folded(self, ranges: Ranges) -> One:
        extra: list[tuple[int, int]] = []
        for low, high in ranges if self.fold else ():
            for first, last, shift in ((65, 90, 32), (97, 122, -32)):
                a, b = max(low, first), min(high, last)
                if a <= b:
                    extra.append((a + shift, b + shift))
        return One(_merged([*ranges, *extra]))


def _merged(ranges: Sequence[tuple[int, int]]) -> Ranges:
    union: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if union and low <= union[-1][1] + 1:
            union[-1] = (union[-1][0], max(union[-1][1], high))
        else:
            union.append((low, high))
    return tuple(union)


def _complement(ranges: Ranges) -> Ranges:
    gaps, at = [], _FIRST
    for low, high in ranges:
        if at < low:
            gaps.append((at, low - 1))
        at = high + 1
    if at <= _LAST:
        gaps.append((at, _LAST))
    if not gaps:
        raise wrong("has a class that nothing belongs to")
    return tuple(gaps)


# -- writing ------------------------------------------------------------------------------


def _text(tree: Tree) -> str:
    match tree:
        case One(ranges):
            return _set(ranges)
        case Row(parts):
            return "".join(_grouped(p) if isinstance(p, Either) else _text(p) for p in parts)
        case Either(branches):
            return "|".join(map(_text, branches))
        case Repeat(part, least, most):
            inner = _text(part) if isinstance(part, One) else _grouped(part)
            return inner + _times(least, most)
    raise AssertionError(tree)


def _grouped(tree: Tree) -> str:
    return f"(?:{_text(tree)})"


def _times(least: int, most: int | None) -> str:
    short = {(0, 1): "?", (0, None): "*", (1, None): "+"}.get((least, most))
    if short is not None:
        return short
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"


def _sign(code: int) -> str:
    sign = chr(code)
    return f"\\{sign}" if sign in _SPECIAL else sign


def _set(ranges: Ranges) -> str:
    """A class without any sign that engines could read as more than itself."""
    if ranges == ((_FIRST, _LAST),):
        return "."
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _sign(ranges[0][0])
    outside = _complement(ranges)
    negated = ranges[-1][1] == _LAST and all(map(_safe, outside))
    members = outside if negated else ranges
    if all(map(_safe, members)):
        return f"[{'^' * negated}{''.join(_range(r) for r in members)}]"
    plain = [r for r in members if _safe(r)]
    signs = [c for low, high in members if not _safe((low, high)) for c in range(low, high + 1)]
    if len(signs) > 64 or negated:
        raise wrong("has a class with characters that engines read in different ways")
    parts = [_sign(c) for c in signs]
    parts += [f"[{''.join(map(_range, plain))}]"] if plain else []
    return f"(?:{'|'.join(parts)})"


def _safe(ends: tuple[int, int]) -> bool:
    """Whether both ends of a range may stand in brackets."""
    return all(chr(c).isalnum() or chr(c) in _PLAIN_IN_SET or c > 0x9F or c < 0x20 for c in ends)


def _range(ends: tuple[int, int]) -> str:
    low, high = ends
    return chr(low) if low == high else f"{chr(low)}-{chr(high)}"


# -- matching -----------------------------------------------------------------------------

_Step = tuple[str, object, int]


@lru_cache(maxsize=128)
def _program(tree: Tree) -> tuple[_Step, ...]:
    """Steps of an automaton: a character, or a choice of where to go on."""
    steps: list[_Step] = []
    _compile(tree, steps)
    steps.append(("match", None, 0))
    return tuple(steps)


def _compile(tree: Tree, steps: list[_Step]) -> None:
    if len(steps) > _MOST_STATES:
        raise wrong("repeats too much")
    match tree:
        case One(ranges):
            steps.append(("one", ranges, len(steps) + 1))
        case Row(parts):
            for part in parts:
                _compile(part, steps)
        case Either(branches):
            _branches(branches, steps)
        case Repeat(part, least, most):
            for _ in range(least):
                _compile(part, steps)
            _optional(part, None if most is None else most - least, steps)


def _branches(branches: Sequence[Tree], steps: list[_Step]) -> None:
    jumps = []
    for place, branch in enumerate(branches):
        fork = len(steps)
        if place < len(branches) - 1:
            steps.append(("fork", None, 0))
        _compile(branch, steps)
        jumps.append(len(steps))
        steps.append(("jump", None, 0))
        if place < len(branches) - 1:
            steps[fork] = ("fork", fork + 1, len(steps))
    for jump in jumps:
        steps[jump] = ("jump", None, len(steps))


def _optional(part: Tree, times: int | None, steps: list[_Step]) -> None:
    if times is None:
        fork = len(steps)
        steps.append(("fork", None, 0))
        _compile(part, steps)
        steps.append(("jump", None, fork))
        steps[fork] = ("fork", fork + 1, len(steps))
        return
    forks = []
    for _ in range(times):
        forks.append(len(steps))
        steps.append(("fork", None, 0))
        _compile(part, steps)
    for fork in forks:
        steps[fork] = ("fork", fork + 1, len(steps))


def _reached(program: Sequence[_Step], starts: Iterator[int]) -> set[int]:
    """States that can be reached without reading a character."""
    seen: set[int] = set()
    stack = list(starts)
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        kind, first, second = program[place]
        if kind == "jump":
            stack.append(second)
        elif kind == "fork":
            assert isinstance(first, int)
            stack += [first, second]
    return seen


def _run(program: Sequence[_Step], text: str, *, begins: bool, ends: bool) -> bool:
    final = len(program) - 1
    now = _reached(program, iter((0,)))
    for sign in text:
        if final in now and not ends:
            return True
        code = ord(sign)
        moved = (
            step[2]
            for place in now
            if (step := program[place])[0] == "one" and _within(code, step[1])
        )
        now = _reached(program, iter([*moved] if begins else [*moved, 0]))
    return final in now


def _within(code: int, ranges: object) -> bool:
    assert isinstance(ranges, tuple)
    return any(low <= code <= high for low, high in ranges)


@lru_cache(maxsize=128)
def _states(tree: Tree, *, begins: bool) -> int:
    """States to follow at each character: 1, where all sets of them that texts reach are few.

    Such sets are the states of a deterministic automaton, which engines (RE2) build as they go
    and keep; where there are too many to be kept, they follow every state by itself.
    """
    program = _program(tree)
    edges = {
        end
        for step in program
        if step[0] == "one"
        for r in _ranges(step)
        for end in (r[0], r[1] + 1)
    }
    start = frozenset(_reached(program, iter([0])))
    states, fresh, effort = {start}, [start], 0
    while fresh:
        here = fresh.pop()
        for code in {0, *edges}:
            after = [
                step[2]
                for step in map(program.__getitem__, here)
                if step[0] == "one" and any(low <= code <= high for low, high in _ranges(step))
            ]
            there = frozenset(_reached(program, iter([*after, *([] if begins else [0])])))
            effort += len(here) + len(there)
            if effort > _MOST_EFFORT:
                return len(program)
            if there not in states:
                states.add(there)
                fresh.append(there)
    return 1


def _ranges(step: _Step) -> Ranges:
    ranges = step[1]
    assert isinstance(ranges, tuple)
    return ranges
