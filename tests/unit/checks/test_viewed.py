"""The check's SQL means the same to Spark, in which WHERE is no reserved word."""

from __future__ import annotations

import re

import slicewise as sw
from slicewise.checks.recompute import queries
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan


def test_a_condition_that_is_one_column_is_no_list_of_column_names() -> None:
    source = sw.KafkaSource(
        "s", schema={"k": "string", "kept": "boolean", "ts": "timestamp_us"}, timestamp="ts"
    )
    view = sw.FeatureView(
        "v",
        source=source,
        entity=["k"],
        where="kept",
        features=[sw.Feature("n", sw.count(), windows=["1h"])],
    )
    deployment = plan(Project.of("p", [view]))
    (unit,) = deployment.units
    planned = deployment.source("s")
    text = queries.viewed(unit, planned, queries.archived("log", planned, 0, 1))
    assert "WHERE (`c_kept`)" in text
    # a sub-query without a name of its own would be named WHERE, with one column
    assert not re.search(r"\)\s*WHERE\s*\(", text)
