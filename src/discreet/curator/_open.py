"""Opening: from a policy and a source to a curator."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from discreet import engines
from discreet import policy as pol
from discreet._address import address
from discreet._dataclass import replace
from discreet._log import note
from discreet.curator._curator import Curator
from discreet.errors import Hint, LedgerIntegrityError, ParameterError
from discreet.ledger import ChainedLedger, Ledger, claim, known_place, open_ledger
from discreet.plan import Scan

_LISTED: Final = 2_000
"""Most values of a public table's text column that become a public list."""


def open_curator(
    source: Any = None,
    policy: Any = None,
    *,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    analyst: str | None = None,
    engine: engines.Engine | Mapping[str, Any] | None = None,
    dummy: bool = False,
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
    dummy
        Answer from data made up from the policy alone: no source is opened and no budget
        charged. Every answer says so.
    """
    if policy is None:
        raise ParameterError(
            "a policy says what is public and how much may be lost; none was given",
            hint=Hint.call("dc.open", None, "people.parquet", policy="people.toml"),
        )
    file = _file(policy)
    loaded = policy if isinstance(policy, pol.Policy) else pol.load(policy)
    if dummy:
        return _rehearsal(loaded, analyst)
    if ledger is None:
        ledger = _place(file, loaded)
    data = source
    if source is None:
        data = _resolved(loaded, Path() if file is None else file.parent)
    complete = loaded
    with ExitStack() as stack:
        if engine is None or isinstance(engine, Mapping):
            engine = engines.connect(data, loaded, **(engine or {}))
            stack.callback(engine.close)
            complete = completed(loaded, engine)
        names, inodes = _places(engine)
        _check_vouched(ledger, loaded, getattr(engine, "unseen", ()))
        book = _charged(ledger, loaded, [*_private_labels(data, loaded), *names], inodes)
        stack.pop_all()
    return Curator(loaded, engine, book, analyst, _label(data), complete=complete)


def completed(policy: pol.Policy, engine: engines.Engine) -> pol.Policy:
    """List the values of the text columns of public tables: they are public, as the tables are.

    Columns with more than :data:`_LISTED` values stay open text.
    """
    tables = dict(policy.tables)
    for name, table in policy.tables.items():
        columns = dict(table.columns) if table.public else {}
        for column in [c for c in columns.values() if isinstance(c, pol.Text)]:
            values = engine.values(Scan(table), column.name, _LISTED + 1)
            if 0 < len(values) <= _LISTED:
                columns[column.name] = pol.Category(column.name, values)
        if columns and columns != dict(table.columns):
            tables[name] = replace(table, columns=columns)
    return policy if tables == dict(policy.tables) else replace(policy, tables=tables)


def _rehearsal(policy: pol.Policy, analyst: str | None) -> Curator:
    """Open made-up tables under a policy of another name: no budget of real data is touched."""
    from discreet import release  # noqa: PLC0415 - only for rehearsals

    own = policy.rehearsed()
    return open_curator(release.made_up(own), own, ledger=":memory:", analyst=analyst)


def _charged(
    ledger: Ledger | str | os.PathLike[str], policy: pol.Policy, names: list[str], inodes: list[str]
) -> Ledger:
    """Open the ledger, unless the data are charged to another budget; a refusal leaves nothing.

    A ledger in memory, or one to look at, is held to the same, and claims nothing.
    """
    claim([*names, *_above(names)], policy, enter=False)
    book = open_ledger(ledger, policy) if isinstance(ledger, str | os.PathLike) else ledger
    if getattr(book, "claims", True):
        claim(names, policy)
        for inode in inodes:
            try:
                claim([inode], policy)
            except LedgerIntegrityError as other:
                # of a file that is gone: its number is used again; the owner may look
                note("number of a file is known under another budget", other, policy=policy.payer)
    return book


def _above(names: Iterable[str]) -> set[str]:
    """Folders in which sources lie: who opened one of them reads what comes into it, too."""
    found: set[str] = set()
    for name in names:
        folder = posixpath.dirname(name)
        while folder != posixpath.dirname(folder) and folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return found


def _check_vouched(
    ledger: Ledger | str | os.PathLike[str], policy: pol.Policy, unseen: tuple[str, ...]
) -> None:
    """Refuse data that another budget could be spent on unseen, without the owner's word."""
    if not unseen:
        return
    book: Any = ledger
    if isinstance(ledger, str | os.PathLike):
        book = open_ledger(ledger, policy, purpose="try")
    sources = book.state.vouched if isinstance(book, ChainedLedger) else ()
    for source in unseen:
        if source not in sources:
            raise LedgerIntegrityError(
                f"whether the data of {source!r} have a budget under another policy cannot be seen",
                hint=Hint.call("open_ledger(ledger, policy).vouch", "discreet ledger vouch",
                               source),
            )  # fmt: skip


def _places(engine: engines.Engine) -> tuple[list[str], list[str]]:
    """Label what private tables are read from: by name, and by inode where no other name is."""
    names: list[str] = []
    inodes: list[str] = []
    for place in getattr(engine, "places", ()):  # a caller's own engine may have none
        if place.startswith(engines.SERVER):
            names.append(place)
            continue
        try:
            status = os.stat(place)  # noqa: PTH116 - the path is text everywhere here
        except OSError:
            raise LedgerIntegrityError(
                "a private table is read from something that is not a file here, so nobody can "
                "tell whether it has a budget already; it is not shown, as it may hold a password",
                hint="open the file itself, or the server by its postgresql:// URL",
            ) from None
        names.append(os.path.realpath(place))
        (names if status.st_nlink > 1 else inodes).append(f"inode {status.st_dev} {status.st_ino}")
    return names, inodes


def _file(policy: Any) -> Path | None:
    """The policy's file, if it has one."""
    named = isinstance(policy, str | Path) and "\n" not in str(policy) and Path(policy).is_file()
    return Path(policy) if named else None


def _place(file: Path | None, policy: pol.Policy) -> str:
    """Ledger of the budget that is charged: where it is known to be, or beside the policy file."""
    ledger = known_place(policy.beside) if policy.beside is not None else None
    if ledger is not None:
        return ledger
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
