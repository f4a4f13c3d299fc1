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
from slicewise.serving.answering.answer import Answer, EntityAnswer
from slicewise.serving.answering.catalog import Catalog
from slicewise.serving.answering.requests import Entity, FeaturesRequest
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.logged import records, request_log
from slicewise.serving.logged.request_log import RequestLog
from slicewise.serving.logged.rules import entity_text, rule_of
from slicewise.serving.metrics import Metrics

NOWHERE = "127.0.0.1:1"
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


def service_of(of: Deployment) -> FeatureService:
    service = FeatureService(SystemClock())
    service.catalog = Catalog(of, 1, 1, of.digest, frozenset(), {}, {})
    return service


def answer_of(*users: str, seconds: float | None = 1.5) -> Answer:
    results = tuple(EntityAnswer({"user_id": user}, (1, seconds), f"t-{user}") for user in users)
    return Answer(REFS, "live", 7_000_000, {}, results, doubles=(False, True))


def request_of(name: str | None, *users: str, request_id: str = "") -> FeaturesRequest:
    entities: tuple[Entity, ...] = tuple({"user_id": user} for user in users)
    return FeaturesRequest((), name, entities, None, request_id=request_id)


class Counted:
    """A log and its counters."""

    def __init__(self, of: Deployment, bootstrap: str, **options: Any) -> None:
        self.metrics = Metrics()
        self.log = RequestLog(service_of(of), self.metrics, bootstrap, **options)

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
        counted = Counted(deployment(), NOWHERE, patience_s=1.0)
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


def test_an_answer_that_cannot_be_written_keeps_none_of_the_others_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = records.record_of

    def breaks(answered: Any, position: int, entity: bytes) -> bytes:
        if b"bad" in entity:
            raise ValueError("unwritable")
        return written(answered, position, entity)

    monkeypatch.setattr(request_log, "record_of", breaks)

    async def played() -> None:
        counted = Counted(deployment(), NOWHERE, patience_s=1.0)
        take = counted.log.take
        take(request_of("logged", "a", "bad", "b"), answer_of("a", "bad", "b"), None, "c", 0.01)
        take(request_of("logged", "c"), answer_of("c"), None, "c", 0.01)
        await counted.until(lambda: sum(counted.lost().values()) == 4)
        assert counted.lost() == {"defect": 2, "broker": 2}

    run(played())


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_share_of_the_entities_is_logged_whoever_asks(rate: float) -> None:
    service = service_of(deployment(rate))
    assert service.catalog is not None
    rule = rule_of(service.catalog.deployment, "d", "logged")
    assert rule is not None
    texts = [entity_text({"user_id": f"u{n}"}) for n in range(4_000)]
    taken = [rule.takes(text) for text in texts]
    assert abs(sum(taken) / len(taken) - rate) < 0.03
    again = rule_of(service.catalog.deployment, "d", "logged")
    assert again is not None
    assert [again.takes(text) for text in texts] == taken


def test_an_entity_has_one_text_whatever_the_order_of_its_columns() -> None:
    assert entity_text({"a": 1, "b": "x"}) == entity_text({"b": "x", "a": 1})
