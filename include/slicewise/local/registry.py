"""Every deployment that stood is kept, with who made it: by the store, then by the archive."""

from __future__ import annotations

import getpass
import time

from slicewise.errors import StoreUnavailable
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise.stores.lake.registered import PART, Registered, added, name_of, read_registered
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.redis.status import amend_part


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
