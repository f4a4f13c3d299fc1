"""A deployment under which a driver cannot live gives way to the last one under which all drivers
were well.

Decisions only: the watch of `ingest_stream` looks, and `slicewise rollback` deploys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from slicewise.stores.online.redis.status import DEPLOYED, StoreStatus

WELL_US = 120_000_000
"""A deployment is good once all drivers have been well under it for so long, and events were
applied."""
STARTS = 2
"""Starts in a row that did not help a driver, after which its deployment is undone."""


class Deployed(NamedTuple):
    """The deployment that the store names."""

    version: int
    digest: str
    at_us: int = 0
    """Time of it by the store's clock; 0 where nobody recorded it."""

    @staticmethod
    def of(status: StoreStatus) -> Deployed | None:
        """The deployment of a status; none where nothing is deployed."""
        try:
            at = status.parts.get(DEPLOYED, "")
            return Deployed(
                int(status.metadata["epoch"]),
                status.metadata["units"].decode(),
                int(at) if at.isdigit() else 0,
            )
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True)
class DriverState:
    """State of one driver that was started and not stopped."""

    fault: str = ""
    """Reason for which it is not well; empty where it is."""
    since_us: int = 0
    """Time at which the fault was found."""
    starts: int = 0
    """Starts in a row that did not help it."""
    records: int = 0
    """Records that it has read since it began."""


@dataclass(frozen=True)
class Deployments:
    """Deployments as the watch saw them, kept from look to look."""

    good: str = ""
    """Digest of the last one under which all drivers were well; empty before the first."""
    good_version: int = 0
    digest: str = ""
    """Digest of the one that stands."""
    version: int = 0
    since_us: int = 0
    """Time at which it was first seen."""
    well_us: int | None = None
    """Time since which all drivers are well under it."""
    undone_version: int = 0
    """Version of the one that was undone last; 0 where none was since somebody deployed."""
    undone: str = ""
    """Reason for which it was undone, or why that failed."""
    attempted: str = ""
    """Digest of the one that was to be undone last: it is tried once."""
    records: int = 0
    """Records that drivers had read when they were first seen well under it."""


@dataclass(frozen=True)
class Step:
    """Outcome of a look: what to keep, and the driver for which the deployment is to be undone."""

    kept: Deployments
    driver: str = ""


def step(
    kept: Deployments, deployed: Deployed, drivers: Mapping[str, DriverState], now_us: int
) -> Step:
    """The outcome of one look. drivers: those that were started and not stopped."""
    if (deployed.version, deployed.digest) != (kept.version, kept.digest):
        # a driver that it ended at once was seen before it was
        kept = _seen(kept, deployed, min(now_us, deployed.at_us or now_us))
    ill = {name: one for name, one in drivers.items() if one.fault}
    if not ill:
        return Step(_well(kept, drivers, now_us))
    kept = replace(kept, well_us=None)
    if not kept.good or kept.digest in (kept.good, kept.attempted):
        return Step(kept)
    lost = [
        name
        for name, one in sorted(ill.items())
        if one.starts >= STARTS and one.since_us >= kept.since_us
    ]
    if not lost:
        return Step(kept)
    return Step(replace(kept, attempted=kept.digest), lost[0])


def undone(kept: Deployments, deployed: Deployed, reason: str, now_us: int) -> Deployments:
    """State after the good deployment was put back, as this one."""
    before = kept.version
    return replace(_seen(kept, deployed, now_us), undone_version=before, undone=reason)


def not_undone(kept: Deployments, reason: str) -> Deployments:
    """State after an attempt that failed: it is not made again for this deployment."""
    return replace(kept, undone=f"it could not be undone: {reason}")


def _seen(kept: Deployments, deployed: Deployed, now_us: int) -> Deployments:
    return Deployments(
        kept.good,
        kept.good_version,
        deployed.digest,
        deployed.version,
        now_us,
        # somebody who deploys again what was undone means it: it has its chance anew
        attempted="",
    )


def _well(kept: Deployments, drivers: Mapping[str, DriverState], now_us: int) -> Deployments:
    if not drivers:
        return replace(kept, well_us=None)
    since_us = now_us if kept.well_us is None else kept.well_us
    read = sum(one.records for one in drivers.values())
    # a driver goes on over a deployment, and one that was started anew counts from 0
    begun = kept.well_us is None or read < kept.records
    kept = replace(kept, well_us=since_us, records=read if begun else kept.records)
    if kept.digest == kept.good or read <= kept.records or now_us - since_us < WELL_US:
        return kept
    return replace(kept, good=kept.digest, good_version=kept.version)


def to_json(kept: Deployments) -> dict[str, object]:
    """Plain values."""
    return asdict(kept)


def from_json(raw: object) -> Deployments:
    """Raises TypeError or ValueError where it is none."""
    if not isinstance(raw, dict):
        raise TypeError("no mapping")
    return Deployments(**raw)
