"""Progress on a terminal, for what takes more than a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 1.0


class Bar:
    """Steps of something under way; shows itself after a second, if anybody looks."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._steps = what, total, 0
        self._progress: Any = None
        self._task: Any = None
        self._lock = threading.Lock()

    def step(self, what: str) -> None:
        """Say what is being done now; what was done before is over."""
        with self._lock:
            self._what, self._steps = what, self._steps + 1
            if self._progress is not None:
                self._progress.update(self._task, completed=self._steps - 1, description=what)

    def show(self) -> None:
        """Draw the bar."""
        from rich.console import Console  # noqa: PLC0415 - loads on first use
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - the same

        with self._lock:
            progress = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = progress.add_task(self._what, total=self._total)
            progress.start()
            self._progress = progress

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            if self._progress is not None:
                self._progress.stop()


_BUSY = threading.local()


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Bar]:
    """Show a bar on standard error while the block runs, if that is a terminal.

    How long something takes is seen by whoever waits anyway: the bar adds labels and numbers
    of questions, which are public.
    """
    bar = Bar(what, total)
    # only the outermost block draws, and only for people
    if getattr(_BUSY, "on", False) or not sys.stderr.isatty():
        yield bar
        return
    _BUSY.on = True
    timer = threading.Timer(_PATIENCE, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()
        bar.close()
        _BUSY.on = False
