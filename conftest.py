"""Every test and doctest has a state directory, ledgers and a noise source of its own.

Chance
------
A test that fails now and then teaches people to look away. So noise in a test comes
from a stream that is a function of the test's name: the run is the same every time.
Tests that need fresh entropy say so, and how often they fail though all is well::

    @pytest.mark.fresh(1e-10)

These probabilities, added up over everything collected, must not pass 1e-6, or nothing
runs. ``DISCREET_FRESH=1`` gives every test fresh entropy (``make test-long`` does).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.noise import _deterministic, _entropy

FALSE_ALARMS = 1e-6
"""Most that the chances of a false alarm may add up to in one run."""

FRESH = bool(os.environ.get("DISCREET_FRESH"))


class _SameEachTime(_deterministic.DeterministicSource):
    """A repeatable source whose draws are not marked: code under test cannot tell."""

    __slots__ = ()
    tainted = False


@pytest.fixture(autouse=True)
def _noise_of_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give a test the same noise in every run, unless it asks for fresh entropy."""
    if FRESH or request.node.get_closest_marker("fresh"):
        yield
        return
    token = _entropy.OVERRIDE.set(_SameEachTime(request.node.nodeid))
    yield
    _entropy.OVERRIDE.reset(token)


def false_alarm(item: pytest.Item) -> float:
    """Return what a test states: the chance that it fails though all is well."""
    marker = item.get_closest_marker("fresh")
    return 0.0 if marker is None else float(marker.args[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a suite (without its long runs) whose false alarms add up to too much."""
    total = math.fsum(false_alarm(i) for i in items if not i.get_closest_marker("long"))
    if total > FALSE_ALARMS:
        raise pytest.UsageError(f"false alarms add up to {total:.2g}, more than {FALSE_ALARMS}")


@pytest.fixture(autouse=True)
def _own_ledgers(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[None]:
    """Let no test see what another one, or the user, has spent."""
    # the folder is made by those who write into it
    state = Path(tmp_path_factory.getbasetemp()) / "state" / str(abs(hash(request.node.nodeid)))
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    before = set(_books())
    yield
    for policy in set(_books()) - before:
        del _books()[policy]


def _books() -> dict[str, object]:
    """Ledgers in memory, if that module is loaded."""
    memory = sys.modules.get("discreet.ledger._memory")
    return {} if memory is None else memory._BOOKS  # noqa: SLF001 - as if the process had ended
