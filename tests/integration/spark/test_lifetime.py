"""A lifetime on real servers: online and in training the same bytes, through moves, late events and
losses."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
import redis
from confluent_kafka import Producer

import slicewise as sw
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.jobs import hour_text
from slicewise.lifecycle.sweep import rules_of, verdict
from slicewise.offsets import token as tokens
from slicewise.spark.lake.backfill import backfill
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.report import Report
from slicewise.stores.online.redis import sweep as store_sweep
from slicewise.stores.online.redis.status import read_status
from slicewise.training.archiving.offline import Offline
from slicewise.training.dataset import build_training_set
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.support.platform.lake import Lake, lake

pytestmark = pytest.mark.timeout(900)

SEED = 20_261_121
USERS = ("ann", "bob", "zoë")
COLUMNS = ["plays_lifetime", "spent_lifetime", "plays_1h", "plays_lifetime_offset_1d"]
Timed = tuple[int, dict[str, Any]]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


def ever(name: str = "ever", topic: str = "clicks", timestamp: str = "played") -> sw.FeatureView:
    schema = {"user_id": "string", "price": "double", "played": "timestamp_us"}
    source = sw.KafkaSource(topic, schema=schema, timestamp=timestamp, max_lateness="1h")
    windows: list[sw.Window | str] = ["1h", "lifetime", sw.lifetime(offset="1d")]
    return sw.FeatureView(
        name,
        source=source,
        entity=["user_id"],
        features=[
            sw.Feature("plays", sw.count(), windows=windows),
            sw.Feature("spent", sw.sum("price"), windows=["lifetime"]),
        ],
    )


def days_ago(days: int, count: int, chance: random.Random) -> list[dict[str, Any]]:
    """Events of two hours of that day."""
    midnight = time.time_ns() // 1_000 // DAY_US * DAY_US - days * DAY_US
    return [
        {
            "user_id": chance.choice(USERS),
            "price": chance.choice([0.1, 1e16, -1e16, 7.25]),
            "played": midnight + chance.choice((0, 5)) * HOUR_US + chance.randrange(HOUR_US // 4),
        }
        for _ in range(count)
    ]


def produce(shared: Lake, events: Sequence[Mapping[str, Any]], topic: str = "clicks") -> None:
    """Produces the events as they came: a record's time is its event's, so that none of them is too
    late."""
    producer = Producer({"bootstrap.servers": shared.settings.kafka_bootstrap, "log_level": 2})
    for number, event in enumerate(events):
        at = event["played"] // 1_000 + 1
        producer.produce(topic, json.dumps(event).encode(), partition=number % 2, timestamp=at)
    assert producer.flush(30) == 0


def compacted(shared: Lake) -> Report:
    """Runs until nothing is dirty."""
    with shared.context() as context:
        for _ in range(4):
            report = compact(context, Request(None))
            if not report.more["dirty"]:
                return report
    raise AssertionError(f"still dirty: {report.to_json()}")


READ = """
import json, sys
import slicewise as sw
from slicewise.errors import BeyondRetention
url, refs, entities, at = json.loads(sys.stdin.read())
with sw.Client(url) as client:
    try:
        response = client.get(refs, entities, at)
        results = [{"entity": r.entity, "token": r.token, "values": r.values} for r in response.results]
        told = {"t_us": response.t_us, "results": results}
    except BeyondRetention as refused:
        told = {"earliest_at_us": refused.earliest_at_us}
print(json.dumps(told))
"""


def read(
    shared: Lake, refs: list[str], entities: list[dict[str, str]], at: int | None
) -> dict[str, Any]:
    """The answer to a client whose environment is not that of Spark."""
    python = shared.settings.home / ".venvs" / "platform" / "bin" / "python"
    request = json.dumps([shared.settings.redis_url, refs, entities, at])
    done = subprocess.run(
        [python, "-c", READ], input=request, text=True, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def compare(
    shared: Lake,
    deployment: Deployment,
    sent: Sequence[Mapping[str, Any]],
    at: int | None = None,
    view: str = "ever",
) -> int:
    """Online, by token from the archive, and by brute force: the same bytes. Gives the time of the
    reading."""
    refs = [f"{view}:{column}" for column in COLUMNS]
    entities = [{"user_id": user} for user in (*USERS, "nobody")]
    answer = read(shared, refs, entities, at)
    offline = Offline.open(shared.settings, deployment)
    moment = EPOCH + timedelta(microseconds=answer["t_us"])
    spine = [{**r["entity"], "at": moment, "token": r["token"]} for r in answer["results"]]
    trained = build_training_set(
        deployment, offline.archive, spine, refs, "token"
    ).table.to_pylist()
    for entity, result, row in zip(entities, answer["results"], trained, strict=True):
        bounds = tokens.decode_all(result["token"])[0].bounds
        own = [e for e in sent if e["user_id"] == entity["user_id"]]
        for ref, value in zip(refs, result["values"], strict=True):
            column = ref.partition(":")[2]
            start, end = bounds[column]
            inside = [Fraction(e["price"]) for e in own if start <= e["played"] < end]
            wanted: Any = len(inside)
            if column.startswith("spent"):
                total = sum(inside, Fraction(0))
                wanted = total.numerator / total.denominator if inside else None
            # to the bit
            assert repr(wanted) == repr(value) == repr(row[ref]), (ref, entity, bounds[column])
            assert "lifetime" not in column or start == -62_135_596_800_000_000
    return int(answer["t_us"])


def totals(shared: Lake, deployment: Deployment) -> dict[str, int]:
    """The numbers of the store's keys that hold a total, days, and an expiry."""
    result = {"totals": 0, "days": 0, "expiring": 0}
    unit = deployment.units[0].storage_fingerprint
    with redis.Redis.from_url(shared.settings.redis_url) as client:
        for key in client.scan_iter(f"*{unit}*:hot"):
            result["totals"] += bool(client.hexists(key, "t"))
        for key in client.scan_iter(f"*{unit}*"):
            result["days"] += b":day:" in key
            result["expiring"] += client.ttl(key) != -1
    return result


def test_hours_go_into_totals_and_every_answer_stays_true(shared: Lake) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    shared.topic("clicks")
    deployment = shared.deploy(ever())
    sent = [e for days in (400, 5, 1) for e in days_ago(days, 40, chance)]
    produce(shared, sent)
    shared.apply(deployment, "clicks")
    report = compacted(shared)
    assert [(move["brought"], move["left_over"]) for move in report.totals_until] == [
        (len(USERS), 0)
    ]
    assert totals(shared, deployment) == {"totals": len(USERS), "days": len(USERS), "expiring": 0}
    old = read(
        shared, ["ever:plays_lifetime"], [{"user_id": "ann"}], time.time_ns() // 1_000 - 30 * DAY_US
    )
    # later than the offset, and than the hour before it: other windows go no further back than
    # retention
    compare(shared, deployment, sent, at=old["earliest_at_us"] + DAY_US + 2 * HOUR_US)

    # events for hours that are in totals count at once, and are brought by the next run
    late = [*days_ago(400, 9, chance), *days_ago(5, 9, chance)]
    produce(shared, late)
    shared.apply(deployment, "clicks")
    with shared.context() as context:
        context.archive("clicks")
    compare(shared, deployment, sent + late)
    report = compacted(shared)
    assert [(move["brought"], move["left_over"]) for move in report.totals_until] == [
        (len(USERS), 0)
    ]
    compare(shared, deployment, sent + late)

    # a run with nothing to do does nothing; the sweep takes only a day that an unfinished publish
    # left behind
    with shared.context() as context:
        again = compact(context, Request(None))
        assert again.to_json()["outcome"] == "clean"
        assert not again.totals_until
    deployed_now = store_sweep.deployed(shared.settings.redis_url)
    assert deployed_now is not None
    rules = rules_of(deployed_now.metadata, deployed_now.manifest)
    name = deployed_now.metadata.name(deployment.units[0].storage_fingerprint)
    with redis.Redis.from_url(shared.settings.redis_url) as client:
        left = f"sw:{deployed_now.metadata.store_id}:{{user_id:string:ann}}:{name}:day:20240101"
        client.hset(left, "c", "")
        url = shared.settings.redis_url
        swept = store_sweep.sweep(
            url, deployed_now, lambda key, at, now, fields: verdict(key, at, now, rules, fields)
        )
        assert (swept["in_totals"], swept["no_expiry"], swept["unknown"]) == (1, 0, 0)
        assert not client.exists(left)


def test_a_new_unit_and_a_store_that_was_emptied_begin_with_totals(shared: Lake) -> None:
    chance = random.Random(SEED + 1)
    shared.topic("others")
    shared.deploy(ever("first", "others"))
    sent = [e for days in (300, 1) for e in days_ago(days, 20, chance)]
    produce(shared, sent, "others")
    shared.apply(shared.deploy(ever("first", "others")), "others")
    both = shared.deploy(ever("first", "others"), ever("second", "others"))
    with shared.context() as context:
        built = backfill(context, "second")
        assert [unit["ready"] for unit in built.more["units"]] == [True]
        assert [(move["seq"], move["brought"]) for move in built.totals_until] == [(0, len(USERS))]
    compare(shared, both, sent, view="second")
    compacted(shared)

    # emptied: the new store begins where the log does, and replays it beside what is archived and
    # compacted
    with redis.Redis.from_url(shared.operator_url) as client:
        client.flushall()
    both = shared.deploy(ever("first", "others"), ever("second", "others"))
    shared.apply(both, "others")
    compacted(shared)
    for view in ("first", "second"):
        compare(shared, both, sent, view=view)


def test_a_day_that_passed_is_added_to_totals_and_what_is_recomputed_mends_them(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(SEED + 2)
    shared.topic("stamped")
    # events lie where they arrived
    deployment = shared.deploy(ever("stamped", "stamped", timestamp="kafka"))
    (unit,) = deployment.units
    today = time.time_ns() // 1_000 // DAY_US
    # as if it had been deployed a week ago
    with redis.Redis.from_url(shared.operator_url) as client:
        client.hset("sw:marks:{0}", f"h:{unit.storage_fingerprint}", f"{(today - 7) * 24}/0")
    made = [event for days in (400, 6, 4, 1) for event in days_ago(days, 30, chance)]
    # their records' times
    sent = [event | {"played": event["played"] // 1_000 * 1_000 + 1_000} for event in made]
    produce(shared, made, "stamped")
    shared.apply(deployment, "stamped")
    with monkeypatch.context() as earlier:  # five days ago
        earlier.setattr(Context, "total_until_due", lambda self, unit: (today - 5) * 24)  # noqa: ARG005
        first = compacted(shared)
    compare(shared, deployment, sent, view="stamped")
    assert totals(shared, deployment) == {
        "totals": len(USERS),
        "days": 2 * len(USERS),
        "expiring": 0,
    }
    second = compacted(shared)
    moves = [
        (move["brought"], move["left_over"])
        for report in (first, second)
        for move in report.totals_until
    ]
    assert moves == [(len(USERS), 0)] * 2
    assert (
        first.totals_until[0]["before"]
        == hour_text((today - 5) * 24)
        < second.totals_until[0]["before"]
    )
    assert totals(shared, deployment) == {"totals": len(USERS), "days": len(USERS), "expiring": 0}
    compare(shared, deployment, sent, view="stamped")
    assert read_status(shared.settings.redis_url).published[unit.storage_fingerprint]

    # ann's total is bob's: an hour before the total-until hour is recomputed, and all totals are
    # written anew
    with redis.Redis.from_url(shared.operator_url) as client:
        hot = sorted(client.scan_iter(f"*{unit.storage_fingerprint}*:hot"))
        ann, bob, _ = hot
        client.hset(ann, "t", client.hget(bob, "t"))
    with pytest.raises(AssertionError, match="lifetime"):
        compare(shared, deployment, sent, view="stamped")
    with shared.context() as context:
        compact(context, Request((today - 6) * 24, only=True, from_raw=True))
    compare(shared, deployment, sent, view="stamped")
