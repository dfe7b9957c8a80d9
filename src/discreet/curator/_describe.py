"""What can be asked about: tables, whom they protect, columns and their public domains.

All of it stands in the policy, which is public.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, cast

from discreet._dataclass import dataclass
from discreet._print import plural
from discreet._text import visible
from discreet.policy import Budget, Column, Policy, Table, toml

HEADER = ("column", "type", "public domain")
"""Headings of a table's rows."""


@dataclass(frozen=True, slots=True)
class Description:
    """Tables of a policy, as a terminal and a notebook show them.

    Iterating gives one dictionary for each column.
    """

    tables: tuple[Table, ...]

    def __iter__(self) -> Iterator[dict[str, str]]:
        for table in self.tables:
            for row in rows_of(table):
                yield {"table": table.name, **dict(zip(HEADER, row, strict=True))}

    def __repr__(self) -> str:
        return "\n\n".join(_text(table) for table in self.tables)

    def _repr_html_(self) -> str:
        return "".join(_html(table) for table in self.tables)


def _text(table: Table) -> str:
    lines = [HEADER, *rows_of(table)]
    widths = [max(len(line[i]) for line in lines) for i in range(2)]
    body = [f"  {a.ljust(widths[0])}  {b.ljust(widths[1])}  {c}".rstrip() for a, b, c in lines]
    return "\n".join([f"{visible(table.name)}: {whom(table)}", *body])


def _html(table: Table) -> str:
    def line(cells: Sequence[str], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind}>{escape(c)}</{kind}>" for c in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows_of(table))
    title = escape(f"{visible(table.name)}: {whom(table)}")
    return f"<p>{title}</p><table>{line(HEADER, 'th')}{body}</table>"


def rows_of(table: Table) -> list[tuple[str, str, str]]:
    """Columns of a table: name, type and what may stand in it."""
    rows = [(visible(c.name), c.type, visible(domain(c))) for c in table.columns.values()]
    if table.unit is not None and table.unit not in table.columns:
        rows.insert(0, (visible(table.unit), "unit", "tells people apart; never shown"))
    return rows


def whom(table: Table) -> str:
    """Say whom a table protects, and how far."""
    if table.public:
        return "public, protects nobody"
    if table.unit is None:
        return f"each row is one person ({table.neighbours})"
    limits = [
        plural(limit, what) + rest
        for limit, what, rest in (
            (table.max_rows_per_unit, "row", ""),
            (table.max_groups_per_unit, "group", ""),
            (table.max_rows_per_group, "row", " per group"),
            (table.max_rows_per_parent, "row", f" per row of {table.owner and table.owner.name}"),
        )
        if limit is not None
    ]
    return f"protects each {visible(table.unit)}, at most {', '.join(limits)} ({table.neighbours})"


def domain(column: Column) -> str:
    """Say what a column may hold, as the policy file does."""
    own = Policy([Table("t", [column])], Budget("1")).to_mapping()
    tables = cast("dict[str, Any]", own["tables"])
    fields = tables["t"]["columns"][column.name]
    listed = ", ".join(toml.pair(k, v) for k, v in fields.items() if k != "type")
    return listed or ("any; selected privately" if column.type == "text" else "")
