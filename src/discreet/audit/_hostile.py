"""Hostile questions and sources: what once worked, drawn anew each time.

Each probe is a pair of neighbouring sources and something that is done to both. What is
refused from public facts is fine; what fails, or moves further, on one side only is not.
"""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from discreet import engines, frame, ledger, sql
from discreet import policy as pol
from discreet._dataclass import dataclass
from discreet._lazy import arrow as pa
from discreet._text import quoted
from discreet.audit._check import accepted
from discreet.audit._oracle import Tables, World, ends, literal
from discreet.curator import Curator, check_statements
from discreet.errors import DiscreetError, SchemaError, UnprovenStatementError
from discreet.noise import DiscreteLaplace
from discreet.plan import Lowered, Salt, lower

SALT = Salt(b"hostile")
_WORD = 2**63


@dataclass(frozen=True)
class Probe:
    """Something to try, and how to see that it worked."""

    question: str
    sides: tuple[Mapping[str, Any], Mapping[str, Any]]
    faults: Callable[[], Iterator[str]]


def probes(rng: random.Random, policy: pol.Policy | None, w: World) -> Iterator[Probe]:
    """One hostile question over the world's own tables; without a policy, one of our own."""
    if policy is not None or rng.random() < 0.2:
        columns = [n for n, c in w.main.columns.items() if isinstance(c, pol.Integer | pol.Real)]
        if columns:
            yield _rows(rng, w, rng.choice(columns))
        return
    makers = (_moments, _labels, _texts, _units, _lines, _bucket, _strings, _doors, _tests, _wide)
    yield rng.choice([*makers, _doors, _wide, _lines])(rng)


# -- running a question on two sources ------------------------------------------------------


def arrow(tables: Tables, policy: pol.Policy) -> dict[str, Any]:
    """Rows as Arrow tables of plain types."""

    def kind(column: pol.Column | None) -> Any:
        match column:
            case None | pol.Integer():
                return pa.int64()
            case pol.Real():
                return pa.float64()
            case pol.Boolean():
                return pa.bool_()
            case pol.Date():
                return pa.date32()
            case pol.Timestamp():
                return pa.timestamp("us")
            case pol.Category() if not isinstance(column.values[0], str):
                return pa.bool_() if isinstance(column.values[0], bool) else pa.int64()
        return pa.string()

    def of(table: pol.Table, name: str) -> Any:
        above = None if table.owner is None else table.owner.above
        if table.owner is not None and above is not None and name == table.owner.column:
            return of(above, str(above.key))  # what names a row is stored as that row's name is
        return kind(table.columns.get(name))

    return {
        t.name: pa.table(
            {
                name: pa.array([row[name] for row in tables[t.name]], of(t, name))
                for name in dict.fromkeys([*t.columns, *([t.unit] if t.unit else [])])
            }
        )
        for t in policy.tables.values()
    }


def _compared(
    text: str, policy: pol.Policy, sides: Iterable[Any], fanout: int = 1
) -> Iterator[str]:
    """Run one question on two sources: neither may fail, and distances must hold."""
    left, right = sides
    try:
        low: Lowered = lower(sql.parse(text, policy, public_fanout=lambda *_: fanout).query)
        with (
            closing(engines.connect(left, policy)) as one,
            closing(engines.connect(right, policy)) as two,
        ):
            yield from _measured(low, one, two)
    except DiscreetError:  # refused from public facts: the text, or the types of the source
        return


def _measured(low: Lowered, one: engines.Engine, two: engines.Engine) -> Iterator[str]:
    sides = []
    for engine in (one, two):
        try:
            check_statements(engine, low)
        except UnprovenStatementError as error:
            yield f"a statement of the planner's cannot be proved: {error}"
            return
        try:
            sides.append([engine.execute(a, SALT) if a.measures else {} for a in low.aggregates])
        except SchemaError:
            raise
        except DiscreetError as error:
            yield f"a run fails on some data: {error}"
            return
    for part in low.parts:
        yield from part.moved(*(side[part.aggregate] for side in sides))


# -- constants and products (A1, A2) ------------------------------------------------------------


def _rows(rng: random.Random, w: World, name: str) -> Probe:
    """A constant beyond 64 bits, or a product that overflows where WHERE does not look."""
    column, table = w.main.columns[name], quoted(w.main.name)
    x, huge = f"{table}.{quoted(name)}", rng.choice([2**62, _WORD - 1, _WORD, 4 * 10**18, 10**30])
    bottom = literal(column, ends(column)[0])
    shape, rows = rng.randrange(5), f"SELECT COUNT(*) AS n FROM {table}"  # noqa: S608 - ours
    if shape == 0:
        text = f"{rows} WHERE {x} IN ({bottom}, {huge**3})"
    elif shape == 1:
        text = f"{rows} WHERE WIDTH_BUCKET({x}, -{huge}, {huge}, 2) = 1"
    elif shape == 2:
        text = f"{rows} WHERE LEAST({x}, {huge}) {rng.choice('<>')} {huge}"
    else:
        product = _product(column, x)
        key = f"CASE WHEN {product} > 1 THEN 'a' ELSE 'b' END"
        text = f"{rows.replace('COUNT', f'{key} AS k, COUNT', 1)} WHERE {x} = {bottom} GROUP BY 1"
    sides = w.left, w.right

    def run() -> Iterator[str]:
        yield from _compared(text, w.policy, (arrow(t, w.policy) for t in sides), w.fanout)

    return Probe(text, sides, run)


def _product(column: pol.Column, x: str) -> str:
    """A power of a shifted column that fits 62 bits at its lowest value and not at its highest."""
    low, high = ends(column)
    for factors in range(3, 31):
        shift = int(2 ** (61.5 / factors)) - 1
        if (shift + high - low) ** factors >= _WORD:
            moved = literal(column, abs(shift - low))
            term = f"({x} {'+' if shift >= low else '-'} {moved})"
            return " * ".join([term] * factors)
    return x


def _wide(rng: random.Random) -> Probe:
    """Questions over a wide column, which a narrow random policy does not have."""
    own = pol.Policy(
        [pol.Table("people", [pol.Real("pay", 0, 200_000, "0.01"), pol.Integer("age", 0, 115)])],
        pol.Budget("9"),
    )
    some = [{"pay": float(rng.randrange(9000)), "age": rng.randrange(115)} for _ in range(5)]
    tables: tuple[Tables, Tables] = (
        {"people": some}, {"people": [*some, {"pay": 23456.78, "age": 95}]},
    )  # fmt: skip
    w = World(own, own.tables["people"], None, None, "", 0, *tables)
    return _rows(rng, w, rng.choice(["pay", "age"]))


# -- what sources hold (A1, A4, B3, B4) -----------------------------------------------------------


def _pair(  # noqa: PLR0917 - a table of cases, row by row
    name: str, column: pol.Column, build: Callable[[list[Any]], Any], usual: list[Any], odd: Any,
    text: str, **limits: Any,
) -> Probe:  # fmt: skip
    """Two sources of one column, one of them with an odd value more."""
    own = pol.Policy([pol.Table("people", [column], **limits)], pol.Budget("9", delta="1e-6"))
    sides = {"people": usual}, {"people": [*usual, odd]}

    def run() -> Iterator[str]:
        yield from _compared(text, own, ({"people": build(s["people"])} for s in sides))

    return Probe(f"{name}: {text}", sides, run)


def _native(kind: Any, values: list[Any], width: Any = np.int64) -> Any:
    """Arrow array from the raw integers of its type, whatever they stand for."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, width))])


def _moments(rng: random.Random) -> Probe:
    unit = rng.choice(["s", "ms", "us", "ns"])
    odd = rng.choice([_WORD - 1, -_WORD, -_WORD + 1, 2**62, 10**18])
    outside: Any = rng.choice(["clamp", "null"])
    column: pol.Column = pol.Timestamp("x", "2000-01-01", "2020-01-01", 3600, outside=outside)
    if rng.random() < 0.5:
        column = pol.Date("x", "2000-01-01", "2020-01-01", outside=outside)
    return _pair(
        f"timestamps in {unit}", column, lambda v: pa.table({"x": _native(pa.timestamp(unit), v)}),
        [0, 10**6], odd, "SELECT COUNT(x) AS n, COUNT(*) AS m FROM people",
    )  # fmt: skip


def _labels(rng: random.Random) -> Probe:
    digits, scale = rng.choice([(5, 4), (4, 4), (18, 18), (38, 37), (38, 38)])
    labels = rng.choice([[0, 1], [1, 100], [1, 10**12], [-5, 3, 4 * 10**18]])
    kind, step = pa.decimal128(digits, scale), Decimal(1).scaleb(-scale)
    return _pair(
        f"labels {labels} over DECIMAL({digits},{scale})",
        pol.Category("x", labels, other=rng.choice([None, 77])),
        lambda v: pa.table({"x": pa.array(v, kind)}),
        [], rng.choice([step, -step, Decimal(0)]), "SELECT x, COUNT(*) AS n FROM people GROUP BY x",
    )  # fmt: skip


def _texts(rng: random.Random) -> Probe:
    odd = rng.choice([b"\xff\xfe", b"a\xe2\x82", b"\x00", b"\xed\xa0\x80", b"x" * 10_000])
    column: pol.Column = pol.Text("x")
    text = "SELECT x, COUNT(*) AS n FROM people GROUP BY x"
    if rng.random() < 0.25:
        column = pol.Category("x", ["F", "M"], other="X")
        text = "SELECT COUNT(DISTINCT x) AS n, COUNT(x) AS m FROM people"
    return _pair(
        f"text of bytes {odd[:8]!r}", column,
        lambda v: pa.table({"x": pa.array(v, pa.binary()).view(pa.string())}),
        [b"F", b"M"], odd, text,
    )  # fmt: skip


def _units(rng: random.Random) -> Probe:
    """Units that are numbers in one table and text in the other."""
    one: dict[str, Any] = {"unit": "id", "max_rows_per_unit": 1}
    own = pol.Policy(
        [
            pol.Table("people", [pol.Integer("age", 0, 99)], **one),
            pol.Table("visits", [pol.Integer("cost", 0, 9)], **one),
        ],
        pol.Budget("9"),
    )
    ids = [f"{'0' * k}7" for k in range(rng.randint(2, 6))]
    people = pa.table({"id": ids, "age": [30] * len(ids)})
    visits = pa.table({"id": pa.array([7], pa.int64()), "cost": pa.array([1], pa.int64())})
    sides = {"people": people, "visits": visits[:0]}, {"people": people, "visits": visits}
    text = "SELECT COUNT(*) AS n FROM people JOIN visits ON people.id = visits.id"
    return Probe(text, sides, lambda: _compared(text, own, sides))


_CELLS = (
    b"Basel",
    b"B\xe4sel",
    b"Ba\rsel",
    b'Ba"sel',
    b'"Basel',
    b"x" * 300_000,
    b"\xef\xbb\xbfBasel",
    b"",
)


def _lines(rng: random.Random) -> Probe:
    """A CSV file under change-one: its size is public, so no cell may change it."""
    columns: list[pol.Column] = [pol.Text("city"), pol.Integer("age", 0, 115)]
    table = pol.Table("people", columns, neighbours="change-one")
    own = pol.Policy([table], pol.Budget("9", delta="1e-6"))
    usual = [b"Bern,30", b"Basel,40", b"Genf,50", b'"Ulm","60"']
    at, cells = rng.randrange(4), rng.sample(_CELLS, 3)
    files = [usual, *([*usual[:at], cell + b",40", *usual[at + 1 :]] for cell in cells)]
    text = "SELECT COUNT(*) AS n FROM people"

    def run() -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{i}.csv" for i in range(len(files))]
            for path, lines in zip(paths, files, strict=True):
                path.write_bytes(b"city,age\n" + b"\n".join(lines) + b"\n")
            for path in paths[1:]:
                yield from _compared(text, own, ({"people": p} for p in (paths[0], path)))

    return Probe(f"CSV: {text}", ({"people": usual}, {"people": files[1:]}), run)


# -- through Python (B1, B2, C1 to C5) ---------------------------------------------------


@contextmanager
def _curator(rows: int = 40) -> Iterator[Curator]:
    table = pol.Table("people", [pol.Text("town"), pol.Integer("age", 0, 100)])
    # ledgers in memory belong to a name
    own = pol.Policy([table], pol.Budget("9", "0.5", accounting="approx"), name=f"fuzz {uuid4()}")
    data = {"people": [{"town": f"t{i % 2}", "age": i % 90} for i in range(rows)]}
    engine = engines.connect(arrow(data, own), own)
    with Curator(own, engine, ledger.open_ledger(":memory:", own)) as curator:
        yield curator


def _free(words: str, run: Callable[[Curator], Iterator[str]]) -> Probe:
    def faults() -> Iterator[str]:
        with _curator() as curator:
            yield from run(curator)

    return Probe(words, ({}, {}), faults)


def least_delta(losses: list[Fraction], epsilon: Fraction) -> float:
    """δ that Laplace noise of these losses has at least at ε.

    The event that every draw exceeds the larger of the two neighbours' values has
    probability ≥ 2^−k on one of them and e^−L times that on the other.
    """
    excess = float(epsilon - sum(losses, Fraction(0)))
    return 0.0 if excess >= 0 else 2.0 ** -len(losses) * -math.expm1(excess)


def _bucket(rng: random.Random) -> Probe:
    """A batch with the bucket of other keys: two draws, two prices."""
    weights = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]

    def run(curator: Curator) -> Iterator[str]:
        rest = curator.table("people").group_by("town").agg(n=frame.count()).other("rest")
        with curator.batch(epsilon=1, delta="1e-6") as batch:
            pending = [batch.ask(rest, weight=k) for k in weights]
        assert batch.cost is not None
        losses = []
        for answer in pending:
            for part in answer.answer.record()["parts"]:
                law = DiscreteLaplace(Fraction(str(part["law"]["scale"])))
                losses += [1 / law.scale] * 2  # the counts of keys, and the bucket
        if least_delta(losses, batch.cost.epsilon) > float(batch.cost.delta):
            yield f"noise of ε={float(sum(losses)):.4g} is debited at {batch.cost}"
        if curator.ledger.entries[-1].cost.epsilon < batch.cost.epsilon:
            yield "the ledger was debited less than the batch says"

    return _free(f"batch of {weights} questions with a bucket", run)


class _Sly(str):
    """A text that answers every question about itself with SQL."""

    __slots__ = ()
    text = "x') UNION ALL SELECT 'a' FROM people --"

    def __str__(self) -> str:
        return self

    def replace(self, *_: object) -> str:
        return self.text

    def __format__(self, _: str) -> str:
        return self.text


def _strings(_rng: random.Random) -> Probe:
    def run(curator: Curator) -> Iterator[str]:
        table, sly, n = curator.table("people"), _Sly("t1"), frame.count()
        for question in (
            table.where(frame.col("town") == sly).agg(n=n),
            table.where(frame.col("town").is_in(sly)).group_by("town").agg(n=n),
            table.where(frame.col(_Sly("age")) == 3).agg(n=n),
        ):
            if any(isinstance(text, _Sly) for text in _within(question.query)):
                yield "a subclass of str stands in the plan: it writes its own SQL"

    return _free("a text that is not quite a text", run)


def _within(node: Any, seen: set[int] | None = None) -> Iterator[str]:
    """Every text that a plan holds."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for pair in node.items():
            yield from _within(pair, seen)
    elif isinstance(node, tuple | list | set | frozenset):
        for item in node:
            yield from _within(item, seen)
    for name in getattr(node, "__dataclass_fields__", ()):
        yield from _within(getattr(node, name, None), seen)


def _doors(_rng: random.Random) -> Probe:
    """Ways around the road: free facts, questions made by hand, weights, a second name."""
    count = "SELECT COUNT(*) AS n FROM people"

    def run(curator: Curator) -> Iterator[str]:
        table = curator.table("people")
        fanout: Any = table.public_fanout
        if accepted(lambda: fanout("people", ("age",))):
            yield "how often keys of a private table repeat is disclosed for free"
        if accepted(lambda: curator.preview(f"{count}@elsewhere", epsilon=1)):
            yield "the name of another database is accepted and ignored"
        query: Any = table.agg(n=frame.count()).query
        if accepted(lambda: curator.ask(query, epsilon=1)):
            yield "a query made by hand is answered"
        with curator.batch(epsilon=1) as batch:
            pending = [batch.sql(f"{count} WHERE age > 3"), batch.sql(count)]
            for each, weight in zip(pending, (1000, 1), strict=True):
                for name in ("weight", "_weight"):
                    setattr(each, name, Fraction(weight))
        records = [x.answer.record() for x in pending]
        scales = {str(part["law"]["scale"]) for record in records for part in record["parts"]}
        if scales != {"2"}:
            yield "weights that were set after the check are used"
        yield from _second_policy()

    return _free("ways around the road", run)


def _second_policy() -> Iterator[str]:
    """Two budgets over one file."""
    table = pol.Table("people", [pol.Integer("age", 0, 100)])
    first, second = (pol.Policy([table], pol.Budget("1"), name=n) for n in ("fuzz a", "fuzz b"))
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = folder  # the list of claims is not for made-up files
        try:
            ledger.claim([f"{folder}/people.parquet"], first)
            fresh = accepted(lambda: ledger.claim([f"{folder}/people.parquet"], second))
        finally:
            os.environ.pop("XDG_STATE_HOME")
            os.environ |= {"XDG_STATE_HOME": before} if before is not None else {}
        if fresh:
            yield "another policy's name over the same file is a fresh budget"


_MORE = ("age FROM people JOIN people AS b ON TRUE --", "age, age", "SUM(age)",
         "age) AS c0, COUNT(*) AS n FROM t GROUP BY 1 --")  # fmt: skip


def _tests(_rng: random.Random) -> Probe:
    """Column texts of a curated test that carry more than a column."""
    from discreet import inference  # noqa: PLC0415 - only for this probe

    def run(curator: Curator) -> Iterator[str]:
        stats = sys.modules.get("scipy.stats")
        if stats is None:  # only SciPy's own tests may run, and this package does not load them
            return

        def ask(text: str) -> object:
            options = {"popmean": 0}
            return inference.curated_test(
                curator, stats.ttest_1samp, text, epsilon=1, options=options
            )

        for more in _MORE:
            if accepted(partial(ask, more)):
                yield f"a curated test takes {more!r} for a column"

    return _free("curated tests of more than a column", run)
