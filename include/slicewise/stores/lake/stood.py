"""Deployments that stood, with their definitions, as the store says and whoever keeps more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slicewise.errors import SlicewiseError
from slicewise.features.plan.changes.explain import Changed, Stood, Version, changed, versions
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings
from slicewise.stores.lake.registered import MOST, Registered, read_registered, together
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.port import OnlineStore


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

    def at(self, instant_us: int) -> Stood | None:
        """The deployment that stood at an instant; None before the first."""
        before = [one for one in self.stood if one.at_us <= instant_us]
        return before[-1] if before else None

    def versions(self, name: str) -> tuple[Version, ...]:
        """The versions of a name, the oldest first. Raises UnknownName."""
        return versions(self.stood, name)


def read_stood(
    url: str, store: OnlineStore, manifests: dict[str, str], most: int = MOST
) -> tuple[Registered, ...]:
    """Deployments that the store at `url` says, the newest `most` of them; their manifests are
    added to these. Raises StoreUnavailable."""
    metadata = store.run(ReadMetadata())
    stands = (metadata.set_or_store_id, metadata.deployment_version, metadata.units)
    given = read_registered(url, metadata, time.time_ns() // 1_000)
    latest = max((one.at_us for one in given), default=0)
    # what stands is the last, whatever the clocks of who deployed
    given = together(replace(one, at_us=latest) if one.key == stands else one for one in given)
    given = given[-most:]
    for digest in {one.digest for one in given} - manifests.keys():
        manifest = store.run(ReadManifest(digest))
        if manifest is not None:
            manifests[digest] = manifest
    return given


def registry_of(
    given: Iterable[Registered], manifests: Mapping[str, str], gaps: Iterable[str] = ()
) -> Registry:
    """The registry of these deployments. manifests: digest -> JSON of a deployment."""
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
        given += read_stood(settings.redis_url, store, manifests)
    return registry_of(given, manifests, gaps)
