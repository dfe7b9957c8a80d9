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
-- refuse
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
SELECT TOP 10 PERCENT race, COUNT(*) AS n FROM adult GROUP BY race ORDER BY n DESC;
-- mysql, adult
SELECT race, `hours-per-week` DIV 10 AS tens, COUNT(*) FROM adult GROUP BY race, tens;
-- refuse
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
-- bigquery, hospital
SELECT ward, ROUND(AVG(cost), 2) AS avg_cost, ROUND(STDDEV(cost), 2) AS sd_cost FROM `clinic.visits` WHERE cost IS NOT NULL GROUP BY 1 ORDER BY 2 DESC
SELECT DATE_TRUNC(visit_date, ISOWEEK) AS wk, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY wk ORDER BY wk
SELECT EXTRACT(YEAR FROM visit_date) AS y, EXTRACT(QUARTER FROM visit_date) AS q, SUM(IF(readmitted, 1, 0)) AS readm FROM visits GROUP BY y, q ORDER BY y, q
WITH per_patient AS (SELECT patient_id, COUNT(*) AS visits, SUM(cost) AS total FROM visits GROUP BY patient_id) SELECT AVG(visits) AS avg_visits, AVG(total) AS avg_total FROM per_patient
SELECT CASE WHEN age BETWEEN 0 AND 17 THEN '0-17' WHEN age BETWEEN 18 AND 64 THEN '18-64' ELSE '65+' END AS age_group, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM visits GROUP BY age_group
SELECT COUNTIF(REGEXP_CONTAINS(diagnosis, r'^J')) AS resp FROM visits
SELECT ward, SAFE_CAST(AVG(length_of_stay) AS INT64) AS los FROM visits GROUP BY ward
SELECT FORMAT_DATE('%A', visit_date) AS weekday, COUNT(*) AS n FROM visits GROUP BY weekday ORDER BY n DESC
-- refuse
SELECT ward, COUNT(*) AS n FROM visits WHERE _PARTITIONTIME IS NOT NULL GROUP BY ward
SELECT MAX(visit_date) AS last_visit, DATE_DIFF(MAX(visit_date), MIN(visit_date), DAY) AS days FROM visits
-- hint ANY_VALUE(sex)
SELECT ward, ANY_VALUE(sex) FROM visits GROUP BY ward
SELECT COALESCE(CAST(age AS STRING), 'unknown') AS a, COUNT(*) FROM visits GROUP BY a
SELECT TIMESTAMP_DIFF(TIMESTAMP '2024-12-31', TIMESTAMP(visit_date), DAY) AS d, COUNT(*) FROM visits GROUP BY d
-- snowflake, hospital
SELECT TO_VARCHAR(visit_date, 'YYYY-MM') AS ym, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1
SELECT ward, MEDIAN(length_of_stay) AS med, PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY length_of_stay) AS p95 FROM visits GROUP BY ward
SELECT ward, sex, COUNT(*) AS n FROM visits GROUP BY CUBE(ward, sex)
SELECT DATE_PART(month, visit_date) AS m, SUM(cost)::NUMBER(12,0) AS total FROM visits GROUP BY m ORDER BY m
SELECT COUNT(DISTINCT IFF(ward = 'ICU', patient_id, NULL)) AS icu_patients FROM visits
-- hint BOOLOR_AGG(readmitted)
SELECT BOOLOR_AGG(readmitted) FROM visits
SELECT ward, APPROX_PERCENTILE(cost, 0.5) FROM visits GROUP BY ward
SELECT CASE WHEN EQUAL_NULL(sex, 'F') THEN 'f' ELSE 'other' END AS s, COUNT(*) FROM visits GROUP BY s
SELECT YEAR(visit_date) || '-Q' || QUARTER(visit_date) AS yq, COUNT(*) AS n FROM visits GROUP BY yq
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 100 ORDER BY n DESC NULLS LAST LIMIT 3
SELECT LAST_DAY(visit_date) AS me, SUM(cost) FROM visits GROUP BY me
SELECT SQUARE(STDDEV(cost)) AS v FROM visits
-- tsql, hospital
SELECT TOP (5) ward, AVG(CAST(cost AS FLOAT)) AS avg_cost FROM dbo.visits GROUP BY ward ORDER BY avg_cost DESC;
SELECT YEAR(visit_date) AS [Year], MONTH(visit_date) AS [Month], COUNT(DISTINCT patient_id) AS [Patients] FROM visits GROUP BY YEAR(visit_date), MONTH(visit_date) ORDER BY [Year], [Month]
-- refuse
SELECT CASE WHEN LEN(diagnosis) = 0 THEN 'none' ELSE LEFT(diagnosis, 1) END AS chapter, COUNT(*) FROM visits GROUP BY CASE WHEN LEN(diagnosis) = 0 THEN 'none' ELSE LEFT(diagnosis, 1) END
SELECT FORMAT(visit_date, 'MMM yyyy') AS m, COUNT(*) AS n FROM visits GROUP BY FORMAT(visit_date, 'MMM yyyy')
SELECT ward, COUNT(*) AS n, CAST(100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS DECIMAL(5,1)) AS pct FROM visits GROUP BY ward
SELECT DATEDIFF(day, '2023-01-01', visit_date) / 30 AS m, COUNT(*) FROM visits GROUP BY DATEDIFF(day, '2023-01-01', visit_date) / 30
SELECT v.ward, SUM(CASE WHEN p.insurance = 'private' THEN v.cost ELSE 0 END) AS priv FROM visits AS v INNER JOIN patients AS p ON p.patient_id = v.patient_id GROUP BY v.ward
SELECT ward, VAR(cost) AS v, STDEVP(cost) AS s FROM visits GROUP BY ward
SELECT COUNT(*) FROM visits WHERE visit_date >= DATEADD(month, -6, '2024-12-31') OPTION (RECOMPILE)
SELECT AVG(1.0 * n) AS mean_visits, STDEV(n) AS sd FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) AS x
SELECT DATETRUNC(month, visit_date) AS m, COUNT(*) FROM visits GROUP BY DATETRUNC(month, visit_date)
SELECT ward, COUNT(*) n FROM visits GROUP BY GROUPING SETS ((ward), ())
-- mysql, hospital
SELECT ward, AVG(cost) AS c FROM visits WHERE YEAR(visit_date) = 2024 AND MONTH(visit_date) IN (6,7,8) GROUP BY ward HAVING c > 100
SELECT DATE_FORMAT(visit_date, '%b') AS m, COUNT(*) FROM visits GROUP BY m ORDER BY MIN(visit_date)
-- hint '%Y-%u'
SELECT DATE_FORMAT(visit_date, '%Y-%u') AS w, COUNT(*) FROM visits GROUP BY w
-- hint *
SELECT COUNT(DISTINCT patient_id, ward) FROM visits
SELECT SUBSTRING_INDEX(diagnosis, '.', 1) AS d, COUNT(*) AS n FROM visits GROUP BY d ORDER BY n DESC LIMIT 5
SELECT FLOOR(DATEDIFF('2024-12-31', visit_date) / 7) AS weeks_ago, COUNT(*) FROM visits GROUP BY weeks_ago
SELECT CONCAT(YEAR(visit_date), '-', LPAD(MONTH(visit_date), 2, '0')) AS ym, COUNT(*) FROM visits GROUP BY ym
SELECT sex, ROUND(SUM(readmitted)/COUNT(*)*100, 1) AS pct FROM visits GROUP BY sex
SELECT ELT(MONTH(visit_date), 'Jan','Feb','Mar','Apr','May','Jun','Jul','Aug','Sep','Oct','Nov','Dec') AS m, COUNT(*) FROM visits GROUP BY m
SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t WHERE n > 500
SELECT MAX(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t
SELECT ward, STD(cost), VARIANCE(cost) FROM visits GROUP BY ward
-- spark, hospital
SELECT year(visit_date) AS y, count(distinct patient_id) FROM visits GROUP BY year(visit_date)
SELECT ward, percentile(cost, 0.5) FROM visits GROUP BY ward
SELECT ward, approx_count_distinct(patient_id) FROM visits GROUP BY ward
SELECT date_trunc('MONTH', visit_date) AS m, sum(cost) FROM visits GROUP BY 1
-- hint dayofweek(visit_date)
SELECT CASE WHEN dayofweek(visit_date) IN (1,7) THEN 'weekend' ELSE 'weekday' END AS w, count(*) FROM visits GROUP BY 1
SELECT ward, sum(cost) FILTER (WHERE sex = 'F') / sum(cost) AS f FROM visits GROUP BY ward
SELECT split(diagnosis, '\\.')[0] AS d, count(*) FROM visits GROUP BY d
SELECT weekofyear(visit_date) AS w, count(*) FROM visits GROUP BY w
-- hint first(sex)
SELECT ward, first(sex) FROM visits GROUP BY ward
-- hint *
SELECT ntile(4) OVER (ORDER BY cost) AS q, count(*) FROM visits GROUP BY q
-- hint *
SELECT patient_id, count(*) c FROM visits GROUP BY patient_id HAVING c > 3
-- refuse
SELECT ward, max_by(sex, cost) FROM visits GROUP BY ward
SELECT date_sub(visit_date, 1) AS d, count(*) FROM visits GROUP BY d
-- pandas, hospital
SELECT ward, cost.sum(), cost.std(), cost.count() FROM visits GROUP BY ward
SELECT describe(cost) FROM visits
SELECT ward, quantile(cost, [0.25, 0.5, 0.75]) FROM visits GROUP BY ward
SELECT visit_date.dt.month AS m, COUNT(*) FROM visits GROUP BY m
-- refuse
SELECT qcut(cost, 4) AS q, COUNT(*) FROM visits GROUP BY q
SELECT sex, ward, len(*) FROM visits GROUP BY sex, ward
SELECT mean(length_of_stay) FROM visits WHERE ward == 'ICU' AND age.between(18, 65)
SELECT corr(age, cost), cov(age, cost) FROM visits
-- fresh, hospital
SELECT ward, COUNT(*) FILTER (WHERE readmitted) * 100.0 / COUNT(*) AS pct FROM visits GROUP BY ward ORDER BY pct DESC LIMIT 1;
SELECT DATE_TRUNC('quarter', visit_date) AS q, ward, SUM(cost) AS total, SUM(SUM(cost)) OVER (PARTITION BY ward ORDER BY DATE_TRUNC('quarter', visit_date)) AS running FROM visits GROUP BY 1, 2;
SELECT age_group, COUNT(DISTINCT patient_id) FROM (SELECT patient_id, CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS age_group FROM visits) x GROUP BY age_group;
SELECT TO_CHAR(visit_date, 'Mon YYYY') AS m, COUNT(*) FROM visits GROUP BY m;
SELECT EXTRACT(MONTH FROM visit_date) AS m, AVG(length_of_stay) AS los FROM visits WHERE ward <> 'ER' GROUP BY m HAVING COUNT(*) >= 50 ORDER BY m;
SELECT COUNT(*) FROM visits WHERE LOWER(ward) = 'icu' AND sex != 'U';
SELECT ward, MIN(cost), MAX(cost), MAX(cost) - MIN(cost) AS spread FROM visits GROUP BY ward;
SELECT insurance, AVG(n) FROM patients JOIN (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) v USING (patient_id) GROUP BY insurance;
SELECT ward, COUNT(*) AS n, DENSE_RANK() OVER (ORDER BY COUNT(*) DESC) AS rnk FROM visits GROUP BY ward;
SELECT CASE WHEN n = 1 THEN 'once' WHEN n BETWEEN 2 AND 3 THEN 'few' ELSE 'many' END AS freq, COUNT(*) FROM (SELECT patient_id, COUNT(*) n FROM visits GROUP BY patient_id) GROUP BY freq;
SELECT VAR_SAMP(cost), COVAR_POP(age, cost), REGR_SLOPE(cost, age) FROM visits;
-- hint ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) || '%'
SELECT ward, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) || '%' AS share FROM visits GROUP BY ward;
SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN '2024-01-01' AND '2024-12-31' AND EXTRACT(DOW FROM visit_date) IN (0, 6);
SELECT DATE(visit_date) AS d, COUNT(*) FROM visits WHERE visit_date >= '2024-12-01' GROUP BY d ORDER BY d;
SELECT PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY cost) FROM visits WHERE ward = 'ICU';
SELECT LEFT(diagnosis, 1) AS chapter, AVG(cost) AS avg_cost, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC LIMIT 5;
SELECT sex, SUM(CASE WHEN age >= 65 THEN 1 END) AS old, SUM(CASE WHEN age < 65 THEN 1 END) AS young FROM visits GROUP BY sex;
SELECT COUNT(*) AS n, COUNT(age) AS with_age, COUNT(*) - COUNT(age) AS without FROM visits;
SELECT p.insurance, SUM(v.cost) / COUNT(DISTINCT v.patient_id) AS per_patient FROM visits v JOIN patients p ON v.patient_id = p.patient_id GROUP BY p.insurance;
SELECT first_ward, COUNT(*) FROM (SELECT patient_id, MIN_BY(ward, visit_date) AS first_ward FROM visits GROUP BY patient_id) t GROUP BY first_ward;
SELECT WEEK(visit_date) AS w, COUNT(*) FROM visits WHERE YEAR(visit_date) = 2024 GROUP BY w;
SELECT FORMAT_DATE('%G-W%V', visit_date) AS w, COUNT(*) FROM visits GROUP BY w;
SELECT IF(readmitted, 'yes', 'no') AS r, AVG(cost) AS c FROM visits GROUP BY r;
SELECT ward, GREATEST(COUNT(*), 0) AS n FROM visits GROUP BY ward;
SELECT MOD(age, 10) AS last_digit, COUNT(*) FROM visits GROUP BY last_digit;
SELECT COUNT(*) FROM visits v WHERE v.cost > 1000 AND v.patient_id IN (SELECT patient_id FROM patients WHERE insurance = 'private');
SELECT AVG(total) FROM (SELECT patient_id, SUM(cost) AS total FROM visits WHERE YEAR(visit_date) = 2024 GROUP BY patient_id HAVING SUM(cost) > 100) t;
SELECT ward, SUM(cost) FROM visits GROUP BY ward WITH CUBE;
SELECT ROUND(cost / 100) * 100 AS bin, COUNT(*) FROM visits WHERE cost <= 2000 GROUP BY bin ORDER BY bin;
SELECT STDDEV(n) / AVG(n) AS cv FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t;
SELECT DATEDIFF(MAX(visit_date), '2024-01-01') AS d FROM visits;
SELECT YEAR(visit_date) AS y, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY YEAR(visit_date)) AS prev FROM visits GROUP BY y;
SELECT MONTHNAME(visit_date) AS m, SUM(cost) AS s FROM visits GROUP BY m, MONTH(visit_date) ORDER BY MONTH(visit_date);
SELECT COUNT(*) FROM visits WHERE diagnosis IN ('A00.0', 'A01.0') OR diagnosis LIKE 'J%';
SELECT sex, ward, COUNT(*) FROM visits GROUP BY sex, ward ORDER BY sex ASC, COUNT(*) DESC;
SELECT COALESCE(sex, 'missing') AS s, COUNT(*) AS n FROM visits GROUP BY COALESCE(sex, 'missing');
SELECT AVG(CASE WHEN readmitted = 1 THEN 1.0 ELSE 0 END) FROM visits;
SELECT SUM(cost) FROM visits WHERE visit_date >= DATE_TRUNC('year', DATE '2024-05-05');
-- refuse
SELECT ward, BIT_COUNT(age) FROM visits GROUP BY ward;
SELECT ward, AVG(cost) AS c FROM visits GROUP BY ward HAVING AVG(cost) > (SELECT AVG(cost) FROM visits);
-- bigquery, hospital
SELECT ward, COUNT(*) AS visits, ROUND(100 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex), 1) AS pct, sex FROM visits GROUP BY ward, sex ORDER BY sex, pct DESC
SELECT FORMAT_DATE('%Y-Q%Q', visit_date) AS quarter, AVG(cost) AS avg_cost FROM visits GROUP BY quarter ORDER BY quarter
WITH monthly AS (SELECT DATE_TRUNC(visit_date, MONTH) AS m, SUM(cost) AS revenue FROM visits GROUP BY m) SELECT m, revenue, revenue - LAG(revenue) OVER (ORDER BY m) AS delta FROM monthly ORDER BY m
-- hint *
SELECT APPROX_TOP_COUNT(diagnosis, 5) AS top FROM visits
WITH first_visit AS (SELECT patient_id, MIN(visit_date) AS first_date FROM visits GROUP BY patient_id) SELECT DATE_TRUNC(first_date, QUARTER) AS cohort, COUNT(*) AS patients FROM first_visit GROUP BY cohort ORDER BY cohort
-- refuse
SELECT COUNT(DISTINCT patient_id) AS returning FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.visit_date > v.visit_date)
-- hint LOGICAL_AND(readmitted)
SELECT LOGICAL_AND(readmitted) AS every, ward FROM visits GROUP BY ward
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ALL ORDER BY ALL
-- snowflake, hospital
SELECT ward, COUNT_IF(cost > 1000) AS dear, COUNT_IF(cost > 1000) / COUNT(*) AS share FROM visits GROUP BY ALL
SELECT MONTHNAME(visit_date) AS m, COUNT(*) FROM visits WHERE YEAR(visit_date) = 2024 GROUP BY 1, MONTH(visit_date) ORDER BY MONTH(visit_date)
SELECT ward, RATIO_TO_REPORT(COUNT(*)) OVER () AS share FROM visits GROUP BY ward
-- refuse
SELECT patient_id, visit_date, LAG(visit_date) OVER (PARTITION BY patient_id ORDER BY visit_date) AS prev FROM visits
-- hint *
SELECT AVG(gap) FROM (SELECT DATEDIFF(day, LAG(visit_date) OVER (PARTITION BY patient_id ORDER BY visit_date), visit_date) AS gap FROM visits) t
-- refuse
SELECT ward, MIN_BY(cost, visit_date) FROM visits GROUP BY ward
SELECT ward, PERCENTILE_CONT(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY cost) FROM visits GROUP BY ward
SELECT SUM(cost) AS total, SUM(cost) / NULLIF(COUNT(DISTINCT patient_id), 0) AS per_patient FROM visits
-- tsql, hospital
SELECT ward, COUNT(*) AS n, AVG(cost * 1.0) AS mean, MIN(visit_date) AS since, MAX(visit_date) AS till FROM visits WHERE cost > 0 GROUP BY ward ORDER BY COUNT(*) DESC
SELECT CASE GROUPING(ward) WHEN 1 THEN 'All wards' ELSE ward END AS ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward)
SELECT p.insurance, COUNT(*) AS n FROM visits v JOIN patients p ON v.patient_id = p.patient_id WHERE v.age >= 18 AND p.insurance <> 'none' GROUP BY p.insurance HAVING COUNT(*) >= 50
SELECT SUM(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) AS women, SUM(CASE WHEN sex = 'M' THEN 1 ELSE 0 END) AS men, COUNT(*) - SUM(CASE WHEN sex IN ('F', 'M') THEN 1 ELSE 0 END) AS rest FROM visits
-- hint DATEDIFF(week, '2023-01-02', visit_date)
SELECT DATEDIFF(week, '2023-01-02', visit_date) AS wk, COUNT(*) AS n FROM visits GROUP BY DATEDIFF(week, '2023-01-02', visit_date) ORDER BY wk
-- hint *
SELECT STRING_AGG(ward, ',') FROM visits
-- mysql, hospital
SELECT ward, length_of_stay DIV 7 AS weeks, COUNT(*) FROM visits GROUP BY ward, weeks ORDER BY ward, weeks
SELECT sex, AVG(length_of_stay) AS los, AVG(length_of_stay) - (SELECT AVG(length_of_stay) FROM visits) AS versus_all FROM visits GROUP BY sex
-- hint YEARWEEK(visit_date)
SELECT YEARWEEK(visit_date) AS yw, COUNT(*) FROM visits GROUP BY yw
SELECT LEAST(length_of_stay, 14) AS nights, COUNT(*) AS n FROM visits GROUP BY nights ORDER BY nights
SELECT COUNT(*) FROM visits WHERE MOD(age, 10) = 0 AND age IS NOT NULL
-- duckdb, hospital
FROM visits SELECT ward, count(*) AS n GROUP BY ward ORDER BY n DESC
SELECT ward, median(cost) FILTER (WHERE sex = 'F') AS f, median(cost) FILTER (WHERE sex = 'M') AS m FROM visits GROUP BY ward
SELECT quantile_cont(cost, [0.25, 0.5, 0.75]) AS q FROM visits
-- hint *
SUMMARIZE visits
SELECT first_ward, COUNT(*) AS people FROM (SELECT patient_id, FIRST(ward ORDER BY visit_date) AS first_ward FROM visits WHERE visit_date IS NOT NULL GROUP BY patient_id) t GROUP BY first_ward
SELECT age // 10 * 10 AS decade, AVG(cost) AS c FROM visits GROUP BY decade ORDER BY decade
-- hint *
SELECT q, COUNT(*) FROM (SELECT patient_id, NTILE(4) OVER (ORDER BY SUM(cost)) AS q FROM visits GROUP BY patient_id) t GROUP BY q
-- pandas, adult
SELECT race, age.median(), `hours-per-week`.mean() FROM adult WHERE sex == 1 GROUP BY race
SELECT sex, race, value_counts(race) FROM adult GROUP BY sex
-- excel, adult
SELECT COUNTIFS(sex = 1, age > 40) AS n, AVERAGEIF(sex = 0, age) AS women FROM adult
SELECT SUMPRODUCT(age, `hours-per-week`) FROM adult
SELECT sex, STDEV(age) / AVERAGE(age) AS cv FROM adult GROUP BY sex
SELECT ROUND(AVG(`hours-per-week`), 1) AS hours, IF(AVG(`hours-per-week`) > 40, 'over', 'under') AS verdict FROM adult
