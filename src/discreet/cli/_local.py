"""``discreet local``: commands and options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli._options import Json, command

local_app = typer.Typer(
    help="Let people randomise their own answers, and read the reports.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Protocol = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="kary, mean, rappor, …; 'best' chooses. See docs/local.md."),
]
Epsilon = Annotated[
    str | None, typer.Option("--epsilon", "-e", metavar="NUMBER", help="ε of one report.")
]
Values = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="All values that may occur, in a fixed order.")
]
Domain = Annotated[int | None, typer.Option(min=2, help="Instead: values are 0, …, DOMAIN − 1.")]
Low = Annotated[str | None, typer.Option(metavar="NUMBER", help="For means: least value.")]
High = Annotated[str | None, typer.Option(metavar="NUMBER", help="For means: greatest value.")]
SpecFile = Annotated[
    Path | None,
    typer.Option("--spec", metavar="FILE", help="Instead of all that: a saved specification."),
]


def _given(
    *,
    protocol: Protocol = None,
    epsilon: Epsilon = None,
    values: Values = None,
    domain: Domain = None,
    low: Low = None,
    high: High = None,
    spec: SpecFile = None,
) -> dict[str, Any]:
    return {
        "protocol": protocol, "epsilon": epsilon, "values": values, "domain": domain,
        "low": low, "high": high, "spec": spec,
    }  # fmt: skip


Given = Annotated[dict[str, Any], _given]


@command(local_app, "local demo", "_local_work.demo")
def demo(
    people: Annotated[
        int, typer.Option(min=1000, max=2_000_000, help="How many people are made up.")
    ] = 20_000,
    epsilon: Annotated[
        str, typer.Option("--epsilon", "-e", metavar="NUMBER", help="ε of one donated emoji.")
    ] = "1",
) -> None:
    """See favourite emoji and a sensitive question, collected without trust."""


@command(local_app, "local randomize", "_local_work.randomize")
def randomize(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV, JSONL or Parquet; - is stdin.")
    ],
    *,
    column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column with the values, if there are several."),
    ] = None,
    given: Given,
    save_spec: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the specification, for aggregate.")
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help=".jsonl, .parquet, .csv, .bin; - is stdout."
        ),
    ] = "-",
    as_json: Json = False,
) -> None:
    """Randomise one value per row: one report per row, nothing else."""


@command(local_app, "local aggregate", "_local_work.aggregate")
def aggregate(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="FILE…", help="Reports: .jsonl, .parquet, .csv, .bin; - is stdin."),
    ],
    *,
    given: Given,
    candidates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Values to look for, one per line.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose privacy: person, device, …")
    ] = None,
    reports_per_unit: Annotated[
        int, typer.Option(min=1, help="Reports that one unit sends at most.")
    ] = 1,
    confidence: Annotated[
        str, typer.Option("--confidence", "-c", metavar="NUMBER", help="Level of every interval.")
    ] = "0.95",
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="All intervals hold at once.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Resume from it, and save the totals in it.")
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .svg, .png, .html, .json.")
    ] = None,
) -> None:
    """Read reports in constant memory; estimates with intervals."""
