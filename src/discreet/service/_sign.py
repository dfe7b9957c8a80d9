"""Signatures under answers: whoever knows the curator's public key can check a file offline.

What is signed is the record in its one spelling, together with the debit's line in the
ledger: ``discreet-answer-v1``, a zero byte, and canonical JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet._canonical import canonical
from discreet.errors import ParameterError

_DOMAIN: Final = b"discreet-answer-v1\x00"
_SIGNED: Final = ("id", "line", "policy", "records")
_PREFIX: Final = "ed25519:"


class Signer:
    """Signs what a service releases."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = _PREFIX + base64.b64encode(raw).decode()

    def sign(self, released: Mapping[str, Any]) -> dict[str, str]:
        """Sign an answer: its id, its debit's line, the policy's fingerprint, its records."""
        return {
            "algorithm": "Ed25519",
            "key": self.public,
            "signature": base64.b64encode(self._key.sign(_message(released))).decode(),
        }


def check(released: Mapping[str, Any], signature: Mapping[str, Any], key: str | None = None) -> str:
    """Refuse an answer that its signature does not fit; give the key that signed it.

    Parameters
    ----------
    released
        Id, line, policy and records, as they were signed.
    signature
        What :meth:`Signer.sign` gave.
    key
        The curator's public key, if it is known; another one is refused.
    """
    try:
        named, raw = str(signature["key"]), base64.b64decode(str(signature["signature"]))
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(named.removeprefix(_PREFIX)))
        message = _message(released)
    except (KeyError, TypeError, ValueError):
        raise ParameterError("this file holds no signed answer") from None
    if key is not None and named != key:
        raise ParameterError(f"this answer was signed by {named}, not by {key}")
    try:
        public.verify(raw, message)
    except InvalidSignature:
        raise ParameterError("the signature does not fit: the answer was changed") from None
    return named


def _message(released: Mapping[str, Any]) -> bytes:
    return _DOMAIN + canonical({name: released[name] for name in _SIGNED}).encode()
