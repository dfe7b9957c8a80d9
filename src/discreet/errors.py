"""Every error discreet raises on purpose, in one tree.

::

    DiscreetError                     root; has .code (stable), .hint (one line to paste)
    ├── ParameterError (ValueError)   a number, name or shape that cannot be used
    │   ├── LatticeError              a value off the public lattice of an integer mechanism
    │   └── ForeignReportError        local reports of another protocol or other parameters
    ├── PrivacyError                  a privacy statement that would not be true
    │   ├── RelationError             losses under different neighbour relations or units mixed
    │   ├── NotProvedError            a combination nobody has proved; refused, not guessed
    │   ├── UnprovenStatementError    a statement that the verifier refuses; has .reason
    │   └── TaintedNoiseError         noise from the deterministic test source near a release
    ├── PolicyError                   a policy that cannot be used; has .line, .path
    ├── QueryError                    a question that cannot be asked like this; has .line, .column
    │   ├── UnknownNameError          a table, column or value that the policy does not have
    │   └── UnsupportedQueryError     a construct outside the closed language; names the nearest
    ├── SchemaError                   a data source that does not hold what the policy declares
    ├── EngineError                   the engine failed; the message is the same for every failure
    ├── BudgetExceededError           the filter refuses: the loss would exceed the budget
    ├── AwaitsOwnerError              a question that an owner decides about before it is paid for
    └── LedgerError                   the ledger cannot record; nothing is released
        ├── LedgerIntegrityError      gone, older, edited, truncated, or not this policy's
        ├── LedgerBusyError           somebody else held it for longer than we wait
        ├── LedgerClosedError         the owner has closed the table
        └── IdempotencyError          a key that was used for another question

Each message says what was done, why it is refused and, as ``hint``, one line
that would work. Nothing in a message depends on private data: messages are
built from parameters, names and shapes that the caller wrote.

A hint that is a line of SQL or TOML, or a sentence, is text: it reads the same
everywhere. A hint that sets parameters is a :class:`Hint`, which knows them: it
is text as Python writes it, and whoever speaks another language (the command
line, a service) writes it from the parameters.

Examples
--------
>>> from discreet import mechanisms as m
>>> m.laplace(10, sensitivity=1, epsilon=0)
Traceback (most recent call last):
    ...
discreet.errors.ParameterError: epsilon must be positive, got 0
    try: epsilon="0.1"
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Self, TypeVar

_H = TypeVar("_H", bound="Hint")


class Hint(str):
    """Parameters that would work: Python's line, and what others need to write theirs.

    Parameters
    ----------
    parameter
        Name of the parameter.
    value
        What it may be. A text is quoted in Python.

    Attributes
    ----------
    parameters
        Names and values, in order.
    callee
        For a call of its own (see :meth:`call`): what is called. Only whoever holds that can.
    command
        For such a call: the command that does the same.

    Examples
    --------
    >>> hint = Hint("epsilon", "0.1").also("max_rows", 3)
    >>> print(hint)
    epsilon="0.1", max_rows=3
    >>> hint.shell(), Hint("within", {"n": 25}).shell()
    ('--epsilon 0.1 --max-rows 3', '--within n=25')
    >>> call = Hint.call("curator.sql", "discreet ask", "SELECT 1", epsilon="3")
    >>> print(call)
    curator.sql("SELECT 1", epsilon="3")
    >>> call.shell()
    "discreet ask 'SELECT 1' --epsilon 3"
    >>> Hint.either('dc.connect(url, key="dk_…")', "export DISCREET_KEY=dk_…").shell()
    'export DISCREET_KEY=dk_…'
    """

    __slots__ = ("callee", "command", "parameters")

    parameters: tuple[tuple[str, object], ...]
    callee: str | None
    command: str | None

    def __new__(cls, parameter: str, value: object) -> Self:
        """Write one parameter."""
        return cls._make(((parameter, value),))

    @classmethod
    def _make(
        cls,
        parameters: tuple[tuple[str, object], ...],
        python: str | None = None,
        command: str | None = None,
        first: tuple[str, ...] = (),
    ) -> Self:
        named = (f"{name}={_literal(value)}" for name, value in parameters)
        inner = ", ".join((*map(_literal, first), *named))
        hint = str.__new__(cls, inner if python is None else f"{python}({inner})")
        hint.parameters, hint.callee, hint.command = parameters, python, command
        return hint

    @classmethod
    def either(cls, python: str, shell: str) -> Self:
        """Write two lines that do the same: one of Python, one of a shell."""
        return _rebuild_hint(cls, python, (), python.partition("(")[0], shell)

    @classmethod
    def of(cls, parameters: Mapping[str, object]) -> Self:
        """Write several parameters."""
        return cls._make(tuple(parameters.items()))

    @classmethod
    def call(
        cls, python: str, command: str | None = None, /, *first: str, **parameters: object
    ) -> Self:
        """Write a call: `python` with these arguments; in a shell `command` with them."""
        line = command and " ".join((command, *map(shlex.quote, first)))
        return cls._make(tuple(parameters.items()), python, line, first)

    def also(self, parameter: str, value: object) -> Self:
        """Add a parameter."""
        return self._make((*self.parameters, (parameter, value)))

    def shell(self) -> str:
        """Write the line that does the same in a shell."""
        options = (_option(name, value) for name, value in self.parameters)
        return " ".join(filter(None, (self.command, *options)))

    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.parameters, self.callee, self.command)
        return (_rebuild_hint, (type(self), str(self), *parts))


def _rebuild_hint(
    kind: type[_H],
    text: str,
    parameters: tuple[tuple[str, object], ...],
    callee: str | None,
    command: str | None,
) -> _H:
    hint = str.__new__(kind, text)
    hint.parameters, hint.callee, hint.command = parameters, callee, command
    return hint


def _literal(value: object) -> str:
    """Write a value as Python does, texts in double quotes."""
    match value:
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Mapping():
            return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def _option(name: str, value: object) -> str:
    """Write an option of the command line; a mapping is given one pair at a time."""
    if isinstance(value, Mapping):
        return " ".join(_option(name, f"{k}={v}") for k, v in value.items())
    flag = "--" + name.replace("_", "-")
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"


class DiscreetError(Exception):
    """Root of the tree: catch this to catch everything discreet refuses.

    Parameters
    ----------
    message
        What was done and why it is refused.
    hint
        One line that would work, ready to paste.
    """

    code: str = "discreet"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n    try: {self.hint}"

    def with_hint(self, hint: str | None) -> Self:
        """Return a copy with another line to paste."""
        copied = type(self)(self.message, hint=hint)
        copied.__dict__.update({k: v for k, v in self.__dict__.items() if k != "hint"})
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        # what subclasses add stands in the dictionary, which pickle gives back
        return (_rebuild, (type(self), self.message, self.hint), dict(self.__dict__))


def _rebuild(kind: type[DiscreetError], message: str, hint: str | None) -> DiscreetError:
    return kind(message, hint=hint)


class ParameterError(DiscreetError, ValueError):
    """A number, name or shape that cannot be used."""

    code = "parameter"


class LatticeError(ParameterError):
    """A value that is not on the public lattice of an integer mechanism."""

    code = "lattice"


class ForeignReportError(ParameterError):
    """Local reports made by another protocol, or with other parameters, than the aggregator's."""

    code = "foreign-report"


class PrivacyError(DiscreetError):
    """A privacy statement that would not be true."""

    code = "privacy"


class RelationError(PrivacyError):
    """Losses under different neighbour relations or units were mixed."""

    code = "relation"


class NotProvedError(PrivacyError):
    """A combination for which no proof is known; refused rather than guessed."""

    code = "not-proved"


class UnprovenStatementError(PrivacyError):
    """A statement for an engine that is not proved safe; it does not run, and costs nothing.

    Parameters
    ----------
    message, hint
        As for every error; the message is always the same.
    reason
        What could not be proved, from the statement and public types alone.
    """

    code = "unproven-statement"

    def __init__(self, message: str, *, hint: str | None = None, reason: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class TaintedNoiseError(PrivacyError):
    """Noise from the deterministic test source came near a release."""

    code = "tainted-noise"


class PolicyError(DiscreetError):
    """A policy, from a file or from Python, that cannot be used.

    Parameters
    ----------
    message, hint
        As for every error; policies are public, so both may quote them.
    line
        Line of the policy file that the error is about, counted from 1.
    path
        Keys that lead to the culprit, for example ``("tables", "people", "unit")``.
    fix
        Keys beside the culprit and the values that would work (None: leave it out).
        Without a `hint`, the hint is written from it.
    """

    code = "policy"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        path: tuple[str, ...] = (),
        fix: Mapping[str, object] | None = None,
    ) -> None:
        if hint is None and fix:
            hint = Hint.of(fix)
        super().__init__(message, hint=hint)
        self.line = line
        self.path = path
        self.fix = fix


class QueryError(DiscreetError):
    """A question that cannot be asked like this; refused before any data is read.

    Parameters
    ----------
    message, hint
        As for every error; both quote only the question and the policy.
    line, column
        Place in the question's text, counted from 1; None where it is not known.
    """

    code = "query"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column


class UnknownNameError(QueryError):
    """A table, column or value that the policy does not have.

    Attributes
    ----------
    missing
        The name, where it is that of a column that none of the question's tables has.
    """

    code = "unknown-name"
    missing: str | None = None


class UnsupportedQueryError(QueryError):
    """A construct outside the closed query language, refused by name."""

    code = "unsupported-query"


class SchemaError(DiscreetError):
    """A data source whose tables, columns or types are not what the policy declares."""

    code = "schema"


class EngineError(DiscreetError):
    """The engine failed. The message never depends on the data or on the failure."""

    code = "engine"


class BudgetExceededError(DiscreetError):
    """The accounting filter refuses: the total loss would exceed the budget."""

    code = "budget-exceeded"


class AwaitsOwnerError(DiscreetError):
    """The question waits for an owner's decision: its price is set aside, not charged."""

    code = "awaits-owner"


class LedgerError(DiscreetError):
    """The ledger cannot record a debit or an outcome; nothing is released."""

    code = "ledger"


class LedgerIntegrityError(LedgerError):
    """A ledger that is gone, older than it was, edited, truncated, or another policy's."""

    code = "ledger-integrity"


class LedgerBusyError(LedgerError):
    """Somebody else held the ledger for longer than we wait; nothing is released."""

    code = "ledger-busy"


class LedgerClosedError(LedgerError):
    """The owner has closed the table: no new questions."""

    code = "ledger-closed"


class IdempotencyError(LedgerError):
    """An idempotency key that has been used for another question."""

    code = "idempotency"
