"""The verifier reads what the engine reads: its trees against DuckDB's own parser."""

from __future__ import annotations

import datetime as dt
import json
import re

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet import plan, verify
from discreet import policy as pol

_SIGNS = {"COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "<>", "COMPARE_LESSTHAN": "<",
          "COMPARE_GREATERTHAN": ">", "COMPARE_LESSTHANOREQUALTO": "<=",
          "COMPARE_GREATERTHANOREQUALTO": ">="}  # fmt: skip


def ours(node):
    """Tree of the reader."""
    parts = [ours(a) for a in node.args if isinstance(a, verify._read.Node)]
    match node.kind:
        case "number" | "string":
            return ("constant", node.args[0])
        case "null":
            return ("constant", "")
        case "truth":
            return ("constant", str(node.args[0]).lower())
        case "column":
            return ("column", *(a for a in node.args if a))
        case "compare" | "binary" | "bit":
            return ("call", node.args[0], *parts)
        case "case":
            branches, other = node.args
            return ("case", *((ours(c), ours(v)) for c, v in branches), ours(other))
        case "cast" | "trycast":
            return (node.kind, parts[0], node.args[1])
        case "call":
            return ("call", node.args[0], *(p for p in parts if p[0] != "star"))
        case "negative":
            return ("call", "-", *parts)
        case "extract":
            return ("call", "date_part", ("constant", node.args[0]), *parts)
        case "window":
            name, *lists = node.args
            return ("window", name, *(tuple(ours(n) for n in nodes) for nodes in lists))
        case "star":
            return ("star", node.args[0] or "")
    return (node.kind, *parts)


def theirs(e):  # noqa: PLR0912 - one case per kind of node
    """Tree of DuckDB's parser in the same form."""
    children = [theirs(c) for c in e.get("children", ())]
    children += [theirs(a["expression"]) for a in e.get("arguments", ())]
    match e["class"], e["type"]:
        case "CONSTANT", _:
            return ("constant", e["literal"]["text"])
        case "COLUMN_REF", _:
            return ("column", *e["column_names"])
        case "COMPARISON", sign:
            return ("call", _SIGNS[sign], theirs(e["left"]), theirs(e["right"]))
        case "BETWEEN", _:
            x, lo, hi = (theirs(e[k]) for k in ("input", "lower", "upper"))
            return ("and", ("call", ">=", x, lo), ("call", "<=", x, hi))
        case "CONJUNCTION", kind:
            return (kind.removeprefix("CONJUNCTION_").lower(), *children)
        case "FUNCTION", _:
            name = e["function_name"] + (" distinct" if e["distinct"] else "")
            return ("call", "count" if name == "count_star" else name, *children)
        case "CAST", _:
            kind = e["type_expr"]["type_name"].upper()
            return ("trycast" if e["try_cast"] else "cast", theirs(e["child"]), kind)
        case "CASE", _:
            checks = ((theirs(c["when_expr"]), theirs(c["then_expr"])) for c in e["case_checks"])
            return ("case", *checks, theirs(e["else_expr"]))
        case "WINDOW", _:
            partition = tuple(theirs(p) for p in e["partitions"])
            order = tuple(theirs(o["expression"]) for o in e["orders"])
            return ("window", e["function_name"], partition, order)
        case "STAR", _:
            return ("star", e["relation_name"])
        case "COLLATE", _:
            return ("collate", theirs(e["child"]))
        case "OPERATOR", "OPERATOR_IS_NOT_NULL":
            return ("not", ("isnull", *children))
        case "OPERATOR", "ARRAY_SLICE":
            return ("call", "substr", *children)
        case "OPERATOR", kind:
            name = kind.removeprefix("OPERATOR_").removeprefix("COMPARE_").lower()
            return (
                ("call", name, *children)
                if name == "coalesce"
                else (name.replace("_", ""), *children)
            )
    raise AssertionError(e["class"])


def folded(tree):
    """Fold what may be written in two ways: a negative literal, a chain of AND or OR."""
    if not isinstance(tree, tuple):
        return tree.lower() if tree in ("TRUE", "FALSE", "YEAR", "MONTH", "DAY") else tree
    tree = tuple(folded(t) for t in tree)
    if tree[:1] in (("and",), ("or",)):
        parts = []
        for t in tree[1:]:
            parts += t[1:] if t[0] == tree[0] else [t]
        return (tree[0], *parts)
    return tree


def our_trees(select):
    """All expressions of a statement, outermost first, with what they are part of."""
    found = [("item", folded(ours(node)), name) for node, name in select.items]
    for source in (select.source, *(j.source for j in select.joins)):
        if isinstance(source.source, str):
            found.append(("table", source.source.replace('"', "")))
        else:
            found += our_trees(source.source)
    found += [("on", j.left, folded(ours(j.on))) for j in select.joins]
    if select.where is not None:
        found.append(("where", folded(ours(select.where))))
    return found + [("group", folded(ours(g))) for g in select.group]


def their_trees(node):
    found = [("item", folded(theirs(e)), e["alias"]) for e in node["select_list"]]
    sources, joins, source = [], [], node["from_table"]
    while source["type"] == "JOIN":
        sources.insert(0, source["right"])
        joins.insert(0, ("on", source["join_type"] == "LEFT", folded(theirs(source["condition"]))))
        source = source["left"]
    for s in [source, *sources]:
        if s["type"] == "BASE_TABLE":
            names = (s["catalog_name"], s["schema_name"], s["table_name"])
            found.append(("table", ".".join(n for n in names if n)))
        else:
            found += their_trees(s["subquery"]["node"])
    found += joins
    if node["where_clause"] is not None:
        found.append(("where", folded(theirs(node["where_clause"]))))
    return found + [("group", folded(theirs(g))) for g in node["group_expressions"]]


def named(trees):
    """Drop names that come from the column itself: only one of the readers writes them."""
    out = []
    for t in trees:
        if t[0] == "item":
            own = t[1][0] == "column" and t[2] in ("", None, t[1][-1])
            out.append((t[0], t[1], "" if own else t[2] or ""))
        else:
            out.append(t)
    return out


def compare(sql):
    with duckdb.connect() as connection:
        ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    node = json.loads(text)["statements"][0]["node"]
    assert named(our_trees(verify._read.read(sql))) == named(their_trees(node))


@pytest.mark.parametrize(
    "expression",
    [
        "b + 1 - i * 2",
        "b - (i - 1) - 3",
        "b * 2 % 7 // 3",
        "-b + -5",
        "(b >> 3) & 7",
        "NOT b = 1 AND i > 2 OR s IS NOT NULL",
        "NOT (b = 1 OR i > 2) AND s IS NULL",
        "b BETWEEN 1 AND 5 AND i IN (1, 2, 3)",
        "CASE WHEN b < 1 AND i > 2 THEN b ELSE CASE WHEN i = 1 THEN -1 END END",
        "COALESCE(NULLIF(b, 0), CAST(i + 1 AS BIGINT)) * 3",
        "CAST(enum_code(TRY_CAST(CAST(t AS VARCHAR) AS ENUM('a', 'it''s'))) AS BIGINT)",
        "xor(xor(b & 7, 3) * 5 % 7, 1)",
        "b = 1 OR i = 2 AND s = 3 OR t = 'x'",
        "(b + 1) * (i - 2) % 5 >= 3",
        "least(greatest(b, 1), 5) <> 2",
        "('0x' || md5(t)[1:15]) = 'q'",
    ],
)
def test_expressions_are_read_alike(expression):
    compare(f'SELECT count(*) FROM (SELECT {expression} AS y FROM "z") AS s')


QUESTIONS = [
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, AVG(income) AS a FROM people WHERE age BETWEEN 1 AND 40 OR NOT married GROUP BY 1",
    "SELECT WIDTH_BUCKET(age, 0, 100, 5) AS k, SUM(income / (age + 1)) AS s FROM people GROUP BY 1",
    "SELECT code, COUNT(DISTINCT person_id) AS n FROM people GROUP BY code",
    "SELECT EXTRACT(YEAR FROM joined) AS y, COUNT(*) AS n FROM people GROUP BY 1",
    "SELECT SUM(CASE WHEN sex = 'F' THEN income ELSE -age END) AS s FROM people WHERE sex <> 'X'",
    "SELECT SUM(n) AS s FROM people p JOIN regions r ON p.sex = r.sex",
]


LIMITS = [{"max_rows_per_unit": 3}, {"max_groups_per_unit": 2, "max_rows_per_group": 2}, None]


@pytest.mark.parametrize("limits", LIMITS)
def test_statements_are_read_alike(limits):
    columns = [
        pol.Category("sex", ["F", "M", "X"]), pol.Integer("age", 0, 115),
        pol.Real("income", 0, 200_000, step="0.01"), pol.Boolean("married"),
        pol.Date("joined", "2000-01-01", "2024-12-31"),
        pol.Category("code", [f"k{i}" for i in range(40)]),
    ]  # fmt: skip
    unit = {"unit": "person_id", **limits} if limits else {}
    sexes = pol.Category("sex", ["F", "M", "X"])
    regions = pol.Table("regions", [sexes, pol.Integer("n", 0, 9)], public=True)
    tables = [pol.Table("people", columns, **unit), regions]
    policy = pol.Policy(tables, pol.Budget("1", "1e-6"), name="read")
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE people (person_id BIGINT, sex VARCHAR, age INTEGER, income DOUBLE, "
            "married BOOLEAN, joined DATE, code VARCHAR)"
        )
        connection.execute("CREATE TABLE regions AS SELECT 'F' AS sex, 1 AS n")
        curator = dc.open(connection, policy=policy, ledger=":memory:")
        for question in QUESTIONS:
            if limits is None and "person_id" in question:
                continue
            for aggregate in curator.preview(question, epsilon=1).plan.lowered.aggregates:
                compare(curator._engine.sql(aggregate, plan.Salt(b"reader")))


def test_the_comparison_can_fail(monkeypatch):
    original = verify._read._Reader.sum

    def wrong(self):
        node, loose = original(self)
        if node.kind == "binary" and node.args[0] == "-":
            node = self.node("binary", "-", node.args[2], node.args[1])
        return node, loose

    monkeypatch.setattr(verify._read._Reader, "sum", wrong)
    with pytest.raises(AssertionError):
        compare('SELECT count(*) FROM (SELECT b - i AS y FROM "z") AS s')


@pytest.mark.parametrize(
    ("numbers", "cells"),
    [
        (None, ["1234.5", "-3", "$5", "1,5", "", "x"]),
        ("1,234.50", ["$1,234.50", "-3", "£ 5", "1.5", "", "x"]),
        ("1.234,50", ["1.234,50 €", "-3", "5", "1,5", "", "x"]),
    ],
)
def test_numbers_are_read_as_the_policy_says_they_are_written(tmp_path, numbers, cells):
    file = tmp_path / "people.csv"
    file.write_text("pay;k\n" + "".join(f"{cell};{i}\n" for i, cell in enumerate(cells)), "utf-8")
    columns = [
        dc.policy.Real("pay", -10, 2000, step="0.5"),
        dc.policy.Integer("k", 0, 9),
    ]
    table = dc.policy.Table("people", columns, numbers=numbers)
    policy = dc.policy.Policy([table], dc.policy.Budget("1e9"), name="numbers")
    with dc.open(str(file), policy, ledger=":memory:") as curator:
        text = "SELECT k, SUM(pay) AS s FROM people GROUP BY k LIMIT 6"
        answer = curator.sql(text, epsilon=10**7)
        got = [round(r["s"], 1) for r in answer.to_dicts()]
    wanted = [1234.5, -3, 5, 1.5, 0, 0] if numbers else [1234.5, -3, 0, 0, 0, 0]
    assert got == wanted
    assert dc.policy.loads(policy.to_toml()) == policy


def test_numbers_of_other_sources_are_refused_by_name():
    table = dc.policy.Table("people", [dc.policy.Integer("k", 0, 9)], numbers="1.234,50")
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="numbers")
    with pytest.raises(dc.errors.SchemaError, match="CSV"):
        dc.open(pa.table({"k": [1]}), policy, ledger=":memory:")


FORMATS = {
    "%d.%m.%Y": "31.08.2025 | 1.8.2025 |  01.02.2024  | 29.02.2024",
    "%m/%d/%Y": "08/31/2025 | 8/1/2024",
    "%d.%m.%y": "31.08.25 | 1.1.69 | 31.12.68",
    "%Y%m%d": "20250831 | 20240229",
    "%d %b %Y": "31 Aug 2025 | 1 may 2024",
    "%B %d, %Y": "August 31, 2025 | May 1, 2024",
    "%d.%m.%Y %H:%M": "31.08.2025 13:05 | 1.2.2024 0:00",
    "%m/%d/%Y %I:%M:%S %p": "08/31/2025 3:05:09 PM | 1/2/2024 12:00:00 am",
    "%Y-%m-%dT%H:%M:%S.%f": "2025-08-31T13:05:09.25 | 2024-01-02T00:00:00.000001",
}
ODD = (
    "", " ", "epoch", "infinity", "-infinity", "today", "NULL", "31.02.2025", "29.02.2023", "0.0.0",
    "00.00.0000", "1.8.25", "01.01.12025", "31/08/2025", "2025-08-31", "31.08.2025 13:05:09",
    "31.08.2025 24:00", "08/31/2025 13:05:09 PM", "2025111", "202583100", "+1.8.2025", "1.-8.2025",
    "٣١.08.2025", "31.08.2025\0", "31.08.2025x", "x31.08.2025", "31 Foo 2025", "1e1.08.2025",
)  # fmt: skip


def read_by_format(form, cell):
    """An oracle of its own: Python's reading of what has the format's digits."""
    digits = {"Y": r"\d{4}", "y": r"\d\d", "f": r"\d{1,6}", "b": "[A-Za-z]{3}", "B": "[A-Za-z]+"}
    digits["p"] = "(?i:am|pm)"
    two = r"\d\d" if form == "%Y%m%d" else r"\d\d?"
    shape = re.sub("%(.)", lambda m: digits.get(m[1], two), re.sub(r"([.])", r"\\\1", form))
    if not re.fullmatch(shape, cell.strip(" "), re.ASCII):
        return None
    try:
        return dt.datetime.strptime(cell.strip(" "), form)  # noqa: DTZ007 - moments are naive UTC
    except ValueError:
        return None


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_dates_are_read_as_the_policy_says_they_are_written(tmp_path, form, kind):
    good = [cell.strip("|") for cell in FORMATS[form].split(" |")]
    assert all(read_by_format(form, cell.strip()) for cell in good)
    cells = [
        *good,
        *(c for c in ODD if "\n" not in c),
        *(" | ".join(FORMATS.values()).split(" | ")),
    ]
    file = tmp_path / "days.csv"
    file.write_text("k;d\n" + "".join(f'{i};"{c}"\n' for i, c in enumerate(cells)), "utf-8")
    column = {"type": kind, "min": "1960-01-01", "max": "2070-01-01", "format": form}
    columns = {"k": {"type": "integer", "min": 0, "max": 99}, "d": column}
    policy = dc.policy.load(
        {
            "policy": {"name": "days"},
            "budget": {"epsilon": 1},
            "tables": {"days": {"columns": columns}},
        }
    )
    assert dc.policy.loads(policy.to_toml()) == policy
    with dc.open(str(file), policy, ledger=":memory:") as curator:
        rows = curator._engine._connection.execute('SELECT k, d FROM "days" ORDER BY k').fetchall()
    wanted = [read_by_format(form, cell) for cell in cells]
    if kind == "date":
        wanted = [w and w.date() for w in wanted]
    assert [d for _, d in rows] == wanted
    assert sum(w is not None for w in wanted) >= len(good)
    assert isinstance(wanted[0], dt.date)


@pytest.mark.parametrize(
    ("form", "why", "hint"),
    [
        ("DD.MM.YYYY", "has no %Y", '"%d.%m.%Y"'),
        ("MM/DD/YYYY HH:MM", "has no %Y", '"%m/%d/%Y %H:%M"'),
        ("%d.%m", "needs a year", '"%d.%m.%Y"'),
        ("%Y-%m", "needs a year", "%d"),
        ("%d.%m.%Y %y", "needs a year", "%d"),
        ("%d.%m.%Y %q", "has %q", "%d"),
        ("%d.%m.%Y %", "has %;", "%d"),
        ("%d.%d.%m.%Y", "%d twice", "%d"),
        ("%d.%m.%Y %I:%M", "%I without %p", "%d"),
        ("%d.%m.%Y %M", "%M without %H or %I", "%d"),
        ("%d.%m.%Y %H %I %p", "needs a year", "%d"),
        ("%d.%m.%Y" * 9, "longer than 40", None),
        (7, "must be text", None),
    ],
)
def test_formats_that_read_no_date_are_refused(form, why, hint):
    with pytest.raises(dc.errors.PolicyError, match=re.escape(why)) as refused:
        dc.policy.Date("d", "2020-01-01", "2030-01-01", format=form)
    assert hint is None or hint in (refused.value.hint or "")


def test_formats_of_other_sources_are_refused_by_name():
    column = dc.policy.Date("d", "2020-01-01", "2030-01-01", format="%d.%m.%Y")
    policy = dc.policy.Policy(
        [dc.policy.Table("people", [column])], dc.policy.Budget("1"), name="formats"
    )
    with pytest.raises(dc.errors.SchemaError, match=r"column 'd'.*CSV"):
        dc.open(pa.table({"d": ["01.01.2025"]}), policy, ledger=":memory:")
