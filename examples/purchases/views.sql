-- What shoppers bought: a project in SQL alone.
CREATE SOURCE purchases (
  user_id STRING NOT NULL,
  item STRING,
  price DOUBLE,
  bought_at TIMESTAMP_RFC3339
) WITH (connector = 'kafka', format = 'json', timestamp = 'bought_at', max_lateness = '7d');

-- Sliding windows: ORDER BY SLICE(bought_at) says that their bounds lie on slices.
CREATE FEATURE VIEW baskets AS
SELECT user_id,
       avg(price)          OVER (short RANGE BETWEEN INTERVAL '3' HOUR PRECEDING AND CURRENT ROW) AS basket_3h,
       count(*)            OVER (short RANGE BETWEEN INTERVAL '3' HOUR PRECEDING AND CURRENT ROW) AS purchases_3h,
       max_by(item, price) OVER (short RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)  AS dearest_1d
FROM purchases
WHERE price > 0
WINDOW short AS (PARTITION BY user_id ORDER BY SLICE(bought_at));

-- Windows side by side: the last complete hour.
CREATE FEATURE VIEW hourly AS
SELECT user_id, sum(price) AS spent_tumbling_1h, count(DISTINCT item) AS items_tumbling_1h
FROM purchases
GROUP BY user_id, TUMBLE(bought_at, INTERVAL '1' HOUR);

-- Exact windows: ORDER BY bought_at itself. The last three purchases, and the three hours up to this very moment.
CREATE FEATURE VIEW latest AS
SELECT user_id,
       avg(price) OVER (recent ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)                       AS price_rows_3,
       count(*)   OVER (recent RANGE BETWEEN INTERVAL '3' HOUR PRECEDING AND CURRENT ROW)      AS purchases_exact_3h
FROM purchases
WINDOW recent AS (PARTITION BY user_id ORDER BY bought_at);

-- A visit lasts as long as less than half an hour lies between two purchases, a day at most.
CREATE FEATURE VIEW visits AS
SELECT user_id, count(*) AS purchases_session_30m, sum(price) AS spent_session_30m
FROM purchases
GROUP BY user_id, SESSION(bought_at, INTERVAL '30' MINUTE, INTERVAL '1' DAY);
