"""The platform's page shows what jobs reported last; a store that is down fails no job."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

from slicewise.clock import SystemClock
from slicewise.errors import SlicewiseError, StoreUnavailable
from slicewise.lifecycle.healing.record import PART, Healing
from slicewise.lifecycle.health.overview import job_record, unready_units
from slicewise.lifecycle.history.entries import Entry, of_failed_try, of_job, of_minute
from slicewise.local import history
from slicewise.local.servers.state import StateFolder
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise.stores.online.model import phases
from slicewise.stores.online.redis.status import (
    amend_part,
    read_part,
    read_status,
    read_usage,
    record_part,
)

MINUTE_S = 60.0
TRIES_US = 86_400_000_000
"""Time within which all tries of a task are."""


def record(
    settings: Settings, job: str, report: Mapping[str, object], *, ok: bool, replaces: bool = True
) -> None:
    """Leaves the job's report in the store's status, and its figures in the history. replaces:
    whether the report stands for what the last one was about; else that one stays."""
    now_us = SystemClock().now_us()
    text = job_record(report, ok=ok, at_us=now_us)
    keep(settings, of_job(job, report, ok=ok, at_us=now_us))
    try:
        if replaces:
            record_part(settings.redis_url, f"job:{job}", text)
    except StoreUnavailable as error:
        warning("job_not_recorded", job=job, reason=error.what)


def heals_last_check(settings: Settings, params: Mapping[str, object]) -> bool:
    """Tells whether a green check ends what the last one left. A store that is away keeps
    nothing. params: of the check's run."""
    try:
        before = read_status(settings.redis_url, ["check"]).parts.get("job:check")
    except StoreUnavailable:
        return False
    kept = json.loads(before) if before else {"ok": True}
    return not kept["ok"] and healed(params, int(kept["at_us"]))


def healed(params: Mapping[str, object], since_us: int) -> bool:
    """Tells whether a green check ends what was red then: one of all views does; one of some does
    where it was the last that what differed waited for. params: of the check's run."""
    if not params.get("views"):
        return True
    try:
        healing = Healing.of(read_part(Settings.load().redis_url, PART))
    except SlicewiseError:
        return False  # who cannot be asked ends nothing: the next check does
    return healing.healed_since(since_us)


def keep(settings: Settings, entry: Entry | None) -> None:
    """Keeps an entry of the history; where there is no state folder yet, makes it."""
    try:
        if not settings.state_dir.exists():
            StateFolder(settings.state_dir).create()
    except (OSError, SlicewiseError) as error:
        warning("figures_not_kept", error=str(error))
        return
    history.keep(settings, entry)


def keep_failed_try(context: Mapping[str, Any]) -> None:
    """`on_retry_callback` of every task: keeps when its first failure was, of which nobody is paged
    as long as another try may be well."""
    try:
        keep(Settings.load(), _failed_try(context))
    except SlicewiseError as error:
        warning("figures_not_kept", error=error.what)


def first_failure_us(context: Mapping[str, Any]) -> int:
    """Time at which a task that failed for good failed first: in this try, or in one before it
    since the task was last cleared."""
    failed = _failed_try(context)
    instance, task = context["task_instance"], context.get("task")
    first = int(getattr(instance, "max_tries", 0)) - int(getattr(task, "retries", 0)) + 1
    try:
        kept = history.read(Settings.load(), failed["at_us"] - TRIES_US)
    except SlicewiseError:
        kept = ()
    same = ("kind", "task", "run_id", "map_index")
    earlier = (
        int(entry["at_us"])
        for entry in kept
        if all(entry.get(name) == failed[name] for name in same) and entry.get("try", 0) >= first
    )
    return min(earlier, default=int(failed["at_us"]))


def _failed_try(context: Mapping[str, Any]) -> Entry:
    instance = context["task_instance"]
    ended = getattr(instance, "end_date", None)
    return of_failed_try(
        f"{instance.dag_id}.{instance.task_id}",
        str(getattr(instance, "run_id", "")),
        int(getattr(instance, "map_index", -1)),
        int(getattr(instance, "try_number", 1) or 1),
        SystemClock().now_us() if ended is None else int(ended.timestamp() * 1e6),
    )


async def keep_minutes() -> None:
    """Keeps the figures of every minute while somebody watches; ends when it is cancelled."""
    while True:
        await asyncio.sleep(MINUTE_S - time.time() % MINUTE_S)
        await asyncio.to_thread(keep_minute)


def keep_minute() -> None:
    """Keeps the figures of now; of a minute without the store there are none."""
    try:
        settings = Settings.load()
        status = read_status(settings.redis_url)
        entry = of_minute(status, read_usage(settings.redis_url), SystemClock().now_us())
    except SlicewiseError as error:
        warning("minute_not_kept", reason=error.what)
        return
    keep(settings, entry)


def owners() -> dict[str, str]:
    """View or source -> its owner, of those that have one; none where the store cannot be asked."""
    try:
        manifest = read_status(Settings.load().redis_url).manifest
    except SlicewiseError as error:
        warning("owners_not_read", reason=error.what)
        return {}
    parts = [(source, "name") for source in manifest.get("sources", ())]
    parts += [(unit, "view") for unit in manifest.get("units", ())]
    return {str(part[name]): str(part["owner"]) for part, name in parts if part.get("owner")}


def starting(settings: Settings, view: object) -> None:
    """Says of the views that a backfill is to build that its application starts: it says more once
    it runs."""

    now_us = SystemClock().now_us()
    try:
        units = unready_units(read_status(settings.redis_url))
        wanted = {unit: phases.STARTING for unit, of in units.items() if view in (None, "", of)}
        amend_part(
            settings.redis_url, phases.PART, lambda text: phases.changed(text, wanted, now_us)
        )
    except StoreUnavailable as error:
        warning("phase_not_recorded", reason=error.what)
