"""What an earlier debit has paid for is taken only where that debit stands."""

from __future__ import annotations

import pytest

from discreet.errors import LedgerError


def test_nothing_is_taken_that_nobody_has_paid_for(opened):
    book = opened.open("1")
    tick = opened.entry("0.0001", plan="tick 1", paid_by="stream")
    with pytest.raises(LedgerError, match="what has paid for this is not in this period"):
        book.debit(tick)
    assert book.balance().amounts["epsilon"][0] == 0
    payer = book.debit(opened.entry("0.5", plan="stream", once=True))
    with pytest.raises(LedgerError, match="what has paid for this"):
        book.debit(tick)  # its run is not done
    book.settle(payer, "[]")
    assert book.debit(tick).charged
    book.new_period()
    with pytest.raises(LedgerError, match="what has paid for this"):
        book.debit(opened.entry("0.0001", plan="tick 2", paid_by="stream"))
