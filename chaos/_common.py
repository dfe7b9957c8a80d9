"""Ledgers to harm, and how what is left of them is judged."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from discreet import errors, ledger
from discreet import policy as pol
from discreet.ledger import _sqlite
from discreet.plan import Cost

NAME = "people"


@dataclass
class Row:
    """One line of the table."""

    fault: str
    tried: int = 0
    lost: int = 0
    doubled: int = 0
    undetected: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.undetected)

    def note(self, kind: str, what: object) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.said) < 5:
            self.said.append(f"{kind}: {what}")

    def __str__(self) -> str:
        more = "; ".join(self.said)
        return (f"| {self.fault} | {self.tried} | {self.lost} | {self.doubled} | "
                f"{self.undetected} |{f' {more}' if more else ''}")  # fmt: skip


def policy(epsilon: str = "100000", name: str = NAME) -> pol.Policy:
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    return pol.Policy([table], pol.Budget(epsilon), name=name)


def entry(plan: str, epsilon: str = "1", name: str = NAME, key: str | None = None) -> ledger.Entry:
    e = Fraction(epsilon)
    cost = Cost(e, Fraction(0), e * e / 2, Fraction(0))
    return ledger.Entry(
        policy=name, fingerprint="f", analyst=None, plan=plan, cost=cost, noise="laplace",
        neighbours="add-remove", unit=None, tables=("people",), source="s", key=key,
    )  # fmt: skip


@contextmanager
def place(state: str = "state") -> Iterator[Path]:
    """A folder in memory, with a state directory of its own."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=base))
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder / state)
    try:
        yield folder
    finally:
        forget_connections()
        shutil.rmtree(folder, ignore_errors=True)
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


def forget_connections() -> None:
    """The file under the name is another one now."""
    _sqlite._IDLE.clear()


def filled(path: Path, settled: int) -> ledger.ChainedLedger:
    """A ledger with settled questions, one failed and one open."""
    book = ledger.open_ledger(path, policy())
    for i in range(settled):
        book.settle(book.debit(entry(f"q{i}", key=f"k{i}")), f'["answer {i}"]')
    book.settle(book.debit(entry("failed", key="failed")), None)
    book.debit(entry("open", key="open"))
    return book


def images(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its relative name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def put_back(folder: Path, files: dict[str, bytes]) -> None:
    """Make a folder hold exactly these files."""
    forget_connections()
    for p in [p for p in folder.rglob("*") if p.is_file()]:
        if str(p.relative_to(folder)) not in files:
            p.unlink()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


REFUSALS = (errors.LedgerError,)


def fork() -> int:
    """Start a child that never closes what its parent holds: native handles do not survive it."""
    pid = os.fork()
    if pid == 0:
        gc.freeze()
    return pid
