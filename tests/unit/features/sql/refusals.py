"""Refusals of SQL: a part of the message, and the text with › before the place that it must
name."""

from __future__ import annotations

SOURCE = """CREATE SOURCE plays (
  user_id STRING NOT NULL, song STRING, seconds DOUBLE, liked BOOLEAN, n BIGINT, other TIMESTAMP_US, ts TIMESTAMP_US
) WITH (timestamp = 'ts');
"""
V = "CREATE FEATURE VIEW v"
N = "SELECT count(*) AS n FROM plays"
W = (
    "OVER (PARTITION BY user_id ORDER BY SLICE(ts) RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND "
    "CURRENT ROW)"
)

COUNTED = f"SELECT user_id, count(*) {W} AS n_1h FROM plays"


def over(inside: str) -> str:
    """A query with one window."""
    return f"SELECT user_id, count(*) OVER ({inside}) AS n_1h FROM plays"


def selected(item: str) -> str:
    """A query with one more selected thing."""
    return f"SELECT user_id, count(*) {W} AS plays_1h,\n  {item}\nFROM plays"


REFUSALS: dict[str, tuple[str, str]] = {
    # ---- functions
    "an unknown function": ("unknown function 'summ'", selected(f"›summ(seconds) {W} AS x_1h")),
    "an unknown function without window": (
        "unknown function 'summ'",
        selected("›summ(seconds) AS x_1h"),
    ),
    "a function of rows": ("numbers or looks at rows", selected(f"›row_number() {W} AS x_1h")),
    "a function that keeps everything": (
        "keeps every value",
        selected(f"›array_agg(song) {W} AS x_1h"),
    ),
    "a percentile that is exact": ("keeps every value", selected(f"›median(seconds) {W} AS x_1h")),
    "a value that depends on order": ("order of work", selected(f"›any_value(song) {W} AS x_1h")),
    "a null where SQL has one": ("nulls are skipped", selected(f"›first_value(song) {W} AS x_1h")),
    "several of max_by": ("takes 2 arguments", selected(f"max_by(song, seconds, ›3) {W} AS x_1h")),
    "a missing parameter": ("lacks k", selected(f"›last_k(song) {W} AS x_1h")),
    "a parameter that is none": (
        "no parameter 'kk'",
        selected(f"last_k(song, kk => ›3) {W} AS x_1h"),
    ),
    "a parameter out of bounds": ("k is 0", selected(f"›last_k(song, k => 0) {W} AS x_1h")),
    "a type that the aggregate cannot take": (
        "cannot read column 'song'",
        selected(f"›sum(song) {W} AS x_1h"),
    ),
    "a column in quotes": ("written as text", selected(f"›sum('seconds') {W} AS x_1h")),
    "the sum of all": ("sum(*)", selected(f"sum(›*) {W} AS x_1h")),
    "another distinct": ("SUM(DISTINCT", selected(f"sum(DISTINCT ›seconds) {W} AS x_1h")),
    "distinct of two": ("several columns", selected(f"count(DISTINCT ›song, n) {W} AS x_1h")),
    "an unknown column": ("unknown column 'second'", selected(f"sum(›second) {W} AS x_1h")),
    "within group": (
        "WITHIN GROUP",
        selected(f"›percentile_cont(0.5) WITHIN GROUP (ORDER BY n) {W} AS x_1h"),
    ),
    "respect nulls": ("RESPECT NULLS", selected(f"›last(song) RESPECT NULLS {W} AS x_1h")),
    "a scalar that is a list": (
        "answers a list",
        selected(f"approx_percentile(seconds, ›0.5) {W} AS x_1h"),
    ),
    "a count of null": ("COUNT of NULL", selected(f"›count(NULL) {W} AS x_1h")),
    "a line over null": ("REGR_SLOPE of NULL", selected(f"›regr_slope(seconds, NULL) {W} AS x_1h")),
    "the sum of a number": ("column is 5", selected(f"›sum(5) {W} AS x_1h")),
    "distinct of a number": ("column is 1", selected(f"›count(DISTINCT 1) {W} AS x_1h")),
    "a sum of a feature": ("column is Count", selected(f"›sum(count(*)) {W} AS x_1h")),
    "a length in digits of another script": (
        "no length",
        over("PARTITION BY user_id ORDER BY SLICE(ts) RANGE INTERVAL ›'²' HOUR PRECEDING"),
    ),
    "SLICE as a feature": ("a word of windows", selected("›SLICE(ts)")),
    "a column computed twice": (
        "'y' is computed twice",
        f"SELECT n + 1 AS y, ›n + 2 AS y, sum(y) {W} AS s_1h FROM plays",
    ),
    # ---- frames of nothing, and of what is no number
    "rows before the future": (
        "ROWS without a whole number of rows",
        over("PARTITION BY user_id ORDER BY ts ›ROWS BETWEEN -1 PRECEDING AND CURRENT ROW"),
    ),
    "rows that end before the row": (
        "ROWS that end before the current row",
        over("PARTITION BY user_id ORDER BY ts ›ROWS BETWEEN 9 PRECEDING AND 1 PRECEDING"),
    ),
    "rows without some": (
        "ROWS with EXCLUDE",
        over(
            "PARTITION BY user_id ORDER BY ts ›ROWS BETWEEN 9 PRECEDING AND CURRENT ROW "
            "EXCLUDE CURRENT ROW"
        ),
    ),
    "rows as text": (
        "ROWS without a whole number of rows",
        over("PARTITION BY user_id ORDER BY ts ›ROWS BETWEEN '5' PRECEDING AND CURRENT ROW"),
    ),
    "rows that are computed": (
        "ROWS without a whole number of rows",
        over("PARTITION BY user_id ORDER BY ts ›ROWS BETWEEN 1 + 1 PRECEDING AND CURRENT ROW"),
    ),
    "the current row alone": (
        "begins at CURRENT ROW",
        over("PARTITION BY user_id ORDER BY ts ›ROWS BETWEEN CURRENT ROW AND CURRENT ROW"),
    ),
    "a range of nothing": (
        "a length of nothing",
        over(
            "PARTITION BY user_id ORDER BY ts RANGE BETWEEN INTERVAL ›'0' HOUR PRECEDING AND "
            "CURRENT ROW"
        ),
    ),
    "BETWEEN without AND": (
        "BETWEEN has no AND",
        over("PARTITION BY user_id ORDER BY ts ›RANGE BETWEEN INTERVAL '1' HOUR PRECEDING"),
    ),
    # ---- windows that nobody uses
    **{
        f"an unused window {what}": (message, f"{COUNTED} WINDOW w AS ({inside})")
        for what, message, inside in (
            (
                "of an unknown column",
                "unknown column 'nope'",
                "PARTITION BY ›nope ORDER BY ts ROWS 3 PRECEDING",
            ),
            (
                "over another time",
                "ORDER BY is not the event time",
                "ORDER BY ›other ROWS 3 PRECEDING",
            ),
            (
                "of a month",
                "a month has no fixed length",
                "ORDER BY ts RANGE INTERVAL ›'1' MONTH PRECEDING",
            ),
            ("of a window that is none", "unknown window 'v'", "›v ORDER BY ts ROWS 3 PRECEDING"),
            ("of itself", "names itself", "›w ORDER BY ts"),
        )
    },
    "windows that differ in case": (
        "'W' is defined twice",
        f"{COUNTED} WINDOW w AS (PARTITION BY user_id), ›W AS (PARTITION BY song)",
    ),
    # ---- names that SQL cannot tell apart, and what concerns a whole view
    "features that differ in case": (
        "'n' and 'N' differ in case only",
        f"SELECT user_id, count(*) {W} AS n_1h, sum(n) {W} AS ›N_1h FROM plays",
    ),
    "views that differ in case": (
        "views 'v' and 'V' differ in case only",
        f"{V} AS {COUNTED};\nCREATE FEATURE VIEW ›V AS {COUNTED}",
    ),
    "a view declared twice": (
        "view 'v' is declared twice",
        f"{V} AS {COUNTED};\nCREATE FEATURE VIEW ›v AS {COUNTED}",
    ),
    "sources that differ in case": (
        "sources 'plays' and 'Plays' differ in case only",
        (
            "CREATE SOURCE ›Plays (user_id STRING, ts TIMESTAMP_US) WITH (timestamp = 'ts', topic "
            "= 'x')"
        ),
    ),
    "an owner that is nobody": (
        "owner is ''",
        f"{V} WITH (slice = '1m', ›owner = '') AS SELECT user_id, count(*) {W} AS n_1h FROM plays",
    ),
    "a slice that is no duration": (
        "'soon' is no duration",
        (
            f"{V} WITH (owner = 'me', ›slice = 'soon') AS SELECT user_id, count(*) {W} AS n_1h "
            "FROM plays"
        ),
    ),
    "an entity column twice": (
        "'user_id' stands twice",
        (
            "SELECT user_id, count(*) AS n FROM plays GROUP BY ›user_id, user_id, TUMBLE(ts, "
            "INTERVAL '1' HOUR)"
        ),
    ),
    "a condition that ends too soon": (
        "something is missing",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays WHERE liked ›OR",
    ),
    "a parameter twice": (
        "'k stands twice'"[1:-1],
        selected(f"last_k(song, k => 1, k => ›2) {W} AS x_1h"),
    ),
    "a value behind a parameter": (
        "after a named argument",
        selected(f"last_k(k => 1, ›song) {W} AS x_1h"),
    ),
    "a frame without PRECEDING": (
        "does not say PRECEDING",
        over("PARTITION BY user_id ORDER BY SLICE(ts) ›RANGE INTERVAL '1' HOUR"),
    ),
    # ---- commas and parentheses
    "a comma too many": ("beside this comma", f"SELECT user_id, count(*) {W} AS n_1h›, FROM plays"),
    "a comma too many in a window": (
        "beside this comma",
        over("PARTITION BY user_id›, ORDER BY SLICE(ts) ROWS 3"),
    ),
    "a comma too many in a function": ("beside this comma", selected(f"sum(n›,) {W} AS x_1h")),
    "nothing selected": ("nothing stands behind SELECT", "›SELECT FROM plays"),
    "a parenthesis left open": ("never closed", selected(f"sum›(n {W} AS x_1h")),
    "a parenthesis closed twice": ("never opened", selected(f"sum(n)›) {W} AS x_1h")),
    # ---- row logic
    "row logic that is not on the list": (
        "LOWER is not on the list",
        selected(f"count(›lower(song)) {W} AS x_1h"),
    ),
    "row logic in WHERE": (
        "a condition is boolean",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays WHERE ›seconds",
    ),
    "an aggregate in an aggregate": (
        "max is an aggregate",
        selected(f"sum(›max(seconds) + 1) {W} AS x_1h"),
    ),
    "an unknown column in WHERE": (
        "unknown column 'secs'",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays\nWHERE liked AND\n  ›secs > 3",
    ),
    "a clock": ("a clock is not row logic", selected("›n < current_timestamp AS recent")),
    # ---- what is selected
    "everything": ("* is no list", "SELECT ›*, count(*) AS n_1h FROM plays"),
    "nothing kept": ("no feature", "›SELECT user_id FROM plays"),
    "another column": ("neither the entity nor a feature", selected("›song")),
    "a renamed entity": ("under another name", selected("›user_id AS who")),
    "an aggregate without window": ("no window", "SELECT user_id, ›count(*) AS n_1h FROM plays"),
    "an expression over features": (
        "expression over features",
        selected(f"›sum(n) {W} / count(*) {W} AS x_1h"),
    ),
    "an expression without name": ("without a name", selected("›seconds / 60")),
    "a name without window": (
        "named by its window",
        f"SELECT user_id, count(*) {W} AS ›plays FROM plays",
    ),
    "a name with another window": (
        "named by its window",
        f"SELECT user_id, count(*) {W} AS ›plays_2h FROM plays",
    ),
    "one name for two aggregates": ("the feature 'plays' is", selected(f"sum(n) {W} AS ›plays_1h")),
    "one column twice": ("stands twice", selected(f"count(*) {W} AS ›plays_1h")),
    "a subquery as a value": ("", selected("›(SELECT 1) AS x")),
    "everything of the source": ("* is no list", "SELECT ›plays.*, count(*) AS n_1h FROM plays"),
    # ---- windows
    "no PARTITION BY": (
        "there is no entity",
        over(
            "›ORDER BY SLICE(ts) RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"
        ).replace("(›", "›("),
    ),
    "ORDER BY another time": (
        "not the event time",
        over("PARTITION BY user_id ORDER BY ›other RANGE INTERVAL '1' HOUR PRECEDING"),
    ),
    "ORDER BY the slice of another time": (
        "not the event time",
        over("PARTITION BY user_id ORDER BY ›SLICE(other) RANGE INTERVAL '1' HOUR PRECEDING"),
    ),
    "ORDER BY backwards": (
        "DESC",
        over("PARTITION BY user_id ORDER BY ›SLICE(ts) DESC RANGE INTERVAL '1' HOUR PRECEDING"),
    ),
    "no ORDER BY": ("no ORDER BY", over("PARTITION BY user_id").replace("OVER (", "OVER ›(")),
    "no frame": (
        "no frame",
        over("PARTITION BY user_id ORDER BY SLICE(ts)").replace("OVER (", "OVER ›("),
    ),
    "an unbounded frame": (
        "all events for ever",
        over("PARTITION BY user_id ORDER BY ts ›RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    ),
    "unbounded rows": (
        "all events for ever",
        over("PARTITION BY user_id ORDER BY ts ›ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    ),
    "a frame into the future": (
        "the future",
        over(
            "PARTITION BY user_id ORDER BY SLICE(ts) RANGE BETWEEN CURRENT ROW AND INTERVAL "
            "'1' HOUR ›FOLLOWING"
        ),
    ),
    "a frame without end": (
        "the future",
        over(
            "PARTITION BY user_id ORDER BY SLICE(ts) RANGE BETWEEN INTERVAL '1' HOUR "
            "PRECEDING AND UNBOUNDED ›FOLLOWING"
        ),
    ),
    "a frame that ends first": (
        "ends before it begins",
        over(
            "PARTITION BY user_id ORDER BY SLICE(ts) "
            "›RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND INTERVAL '2' HOUR PRECEDING"
        ),
    ),
    "groups": (
        "groups of peers",
        over("PARTITION BY user_id ORDER BY SLICE(ts) ›GROUPS 3 PRECEDING"),
    ),
    "rows of slices": (
        "ROWS over SLICE(ts): slices know no single rows",
        over("PARTITION BY user_id ORDER BY SLICE(ts) ›ROWS 3 PRECEDING"),
    ),
    "exclude": (
        "EXCLUDE",
        over(
            "PARTITION BY user_id ORDER BY SLICE(ts) ›RANGE INTERVAL '1' HOUR PRECEDING "
            "EXCLUDE CURRENT ROW"
        ),
    ),
    "an exact window without its row": (
        "no exact window leaves that out",
        over("PARTITION BY user_id ORDER BY ts ›RANGE INTERVAL '1' HOUR PRECEDING EXCLUDE TIES"),
    ),
    "a month": (
        "no fixed length",
        over("PARTITION BY user_id ORDER BY SLICE(ts) RANGE INTERVAL ›'1' MONTH PRECEDING"),
    ),
    "half an hour as a fraction": (
        "no length",
        over("PARTITION BY user_id ORDER BY SLICE(ts) RANGE INTERVAL ›'0.5' HOUR PRECEDING"),
    ),
    "a number as a length": (
        "no length",
        over("PARTITION BY user_id ORDER BY SLICE(ts) RANGE ›3 PRECEDING"),
    ),
    "a window under ten slices": (
        "no slice fits",
        over(
            "PARTITION BY user_id ORDER BY SLICE(ts) ›RANGE INTERVAL '15' MILLISECOND PRECEDING"
        ).replace("1h", "15ms"),
    ),
    "an unknown window": (
        "unknown window 'v'",
        "SELECT user_id, count(*) OVER ›v AS n_1h FROM plays",
    ),
    "a window of itself": (
        "names itself",
        "SELECT user_id, count(*) OVER w AS n_1h FROM plays WINDOW w AS (›w ORDER BY SLICE(ts))",
    ),
    "two partitions": (
        "PARTITION BY is song here",
        selected(
            "count(*) OVER ›(PARTITION BY song ORDER BY SLICE(ts) RANGE INTERVAL '1' HOUR "
            "PRECEDING) AS other_1h"
        ),
    ),
    "a computed entity": (
        "columns of the source",
        over(
            "PARTITION BY ›song || 'x' ORDER BY SLICE(ts) RANGE INTERVAL '1' HOUR PRECEDING"
        ).replace("user_id, ", ""),
    ),
    "an entity of doubles": (
        "the entity column 'seconds' is double",
        "CREATE FEATURE VIEW v AS "
        + over(
            "PARTITION BY ›seconds ORDER BY SLICE(ts) RANGE INTERVAL '1' HOUR PRECEDING"
        ).replace("user_id, ", ""),
    ),
    # ---- GROUP BY
    "groups without window": (
        "GROUP BY has no window",
        f"{N} GROUP BY ›user_id",
    ),
    "OVER and GROUP BY": (
        "OVER beside GROUP BY",
        (
            f"SELECT user_id, ›count(*) {W} AS n_1h FROM plays GROUP BY user_id, TUMBLE(ts, "
            "INTERVAL '1' HOUR)"
        ),
    ),
    "two windows": (
        "second window",
        f"{N} GROUP BY user_id, TUMBLE(ts, INTERVAL '1' HOUR), ›TUMBLE(ts, INTERVAL '1' DAY)",
    ),
    "a hop longer than its window": (
        "misses events",
        (
            "SELECT count(*) AS n FROM plays GROUP BY user_id, ›HOP(ts, INTERVAL '1' HOUR, "
            "INTERVAL '10' MINUTE)"
        ),
    ),
    "a hop that its window is no multiple of": (
        "SQL's would begin at each multiple of the hop, ours end there",
        (
            "SELECT count(*) AS n FROM plays GROUP BY user_id, ›HOP(ts, INTERVAL '25' MINUTE, "
            "INTERVAL '1' HOUR)"
        ),
    ),
    "a window over another time": (
        "not over the event time",
        "SELECT count(*) AS n FROM plays GROUP BY user_id, TUMBLE(›other, INTERVAL '1' HOUR)",
    ),
    "no such group window": (
        "no window of GROUP BY",
        "SELECT count(*) AS n FROM plays GROUP BY user_id, ›CUMULATE(ts, INTERVAL '1' HOUR)",
    ),
    "roll-ups": (
        "ROLLUP",
        "SELECT count(*) AS n FROM plays GROUP BY ›ROLLUP (user_id), TUMBLE(ts, INTERVAL '1' HOUR)",
    ),
    "the bounds of a window": (
        "window's start and end",
        (
            "SELECT ›TUMBLE_START(ts, INTERVAL '1' HOUR) AS s FROM plays GROUP BY user_id, "
            "TUMBLE(ts, INTERVAL '1' HOUR)"
        ),
    ),
    # ---- clauses
    "distinct rows": (
        "one row per entity",
        f"SELECT ›DISTINCT user_id, count(*) {W} AS n_1h FROM plays",
    ),
    "a join": (
        "JOIN",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays ›JOIN users USING (user_id)",
    ),
    "a left join": (
        "JOIN",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays LEFT ›JOIN users ON true",
    ),
    "two sources": ("and nothing else", f"SELECT user_id, count(*) {W} AS n_1h FROM plays›, users"),
    "a subquery": (
        "a subquery",
        f"SELECT user_id, count(*) {W} AS n_1h FROM ›(SELECT * FROM plays)",
    ),
    "an alias of the source": (
        "and nothing else",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays ›p",
    ),
    "a function as a source": (
        "no function",
        f"SELECT user_id, count(*) {W} AS n_1h FROM ›TABLE(TUMBLE(TABLE plays))",
    ),
    "having": (
        "HAVING",
        "SELECT user_id, count(*) AS n FROM plays GROUP BY user_id ›HAVING count(*) > 3",
    ),
    "qualify": ("QUALIFY", f"SELECT user_id, count(*) {W} AS n_1h FROM plays ›QUALIFY n_1h > 3"),
    "limit": ("LIMIT", f"SELECT user_id, count(*) {W} AS n_1h FROM plays ›LIMIT 10"),
    "an order": (
        "ORDER BY of rows",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays ›ORDER BY n_1h",
    ),
    "a union": (
        "one SELECT",
        f"SELECT user_id, count(*) {W} AS n_1h FROM plays ›UNION ALL SELECT 1",
    ),
    "a common table expression": (
        "query in a query",
        "›WITH x AS (SELECT 1) SELECT user_id FROM x",
    ),
    "no FROM": ("FROM is missing", f"SELECT user_id, count(*) {W} AS n_1h›"),
    "an unknown source": (
        "unknown source 'pays'",
        f"SELECT user_id, count(*) {W} AS n_1h FROM ›pays",
    ),
    "no SQL": ("no SQL", "SELECT user_id, count(*) OVER (PARTITION ›user_id) AS n_1h FROM plays"),
    "an open quote": ("inside a quote", "SELECT user_id FROM plays WHERE song = ›'abc"),
    "another statement": ("no statement of a definition", "›DROP TABLE plays"),
    "a plain view": ("no definition", "CREATE ›VIEW v AS SELECT 1"),
    "a replaced view": ("nothing to replace", "CREATE ›OR REPLACE FEATURE VIEW v AS SELECT 1"),
    "a view without query": ("SELECT is missing", "CREATE FEATURE VIEW v›"),
    "a feature without name": (
        "a feature has a name",
        f"CREATE FEATURE VIEW v AS SELECT ›count(*) {W} FROM plays",
    ),
    "an unknown option": (
        "unknown option 'slize'",
        f"{V} WITH (›slize = '1m') AS {N}",
    ),
    "a slice that does not divide": (
        "not divisible",
        "CREATE FEATURE VIEW v WITH (slice = '15m') AS "
        + over(
            "PARTITION BY user_id ORDER BY SLICE(ts) ›RANGE INTERVAL '20' MINUTE PRECEDING"
        ).replace("1h", "20m"),
    ),
    "a global view with an entity": (
        "has no entity",
        f"CREATE FEATURE VIEW v WITH (›global = TRUE) AS SELECT count(*) {W} AS n_1h FROM plays",
    ),
    "no truth": (
        "no truth value",
        f"{V} WITH (spread = ›1) AS SELECT count(*) {W} AS n_1h FROM plays",
    ),
    # ---- sources
    "a source without time": ("which column is the event time", "CREATE SOURCE ›s (a STRING)"),
    "expectations that are no JSON": (
        "expect is no JSON",
        f"{V} WITH (expect = ›'many') AS SELECT user_id, count(*) {W} AS n_1h FROM plays",
    ),
    "an expectation that does not exist": (
        "is no expectation",
        """CREATE SOURCE s (a BIGINT, t TIMESTAMP_MS) WITH (timestamp = 't',
          expect = ›'[{"type": "expect_column_values_to_be_betwen", "kwargs": {"column": "a"}}]')""",
    ),
    "an expectation of another column": (
        "names 'm_1h', which is no column",
        f"""{V} WITH (expect = ›'[{{"type": "expect_column_values_to_not_be_null",
          "kwargs": {{"column": "m_1h"}}}}]') AS SELECT user_id, count(*) {W} AS n_1h FROM plays""",
    ),
    "an expectation of no column": (
        "names no column",
        f"""{V} WITH (expect = ›'[{{"type": "expect_table_row_count_to_be_between",
          "kwargs": {{"min_value": 1}}}}]') AS SELECT user_id, count(*) {W} AS n_1h FROM plays""",
    ),
    "descriptions that are no JSON": (
        "describe is no JSON",
        f"{V} WITH (describe = ›'many') AS SELECT user_id, count(*) {W} AS n_1h FROM plays",
    ),
    "descriptions that are no texts": (
        "describe is no object of texts",
        f"""{V} WITH (describe = ›'{{"n_1h": 1}}')
          AS SELECT user_id, count(*) {W} AS n_1h FROM plays""",
    ),
    "a description of another column": (
        "describe names 'm_1h', which is no column",
        f"""{V} WITH (describe = ›'{{"m_1h": "plays"}}')
          AS SELECT user_id, count(*) {W} AS n_1h FROM plays""",
    ),
    "a time without form": (
        "no column type",
        "CREATE SOURCE s (a ›TIMESTAMP(3)) WITH (timestamp = 'a')",
    ),
    "an integer of which width": (
        "8 bytes",
        "CREATE SOURCE s (a ›INT8, t TIMESTAMP_MS) WITH (timestamp = 't')",
    ),
    "a path that is none": (
        "PATH says",
        "CREATE SOURCE s (a BIGINT ›PATH, t TIMESTAMP_MS) WITH (timestamp = 't')",
    ),
    "a path into an array": (
        "no path",
        "CREATE SOURCE s (t TIMESTAMP_MS, ›a BIGINT PATH '$.x[0]') WITH (timestamp = 't')",
    ),
    "a place inside of another's": (
        "stand at one place",
        (
            "CREATE SOURCE s (t TIMESTAMP_MS, a STRING PATH '$.x', ›b STRING PATH '$.x.y') WITH "
            "(timestamp = 't')"
        ),
    ),
    "two paths of one column": (
        "PATH stands twice",
        "CREATE SOURCE s (t TIMESTAMP_MS, a STRING ›PATH '$.x' PATH '$.y') WITH (timestamp = 't')",
    ),
    "a text of a length": (
        "no column type",
        "CREATE SOURCE s (a ›VARCHAR(9), t TIMESTAMP_MS) WITH (timestamp = 't')",
    ),
    "a structure": (
        "no column type",
        "CREATE SOURCE s (a ›STRUCT<b INT>, t TIMESTAMP_MS) WITH (timestamp = 't')",
    ),
    "arrays of instants": (
        "no column type",
        "CREATE SOURCE s (a ›ARRAY<TIMESTAMP_MS>, t TIMESTAMP_MS) WITH (timestamp = 't')",
    ),
    "a default": (
        "no column type",
        "CREATE SOURCE s (a ›INT DEFAULT 1, t TIMESTAMP_MS) WITH (timestamp = 't')",
    ),
    "a key of a source": (
        "not declared here",
        "CREATE SOURCE s (t TIMESTAMP_MS, ›PRIMARY KEY (t)) WITH (timestamp = 't')",
    ),
    "instants in two forms": (
        "different forms",
        "CREATE SOURCE s (t TIMESTAMP_MS, ›u TIMESTAMP_RFC3339) WITH (timestamp = 't')",
    ),
    "a name of the platform": (
        "adds itself",
        "CREATE SOURCE s (t TIMESTAMP_MS, ›kafka_time BIGINT) WITH (timestamp = 't')",
    ),
    "an event time that is none": (
        "is string",
        "CREATE SOURCE s (a STRING) WITH (timestamp = ›'a')",
    ),
    "nan of a text": (
        "allow_nan names",
        "CREATE SOURCE s (a STRING, t TIMESTAMP_MS) WITH (timestamp = 't', allow_nan = ›'a')",
    ),
    "avro without a registry": (
        "registry None",
        "CREATE SOURCE s (t TIMESTAMP_MS) WITH (timestamp = 't', format = ›'avro')",
    ),
    "a watermark": (
        "WATERMARK",
        (
            "CREATE SOURCE s (a TIMESTAMP_MS, ›WATERMARK FOR a AS a - INTERVAL '5' SECOND) WITH "
            "(timestamp = 'a')"
        ),
    ),
    "another connector": (
        "connector 'jdbc'",
        "CREATE SOURCE s (a TIMESTAMP_MS) WITH (connector = ›'jdbc')",
    ),
    "brokers in a definition": (
        "unknown option",
        (
            "CREATE SOURCE s (a TIMESTAMP_MS) WITH (›'properties.bootstrap.servers' = 'x:9092', "
            "timestamp = 'a')"
        ),
    ),
    "a lateness that is none": (
        "no duration",
        "CREATE SOURCE s (a TIMESTAMP_MS) WITH (timestamp = 'a', max_lateness = ›'soon')",
    ),
    "a source twice": (
        "declared twice",
        "CREATE SOURCE ›plays (a TIMESTAMP_MS) WITH (timestamp = 'a')",
    ),
}
