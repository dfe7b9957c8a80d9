"""The owner's log: it is really there, says where it failed, and holds nothing of the data."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import discreet as dc
from discreet import _log, errors
from discreet import policy as pol

COUNT = "SELECT COUNT(*) AS n FROM people"


def opened(path, engine=None):
    policy = pol.Policy(
        [pol.Table("people", [pol.Integer("age", 0, 115)])], pol.Budget("2"), name="p"
    )
    return dc.open(pa.table({"age": [31, 47]}), policy, ledger=path, engine=engine)


def written():
    return [json.loads(line) for line in _log.log_file().read_text().splitlines()]


def test_a_failure_is_in_the_log_by_the_number_of_its_debit(path, monkeypatch):
    curator = opened(path)

    def fails(*_):
        raise ValueError("cell 'Mrs Smith' cannot be cast")

    monkeypatch.setattr(curator._engine, "_in_parts", fails)
    with pytest.raises(errors.EngineError, match="the data owner's log says more") as no:
        curator.sql(COUNT, epsilon=1)
    first, second = written()
    assert (first["event"], first["error"][0]) == ("engine failure", "ValueError")
    assert first["at"][-1].endswith("fails")
    assert (second["event"], second["policy"], second["line"]) == ("run failed", "p", 2)
    assert "Smith" not in _log.log_file().read_text()
    assert "ValueError" not in str(no.value)
    assert set(second) == {"when", "process", "event", "policy", "line", "error", "at"}
    assert oct(_log.log_file().stat().st_mode)[-3:] == "600"


def test_a_ledger_s_refusal_is_in_the_log(path):
    curator = opened(path)
    path.unlink()
    with pytest.raises(errors.LedgerIntegrityError):
        curator.sql(COUNT, epsilon=1)
    assert "is gone" in written()[-1]["said"]


def test_the_log_is_put_aside_and_stops_nobody(tmp_path, monkeypatch):
    path = tmp_path / "log"
    monkeypatch.setenv("DISCREET_LOG", str(path))
    monkeypatch.setattr(_log, "_LONGEST", 300)
    for i in range(40):
        _log.note("event", number=i)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.1", "log.2", "log.3", "log.4"] or (
        sorted(p.name for p in tmp_path.iterdir()) == ["log", "log.1", "log.2", "log.3", "log.4"]
    )
    monkeypatch.setenv("DISCREET_LOG", str(tmp_path / "log.1" / "not a folder"))
    _log.note("event")
    monkeypatch.setenv("DISCREET_LOG", "off")
    _log.note("event")
    assert _log.log_file() is None


def test_a_link_in_its_place_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "target").write_text("")
    (tmp_path / "log").symlink_to(tmp_path / "target")
    monkeypatch.setenv("DISCREET_LOG", str(tmp_path / "log"))
    _log.note("event")
    assert (tmp_path / "target").read_text() == ""


def test_text_that_a_terminal_would_obey_is_escaped(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREET_LOG", str(tmp_path / "log"))
    _log.note("event", policy="a\x1b[2J\u202e\x9b")
    text = (tmp_path / "log").read_text()
    assert text.isascii()
    assert "\x1b" not in text
