"""A service as witness of another host's ledger: copies take turns at its mark, or are refused."""

from __future__ import annotations

import itertools
import shutil
import threading
import time

import pytest
from tests.adversarial.test_service_races import keys, write

from discreet import errors, ledger
from discreet.ledger._watch import Service
from discreet.service import _marks

pytestmark = pytest.mark.races
_NAMES = itertools.count()


@pytest.fixture(scope="module")
def witness(tmp_path_factory, start_service):
    """A service with the keys of two hosts, an owner and an analyst."""
    from discreet.service import Home, Keys

    folder = tmp_path_factory.mktemp("witness")
    made = keys(folder / "home", "owner", "ana")
    book = Keys(Home(folder / "home"))
    made |= {host: book.add(host, "witness") for host in ("north", "south")}
    served = start_service(
        str(write(folder, "other")), "--port", "0", "--workers", "1", "--home",
        str(folder / "home"), cwd=folder,
    )  # fmt: skip
    served.keys = made
    return served


@pytest.fixture
def watched(witness, monkeypatch):
    monkeypatch.setenv("DISCREET_WITNESS_KEY", witness.keys["north"])
    return witness.url


@pytest.fixture
def hosts(folder, monkeypatch):
    """Two hosts: folders and state directories of their own."""

    def host(name):
        (folder / name).mkdir(exist_ok=True)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / name / "state"))
        return folder / name / "people.ledger"

    return host


def test_a_copy_on_another_host_is_seen(hosts, given, watched):
    name = f"watched {next(_NAMES)}"
    policy, one = given.policy("2", name=name), hosts("one")
    first = ledger.open_ledger(one, policy, witness=watched)
    first.debit(given.entry("1", plan="a", own=name))
    two = hosts("two")
    for ending in ("", ".anchor"):
        shutil.copy(f"{one}{ending}", f"{two}{ending}")
    second = ledger.open_ledger(two, policy, witness=watched)
    second.debit(given.entry("1", plan="b", own=name))
    hosts("one")
    with pytest.raises(errors.LedgerIntegrityError, match="truncated, copied or restored"):
        first.debit(given.entry("1", plan="c", own=name))
    hosts("two")
    assert second.verify().debits == 2


def test_a_policy_names_it_and_without_it_nothing_is_released(path, given, watched, monkeypatch):
    name = f"watched {next(_NAMES)}"
    policy = given.policy(name=name)
    book = ledger.open_ledger(path, policy, witness=watched)
    book.debit(given.entry(own=name))
    monkeypatch.setenv("DISCREET_WITNESS_KEY", "dk_wrong")
    with pytest.raises(errors.LedgerError, match="does not let this host in") as no:
        book.debit(given.entry(plan="b", own=name))
    assert "dk_wrong" not in f"{no.value} {no.value.hint}"
    with pytest.raises(errors.LedgerError, match="cannot be reached"):
        ledger.open_ledger(path, policy, witness="http://127.0.0.1:1")
    with pytest.raises(errors.LedgerIntegrityError, match="was watched by a witness"):
        ledger.open_ledger(path, policy)
    with pytest.raises(errors.LedgerError, match="in the clear"):
        Service("http://curator.example", name).read()


def test_a_mark_is_held_by_one_and_never_moves_back(path, given, watched):
    name = f"watched {next(_NAMES)}"
    book = ledger.open_ledger(path, given.policy(name=name), witness=watched)
    at = Service(watched, name)
    mark = at.read()
    with at.hold(1), pytest.raises(errors.LedgerBusyError), at.hold(0.1):
        pass
    book.debit(given.entry(own=name))
    with pytest.raises(errors.LedgerIntegrityError), at.hold(1) as held:
        held.move(mark)
    with pytest.raises(errors.LedgerIntegrityError), at.hold(1) as held:
        at.move(held.hold, mark, back=False)  # the service compares for itself
    with at.hold(1):
        pass
    with pytest.raises(errors.LedgerIntegrityError):
        at.move(held.hold, mark, back=True)  # a hold that was let go moves nothing
    assert at.read().number == 2


def test_writers_of_one_ledger_take_turns_at_it(path, given, watched):
    name = f"watched {next(_NAMES)}"
    policy = given.policy("100", name=name)
    ledger.open_ledger(path, policy, witness=watched)
    failed = []

    def spend(i):
        try:
            book = ledger.open_ledger(path, policy, witness=watched)
            for j in range(3):
                book.debit(given.entry("0.1", plan=f"{i} {j}", own=name))
        except errors.DiscreetError as error:
            failed.append(error)

    threads = [threading.Thread(target=spend, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert Service(watched, name).read().number == 13


def test_marks_are_their_hosts_own_and_the_key_opens_nothing_else(witness, path, given, watched):
    name = f"watched {next(_NAMES)}"
    ledger.open_ledger(path, given.policy(name=name), witness=watched)
    place = f"/v1/marks?ledger={name}"
    assert witness("GET", place, who="north").json()["result"]["mark"]["number"] == 1
    assert witness("GET", place, who="south").json()["result"]["mark"] is None
    for who in ("owner", "ana"):
        assert witness("GET", place, who=who).status_code == 403
    for path_ in ("/v1/budget", "/v1/policy", "/v1/answers", "/v1/ledger"):
        assert witness("GET", path_, who="north").status_code == 404
    asked = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.1"}
    assert witness("POST", "/v1/preview", asked, who="north").status_code == 404
    assert witness("POST", "/v1/answers", asked, who="north").status_code in (403, 404)


def test_a_hold_runs_out(tmp_path, monkeypatch):
    from discreet.service import Home

    monkeypatch.setattr(_marks, "LEASE", 0.05)
    marks = _marks.Marks(Home(tmp_path))
    first = marks.hold("north", "people")
    assert first is not None
    while marks.hold("north", "people") is None:
        time.sleep(0.01)
    with pytest.raises(errors.DiscreetError, match="not held"):
        marks.move("north", "people", first, {"first": "0a", "number": 1})
    assert marks.read("north", "people") is None
    with pytest.raises(errors.DiscreetError, match="not held"):
        marks.let_go("north", "people", first)


def test_hosts_of_one_ledger_share_a_key(witness, hosts, given, watched, monkeypatch):
    """Under a key of its own a copy would meet no mark, and spend the budget once more."""
    name = f"watched {next(_NAMES)}"
    policy, one = given.policy("1", name=name), hosts("one")
    first = ledger.open_ledger(one, policy, witness=watched)
    ledger.backup(first, one.parent / "kept")
    two = hosts("two")
    monkeypatch.setenv("DISCREET_WITNESS_KEY", witness.keys["south"])
    with pytest.raises(errors.LedgerError, match="under another key's name") as no:
        ledger.restore(one.parent / "kept", two, policy=policy, witness=watched)
    assert "one for all hosts" in no.value.hint
    with pytest.raises(errors.LedgerError):
        ledger.open_ledger(two, policy, witness=watched).debit(given.entry("0.9", own=name))
    hosts("one")
    monkeypatch.setenv("DISCREET_WITNESS_KEY", witness.keys["north"])
    first.debit(given.entry("0.9", own=name))
    assert Service(watched, name).read().number == 2


def test_a_ledger_has_its_mark_under_one_name(tmp_path):
    from discreet.service import Home, Keys

    home = Home(tmp_path)
    marks, book = _marks.Marks(home), Keys(home)
    mark = {"first": "0a", "number": 1}
    for host in ("north", "south"):
        book.add(host, "witness")
    holds = {host: marks.hold(host, "people") for host in ("north", "south")}
    marks.move("north", "people", holds["north"], mark)
    with pytest.raises(errors.DiscreetError, match="share one key"):
        marks.move("south", "people", holds["south"], mark)
    assert marks.read("south", "people") is None
    # another ledger of a policy of the same name is nobody else's matter
    marks.move("south", "people", holds["south"], mark | {"first": "0b"})
    marks.move("north", "people", holds["north"], mark | {"number": 2})
    # a name that nobody can use any more stands in nobody's way
    book.revoke("north")
    marks.move("south", "people", holds["south"], mark)
    # both have it, as services kept them once: neither is held
    book.add("north", "witness")
    for host in holds:
        with pytest.raises(errors.DiscreetError, match="share one key"):
            marks.check_name(host, "people", marks.read(host, "people"))


def test_a_mark_that_was_moved_is_on_disk(tmp_path):
    """The statement that moves it runs under ``synchronous = FULL`` (2), others as before (1)."""
    from discreet.service import Home

    home, seen = Home(tmp_path), []
    line = home._connection
    line.create_function("note", 0, lambda: seen.extend(line.execute("PRAGMA synchronous")))
    line.execute("CREATE TEMP TRIGGER t AFTER UPDATE ON main.marks BEGIN SELECT note(); END")
    marks = _marks.Marks(home)
    hold = marks.hold("north", "people")
    marks.move("north", "people", hold, {"first": "0a", "number": 1})
    marks.let_go("north", "people", hold)
    assert seen == [(1,), (2,), (1,)]


def test_only_a_move_is_refused_by_a_conflict(monkeypatch):
    """A hold that a service refuses is a failure, not a hold without a name."""
    import io

    class Line:
        def __init__(self, *_, **__):
            pass

        def request(self, *_):
            pass

        def getresponse(self):
            answer = io.BytesIO(b'{"ok": false, "error": "state"}')
            answer.status = 409
            return answer

        def close(self):
            pass

    monkeypatch.setattr("http.client.HTTPConnection", Line)
    at = Service("http://127.0.0.1:1", "people")
    with pytest.raises(errors.LedgerError, match="cannot be written"), at.hold(1):
        pass
    with pytest.raises(errors.LedgerError, match="cannot be written"):
        at.read()
    with pytest.raises(errors.LedgerIntegrityError, match="at the same time"):
        at.move("0", ledger.Mark("people", "0a", 1, "0b", "book"), back=False)
