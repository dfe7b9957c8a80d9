"""SQL for analysts: text is read, checked against a closed language, and lowered.

The text never reaches an engine. It is parsed (by sqlglot, loaded on first
use), each node must be one we know, every name must be in the policy, and the
result is a :class:`discreet.plan.Query`, the only thing that travels on.

What can be asked
-----------------
``SELECT`` keys and aggregates ``FROM`` a private table (or a subquery that only
filters and computes rows) ``[LEFT] JOIN`` public tables on equal columns
``WHERE … GROUP BY … HAVING … ORDER BY … LIMIT``.

Aggregates: COUNT(*), COUNT(x), COUNT(DISTINCT x), SUM, AVG, VAR, VAR_POP,
STDDEV, STDDEV_POP, MEDIAN, QUANTILE(x, q), PERCENTILE_CONT, MIN, MAX, MODE,
COUNTIF, each with FILTER (WHERE …). After the noise: arithmetic, comparisons,
ROUND and ABS of aggregates.

Rows: ``+ - * /``, comparisons, IN, BETWEEN, AND, OR, NOT, IS NULL, CASE, IF,
COALESCE, NULLIF, ABS, ROUND, FLOOR, CEIL, POWER, LEAST, GREATEST, WIDTH_BUCKET,
EXTRACT(part FROM day), CAST of constants and truth values. Division is true
division and NULL by zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet._lazy import load
from discreet.sql._parsed import Fanout, Parsed, United

if TYPE_CHECKING:
    from discreet.sql._instead import line_of, of_all_rows
    from discreet.sql._select import lower, parse, parse_any
    from discreet.sql._text import INFIX, check_depth, condition, fragment, too_deep

__all__ = [
    "INFIX",
    "Fanout",
    "Parsed",
    "United",
    "check_depth",
    "condition",
    "fragment",
    "line_of",
    "lower",
    "of_all_rows",
    "parse",
    "parse_any",
    "too_deep",
]

_MODULES = dict.fromkeys(("lower", "parse", "parse_any"), "_select")
_MODULES |= dict.fromkeys(("line_of", "of_all_rows"), "_instead")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES.get(name, "_text")
    return getattr(load(f"discreet.sql.{module}"), name)  # sqlglot too


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
