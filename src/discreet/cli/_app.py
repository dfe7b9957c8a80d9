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
from discreet.cli._outcome import MEANING, Exit, UsageError, deliver, fail, interrupted

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

Sql = Annotated[str | None, "SQL", "One SELECT."]
SqlFile = Annotated[str | None, "-f", "FILE", "Read the SQL here; - is stdin."]
Chart = Annotated[Path | None, "FILE", "Draw it: .svg, .png, .html, or .json for the Vega-Lite."]


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
    *,
    people: Annotated[int, "People to make up.", {"min": 200, "max": 200_000}] = 4000,
    keep: Annotated[Path | None, "FOLDER", "Keep data, policy and ledger in a new folder."] = None,
    as_json: Json = False,
) -> None:
    """See it all in ten seconds, on made-up data.

    Policy, price, answer, budget, refusal, meaning.
    """


@command(app, "init", "_init.run")
def init(
    source: Annotated[str, "FILE|URL", "Parquet, CSV, DuckDB file or PostgreSQL URL."],
    *,
    table: Annotated[list[str] | None, "-t", "NAME", "Only this table of a database."] = None,
    unit: Annotated[str | None, "COLUMN", "Column that says whose row it is, or 'row'."] = None,
    max_rows: Annotated[int | None, "Rows of one person that are kept at most.", {"min": 1}] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    output: Output = None,
    force: Annotated[bool, "Replace a policy that is there."] = False,
    no_input: Annotated[bool, "Ask nothing; leave blanks to fill in."] = False,
    spend: Annotated[
        str | None, "NUMBER", "ε for private proposals; FILE is then a policy."
    ] = None,
    column: Annotated[list[str] | None, "-c", "NAME", "With --spend: only for this column."] = None,
    as_json: Json = False,
) -> None:
    """Draft a policy from a schema, without reading a single value."""


@command(app, "check")
def check(
    policy: Annotated[Path | None, "POLICY", "Policy file."] = None,
    *,
    source: Source = None,
    schema: Annotated[bool, "--schema/--no-schema", "Compare with the data's schema."] = True,
    spend: Annotated[
        str | None, "NUMBER", "ε for the shares of missing and clamped values."
    ] = None,
) -> Any:
    """Check a policy and the schema of its data, and sum both up."""
    return module("_check").run(policy, source, schema=schema, spend=spend)


@command(app, "release", "_release.run")
def release(
    words: Annotated[list[str], "[preview] PLAN", "Release plan, a TOML file."],
    *,
    dummy: Annotated[bool, "Rehearse on made-up data; nothing is charged."] = False,
    source: Source = None,
    ledger: LedgerPlace = None,
    analyst: Analyst = None,
    output: Annotated[str | None, "-o", "FOLDER", "Write here."] = None,
) -> None:
    """Publish what a release plan declares; "preview" prices it for free."""


@command(app, "preview", "_ask.preview")
def preview(
    sql: Sql = None,
    *,
    file: SqlFile = None,
    offer: Offer,
    where: Place,
    show_sql: Annotated[bool, "Show the SQL that would run, too."] = False,
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
    save: Annotated[Path | None, "FILE", "Save the answer's record, for discreet explain."] = None,
    fresh: Annotated[bool, "Pay for new noise even if this was answered before."] = False,
    key: Annotated[str | None, "TEXT", "Idempotency key: a retry with it never pays twice."] = None,
    as_json: Json = False,
) -> Any:
    """Ask a question and pay for it; without SQL, at a prompt."""
    if sql is None and file is None and not as_json and sys.stdin.isatty():
        return module("_prompt").run(where, offer)
    return module("_ask").ask(where, sql, file, offer, chart=chart, save=save, fresh=fresh, key=key)


@command(app, "explain", "_explain.run")
def explain(
    record: Annotated[str, "RECORD.json", "A record; - is stdin."],
    *,
    confidence: Confidence = "0.95",
    simultaneous: Annotated[bool, "All intervals hold at once."] = False,
    chart: Chart = None,
) -> None:
    """Recompute intervals from a record; say what they cover."""


@command(app, "docs", "_docs.run")
def docs(
    page: Annotated[str | None, "PAGE", "A page; left out, all are listed."] = None,
) -> None:
    """Read the documentation that came with the program."""


@command(app, "meaning")
def meaning(
    *,
    epsilon: Epsilon = None,
    prior: Annotated[str, "NUMBER", "Belief in some fact without the data."] = "0.02",
    delta: Delta = None,
    group: Annotated[int, "People considered together.", {"min": 1}] = 1,
    neighbours: Annotated[Relation, "Relation that ε is stated under."] = Relation.ADD_REMOVE,
    where: OnLedger,
    table: Annotated[str | None, "NAME", "Only this table of the ledger."] = None,
    html: Annotated[Path | None, "FILE", "Write one page with sliders, no network."] = None,
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
    policy: Annotated[str | None, "Policy to replay on made-up neighbours."] = None,
    *,
    gallery: Annotated[bool, "Audit known-broken mechanisms and the shipped ones."] = False,
    peers: Annotated[bool, "Add other libraries' noise, where installed."] = False,
    draws: Annotated[
        int | None, "Draws per input, instead of each one's own.", {"min": 100}
    ] = None,
    pairs: Annotated[int, "Pairs of neighbouring tables for each question.", {"min": 1}] = 8,
    fuzz: Annotated[float, "Seconds of random questions afterwards.", {"min": 0}] = 0,
    as_json: Json = False,
) -> Any:
    """Try to break a policy's questions, or mechanisms, on neighbouring inputs."""
    audits = module("_audit")
    if policy is not None and not gallery:
        return audits.of_policy(policy, pairs=pairs, seconds=fuzz, as_json=as_json)
    if gallery and policy is None:
        return audits.of_gallery(peers=peers, draws=draws)
    raise UsageError("say what to audit", hint="discreet audit people.toml")


@command(app, "serve", "_serve.run")
def serve(
    policies: Annotated[list[Path] | None, "[POLICY]...", "Policy files."] = None,
    *,
    demo: Annotated[bool, "A made-up clinic, with keys printed."] = False,
    host: Annotated[str, "Address to listen on."] = "127.0.0.1",
    port: Annotated[int, "Port; 0 takes a free one.", {"min": 0, "max": 65535}] = 8350,
    home: HomeFolder = HOME,
    ledger: LedgerPlace = None,
    source: Source = None,
    workers: Annotated[
        int, "Processes that read data, for each policy.", {"min": 1, "max": 64}
    ] = 2,
    memory: Annotated[int, "MiB for each of them.", {"min": 256}] = 2048,
    spill: Annotated[str, "What each may spill to disk."] = "20GB",
    tick: Annotated[float, "Seconds to an answer where no size is declared.", {"min": 0.25}] = 4.0,
    proxy: Annotated[str | None, "ADDRESS", "A reverse proxy to believe."] = None,
    cap: Annotated[str, "NUMBER", "ε for one conversation of an assistant."] = "0.2",
    oidc: Annotated[Path | None, "FILE", "Rules of sign-in by OpenID Connect."] = None,
    people: Annotated[int, "People of --demo.", {"min": 200, "max": 4000}] = 4000,
    as_json: Json = False,
) -> None:
    """Answer others over HTTP: keys, budgets, ticks, pages."""


@command(app, "register", "_serve.register")
def register(
    policy: Annotated[Path | None, "[POLICY]", "The policy's file."] = None,
    *,
    curator: Annotated[str | None, "Who publishes."] = None,
    description: Annotated[str | None, "What the data are."] = None,
    use: Annotated[str | None, "What answers are for."] = None,
    region: Annotated[str | None, "Which region, or whose laws."] = None,
    since: Annotated[str | None, "YYYY-MM-DD", "First publication."] = None,
    statement: Annotated[bool, "Print instead what holds, layer by layer."] = False,
    output: Annotated[Path | None, "-o", "FILE", "Write here."] = None,
    ledger: LedgerPlace = None,
) -> None:
    """Write the entry of a policy for the public registry of deployments, as YAML."""


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
    file: Annotated[str, "FILE", "A signed answer; - is stdin."],
    *,
    key: Annotated[str | None, "ed25519:…", "The curator's public key, if known."] = None,
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
