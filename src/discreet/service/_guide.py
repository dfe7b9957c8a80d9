"""What the page Ask helps with: a question from choices, and hints in words of its own fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from discreet.errors import DiscreetError, Hint, ParameterError, UnknownNameError
from discreet.policy import Policy
from discreet.service._errors import envelope

STATISTICS: Final = {
    "count": "COUNT", "sum": "SUM", "mean": "AVG", "median": "MEDIAN", "standard deviation":
    "STDDEV_SAMP", "variance": "VAR_SAMP", "minimum": "MIN", "maximum": "MAX",
}  # fmt: skip


def _margin(value: Any) -> str | None:
    if len(value) != 1:
        return None  # the page has one column
    ((column, margin),) = value.items()
    return f"Column {column}, within ± {margin}"


_FIELDS: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "epsilon": lambda value: f"ε {value}",
    "delta": lambda value: f"δ {value}",
    "within": _margin,
    "shares": lambda value: ", ".join(f"{name} = {part}" for name, part in value.items()),
}
"""How a parameter is written where a page has a field for it."""


def on_page(error: DiscreetError) -> dict[str, Any]:
    """Say a refusal as a page does: in words of its own fields, or without a hint."""
    body = envelope(error)
    if isinstance(error.hint, Hint):
        fix = body.get("fix") or {}
        words = [_FIELDS[name](value) if name in _FIELDS else None for name, value in fix.items()]
        hints = [text for text in words if text is not None]
        body["hint"] = ", ".join(hints) if hints and len(hints) == len(words) else None
    return body


def fills(refusal: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, str]:
    """Give the δ that a refusal asks for, where none was stated: the next try has it."""
    fix = refusal.get("fix") or {}
    empty = not form.get("delta", "").strip()
    return {"delta": str(fix["delta"])} if empty and fix.keys() == {"delta"} else {}


def check_columns(form: Mapping[str, str], policy: Policy) -> None:
    """Refuse a column of another table than the chosen one, naming its table."""
    table = policy.table(form.get("table", ""))
    for name in (form.get("of", ""), form.get("by", "")):
        if name and name not in table.columns:
            owners = [t.name for t in policy.tables.values() if name in t.columns]
            where = f": it is in {' and '.join(owners)}" if owners else ""
            raise UnknownNameError(
                f"table {table.name!r} has no column {name!r}{where}; its own are offered now"
            )


def guided(form: Mapping[str, str]) -> str:
    """Write the guided form's question as SQL.

    >>> print(guided({"table": "visits", "statistic": "mean", "of": "age", "by": "region"}))
    SELECT "region", AVG("age") AS mean_age
    FROM "visits"
    GROUP BY "region"
    """
    table, of, by = (_quoted(form.get(n, "")) for n in ("table", "of", "by"))
    name = form.get("statistic", "count")
    called = STATISTICS.get(name, "COUNT")
    if called != "COUNT" and not form.get("of"):
        raise ParameterError(f"choose the column whose {name} you want: rows have none")
    label = "n" if called == "COUNT" else f"{name.split()[0]}_{form.get('of', '')}"
    alias = label if label.isidentifier() else _quoted(label)
    what = f"{called}({'*' if called == 'COUNT' else of}) AS {alias}"
    lines = [f"SELECT {f'{by}, ' if form.get('by') else ''}{what}", f"FROM {table}"]
    if form.get("where", "").strip():
        lines.append(f"WHERE {form['where'].strip()}")
    if form.get("by"):
        lines.append(f"GROUP BY {by}")
    return "\n".join(lines)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
