"""A deployment reaches the running platform by one script on the store; its history follows from
the archive.

A changed unit under a name that is served is refused before anything is written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from slicewise.errors import DefinitionError, NotReady, ServerError, StoreUnavailable
from slicewise.features import own
from slicewise.features.own import HISTORY_PARTITION, history_topic
from slicewise.features.plan.deployment import Deployment, base_of
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import instant_text
from slicewise.lifecycle.healing.record import PART, Healing
from slicewise.local.registry import register as register
from slicewise.log import warning
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import phases
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest, Renewal
from slicewise.stores.online.operations.status import ReadStatus
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.redis.status import DEPLOYED, amend_part, record_instants
from slicewise.stores.recovery.beginning import archived_by, beginnings, with_probes_ready
from slicewise.stores.recovery.schema_offsets import settled


@dataclass(frozen=True)
class Current:
    """State of the store: its metadata, and the deployment that it names (none before the
    first)."""

    metadata: StoreMetadata
    deployment: Deployment | None


@contextmanager
def connected(settings: Settings) -> Iterator[OnlineStore]:
    """A connection to the online store; a store without metadata gets a store id."""
    store = open_store(settings.redis_url)
    try:
        store.run(Initialise())
        yield store
    finally:
        store.close()


@contextmanager
def looked_at(settings: Settings) -> Iterator[OnlineStore]:
    """A connection that writes nothing, not even a store id. ServerError where the store, or a
    node, has none."""
    store = open_store(settings.redis_url)
    try:
        yield store
    except NotReady as error:
        raise ServerError(
            error.what, expected="a deployment", next_step="slicewise apply"
        ) from error
    finally:
        store.close()


def current(store: OnlineStore) -> Current:
    """The state of what is deployed."""
    metadata = store.run(ReadMetadata())
    text = store.run(ReadManifest(metadata.units)) if metadata.units else None
    return Current(metadata, None if text is None else Deployment.from_json(text))


def in_effect(settings: Settings, store: OnlineStore) -> Current:
    """Gives what is deployed, once the offsets are recorded from which each changed schema holds.
    That takes some seconds, where one is not recorded (docs/adr/0057)."""
    settled(store, settings.kafka_bootstrap, time.sleep)
    return current(store)


def deploy(
    settings: Settings,
    store: OnlineStore,
    deployment: Deployment,
    deployment_version: int,
    *,
    by: str = "",
    how: str = "apply",
) -> StoreMetadata:
    """Deploys; topics that do not exist are made. The metadata afterwards.

    deployment_version: the one that the plan was made under; DeploymentSuperseded when somebody
    deployed since. by, how: the person or program that deploys, and its command, for the history.
    """
    stored = current(store)
    before = stored.metadata
    refuse_shared_topics(deployment.sources)
    _refuse_cuts(settings, deployment, stored.deployment)
    with KafkaLog(settings.kafka_bootstrap) as log:
        for source in deployment.sources:
            log.create(source.topic, 1 if source.name == own.SOURCE else settings.kafka_partitions)
        # a store that knows nothing is a new one, or one that lost all: then the archive may hold
        # what it lost
        archived = None if before.units else archived_by(settings)
        topics, first = beginnings(deployment, log, archived)
    names = _moved_names(store, before, deployment)
    metadata = store.run(Deploy(deployment, deployment_version, topics, first))
    if names:

        def follow(text: str | None) -> str:
            return Healing.of([text]).renamed(names).text()

        amend_part(settings.redis_url, PART, follow)
    register(settings, metadata, deployment.digest, before, by=by, how=how)
    metadata = with_probes_ready(store, deployment, metadata)
    try:
        # drivers that nobody wanted before have time to start
        record_instants(settings.redis_url, [DEPLOYED])
    except StoreUnavailable as error:  # the deployment stands
        warning("deployment_not_recorded", reason=error.what)
    return metadata


def refuse_shared_topics(sources: Sequence[Source]) -> None:
    """Raise DefinitionError where another source reads the topic of one that has a history.

    Its import would be refused, after the topic's early records were refused for it.
    """
    for source in sources:
        if source.history_until_us is None:
            continue
        for other in sources:
            if other.name != source.name and other.topic == source.topic:
                raise DefinitionError(
                    f"source {other.name!r} reads topic {source.topic!r} too, and a history "
                    "needs a topic of its own",
                    where=f"source {source.name!r}",
                    expected="one source over the topic",
                    next_step="declare one source over the topic, or leave history= out",
                )


def _refuse_cuts(settings: Settings, new: Deployment, deployed: Deployment | None) -> None:
    """Raise DefinitionError where a history would end after now, or elsewhere than the archive's.

    After now, since every record of the topic would be refused until then.
    """
    before = {} if deployed is None else {source.name: source for source in deployed.sources}
    for source in new.sources:
        until_us = source.history_until_us
        then = before.get(source.name)
        if then is not None and until_us == then.history_until_us:
            continue
        if until_us is not None and until_us > time.time_ns() // 1000:
            raise DefinitionError(
                f"history_until {instant_text(until_us)} has not come yet: until then every record "
                "of the topic would be refused",
                where=f"source {source.name!r}",
                expected="an instant from which on the topic has all events",
                next_step="declare an instant that has passed",
            )
        from slicewise.stores.lake.catalog import open_catalog
        from slicewise.stores.lake.imported.history import taken_in

        stood = taken_in(open_catalog(settings), source.name)
        if stood is not None and stood.until_us != until_us:
            raise DefinitionError(
                "the archive holds a history of the source until "
                f"{instant_text(stood.until_us)}, and it is declared "
                + ("without one" if until_us is None else f"until {instant_text(until_us)}"),
                where=f"source {source.name!r}",
                expected="the cut by which the table was taken in: what is archived stays",
                next_step=f"declare history= and history_until={instant_text(stood.until_us)!r}, "
                "or the source under a new name",
            )


def _moved_names(
    store: OnlineStore, before: StoreMetadata, deployment: Deployment
) -> dict[str, str]:
    """Name -> new name of views that are deployed under another: versions that are promoted."""
    text = store.run(ReadManifest(before.units)) if before.units else None
    if text is None:
        return {}
    # views may share an event list, and versions of one do not
    new = {(unit.storage_fingerprint, base_of(unit.view)): unit.view for unit in deployment.units}
    then = [(unit["storage_fingerprint"], unit["view"]) for unit in json.loads(text)["units"]]
    moved = ((view, new.get((name, base_of(view)), view)) for name, view in then)
    return {view: to for view, to in moved if to != view}


def with_schemas(
    settings: Settings, store: OnlineStore, before: StoreMetadata, *, by: str, how: str = "apply"
) -> Current:
    """Gives what is deployed, once the offsets are recorded from which its schemas hold. The
    deployment that they make is by who made the one before."""
    after = in_effect(settings, store)
    register(settings, after.metadata, after.metadata.units, before, by=by, how=how)
    return after


def building(deployment: Deployment, metadata: StoreMetadata) -> dict[str, tuple[int, int]]:
    """View -> (hours done, hours in all) of those whose history is not built yet; (0, 0): not
    begun."""
    left: dict[str, tuple[int, int]] = {}
    for unit in deployment.units:
        if unit.storage_fingerprint not in metadata.ready:
            left[unit.view] = metadata.building.get(unit.storage_fingerprint, (0, 0))
    return left


def waiting(
    store: OnlineStore, deployment: Deployment, metadata: StoreMetadata, job: str, since_us: int
) -> dict[str, str]:
    """View -> how far its build is and what it waits for, of those whose history is not built. job:
    what counts where nobody has said that of a unit since since_us."""
    left: dict[str, str] = {}
    building = phases.phases_of(store.run(ReadStatus(phases.PART)))
    for unit in deployment.units:
        name = unit.storage_fingerprint
        if name not in metadata.ready:
            phase = building.get(name)
            text = phase.text if phase is not None and phase.at_us >= since_us else job
            left[unit.view] = f"{phases.progress(*metadata.building.get(name, (0, 0)))}; {text}"
    return left


def require_units(stored: Current) -> Deployment:
    """The deployment; ServerError where nothing is deployed."""
    if stored.deployment is None:
        raise ServerError(
            "nothing is deployed on this store",
            expected="a deployment",
            next_step="slicewise apply",
        )
    return stored.deployment


def contain_history(
    settings: Settings, source: Source, topic_id: str, rows: int, *, by: str = ""
) -> list[str]:
    """Views that are built again with the history, of so many rows in the archive; none where they
    contain it already. Raises DeploymentSuperseded where another deployment came between."""
    end = OffsetVector({(topic_id, HISTORY_PARTITION): rows})
    with connected(settings) as store:
        stored = current(store)
        deployment = require_units(stored)
        metadata = stored.metadata
        if metadata.committed.dominates(end):
            return []
        units = [unit for unit in deployment.units if unit.source == source.name]
        topics = {**metadata.topics, history_topic(source.topic, source.name): topic_id}
        anew = frozenset(unit.storage_fingerprint for unit in units)
        after = store.run(
            Deploy(
                deployment,
                metadata.deployment_version,
                topics,
                end,
                renewal=Renewal(anew),
            )
        )
        register(settings, after, deployment.digest, metadata, by=by, how="import-history")
    return list(dict.fromkeys(unit.view for unit in units))
