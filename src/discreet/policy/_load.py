"""From TOML, or a mapping of the same shape, to a policy; errors quote the line.

Numbers with a decimal point are never turned into floats: their text is read as
the exact decimal it spells. Unknown keys are errors everywhere, because a
misspelt limit that is silently ignored is a privacy hole.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from discreet._dataclass import dataclass, field, fields
from discreet._text import printable, quote
from discreet.errors import PolicyError
from discreet.policy import _toml
from discreet.policy._check import FloatText, nearest, refusal
from discreet.policy._columns import KINDS, Column
from discreet.policy._lines import locate
from discreet.policy._model import Budget, Policy, Table, policy_name
from discreet.policy._service import Service

MAX_BYTES: Final = 8 * 2**20
_HINT_LENGTH: Final = 400
_LINE_LENGTH: Final = 160
_LONGEST_INTEGER: Final = 4000

_DIGITS: Final = re.compile(r"[0-9_]+")
_POSITION: Final = re.compile(r" \(at line (\d+), column \d+\)$")
_KEY: Final = re.compile(r"^([\w -]*\w)\s*=")
_UNQUOTED: Final = re.compile(r"=\s*([A-Za-z][\w./:-]*)(?=\s*(?:[,}\]#]|$))")
_ALIASES: Final = {
    "int": "integer", "bigint": "integer", "count": "integer",
    "float": "real", "double": "real", "decimal": "real", "numeric": "real", "number": "real",
    "enum": "category", "categorical": "category", "factor": "category",
    "string": "text", "str": "text", "varchar": "text",
    "datetime": "timestamp", "time": "timestamp", "bool": "boolean",
}  # fmt: skip


def load(source: str | os.PathLike[str] | Mapping[str, Any] | Policy) -> Policy:
    """Read a policy from a file, from TOML text, or from a mapping of the same shape.

    Parameters
    ----------
    source
        A path; text with at least one line break is taken as TOML itself. A
        policy is given back as it is.

    Raises
    ------
    PolicyError
        With the line of the file and one line that would work.
    """
    if isinstance(source, Policy):
        return source
    if isinstance(source, Mapping):
        with _Document("policy").quoted():
            return _policy(source)
    if isinstance(source, str) and "\n" in source:
        return loads(source)
    if not isinstance(source, str | os.PathLike):
        raise PolicyError(f"a policy is a path, TOML or a mapping, not {type(source).__name__}")
    return loads(_read(source), os.fspath(source))


def loads(text: str, filename: str = "<policy>") -> Policy:
    r"""Read a policy from TOML text; `filename` is only for messages.

    >>> loads('[budget]\nepsilon = "1"\n[tables.t.columns]\nage = { type = "int" }')
    Traceback (most recent call last):
        ...
    discreet.errors.PolicyError: <policy>, line 4: column "age": there is no type "int"
        4 | age = { type = "int" }
        try: age = { type = "integer" }
    """
    if not isinstance(text, str):
        raise PolicyError(f"a policy's text must be str, not {type(text).__name__}")
    if len(text) > MAX_BYTES:
        raise PolicyError(f"{filename}: longer than {MAX_BYTES} characters")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    document = _Document(filename, tuple(text.split("\n")))
    with document.quoted():
        document.lines.update(locate(text))
        raw = _parse(text, document.rows)
        _read_values(raw, Path(filename).parent)
        return _policy(raw)


def _read_values(raw: dict[str, Any], folder: Path) -> None:
    """Put the list itself in the place of where it stands: a public file, or another column.

    ``values = { file = "codes.txt" }`` and ``values = { table = "regions", column = "code" }``.
    """
    tables = raw.get("tables")
    columns = {
        (name, column): spec
        for name, table in (tables if isinstance(tables, Mapping) else {}).items()
        for column, spec in _mapping(_mapping(table).get("columns")).items()
        if isinstance(spec, dict) and isinstance(spec.get("values"), Mapping)
    }
    for (name, column), spec in columns.items():
        if "file" in spec["values"]:
            spec["values"] = _lines_of(spec["values"], folder, ("tables", name, "columns", column))
    for (name, column), spec in columns.items():
        if isinstance(spec["values"], Mapping):
            spec["values"] = _values_of(spec["values"], tables, ("tables", name, "columns", column))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _values_of(link: Mapping[str, Any], tables: Any, path: tuple[str, ...]) -> list[Any]:
    table = _mapping(tables.get(link.get("table")))
    values = _mapping(_mapping(table.get("columns")).get(str(link.get("column")))).get("values")
    if set(link) != {"table", "column"} or table.get("public") is not True:
        values = None
    if not isinstance(values, list):
        raise refusal(f"column {quote(path[-1])}: values must be a list, a file with one on each "
                      "line, or a column of a public table whose values are listed", *path,
                      hint='values = { file = "codes.txt" }')  # fmt: skip
    return list(values)


def _lines_of(link: Mapping[str, Any], folder: Path, path: tuple[str, ...]) -> list[str]:
    subject = f"column {quote(path[-1])}"
    file = link.get("file")
    if set(link) != {"file"} or not isinstance(file, str):
        raise refusal(f"{subject}: values are a list, or a file with one on each line", *path,
                      hint='values = { file = "codes.txt" }')  # fmt: skip
    text = _read(folder / file).removeprefix("\ufeff")
    # each value once, in the order of the file
    return list(dict.fromkeys(line for row in text.splitlines() if (line := row.strip())))


def dumps(policy: Policy) -> str:
    """Write a policy as TOML; ``loads(dumps(policy)) == policy``."""
    return policy.to_toml()


def _read(path: str | os.PathLike[str]) -> str:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise PolicyError(f"cannot read the policy {quote(os.fspath(path))}: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise PolicyError(f"{quote(os.fspath(path))} is longer than {MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"{os.fspath(path)}, line {line}: not UTF-8"
        raise PolicyError(message, line=line) from None


def _parse(text: str, rows: tuple[str, ...]) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=FloatText)
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.search(str(error))
        line = int(position[1]) if position else len(rows)
        reason = _POSITION.sub("", str(error)).removesuffix(" (at end of document)")
        raise PolicyError(f"not TOML: {reason}", line=line, hint=_repair(rows, line)) from None
    except (ValueError, RecursionError):
        long = (m.start() for m in _DIGITS.finditer(text) if len(m[0]) > _LONGEST_INTEGER)
        start = next(long, None)
        at = None if start is None else text.count("\n", 0, start) + 1
        message = "not TOML: a number with too many digits, or nested too deeply"
        raise PolicyError(message, line=at) from None


def _repair(rows: tuple[str, ...], line: int) -> str | None:
    """Quote bare words, the commonest slip; else leave a repeated or broken line out."""
    row = rows[line - 1].strip()
    if not row or len(row) > _LINE_LENGTH:
        return None
    quoted = _UNQUOTED.sub(lambda m: m[0] if m[1] in {"true", "false"} else f'= "{m[1]}"', row)
    # a name with other letters than A to Z is a name in quotes
    quoted = _KEY.sub(lambda m: m[0] if m[1].isascii() else f'"{m[1]}" =', quoted)
    try:
        tomllib.loads(quoted)
    except (ValueError, RecursionError):
        return None
    return quoted if quoted != row else f"# {row}"


@dataclass(frozen=True, slots=True)
class _Document:
    """The text an error is about, if there is one."""

    filename: str
    rows: tuple[str, ...] = ()
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)

    @contextmanager
    def quoted(self) -> Iterator[None]:
        """Put file, line number and the line itself into any refusal."""
        try:
            yield
        except PolicyError as error:
            raise self._quote(error) from None

    def _quote(self, error: PolicyError) -> PolicyError:
        line = error.line or self._line(error.path)
        text, filename = printable(error.message), printable(self.filename)
        hint = None if error.hint is None else printable(error.hint)
        if line is None:
            # without lines the keys say where
            where = ".".join(_toml.key(k) for k in error.path)
            message = f"{printable(where) or filename}: {text}"
        else:
            row = printable(self.rows[line - 1].strip())
            row = row if len(row) <= _LINE_LENGTH else row[: _LINE_LENGTH - 3] + "..."
            message = f"{filename}, line {line}: {text}\n    {line} | {row}"
        return PolicyError(message, hint=hint, line=line, path=error.path, fix=error.fix)

    def _line(self, path: tuple[str, ...]) -> int | None:
        """Line of the culprit, or of the nearest key above it."""
        above = (path[:length] for length in range(len(path), 0, -1))
        return next((self.lines[p] for p in above if p in self.lines), None)


@contextmanager
def _inside(*path: str, raw: Mapping[str, Any]) -> Iterator[None]:
    """Complete the path of a refusal, and write its fix as TOML to paste."""
    try:
        yield
    except PolicyError as error:
        hint = _hint(path, raw, error.fix) if error.fix else error.hint
        raise PolicyError(error.message, hint=hint, path=(*path, *error.path)) from None


def _hint(path: tuple[str, ...], raw: Mapping[str, Any], fix: Mapping[str, object]) -> str | None:
    """Write the column, or the first key, as it should be; a key to drop as a comment."""
    try:
        if path[2:3] == ("columns",):
            entries = {"type": None, **raw, **fix}
            column = {key: value for key, value in entries.items() if value is not None}
            line = f"{_toml.key(path[-1])} = {_toml.value(column)}"
        else:
            line = _key_hint(path, raw, fix)
    except (ValueError, RecursionError):
        return None
    return line if len(line) <= _HINT_LENGTH else None


def _key_hint(path: tuple[str, ...], raw: Mapping[str, Any], fix: Mapping[str, object]) -> str:
    key = next((key for key, value in fix.items() if value is not None), None)
    if key is None:
        dropped = next(iter(fix))
        return "# " + _toml.pair(dropped, raw.get(dropped))
    section = isinstance(fix[key], Mapping) and any(fix[key] is entry for entry in raw.values())
    if section:  # only its header was misspelt
        return f"[{'.'.join(map(_toml.key, (*path, key)))}]"
    return _toml.pair(key, fix[key])


def _policy(raw: Mapping[str, Any]) -> Policy:
    with _inside(raw=raw):
        _check_keys(raw, ("policy", "ledger", "budget", "service", "tables"), "a policy")
    about = _section(raw, "policy", {"name": "people"})
    with _inside("policy", raw=about):
        _check_keys(about, ("name", "beside"), "[policy]")
        name, beside = policy_name(about.get("name")), about.get("beside")
    book = _section(raw, "ledger", {"witness": "postgresql://db.example/marks"})
    with _inside("ledger", raw=book):
        _check_keys(book, ("witness",), "[ledger]")
    stated = _section(raw, "service", {"rows": 1_000_000})
    with _inside("service", raw=stated):
        _check_keys(stated, [f.name for f in fields(Service)], "[service]")
        service = Service(**stated)
    if "budget" not in raw:
        raise refusal("a policy needs a budget", hint='budget = { epsilon = "1" }')
    sums = _section(raw, "budget", {"epsilon": "1"})
    with _inside("budget", raw=sums):
        _check_keys(sums, [f.name for f in fields(Budget)], "[budget]")
        budget = Budget(**sums)
    if "tables" not in raw:
        raise refusal("a policy needs at least one table", hint="[tables.people.columns]")
    tables = _section(raw, "tables", {"people": {"columns": {}}})
    definitions = [_table(_text_key(key, "table"), body) for key, body in tables.items()]
    with _inside(raw=about):
        return Policy(definitions, budget, name, beside, book.get("witness"), service=service)


def _section(raw: Mapping[str, Any], key: str, example: Mapping[str, object]) -> Mapping[str, Any]:
    section = raw.get(key, {})
    if not isinstance(section, Mapping):
        line = f"{key} = {_toml.value(example)}"
        raise refusal(f"{key} must be a table of keys and values", key, hint=line)
    return section


def _table(name: str, raw: object) -> Table:
    if not isinstance(raw, Mapping):
        raise refusal(f"table {quote(name)} must be a section", "tables", name,
                      hint=f"[tables.{_toml.key(name)}]")  # fmt: skip
    columns: list[Column] = []
    with _inside("tables", name, raw=raw):
        keys = [f.name for f in fields(Table) if f.name != "name"]
        _check_keys(raw, keys, f"table {quote(name)}")
        if raw.get("public") is True and "neighbours" in raw:
            message = f"table {quote(name)} is public: neighbours has no meaning"
            raise refusal(message, "neighbours", fix={"neighbours": None})
        declared = _section(raw, "columns", {"age": {"type": "integer", "min": 0, "max": 115}})
    for label, body in declared.items():
        columns.append(_column(("tables", name, "columns"), _text_key(label, "column"), body))
    with _inside("tables", name, raw=raw):
        return Table(name, columns, **{k: v for k, v in raw.items() if k != "columns"})


def _column(base: tuple[str, ...], name: str, raw: object) -> Column:
    if not isinstance(raw, Mapping):
        guess = raw if isinstance(raw, str) and raw in KINDS else "text"
        line = f"{_toml.key(name)} = {{ type = {_toml.string(guess)} }}"
        raise refusal(f"column {quote(name)} must be a table with a type", *base, name, hint=line)
    with _inside(*base, name, raw=raw):
        kind = KINDS[_type(name, raw)]
        keys = [f.name for f in fields(kind) if f.name != "name"]
        _check_keys(raw, ["type", *keys], f"{kind.type} column {quote(name)}")
        return kind(name, **{k: v for k, v in raw.items() if k != "type"})


def _type(name: str, raw: Mapping[str, Any]) -> str:
    word = raw.get("type")
    if isinstance(word, str) and word in KINDS:
        return word
    if word is None:
        shape = {"values": "category", "step": "real", "min": "integer"}
        guess = next((kind for key, kind in shape.items() if key in raw), "text")
        raise refusal(f"column {quote(name)} needs a type", fix={"type": guess})
    near = _ALIASES.get(str(word)[:20].lower()) or nearest(word, KINDS) or "text"
    message = f"column {quote(name)}: there is no type {quote(word)}"
    raise refusal(message, "type", fix={"type": near})


def _check_keys(raw: Mapping[str, Any], keys: list[str] | tuple[str, ...], owner: str) -> None:
    """Refuse a key nobody reads, naming the one that was probably meant."""
    for key in raw:
        if key in keys:
            continue
        near = nearest(key, [k for k in keys if k not in raw])
        fix = {str(key): None} | ({near: raw[key]} if near else {})
        message = f"{owner} has no key {quote(key)}; it has {', '.join(keys)}"
        raise refusal(message, _text_key(key, "key"), fix=fix)


def _text_key(key: object, kind: str) -> str:
    if not isinstance(key, str):
        raise refusal(f"the name of a {kind} must be text, not {type(key).__name__}")
    return key
