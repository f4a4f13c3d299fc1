"""slicewise: streaming window aggregates as machine-learning features.

Importing it imports nothing else: every name below is loaded when it is first used, so that
Airflow's DAG files and Spark's workers pay only for what they touch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_DEFINITIONS = ("Feature", "FeatureSet", "FeatureView", "KafkaSource", "case")
_WINDOWS = ("hopping", "tumbling")
_AGGREGATES = (
    "argmax",
    "argmin",
    "bool_and",
    "bool_or",
    "bottom_k",
    "count",
    "distinct_count",
    "last_k",
    "max",
    "mean",
    "min",
    "sum",
    "top_k",
)
_HOME = {
    **dict.fromkeys(_DEFINITIONS, "slicewise.features.definitions"),
    **dict.fromkeys(_WINDOWS, "slicewise.slices"),
    **dict.fromkeys(_AGGREGATES, "slicewise.aggregates"),
    "evaluate": "slicewise.training.evaluate",
    "snapshot": "slicewise.training",
    "training_set": "slicewise.training",
    "Client": "slicewise.serving.client",
    "SlicewiseError": "slicewise.errors",
}

if TYPE_CHECKING:
    from slicewise.aggregates import (
        count as count,
        mean as mean,
        sum as sum,
    )
    from slicewise.errors import (
        SlicewiseError as SlicewiseError,
    )
    from slicewise.features.definitions import (
        Feature as Feature,
        FeatureSet as FeatureSet,
        FeatureView as FeatureView,
        KafkaSource as KafkaSource,
        case as case,
    )
    from slicewise.slices import (
        hopping as hopping,
        tumbling as tumbling,
    )


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'slicewise' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
