"""A platform's faults are found in its processes and in its store, and told with where to look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slicewise.errors import SlicewiseError
from slicewise.lifecycle.findings import Finding, findings
from slicewise.lifecycle.health.alerts import runbook_link
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import JOBS, Overview, overview
from slicewise.local.servers import services, supervisor
from slicewise.local.servers.supervisor import ServiceStatus
from slicewise.settings import Settings
from slicewise.stores.metadata_backup import MetadataBackupFile
from slicewise.stores.online.redis.status import StoreStatus, read_status


@dataclass(frozen=True)
class Picture:
    """A platform as it is now."""

    services: Sequence[ServiceStatus]
    overview: Overview | None
    """Content of the store; None where it was not asked, or does not answer."""
    findings: tuple[Finding, ...]

    @property
    def up(self) -> bool:
        """Tells whether all servers that are always on are up."""
        wanted = [service for service in self.services if service.name not in services.ON_DEMAND]
        return all(service.state in ("up", "external") for service in wanted)

    @property
    def well(self) -> bool:
        """Tells whether nothing is wrong now."""
        return self.up and not any(finding.now for finding in self.findings)


def picture(settings: Settings, rows: Sequence[ServiceStatus]) -> Picture:
    """The picture of a platform whose services are `rows`; asks the store, and changes nothing."""
    of_servers = supervisor.faults(settings, rows)
    stores = [row for row in rows if row.name == services.REDIS]
    if not any(store.state in ("up", "external") for store in stores):
        return Picture(rows, None, of_servers)
    limits = Limits.of(settings)
    try:
        status = read_status(settings.redis_url, JOBS)
    except SlicewiseError as error:
        return Picture(
            rows, None, (*of_servers, Finding("store", error.what, stores[0].log or "slicewise up"))
        )
    findings_now = (*of_servers, *emptied(settings, status), *findings(status, limits))
    return Picture(rows, overview(status, limits), findings_now)


def emptied(settings: Settings, status: StoreStatus) -> tuple[Finding, ...]:
    """Finds a store without a deployment where the stream's copy has one: a new store is well, one
    that lost it is not."""
    backup = (
        None
        if status.metadata.get("units")
        else MetadataBackupFile(settings.state_dir / "stream").read()
    )
    if backup is None or not backup.units:
        return ()
    text = "it lost what was deployed: each answer is a 503 until the stream has brought it back"
    return (Finding("store", text, runbook_link("store")),)
