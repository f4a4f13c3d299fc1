"""A driver judges no record of a source whose schema has no recorded offsets yet; the stream's
records it when others are gone."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import DeploymentSuperseded
from slicewise.settings import Settings
from slicewise.spark import driver as module
from slicewise.spark.driver import Driver
from slicewise.spark.emission import driver as emit_driver
from slicewise.spark.emission.driver import EmissionDriver
from slicewise.spark.realtime import driver as realtime_driver
from slicewise.spark.realtime.driver import RealtimeDriver
from slicewise.stores.recovery.schema_offsets import LEASE_S

SOURCES = [
    SimpleNamespace(name="opening", is_opening=True),
    SimpleNamespace(name="stands", is_opening=False),
]


def settings(folder: Path) -> Settings:
    return Settings.load({"SLICEWISE_STATE": str(folder)})


@pytest.mark.parametrize("kind", [Driver, RealtimeDriver, EmissionDriver])
def test_no_query_begins_over_a_source_whose_schema_has_no_offsets(
    kind: type[Driver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []

    def taken(name: str) -> Any:
        planned.append(name)
        return SimpleNamespace(
            source=SimpleNamespace(name=name), start={}, units=(), deployment_version=1
        )

    for imported in (module, realtime_driver):
        monkeypatch.setattr(
            imported, "plan_stream", lambda _d, source, *_m, **_t: taken(source.name)
        )
        monkeypatch.setattr(imported, "KafkaLog", lambda _: nullcontext())
    monkeypatch.setattr(realtime_driver, "realtime_units", lambda *_: ["a unit"])
    monkeypatch.setattr(realtime_driver, "RealtimeQuery", lambda *_, **__: None)
    monkeypatch.setattr(emit_driver, "emitted_views", lambda *_: ["a view"])
    monkeypatch.setattr(emit_driver, "EmissionQuery", lambda _s, _d, source, *_: taken(source.name))
    driver = kind(settings(tmp_path), ManualClock(0))
    driver._session = cast(Any, object())
    if isinstance(driver, RealtimeDriver):
        monkeypatch.setattr(driver, "_have", lambda _: None)
    driver._start(
        cast(Any, SimpleNamespace(sources=SOURCES)),
        "",
        cast(Any, SimpleNamespace(deployment_version=1)),
    )
    assert planned == ["stands"]


def test_the_offsets_are_recorded_once_they_were_open_for_as_long_as_anybody_may_judge_by_the_schema_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[object] = []
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(module, "KafkaLog", lambda _: nullcontext("a log"))
    monkeypatch.setattr(module, "record_schema_offsets", lambda *given: recorded.append(given))
    driver = Driver(settings(tmp_path), ManualClock(0))
    store, deployment, metadata = (
        cast(Any, "a store"),
        cast(Any, SimpleNamespace(opening=("plays",))),
        cast(Any, "metadata"),
    )
    driver._opening = (deployment, metadata, now_s[0])
    now_s[0] += LEASE_S - 0.1
    driver._record_schema_offsets(store)
    assert recorded == []
    now_s[0] += 0.1
    driver._record_schema_offsets(store)
    driver._record_schema_offsets(store)
    assert recorded == [(store, "a log", deployment, metadata)]


def test_offsets_that_another_recorded_first_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def superseded(*_: object) -> None:
        raise DeploymentSuperseded("somebody was quicker")

    monkeypatch.setattr(module, "LEASE_S", 0.0)
    monkeypatch.setattr(module, "KafkaLog", lambda _: nullcontext())
    monkeypatch.setattr(module, "record_schema_offsets", superseded)
    driver = Driver(settings(tmp_path), ManualClock(0))
    driver._opening = (cast(Any, SimpleNamespace(opening=("plays",))), cast(Any, "metadata"), 0.0)
    driver._record_schema_offsets(cast(Any, "a store"))
    assert driver._opening is None
