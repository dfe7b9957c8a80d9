"""``discreet init``: a policy drafted from a schema, for its owner to finish.

Only names and types of columns are read: a Parquet file's footer, the first line
of a CSV file, a database's catalogue. Values are not, because a bound or a list
of categories taken from the data would be published with the policy and reveal
what the policy is there to protect (the highest income, the one rare illness).
What cannot be known stays a comment or a blank that ``discreet check`` refuses.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet._address import address
from discreet._dataclass import dataclass
from discreet._print import plural
from discreet._text import visible
from discreet.cli._console import say, stderr, verbatim
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._schema import Schema, read_schemas
from discreet.cli._session import check_writable, write
from discreet.policy import toml

if TYPE_CHECKING:
    from rich.console import Console

_ROW: Final = "row"
_UNIT_NAMES: Final = ("person", "patient", "user", "customer", "member", "household", "client",
                      "student", "employee", "respondent")  # fmt: skip
_SHAPES: Final[Mapping[str, str]] = {
    "integer": '{ type = "integer", min = …, max = … }',
    "real": '{ type = "real", min = …, max = …, step = … }',
    "date": '{ type = "date", min = …, max = … }',
    "timestamp": '{ type = "timestamp", min = …, max = …, step = … }',
    "category": '{ type = "category", values = […] }',
}
_TYPE: Final = re.compile(
    r"[a-z]\w*( [a-z]+)*(\(\d+(, ?\d+)?\)|\[[a-z]+\])?", re.ASCII | re.IGNORECASE
)
_WHY: Final = """\
# Drafted from names and types alone: no value was read. Bounds and lists of
# categories must come from what you know without looking (a law, a form, a
# questionnaire): taken from the data, they would publish something about them.
# Everything written here is public. Then: discreet check {name}
"""


@dataclass(slots=True)
class _Draft:
    """What is known of one table: from the schema, and from the owner."""

    schema: Schema
    unit: str | None = None  # None: not known yet; "row": one row is one person
    max_rows: int | None = None
    columns: dict[str, str] | None = None  # TOML that the owner has completed


def run(
    source: str,
    *,
    table: Sequence[str] | None,
    unit: str | None,
    max_rows: int | None,
    epsilon: str | None,
    delta: str | None,
    output: str | None,
    force: bool,
    no_input: bool,
    spend: str | None,
    column: Sequence[str] | None,
    as_json: bool,
) -> Reply:
    """Draft a policy and write it, or buy proposals for one that is there."""
    if spend is not None:
        from discreet.cli import _propose  # noqa: PLC0415 - only where something is bought

        return _propose.run(source, spend=spend, delta=delta, columns=column or [])
    drafts = [_Draft(s, unit, max_rows) for s in read_schemas(source, table or [])]
    _check_unit(drafts, unit)
    path = _target(source, output)
    if path is not None:
        check_writable(path, "the policy")
        if path.exists() and not force:
            raise UsageError(f"{str(path)!r} already exists", hint="--force, or --output FILE")
    if sys.stdin.isatty() and not (no_input or as_json):
        for draft in drafts:
            _interview(draft)
    text = draft_text(drafts, _source_text(source, path), epsilon, delta, path)
    if path is not None:
        write(path, text)
    blanks = text.count("…") - _WHY.count("…")
    data = {
        "policy": None if path is None else str(path),
        "tables": {d.schema.table: [c.name for c in d.schema.columns] for d in drafts},
        "complete": blanks == 0 and all(d.unit is not None for d in drafts),
        "text": text,
    }
    return Reply(data, lambda console: _show(console, text, path, blanks))


def _show(console: Console, text: str, path: Path | None, blanks: int) -> None:
    if path is None:
        verbatim(console, text.rstrip("\n"))
        return
    say(stderr(), f"wrote {path}", "dim")
    are = "is" if blanks == 1 else "are"
    gaps = f"{plural(blanks, 'blank')} (…) {are} left for you" if blanks else "It has no blanks"
    say(console, f"Drafted {path} without reading a value. {gaps}.")
    first = "Fill in what you want to be asked about, then" if blanks else "Next"
    say(console, f"{first}: discreet check {path}")


def _check_unit(drafts: Sequence[_Draft], unit: str | None) -> None:
    if unit in (None, _ROW):
        return
    for draft in drafts:
        names = [c.name for c in draft.schema.columns]
        if unit not in names:
            raise UsageError(
                f"table {draft.schema.table!r} has no column {unit!r}",
                hint=f"--unit {_likely_unit(names) or _ROW}",
            )


def _target(source: str, output: str | None) -> Path | None:
    if output == "-":
        return None
    if output is not None:
        return Path(output)
    if "://" in source:
        return Path("policy.toml")
    name = Path(source).name
    stem = name.partition(".")[0].replace("*", "") or "policy"
    return Path(source).parent / f"{stem}.toml"


def _source_text(source: str, policy: Path | None) -> str:
    """Write a path as seen from the policy's folder; a URL as host, port and database."""
    if "://" in source:
        return address(source)
    folder = (policy.parent if policy is not None else Path()).resolve()
    full = Path(source).resolve()
    return str(full.relative_to(folder)) if full.is_relative_to(folder) else str(full)


# -- the text ---------------------------------------------------------------------------


def draft_text(
    drafts: Sequence[_Draft],
    source: str,
    epsilon: str | None,
    delta: str | None,
    path: Path | None,
) -> str:
    """Write the policy with its blanks and the reasons for them."""
    name = path.name if path is not None else "policy.toml"
    stem = name.removesuffix(".toml")
    head = f"[policy]\nname = {toml.string(stem)}  # stays with its ledger: keep it\n"
    parts = [_WHY.format(name=visible(name)), head, _budget_text(epsilon, delta)]
    parts += [_table_text(draft, source) for draft in drafts]
    text = "\n".join(parts)
    _check_shape(text, drafts, source)
    return text


def _check_shape(text: str, drafts: Sequence[_Draft], source: str) -> None:
    """Refuse a text that says more than was meant: names come from files of anybody's."""
    policy = tomllib.loads(text)
    tables = {
        name: (table.get("source"), set(table) - {"source", "unit", "max_rows_per_unit"})
        for name, table in policy["tables"].items()
    }
    intent = {draft.schema.table: (source, {"columns"}) for draft in drafts}
    columns = all(
        set(policy["tables"][d.schema.table]["columns"]) <= {c.name for c in d.schema.columns}
        for d in drafts
    )
    if set(policy) != {"policy", "budget", "tables"} or tables != intent or not columns:
        raise UsageError("a policy for these names cannot be drafted")


def _budget_text(epsilon: str | None, delta: str | None) -> str:
    from discreet.policy import Budget  # noqa: PLC0415 - validates what was typed

    Budget(epsilon or "1", delta=delta or 0)
    total = toml.string(epsilon or "1")
    command = f"discreet meaning --epsilon {visible(epsilon or '1')}"
    lines = [
        "[budget]",
        f"epsilon = {total}  # for everything ever asked; what it means: {command}",
    ]
    if delta is None:
        lines.append('# delta = "1e-6"  # needed to group by open text, and for Gaussian noise')
    else:
        lines.append(f"delta = {toml.string(delta)}")
    return "\n".join([*lines, ""])


def _table_text(draft: _Draft, source: str) -> str:
    schema = draft.schema
    key = toml.key(schema.table)
    lines = [f"[tables.{key}]", f"source = {toml.string(source)}", *_unit_text(draft), ""]
    lines.append(f"[tables.{key}.columns]")
    finished = draft.columns or {}
    for column in schema.columns:
        if column.name == draft.unit:
            continue
        if column.name in finished:
            lines.append(f"{toml.key(column.name)} = {finished[column.name]}")
        else:
            lines += _column_text(column.name, column.kind, column.native)
    return "\n".join([*lines, ""])


def _unit_text(draft: _Draft) -> list[str]:
    if draft.unit == _ROW:
        return ["# no unit: each row is one person"]
    if draft.unit is None:
        guess = _likely_unit([c.name for c in draft.schema.columns])
        like = f" Perhaps {guess!r}, by its name." if guess else ""
        return [
            f"# Whose row is it? Name the column that tells people apart.{like}",
            "# Only if nobody can have two rows, remove the next two lines.",
            'unit = ""',
            "max_rows_per_unit = 1  # rows of one person that are kept; more cost more",
        ]
    why = "" if draft.max_rows else "  # rows of one person that are kept; more cost more"
    return [
        f"unit = {toml.string(draft.unit)}",
        f"max_rows_per_unit = {draft.max_rows or 1}{why}",
    ]


def _column_text(name: str, kind: str | None, native: str) -> list[str]:
    key, native = toml.key(name), _type_name(native)
    match kind:
        case "boolean":
            return [f'{key} = {{ type = "boolean" }}']
        case "text":
            return [
                f"# {key} = {_SHAPES['category']}",
                f'# {key} = {{ type = "text" }}  # if its values cannot be listed: {native}',
            ]
        case "integer" | "real" | "date" | "timestamp":
            return [f"# {key} = {_SHAPES[kind]}  # {native}"]
        case None:
            kinds = "category, integer, real, date, timestamp, boolean or text"
            return [f"# {key} = {{ type = … }}  # {kinds}"]
    return [f"# {key}: {native} cannot be asked about"]


def _type_name(native: str) -> str:
    """Name a type without what it is made of: names of fields, and labels, which are values."""
    match = _TYPE.match(native)
    return match[0].strip() if match else "this type"


def _likely_unit(names: Sequence[str]) -> str | None:
    """Guess the unit column by its name alone."""
    ids = [n for n in names if n.lower() == "id" or n.lower().endswith(("_id", "id"))]
    for name in ids:
        if any(word in name.lower() for word in _UNIT_NAMES):
            return name
    return None


# -- the interview ------------------------------------------------------------------------


def _interview(draft: _Draft, ask: Callable[[str], str] | None = None) -> None:
    """Ask the owner for what a schema cannot say; an empty answer leaves a blank."""
    reply = ask or _input
    console = stderr()
    schema = draft.schema
    names = [c.name for c in schema.columns]
    say(
        console,
        f"Table {schema.table}. Enter takes what is in brackets, or leaves a blank.",
        "bold",
    )
    if draft.unit is None:
        guess = _likely_unit(names)
        like = f" [{guess}]" if guess else ""
        question = f"Column that says whose row it is, or 'row' if each is its own{like}: "
        draft.unit = _choose(reply, question, {n: n for n in (*names, _ROW)}) or guess
    if draft.unit not in (None, _ROW) and draft.max_rows is None:
        draft.max_rows = _count(reply, "Rows of one person that are kept at most [1]: ")
    draft.columns = {}
    for column in schema.columns:
        if column.name == draft.unit:
            continue
        kind, own = column.kind, False
        if kind is None:
            question = f"{column.name}: type ({', '.join(_KINDS)}): "
            kind, own = _choose(reply, question, _WORDS), True
        line = _column_interview(column.name, kind, reply, own=own)
        if line is not None:
            draft.columns[column.name] = line


_KINDS: Final = ("integer", "real", "category", "text", "boolean", "date", "timestamp")
_WORDS: Final = {k[:n]: k for k in _KINDS for n in range(3, len(k) + 1)} | {
    "float": "real", "number": "real", "str": "text", "string": "text", "datetime": "timestamp",
}  # fmt: skip
"""Types as people write them: their first letters, or what they are called elsewhere."""


def _choose(reply: Callable[[str], str], question: str, meanings: Mapping[str, str]) -> str | None:
    """Ask until the answer is a known word, or empty."""
    while answer := reply(question):
        meaning = meanings.get(answer) or meanings.get(answer.casefold())
        if meaning is not None:
            return meaning
        words = ", ".join(dict.fromkeys(meanings.values()))
        say(stderr(), f"{answer!r} is not one of {words}", "yellow")
    return None


def _count(reply: Callable[[str], str], question: str) -> int:
    """Ask until the answer is a whole number of at least 1; empty is 1."""
    while answer := reply(question):
        if answer.isdecimal() and int(answer) > 0:
            return int(answer)
        say(stderr(), f"{answer!r} is not a whole number of at least 1", "yellow")
    return 1


def _column_interview(
    name: str, kind: str | None, reply: Callable[[str], str], *, own: bool
) -> str | None:
    """Ask for what a type needs; who named the type `own`-handed is not asked for it again."""
    entry: dict[str, Any]
    match kind:
        case "boolean":
            entry = {"type": "boolean"}
        case "text" if own:
            entry = {"type": "text"}
        case "text" | "category":
            open_too = "" if own else "; 'text' if they are open"
            answer = reply(f"{name}: possible values, with commas{open_too}: ")
            if not answer:
                return None
            values = [v.strip() for v in answer.split(",") if v.strip()]
            entry = {"type": "text"} if answer == "text" else {"type": "category", "values": values}
        case "integer" | "real" | "date" | "timestamp":
            low = reply(f"{name}: least value that is possible ({kind}): ")
            high = reply(f"{name}: greatest value that is possible: ") if low else ""
            if not high:
                return None
            entry = {"type": kind, "min": _number(low), "max": _number(high)}
            if kind in ("real", "timestamp") and (step := reply(f"{name}: step [default]: ")):
                entry["step"] = step
            how = f"{name}: how the file writes it, as in %d.%m.%Y [2025-12-31]: "
            if own and kind in ("date", "timestamp") and (form := reply(how)):
                entry["format"] = form
        case _:
            return None
    return _checked(name, entry)


def _number(text: str) -> Any:
    return int(text) if text.lstrip("-").isdecimal() else text


def _checked(name: str, column: dict[str, Any]) -> str | None:
    """Write a column as TOML if a policy would take it; otherwise say why not."""
    from discreet.errors import PolicyError  # noqa: PLC0415 - beside its only use
    from discreet.policy import load  # noqa: PLC0415 - imported when it runs

    try:
        load({"budget": {"epsilon": 1}, "tables": {"t": {"columns": {name: column}}}})
    except PolicyError as error:
        say(stderr(), f"left blank: {error.message.partition(': ')[2] or error.message}", "yellow")
        return None
    return toml.value(column)


def _input(question: str) -> str:
    try:
        return input(visible(question)).strip()
    except EOFError:
        return ""
