"""Policies, entries and ledgers of every kind, on a disk that costs no time."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from discreet import ledger
from discreet import policy as pol
from discreet.plan import Cost

_NAMES = itertools.count()


def policy(epsilon="1", *, name="people", **budget):
    """A policy with one table."""
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    return pol.Policy([table], pol.Budget(epsilon, **budget), name=name)


def entry(epsilon="0.1", *, plan="count", own="people", analyst=None, delta=0, **more):
    """A debit; ε of pure cost unless a δ is given."""
    e, d = Fraction(epsilon), Fraction(delta)
    return ledger.Entry(
        policy=own,
        fingerprint="f",
        analyst=analyst,
        plan=plan,
        cost=Cost(e, d, e * e / 2, d),
        noise="laplace",
        neighbours="add-remove",
        unit=None,
        tables=("people",),
        **more,
    )


@pytest.fixture
def given():
    """Makers of policies and entries."""
    return SimpleNamespace(policy=policy, entry=entry)


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where the system has one: kills do not need a slow disk."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="ledger-", dir=shared))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def path(folder):
    """Where a ledger file goes."""
    return folder / "people.toml.ledger"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opened(request, path):
    """Opens one and the same ledger again and again, in each kind of store."""
    if request.param == "postgres":
        url, name = request.getfixturevalue("postgres_url"), f"people {next(_NAMES)}"
        return SimpleNamespace(
            open=lambda *a, **b: ledger.open_ledger(url, policy(*a, name=name, **b)),
            entry=lambda *a, **b: entry(*a, own=name, **b),
        )
    where = ":memory:" if request.param == "memory" else path
    return SimpleNamespace(
        open=lambda *a, **b: ledger.open_ledger(where, policy(*a, **b)), entry=entry
    )
