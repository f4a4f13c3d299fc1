"""Words of other systems, and the words here that mean the same; plain data, for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


def _same(ours: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, ours)


_LIST_OF_ALL = "(a list of all values has no bound)"
ATTRIBUTES: Mapping[str, str] = {
    **_same('sw.mean("column")', "avg", "average", "arithmetic_mean"),
    **_same(
        'sw.stddev("column")', "stddev_samp", "stddev_sample", "std", "stdev", "standard_deviation"
    ),
    **_same('sw.stddev("column", population=True)', "stddev_pop", "stddev_population", "pstdev"),
    **_same('sw.variance("column")', "var", "var_samp", "var_sample"),
    **_same('sw.variance("column", population=True)', "var_pop", "var_population", "pvariance"),
    **_same('sw.covariance("x", "y")', "cov", "covar", "covar_samp"),
    **_same('sw.covariance("x", "y", population=True)', "covar_pop"),
    **_same('sw.correlation("x", "y")', "corr", "pearson"),
    **_same('sw.skewness("column")', "skew"),
    **_same('sw.kurtosis("column")', "kurt"),
    **_same('sw.linear_trend("column")', "slope", "trend", "linear_regression"),
    **_same('sw.linear_trend("column", over="other")', "regr_slope"),
    **_same('sw.linear_trend("column", over="other", output="intercept")', "regr_intercept"),
    **_same('sw.linear_trend("column", over="other", output="r2")', "regr_r2"),
    **_same(
        'sw.distinct_count("column")',
        *(
            "count_distinct",
            "approx_count_distinct",
            "approx_distinct",
            "approx_unique",
            "nunique",
            "n_unique",
        ),
        *("unique_count", "unique", "distinct", "cardinality", "hll", "hyperloglog"),
    ),
    **_same('sw.count(where="…")', "count_if", "countif", "count_where"),
    **_same('sw.sum("column", where="…")', "sum_if", "sumif"),
    **_same("sw.count()", "size", "count_star", "n", "num_events", "len"),
    **_same('sw.sum("column")', "total", "add"),
    **_same('sw.min("column")', "minimum", "least"),
    **_same('sw.max("column")', "maximum", "greatest"),
    **_same('sw.argmax("payload", by="column")', "max_by", "arg_max"),
    **_same('sw.argmin("payload", by="column")', "min_by", "arg_min"),
    **_same('sw.first("column")', "first_value", "earliest", "oldest"),
    **_same('sw.last("column")', "last_value", "latest", "newest", "most_recent"),
    **_same('sw.first_k("column", k=10)', "first_n", "firstn"),
    **_same('sw.last_k("column", k=10)', "last_n", "lastn", "recent"),
    **_same(
        f'sw.last_k("column", k=10) {_LIST_OF_ALL}',
        *(
            "collect_list",
            "array_agg",
            "list",
            "list_agg",
            "listagg",
            "string_agg",
            "group_concat",
            "collect",
        ),
    ),
    **_same(
        f'sw.last_k_distinct("column", k=10) {_LIST_OF_ALL}',
        "collect_set",
        "array_distinct",
        "set",
        "set_agg",
    ),
    **_same(
        'sw.top_k_frequent("column", k=5), or sw.top_k("payload", by="column", k=5) by a value',
        "topk",
        "top",
        "top_n",
    ),
    **_same('sw.bottom_k("payload", by="column", k=5)', "bottomk", "bottom", "bottom_n"),
    **_same(
        'sw.top_k_frequent("column", k=5)',
        "approx_top_k",
        "approx_topk",
        "most_frequent",
        "most_common",
        "topk_count",
    ),
    **_same('sw.top_k_frequent("column", k=1)', "mode"),
    **_same('sw.quantiles("column", q=[0.5])', "median", "approx_median"),
    **_same(
        'sw.quantiles("column", q=[0.5, 0.9])',
        *(
            "quantile",
            "percentile",
            "percentiles",
            "percentile_approx",
            "approx_percentile",
            "approx_quantile",
        ),
        *(
            "percentile_cont",
            "percentile_disc",
            "quantile_cont",
            "tdigest",
            "p50",
            "p90",
            "p95",
            "p99",
        ),
    ),
    **_same('sw.bool_and("column")', "all", "every", "logical_and", "booland_agg"),
    **_same('sw.bool_or("column")', "any", "some", "logical_or", "boolor_agg"),
    **_same(
        'sw.decay_sum("column", half_life="1h")', "ewm", "ewma", "ema", "exponential_decay", "decay"
    ),
    **_same('sw.count_by("column")', "value_counts", "counts", "count_by_value", "map_agg"),
    **_same('sw.histogram("column", edges=[0, 10, 100])', "hist", "histogram_numeric"),
    **_same('sw.bloom("column", capacity=1_000)', "bloom_filter"),
    **_same('sw.first("column") or sw.last("column")', "any_value"),
    **_same(
        'sw.tumbling("1h")',
        "tumble",
        "Tumbling",
        "TumblingWindow",
        "tumbling_window",
        "FixedWindow",
    ),
    **_same('sw.hopping("1h", every="10m")', "hop", "Hopping", "HoppingWindow", "hopping_window"),
    **_same(
        'sw.sliding("1h")',
        "slide",
        "Sliding",
        "SlidingWindow",
        "sliding_window",
        "TimeWindow",
        "window",
    ),
    **_same('sw.session("30m", max_length="4h")', "SessionWindow", "session_window"),
    **_same('sw.exact_range("1h")', "range", "range_between"),
    **_same("sw.rows(10)", "rows_between", "last_rows"),
    **_same("sw.lifetime()", "unbounded", "all_time", "forever", "Lifetime"),
    **_same(
        'sw.FeatureView("name", source=…, entity=[…], features=[…])',
        *(
            "View",
            "FeatureGroup",
            "StreamFeatureView",
            "BatchFeatureView",
            "stream_feature_view",
            "GroupBy",
        ),
    ),
    **_same(
        'sw.KafkaSource("name", schema={…}, timestamp="…")',
        *(
            "Source",
            "StreamSource",
            "KafkaStreamSource",
            "EventSource",
            "Kafka",
            "PushSource",
            "DataSource",
        ),
    ),
    **_same(
        'sw.Feature("name", sw.count(), windows=["1h"])',
        "Field",
        "Aggregation",
        "feature",
        "aggregation",
    ),
    **_same(
        'sw.FeatureSet("name", features=["view:column"])',
        "FeatureService",
        "feature_set",
        "FeatureList",
    ),
    **_same('sw.FeatureView(…, entity=["user_id"])', "Entity", "entity"),
    **_same("sw.Client()", "FeatureStore", "Store", "OnlineStore", "connect"),
    **_same("sw.Client().get([…], {…})", "get_online_features", "online_features", "get"),
    **_same(
        "sw.training_set(…)",
        "get_historical_features",
        "historical_features",
        "get_training_set",
        "dataset",
    ),
    **_same("sw.case(events=[…], at=…, expect={…})", "Case", "test", "Test", "TestCase"),
    **_same("sw.row_function", "udf", "UDF", "function", "on_demand_feature_view"),
    **_same("class Name(sw.Aggregate)", "udaf", "UDAF", "custom", "CustomAggregate", "aggregate"),
    **_same('sw.ordered(init, step, finish, columns=[…], output="…")', "reduce", "fold", "scan"),
    **_same('sw.Leaderboard("name", view=…, by="column")', "leaderboard", "Ranking"),
    **_same('sw.sql("CREATE FEATURE VIEW …")', "SQL", "query"),
}
"""Attributes that people look for on `sw`, and what to write instead."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "where": ("filter", "condition", "filters", "predicate", "filter_", "having"),
    "entity": (
        "entities",
        "key",
        "keys",
        "entity_columns",
        "join_keys",
        "join_key",
        "group_by",
        "by",
        "primary_key",
    ),
    "timestamp": (
        *(
            "timestamp_column",
            "timestamp_field",
            "event_timestamp",
            "event_time",
            "time",
            "time_column",
            "ts",
        ),
        *("timestamp_col", "event_timestamp_column"),
    ),
    "windows": ("window", "over", "ranges", "time_window", "time_windows", "intervals"),
    "aggregate": ("agg", "aggregation", "function", "func", "op", "operation", "fn"),
    "features": ("feature", "aggregations", "aggregates", "fields"),
    "columns": ("column", "computed", "expressions", "select", "projections", "transform"),
    "column": (
        "col",
        "columns",
        "field",
        "on",
        "value",
        "expr",
        "expression",
        "input",
        "input_column",
        "name",
    ),
    "payload": ("column", "value", "col", "field"),
    "by": ("key", "order_by", "sort_by", "group_by", "column", "feature", "metric"),
    "k": ("n", "limit", "size", "top", "count", "num"),
    "q": ("quantile", "quantiles", "percentile", "percentiles", "p", "probabilities", "shares"),
    "source": ("stream", "stream_source", "topic", "data_source", "batch_source", "table"),
    "schema": ("columns", "fields", "types", "dtypes"),
    "max_lateness": (
        "lateness",
        "watermark",
        "allowed_lateness",
        "watermark_delay_threshold",
        "late",
        "delay",
    ),
    "slice": ("slice_length", "granularity", "resolution", "tile", "bucket", "slide"),
    "every": (
        "hop",
        "slide",
        "step",
        "slide_interval",
        "period",
        "advance",
        "slide_by",
        "interval",
    ),
    "gap": ("timeout", "inactivity", "inactivity_gap", "length"),
    "max_length": ("max_duration", "max", "maximum", "limit", "longest"),
    "length": ("size", "duration", "window", "width", "period", "interval"),
    "offset": ("shift", "lag", "delay"),
    "half_life": ("halflife", "decay", "half", "tau"),
    "owner": ("owners", "team", "maintainer"),
    "tests": ("test", "cases", "case"),
    "name": ("id", "title", "view_name"),
    "topic": ("kafka_topic", "topic_name", "subject"),
    "registry": ("schema_registry", "registry_url", "schema_registry_url"),
    "format": ("message_format", "value_format", "serialization", "encoding"),
    "required": ("not_null", "non_null", "mandatory"),
    "population": ("pop", "ddof", "sample"),
    "edges": ("bins", "buckets", "boundaries", "breaks"),
    "error": ("epsilon", "fpp", "accuracy", "alpha", "error_rate", "relative_error"),
    "capacity": ("n", "size", "max_size", "expected_items", "items"),
    "max_buckets": ("max_categories", "limit", "most", "capacity"),
    "max_categories": ("max_buckets", "limit", "most", "capacity"),
    "expect": ("expected", "expects", "then", "result", "results", "output"),
    "events": ("given", "rows", "records", "data", "input"),
    "at": ("time", "timestamp", "now", "when", "t"),
    "emit": ("sink", "output_topic", "publish", "output"),
    "defaults": ("default", "fill", "fallback", "default_values"),
    "view": ("feature_view", "source"),
    "redis_url": ("url", "redis", "host", "address", "connection_string"),
    "spine": ("entity_df", "entities", "labels", "df"),
    "closed": ("inclusive", "bounds", "ends"),
    "open": ("current", "incomplete", "include_current", "partial"),
    "count": ("n", "rows", "k", "size"),
    "within": ("window", "ttl", "period", "for_"),
}
"""A parameter, and what it is called elsewhere."""

_QUERY = 'give it in each query: {"user_id": "ann", "at": "2026-01-31T12:00:00Z", "mode": "live"}'
_COLUMN = 'give it to the aggregate: sw.sum("seconds")'
_CONDITION = 'give it to the aggregate: sw.count(where="seconds > 30")'
_DEFAULT = 'give it to the set that is read: sw.FeatureSet(…, defaults={"plays_1h": 0})'
_ARCHIVE = "leave it out: training sets are made of the archive of the same source"


def _of(function: str, instead: str, *names: str) -> dict[tuple[str, str], str]:
    return {(function, name): instead for name in names}


ELSEWHERE: Mapping[tuple[str, str], str] = {
    **_of("evaluate", "give it to the view: sw.FeatureView(…, capacity=…)", "capacity"),
    **_of("evaluate", "leave it out: all features of the view are answered", "features"),
    **_of("evaluate", _QUERY, "at", "mode", "entity", "entities"),
    **_of("Feature", _COLUMN, "column", "columns", "field", "on", "input_column", "value"),
    **_of("Feature", _CONDITION, "where", "filter", "condition"),
    **_of("Feature", _DEFAULT, "default", "fill", "fill_value", "default_value"),
    **_of("Feature", "leave it out: it follows from the aggregate", "dtype"),
    **_of("FeatureView", "leave it out: what is kept follows from the longest window", "ttl"),
    **_of(
        "FeatureView",
        "give it to the source: sw.KafkaSource(…)",
        "schema",
        "timestamp",
        "max_lateness",
    ),
    **_of(
        "FeatureView",
        'give it to each feature: sw.Feature("plays", sw.count(), windows=["1h"])',
        "windows",
        "window",
    ),
    **_of("FeatureView", _ARCHIVE, "batch_source", "offline", "offline_store"),
    **_of("FeatureView", "leave it out: a view that is applied is served", "online"),
    **_of(
        "KafkaSource",
        "leave it out: it is a setting, SLICEWISE_KAFKA_BOOTSTRAP",
        *("bootstrap_servers", "kafka_bootstrap_servers", "brokers", "servers"),
    ),
    **_of(
        "decay_sum",
        'say how long a value takes to count half: half_life="1h"',
        "alpha",
        "com",
        "span",
    ),
    **_of(
        "decay_count",
        'say how long an event takes to count half: half_life="1h"',
        "alpha",
        "com",
        "span",
    ),
}
"""A parameter that belongs elsewhere: what to do, by the function that it was given to and its
name."""

EXAMPLES: Mapping[str, str] = {
    "name": '"name", what it is called',
    "schema": 'schema={"user_id": "string", "played_at": "timestamp_us"}, its columns and their types',
    "timestamp": (
        'timestamp="played_at", the column that is the event time, or timestamp="kafka" for the '
        "record's own"
    ),
    "source": "source=plays, a sw.KafkaSource",
    "entity": 'entity=["user_id"], the columns that are the key, or entity=[] for a global view',
    "features": 'features=[sw.Feature("plays", sw.count(), windows=["1h"])]',
    "aggregate": 'sw.count(), or another aggregate: sw.Feature("plays", sw.count(), windows=["1h"])',
    "windows": 'windows=["10m", "1h"], the intervals that it answers for',
    "column": '"seconds", the column that it is about',
    "payload": '"song_id", the column that it answers',
    "by": 'by="seconds", the column that decides',
    "k": "k=5, how many",
    "q": "q=[0.5, 0.9], the shares",
    "half_life": 'half_life="1h"',
    "capacity": "capacity=1_000, how many values it is made for",
    "edges": "edges=[0, 10, 100], where the bins begin",
    "category": '"country", the column whose values are counted',
    "every": 'every="10m", how far it moves',
    "max_length": 'max_length="4h", the longest session',
    "gap": '"30m", the silence that ends a session',
    "length": '"1h", how long the window is',
    "count": "10, how many rows",
    "view": "view=listening, a sw.FeatureView",
    "events": 'events=[{"user_id": "ann", …}], in log order',
    "at": 'at="2026-01-31T12:00:00Z", the instant of the reading',
    "expect": 'expect={"plays_10m": 3}',
    "topic": '"topic-name"',
    "x": '"seconds", one column',
    "y": '"stars", the other column',
    "queries": 'queries=[{"user_id": "ann", "at": "2026-01-31T12:00:00Z"}]',
    "spine": 'spine="spine.csv", or a table with the entity and at',
    "columns": 'columns=["seconds"], what an event has for the functions',
    "output": 'output="double", the type of the answer',
}
"""Examples of a missing parameter."""

EXAMPLES_OF: Mapping[tuple[str, str], str] = {
    (
        function,
        "features",
    ): 'features="churn_v1", a feature set, or refs: features=["listening:plays_7d"]'
    for function in ("training_set", "snapshot")
}
"""Examples where the same word means something else, by the function and the parameter."""


def close_to(name: str, defined: Iterable[str], n: int = 3) -> list[str]:
    """The names that a mistyped one is nearest to, at most `n`; those that differ in case alone
    before all."""
    by_case = {candidate.lower(): candidate for candidate in sorted(defined)}
    closest = difflib.get_close_matches(name.lower(), by_case, n=n, cutoff=0.6)
    return [by_case[lower_name] for lower_name in closest]


def either(names: Iterable[str]) -> str:
    """Names as a question's end: "a, b or c"."""
    *most, last = list(names)
    return f"{', '.join(most)} or {last}" if most else last


def attribute_instead(name: str, defined: Iterable[str]) -> str | None:
    """Text to write instead of `sw.<name>`; None where nothing is like it."""
    attribute = ATTRIBUTES.get(name) or ATTRIBUTES.get(name.lower())
    if attribute is not None:
        return f"write {attribute}"
    close = close_to(name, defined)
    return f"did you mean {either(f'sw.{candidate}' for candidate in close)}?" if close else None


def parameter_instead(name: str, defined: Iterable[str]) -> str | None:
    """The parameter that is meant by another system's name, or by a mistyped one; None where there
    is none."""
    defined = list(defined)
    by_case = [candidate for candidate in defined if candidate.lower() == name.lower()]
    elsewhere = [
        candidate for candidate in defined if name.lower() in PARAMETERS.get(candidate, ())
    ]
    return next(iter([*by_case, *elsewhere, *close_to(name, defined, 1)]), None)
