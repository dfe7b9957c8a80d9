"""``discreet serve`` and ``discreet key``: what they do."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet._text import visible
from discreet.cli._console import grid, say, show_table, stderr, verbatim
from discreet.cli._demo import folder_for_demo
from discreet.cli._init import _Draft, draft_text
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._sample import write_sample
from discreet.cli._schema import Field, Schema, kind_of
from discreet.cli._session import (
    Where,
    check_writable,
    ledger_of,
    policy_file,
    read_text,
    whoever,
    write,
)
from discreet.service import Home, Keys, Tools, server, verified

if TYPE_CHECKING:
    from rich.console import Console

_CAST = {"owner": "owner", "ana": "analyst", "ben": "analyst", "auditor": "auditor"}
_SIZE = "\n[service]\nrows = 16000                   # visits at most, as everybody may know\n"


def add_key(name: str, role: str, policy: Sequence[str] | None, home: Path) -> Reply:
    """Make a key and show it."""
    key = Keys(Home(home)).add(name, role, tuple(policy or ()))

    def show(console: Console) -> None:
        say(console, key)
        say(stderr(), f"the key of {name}, {role}; it cannot be shown again", "dim")

    return Reply({"name": name, "role": role, "key": key}, show)


def list_keys(home: Path) -> Reply:
    """List keys without what makes them keys."""
    rows = [
        {"id": a.key, "name": a.name, "role": a.role.value, "policies": list(a.policies),
         "made": a.made, "revoked": a.revoked}
        for a in Keys(_there(home)).all()
    ]  # fmt: skip

    def show(console: Console) -> None:
        cells = [[str(r[n] or "") for n in ("id", "name", "role", "made", "revoked")] for r in rows]
        show_table(console, grid(("id", "name", "role", "made", "revoked"), cells))

    return Reply({"keys": rows}, show)


def copy_keys(source: Path, home: Path) -> Reply:
    """Take over the keys of another service."""
    count = Keys(Home(home)).take(Keys(_there(source)))
    return Reply({"copied": count}, lambda console: say(console, f"{count} keys copied"))


def revoke_key(key: str, home: Path) -> Reply:
    """Revoke one key, or all of a name."""
    ids = Keys(_there(home)).revoke(key)
    return Reply({"revoked": ids}, lambda console: say(console, f"revoked {', '.join(ids)}"))


def verify(file: str, key: str | None) -> Reply:
    """Check that somebody's saved answer is signed, and says what was signed."""
    try:
        data = json.loads(read_text(file, "the answer"), object_pairs_hook=_once)
        answer = data.get("result", data)
        outside = {} if answer is data else data
        around = {k: v for k, v in outside.items() if k not in ("ok", "command", "result")}
    except (ValueError, AttributeError, RecursionError):
        raise UsageError(f"{file!r} holds no signed answer of a service") from None
    signature = verified(answer, key, around)
    unsigned = ", ".join(signature.unsigned)
    about = f"; nobody signed what it says under {unsigned}" if unsigned else ""
    caveat = "" if key else "; whether that is your curator's key is for you to know"
    message = f"signed by {signature.key}, and not changed since{about}{caveat}"
    facts = {"key": signature.key, "id": signature.id, "unsigned": list(signature.unsigned)}
    return Reply(facts, lambda console: say(console, message))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands twice: readers would differ about what the file says."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError
    return record


def offer_tools(where: Where, cap: str) -> Reply:
    """Serve one conversation of an assistant."""
    try:
        import mcp  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError:
        raise UsageError(
            "assistants need one more package", hint='pip install "discreet[mcp]"'
        ) from None
    with whoever(where, spend=True) as opened:
        tools = Tools(opened, cap)
        server(lambda _: tools).run(transport="stdio")
    return Reply(None, lambda _: None)


def _there(home: Path) -> Home:
    if not home.is_dir():
        raise UsageError(f"there is no folder of a service at {str(home)!r}", hint="--home FOLDER")
    return Home(home)


def run(
    policies: Sequence[Path] | None,
    *,
    demo: bool,
    home: Path,
    as_json: bool,
    people: int,
    tick: float,
    **options: Any,
) -> Reply:
    """Serve until a signal comes."""
    service = _installed()
    settings = service.Options(
        undeclared=tick, **{k: v for k, v in options.items() if v is not None}
    )
    nothing = Reply({"stopped": True}, lambda _: None)
    if not demo:
        files = list(policies or ()) or [policy_file(None)]
        service.serve(files, Home(home), settings, lambda url: _started(url, {}, as_json=as_json),
                      draft)  # fmt: skip
        return nothing if not as_json else Reply(None, lambda _: None)
    if policies:
        raise UsageError("the demonstration brings its own policy", hint="discreet serve --demo")
    with folder_for_demo(None) as folder:
        path, _ = write_sample(folder, people)
        path.write_text(path.read_text("utf-8") + _SIZE, "utf-8")
        own = Home(folder / "service")
        keys = {name: Keys(own).add(name, role) for name, role in _CAST.items()}
        service.serve([path], own, settings, lambda url: _started(url, keys, as_json=as_json),
                      draft)  # fmt: skip
    return nothing


def draft(table: str, columns: str) -> str:
    """Draft a policy from a table's name and its columns, a name and a type on each line."""
    pairs = [line.split(None, 1) for line in columns.splitlines() if line.strip()]
    fields = [Field(name, kind_of(kind[0]) if kind else None, kind[0] if kind else "not known")
             for name, *kind in pairs]  # fmt: skip
    if not fields or len({c.name for c in fields}) != len(fields):
        raise UsageError("each line names one column and its type", hint="age INTEGER")
    schema = Schema(table.strip() or "people", tuple(fields))
    return draft_text([_Draft(schema)], f"{schema.table}.parquet", None, None, None)


def register(
    policy: Path | None, *, ledger: str | None, output: Path | None, statement: bool, **about: Any
) -> Reply:
    """Write the deployment's entry for the public registry, or its statement."""
    service, where = _installed(), Where(policy, None, ledger, None)
    terms, book = where.load(), ledger_of(where, "try")
    board = service.Board(book)
    if statement:
        rows = service.statement(service.in_force(terms, book), exact=board.exact(terms))
        lines = [f"# {terms.identity}: what holds, and how it is known", "",
                "| layer | what holds | how it is known |", "|---|---|---|"]  # fmt: skip
        text = "\n".join([*lines, *(f"| {' | '.join(map(_cell, row))} |" for row in rows), ""])
    else:
        details = {name: text for name, text in about.items() if text is not None}
        text = service.entry(terms, book, board, service.About(**details))
    if output is not None:
        check_writable(output, "the entry")
        write(output, text)
        return Reply({"file": str(output)}, lambda _: say(stderr(), f"wrote {output}", "dim"))
    return Reply({"text": text}, lambda console: verbatim(console, text.rstrip("\n")))


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")


def _installed() -> Any:
    try:
        from discreet import service  # noqa: PLC0415 - an extra

        service.serve  # noqa: B018 - loads what it needs
    except ModuleNotFoundError:
        raise UsageError(
            "the service needs more packages", hint='pip install "discreet[serve]"'
        ) from None
    return service


def _started(url: str, keys: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps({"url": url, "keys": keys}) + "\n")
    else:
        lines = [f"serving at {url}", *(f"{name:8} {key}" for name, key in keys.items())]
        sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
