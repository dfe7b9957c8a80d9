"""Every test and doctest has a state directory and in-process ledgers of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


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
