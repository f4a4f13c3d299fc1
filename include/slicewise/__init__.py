"""slicewise: streaming window aggregates as machine-learning features.

Importing it imports nothing else: every name below is loaded when it is first used, so that
Airflow's DAG files and Spark's workers pay only for what they touch.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_DEFINITIONS = ("Feature", "FeatureSet", "FeatureView", "KafkaSource", "case")
_LOGS = ("label_log", "prediction_log", "request_log")
_LOG_VIEWS = ("label_view", "matching_view", "prediction_view", "request_view")
_WINDOWS = ("exact_range", "hopping", "lifetime", "rows", "session", "sliding", "tumbling")
AGGREGATES = (
    "argmax",
    "argmin",
    "bloom",
    "bloom_fill",
    "bool_and",
    "bool_or",
    "bottom_k",
    "bucketed",
    "correlation",
    "count",
    "count_by",
    "covariance",
    "cuckoo",
    "decay_count",
    "decay_sum",
    "distinct_count",
    "first",
    "first_k",
    "histogram",
    "kurtosis",
    "last",
    "last_k",
    "last_k_distinct",
    "linear_trend",
    "max",
    "mean",
    "min",
    "ordered",
    "quantiles",
    "skewness",
    "span",
    "stddev",
    "sum",
    "top_k",
    "top_k_frequent",
    "variance",
)
_HOME = {
    "Aggregate": "slicewise.aggregates.custom.users",
    **dict.fromkeys(_DEFINITIONS, "slicewise.features.declare.definitions"),
    **dict.fromkeys(_LOGS, "slicewise.features.declare.log_sources"),
    **dict.fromkeys(_LOG_VIEWS, "slicewise.features.declare.log_views"),
    "Window": "slicewise.windows",
    **{name: f"slicewise.windows.{name}" for name in _WINDOWS},
    **dict.fromkeys(AGGREGATES, "slicewise.aggregates"),
    "Emit": "slicewise.features.declare.emission",
    "dedupe": "slicewise.features.schema.dedupe",
    "expect": "slicewise.features.expectations",
    "evaluate": "slicewise.training.evaluate",
    "sql": "slicewise.features.sql",
    "sql_views": "slicewise.features.sql",
    "snapshot": "slicewise.training",
    "training_set": "slicewise.training",
    "Client": "slicewise.serving.client",
    "AsyncHttpClient": "slicewise.client.http",
    "HttpClient": "slicewise.client.http",
    "Retry": "slicewise.client.retrying",
    "row_function": "slicewise.features.rowlogic.row_function",
    "Leaderboard": "slicewise.features.declare.leaderboard",
    "SlicewiseError": "slicewise.errors",
}
_EXTRA = {"Client": "serving", "AsyncHttpClient": "client", "HttpClient": "client"}
"""The extra that brings what a name needs beside the base."""

if TYPE_CHECKING:
    from slicewise.aggregates import argmax as argmax
    from slicewise.aggregates import argmin as argmin
    from slicewise.aggregates import bloom as bloom
    from slicewise.aggregates import bloom_fill as bloom_fill
    from slicewise.aggregates import bool_and as bool_and
    from slicewise.aggregates import bool_or as bool_or
    from slicewise.aggregates import bottom_k as bottom_k
    from slicewise.aggregates import bucketed as bucketed
    from slicewise.aggregates import correlation as correlation
    from slicewise.aggregates import count as count
    from slicewise.aggregates import count_by as count_by
    from slicewise.aggregates import covariance as covariance
    from slicewise.aggregates import cuckoo as cuckoo
    from slicewise.aggregates import decay_count as decay_count
    from slicewise.aggregates import decay_sum as decay_sum
    from slicewise.aggregates import distinct_count as distinct_count
    from slicewise.aggregates import first as first
    from slicewise.aggregates import first_k as first_k
    from slicewise.aggregates import histogram as histogram
    from slicewise.aggregates import kurtosis as kurtosis
    from slicewise.aggregates import last as last
    from slicewise.aggregates import last_k as last_k
    from slicewise.aggregates import last_k_distinct as last_k_distinct
    from slicewise.aggregates import linear_trend as linear_trend
    from slicewise.aggregates import max as max
    from slicewise.aggregates import mean as mean
    from slicewise.aggregates import min as min
    from slicewise.aggregates import ordered as ordered
    from slicewise.aggregates import quantiles as quantiles
    from slicewise.aggregates import skewness as skewness
    from slicewise.aggregates import span as span
    from slicewise.aggregates import stddev as stddev
    from slicewise.aggregates import sum as sum
    from slicewise.aggregates import top_k as top_k
    from slicewise.aggregates import top_k_frequent as top_k_frequent
    from slicewise.aggregates import variance as variance
    from slicewise.aggregates.custom.users import Aggregate as Aggregate
    from slicewise.client.http import AsyncHttpClient as AsyncHttpClient
    from slicewise.client.http import HttpClient as HttpClient
    from slicewise.client.retrying import Retry as Retry
    from slicewise.errors import SlicewiseError as SlicewiseError
    from slicewise.features.declare.definitions import Feature as Feature
    from slicewise.features.declare.definitions import FeatureSet as FeatureSet
    from slicewise.features.declare.definitions import FeatureView as FeatureView
    from slicewise.features.declare.definitions import KafkaSource as KafkaSource
    from slicewise.features.declare.definitions import case as case
    from slicewise.features.declare.emission import Emit as Emit
    from slicewise.features.declare.leaderboard import Leaderboard as Leaderboard
    from slicewise.features.declare.log_sources import label_log as label_log
    from slicewise.features.declare.log_sources import prediction_log as prediction_log
    from slicewise.features.declare.log_sources import request_log as request_log
    from slicewise.features.declare.log_views import label_view as label_view
    from slicewise.features.declare.log_views import matching_view as matching_view
    from slicewise.features.declare.log_views import prediction_view as prediction_view
    from slicewise.features.declare.log_views import request_view as request_view
    from slicewise.features.expectations import expect as expect
    from slicewise.features.rowlogic.row_function import row_function as row_function
    from slicewise.features.schema.dedupe import dedupe as dedupe
    from slicewise.features.sql import sql as sql
    from slicewise.features.sql import sql_views as sql_views
    from slicewise.serving.client import Client as Client
    from slicewise.training import snapshot as snapshot
    from slicewise.training import training_set as training_set
    from slicewise.training.evaluate import evaluate as evaluate
    from slicewise.windows import Window as Window
    from slicewise.windows.exact_range import exact_range as exact_range
    from slicewise.windows.hopping import hopping as hopping
    from slicewise.windows.lifetime import lifetime as lifetime
    from slicewise.windows.rows import rows as rows
    from slicewise.windows.session import session as session
    from slicewise.windows.sliding import sliding as sliding
    from slicewise.windows.tumbling import tumbling as tumbling


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        # Python itself asks for what its tools may have left, and at `from slicewise import …` for
        # each module
        if name.startswith("_") or sys._getframe(1).f_code.co_filename.startswith(
            "<frozen importlib"
        ):
            raise AttributeError(f"module 'slicewise' has no attribute {name!r}")
        from slicewise.calls import unknown_attribute

        raise unknown_attribute(name, _HOME)
    from slicewise.extras import needed

    with needed(_EXTRA.get(name, ""), f"sw.{name}"):
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, "__version__"})
