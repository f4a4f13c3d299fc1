"""A feature counts as served where it was answered by the definition that is deployed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.training.backtest.rows import LoggedRows, meant_otherwise

REFS = ("listening:plays_1h", "listening:seconds_1h")


def deployment(where: str | None = None, owner: str | None = None, column: str = "x") -> Deployment:
    plays = sw.KafkaSource(
        "plays",
        schema={"user_id": "string", "x": "double", "y": "double", "played_at": "timestamp_us"},
        timestamp="played_at",
    )
    features = [
        sw.Feature("plays", sw.count(), windows=["1h"]),
        sw.Feature("seconds", sw.sum(column), windows=["1h"]),
    ]
    view = sw.FeatureView("listening", plays, ["user_id"], features, where=where, owner=owner)
    return plan(Project("tests", (view,), ()))


def answered_by(*digests: str) -> LoggedRows:
    nothing = np.full(len(digests), np.nan)
    empty = pa.chunked_array([pa.nulls(len(digests))])
    requests = pa.table({"deployment": pa.array(digests, pa.string())})
    counts = np.zeros(len(digests), np.int64)
    return LoggedRows(requests, empty, empty, nothing, 0, counts, nothing, Counter(), {})


NOW = deployment()


@pytest.mark.parametrize(
    ("then", "others"),
    [
        (deployment(owner="somebody else"), ()),
        (deployment(where="x > 1"), REFS),
        (deployment(column="y"), REFS),  # what is stored is one, also of what did not change
        (None, REFS),
    ],
    ids=["another owner", "another condition", "another column", "nobody has it any more"],
)
def test_of_another_meaning_are_features_whose_definition_is_another(
    then: Deployment | None, others: tuple[str, ...]
) -> None:
    digest = "lost" if then is None else then.digest
    stood = {NOW.digest: NOW} | ({} if then is None else {digest: then})
    rows = answered_by(NOW.digest, digest)
    if then is not None and not others:
        assert digest != NOW.digest, "another deployment"
    assert set(meant_otherwise(rows, REFS, NOW, lambda: stood)) == set(others)


def test_of_answers_by_what_is_deployed_nobody_looks_for_others() -> None:
    def refused() -> dict[str, Deployment]:
        raise AssertionError("the registry is read")

    assert meant_otherwise(answered_by(NOW.digest, NOW.digest), REFS, NOW, refused) == ()
