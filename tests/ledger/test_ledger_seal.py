"""What was released is under the seal: no answer is free, edited, moved or made twice."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import errors, ledger
from discreet.ledger import _chain, _postgres, _sqlite
from discreet.ledger._chain import GENESIS, Head, jump_of, next_line, reached
from discreet.ledger._sqlite import SqliteStore
from discreet.ledger._state import FORMAT

OLD = Path(__file__).with_name("format_1.sql")


def change(path, *statements):
    """Change a ledger behind its back, as somebody who may write the file."""
    with sqlite3.connect(path) as connection:
        for table in ("discreet_lines", "discreet_answers"):
            for event in ("UPDATE", "DELETE"):
                connection.execute(f"DROP TRIGGER IF EXISTS {table}_{event}")
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.fixture
def book(path, given):
    """Four debits: settled, settled under a key, failed under a key, open under a key."""
    made = ledger.open_ledger(path, given.policy())
    made.settle(made.debit(given.entry(plan="a", source="s")), '["of a"]')
    made.settle(made.debit(given.entry(plan="b", source="s", key="b")), '["of b"]')
    made.settle(made.debit(given.entry(plan="c", source="s", key="c")), None)
    made.debit(given.entry(plan="d", source="s", key="d"))
    return made


def asks(given):
    """Each of the four questions again."""
    return {
        "a": given.entry(plan="a", source="s"),
        "b": given.entry(plan="b", source="s", key="b"),
        "c": given.entry(plan="c", source="s", key="c"),
        "d": given.entry(plan="d", source="s", key="d"),
    }


# -- what is sealed ------------------------------------------------------------------------


def test_settling_is_a_line_of_the_chain(opened):
    book = opened.open()
    receipt = book.debit(opened.entry(plan="a"))
    assert list(book.state.open) == [str(receipt.number)]
    book.settle(receipt, '["record"]')
    assert [line.kind for line in book.lines] == ["open", "debit", "settle"]
    told = book.lines[-1].content
    assert (told["debit"], told["line"]) == (receipt.number, receipt.hash)
    assert book.state.open == {}
    assert book.verify().lines == 3
    book.settle(receipt, '["another"]')  # not stored, and no line
    assert book.verify().lines == 3


def test_a_debit_that_only_meters_is_never_open(opened):
    book = opened.open()
    book.debit(opened.entry(plan="again", runs=False))
    assert book.state.open == {}
    assert book.verify().debits == 1


CHANGES = {
    "answer deleted": ("b", "DELETE FROM discreet_answers WHERE number = 4", "is gone"),
    "answer edited": (
        "b",
        "UPDATE discreet_answers SET record = '[\"of a\"]' WHERE number = 4",
        "another answer",
    ),
    "failure made an answer": (
        "c",
        "UPDATE discreet_answers SET record = '[7]' WHERE number = 6",
        "another answer",
    ),
    "answer made a failure": (
        "b",
        "UPDATE discreet_answers SET record = NULL WHERE number = 4",
        "another answer",
    ),
    "answer planted": ("d", "INSERT INTO discreet_answers VALUES ('people', 8, '[1]')", "answer"),
    "settling line hidden": (
        "b",
        "UPDATE discreet_lines SET kind = 'adopt', settles = NULL WHERE number = 5",
        "not found|line 5",
    ),
    "settling line edited": (
        "b",
        "UPDATE discreet_lines SET body = replace(body, '4', '5') WHERE number = 5",
        "line 5",
    ),
    "debit edited": (
        "b",
        """UPDATE discreet_lines SET body = replace(body, '"b"', '"x"') WHERE number = 4""",
        "line 4",
    ),
    "open debit edited": (
        "d",
        """UPDATE discreet_lines SET body = replace(body, '"add', '"xdd') WHERE number = 8""",
        "line 8",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a1_free_answers(path, given, book, name):
    """Whoever edits what is stored gets no answer for it, and `verify` says what is wrong."""
    letter, statement, said = CHANGES[name]
    change(path, statement)
    for handle in (lambda: book, lambda: ledger.open_ledger(path, given.policy())):
        with pytest.raises(errors.LedgerIntegrityError, match=said):
            handle().debit(asks(given)[letter])
    with pytest.raises(errors.LedgerIntegrityError, match=said):
        book.verify()


@pytest.mark.parametrize("columns", ["question", "slot"])
def test_a_question_or_key_moved_to_another_debit(path, given, book, columns):
    with sqlite3.connect(path) as connection:
        sql = f"SELECT {columns} FROM discreet_lines WHERE number IN (2, 4) ORDER BY number"
        of_a, of_b = (row[0] for row in connection.execute(sql))
    connection.close()
    change(
        path,
        f"UPDATE discreet_lines SET {columns} = 'x' WHERE number = 4",
        f"UPDATE discreet_lines SET {columns} = '{of_b}' WHERE number = 2",
    )
    asked = given.entry(plan="b", source="s", key="b" if columns == "slot" else None)
    with pytest.raises(errors.LedgerIntegrityError, match=r"another question|line 2 "):
        book.debit(asked)
    with pytest.raises(errors.LedgerIntegrityError, match="debit 2 of the ledger is found under"):
        book.verify()
    assert of_a != of_b


def test_verify_finds_a_key_that_nobody_would_find(path, book):
    change(path, "UPDATE discreet_lines SET slot = NULL WHERE number = 4")
    with pytest.raises(errors.LedgerIntegrityError, match="debit 4 of the ledger is found under"):
        book.verify()


def test_verify_finds_an_index_that_does_not_fit_its_table(path, book):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        sql = "UPDATE sqlite_master SET sql = replace(sql, '(question)', '(hash)')"
        connection.execute(f"{sql} WHERE name = 'discreet_questions'")
    connection.close()
    _sqlite._IDLE.clear()
    with pytest.raises(errors.LedgerIntegrityError, match="pages or indices"):
        book.verify()


# -- backups -------------------------------------------------------------------------------


def test_a2_restore_between(path, given):
    """A backup from between debit and settling gives no second answer."""
    made = ledger.open_ledger(path, given.policy())
    receipt = made.debit(given.entry(key="k"))
    backup = path.read_bytes()
    made.settle(receipt, '["first"]')
    path.write_bytes(backup)
    with pytest.raises(errors.LedgerIntegrityError, match="older backup"):
        made.debit(given.entry(key="k"))
    with pytest.raises(errors.LedgerIntegrityError, match="older backup"):
        made.settle(receipt, '["second"]')
    with pytest.raises(errors.LedgerIntegrityError, match="older backup"):
        ledger.open_ledger(path, given.policy()).verify()


def test_a_backup_from_any_moment_is_the_present_or_refused(path, given):
    made = ledger.open_ledger(path, given.policy())
    moments = [path.read_bytes()]
    for i in range(100):
        receipt = made.debit(given.entry("0.001", plan=f"q{i}", key=f"k{i}"))
        moments.append(path.read_bytes())
        made.settle(receipt, None if i == 3 else f"[{i}]")
        moments.append(path.read_bytes())
    made.raise_budget(epsilon="2")
    moments.append(path.read_bytes())
    for backup in moments[:-1]:
        path.write_bytes(backup)
        with pytest.raises(errors.LedgerIntegrityError, match="older backup"):
            ledger.open_ledger(path, given.policy())
    path.write_bytes(moments[-1])
    assert ledger.open_ledger(path, given.policy()).verify().debits == 100


def test_an_answer_is_marked_before_it_is_given_out_again(path, given, monkeypatch):
    """A writer dies between commit and mark; the next reader of its answer makes up for it."""
    made = ledger.open_ledger(path, given.policy())
    receipt = made.debit(given.entry(key="k"))
    backup = path.read_bytes()
    with monkeypatch.context() as m:
        m.setattr(type(made), "_move", lambda *_: None)
        made.settle(receipt, '["first"]')
    assert made.debit(given.entry(key="k")).stored == '["first"]'
    path.write_bytes(backup)
    with pytest.raises(errors.LedgerIntegrityError, match="older backup"):
        made.debit(given.entry(key="k"))


# -- short ways ----------------------------------------------------------------------------


def chain(length):
    """Lines of a chain with nothing in it."""
    body = {"policy": "p", "budget": {}, "caps": {}, "format": FORMAT}
    line, head = next_line(None, "", "open", body)
    lines = [line]
    while len(lines) < length:
        far = jump_of(head.number + 1)
        line, head = next_line(head, "", "adopt", {}, jump=lines[far - 1].hash if far else GENESIS)
        lines.append(line)
    return lines, head


def test_every_line_is_reached_over_few_links():
    lines, head = chain(300)
    longest = 0
    for number in range(1, 301):
        read = []

        def at(n, read=read):
            read.append(n)
            return lines[n - 1]

        assert reached(at, head, number) is lines[number - 1]
        longest = max(longest, len(read))
    assert longest <= (1 + (300).bit_length()) ** 2


def test_a_changed_line_is_never_reached():
    lines, head = chain(40)
    for number in range(1, 41):
        forged = next_line(
            Head(number - 1, lines[number - 1].previous, head.state),
            "",
            "adopt",
            {"forged": True},
            jump=lines[number - 1].jump,
        )[0]

        def at(n, number=number, forged=forged):
            return forged if n == number else lines[n - 1]

        with pytest.raises(errors.LedgerIntegrityError):
            reached(at, head, number)


# -- formats -------------------------------------------------------------------------------


@pytest.fixture
def old(path):
    """A file of format 1, as its programs have written it."""
    connection = sqlite3.connect(path)
    connection.executescript(OLD.read_text())
    connection.close()
    return path


def late(given):
    """Questions of the first period, a failure and an open run, in the second one."""
    return [
        given.entry("0.1", plan=p, source="s", key=k) for p, k in (("q2", "failed"), ("q3", "open"))
    ]


def test_format_1_is_brought_to_the_present(old, given):
    with pytest.raises(errors.LedgerIntegrityError, match="no anchor"):
        ledger.open_ledger(old)
    book = ledger.adopt(old)
    assert book.state.format == FORMAT
    with sqlite3.connect(old) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    connection.close()
    kinds = [line.kind for line in book.lines]
    assert kinds[10:] == ["format", "settle", "settle", "settle", "settle", "adopt"]
    assert book.verify().debits == 5
    assert book.balance().amounts["epsilon"] == (Fraction(1, 2), 3)
    assert list(book.state.open) == ["5"]
    # answers are what they were; keys belong to the period that they were used in
    again = ledger.open_ledger(old)
    assert again.debit(given.entry("0.5", plan="q4", source="s")).stored == '["answer 4"]'
    keyed = given.entry("0.2", plan="q1", source="s", key="k", analyst="ann")
    for entry in (keyed, *late(given)):
        with pytest.raises(errors.IdempotencyError, match="earlier period"):
            again.debit(entry)
    assert again.verify().lines == 16
    change(old, "UPDATE discreet_answers SET record = '[1]' WHERE number = 3")
    with pytest.raises(errors.LedgerIntegrityError, match="another answer"):
        again.debit(keyed)


def test_format_2_is_brought_to_the_present(path, given):
    _loaded(path, "format_2.sql")
    book = ledger.adopt(path)
    assert [line.kind for line in book.lines][14:] == ["format", "adopt"]
    assert (book.state.format, book.verify().debits) == (FORMAT, 5)
    assert list(book.state.open) == ["8"]
    assert book.debit(given.entry("0.5", plan="q4", source="s")).stored == '["answer 4"]'
    for entry in late(given):
        with pytest.raises(errors.IdempotencyError, match="earlier period"):
            book.debit(entry)
    assert ledger.open_ledger(path).verify().lines == 16


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE discreet_lines SET slot = NULL WHERE number = 3",
        "UPDATE discreet_lines SET question = 'x' WHERE number = 3",
        """UPDATE discreet_lines SET body = replace(body, '1/5', '1/9') WHERE number = 3""",
        "INSERT INTO discreet_answers VALUES ('people', 6, '[1]')",
    ],
    ids=["slot", "question", "body", "answer of no debit"],
)
def test_format_1_is_checked_before_it_is_sealed(old, statement):
    change(old, statement)
    with pytest.raises(errors.LedgerIntegrityError):
        ledger.adopt(old)
    with sqlite3.connect(old) as connection:
        assert connection.execute("SELECT max(number) FROM discreet_lines").fetchone() == (10,)
    connection.close()


def test_a_move_to_the_present_format_happens_whole_or_not_at_all(old, monkeypatch):
    before = sqlite3.connect(old)
    tables = "SELECT name, sql FROM sqlite_master ORDER BY name"
    as_it_was = before.execute(tables).fetchall()
    before.close()
    moves = _sqlite._moves(1)
    for cut in range(1, len(moves)):
        with monkeypatch.context() as m:
            m.setattr(_sqlite, "_moves", lambda _, n=cut: (*moves[:n], "SELECT no_such_thing"))
            with pytest.raises(errors.LedgerIntegrityError):
                SqliteStore(str(old), "people").prepare()
        connection = sqlite3.connect(old)
        assert connection.execute(tables).fetchall() == as_it_was
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)
        connection.close()
    assert ledger.adopt(old).verify().debits == 5


def _served(postgres_url, script, columns, *more):
    """A database with the ledger of a script, in tables of its format."""
    import psycopg

    name = Path(script).stem
    with psycopg.connect(postgres_url, autocommit=True) as c:
        c.execute(f"DROP DATABASE IF EXISTS {name}")
        c.execute(f"CREATE DATABASE {name}")
    url = postgres_url.replace("/postgres?", f"/{name}?")
    source = sqlite3.connect(":memory:")
    source.executescript(Path(script).read_text())
    with psycopg.connect(url) as c:
        for statement in (OLD.with_name("format_1_postgres.sql").read_text(), *more):
            c.execute(statement)
        for table, own in _sqlite._COLUMNS.items():
            names = own.removeprefix("one, ") + (columns if table == "discreet_lines" else "")
            values = ", ".join(["%s"] * len(names.split(", ")))
            for row in source.execute(f"SELECT {names} FROM {table}"):
                c.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", row)
    source.close()
    return url


@pytest.fixture
def old_server(postgres_url):
    """The ledger of format 1 on a server."""
    return _served(postgres_url, OLD, "")


def test_format_2_of_postgresql_is_brought_to_the_present(postgres_url, given):
    steps = (*_postgres._FROM_1[:-1], "INSERT INTO discreet_format VALUES (2)")
    url = _served(postgres_url, OLD.with_name("format_2.sql"), ", jump, settles", *steps)
    book = ledger.open_ledger(url, "people")
    assert [line.kind for line in book.lines][14:] == ["format"]
    assert (book.state.format, book.verify().debits) == (FORMAT, 5)
    assert book.debit(given.entry("0.5", plan="q4", source="s")).stored == '["answer 4"]'
    keyed = given.entry("0.5", plan="q4", source="s", key="taken up")
    assert book.debit(keyed).stored == '["answer 4"]'
    assert ledger.open_ledger(url, "people").lines[-1].kind == "key"


def _loaded(path, script):
    connection = sqlite3.connect(path)
    connection.executescript(OLD.with_name(script).read_text())
    connection.close()


def test_format_3_is_brought_to_the_present(path, given):
    """Its totals had been rounded, so that the route of ε was open once more."""
    _loaded(path, "format_3.sql")
    with pytest.raises(errors.LedgerIntegrityError, match="no anchor"):
        ledger.open_ledger(path)
    book = ledger.adopt(path)
    assert [line.kind for line in book.lines][19:] == ["format", "adopt"]
    assert book.lines[19].content["by_rho"] is True
    assert (book.state.format, book.verify().debits) == (FORMAT, 7)
    assert all(cost.delta == cost.rho_delta for cost in book.state.spent.values())
    assert book.balance().routes == (("rho", "delta"),)
    assert book.state.guests == {"others": None}
    assert book.debit(given.entry("0.5", plan="q4", source="s")).stored == '["answer 4"]'
    book.new_period()
    assert book.balance().routes == (("epsilon", "delta"), ("rho", "delta"))
    assert ledger.open_ledger(path).verify().lines == 22


def test_format_4_is_brought_to_the_present(path, given):
    """A tick of a stream is not one of those that are released once: it was found by its price."""
    _loaded(path, "format_4.sql")
    with pytest.raises(errors.LedgerIntegrityError, match="no anchor"):
        ledger.open_ledger(path)
    book = ledger.adopt(path)
    assert [line.kind for line in book.lines][16:] == ["format", "adopt"]
    assert (book.state.format, book.verify().debits) == (FORMAT, 6)
    assert (book.state.vouched, list(book.state.open)) == (("view people",), ["9"])
    assert not any(entry.once for entry in book.entries)
    assert book.debit(given.entry("0.5", plan="q4", source="s")).stored == '["answer 4"]'
    tick = given.entry("0.1", plan="stream abc tick 0", source="s", delta="1e-7")
    assert book.debit(tick).stored == '{"tick":0}'
    assert book.debit(replace(tick, once=True)).charged
    for entry in late(given):
        with pytest.raises(errors.IdempotencyError, match="earlier period"):
            book.debit(entry)
    assert ledger.open_ledger(path).verify().lines == 19


@pytest.mark.parametrize("script", ["format_1.sql", "format_2.sql", "format_3.sql", "format_4.sql"])
def test_an_older_copy_is_refused_also_where_it_is_of_an_older_format(path, given, script):
    """It would be brought to the present, and what was spent since would be forgotten."""
    _loaded(path, script)
    before = Path(path).read_bytes()
    book = ledger.adopt(path)
    book.debit(given.entry("0.01", plan="since then"))
    del book
    for more in ("-wal", "-shm"):
        Path(f"{path}{more}").unlink(missing_ok=True)
    Path(path).write_bytes(before)
    for policy in (None, given.policy("3")):
        with pytest.raises(errors.LedgerIntegrityError, match="restored from an older backup"):
            ledger.open_ledger(path, policy)


def test_format_4_of_postgresql_is_brought_to_the_present(postgres_url, given):
    made = (*_postgres._FROM_1[:-1], "INSERT INTO discreet_format VALUES (4)")
    url = _served(postgres_url, OLD.with_name("format_4.sql"), ", jump, settles", *made)
    book = ledger.open_ledger(url, "people")
    assert [line.kind for line in book.lines][16:] == ["format"]
    assert (book.state.format, book.verify().debits) == (FORMAT, 6)
    assert book.debit(given.entry("0.5", plan="q4", source="s")).stored == '["answer 4"]'
    assert ledger.open_ledger(url, "people").verify().lines == 17


def test_format_3_of_postgresql_is_brought_to_the_present(postgres_url, given):
    kinds = str(tuple(kind for kind in _chain.KINDS if kind not in {"key", "vouch"}))
    steps = [s for s in _postgres._FROM_1[:-1] if "_check" not in s]
    old = "ALTER TABLE discreet_lines DROP CONSTRAINT discreet_lines_kind_check"
    new = f"ALTER TABLE discreet_lines ADD CHECK (kind IN {kinds})"
    made = (old, new, *steps, "INSERT INTO discreet_format VALUES (3)")
    url = _served(postgres_url, OLD.with_name("format_3.sql"), ", jump, settles", *made)
    book = ledger.open_ledger(url, "people")
    assert [line.kind for line in book.lines][19:] == ["format"]
    assert (book.state.format, book.verify().debits) == (FORMAT, 7)
    assert book.balance().routes == (("rho", "delta"),)
    keyed = given.entry("0.5", plan="q4", source="s", key="taken up")
    assert book.debit(keyed).stored == '["answer 4"]'
    assert ledger.open_ledger(url, "people").verify().lines == 21


def test_format_1_of_postgresql_is_brought_to_the_present(old_server, given):
    import psycopg

    book = ledger.open_ledger(old_server, "people")
    assert book.state.format == FORMAT
    assert book.verify().debits == 5
    assert [line.kind for line in book.lines][10:] == ["format", *["settle"] * 4]
    again = ledger.open_ledger(old_server, "people")
    assert again.debit(given.entry("0.5", plan="q4", source="s")).stored == '["answer 4"]'
    for entry in late(given):
        with pytest.raises(errors.IdempotencyError, match="earlier period"):
            again.debit(entry)
    assert again.verify().lines == 15
    with psycopg.connect(old_server) as c:
        assert c.execute("SELECT version FROM discreet_format").fetchall() == [(FORMAT,)]
        c.execute("UPDATE discreet_format SET version = version + 1")
    with pytest.raises(errors.LedgerError, match=f"is of format {FORMAT + 1}, written by a newer"):
        ledger.open_ledger(old_server, "people")


def test_a_newer_format_is_refused_by_name(path, given, book, folder):
    shutil.copy(path, folder / "kept")
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    _sqlite._IDLE.clear()
    said = rf"is of format {FORMAT + 1}, written by a newer discreet"
    for use in (lambda: ledger.open_ledger(path, given.policy()), book.verify):
        with pytest.raises(errors.LedgerError, match=said) as no:
            use()
        assert type(no.value) is errors.LedgerError  # not damaged: newer
    shutil.copy(folder / "kept", path)
    change(
        path,
        f"""UPDATE discreet_heads SET state = replace(state, '"format":{FORMAT}', '"format":9')""",
    )
    _sqlite._IDLE.clear()
    with pytest.raises(errors.LedgerError):
        book.verify()


# -- bits ----------------------------------------------------------------------------------


def content(path):
    """Every row of every table, as text."""
    connection = sqlite3.connect(path)
    tables = ("discreet_lines", "discreet_heads", "discreet_answers")
    rows = {t: connection.execute(f"SELECT * FROM {t} ORDER BY number").fetchall() for t in tables}
    connection.close()
    return rows


@pytest.mark.parametrize("stride", [97, pytest.param(13, marks=pytest.mark.long)])
def test_f_flip(path, given, book, stride):
    """A flipped bit is found, or it was where nothing is stored."""
    _sqlite._IDLE.clear()
    raw, was, found, idle = path.read_bytes(), content(path), 0, 0
    asked = asks(given)
    answers = {k: (r.stored, r.failed, r.number) for k in asked if (r := book.debit(asked[k]))}
    for place in range(0, len(raw), stride):
        spoilt = bytearray(raw)
        spoilt[place] ^= 1 << place % 8
        path.write_bytes(spoilt)
        _sqlite._IDLE.clear()
        try:
            again = ledger.open_ledger(path, given.policy())
            again.verify()
        except errors.LedgerError:
            found += 1
            continue
        assert content(path) == was, place
        for k, entry in asked.items():
            receipt = again.debit(entry)
            assert (receipt.stored, receipt.failed, receipt.number) == answers[k], place
        idle += 1
    assert found > idle / 20
