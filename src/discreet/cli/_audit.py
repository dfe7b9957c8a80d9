"""``discreet audit``: the auditor on show, and known faults it must flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet import audit
from discreet.cli._console import grid, say, show_table, working
from discreet.cli._outcome import Reply, UsageError

if TYPE_CHECKING:
    from rich.console import Console


def of_gallery(*, peers: bool, draws: int | None) -> Reply:
    """Audit known-broken mechanisms and the shipped ones; print both."""
    shown = (*audit.exhibits(), *(audit.peers() if peers else ()))
    others = {exhibit.name for exhibit in audit.peers()} if peers else set()
    with working("auditing the gallery"):
        result = audit.gallery(shown, draws=draws)
    rows = result.to_dicts()
    for row in rows:
        if row["mechanism"] in others:
            # nobody has said whether these are broken; the auditor says what it sees
            row |= {"broken": None, "right": None}
    ours = [row for row in rows if row["right"] is not None]
    right = all(row["right"] for row in ours)
    data = {"ok": right, "rows": rows}

    def show(console: Console) -> None:
        cells = [
            [
                str(row["mechanism"]),
                str(row["claim"]),
                {True: "broken", False: "sound", None: "?"}[row["broken"]],
                "flagged" if row["flagged"] else "passed",
                f"ε ≥ {row['epsilon_lower_bound']:.3g}",
                f"{row['draws']:,}",
                f"{row['seconds']:.2f} s",
            ]
            for row in rows
        ]
        header = ["mechanism", "claim", "known as", "auditor", "certified", "draws", "time"]
        show_table(console, grid(header, cells, right=(5, 6), keys=1))
        wrong = [row["mechanism"] for row in ours if not row["right"]]
        verdict = "every verdict is right" if right else f"wrong: {', '.join(map(str, wrong))}"
        say(console, f"{verdict}; a sound mechanism is flagged with probability below 1e-10 each")

    return Reply(data, show)


def nothing_asked() -> Reply:
    """Refuse a bare ``discreet audit``."""
    raise UsageError("say what to audit", hint="discreet audit --gallery")
