"""Answers, predictions and labels stand in the broker's topics as they were given."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from slicewise.serving.logged.outcomes import Outcomes
from slicewise.serving.metrics import Metrics
from slicewise.stores.log.topics import KafkaLog
from tests.support.platform.servers import KafkaBroker
from tests.unit.serving.logged.test_outcomes import LABEL, PREDICTION, taken
from tests.unit.serving.logged.test_outcomes import deployment as outcomes_deployment
from tests.unit.serving.logged.test_request_log import (
    Counted,
    answer_of,
    deployment,
    request_of,
)


def events_of(broker: KafkaBroker, topic: str) -> list[dict[str, Any]]:
    with KafkaLog(broker.bootstrap) as log:
        records = log.records_between(topic, log.earliest(topic), log.latest(topic))
        return [json.loads(record.value or b"") for record in records]


def test_every_answer_stands_once_as_it_was_given(kafka_broker: KafkaBroker) -> None:
    topic = "requests-unit"
    with KafkaLog(kafka_broker.bootstrap) as log:
        log.create(topic, 2)
    of = deployment(topic=topic)

    async def played() -> Counted:
        counted = Counted(of, kafka_broker.bootstrap)
        take = counted.log.take
        ann = answer_of("ann", of=of)
        take(request_of("logged", "ann", request_id="one"), ann, None, "c", 0.0125)
        take(request_of("logged", "bob"), answer_of("ann", "bob", of=of), 1, "c", 0.01)
        both = answer_of("x", "y", seconds=None, of=of)
        take(request_of("logged", "x", "y"), both, None, "c", 0.01)
        silent = answer_of("ann", of=of, name="silent")
        take(request_of("silent", "ann"), silent, None, "c", 0.01)
        nan = answer_of("nan", seconds=float("nan"), of=of)
        take(request_of("logged", "nan"), nan, None, "c", 0.01)
        await counted.until(lambda: counted.stands() == 5)
        counted.log.close()
        return counted

    counted = asyncio.run(played())
    assert not counted.lost()
    events = events_of(kafka_broker, topic)
    by_user = {json.loads(event["entity"])["user_id"]: event for event in events}
    assert sorted(by_user) == ["ann", "bob", "nan", "x", "y"]
    assert len(events) == 5
    ann = by_user["ann"]
    assert ann["request_id"] == "one"
    assert ann["answer"] == '{"listening:plays_1h":1,"listening:seconds_1h":1.5}'
    assert (ann["token"], ann["latency_us"], ann["deployment"]) == ("t-ann", 12_500, of.digest)
    assert by_user["x"]["request_id"] == by_user["y"]["request_id"] != by_user["bob"]["request_id"]
    assert by_user["x"]["null_count"] == 1
    assert json.loads(by_user["nan"]["answer"])["listening:seconds_1h"] == "NaN"


def test_what_is_sent_again_has_the_same_id_and_a_corrected_label_another(
    kafka_broker: KafkaBroker,
) -> None:
    of = outcomes_deployment("predictions_unit", "labels_unit")
    with KafkaLog(kafka_broker.bootstrap) as log:
        for topic in ("predictions_unit", "labels_unit"):
            log.create(topic, 1)
    for label in ("fair", "fair", "fraud"):
        outcomes = Outcomes(kafka_broker.bootstrap, Metrics())
        events = {"predictions": [PREDICTION], "labels": [{**LABEL, "label": label}]}
        assert taken(outcomes, of, **events) == {"predictions": 1, "labels": 1}

    def ids(topic: str) -> list[str]:
        return [event["event_id"] for event in events_of(kafka_broker, topic)]

    assert len(set(ids("predictions_unit"))) == 1
    first, again, corrected = ids("labels_unit")
    assert first == again != corrected
