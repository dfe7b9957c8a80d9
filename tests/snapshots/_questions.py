"""Policies, questions and rows that the nets of ``plan`` share."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from fractions import Fraction as F
from functools import cache

from discreet import plan as pl
from discreet import policy as pol
from discreet import sql
from discreet.plan._lowered import Lowered

SALT = pl.Salt(b"0123456789abcdef")
TOWNS = ["Ulm", "Bonn", "Köln", None, "x'y"]
COLUMNS = [
    pol.Category("sex", ["F", "M", "X"], null="F"),
    pol.Integer("age", 0, 99, null=0),
    pol.Integer("kids", -2, 7),
    pol.Real("pay", -100, 1000, "0.5"),
    pol.Boolean("well"),
    pol.Text("town"),
    pol.Date("day", "2020-01-01", "2021-12-31"),
    pol.Timestamp("at", "2020-01-01", "2020-03-01", 3600),
]
VISITS = [pol.Integer("cost", 0, 500), pol.Category("ward", ["a", "b"])]
RULES: dict[str, dict[str, object]] = {
    "rows": {},
    "changed rows": {"neighbours": "change-one"},
    "few rows": {"unit": "id", "max_rows_per_unit": 3},
    "groups": {"unit": "id", "max_groups_per_unit": 4, "max_rows_per_group": 2},
    "changed": {
        "unit": "id",
        "max_rows_per_unit": 5,
        "max_groups_per_unit": 3,
        "max_rows_per_group": 2,
        "neighbours": "change-one",
    },
}
TEXTS = {
    "count": "SELECT COUNT(*) AS n FROM t",
    "where": "SELECT COUNT(*) AS n FROM t WHERE age > 3 AND well",
    "several": "SELECT COUNT(*) AS n, SUM(age) AS s, AVG(pay) AS a FROM t",
    "signed": "SELECT SUM(kids) AS s, SUM(pay) AS q FROM t",
    "mean": "SELECT AVG(kids) AS a FROM t",
    "by sex": "SELECT sex, COUNT(*) AS n, AVG(pay) AS a FROM t GROUP BY sex",
    "by two": "SELECT sex, well, SUM(kids) AS s, COUNT(*) AS n FROM t GROUP BY sex, well",
    "variance": "SELECT VAR_POP(age) AS v FROM t",
    "deviation": "SELECT STDDEV(pay) AS v, AVG(pay) AS a FROM t",
    "moments": "SELECT sex, VAR(age) AS v, SUM(pay) AS s FROM t GROUP BY sex",
    "distinct": "SELECT COUNT(DISTINCT age) AS d, COUNT(DISTINCT sex) AS e FROM t",
    "median": "SELECT MEDIAN(age) AS m FROM t",
    "quantiles": "SELECT sex, QUANTILE(pay, 0.9) AS q FROM t GROUP BY sex",
    "mode": "SELECT MODE(well) AS k FROM t",
    "modes": "SELECT well, MODE(sex) AS k FROM t GROUP BY well",
    "open keys": "SELECT town, COUNT(*) AS n FROM t GROUP BY town",
    "open and listed": "SELECT town, sex, SUM(age) AS s FROM t GROUP BY town, sex",
    "days": "SELECT EXTRACT(MONTH FROM day) AS m, COUNT(*) AS n FROM t GROUP BY m",
    "filtered": "SELECT SUM(age) FILTER (WHERE sex = 'F') AS f, "
    "SUM(age) FILTER (WHERE sex = 'M') AS g FROM t",
    "cases": "SELECT SUM(CASE WHEN age < 30 THEN pay WHEN age < 60 THEN kids ELSE 1 END) AS s "
    "FROM t",
    "rollup": "SELECT sex, well, COUNT(*) AS n FROM t GROUP BY ROLLUP(sex, well)",
    "largest": "SELECT age, COUNT(*) AS n FROM t GROUP BY age ORDER BY n DESC LIMIT 3",
    "having": "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING COUNT(*) > 5 ORDER BY n",
    "buckets": "SELECT WIDTH_BUCKET(pay, 0, 800, 4) AS b, COUNT(*) AS n FROM t GROUP BY b",
    "ratio": "SELECT SUM(pay) / COUNT(*) AS r, COUNT(*) FILTER (WHERE well) / COUNT(*) AS w FROM t",
    "per unit": "SELECT AVG(n) AS a FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id)",
    "people": "SELECT COUNT(DISTINCT id) AS n FROM t WHERE age >= 18",
    "joined": "SELECT r.zone, COUNT(*) AS n FROM t JOIN r ON t.sex = r.sex GROUP BY r.zone",
    "own join": "SELECT SUM(v.cost) AS s FROM t JOIN v ON t.id = v.id WHERE t.age > 40",
    "correlation": "SELECT CORR(age, pay) AS c FROM t",
    "bounded": "SELECT SUM(LEAST(GREATEST(pay, 0), 100)) AS s, AVG(ABS(kids)) AS k FROM t",
    "hours": "SELECT DATE_TRUNC('day', at) AS d, COUNT(*) AS n FROM t "
    "WHERE at < TIMESTAMP '2020-01-08' GROUP BY d",
}
ASKS: dict[str, dict[str, object]] = {
    "epsilon": {"epsilon": F(1)},
    "small": {"epsilon": F(1, 50), "delta": F(1, 10**6)},
    "delta": {"epsilon": F(2), "delta": F(1, 10**5)},
    "rho": {"rho": F(1, 10)},
    "rho delta": {"rho": F(1, 10), "delta": F(1, 10**7), "currency": "rho"},
    "in rho": {"epsilon": F(1), "delta": F(1, 10**6), "currency": "rho"},
}


@cache
def policy(rules: str) -> pol.Policy:
    """A policy with a private table under some rules, another of the same units, a public one."""
    given = RULES[rules]
    tables = [
        pol.Table("t", COLUMNS, **given),
        pol.Table("r", [COLUMNS[0], pol.Integer("zone", 0, 2)], public=True),
    ]
    if "unit" in given:
        tables.append(pol.Table("v", VISITS, **given))
    return pol.Policy(tables, pol.Budget("1", "1e-6"), name=rules)


def rows() -> dict[str, list[dict[str, object]]]:
    """Rows of some people, one of whom has far more than any limit."""
    start, when = date(2020, 1, 1), datetime(2020, 1, 1)
    held = [
        {
            "id": i % 37 if i % 5 else 7,
            "sex": "FMX"[i % 3] if i % 11 else None,
            "age": i * 7 % 120 - 5,
            "kids": i % 9 - 1 if i % 6 else None,
            "pay": i * 13.7 % 1300 - 150,
            "well": (i % 3 == 0) if i % 7 else None,
            "town": TOWNS[i * i % 5],
            "day": start + timedelta(days=i * 11 % 800),
            "at": when + timedelta(hours=i * 17),
        }
        for i in range(150)
    ]
    visits = [{"id": i % 40, "cost": i * 31 % 600, "ward": "ab"[i % 2]} for i in range(90)]
    zones = [{"sex": s, "zone": z} for s, z in (("F", 0), ("M", 1), ("X", 1), ("F", 2))]
    return {"t": held, "v": visits, "r": zones}


@cache
def lowered(rules: str, text: str) -> Lowered:
    """Plan of a question before it is priced."""
    return pl.lower(sql.parse(TEXTS[text], policy(rules), public_fanout={"r": 2}).query)
