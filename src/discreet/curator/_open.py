"""Opening: from a policy and a source to a curator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet import engines
from discreet import policy as pol
from discreet._address import address
from discreet.curator._curator import Curator
from discreet.errors import Hint, ParameterError
from discreet.ledger import Ledger, MemoryLedger, claim, known_place, open_ledger


def open_curator(
    source: Any = None,
    policy: Any = None,
    *,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    analyst: str | None = None,
    engine: engines.Engine | Mapping[str, Any] | None = None,
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
        Where spending is recorded: a path, a ``postgresql://`` URL, ``":memory:"``
        (gone with this process) or a ledger. Left out: the policy file's name with
        ``.ledger`` added, beside it; a policy without a file needs it stated.
    analyst
        Who asks; decides which share of the budget is charged.
    engine
        Options of the engine, as in :func:`discreet.engines.connect`
        (``{"memory_limit": "4GB", "temp_directory": "/scratch"}``), or an engine
        that is open already and takes the place of the source.
    """
    if policy is None:
        raise ParameterError(
            "a policy says what is public and how much may be lost; none was given",
            hint=Hint.call("dc.open", None, "people.parquet", policy="people.toml"),
        )
    file = _file(policy)
    loaded = policy if isinstance(policy, pol.Policy) else pol.load(policy)
    if ledger is None:
        ledger = _place(file, loaded)
    book = open_ledger(ledger, loaded) if isinstance(ledger, str | os.PathLike) else ledger
    data = source
    if source is None:
        data = _resolved(loaded, Path() if file is None else file.parent)
    if engine is None or isinstance(engine, Mapping):
        engine = engines.connect(data, loaded, **(engine or {}))
    if not isinstance(book, MemoryLedger):
        claim(_private_labels(data, loaded), loaded)
    return Curator(loaded, engine, book, analyst, _label(data))


def _file(policy: Any) -> Path | None:
    """The policy's file, if it has one."""
    named = isinstance(policy, str | Path) and "\n" not in str(policy) and Path(policy).is_file()
    return Path(policy) if named else None


def _place(file: Path | None, policy: pol.Policy) -> str:
    """Ledger of the budget that is charged: where it is known to be, or beside the policy file."""
    known = known_place(policy.beside) if policy.beside is not None else None
    if known is not None:
        return known
    if file is not None:
        return f"{file.resolve()}.ledger"
    raise ParameterError(
        "this policy has no file, so its ledger has no natural place; without a lasting ledger "
        'every start would be a fresh budget (":memory:" is one to try things out)',
        hint=Hint("ledger", "people.ledger"),
    )


def _label(data: Any) -> str | None:
    """Say lastingly which data these are; None when only this process knows."""
    if isinstance(data, Mapping):
        labels = sorted((name, _label(part)) for name, part in data.items())
        return None if any(label is None for _, label in labels) else repr(labels)
    if isinstance(data, str | os.PathLike):
        text = os.fspath(data)
        return address(text) if "://" in text else os.path.realpath(text)
    return None


def _private_labels(data: Any, policy: pol.Policy) -> list[str]:
    """Lasting labels of the private sources, where they have one."""
    private = [data]
    if isinstance(data, Mapping):
        private = [part for name, part in data.items() if not policy.table(name).public]
    return [label for part in private if (label := _label(part)) is not None]


def _resolved(policy: pol.Policy, folder: Path) -> dict[str, str]:
    """Sources as the policy states them, paths relative to its own folder."""
    return {
        name: t.source if "://" in t.source else str(folder / t.source)
        for name, t in policy.tables.items()
        if t.source is not None
    }
