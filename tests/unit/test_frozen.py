"""What a ledger hands out is what debits are admitted by: nobody can change it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import pytest

import discreet
from discreet._canonical import canonical
from discreet._frozen import Frozen, freeze
from discreet.ledger._state import _STATES, State, after

POLICY = """
[policy]
name = "people"
[budget]
epsilon = "1"
shares = {{ ann = "0.5" }}
[tables.p]
source = "{source}"
unit = "id"
max_rows_per_unit = 1
[tables.p.columns]
age = {{ type = "integer", min = 0, max = 115 }}
"""


@pytest.fixture
def curator(tmp_path):
    (tmp_path / "p.csv").write_text("id,age\n" + "".join(f"u{i},{i}\n" for i in range(50)))
    (tmp_path / "p.toml").write_text(POLICY.format(source="p.csv"))
    with discreet.open(policy=str(tmp_path / "p.toml"), analyst="ann") as opened:
        opened.sql("SELECT COUNT(*) FROM p", epsilon="0.1")
        opened.ledger.consent("others")
        yield opened


def changeable(value, path="it"):
    """Name every part that its holder can change."""
    if isinstance(value, dict | list | set | bytearray):
        yield path
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from changeable(inner, f"{path}[{name!r}]")
    elif isinstance(value, tuple | list | set | frozenset):
        for inner in value:
            yield from changeable(inner, f"{path}[…]")
    elif is_dataclass(value):
        for part in fields(value):
            yield from changeable(getattr(value, part.name), f"{path}.{part.name}")


def test_no_part_of_what_a_ledger_hands_out_can_be_changed(curator):
    ledger = curator.ledger
    with ledger.glance() as head:
        out = [head.content, ledger.view]
    out += [ledger.state, ledger.state.limits, ledger.units, ledger.balance(), ledger.lines]
    out += [ledger.standing(curator.policy, "ann"), curator.budget, curator.policy.budget]
    assert [path for given in out for path in changeable(given)] == []
    remembered = [state for state in _STATES._memory[0].values() if state.policy == "people"]
    assert remembered
    assert [path for state in remembered for path in changeable(state)] == []


def test_debits_are_admitted_by_the_budget_on_record(curator):
    with pytest.raises(TypeError):
        curator.ledger.state.caps["epsilon"] = "1000/1"
    with pytest.raises(AttributeError):
        curator.ledger.state.spent.clear()
    with pytest.raises(TypeError):
        curator.ledger.state.budget["shares"]["ann"] = "1/1"
    with pytest.raises(TypeError):
        curator.ledger.standing(curator.policy, "ann").balances[0].amounts["epsilon"] = (0, 10)
    with pytest.raises(discreet.errors.BudgetExceededError):
        curator.sql("SELECT COUNT(*) FROM p WHERE age < 5", epsilon="0.6")


def test_a_state_keeps_nothing_that_its_maker_holds():
    body = {"policy": "p", "format": 5, "caps": {"epsilon": "1/1"},
            "budget": {"epsilon": "1/1", "shares": {"ann": "1/2"}}}  # fmt: skip
    state = after(None, "open", body)
    body["caps"]["epsilon"] = body["budget"]["shares"]["ann"] = "9/1"
    assert (state.caps["epsilon"], state.budget["shares"]["ann"]) == ("1/1", "1/2")
    units = {"t": ["add-remove", "id"]}
    state = after(state, "consent", {"policy": "others", "units": units})
    units["t"][1] = "other"
    assert state.guests["others"]["t"] == ("add-remove", "id")
    waiting = {"2": "h"}
    state = after(state, "format", {"format": 5, "open": waiting})
    waiting.clear()
    assert state.open == {"2": "h"}


def test_copies_and_pickles_are_equal_and_spelled_alike(curator):
    for given in (curator.ledger.state, curator.budget):
        for again in (copy.copy(given), copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
            assert again == given
            assert list(changeable(again)) == []
    text = curator.ledger.state.to_text()
    assert State.from_text(text).to_text() == text
    assert pickle.loads(pickle.dumps(curator.ledger.state)).to_text() == text
    assert pickle.loads(pickle.dumps(curator.ledger)).state == curator.ledger.state


def test_frozen_data_are_spelled_as_before():
    data = {"b": [1, {"z": None, "a": ["x", True]}], "a": {}}
    frozen = freeze(data)
    assert canonical(frozen) == frozen.spelled == canonical(data)
    assert frozen["b"][1]["a"] == ("x", True)
    with pytest.raises(AttributeError):
        frozen._items = {}
    with pytest.raises(AttributeError):
        del frozen._items
    assert isinstance(freeze(frozen), Frozen)
