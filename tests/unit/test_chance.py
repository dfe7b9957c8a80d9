"""The suite is not a coin: noise repeats itself, and what does not states its false alarms."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading

import pytest

from discreet import noise


@pytest.fixture
def rules(request):
    """The root conftest, which holds the rules."""
    (found,) = [
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if hasattr(plugin, "FALSE_ALARMS")
    ]
    return found


class Item:
    """A collected test with markers."""

    nodeid = "tests/unit/test_chance.py::test"

    def __init__(self, **markers):
        self.markers = {name: getattr(pytest.mark, name)(*args) for name, args in markers.items()}

    def get_closest_marker(self, name):
        found = self.markers.get(name)
        return None if found is None else found.mark


def test_noise_is_a_function_of_the_test_unless_it_is_fresh(request, rules):
    expected = rules._SameEachTime(request.node.nodeid).words(4)
    assert bool((noise.random_words(4) == expected).all()) is not rules.FRESH


@pytest.fixture(scope="module")
def shared():
    """Noise that several tests look at."""
    return noise.random_words(4)


def test_noise_of_a_shared_fixture_is_a_function_of_its_name(shared, rules):
    expected = rules._SameEachTime("tests/unit/test_chance.py::shared[0]").words(4)
    assert bool((shared == expected).all()) is not rules.FRESH


@pytest.mark.fresh(2.0**-250)
def test_a_test_that_asks_for_it_gets_fresh_entropy(request, rules):
    expected = rules._SameEachTime(request.node.nodeid).words(4)
    assert not (noise.random_words(4) == expected).all()


def test_a_suite_that_fails_too_often_by_chance_does_not_run(rules):
    rules.pytest_collection_modifyitems([Item(fresh=(1e-7,))] * 9 + [Item()] * 1000)
    rules.pytest_collection_modifyitems([Item(fresh=(1e-3,), long=())])
    with pytest.raises(pytest.UsageError, match="false alarms"):
        rules.pytest_collection_modifyitems([Item(fresh=(1e-7,))] * 11)


def test_this_suite_states_less_than_a_millionth(request, rules):
    items = [i for i in request.session.items if not i.get_closest_marker("long")]
    assert math.fsum(map(rules.false_alarm, items)) <= rules.FALSE_ALARMS


def _helpers(count):
    gate = threading.Barrier(count + 1)
    threads = [threading.Thread(target=gate.wait) for _ in range(count)]
    for thread in threads:
        thread.start()
    gate.wait()
    for thread in threads:
        thread.join()


RACES = {
    "threading.Thread": lambda: _helpers(2),
    "subprocess.Popen": lambda: subprocess.run([sys.executable, "-S", "-c", ""], check=True),
    "os.kill": lambda: os.kill(os.getpid(), 0),
}


@pytest.mark.races
@pytest.mark.parametrize("event", RACES)
def test_what_races_must_say_so(rules, event):
    assert not rules.unmarked(Item())
    RACES[event]()
    assert event in rules._raced
    assert rules.unmarked(Item()) is not rules.FRESH
    assert not rules.unmarked(Item(races=()))


def test_one_helper_that_is_waited_for_is_no_race(rules):
    _helpers(1)
    _helpers(1)
    assert not rules._raced
