"""Write the tables of the reference pages from the tables of the program.

A page holds ``<!-- begin NAME -->`` … ``<!-- end NAME -->``; what stands between is
replaced. ``make docs`` runs this; a test says when a page is stale.

Run as a program, it rewrites the pages. ``--check`` only says which are stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

from discreet import errors, policy
from discreet.cli._outcome import exit_code
from discreet.plan import CALLS, FLUENT, FUNCTIONS, Statistic
from discreet.sql import _spellings
from discreet.sql._over import WINDOWS

DOCS: Final = Path(__file__).parent

PEOPLE: Final = """
[budget]
epsilon = "1"
delta = "1e-6"
[tables.people]
unit = "person_id"
max_rows_per_unit = 3
[tables.people.columns]
sex = { type = "category", values = ["F", "M", "X"] }
city = { type = "category", values = ["Basel", "Bern", "Geneva"] }
age = { type = "integer", min = 0, max = 115 }
income = { type = "real", min = 0, max = 200_000, step = "0.01" }
joined = { type = "date", min = 2024-01-01, max = 2025-12-31 }
seen = { type = "timestamp", min = 2025-01-01, max = 2025-12-31, step = 1 }
married = { type = "boolean" }
note = { type = "text" }
"""
"""The table that the examples are about; a test asks each of them."""

EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "ABS": ("AVG(ABS(age - 50))", "size without sign"),
    "FLOOR": ("AVG(FLOOR(income / 1000))", "rounded down"),
    "TRUNC": ("AVG(TRUNC(income, -3))", "cut towards zero, to decimal digits if given"),
    "CEIL": ("AVG(CEIL(income / 1000))", "rounded up"),
    "ROUND": (
        "AVG(ROUND(income, -2))",
        "rounded (halves away from zero), to decimal digits if given",
    ),
    "COALESCE": ("AVG(COALESCE(age, 40))", "first argument that is not NULL"),
    "NULLIF": ("AVG(NULLIF(income, 0))", "NULL where both are equal"),
    "LEAST": (
        "SUM(LEAST(income, 100000))",
        "least argument; a constant makes a tighter bound and less noise; NULL is passed over",
    ),
    "GREATEST": ("SUM(GREATEST(age, 18))", "greatest argument; NULL is passed over"),
    "POWER": ("AVG(POWER(age, 2))", "whole powers 1 to 8, or a constant fraction"),
    "SQRT": ("AVG(SQRT(income))", "square root"),
    "LN": ("AVG(LN(income + 1))", "natural logarithm"),
    "LOG": (
        "AVG(LOG(income + 1))",
        "logarithm to base 10; with two arguments the base comes first",
    ),
    "LOG2": ("AVG(LOG2(income + 1))", "logarithm to base 2"),
    "EXP": ("AVG(EXP(age / 100))", "exponential"),
    "WIDTH_BUCKET": (
        "WIDTH_BUCKET(age, 0, 100, 10) AS bucket",
        "number of a bucket: 0 below, n + 1 above",
    ),
    "SIGN": ("AVG(SIGN(age - 18))", "−1, 0 or 1"),
    "BIN": ("BIN(age, 10) AS age_from", "lower end of the bin of a width: histograms"),
    "SQUARE": ("AVG(SQUARE(age))", "second power"),
    "MOD": ("AVG(MOD(age, 10))", "remainder by a positive constant; `%` is the same"),
    "DATE_PART": ("DATE_PART('month', joined) AS month", "a part of a date, by name"),
    "YEAR": ("YEAR(joined) AS year", "year"),
    "QUARTER": ("QUARTER(joined) AS quarter", "1 to 4"),
    "MONTH": ("MONTH(joined) AS month", "1 to 12"),
    "DAY": ("DAY(joined) AS day", "day of the month"),
    "DAYOFMONTH": ("DAYOFMONTH(joined) AS day", "day of the month"),
    "HOUR": ("HOUR(seen) AS hour", "0 to 23"),
    "ISODOW": ("ISODOW(joined) AS day", "weekday: 1 is Monday, 7 is Sunday"),
    "DOW": ("DOW(joined) AS day", "weekday: 0 is Sunday, 6 is Saturday"),
    "DAYOFWEEK": ("DAYOFWEEK(joined) AS day", "weekday: 0 is Sunday"),
    "WEEK": ("WEEK(joined) AS week", "ISO week"),
    "WEEKOFYEAR": ("WEEKOFYEAR(joined) AS week", "ISO week"),
    "ISOYEAR": ("ISOYEAR(joined) AS year", "year to which the ISO week belongs"),
    "DOY": ("AVG(DOY(joined))", "day of the year"),
    "DAYOFYEAR": ("AVG(DAYOFYEAR(joined))", "day of the year"),
    "MINUTE": ("MINUTE(seen) AS minute", "0 to 59"),
    "SECOND": ("SECOND(seen) AS second", "0 to 59"),
    "EPOCH": ("AVG(EPOCH(seen))", "seconds since 1970-01-01 00:00 UTC"),
    "DATE_TRUNC": ("DATE_TRUNC('month', joined) AS month", "start of the minute … year"),
    "DATEDIFF": (
        "AVG(DATEDIFF('day', joined, DATE '2025-12-31'))",
        "units begun between two dates (weeks: seven days); of two arguments days, later first",
    ),
    "TIMESTAMPDIFF": (
        "AVG(TIMESTAMPDIFF('year', joined, DATE '2025-12-31'))",
        "whole units from one date to another: ages",
    ),
    "LAST_DAY": ("LAST_DAY(joined) AS month_end", "last day of the month"),
    "STRFTIME": ("STRFTIME(joined, '%Y-%m') AS month", "a format that makes a key"),
    "TO_CHAR": ("TO_CHAR(joined, 'YYYY-MM') AS month", "the same with PostgreSQL's letters"),
    "MONTHNAME": ("MONTHNAME(joined) AS month", "January …"),
    "DAYNAME": ("DAYNAME(joined) AS day", "Monday …"),
    "DATE": ("DATE(seen) AS day", "day of a moment"),
    "LOWER": ("LOWER(city) AS place", "small letters"),
    "UPPER": ("UPPER(city) AS place", "capital letters"),
    "TRIM": ("TRIM(city) AS place", "without blanks at both ends"),
    "INITCAP": ("INITCAP(city) AS place", "each word with a capital, in a listed category"),
    "LENGTH": ("AVG(LENGTH(city))", "number of characters"),
    "SUBSTR": ("SUBSTR(city, 1, 2) AS place", "a piece: from where (1 is the first), how many"),
    "LEFT": ("LEFT(city, 1) AS letter", "the first characters"),
    "RIGHT": ("RIGHT(city, 2) AS ending", "the last characters"),
    "SPLIT_PART": ("SPLIT_PART(city, 'e', 1) AS part", "the n-th piece between separators"),
    "REPLACE": ("REPLACE(city, 'Bern', 'Berne') AS place", "another text for each occurrence"),
    "REGEXP_LIKE": (
        "COUNT(*) FILTER (WHERE REGEXP_LIKE(city, '^B'))",
        "regular expression of a bounded, linear-time kind; `~` is the same",
    ),
    "CONCAT": ("CONCAT('in ', city) AS place", "texts one after the other; NULL is left out"),
}
"""An example and a meaning for each row function, under the first of its names."""

STATISTICS: Final[dict[str, str]] = {
    "Count": "COUNT(*)",
    "CountDistinct": "COUNT(DISTINCT city)",
    "CountUnits": "COUNT(DISTINCT person_id)",
    "Sum": "SUM(income)",
    "Average": "AVG(income)",
    "Variance": "VAR_SAMP(age)",
    "Deviation": "STDDEV(age)",
    "QuantileOf": "QUANTILE(income, 0.9)",
    "ModeOf": "MODE(city)",
    "PairOf": "CORR(income, age)",
}
"""An example for each statistic that SQL can ask for."""

_TAKES: Final = {
    "value": "x", "moment": "date", "text": "text", "format": "'format'", "unit": "'unit'",
    "number": "number", "whole": "n", "word": "'text'", "values": "…",
}  # fmt: skip


def question(example: str) -> str:
    """Make a whole question of an example; one with an alias is a key."""
    if " AS " in example:
        return f"SELECT {example}, COUNT(*) AS n FROM people GROUP BY 1"  # noqa: S608 - our own examples
    return f"SELECT {example} AS answer FROM people"  # noqa: S608 - likewise


def functions() -> Iterator[str]:
    """Row functions."""
    yield "| function | meaning | example |\n|---|---|---|"
    for name, function in FUNCTIONS.items():
        if name != function.names[0]:
            continue
        args = [_TAKES[t] for t in function.takes]
        must = len(args) - function.optional
        call = ", ".join(args[:must]) + "".join(f"[, {a}]" for a in args[must:])
        others = "".join(f", `{n}`" for n in function.names[1:])
        example, meaning = EXAMPLES[name]
        yield f"| `{name}({call})`{others} | {meaning} | `{example}` |"


def statistics() -> Iterator[str]:
    """Statistics."""
    yield "| SQL | Python | what it is | example |\n|---|---|---|---|"
    for kind in Statistic.kinds:
        if kind.__name__ not in STATISTICS:
            continue
        names = [n for n, (statistic, _) in CALLS.items() if statistic is kind]
        if kind.__name__ == "CountDistinct":
            names = ["COUNT(DISTINCT x)", *names]
        if kind.__name__ == "CountUnits":
            names = ["COUNT(DISTINCT unit)"]
        sql = ", ".join(f"`{n}`" for n in names)
        python = ", ".join(f"`dc.{f.name}`" for f in kind.fluent)
        first = (kind.__doc__ or "").strip().splitlines()[0].replace("``", "`")
        yield f"| {sql} | {python} | {first} | `{STATISTICS[kind.__name__]}` |"


def fluent() -> Iterator[str]:
    """Functions of the fluent API."""
    yield "| Python | SQL | what it is |\n|---|---|---|"
    for entry in FLUENT.values():
        more = "".join(f", {n}" if d is ... else f", {n}={d}" for n, d in entry.takes)
        text = entry.doc.replace(":func:`", "`")
        yield f"| `dc.{entry.name}(x{more})` | `{entry.sql}` | {text} |"


def spellings() -> Iterator[str]:
    """Names of functions that other databases use."""
    today = {*_spellings.NOW, *_spellings.TODAY}
    names = {*_spellings.RENAMED, *_spellings.CALLS} - {*FUNCTIONS, *today}
    yield ", ".join(f"`{name}`" for name in sorted(names))


def windows() -> Iterator[str]:
    """Functions with OVER."""
    yield ", ".join(f"`{name}`" for name in sorted(WINDOWS))


def columns() -> Iterator[str]:
    """Column types and their keys."""
    kinds = [getattr(policy, n) for n in policy.__all__]
    yield "| type | keys |\n|---|---|"
    for kind in (k for k in kinds if isinstance(getattr(k, "type", None), str)):
        keys = ", ".join(f"`{f.name}`" for f in fields(kind) if f.name != "name")
        yield f'| `"{kind.type}"` | {keys} |'


def tree() -> Iterator[str]:
    """Error classes."""
    yield "| class | code | exit code | meaning |\n|---|---|---|---|"
    for depth, kind in _walk(errors.DiscreetError, 0):
        first = (kind.__doc__ or "").strip().splitlines()[0]
        code = int(exit_code(kind("")))
        yield f"| {'· ' * depth}`{kind.__name__}` | `{kind.code}` | {code} | {first} |"


def _walk(kind: type, depth: int) -> Iterator[tuple[int, type]]:
    if kind.__module__ != errors.__name__:
        return
    yield depth, kind
    for child in kind.__subclasses__():
        yield from _walk(child, depth + 1)


PARTS: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "functions": functions,
    "statistics": statistics,
    "fluent": fluent,
    "spellings": spellings,
    "windows": windows,
    "columns": columns,
    "errors": tree,
}
_MARK: Final = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def render(text: str) -> str:
    """Fill in the tables of a page."""
    return _MARK.sub(lambda m: m[1] + "\n" + "\n".join(PARTS[m[2]]()) + "\n\n" + m[3], text)


def main() -> int:
    """Rewrite stale pages, or only name them."""
    stale = 0
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text("utf-8")
        fresh = render(text)
        if fresh != text:
            stale += 1
            print(f"{page.name} is stale")
            if "--check" not in sys.argv:
                page.write_text(fresh, "utf-8")
    return stale if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
