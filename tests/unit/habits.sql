-- bigquery, hospital
SELECT ward, COUNTIF(age >= 65) AS seniors, COUNT(*) AS n FROM `myproject.clinic.visits` GROUP BY ward;
SELECT APPROX_QUANTILES(cost, 4)[OFFSET(2)] AS median_cost FROM visits;
SELECT ward, APPROX_QUANTILES(length_of_stay, 100)[SAFE_OFFSET(90)] AS p90 FROM visits GROUP BY ward;
SELECT FORMAT_DATE('%Y-%m', visit_date) AS month, COUNT(*) AS n FROM visits GROUP BY month ORDER BY month;
SELECT DATE_TRUNC(visit_date, MONTH) AS month, SUM(cost) AS total FROM visits GROUP BY 1 ORDER BY 1;
SELECT SAFE_DIVIDE(SUM(cost), SUM(length_of_stay)) AS cost_per_day FROM visits;
SELECT EXTRACT(DAYOFWEEK FROM visit_date) AS dow, COUNT(*) FROM visits GROUP BY dow;
SELECT ward, APPROX_COUNT_DISTINCT(patient_id) AS people FROM visits GROUP BY ward;
SELECT ward, AVG(CAST(length_of_stay AS FLOAT64)) AS los FROM visits GROUP BY ward;
SELECT COUNT(*) FROM visits WHERE DATE_DIFF(DATE '2024-12-31', visit_date, DAY) <= 90;
SELECT COUNT(*) FROM visits WHERE visit_date >= DATE_SUB(DATE '2024-12-31', INTERVAL 3 MONTH);
SELECT * EXCEPT(n) FROM (SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ward);
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 3;
-- hint LOGICAL_OR(readmitted)
SELECT sex, LOGICAL_OR(readmitted) FROM visits GROUP BY sex;
SELECT RANGE_BUCKET(age, [18, 40, 65]) AS b, COUNT(*) FROM visits GROUP BY b;
-- snowflake, hospital
SELECT ward, IFF(AVG(cost) > 5000, 'high', 'low') AS level FROM visits GROUP BY ward;
SELECT ward, DIV0(SUM(IFF(readmitted, 1, 0)), COUNT(*)) AS rate FROM visits GROUP BY ward;
SELECT SUM(ZEROIFNULL(cost)) AS total FROM visits;
SELECT TO_CHAR(visit_date, 'YYYY-MM') AS ym, COUNT(*) AS n FROM visits GROUP BY ym ORDER BY ym;
SELECT DATEADD(month, -1, visit_date) AS d, COUNT(*) FROM visits GROUP BY d;
SELECT ward, COUNT_IF(readmitted) AS back, RATIO_TO_REPORT(COUNT(*)) OVER () AS share FROM visits GROUP BY ward;
SELECT MONTHNAME(visit_date) AS m, COUNT(*) FROM visits GROUP BY m;
SELECT v.ward, p.insurance, COUNT(*) FROM visits v, patients p WHERE v.patient_id = p.patient_id GROUP BY ALL;
SELECT COUNT(*) FROM visits WHERE visit_date::DATE BETWEEN '2024-01-01'::DATE AND '2024-03-31'::DATE;
SELECT MEDIAN(cost)::NUMBER(10,2) AS med FROM visits WHERE ward ILIKE 'icu';
SELECT DAYNAME(visit_date) AS d, AVG(cost) AS c FROM visits GROUP BY d;
SELECT DATEDIFF('day', MIN(visit_date), MAX(visit_date)) AS span FROM visits;
SELECT NVL(ward, 'unknown') AS w, COUNT(*) FROM visits GROUP BY w;
-- tsql, hospital
SELECT TOP 3 ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC;
SELECT [ward], COUNT_BIG(*) AS [number of visits] FROM [dbo].[visits] WITH (NOLOCK) GROUP BY [ward];
SELECT CONVERT(varchar(7), visit_date, 120) AS ym, COUNT(*) AS n FROM visits GROUP BY CONVERT(varchar(7), visit_date, 120) ORDER BY ym;
SELECT DATEPART(year, visit_date) AS y, DATEPART(quarter, visit_date) AS q, SUM(cost) AS total FROM visits GROUP BY DATEPART(year, visit_date), DATEPART(quarter, visit_date);
SELECT DISTINCT ward, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) OVER (PARTITION BY ward) AS med FROM visits;
SELECT ward, SUM(IIF(age >= 65, 1, 0)) * 1.0 / COUNT(*) AS share_old FROM visits GROUP BY ward;
SELECT DATENAME(weekday, visit_date) AS wd, COUNT(*) AS n FROM visits GROUP BY DATENAME(weekday, visit_date);
SELECT ISNULL(sex, 'U') AS sex, COUNT(*) AS n FROM visits GROUP BY ISNULL(sex, 'U');
SELECT COUNT(*) FROM visits WHERE visit_date >= '20240101' AND visit_date < '20240701';
SELECT EOMONTH(visit_date) AS month_end, COUNT(*) FROM visits GROUP BY EOMONTH(visit_date);
SELECT ward, CAST(AVG(cost * 1.0) AS DECIMAL(10,2)) AS avg_cost, STDEV(cost) AS sd FROM visits GROUP BY ward;
SELECT DATEFROMPARTS(YEAR(visit_date), MONTH(visit_date), 1) AS m, COUNT(*) AS n FROM visits GROUP BY DATEFROMPARTS(YEAR(visit_date), MONTH(visit_date), 1);
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC OFFSET 0 ROWS FETCH NEXT 2 ROWS ONLY;
-- mysql, hospital
SELECT DATE_FORMAT(visit_date, '%Y-%m') AS ym, COUNT(*) FROM visits GROUP BY ym ORDER BY ym;
SELECT DATE_FORMAT(visit_date, '%M %Y') AS label, COUNT(*) FROM visits GROUP BY label;
SELECT `ward`, SUM(`readmitted` = 1) / COUNT(*) AS rate FROM `visits` GROUP BY `ward`;
SELECT IF(age >= 65, '65+', 'under 65') AS band, AVG(cost) FROM visits GROUP BY band;
SELECT ward, COUNT(*) AS n FROM visits WHERE sex = "F" GROUP BY ward ORDER BY n DESC LIMIT 0, 3;
SELECT AVG(DATEDIFF('2024-12-31', visit_date)) AS days_ago FROM visits;
SELECT ward, COUNT(*) FROM visits GROUP BY ward WITH ROLLUP;
SELECT COUNT(*) FROM visits WHERE diagnosis REGEXP '^A[0-9]';
-- hint WEEKDAY(visit_date)
SELECT WEEKDAY(visit_date) AS wd, COUNT(*) FROM visits GROUP BY wd;
SELECT QUARTER(visit_date) AS q, ROUND(AVG(cost), 0) AS c FROM visits WHERE YEAR(visit_date) = 2024 GROUP BY q;
SELECT COUNT(*) FROM visits WHERE visit_date > STR_TO_DATE('01/06/2024', '%d/%m/%Y');
SELECT IFNULL(SUM(cost), 0) FROM visits WHERE ward = 'ICU' && age > 50;
-- spark, hospital
SELECT ward, percentile_approx(cost, 0.9) AS p90 FROM visits GROUP BY ward;
SELECT date_format(visit_date, 'yyyy-MM') AS ym, count(1) AS n FROM visits GROUP BY ym;
SELECT ward, count_if(age > 65) / count(*) AS share FROM visits GROUP BY ward;
-- hint months_between(max(visit_date), min(visit_date))
SELECT months_between(max(visit_date), min(visit_date)) FROM visits;
SELECT ward, avg(n) FROM (SELECT patient_id, ward, count(*) AS n FROM visits GROUP BY patient_id, ward) t GROUP BY ward;
-- hint *
SELECT ward, collect_set(sex) FROM visits GROUP BY ward;
SELECT trunc(visit_date, 'MM') AS m, mean(cost) AS c FROM visits GROUP BY trunc(visit_date, 'MM');
SELECT count(*) FROM visits WHERE rlike(diagnosis, '^J') AND date_add(visit_date, 7) <= '2024-01-31';
SELECT * FROM (SELECT ward, sex, cost FROM visits) PIVOT (AVG(cost) FOR sex IN ('F', 'M'));
-- pandas, hospital
SELECT ward, cost.mean() FROM visits GROUP BY ward;
SELECT nunique(patient_id) FROM visits;
SELECT pd.cut(age, [0, 18, 65, 120]) AS band, COUNT(*) FROM visits GROUP BY band;
-- hint *
SELECT value_counts(ward) FROM visits;
SELECT ward, std(cost), quantile(cost, 0.25), quantile(cost, 0.75) FROM visits GROUP BY ward;
SELECT sex, size() AS n FROM visits GROUP BY sex;
-- people, hospital
SELECT COUNT(*) * 1.0 / (SELECT COUNT(DISTINCT patient_id) FROM visits) AS repeat_rate FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 1) t;
SELECT AVG(days) FROM (SELECT patient_id, DATEDIFF(day, MIN(visit_date), MAX(visit_date)) AS days FROM visits GROUP BY patient_id) t;
SELECT MAX(visit_date) - MIN(visit_date) AS span FROM visits;
SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING MAX(visit_date) > DATE '2024-06-30') t;
SELECT AVG(span) FROM (SELECT patient_id, MAX(visit_date) - MIN(visit_date) AS span FROM visits GROUP BY patient_id) t;
SELECT (SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 1) t) * 1.0 / (SELECT COUNT(DISTINCT patient_id) FROM visits) AS rate;
-- bigquery, adult
SELECT sex, COUNTIF(`income>50K` = 1) / COUNT(*) AS share FROM adult GROUP BY sex;
SELECT CAST(FLOOR(age / 10) * 10 AS STRING) AS decade, COUNT(*) FROM adult GROUP BY decade;
SELECT CAST(age AS INT64) AS a, COUNT(*) AS n FROM adult GROUP BY a;
-- tsql, adult
SELECT [sex], AVG([hours-per-week]) AS hours FROM adult GROUP BY [sex];
-- hint TOP 10 PERCENT
SELECT TOP 10 PERCENT race, COUNT(*) AS n FROM adult GROUP BY race ORDER BY n DESC;
-- mysql, adult
SELECT race, `hours-per-week` DIV 10 AS tens, COUNT(*) FROM adult GROUP BY race, tens;
-- hint *
SELECT FLOOR(age / 5) * 5 AS bin, COUNT(*) AS n, GROUP_CONCAT(sex) FROM adult GROUP BY bin;
-- snowflake, adult
SELECT WIDTH_BUCKET(age, 0, 80, 8) AS b, COUNT(*) FROM adult GROUP BY b ORDER BY b;
-- hint *
SELECT race, LISTAGG(sex, ',') FROM adult GROUP BY race;
SELECT NULLIFZERO(COUNT(*)) FROM adult WHERE age > 80;
SELECT DECODE(sex, 0, 'female', 1, 'male') AS s, COUNT(*) FROM adult GROUP BY s;
-- spark, adult
-- hint skewness(age)
SELECT race, skewness(age) FROM adult GROUP BY race;
SELECT race, stddev_pop(age), var_samp(age), corr(age, `hours-per-week`) FROM adult GROUP BY race;
-- hint *
SELECT histogram_numeric(age, 5) FROM adult;
SELECT IF(sex = 1, 'm', 'f') AS s, avg(age) FROM adult GROUP BY IF(sex = 1, 'm', 'f');
