"""What a thief got out of publications, partitions, streams and statements.

Each theft stands beside its unmended twin, which the same harness catches.
"""

from __future__ import annotations

import datetime as dt
import itertools
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import frame, meaning, release
from discreet import policy as pol
from discreet import privacy as p
from discreet.cli import app
from discreet.curator import Curator
from discreet.engines import _protocol
from discreet.engines._duckdb import DuckDBEngine
from discreet.engines._postgres import PostgresEngine
from discreet.engines._statements import Statements
from discreet.errors import (
    BudgetExceededError,
    DiscreetError,
    EngineError,
    ParameterError,
    PolicyError,
    PrivacyError,
    QueryError,
    SchemaError,
)
from discreet.ledger import Entry
from discreet.privacy import Neighbours
from discreet.release import _curated, _keyed
from discreet.service import _public

W = release.Workload
NAMES = (f"thief {i}" for i in itertools.count())
RNG = np.random.default_rng(11)
ROWS = pa.table({"area": RNG.choice(["A", "B", "C"], 300), "age": RNG.integers(0, 10, 300),
                 "ill": RNG.random(300) < 0.1, "id": np.arange(300)})  # fmt: skip
AREA = pol.Category("area", ["A", "B", "C"], null="A")
COLUMNS = [AREA, pol.Integer("age", 0, 9, null=0), pol.Boolean("ill", null=False)]
ILL = int(ROWS["ill"].to_numpy(zero_copy_only=False).sum())


def policy(*unprotected, columns=COLUMNS, neighbours="change-one", **more):
    table = pol.Table("people", columns, neighbours=neighbours, unprotected=unprotected, **more)
    return pol.Policy([table], pol.Budget("3", delta="1e-6"), name=next(NAMES))


def opened(*unprotected, **more):
    return dc.open(ROWS, policy=policy(*unprotected, **more), ledger=":memory:")


def thief(curator, table, columns=("ill", "area"), **how):
    """Publish with totals of the first column exact; say whether those of the ill came out."""
    sizes = {"ill": 2, "area": 3, "age": 10}
    axes = [W.identity(sizes.get(name, 2)) for name in columns]
    before = curator.budget.table
    try:
        made = curator.publish(table, W.kron(*axes), columns=list(columns), rho="0.00001",
                               method="topdown", **{"unprotected": ["area-totals"],
                                                    "owner": "me", **how})  # fmt: skip
    except DiscreetError:
        assert curator.budget.table == before
        return False
    # by chance alone: noise of a standard deviation above 200 hits two given numbers
    found = np.asarray(made.estimate).reshape(2, -1).sum(axis=1).tolist()
    return found == [len(ROWS) - ILL, ILL]


def test_the_harness_knows_exact_totals():
    assert thief(opened("total by ill"), "people")
    assert not thief(opened(), "people")
    assert not thief(opened("total by ill"), "people", unprotected=[])


# -- a name that hides another number ---------------------------------------------------------


def smuggled(curator):
    table = curator.table("people").group_by(area="CASE WHEN ill THEN 1 ELSE 0 END")
    how = {"rho": "0.00001", "method": "topdown", "unprotected": ["area-totals"], "owner": "me"}
    made = curator.publish(table, W.kron(W.identity(2), W.identity(3)), columns=["kind"], **how)
    return made.estimate.sum(axis=1).tolist() == [len(ROWS) - ILL, ILL]


KINDS = [*COLUMNS, pol.Category("kind", [0, 1, 2], null=0)]


def test_a_grouped_table_smuggles_no_expression_under_a_declared_name(monkeypatch):
    rows = ROWS.append_column("kind", pa.array([i % 3 for i in range(300)]))
    curator = dc.open(rows, policy=policy("total by area", columns=KINDS), ledger=":memory:")
    with pytest.raises(ParameterError, match="grouped already"):
        smuggled(curator)

    def unmended(table, columns, bins, group):
        del bins, group
        asked = [table.group_by(n).agg(value=frame.count()).query for n in columns]
        return _keyed.Keyed(replace(asked[0], keys=asked[0].keys), {})

    monkeypatch.setattr(_curated, "keyed", unmended)
    with pytest.raises(PrivacyError, match="whole table by its own columns"):
        smuggled(curator)  # the second lock: the key is not the column of its name
    monkeypatch.setattr(_curated, "_declared", lambda key, _: _curated.covers(key))
    with pytest.raises(PrivacyError, match="whole table by its own columns"):
        smuggled(curator)  # the third: the table is not bare
    monkeypatch.setattr(Curator, "_rows", lambda _, table: _Grouped(table))
    assert smuggled(curator)


class _Grouped:
    """A grouped table that calls itself bare."""

    keys = conditions = joins = ()
    inner = None

    def __init__(self, table):
        self.table, self.name, self.policy = table, table.name, table.policy

    def group_by(self, *keys):
        return self.table.group_by(*keys)


def test_rows_of_units_smuggle_no_expression_either():
    own = policy("total by ill", unit="id", max_rows_per_unit=1)
    curator = dc.open(ROWS, policy=own, ledger=":memory:")
    inner = curator.table("people").per_unit(ill="MAX(age) = 3", area="MAX(age)")
    assert not thief(curator, inner, ("ill", "area"))
    # nor by the declared column: which of a person's rows are kept decides in which cell they are
    assert not thief(curator, "people")
    plain = dc.open(ROWS, policy=policy("total by ill"), ledger=":memory:")
    assert thief(plain, "people")  # whereas all rows by the declared column may


def test_bins_of_a_named_column_are_sums_of_what_the_owner_named():
    curator = opened("total by age")
    ages = np.bincount(ROWS["age"].to_numpy(), minlength=10)
    how = {"rho": "0.00001", "method": "topdown", "unprotected": ["area-totals"], "owner": "me"}
    for width in (5, 3, 1):
        place = [age // Fraction(width) for age in range(10)]
        wanted = [sum(ages[a] for a in range(10) if place[a] == at) for at in dict.fromkeys(place)]
        made = curator.publish("people", W.kron(W.identity(len(wanted)), W.identity(3)),
                               columns=["age", "area"], bins={"age": width}, **how)  # fmt: skip
        assert made.estimate.sum(axis=1).tolist() == wanted


# -- tables, lists and workloads of the caller's own making ----------------------------------


class Duck:
    """Whatever a publication asks of a table, under another relation."""

    name, conditions, joins, keys, inner, outputs = "people", (), (), (), None, ()
    policy = policy("total by ill")

    def __init__(self, table):
        self.table = table

    def group_by(self, **keys):
        return Duck(self.table.group_by(**keys))

    def agg(self, **outputs):
        return Duck(self.table.agg(**outputs))

    @property
    def query(self):
        return replace(self.table.query, neighbours=Neighbours.CHANGE_ONE)


class Falsy(list):
    def __bool__(self):
        return False


class Later(list):
    """A list that is harmless as often as it is checked."""

    def __init__(self, times):
        super().__init__(["area-totals"])
        self.times = times

    def __iter__(self):
        self.times -= 1
        return iter([] if self.times >= 0 else ["area-totals"])


def test_the_policy_of_a_callers_table_decides_nothing(monkeypatch):
    forged = frame.Table("people", policy("total by ill"))
    subclass = type("Own", (frame.Table,), {})("people", policy("total by ill"))
    curator, open_ended = opened(), opened(neighbours="add-remove")
    for table in (forged, subclass, Duck(curator.table("people"))):
        assert not thief(curator, table)
        assert not thief(open_ended, table)
    assert thief(opened("total by ill"), frame.Table("people", policy()))  # the owner's word counts
    with pytest.raises(QueryError, match="not Duck"):
        curator.publication(Duck(forged), W.identity(2), columns=["ill"], rho=1)
    monkeypatch.setattr(Curator, "_rows", lambda _, table: table)
    with pytest.raises(AssertionError):  # the engine refuses a foreign policy, after the debit
        thief(curator, forged)
    monkeypatch.setattr(_protocol, "_part", lambda *_: True)
    assert thief(curator, forged)


def test_limits_repeats_and_units_are_those_of_the_curator(monkeypatch):
    public = pa.table({"area": ["A", "A", "A", "B", "C"], "k": [1, 2, 3, 1, 1]})
    tables = [pol.Table("people", COLUMNS), pol.Table("regs", [AREA, pol.Category("k", [1, 2, 3])],
                                                      public=True)]  # fmt: skip
    own = pol.Policy(tables, pol.Budget("3"), name=next(NAMES))
    curator = dc.open({"people": ROWS, "regs": public}, policy=own, ledger=":memory:")
    lying = frame.Table("people", own, None, lambda *_: 1).join("regs", on="area")
    how = {"columns": ["k"], "epsilon": 1}
    assert curator.publication(lying, W.identity(3), **how).plan.rows == 3

    limited = opened(neighbours="add-remove", unit="id", max_rows_per_unit=2)
    for limit in (1, 5):
        own = policy(neighbours="add-remove", unit="id", max_rows_per_unit=limit)
        table = frame.Table("people", own)
        plan = limited.publication(table, W.identity(2), columns=["ill"], epsilon=1).plan
        assert plan.rows == 2
    monkeypatch.setattr(Curator, "_rows", lambda _, table: table)
    assert curator.publication(lying, W.identity(3), **how).plan.rows == 1


@pytest.mark.parametrize("named", [Falsy(["area-totals"]), Later(1), Later(2), Later(3),
                                   "area-totals", {"area-totals": 1}, [["area-totals"]],
                                   np.array(["area-totals"])])  # fmt: skip
def test_lists_are_read_once(named):
    assert not thief(opened(), "people", unprotected=named)


def test_columns_and_bins_are_read_once():
    """Else one reading would be checked, and another one counted."""

    class Moody(list):
        said = 0

        def __iter__(self):
            Moody.said += 1
            return iter(["ill", "area"] if Moody.said == 1 else ["age", "area"])

    class Any(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return True

    curator = opened("total by ill")
    how = {"rho": "0.00001", "method": "topdown", "unprotected": ["area-totals"], "owner": "me"}
    made = curator.publish("people", W.kron(W.identity(2), W.identity(3)), columns=Moody(), **how)
    assert Moody.said == 1
    assert made.estimate.sum(axis=1).tolist() == [len(ROWS) - ILL, ILL]
    with pytest.raises(ParameterError, match="not among the columns"):
        curator.publication("people", W.kron(W.identity(2), W.identity(3)), columns=["ill", "area"],
                            bins={Any("nothing"): 2}, **how)  # fmt: skip


def test_conditions_are_read_once():
    """A term that says something else each time it is read would make keys of several tables."""

    class Moody(frame.Term):
        said = 0

        def __getattribute__(self, name):
            if name == "args":
                Moody.said += 1
                return (("age >= 5"),) if Moody.said > 1 else ("age >= 0",)
            return object.__getattribute__(self, name)

    curator = opened("total by ill")
    table = curator.table("people").where(Moody("sql", ()))
    made = curator.publication(table, W.kron(W.identity(3), W.identity(10)),
                               columns=["area", "age"], rho=1)  # fmt: skip
    assert Moody.said == 1
    assert made.plan.neighbours is Neighbours.ADD_REMOVE  # a condition may drop a row


class Quiet(type(W.identity(2))):
    """A workload that denies its sensitivity."""

    def sensitivity(self, *_, **__):
        return 0.001


def test_a_workload_states_its_own_sensitivity_from_its_numbers(monkeypatch):
    curator = opened(neighbours="add-remove")
    honest = W.prefix(10)
    how = {"columns": ["age"], "epsilon": 1, "method": "mwem", "rounds": 2}
    with pytest.raises(ParameterError, match="needs a workload"):
        curator.publication("people", Quiet(honest.terms), **how)
    lying = W.prefix(10)
    lying.sensitivity = Quiet.sensitivity
    seen = curator.publication("people", lying, **how).plan.workload
    assert seen.sensitivity(1) == honest.sensitivity(1) == 10
    axis = W.prefix(10)
    axis.terms[0][1][0].diagonal = lambda: np.zeros(10)
    assert curator.publication("people", axis, **how).plan.workload.sensitivity(1) == 10
    rows = W.matrix(np.tril(np.ones((10, 10))))
    found = curator.publication("people", rows, **how)
    rows.terms[0][1][0].matrix.data[:] = 0
    assert found.plan.workload.sensitivity(1) == 10
    for wrong in (object(), None, "prefix"):
        with pytest.raises(ParameterError, match="needs a workload"):
            curator.publication("people", wrong, **how)
    monkeypatch.setattr(_curated, "rebuilt", lambda given: given)
    again = opened(neighbours="add-remove").publication("people", lying, **how)
    assert again.plan.workload.sensitivity(1) < 1


def test_what_a_proposal_shows_is_not_what_it_runs(monkeypatch):
    def changed(curator):
        workload = W.kron(W.identity(2), W.identity(3))
        found = curator.publication("people", workload, columns=["ill", "area"], rho="0.00001",
                                    method="topdown")  # fmt: skip
        found.plan.mechanism.unprotected = ("the total of each area",)
        return found.publish().estimate.sum(axis=1).tolist() == [len(ROWS) - ILL, ILL]

    assert not changed(opened())
    monkeypatch.setattr(_curated.copy, "deepcopy", lambda given: given)
    assert changed(opened())


def test_an_option_that_is_no_plain_value_is_refused_by_name():
    for value in (object(), {"a": 1}, np.array([object()])):
        with pytest.raises(ParameterError, match="nation_share takes"):
            opened().publication("people", W.kron(W.identity(2), W.identity(3)), rho=1,
                                 columns=["ill", "area"], method="topdown",
                                 nation_share=value)  # fmt: skip
    with pytest.raises(ParameterError, match="columns is a list"):
        opened().publication("people", W.identity(2), columns="ill", rho=1)


# -- parts of a partition, while the data change -----------------------------------------------


def by_sex(**of_table):
    columns = [pol.Category("sex", ["F", "M"]), pol.Category("code", [1, 2])]
    own = pol.Policy([pol.Table("people", columns, **of_table)], pol.Budget("3"), name=next(NAMES))
    rows = pa.table({"sex": ["F", "M"] * 50, "code": [1, 2] * 50})
    return dc.open(rows, policy=own, ledger=":memory:")


ONE = "SELECT COUNT(*) AS n FROM people WHERE code = 1"


def test_a_partition_needs_the_owners_word_that_rows_keep_their_part():
    with pytest.raises(PolicyError, match="given another value") as refused:
        by_sex().partition("sex", epsilon=1)
    assert 'fixed = ["sex"]' in str(refused.value)
    with pytest.raises(PolicyError, match="given another value"):
        by_sex(fixed=["code"]).partition("sex", epsilon=1)
    assert by_sex(fixed=["sex"]).partition("sex", epsilon=1)["F"].left == 1
    for wrong, match in [("sex", "is a list"), (["town"], "must be one of sex, code")]:
        with pytest.raises(PolicyError, match=match):
            by_sex(fixed=wrong)


def test_the_word_is_part_of_the_policy_and_of_a_partitions_name():
    own = by_sex(fixed=["sex", "code"]).policy
    assert own.fingerprint != by_sex(fixed=["sex"]).policy.fingerprint
    assert pol.load(own.to_toml()).table("people").fixed == ("sex", "code")
    public = pol.Category("sex", ["F", "M"])
    with pytest.raises(PolicyError, match="fixed has no meaning"):
        pol.Table("t", [public], public=True, fixed=["sex"])


def test_a_part_has_one_budget_however_its_value_is_spelled():
    parts = by_sex(fixed=["code"]).partition("code", epsilon=1)
    first = parts[1]
    first.sql(ONE, epsilon=1)
    for spelling in (1.0, "1", "1.00", Fraction(1), None):
        with pytest.raises(ParameterError, match="not among the public values"):
            replace(first, value=spelling)
    assert replace(first, value=True).value == 1  # the part of 1, which has spent all it has
    with pytest.raises(BudgetExceededError):
        replace(first, value=True).sql(ONE, epsilon=1, fresh=True)


def test_what_a_part_may_spend_is_what_was_paid():
    curator = by_sex(fixed=["code"])
    parts = curator.partition("code", epsilon=1)
    for name in ("price", "currency", "column", "table"):
        with pytest.raises(AttributeError):
            setattr(parts, name, Fraction(1000))
    with pytest.raises(TypeError):
        replace(parts, price=Fraction(1000))
    with pytest.raises(ParameterError, match="belongs to a partition"):
        replace(parts[1], partition=object())
    # by force: a part draws on what was paid under the name of its price, and that is nothing
    object.__setattr__(parts, "price", Fraction(1000))
    with pytest.raises(DiscreetError):
        parts[1].sql(ONE, epsilon=500)
    assert curator.budget.spent["epsilon"] < Fraction(11, 10)


# -- several statements, one state of the tables ------------------------------------------------


BOTH = "SELECT COUNT(*) AS n FROM people WHERE region = 'N' UNION ALL {} 'S'".format(
    "SELECT COUNT(*) AS n FROM people WHERE region ="
)


def moved_between(connection, curator, ask, writer):
    """Exact integers of two statements, between which one row moves from N to S."""
    seen, execute = [], curator._engine.execute

    def watched(aggregate, salt):
        seen.append(execute(aggregate, salt)[()][0])
        if len(seen) == 1:
            writer(connection)
        return {(): (seen[-1],)}

    curator._engine.execute = watched
    ask(curator)
    return sum(seen)


def live():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT 'N' AS region FROM range(10)")
    own = pol.Policy([pol.Table("people", [pol.Category("region", ["N", "S"])])], pol.Budget("9"),
                     name=next(NAMES))  # fmt: skip
    return connection, dc.open(connection, policy=own, ledger=":memory:")


def batch(curator):
    with curator.batch(epsilon=1) as both:
        both.sql(BOTH.split(" UNION ALL ")[0])
        both.sql(BOTH.split(" UNION ALL ")[1])


def union(curator):
    assert curator.sql(BOTH, epsilon=1).to_dicts()


def move(connection):
    connection.cursor().execute("UPDATE people SET region = 'S' WHERE rowid = 0")


@pytest.mark.parametrize("ask", [batch, union])
def test_questions_of_disjoint_rows_see_one_state_of_a_duckdb_table(ask, monkeypatch):
    connection, curator = live()
    assert moved_between(connection, curator, ask, move) == 10
    assert curator.budget.spent["epsilon"] == 1
    assert connection.execute("SELECT COUNT(*) FROM people WHERE region = 'S'").fetchone() == (1,)
    monkeypatch.setattr(DuckDBEngine, "snapshot", lambda _: nullcontext())
    assert moved_between(*live(), ask, move) == 11  # the one who moved was counted twice


def watched_states(question):
    """How many statements of one question ran, and how many of them in one snapshot."""
    curator = live()[1]
    inside, ran, execute, snapshot = [0], [], curator._engine.execute, curator._engine.snapshot

    @contextmanager
    def marked():
        with snapshot():
            inside[0] += 1
            yield
            inside[0] -= 1

    def watched(aggregate, salt):
        ran.append(inside[0])
        return execute(aggregate, salt)

    curator._engine.execute, curator._engine.snapshot = watched, marked
    curator.sql(question, epsilon=1)
    return len(ran), sum(ran)


@pytest.mark.parametrize(
    ("question", "ran"),
    [("SELECT COUNT(*) AS n, MODE(region) AS r FROM people", (2, 2)),
     ("SELECT COUNT(*) AS n FROM people", (1, 0))],
)  # fmt: skip
def test_all_statements_of_one_question_see_one_state(question, ran):
    assert watched_states(question) == ran


@pytest.mark.parametrize("ask", [batch, union])
def test_an_engine_that_cannot_hold_one_state_is_refused_before_the_debit(ask, monkeypatch):
    curator = live()[1]
    monkeypatch.delattr(Statements, "snapshot")
    with pytest.raises(EngineError, match="one state of its tables"):
        ask(curator)
    assert curator.budget.spent["epsilon"] == 0
    assert curator.sql("SELECT COUNT(*) AS n FROM people", epsilon=1).to_dicts()


@pytest.fixture
def stored(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS moving (id int, region text)")
        connection.execute("TRUNCATE moving")
        connection.execute("INSERT INTO moving SELECT i, 'N' FROM generate_series(0, 9) AS i")
        yield connection


def moving(source):
    own = pol.Policy([pol.Table("moving", [pol.Category("region", ["N", "S"])])], pol.Budget("9"),
                     name="moving")  # fmt: skip
    return dc.open(source, policy=own, ledger=":memory:")


def both(curator, epsilon=1):
    with curator.batch(epsilon=epsilon) as asked:
        for region in "NS":
            asked.sql(f"SELECT COUNT(*) AS n FROM moving WHERE region = '{region}'")


def step(connection):
    connection.execute("UPDATE moving SET region = 'S' WHERE id = 0")


def test_questions_of_disjoint_rows_see_one_state_of_a_postgresql_table(
    postgres_url, stored, monkeypatch
):
    with moving(postgres_url) as curator:
        assert moved_between(stored, curator, both, step) == 10
        assert stored.execute("SELECT COUNT(*) FROM moving WHERE region = 'S'").fetchone() == (1,)
    stored.execute("UPDATE moving SET region = 'N'")
    monkeypatch.setattr(PostgresEngine, "snapshot", lambda _: nullcontext())
    with moving(postgres_url) as curator:
        assert moved_between(stored, curator, lambda c: both(c, epsilon=2), step) == 11


def test_a_transaction_of_the_caller_that_sees_several_states_is_refused(postgres_url, stored):
    assert stored
    with psycopg.connect(postgres_url) as own:
        curator = moving(own)
        own.rollback()
        own.execute("SELECT 1")  # begins a transaction, at READ COMMITTED
        with pytest.raises(SchemaError, match="another state of the tables"):
            both(curator)
        assert curator.budget.spent["epsilon"] == 0  # refused before the debit
        own.rollback()
        own.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        both(curator, epsilon=3)
        curator.close()


# -- streams -------------------------------------------------------------------------------------


def followed(change, **terms):
    columns = [pol.Date("day", "2026-01-01", "2026-12-31"), pol.Integer("cost", 0, 10**6)]
    rows = pa.table({"day": [dt.date(2026, 1, 1)] * 2, "cost": [1, 777]})
    own = pol.Policy([pol.Table("visits", columns)], pol.Budget("20"), name=next(NAMES))
    curator = dc.open(rows, policy=own, ledger=":memory:")
    stream = release.Stream(every="day", horizon=2, epsilon="2", **terms)
    change(stream)
    feed = stream.follow(curator, "visits", "day", start="2026-01-01",
                         value="cost" if "bound" in terms else None)  # fmt: skip
    feed.tick()
    return curator.budget.spent["epsilon"], feed._stream.law


@pytest.mark.parametrize(("name", "value"), [("bound", 10**6), ("loss", p.Pure("0.001")),
                                             ("law", None), ("horizon", 1000), ("price", None),
                                             ("neighbours", Neighbours.CHANGE_ONE)])  # fmt: skip
def test_the_terms_of_a_stream_are_fixed(name, value):
    honest = followed(lambda _: None)
    with pytest.raises(ParameterError, match=f"{name} of a stream is fixed"):
        followed(lambda stream: setattr(stream, name, value))
    if name in ("bound", "loss", "law"):  # by force: noise and price still follow from the terms
        spent, law = followed(lambda stream: stream.__dict__.update({name: value}))
        assert spent == honest[0] == 2
        assert law.scale == honest[1].scale * (value if name == "bound" else 1)


def test_a_stream_of_another_class_is_not_followed():
    class Cheap(release.Stream):
        loss = p.Pure("0.001")

    with pytest.raises(ParameterError, match="asked of a stream"):
        followed(lambda stream: object.__setattr__(stream, "__class__", Cheap))


# -- what is said about exact releases ------------------------------------------------------------


def published(tmp_path, unprotected=("area-totals",)):
    """A policy's file, and a ledger with one publication that was made through a curator."""
    file = tmp_path / "people.toml"
    rows = "\n".join(f"{'ABC'[i % 3]},{i % 10}" for i in range(300))
    (tmp_path / "people.csv").write_text(f"area,age\n{rows}\n")
    file.write_text(f"""
[policy]
name = "{next(NAMES)} {tmp_path.name}"
[budget]
epsilon = "3"
delta = "1e-6"
[tables.people]
source = "people.csv"
neighbours = "change-one"
unprotected = ["total by area"]
[tables.people.columns]
area = {{ type = "category", values = ["A", "B", "C"], null = "A" }}
age = {{ type = "integer", min = 0, max = 9, null = 0 }}
""")
    with dc.open(policy=file) as curator:
        curator.publish("people", W.kron(W.identity(3), W.identity(10)), columns=["area", "age"],
                        rho="0.01", method="topdown", unprotected=list(unprotected),
                        owner="office")  # fmt: skip
        return file, curator.ledger.entries


def said(*words):
    found = CliRunner().invoke(app, [str(w) for w in words])
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split())


EXACTLY = "people: the total of each area, exactly"


@pytest.mark.parametrize("how", ["--statement", "--use=asking"])
def test_the_register_names_exact_totals_that_no_release_plan_published(tmp_path, how, monkeypatch):
    file, _ = published(tmp_path)
    text = said("register", file, how)
    assert EXACTLY in text
    assert "total by area may be released exactly" in text
    assert "nothing is released without noise" not in text
    monkeypatch.setattr(_public, "exact_in", lambda _: ())
    assert EXACTLY not in said("register", file, how)


def test_the_meaning_of_a_ledger_stands_beside_its_exact_totals(tmp_path, monkeypatch):
    file, entries = published(tmp_path)
    assert [e.unprotected for e in entries] == [("the total of each area",)]
    text = said("meaning", "-p", file)
    before, after = text.split("If the whole budget is spent")
    assert "beside the unprotected: the total of each area" in before
    assert "total by area (people)" in after
    assert meaning.of(entries).unprotected == ("the total of each area",)
    monkeypatch.setattr(Entry, "unprotected", ())
    assert "unprotected" not in said("meaning", "-p", file).split("If the whole")[0]


def test_what_nobody_released_exactly_is_said_to_be_possible_alone(tmp_path):
    file, _ = published(tmp_path, ())
    text = said("register", file, "--statement")
    assert EXACTLY not in text
    assert "total by area may be released exactly" in text
    before, after = said("meaning", "-p", file).split("If the whole budget is spent")
    assert "unprotected" not in before
    assert "total by area (people)" in after


def test_losses_from_elsewhere_keep_what_they_stand_beside():
    curator = opened()
    curator.record_external(p.Pure("0.1").beside("the total"), what="a table of the office")
    assert meaning.of(curator.ledger).unprotected == ("the total",)


@pytest.mark.parametrize("name", ["owner", "unprotected", "method", "rows", "key"])
def test_options_of_a_plan_that_are_settings_are_refused_by_name(tmp_path, name):
    file, _ = published(tmp_path)
    table = {"columns": ["area"], "epsilon": 1, "options": {name: "me"}}
    plan = {"title": "t", "policy": str(file), "tables": {"x": table}}
    with pytest.raises(ParameterError, match=f"those of its method, and '{name}' is none"):
        release.preview(plan)
    table["options"] = "owner"
    with pytest.raises(ParameterError, match="must be a table of settings"):
        release.preview(plan)
