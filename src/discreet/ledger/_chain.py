r"""The hash chain: each line seals itself, the state it leads to, and its past.

.. math:: h_n = \mathrm{SHA256}(n, t_n, k_n, b_n, \mathrm{SHA256}(s_n), h_{n-1}, h_{j(n)})

with time t, kind k, body b and the canonical text s of the state after the line.
The line j(n), n without its lowest binary digit, makes ways short: from the head
any line is reached over at most :math:`(1+\log_2 n)^2` links (:func:`reached`), so
that one line out of millions is checked without reading the others. Lines of
format 1 have no such link.

Whoever knows :math:`(n, h_n)` from elsewhere (an anchor) therefore knows every
earlier line *and* all running totals: changing any of them without changing
:math:`h_n` means a SHA-256 collision. The state stands beside the head, so one
debit checks it in constant time; :func:`check_replay` recomputes it from the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from discreet._canonical import canonical, digest
from discreet._dataclass import dataclass
from discreet.errors import BudgetExceededError, LedgerError, LedgerIntegrityError
from discreet.ledger._budget import check_total
from discreet.ledger._protocol import Entry
from discreet.ledger._state import RESTORED, State, after, read_budget, read_cost

GENESIS: Final = "0" * 64
KINDS: Final = ("open", "debit", "budget", "close", "reopen", "period", "adopt", "settle",
                "format", "consent", "key", "vouch")  # fmt: skip

RESTORE: Final = "move the ledger away, then: discreet ledger restore FILE (the latest backup)"
"""What to do with a ledger that cannot be trusted; anchors stay where they are."""


class AbsentError(LedgerError):
    """There is no ledger, and nobody knows of one."""


def absent(where: str) -> AbsentError:
    """Say that there is no ledger in a place."""
    return AbsentError(f"there is no ledger at {where!r}: nothing has been asked yet")


def gone(where: str) -> LedgerIntegrityError:
    """Refusal of a ledger that was there."""
    return LedgerIntegrityError(
        f"the ledger {where!r} was there and is gone: a new one would be a fresh budget",
        hint="discreet ledger restore FILE (the latest backup); if the data are gone too: "
        "discreet ledger forget --fresh-budget",
    )


def foreign(where: str, owner: str, other: str) -> LedgerIntegrityError:
    """Refusal of a ledger that belongs to another policy."""
    return LedgerIntegrityError(
        f"the ledger {where!r} belongs to policy {owner!r}, not to {other!r}: renaming a policy "
        "does not make a fresh budget",
        hint=f'{"beside" if owner.startswith("sha256:") else "name"} = "{owner}" under [policy]',
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a ledger, as stored.

    ``body`` is canonical JSON; ``state`` the hash of the state after the line;
    ``jump`` the hash of line :func:`jump_of` (None in format 1).
    """

    number: int
    when: str
    kind: str
    body: str
    state: str
    previous: str
    hash: str
    jump: str | None = None

    @property
    def content(self) -> dict[str, Any]:
        """The body as data."""
        data: dict[str, Any] = json.loads(self.body)
        return data

    def entry(self, policy: str) -> Entry:
        """The debit that this line records."""
        b = self.content
        covers = b.get("covers")
        return Entry(
            policy=policy,
            cost=read_cost(b["cost"]),
            tables=tuple(b["tables"]),
            once=b.get("once", False),
            paid_by=b.get("paid_by"),
            runs=b.get("runs", True),
            external=b.get("external"),
            text=b.get("text"),
            covers=covers and (read_budget(covers["budget"]), covers["debits"]),
            **{
                name: b[name]
                for name in ("fingerprint", "analyst", "plan", "noise", "neighbours", "unit",
                             "source", "key")
            },
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: number and hash of its last line, and the state."""

    number: int
    hash: str
    state: str

    @property
    def content(self) -> State:
        """The state as data."""
        return State.from_text(self.state)


def jump_of(number: int) -> int:
    """Line that a line links to besides its predecessor; 0 for none."""
    return number & (number - 1)


def line_hash(*parts: int | str) -> str:
    """Hash of a line: of number, time, kind, body, state's hash, previous hash, jump's hash."""
    return digest(canonical(parts))


def next_line(
    head: Head | None,
    when: str,
    kind: str,
    body: Mapping[str, Any],
    then: State | None = None,
    *,
    jump: str = GENESIS,
) -> tuple[Line, Head]:
    """Chain one more line to a head; `then` is the state after it, if that is known."""
    number, previous = (1, GENESIS) if head is None else (head.number + 1, head.hash)
    if then is None:
        then = after(None if head is None else head.content, kind, body, number)
    state = then.remember()
    text, seal = canonical(body), digest(state)
    own = line_hash(number, when, kind, text, seal, previous, jump)
    return Line(number, when, kind, text, seal, previous, own, jump), Head(number, own, state)


def check_head(head: Head, last: Line | None) -> None:
    """Refuse a head whose last line does not seal it and its state."""
    sound = (
        last is not None
        and (last.number, last.hash) == (head.number, head.hash)
        and last.state == digest(head.state)
        and seals(last)
    )
    if not sound:
        raise damaged(head.number)


def seals(line: Line) -> bool:
    """Whether a line's hash is that of its content."""
    parts = (line.number, line.when, line.kind, line.body, line.state, line.previous)
    return line.hash == (line_hash(*parts) if line.jump is None else line_hash(*parts, line.jump))


def reached(at: Callable[[int], Line | None], head: Head, number: int) -> Line:
    """Give a line after checking every link on a short way from the head to it."""
    place, own = head.number, head.hash
    while True:
        line = at(place)
        if line is None or (line.number, line.hash) != (place, own) or not seals(line):
            raise damaged(place)
        if place == number:
            return line
        far = jump_of(place)
        if line.jump is not None and far >= number:
            place, own = far, line.jump
        else:
            place, own = place - 1, line.previous


def damaged(number: int) -> LedgerIntegrityError:
    """Refusal of a chain that is broken at a line."""
    return LedgerIntegrityError(
        f"line {number} of the ledger is not as it was written: the ledger was edited or damaged",
        hint=RESTORE,
    )


def check_links(lines: Iterable[Line], head: Head) -> int:
    """Recompute every hash and link up to the head; return the number of lines."""
    hashes = [GENESIS]
    for line in lines:
        number = len(hashes)
        jump = hashes[jump_of(number)]
        sound = line.number == number and line.previous == hashes[-1] and line.jump in (None, jump)
        if not sound or not seals(line):
            raise damaged(number)
        hashes.append(line.hash)
    number = len(hashes) - 1
    if (number, hashes[-1]) != (head.number, head.hash):
        raise damaged(number + 1)
    return number


def check_replay(lines: Iterable[Line], head: Head) -> None:
    """Recompute every state from the lines; refuse one that was not earned."""
    for _ in replayed(lines, head):
        pass


def replayed(lines: Iterable[Line], head: Head) -> Iterator[tuple[State | None, Line]]:
    """Check as :func:`check_replay` does; give each line with the state before it."""
    state: State | None = None
    for line in lines:
        before = state
        try:
            state = after(state, line.kind, line.content, line.number)
            # a restored ledger charges more than the whole where lost lines may have
            if line.kind == "debit" and line.content.get("plan") != RESTORED:
                check_total(state)
        except (KeyError, TypeError, ValueError, BudgetExceededError):
            raise damaged(line.number) from None
        if digest(state.to_text()) != line.state:
            raise damaged(line.number)
        yield before, line
    if state is None or state.to_text() != head.state:
        raise damaged(head.number)
