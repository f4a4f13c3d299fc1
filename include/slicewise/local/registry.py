"""Every deployment that stood is kept, with who made it: by the store, then by the archive."""

from __future__ import annotations

import getpass
import time
from dataclasses import dataclass, replace

from slicewise.errors import SlicewiseError, StoreUnavailable
from slicewise.features.plan.changes.explain import Changed, Stood, Version, changed, versions
from slicewise.features.plan.deployment import Deployment
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise.stores.lake.registered import (
    PART,
    Registered,
    added,
    name_of,
    read_registered,
    together,
)
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis.status import amend_part


@dataclass(frozen=True)
class Registry:
    """Deployments that stood, in the order in which they did."""

    stood: tuple[Stood, ...]
    unread: tuple[tuple[int, str], ...] = ()
    """Versions of those that cannot be shown, and why: this version of slicewise reads others, or
    the store has lost them."""
    gaps: tuple[str, ...] = ()
    """Reasons why there may have been others: the archive or the store cannot be read."""

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


def register(
    settings: Settings,
    metadata: StoreMetadata,
    digest: str,
    before: StoreMetadata,
    *,
    by: str,
    how: str,
) -> None:
    """Lets the store say that this deployment was made, and which one it took the place of. Where
    it does not answer, the next compaction enters what stands, without who made it.

    metadata: as the deployment left it; before: as it was. by: empty: this process's user.
    """
    if metadata.units != digest or metadata.deployment_version == before.deployment_version:
        return  # somebody deployed since, and says so; or nothing was changed
    now_us = time.time_ns() // 1_000
    one = Registered(
        metadata.set_or_store_id,
        metadata.deployment_version,
        digest,
        now_us,
        name_of(by or _user()),
        how,
    )
    try:
        url = settings.redis_url
        given = (*read_registered(url, before, now_us - 1), one)
        amend_part(url, PART, lambda text: added(text, *given))
    except StoreUnavailable as error:  # the deployment stands
        warning("deployment_not_registered", reason=error.what)


def _user() -> str:
    """The name that this process's user has here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have none
        return ""


def read_registry(settings: Settings, store: OnlineStore | None) -> Registry:
    """All deployments, of the archive and of the store. store: None where it says nothing. Raises
    StoreUnavailable."""
    gaps = list[str]()
    manifests = dict[str, str]()
    given = list[Registered]()
    # Iceberg's libraries take a second to import; who deploys needs none
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.stores.lake.registry import entries

    try:
        for entry in entries(open_catalog(settings)):
            given.append(entry.of)
            manifests[entry.of.digest] = entry.manifest
    except Exception as error:  # noqa: BLE001  # what the store says is shown all the same
        gaps.append(f"the archive cannot be read: {error}")
    if store is None:
        gaps.append("the store says nothing")
    else:
        given += _of_store(settings.redis_url, store, manifests)
    stood, unread = list[Stood](), list[tuple[int, str]]()
    deployments = dict[str, Deployment]()
    for one in together(given):
        if one.digest not in deployments:
            try:
                deployments[one.digest] = Deployment.from_json(manifests[one.digest])
            except (SlicewiseError, LookupError, TypeError, ValueError, AttributeError) as error:
                lost = one.digest not in manifests
                reason = error.what if isinstance(error, SlicewiseError) else f"{error}"
                why = "its definitions are lost" if lost else f"another version wrote it: {reason}"
                unread.append((one.version, why))
                continue
        stood.append(Stood(one.version, one.at_us, one.by, one.how, deployments[one.digest]))
    return Registry(tuple(stood), tuple(unread), tuple(gaps))


def _of_store(url: str, store: OnlineStore, manifests: dict[str, str]) -> tuple[Registered, ...]:
    """Deployments that the store says; their manifests are added."""
    metadata = store.run(ReadMetadata())
    stands = (metadata.set_or_store_id, metadata.deployment_version, metadata.units)
    given = read_registered(url, metadata, time.time_ns() // 1_000)
    latest = max((one.at_us for one in given), default=0)
    # what stands is the last, whatever the clocks of who deployed
    given = tuple(replace(one, at_us=latest) if one.key == stands else one for one in given)
    for digest in {one.digest for one in given} - manifests.keys():
        manifest = store.run(ReadManifest(digest))
        if manifest is not None:
            manifests[digest] = manifest
    return given
