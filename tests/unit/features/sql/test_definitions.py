"""A view has one fingerprint, whether it is written in SQL or in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.features.rowlogic.reader import parse_expression
from slicewise.features.sql.python_form import python_form
from tests.support.inputs import rowlogic_vectors

PLAYS = sw.KafkaSource(
    "plays",
    schema={
        "user_id": "string",
        "song": "string",
        "seconds": "double",
        "liked": "boolean",
        "n": "long",
        "price": "decimal(9,2)",
        "ts": "timestamp_us",
    },
    timestamp="ts",
)
HOUR = (
    "OVER (PARTITION BY user_id ORDER BY SLICE(ts) RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND "
    "CURRENT ROW)"
)


def deployed(*views: sw.FeatureView) -> Deployment:
    return plan(Project.of("project", views))


def fingerprints(view: sw.FeatureView) -> list[tuple[str, str]]:
    return [
        (unit.storage_fingerprint, unit.definition_fingerprint) for unit in deployed(view).units
    ]


def view(*features: sw.Feature, **more: object) -> sw.FeatureView:
    return sw.FeatureView("v", source=PLAYS, entity=["user_id"], features=features, **more)  # type: ignore[arg-type]


def one(sql: str, aggregate: object, windows: object = ("1h",)) -> tuple[str, sw.FeatureView]:
    return (
        f"CREATE FEATURE VIEW v AS SELECT user_id, {sql} {HOUR} AS x_1h FROM plays",
        view(sw.Feature("x", aggregate, windows)),  # type: ignore[arg-type]
    )


PAIRS: dict[str, tuple[str, sw.FeatureView]] = {
    "count": one("count(*)", sw.count()),
    "count of one": one("COUNT(1)", sw.count()),
    "count of a column": one("count(song)", sw.count("song")),
    "count distinct": one("count(DISTINCT song)", sw.distinct_count("song")),
    "approx_count_distinct": one("approx_count_distinct(song)", sw.distinct_count("song")),
    "distinct_count": one(
        "distinct_count(song, threshold => 9, precision => 10)",
        sw.distinct_count("song", threshold=9, precision=10),
    ),
    "count with a condition": one("count(*) FILTER (WHERE liked)", sw.count(where="liked")),
    "sum with a condition": one(
        "sum(n) FILTER (WHERE n > 3 AND liked)", sw.sum("n", where="n > 3 AND liked")
    ),
    "count_if": one("count_if(n > 3)", sw.count(where="n > 3")),
    "count_if with a condition": one(
        "count_if(n > 3 OR liked) FILTER (WHERE n < 9)",
        sw.count(where="(n > 3 OR liked) AND (n < 9)"),
    ),
    "stddev_samp": one("stddev_samp(seconds)", sw.stddev("seconds")),
    "stddev": one("stddev(seconds)", sw.stddev("seconds")),
    "stddev_pop": one("stddev_pop(seconds)", sw.stddev("seconds", population=True)),
    "var_samp": one("var_samp(n)", sw.variance("n")),
    "var_pop": one("var_pop(n)", sw.variance("n", population=True)),
    "covar_pop": one("covar_pop(n, seconds)", sw.covariance("n", "seconds", population=True)),
    "corr": one("corr(n, seconds)", sw.correlation("n", "seconds")),
    "skewness": one("skewness(n)", sw.skewness("n")),
    "a bucketed sum": one("bucketed(sum(n), by => song)", sw.bucketed(sw.sum("n"), by="song")),
    "a bucketed sum with a condition": one(
        "bucketed(sum(n) FILTER (WHERE liked), by => song)",
        sw.bucketed(sw.sum("n", where="liked"), by="song"),
    ),
    "a bucketed condition": one(
        "bucketed(count_if(liked), by => song)", sw.bucketed(sw.count(where="liked"), by="song")
    ),
    "a length in an aggregate": one(
        "decay_sum(n, half_life => INTERVAL '5' MINUTE)", sw.decay_sum("n", half_life="5m")
    ),
    "regr_slope": one("regr_slope(seconds, n)", sw.linear_trend("seconds", over="n")),
    "regr_r2": one("regr_r2(seconds, n)", sw.linear_trend("seconds", over="n", output="r2")),
    "sum": one("SUM(n)", sw.sum("n")),
    "sum of decimals": one("sum(price)", sw.sum("price")),
    "avg": one("avg(seconds)", sw.mean("seconds")),
    "mean": one("mean(seconds)", sw.mean("seconds")),
    "min": one("min(song)", sw.min("song")),
    "max": one("max(ts)", sw.max("ts")),
    "max_by": one("max_by(song, seconds)", sw.argmax("song", by="seconds")),
    "arg_min": one("arg_min(song, seconds)", sw.argmin("song", by="seconds")),
    "top_k": one("top_k(song, by => seconds, k => 3)", sw.top_k("song", by="seconds", k=3)),
    "bottom_k": one(
        "bottom_k(song, k => 3, by => seconds)", sw.bottom_k("song", by="seconds", k=3)
    ),
    "last_k": one("last_k(song, k => 3)", sw.last_k("song", k=3)),
    "first_value": one("first_value(song IGNORE NULLS)", sw.first("song")),
    "last_value": one("last_value(song) IGNORE NULLS", sw.last("song")),
    "bool_and": one("bool_and(liked)", sw.bool_and("liked")),
    "every": one("every(liked)", sw.bool_and("liked")),
    "any": one("any(liked)", sw.bool_or("liked")),
    "logical_or": one("logical_or(liked)", sw.bool_or("liked")),
    "approx_percentile": one(
        "approx_percentile(seconds, ARRAY[0.5, 0.9])", sw.quantiles("seconds", q=[0.5, 0.9])
    ),
    "exact": (
        """CREATE FEATURE VIEW v AS SELECT user_id,
           avg(seconds) OVER (PARTITION BY user_id ORDER BY ts RANGE BETWEEN INTERVAL '3' HOUR PRECEDING
                              AND CURRENT ROW) AS basket_exact_3h,
           sum(n) OVER (PARTITION BY user_id ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING
                        AND CURRENT ROW EXCLUDE GROUP) AS n_exact_1h_left
           FROM plays""",
        view(
            sw.Feature("basket", sw.mean("seconds"), [sw.exact_range("3h")]),
            sw.Feature("n", sw.sum("n"), [sw.exact_range("1h", closed="left")]),
        ),
    ),
    "exact, of a day ago": (
        """CREATE FEATURE VIEW v AS SELECT user_id, sum(n) OVER (PARTITION BY user_id ORDER BY ts
           RANGE BETWEEN INTERVAL '25' HOUR PRECEDING AND INTERVAL '1' DAY PRECEDING) AS n_exact_1h_offset_1d
           FROM plays""",
        view(sw.Feature("n", sw.sum("n"), [sw.exact_range("1h", offset="1d")])),
    ),
    "rows": (
        """CREATE FEATURE VIEW v AS SELECT user_id,
           sum(n) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS n_rows_10
           FROM plays""",
        view(sw.Feature("n", sw.sum("n"), [sw.rows(10)])),
    ),
    "several windows, named": (
        """CREATE FEATURE VIEW v AS
           SELECT user_id, ts, count(*) OVER short AS plays_60m, count(*) OVER (long) AS plays_7d,
                  sum(n) OVER (base RANGE INTERVAL '90 minutes' PRECEDING) AS n_90m
           FROM plays
           WINDOW short AS (base RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW),
                  long AS (base RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW),
                  base AS (PARTITION BY user_id ORDER BY SLICE(ts))""",
        view(sw.Feature("plays", sw.count(), ["60m", "7d"]), sw.Feature("n", sw.sum("n"), ["90m"])),
    ),
    "a window of yesterday": (
        """CREATE FEATURE VIEW v AS SELECT count(*) OVER (PARTITION BY user_id ORDER BY SLICE(ts)
           RANGE BETWEEN INTERVAL '25' HOUR PRECEDING AND INTERVAL '1' DAY PRECEDING) AS n_1h_offset_1d FROM plays""",
        view(sw.Feature("n", sw.count(), [sw.sliding("1h", offset="1d")])),
    ),
    "all events": (
        """CREATE FEATURE VIEW v AS SELECT user_id,
             count(*) OVER (PARTITION BY user_id ORDER BY SLICE(ts) RANGE UNBOUNDED PRECEDING) AS n_lifetime,
             sum(n) OVER (PARTITION BY user_id ORDER BY SLICE(ts)
               RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '1' DAY PRECEDING) AS sum_lifetime_offset_1d
           FROM plays""",
        view(
            sw.Feature("n", sw.count(), ["lifetime"]),
            sw.Feature("sum", sw.sum("n"), [sw.lifetime(offset="1d")]),
        ),
    ),
    "tumbling": (
        """CREATE FEATURE VIEW v AS SELECT user_id, count(*) AS n_tumbling_1h FROM plays
           GROUP BY user_id, TUMBLE(ts, INTERVAL '1' HOUR)""",
        view(sw.Feature("n", sw.count(), [sw.tumbling("1h")])),
    ),
    "tumbling, open": (
        """CREATE FEATURE VIEW v AS SELECT user_id, count(*) AS n_tumbling_60m_open FROM plays
           GROUP BY TUMBLE(ts, INTERVAL '1' HOUR, open => TRUE), user_id""",
        view(sw.Feature("n", sw.count(), [sw.tumbling("60m", open=True)])),
    ),
    "hopping": (
        """CREATE FEATURE VIEW v AS SELECT user_id, avg(seconds) AS x_hopping_1h_10m FROM plays
           GROUP BY user_id, HOP(ts, INTERVAL '10' MINUTE, INTERVAL '1' HOUR)""",
        view(sw.Feature("x", sw.mean("seconds"), [sw.hopping("1h", every="10m")])),
    ),
    "hopping, shifted back": (
        """CREATE FEATURE VIEW v AS SELECT user_id, avg(seconds) AS x_hopping_1h_10m_offset_1d FROM plays
           GROUP BY user_id, HOP(ts, INTERVAL '10' MINUTE, INTERVAL '1' HOUR, offset => INTERVAL '1' DAY)""",
        view(sw.Feature("x", sw.mean("seconds"), [sw.hopping("1h", every="10m", offset="1d")])),
    ),
    "sessions": (
        """CREATE FEATURE VIEW v AS SELECT user_id, count(*) AS n_session_30m FROM plays
           GROUP BY user_id, SESSION(ts, INTERVAL '30' MINUTE, INTERVAL '1' DAY)""",
        view(sw.Feature("n", sw.count(), [sw.session("30m", max_length="1d")])),
    ),
    "sessions, shifted back": (
        """CREATE FEATURE VIEW v AS SELECT user_id, count(*) AS n_session_30m_offset_1h FROM plays
           GROUP BY user_id, SESSION(ts, INTERVAL '30' MINUTE, max_length => INTERVAL '1' DAY,
                                     offset => INTERVAL '1' HOUR)""",
        view(sw.Feature("n", sw.count(), [sw.session("30m", max_length="1d", offset="1h")])),
    ),
    "row logic": (
        f"""CREATE FEATURE VIEW v AS SELECT user_id, seconds / 60 AS minutes, coalesce(n, 0) > 3 AS many,
              sum(minutes) {HOUR} AS minutes_1h, bool_or(many) {HOUR} AS many_1h
            FROM plays WHERE seconds >= 30 AND (liked IS NOT NULL OR song IN ('a', 'it''s')) -- and nothing else""",
        view(
            sw.Feature("minutes", sw.sum("minutes"), ["1h"]),
            sw.Feature("many", sw.bool_or("many"), ["1h"]),
            where="seconds >= 30 AND (liked IS NOT NULL OR song IN ('a', 'it''s'))",
            columns={"minutes": "seconds / 60", "many": "COALESCE(n, 0) > 3"},
        ),
    ),
    "options": (
        """CREATE FEATURE VIEW v WITH (slice = '1m', spread = TRUE, owner = 'music') AS
           SELECT user_id, count(*) AS n_tumbling_1h FROM plays GROUP BY user_id, TUMBLE(ts, INTERVAL '1' HOUR)""",
        view(
            sw.Feature("n", sw.count(), [sw.tumbling("1h")]), slice="1m", spread=True, owner="music"
        ),
    ),
    "a global view": (
        """CREATE FEATURE VIEW v WITH (global = TRUE) AS
           SELECT count(*) OVER (ORDER BY SLICE(ts) RANGE INTERVAL '1' HOUR PRECEDING) AS n_1h FROM plays""",
        sw.FeatureView(
            "v", source=PLAYS, entity=[], features=[sw.Feature("n", sw.count(), ["1h"])]
        ),
    ),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_both_forms_are_one_definition(name: str) -> None:
    text, python = PAIRS[name]
    assert fingerprints(sw.sql(text, sources=[PLAYS])) == fingerprints(python)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_the_python_that_is_printed_is_the_same_definition(name: str) -> None:
    made = sw.sql(PAIRS[name][0], sources=[PLAYS])
    scope: dict[str, object] = {"sw": sw}
    exec(python_form(made), scope)
    (again,) = (value for value in scope.values() if isinstance(value, sw.FeatureView))
    assert deployed(again).digest == deployed(made).digest


def test_a_computed_column_without_a_name_is_shared_by_equal_expressions() -> None:
    made = sw.sql(
        (
            f"CREATE FEATURE VIEW v AS SELECT sum(seconds/60) {HOUR} AS a_1h, avg(seconds / 60.) "
            f"{HOUR} AS b_1h FROM plays"
        ),
        sources=[PLAYS],
    )
    (unit,) = deployed(made).units
    assert len(unit.columns) == 1
    assert len(unit.layout.partials) == 1


def test_a_source_in_sql_is_the_one_in_python() -> None:
    text = """
    CREATE SOURCE plays (
      user_id STRING NOT NULL, song VARCHAR, seconds DOUBLE PRECISION, liked BOOLEAN, n BIGINT, price DECIMAL(9, 2),
      ts TIMESTAMP_MS
    ) WITH ('connector' = 'kafka', topic = 'plays-v2', format = 'json', timestamp = 'ts', max_lateness = '7d',
            max_ahead = '5m', allow_nan = 'seconds', owner = 'music');
    CREATE FEATURE VIEW v AS
    SELECT user_id, count(*) AS n_tumbling_1h FROM plays GROUP BY user_id, TUMBLE(ts, INTERVAL '1' HOUR)
    """
    source = sw.KafkaSource(
        "plays",
        schema={
            "user_id": "string",
            "song": "string",
            "seconds": "double",
            "liked": "boolean",
            "n": "int64",
            "price": "decimal(9,2)",
            "ts": "timestamp_ms",
        },
        timestamp="ts",
        topic="plays-v2",
        required=["user_id"],
        max_lateness="7d",
        max_ahead="5m",
        allow_nan=["seconds"],
        owner="music",
    )
    python = sw.FeatureView(
        "v",
        source=source,
        entity=["user_id"],
        features=[sw.Feature("n", sw.count(), [sw.tumbling("1h")])],
    )
    assert deployed(sw.sql(text)).digest == deployed(python).digest


def test_a_source_in_sql_has_every_type_paths_and_formats() -> None:
    text = """
    CREATE SOURCE s (
      user_id STRING NOT NULL PATH '$.user.id', born DATE, tags ARRAY<STRING>, small TINYINT, ratio FLOAT
    ) WITH (timestamp = 'kafka', format = 'avro', registry = 'http://127.0.0.1:1');
    CREATE FEATURE VIEW v AS
    SELECT user_id, count(*) OVER (PARTITION BY user_id ORDER BY SLICE(kafka) RANGE INTERVAL '1' HOUR PRECEDING) AS n_1h
    FROM s
    """
    source = sw.KafkaSource(
        "s",
        schema={
            "user_id": "string",
            "born": "date",
            "tags": "array<string>",
            "small": "int8",
            "ratio": "float",
        },
        timestamp="kafka",
        required=["user_id"],
        paths={"user_id": "$.user.id"},
        format="avro",
        registry="http://127.0.0.1:1",
    )
    python = sw.FeatureView(
        "v",
        source=source,
        entity=["user_id"],
        features=[sw.Feature("n", sw.count(), windows=["1h"])],
    )
    made = sw.sql(text)
    assert deployed(made).digest == deployed(python).digest
    scope: dict[str, object] = {"sw": sw}
    exec(python_form(made), scope)
    (again,) = (value for value in scope.values() if isinstance(value, sw.FeatureView))
    assert deployed(again).digest == deployed(made).digest


TYPES = {
    "STRING": "string", "varchar": "string", "BIGINT": "int64", "INT": "int32", "SMALLINT": "int16", "TINYINT": "int8",
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "DOUBLE  PRECISION": "double", "FLOAT": "float",
    "REAL": "float", "BOOLEAN": "boolean", "DATE": "date", "NUMERIC (9,2)": "decimal(9,2)",
    "DECIMAL(38, 10)": "decimal(38,10)", "TIMESTAMP_RFC3339": "timestamp_rfc3339", "STRING[]": "array<string>",
    "ARRAY<DECIMAL(10, 2)>": "array<decimal(10,2)>", "ARRAY < NUMERIC(3, 1) >": "array<decimal(3,1)>",
    "ARRAY<DOUBLE PRECISION>": "array<double>", "ARRAY<DATE>": "array<date>", "TINYINT[]": "array<int8>",
}  # fmt: skip
"""Names of column types in SQL, and in Python."""


def test_every_type_of_a_column_at_any_place_of_a_record_is_the_one_of_python() -> None:
    written = ",\n".join(
        f"c{i} {sql} {'NOT NULL ' * (i % 3 == 0)}PATH '$.at.c{i}'{' NULL' * (i % 3 == 1)}"
        for i, sql in enumerate(TYPES)
    )
    text = f"""
    CREATE SOURCE s ({written}, "select" TIMESTAMP_RFC3339 NOT NULL PATH '$[''@meta''].time')
    WITH (timestamp = 'select', allow_nan = 'c9');
    CREATE FEATURE VIEW v AS SELECT count(*)
    OVER (PARTITION BY c0 ORDER BY SLICE("select") RANGE INTERVAL '1' HOUR PRECEDING) AS n_1h FROM s
    """
    source = sw.KafkaSource(
        "s",
        schema={
            **{f"c{i}": kind for i, kind in enumerate(TYPES.values())},
            "select": "timestamp_rfc3339",
        },
        timestamp="select",
        paths={**{f"c{i}": f"$.at.c{i}" for i in range(len(TYPES))}, "select": "$['@meta'].time"},
        required=[*(f"c{i}" for i in range(0, len(TYPES), 3)), "select"],
        allow_nan=["c9"],
    )
    python = sw.FeatureView(
        "v", source=source, entity=["c0"], features=[sw.Feature("n", sw.count(), windows=["1h"])]
    )
    assert deployed(sw.sql(text)).digest == deployed(python).digest


def test_row_logic_in_sql_is_that_of_definitions() -> None:
    """Every vector of row logic's parity, as a computed column of one view."""
    source = sw.KafkaSource(
        "vectors", schema={**rowlogic_vectors.SCHEMA, "k": "string"}, timestamp="t"
    )
    columns = {f"c{i}": text for i, text in enumerate(rowlogic_vectors.EXPRESSIONS)}
    written = ",\n".join(f"{text} AS {name}" for name, text in columns.items())
    made = sw.sql(
        f"""CREATE FEATURE VIEW v AS SELECT {written}, count(*)
        OVER (PARTITION BY k ORDER BY SLICE(t) RANGE INTERVAL '1' HOUR PRECEDING) AS n_1h FROM vectors""",
        sources=[source],
    )
    assert len(columns) > 100
    for name, text in columns.items():
        theirs = parse_expression(text, rowlogic_vectors.SCHEMA, where="python")
        assert (
            parse_expression(str(made.columns[name]), rowlogic_vectors.SCHEMA, where="sql").tree
            == theirs.tree
        )


def test_sql_runs_the_cases_that_it_is_given() -> None:
    case = sw.case(
        events=[{"user_id": "a", "n": 3, "ts": 0}], at="1970-01-01T00:30:00Z", expect={"n_1h": 3}
    )
    made = sw.sql(
        f"CREATE FEATURE VIEW v AS SELECT sum(n) {HOUR} AS n_1h FROM plays",
        sources=[PLAYS],
        tests=[case],
    )
    assert made.tests == (case,)
    table = sw.evaluate(
        made,
        [{"user_id": "a", "n": 3, "ts": 0}],
        [{"user_id": "a", "at": "1970-01-01T00:30:00+00:00"}],
    )
    assert table["n_1h"].to_pylist() == [3]


# ---------------------------------------------------------------- projects
SQL_SOURCE = "CREATE SOURCE clicks (user_id STRING, ts TIMESTAMP_US) WITH (timestamp = 'ts');\n"
SQL_VIEW = (
    "CREATE FEATURE VIEW {} AS SELECT user_id, count(*) AS n_tumbling_1h FROM {} "
    "GROUP BY user_id, TUMBLE(ts, INTERVAL '1' HOUR);\n"
)
PYTHON = """import slicewise as sw
from pathlib import Path
clicks = sw.KafkaSource("clicks", schema={"user_id": "string", "ts": "timestamp_us"}, timestamp="ts")
"""


def test_a_project_may_be_a_file_of_sql(tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(
        SQL_SOURCE + SQL_VIEW.format("a", "clicks") + SQL_VIEW.format("b", "clicks")
    )
    project = load_project(tmp_path / "views.sql")
    assert [view.name for view in project.views] == ["a", "b"]
    assert [str(view.location) for view in project.views] == [
        f"{tmp_path}/views.sql:2:21",
        f"{tmp_path}/views.sql:3:21",
    ]
    assert [source.name for source in project.sources] == ["clicks"]


def test_a_folder_holds_python_and_sql_that_names_its_sources(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text(PYTHON)
    (tmp_path / "more.sql").write_text(SQL_VIEW.format("a", "clicks"))
    (tmp_path / "other.sql").write_text(SQL_VIEW.format("b", "clicks"))
    assert [view.name for view in load_project(tmp_path).views] == ["a", "b"]


def test_a_folder_may_be_sql_alone(tmp_path: Path) -> None:
    (tmp_path / "1_sources.sql").write_text(SQL_SOURCE)
    (tmp_path / "2_views.sql").write_text(SQL_VIEW.format("a", "clicks"))
    assert [view.name for view in load_project(tmp_path).views] == ["a"]


def test_python_reads_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(
        SQL_VIEW.format("a", "clicks") + SQL_VIEW.format("b", "clicks")
    )
    (tmp_path / "features.py").write_text(
        PYTHON + 'views = sw.sql_views(Path("views.sql"), sources=[clicks])\n'
    )
    assert [view.name for view in load_project(tmp_path / "features.py").views] == ["a", "b"]


def test_a_select_alone_is_no_definition(tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(
        SQL_SOURCE + SQL_VIEW.format("a", "clicks").partition(" AS ")[2]
    )
    with pytest.raises(DefinitionError, match="SELECT without a name"):
        load_project(tmp_path / "views.sql")


def test_what_is_wrong_in_a_file_is_said_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(SQL_SOURCE + SQL_VIEW.format("a", "clocks"))
    with pytest.raises(
        DefinitionError, match=r"views\.sql, line 2, column \d+\n(.|\n)*did you mean clicks"
    ):
        load_project(tmp_path / "views.sql")


def test_expectations_of_sql_are_those_of_python() -> None:
    bounds, some = {"column": "n", "min_value": 0}, {"column": "x_1h", "max_value": 9}
    given = {"severity": "info", "type": "expect_column_values_to_be_between"}
    text = (
        "CREATE SOURCE plays (user_id STRING, n BIGINT, ts TIMESTAMP_US) WITH (timestamp = 'ts', "
        f"expect = '{json.dumps([given | {'kwargs': bounds}])}'); "
        f"CREATE FEATURE VIEW v WITH (expect = '{json.dumps([given | {'kwargs': some}])}') "
        f"AS SELECT user_id, count(*) {HOUR} AS x_1h, sum(n) {HOUR} AS n_1h FROM plays"
    )
    between = "expect_column_values_to_be_between"
    source = sw.KafkaSource(
        "plays",
        schema={"user_id": "string", "n": "long", "ts": "timestamp_us"},
        timestamp="ts",
        expect=[sw.expect(between, severity="info", **bounds)],
    )
    python = sw.FeatureView(
        "v",
        source=source,
        entity=["user_id"],
        features=[
            sw.Feature(
                "x", sw.count(), ["1h"], expect=[sw.expect(between, severity="info", **some)]
            ),
            sw.Feature("n", sw.sum("n"), ["1h"]),
        ],
    )
    made, expected = deployed(sw.sql(text)), deployed(python)
    assert made.expectations == expected.expectations
    assert len(made.expectations) == 2
    assert made.digest == expected.digest


def test_descriptions_of_sql_are_those_of_python() -> None:
    text = (
        "CREATE SOURCE plays (user_id STRING, n BIGINT, ts TIMESTAMP_US) WITH (timestamp = 'ts'); "
        'CREATE FEATURE VIEW v WITH (describe = \'{"x_1h": "plays, skipped ones too"}\') '
        f"AS SELECT user_id, count(*) {HOUR} AS x_1h, sum(n) {HOUR} AS n_1h FROM plays"
    )
    source = sw.KafkaSource(
        "plays",
        schema={"user_id": "string", "n": "long", "ts": "timestamp_us"},
        timestamp="ts",
    )
    python = sw.FeatureView(
        "v",
        source=source,
        entity=["user_id"],
        features=[
            sw.Feature("x", sw.count(), ["1h"], description="plays, skipped ones too"),
            sw.Feature("n", sw.sum("n"), ["1h"]),
        ],
    )
    assert deployed(sw.sql(text)) == deployed(python)
