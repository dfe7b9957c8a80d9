"""Spellings of other databases mean what ours mean, and what is refused gets a hint that works."""

from __future__ import annotations

import collections
import datetime as dt
import itertools
import operator
import re

import pytest

from discreet import plan as pl
from discreet import policy as pol
from discreet import sql
from discreet.engines import Reference
from discreet.errors import QueryError, UnknownNameError
from discreet.plan._target import target
from discreet.sql import _spellings

POLICY = pol.loads(
    """
[budget]
epsilon = "1"
delta = "1e-6"
[tables.customers]
unit = "customer"
max_rows_per_unit = 1
[tables.customers.columns]
birth = { type = "date", min = 1930-01-01, max = 2010-12-31 }
country = { type = "category", values = ["CH", "DE"] }
level = { type = "category", values = ["a one", "b-two"], nullable = true }
email = { type = "text" }
points = { type = "integer", min = -20, max = 20 }
[tables.orders]
unit = "customer"
max_rows_per_unit = 3
[tables.orders.columns]
at = { type = "timestamp", min = 2023-01-01T00:00:00, max = 2024-12-31T23:59:59 }
day = { type = "date", min = 2023-01-01, max = 2024-12-31 }
amount = { type = "real", min = 0, max = 1000, step = "0.01" }
channel = { type = "category", values = ["web", "store", "app"] }
"""
)


def parse(text):
    return sql.parse(text, POLICY)


ROWS = [  # theirs and ours, of one row
    ("DATE_TRUNC(at, MONTH)", "DATE_TRUNC('month', at)"),
    ("TIMESTAMP_TRUNC(at, ISOWEEK)", "DATE_TRUNC('week', at)"),
    ("DATETIME_TRUNC(at, DAY)", "DATE_TRUNC('day', at)"),
    ("DATETRUNC(month, at)", "DATE_TRUNC('month', at)"),
    ("DATEPART(month, at)", "EXTRACT(MONTH FROM at)"),
    ("DATEPART(yy, at)", "YEAR(at)"),
    ("DATE_PART(doy, at)", "DOY(at)"),
    ("DATENAME(month, at)", "MONTHNAME(at)"),
    ("DATENAME(weekday, at)", "DAYNAME(at)"),
    ("FORMAT_DATE('%Y-%m', day)", "STRFTIME(day, '%Y-%m')"),
    ("FORMAT_DATETIME('%Y-%m', at)", "STRFTIME(at, '%Y-%m')"),
    ("FORMAT_TIMESTAMP('%Y-%m', at)", "STRFTIME(at, '%Y-%m')"),
    ("FORMAT(day, 'yyyy-MM')", "STRFTIME(day, '%Y-%m')"),
    ("DATE_FORMAT(day, 'dd MMM yyyy')", "STRFTIME(day, '%d %b %Y')"),
    ("CAST(day AS VARCHAR)", "STRFTIME(day, '%Y-%m-%d')"),
    ("CONVERT(date, at)", "CAST(at AS DATE)"),
    ("TO_DATE(at)", "CAST(at AS DATE)"),
    ("DATEDIFF(day, DATE '2023-01-01', at)", "DATEDIFF('day', DATE '2023-01-01', at)"),
    ("DATE_DIFF(at, DATE '2023-01-01', ISOWEEK)", "DATEDIFF('isoweek', DATE '2023-01-01', at)"),
    ("DATETIME_DIFF(at, DATE '2023-01-01', MONTH)", "DATEDIFF('month', DATE '2023-01-01', at)"),
    ("TIMESTAMP_DIFF(at, DATE '2023-01-01', DAY)", "TIMESTAMPDIFF('day', DATE '2023-01-01', at)"),
    ("DATEADD(day, 30, day)", "day + INTERVAL 30 DAY"),
    ("DATEADD(month, -1, day)", "day - INTERVAL 1 MONTH"),
    ("DATE_SUB(day, INTERVAL 1 WEEK)", "day - INTERVAL 7 DAY"),
    ("DATE_ADD(day, INTERVAL 1 MONTH)", "day + INTERVAL 1 MONTH"),
    ("TIMESTAMPADD(hour, 2, at)", "at + INTERVAL 2 HOUR"),
    ("TIMESTAMP_ADD(at, INTERVAL 2 HOUR)", "at + INTERVAL 2 HOUR"),
    ("TIMESTAMP_SUB(at, INTERVAL 2 HOUR)", "at - INTERVAL 2 HOUR"),
    ("ADD_MONTHS(day, 2)", "day + INTERVAL 2 MONTH"),
    ("EOMONTH(at)", "LAST_DAY(at)"),
    ("TIME_BUCKET(INTERVAL '1 week', at)", "DATE_TRUNC('week', at)"),
    ("MAKE_DATE(YEAR(at), MONTH(at), 1)", "DATE_TRUNC('month', at)"),
    ("DATEFROMPARTS(YEAR(at), MONTH(at), 1)", "DATE_TRUNC('month', at)"),
    ("DATE_FROM_PARTS(YEAR(at), MONTH(at), 1)", "DATE_TRUNC('month', at)"),
    (
        "DATEDIFF(day, TO_TIMESTAMP('2023-01-01'), at)",
        "DATEDIFF('day', TIMESTAMP '2023-01-01', at)",
    ),
    ("DATEDIFF(day, TO_DATE('2023-01-01', 'YYYY-MM-DD'), at)", "DATEDIFF('day', '2023-01-01', at)"),
    ("ISNULL(channel, 'web')", "COALESCE(channel, 'web')"),
    ("DECODE(channel, 'web', 'w', 'rest')", "CASE channel WHEN 'web' THEN 'w' ELSE 'rest' END"),
    (
        "DECODE(channel, NULL, 1, 'web', 2)",
        "CASE WHEN channel IS NULL THEN 1 WHEN channel = 'web' THEN 2 END",
    ),
    ("CHOOSE(MONTH(day), 'a', 'b')", "CASE MONTH(day) WHEN 1 THEN 'a' WHEN 2 THEN 'b' END"),
    ("TRUNCATE(amount, -1)", "TRUNC(amount, -1)"),
    ("SUBSTRING(channel FROM 1 FOR 2)", "SUBSTR(channel, 1, 2)"),
    ("CONVERT(varchar(7), day, 120)", "STRFTIME(day, '%Y-%m')"),
    ("CONVERT(varchar(4), at, 126)", "STRFTIME(at, '%Y')"),
    ("CONVERT(char(6), day, 112)", "STRFTIME(day, '%Y%m')"),
    ("CONVERT(varchar(10), at, 121)", "STRFTIME(at, '%Y-%m-%d')"),
    ("CONVERT(varchar, day, 23)", "STRFTIME(day, '%Y-%m-%d')"),
    ("CONVERT(nvarchar(8), day, 112)", "STRFTIME(day, '%Y%m%d')"),
    ("STR_TO_DATE('01/06/2024', '%d/%m/%Y') - day", "DATE '2024-06-01' - day"),
    ("PARSE_DATE('%Y%m%d', '20240601') - day", "DATE '2024-06-01' - day"),
    ("TO_DATE('01.06.2024', 'DD.MM.YYYY') - day", "DATE '2024-06-01' - day"),
    ("TO_TIMESTAMP('2024-06-01 10:30', 'YYYY-MM-DD HH24:MI') - at",
     "TIMESTAMP '2024-06-01 10:30:00' - at"),
    ("IFF(amount > 50, 'big', 'small')", "CASE WHEN amount > 50 THEN 'big' ELSE 'small' END"),
    ("IIF(amount > 50, 1, 0)", "CASE WHEN amount > 50 THEN 1 ELSE 0 END"),
    ("IF(amount > 50, 1, 0)", "CASE WHEN amount > 50 THEN 1 ELSE 0 END"),
    ("NVL2(channel, 1, 0)", "CASE WHEN NOT channel IS NULL THEN 1 ELSE 0 END"),
    ("SAFE_DIVIDE(amount, 7)", "amount / 7"),
    ("DIV0(amount, YEAR(day) - 2023)",
     "CASE WHEN YEAR(day) - 2023 = 0 THEN 0 ELSE amount / (YEAR(day) - 2023) END"),
    ("DIV0NULL(amount, YEAR(day) - 2023)",
     "COALESCE(CASE WHEN YEAR(day) - 2023 = 0 THEN 0 ELSE amount / (YEAR(day) - 2023) END, 0)"),
    ("ZEROIFNULL(amount)", "COALESCE(amount, 0)"),
    ("NULLIFZERO(amount)", "NULLIF(amount, 0)"),
    ("RANGE_BUCKET(amount, [10, 20])",
     "CASE WHEN amount < 10 THEN 0 WHEN amount < 20 THEN 1 WHEN amount >= 20 THEN 2 END"),
    ("pd.cut(amount, [0, 10, 20])",
     ("CASE WHEN amount > 0 AND amount <= 10 THEN '(0, 10]' "
      "WHEN amount > 10 AND amount <= 20 THEN '(10, 20]' END")),
    ("CUT(amount, [0, 10])", "CASE WHEN amount > 0 AND amount <= 10 THEN '(0, 10]' END"),
    ("TRUNC(at, 'MM')", "DATE_TRUNC('month', at)"),
    ("TRUNC(at, 'IW')", "DATE_TRUNC('week', at)"),
    ("DATE_FORMAT(day, '%M %Y')", "STRFTIME(day, '%B %Y')"),
    ("DATE_FORMAT(day, '%W')", "DAYNAME(day)"),
    ("DATE_FORMAT(day, '%x-%v')", "STRFTIME(day, '%G-%V')"),
    ("DATE_ADD(day, 7)", "day + INTERVAL 7 DAY"),
    ("ADDDATE(day, 7)", "day + INTERVAL 7 DAY"),
    ("SUBDATE(day, INTERVAL 1 MONTH)", "day - INTERVAL 1 MONTH"),
    ("CAST(amount AS FLOAT64)", "CAST(amount AS DOUBLE)"),
    ("CAST(MONTH(day) AS SIGNED)", "CAST(MONTH(day) AS BIGINT)"),
    ("SUBSTRING_INDEX(channel, 'e', 1)", "SPLIT_PART(channel, 'e', 1)"),
    ("SPLIT(channel, 'e')[0]", "SPLIT_PART(channel, 'e', 1)"),
    ("SPLIT(channel, 'e')[SAFE_ORDINAL(2)]", "SPLIT_PART(channel, 'e', 2)"),
    ("LPAD(MONTH(day), 2, '0')", "STRFTIME(day, '%m')"),
    ("LPAD(CAST(DAY(day) AS VARCHAR), 2, '0')", "STRFTIME(day, '%d')"),
    ("CONCAT(YEAR(day), '-', LPAD(MONTH(day), 2, '0'))", "STRFTIME(day, '%Y-%m')"),
    ("CONCAT(YEAR(day), ' Q', QUARTER(day))", "STRFTIME(day, '%Y Q%q')"),
    ("YEAR(day) || '-Q' || QUARTER(day)",
     "CAST(YEAR(day) AS TEXT) || '-Q' || CAST(QUARTER(day) AS TEXT)"),
    ("DATEDIFF('day', TIMESTAMP(day), TIMESTAMP('2024-12-31'))",
     "DATEDIFF('day', day, TIMESTAMP '2024-12-31')"),
    ("DATETIME('2024-12-31') - day", "TIMESTAMP '2024-12-31' - day"),
    ("TO_VARCHAR(day, 'YYYY-MM')", "STRFTIME(day, '%Y-%m')"),
    ("ELT(MONTH(day), 'a', 'b')", "CASE MONTH(day) WHEN 1 THEN 'a' WHEN 2 THEN 'b' END"),
    ("day.dt.month", "MONTH(day)"),
    ("channel.str.upper()", "UPPER(channel)"),
    ("CAST(YEAR(day) AS VARCHAR(9))", "CAST(YEAR(day) AS TEXT)"),
    ("CAST(channel AS VARCHAR(2))", "LEFT(channel, 2)"),
    ("[amount] + [orders].[amount]", "amount + orders.amount"),
]  # fmt: skip
TESTS = [
    ("STARTS_WITH(email, 'u_1')", "email LIKE 'u!_1%' ESCAPE '!'"),
    ("STARTSWITH(email, 'u1')", "email LIKE 'u1%'"),
    ("ENDSWITH(email, '.org')", "email LIKE '%.org'"),
    ("ENDS_WITH(email, '.org')", "email LIKE '%.org'"),
    ("CONTAINS(email, 'u1')", "email LIKE '%u1%'"),
    ("POSITION('@' IN email) > 0", "email LIKE '%@%'"),
    ("STRPOS(email, '@') >= 1", "email LIKE '%@%'"),
    ("CHARINDEX('@', email) <> 0", "email LIKE '%@%'"),
    ("INSTR(email, '@') = 0", "NOT email LIKE '%@%'"),
    ("country = ANY(ARRAY['CH', 'DE'])", "country IN ('CH', 'DE')"),
    ("ISNULL(level)", "level IS NULL"),
    ("RLIKE(email, '^u')", "email ~ '^u'"),
    ("points > 3 && points < 9", "points > 3 AND points < 9"),
    ("EQUAL_NULL(level, 'a one')", "COALESCE(level = 'a one', FALSE)"),
    ("birth LIKE '1999-03%'", "STRFTIME(birth, '%Y-%m-%d') LIKE '1999-03%'"),
    ("points.between(3, 9)", "points BETWEEN 3 AND 9"),
    ("country.isin(['CH'])", "country IN ('CH')"),
    ("level.isna()", "level IS NULL"),
    ("customers.level.notna()", "NOT level IS NULL"),
    ("email.str.startswith('u')", "email LIKE 'u%'"),
    ("REGEXP_CONTAINS(email, r'^u\\d')", "email ~ '^u\\d'"),
    ('country = "CH"', "country = 'CH'"),
    ('"CH" <> country', "'CH' <> country"),
    ('country IN ("CH", "DE")', "country IN ('CH', 'DE')"),
    (
        "EXTRACT(YEAR FROM AGE(DATE '2024-12-31', birth)) > 30",
        "TIMESTAMPDIFF('year', birth, DATE '2024-12-31') > 30",
    ),
    (
        "DATE_PART('year', AGE(DATE '2024-12-31', birth)) > 30",
        "TIMESTAMPDIFF('year', birth, DATE '2024-12-31') > 30",
    ),
]
SHARE = "SELECT COUNT(*) FILTER (WHERE {}) * 1.0 / (COUNT(*)) AS r FROM ({}) AS t"
TWICE = "SELECT customer, (COUNT(*) > 1) AS kept_here FROM orders GROUP BY customer"
IN = "customer IN (SELECT customer FROM orders WHERE channel = 'web')"
PER_PERSON = (
    "LEFT JOIN (SELECT customer, COUNT(*) AS value FROM orders GROUP BY customer) AS person_1 "
    "ON c.customer = person_1.customer"
)
QUESTIONS = [
    (
        "SELECT APPROX_QUANTILES(amount, 4)[OFFSET(1)] AS q FROM orders",
        "SELECT QUANTILE(amount, 0.25) AS q FROM orders",
    ),
    (
        "SELECT APPROX_QUANTILES(amount, 100)[SAFE_ORDINAL(91)] AS q FROM orders",
        "SELECT QUANTILE(amount, 0.9) AS q FROM orders",
    ),
    (
        (
            "SELECT APPROX_QUANTILES(amount, 9)[ORDINAL(1)] AS a, "
            "APPROX_QUANTILES(amount, 9)[SAFE_OFFSET(9)] AS b FROM orders"
        ),
        "SELECT MIN(amount) AS a, MAX(amount) AS b FROM orders",
    ),
    (
        "SELECT DESCRIBE(amount) FROM orders",
        (
            "SELECT COUNT(amount) AS count, MEAN(amount) AS mean, STD(amount) AS std, "
            "MIN(amount) AS min, MEDIAN(amount) AS median, MAX(amount) AS max FROM orders"
        ),
    ),
    (
        "SELECT QUANTILE(amount, [0.1, 0.125]) AS q, APPROX_QUANTILES(amount, 2) FROM orders",
        (
            "SELECT QUANTILE(amount, 0.1) AS q_10, QUANTILE(amount, 0.125) AS q_12_5, "
            "QUANTILE(amount, 0) AS approx_quantiles_0, QUANTILE(amount, 0.5) AS "
            "approx_quantiles_50, QUANTILE(amount, 1) AS approx_quantiles_100 FROM orders"
        ),
    ),
    (
        "SELECT TOP 10 PERCENT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY 2 DESC",
        (
            "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel "
            "QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) "
            "<= CEIL(COUNT(*) OVER () * 10 / 100) ORDER BY n DESC"
        ),
    ),
    (
        (
            "SELECT COUNT(*) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.customer "
            "AND o.channel = 'web' WHERE o.customer IS NULL AND c.points > 3"
        ),
        (
            "SELECT COUNT(*) AS n FROM customers c WHERE c.customer NOT IN (SELECT o.customer "
            "FROM orders o WHERE o.channel = 'web') AND c.points > 3"
        ),
    ),
    (
        (
            "SELECT COUNT(*) AS n FROM customers LEFT JOIN orders USING (customer) "
            "WHERE orders.customer IS NULL"
        ),
        ("SELECT COUNT(*) AS n FROM customers WHERE customer NOT IN (SELECT customer FROM orders)"),
    ),
    (
        (
            "SELECT SUMIF(amount, channel = 'web') AS a, AVGIF(amount, channel = 'web') AS b, "
            "MINIF(amount, channel = 'web') AS c, MAXIF(amount, channel = 'web') AS d, "
            "AVERAGEIF(amount, channel = 'web') AS e, AVERAGE(amount) AS f, "
            "COUNTIFS(channel, 'web', amount, 3) AS g, COUNTIFS(channel = 'web', amount > 3) AS h, "
            "SUMIF(channel, 'web', amount) AS i, AVERAGEIF(channel = 'web', amount) AS j, "
            "SUMPRODUCT(amount, YEAR(day)) AS k FROM orders"
        ),
        (
            "SELECT SUM(CASE WHEN channel = 'web' THEN amount END) AS a, "
            "AVG(CASE WHEN channel = 'web' THEN amount END) AS b, "
            "MIN(CASE WHEN channel = 'web' THEN amount END) AS c, "
            "MAX(CASE WHEN channel = 'web' THEN amount END) AS d, "
            "AVG(CASE WHEN channel = 'web' THEN amount END) AS e, AVG(amount) AS f, "
            "COUNTIF(channel = 'web' AND amount = 3) AS g, "
            "COUNTIF(channel = 'web' AND amount > 3) AS h, "
            "SUM(CASE WHEN channel = 'web' THEN amount END) AS i, "
            "AVG(CASE WHEN channel = 'web' THEN amount END) AS j, "
            "SUM(amount * YEAR(day)) AS k FROM orders"
        ),
    ),
    (
        (
            "SELECT channel, COUNT(*) AS n FROM (SELECT customer, channel, ROW_NUMBER() OVER "
            "(PARTITION BY customer ORDER BY at DESC) AS rn FROM orders WHERE amount > 3 "
            "AND at IS NOT NULL) AS t WHERE rn = 1 AND channel <> 'app' GROUP BY channel"
        ),
        (
            "SELECT channel, COUNT(*) AS n FROM (SELECT customer, ARG_MAX_NULL(channel, at) "
            "AS channel FROM orders WHERE amount > 3 AND at IS NOT NULL GROUP BY customer) AS t "
            "WHERE channel <> 'app' GROUP BY channel"
        ),
    ),
    (
        "SELECT LEN(*) AS n, COV(amount, YEAR(day)) AS c FROM orders OPTION (RECOMPILE)",
        "SELECT COUNT(*) AS n, COVAR_SAMP(amount, YEAR(day)) AS c FROM orders",
    ),
    (
        "SELECT SQUARE(AVG(amount)) AS a, POWER(AVG(amount), 3) AS b FROM orders",
        (
            "SELECT AVG(amount) * AVG(amount) AS a, AVG(amount) * AVG(amount) * AVG(amount) AS b "
            "FROM orders"
        ),
    ),
    (
        "SELECT value_counts(channel) FROM orders",
        "SELECT channel, COUNT(*) AS count FROM orders GROUP BY channel",
    ),
    (
        "SELECT COUNT(DISTINCT CASE WHEN channel = 'web' THEN customer END) AS n FROM orders",
        "SELECT COUNT(DISTINCT customer) AS n FROM orders WHERE channel = 'web'",
    ),
    (
        "SELECT COUNT(DISTINCT customer) FILTER (WHERE amount > 9) AS n FROM orders",
        "SELECT COUNT(DISTINCT customer) AS n FROM orders WHERE amount > 9",
    ),
    (
        (
            "SELECT channel, COUNT(DISTINCT IFF(amount > 9, customer, NULL)) AS n, "
            "COUNT(DISTINCT customer) AS m FROM orders WHERE YEAR(day) = 2024 GROUP BY 1"
        ),
        (
            "SELECT channel, COUNT(*) FILTER (WHERE kept_here_0) AS n, COUNT(*) AS m FROM "
            "(SELECT customer, COUNTIF(amount > 9) > 0 AS kept_here_0, channel FROM orders "
            "WHERE YEAR(day) = 2024 GROUP BY customer, channel) AS people_here GROUP BY channel"
        ),
    ),
    (
        "SELECT PERCENTILE_APPROX(amount, 0.9, 100) AS q FROM orders",
        "SELECT QUANTILE(amount, 0.9) AS q FROM orders",
    ),
    (
        "SELECT APPROX_PERCENTILE(amount, 0.9) AS q FROM orders",
        "SELECT QUANTILE(amount, 0.9) AS q FROM orders",
    ),
    (
        (
            "SELECT [channel], COUNT_BIG(*) AS [how many] FROM [dbo].[orders] WITH (NOLOCK) "
            "GROUP BY [channel]"
        ),
        'SELECT channel, COUNT(*) AS "how many" FROM orders GROUP BY channel',
    ),
    (
        "SELECT NUNIQUE(channel) AS a, SIZE() AS b, COUNT_DISTINCT(channel) AS c FROM orders",
        (
            "SELECT COUNT(DISTINCT channel) AS a, COUNT(*) AS b, COUNT(DISTINCT channel) AS c "
            "FROM orders"
        ),
    ),
    (
        (
            "SELECT amount.mean() AS a, o.amount.quantile(0.5) AS b, N_UNIQUE(o.channel) AS c "
            "FROM `project.shop.orders` AS o"
        ),
        (
            "SELECT MEAN(amount) AS a, QUANTILE(amount, 0.5) AS b, COUNT(DISTINCT channel) AS c "
            "FROM orders AS o"
        ),
    ),
    (
        (
            "SELECT DISTINCT channel, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) "
            "OVER (PARTITION BY channel) AS m, COUNT(*) OVER (PARTITION BY channel) AS n "
            "FROM orders"
        ),
        (
            "SELECT channel, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) AS m, "
            "COUNT(*) AS n FROM orders GROUP BY channel"
        ),
    ),
    (
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY n DESC LIMIT 0, 2",
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY n DESC LIMIT 2",
    ),
    (
        (
            "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel "
            "ORDER BY 2 DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY"
        ),
        (
            "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel "
            "QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) > 1 ORDER BY n DESC LIMIT 2"
        ),
    ),
    (
        (
            "SELECT * FROM (SELECT channel, YEAR(day) AS y, amount FROM orders) "
            "PIVOT (SUM(amount) FOR channel IN ('web', 'app' AS mobile))"
        ),
        (
            "SELECT y, SUM(amount) FILTER (WHERE channel = 'web') AS web, "
            "SUM(amount) FILTER (WHERE channel = 'app') AS mobile "
            "FROM (SELECT channel, YEAR(day) AS y, amount FROM orders) GROUP BY y"
        ),
    ),
    (
        (
            "SELECT y, [web] FROM (SELECT channel, YEAR(day) AS y, amount FROM orders) AS s "
            "PIVOT (SUM(amount) FOR channel IN ([web], [app])) AS p"
        ),
        (
            "SELECT y, SUM(amount) FILTER (WHERE channel = 'web') AS web "
            "FROM (SELECT channel, YEAR(day) AS y, amount FROM orders) GROUP BY y"
        ),
    ),
    (
        (
            "SELECT DATEDIFF(day, MIN(day), MAX(day)) AS d, DATEDIFF(MAX(day), MIN(day)) AS e "
            "FROM orders"
        ),
        "SELECT MAX(day) - MIN(day) AS d, MAX(day) - MIN(day) AS e FROM orders",
    ),
    (
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel HAVING MAX(day) > '2024-06-30'",
        (
            "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel "
            "HAVING MAX(day) > TIMESTAMP '2024-06-30 00:00:00'"
        ),
    ),
    (
        (
            "SELECT COUNT(*) * 1.0 / (SELECT COUNT(DISTINCT customer) FROM orders) AS r FROM "
            "(SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) > 1) AS t"
        ),
        SHARE.format("kept_here", TWICE),
    ),
    (
        (
            "SELECT (SELECT COUNT(*) FROM (SELECT customer FROM orders GROUP BY customer "
            "HAVING COUNT(*) > 1) t) * 1.0 / (SELECT COUNT(*) FROM "
            "(SELECT DISTINCT customer FROM orders) AS u) AS r"
        ),
        SHARE.format("kept_here", TWICE)
        .replace("COUNT(*) FILTER (WHERE kept_here)", "({})")
        .format("COUNT(*) FILTER (WHERE kept_here)"),
    ),
    (
        (
            "SELECT COUNT(DISTINCT customer) * 1.0 / (SELECT COUNT(DISTINCT customer) FROM orders) "
            "AS r FROM orders WHERE channel = 'web'"
        ),
        SHARE.format(
            "kept_here",
            "SELECT customer, (COUNTIF(channel = 'web') > 0) AS kept_here FROM orders "
            "GROUP BY customer",
        ),
    ),
    (
        (
            "SELECT (SELECT COUNT(*) FROM orders WHERE channel = 'web') * 1.0 / "
            "(SELECT COUNT(*) FROM orders) AS r"
        ),
        "SELECT COUNT(*) FILTER (WHERE channel = 'web') * 1.0 / COUNT(*) AS r FROM orders",
    ),
    (
        "SELECT TOP 2 channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY n DESC",
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY n DESC LIMIT 2",
    ),
    (
        "SELECT TOP (2) channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY n DESC",
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY n DESC LIMIT 2",
    ),
    (
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel FETCH FIRST 2 ROWS ONLY",
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel LIMIT 2",
    ),
    (
        "SELECT STDEV(amount) AS s, PERCENTILE(amount, 0.5) AS p FROM orders",
        "SELECT STDDEV(amount) AS s, QUANTILE(amount, 0.5) AS p FROM orders",
    ),
    (
        "SELECT STDEVP(amount) AS s, VARP(amount) AS v FROM orders",
        "SELECT STDDEV_POP(amount) AS s, VAR_POP(amount) AS v FROM orders",
    ),
    (
        "SELECT channel, RATIO_TO_REPORT(COUNT(*)) OVER () AS r FROM orders GROUP BY channel",
        "SELECT channel, COUNT(*) / SUM(COUNT(*)) OVER () AS r FROM orders GROUP BY channel",
    ),
    (
        "SELECT COALESCE(channel, 'all') AS c, COUNT(*) AS n FROM orders GROUP BY ROLLUP (channel)",
        (
            "SELECT CASE WHEN GROUPING(channel) = 1 THEN 'all' ELSE channel END AS c, "
            "COUNT(*) AS n FROM orders GROUP BY ROLLUP (channel)"
        ),
    ),
    (
        (
            "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel "
            "HAVING COUNT(*) > 0.2 * (SELECT COUNT(*) FROM orders)"
        ),
        (
            "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel "
            "QUALIFY COUNT(*) > 0.2 * (SUM(COUNT(*)) OVER ())"
        ),
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT customer FROM orders) AS t",
        "SELECT COUNT(*) AS n FROM (SELECT customer FROM orders GROUP BY customer) AS t",
    ),
    (
        f"SELECT COUNT(*) AS n FROM (SELECT customer FROM customers WHERE {IN} GROUP BY 1) AS t",
        (
            "SELECT COUNT(*) AS n FROM (SELECT customer FROM customers INTERSECT "
            "SELECT customer FROM orders WHERE channel = 'web') AS t"
        ),
    ),
    (
        (
            "SELECT COUNT(*) AS n FROM "
            "(SELECT customer FROM customers EXCEPT SELECT customer FROM orders) AS t"
        ),
        (
            "SELECT COUNT(*) AS n FROM (SELECT customer FROM customers WHERE customer NOT IN "
            "(SELECT customer FROM orders) GROUP BY customer) AS t"
        ),
    ),
    (
        (
            "SELECT COUNT(*) AS n FROM (SELECT customer FROM orders WHERE channel = 'web' UNION "
            "SELECT customer FROM orders WHERE channel = 'app') AS t"
        ),
        (
            "SELECT COUNT(*) AS n FROM (SELECT customer FROM orders WHERE channel = 'web' OR "
            "channel = 'app' GROUP BY customer) AS t"
        ),
    ),
    (
        (
            "SELECT AVG((SELECT COUNT(*) FROM orders o WHERE o.customer = c.customer)) AS a "
            "FROM customers c"
        ),
        f"SELECT AVG(COALESCE(person_1.value, 0)) AS a FROM customers c {PER_PERSON}",
    ),
    (
        (
            "SELECT AVG(p.value) AS a FROM customers c, LATERAL (SELECT COUNT(*) AS value "
            "FROM orders WHERE orders.customer = c.customer) p"
        ),
        (
            "SELECT AVG(COALESCE(p.value, 0)) AS a FROM customers c "
            f"{PER_PERSON.replace('person_1', 'p')}"
        ),
    ),
    (
        (
            "SELECT COUNT(o.customer) AS n FROM customers c LEFT JOIN (SELECT DISTINCT customer "
            "FROM orders) AS o ON c.customer = o.customer"
        ),
        (
            "SELECT COUNT(o.rows_here) AS n FROM customers c LEFT JOIN (SELECT customer, COUNT(*) "
            "AS rows_here FROM orders GROUP BY customer) AS o ON c.customer = o.customer"
        ),
    ),
]


@pytest.mark.parametrize(("theirs", "own"), ROWS)
def test_another_spelling_is_the_same_question(theirs, own):
    form = "SELECT COUNT(*) AS n FROM orders WHERE {} IS NOT NULL"
    assert parse(form.format(theirs)).query.hash == parse(form.format(own)).query.hash


@pytest.mark.parametrize(("theirs", "own"), TESTS)
def test_another_condition_is_the_same_question(theirs, own):
    form = "SELECT COUNT(*) AS n FROM customers WHERE {}"
    assert parse(form.format(theirs)).query.hash == parse(form.format(own)).query.hash


@pytest.mark.parametrize(("theirs", "own"), QUESTIONS)
def test_another_shape_is_the_same_question(theirs, own):
    assert parse(theirs).query.hash == parse(own).query.hash


def test_every_spelling_is_tried():
    today = {*_spellings.NOW, *_spellings.TODAY}  # which are refused
    words = re.findall(r"\w+", repr([ROWS, TESTS, QUESTIONS, NAMES, NEAR]))
    assert {*_spellings.RENAMED, *_spellings.CALLS} - today <= set(words)


NAMES = [  # of aggregates, and ours
    ("APPROX_DISTINCT(channel)", "COUNT(DISTINCT channel)"),
    ("NDV(channel)", "COUNT(DISTINCT channel)"),
    ("UNIQ(customer)", "COUNT(DISTINCT customer)"),
    ("PEARSON(amount, amount)", "CORR(amount, amount)"),
    ("PEARSONR(amount, amount)", "CORR(amount, amount)"),
    ("CORRELATION(amount, amount)", "CORR(amount, amount)"),
    ("SUM_IF(amount, channel = 'web')", "SUM(CASE WHEN channel = 'web' THEN amount END)"),
    ("AVG_IF(amount, channel = 'web')", "AVG(CASE WHEN channel = 'web' THEN amount END)"),
    ("TOTAL(amount)", "SUM(amount)"),
    ("FSUM(amount)", "SUM(amount)"),
    ("SUMKAHAN(amount)", "SUM(amount)"),
    ("KAHAN_SUM(amount)", "SUM(amount)"),
    ("FAVG(amount)", "AVG(amount)"),
    ("RESERVOIR_QUANTILE(amount, 0.5)", "QUANTILE(amount, 0.5)"),
    ("PERCENTILE_APPROX(amount, ARRAY(0.25, 0.5))", "QUANTILE(amount, [0.25, 0.5])"),
]


@pytest.mark.parametrize(("theirs", "ours"), NAMES)
def test_another_name_is_the_same_statistic(theirs, ours):
    one, other = (parse(f"SELECT {call} AS x FROM orders").query for call in (theirs, ours))
    assert one.statistics == other.statistics


NEAR = [
    ("GEOMEAN(amount)", "of positive values", "EXP(AVG(LN(amount)) FILTER (WHERE amount > 0))"),
    ("LOGICAL_OR(amount > 9)", "the share of rows", "AVG(amount > 9)"),
    ("EVERY(amount > 9)", "EVERY is not .* the share of rows", "AVG(amount > 9)"),
    ("ARBITRARY(channel)", "the value of one row", "MODE(channel)"),
    (
        "LINREG(amount, amount)",
        "a line is two numbers",
        "REGR_SLOPE(amount, amount), REGR_INTERCEPT(amount, amount)",
    ),
    (
        "HISTOGRAM_NUMERIC(amount, 9)",
        "bins are public",
        "SELECT BIN(amount, 100), COUNT(*) AS n FROM orders GROUP BY BIN(amount, 100)",
    ),
    (
        "ARG_MAX(channel, amount)",
        "groups by the unit",
        "SELECT channel, AVG(amount) AS n FROM orders GROUP BY channel ORDER BY n DESC LIMIT 1",
    ),
]


@pytest.mark.parametrize(("call", "says", "hint"), NEAR)
def test_what_comes_nearest_is_said_to_be_no_more(call, says, hint):
    with pytest.raises(QueryError, match=says) as refused:
        parse(f"SELECT {call} AS x FROM orders")
    assert refused.value.hint == hint


@pytest.mark.parametrize("name", sorted({*_spellings.NOW, *_spellings.TODAY}))
def test_what_changes_from_day_to_day_is_refused(name):
    bare = name.startswith("CURRENT")
    text = "SELECT COUNT(*) AS n FROM orders WHERE at < {}"
    with pytest.raises(QueryError, match="day to day") as refused:
        parse(text.format(name if bare else f"{name}()"))
    parse(text.format(refused.value.hint))


@pytest.mark.parametrize(
    ("call", "own"),
    [
        ("DATE_TRUNC(at, WEEK)", "DATE_TRUNC('week', at)"),
        ("TIMESTAMP_TRUNC(at, WEEK)", "DATE_TRUNC('week', at)"),
        ("DATETRUNC(week, at)", "DATE_TRUNC('week', at)"),
        ("DATEPART(ww, at)", "DATE_PART('week', at)"),
        ("DATEPART(week, day)", "DATE_PART('week', day)"),
        ("DATEDIFF(wk, DATE '2023-01-01', at)", "DATEDIFF('isoweek', DATE '2023-01-01', at)"),
        ("DATE_DIFF(at, DATE '2023-01-01', WEEK)", "DATE_DIFF('isoweek', DATE '2023-01-01', at)"),
        (
            "DATETIME_DIFF(at, DATE '2023-01-01', WEEK)",
            "DATEDIFF('isoweek', DATE '2023-01-01', at)",
        ),
    ],
)
def test_a_week_that_begins_on_sunday_elsewhere_is_refused(call, own):
    text = "SELECT COUNT(*) AS n FROM orders WHERE {} IS NOT NULL"
    with pytest.raises(QueryError, match="begins on Sunday") as refused:
        parse(text.format(call))
    hint = refused.value.hint.replace("CAST('2023-01-01' AS DATE)", "DATE '2023-01-01'")
    assert hint == own
    parse(text.format(refused.value.hint))


@pytest.mark.parametrize("call", ["DAYOFWEEK(day)", "EXTRACT(DAYOFWEEK FROM day)"])
def test_days_of_the_week_that_differ_are_refused_in_conditions_and_told_in_answers(call):
    for form in (
        "SELECT COUNT(*) AS n FROM orders WHERE {} IN (1, 7)",
        "SELECT COUNTIF({} = 1) AS n FROM orders",
        "SELECT CASE {} WHEN 1 THEN 'a' ELSE 'b' END AS k, COUNT(*) AS n FROM orders GROUP BY k",
    ):
        with pytest.raises(QueryError, match="0 in DuckDB and") as refused:
            parse(form.format(call))
        # only who counts from 1 writes 7
        assert refused.value.hint == ("(DOW(day) + 1)" if "7" in form else "DOW(day)")
        parse(form.format(refused.value.hint))
    shown = f"SELECT {call} AS k, COUNT(*) AS n FROM orders GROUP BY k"
    own = parse(shown.replace(call, "DOW(day)")).query
    assert parse(shown).query.hash == own.hash
    assert "weekdays counted from 0 (Sunday) to 6 (Saturday)" in facts(own)
    assert not any("weekdays" in f for f in facts(parse(shown.replace(call, "ISODOW(day)")).query))


def test_the_policy_answers_a_question_about_tables():
    with pytest.raises(QueryError, match=r"the policy lists orders \(at timestamp, day date, "):
        parse("DESCRIBE orders")
    with pytest.raises(QueryError, match=r"lists customers \(birth date, .*; orders \(at"):
        parse("show tables")


def facts(query):
    return target(query, pl.lower(query).aggregates)


@pytest.mark.parametrize(
    "test",
    [
        "\"chanel\" = 'web'",  # a column with a typo is no constant
        'channel = "chanel"',
        'channel = "Web"',
        'email = "CH"',  # open text has no public list
        'points = "CH"',
        '"CH" = "CH"',
        "`CHE` = country",
    ],
)
def test_a_name_in_quotes_is_a_text_only_where_it_is_listed(test):
    table = "orders" if "channel" in test or "chanel" in test else "customers"
    with pytest.raises(UnknownNameError, match="there is no column"):
        parse(f"SELECT COUNT(*) AS n FROM {table} WHERE {test}")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM orders WHERE channel = ANY(ARRAY['web', 'app'])",
        "SELECT CUT(amount, [0, 10]) AS k, COUNT(*) AS n FROM orders GROUP BY k",
        "SELECT COUNT(*) AS n FROM customers WHERE email = '[x]' OR email = '[' OR email = ']'",
    ],
)
def test_brackets_that_hold_no_name_stay(text):
    parse(text)


def test_a_table_of_the_policy_keeps_a_name_with_dots():
    dotted = pol.loads(
        """
[budget]
epsilon = "1"
[tables."a.b"]
[tables."a.b".columns]
x = { type = "integer", min = 0, max = 1 }
[tables.b]
[tables.b.columns]
y = { type = "integer", min = 0, max = 1 }
"""
    )
    sql.parse("SELECT SUM(x) AS s FROM `a.b`", dotted)
    sql.parse("SELECT SUM(y) AS s FROM `c.a.b`", dotted)


@pytest.mark.parametrize(
    "text",
    [
        # people below the line who are not those of the table: WHERE must not get lost
        (
            "SELECT COUNT(DISTINCT customer) * 1.0 / (SELECT COUNT(*) FROM customers) AS r "
            "FROM orders WHERE channel = 'web'"
        ),
        "SELECT MAX(day) - 7 AS d FROM orders",
        "SELECT COUNT(*) AS n FROM orders HAVING MAX(day) > 5",
        "SELECT COUNT(*) AS n FROM orders HAVING MAX(day) > MAX(at)",
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel HAVING MAX(day) > amount",
        (
            "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY m "
            "HAVING m > '2024-01-01'"
        ),
    ],
)
def test_what_would_be_another_number_is_refused(text):
    with pytest.raises(QueryError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT APPROX_QUANTILES(amount, 4)[OFFSET()] FROM orders",
        "SELECT APPROX_QUANTILES(amount, 0)[OFFSET(0)] FROM orders",
        "SELECT APPROX_QUANTILES(amount)[OFFSET(9)] FROM orders",
        "SELECT SPLIT(channel, 'e')[OFFSET()] AS k, COUNT(*) FROM orders GROUP BY k",
        "SELECT SPLIT(channel)[0] AS k, COUNT(*) FROM orders GROUP BY k",
        "SELECT CONCAT(STRFTIME(day), YEAR(day)) AS k, COUNT(*) FROM orders GROUP BY k",
        "SELECT COUNT(*) FROM orders WHERE day > STR_TO_DATE('1', '%')",
        "SELECT COUNT(*) FROM orders WHERE day > STR_TO_DATE('[', '[%Y')",
        "SELECT COUNT(*) FROM orders WHERE day > PARSE_DATE('%Q', '1')",
        "SELECT CONVERT(varchar(3), day, 120) AS k, COUNT(*) FROM orders GROUP BY k",
        "SELECT CONVERT(varchar, at, 120) AS k, COUNT(*) FROM orders GROUP BY k",
        "SELECT CONVERT(varchar(16), at, 120) AS k, COUNT(*) FROM orders GROUP BY k",
        'SELECT APPROX_QUANTILES(amount, "²") FROM orders',
        "SELECT DIV0(1) FROM orders",
        "SELECT IFF(1) FROM orders",
        "SELECT NVL2() FROM orders",
        "SELECT nunique(*) FROM orders",
        "SELECT CUT() AS k, COUNT(*) FROM orders GROUP BY k",
        "SELECT RANGE_BUCKET(amount, [3, 1]) AS k, COUNT(*) FROM orders GROUP BY k",
        "SELECT CAST(channel AS VARCHAR(0)) FROM orders",
        "SELECT orders.amount.what.mean() FROM orders",
        "SELECT day.dt.* FROM orders",
        "SELECT mean.mean() FROM orders",
        "SELECT [] FROM orders",
        "SELECT ] FROM [",
        "SELECT [[amount]] FROM orders",
        "SELECT COUNT(*) FROM orders OPTION (",
        "SELECT OPTION () FROM orders",
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 2000000001 LIMIT 1 OFFSET 1",
        "SELECT channel, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 2 LIMIT 1 OFFSET 'a'",
        ("SELECT channel, channel, COUNT(DISTINCT IF(amount > 1, customer, NULL)), "
         "COUNT(DISTINCT customer) FROM orders GROUP BY channel"),
        "SELECT * FROM (SELECT channel FROM orders) PIVOT (COUNT(*) FOR channel IN (ANY))",
        "SELECT DISTINCT ON (channel) COUNT(*) OVER () FROM orders",
        "SELECT (SELECT 1)",
        "SELECT (SELECT COUNT(*) FROM orders LIMIT 1) / (SELECT COUNT(*) FROM orders)",
        "SELECT POWER(AVG(amount)) FROM orders",
        "SELECT DATEDIFF(MAX(day)) FROM orders",
        "SELECT COUNT(*) FROM orders HAVING MAX(day) > 'x'",
        "SELECT COUNT(*) FROM orders HAVING MAX(day) > CAST(5 AS DATE)",
        "SELECT CAST(AVG(amount) AS DECIMAL(4, x)) FROM orders WHERE 'a' = \"b\"",
        "DESCRIBE",
        "EXPLAIN",
    ],
)  # fmt: skip
def test_odd_uses_are_refused_by_name(text):
    with pytest.raises(QueryError):
        parse(text)


def test_a_condition_outside_stays_where_no_share_of_people_is_made():
    text = (
        "SELECT COUNT(DISTINCT customer) / (SELECT COUNT(*) FROM orders WHERE channel = 'web') "
        "AS r FROM orders WHERE channel = 'web'"
    )
    own = "SELECT COUNT(DISTINCT customer) / (COUNT(*)) AS r FROM orders WHERE channel = 'web'"
    assert parse(text).query.hash == parse(own).query.hash


def test_a_person_who_does_not_pass_is_a_row_with_zero():
    text = (
        "SELECT AVG(n) AS a FROM (SELECT customer, "
        "COUNT(DISTINCT CASE WHEN channel = 'web' THEN customer END) AS n "
        "FROM orders GROUP BY customer) AS t"
    )
    with pytest.raises(QueryError):  # and not an average over those who pass
        parse(text)


@pytest.mark.parametrize("pattern", ["yy-MM", "yyyy-MM-dd mm", "d"])
def test_a_format_with_a_strange_field_is_no_text(pattern):
    with pytest.raises(QueryError):
        parse(f"SELECT FORMAT(day, '{pattern}') AS k, COUNT(*) AS n FROM orders GROUP BY k")


# --- what is new -----------------------------------------------------------------------------


def values(expression, rows, table):
    """What an expression is on rows, by the reference."""
    text = f"SELECT {expression} AS k, COUNT(*) AS n FROM {table} GROUP BY k"
    (aggregate,) = pl.lower(parse(text).query).aggregates
    (key,) = aggregate.keys
    names = [*POLICY.table(table).columns, "customer"]
    full = [dict.fromkeys(names) | row for row in rows]
    data = {"customers": [], "orders": [], table: full}
    found = Reference(data).execute(aggregate, pl.Salt(b"spellings"))
    return {str(key.expr.type.value(code[0])): int(n[0]) for code, n in found.items() if n[0]}


def whole_months(first, last):
    """Months that have passed, step by step."""
    if first > last:
        return -whole_months(last, first)
    months = 0
    while True:
        ahead = first.month - 1 + months + 1
        reached = (first.year + ahead // 12, ahead % 12 + 1, first.day, first.time())
        if reached > (last.year, last.month, last.day, last.time()):
            return months
        months += 1


MOMENTS = [
    dt.datetime.fromisoformat(text)
    for text in (
        "2023-01-31T10",
        "2023-02-28T09",
        "2023-03-01T00",
        "2023-12-31T23",
        "2024-01-31T09",
        "2024-02-29T11",
        "2024-12-31T22",
        "2024-01-30T10",
    )
]


@pytest.mark.parametrize(
    ("unit", "count"),
    [
        ("year", lambda a, b: int(whole_months(a, b) / 12)),
        ("quarter", lambda a, b: int(whole_months(a, b) / 3)),
        ("month", whole_months),
        ("week", lambda a, b: int((b - a) / dt.timedelta(weeks=1))),
        ("day", lambda a, b: int((b - a) / dt.timedelta(days=1))),
        ("hour", lambda a, b: int((b - a) / dt.timedelta(hours=1))),
    ],
)
def test_whole_units_are_counted_as_people_count_years(unit, count):
    for first, last in itertools.product(MOMENTS, MOMENTS):
        calls = [f"TIMESTAMPDIFF({unit}, at, TIMESTAMP '{last}')"]
        if unit in ("day", "hour"):
            calls.append(f"TIMESTAMP_DIFF(TIMESTAMP '{last}', at, {unit})")
        for call in calls:
            found = values(call, [{"customer": 1, "at": first, "day": first.date()}], "orders")
            assert found == {str(count(first, last)): 1}, (first, last)


def test_months_end_on_their_last_day():
    rows = [{"customer": i, "at": m, "day": m.date()} for i, m in enumerate(MOMENTS)]
    assert values("LAST_DAY(day)", rows, "orders") == {
        "2023-01-31": 1,
        "2023-02-28": 1,
        "2023-03-31": 1,
        "2023-12-31": 1,
        "2024-01-31": 2,
        "2024-02-29": 1,
        "2024-12-31": 1,
    }
    key = parse("SELECT LAST_DAY(day) AS k, COUNT(*) AS n FROM orders GROUP BY k").query.keys[0]
    assert len(key.codes) == 24


def test_digits_are_cut_towards_zero():
    rows = [{"customer": i, "points": x} for i, x in enumerate((-19, -10, -9, 0, 9, 10, 19))]
    assert values("TRUNC(points, -1)", rows, "customers") == {"-10": 2, "0": 3, "10": 2}


def test_labels_are_written_and_joined():
    rows = [
        {"customer": i, "country": c, "level": level, "points": 3}
        for i, (c, level) in enumerate(itertools.product(["CH", "DE"], ["a one", None]))
    ]
    assert values("INITCAP(level)", rows, "customers") == {"A One": 2}
    assert values("CAST(points AS VARCHAR)", rows, "customers") == {"3": 4}
    joined = {"CH-a one": 1, "CH-": 1, "DE-a one": 1, "DE-": 1}
    assert values("CONCAT(country, '-', level)", rows, "customers") == joined
    known = {"CH-a one": 1, "DE-a one": 1}
    assert values("country || '-' || level", rows, "customers") == known


def test_a_date_beside_a_time_is_its_midnight():
    rows = [{"customer": i, "at": m, "day": m.date() + dt.timedelta(days=i % 3 - 1)}
            for i, m in enumerate(MOMENTS)]  # fmt: skip
    for op, holds in ((">", operator.gt), ("<=", operator.le), ("=", operator.eq)):
        expected = collections.Counter(
            str(holds(dt.datetime.combine(r["day"], dt.time()), r["at"])) for r in rows
        )
        assert values(f"day {op} at", rows, "orders") == expected
        assert values(f"NOT at {op} day", rows, "orders") == collections.Counter(
            str(not holds(r["at"], dt.datetime.combine(r["day"], dt.time()))) for r in rows
        )


@pytest.mark.parametrize(
    ("call", "pick"),
    [("MIN_BY", min), ("ARG_MAX", max), ("ARG_MIN_NULL", min), ("ARG_MAX_NULL", max)],
)
def test_the_value_of_a_persons_first_or_last_row(call, pick):
    channels = ["web", "store", "app"]
    rows = [
        {"customer": i % 4, "at": m, "channel": [*channels, None][(i * i + i // 3) % 4]}
        for i, m in enumerate([*MOMENTS, *MOMENTS[::3]])
    ]
    expected = collections.Counter()
    for person in range(4):
        own = [r for r in rows if r["customer"] == person]
        own = [r for r in own if r["channel"] or call.endswith("NULL")]
        best = pick(r["at"] for r in own)
        there = [r["channel"] for r in own if r["at"] == best]
        expected += collections.Counter([c for c in channels if c in there][:1])
    text = (
        f"SELECT c AS k, COUNT(*) AS n FROM (SELECT customer, {call}(channel, at) AS c FROM orders "
        "GROUP BY customer) AS t GROUP BY k"
    )
    (aggregate,) = pl.lower(parse(text).query).aggregates
    names = [*POLICY.table("orders").columns, "customer"]
    data = {"customers": [], "orders": [dict.fromkeys(names) | row for row in rows]}
    found = Reference(data).execute(aggregate, pl.Salt(b"first"))
    t = aggregate.keys[0].expr.type
    assert {t.value(code[0]): int(n[0]) for code, n in found.items() if n[0]} == expected
    with pytest.raises(QueryError, match="that the policy lists"):
        parse(text.replace("(channel, at)", "(amount, at)"))


def test_combinations_of_listed_values_are_counted_once():
    rows = [{"customer": i, "country": c, "level": level}
            for i, (c, level) in enumerate([("CH", "a one"), ("CH", "a one"), ("DE", None),
                                            ("DE", "b-two")])]  # fmt: skip
    query = parse("SELECT COUNT(DISTINCT country, level) AS n FROM customers").query
    data = {"orders": [], "customers": [
        dict.fromkeys([*POLICY.table("customers").columns, "customer"]) | r for r in rows
    ]}  # fmt: skip
    lowered = pl.lower(query)
    own = parse("SELECT COUNT(DISTINCT country || '\x1f' || level) AS n FROM customers").query
    assert query.hash == own.hash
    for aggregate in lowered.aggregates:
        Reference(data).execute(aggregate, pl.Salt(b"pairs"))


def test_a_left_join_whose_rows_are_used_stays_as_it_is():
    text = (
        "SELECT AVG(o.amount) AS a FROM customers c LEFT JOIN orders o ON o.customer = c.customer "
        "WHERE o.customer IS NULL"
    )
    with pytest.raises(QueryError, match="write JOIN instead"):
        parse(text)


def test_who_has_no_rows_counts_as_none():
    text = QUESTIONS[-3][0].replace("AVG(", "SUM(").replace(" AS a ", " AS a, COUNT(*) AS n ")
    query = parse(text).query
    data = {
        "customers": [
            dict.fromkeys(POLICY.table("customers").columns) | {"customer": i} for i in range(3)
        ],
        "orders": [dict.fromkeys(POLICY.table("orders").columns) | {"customer": 0}] * 2,
    }
    (aggregate,) = pl.lower(query).aggregates
    (found,) = Reference(data).execute(aggregate, pl.Salt(b"none")).values()
    assert 3 in found
    assert 2 in found


# --- hints that stand in the place of a piece, or of the whole --------------------------------


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        (
            "SELECT COUNT(*) AS n FROM orders WHERE at >= CURRENT_DATE - INTERVAL '30 days'",
            "CURRENT_DATE",
        ),
        ("SELECT COUNT(*) AS n FROM orders WHERE at >= DATEADD(day, -30, GETDATE())", "GETDATE()"),
        ("SELECT COUNT(*) AS n FROM orders WHERE at LIKE '%03%'", "at LIKE '%03%'"),
        ("SELECT COUNT(*) AS n FROM customers WHERE country = 'Chile'", "country = 'Chile'"),
        ("SELECT COUNT(*) AS n FROM customers WHERE points <> ''", "points <> ''"),
        ('SELECT COUNT(*) AS n FROM customers WHERE email LIKE "u%"', '"u%"'),
        ("SELECT COUNT(DISTINCT customer, channel) AS n FROM orders", None),
        (
            (
                "SELECT COUNT(DISTINCT customer) / (SELECT COUNT(*) FROM orders) AS r FROM orders "
                "WHERE channel = 'web'"
            ),
            None,
        ),
        (
            (
                "SELECT COUNT(*) AS n, COUNT(DISTINCT IF(amount > 9, customer, NULL)) AS m "
                "FROM orders WHERE channel = 'web'"
            ),
            None,
        ),
        ("SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer HAVING s > 9", None),
        ("SELECT 2 * QUANTILE(amount, [0.1]) FROM orders", "QUANTILE(amount, [0.1])"),
        ("SELECT POWER(AVG(amount), 7) AS p FROM orders", "POWER(AVG(amount), 7)"),
        (
            "SELECT CAST(day AS VARCHAR(7)) AS k, COUNT(*) AS n FROM orders GROUP BY k",
            "CAST(day AS VARCHAR(7))",
        ),
        ("SHOW COLUMNS FROM orders", None),
        ("DESCRIBE `orders`;", None),
        ("EXPLAIN SELECT COUNT(*) AS n FROM orders", None),
        ("SELECT COLLECT_SET(channel) AS l FROM orders", None),
        ("SELECT WEEKDAY(at) AS d, COUNT(*) AS n FROM orders GROUP BY d", "WEEKDAY(at)"),
        ("SELECT YEARWEEK(at) AS d, COUNT(*) AS n FROM orders GROUP BY d", "YEARWEEK(at)"),
        (
            "SELECT channel, ROUND(COUNT(*), 1) || '%' AS s FROM orders GROUP BY channel",
            "ROUND(COUNT(*), 1) || '%'",
        ),
        (
            (
                "SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel "
                "HAVING COUNT(*) / SUM(COUNT(*)) OVER () > 0.2"
            ),
            "HAVING COUNT(*) / SUM(COUNT(*)) OVER () > 0.2",
        ),
        ("SELECT amount * 3000 + 1 AS k, COUNT(*) FROM orders GROUP BY k", "amount * 3000 + 1"),
        ("SELECT EPOCH(at) / 7 AS k, COUNT(*) FROM orders GROUP BY k", "EPOCH(at) / 7"),
        ("SELECT amount * 11, COUNT(*) FROM orders GROUP BY amount * 11", "amount * 11"),
        (
            "SELECT at + INTERVAL 3 HOUR AS k, COUNT(*) FROM orders GROUP BY k",
            "at + INTERVAL 3 HOUR",
        ),
        ("SELECT STRING_AGG(channel, ',') AS l FROM orders WHERE amount > 9", None),
        ("SELECT ARRAY_AGG(DISTINCT channel) AS l FROM orders", None),
        (
            "SELECT NTILE(4) OVER (ORDER BY amount) AS q, AVG(amount) AS a FROM orders GROUP BY q",
            None,
        ),
        (
            (
                "SELECT channel, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) "
                "OVER (PARTITION BY channel) AS m FROM orders"
            ),
            None,
        ),
        ("SELECT COUNT(*) AS n FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)", None),
        ("SELECT COUNT(*) / (SELECT COUNT(*) FROM customers) AS r FROM orders", None),
    ],
)
def test_a_hint_works_when_pasted(text, piece):
    with pytest.raises(QueryError) as refused:
        parse(text)
    hint = refused.value.hint
    parse(hint if piece is None else text.replace(piece, hint))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            (
                "SELECT COUNT(*) AS n FROM "
                "(SELECT customer FROM customers UNION SELECT customer FROM orders) AS t"
            ),
            "NOT IN the first",
        ),
        (
            (
                "SELECT COUNT(o.customer) AS n FROM customers c LEFT JOIN orders o "
                "ON c.customer = o.customer"
            ),
            "write JOIN instead",
        ),
        ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT * FROM orders) AS t", "named columns works"),
        ("SELECT COUNT(*) AS n FROM customers WHERE STRPOS(email, '@') > 3", "compare it with 0"),
        (f"SELECT COUNT(*) AS n FROM customers WHERE {IN} OR points > 3", "beside OR"),
        ("SELECT MONTHS_BETWEEN(MAX(day), MIN(day)) AS m FROM orders", "by month"),
        ("SELECT AVG(MONTHS_BETWEEN(at, day)) AS m FROM orders", "MONTHS_BETWEEN"),
        ("SELECT DATEDIFF(month, MIN(day), MAX(day)) AS m FROM orders", "by month"),
        (
            "SELECT QCUT(amount, 4) AS k, COUNT(*) AS n FROM orders GROUP BY k",
            "bins follow the data",
        ),
        (
            "SELECT CUT(amount, 5) AS k, COUNT(*) AS n FROM orders GROUP BY k",
            "bins follow the data",
        ),
        ("SELECT VALUE_COUNTS(channel) AS l, COUNT(*) AS n FROM orders", "VALUE_COUNTS"),
        (
            "SELECT CAST(at AS VARCHAR) AS d, COUNT(*) AS n FROM orders GROUP BY d",
            "its day is a text",
        ),
        (
            "SELECT POSITION('@' IN email) AS k, COUNT(*) AS n FROM customers GROUP BY k",
            "compare it with 0",
        ),
        ("SELECT AVG(STRPOS(email, '@')) AS a FROM customers", "compare it with 0"),
        (
            "SELECT * FROM orders PIVOT (SUM(amount) FOR channel IN ('web', 'app' AS mobile))",
            "PIVOT of a table",
        ),
        ("SELECT COUNT(*) AS n FROM orders TABLESAMPLE (10 PERCENT)", "all rows are counted"),
        ("SELECT COUNT(DISTINCT country, email) AS n FROM customers", "several columns"),
    ],
)
def test_no_hint_stands_where_none_gives_the_same_number(text, says):
    with pytest.raises(QueryError, match=says) as refused:
        parse(text)
    assert refused.value.hint is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("PERCENTILE(age)", "PERCENTILE takes 2 arguments"),
        ("percentile(age)", "PERCENTILE takes 2 arguments"),
        ("QUANTILE(age)", "QUANTILE takes 2 arguments"),
        ("AVERAGE(age, 1)", "AVERAGE takes 1 argument"),
        ("COUNT_BIG(age, 1)", "COUNT_BIG takes 1 argument"),
        ("COV(age)", "COV takes 2 arguments"),
        ("STDEV(*)", "STDEV needs a column"),
        ("SUM(TRUNCATE())", "TRUNCATE takes "),
    ],
)
def test_refusals_name_the_function_that_was_written(call, words):
    with pytest.raises(QueryError) as refused:
        sql.parse(f"SELECT {call} AS x FROM customers", POLICY)
    assert refused.value.message.startswith(words)
