"""Definitions and their versions are read from the store beside the answers, in a thread of their
own."""

from __future__ import annotations

import asyncio

from slicewise.features.plan.changes.explain import descriptions as descriptions
from slicewise.features.plan.changes.explain import matching as matching
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.registry.shown import Shown, shown
from slicewise.lifecycle.registry.shown import shown_json as shown_json
from slicewise.stores.lake.stood import read_stood, registry_of
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.redis.status import read_status

TIMEOUT_S = 5.0


async def read_shown(
    redis_url: str, deployment: Deployment, name: str
) -> tuple[tuple[Shown, ...], tuple[tuple[int, str], ...]]:
    """All definitions of this name, with the versions of which the store says who deployed them;
    and the deployments that it cannot show, with the reasons. Raises UnknownName and
    StoreUnavailable."""
    return await asyncio.to_thread(_read, redis_url, deployment, name)


def _read(
    redis_url: str, deployment: Deployment, name: str
) -> tuple[tuple[Shown, ...], tuple[tuple[int, str], ...]]:
    manifests = {deployment.digest: deployment.to_json()}
    status = read_status(redis_url, timeout_s=TIMEOUT_S)
    store = open_store(redis_url, TIMEOUT_S)
    try:
        registry = registry_of(read_stood(redis_url, store, manifests), manifests)
    finally:
        store.close()
    return shown(name, deployment, registry, status), registry.unread
