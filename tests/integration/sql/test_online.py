"""Views in SQL, applied into a real store: its answers are the rows that `slicewise sql` shows of
the same events."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slicewise.cli import main
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.serving.client import Client
from slicewise.windows.durations import HOUR_US
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import Event, Served

EXAMPLE = Path(__file__).parents[3] / "examples" / "purchases"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SEED = 20261121
USERS = ("ann", "bob", "zoë")


def text(us: int) -> str:
    """RFC 3339 of microseconds."""
    return (EPOCH + timedelta(microseconds=us)).isoformat()


def test_a_store_answers_what_the_query_shows(
    own_redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(EXAMPLE)
    rng, offsets, now_us = random.Random(SEED), [0, 0], time.time_ns() // 1000
    events = []
    for _ in range(500):
        partition = rng.randrange(2)
        columns = {
            "user_id": rng.choice(USERS),
            "item": rng.choice(["tea", "pan", None]),
            # the store is given what WHERE keeps
            "price": rng.choice([rng.uniform(0.01, 90), 0.1, 1e300]),
        }
        events.append(
            Event(partition, offsets[partition], now_us - rng.randrange(5 * HOUR_US), columns)
        )
        offsets[partition] += 1
    file = tmp_path / "events.jsonl"
    lines = (
        {**e.columns, "bought_at": text(e.time_us), "partition": e.partition, "offset": e.offset}
        for e in events
    )
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    deployment = plan(load_project(EXAMPLE / "views.sql"))
    # Where an hour ends, windows are cut alike online and in training.
    at_us = now_us // HOUR_US * HOUR_US - HOUR_US
    compared = 0
    with Served.on(own_redis.url, deployment) as served, Client(own_redis.url) as client:
        served.apply(events)
        assert main(["sql", "views.sql", "--over", str(file), "--at", text(at_us), "--json"]) == 0
        for line in capsys.readouterr().out.splitlines():
            shown = json.loads(line)
            named = [name for name in shown["columns"] if name not in ("user_id", "at")]
            if shown["view"] != "visits":  # a visit may be over, and is no row then
                assert {row["user_id"] for row in shown["rows"]} == set(USERS)
            entities = [{"user_id": row["user_id"]} for row in shown["rows"]]
            answer = client.get([f"{shown['view']}:{column}" for column in named], entities, at_us)
            for row, result in zip(shown["rows"], answer.results, strict=True):
                assert list(result.values) == [row[column] for column in named]
                compared += len(named)
    print(f"seed {SEED}: {compared} values compared")
    assert compared > len(USERS) * 7
