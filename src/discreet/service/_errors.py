"""Refusals of the service itself, and the HTTP status of every refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from discreet import errors
from discreet._canonical import plain
from discreet._log import note


class RequestError(errors.DiscreetError):
    """A request that is not served; each kind has its status."""

    code = "malformed"
    status = 400


class WhichPolicyError(RequestError):
    """A request that does not say which of several policies it is about."""

    code = "which-policy"


class UnknownCallerError(RequestError):
    """No key, or one that is not in force."""

    code = "unauthenticated"
    status = 401


class ForbiddenError(RequestError):
    """Something that this role may not do."""

    code = "forbidden"
    status = 403


class GoneError(RequestError):
    """Something that is not there, or not for this caller."""

    code = "not-found"
    status = 404


class StateError(RequestError):
    """Something that has been decided, or has changed since it was shown."""

    code = "state"
    status = 409


class BusyError(RequestError):
    """Too much at once from one caller."""

    code = "rate"
    status = 429


class SizeError(RequestError):
    """A body, or address, that is too long."""

    code = "too-large"
    status = 413


class SlowError(RequestError):
    """A body that did not arrive in time."""

    code = "too-slow"
    status = 408


class MediaError(RequestError):
    """A body of another type than the one that is read here."""

    code = "media-type"
    status = 415


# the first class that fits decides, so children stand before their parents
_STATUS: Final[tuple[tuple[type[errors.DiscreetError], int], ...]] = (
    (errors.IdempotencyError, 409),
    (errors.LedgerClosedError, 423),
    (errors.LedgerError, 503),
    (errors.BudgetExceededError, 409),
    (errors.EngineError, 503),
    (errors.TaintedNoiseError, 503),
    (errors.PolicyError, 422),
    (errors.SchemaError, 503),
    (errors.QueryError, 422),
    (errors.PrivacyError, 422),
    (errors.ParameterError, 400),
    (errors.DiscreetError, 400),
)
STATUSES: Final = (400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 423, 429, 500, 503)
INTERNAL: Final = {
    "ok": False,
    "error": "internal",
    "message": "discreet has failed in a way it should not; the cause is not shown, because it "
    "could depend on the data",
    "hint": None,
}


def status_of(error: errors.DiscreetError) -> int:
    """HTTP status of a refusal: decided by its class alone."""
    if isinstance(error, RequestError):
        return error.status
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def envelope(error: errors.DiscreetError) -> dict[str, Any]:
    """Write a refusal as the command line does; ``fix`` holds parameters that would work."""
    hint = error.hint
    if isinstance(hint, errors.Hint) and hint.callee and not hint.callee.startswith("curator."):
        hint = None  # a call of the ledger's or of the host's: nobody here can make it
    fix = dict(hint.parameters) if isinstance(hint, errors.Hint) else None
    message = error.message
    if isinstance(error, errors.LedgerError) and status_of(error) == 503:
        # its words name files of the owner, so they go into the owner's log
        note("ledger refused", error, said=message)
        message, hint, fix = "the ledger cannot be used; nothing was released", None, None
    more: Mapping[str, Any] = {
        name: value for name in ("line", "column") if (value := getattr(error, name, None))
    }
    text = None if hint is None else str(hint)
    body = {"ok": False, "error": error.code, "message": message, "hint": text, **more}
    return {**body, **({} if fix is None else {"fix": plain(fix)})}
