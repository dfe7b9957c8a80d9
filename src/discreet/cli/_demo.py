"""``discreet demo``: the whole road on made-up data, in a temporary folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import meaning
from discreet._dataclass import dataclass, field
from discreet._exact import show as exactly
from discreet._print import number
from discreet.answer import Answer, cell, footer
from discreet.cli._console import (
    bar,
    grid,
    heading,
    say,
    show_table,
    stdout,
    verbatim,
    working,
)
from discreet.cli._outcome import Reply, UsageError, exit_code, hint_line
from discreet.cli._sample import POLICY, REGIONS, write_sample
from discreet.curator import Curator, open_curator
from discreet.errors import DiscreetError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

QUESTION: Final = "SELECT region, COUNT(*) AS visits, AVG(cost) AS cost FROM visits GROUP BY region"
SMOKERS: Final = "SELECT COUNT(DISTINCT person_id) AS smokers FROM visits WHERE smoker"
GREEDY: Final = "SELECT region, reason, AVG(age) AS age FROM visits GROUP BY region, reason"
CURIOUS: Final = "SELECT * FROM visits WHERE person_id = 100001"


@dataclass(slots=True)
class _Tour:
    """What the tour shows, and keeps for ``--json``."""

    console: Console
    results: dict[str, Any] = field(default_factory=dict)

    def title(self, number: int, text: str) -> None:
        heading(self.console, f"{number}  {text}")

    def say(self, text: str, style: str = "") -> None:
        say(self.console, text, style)

    def typed(self, command: str) -> None:
        say(self.console, f"$ discreet {command}", "bold cyan")

    def code(self, text: str) -> None:
        verbatim(self.console, text.rstrip("\n"))

    def table(self, *parts: Any, **options: Any) -> None:
        show_table(self.console, grid(*parts, **options))


def run(people: int, keep: Path | None, *, as_json: bool) -> Reply:
    """Walk the road: policy, price, answer, budget, refusal, meaning."""
    tour = _Tour(stdout())
    tour.console.quiet = as_json
    with folder_for_demo(keep) as folder:
        with working("making up a clinic…"):
            policy, data = write_sample(folder, people)
        with open_curator(policy=policy, analyst="ana") as curator:
            _show_policy(tour, people, data)
            _show_price(tour, curator)
            _show_answer(tour, curator, data)
            _show_accuracy(tour, curator, data)
            _show_budget(tour, curator)
            _show_refusals(tour, curator)
            _show_meaning(tour, curator)
    _show_end(tour, keep)
    return Reply(tour.results, lambda _: None)


@contextmanager
def folder_for_demo(keep: Path | None) -> Iterator[Path]:
    """A folder for the clinic; a temporary one leaves nothing behind, not even an anchor."""
    if keep is not None:
        if keep.exists():
            raise UsageError(f"{str(keep)!r} already exists", hint="--keep a-new-folder")
        try:
            keep.mkdir(parents=True)
        except OSError:
            raise UsageError(f"{str(keep)!r} cannot be made") from None
        yield keep
        return
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory(prefix="discreet-demo-") as name:
        os.environ["XDG_STATE_HOME"] = str(Path(name) / "state")
        try:
            yield Path(name)
        finally:
            if before is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before


def _show_policy(tour: _Tour, people: int, data: pa.Table) -> None:
    tour.title(1, "The policy: what is public, whom it protects, how much may be lost")
    tour.say(
        f"A made-up clinic: {people} people, {data.num_rows} visits. Its owner writes this once; "
        "bounds and categories come from the owner, never from the data."
    )
    tour.code("\n" + POLICY)
    tour.results["data"] = {"people": people, "visits": data.num_rows}


def _show_price(tour: _Tour, curator: Curator) -> None:
    tour.title(2, "The price, before anything is touched")
    tour.typed(f'preview "{QUESTION}" -e 0.5')
    quote = curator.preview(QUESTION, epsilon="0.5")
    tour.code(repr(quote).partition("\nplan")[0])
    tour.results["preview"] = {"cost": quote.cost, "error": quote.error()}


def _show_answer(tour: _Tour, curator: Curator, data: pa.Table) -> None:
    tour.title(3, "The answer, with margins that mean what they say")
    tour.typed('ask "SELECT region, COUNT(*) …" -e 0.5')
    with working("asking…"):
        answer = curator.sql(QUESTION, epsilon="0.5")
    secret = _secret(data)
    rows = [
        [v["region"], cell(v["visits"], e["visits"]), cell(v["cost"], e["cost"]), *exact]
        for v, e, exact in zip(answer.to_dicts(), answer.interval(0.95), secret, strict=True)
    ]
    header = ("region", "visits", "cost", "secret: kept", "all visits", "mean cost")
    tour.table(header, rows, right=(1, 2, 3, 4, 5), keys=1)
    tour.say(footer(answer), "dim")
    tour.say(
        "The last three columns are the secret; you see them only because the clinic is made up. "
        "The policy keeps at most four visits per person, and an interval covers what is kept."
    )
    tour.results["answer"] = _summary(answer)


def _secret(data: pa.Table) -> list[tuple[str, str, str]]:
    """Visits that are kept, all visits, and their mean cost, by region."""
    who, region, cost = (np.asarray(data[name]) for name in ("person_id", "region", "cost"))
    lines = []
    for name in REGIONS:
        here = region == name
        _, often = np.unique(who[here], return_counts=True)
        rows = int(often.clip(max=4).sum())
        mean = float(cost[here].clip(0, 500).mean())
        lines.append((number(rows), number(int(here.sum())), number(mean, 1)))
    return lines


def _show_accuracy(tour: _Tour, curator: Curator, data: pa.Table) -> None:
    tour.title(4, "Or say how exact it must be; discreet finds the least price")
    tour.typed(f'ask "{SMOKERS}" --within smokers=25')
    answer = curator.sql(SMOKERS, within={"smokers": 25})
    (row,), (ends,) = answer.to_dicts(), answer.interval(0.95)
    who = np.asarray(data["person_id"])[np.asarray(data["smoker"])]
    secret = len(np.unique(who))
    tour.table(
        ("smokers", "95 % interval", "the secret"),
        [[str(row["smokers"]), "{:.0f} … {:.0f}".format(*ends["smokers"]), str(secret)]],
        right=(0, 1, 2),
    )
    tour.say(footer(answer), "dim")
    tour.results["accuracy"] = _summary(answer)


def _summary(answer: Answer) -> dict[str, Any]:
    return {
        "rows": answer.to_dicts(),
        "intervals": answer.interval(0.95),
        "cost": dict(answer.cost),
        "left": answer.left,
    }


def _show_budget(tour: _Tour, curator: Curator) -> None:
    tour.title(5, "The budget, in a ledger that survives restarts and clever analysts")
    tour.typed("budget")
    spent, total = curator.ledger.balance().amounts["epsilon"]
    tour.say(f"ε  {bar(float(spent / total), 40)}  {exactly(spent)[:6]} of {exactly(total)} spent")
    again = curator.sql(QUESTION, epsilon="0.5")
    assert again.cached
    tour.say("The same question again: the stored answer, for free.")
    verified = curator.ledger.verify()  # type: ignore[attr-defined]  # opened from a file: chained
    tour.typed("ledger verify")
    tour.say(str(verified), "green")
    tour.results["budget"] = {
        "spent": exactly(spent),
        "total": exactly(total),
        "again": again.cached,
    }


def _show_refusals(tour: _Tour, curator: Curator) -> None:
    tour.title(6, "Refusals: said before any data are read, and free")
    refusals = []
    for sql, epsilon in ((GREEDY, "1.8"), (CURIOUS, "0.1")):
        tour.typed(f'ask "{sql}" -e {epsilon}')
        try:
            curator.sql(sql, epsilon=epsilon)
        except DiscreetError as error:
            tour.say(f"refused: {error.message}", "yellow")
            if error.hint:
                tour.say(f"    try: {hint_line(error.hint)}")
            refusals.append({"error": error.code, "exit": int(exit_code(error))})
    tour.results["refusals"] = refusals


def _show_meaning(tour: _Tour, curator: Curator) -> None:
    tour.title(7, "What all this has meant for one person")
    tour.typed("meaning --policy clinic.toml")
    text = meaning.of(curator.ledger)
    tour.say(str(text))
    tour.results["meaning"] = {"epsilon": text.epsilon, "factor": text.factor}


def _show_end(tour: _Tour, keep: Path | None) -> None:
    tour.title(8, "Your own data")
    if keep is not None:
        tour.say(f"The clinic stays in {keep}: discreet ask --policy {keep / 'clinic.toml'}\n")
    tour.code(
        "discreet init people.parquet      draft a policy from the schema alone\n"
        "discreet check people.toml        is it usable, and do the data fit it\n"
        "discreet ask -p people.toml       a prompt; it never spends unasked\n"
        "discreet --help                   everything else\n"
        "python examples/tour.py           a tour of the core: noise, accounting, audits"
    )
