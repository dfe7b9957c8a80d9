"""Writing TOML: the few shapes a policy is made of (the standard library only reads)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from discreet._text import OBEYED
from discreet.policy._check import FloatText, plain

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED: Final = re.compile(rf'["\\\x00-\x1f]|{OBEYED.pattern}')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def key(name: str) -> str:
    """Write a key, in quotes only where TOML needs them.

    >>> key("age"), key("home town")
    ('age', '"home town"')
    """
    return name if _BARE.fullmatch(name) else string(name)


def string(text: str) -> str:
    """Write a basic string."""
    return '"' + _ESCAPED.sub(lambda m: _SHORT.get(m[0], f"\\u{ord(m[0]):04x}"), text) + '"'


def value(item: object) -> str:
    """Write any value of a policy; rationals as text that reads back exactly.

    >>> value({"type": "real", "min": 0, "step": Fraction(1, 100)})
    '{ type = "real", min = 0, step = "0.01" }'
    """
    if isinstance(item, Mapping):
        inner = ", ".join(pair(str(k), v) for k, v in item.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(item, list | tuple):
        return "[" + ", ".join(value(v) for v in item) + "]"
    if isinstance(item, Fraction):
        item = plain(item)
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, dt.date | dt.time):
        return item.isoformat()
    if isinstance(item, int | FloatText):
        return str(item)
    return string(str(item))


def pair(name: str, item: object) -> str:
    """Write a key and its value."""
    return f"{key(name)} = {value(item)}"


def dump(policy: Mapping[str, object]) -> str:
    """Write the mapping of a policy as the file a person would have written."""
    blocks: list[str] = []
    _sections((), policy, blocks)
    return "\n".join(blocks)


def _sections(path: tuple[str, ...], table: Mapping[str, object], blocks: list[str]) -> None:
    """Write one section; columns stay on one line each, other tables get their own header."""
    inline = path[:1] == ("tables",) and path[2:] == ("columns",)
    sections = [k for k, v in table.items() if isinstance(v, Mapping) and k != "owner"]
    below = {} if inline else {k: table[k] for k in sections}
    lines = [pair(k, v) for k, v in table.items() if k not in below]
    if path and (lines or not below):
        blocks.append("\n".join([f"[{'.'.join(map(key, path))}]", *lines, ""]))
    for name, inner in below.items():
        assert isinstance(inner, Mapping)
        _sections((*path, name), inner, blocks)
