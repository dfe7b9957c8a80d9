"""One owner at a time: copies take turns, locks are bounded, looking writes nothing."""

from __future__ import annotations

import collections
import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import errors, ledger
from discreet.ledger import _anchor, _sqlite

FORK = multiprocessing.get_context("fork")


def copies(path, folder, count):
    """The ledger and its anchor, `count` times."""
    _sqlite._IDLE.clear()
    places = []
    for k in range(count):
        place = folder / f"copy {k}"
        place.mkdir()
        for name in (path.name, f"{path.name}.anchor"):
            shutil.copy(path.parent / name, place / name)
        places.append(place / path.name)
    return places


def test_c_copies(path, given, folder):
    """Sixteen copies are asked at the same moment for all that is left: one of them pays."""
    policy = given.policy()
    ledger.open_ledger(path, policy).debit(given.entry("0.01", plan="first"))
    places = copies(path, folder, 16)
    together, told = FORK.Barrier(16), FORK.SimpleQueue()

    def spend(k):
        try:
            book = ledger.open_ledger(places[k], policy)
            together.wait(60)
            book.debit(given.entry("0.99", plan=f"q{k}"))
            told.put("paid")
        except errors.DiscreetError as error:
            told.put(type(error).__name__)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            told.put(repr(error))

    workers = [FORK.Process(target=spend, args=(k,)) for k in range(16)]
    for w in workers:
        w.start()
    said = collections.Counter(told.get() for _ in workers)
    for w in workers:
        w.join()
    assert said == {"paid": 1, "LedgerIntegrityError": 15}
    accepted = 0
    for place in places:
        try:
            ledger.open_ledger(place, policy)
            accepted += 1
        except errors.LedgerIntegrityError:
            pass
    assert accepted == 1


def test_a_copy_with_another_line_of_the_same_number_is_refused(path, given, folder, monkeypatch):
    """The first copy dies between commit and mark; the second goes on; the first is refused."""
    policy = given.policy()
    book = ledger.open_ledger(path, policy)
    (place,) = copies(path, folder, 1)
    with monkeypatch.context() as m:
        m.setattr(_anchor.Hold, "move", lambda *_: None)
        book.debit(given.entry("0.5", plan="unmarked"))
    copy = ledger.open_ledger(place, policy)
    copy.debit(given.entry("0.5", plan="in the copy"))
    for use in (book.verify, lambda: ledger.open_ledger(path, policy)):
        with pytest.raises(errors.LedgerIntegrityError, match="edited or copied"):
            use()
    with pytest.raises(errors.LedgerIntegrityError, match="edited or copied"):
        book.debit(given.entry("0.1", plan="late"))
    assert copy.verify().debits == 1


def test_a_mark_that_somebody_moved_meanwhile_stops_the_release(path, given, monkeypatch):
    book = ledger.open_ledger(path, given.policy())
    real = _anchor.Hold.move

    def meddled(self, mark):
        raw = _anchor._slot(9, _anchor.Mark(mark.policy, mark.first, 7, "0" * 64, "x"))
        Path(self.anchor.path).write_bytes(raw + raw)
        real(self, mark)

    monkeypatch.setattr(_anchor.Hold, "move", meddled)
    with pytest.raises(errors.LedgerIntegrityError, match="another copy"):
        book.debit(given.entry())


def test_a_held_anchor_is_waited_for_with_a_limit(path, given):
    book = ledger.open_ledger(path, given.policy(), wait=0.05)
    for anchor in (_anchor.beside(str(path)), _anchor.of_user("people")):
        with anchor.hold(1), pytest.raises(errors.LedgerBusyError, match="nothing was charged"):
            book.debit(given.entry())
    assert book.verify().debits == 0
    assert book.debit(given.entry()).charged


def test_d_anchor(path, given, monkeypatch):
    """Anchors that cannot be written refuse a debit before it is charged."""
    book = ledger.open_ledger(path, given.policy())
    real = os.open

    def read_only(name, flags, *more):
        if str(name) == _anchor.of_user("people").path and flags & os.O_RDWR:
            raise PermissionError
        return real(name, flags, *more)

    with monkeypatch.context() as m:
        m.setattr(os, "open", read_only)
        for _ in range(3):
            with pytest.raises(errors.LedgerError, match="anchor"):
                book.debit(given.entry())
    assert book.balance().left("epsilon") == 1
    assert book.verify().lines == 1


def test_a_link_in_an_anchor_s_place_is_not_followed(path, given, folder):
    ledger.open_ledger(path, given.policy())
    precious = folder / "precious"
    precious.write_text("somebody else's")
    beside = Path(f"{path}.anchor")
    beside.unlink()
    beside.symlink_to(precious)
    with pytest.raises(errors.LedgerError, match="anchor"):
        ledger.open_ledger(path, given.policy())
    assert precious.read_text() == "somebody else's"


def test_an_anchor_that_was_replaced_while_waited_for_is_opened_anew(path, given):
    ledger.open_ledger(path, given.policy())
    anchor = _anchor.beside(str(path))
    with anchor.hold(1) as held:
        fresh = Path(f"{anchor.path}.new")
        fresh.write_bytes(Path(anchor.path).read_bytes())
        fresh.replace(anchor.path)
        with anchor.hold(1) as other:  # another file: nobody holds it
            assert os.fstat(other.file).st_ino != os.fstat(held.file).st_ino


# -- looking -------------------------------------------------------------------------------


def test_opening_what_is_in_order_writes_nothing_and_reads_the_end_alone(path, given, monkeypatch):
    book = ledger.open_ledger(path, given.policy())
    for i in range(20):
        book.settle(book.debit(given.entry("0.01", plan=f"q{i}")), "[]")
    files = (path, Path(f"{path}.anchor"), Path(_anchor.of_user("people").path))
    before = [f.stat().st_mtime_ns for f in files]
    read = []
    real = _sqlite.SqlTransaction.line
    monkeypatch.setattr(
        _sqlite.SqlTransaction, "line", lambda self, n: read.append(n) or real(self, n)
    )
    monkeypatch.setattr(_sqlite.SqlTransaction, "lines", None)
    monkeypatch.setattr(_anchor.Anchor, "hold", None)
    again = ledger.open_ledger(path, given.policy())
    assert again.balance().left("epsilon") == book.balance().left("epsilon")
    assert set(read) == {1, 41}
    assert [f.stat().st_mtime_ns for f in files] == before


@pytest.mark.parametrize("known", [True, False], ids=["owner's state", "state of their own"])
def test_looking_needs_no_write_access(given, tmp_path, known):
    """Budget, history and verification, by a user who may only read."""
    path = tmp_path / "people.ledger"
    book = ledger.open_ledger(path, given.policy())
    book.settle(book.debit(given.entry("0.2")), "[]")
    _sqlite._IDLE.clear()
    state = Path(_anchor.of_user("people").path)
    touched = [path, Path(f"{path}.anchor"), state, state.parent, tmp_path]
    modes = [f.stat().st_mode for f in touched]
    for f in touched:
        f.chmod(0o555 if f.is_dir() else 0o444)
    told = FORK.SimpleQueue()

    def look():
        try:
            home = state.parent.parent if known else Path("/nowhere")
            os.environ["XDG_STATE_HOME"] = str(home)
            if os.geteuid() == 0:
                for f in (*tmp_path.parents, *state.parents):  # only the way there
                    if not f.stat().st_mode & stat.S_IXOTH:
                        f.chmod(0o755)
                os.setgid(65534)
                os.setuid(65534)
            seen = ledger.open_ledger(path, given.policy())
            told.put([seen.verify().lines, str(seen.balance().left("epsilon")), len(seen.lines)])
            try:
                seen.debit(given.entry("0.1", plan="more"))
            except errors.LedgerError:
                told.put("refused")
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            told.put(repr(error))
            told.put("")

    try:
        worker = FORK.Process(target=look)
        worker.start()
        assert told.get() == [3, "4/5", 3]
        assert told.get() == "refused"
        worker.join()
    finally:
        for f, mode in zip(reversed(touched), reversed(modes), strict=True):
            f.chmod(mode)
    assert book.verify().debits == 1


POLICY = """
[policy]
name = "read-only"
[budget]
epsilon = "2"
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = { type = "integer", min = 0, max = 115 }
"""


LOOKING = """
import contextlib, json, os, sys
from discreet.cli import main
from discreet.ledger import _sqlite
wanted, user = json.loads(sys.argv[1]), int(sys.argv[2])
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
if user and os.geteuid() == 0:
    for command in wanted[:-1]:  # modules are read while we may
        with contextlib.suppress(SystemExit):
            main([*command, "--json"])
    _sqlite._IDLE.clear()
    os.setgid(user)
    os.setuid(user)
for command in wanted:
    try:
        main([*command, "--json"])
    except SystemExit as left:
        code = left.code
    except BaseException as error:
        code = repr(error)
    os.write(out, (json.dumps([command[0], code]) + "\\n").encode())
"""


def test_commands_that_only_look_need_no_write_access():
    """``budget``, ``verify``, ``preview`` and ``check`` where nothing can be written."""
    folder = Path(tempfile.mkdtemp(prefix="looking-"))
    (folder / "people.toml").write_text(POLICY)
    pq.write_table(pa.table({"age": [31, 47]}), folder / "people.parquet")
    count = "SELECT COUNT(*) AS n FROM people"
    commands = (
        ["budget", "-p", "people.toml"],
        ["ledger", "verify", "-p", "people.toml"],
        ["preview", count, "-e", "1", "-p", "people.toml"],
        ["check", "people.toml"],
        ["ask", count, "-e", "1", "-p", "people.toml", "--fresh"],
    )

    def child(*wanted, user=0):
        # a process of its own: a fork of this one would inherit other tests' threads
        done = subprocess.run(
            [sys.executable, "-c", LOOKING, json.dumps(wanted), str(user)],
            cwd=folder,
            env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
            stdout=subprocess.PIPE,
            timeout=300,
            check=True,
        )
        return [tuple(json.loads(line)) for line in done.stdout.decode().splitlines()]

    try:
        assert child(["ask", count, "-e", "1", "-p", "people.toml"]) == [("ask", 0)]
        places = [*folder.rglob("*"), folder]
        for place in places:
            place.chmod(0o555 if place.is_dir() else 0o444)
        codes = child(*commands, user=65534)
        assert codes[:-1] == [(command[0], 0) for command in commands[:-1]]
        assert codes[-1] == ("ask", 6)  # refused by the ledger, before it is charged
    finally:
        for place in (folder, *folder.rglob("*")):
            place.chmod(0o755)
        shutil.rmtree(folder)
