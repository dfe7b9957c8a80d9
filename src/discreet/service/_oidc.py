"""Sign-in of people through a provider of OpenID Connect.

The owner's file says who is who: a person is known here by what the file maps a claim to, and a
role comes from that file alone. What else a provider says about somebody is not believed.
Sign-in is the code flow with PKCE; state, nonce and verifier stay on this side and belong to
one browser; an ID token counts if the provider's key signed it, for this client, just now.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from discreet._dataclass import dataclass
from discreet.errors import ParameterError
from discreet.service._errors import ForbiddenError, UnknownCallerError
from discreet.service._home import Home
from discreet.service._keys import Actor, Keys, Role

_ALGORITHMS: Final = ["RS256", "PS256", "ES256", "EdDSA"]
"""Signatures by a key that only the provider has; never "none", never a shared secret."""
_LASTS: Final = 600.0
"""Seconds that a sign-in may take."""
_FIELDS: Final = frozenset(
    {"issuer", "client_id", "client_secret", "address", "claim", "people", "groups_claim", "groups"}
)
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Rules:
    """The owner's file: the provider, this client, and who is who."""

    issuer: str
    client_id: str
    client_secret: str
    address: str
    claim: str
    people: Mapping[str, Mapping[str, str]]
    groups_claim: str
    groups: Mapping[str, str]

    @property
    def returns_to(self) -> str:
        """Where the provider sends browsers back to; never what a request says."""
        return f"{self.address}/login/oidc/return"

    def person(self, claims: Mapping[str, Any]) -> tuple[str, Role, bool]:
        """Give name and role of somebody whom the file knows, and whether it knows the name."""
        who = claims.get(self.claim)
        if self.claim == "email" and claims.get("email_verified") is not True:
            who = None
        if not isinstance(who, str) or not who:
            raise ForbiddenError("the provider does not say who this is")
        if (entry := self.people.get(who)) is not None:
            return entry["name"], Role(entry["role"]), True
        member = claims.get(self.groups_claim)
        names = member if isinstance(member, list) else []
        roles = {self.groups[g] for g in names if isinstance(g, str) and g in self.groups}
        if len(roles) != 1:
            raise ForbiddenError("the owner of the data has given you no role here")
        return who, Role(roles.pop()), False


def rules(path: Path) -> Rules:
    """Read the owner's file."""
    try:
        fields = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        raise ParameterError(f"the rules of sign-in in {str(path)!r} cannot be read") from None
    if unknown := sorted(set(fields) - _FIELDS):
        raise ParameterError(f"rules of sign-in have no field {unknown[0]!r}")
    secret = fields.get("client_secret") or os.environ.get("DISCREET_OIDC_SECRET", "")
    people, groups = fields.get("people", {}), fields.get("groups", {})
    try:
        for role in (*(p["role"] for p in people.values()), *groups.values()):
            Role(role)
        sheet = Rules(
            fields["issuer"].rstrip("/"), fields["client_id"], secret,
            fields["address"].rstrip("/"), fields.get("claim", "sub"),
            {k: {"name": p["name"], "role": p["role"]} for k, p in people.items()},
            fields.get("groups_claim", "groups"), groups,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ParameterError(
            "rules of sign-in state issuer, client_id and address; people have a name and a role",
            hint='[people]\n"ana@example.org" = { name = "ana", role = "analyst" }',
        ) from None
    for url in (sheet.issuer, sheet.address):
        _check_address(url)
    return sheet


def _check_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ParameterError("a provider is reached by https alone", hint='issuer = "https://…"')
    return url


class Provider:
    """Signs people in; each step refuses with one constant text."""

    def __init__(self, rules_: Rules, home: Home, keys: Keys) -> None:
        self.rules, self._home, self._keys = rules_, home, keys
        self._cache: tuple[float, dict[str, Any], Any] | None = None

    async def begin(self) -> tuple[str, str]:
        """Give where a browser goes to sign in, and the name of this attempt, for its cookie."""
        about, _ = await self._about()
        name, state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        async with self._client() as client:
            url, _ = client.create_authorization_url(
                about["authorization_endpoint"], state=state, nonce=nonce, code_verifier=verifier
            )
        now = time.time()
        self._home.write("DELETE FROM signins WHERE made < ?", (now - _LASTS,))
        self._home.write(
            "INSERT INTO signins (id, state, nonce, verifier, made) VALUES (?, ?, ?, ?, ?)",
            (_hash(name), state, nonce, verifier, now),
        )
        return str(url), name

    async def finish(self, name: str, query: Mapping[str, str]) -> Actor:
        """Take a browser back: check everything, and say who it is."""
        rows = self._home.read(
            "SELECT state, nonce, verifier FROM signins WHERE id = ? AND made > ?",
            (_hash(name), time.time() - _LASTS),
        )
        # once only, whatever comes of it
        self._home.write("DELETE FROM signins WHERE id = ?", (_hash(name),))
        if not rows or not secrets.compare_digest(
            rows[0][0].encode(), query.get("state", "").encode()
        ):
            raise UnknownCallerError("this sign-in was not begun here, or has taken too long")
        claims = await self._claims(query.get("code", ""), rows[0][1], rows[0][2])
        who, role, listed = self.rules.person(claims)
        subject = _hash(f"{self.rules.issuer} {claims['sub']}")[:12]
        return self._keys.enrol(who, role, subject, listed=listed)

    async def _claims(self, code: str, nonce: str, verifier: str) -> dict[str, Any]:
        from joserfc import jwt  # noqa: PLC0415 - an extra

        claims: dict[str, Any] = {}
        try:
            about, keys = await self._about()
            async with self._client() as client:
                token = await client.fetch_token(
                    about["token_endpoint"], code=code, code_verifier=verifier
                )
            claims = dict(jwt.decode(token["id_token"], keys, algorithms=_ALGORITHMS).claims)
            jwt.JWTClaimsRegistry(
                iss={"essential": True, "value": self.rules.issuer},
                aud={"essential": True, "value": self.rules.client_id},
                sub={"essential": True}, exp={"essential": True}, iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            ).validate(claims)  # fmt: skip
        except Exception:  # noqa: BLE001 - what a provider says is no text of ours
            claims = {}
        several = claims.get("aud") != self.rules.client_id
        if not claims or (several and claims.get("azp") != self.rules.client_id):
            raise UnknownCallerError("the provider's answer does not hold")
        return claims

    async def _about(self) -> tuple[dict[str, Any], Any]:
        """Give the provider's addresses and keys; looked up once an hour."""
        if self._cache is not None and time.monotonic() - self._cache[0] < 3600:
            return self._cache[1:]
        import httpx  # noqa: PLC0415 - an extra
        from joserfc import jwk  # noqa: PLC0415 - as above

        try:
            async with httpx.AsyncClient(timeout=10, follow_redirects=False) as client:
                place = f"{self.rules.issuer}/.well-known/openid-configuration"
                about = (await client.get(place)).raise_for_status().json()
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    _check_address(about[name])
                {self.rules.issuer: True}[about["issuer"].rstrip("/")]  # another one is none
                key_set = (await client.get(about["jwks_uri"])).raise_for_status().json()
            keys = jwk.KeySet.import_key_set(key_set)
        except Exception:  # noqa: BLE001 - what a provider says is no text of ours
            keys = None
        if keys is None:
            raise UnknownCallerError("the provider of sign-in cannot be reached")
        self._cache = (time.monotonic(), about, keys)
        return about, keys

    def _client(self) -> Any:
        from authlib.integrations.httpx_client import (  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 - an extra
            AsyncOAuth2Client,
        )

        return AsyncOAuth2Client(
            self.rules.client_id, self.rules.client_secret, redirect_uri=self.rules.returns_to,
            scope="openid email", code_challenge_method="S256", timeout=10,
        )  # fmt: skip


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
