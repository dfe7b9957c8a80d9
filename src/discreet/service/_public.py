"""What everybody may know: what was released under a policy, and what holds about it.

Released is what the owner published with ``discreet release``: debits whose key says so and
whose noise is that of a publication. Analysts cannot make such a debit through the service,
which takes SQL, so nobody's own answer is ever listed here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from discreet._dataclass import dataclass, replace
from discreet._exact import show
from discreet.errors import LedgerError
from discreet.ledger import ChainedLedger, Line, exact_in
from discreet.policy import Policy
from discreet.release import About, deployment
from discreet.service._sign import Signer

_KEY: Final = "release "
_KIND: Final = '"kind":"publication"'


@dataclass(frozen=True, slots=True)
class Released:
    """One published table."""

    number: int
    hash: str
    when: str
    title: str
    edition: str
    table: str
    cost: Mapping[str, Any]
    unit: str
    neighbours: str
    record: Mapping[str, Any]

    @property
    def method(self) -> str:
        """How it was made."""
        return str(self.record["parts"][0]["method"])

    @property
    def unprotected(self) -> list[str]:
        """What it gives exactly, and what that gives away."""
        questions = (q for part in self.record["parts"] for q in part["questions"])
        return [
            f"{self.table}: {q['meaning']}, exactly"
            for q in questions
            if q["kind"] == "unprotected"
        ]

    def to_dict(self) -> dict[str, Any]:
        """Write it for a list; the record has an address of its own."""
        return {
            "line": {"number": self.number, "hash": self.hash}, "when": self.when,
            "title": self.title, "edition": self.edition, "table": self.table,
            "method": self.method, "cost": dict(self.cost), "unit": self.unit,
            "neighbours": self.neighbours, "unprotected": self.unprotected,
            "links": {"record": f"/v1/releases/{self.number}"},
        }  # fmt: skip

    def signed(self, fingerprint: str, signer: Signer) -> dict[str, Any]:
        """Give the record with the service's signature, as an answer's is."""
        about = {"id": self.hash, "line": {"number": self.number, "hash": self.hash},
                 "policy": fingerprint, "records": [dict(self.record)]}  # fmt: skip
        return {**about, "signature": signer.sign(about)}


class Board:
    """The releases of one ledger; each line is read once."""

    def __init__(self, ledger: ChainedLedger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._last = 0
        self._open: dict[int, Line] = {}
        self._releases: dict[int, Released] = {}
        self._exact: dict[int, list[str]] = {}

    def all(self) -> list[Released]:
        """Give what is released by now, oldest first."""
        with self._lock:
            for number in self._settled():
                self._releases[number] = _released(self._ledger, self._open.pop(number))
            return list(self._releases.values())

    def _settled(self) -> list[int]:
        """Read the lines that are new; give publications that have their outcome now."""
        settled = []
        with self._ledger.reading() as (tx, head):
            for number in range(self._last + 1, head.number + 1):
                line = tx.line(number)
                if line is None:
                    raise LedgerError("a line of the ledger is missing")
                if line.kind == "debit" and (exact := exact_in(line.content["noise"])):
                    tables = ", ".join(line.content.get("tables") or ())
                    self._exact[number] = [f"{tables}: {text}, exactly" for text in exact]
                if line.kind == "debit" and _KIND in line.content["noise"]:
                    if (line.content.get("key") or "").startswith(_KEY):
                        self._open[number] = line
                elif line.kind == "settle" and line.content["debit"] in self._open:
                    settled.append(line.content["debit"])
                self._last = number
        return settled

    def exact(self, policy: Policy) -> list[str]:
        """Say what was released exactly, by whomever, and what the policy lets come out so."""
        publications = {r.number: r.unprotected for r in self.all()}
        by_line = {**self._exact, **publications}
        permissions = [f"{t.name}: {word} may be released exactly" for t in policy.tables.values()
                       for word in t.unprotected]  # fmt: skip
        return list(
            dict.fromkeys([*(text for texts in by_line.values() for text in texts), *permissions])
        )

    def find(self, number: int) -> Released | None:
        """Give one release by the number of its line."""
        self.all()
        return self._releases.get(number)


def _released(ledger: ChainedLedger, line: Line) -> Released:
    outcome = ledger.outcome(line.number, line.hash)
    if outcome is None or outcome[1] is None:
        raise LedgerError("an outcome is missing")
    content = line.content
    parts = content["key"].removeprefix(_KEY).rsplit("/", 3)
    title, edition, table = [*parts, "", "", ""][:3]
    return Released(
        line.number, line.hash, line.when[:19], title, edition, table, content["cost"],
        content["unit"] or "one row", content["neighbours"], json.loads(outcome[1])[0],
    )  # fmt: skip


def statement(
    policy: Policy, *, key: str | None = None, overruns: int | None = None,
    exact: Sequence[str] = (),
) -> list[tuple[str, str, str]]:  # fmt: skip
    """One line for each layer of a deployment: what holds, and how that is known.

    `policy` is the one in force (:func:`in_force`).

    The layers are those by which NIST SP 800-226 judges a guarantee: parameters and unit,
    algorithms and their correctness, then what lies around them.
    """
    private = [t for t in policy.tables.values() if not t.public]
    units = "; ".join(f"{t.name}: {t.unit or 'one row'} ({t.neighbours.value})" for t in private)
    budget = policy.budget
    totals = ", ".join(
        f"{n} = {show(v)}" for n in ("epsilon", "delta", "rho") if (v := getattr(budget, n))
    )
    count = "" if overruns is None else f": {overruns} so far"
    signature = "with the service's own key" if key is None else f"by {key}"
    open_tables = [t.name for t in policy.tables.values() if t.public]
    exact = [*exact, *(f"table {name} protects nobody" for name in open_tables)]
    return [
        ("unit and relation", units, "declared by the owner"),
        ("total loss", f"{totals}, {budget.accounting} accounting",
         "declared; enforced by the ledger"),
        ("what is not protected", "; ".join(exact) or "nothing is released without noise",
         "declared by the owner"),
        ("several analysts", "one cap for all together, above any shares: colluding gains nothing",
         "enforced by the ledger"),
        ("algorithms", "exact integer noise; sensitivities come from the plan, as integers",
         "proved, and tested"),
        ("composition", "a filter: parameters may be chosen after earlier answers", "proved"),
        ("statements", "each is proved to enforce its limits before it runs",
         "proved by a verifier of its own"),
        ("utility", "every number has an interval; its error is known before paying", "tested"),
        ("side channels: time",
         f"answers leave at ticks fixed before the run; overruns are counted{count}",
         "tested; the machine itself is outside"),
        ("access", "analysts and public have no way to the data; roles are enforced",
         "tested; accounts of the machine are outside"),
        ("answers", f"signed {signature}", "checked by discreet verify"),
        ("trust", "one curator holds the data and is trusted", "outside"),
        ("collection, groups, correlations, what was published before", "not covered", "outside"),
    ]  # fmt: skip


def entry(policy: Policy, ledger: ChainedLedger, board: Board, about: About) -> str:
    """Write the deployment's entry for the public registry; the budget is the one in force."""
    first = next((r.when[:10] for r in board.all()), None)
    details = replace(about, since=about.since or first)
    return deployment(in_force(policy, ledger), details, exact=board.exact(policy))


def in_force(policy: Policy, ledger: ChainedLedger) -> Policy:
    """Give the policy with the budget on record: what its file states may have been changed.

    Whatever says to somebody what holds says it of this.
    """
    return replace(policy, budget=ledger.state.limits)
