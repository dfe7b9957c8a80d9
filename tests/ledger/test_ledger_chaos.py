"""Small runs of every fault of ``make chaos``, and that each of them can see."""

from __future__ import annotations

import pytest
from chaos import _calls, _copies, _long, _server
from chaos.__main__ import main
from chaos._common import Row, filled, place

from discreet.ledger import ChainedLedger
from discreet.ledger._anchor import Hold

pytestmark = pytest.mark.races


def clean(*rows):
    for row in rows:
        assert row.tried, row
        assert row.clean, row


def test_bits():
    clean(*_copies.flips(499))


def test_bits_are_seen(monkeypatch):
    monkeypatch.setattr(ChainedLedger, "verify", lambda _: None)
    assert any(row.undetected for row in _copies.flips(151))


def test_restores():
    clean(_copies.restores(10))


def test_restores_are_seen(monkeypatch):
    real = Hold.move
    monkeypatch.setattr(ChainedLedger, "_check", lambda *_: None)
    monkeypatch.setattr(Hold, "move", lambda self, mark, **_: real(self, mark, back=True))
    assert _copies.restores(6).doubled


def test_copies():
    clean(_copies.copies(6, 2))


def test_copies_are_seen():
    assert _copies.copies(3, 1, strangers=True).doubled == 20


def test_calls():
    clean(*_calls.apart("calls", 45))


def test_false_promises_are_seen():
    with place() as folder:
        filled(folder / "x.ledger", 2)
        row = Row("a promise that was not kept")
        _calls._judge(row, folder / "x.ledger", b"ds", "", 4)
        assert row.lost == 2


def test_cuts():
    clean(*_calls.apart("cuts", 100))


def test_cuts_are_seen():
    assert all(row.lost for row in _calls.apart("cuts", 100, blind=True))


def test_servers():
    clean(*_server.servers(3, 1))


def test_long_ledgers(capsys):
    (small, large) = _long.long(500)
    assert small.startswith("50 lines")
    assert large.startswith("500 lines")
    none = ["--flip-every", "--moments", "--trials", "--call-every", "--cuts", "--client-kills",
            "--server-kills", "--lines"]  # fmt: skip
    assert main([a for name in none for a in (name, "0")]) == 0
    assert "| fault | tried |" in capsys.readouterr().out
