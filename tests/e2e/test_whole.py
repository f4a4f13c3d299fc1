"""The whole way on real servers, through crashes: online = training = published = oracle over the
raw log, as bytes.

produce → stream killed in the middle of a batch → started again → compaction → late events →
compaction again → Redis loses its last commands → the real-time lane brings what no micro-batch has
→ everything once more, and every entity and window compared.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slicewise.features.plan.deployment import Deployment
from slicewise.local import deploy
from slicewise.local.servers import stream
from slicewise.offsets.token import decode_all
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.committed import committed_at
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import ReadEntered, committed_of
from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.e2e.compare import Count, compare, spine
from tests.e2e.payments import CARDS, PARTITIONS, Produced, parse, payments
from tests.e2e.published import check_published
from tests.support.oracles.answers import DAY, HOUR, OracleEvent
from tests.support.platform.stack import Stack, stack

pytestmark = pytest.mark.timeout(3000)

SEED = 20261121
BEGUN = time.monotonic()
TOPIC = "payments"
PROJECT = Path(__file__).parent / "project"
# Small batches, so that a kill finds one open.
SETTINGS = {"SLICEWISE_MAX_EVENTS_PER_BATCH": "1500", "SLICEWISE_KAFKA_PARTITIONS": str(PARTITIONS)}


@pytest.fixture
def platform() -> Iterator[Stack]:
    with stack(PROJECT, SETTINGS) as running:
        running.up()
        yield running


def now_us() -> int:
    return time.time_ns() // 1000


def produce(platform: Stack, records: list[Produced]) -> None:
    platform.produce(
        TOPIC, [(record.partition, record.value, record.time_ms) for record in records]
    )


def of_other_days(seed: int, n: int) -> list[Produced]:
    """Payments of six hours four days ago, recorded then: hours that only lifetimes hold, in their
    totals."""
    then = now_us() - 4 * DAY
    return payments(seed, n, then, then - 6 * HOUR, then)


def totals_written(report: dict[str, Any]) -> dict[str, int]:
    """The number of totals that a compaction wrote of each view; all that there were to write."""
    assert not any(unit["left_over"] for unit in report["horizons"]), report["horizons"]
    return {unit["view"]: unit["brought"] for unit in report["horizons"]}


def raw_events(platform: Stack) -> tuple[list[OracleEvent], int]:
    """Every good event of the log, and how many records are bad."""
    records = platform.records(TOPIC)
    parsed = [
        parse(topic, partition, offset, value) for topic, partition, offset, _, value in records
    ]
    return [event for event in parsed if event is not None], sum(event is None for event in parsed)


def metadata(platform: Stack) -> StoreMetadata:
    with platform.store() as store:
        return store.run(ReadMetadata())


def applied(platform: Stack) -> int:
    return sum(metadata(platform).committed.offsets.values())


def hour_text(hours_ago: int) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours_ago)).strftime("%Y-%m-%dT%H")


def ats() -> list[str | None]:
    """Live, and instants of the past that cut hours, slices and days differently."""
    now = datetime.now(UTC)
    past = [
        now - timedelta(seconds=1),
        now - timedelta(minutes=47),
        now - timedelta(hours=3, minutes=11, seconds=7),
    ]
    return [None, *(moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for moment in past)]


def check_online(platform: Stack, deployment: Deployment, when: str, past: int) -> Count:
    """Live and at the past instant of this number: the steps take turns, and the last check asks
    for all."""
    begun = time.monotonic()
    events, _ = raw_events(platform)
    count = Count()
    for at in (None, ats()[past]):
        compare(platform, deployment, events, at, count)
    print(
        f"[{time.monotonic() - BEGUN:.0f} s] {when}: {count.compared} values compared with the "
        f"oracle in {time.monotonic() - begun:.0f} s, {len(count.wrong)} differ"
    )
    assert not count.wrong, "\n".join(count.wrong[:20])
    return count


def redis_data(platform: Stack) -> Path:
    return platform.settings.state_dir / "redis" / "appendonlydir"


def lose_the_last_commands(platform: Stack, kept: Path) -> None:
    """SIGKILLs Redis, puts its older append-only file back, starts it again."""
    (row,) = [service for service in platform.status() if service.name == "redis"]
    assert row.pid is not None
    process = psutil.Process(row.pid)
    process.kill()
    process.wait(10)
    shutil.rmtree(redis_data(platform))
    shutil.copytree(kept, redis_data(platform))
    platform.up("redis")


def test_online_equals_training_equals_the_oracle_through_crashes_and_losses(
    platform: Stack, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    platform.cli("apply", "--no-wait")
    with deploy.connected(platform.settings) as store:
        deployment = deploy.require_units(deploy.current(store))

    # --- the driver is killed in the middle of a batch, and another takes over
    now = now_us()
    produce(platform, of_other_days(SEED + 3, 300))
    produce(platform, payments(SEED, 11_700, now, now - 5 * HOUR, now, bad=40))
    platform.start_stream()
    platform.wait(lambda: None if applied(platform) >= 3_000 else "not begun", "the first batches")
    platform.kill_stream()
    killed_at = applied(platform)
    assert killed_at < 12_040, "the kill came after the last batch: nothing was shown"
    platform.start_stream()
    platform.wait_applied(TOPIC)
    total = check_online(
        platform, deployment, f"after SIGKILL at {killed_at} of 12,040", 1
    ).compared

    # --- compaction changes no value; late events for compacted hours come in; compaction twice
    first = platform.job("compact", "--hour", hour_text(1))
    assert totals_written(first) == {"ever_by_card": len(CARDS), "everything_ever": PARTITIONS}
    total += check_online(platform, deployment, "after compaction", 2).compared
    now = now_us()
    produce(platform, of_other_days(SEED + 4, 300))
    produce(platform, payments(SEED + 1, 2_700, now, now - 5 * HOUR, now, bad=10))
    platform.wait_applied(TOPIC)
    total += check_online(platform, deployment, "late events after compaction", 3).compared
    second = platform.job("compact", "--hour", hour_text(1))
    assert totals_written(second) == {"ever_by_card": len(CARDS), "everything_ever": PARTITIONS}
    total += check_online(platform, deployment, "compacted again", 1).compared
    print(
        "compactions: "
        f"{[{k: v for k, v in r.items() if isinstance(v, int)} for r in (first, second)]}"
    )

    # --- Redis comes back without its last commands
    kept = tmp_path / "kept"
    time.sleep(1.1)  # the append-only file is synced every second; this keeps a whole one
    shutil.copytree(redis_data(platform), kept)
    now = now_us()
    produce(platform, payments(SEED + 2, 3_000, now, now - 5 * HOUR, now, bad=10))
    platform.wait_applied(TOPIC)
    lose_the_last_commands(platform, kept)
    assert applied(platform) < 18_060, "the store lost nothing: nothing was shown"
    platform.wait_applied(TOPIC)
    total += check_online(platform, deployment, "after Redis lost its last commands", 3).compared

    # --- the real-time lane brings what no micro-batch has counted yet, late events too
    platform.settings = Settings.load({**platform.settings.to_env(), "SLICEWISE_REALTIME": "on"})
    platform.start_stream()
    platform.wait_realtime(TOPIC)
    with platform.stopped(stream.NAME):
        now = now_us()
        produce(platform, payments(SEED + 5, 600, now, now - 5 * HOUR, now, bad=5))
        platform.wait_written(TOPIC)
        committed = metadata(platform).committed
        rows, count = served(platform, deployment)
    beyond = sum(
        not committed.dominates(token.base) for row in rows for token in decode_all(row["token"])
    )
    print(
        f"with the real-time lane: {count.compared} values; {beyond} of {len(rows)} answers "
        "hold what no micro-batch has counted"
    )
    assert beyond > 1_000  # live, and where a past instant has such events
    total += count.compared
    platform.wait_applied(TOPIC)
    total += check_online(platform, deployment, "applied again", 2).compared

    # --- and training by the tokens of these answers gives the same bytes
    # archives up to now: the tokens' offset vectors are reached
    platform.wait(lambda: entered_reason(platform), "the stream to enter how far it is")
    caught_up = now_us()
    platform.job("compact", "--hour", hour_text(1))
    total += check_training(platform, deployment, tmp_path, rows)
    total += check_arrival(platform, deployment, tmp_path, caught_up)
    total += check_published(platform, deployment, TOPIC, tmp_path)
    events, bad = raw_events(platform)
    assert (len(events), bad) == (18_600, 65)
    print(f"{total} values compared in all")


def served(platform: Stack, deployment: Deployment) -> tuple[list[dict[str, Any]], Count]:
    """Answers to all, live and at each past instant, each equal to the oracle at its own token."""
    events, _ = raw_events(platform)
    count = Count()
    rows = [row for at in ats() for row in compare(platform, deployment, events, at, count)]
    assert not count.wrong, "\n".join(count.wrong[:20])
    return rows, count


def check_training(
    platform: Stack, deployment: Deployment, folder: Path, rows: list[dict[str, Any]]
) -> int:
    """Training sets by token against what was served under these tokens, as bytes."""
    count = Count()
    for unit in deployment.units:
        given, out = folder / f"{unit.view}.spine.parquet", folder / f"{unit.view}.parquet"
        pq.write_table(spine(unit, rows), given)
        refs = [f"{unit.view}:{feature.column}" for feature in unit.features]
        platform.cli(
            "dataset",
            "build",
            "--spine",
            str(given),
            "--features",
            *refs,
            "--knowledge",
            "token",
            "--out",
            str(out),
        )
        built: pa.Table = pq.read_table(out)
        chosen = [row for row in rows if row["unit"] is unit]
        assert built.num_rows == len(chosen)
        for ref in refs:
            column = (
                built.column(ref)
                if ref in built.column_names
                else built.column(ref.partition(":")[2])
            )
            for row, value in zip(chosen, column.to_pylist(), strict=True):
                count.check(
                    f"training {ref} {row['key']} at {row['at']}", row["values"][ref], value
                )
    print(
        f"training by token: {count.compared} values compared with what was served, "
        f"{len(count.wrong)} differ"
    )
    assert not count.wrong, "\n".join(count.wrong[:20])
    return count.compared


def entered_reason(platform: Stack) -> str | None:
    """Says why the newest entry is not all that is applied; None where it is."""
    with platform.store() as store:
        committed = committed_of(store.run(ReadMetadata()), TOPIC)
        newest = store.run(ReadEntered(TOPIC, 0))[-1:]
    entered = [OffsetVector.unpack(one.packed) for one in newest]
    return None if entered == [committed] else f"{entered} of {committed}"


def check_arrival(platform: Stack, deployment: Deployment, folder: Path, caught_up_us: int) -> int:
    """Entries of how far the stream was, through crashes and losses, never say more than it had
    applied; once it has caught up, a set by arrival is the one by event time."""
    with platform.store() as store:
        catalog = open_catalog(platform.settings)
        seconds = np.arange(caught_up_us - HOUR, caught_up_us, 500_000)
        entries = committed_at(catalog, store, TOPIC, seconds)
    vectors = [OffsetVector.unpack(raw) for raw in entries["packed"].to_pylist()]
    committed = metadata(platform).committed
    assert len(set(vectors)) > 10
    assert all(committed.dominates(one) for one in vectors)
    assert max(entries["at_us"].to_pylist()) > caught_up_us - 120_000_000
    unit = next(unit for unit in deployment.units if unit.view == "by_card")
    given, n = folder / "arrival.spine.parquet", len(CARDS)
    # a filter is asked for a shop
    columns = {"card": CARDS, "shop": ["corner"] * n, "at": [caught_up_us] * n}
    pq.write_table(pa.table(columns), given)
    refs = [f"{unit.view}:{feature.column}" for feature in unit.features]
    tables = []
    for knowledge in ("event_time", "arrival"):
        out = folder / f"{knowledge}.parquet"
        arguments = ("--spine", str(given), "--features", *refs, "--knowledge", knowledge)
        platform.cli("dataset", "build", *arguments, "--no-archive", "--out", str(out))
        tables.append(pq.read_table(out))
    assert tables[0].equals(tables[1])
    print(f"training by arrival: {len(entries)} entries, {tables[0].num_rows * len(refs)} values")
    return int(tables[0].num_rows * len(refs))
