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

import importlib
from typing import TYPE_CHECKING

from discreet import policy as pol
from discreet.sql._parsed import Fanout, Parsed

if TYPE_CHECKING:
    from sqlglot import exp

    from discreet.sql._text import INFIX, check_depth, fragment, too_deep

__all__ = ["INFIX", "Fanout", "Parsed", "check_depth", "fragment", "lower", "parse", "too_deep"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("discreet.sql._text"), name)  # loads sqlglot


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def parse(
    text: str,
    policy: pol.Policy,
    *,
    public_fanout: Fanout | None = None,
    other: str | None = None,
) -> Parsed:
    """Read one SELECT into a query, or refuse it by name.

    Parameters
    ----------
    text
        The question.
    policy
        What tables and columns exist.
    public_fanout
        For joins: a mapping from public table to the most rows that share a key,
        or a function of table and join columns.
    other
        Label of a row that gathers the text keys which are not selected (None: no row).

    Returns
    -------
    Parsed
        ``query``; ``epsilon`` and ``delta`` where BigQuery's clause states them.

    Raises
    ------
    QueryError
        UnknownNameError, UnsupportedQueryError or the error itself. Every message
        is made of the question and the policy alone.

    Examples
    --------
    >>> from discreet.policy import Budget, Category, Integer, Policy, Table
    >>> people = Table("people", [Category("sex", ["F", "M"]), Integer("age", 0, 115)])
    >>> policy = Policy(tables=[people], budget=Budget("1"))
    >>> parsed = parse("SELECT sex, AVG(age) FROM people WHERE age >= 18 GROUP BY sex", policy)
    >>> [output.name for output in parsed.query.outputs]
    ['sex', 'avg_age']
    >>> parse("SELECT AVG(aeg) FROM people", policy)
    Traceback (most recent call last):
        ...
    discreet.errors.UnknownNameError: there is no column "aeg"; known: sex, age
        try: age
    """
    from discreet.sql._select import parse as _parse  # noqa: PLC0415 - sqlglot loads on first use

    return _parse(text, policy, public_fanout=public_fanout, other=other)


def lower(
    root: exp.Select, policy: pol.Policy, public_fanout: Fanout | None, other: str | None = None
) -> Parsed:
    """Lower the tree of one SELECT that did not come from text; as :func:`parse`."""
    from discreet.sql._select import lower as _lower  # noqa: PLC0415 - as above

    return _lower(root, policy, public_fanout, other)
