"""The stream's driver brings back what its store lost, on real servers: from its copy of the
metadata, and the archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from confluent_kafka import Producer

import slicewise as sw
from slicewise.errors import NotReady
from slicewise.features.declare.project import Project
from slicewise.features.own import HISTORY_PARTITION, history_id, history_topic
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.local import deploy
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.healing import Healer
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.committed import record_committed
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.pending import BeginRealtime
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store
from slicewise.stores.recovery.beginning import ArchivedSource
from tests.support.platform.servers import KafkaBroker, RedisServer, running

pytestmark = pytest.mark.timeout(300)


class Platform:
    """Servers, a driver's healer, and an archive that holds what the test says."""

    def __init__(self, settings: Settings, operator_url: str) -> None:
        self.settings, self.operator_url = settings, operator_url
        self.log = KafkaLog(settings.kafka_bootstrap)
        self.archive = OffsetVector()
        self.history: str | None = None
        self.healer = self.driver()
        self.deployment = self.planned("by_user")

    def driver(self) -> Healer:
        """A driver that was just started."""
        made = Healer(self.settings)
        made.archived = lambda _: ArchivedSource(self.archive, self.history)
        return made

    def planned(self, *views: str) -> Deployment:
        source = sw.KafkaSource(
            "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t"
        )
        features = [sw.Feature("n", sw.count(), windows=["1h"])]
        made = [
            sw.FeatureView(
                v, source=source, entity=["user"], where=f"user <> '{v}'", features=features
            )
            for v in views
        ]
        return plan(Project.of("p", made))

    @contextmanager
    def store(self) -> Iterator[OnlineStore]:
        store = open_store(self.settings.redis_url)
        try:
            yield store
        finally:
            store.close()

    def deploy(self, deployment: Deployment) -> StoreMetadata:
        self.deployment = deployment
        with deploy.connected(self.settings) as store:
            return deploy.deploy(
                self.settings, store, deployment, store.run(ReadMetadata()).deployment_version
            )

    def produced(self, events: int) -> OffsetVector:
        """Produces so many in each partition; gives where the log ends."""
        producer = Producer({"bootstrap.servers": self.settings.kafka_bootstrap})
        for i in range(2 * events):
            producer.produce("plays", b"{}", partition=i % 2)
        assert producer.flush(30) == 0
        return self.log.latest("plays")

    def applied(self, end: OffsetVector) -> None:
        """Moves the committed offsets as a batch's end does."""
        with self.store() as store:
            metadata = store.run(ReadMetadata())
            store.run(
                AdvanceCommitted(
                    metadata.committed, end, metadata.deployment_version, metadata.units
                )
            )

    def look(self, healer: Healer | None = None) -> StoreMetadata:
        with self.store() as store:
            return (healer or self.healer).look(store)

    def emptied(self) -> None:
        client = redis.Redis.from_url(self.operator_url)
        client.flushall()
        client.close()


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[RedisServer, KafkaBroker]]:
    with running(RedisServer) as store, running(KafkaBroker) as kafka:
        yield store, kafka


@pytest.fixture
def platform(servers: tuple[RedisServer, KafkaBroker], tmp_path: Path) -> Platform:
    store, kafka = servers
    given = {
        "SLICEWISE_STATE": str(tmp_path),
        "SLICEWISE_REDIS_URL": store.url,
        "SLICEWISE_PROBES": "off",
    }
    made = Platform(
        Settings.load({**given, "SLICEWISE_KAFKA_BOOTSTRAP": kafka.bootstrap}), store.operator_url
    )
    made.emptied()
    return made


def test_an_emptied_store_is_deployed_again_where_the_archive_ends_and_says_what_it_lacks(
    platform: Platform,
) -> None:
    with pytest.raises(NotReady):
        platform.look()  # nothing is known of it yet
    first = platform.deploy(platform.deployment)
    end = platform.produced(30)
    platform.applied(end)
    platform.look()
    platform.archive = OffsetVector(
        {topic_partition: offset - 10 for topic_partition, offset in end.offsets.items()}
    )
    # the one that saw it, and one that only has the file
    for healer in (platform.healer, platform.driver()):
        platform.emptied()
        metadata = platform.look(healer)
        assert (metadata.units, metadata.committed) == (
            platform.deployment.digest,
            platform.archive,
        )
        assert metadata.store_id > first.store_id
        (start,) = metadata.starts.values()
        assert (start, metadata.ready) == (platform.archive, frozenset())
        assert platform.look(healer).lost_offsets == end
        assert healer.lost_of(next(iter(end))[0], platform.look(healer)) == 20
    platform.applied(end)
    assert platform.look().lost_offsets == OffsetVector()


def test_a_store_that_fell_behind_a_deployment_gets_it_again(platform: Platform) -> None:
    platform.deploy(platform.deployment)
    client = redis.Redis.from_url(platform.operator_url)
    older = {key: client.dump(key) for key in client.scan_iter(match="*")}
    end = platform.produced(5)
    platform.applied(end)
    newer = platform.deploy(platform.planned("by_user", "by_fan"))
    platform.look()
    platform.emptied()
    for key, dumped in older.items():
        client.restore(key, 0, dumped)  # type: ignore[arg-type]
    client.close()
    with platform.store() as store:
        assert store.run(ReadMetadata()).deployment_version < newer.deployment_version
    metadata = platform.look()
    assert (metadata.units, metadata.lost_offsets) == (newer.units, end)
    assert len(metadata.starts) == 2


@pytest.mark.parametrize("begun", [True, False])
def test_a_store_that_lost_what_was_applied_under_the_real_time_lane_is_awaited_to_the_logs_end(
    platform: Platform, begun: bool
) -> None:
    """The pending events that answers held nobody wrote down: they are below the end of the log."""
    platform.settings = Settings.load({**platform.settings.to_env(), "SLICEWISE_REALTIME": "off"})
    platform.healer = platform.driver()
    metadata = platform.deploy(platform.deployment)
    if begun:  # and was switched off since
        with platform.store() as store:
            store.run(
                BeginRealtime(
                    "plays", metadata.committed, metadata.deployment_version, metadata.units
                )
            )
    client = redis.Redis.from_url(platform.operator_url)
    older = {key: client.dump(key) for key in client.scan_iter(match="*")}
    end = platform.produced(5)
    applied = OffsetVector(
        {topic_partition: offset - 2 for topic_partition, offset in end.offsets.items()}
    )
    platform.applied(applied)
    platform.look()
    platform.emptied()
    for key, dumped in older.items():
        client.restore(key, 0, dumped)  # type: ignore[arg-type]
    client.close()
    awaited = end if begun else applied
    assert platform.look().lost_offsets == awaited
    platform.produced(5)
    assert platform.look().lost_offsets == awaited, "the log's end of later was in no answer"
    platform.applied(applied)
    assert platform.look().lost_offsets == (end if begun else OffsetVector())
    platform.applied(end)
    assert platform.look().lost_offsets == OffsetVector()


def test_committed_offsets_that_the_log_no_longer_reaches_go_on_where_the_archive_ends(
    platform: Platform,
) -> None:
    metadata = platform.deploy(platform.deployment)
    end = platform.produced(20)
    topic = next(iter(end))[0]
    platform.log.delete_records("plays", {0: end.get((topic, 0)) - 3, 1: end.get((topic, 1)) - 2})
    platform.applied(
        OffsetVector(
            {topic_partition: offset - 4 for topic_partition, offset in end.offsets.items()}
        )
    )
    with platform.store() as store:
        current = platform.healer.look(store)
        assert platform.healer.bridged(store, platform.deployment, current) is current, (
            "the archive lacks it too: a person's"
        )
        platform.archive = OffsetVector(
            {topic_partition: offset - 1 for topic_partition, offset in end.offsets.items()}
        )
        moved = platform.healer.bridged(store, platform.deployment, current)
        assert moved.committed == platform.archive
        assert (moved.deployment_version, set(moved.starts.values())) == (
            metadata.deployment_version + 1,
            {platform.archive},
        )
        assert not moved.ready
        assert platform.healer.bridged(store, platform.deployment, moved) is moved


def test_a_driver_that_has_lost_its_copy_asks_the_archive_how_far_the_committed_offsets_had_come(
    platform: Platform,
) -> None:
    platform.deploy(platform.deployment)
    client = redis.Redis.from_url(platform.operator_url)
    older = {key: client.dump(key) for key in client.scan_iter(match="*")}
    end = platform.produced(5)
    platform.applied(end)
    with platform.store() as store:
        assert record_committed(open_catalog(platform.settings), store, "plays", "plays")
    platform.emptied()
    with pytest.raises(NotReady):
        platform.look(platform.driver())  # what was deployed it cannot know
    for key, dumped in older.items():
        client.restore(key, 0, dumped)  # type: ignore[arg-type]
    client.close()
    assert platform.look(platform.driver()).lost_offsets == end


def test_a_store_of_before_a_history_was_taken_in_gets_it_back_from_the_archive(
    platform: Platform,
) -> None:
    platform.deploy(platform.deployment)
    platform.look()
    client = redis.Redis.from_url(platform.operator_url)
    older = {key: client.dump(key) for key in client.scan_iter(match="*")}
    source = platform.deployment.source("plays")
    platform.history = history_id("plays", 1_000_000)
    assert deploy.contain_history(platform.settings, source, platform.history, 7) == ["by_user"]
    whole = platform.look()
    assert whole.committed.get((platform.history, HISTORY_PARTITION)) == 7
    platform.emptied()
    for key, dumped in older.items():
        client.restore(key, 0, dumped)  # type: ignore[arg-type]
    client.close()

    driver = platform.driver()
    lost = platform.look(driver)
    assert driver.lost == OffsetVector({(platform.history, HISTORY_PARTITION): 7})
    with platform.store() as store:
        assert driver.bridged(store, platform.deployment, lost) is lost, (
            "the archive lacks it too: a person's"
        )
        platform.archive = whole.committed
        healed = driver.bridged(store, platform.deployment, lost)
        assert healed.committed == whole.committed
        assert healed.topics == whole.topics
        assert not healed.ready, "its views are built again"
        assert driver.bridged(store, platform.deployment, healed) is healed
        driver.look(store)
    assert not driver.lost


def test_an_emptied_store_gets_a_history_whose_cut_the_definitions_no_longer_name(
    platform: Platform,
) -> None:
    platform.deploy(platform.deployment)
    platform.look()
    platform.history = history_id("plays", 1_000_000)
    platform.archive = OffsetVector({(platform.history, HISTORY_PARTITION): 7})
    platform.emptied()
    renewed = platform.look(platform.driver())
    assert renewed.committed.get((platform.history, HISTORY_PARTITION)) == 7
    assert renewed.topics[history_topic("plays", "plays")] == platform.history
