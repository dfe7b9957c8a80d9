"""Signatures under answers: whoever knows the curator's public key can check a file offline.

What is signed are named fields in their one spelling: ``discreet-answer-v1``, a zero byte, and
canonical JSON. The signature lists their names; one that lists none, of an older service, is about
id, line, policy and records. Everything else that an answer says follows from its records:
:func:`verified` works it out again, and names what neither is signed nor follows.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet._canonical import canonical, plain
from discreet._dataclass import dataclass
from discreet.answer import Answer, as_data
from discreet.errors import ParameterError

_DOMAIN: Final = b"discreet-answer-v1\x00"
_LEAST: Final = ("id", "line", "policy", "records")
_WHOSE: Final = ("left", "cached")
"""Said of each answer; signed once."""
_CHOICES: Final = ("confidence", "simultaneous")
"""What a reader chooses: the intervals are worked out for it."""
_WORDS: Final = ("covers",)
"""Worked out, but another version may say the same in other words."""
_PREFIX: Final = "ed25519:"


class Signer:
    """Signs what a service releases."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = _PREFIX + base64.b64encode(raw).decode()

    def sign(self, released: Mapping[str, Any]) -> dict[str, Any]:
        """Sign every field: at least an id, a debit's line, the policy's fingerprint, records."""
        names = sorted(released)
        return {
            "algorithm": "Ed25519",
            "key": self.public,
            "signs": names,
            "signature": base64.b64encode(self._key.sign(_message(released, names))).decode(),
        }


@dataclass(frozen=True)
class Verified:
    """Who signed a saved answer, and which of its fields that says nothing about."""

    key: str
    id: str
    unsigned: tuple[str, ...] = ()


def records_of(told: Mapping[str, Any]) -> list[Any]:
    """Give the records of a signed answer, as a batch, alone, or without its numbers."""
    if "records" in told:
        return list(told["records"])
    return [answer["record"] for answer in told.get("answers", [told])]


def signed_part(told: Mapping[str, Any]) -> dict[str, Any]:
    """Give of an answer what is signed, and the signature: all else follows from it."""
    names = told["signature"].get("signs", _LEAST)
    kept = {name: told[name] for name in names if name != "records"}
    return {**kept, "records": records_of(told), "signature": told["signature"]}


def verified(told: Mapping[str, Any], key: str | None = None) -> Verified:
    """Check a saved answer: its signature, and that it says what the signed records say.

    Parameters
    ----------
    told
        The result of a service, or its signed record.
    key
        The curator's public key, if it is known.
    """
    try:
        records, signature = records_of(told), told["signature"]
        signs = {*signature.get("signs", _LEAST)}
        shown = [] if "records" in told else told.get("answers", [told])
    except (AttributeError, KeyError, TypeError):
        raise ParameterError("this file holds no signed answer") from None
    signer = check({**told, "records": records}, signature, key)
    whose = {name: told[name] for name in _WHOSE if name in signs}
    covered = signs | {"signature"}
    alone = bool(shown) and shown[0] is told
    unsigned = set() if alone else told.keys() - covered - ({"answers"} if shown else set())
    for answer, record in zip(shown, records, strict=True) if shown else ():
        unsigned |= answer.keys() - _followed(answer, record, whose) - (covered if alone else set())
    return Verified(signer, str(told["id"]), tuple(sorted(unsigned)))


def _followed(answer: Mapping[str, Any], record: Any, whose: Mapping[str, Any]) -> set[str]:
    """Give the fields that follow from what is signed; refuse one that says otherwise."""
    level, at_once = str(answer.get("confidence", "0.95")), bool(answer.get("simultaneous"))
    made = as_data(Answer.from_record(record), level, simultaneous=at_once, record=False)
    follows = {k: v for k, v in plain(made).items() if k not in (*_WHOSE, *_CHOICES)} | dict(whose)
    for name in follows.keys() & answer.keys():
        if name not in _WORDS and not _equal(answer[name], follows[name]):
            raise ParameterError(f"{name!r} was changed: the signed record says otherwise")
    words = {name for name in _WORDS if answer.get(name) != follows[name]}
    return {*follows, *_CHOICES, "record"} - words


def _equal(one: Any, other: Any) -> bool:
    """Whether two values of JSON are the same, but for the last digits of a computed number."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
        case list(), list():
            return len(one) == len(other) and all(map(_equal, one, other))
        case (bool(), _) | (_, bool()):
            return one is other
        case (float(), int() | float()) | (int(), float()):
            return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)


def check(released: Mapping[str, Any], signature: Mapping[str, Any], key: str | None = None) -> str:
    """Refuse an answer that its signature does not fit; give the key that signed it.

    Parameters
    ----------
    released
        The fields, as they were signed.
    signature
        What :meth:`Signer.sign` gave.
    key
        The curator's public key, if it is known; another one is refused.
    """
    try:
        named, raw = str(signature["key"]), base64.b64decode(str(signature["signature"]))
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(named.removeprefix(_PREFIX)))
        signs = signature.get("signs", _LEAST)
        message = _message(released, {*_LEAST, *signs})
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ParameterError("this file holds no signed answer") from None
    if key is not None and named != key:
        raise ParameterError(f"this answer was signed by {named}, not by {key}")
    try:
        public.verify(raw, message)
    except InvalidSignature:
        raise ParameterError(
            f"the signature does not fit: the answer was changed, in one of {', '.join(signs)}"
        ) from None
    return named


def _message(released: Mapping[str, Any], names: Iterable[str]) -> bytes:
    return _DOMAIN + canonical({name: released[name] for name in names}).encode()
