"""How a command ends: one envelope, one exit code, never a traceback.

Everything a command says goes through :func:`deliver`. Refusals are printed as
the error tree writes them (message, hint), which never depend on private data.
An exception from outside the tree could, so nothing of it is printed: its
traceback appears only if the owner sets ``DISCREET_TRACEBACK=1``.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from discreet import errors
from discreet._canonical import plain
from discreet._dataclass import dataclass
from discreet._log import log_file, note
from discreet._text import json_safe

if TYPE_CHECKING:
    from rich.console import Console


class Exit(IntEnum):
    """Exit codes; part of the interface (``discreet --help``, docs/cli.md)."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    BUDGET = 3
    POLICY = 4
    ENGINE = 5
    LEDGER = 6
    FOUND = 7
    WAITS = 8
    INTERNAL = 70
    INTERRUPTED = 130


MEANING: Final[Mapping[Exit, str]] = {
    Exit.OK: "done",
    Exit.REFUSED: "refused: the question cannot be asked or stated like this",
    Exit.USAGE: "usage: an option, number or file that cannot be used",
    Exit.BUDGET: "budget: the price exceeds what is left",
    Exit.POLICY: "policy: it cannot be used, or the data do not fit it",
    Exit.ENGINE: "engine: the query failed; why is not disclosed, and the price is not refunded",
    Exit.LEDGER: "ledger: it cannot record, or is not what it was",
    Exit.FOUND: "found: an audit has a counterexample, or its own verdict was wrong",
    Exit.WAITS: "waits: an owner decides about the question before it is paid for",
    Exit.INTERNAL: "internal: a defect of discreet",
    Exit.INTERRUPTED: "interrupted from the keyboard",
}

# the first class that fits decides, so children stand before their parents
_CODES: Final[tuple[tuple[type[errors.DiscreetError], Exit], ...]] = (
    (errors.BudgetExceededError, Exit.BUDGET),
    (errors.PolicyError, Exit.POLICY),
    (errors.SchemaError, Exit.POLICY),
    (errors.EngineError, Exit.ENGINE),
    (errors.LedgerError, Exit.LEDGER),
    (errors.AwaitsOwnerError, Exit.WAITS),
    (errors.ParameterError, Exit.USAGE),
    (errors.DiscreetError, Exit.REFUSED),
)

# parameters of the library that are options here, under the same name
OPTIONS: Final = frozenset(
    {
        "analyst",
        "epsilon",
        "delta",
        "rho",
        "within",
        "confidence",
        "ledger",
        "fresh",
        "neighbours",
        "policy",
        "key",
    }
)


class UsageError(errors.ParameterError):
    """Arguments that cannot be used together, or a file that cannot be read or written."""

    code = "usage"


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a command: as data, or a function that makes them, and as a sight."""

    data: Any
    show: Callable[[Console], None]
    found: bool = False
    """Whether the command looked for faults and found one: that is an exit code of its own."""


def deliver(command: str, work: Callable[[], Reply], *, as_json: bool) -> None:
    """Run a command and print its reply, or its refusal, in one form."""
    from discreet.cli._console import stdout  # noqa: PLC0415 - rich is not needed for --help

    try:
        reply = work()
        if as_json:
            print_json(
                {
                    "ok": True,
                    "command": command,
                    "result": reply.data() if callable(reply.data) else reply.data,
                }
            )
        else:
            reply.show(stdout())
        found = reply.found
    except (typer.Exit, typer.Abort, typer.TyperException, BrokenPipeError):
        raise
    except errors.DiscreetError as error:
        _refuse(error, as_json=as_json)
    except KeyboardInterrupt as stop:
        interrupted(stop, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - whatever it says could depend on the data
        note("internal", error, command=command)
        if os.environ.get("DISCREET_TRACEBACK") == "1":
            traceback.print_exc()
        fail(
            Exit.INTERNAL,
            "internal",
            "discreet has failed in a way it should not; the cause is not shown, because it "
            f"could depend on the data{_where()}",
            "export DISCREET_TRACEBACK=1",
            as_json=as_json,
        )
    if found:
        raise typer.Exit(Exit.FOUND)


def interrupted(stop: BaseException, *, as_json: bool) -> NoReturn:
    """Leave after an interrupt; say what was paid, where the interrupt knows it."""
    text = "interrupted; what was debited is not lost: the same question is taken up again"
    if as_json:
        fail(Exit.INTERRUPTED, "interrupted", str(stop) or text, as_json=True)
    from discreet.cli._console import say, stderr  # noqa: PLC0415 - only when it is printed

    say(stderr(), str(stop) or text, "yellow")
    raise typer.Exit(Exit.INTERRUPTED)


def _where() -> str:
    path = log_file()
    return "" if path is None else f": the owner's log is {str(path)!r}"


def exit_code(error: errors.DiscreetError) -> Exit:
    """Exit code of a refusal: decided by its class alone."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def _refuse(error: errors.DiscreetError, *, as_json: bool) -> NoReturn:
    places = {n: getattr(error, n, None) for n in ("line", "column")}
    more = {n: v for n, v in places.items() if v is not None}
    fail(
        exit_code(error),
        error.code,
        error.message,
        hint_line(error.hint),
        as_json=as_json,
        more=more,
    )


def hint_line(hint: str | None) -> str | None:
    """Write a hint as one would type it here; what has no option here stays as it is.

    >>> hint_line(errors.Hint("epsilon", "0.25")), hint_line("GROUP BY sex")
    ('--epsilon 0.25', 'GROUP BY sex')
    """
    if not isinstance(hint, errors.Hint):
        return hint
    options = hint.callee is None and all(name in OPTIONS for name, _ in hint.parameters)
    return hint.shell() if options or hint.command is not None else str(hint)


def word_for(code: Exit) -> str:
    """Say with which word a command ends: what waits is not refused."""
    return "waits" if code is Exit.WAITS else "refused"


def fail(
    code: Exit,
    name: str,
    message: str,
    hint: str | None = None,
    *,
    as_json: bool,
    more: Mapping[str, Any] | None = None,
) -> NoReturn:
    """Print a refusal and leave."""
    if as_json:
        envelope = {"ok": False, "error": name, "message": message, "hint": hint}
        print_json({**envelope, **(more or {})})
    else:
        from discreet.cli._console import refusal  # noqa: PLC0415 - only when it is printed

        refusal(message, hint, word_for(code))
    raise typer.Exit(code)


def print_json(envelope: Mapping[str, Any]) -> None:
    """Print one JSON object on one line per key level, strict JSON always."""
    text = json.dumps(plain(envelope), ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write(f"{json_safe(text)}\n")
