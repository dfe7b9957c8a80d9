"""A ledger of very many lines: opened in constant time, verified in linear time."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import replace

from chaos._common import entry, forget_connections, place, policy
from discreet import ledger
from discreet.ledger._ledger import debit_body
from discreet.ledger._outcomes import question_of


def long(lines: int) -> list[str]:
    """Give sentences with seconds: to open (median of 21), to debit, to verify, by length."""
    said = []
    with place() as folder:
        path = folder / "x.ledger"
        book = ledger.open_ledger(path, policy(str(10 * lines)))
        have = 1
        for target in sorted({max(lines // 10, 2), lines}):
            _grow(book, target - have)
            have = target
            opens = [
                _seconds(lambda: ledger.open_ledger(path, policy(str(10 * lines))))
                for _ in range(21)
            ]
            debits = [
                _seconds(lambda i=i, t=target: book.debit(entry(f"{t} {i}"))) for i in range(9)
            ]
            have += 9
            verifies = _seconds(book.verify, time.process_time)  # whatever else runs here
            said.append(
                f"{target} lines, {os.path.getsize(path) / 2**20:.0f} MiB: opened in "
                f"{1000 * statistics.median(opens):.1f} ms (slowest {1000 * max(opens):.1f} ms), debit "
                f"{1000 * statistics.median(debits):.1f} ms, verified in {verifies:.1f} s of processor time"
            )
    return said


def _seconds(work, clock=time.perf_counter) -> float:
    forget_connections()
    start = clock()
    work()
    return clock() - start


def _grow(book: ledger.ChainedLedger, lines: int) -> None:
    """Append debits in one turn, as the ledger itself appends them."""

    def work(turn) -> None:
        for _ in range(lines):
            state = turn.head.content
            one = replace(entry(f"n{turn.head.number}"), runs=False)
            body = debit_body(state, one)
            question = body["question"] = question_of(state, one, body["cost"])
            turn.append("debit", body, question=question)

    book._write(work)
