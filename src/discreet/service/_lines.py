"""Lines that do what a page has done: in Python, and with curl."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from discreet.service._orders import Order


def python(order: Order, url: str, policy: str | None) -> str:
    """Write the program that asks the same; `policy` where the service has several."""
    more = {"policy": policy} if policy is not None else {}
    options = {**more, **({"dummy": True} if order.dummy else {})}
    connection = f'curator = dc.connect("{url}", key="dk_…"{_keywords(options)})'
    return "\n".join(["import discreet as dc", connection, *_question(order.body)])


def _question(body: Mapping[str, Any]) -> list[str]:
    offer = {k: v for k, v in body.items() if k not in ("sql", "questions")}
    if "sql" in body:
        return [f"answer = curator.sql({body['sql']!r}{_keywords(offer)})"]
    offer.pop("confidence", None)  # of intervals, which an answer gives at any level
    lines = [f"with curator.batch({_keywords(offer).removeprefix(', ')}) as batch:"]
    for number, part in enumerate(body["questions"], 1):
        how = {k: v for k, v in part.items() if k != "sql"}
        lines.append(f"    answer{number} = batch.sql({part['sql']!r}{_keywords(how)})")
    return lines


def _keywords(values: Mapping[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in values.items())


def curl(order: Order, url: str, policy: str | None) -> str:
    """Write the command that asks the same."""
    more = {"policy": policy} if policy is not None else {}
    query = urlencode({**more, **({"dummy": "1"} if order.dummy else {})})
    path = "answers" if "sql" in order.body else "batches"
    address = f"{url}/v1/{path}{'?' if query else ''}{query}"
    return (
        'curl -H "Authorization: Bearer $DISCREET_KEY" -H "Content-Type: application/json" '
        '-H "Prefer: wait=60" \\\n'
        f"  -d {shlex.quote(json.dumps(dict(order.body)))} {shlex.quote(address)}"
    )
