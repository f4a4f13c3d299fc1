"""A deployment reaches the running platform by one script on the store; its history follows from the archive.

A changed unit under a name that is served is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from slicewise.cover import Cover
from slicewise.errors import ServerError
from slicewise.features import own
from slicewise.features.plan import Deployment
from slicewise.settings import Settings
from slicewise.stores.kafka.log import KafkaLog
from slicewise.stores.ports import Marks, OnlineStore
from slicewise.stores.redis import open_store


@dataclass(frozen=True)
class Standing:
    """What the store holds now: its marks, and the deployment that they name (none before the first)."""

    marks: Marks
    deployment: Deployment | None


@contextmanager
def connected(settings: Settings) -> Iterator[OnlineStore]:
    """A connection to the online store; a store without marks gets a generation."""
    store = open_store(settings.redis_url)
    try:
        store.initialise()
        yield store
    finally:
        store.close()


def standing(store: OnlineStore) -> Standing:
    """What is deployed."""
    marks = store.marks()
    text = store.manifest(marks.units) if marks.units else None
    return Standing(marks, None if text is None else Deployment.from_json(text))


def deploy(settings: Settings, store: OnlineStore, deployment: Deployment, epoch: int) -> Marks:
    """Deploys; topics that do not exist are made. The marks afterwards.

    epoch: the one that the plan was made under; EpochSuperseded when somebody deployed since.
    """
    topics: dict[str, str] = {}
    earliest = Cover({})
    with KafkaLog(settings.kafka_bootstrap) as log:
        for source in deployment.sources:
            log.create(source.topic, 1 if source.name == own.SOURCE else settings.kafka_partitions)
            topics[source.topic] = log.topic_id(source.topic)
            earliest = earliest.join(log.earliest(source.topic))
    return _with_probes_ready(store, deployment, store.deploy(deployment, epoch, topics, earliest))


def _with_probes_ready(store: OnlineStore, deployment: Deployment, marks: Marks) -> Marks:
    """Probes that come back have no history to build: none of theirs is ever asked for again."""
    late = [unit for unit in deployment.units if unit.project == own.PROJECT]
    late = [unit for unit in late if unit.storage_fingerprint not in marks.ready]
    for unit in late:
        store.mark_ready(unit, marks.starts[unit.storage_fingerprint], {unit.view: [unit.storage_fingerprint]})
    return store.marks() if late else marks


def building(deployment: Deployment, marks: Marks) -> dict[str, tuple[int, int]]:
    """View -> (hours done, hours in all) of those whose history is not built yet; (0, 0): not begun."""
    left: dict[str, tuple[int, int]] = {}
    for unit in deployment.units:
        if unit.storage_fingerprint not in marks.ready:
            left[unit.view] = marks.building.get(unit.storage_fingerprint, (0, 0))
    return left


def require_units(found: Standing) -> Deployment:
    """The deployment; ServerError where nothing is deployed."""
    if found.deployment is None:
        raise ServerError(
            "nothing is deployed on this store",
            expected="a deployment",
            next_step="slicewise apply",
        )
    return found.deployment
