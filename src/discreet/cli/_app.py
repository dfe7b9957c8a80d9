"""Commands and their options; what they do is imported when they run."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import discreet
from discreet.cli._decide import budget_app
from discreet.cli._engine import engine_app
from discreet.cli._keys import HOME, HomeFolder, key_app
from discreet.cli._ledger import ledger_app
from discreet.cli._local import local_app
from discreet.cli._options import (
    Analyst,
    Confidence,
    Delta,
    Epsilon,
    Json,
    LedgerPlace,
    Offer,
    OnLedger,
    Output,
    Place,
    PolicyFile,
    Source,
    command,
    module,
)
from discreet.cli._outcome import MEANING, Exit, deliver, fail, interrupted

_EPILOG = "Exit codes: " + " · ".join(f"{int(c)} {m.split(':')[0]}" for c, m in MEANING.items())

app = typer.Typer(
    name="discreet",
    help="Ask private tables questions: exact noise, honest error bars, a budget that holds.",
    epilog=_EPILOG,
    rich_markup_mode=None,  # plain help starts in half the time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(budget_app, name="budget")
app.add_typer(ledger_app, name="ledger")
app.add_typer(key_app, name="key")
app.add_typer(local_app, name="local")
app.add_typer(engine_app, name="engine")


class Relation(StrEnum):
    """Neighbour relations, as policies spell them."""

    ADD_REMOVE = "add-remove"
    CHANGE_ONE = "change-one"


# -- options that several commands share ------------------------------------------

Sql = Annotated[str | None, typer.Argument(metavar="SQL", help="One SELECT.")]
SqlFile = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the SQL here; - is stdin.")
]
Chart = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw it: .svg, .png, .html, or .json for the Vega-Lite."),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(discreet.__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@command(app, "demo", "_demo.run")
def demo(
    people: Annotated[int, typer.Option(min=200, max=200_000, help="People to make up.")] = 4000,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep data, policy and ledger in a new folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """See it all in ten seconds, on made-up data.

    Policy, price, answer, budget, refusal, meaning.
    """


@command(app, "init")
def init(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|URL", help="Parquet, CSV, DuckDB file or PostgreSQL URL."),
    ],
    *,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", metavar="NAME", help="Only this table of a database."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that says whose row it is, or 'row'."),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of one person that are kept at most.")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    output: Output = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a policy that is there.")] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Ask nothing; leave blanks to fill in.")
    ] = False,
    spend: Annotated[
        str | None,
        typer.Option(
            "--spend", metavar="NUMBER", help="ε for private proposals; FILE is then a policy."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", metavar="NAME", help="With --spend: only for this column."),
    ] = None,
    as_json: Json = False,
) -> Any:
    """Draft a policy from a schema, without reading a single value."""
    if spend is not None:
        return module("_propose").run(source, spend=spend, delta=delta, columns=column or [])
    return module("_init").run(
        source,
        tables=table or [],
        unit=unit,
        max_rows=max_rows,
        epsilon=epsilon,
        delta=delta,
        output=output,
        force=force,
        interactive=not (no_input or as_json) and sys.stdin.isatty(),
    )


@command(app, "check")
def check(
    policy: Annotated[
        Path | None, typer.Argument(metavar="POLICY", help="Policy file.", show_default=False)
    ] = None,
    source: Source = None,
    schema: Annotated[
        bool, typer.Option("--schema/--no-schema", help="Compare with the data's schema.")
    ] = True,
    spend: Annotated[
        str | None,
        typer.Option(
            "--spend", metavar="NUMBER", help="ε for the shares of missing and clamped values."
        ),
    ] = None,
) -> Any:
    """Check a policy and the schema of its data, and sum both up."""
    return module("_check").run(policy, source, schema=schema, spend=spend)


@command(app, "release", "_release.run")
def release(
    words: Annotated[
        list[str], typer.Argument(metavar="[preview] PLAN", help="Release plan, a TOML file.")
    ],
    *,
    dummy: Annotated[
        bool, typer.Option("--dummy", help="Rehearse on made-up data; nothing is charged.")
    ] = False,
    source: Source = None,
    ledger: LedgerPlace = None,
    analyst: Analyst = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FOLDER", help="Write here.")
    ] = None,
) -> None:
    """Publish what a release plan declares; "preview" prices it for free."""


@command(app, "preview", "_ask.preview")
def preview(
    sql: Sql = None,
    *,
    file: SqlFile = None,
    offer: Offer,
    where: Place,
    show_sql: Annotated[
        bool, typer.Option("--show-sql", help="Show the SQL that would run, too.")
    ] = False,
) -> None:
    """Price a question for free: cost, expected error, plan."""


@command(app, "ask")
def ask(
    sql: Sql = None,
    *,
    file: SqlFile = None,
    offer: Offer,
    where: Place,
    chart: Chart = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the answer's record, for discreet explain."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Pay for new noise even if this was answered before.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Idempotency key: a retry with it never pays twice."),
    ] = None,
    as_json: Json = False,
) -> Any:
    """Ask a question and pay for it; without SQL, at a prompt."""
    if sql is None and file is None and not as_json and sys.stdin.isatty():
        return module("_prompt").run(where, offer)
    return module("_ask").ask(where, sql, file, offer, chart=chart, save=save, fresh=fresh, key=key)


@command(app, "explain", "_explain.run")
def explain(
    record: Annotated[str, typer.Argument(metavar="RECORD.json", help="A record; - is stdin.")],
    confidence: Confidence = "0.95",
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="All intervals hold at once.")
    ] = False,
    chart: Chart = None,
) -> None:
    """Recompute intervals from a record; say what they cover."""


@command(app, "docs", "_docs.run")
def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="PAGE", help="A page; left out, all are listed.")
    ] = None,
) -> None:
    """Read the documentation that came with the program."""


@command(app, "meaning")
def meaning(
    *,
    epsilon: Epsilon = None,
    prior: Annotated[
        str, typer.Option(metavar="NUMBER", help="Belief in some fact without the data.")
    ] = "0.02",
    delta: Delta = None,
    group: Annotated[int, typer.Option(min=1, help="People considered together.")] = 1,
    neighbours: Annotated[
        Relation, typer.Option(help="Relation that ε is stated under.")
    ] = Relation.ADD_REMOVE,
    where: OnLedger,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this table of the ledger.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page with sliders, no network.")
    ] = None,
) -> Any:
    """Say what an ε, or a whole ledger, means for a person."""
    page = module("_meaning")
    if epsilon is None:
        return page.of_ledger(where, group, table, html)
    return page.of_epsilon(
        epsilon, prior, delta=delta, group=group, neighbours=neighbours.value, html=html
    )


@command(app, "audit")
def audit(
    policy: Annotated[
        str | None, typer.Argument(help="Policy to replay on made-up neighbours.")
    ] = None,
    *,
    gallery: Annotated[
        bool, typer.Option("--gallery", help="Audit known-broken mechanisms and the shipped ones.")
    ] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="Add other libraries' noise, where installed.")
    ] = False,
    draws: Annotated[
        int | None, typer.Option(min=100, help="Draws per input, instead of each one's own.")
    ] = None,
    pairs: Annotated[
        int, typer.Option(min=1, help="Pairs of neighbouring tables for each question.")
    ] = 8,
    fuzz: Annotated[float, typer.Option(min=0, help="Seconds of random questions afterwards.")] = 0,
) -> Any:
    """Try to break a policy's questions, or mechanisms, on neighbouring inputs."""
    audits = module("_audit")
    if policy is not None and not gallery:
        return audits.of_policy(policy, pairs=pairs, seconds=fuzz)
    if gallery and policy is None:
        return audits.of_gallery(peers=peers, draws=draws)
    return audits.nothing_asked()


@command(app, "serve", "_serve.run")
def serve(
    policies: Annotated[
        list[Path] | None, typer.Argument(metavar="[POLICY]...", help="Policy files.")
    ] = None,
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="A made-up clinic, with keys printed.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8350,
    home: HomeFolder = HOME,
    ledger: LedgerPlace = None,
    source: Source = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that read data, for each policy.")
    ] = 2,
    memory: Annotated[int, typer.Option(min=256, help="MiB for each of them.")] = 2048,
    spill: Annotated[str, typer.Option(help="What each may spill to disk.")] = "20GB",
    tick: Annotated[
        float, typer.Option(min=0.25, help="Seconds to an answer where no size is declared.")
    ] = 4.0,
    proxy: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A reverse proxy to believe.")
    ] = None,
    cap: Annotated[
        str, typer.Option(metavar="NUMBER", help="ε for one conversation of an assistant.")
    ] = "0.2",
    oidc: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rules of sign-in by OpenID Connect.")
    ] = None,
    people: Annotated[int, typer.Option(min=200, max=4000, help="People of --demo.")] = 4000,
    as_json: Json = False,
) -> None:
    """Answer others over HTTP: keys, budgets, ticks, pages."""


@command(app, "register")
def register(
    policy: Annotated[
        Path | None, typer.Argument(metavar="[POLICY]", help="The policy's file.")
    ] = None,
    *,
    curator: Annotated[str | None, typer.Option(help="Who publishes.")] = None,
    description: Annotated[str | None, typer.Option(help="What the data are.")] = None,
    use: Annotated[str | None, typer.Option(help="What answers are for.")] = None,
    region: Annotated[str | None, typer.Option(help="Which region, or whose laws.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="First publication.")
    ] = None,
    statement: Annotated[
        bool, typer.Option("--statement", help="Print instead what holds, layer by layer.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here.")
    ] = None,
    ledger: LedgerPlace = None,
) -> Any:
    """Write the entry of a policy for the public registry of deployments, as YAML."""
    given = {"curator": curator, "description": description, "use": use, "region": region,
             "since": since}  # fmt: skip
    about = {name: text for name, text in given.items() if text is not None}
    where = module("_session").Where(policy, None, ledger, None)
    return module("_serve").register(where, about=about, output=output, layers=statement)


@app.command()
def mcp(
    *,
    cap: Annotated[str, typer.Option(metavar="NUMBER", help="ε for one conversation.")] = "0.2",
    policy: PolicyFile = None,
    source: Source = None,
    ledger: LedgerPlace = None,
    analyst: Analyst = None,
) -> None:
    """Offer tools to an AI assistant over standard input and output.

    Asks the service of DISCREET_URL with DISCREET_KEY, or a policy here.
    """

    def work() -> Any:
        where = module("_session").Where(policy, source, ledger, analyst)
        return module("_serve").offer_tools(where, cap)

    deliver("mcp", work, as_json=False)


@command(app, "verify", "_serve.verify")
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A signed answer; - is stdin.")],
    *,
    key: Annotated[
        str | None, typer.Option(metavar="ed25519:…", help="The curator's public key, if known.")
    ] = None,
) -> None:
    """Check a signed answer of a service, offline."""


# -- from a shell -----------------------------------------------------------------------


def main(argv: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ε still gets an answer
    sys.exit(int(_run(arguments)))


def _run(arguments: list[str]) -> int:
    as_json = "--json" in arguments
    try:
        try:
            code = app(arguments, prog_name="discreet", standalone_mode=not as_json)
        except typer.TyperException as error:  # only with --json: typer prints its own otherwise
            hint = "discreet --help"
            fail(Exit.USAGE, "usage", error.format_message(), hint, as_json=True)
        except (typer.Abort, KeyboardInterrupt) as stop:
            interrupted(stop, as_json=as_json)
    except typer.Exit as left:
        return left.exit_code
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(Exit.OK)
    except BrokenPipeError:
        # whoever read the answer has gone; say nothing at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.OK)
    return code if isinstance(code, int) else int(Exit.OK)
