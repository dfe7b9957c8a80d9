"""What a stranger proved against the auditors and the lab: each fault, planted again, is found.

Every check is exact, or draws from fixed seeds: the false-alarm probability is 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet import audit, lab, ledger
from discreet import policy as pol
from discreet.audit import _certificate, _engine_kit, _ledger_kit
from discreet.engines import Reference
from discreet.lab import _tabular
from discreet.plan import JoinPublic, JoinUnit, PerUnit, Salt, _keys, _picks, _price, _vectors


def reference(tables, _policy):
    return Reference(tables)


def policy(*columns, **choices):
    """One private table of people with three rows at most."""
    limits = {"unit": "id", "max_rows_per_unit": 3} | choices
    return pol.Policy([pol.Table("visits", columns, **limits)], pol.Budget("1", delta="1e-6"))


SEX, TOWN = pol.Category("sex", ["F", "M", "X"]), pol.Text("town")


# -- A1, A2: debits ---------------------------------------------------------------------------


def _narrow_choice(original):
    def priced(self, rule):
        found = original(self, rule)
        return replace(found, law=replace(found.law, sensitivity=1))

    return priced


def _half(original):
    def charge(*args):
        cost = original(*args)
        return replace(cost, epsilon=cost.epsilon / 2, rho=cost.rho / 4)

    return charge


def _wide(original):
    def loss(law, *rest):
        return original(replace(law, scale=law.scale * 2) if hasattr(law, "scale") else law, *rest)

    return loss


def _unknown(original):
    def priced(self, rule):
        return replace(original(self, rule), law=object())

    return priced


DEBITS = {
    "no threshold": (TOWN, _keys.WeightedKeys, "threshold", lambda *_: lambda *_: 0),
    "scores of one row": (SEX, _picks.Pick, "price", _narrow_choice),
    "half the debit": (SEX, _price, "charge", _half),
    "half the loss": (SEX, _vectors, "loss_of", _wide),
    "a law that nobody knows": (SEX, _picks.Pick, "price", _unknown),
}


@pytest.fixture
def few(monkeypatch):
    """Ask MODE and counts only."""
    monkeypatch.setattr(_certificate, "_statistics", lambda c: [f"MODE({c})"])
    monkeypatch.setattr(_certificate, "_functions", lambda *_: [])


def plant(monkeypatch, fault):
    column, where, name, make = DEBITS[fault]
    monkeypatch.setattr(where, name, make(getattr(where, name)))
    return policy(column)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("column", [SEX, TOWN])
@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
def test_an_honest_debit_passes(column, neighbours):
    found = audit.certify(policy(column, neighbours=neighbours), pairs=1, connect=reference)
    assert found.ok, found


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("fault", DEBITS)
def test_no_certificate_for_a_debit_that_is_too_small(fault, monkeypatch):
    asked = plant(monkeypatch, fault)
    assert not audit.certify(asked, pairs=1, connect=reference).ok


@pytest.mark.parametrize("fault", DEBITS)
def test_fuzzing_finds_a_debit_that_is_too_small(fault, monkeypatch):
    asked = plant(monkeypatch, fault)
    assert not audit.fuzz(asked, seeds=range(12), connect=reference).ok


# -- A3: joins of three tables ------------------------------------------------------------------


@pytest.mark.usefixtures("few")
def test_a_fan_out_that_only_a_third_table_shows_is_found(monkeypatch):
    by = {"unit": "id"}
    tables = [
        pol.Table("visits", [SEX], max_rows_per_unit=2, **by),
        pol.Table("stays", [pol.Boolean("icu")], max_rows_per_unit=3, **by),
        pol.Table("shops", [SEX, pol.Integer("w", 0, 3)], public=True),
    ]
    asked = pol.Policy(tables, pol.Budget("1", delta="1e-6"))
    assert audit.certify(asked, connect=reference).ok
    monkeypatch.setattr(
        JoinPublic, "most", lambda self, names: self.below.most(names & self.below.schema.keys())
    )
    found = audit.certify(asked, connect=reference)
    assert {row.column for row in found.rows if row.reached > 1} == {"⋈ visits ⋈ shops"}


# -- A13, A14: kits for engines and ledgers -------------------------------------------------------


class Unsalted(Reference):
    """Mutant: the key of the limits is a constant of the engine."""

    def execute(self, aggregate, salt):
        del salt
        return super().execute(aggregate, Salt(b"conformance"))


class Crowded(Reference):
    """Mutant: what is folded or joined within units is wrong."""

    def execute(self, aggregate, salt):
        groups = super().execute(aggregate, salt)
        odd = any(isinstance(n, JoinUnit | PerUnit) for n in aggregate.relation.nodes)
        return {k: tuple(n + odd for n in ns) for k, ns in groups.items()}


class Moody(Reference):
    """Mutant: asked again, another answer."""

    def execute(self, aggregate, salt):
        now, before = (aggregate.hash, salt), getattr(self, "before", set())
        self.before = before | {now}
        groups = super().execute(aggregate, salt)
        return {k: tuple(n + (now in before) for n in ns) for k, ns in groups.items()}


class Leaky(Reference):
    """Mutant: tells texts of any table."""

    def values(self, public, column, most):
        return sorted({str(r[column]) for r in self._tables[public.table.name] if r[column]})[:most]


@pytest.mark.parametrize(
    ("engine", "checks"),
    [
        (Reference, set()),
        (Unsalted, {"salts", "repeats"}),
        (Crowded, {"per unit", "private joins"}),
        (Moody, {"repeats"}),
        (Leaky, {"private values"}),
    ],
)
def test_the_kit_tells_engines_apart(engine, checks, monkeypatch):
    cases = [c for c in _engine_kit.cases() if c.check in ("per unit", "private joins")]
    monkeypatch.setattr(_engine_kit, "_cases", lambda: tuple(cases))
    monkeypatch.setattr(_engine_kit, "_expected", _engine_kit._expected.__wrapped__)
    report = audit.check_engine(lambda held, _: engine(held.rows), rows=60)
    assert {c.name for c in report.failures} == checks, report


class Proxy:
    """A ledger of ours, seen through somebody else's hands."""

    def __init__(self, policy):
        self.inner = ledger.open_ledger(":memory:", policy)

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Negative(Proxy):
    """Mutant: a negative amount counts as none."""

    def debit(self, entry):
        cost = entry.cost
        least = {n: max(getattr(cost, n), 0) for n in cost.__dataclass_fields__ if n != "epsilon"}
        return self.inner.debit(replace(entry, cost=replace(cost, **least)))


class Short(Proxy):
    """Mutant: outcomes are cut."""

    def settle(self, receipt, record):
        return self.inner.settle(receipt, record and record[:1000])


class Sure(Proxy):
    """Mutant: every question would be free."""

    def knows(self, _entry):
        return True


class Mixed(Proxy):
    """Mutant: any question finds the last answer."""

    last = None

    def settle(self, receipt, record):
        self.last = replace(receipt, stored=self.inner.settle(receipt, record))
        return self.last.stored

    def found(self, _entry):
        return self.last


@pytest.mark.parametrize(
    ("book", "check"),
    [(Negative, "refusals"), (Short, "lookups"), (Sure, "lookups"), (Mixed, "lookups")],
)
def test_the_kit_tells_ledgers_apart(book, check, monkeypatch):
    kept = [c for c in _ledger_kit._CHECKS if c.__name__ in ("_refusals", "_lookups", "_stored")]
    monkeypatch.setattr(_ledger_kit, "_CHECKS", tuple(kept))
    assert audit.check_ledger().ok
    books = {}
    report = audit.check_ledger(lambda p: books.setdefault(p.name, book(p)))
    assert check in {c.name for c in report.failures}, report


# -- C: the lab's older methods -------------------------------------------------------------------


def pinned(matrix, blank):
    """Sensitive blank cells for which linear programs leave one value."""
    shown = np.where(blank, np.nan, matrix)
    low, high = _tabular.cell_bounds(shown, matrix.sum(axis=1), matrix.sum(axis=0))
    return blank & (matrix > 0) & (matrix < 3) & (high - low < 1e-6)


def sparse_tables():
    yield np.array([[13, 6, 2, 1], [5, 0, 0, 0], [2, 0, 0, 0], [2, 0, 0, 0]], dtype=float)
    for seed in range(40):
        drawn = np.random.default_rng(seed)
        people = drawn.choice(4, (2, int(drawn.integers(8, 40))), p=[0.6, 0.2, 0.1, 0.1])
        yield np.histogram2d(*people, bins=(np.arange(5), np.arange(5)))[0]


def test_blank_cells_are_hidden_wherever_blanks_can_hide_them():
    before = 0
    for matrix in sparse_tables():
        small = (matrix > 0) & (matrix < 3)
        left = pinned(matrix, _tabular.secondary(small, matrix))
        # what stays fixed is fixed even if nothing but totals is shown
        assert not (left & ~pinned(matrix, np.ones_like(small))).any(), matrix
        lines = small.copy()
        while _tabular._accompanied(lines, matrix):
            pass
        before += pinned(matrix, lines).sum() > left.sum()
    assert before  # the blanks that lines alone ask for do not do it


def test_a_share_of_people_is_swapped():
    town = lab.town()
    for rate in (0.1, 0.5):
        release = lab.swap(town, rate, generator=np.random.default_rng(1))
        moved = (release.records.low[:, 0] != town.codes[:, 0]).sum()
        assert moved == 2 * round(rate * len(town) / 2)


def test_words_are_whole_and_shares_exact():
    logs = [(1, "start the party"), (1, "warmly yours")]
    assert lab.link_logs(logs, {"X": ["art", "arm"]}) == {}
    assert lab.link_logs(logs, {"X": ["party", "warmly yours"]}) == {1: "X"}
    assert lab.tracing([1000], range(100), fpr=0.29).fpr == 0.29
