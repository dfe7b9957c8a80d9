"""Options that several commands share, and how a declaration becomes a command."""

from __future__ import annotations

import importlib
import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Final

import typer

from discreet.cli._outcome import deliver

_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, errors too.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        "-p",
        envvar="DISCREET_POLICY",
        metavar="FILE",
        help="Policy file, or the name of a service's policy. Left out: the only one.",
    ),
]
LedgerPlace = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DISCREET_LEDGER",
        metavar="PATH|URL",
        help="The ledger. Left out: POLICY.ledger, beside it.",
    ),
]
Analyst = Annotated[
    str | None,
    typer.Option(
        envvar="DISCREET_ANALYST", metavar="NAME", help="Who asks: decides which share pays."
    ),
]
Epsilon = Annotated[str | None, "-e", "NUMBER", "What it may cost: ε."]
Delta = Annotated[str | None, "-d", "NUMBER", "δ, where keys are selected or noise is Gaussian."]
Rho = Annotated[str | None, "NUMBER", "Instead of ε: zero-concentrated ρ."]
Limits = Annotated[
    str | None, "auto", "Choose privately how many rows of a unit count, for a fifth of ε."
]
Output = Annotated[str | None, "-o", "FILE", "Write here; - is stdout."]
Note = Annotated[str, "TEXT", "Why; goes on record."]
By = Annotated[str, "NAME", "Who decides; goes on record."]
Yes = Annotated[bool, "-y", "Decide without being asked again."]
TableName = Annotated[str | None, "TABLE", "Table; left out: everything."]
Source = Annotated[
    str | None,
    typer.Option(
        envvar="DISCREET_SOURCE",
        metavar="PATH|URL",
        help="Where the data are, if not where the policy says they are.",
    ),
]
Within = Annotated[
    list[str] | None, "COLUMN=MARGIN", "Instead of ε: a margin to be met, at the least price."
]
Confidence = Annotated[str, "-c", "NUMBER", "Level of every interval."]


def module(name: str) -> Any:
    """Import what a command does, when it runs."""
    return importlib.import_module(f"discreet.cli.{name}")


# -- options that make one value ---------------------------------------------------------


def _where(
    *,
    policy: PolicyFile = None,
    source: Source = None,
    ledger: LedgerPlace = None,
    analyst: Analyst = None,
) -> Any:
    return module("_session").Where(policy, source, ledger, analyst)


def on_ledger(ctx: typer.Context, *, policy: PolicyFile = None, ledger: LedgerPlace = None) -> Any:
    """Say where the ledger is, which may be named before the command or after it."""
    above = ctx.obj or (None, None)
    return module("_session").Where(policy or above[0], None, ledger or above[1], None)


def _offer(
    *,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    within: Within = None,
    confidence: Confidence = "0.95",
    limits: Limits = None,
) -> Any:
    return module("_session").offer(
        within, limits, epsilon=epsilon, delta=delta, rho=rho, confidence=confidence
    )


Place = Annotated[Any, _where]
OnLedger = Annotated[Any, on_ledger]
Offer = Annotated[Any, _offer]


# -- commands ----------------------------------------------------------------------------


def command(
    app: typer.Typer, title: str, does: str | None = None, *, sure: Callable[..., str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Make a command of a declaration: its parameters are the options, its docstring the help.

    The function that `does` it, "module.function", is given them by name when the command
    runs; where none is named, the declaration has a body. Either returns a reply. A parameter
    annotated with a function stands for the options that this function makes one value of; one
    annotated with words is an argument, or an option if it is keyword-only (:func:`_typed`).
    ``--json`` belongs to every command, and is given to those that name it. What is `sure`
    is a question to ask before, unless ``--yes`` answers it.
    """

    def registered(declared: Callable[..., Any]) -> Callable[..., None]:
        own = inspect.signature(declared, eval_str=True).parameters
        makers = {name: maker for name, p in own.items() if (maker := _maker(p)) is not None}
        options = _options(own, makers)

        def run(**values: Any) -> None:
            as_json = values["as_json"] if "as_json" in own else values.pop("as_json")
            question = "" if sure is None or values.pop("yes") else sure(**values)
            terminal = sys.stdin.isatty() and not as_json
            if question and terminal:
                typer.confirm(question, abort=True)

            def work() -> Any:
                if question and not terminal:
                    raise _unsure(question)
                for name, maker in makers.items():
                    parts = inspect.signature(maker).parameters
                    values[name] = maker(**{part: values.pop(part) for part in parts})
                return (_function(does) if does else declared)(**values)

            deliver(title, work, as_json=as_json)

        run.__doc__ = declared.__doc__
        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        return app.command(title.rpartition(" ")[2])(run)

    return registered


def _maker(parameter: inspect.Parameter) -> FunctionType | None:
    notes = getattr(parameter.annotation, "__metadata__", ())
    return next((note for note in notes if isinstance(note, FunctionType)), None)


def _options(
    own: Mapping[str, inspect.Parameter], makers: Mapping[str, FunctionType]
) -> list[inspect.Parameter]:
    """List what is typed, in order; ``--json`` last."""
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        parts = (
            inspect.signature(makers[name], eval_str=True).parameters if name in makers else None
        )
        options |= parts or {name: parameter}
    last = inspect.Parameter("as_json", _KEYWORD, default=False, annotation=Json)
    return [_typed(p).replace(kind=_KEYWORD) for p in {**options, "as_json": last}.values()]


def _typed(parameter: inspect.Parameter) -> inspect.Parameter:
    """Make what typer reads of the words that annotate a parameter.

    The last one is the help; before it may stand spellings (beside ``--name``, or a long one
    instead of it) and what the help calls the value. A dictionary holds further settings.
    """
    notes = getattr(parameter.annotation, "__metadata__", ())
    words = [note for note in notes if isinstance(note, str)]
    if not words:
        return parameter
    *before, text = words
    spelled = [word for word in before if word.startswith("-")]
    settings: dict[str, Any] = {
        "metavar": next((w for w in before if w not in spelled), None),
        "help": text,
    }
    for note in notes:
        settings |= note if isinstance(note, dict) else {}
    if parameter.kind is not _KEYWORD:
        info: Any = typer.Argument(**settings)
    else:
        usual = [f"--{parameter.name.replace('_', '-')}"]
        long = any(word.startswith("--") for word in spelled)
        info = typer.Option(*([] if long else usual), *spelled, **settings)
    return parameter.replace(annotation=Annotated[parameter.annotation.__origin__, info])


def _function(name: str) -> Callable[..., Any]:
    place, _, function = name.partition(".")
    target: Callable[..., Any] = getattr(module(place), function)
    return target


def _unsure(question: str) -> Exception:
    """Without a terminal --yes is the answer."""
    statement, _, _ = question.rpartition(". ")
    typed = shlex.join(["discreet", *sys.argv[1:]])
    error: Exception = module("_outcome").UsageError(
        f"{statement}: without a terminal, say so with --yes", hint=f"{typed} --yes"
    )
    return error
