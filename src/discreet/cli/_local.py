"""``discreet local``: commands and options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli._options import Confidence, Json, command

local_app = typer.Typer(
    help="Let people randomise their own answers, and read the reports.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


def _choices(
    *,
    protocol: Annotated[
        str | None, "NAME", "kary, mean, rappor, …; 'best' chooses. See docs/local.md."
    ] = None,
    epsilon: Annotated[str | None, "-e", "NUMBER", "ε of one report."] = None,
    values: Annotated[str | None, "A,B,…", "All values that may occur, in a fixed order."] = None,
    domain: Annotated[int | None, "Instead: values are 0, …, DOMAIN − 1.", {"min": 2}] = None,
    low: Annotated[str | None, "NUMBER", "For means: least value."] = None,
    high: Annotated[str | None, "NUMBER", "For means: greatest value."] = None,
    spec: Annotated[Path | None, "FILE", "Instead of all that: a saved specification."] = None,
) -> dict[str, Any]:
    return {
        "protocol": protocol, "epsilon": epsilon, "values": values, "domain": domain,
        "low": low, "high": high, "spec": spec,
    }  # fmt: skip


Choices = Annotated[dict[str, Any], _choices]


@command(local_app, "local demo", "_local_work.demo")
def demo(
    *,
    people: Annotated[
        int, "How many people are made up.", {"min": 1000, "max": 2_000_000}
    ] = 20_000,
    epsilon: Annotated[str, "-e", "NUMBER", "ε of one donated emoji."] = "1",
) -> None:
    """See favourite emoji and a sensitive question, collected without trust."""


@command(local_app, "local randomize", "_local_work.randomize")
def randomize(
    source: Annotated[str, "FILE", "CSV, JSONL or Parquet; - is stdin."],
    *,
    column: Annotated[str | None, "NAME", "Column with the values, if there are several."] = None,
    choices: Choices,
    save_spec: Annotated[Path | None, "FILE", "Save the specification, for aggregate."] = None,
    output: Annotated[str, "-o", "FILE", ".jsonl, .parquet, .csv, .bin; - is stdout."] = "-",
    as_json: Json = False,
) -> None:
    """Randomise one value per row: one report per row, nothing else."""


@command(local_app, "local aggregate", "_local_work.aggregate")
def aggregate(
    sources: Annotated[list[str], "FILE…", "Reports: .jsonl, .parquet, .csv, .bin; - is stdin."],
    *,
    choices: Choices,
    candidates: Annotated[Path | None, "FILE", "Values to look for, one per line."] = None,
    unit: Annotated[str | None, "NAME", "Whose privacy: person, device, …"] = None,
    reports_per_unit: Annotated[int, "Reports that one unit sends at most.", {"min": 1}] = 1,
    confidence: Confidence = "0.95",
    simultaneous: Annotated[bool, "All intervals hold at once."] = False,
    state: Annotated[Path | None, "FILE", "Resume from it, and save the totals in it."] = None,
    chart: Annotated[Path | None, "FILE", "Draw it: .svg, .png, .html, .json."] = None,
) -> None:
    """Read reports in constant memory; estimates with intervals."""
