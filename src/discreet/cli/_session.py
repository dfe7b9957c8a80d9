"""Which policy, data and ledger a command is about."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet._dataclass import dataclass
from discreet.cli._outcome import UsageError

if TYPE_CHECKING:
    from discreet.curator import Curator
    from discreet.ledger import ChainedLedger, Purpose
    from discreet.policy import Policy
    from discreet.service import Remote

MAX_BYTES: Final = 64 * 2**20
_SIGN: Final = "[budget"


@dataclass(frozen=True)
class Where:
    """What the user said about policy, data, ledger and analyst."""

    policy: Path | None
    source: str | None
    ledger: str | None
    analyst: str | None

    @cached_property
    def path(self) -> Path:
        """The policy file: the one named, or the only one in this folder."""
        return policy_file(self.policy)

    def place(self) -> str:
        """Where the ledger is, or will be: beside the policy file, or where another one has it."""
        from discreet.ledger import known_place  # noqa: PLC0415 - imported when used

        if self.ledger:
            return self.ledger
        other = self.load().beside
        return (other and known_place(other)) or f"{self.path.resolve()}.ledger"

    def load(self) -> Policy:
        """Read the policy."""
        from discreet import policy  # noqa: PLC0415 - imported when used

        return policy.load(self.path)


def policy_file(file: Path | None) -> Path:
    """Return the policy file that was named, or the only one in this folder."""
    if file is not None:
        return file
    here = policies_here()
    if len(here) == 1:
        return here[0]
    if here:
        listed = ", ".join(map(str, here[:5]))
        raise UsageError(
            f"several policies are here ({listed}): say which",
            hint=" or ".join(f"--policy {path}" for path in here[:5]),
        )
    raise UsageError(
        "no policy was named and none is in this folder",
        hint="--policy people.toml, or draft one: discreet init people.parquet",
    )


def policies_here() -> list[Path]:
    """Policy files of this folder."""
    return [p for p in sorted(Path().glob("*.toml")) if _is_policy(p)]


def _is_policy(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return any(line.lstrip().startswith(_SIGN) for line in file)
    except OSError:
        return False


def offer(within: Sequence[str] | None, limits: str | None, **terms: str | None) -> dict[str, Any]:
    """Arguments of :meth:`Curator.sql` from what was typed."""
    arguments = {**terms, "within": pairs(within or [], "--within n=25") or None}
    return arguments if limits is None else {**arguments, "limits": limits}


def check_offer(offer: Mapping[str, Any], opened: Curator | Remote) -> None:
    """Refuse what a service does not offer."""
    if "limits" not in offer:
        return
    from discreet.service import Remote  # noqa: PLC0415 - imported when used

    if isinstance(opened, Remote):
        raise UsageError(
            "a service keeps the policy's limits: it prices a question before it reads data",
            hint="OPTIONS(max_rows_contributed=2) in the question, or ask the file itself",
        )


def pairs(texts: Sequence[str], example: str) -> dict[str, str]:
    """Read ``NAME=VALUE`` arguments."""
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not sign or not name or not value or name in values:
            raise UsageError(f"{text[:60]!r} is not NAME=VALUE, or its name is there twice",
                             hint=example)  # fmt: skip
        values[name] = value
    return values


def question(sql: str | None, file: str | None) -> str:
    """SQL from the argument, a file or standard input."""
    if sql is not None and file is not None:
        raise UsageError("give the SQL or --file, not both")
    text = sql if sql is not None else read_text(file or "-", "the question")
    if not text.strip():
        raise UsageError(
            "there is no question", hint='discreet ask "SELECT COUNT(*) AS n FROM people" -e 0.1'
        )
    return text


def read_text(path: str, what: str) -> str:
    """Read a file, or standard input for ``-``."""
    try:
        if path == "-":
            return sys.stdin.read(MAX_BYTES)
        with Path(path).open(encoding="utf-8") as file:
            return file.read(MAX_BYTES)
    except UnicodeDecodeError:
        raise UsageError(f"{what} in {path!r} is not UTF-8") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path!r}: {_reason(error)}") from None


def check_writable(path: Path | None, what: str) -> None:
    """Refuse a file that could not be written, before anything is paid for."""
    if path is None:
        return
    folder = path.parent
    why = (
        "that is a folder" if path.is_dir()
        else f"there is no folder {str(folder)!r}" if not folder.is_dir()
        else f"the folder {str(folder)!r} is read-only" if not os.access(folder, os.W_OK)
        else None
    )  # fmt: skip
    if why is not None:
        raise UsageError(f"{what} cannot be written to {str(path)!r}: {why}")


def write(path: Path, content: str | bytes) -> None:
    """Write a file as a whole."""
    raw = content.encode() if isinstance(content, str) else content
    try:
        path.write_bytes(raw)
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "not a usable path"


def ledger_of(where: Where, purpose: Purpose) -> ChainedLedger:
    """Open the ledger of a policy for a purpose, as :func:`discreet.ledger.open_ledger` does.

    Looking never makes one, so that an owner may still edit the budget of a policy that
    nobody has used.
    """
    from discreet.ledger import open_ledger  # noqa: PLC0415 - imported when used

    return open_ledger(where.place(), where.load(), purpose=purpose)


def connected(where: Where) -> Remote | None:
    """Reach the service that the environment names, unless a policy file is named.

    A policy that is no file is one of the service's own, by its name.
    """
    url = os.environ.get("DISCREET_URL")
    if not url or (where.policy is not None and _is_file(where.policy)):
        return None
    key = os.environ.get("DISCREET_KEY")
    if not key:
        raise UsageError(
            "DISCREET_URL names a service, but there is no key", hint="export DISCREET_KEY=dk_…"
        )
    from discreet.service import Remote  # noqa: PLC0415 - imported when used

    return Remote(url, key, policy=None if where.policy is None else str(where.policy))


def _is_file(path: Path) -> bool:
    """Whether a policy is one of a file, and not one of a service that has several."""
    return path.suffix == ".toml" or len(path.parts) > 1 or path.is_file()


def curator(where: Where, *, spend: bool) -> Curator:
    """Open the curator of a policy; `spend` says whether a ledger may be made."""
    from discreet.curator import open_curator  # noqa: PLC0415 - imported when used

    book = where.place() if spend else ledger_of(where, "try")
    return open_curator(where.source, where.path, ledger=book, analyst=where.analyst)


def whoever(where: Where, *, spend: bool) -> Curator | Remote:
    """Open whoever is asked: the service that ``DISCREET_URL`` names, or a policy's curator."""
    remote = connected(where)
    return curator(where, spend=spend) if remote is None else remote
