"""The cells of a publication: a table counted by public columns, some of them in bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet import _exact
from discreet._dataclass import dataclass, replace
from discreet._exact import show
from discreet._text import quoted
from discreet.errors import Hint, ParameterError
from discreet.plan import Query
from discreet.release._domain import Domain, span

if TYPE_CHECKING:
    from discreet.frame import Table


@dataclass(frozen=True)
class Keyed:
    """Counts by the columns of a domain, and the widths of its bins."""

    query: Query
    widths: Mapping[str, Fraction]

    @property
    def domain(self) -> Domain:
        """Names and public values, in words."""
        keys = [key for key in self.query.keys if key.codes is not None]
        values = []
        for key in keys:
            labels = [key.expr.type.value(code) for code in key.codes or ()]
            width = self.widths.get(key.name)
            if width is not None:
                starts = [int(str(v)) * width for v in labels]
                last = width - 1 if width.denominator == 1 else width
                labels = [span(show(a), show(a + last)) for a in starts]
            values.append(tuple(map(str, labels)))
        return Domain(tuple(key.name for key in keys), tuple(values))


def keyed(
    table: Table,
    columns: Sequence[str] | Mapping[str, str],
    bins: Mapping[str, Any] | None = None,
    group: str | None = None,
) -> Keyed:
    """Count a table by columns, some of them in bins."""
    from discreet import frame  # noqa: PLC0415 - only for questions about tables

    expressions = dict(columns) if isinstance(columns, Mapping) else {n: quoted(n) for n in columns}
    widths = {
        name: _exact.positive(_exact.decimal(width, f"the bins of {name}"), f"the bins of {name}")
        for name, width in (bins or {}).items()
    }
    for name, width in widths.items():
        if name not in expressions:
            raise ParameterError(f"bins names {name!r}, which is not among the columns")
        expressions[name] = f"FLOOR({expressions[name]} * {width.denominator} / {width.numerator})"
    if group is not None:
        expressions[group] = quoted(group)
    if table.keys or table.outputs:
        raise ParameterError(
            "the table is grouped already; what a publication counts by is said by columns=",
            hint=Hint("columns", ["age"]),
        )
    if not expressions:
        raise ParameterError("a publication needs columns", hint=Hint("columns", ["age"]))
    # column by column: what is published may have more cells than any answer has rows
    queries = [
        table.group_by(**{n: e}).agg(value=frame.count()).query for n, e in expressions.items()
    ]
    keys = tuple(key for query in queries for key in query.keys)
    return Keyed(replace(queries[0], keys=keys), widths)
