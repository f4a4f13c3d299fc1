"""A schema holds from where its source's log ended once nobody of an earlier deployment judged
records any more.

While that offset is not recorded, nobody judges records of the source. The deployment that brought
the schema ends all who do by their deployment version: a batch of the micro-batch lane and an
archive take the log's end before they ask whether they still may, and a writer of the real-time
lane that has not asked for two seconds asks before it writes. So what they took lies below any end
of the log that is asked for LEASE_S after the deployment stood (docs/adr/0057).
"""

from __future__ import annotations

from collections.abc import Callable

from slicewise.errors import DeploymentSuperseded
from slicewise.features.plan.deployment import Deployment
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.recovery.beginning import of_topic

LEASE_S = 5.0
"""From when a deployment is seen that has a place to be recorded; more than `TRUST_NS` of
jvm/…/RealtimeSender.java."""


def record_schema_offsets(
    store: OnlineStore, log: KafkaLog, deployment: Deployment, metadata: StoreMetadata
) -> StoreMetadata:
    """Records where the schemas of `deployment` hold from that have no recorded offsets yet: the
    log's end. Whoever calls saw it stand for LEASE_S. DeploymentSuperseded where somebody deployed,
    or recorded them, meanwhile."""
    until = {}
    for name in deployment.opening:
        topic = deployment.topic_of(name)
        topic_id = metadata.topics[topic]
        log.check_topic(topic, topic_id)
        until[name] = of_topic(log.latest(topic), topic_id)
    return store.run(
        Deploy(deployment.with_until(until), metadata.deployment_version, dict(metadata.topics))
    )


def settled(store: OnlineStore, bootstrap: str, pause: Callable[[float], object]) -> StoreMetadata:
    """The metadata, once no offset of a schema is to be recorded; records those that are."""
    while True:
        metadata = store.run(ReadMetadata())
        text = store.run(ReadManifest(metadata.units)) if metadata.units else None
        deployment = None if text is None else Deployment.from_json(text)
        if deployment is None or not deployment.opening:
            return metadata
        pause(LEASE_S)
        try:
            with KafkaLog(bootstrap) as log:
                return record_schema_offsets(store, log, deployment, metadata)
        except DeploymentSuperseded:
            continue  # somebody was quicker
