"""What a job reported last can be seen on the platform's page; a store that is down does not fail the job."""

from __future__ import annotations

from collections.abc import Mapping

from slicewise.clock import SystemClock
from slicewise.errors import StoreUnavailable
from slicewise.lifecycle.overview import job_record
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise.stores.redis.status import record_part


def record(settings: Settings, job: str, report: Mapping[str, object], *, ok: bool) -> None:
    """Leaves the job's report in the store's status."""
    text = job_record(report, ok=ok, at_us=SystemClock().now_us())
    try:
        record_part(settings.redis_url, f"job:{job}", text)
    except StoreUnavailable as error:
        warning("job_not_recorded", job=job, reason=error.what)
