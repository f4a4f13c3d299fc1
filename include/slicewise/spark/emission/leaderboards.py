"""The emission of a view with leaderboards writes them, under the deployment that the store
names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slicewise.clock import Clock
from slicewise.emission.leaderboards import LeaderboardSink
from slicewise.emission.ticks import EmittedView, Sink
from slicewise.errors import NotReady
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings
from slicewise.stores.log.publisher import Publisher
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.redis import open_store


class TopicCorrections:
    """Corrections to the topics of their leaderboards, one partition each: they are few, and in
    order."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        with KafkaLog(bootstrap) as log:
            for topic in topics:
                log.create(topic, 1)
        self._publishers = {topic: Publisher(bootstrap, topic) for topic in topics}

    def append(self, topic: str, key: bytes, value: bytes) -> None:
        self._publishers[topic].append([key], [value])

    def flush(self) -> None:
        for publisher in self._publishers.values():
            publisher.flush()


def leaderboard_sinks(settings: Settings, emitted: EmittedView, clock: Clock) -> Sequence[Sink]:
    """The leaderboards of this view, if it has any. Raises StoreUnavailable, NotReady."""
    with open_store(settings.redis_url) as store:
        metadata = store.run(ReadMetadata())
        manifest = store.run(ReadManifest(metadata.units)) if metadata.units else None
    if manifest is None:
        raise NotReady(
            "nothing is deployed on this store", progress=0.0, next_step="slicewise apply"
        )
    deployment = Deployment.from_json(manifest)
    leaderboards = tuple(
        leaderboard for leaderboard in deployment.leaderboards if leaderboard.view == emitted.view
    )
    if not leaderboards:
        return []
    topics = [leaderboard.topic for leaderboard in leaderboards if leaderboard.topic is not None]
    corrections = TopicCorrections(settings.kafka_bootstrap, topics) if topics else None
    own = replace(deployment, leaderboards=leaderboards)
    return [
        LeaderboardSink(
            own,
            metadata.deployment_version,
            lambda: open_store(settings.redis_url, timeout_s=5.0),
            clock,
            corrections,
        )
    ]
