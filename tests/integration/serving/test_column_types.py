"""Columns of every type are answered from a real store, over HTTP, as `sw.evaluate` answers
them."""

from __future__ import annotations

import struct
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import httpx

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import HOUR_US
from tests.integration.serving.support import serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Event, Served

people = sw.KafkaSource(
    "people",
    schema={
        "born": "date",
        "n": "int8",
        "f": "float",
        "p": "decimal(6,2)",
        "tags": "array<string>",
    },
    timestamp="kafka",
    paths={"n": "$.inner.n"},
)
FEATURES = [
    sw.Feature("n", sw.sum("n"), ["1d"]),
    sw.Feature("f", sw.sum("f"), ["1d"]),
    sw.Feature("p", sw.max("p"), ["1d"]),
    sw.Feature("tagged", sw.count("tags"), ["1d"]),
    sw.Feature("tags", sw.count_by("tags"), ["1d", sw.rows(9), sw.exact_range("1d")]),
    sw.Feature("eldest", sw.min("born"), ["1d"]),
    sw.Feature("births", sw.last_k("born", k=3), ["1d"]),
    sw.Feature("days", sw.distinct_count("born"), ["1d"]),
]
by_birthday = sw.FeatureView("by_birthday", source=people, entity=["born"], features=FEATURES)
everyone = sw.FeatureView("everyone", source=people, entity=[], features=FEATURES)
BORN = [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)]


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(item) for item in value]
    return (
        value.isoformat()
        if isinstance(value, date)
        else str(value)
        if isinstance(value, Decimal)
        else value
    )


def test_every_type_is_served_as_it_is_evaluated_from_running_compacted_and_day_parts() -> None:
    now_us = time.time_ns() // 1_000
    floats = [struct.unpack("<f", struct.pack("<f", x))[0] for x in (0.1, 1e-45, 3e38)]
    events = [
        Event(
            0,
            i,
            # two an hour, so that the first twenty fill ten hours
            (now_us // HOUR_US - 20 + i // 2) * HOUR_US + i % 2 * 1_000_000,
            {
                "born": BORN[i % 3],
                "n": (i * 37) % 256 - 128,
                "f": floats[i % 3],
                "p": Decimal(i).scaleb(-2),
                "tags": [["a", None, "é", "a"], [], None][i % 3],
            },
        )
        for i in range(40)
    ]
    given = [
        {
            **e.columns,
            "offset": e.offset,
            "kafka_time": datetime.fromtimestamp(e.time_us // 10**6, UTC),
        }
        for e in events
    ]
    with (
        running(RedisServer) as redis,
        Served.on(redis.url, plan(Project("t", (by_birthday, everyone)))) as served,
    ):
        served.apply(events)
        for event in events[:20]:
            served.compact(event.time_us // HOUR_US, OffsetVector({(TOPIC, 0): 20}))
        with serving(redis.url) as url:
            for view, entities in (
                (by_birthday, [{"born": day} for day in BORN]),
                (everyone, [{}]),
            ):
                requested = [
                    {name: _json(value) for name, value in entity.items()} for entity in entities
                ]
                refs = [
                    f"{view.name}:{column}" for feature in FEATURES for column in feature.columns()
                ]
                reply = httpx.post(
                    url + "/v1/features",
                    json={"features": refs, "entities": requested},
                    trust_env=False,
                    timeout=30,
                )
                assert reply.status_code == 200, reply.text
                body = reply.json()
                at = datetime.fromtimestamp(now_us // 10**6 + 60, UTC)
                table = sw.evaluate(
                    view, given, [{**entity, "at": at, "mode": "live"} for entity in entities]
                )
                for result, row in zip(body["results"], table.to_pylist(), strict=True):
                    wanted = {ref: _json(row[ref.partition(":")[2]]) for ref in refs}
                    assert result["values"] == wanted
        bad = [{"born": "2024-02-30"}, {"born": 7}]
        with serving(redis.url) as url:
            for entity in bad:
                refused = httpx.post(
                    url + "/v1/features",
                    json={"features": ["by_birthday:n_1d"], "entities": [entity]},
                    trust_env=False,
                    timeout=30,
                )
                assert refused.status_code == 400
                assert "no value of entity column 'born'" in refused.text
