"""Made-up data on every endpoint, UNION ALL through the service, and what is free is shown so."""

from __future__ import annotations

import html
import re

import httpx
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import errors
from discreet.cli import app
from discreet.service._errors import envelope
from discreet.service._home import Home
from discreet.service._keys import Keys, Role
from discreet.service._pictures import _bars, error_bars

pytestmark = pytest.mark.races

COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
PEOPLE = """
[policy]
name = "rehearsed-files"
[budget]
epsilon = "1"
[tables.people]
source = "people.csv"
[tables.people.columns]
age = { type = "integer", min = 0, max = 110 }
"""
UNION = (
    "SELECT 'north' AS place, COUNT(*) AS n FROM visits WHERE region = 'north' "
    "UNION ALL SELECT 'all' AS place, COUNT(*) AS n FROM visits ORDER BY 2 DESC"
)


def spent(service):
    return service("GET", "/v1/budget").json()["result"]["whole"]


def test_every_endpoint_rehearses_for_free_and_says_so(service):
    before = spent(service)
    price = service("POST", "/v1/preview?dummy=1", {"sql": COUNT, "epsilon": "0.5"})
    assert price.json()["result"]["dummy"] is True
    body = {"sql": BY_REGION, "epsilon": "1.9"}
    for _ in range(3):  # more than the budget holds: nothing is debited
        made = service("POST", "/v1/answers?dummy=1", body)
        assert made.status_code == 200, made.text
    result = made.json()["result"]
    assert result["dummy"] is True
    assert "signature" not in result
    assert len(result["rows"]) == 4
    assert "made-up" in result["record"]["statement"]["policy"]
    place = f"/v1/answers/{result['id']}"
    assert service("GET", place).json()["result"] == result
    assert service("GET", place, who="ben").status_code == 404
    record = service("GET", f"{place}/record").json()["result"]
    assert record["dummy"] is True
    assert service("GET", place, Accept="text/csv").text.startswith('"region","n"')
    batch = {"questions": [{"sql": COUNT}, {"sql": BY_REGION}], "epsilon": "0.5"}
    answers = service("POST", "/v1/batches?dummy=1", batch).json()["result"]
    assert (answers["dummy"], len(answers["answers"])) == (True, 2)
    assert spent(service) == before
    lines = service("GET", "/v1/ledger", who="auditor").text
    assert "made-up" not in lines


@pytest.mark.parametrize("sql", [BY_REGION, UNION])
def test_made_up_rows_are_marked_in_every_form(service, sql):
    made = service("POST", "/v1/answers?dummy=1", {"sql": sql, "epsilon": "1"})
    place = f"/v1/answers/{made.json()['result']['id']}"
    assert made.headers["discreet-dummy"] == "true"
    forms = {"application/json": None, "text/csv": "csv", "text/html": "html",
             "application/vnd.apache.arrow.stream": "arrows"}  # fmt: skip
    for form, ending in forms.items():
        found = service("GET", place, Accept=form)
        assert found.headers["discreet-dummy"] == "true"
        if ending is not None:
            named = found.headers["content-disposition"]
            assert re.fullmatch(rf'attachment; filename="made-up-[0-9a-f]+\.{ending}"', named)
    arrow = pa.ipc.open_stream(found.content).read_all()
    assert arrow.schema.metadata[b"dummy"] == b"true"
    assert b"made-up rows" in arrow.schema.metadata[b"covers"]
    assert "made-up" in service("GET", place, Accept="text/html").text
    with httpx.Client(base_url=service.url, timeout=600, follow_redirects=True) as client:
        client.post("/login", data={"key": service.keys["ana"]})
        file = client.get(f"/answers/{place.rpartition('/')[2]}/table.csv")
        assert "made-up-" in file.headers["content-disposition"]
    # and what is not made up is not
    real = service.ask(COUNT, "0.0133")
    for form in forms:
        found = service("GET", f"/v1/answers/{real['id']}", Accept=form)
        assert "discreet-dummy" not in found.headers
    assert b"dummy" not in pa.ipc.open_stream(found.content).schema.metadata


def test_frames_of_made_up_rows_are_marked():
    table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)])
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="frames")
    with dc.open(policy=policy, dummy=True) as curator:
        answer = curator.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.5")
    assert answer.to_arrow().schema.metadata[b"dummy"] == b"true"
    assert answer.to_pandas().attrs == {"covers": answer.covers, "dummy": "true"}


def test_a_policy_over_files_rehearses_beside_them(start_service, tmp_path):
    """Made-up data are nobody's: they have no budget that the files' own could be in the way of."""
    (tmp_path / "people.csv").write_text("age,town\n" + "40,Rum\n" * 50)
    (tmp_path / "people.toml").write_text(PEOPLE)
    files = start_service(
        "people.toml", "--port", "0", "--workers", "1", cwd=tmp_path,
        DISCREET_HOME=str(tmp_path / "home"),
    )  # fmt: skip
    files.keys["ana"] = Keys(Home(tmp_path / "home")).add("ana", Role.ANALYST)
    question = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.5"}
    made = files("POST", "/v1/answers?dummy=1", question)
    assert made.status_code == 200, made.text
    assert made.json()["result"]["dummy"] is True
    price = files("POST", "/v1/preview?dummy=1", question)
    assert price.json()["result"]["dummy"] is True
    with httpx.Client(base_url=files.url, timeout=600, follow_redirects=True) as client:
        page = client.post("/login", data={"key": files.keys["ana"]}).text
        token = page.split('name="token" value="')[1].split('"')[0]
        shown = client.post("/ask", data={**question, "token": token, "action": "rehearse"}).text
        assert "Made-up data." in shown


def test_a_ledger_that_refuses_leaves_its_words_in_the_owners_log(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREET_LOG", str(tmp_path / "log.jsonl"))
    said = envelope(errors.LedgerIntegrityError("the ledger '/srv/a.ledger' is older than it was"))
    assert "/srv" not in said["message"]
    assert "/srv/a.ledger" in (tmp_path / "log.jsonl").read_text()


def test_rehearsals_refuse_as_the_real_thing_does(service):
    wrong = service("POST", "/v1/answers?dummy=1", {"sql": "SELECT * FROM visits", "epsilon": "1"})
    assert (wrong.status_code, wrong.json()["error"]) == (422, "unsupported-query")
    auditor = service("POST", "/v1/answers?dummy=1", {"sql": COUNT, "epsilon": "1"}, who="auditor")
    assert auditor.status_code == 403


def test_the_worker_of_rehearsals_opens_no_source():
    """Its tables are made up, whatever source it is started with."""
    from discreet.service._worker import Setup, _tables

    policy = dc.policy.Policy(
        [dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)], source="secret.parquet")],
        dc.policy.Budget("1"), name="there",
    )  # fmt: skip
    tables = _tables(Setup(policy.rehearsed(), "secret.parquet", 0, "", 0, "", dummy=True))
    assert set(tables) == {"people"}
    assert tables["people"].num_rows > 0


def test_the_page_offers_made_up_data(service):
    with httpx.Client(base_url=service.url, timeout=600, follow_redirects=True) as client:
        page = client.post("/login", data={"key": service.keys["ana"]}).text
        token = page.split('name="token" value="')[1].split('"')[0]
        form = {"sql": BY_REGION, "epsilon": "0.5", "token": token, "action": "rehearse"}
        shown = client.post("/ask", data=form).text
        # said before any number, and the intervals are not about the stored table
        assert shown.index("Made-up data.") < shown.index("<table>")
        assert "on made-up rows" in shown
        assert "stored table" not in shown
        assert "signed by" not in shown


def test_the_page_speaks_of_its_own_fields(service):
    with httpx.Client(base_url=service.url, timeout=600, follow_redirects=True) as client:
        page = client.post("/login", data={"key": service.keys["ana"]}).text
        token = page.split('name="token" value="')[1].split('"')[0]
        dear = {"sql": BY_REGION, "epsilon": "1e6", "token": token, "action": "ask"}
        shown = html.unescape(client.post("/ask", data=dear).text)
        assert re.search(r"Try: <code>ε [\d.]+</code>", shown), shown
        assert "epsilon=" not in shown
        asked = {"table": "visits", "of": "", "token": token, "action": "write"}
        counted = html.unescape(client.post("/ask", data=asked | {"statistic": "count"}).text)
        assert "COUNT(*)" in counted
        mean = html.unescape(client.post("/ask", data=asked | {"statistic": "mean"}).text)
        assert "choose the column whose mean you want" in mean
        assert 'AVG("")' not in mean


@pytest.mark.parametrize("most", [9, 10**9])
def test_axes_of_a_chart_have_titles_and_round_numbers_inside_it(most):
    """Also where a narrow screen makes letters large: half of them lie on either side."""
    answer = dc.open(
        {"t": pa.table({"n": [most, most // 2], "place": ["a", "b"]})},
        policy={"budget": {"epsilon": "9"}, "tables": {"t": {"columns": {
            "n": {"type": "integer", "min": 0, "max": most},
            "place": {"type": "category", "values": ["a", "b"]}}}}}, ledger=":memory:",
    ).sql("SELECT place, SUM(n) AS total FROM t GROUP BY place", epsilon=9)  # fmt: skip
    ((_, svg),) = error_bars(answer, "0.95")
    titles = re.findall(r'class="title"[^>]*>([^<]*)<', svg)
    assert titles == ["place", "total, with its 95 % interval"]
    ticks = re.findall(r'class="tick" x="([\d.]+)"[^>]*>([^<]*)<', svg)
    assert len(ticks) >= 3
    assert all(float(x) + 12.5 * len(text) / 2 < 641 for x, text in ticks)
    for _, text in ticks:
        digits = text.replace("\u2009", "").lstrip("−").replace(".", "").strip("0")
        assert len(digits) <= 2, ticks


def test_small_numbers_have_an_axis_too():
    """They were rounded to whole ones: both ends of an axis of shares were 0."""
    svg = _bars("share", "", "95 %", ["all"], [(0.004, 0.001, 0.007)])
    assert ">0.002<" in svg


def test_union_all_is_one_question(service):
    price = service("POST", "/v1/preview", {"sql": UNION, "epsilon": "0.0131"}).json()["result"]
    assert set(price["error"]) == {"n", "n (2)"}
    before = spent(service)["epsilon"]["spent"]
    result = service.ask(UNION, "0.0131")
    assert {row["place"] for row in result["rows"]} == {"north", "all"}
    numbers = [row["n"] for row in result["rows"]]
    assert numbers == sorted(numbers, reverse=True)
    assert spent(service)["epsilon"]["spent"] != before
    again = service.ask(UNION, "0.0131")
    assert (again["cached"], again["rows"]) == (True, result["rows"])
    text = service("GET", f"/v1/answers/{result['id']}", Accept="text/csv").text
    assert len(text.splitlines()) == 3
    batch = service("POST", "/v1/answers?dummy=1", {"sql": UNION, "epsilon": "0.1"}).json()
    assert len(batch["result"]["rows"]) == 2
    with dc.connect(service.url, key=service.keys["ana"]) as curator:
        answer = curator.sql(UNION, epsilon="0.0131")
        assert answer.to_dicts() == result["rows"]
        assert len(answer.branches) == 2


def test_what_is_stored_is_shown_as_free(service, monkeypatch):
    first = service.ask(BY_REGION, "0.0132")
    assert first["paid"] == {"epsilon": "33/2500"}
    quote = service("POST", "/v1/preview", {"sql": BY_REGION, "epsilon": "0.0132"}).json()["result"]
    assert (quote["stored"], quote["pays"]) == (True, {"epsilon": "0"})
    again = service.ask(BY_REGION, "0.0132")
    assert again["paid"] == {"epsilon": "0"}
    listed = service("GET", "/v1/answers").json()["result"]["answers"]
    by_id = {row["id"]: row for row in listed}
    assert by_id[again["id"]]["paid"] == {"epsilon": "0"}
    assert by_id[again["id"]]["cached"]
    assert by_id[first["id"]]["paid"] == {"epsilon": "33/2500"}
    with dc.connect(service.url, key=service.keys["ana"]) as curator:
        assert "cost    free: answered before" in repr(curator.preview(BY_REGION, epsilon="0.0132"))
        assert "cost    ε 0.1981\n" in repr(curator.preview(BY_REGION, epsilon="0.1981"))
    monkeypatch.setenv("DISCREET_URL", service.url)
    monkeypatch.setenv("DISCREET_KEY", service.keys["ana"])
    said = CliRunner().invoke(app, ["preview", BY_REGION, "-e", "0.0132"]).stdout
    assert "free: answered before" in said
    budget = CliRunner().invoke(app, ["budget"])
    assert budget.exit_code == 0, budget.output
    assert "budget of ana" in budget.stdout


def test_a_budget_says_what_is_ones_own(service):
    service.ask("SELECT COUNT(*) AS whole FROM visits WHERE age < 31", "0.0123")
    bens = service("GET", "/v1/budget", who="ben").json()["result"]
    auditor = service("GET", "/v1/budget", who="auditor").json()["result"]
    assert auditor["mine"]["epsilon"] == "0"
    assert bens["draws_on"] == "the whole"
    assert bens["whole"]["epsilon"]["spent"] != bens["mine"]["epsilon"]
