# ruff: noqa: E501 - lists of what is compared; statements of our own
"""Everything an analyst can see beside the noisy numbers is equal on neighbouring tables.

Two tables that differ in one unit, the real engine under the real curator: errors,
log lines, warnings, representations, row order, row counts, budgets and exit codes
are compared by equality. A lonely key may show with probability δ = 1e-9, so a run
fails by chance with probability below 1e-7. The timing check compares medians within
a factor of two, and repeats before it accuses.
"""

from __future__ import annotations

import copy
import itertools
import json
import logging
import pickle
import re
import statistics
import time
import traceback
import warnings

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import engines, ledger
from discreet import policy as pol
from discreet.cli._app import app
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import DiscreetError, EngineError

_NAMES = itertools.count()
SECRET = "Rumpelstiltskin"
COLUMNS = [
    pol.Category("sex", values=["F", "M", "X"]),
    pol.Integer("age", min=0, max=99),
    pol.Real("pay", min=0, max=1000, step="0.5"),
    pol.Boolean("member"),
    pol.Date("joined", "2000-01-01", "2020-12-31"),
    pol.Text("town"),
]
LIMITS = {"unit": "id", "max_rows_per_unit": 3}
CREATE = (
    "CREATE TABLE people (id BIGINT, sex VARCHAR, age HUGEINT, pay DOUBLE, member BOOLEAN, "
    "joined DATE, town VARCHAR)"
)
FILL = (
    "INSERT INTO people SELECT i // 2, ['F', 'M', 'X'][1 + i % 3], i % 99, i % 990, i % 2 = 0, "
    "DATE '2010-01-01' + CAST(i AS INTEGER), 't' || (i % 2) FROM range(400) r(i)"
)
SOMEONE = {
    "nobody": "",
    "plain": f"(900, 'F', 40, 10.5, true, '2011-01-01', '{SECRET}')",
    "overflow": f"(900, 'X', {2**127 - 1}, 1e308, NULL, '5881580-07-10', '{SECRET}')",
    "underflow": f"(900, 'Q', {-(2**127)}, -1e308, NULL, '5877642-06-25 (BC)', '')",
    "infinite": "(900, NULL, 0, 'inf', true, 'infinity', chr(0))",
    "nan": "(900, '', 0, 'nan', false, '-infinity', NULL)",
    "zero": "(900, 'F', 0, 0, true, '2011-01-01', '0')",
    "null unit": f"(NULL, 'F', 1, 1, true, '2011-01-01', '{SECRET}')",
    "many rows": ", ".join(
        f"(900, 'X', {i}, {i}, true, '2011-01-01', '{SECRET} {i}')" for i in range(60)
    ),
}


def opened(someone, **limits):
    """A curator over DuckDB, with a budget of its own."""
    source = duckdb.connect()
    source.execute(CREATE)
    source.execute(FILL)
    if SOMEONE[someone]:
        source.execute(f"INSERT INTO people VALUES {SOMEONE[someone]}")
    own = pol.Policy(
        [pol.Table("people", COLUMNS, **limits)],
        pol.Budget("500", delta="1e-3", accounting="approx"),
        name=f"leak {next(_NAMES)}",
    )
    return Curator(own, engines.connect(source, own), ledger.MemoryLedger(own), "ann")


QUESTIONS = [
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, COUNT(*) AS n, SUM(pay) AS s, AVG(pay) AS a FROM people GROUP BY sex",
    "SELECT sex, member, COUNT(*) AS n FROM people WHERE age > 50 GROUP BY sex, member",
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town ORDER BY town",
    "SELECT SUM(pay / age) AS s, SUM(1 / (age - 40)) AS z, AVG(age * pay) AS p FROM people",
    "SELECT SUM(POWER(age, 2) * pay) AS q, STDDEV(pay) AS d FROM people",
    "SELECT MEDIAN(pay) AS m, QUANTILE(age, 0.9) AS q, MODE(sex) AS o FROM people",
    "SELECT EXTRACT(YEAR FROM joined) AS y, COUNT(*) AS n FROM people GROUP BY y",
    "SELECT WIDTH_BUCKET(pay, 0, 1000, 4) AS b, COUNT(DISTINCT age) AS n FROM people GROUP BY b",
    "SELECT COUNT(*) AS n FROM people WHERE town = 'Rumpelstiltskin' AND joined > '2010-06-01'",
    "SELECT CAST(town AS INTEGER) AS x FROM people",
    "SELECT SUM(CAST(town AS INTEGER)) AS x FROM people",
    "SELECT MAX(town) AS x FROM people",
    "SELECT * FROM people",
    "SELECT id, COUNT(*) AS n FROM people GROUP BY id",
    "SELECT nope FROM people",
    "SELECT COUNT(*) AS n FROM people; DROP TABLE people",
    "",
]


class Heard(logging.Handler):
    """Every log line of every library."""

    def __init__(self):
        super().__init__(level=0)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def visible(asked, text, **offer):
    """All that an analyst sees of one question, but for the noisy numbers."""
    heard = Heard()
    root = logging.getLogger()
    root.addHandler(heard)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            said = _said(asked, text, offer)
    finally:
        root.removeHandler(heard)
    return (
        said,
        heard.lines,
        [str(w.message) for w in caught],
        asked.budget.spent,
        repr(asked.budget),
    )


def _said(asked, text, offer):
    try:
        quote = asked.preview(text, **offer)
        answer = asked.sql(text, **offer)
    except DiscreetError as error:
        shown = "".join(traceback.format_exception(error))
        assert SECRET not in shown.replace(text, "")
        return type(error), str(error), error.__dict__
    record = answer.record()
    keys = record["keys"]
    shape = [
        [v["kind"], len(v.get("values", ())), v.get("law"), v.get("threshold")]
        for v in record["parts"]
    ]
    trees = [[len(row) for level in t.get("levels", ()) for row in level] for t in record["parts"]]
    rows = [[row[name] for name in keys if name in row] for row in answer.to_dicts()]
    rest = {k: record[k] for k in ("formulas", "outputs", "having", "order", "limit", "cost")}
    plain = {k: v for k, v in record["statement"].items() if k not in ("policy", "fingerprint")}
    # fresh random bits, drawn beside the noise and never from data: only their shape can be equal
    plain["coin"] = re.fullmatch("[0-9a-f]+", plain["coin"]) is not None, len(plain["coin"])
    return (repr(quote), quote.sql, quote.error(), keys, shape, trees, rows, rest, plain,
            answer.columns, len(answer), answer.cost, answer.left, answer.covers, answer.cached,
            re.sub(r"[\d.,±∞−\- ─]+", "#", repr(answer).rpartition("\n")[2]))  # fmt: skip


@pytest.fixture(scope="module", params=[{}, LIMITS], ids=["rows", "units"])
def seen(request):
    """What each neighbour shows for every question."""
    return {
        someone: [
            visible(opened_, text, epsilon=20, delta="1e-9")
            for opened_ in [opened(someone, **request.param)]
            for text in QUESTIONS
        ]
        for someone in SOMEONE
        # without units, neighbours differ in one row
        if request.param or someone != "many rows"
    }


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_nothing_but_the_numbers_differs(seen, number):
    expected = seen["nobody"][number]
    for someone, shown in seen.items():
        assert shown[number] == expected, someone


def test_some_questions_are_answered_and_some_refused(seen):
    kinds = [isinstance(shown[0][0], type) for shown in seen["nobody"]]
    assert any(kinds)
    assert not all(kinds)


def test_the_comparison_can_fail():
    """Mutant: an engine that says how many rows it has read is noticed."""

    class Chatty:
        def __init__(self, engine, rows):
            self._engine, self._rows = engine, rows
            self.name = "chatty"

        def __getattr__(self, name):
            return getattr(self._engine, name)

        def execute(self, aggregate, salt):
            logging.getLogger("engine").error("read %d rows", self._rows)
            return self._engine.execute(aggregate, salt)

    said = []
    for someone, rows in (("nobody", 400), ("plain", 401)):
        asked = opened(someone)
        asked._engine = Chatty(asked._engine, rows)
        said.append(visible(asked, QUESTIONS[0], epsilon=1))
    assert said[0] != said[1]


# -- failures ----------------------------------------------------------------------------


class Failing(Reference):
    """An engine that fails and tells why."""

    def __init__(self, error):
        super().__init__({"people": []})
        self._error = error

    def execute(self, aggregate, salt):
        raise self._error


FAILURES = [
    duckdb.ConversionException(f"Could not convert string '{SECRET}' to INT32"),
    duckdb.OutOfRangeException(f"Overflow in addition of {SECRET}"),
    duckdb.OutOfMemoryException(SECRET),
    MemoryError(SECRET),
    ZeroDivisionError(SECRET),
    UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
    RecursionError(SECRET),
    KeyError(SECRET),
    StopIteration(SECRET),
    OSError(28, SECRET),
    TimeoutError(SECRET),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
def test_every_failure_looks_the_same_and_says_nothing(error):
    said = set()
    for failure in (error, RuntimeError("something else")):
        asked = opened("nobody")
        asked._engine = Failing(failure)
        with pytest.raises(EngineError) as caught:
            asked.sql(QUESTIONS[0], epsilon=1)
        raised = caught.value
        assert raised.__cause__ is None
        assert raised.__context__ is None
        for view in (raised, copy.copy(raised), pickle.loads(pickle.dumps(raised))):
            assert SECRET not in "".join(traceback.format_exception(view)) + repr(view.__dict__)
        said.add((type(raised), str(raised), raised.code))
        assert asked.budget.spent["epsilon"] == 1  # charged all the same
    assert len(said) == 1


def test_failures_inside_the_real_engine_are_sealed():
    source = duckdb.connect()
    source.execute(CREATE)
    source.execute(FILL)
    own = pol.Policy([pol.Table("people", COLUMNS)], pol.Budget("9"), name="sealed")
    asked = Curator(own, engines.connect(source, own), ledger.MemoryLedger(own))
    source.execute("ALTER TABLE people ALTER age TYPE VARCHAR")
    source.execute(f"UPDATE people SET age = '{SECRET}'")
    with pytest.raises(EngineError) as caught:
        asked.sql("SELECT SUM(age) AS s FROM people", epsilon=1)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


# -- objects that lie around -----------------------------------------------------------------


def test_nothing_that_an_analyst_holds_contains_the_data():
    asked = opened("many rows", **LIMITS)
    answer = asked.sql(QUESTIONS[1], epsilon=1)
    quote = asked.preview(QUESTIONS[1], epsilon=1)
    with asked.batch(epsilon=1) as batch:
        pending = batch.sql(QUESTIONS[0])
    said = [repr(asked), repr(answer), answer._repr_html_(), repr(quote), repr(pending), repr(batch),
            repr(asked.budget), json.dumps(answer.record()), json.dumps(answer.chart()),
            repr(asked.ledger), repr(asked.ledger.entries), repr(asked.table("people"))]  # fmt: skip
    said += [str(pickle.dumps(answer)), str(vars(answer)), str(vars(answer._record))]
    assert not any(SECRET in text for text in said)


def test_labels_from_the_data_do_not_command_a_terminal():
    rows = [{"town": "\x1b[2J\x07\u202eUlm\n"}] * 500
    own = pol.Policy(
        [pol.Table("people", COLUMNS[-1:])],
        pol.Budget("9", delta="1e-3", accounting="approx"),
        name=f"leak {next(_NAMES)}",
    )
    asked = Curator(own, Reference({"people": rows}), ledger.MemoryLedger(own))
    answer = asked.sql(
        'SELECT town AS "\x1b[1m", COUNT(*) AS n FROM people GROUP BY 1', epsilon=8, delta="1e-6"
    )
    for text in (repr(answer), answer._repr_html_()):
        assert not set(text) & set("\x1b\x07\u202e")


def test_the_ledger_holds_nothing_but_public_facts_and_released_numbers():
    lines = []
    for someone in ("nobody", "plain"):
        asked = opened(someone, **LIMITS)
        for text in QUESTIONS[:9]:
            asked.sql(text, epsilon=20, delta="1e-9")
        entries = [
            (e.plan, e.cost, e.noise, e.neighbours, e.unit, e.tables) for e in asked.ledger.entries
        ]
        lines.append(entries)
        assert SECRET not in repr(asked.ledger.lines)
    assert lines[0] == lines[1]


# -- the command line ---------------------------------------------------------------------------

POLICY = """
[policy]
name = "leak {name}"
[budget]
epsilon = "50"
delta = "1e-3"
accounting = "approx"
[tables.people]
source = "people.parquet"
[tables.people.columns]
sex = {{ type = "category", values = ["F", "M", "X"] }}
age = {{ type = "integer", min = 0, max = 99 }}
pay = {{ type = "real", min = 0, max = 1000, step = "0.5" }}
"""


def test_exit_codes_and_output_of_the_command_line(tmp_path, monkeypatch):
    shown = []
    for name, extra in (("a", []), ("b", [{"sex": "Q", "age": 10**9, "pay": float("nan")}])):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        rows = [{"sex": "FMX"[i % 3], "age": i % 90, "pay": float(i)} for i in range(50)]
        pq.write_table(pa.Table.from_pylist(rows + extra), folder / "people.parquet")
        (folder / "people.toml").write_text(POLICY.format(name=name))
        runs = []
        for words in (
            ["ask", "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "-e", "1"],
            ["ask", "SELECT SUM(pay / age) AS s FROM people", "-e", "1", "--json"],
            ["ask", "SELECT nope FROM people", "-e", "1"],
            ["ask", "SELECT COUNT(*) AS n FROM people", "-e", "100"],
            ["preview", "SELECT AVG(pay) AS a FROM people", "-e", "1"],
            ["budget", "-p", str(folder / "people.toml")],
        ):
            options = [] if "-p" in words else ["-p", str(folder / "people.toml")]
            ran = CliRunner().invoke(app, [*words, *options])
            # numbers, widths and moments apart, the same words
            text = re.sub(r"[^A-Za-z ]+", " ", ran.output.replace(f"leak {name}", "leak"))
            text = text.replace(str(folder), "")
            runs.append((ran.exit_code, sorted(set(text.split()) - {"a", "b", "T", "Z"})))
        shown.append(runs)
    assert [code for code, _ in shown[0]] == [0, 0, 1, 3, 0, 0]
    for (code_a, words_a), (code_b, words_b) in zip(*shown, strict=True):
        assert code_a == code_b
        hashes = re.compile(r"^[a-f]+$")  # letters in a row, however many
        differing = {w for w in set(words_a) ^ set(words_b) if not hashes.match(w)}
        assert not differing


# -- time -------------------------------------------------------------------------------------


def _median(asked, text, epsilon, times=40):
    taken = []
    for _ in range(times):
        start = time.process_time()  # however busy the machine is
        with pytest.raises(DiscreetError):
            asked.sql(text, epsilon=epsilon)
        taken.append(time.process_time() - start)
    return statistics.median(taken)


TOWNS = pol.Policy([pol.Table("people", [pol.Text("town")])], pol.Budget("1"), name="time")
REFUSED = [(QUESTIONS[0], 10**6), ("SELECT nope FROM people", 1), ("SELECT * FROM people", 1)]


class Spy:
    """A connection that notes what is asked of it, and does nothing."""

    def __init__(self):
        self.touched = []

    def __getattr__(self, name):
        self.touched.append(name)
        raise AttributeError(name)


@pytest.mark.parametrize(("text", "epsilon"), REFUSED)
def test_refusals_touch_no_data(text, epsilon):
    """What does not use the connection takes the same time on any table."""
    asked = dc.open(pa.table({"id": [1], "town": ["t"]}), policy=TOWNS, ledger=":memory:")
    spy = asked._engine._connection = Spy()
    with pytest.raises(DiscreetError):
        asked.sql(text, epsilon=epsilon)
    assert not spy.touched
    with pytest.raises(EngineError):  # the spy is awake
        asked.sql(QUESTIONS[0], epsilon=1)
    assert spy.touched


@pytest.mark.long
@pytest.mark.races
@pytest.mark.parametrize(("text", "epsilon"), REFUSED)
def test_refusals_take_the_same_time_on_any_table(text, epsilon):
    """Ten rows against a hundred thousand: a refusal that touched the data would show."""
    small, large = ([{"id": i, "town": "t"} for i in range(n)] for n in (10, 100_000))
    handles = [
        dc.open(pa.Table.from_pylist(rows), policy=TOWNS, ledger=":memory:")
        for rows in (small, large)
    ]
    for _ in range(3):
        a, b = (_median(handle, text, epsilon) for handle in handles)
        if max(a, b) < 2 * min(a, b):
            break
    assert max(a, b) < 2 * min(a, b)


def test_a_failed_key_and_a_stored_answer_never_touch_the_engine():
    asked = opened("nobody")
    first = asked.sql(QUESTIONS[0], epsilon=1, key="k")
    asked._engine = Failing(AssertionError("the engine was touched"))
    assert asked.sql(QUESTIONS[0], epsilon=1, key="k").to_dicts() == first.to_dicts()
    assert asked.sql(QUESTIONS[0], epsilon=1).cached
    for _ in range(2):
        with pytest.raises(EngineError):
            asked.sql(QUESTIONS[1], epsilon=1, key="broken")
    assert asked.budget.spent["epsilon"] == 2
