"""The service: one trusted curator, many analysts, over HTTP.

The web process holds no data: it knows callers by their keys, prices, debits and gives out
what is stored. Workers, started apart, read the data and run what is paid for. When an
answer leaves is decided before it runs. See ``docs/service.md``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.release import About
    from discreet.service._client import Price, Remote, RemoteBatch, connect
    from discreet.service._home import Home
    from discreet.service._keys import Actor, Keys, Role
    from discreet.service._magic import ask_cell, load_magic
    from discreet.service._mcp import Tools, server
    from discreet.service._public import Board, entry, in_force, statement
    from discreet.service._serve import Options, serve
    from discreet.service._sign import check, verified

_LATER = {
    **dict.fromkeys(("Price", "Remote", "RemoteBatch", "connect"), "_client"),
    "Home": "_home",
    **dict.fromkeys(("Actor", "Keys", "Role"), "_keys"),
    **dict.fromkeys(("ask_cell", "load_magic"), "_magic"),
    **dict.fromkeys(("Tools", "server"), "_mcp"),
    **dict.fromkeys(("About", "Board", "entry", "in_force", "statement"), "_public"),
    **dict.fromkeys(("Options", "serve"), "_serve"),
    **dict.fromkeys(("check", "verified"), "_sign"),
}
"""Each loads with its first use: some need ``discreet[serve]``, and workers need none."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "About",
    "Actor",
    "Board",
    "Home",
    "Keys",
    "Options",
    "Price",
    "Remote",
    "RemoteBatch",
    "Role",
    "Tools",
    "ask_cell",
    "check",
    "connect",
    "entry",
    "in_force",
    "load_magic",
    "serve",
    "server",
    "statement",
    "verified",
]
