"""What a thief tried at the desk: prices stated small, keys that open too much, decisions twice."""

from __future__ import annotations

import pytest
from tests.adversarial.test_service_races import COUNT, keys, write

from discreet.service import Home, Keys

pytestmark = pytest.mark.races


@pytest.fixture
def served(tmp_path, start_service):
    """Start services with one worker and a folder of this test's own."""

    def start(*policies, made, **env):
        one = start_service(
            *map(str, policies), "--port", "0", "--workers", "1", "--home", str(tmp_path / "home"),
            cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "state"), **env,
        )  # fmt: skip
        one.keys = made
        return one

    return start


def test_no_delta_makes_a_price_in_rho_small(tmp_path, served):
    """Approval and a day's limit compare ε; ρ is debited. Any ρ has a small ε at a large δ."""
    path = write(tmp_path, "claims", epsilon="4", budget='delta = "1e-5"',
                 service='approval = "0.3"\ndaily = "0.5"')  # fmt: skip
    one = served(path, made=keys(tmp_path / "home", "owner", "ana"))
    body = {"sql": COUNT, "rho": "0.35", "delta": "0.6"}
    refused = one("POST", "/v1/answers", body)
    assert (refused.status_code, refused.json()["fix"]) == (409, {"delta": "1e-05"})
    questions = [{"sql": f"{COUNT} WHERE age > {k}"} for k in range(9)]
    body = {"questions": questions, "epsilon": "0.01", "delta": "0.3"}
    assert one("POST", "/v1/batches", body).status_code == 409
    for delta in ({}, {"delta": "1e-5"}):
        refused = one("POST", "/v1/answers", {"sql": COUNT, "rho": "0.35", **delta})
        assert "today's limit" in refused.json()["message"]
        held = one("POST", "/v1/answers", {"sql": COUNT, "rho": "0.006", **delta})
        assert held.json()["result"]["state"] == "waiting"
    assert one("GET", "/v1/budget").json()["result"]["whole"]["rho"]["spent"] == "0"


def test_a_key_opens_the_policies_it_was_made_for_and_no_others(tmp_path, served):
    """One name is part of the other; owners of one do not see or revoke the other's keys."""
    one = write(tmp_path, "clinic")
    two = write(tmp_path / "b", "clinic research")
    book = Keys(Home(tmp_path / "home"))
    made = {"olga": book.add("olga", "owner", ("clinic",)), "una": book.add("una", "owner"),
            "rosa": book.add("rosa", "owner", ("clinic research",)),
            "rob": book.add("rob", "analyst", ("clinic research",)),
            "both": book.add("both", "analyst", ("clinic", "clinic research"))}  # fmt: skip
    service = served(one, two, made=made)
    opened = {who: [service("GET", f"/v1/budget?policy={p}", who=who).status_code
                    for p in ("clinic", "clinic%20research")] for who in made}  # fmt: skip
    assert opened == {"olga": [200, 404], "rosa": [404, 200], "rob": [404, 200],
                      "both": [200, 200], "una": [200, 200]}  # fmt: skip

    def seen(who, policy):
        found = service("GET", f"/v1/keys?policy={policy}", who=who).json()["result"]["keys"]
        return {k["name"]: k["id"] for k in found}

    assert list(seen("olga", "clinic")) == ["olga"]
    assert list(seen("rosa", "clinic%20research")) == ["rosa", "rob"]
    everybody = seen("una", "clinic")
    assert set(everybody) == set(made)
    for who in ("rob", "both", "una"):
        gone = service("DELETE", f"/v1/keys/{everybody[who]}?policy=clinic", who="olga")
        assert gone.status_code == 404
    assert len([k for k in book.all() if k.revoked]) == 0
    gone = service("DELETE", f"/v1/keys/{everybody['rob']}?policy=clinic", who="una")
    assert gone.status_code == 200
    assert [k.name for k in book.all() if k.revoked] == ["rob"]


def test_a_name_that_is_another_keys_id_is_not_revoked_with_it(tmp_path):
    book = Keys(Home(tmp_path / "home"))
    book.add("ana", "analyst")
    (ana,) = book.all()
    book.add(ana.key, "analyst")
    book.revoke(ana.key, named=False)
    assert [k.name for k in book.all() if k.revoked] == ["ana"]


@pytest.mark.parametrize("names", [("",), (" ",), ("clinic", "")])
def test_a_key_for_a_policy_without_a_name_is_refused(tmp_path, names):
    book = Keys(Home(tmp_path / "home"))
    with pytest.raises(Exception, match="a policy has a name"):
        book.add("ana", "analyst", names)
    assert book.all() == []


@pytest.mark.parametrize(
    ("written", "opens"),
    [("", ["a", "b", "a b"]), ("a", ["a"]), ("a b", []), (" ", []), ("a ", [])],
)
def test_keys_of_older_versions_open_what_is_clear(tmp_path, written, opens):
    """They were written with blanks between names: what may mean two things opens nothing."""
    home = Home(tmp_path / "home")
    key = Keys(home).add("ana", "owner")
    home.write("ALTER TABLE keys DROP COLUMN only")
    home.write("UPDATE keys SET policies = ?", (written,))
    home.close()
    book = Keys(Home(tmp_path / "home"))
    actor = book.find(key)
    assert [p for p in ("a", "b", "a b", "") if actor.may_use(p) and p] == opens
    if not opens:
        with pytest.raises(Exception, match="a policy has a name"):
            book.add("eve", "analyst", actor.policies)  # nothing is passed on, either


@pytest.mark.parametrize("limits", ['daily = "0.2"', 'approval = "0.3"'])
def test_a_paid_question_is_taken_up_after_a_kill_whatever_is_left(tmp_path, served, limits):
    """A day's limit holds its own debit already; what others have set aside is beside it."""
    path = write(tmp_path, "resumed", service=limits)
    one = served(path, made=keys(tmp_path / "home", "owner", "ana", "ben"))
    body = {"sql": COUNT, "epsilon": "0.15"}
    asked = one("POST", "/v1/answers", body, Idempotency_Key="k").json()["result"]
    assert asked["state"] == "running"
    if "approval" in limits:
        held = one("POST", "/v1/answers", {**body, "epsilon": "0.8"}, who="ben").json()
        assert held["result"]["state"] == "waiting"
    made = one.keys
    one.kill()
    one.start()
    one.keys = made
    answer = one("POST", "/v1/answers", body, Idempotency_Key="k", Prefer="wait=60").json()
    assert answer["result"]["state"] == "done"
    assert answer["result"]["id"] == asked["id"]
