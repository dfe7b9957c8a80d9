"""What requests may say: one table of fields for reading bodies and for the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from discreet._dataclass import dataclass
from discreet._text import quote
from discreet.service._errors import STATUSES, RequestError

_LONGEST_SQL: Final = 20_000
_MOST_QUESTIONS: Final = 100
_UNFIT: Final = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body: its schema, and how it is read."""

    schema: Mapping[str, Any]
    read: Callable[[str, Any], Any]
    required: bool = False


def _text(longest: int) -> Callable[[str, Any], str]:
    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            raise RequestError(f"{name} must be a text of 1 to {longest} characters")
        if _UNFIT.search(value):
            raise RequestError(f"{name} holds a NUL or half of a surrogate pair")
        return value

    return read


def _number(name: str, value: Any) -> str:
    """Numbers are texts; JSON's own are read as they are written."""
    if isinstance(value, bool) or not isinstance(value, str | int) or len(str(value)) > 60:
        raise RequestError(f"{name} must be a number", hint=f'"{name}": "0.1"')
    return str(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RequestError(f"{name} must be true or false")
    return value


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 62:
        raise RequestError(f"{name} must be a whole number above 0")
    return value


def _any_text(name: str, value: Any) -> str:
    return value if value == "" else _text(4096)(name, value)


def _margins(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not 0 < len(value) <= 200:
        raise RequestError(f"{name} maps output columns to margins", hint='"within": {"n": "25"}')
    return {_text(255)(name, k): _number(name, v) for k, v in value.items()}


def _questions(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_QUESTIONS:
        raise RequestError(f"{name} is a list of 1 to {_MOST_QUESTIONS} questions")
    return [read(PART, part) for part in value]


NUMBER: Final = {
    "oneOf": [
        {"type": "string", "minLength": 1, "maxLength": 60},
        {"type": "number"},
    ],
    "description": "An exact number; as text it may be a decimal or a fraction.",
}
_SQL: Final = Field(
    {"type": "string", "minLength": 1, "maxLength": _LONGEST_SQL, "description": "One SELECT."},
    _text(_LONGEST_SQL),
    required=True,
)
_EPSILON: Final = Field(NUMBER, _number)
_WITHIN: Final = Field(
    {"type": "object", "additionalProperties": NUMBER, "minProperties": 1}, _margins
)
PART: Final = {
    "sql": _SQL,
    "weight": Field(NUMBER, _number),
    "within": _WITHIN,
    "confidence": Field(NUMBER, _number),
}
PREVIEW: Final = {
    "sql": _SQL,
    "epsilon": _EPSILON,
    "delta": Field(NUMBER, _number),
    "rho": Field(NUMBER, _number),
    "within": _WITHIN,
    "confidence": Field(NUMBER, _number),
}
ANSWER: Final = {**PREVIEW, "fresh": Field({"type": "boolean"}, _flag)}
BATCH: Final = {
    "questions": Field(
        {
            "type": "array",
            "minItems": 1,
            "maxItems": _MOST_QUESTIONS,
            "items": {"$ref": "#/components/schemas/Part"},
        },
        _questions,
        required=True,
    ),
    "epsilon": _EPSILON,
    "delta": Field(NUMBER, _number),
    "confidence": Field(NUMBER, _number),
    "nulls": Field({"type": "boolean"}, _flag),
}
_REASON: Final = Field({"type": "string", "minLength": 1, "maxLength": 2000}, _text(2000), True)
DECISION: Final = {
    "approve": Field({"type": "boolean"}, _flag, required=True),
    "reason": _REASON,
    "seen": Field({"type": "string", "minLength": 64, "maxLength": 64}, _text(64), required=True),
}
RAISE: Final = {
    "epsilon": _EPSILON,
    "delta": Field(NUMBER, _number),
    "rho": Field(NUMBER, _number),
    "reason": _REASON,
}
CLOSURE: Final = {
    "closed": Field({"type": "boolean"}, _flag, required=True),
    "reason": _REASON,
}
NEW_KEY: Final = {
    "name": Field({"type": "string", "minLength": 1, "maxLength": 100}, _text(100), required=True),
    "role": Field(
        {"type": "string", "enum": ["owner", "analyst", "auditor", "witness"]}, _text(10), True
    ),
}
_LEDGER: Final = Field(
    {"type": "string", "minLength": 1, "maxLength": 1000}, _text(1000), required=True
)
_HOLD_NAME: Final = Field(
    {"type": "string", "minLength": 32, "maxLength": 32}, _text(32), required=True
)
MARK: Final = {
    "policy": _LEDGER,
    "first": Field({"type": "string", "minLength": 1, "maxLength": 64}, _text(64), required=True),
    "number": Field({"type": "integer", "minimum": 1}, _count, required=True),
    "hash": Field({"type": "string", "minLength": 1, "maxLength": 64}, _text(64), required=True),
    "where": Field({"type": "string", "maxLength": 4096}, _any_text, required=True),
    "witness": Field({"type": "string", "maxLength": 4096}, _any_text),
}
HOLD: Final = {"ledger": _LEDGER, "wait": Field(NUMBER, _number)}
MOVE: Final = {
    "ledger": _LEDGER,
    "hold": _HOLD_NAME,
    "mark": Field({"$ref": "#/components/schemas/Mark"}, lambda _, value: read(MARK, value)),
    "back": Field({"type": "boolean"}, _flag),
}
BODIES: Final = {
    "Mark": MARK,
    "Hold": HOLD,
    "Move": MOVE,
    "Part": PART,
    "Preview": PREVIEW,
    "Answer": ANSWER,
    "Batch": BATCH,
    "Decision": DECISION,
    "Raise": RAISE,
    "Closure": CLOSURE,
    "NewKey": NEW_KEY,
}


def read(fields: Mapping[str, Field], data: Any) -> dict[str, Any]:
    """Read an object: every field is known, none is missing, each is what it should be."""
    if not isinstance(data, dict):
        raise RequestError("a question is a JSON object")
    for name in data:
        if name not in fields:
            raise RequestError(
                f"there is no field {quote(name[:60])} here; known: {', '.join(fields)}"
            )
    missing = next((n for n, f in fields.items() if f.required and data.get(n) is None), None)
    if missing is not None:
        raise RequestError(f"the field {missing!r} is missing")
    return {n: fields[n].read(n, value) for n, value in data.items() if value is not None}


def _object(fields: Mapping[str, Field]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [n for n, f in fields.items() if f.required],
        "properties": {n: dict(f.schema) for n, f in fields.items()},
    }


ERROR: Final = {
    "type": "object",
    "required": ["ok", "error", "message", "hint"],
    "properties": {
        "ok": {"const": False},
        "error": {"type": "string"},
        "message": {"type": "string"},
        "hint": {"type": ["string", "null"]},
        "fix": {"type": "object"},
        "line": {"type": "integer"},
        "column": {"type": "integer"},
    },
}
RESULT: Final = {
    "type": "object",
    "required": ["ok", "result"],
    "properties": {"ok": {"const": True}, "result": {"type": "object"}},
}
SCHEMAS: Final = {
    **{name: _object(fields) for name, fields in BODIES.items()},
    "Error": ERROR,
    "Result": RESULT,
}


ADDRESS: Final = {
    "parameters": [{"name": "id_", "in": "path", "required": True, "schema": {"type": "string"}}]
}
"""The name in an address; handlers read it themselves, which is quicker than FastAPI's way."""


def body(name: str) -> dict[str, Any]:
    """Say in the OpenAPI document which body a route reads."""
    schema = {"$ref": f"#/components/schemas/{name}"}
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def responses() -> dict[int | str, dict[str, Any]]:
    """Say in the OpenAPI document how a route refuses."""
    schema = {"$ref": "#/components/schemas/Error"}
    content = {"application/json": {"schema": schema}}
    return {s: {"description": "refused", "content": content} for s in STATUSES}
