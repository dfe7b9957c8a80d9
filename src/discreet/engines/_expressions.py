# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""The writer of row expressions: what one engine adds to an operator's own SQL.

An operator that uses an operand more than once binds it to a name first, in a
subquery of its own, so that the text grows linearly with the expression
however it is nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from discreet._dataclass import dataclass, field
from discreet.engines._dialect import Dialect
from discreet.engines._ingest import floor_div
from discreet.plan import expr as ex

_WORD: Final = re.compile(r"\w+")


@dataclass(slots=True)
class Renderer:
    """Writes expressions over one relation's columns (name to identifier)."""

    dialect: Dialect
    columns: Mapping[str, str]
    names: Iterator[str]
    aliases: dict[str, str] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    def over(self, body: str) -> str:
        """Select every held value, and all columns, from `body`; a subquery for each level."""
        for level in sorted(set(self.levels.values())):
            items = (f"{sql} AS {name}" for sql, name in self.aliases.items()
                     if self.levels[name] == level)  # fmt: skip
            body = f"SELECT *, {', '.join(items)} FROM ({body}) AS s{self.dialect.barrier}"
        return body

    def hold(self, sql: str) -> str:
        """Name of a computed value, one level above the names in it; equal texts share one."""
        if sql not in self.aliases:
            name = self.aliases[sql] = next(self.names)
            self.levels[name] = 1 + max(self.levels.get(word, 0) for word in _WORD.findall(sql))
        return self.aliases[sql]

    def bind(self, node: ex.Expr) -> str:
        """Name of a node's value, which may then be written more than once."""
        sql = self.value(node)
        return sql if isinstance(node, ex.Column | ex.Constant) else self.hold(sql)

    def value(self, node: ex.Expr) -> str:
        """Code of an expression: a 64-bit integer, a text, or NULL; its name where it is long."""
        sql = self.dialect.bit(node.sql(self)) if node.boolean else node.sql(self)
        return self.hold(sql) if len(sql) > self.dialect.longest else sql

    def truth(self, node: ex.Expr) -> str:
        """Condition as a truth value of the engine."""
        return node.sql(self) if node.boolean else f"({node.sql(self)} = 1)"

    def column(self, name: str) -> str:
        """Identifier of a column."""
        return self.columns[name]

    def integer(self, code: int) -> str:
        """Write an integer of 64 bits."""
        return self.dialect.integer(code)

    def text(self, value: str) -> str:
        """Write a text constant."""
        return self.dialect.text(value)

    def quotient(self, n: str, d: str) -> str:
        """Integer quotient, cut off towards zero."""
        return self.dialect.divide(n, d)

    def floor(self, n: str, d: int, bounds: tuple[int, int]) -> str:
        """Floor of an integer within `bounds` over a positive constant."""
        return floor_div(self.dialect, n, d, bounds, self.hold)

    def member(self, x: str, codes: tuple[int | str, ...]) -> str:
        """Membership of a value in a public list."""
        return member(self.dialect, x, codes)

    def absolute(self, x: str) -> str:
        """Absolute value."""
        return f"abs({x})"

    def matches(self, x: str, pattern: str) -> str:
        """Test a regular expression anywhere in a text."""
        return self.dialect.matches(x, pattern)

    def like(self, x: str, pattern: str) -> str:
        """Test a pattern, in which ``!`` escapes."""
        return self.dialect.like(x, pattern)

    def calendar(self, part: str, days: str) -> str:
        """Part of the date that lies some days after 1970-01-01."""
        return self.dialect.calendar(part, days)

    def trimmed(self, x: str) -> str:
        """Take plain spaces off both ends of a text."""
        return self.dialect.trimmed(x)

    def steps(self, x: str, edges: Sequence[int], values: Sequence[int]) -> str:
        """Value for the range between increasing edges that an integer lies in."""
        return self.dialect.steps(x, edges, values)

    def null_text(self) -> str:
        """Write a text that is not there."""
        return f"CAST(NULL AS {self.dialect.string})"


def member(dialect: Dialect, x: str, codes: Sequence[int | str]) -> str:
    """Membership of an operand, written once, in a public list; NULL for NULL."""
    if not codes:
        return f"({x} IS NULL AND CAST(NULL AS BOOLEAN))"
    whole = sorted({c for c in codes if isinstance(c, int)})
    if whole and whole[-1] - whole[0] + 1 == len(whole):
        return f"({x} BETWEEN {dialect.integer(whole[0])} AND {dialect.integer(whole[-1])})"
    listed = ", ".join(dialect.text(c) if isinstance(c, str) else str(c) for c in codes)
    return f"({x} IN ({listed}))"
