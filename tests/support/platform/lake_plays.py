"""Plays of songs in a lake, views over them, and what the store then has to hold."""

from __future__ import annotations

import time
from typing import Any

import slicewise as sw
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import StorageUnit
from slicewise.windows.durations import HOUR_US
from tests.support.platform.lake import Lake, expected

USERS = ("ada", "bob", "eve")
MINUTE_US = 60_000_000


def over(hours_ago: int) -> int:
    """Start of an hour that is over."""
    return (time.time_ns() // 1000 // HOUR_US - hours_ago) * HOUR_US


def events(start_us: int, count: int, step_us: int = 17_000_000) -> list[dict[str, Any]]:
    """`count` events from start_us on, users and songs in turn."""
    return [
        {"user_id": USERS[i % 3], "song_id": f"s{i % 5}", "n": i, "played": start_us + i * step_us}
        for i in range(count)
    ]


def by_user(shared: Lake, name: str) -> sw.FeatureView:
    return sw.FeatureView(
        f"{name}_by_user",
        source=shared.source(name),
        entity=["user_id"],
        features=[sw.Feature("plays", sw.count(), windows=["10m", "1d"])],
    )


def by_song(shared: Lake, name: str) -> sw.FeatureView:
    return sw.FeatureView(
        f"{name}_by_song",
        source=shared.source(name),
        entity=["song_id", "user_id"],
        features=[sw.Feature("plays", sw.count(), windows=["10m", "1d"])],
    )


def check(shared: Lake, unit: StorageUnit, sent: list[dict[str, Any]]) -> None:
    """The store holds exactly these events of the unit, each once."""
    wanted = expected(sent, [name for name, _ in unit.entity], unit.slice_us)
    assert shared.contents(unit, list(wanted)) == wanted


def unit_of(deployment: Deployment, view: str) -> StorageUnit:
    (unit,) = deployment.view(view)
    return unit
