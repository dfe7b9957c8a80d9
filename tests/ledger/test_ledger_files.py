"""Ledger files that are gone, older, edited, copied, full, read-only or someone else's."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import discreet as dc
from discreet import errors, ledger
from discreet._canonical import canonical, digest
from discreet.ledger import _anchor
from discreet.ledger._chain import Line, line_hash
from discreet.ledger._outcomes import question_of
from discreet.ledger._sqlite import SqliteStore
from discreet.ledger._state import State


@pytest.fixture
def book(path, given):
    """A ledger with three debits of 0.2."""
    made = ledger.open_ledger(path, given.policy())
    for i in range(3):
        made.debit(given.entry("0.2", plan=f"q{i}"))
    return made


def edit(path, *statements):
    """Change a ledger behind its back."""
    connection = sqlite3.connect(path)
    for table in ("discreet_lines", "discreet_answers"):
        for event in ("UPDATE", "DELETE"):
            connection.execute(f"DROP TRIGGER IF EXISTS {table}_{event}")
    for statement in statements:
        connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(
            statement
        )
    connection.commit()
    connection.close()


def refused(path, given, book, match):
    """New handles and old ones both refuse, and spend nothing."""
    with pytest.raises(errors.LedgerIntegrityError, match=match):
        ledger.open_ledger(path, given.policy())
    with pytest.raises(errors.LedgerIntegrityError):
        book.debit(given.entry("0.01", plan="late"))
    with pytest.raises(errors.LedgerIntegrityError):
        book.verify()


# -- how it is stored --------------------------------------------------------------------


@pytest.mark.usefixtures("book")
def test_pragmas_that_durability_rests_on(path):
    connection = SqliteStore(str(path), "people").connect()
    told = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema")
    }
    connection.close()
    assert told == {"journal_mode": "delete", "synchronous": 3, "foreign_keys": 1,
                    "trusted_schema": 0}  # fmt: skip


@pytest.mark.usefixtures("book")
def test_tables_are_strict_and_only_grow(path):
    connection = sqlite3.connect(path)
    tables = connection.execute("PRAGMA table_list").fetchall()
    strict = {row[1]: row[5] for row in tables if row[1].startswith("discreet_")}
    assert strict == {"discreet_lines": 1, "discreet_heads": 1, "discreet_answers": 1}
    for statement in ("DELETE FROM discreet_lines", "UPDATE discreet_lines SET body = '{}'"):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            connection.execute(statement)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO discreet_heads VALUES (2, 'x', 1, 'h', '{}')")
    connection.close()


@pytest.mark.usefixtures("book")
def test_amounts_are_text_never_floats(path):
    connection = sqlite3.connect(path)
    kinds = connection.execute(
        "SELECT DISTINCT typeof(body), typeof(state) FROM discreet_lines"
    ).fetchall()
    bodies = [json.loads(row[0]) for row in connection.execute("SELECT body FROM discreet_lines")]
    connection.close()
    assert kinds == [("text", "text")]

    def floats(value):
        if isinstance(value, dict):
            return any(map(floats, value.values()))
        return any(map(floats, value)) if isinstance(value, list) else isinstance(value, float)

    assert not floats(bodies)


# -- not what it was ---------------------------------------------------------------------


def test_gone(path, given, book):
    path.unlink()
    refused(path, given, book, "is gone")


def test_emptied(path, given, book):
    path.write_bytes(b"")
    refused(path, given, book, "emptied, truncated or damaged")


def test_garbage(path, given, book):
    path.write_bytes(b"not a database" * 100)
    refused(path, given, book, "damaged")


def test_truncated_file(path, given, book):
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    refused(path, given, book, "damaged|not as it was written")


def test_older_backup(path, given):
    made = ledger.open_ledger(path, given.policy())
    made.debit(given.entry("0.2"))
    backup = path.read_bytes()
    made.debit(given.entry("0.2", plan="later"))
    path.write_bytes(backup)
    refused(path, given, made, "has 2 lines, but it had 3")


def test_older_backup_with_its_own_anchor_is_known_to_the_user_s_state(path, given, folder):
    made = ledger.open_ledger(path, given.policy())
    made.debit(given.entry("0.2"))
    shutil.copytree(folder, folder / "backup", dirs_exist_ok=True)
    made.debit(given.entry("0.2", plan="later"))
    for name in (path.name, f"{path.name}.anchor"):
        shutil.copy(folder / "backup" / name, folder / name)
    refused(path, given, made, "older backup")


def test_older_backup_is_known_to_its_anchor_without_the_state(path, given, monkeypatch, folder):
    made = ledger.open_ledger(path, given.policy())
    backup = path.read_bytes()
    made.debit(given.entry("0.2"))
    path.write_bytes(backup)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "another user"))
    refused(path, given, made, "older backup")


def test_last_line_cut_off(path, given, book):
    edit(path, "DELETE FROM discreet_lines WHERE number = 4")
    refused(path, given, book, "line 4")


def test_a_cheaper_line(path, given, book):
    edit(path, """UPDATE discreet_lines SET body = replace(body, '"1/5"', '"1/50"')
                  WHERE number = 2""")  # fmt: skip
    with pytest.raises(errors.LedgerIntegrityError, match="line 2 "):
        book.verify()
    # opening reads the end alone; it seals the totals, so that nobody gains anything
    for handle in (book, ledger.open_ledger(path, given.policy())):
        with pytest.raises(errors.BudgetExceededError):
            handle.debit(given.entry("0.5", plan="late"))


def test_a_smaller_total(path, given, book):
    edit(path, """UPDATE discreet_heads SET state = replace(state, '"3/5"', '"1/5"')""")
    refused(path, given, book, "line 4 ")


def test_a_bigger_budget(path, given, book):
    edit(path, """UPDATE discreet_heads SET state = replace(state, '"1/1"', '"9/1"')""")
    refused(path, given, book, "line 4 ")


def _forged(path):
    """Rewrite the last debit to cost nothing, with every hash recomputed."""
    connection = sqlite3.connect(path)
    row = connection.execute(
        "SELECT number, at, kind, body, state, previous, jump FROM discreet_lines WHERE number = 4"
    ).fetchone()
    text = connection.execute("SELECT state FROM discreet_heads").fetchone()[0]
    connection.close()
    body = row[3].replace('"1/5"', '"0/1"').replace('"1/50"', '"0/1"')
    cheap = json.loads(body)
    asked = Line(4, row[1], "debit", body, "", "", "").entry("people")
    cheap["question"] = question_of(State.from_text(text), asked, cheap["cost"])
    body = canonical(cheap)
    text = text.replace('"3/5"', '"2/5"').replace('"3/50"', '"1/25"')
    state = State.from_text(text.replace(digest(row[3]), digest(body))).to_text()
    own = line_hash(row[0], row[1], row[2], body, digest(state), *row[5:])
    return body, state, own, cheap["question"]


def test_a_forged_end_with_every_hash_recomputed_misses_the_anchor(path, given, book):
    body, state, own, question = _forged(path)
    edit(
        path,
        ("UPDATE discreet_lines SET body = ?, state = ?, hash = ?, question = ? WHERE number = 4",
         (body, digest(state), own, question)),
        ("UPDATE discreet_heads SET state = ?, hash = ?", (state, own)),
    )  # fmt: skip
    refused(path, given, book, "another one took its place")


@pytest.mark.usefixtures("book")
def test_known_limit_forged_ledger_and_both_anchors(path, given):
    # stated in the documentation: whoever rewrites everything has made another world
    body, state, own, question = _forged(path)
    edit(
        path,
        ("UPDATE discreet_lines SET body = ?, state = ?, hash = ?, question = ? WHERE number = 4",
         (body, digest(state), own, question)),
        ("UPDATE discreet_heads SET state = ?, hash = ?", (state, own)),
    )  # fmt: skip
    Path(f"{path}.anchor").unlink()
    _anchor.of_user("people").remove()
    with pytest.raises(errors.LedgerIntegrityError, match="no anchor"):
        ledger.open_ledger(path, given.policy())
    assert ledger.adopt(path).verify().lines == 5


def test_verify_finds_a_total_that_was_not_earned(path, book):
    # every hash is right, but the totals are not those that the lines add up to
    state = json.loads(book.state.to_text())
    state["spent"][""]["epsilon"] = "1/10"
    text = canonical(state)
    lines = book.lines
    links = (lines[2].hash, lines[3].jump)
    own = line_hash(4, lines[3].when, "debit", lines[3].body, digest(text), *links)
    edit(
        path,
        ("UPDATE discreet_lines SET state = ?, hash = ? WHERE number = 4", (digest(text), own)),
        ("UPDATE discreet_heads SET state = ?, hash = ?", (text, own)),
    )
    Path(f"{path}.anchor").unlink()
    _anchor.of_user("people").remove()
    with pytest.raises(errors.LedgerIntegrityError, match="line 4 "):
        ledger.adopt(path)


# -- copies, moves, names ------------------------------------------------------------------


def test_a_copy_and_its_original_cannot_both_go_on(path, given, book, folder):
    other = folder / "copy.ledger"
    shutil.copy(path, other)
    copied = ledger.open_ledger(other, given.policy())
    copied.debit(given.entry("0.2", plan="in the copy"))
    with pytest.raises(errors.LedgerIntegrityError, match="truncated, copied"):
        book.debit(given.entry("0.2", plan="in the original"))


@pytest.mark.usefixtures("book")
def test_a_moved_ledger_is_the_same_ledger(path, given, folder):
    (folder / "elsewhere").mkdir()
    for name in (path.name, f"{path.name}.anchor"):
        shutil.move(folder / name, folder / "elsewhere" / name)
    moved = ledger.open_ledger(folder / "elsewhere" / path.name, given.policy())
    assert moved.verify().debits == 3
    with pytest.raises(errors.LedgerIntegrityError, match="elsewhere"):
        ledger.open_ledger(path, given.policy())


@pytest.mark.usefixtures("book")
def test_a_second_ledger_for_one_policy_is_refused(path, given, folder):
    for place in (folder / "fresh.ledger", ":memory:"):
        with pytest.raises(errors.LedgerIntegrityError, match="second budget") as no:
            ledger.open_ledger(place, given.policy())
        assert f'ledger="{path}"' in no.value.hint


@pytest.mark.usefixtures("book")
def test_renaming_the_policy_does_not_make_a_fresh_budget(path, given):
    with pytest.raises(errors.LedgerIntegrityError, match="belongs to policy 'people'"):
        ledger.open_ledger(path, given.policy(name="persons"))


def test_a_symlink_is_the_same_ledger(path, given, book, folder):
    (folder / "link").symlink_to(path)
    linked = ledger.open_ledger(folder / "link", given.policy())
    linked.debit(given.entry("0.4", plan="through the link"))
    with pytest.raises(errors.BudgetExceededError):
        book.debit(given.entry("0.1", plan="late"))


@pytest.mark.usefixtures("book")
def test_owner_may_forget_only_what_is_gone(path, given):
    with pytest.raises(errors.LedgerError, match="still there"):
        ledger.forget("people", fresh_budget=True)
    path.unlink()
    with pytest.raises(errors.LedgerError, match="fresh budget") as no:
        ledger.forget("people")
    assert no.value.hint.shell() == "discreet ledger forget --fresh-budget"
    ledger.forget("people", fresh_budget=True)
    assert ledger.open_ledger(path, given.policy()).balance().left("epsilon") == 1


def test_a_ledger_without_anchor_needs_adoption_on_record(path, given, book, monkeypatch, folder):
    Path(f"{path}.anchor").unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "another machine"))
    with pytest.raises(errors.LedgerIntegrityError, match="no anchor") as no:
        ledger.open_ledger(path, given.policy())
    eval(no.value.hint, {"discreet": dc})
    again = ledger.open_ledger(path, given.policy())
    assert [line.kind for line in again.lines][-1] == "adopt"
    assert again.balance().left("epsilon") == book.balance().left("epsilon")


@pytest.mark.parametrize("purpose", ["look", "try"])
@pytest.mark.usefixtures("book")
def test_who_only_looks_is_told_that_no_anchor_knows_the_lines(
    path, given, monkeypatch, folder, purpose
):
    Path(f"{path}.anchor").unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "another machine"))
    with pytest.raises(errors.LedgerIntegrityError, match="no anchor"):
        ledger.open_ledger(path, given.policy(), purpose=purpose)


def test_a_spoilt_slot_of_the_anchor_leaves_the_other(path, given, book):
    anchor = Path(f"{path}.anchor")
    raw = bytearray(anchor.read_bytes())
    latest = _anchor.beside(str(path)).read().number
    slot = next(i for i in (0, 8192) if f'"number":{latest}'.encode() in raw[i : i + 8192])
    raw[slot : slot + 10] = b"##########"
    anchor.write_bytes(raw)
    assert _anchor.beside(str(path)).read().number == latest - 1
    book.debit(given.entry("0.2", plan="next"))
    assert _anchor.beside(str(path)).read().number == latest + 1


@pytest.mark.usefixtures("book")
def test_anchors_never_move_back(path):
    anchor = _anchor.beside(str(path))
    now = anchor.read()
    for number in (now.number - 1, now.number):  # an earlier line; a copy's line
        with (
            pytest.raises(errors.LedgerIntegrityError, match="another copy"),
            anchor.hold(1) as held,
        ):
            held.move(_anchor.Mark(now.policy, now.first, number, "0" * 64, now.where))
        assert anchor.read() == now


@pytest.mark.usefixtures("book")
def test_a_missing_anchor_beside_is_restored_from_the_state(path, given):
    Path(f"{path}.anchor").unlink()
    ledger.open_ledger(path, given.policy())
    assert _anchor.beside(str(path)).read().number == 4


# -- processes -----------------------------------------------------------------------------


def _child(work, *args):
    """Run in a forked process; return what it returned."""
    context = multiprocessing.get_context("fork")
    out, into = context.Pipe(duplex=False)

    def body():
        try:
            into.send(work(*args))
        except BaseException as error:  # noqa: BLE001 - handed to the parent
            into.send(error)

    process = context.Process(target=body)
    process.start()
    told = out.recv()
    process.join()
    return told


def test_a_fork_shares_the_file_s_budget(given, book):
    told = _child(lambda: book.debit(given.entry("0.4", plan="child")).number)
    assert told == 5
    with pytest.raises(errors.BudgetExceededError):
        book.debit(given.entry("0.1", plan="parent"))


def test_a_ledger_in_memory_does_not_follow_a_fork_or_a_pickle(given):
    book = ledger.open_ledger(":memory:", given.policy())
    book.debit(given.entry("0.5"))
    told = _child(lambda: book.debit(given.entry("0.5", plan="child")))
    assert isinstance(told, errors.LedgerIntegrityError)
    code = (
        "import pickle, sys; from discreet import errors\n"
        "book = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "try: book.balance()\n"
        "except errors.LedgerIntegrityError: print('refused')"
    )
    raw = pickle.dumps(book).hex()
    done = subprocess.run(
        [sys.executable, "-c", code, raw], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "refused", done.stderr


def test_a_busy_ledger_is_refused_after_a_bounded_wait(path, given, book):
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    hasty = ledger.SqliteLedger.__new__(ledger.SqliteLedger)
    hasty.__dict__.update(book.__dict__, _store=SqliteStore(str(path), "people", wait=0.1))
    with pytest.raises(errors.LedgerBusyError, match=r"0\.1 s; nothing was charged"):
        hasty.debit(given.entry("0.1", plan="hasty"))
    holder.execute("ROLLBACK")
    holder.close()
    assert hasty.debit(given.entry("0.1", plan="hasty")).charged


def test_a_full_disk_is_a_refusal_and_the_ledger_goes_on(path, given, book):
    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
        done = 0
        for i in range(200):
            book.debit(given.entry("0.0001", plan=f"{i}" * 100))
            done += 1
        return done

    told = _child(fill)
    assert type(told) is errors.LedgerError
    assert "nothing was released" in str(told)
    assert book.verify().lines >= 4
    assert book.debit(given.entry("0.1", plan="after")).charged


def test_a_read_only_ledger_is_a_refusal(given):
    folder = Path(tempfile.mkdtemp(prefix="read-only-"))
    path = folder / "people.ledger"
    try:
        book = ledger.open_ledger(path, given.policy())
        for made in folder.iterdir():
            made.chmod(0o444)
        folder.chmod(0o555)

        def spend():
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            return book.debit(given.entry("0.1"))

        told = _child(spend)
        assert isinstance(told, errors.LedgerError)
        assert "nothing was released" in str(told)
        assert book.balance().left("epsilon") == 1
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_an_unusable_state_directory_is_a_refusal(path, given, monkeypatch, folder):
    (folder / "file").write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "file"))
    with pytest.raises(errors.LedgerError, match="anchor") as no:
        ledger.open_ledger(path, given.policy())
    assert "XDG_STATE_HOME" not in no.value.hint  # another one would be a second budget


def test_importing_the_ledger_loads_no_database_driver():
    code = "import sys, discreet.ledger; print('psycopg' in sys.modules, 'duckdb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_file_that_is_replaced_while_it_is_written_releases_nothing(path, book, folder):
    store = SqliteStore(str(path), "people")
    with store.writing():
        pass  # the same file: nothing to say
    shutil.copy2(path, folder / "copy")
    with (
        pytest.raises(errors.LedgerIntegrityError, match="replaced while in use"),
        store.writing() as tx,
    ):
        assert tx.line(1) is not None
        (folder / "copy").replace(path)
    assert book is not None
