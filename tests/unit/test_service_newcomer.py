"""A service of two policies over files, as somebody meets it who has read the documents alone."""

from __future__ import annotations

import html
import inspect
import json
import re
import shlex
import subprocess

import httpx
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import errors
from discreet.cli import app
from discreet.service import Remote, RemoteBatch
from discreet.service._client import ONLY_LOCAL
from discreet.service._home import Home
from discreet.service._keys import Keys, Role

pytestmark = pytest.mark.races

VISITS = """
[policy]
name = "newcomer-visits"
[budget]
epsilon = "5"
delta = "1e-6"
accounting = "zcdp"
shares = { ana = "0.5" }
[tables.visits]
source = "visits.csv"
unit = "id"
max_rows_per_unit = 2
[tables.visits.columns]
ward = { type = "category", values = ["A", "B"] }
diagnosis = { type = "text" }
age = { type = "integer", min = 0, max = 110 }
[tables.patients]
source = "patients.csv"
unit = "id"
max_rows_per_unit = 1
[tables.patients.columns]
insurance = { type = "category", values = ["public", "private"] }
"""
STAFF = """
[policy]
name = "newcomer-staff"
[budget]
epsilon = "1"
[tables.staff]
source = "staff.csv"
[tables.staff.columns]
grade = { type = "integer", min = 0, max = 9 }
"""
BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
BY_TEXT = "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis"


@pytest.fixture(scope="module")
def two(start_service, tmp_path_factory):
    place = tmp_path_factory.mktemp("two")
    rows = "".join(f"{i},{'AB'[i % 2]},d{i % 3},{i % 90}\n" for i in range(600))
    (place / "visits.csv").write_text("id,ward,diagnosis,age\n" + rows)
    (place / "patients.csv").write_text(
        "id,insurance\n" + "".join(f"{i},public\n" for i in range(9))
    )
    (place / "staff.csv").write_text("grade\n" + "3\n" * 40)
    (place / "visits.toml").write_text(VISITS)
    (place / "staff.toml").write_text(STAFF)
    keys = Keys(Home(place / "home"))
    made = {"olga": keys.add("olga", Role.OWNER), "ana": keys.add("ana", Role.ANALYST)}
    served = start_service("visits.toml", "staff.toml", "--port", "0", "--workers", "1", cwd=place,
                           DISCREET_HOME=str(place / "home"))  # fmt: skip
    served.keys.update(made)
    return served


@pytest.fixture
def page(two):
    """Pages as ana sees them: ``page(path, **form)``."""
    yield from browser(two, "ana")


@pytest.fixture
def owner(two):
    yield from browser(two, "olga")


def browser(two, who):
    with httpx.Client(base_url=two.url, timeout=600, follow_redirects=True) as client:
        shown = client.post("/login", data={"key": two.keys[who]}).text
        token = shown.split('name="token" value="')[1].split('"')[0]

        def call(path, **form):
            answer = client.post(path, data={**form, "token": token}) if form else client.get(path)
            return html.unescape(answer.text)

        call("/ask?policy=newcomer-visits")
        yield call


def _closed(two, policy):
    return two("GET", f"/v1/budget?policy={policy}", key=two.keys["olga"]).json()["result"][
        "closed"
    ]


def test_a_form_acts_on_the_policy_of_its_page(two):
    """Whatever was shown since, in another tab or by a link of another site."""
    mine, other = "newcomer-visits", "newcomer-staff"
    with httpx.Client(base_url=two.url, timeout=600) as client:
        client.post("/login", data={"key": two.keys["olga"]})
        shown = {p: client.get(f"{p}?policy={mine}").text for p in ("/owner", "/ask", "/budget")}
        client.get(f"/ask?policy={other}")
        assert f"<strong>{other}</strong>" in client.get("/owner").text
        forms = [
            f for text in shown.values() for f in re.findall(r"<form.*?</form>", text, re.DOTALL)
        ]
        stamps = {re.search(r'name="token" value="([^"]+)"', f)[1] for f in forms}
        assert len(forms) > 9
        (stamp,) = stamps
        form = {"token": stamp, "closed": "yes", "reason": "x"}
        for path, token in (
            ("/owner/closure", stamp.partition(".")[0]),
            ("/owner/closure", stamp + "x"),
            ("/owner/keys", stamp.partition(".")[0] + "."),
            (f"/owner/closure?policy={other}", stamp),
        ):
            assert client.post(path, data={**form, "token": token}).status_code == 403, path
        assert [_closed(two, p) for p in (mine, other)] == [[], []]
        done = client.post("/owner/closure", data=form)
        assert done.headers["location"] == f"/owner?policy={mine}"
        assert [_closed(two, p) for p in (mine, other)] == [["*"], []]
        client.post("/owner/closure", data={**form, "closed": "no"})
        assert [_closed(two, p) for p in (mine, other)] == [[], []]


def test_a_link_of_another_site_chooses_no_policy(two):
    with httpx.Client(base_url=two.url, timeout=600) as client:
        client.post("/login", data={"key": two.keys["olga"]})
        away = {"Sec-Fetch-Site": "cross-site"}
        linked = client.get("/budget?policy=newcomer-staff", headers=away)
        assert "<strong>newcomer-staff</strong>" in linked.text
        assert "set-cookie" not in linked.headers
        assert "<strong>newcomer-visits</strong>" in client.get("/budget").text
        assert 'href="/owner?policy=newcomer-staff"' in linked.text  # its own links stay with it


def test_a_page_of_an_answer_is_that_of_its_policy(two):
    with httpx.Client(base_url=two.url, timeout=600) as client:
        client.post("/login", data={"key": two.keys["ana"]})
        page = client.get("/ask?policy=newcomer-staff").text
        stamp = re.search(r'name="token" value="([^"]+)"', page)[1]
        form = {"token": stamp, "sql": "SELECT COUNT(*) AS n FROM staff", "epsilon": "0.1"}
        where = client.post("/ask", data={**form, "action": "ask"}).headers["location"]
        client.get("/ask?policy=newcomer-visits")
        shown = client.get(where).text
        assert "<strong>newcomer-staff</strong>" in shown
        again = re.search(r'name="token" value="([^"]+)"', shown)[1]
        edited = client.post("/ask", data={**form, "token": again, "action": "price"}).text
        assert "<strong>newcomer-staff</strong>" in edited


def test_open_text_is_grouped_on_the_page(page):
    assert 'name="delta"' in page("/ask")
    form = {"sql": BY_TEXT, "epsilon": "0.5", "action": "ask"}
    refused = page("/ask", **form)
    told = re.search(r"Try: <code>δ ([\d.e-]+)</code>", refused)[1]
    assert f'name="delta" inputmode="decimal" value="{told}"' in refused
    answered = page("/ask", **form, delta=told)
    assert "themselves private" not in answered
    assert "The same in Python" in answered
    assert 'name="delta"' not in page("/ask?policy=newcomer-staff")
    page("/ask?policy=newcomer-visits")


def pasted(lines, **values):
    """Run lines that a page shows, as they stand, with a key in them."""
    lines = lines.replace("dk_…", values["key"])
    scope = {}
    exec(lines, scope)  # that is what a reader does
    scope["curator"].close()
    return scope["answer"]


def shown_lines(text):
    return re.findall(
        r"<details><summary>The same [^<]*</summary><pre>(.*?)</pre>", text, re.DOTALL
    )


def test_the_lines_on_an_answer_do_what_the_page_did(two, page):
    spent = two("GET", "/v1/budget?policy=newcomer-visits").json()["result"]["mine"]
    form = {"sql": BY_WARD, "epsilon": "0.25"}
    python, curl = shown_lines(page("/ask", **form, action="rehearse"))
    answer = pasted(python, key=two.keys["ana"])
    assert answer.dummy
    env = {"PATH": "/usr/bin:/bin", "DISCREET_KEY": two.keys["ana"]}
    run = subprocess.run(["bash", "-c", curl], capture_output=True, check=True, env=env)
    assert json.loads(run.stdout)["result"]["dummy"] is True
    assert two("GET", "/v1/budget?policy=newcomer-visits").json()["result"]["mine"] == spent
    python, curl = shown_lines(page("/ask", **form, action="ask"))
    assert "policy='newcomer-visits'" in python
    answer = pasted(python, key=two.keys["ana"])
    assert not answer.dummy
    assert answer.cached
    assert "?policy=newcomer-visits" in shlex.split(curl)[-1]


def test_the_command_line_names_one_of_several_policies(two, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"DISCREET_URL": two.url, "DISCREET_KEY": two.keys["ana"]}

    def run(*command, **more):
        done = CliRunner().invoke(app, [*command, "--json"], env={**env, **more})
        return done.exit_code, json.loads(done.output)

    count = "SELECT COUNT(*) AS n FROM staff"
    code, said = run("ask", count, "-e", "0.1")
    assert code
    assert "(newcomer-staff, newcomer-visits)" in said["message"]
    assert said["hint"] == "--policy NAME"
    assert run("ask", count, "-e", "0.1", "--policy", "newcomer-staff")[0] == 0
    assert run("preview", count, "-e", "0.1", "-p", "newcomer-staff")[0] == 0
    assert run("budget", DISCREET_POLICY="newcomer-staff")[0] == 0
    code, said = run("budget", DISCREET_URL=f"{two.url}?policy=newcomer-staff")
    assert (code, said["hint"]) == (2, "--policy newcomer-staff")
    assert "newcomer.toml" in run("budget", "-p", "newcomer.toml")[1]["message"]
    code, said = run("budget", DISCREET_KEY="dk_000000000000_" + "A" * 43)
    assert said["hint"] == "export DISCREET_KEY=dk_…"


def test_python_names_one_of_several_policies(two):
    with (
        dc.connect(two.url, two.keys["ana"]) as vague,
        pytest.raises(errors.DiscreetError) as refused,
    ):
        _ = vague.budget
    assert refused.value.hint == 'policy="NAME"'
    with pytest.raises(errors.ParameterError, match="no query"):
        dc.connect(f"{two.url}?policy=newcomer-staff", two.keys["ana"])
    with dc.connect(two.url, two.keys["ana"], policy="newcomer-staff") as curator:
        assert curator.tables == ("staff",)


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_remote_curator_has_the_methods_of_a_local_one(two):
    """All but those that need the ledger, or more than SQL can say: they are named."""
    assert public(dc.Curator) - public(Remote) == ONLY_LOCAL
    assert public(dc.curator.Batch) - public(RemoteBatch) == {"consistent", "priced"}
    for name in ("sql", "preview", "batch", "table"):
        own, far = (inspect.signature(getattr(c, name)).parameters for c in (dc.Curator, Remote))
        assert own.keys() - far.keys() <= {"limits", "consistent"}, name
    with dc.connect(two.url, two.keys["ana"], policy="newcomer-visits") as curator:
        assert curator.tables == ("visits", "patients")
        assert "ward" in repr(curator.describe("visits"))
        assert curator.analyst == "ana"
        with curator.batch(epsilon="0.1") as batch:
            first = batch.ask(curator.table("visits").agg(n=dc.count()))
            second = batch.sql(BY_WARD, weight=2)
        assert (len(first.answer), len(second.answer)) == (1, 2)
        with pytest.raises(AttributeError, match="does not offer regression"):
            curator.regression("age ~ ward")
        with pytest.raises(errors.ParameterError) as refused:
            curator.sql(BY_WARD, within={"m": 50})
        assert refused.value.hint == 'within={"n": 50}'


def test_guided_choices_follow_the_table(page):
    def choices(text):
        return re.findall(
            r"<option>([^<]*)</option>", text.split('id="by"')[1].split("</select>")[0]
        )

    assert choices(page("/ask")) == ["ward", "diagnosis", "age"]
    guided = {"table": "patients", "statistic": "count", "action": "write"}
    shown = page("/ask", **guided, of="", by="")
    assert 'FROM "patients"' in shown
    assert choices(shown) == ["insurance"]
    wrong = page("/ask", **guided, of="", by="ward")
    assert "table 'patients' has no column 'ward': it is in visits" in wrong
    assert choices(wrong) == ["insurance"]
    sql = 'SELECT "insurance", COUNT(*) AS n FROM visits GROUP BY "insurance"'
    typed = page("/ask", sql=sql, epsilon="0.1", action="price")
    assert '"patients" has it' in typed
    assert "single quotes" not in typed


def test_hints_are_those_of_the_page(page, owner, two):
    def refusal(text):
        return re.search(r'class="refusal"[^>]*>(.*?)</div>|<main.*?</main>', text, re.DOTALL)[0]

    shares = refusal(owner("/owner/shares", shares="ana = 0.75, ben = 0.5", reason="x"))
    assert "ana = 1/2, ben = 1/2" in shares or "ana = 0.5, ben = 0.5" in shares
    assert "{" not in shares
    lower = refusal(owner("/owner/budget", epsilon="0.01", reason="x"))
    assert "lower=" not in lower
    name = refusal(owner("/owner/keys", name="§§", role="analyst"))
    assert "discreet key add" not in name
    owner("/owner/closure", closed="yes", reason="x")
    try:
        closed = page("/ask", sql=BY_WARD, epsilon="0.3", action="ask")
        assert "closed" in closed
        assert "reopen" not in closed
        said = two("POST", "/v1/answers?policy=newcomer-visits",
                   {"sql": BY_WARD, "epsilon": "0.3"}).json()  # fmt: skip
        assert (said["error"], said["hint"]) == ("ledger-closed", None)
    finally:
        owner("/owner/closure", closed="no", reason="x")


def test_the_head_of_a_page_says_what_is_left_of_what(page, owner):
    assert re.search(r"ana · ε [\d.]+ of 2\.5 left of your share", page("/ask"))
    assert re.search(r"olga · ε [\d.]+ of 2\.5 left outside the shares", owner("/budget"))


def test_no_unit_is_made_up():
    with pytest.raises(errors.PolicyError) as refused:
        dc.policy.loads('[budget]\nepsilon = "1"\n[tables.t]\nunit = ""\n[tables.t.columns]\n'
                        'a = { type = "integer", min = 0, max = 1 }\n')  # fmt: skip
    assert "person_id" not in str(refused.value)
