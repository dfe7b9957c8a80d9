"""``discreet init POLICY --spend``: narrower bounds, lists and limits, bought with noise.

The policy states generous bounds; what is narrower is asked for like any other question, so it
is private, recorded in the policy's own ledger and paid for. Each proposal comes with its
interval. Nothing is changed: the owner copies what seems right.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet._dataclass import dataclass, fields
from discreet._exact import decimal
from discreet._text import quoted
from discreet.cli._console import verbatim
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._session import Where, curator
from discreet.errors import DiscreetError
from discreet.policy import Column, Date, Integer, Real, Table, Text, toml

if TYPE_CHECKING:
    from discreet.curator import Curator

_ENDS: Final = ("0.005", "0.995")
"""Shares of the values below the proposed ends."""
_SHARED: Final = "interval_share => 0.3"
"""A proposal is copied for its interval as much as for its point."""
_MOST_ROWS: Final = 1_000
_LISTED: Final = 200


@dataclass(frozen=True)
class _Purchase:
    """A question, and what its answer proposes."""

    table: Table
    column: Column | None  # None: rows of one unit
    text: str

    @property
    def section(self) -> str:
        """Where the line belongs."""
        own = f"tables.{toml.key(self.table.name)}"
        return own if self.column is None else f"{own}.columns"

    def proposal(self, opened: Curator, epsilon: Fraction, delta: Fraction | None) -> str:
        """Ask, and write a line of the policy."""
        needs = delta if isinstance(self.column, Text) else None
        answer = opened.sql(self.text, epsilon=epsilon, delta=needs)
        rows = answer.to_dicts()
        if isinstance(self.column, Text):
            values = [r["value"] for r in rows][:_LISTED]
            if not values:
                return f"# {self.column.name}: no value that enough people have was found"
            spec = toml.value({"type": "category", "values": values, "other": "other"})
            return f"{toml.key(self.column.name)} = {spec}  # values that many people have"
        (row,), (ends,) = rows, answer.interval(0.95)
        if self.column is None:
            low, high = ends["n"]
            line = (
                f"max_rows_per_unit = {max(1, math.ceil(row['n']))}  # 95 % of all have no more: "
                f"{low:g} to {high:g} at 95 %"
            )
            return _judged(
                line, float(high) - float(low), max(float(row["n"]), 2), _MOST_ROWS, epsilon
            )
        return self._bounds(row, ends, epsilon)

    def _bounds(self, row: dict[str, Any], ends: dict[str, Any], epsilon: Fraction) -> str:
        column: Any = self.column
        low, high = _outward(row["low"], row["high"], column)
        spec = toml.value({"type": column.type, "min": low, "max": high} | _rest(column))
        words = ", ".join(f"{name} end {_words(ends[name], column)}" for name in ("low", "high"))
        line = f"{toml.key(column.name)} = {spec}  # 99 % of the values; {words} at 95 %"
        unsure = max(_length(*ends[name]) for name in ("low", "high"))
        allowed = _length(column.min, column.max)
        return _judged(line, unsure, _length(row["low"], row["high"]), allowed, epsilon)


def run(path: str, *, spend: str, delta: str | None, columns: Sequence[str] = ()) -> Reply:
    """Buy proposals for the columns of a policy's private tables: for all, or for those named."""
    if not path.endswith(".toml"):
        raise UsageError(
            "proposals are bought under a policy: draft one first, with generous bounds",
            hint=f"discreet init {path}",
        )
    where = Where(Path(path), None, None, None)
    lines: list[str] = []
    with curator(where, spend=True) as opened:
        purchases = _selection(list(_purchases(opened, text=delta is not None)), columns)
        declared = any(t.columns for t in opened.policy.tables.values() if not t.public)
        if not purchases or not declared:
            raise UsageError(
                "nothing was bought: the policy declares no number, date or (with --delta) text, "
                "so there are no bounds to narrow. Write generous ones first, from what you know",
                hint='age = { type = "integer", min = 0, max = 150 } under [tables.….columns]',
            )
        share = decimal(spend, "spend") / len(purchases)
        each = None if delta is None else decimal(delta, "delta") / len(purchases)
        section, total = None, Fraction(0)
        for purchase in purchases:
            if purchase.section != section:
                section = purchase.section
                lines.append(f"\n[{section}]")
            line, cost = _attempt(purchase, opened, share, each)
            lines.append(line)
            total += cost
        left = repr(opened.budget)
    swamped = sum("noise swamps this" in line for line in lines)
    if swamped:
        lines.append(
            f"\n# mostly noise: {swamped} of {len(purchases)} proposals; --spend {spend} was split "
            "evenly over them. With --column NAME it is spent on that column alone"
        )
    text = "\n".join([f"# bought for ε {float(total):.4g}; {left}", *lines])
    data = {"proposal": text, "spent": f"{float(total):.4g}", "swamped": swamped}
    return Reply(data, lambda console: verbatim(console, text))


def _selection(purchases: list[_Purchase], columns: Sequence[str]) -> list[_Purchase]:
    """Purchases of the named columns, which share the whole price; all, if none is named."""
    names = {p.column.name for p in purchases if p.column is not None}
    unknown = next((name for name in columns if name not in names), None)
    if unknown is not None:
        raise UsageError(
            f"there are no bounds of {unknown!r} to narrow; there are those of "
            f"{', '.join(sorted(names)) or 'no column'}",
            hint=f"--column {min(names)}" if names else None,
        )
    return [p for p in purchases if not columns or (p.column and p.column.name in columns)]


def _attempt(
    purchase: _Purchase, opened: Curator, share: Fraction, delta: Fraction | None
) -> tuple[str, Fraction]:
    """A line of the policy, or why there is none, and what was paid for it."""
    try:
        return purchase.proposal(opened, share, delta), share
    except DiscreetError as refused:
        what = "max_rows_per_unit" if purchase.column is None else purchase.column.name
        return f"# {what}: {refused.message}", Fraction(0)


_SHARE: Final = 0.5
"""An end that is uncertain by more of the proposed range than this is no proposal."""


_DEAREST: Final = 1.0
"""Largest ε that is advised for one line: bounds are a help, and people's odds are not theirs."""


def _judged(line: str, unsure: float, proposed: float, allowed: float, epsilon: Fraction) -> str:
    """A line to copy, or a comment where noise swamps what it says.

    The interval of a quantile shrinks about as ε grows: ε must grow as often as the interval is
    too wide. One as wide as all that is `allowed` tells nothing, and so asks for a hundred times.
    No more than :data:`_DEAREST` is advised, whatever it would take.
    """
    if unsure <= _SHARE * proposed:
        return line
    lost = unsure >= 0.9 * allowed or proposed <= 0
    times = 100.0 if lost else max(2.0, unsure / (_SHARE * proposed))
    need = float(f"{float(epsilon) * times:.1g}")
    advice = f", or spend at least ε {need:g} on this line instead of {float(epsilon):.2g}"
    if need > _DEAREST:
        enough = "no price up to that may show it" if lost else f"it would take about ε {need:g}"
        advice = (
            f". More than ε {_DEAREST:g} is not advised for a line of a policy, and {enough}: even "
            f"odds about one person may grow to {math.exp(_DEAREST):.2g} to 1 by ε {_DEAREST:g}"
        )
    return f"# {line}\n#   noise swamps this, do not copy it: keep what you know{advice}"


def _length(low: Any, high: Any) -> float:
    if isinstance(low, dt.date) and isinstance(high, dt.date):
        return float((high - low).days)
    return float(high) - float(low)


def _purchases(opened: Curator, *, text: bool) -> Iterator[_Purchase]:
    for table in opened.policy.tables.values():
        if table.public:
            continue
        source = quoted(table.name)
        # one row of each unit says where values lie, with the least noise
        limited = table.unit is not None or table.owner is not None
        one_each = "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed=1) " * limited
        if table.unit is not None:
            inner = f"SELECT {quoted(table.unit)}, COUNT(*) AS n FROM {source} GROUP BY 1"  # noqa: S608 - names are quoted
            query = (
                f"SELECT QUANTILE(LEAST(n, {_MOST_ROWS}), 0.95, {_SHARED}) AS n FROM ({inner}) AS t"  # noqa: S608 - likewise
            )
            yield _Purchase(table, None, query)
        for name, column in table.columns.items():
            x = quoted(name)
            if name == table.unit:
                continue
            if isinstance(column, Integer | Real | Date):
                ends = zip(_ENDS, ("low", "high"), strict=True)
                query = ", ".join(f"QUANTILE({x}, {at}, {_SHARED}) AS {n}" for at, n in ends)
                yield _Purchase(table, column, f"SELECT {one_each}{query} FROM {source}")  # noqa: S608 - likewise
            elif isinstance(column, Text) and text:
                query = f"SELECT {x} AS value, COUNT(*) AS n FROM {source}"  # noqa: S608 - likewise
                yield _Purchase(table, column, f"{query} GROUP BY 1 ORDER BY n DESC")


def _rest(column: Any) -> dict[str, object]:
    """What else the policy says of a column: a line that is copied must not lose it."""
    settings = {"step": column.step} if isinstance(column, Real) else {}
    own = {f.name: f.default for f in fields(column) if f.name in ("outside", "format", "null")}
    return settings | {k: v for k, default in own.items() if (v := getattr(column, k)) != default}


def _outward(low: Any, high: Any, column: Any) -> tuple[Any, Any]:
    """Round ends outward, inside the bounds that the policy has."""
    if isinstance(column, Date):
        return max(_day(low).replace(day=1), column.min), min(_day(high), column.max)
    width = max(float(high) - float(low), 1e-9)
    unit = Fraction(10) ** (math.floor(math.log10(width)) - 1)
    whole = isinstance(column, Integer)
    unit = max(unit, Fraction(1)) if whole else unit
    least = max(math.floor(Fraction(low) / unit) * unit, Fraction(column.min))
    most = min(math.ceil(Fraction(high) / unit) * unit, Fraction(column.max))
    return (int(least), int(most)) if whole else (least, most)


def _day(value: Any) -> dt.date:
    if isinstance(value, dt.date):
        return value
    return dt.date(1970, 1, 1) + dt.timedelta(days=round(float(value)))


def _words(ends: tuple[Any, Any], column: Any) -> str:
    low, high = ends
    if isinstance(column, Date):
        return f"{_day(low).isoformat()} to {_day(high).isoformat()}"
    return f"{float(low):g} to {float(high):g}"
