"""Every error discreet raises on purpose, in one tree.

::

    DiscreetError                     root; has .code (stable), .hint (one line to paste)
    ├── ParameterError (ValueError)   a number, name or shape that cannot be used
    │   └── LatticeError              a value off the public lattice of an integer mechanism
    ├── PrivacyError                  a privacy statement that would not be true
    │   ├── RelationError             losses under different neighbour relations or units mixed
    │   ├── NotProvedError            a combination nobody has proved; refused, not guessed
    │   └── TaintedNoiseError         noise from the deterministic test source near a release
    └── BudgetExceededError           the filter refuses: the loss would pass the budget

Each message says what was done, why it is refused and, as ``hint``, one line
that would work. Nothing in a message depends on private data: messages are
built from parameters, names and shapes that the caller wrote.

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

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[DiscreetError], message: str, hint: str | None) -> DiscreetError:
    return kind(message, hint=hint)


class ParameterError(DiscreetError, ValueError):
    """A number, name or shape that cannot be used."""

    code = "parameter"


class LatticeError(ParameterError):
    """A value that is not on the public lattice of an integer mechanism."""

    code = "lattice"


class PrivacyError(DiscreetError):
    """A privacy statement that would not be true."""

    code = "privacy"


class RelationError(PrivacyError):
    """Losses under different neighbour relations or units were mixed."""

    code = "relation"


class NotProvedError(PrivacyError):
    """A combination for which no proof is known; refused rather than guessed."""

    code = "not-proved"


class TaintedNoiseError(PrivacyError):
    """Noise from the deterministic test source came near a release."""

    code = "tainted-noise"


class BudgetExceededError(DiscreetError):
    """The accounting filter refuses: the total loss would pass the budget."""

    code = "budget-exceeded"
