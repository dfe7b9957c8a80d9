"""Threads that outlive their work: writers' errands and the watch over time limits."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

from discreet import _errand
from discreet._errand import Errand
from discreet.engines import _limit
from discreet.engines._limit import time_limit

pytestmark = pytest.mark.races


def ended(errand):
    while errand.is_alive():
        time.sleep(0.001)


def test_one_thread_runs_one_errand_after_another():
    threads = set()

    def work():
        threads.add(threading.get_ident())

    for _ in range(20):
        errand = Errand(work)
        assert not errand.is_alive()  # nobody has it
        errand.start()
        ended(errand)
        while not _errand._IDLE:  # its thread comes back
            time.sleep(0.001)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_errands_at_the_same_time_have_a_thread_each():
    barrier = threading.Barrier(5, timeout=120)
    errands = [Errand(barrier.wait) for _ in range(4)]
    for errand in errands:
        errand.start()
    barrier.wait()
    for errand in errands:
        ended(errand)


def test_what_fails_is_over_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    errand, done = Errand(lambda: 1 / 0), threading.Event()
    errand.start()
    ended(errand)
    Errand(done.set).start()
    assert done.wait(10)


@pytest.mark.parametrize(
    "end",
    [
        "Errand(work).start()",
        "multiprocessing.get_context('fork').Process(target=Errand(work).start).start()",
    ],
    ids=["a program's", "a child's"],
)
def test_an_exit_waits_for_what_was_handed_over(tmp_path, end):
    """A daemon alone would be stopped while it writes."""
    path = tmp_path / "written"
    code = (
        "import multiprocessing, pathlib, sys, time\n"
        "from discreet._errand import Errand\n"
        "def work():\n"
        "    time.sleep(0.5)\n"
        "    pathlib.Path(sys.argv[1]).write_text('done')\n"
        f"{end}\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    assert path.read_text() == "done"


def test_nothing_is_handed_to_a_thread_that_was_told_to_end(tmp_path):
    """The exit begins while another thread is between the look at it and the hand-over."""
    path = tmp_path / "written"
    code = (
        "import pathlib, sys, threading, time\n"
        "from discreet import _errand\n"
        "real, looked = _errand._exiting, threading.Event()\n"
        "class Slow:\n"
        "    set = real.set\n"
        "    def is_set(self):\n"
        "        ends = real.is_set()\n"
        "        if threading.current_thread().name == 'late':\n"
        "            looked.set()\n"
        "            time.sleep(1)\n"
        "        return ends\n"
        "_errand.Errand(lambda: None).start()\n"
        "while not _errand._IDLE:\n"
        "    time.sleep(0.001)\n"
        "_errand._exiting = Slow()\n"
        "late = _errand.Errand(lambda: pathlib.Path(sys.argv[1]).write_text('done'))\n"
        "threading.Thread(target=late.start, name='late').start()\n"
        "looked.wait()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    assert path.read_text() == "done"


def test_after_the_exit_has_begun_there_are_no_more_threads(monkeypatch):
    over = threading.Event()
    over.set()
    monkeypatch.setattr(_errand, "_exiting", over)
    with pytest.raises(RuntimeError):
        Errand(over.set).start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_begins_anew():
    Errand(lambda: None).start()
    with time_limit(lambda: None, 100):
        pass
    child = os.fork()
    if child == 0:
        code, done, fired = 1, threading.Event(), threading.Event()
        try:
            Errand(done.set).start()
            with time_limit(fired.set, 0.01):
                code = 0 if done.wait(10) and fired.wait(10) else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_limit_cancels_again_where_cancelling_has_failed():
    """A server that was not reached once left its question without a limit."""
    fired = []

    def interrupt():
        fired.append(1)
        raise ConnectionError

    with time_limit(interrupt, 0.01):
        until = time.monotonic() + 60
        while len(fired) < 3 and time.monotonic() < until:
            time.sleep(0.001)
    assert len(fired) >= 3


def test_a_limit_cancels_again_and_again_until_the_end():
    fired = []
    with time_limit(lambda: fired.append(1), 0.01):
        while len(fired) < 3:
            time.sleep(0.001)
    number = len(fired)
    time.sleep(3 * _limit._AGAIN)
    assert len(fired) == number  # nothing cancels what comes after it


def test_nothing_of_a_question_outlives_it():
    """A connection that the watch still knew would be open at the interpreter's exit."""

    class Connection:
        def __init__(self):
            self.cancelled = threading.Event()

        def interrupt(self):
            self.cancelled.set()

    for seconds in (0.01, 100):
        connection = Connection()
        with time_limit(connection.interrupt, seconds):
            assert seconds > 1 or connection.cancelled.wait(10)
        gone = weakref.ref(connection)
        del connection
        gc.collect()
        assert gone() is None


def test_questions_in_time_are_not_cancelled_and_share_one_thread():
    fired = []
    with time_limit(lambda: fired.append(1), 100):
        before = threading.active_count()
        for _ in range(20):
            with time_limit(lambda: fired.append(2), 100), time_limit(lambda: None, 50):
                assert threading.active_count() == before
    assert fired == []
    assert not _limit._watch._running


def test_a_shorter_limit_wakes_the_watch_that_sleeps_longer():
    short, other = threading.Event(), []
    with time_limit(lambda: other.append(1), 1000), time_limit(short.set, 0.01):
        assert short.wait(10)
    assert other == []


def test_a_limit_that_hangs_while_it_cancels_holds_up_no_other():
    held, second = threading.Event(), threading.Event()
    with time_limit(second.set, 0.05):
        try:
            with time_limit(lambda: held.wait(10), 0.01):
                assert second.wait(10)
                held.set()
        finally:
            held.set()


def test_without_another_thread_a_limit_is_tried_again(monkeypatch):
    fired, tries, real = threading.Event(), [], _limit._Limit.run_out

    def first(limit):
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("can't start new thread")
        real(limit)

    monkeypatch.setattr(_limit._Limit, "run_out", first)
    with time_limit(fired.set, 0.01):
        assert fired.wait(10)
    assert len(tries) == 2
