"""Sessions of browsers: a random name in a cookie, everything else on this side."""

from __future__ import annotations

import hashlib
import secrets
import time
from hmac import compare_digest
from typing import Final

from discreet._dataclass import dataclass
from discreet.service._errors import ForbiddenError
from discreet.service._home import Home
from discreet.service._keys import Actor, Keys

IDLE: Final = 30 * 60.0
LONGEST: Final = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in, and the token that their forms carry."""

    name: str
    actor: Actor
    token: str

    def stamp(self, policy: str | None) -> str:
        """Write the token of a form: whose it is, and of which policy its page is."""
        return f"{self.token}.{policy or ''}"

    def check(self, stamp: str | None, site: str | None) -> str:
        """Refuse a form that was not made by a page of ours; give the policy of that page."""
        token, _, policy = (stamp or "").partition(".")
        if not own(site) or not compare_digest(token.encode(), self.token.encode()):
            raise ForbiddenError("this form does not come from a page of this service")
        return policy


def own(site: str | None) -> bool:
    """Whether a request comes from our own pages, or from nobody's, by what a browser says."""
    return site in (None, "same-origin", "none")


class Sessions:
    """Who is signed in; a revoked key ends its sessions with their next request."""

    def __init__(self, home: Home, keys: Keys) -> None:
        self.home, self._keys = home, keys

    def begin(self, actor: Actor) -> Session:
        """Sign somebody in under a new name."""
        name, token, now = secrets.token_urlsafe(32), secrets.token_urlsafe(32), time.time()
        self.home.write("DELETE FROM sessions WHERE made < ? OR used < ?",
                         (now - LONGEST, now - IDLE))  # fmt: skip
        self.home.write(
            "INSERT INTO sessions (id, key, token, made, used) VALUES (?, ?, ?, ?, ?)",
            (_hash(name), actor.key, token, now, now),
        )
        return Session(name, actor, token)

    def find(self, name: str) -> Session | None:
        """Give a session that is in force."""
        now = time.time()
        rows = self.home.read(
            "SELECT key, token, used FROM sessions WHERE id = ? AND made > ? AND used > ?",
            (_hash(name), now - LONGEST, now - IDLE),
        )
        if not rows:
            return None
        actor = self._keys.by_id(rows[0][0])
        if actor is None:
            return None
        if now - rows[0][2] > 60:
            self.home.write("UPDATE sessions SET used = ? WHERE id = ?", (now, _hash(name)))
        return Session(name, actor, rows[0][1])

    def ended(self, name: str) -> str:
        """Say to a browser why its session is in force no longer."""
        rows = self.home.read("SELECT key FROM sessions WHERE id = ?", (_hash(name),))
        if rows and self._keys.by_id(rows[0][0]) is None:
            return "You are signed out: your key was revoked by the owner of the data."
        return "You are signed out: the session has ended."

    def end(self, name: str) -> None:
        """Sign somebody out."""
        self.home.write("DELETE FROM sessions WHERE id = ?", (_hash(name),))


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
