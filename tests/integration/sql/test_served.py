"""A project in SQL alone, on real servers, the store on two nodes: it serves what `slicewise sql`
shows over the archive and over a file."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.platform.stack import Stack, stack

pytestmark = pytest.mark.timeout(1200)

EXAMPLE = Path(__file__).parents[3] / "examples" / "purchases"
SEED = 20261121
EVENTS = 600
USERS = [f"user-{n}" for n in range(7)]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Stack]:
    project = tmp_path / "purchases"
    shutil.copytree(EXAMPLE, project)
    with stack(
        project, {"SLICEWISE_KAFKA_PARTITIONS": "2", "SLICEWISE_STORE_NODES": "2"}
    ) as running:
        running.up()
        yield running


def purchases(now: datetime) -> list[tuple[int, bytes, int]]:
    """(partition, value, Kafka time): purchases of the last five hours, in no order."""
    rng = random.Random(SEED)
    results = []
    for _ in range(EVENTS):
        at = now - timedelta(microseconds=rng.randrange(5 * 3600 * 10**6))
        event = {
            "user_id": rng.choice(USERS),
            "item": rng.choice(["tea", "pan", "größe", None]),
            "price": rng.choice([rng.uniform(-1, 90), 0.1, 1e300, None]),
            "bought_at": at.isoformat(timespec="microseconds"),
        }
        results.append((rng.randrange(2), json.dumps(event).encode(), int(now.timestamp() * 1000)))
    return results


def shown(platform: Stack, *arguments: str) -> list[dict[str, Any]]:
    """The output of `slicewise sql … --json`, one object per view."""
    done = platform.cli("sql", *arguments, "--limit", "0", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_is_served_is_what_the_query_shows(platform: Stack, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    views = str(platform.settings.project_dir / "views.sql")
    platform.cli("apply", "--no-wait")
    records = purchases(datetime.now(UTC))
    platform.produce("purchases", records)
    platform.start_stream()
    platform.wait_applied("purchases")
    platform.job(
        "compact", "--hour", (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H")
    )
    file = tmp_path / "purchases.jsonl"  # the log by partition: ties are broken as there
    file.write_bytes(
        b"\n".join(value for _, value, _ in sorted(records, key=lambda record: record[0]))
    )

    # A whole hour is cut the same way online and in training.
    at = datetime.fromtimestamp(time.time() // 3600 * 3600 - 3600, UTC).isoformat()
    archived = shown(platform, views, "--at", at)
    assert [answer["view"] for answer in archived] == ["baskets", "hourly", "latest", "visits"]
    compared = 0
    for answer in archived:
        # a visit may be over, and is no row then
        assert len(answer["rows"]) == len(USERS) or (answer["view"] == "visits" and answer["rows"])
        columns = [name for name in answer["columns"] if name not in ("user_id", "at")]
        refs = [f"{answer['view']}:{column}" for column in columns]
        served = platform.request(
            features=refs, entities=[{"user_id": row["user_id"]} for row in answer["rows"]], at=at
        )
        for row, result in zip(answer["rows"], served["results"], strict=True):
            for column, ref in zip(columns, refs, strict=True):
                assert result["values"][ref] == row[column], (ref, row)
                compared += 1
    assert compared > len(USERS) * 7

    # The same rows over the file, at an instant and per event.
    over_file = shown(platform, views, "--over", str(file), "--at", at)
    assert [answer["rows"] for answer in over_file] == [answer["rows"] for answer in archived]
    begin = (datetime.fromisoformat(at) - timedelta(hours=2)).isoformat()
    archived = shown(platform, views, "--start", begin, "--end", at)
    over_file = shown(platform, views, "--over", str(file), "--start", begin, "--end", at)
    for own, theirs in zip(archived, over_file, strict=True):
        assert own["count"] > len(USERS)
        assert _ordered(own["rows"]) == _ordered(theirs["rows"])
        compared += own["count"]
    print(f"{compared} rows and values compared")


def _ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
