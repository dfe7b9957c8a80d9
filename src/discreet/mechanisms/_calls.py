"""Calls of mechanisms, as those see them who replay them (:func:`discreet.audit.replay`).

A recorder sees each call from outside: the private argument, and everything else, which is
public. It decides whether the call runs or an earlier outcome is given again. Calls that a
mechanism makes itself are part of it. Without a recorder nothing happens.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

from discreet._dataclass import dataclass

Norm = Literal["l1", "l2", "linf", "keys", "records"]
F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = str(Path(__file__).parent.parent)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what was private in it, what public, and how distances are measured.

    Attributes
    ----------
    mechanism, where
        Name of the mechanism, and the line that called it.
    private
        The private argument as it was given.
    public
        All other arguments by name.
    norm
        Which distance ``public["sensitivity"]`` bounds: ``l1``, ``l2`` or ``linf``; ``keys`` for
        counts by key; ``records`` where one record may change.
    """

    mechanism: str
    private: Any
    public: Mapping[str, Any]
    norm: Norm
    where: str


class Recorder(Protocol):
    """Sees every call and decides its outcome."""

    def outcome(self, call: Call, run: Callable[[], Any]) -> Any:
        """Run the call, or give an earlier outcome again."""
        ...


_RECORDER: ContextVar[Recorder | None] = ContextVar("discreet_recorder", default=None)


@contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """Let a recorder see the calls made inside this block."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def recorded(
    norm: Norm,
    *,
    public: Callable[[Any], Mapping[str, Any]] | None = None,
    replayed: Callable[[Any, Any], None] | None = None,
) -> Callable[[F], F]:
    """Show calls of a mechanism to a recorder; the first argument (but ``self``) is private.

    Parameters
    ----------
    norm
        See :class:`Call`.
    public
        For methods: public parameters that the object holds.
    replayed
        For methods: brings the object up to date with an outcome that it did not draw itself.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        private = next(name for name in signature.parameters if name != "self")

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            recorder = _RECORDER.get()
            if recorder is None:
                return function(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            settings = dict(bound.arguments)
            owner = settings.pop("self", None)
            value = settings.pop(private)
            settings |= {} if public is None else public(owner)
            call = Call(function.__qualname__, value, settings, norm, _where())
            ran = False

            def run() -> Any:
                nonlocal ran
                ran = True
                with recording(None):
                    return function(*args, **kwargs)

            outcome = recorder.outcome(call, run)
            if replayed is not None and not ran:
                replayed(owner, outcome)
            return outcome

        return cast("F", watched)

    return decorate


def _where() -> str:
    """Name the line of the caller's own code."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return "discreet"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
