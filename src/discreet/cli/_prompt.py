"""``discreet ask`` on a terminal: a prompt with history that never spends unasked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet.cli import _answers
from discreet.cli._console import clean, facts, refusal, say, stdout, working
from discreet.cli._outcome import Reply, exit_code, hint_line, word_for
from discreet.cli._session import Where, whoever
from discreet.errors import DiscreetError
from discreet.plan import CALLS, FUNCTIONS

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.curator import Curator
    from discreet.service import Remote

_HISTORY: Final = 1000
_HELP: Final = (
    ("SELECT …;", "price a question, then ask it if you say yes"),
    (r"\epsilon 0.5", "what a question may cost from now on; also \\delta, \\rho, \\confidence"),
    (r"\preview SELECT …;", "only the price"),
    (r"\tables", "tables and columns"),
    (r"\budget", "what is left"),
    (r"\help, \quit", "this, and the end (also Ctrl-D)"),
)
_COMMANDS: Final = (
    "\\budget", "\\confidence", "\\delta", "\\epsilon", "\\help", "\\preview", "\\quit", "\\rho",
    "\\tables",
)  # fmt: skip
_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "COUNT(*)", "JOIN",
    "COUNT(DISTINCT", "AND", "OR", "NOT", "BETWEEN", "IN (", "AS", "CASE", "WHEN", "THEN", "ELSE",
    "END", "DESC",
)  # fmt: skip


def run(where: Where, offer: dict[str, Any]) -> Reply:
    """Talk until the user leaves."""
    console = stdout()
    count = 0
    with whoever(where, spend=True) as opened, _line_editing(opened):
        say(console, f"{where.path}: {opened.budget!r}")
        say(console, r"End a question with ; — \help says more, Ctrl-D leaves.", "dim")
        session = _Session(console, opened, dict(offer))
        for text in _statements(input):
            if text in (r"\quit", r"\q"):
                break
            try:
                count += session.handle(text)
            except DiscreetError as error:
                refusal(error.message, hint_line(error.hint), word_for(exit_code(error)))
            except KeyboardInterrupt as stop:
                message = "interrupted; what was debited is not refunded"
                say(console, str(stop) or message, "yellow")
    return Reply({"asked": count}, lambda _: None)


class _Session:
    """One conversation: where questions go and what they may cost."""

    def __init__(self, console: Console, opened: Curator | Remote, offer: dict[str, Any]) -> None:
        self.console = console
        self.curator = opened
        self.offer = offer

    def handle(self, text: str) -> int:
        """Do what one statement says; return how many questions were paid for."""
        if not text.startswith("\\"):
            return self._ask(text)
        command, _, rest = text[1:].partition(" ")
        rest = rest.strip()
        match command:
            case "epsilon" | "delta" | "rho" | "confidence":
                self._set(command, rest)
            case "preview":
                say(self.console, repr(self.curator.preview(rest.rstrip("; "), **self.offer)))
            case "tables":
                for table in self.curator.policy.tables.values():
                    facts(self.console, [(table.name, ", ".join(table.columns))])
            case "budget":
                say(self.console, repr(self.curator.budget))
            case _:
                facts(self.console, _HELP)
        return 0

    def _set(self, name: str, value: str) -> None:
        self.offer[name] = value or ("0.95" if name == "confidence" else None)
        if name in ("epsilon", "rho"):
            self.offer[{"epsilon": "rho", "rho": "epsilon"}[name]] = None
        say(self.console, f"{name} is {self.offer[name]}", "dim")

    def _ask(self, text: str) -> int:
        quote = self.curator.preview(text, **self.offer)
        margins = ", ".join(f"{name} {margin}" for name, margin in quote.error().items())
        level = f"{100 * quote.confidence:.4g} %"
        free = bool(getattr(quote, "stored", False))
        cost = "free" if free else quote.price
        say(self.console, f"cost {cost}; expected error at {level}: {margins}")
        say(self.console, quote.left, "dim")
        if free:
            say(self.console, "answered before: free", "dim")
        elif refused := getattr(quote, "refused", None):
            say(self.console, f"would be refused: {refused}", "yellow")
        elif getattr(quote, "needs_approval", False):
            say(self.console, "would wait for an owner's decision", "yellow")
        if not free and not _yes("Ask and pay? [y/N] "):
            return 0
        with working("asking…"):
            answer = self.curator.sql(text, **self.offer)
        _answers.show(self.console, answer, str(self.offer["confidence"]))
        return 1


def _yes(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _statements(read: Callable[[str], str]) -> Iterator[str]:
    r"""Collect lines into statements: SQL ends at ``;``, a command at its line's end.

    >>> lines = iter(["SELECT COUNT(*) AS n", "FROM people;", r"\budget"])
    >>> list(_statements(lambda _: next(lines, None) or (_ for _ in ()).throw(EOFError)))
    ['SELECT COUNT(*) AS n\nFROM people', '\\budget']
    """
    lines: list[str] = []
    while True:
        try:
            line = read("discreet> " if not lines else "     ...> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            lines = []
            continue
        if not lines and (not line.strip() or line.lstrip().startswith("\\")):
            if line.strip():
                yield clean(line.strip())
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines).rstrip().rstrip(";")
            lines = []


@contextlib.contextmanager
def _line_editing(opened: Curator | Remote) -> Iterator[None]:
    """History and completion where the platform has them; the history is the user's own."""
    try:
        import readline  # noqa: PLC0415 - absent on some platforms
    except ImportError:
        yield
        return
    complete = _completer(opened, readline.get_line_buffer)

    path = _history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY)
    readline.set_completer(complete)
    # a backslash begins a command; a dot stands between a table and its column
    readline.set_completer_delims(" \t\n,()=<>+-*/%;")
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(path)
            path.chmod(0o600)


def _completer(
    opened: Curator | Remote, line: Callable[[], str]
) -> Callable[[str, int], str | None]:
    """Complete commands, tables after FROM and JOIN, and elsewhere columns and words of SQL."""
    tables = {t.name: sorted(t.columns) for t in opened.policy.tables.values()}
    columns = sorted({c for own in tables.values() for c in own})
    words = sorted({*_WORDS, *(f"{name}(" for name in (*CALLS, *FUNCTIONS) if name.isupper())})

    def choices(text: str) -> list[str]:
        before = line().upper().split()
        if text.startswith("\\"):
            return list(_COMMANDS)
        last = before[-1] if line()[-1:].isspace() else before[-2:-1] and before[-2]
        if last in ("FROM", "JOIN"):
            return list(tables)
        table, dot, _ = text.partition(".")
        if dot:
            return [f"{table}.{c}" for c in tables.get(table, columns)]
        return [*columns, *tables, *words]

    def complete(text: str, state: int) -> str | None:
        fitting = [c for c in choices(text) if c.lower().startswith(text.lower())] if text else []
        return fitting[state] if state < len(fitting) else None

    return complete


def _history_file() -> Path:
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    home = folder if folder.is_absolute() else Path.home() / ".local" / "state"
    return home / "discreet" / "history"
