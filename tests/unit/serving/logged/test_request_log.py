"""Every answer of a set that logs stands in the log, or is lost and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import slicewise as sw
from slicewise.clock import SystemClock
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.serving.answering.answer import Answer, EntityAnswer, LogRule
from slicewise.serving.answering.catalog import Catalog
from slicewise.serving.answering.requests import Entity, FeaturesRequest
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.logged import records, request_log
from slicewise.serving.logged.records import Answered
from slicewise.serving.logged.request_log import RequestLog
from slicewise.serving.metrics import Metrics

NOWHERE = "127.0.0.1:1"
GOLDEN = ["u0", "u2", "u3", "u4", "u7", "u9", "u16", "u18", "u19"]
REFS = ("listening:plays_1h", "listening:seconds_1h")


def deployment(rate: float = 1.0, topic: str = "requests") -> Deployment:
    plays = sw.KafkaSource(
        "plays",
        schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"},
        timestamp="played_at",
    )
    listening = sw.FeatureView(
        "listening",
        source=plays,
        entity=["user_id"],
        features=[
            sw.Feature("plays", sw.count(), windows=["1h"]),
            sw.Feature("seconds", sw.sum("seconds"), windows=["1h"]),
        ],
    )
    requests = sw.request_log(topic=topic)
    sets = (
        sw.FeatureSet("logged", REFS, log=requests, log_rate=rate),
        sw.FeatureSet("silent", REFS),
    )
    return plan(Project("tests", (listening, sw.request_view(requests)), sets))


def catalog_of(of: Deployment) -> Catalog:
    return Catalog(of, 1, 1, of.digest, frozenset(), {}, {})


def rule_of(of: Deployment, name: str = "logged") -> LogRule | None:
    return catalog_of(of).select((), name).log


def answer_of(
    *users: str, seconds: float | None = 1.5, of: Deployment | None = None, name: str = "logged"
) -> Answer:
    results = tuple(EntityAnswer({"user_id": user}, (1, seconds), f"t-{user}") for user in users)
    rule = rule_of(of or deployment(), name)
    return Answer(REFS, "live", 7_000_000, {}, results, doubles=(False, True), log=rule)


def request_of(name: str | None, *users: str, request_id: str = "") -> FeaturesRequest:
    entities: tuple[Entity, ...] = tuple({"user_id": user} for user in users)
    return FeaturesRequest((), name, entities, None, request_id=request_id)


class Counted:
    """A log and its counters."""

    def __init__(self, of: Deployment, bootstrap: str, **options: Any) -> None:
        self.metrics = Metrics()
        service = FeatureService(SystemClock())
        service.catalog = catalog_of(of)
        self.log = RequestLog(service, self.metrics, bootstrap, **options)

    def lost(self) -> dict[str, int]:
        return {
            sample.labels["why"]: int(sample.value)
            for metric in self.metrics.lost_answers.collect()
            for sample in metric.samples
            if sample.name.endswith("_total") and sample.value
        }

    def stands(self) -> int:
        return int(self.metrics.logged_answers._value.get())

    async def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.stands(), self.lost())
            await asyncio.sleep(0.01)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_what_finds_the_buffer_full_is_lost_and_counted() -> None:
    async def played() -> None:
        counted = Counted(deployment(), NOWHERE, buffer=5)
        for _ in range(3):
            counted.log.take(request_of("logged", "a", "b"), answer_of("a", "b"), None, "c", 0.01)
        assert counted.lost() == {"buffer": 2}
        counted.log.take(request_of("logged", "a"), answer_of("a"), None, "c", 0.01)
        assert counted.lost() == {"buffer": 2}

    run(played())


def test_what_the_broker_does_not_take_in_time_is_lost_and_counted() -> None:
    async def played() -> None:
        counted = Counted(deployment(), NOWHERE, patience_s=1.5)
        begun = time.perf_counter()
        for user in "abc":
            counted.log.take(request_of("logged", user), answer_of(user), None, "c", 0.01)
        assert time.perf_counter() - begun < 0.5  # nobody waits for the broker
        await counted.until(lambda: counted.lost() == {"broker": 3})
        assert not counted.stands()

    run(played())


def test_a_process_that_ends_counts_what_it_could_not_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_log, "END_S", 0.3)

    async def played() -> None:
        counted = Counted(deployment(), NOWHERE)
        for user in "abc":
            counted.log.take(request_of("logged", user), answer_of(user), None, "c", 0.01)
        counted.log.close()
        assert counted.lost() == {"end": 3}

    run(played())


class Breaking:
    """A writer of records that fails on one user."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(request_log, "record_of", self.written)

    def written(self, answered: Answered, position: int) -> bytes:
        if answered.answer.results[position].entity["user_id"] == "bad":
            raise ValueError("unwritable")
        return records.record_of(answered, position)


def test_an_entity_that_cannot_be_written_keeps_none_of_the_others_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Breaking(monkeypatch)

    async def played() -> None:
        counted = Counted(deployment(), NOWHERE, patience_s=1.5)
        take = counted.log.take
        take(request_of("logged", "a", "bad", "b"), answer_of("a", "bad", "b"), None, "c", 0.01)
        take(request_of("logged", "c"), answer_of("c"), None, "c", 0.01)
        await counted.until(lambda: sum(counted.lost().values()) == 4)
        assert counted.lost() == {"defect": 1, "broker": 3}

    run(played())


def test_a_process_that_ends_counts_all_behind_one_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Breaking(monkeypatch)
    monkeypatch.setattr(request_log, "END_S", 0.3)

    async def played() -> None:
        counted = Counted(deployment(), NOWHERE)
        for user in ("a", "bad", "b", "c"):
            counted.log.take(request_of("logged", user), answer_of(user), None, "c", 0.01)
        counted.log.close()
        assert counted.lost() == {"defect": 1, "end": 3}

    run(played())


def test_a_full_buffer_loses_no_more_than_would_have_been_logged() -> None:
    async def played() -> None:
        of = deployment(0.5)
        rule = rule_of(of)
        assert rule is not None
        counted = Counted(of, NOWHERE, buffer=0)
        users = [f"u{n}" for n in range(100)]
        counted.log.take(request_of("logged", *users), answer_of(*users, of=of), None, "c", 0.01)
        sampled = sum(rule.takes(rule.key({"user_id": user})) for user in users)
        assert counted.lost() == {"buffer": sampled}
        assert 0 < sampled < 100

    run(played())


def test_a_share_of_the_entities_is_logged_and_always_the_same_ones() -> None:
    users = [f"u{n}" for n in range(4_000)]
    for rate in (0.1, 0.5, 0.9):
        rule = rule_of(deployment(rate))
        assert rule is not None
        taken = [user for user in users if rule.takes(rule.key({"user_id": user}))]
        assert abs(len(taken) / len(users) - rate) < 0.03
    half = rule_of(deployment(0.5))
    assert half is not None
    first = [user for user in users[:20] if half.takes(half.key({"user_id": user}))]
    assert first == GOLDEN, "another hash would log other entities, and end all their histories"


def test_an_entity_is_its_own_columns_in_whatever_spelling() -> None:
    rule = LogRule("t", 1, "d", "", (("user", False), ("at", True)))
    spelled: list[Entity] = [
        {"user": "a", "at": "2026-11-30T08:00:00Z", "song": "x"},
        {"at": "2026-11-30T09:00:00+01:00", "user": "a", "song": ["y", "z"]},
        {"user": "a", "at": 1_796_025_600_000_000},
    ]
    assert len({rule.key(entity) for entity in spelled}) == 1
    assert rule.key({"user": "a", "at": "no instant"}) != rule.key(spelled[0])


def test_a_set_that_logs_nothing_has_no_rule_and_refs_have_none() -> None:
    catalog = catalog_of(deployment())
    assert catalog.select((), "silent").log is None
    assert catalog.select(REFS, None).log is None
