"""Opening: from a policy and a source to a curator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discreet import engines
from discreet import policy as pol
from discreet.curator._curator import Curator
from discreet.errors import ParameterError
from discreet.ledger import Ledger, MemoryLedger


def open_curator(
    source: Any = None,
    policy: Any = None,
    *,
    ledger: Ledger | str | None = None,
    analyst: str | None = None,
) -> Curator:
    """Open tables under a policy.

    Parameters
    ----------
    source
        Path or glob (Parquet, CSV), DuckDB or PostgreSQL URL or connection,
        pandas/Polars/Arrow table, or a mapping from table name to any of these.
        Left out, each table's own ``source`` in the policy is used.
    policy
        A policy file's path, TOML text, or a :class:`discreet.policy.Policy`.
    ledger
        Where spending is recorded. ``":memory:"`` or None: this process.
    analyst
        Who asks; decides which share of the budget is charged.
    """
    if policy is None:
        raise ParameterError(
            "a policy says what is public and how much may be lost; none was given",
            hint='dc.open("people.parquet", policy="people.toml")',
        )
    folder = Path(policy).parent if isinstance(policy, str | Path) and _is_file(policy) else Path()
    loaded = policy if isinstance(policy, pol.Policy) else pol.load(policy)
    engine = engines.connect(_resolved(loaded, folder) if source is None else source, loaded)
    book = MemoryLedger(loaded) if ledger is None or isinstance(ledger, str) else ledger
    return Curator(loaded, engine, book, analyst)


def _resolved(policy: pol.Policy, folder: Path) -> dict[str, str]:
    """Sources as the policy states them, paths relative to its own folder."""
    return {
        name: t.source if "://" in t.source else str(folder / t.source)
        for name, t in policy.tables.items()
        if t.source is not None
    }


def _is_file(policy: str | Path) -> bool:
    return "\n" not in str(policy) and Path(policy).is_file()
