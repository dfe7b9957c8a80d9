"""Signatures under answers: whoever knows the curator's public key can check a file offline.

What is signed are named fields in their one spelling: ``discreet-answer-v1``, a zero byte, and
canonical JSON. The signature lists their names; one that lists none, of an older service, is about
id, line, policy and records. Everything else that an answer says follows from its records:
:func:`verified` works it out again, wherever in the file it stands, and refuses what says
otherwise, and a field of an answer's name that nothing signed decides. Other fields it names.
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
_FIELDS: Final = frozenset(
    {*_LEAST, *_WHOSE, *_CHOICES, *_WORDS, "answers", "asked", "columns", "cost", "dummy",
     "intervals", "paid", "question", "record", "result", "rows", "state", "tick"}
)  # fmt: skip
"""Names under which a reader would look for what an answer says."""
_OLDER: Final = frozenset({*_WHOSE, "asked", "paid", "question", "state", "tick"})
"""What an older service said beside what it signed."""
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


def records_of(result: Mapping[str, Any]) -> list[Any]:
    """Give the records of a signed answer, as a batch, alone, or without its numbers."""
    if "records" in result:
        return list(result["records"])
    return [answer["record"] for answer in result.get("answers", [result])]


def signed_part(result: Mapping[str, Any]) -> dict[str, Any]:
    """Give of an answer what is signed, and the signature: all else follows from it."""
    names = result["signature"].get("signs", _LEAST)
    fields = {name: result[name] for name in names if name != "records"}
    return {**fields, "records": records_of(result), "signature": result["signature"]}


def verified(
    result: Mapping[str, Any], key: str | None = None, around: Mapping[str, Any] | None = None
) -> Verified:
    """Check a saved answer: its signature, and that it says what the signed records say.

    Parameters
    ----------
    result
        The result of a service, or its signed record.
    key
        The curator's public key, if it is known.
    around
        What else the file says, beside the result: it is held to the same.
    """
    try:
        result = _joined(result, around or {})
        records, signature = records_of(result), result["signature"]
        listed = signature.get("signs")
        signs = {*_LEAST, *(listed or ())}
    except (AttributeError, KeyError, TypeError):
        raise ParameterError("this file holds no signed answer") from None
    signer = check({**result, "records": records}, signature, key)
    whose = {name: result[name] for name in _WHOSE if name in signs}
    names = signs | {"signature"}
    unsigned: set[str] = set()
    for answer, record in _pairs(result, records):
        own = {k: v for k, v in answer.items() if answer is not result or k not in names}
        unsigned |= own.keys() - _consequences(own, record, whose)
    if len(records) != 1:
        unsigned |= result.keys() - names
    unsigned.discard("answers")  # each was looked at
    vain = unsigned & (_FIELDS - {*_WORDS, *(_OLDER if listed is None else ())})
    if vain:
        raise ParameterError(f"{min(vain)!r} was added: nothing that is signed says it")
    return Verified(signer, str(result["id"]), tuple(sorted(unsigned)))


def _joined(result: Mapping[str, Any], around: Mapping[str, Any]) -> dict[str, Any]:
    """Put what stands beside an answer into it; refuse two that differ."""
    for name in result.keys() & around.keys():
        if not _equal(result[name], around[name]):
            raise ParameterError(f"{name!r} was changed: it stands there twice, and differs")
    return {**around, **result}


def _pairs(result: Mapping[str, Any], records: list[Any]) -> list[tuple[Mapping[str, Any], Any]]:
    """Give everything that speaks of one answer, and the record that it must follow."""
    answers = result.get("answers", [])
    if "answers" in result and (
        not isinstance(answers, list)
        or len(answers) != len(records)
        or not all(isinstance(answer, Mapping) for answer in answers)
    ):
        raise ParameterError("'answers' was changed: the signed records are others")
    alone = [(result, records[0])] if len(records) == 1 else []
    return [*alone, *zip(answers, records, strict=bool(answers))]


def _consequences(answer: Mapping[str, Any], record: Any, whose: Mapping[str, Any]) -> set[str]:
    """Give the fields that follow from what is signed; refuse one that says otherwise."""
    if not answer.keys() & _FIELDS:
        return set()  # nor need it be a record of a question
    level, at_once = str(answer.get("confidence", "0.95")), bool(answer.get("simultaneous"))
    data = as_data(Answer.from_record(record), level, simultaneous=at_once, record=False)
    follows = {k: v for k, v in plain(data).items() if k not in (*_WHOSE, *_CHOICES)}
    follows |= {**whose, "record": record}
    for name in follows.keys() & answer.keys():
        if name not in _WORDS and not _equal(answer[name], follows[name]):
            raise ParameterError(f"{name!r} was changed: the signed record says otherwise")
    words = {name for name in _WORDS if answer.get(name) != follows[name]}
    return {*follows, *_CHOICES} - words


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
        signer, raw = str(signature["key"]), base64.b64decode(str(signature["signature"]))
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(signer.removeprefix(_PREFIX)))
        signs = signature.get("signs", _LEAST)
        message = _message(released, {*_LEAST, *signs})
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ParameterError("this file holds no signed answer") from None
    if key is not None and signer != key:
        raise ParameterError(f"this answer was signed by {signer}, not by {key}")
    try:
        public.verify(raw, message)
    except InvalidSignature:
        raise ParameterError(
            f"the signature does not fit: the answer was changed, in one of {', '.join(signs)}"
        ) from None
    return signer


def _message(released: Mapping[str, Any], names: Iterable[str]) -> bytes:
    return _DOMAIN + canonical({name: released[name] for name in names}).encode()
