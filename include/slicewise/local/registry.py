"""Every deployment that stood is kept, with who made it: by the store, then by the archive."""

from __future__ import annotations

import getpass
import time
from dataclasses import dataclass
from functools import partial

from slicewise.errors import DefinitionError, SlicewiseError, StoreUnavailable
from slicewise.features.plan.changes.explain import Changed, Stood, Version, changed, versions
from slicewise.features.plan.deployment import Deployment
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise.stores.lake.registered import PART, Registered, added, registered_of
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis.status import amend_part, read_part


@dataclass(frozen=True)
class Registry:
    """Deployments that stood, in the order in which they did."""

    stood: tuple[Stood, ...]
    unread: tuple[tuple[int, str], ...] = ()
    """Versions of those that cannot be shown, and why: this version of slicewise reads others, or
    the store has lost them."""

    def changes(self) -> list[tuple[Stood, tuple[Changed, ...]]]:
        """Deployments, each with the names that it brought, changed or removed."""
        befores = [None, *(one.deployment for one in self.stood)]
        return [
            (one, changed(one.deployment, before))
            for before, one in zip(befores, self.stood, strict=False)
        ]

    def versions(self, name: str) -> tuple[Version, ...]:
        """The versions of a name, the oldest first. Raises UnknownName."""
        return versions(self.stood, name)


def who() -> str:
    """The name that this process's user has here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have none
        return ""


def register(
    settings: Settings, metadata: StoreMetadata, deployment: Deployment, *, by: str, how: str
) -> None:
    """Lets the store say that this deployment was made. Where it does not answer, the next
    compaction enters the deployment all the same, without who made it."""
    one = Registered(
        metadata.set_or_store_id,
        metadata.deployment_version,
        deployment.digest,
        time.time_ns() // 1_000,
        by,
        how,
    )
    try:
        amend_part(settings.redis_url, PART, partial(added, one=one))
    except StoreUnavailable as error:  # the deployment stands
        warning("deployment_not_registered", reason=error.what)


def read_registry(settings: Settings, store: OnlineStore) -> Registry:
    """All deployments, of the archive and of the store. Raises StoreUnavailable."""
    manifests = dict[str, str]()
    registered = dict[tuple[int, int], Registered]()
    for entry in _entered(settings):
        registered[entry[0].order] = entry[0]
        manifests[entry[0].digest] = entry[1]
    for text in read_part(settings.redis_url, PART):
        registered = {one.order: one for one in registered_of(text)} | registered
    metadata = store.run(ReadMetadata())
    if metadata.units:  # nobody may have said so
        now = Registered(
            metadata.set_or_store_id, metadata.deployment_version, metadata.units, at_us=0
        )
        registered.setdefault(now.order, now)
    stood, unread = list[Stood](), list[tuple[int, str]]()
    for order in sorted(registered):
        one = registered[order]
        manifest = manifests.get(one.digest) or store.run(ReadManifest(one.digest))
        if manifest is None:
            unread.append((one.version, "its definitions are lost"))
            continue
        try:
            deployment = Deployment.from_json(manifest)
        except DefinitionError as error:
            unread.append((one.version, error.what))
            continue
        stood.append(Stood(one.version, one.at_us, one.by, one.how, deployment))
    return Registry(tuple(stood), tuple(unread))


def _entered(settings: Settings) -> list[tuple[Registered, str]]:
    # Iceberg's libraries take a second to import; who deploys needs none
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.stores.lake.registry import entries

    try:
        return [(entry.of, entry.manifest) for entry in entries(open_catalog(settings))]
    except (SlicewiseError, OSError) as error:
        warning("registry_not_read", reason=str(error))
        return []
