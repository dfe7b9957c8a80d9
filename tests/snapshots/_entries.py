"""Budgets, costs and debits that the nets of ``ledger`` and ``curator`` share."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction as F
from pathlib import Path
from unittest import mock

from tests.snapshots import Case

from discreet import ledger
from discreet import policy as pol
from discreet.ledger import _ledger, _memory, _turn
from discreet.plan import Cost


def cost(epsilon: object, delta: object = 0, rho: object = None, rho_delta: object = None) -> Cost:
    """A cost; of pure loss unless more is said."""
    e, d = F(str(epsilon)), F(str(delta))
    return Cost(
        e,
        d,
        e * e / 2 if rho is None else F(str(rho)),
        d if rho_delta is None else F(str(rho_delta)),
    )


def entry(price: object = "0.1", **more: object) -> ledger.Entry:
    """A debit of a ledger of ``people``."""
    known = {"analyst": None, "plan": "q", "tables": ("people",), **more}
    own = price if isinstance(price, Cost) else cost(price)
    return ledger.Entry(
        "people", "f", cost=own, noise="laplace", neighbours="add-remove", unit=None, **known
    )  # type: ignore[arg-type]


def tried(function: Callable[..., object], *given: object, **more: object) -> object:
    """What a call gives, or how it is refused."""
    try:
        return function(*given, **more)
    except Exception as refusal:
        return type(refusal).__name__, re.sub(r"/\S*/(ledger-\w+|state\S*)", "PLACE", str(refusal))


BUDGETS: dict[str, pol.Budget] = {
    "pure": pol.Budget("1"),
    "approx": pol.Budget("1", "1e-6"),
    "zcdp": pol.Budget("1", "1e-6", accounting="zcdp"),
    "rho": pol.Budget(rho="0.1", delta="1e-6", accounting="zcdp"),
    "shares": pol.Budget("1", "1e-6", shares={"ann": "0.5", "bob": "0.25"}),
    "all shares": pol.Budget("1", shares={"ann": "0.5", "bob": "0.5"}),
    "zcdp shares": pol.Budget("2", "1e-5", accounting="zcdp", shares={"ann": "1/3"}),
    "minimum": pol.Budget("1", minimum="0.1"),
}
COSTS = {
    "tenth": cost("0.1"),
    "half": cost("0.5"),
    "all": cost(1),
    "hair": cost("1e-18"),
    "more": cost("1.000001"),
    "nothing": cost(0),
    "selects": cost("0.2", "1e-7"),
    "much delta": cost("0.2", "6e-7"),
    "gauss": Cost(F(1, 5), F(1, 10**7), F(1, 100), F(0)),
    "by rho": Cost(F(9), F(1, 10**6), F(3, 100), F(0)),
    "negative": Cost(F(-1, 10), F(0), F(1), F(0)),
    "negative rho": Cost(F(1, 10), F(0), F(-1), F(0)),
}


@contextmanager
def alone() -> Iterator[str]:
    """A folder, a state directory and a clock of one's own; ledgers in memory end here."""
    before, ticks = set(_memory._BOOKS), itertools.count()

    def now() -> str:
        return f"2026-01-01T00:00:{next(ticks):02}.000000+00:00"

    with (
        tempfile.TemporaryDirectory(
            prefix="ledger-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
        ) as folder,
        mock.patch.dict(os.environ, {"XDG_STATE_HOME": f"{folder}/state"}),
        mock.patch.object(_turn, "now", now),
        mock.patch.object(_ledger, "now", now),
    ):
        try:
            yield folder
        finally:
            for name in set(_memory._BOOKS) - before:
                del _memory._BOOKS[name]


def only(cases: Callable[[], Iterator[tuple[str, Case]]], word: str, *, last: bool = False):  # type: ignore[no-untyped-def]
    """Cases whose names begin (or end) with a word."""
    return lambda: (
        (n, c) for n, c in cases() if (n.endswith(word) if last else n.startswith(word))
    )
