"""What only the links of the chain tell: totals and answers are as they were."""

from __future__ import annotations

import sqlite3

import pytest

from discreet import ledger
from discreet.errors import LedgerIntegrityError

EDITS = [
    "at = '2020-01-01T00:00:00.000000+00:00'",
    "jump = previous",
    """body = replace(body, '"noise":"laplace"', '"noise":"other"')""",
]


@pytest.mark.parametrize("changed", EDITS)
def test_a_line_that_was_edited_without_touching_a_total_is_found(path, given, changed):
    policy = given.policy()
    book = ledger.open_ledger(path, policy)
    for plan in ("a", "b", "c"):
        book.settle(book.debit(given.entry(plan=plan)), "[]")
    assert book.verify().debits == 3
    with sqlite3.connect(path) as store:
        named = store.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in named:
            store.execute(f'DROP TRIGGER "{name}"')
        assert store.execute(f"UPDATE discreet_lines SET {changed} WHERE number = 2").rowcount == 1
    store.close()
    with pytest.raises(LedgerIntegrityError):
        ledger.open_ledger(path, policy).verify()
