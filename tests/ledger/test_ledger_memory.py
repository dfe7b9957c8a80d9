"""Private rows: no core dumps while an engine is open, no spill that outlives it."""

from __future__ import annotations

import gc
import os
import resource
import signal
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet.engines import _privately

DATA = pa.table({"age": [31, 47]})


def opened():
    policy = pol.Policy(
        [pol.Table("people", [pol.Integer("age", 0, 115)])], pol.Budget("2"), name="p"
    )
    return dc.open(DATA, policy, ledger=":memory:")


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Temporary files of our own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def nothing_collected():
    """Engines that other tests have left open end before this one, or after it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("nothing_collected")
def test_core_dumps_are_off_while_an_engine_is_open():
    before = resource.getrlimit(resource.RLIMIT_CORE)
    hard = before[1]
    first, second = opened(), opened()
    assert resource.getrlimit(resource.RLIMIT_CORE) == (1 if hard else 0, hard)
    first.close()
    assert resource.getrlimit(resource.RLIMIT_CORE) == (1 if hard else 0, hard)
    second.close()
    assert resource.getrlimit(resource.RLIMIT_CORE) == before


def test_an_engine_removes_its_own_folder(temporary):
    with opened():
        (folder,) = temporary.iterdir()
        assert oct(folder.stat().st_mode)[-3:] == "700"
        _privately.sweep()  # somebody else starts: ours is in use
        assert folder.exists()
    assert not list(temporary.iterdir())


@pytest.mark.races
def test_i_spill(temporary):
    """What a killed process has spilt is removed by the next one that starts."""
    child = os.fork()
    if child == 0:
        with _privately.spill_folder() as rows:
            rows.mkdir()
            (rows / "spilt").write_bytes(b"private")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert list(temporary.rglob("spilt"))
    with opened():
        assert not list(temporary.rglob("spilt"))


def test_a_link_is_not_swept(temporary, tmp_path_factory):
    precious = tmp_path_factory.mktemp("precious")
    (precious / "lock").write_text("")
    Path(temporary / f"{_privately._PREFIX}x").symlink_to(precious)
    _privately.sweep()
    assert (precious / "lock").exists()
