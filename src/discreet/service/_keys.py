"""Keys and roles: who somebody is, and what they may do.

A key is 256 random bits behind a short public name: ``dk_<name>_<secret>``. The store holds
the SHA-256 of the secret and nothing from which it could be found again; a slow hash adds
nothing to 256 bits. The name in the ledger is the one that the key was made for, and no
other thing that a request says.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
import secrets
from enum import StrEnum
from hmac import compare_digest
from typing import Any, Final

from discreet._dataclass import dataclass
from discreet._text import plain_str, quote
from discreet.errors import Hint, ParameterError
from discreet.service._errors import StateError
from discreet.service._home import Home

_SHAPE: Final = re.compile(r"dk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME: Final = re.compile(r"[\w .@+-]{1,100}")
_LISTED: Final = "-"
"""Stands where older versions look for names of policies: they find none."""
_UNCLEAR: Final = ("",)
"""Policies of a key whose names were written with blanks between them: no policy is called so."""


class Role(StrEnum):
    """What somebody may do: decide, ask, look at the books, or keep marks here."""

    OWNER = "owner"
    ANALYST = "analyst"
    AUDITOR = "auditor"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody whom the service knows: by a key, and by nothing else.

    ``policies`` names those that they may use; empty: all of the server.
    """

    name: str
    role: Role
    key: str
    policies: tuple[str, ...] = ()
    made: str = ""
    revoked: str | None = None

    def may_use(self, policy: str) -> bool:
        """Whether a policy of the server is theirs to use; a host that keeps marks has none."""
        listed = not self.policies or policy in self.policies
        return listed and self.role is not Role.WITNESS

    def may_manage(self, other: Actor) -> bool:
        """Whether an owner may see and revoke a key: it opens nothing that theirs does not."""
        own = set(other.policies)
        return not self.policies or (bool(own) and own <= set(self.policies))


class Keys:
    """The keys of one service."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def add(self, name: str, role: Role | str, policies: tuple[str, ...] = ()) -> str:
        """Make a key; the text that is returned is not kept and cannot be shown again."""
        who, part = _checked(name), Role(role)
        self._check_role(who, part)
        public, secret = secrets.token_hex(6), secrets.token_bytes(32)
        text = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
        only = _policies(policies)
        row = (public, who, part.value, _hash(text), _LISTED if only else "", _now())
        self._home.write(
            "INSERT INTO keys (id, name, role, hash, policies, made, only) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*row, json.dumps(only)),
        )
        return f"dk_{public}_{text}"

    def _check_role(self, who: str, role: Role, but: str = "") -> None:
        listed = [a for a in self.all() if a.name == who and a.revoked is None and a.key != but]
        if any(a.role is not role for a in listed):
            raise ParameterError(
                f"{quote(who)} has a key as {listed[0].role}: one name has one role",
                hint="revoke the old key first, or choose another name",
            )

    def take(self, other: Keys) -> int:
        """Take over another service's keys, as hashes; what either has revoked stays so."""
        listed = "id, name, role, hash, policies, made, revoked, only"
        rows = other._home.read(f"SELECT {listed} FROM keys ORDER BY rowid")  # noqa: S608 - constants
        for public, name, role, *_, revoked, _ in rows:
            if revoked is None:
                self._check_role(name, Role(role), but=public)
        for row in rows:
            self._home.write(
                f"INSERT INTO keys ({listed}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) "  # noqa: S608 - constants
                "DO UPDATE SET revoked = COALESCE(keys.revoked, excluded.revoked)",
                row,
            )
        return len(rows)

    def enrol(self, name: str, role: Role, public: str, *, listed: bool) -> Actor:
        """Enter somebody whom a provider signs in: without a secret, so that no key fits.

        A name that the owner has not `listed` must be nobody else's.
        """
        who = _checked(name)
        if not listed and any(a.name == who and a.key != public for a in self.all()):
            raise ParameterError("somebody else has this name here")
        self._check_role(who, role, but=public)
        self._home.write(
            "INSERT INTO keys (id, name, role, hash, policies, made) VALUES (?, ?, ?, '-', '', ?) "
            "ON CONFLICT (id) DO UPDATE SET name = excluded.name, role = excluded.role",
            (public, who, role.value, _now()),
        )
        actor = self.by_id(public)
        if actor is None:
            raise ParameterError("the owner of the data has revoked this sign-in")
        return actor

    def all(self) -> list[Actor]:
        """Everybody who has or had a key, oldest first."""
        rows = self._home.read(
            "SELECT name, role, id, policies, made, revoked, only FROM keys ORDER BY rowid"
        )
        return [_actor(row) for row in rows]

    def revoke(self, key: str, *, named: bool = True) -> list[str]:
        """Revoke a key by its id, or, if `named`, all keys of a name; give the ids."""
        listed = [a for a in self.all() if a.revoked is None]
        ids = [a.key for a in listed if key == a.key or (named and key == a.name)]
        if not ids:
            raise ParameterError(
                f"no key in force is called {quote(key)}", hint="discreet key list"
            )
        for public in ids:
            self._home.write("UPDATE keys SET revoked = ? WHERE id = ?", (_now(), public))
        return ids

    def check_not_last(self, key: Actor) -> None:
        """Refuse an owner's key without which nobody decides what it decides; its host may."""
        own = set(key.policies)
        others = [a for a in self.all() if a.role is Role.OWNER and not a.revoked]
        if key.role is Role.OWNER and not any(
            not a.policies or (own and own <= set(a.policies)) for a in others if a.key != key.key
        ):
            raise StateError(
                "this is the only owner's key in force: without it nobody decides here",
                hint=f"on its host: discreet key revoke {key.key}",
            )

    def find(self, text: str) -> Actor | None:
        """Give the owner of a key that is in force; None for anything else."""
        shape = _SHAPE.fullmatch(text)
        if shape is None:
            return None
        row = self._lookup(shape[1])
        # compared also where there is none: the work is the same
        right = compare_digest(_hash(shape[2]), "0" * 64 if row is None else row[0])
        return row[1] if row is not None and right and row[1].revoked is None else None

    def by_id(self, public: str) -> Actor | None:
        """Give the owner of a key in force by the key's public name, for sessions."""
        row = self._lookup(public)
        return None if row is None or row[1].revoked is not None else row[1]

    def _lookup(self, public: str) -> tuple[str, Actor] | None:
        rows = self._home.read(
            "SELECT hash, name, role, id, policies, made, revoked, only FROM keys WHERE id = ?",
            (public,),
        )
        return (rows[0][0], _actor(rows[0][1:])) if rows else None


def _actor(row: tuple[Any, ...]) -> Actor:
    name, role, key, policies, since, revoked, only = row
    return Actor(name, Role(role), key, _opened(policies, only), since, revoked)


def _opened(text: str, only: str | None) -> tuple[str, ...]:
    """Read which policies a key opens.

    Older versions wrote names with blanks between them. One that has blanks in it cannot be told
    from several: such a key opens nothing until the owner makes another one.
    """
    if only is not None:
        return tuple(json.loads(only))
    if text.split() == [text]:
        return (text,)
    return _UNCLEAR if text else ()


def _policies(names: tuple[str, ...]) -> tuple[str, ...]:
    """Accept names of policies: each once, none of them empty."""
    policies = tuple(dict.fromkeys(plain_str(name, "policy") for name in names))
    if not all(name.strip() for name in policies):
        raise ParameterError(
            "a policy has a name; a key without one is good for all of them",
            hint="discreet key add ana",
        )
    return policies


def _checked(name: str) -> str:
    who = plain_str(name, "name")
    if not _NAME.fullmatch(who) or who != who.strip():
        raise ParameterError(
            "a name is 1 to 100 letters, digits, blanks or . @ + - _",
            hint=Hint.call("keys.add", "discreet key add", "ana"),
        )
    return who


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
