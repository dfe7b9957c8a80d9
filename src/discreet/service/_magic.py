"""The cell magic ``%%discreet``: a cell of SQL is a question."""

from __future__ import annotations

import os
import shlex
from typing import Any

from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.service._client import Price, connect

_PRICES = ("epsilon", "delta", "rho", "confidence")


def load_magic(shell: Any) -> None:
    """Register the magic with a notebook's shell."""

    def discreet(line: str, cell: str) -> Answer | Price:
        return ask_cell(line, cell, shell.user_ns)

    shell.register_magic_function(discreet, magic_kind="cell")


def ask_cell(line: str, cell: str, names: dict[str, Any]) -> Answer | Price:
    """Ask a cell's text: ``%%discreet epsilon=0.1 into=answer with=curator``.

    ``preview`` prices it only. Without ``with``, the notebook's ``curator`` is asked, or the
    service that ``DISCREET_URL`` and ``DISCREET_KEY`` name.
    """
    words = shlex.split(line)
    options = dict(word.partition("=")[::2] for word in words if word != "preview")
    unknown = set(options) - {*_PRICES, "into", "with"}
    if unknown:
        raise ParameterError(
            f"%%discreet has no option {min(unknown)!r}", hint=Hint("epsilon", "0.1")
        )
    curator: Any = names.get(options.get("with", "curator"))
    if curator is None:
        url, key = os.environ.get("DISCREET_URL"), os.environ.get("DISCREET_KEY")
        if not url or not key:
            raise ParameterError(
                "there is no curator to ask",
                hint=Hint.call("curator = dc.connect", None, "https://…", key="dk_…"),
            )
        curator = connect(url, key)
    offer: dict[str, Any] = {name: options[name] for name in _PRICES if name in options}
    answer: Answer | Price = (curator.preview if "preview" in words else curator.sql)(cell, **offer)
    if "into" in options:
        names[options["into"]] = answer
    return answer
