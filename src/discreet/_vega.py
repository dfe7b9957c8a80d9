"""The words that every chart here is made of: Vega-Lite dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


def chart(
    title: Any, values: Iterable[Mapping[str, Any]] | None = None, **more: Any
) -> dict[str, Any]:
    """Make a specification, of these rows where all of its layers have the same."""
    head = {"$schema": _SCHEMA, "title": title}
    return head | ({} if values is None else {"data": {"values": list(values)}}) | more


def layer(kind: str, encoding: Mapping[str, Any], **mark: Any) -> dict[str, Any]:
    """Draw marks of a kind."""
    return {"mark": {"type": kind, **mark}, "encoding": encoding}


def number(field: str, **more: Any) -> dict[str, Any]:
    """Place marks by a number."""
    return {"field": field, "type": "quantitative", **more}


def name(field: str, **more: Any) -> dict[str, Any]:
    """Place marks by a name."""
    return {"field": field, "type": "nominal", **more}


def between(axis: str, low: Mapping[str, Any]) -> dict[str, Any]:
    """Reach from the low to the high end of an interval."""
    return {axis: low, f"{axis}2": {"field": "high"}}
