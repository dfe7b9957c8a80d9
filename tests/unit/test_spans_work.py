"""How much work the codes that a condition allows may take: it is done for free, before a debit."""

from __future__ import annotations

import discreet as dc
from discreet.plan import _spans

POLICY = """
[policy]
name = "spans"
[budget]
epsilon = "1"
[tables.v.columns]
at = { type = "timestamp", min = "2020-01-01", max = "2025-12-31" }
"""


def _looks(monkeypatch, terms):
    """Nodes that are looked at while a condition of so many terms is priced."""
    seen, real = [0], _spans.within

    def counting(expr, boxes):
        seen[0] += 1
        return real(expr, boxes)

    monkeypatch.setattr(_spans, "within", counting)
    sums = "+".join(["SECOND(at)*MINUTE(at)"] * terms)
    sql = f"SELECT COUNT(*) AS n FROM v WHERE ({sums}) % {60 + terms} = 60"
    with dc.open(policy=POLICY, dummy=True, ledger=":memory:") as curator:
        curator.preview(sql, epsilon="0.1")
    return seen[0]


def test_a_long_condition_is_looked_at_less_often(monkeypatch):
    """Each look at a condition of a hundred nodes took as long as ten, and counted as one."""
    few, many = (_looks(monkeypatch, terms) for terms in (2, 20))
    assert few > 1000
    assert many < 2 * few
