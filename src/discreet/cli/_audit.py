"""``discreet audit``: a policy replayed on made-up neighbours; the auditor on known faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet import audit
from discreet.cli._console import grid, heading, say, show_table, telling, working
from discreet.cli._outcome import Reply

if TYPE_CHECKING:
    from rich.console import Console

_HEADER = ["mechanism", "auditor", "claimed", "certified", "draws", "time"]


def of_gallery(*, peers: bool, draws: int | None) -> Reply:
    """Audit known-broken mechanisms and the shipped ones; print both."""
    with working("auditing the gallery"):
        own = audit.gallery(audit.exhibits(), draws=draws)
        others = audit.gallery(audit.peers() if peers else (), draws=draws)
    rows, more = own.to_dicts(), others.to_dicts()

    def show(console: Console) -> None:
        for title, part in (
            ("Known faults: the auditor must flag them", [r for r in rows if r["broken"]]),
            ("Shipped: the auditor must pass them", [r for r in rows if not r["broken"]]),
            ("Other libraries: what the auditor sees", more),
        ):
            if part:
                heading(console, title)
                show_table(console, grid(_HEADER, [_cells(r) for r in part], right=(4, 5), keys=1))
        console.print()
        say(console, _verdict(rows))

    return Reply({"ok": own.ok, "rows": rows + more}, show, found=not own.ok)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        str(row["mechanism"]),
        "flagged" if row["flagged"] else "passed",
        str(row["claimed"]),
        f"ε ≥ {row['epsilon_lower_bound']:.3g}",
        f"{row['draws']:,}",
        f"{row['seconds']:.2f} s",
    ]


def _verdict(rows: list[dict[str, Any]]) -> str:
    missed = [str(row["mechanism"]) for row in rows if row["broken"] and not row["flagged"]]
    accused = [str(row["mechanism"]) for row in rows if row["flagged"] and not row["broken"]]
    lines = []
    if missed:
        lines.append(f"not found with so few draws: {', '.join(missed)}")
    if accused:
        lines.append(f"WRONG, these are sound: {', '.join(accused)}")
    if not lines:
        lines.append("every verdict is right")
    lines.append("A sound mechanism is flagged with probability below 1e-10.")
    return "\n".join(lines)


def of_policy(policy: str, *, pairs: int, seconds: float, as_json: bool) -> Reply:
    """Replay every column and operator of a policy; then random questions, if there is time."""
    with telling("replaying the policy on made-up neighbours", quiet=as_json) as tell:
        certificate = audit.certify(policy, pairs=pairs, tell=tell)
        random = None
        if seconds and certificate.ok:
            tell(f"random questions for {seconds:g} s")
            random = audit.fuzz(policy, seconds=seconds)
    rows, ok = certificate.to_dicts(), certificate.ok and (random is None or random.ok)

    def show(console: Console) -> None:
        heading(console, f"Policy {certificate.policy}: every column and operator")
        header = ["table", "column", "type", "questions", "refused", "reached"]
        names = ["table", "column", "kind", "questions", "refused"]
        cells = [[*(str(r[n]) for n in names), f"{r['reached']:.0%}"] for r in rows]
        show_table(console, grid(header, cells, right=(3, 4, 5), keys=2))
        console.print()
        say(console, "\n".join([*certificate.verdict(), *([repr(random)] if random else [])]))
        if ok:
            say(console, "No counterexample. An audit can accuse, not prove.")

    data = {"ok": ok, "policy": certificate.policy, "pairs": certificate.pairs, "rows": rows,
            "counterexamples": [{"question": v.question, "words": v.words}
                                for v in certificate.violations]}  # fmt: skip
    if random is not None:
        data["fuzz"] = {"questions": random.questions, "found": [c.words for c in random.found]}
    return Reply(data, show, found=not ok)
