"""Drivers that are lost are started again from where they are watched: no worker has to be free for
it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from slicewise.errors import StoreUnavailable
from slicewise.features import own
from slicewise.lifecycle import absence, lagging, restarts, supervision
from slicewise.lifecycle import deployed as deployments
from slicewise.lifecycle.absence import WATCHED, Watched
from slicewise.lifecycle.deployed import Deployed, DriverState
from slicewise.lifecycle.findings import ALLOWED_S, DAGS, EVERY_S
from slicewise.lifecycle.health.alerts import Missed, fresh_cause, overdue_cause
from slicewise.lifecycle.health.deadlines import Deadlines
from slicewise.lifecycle.health.judge import Part
from slicewise.lifecycle.supervision import MICROBATCH, NAMED, PARTS, DriverLook, Supervised
from slicewise.local.servers import drivers
from slicewise.local.servers.state import StateFolder
from slicewise.log import event as log_event
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import read_part, record_part
from slicewise_airflow.alerts import (
    BROKER,
    aftermath,
    explained,
    page_broker,
    page_driver,
    page_freshness,
    page_lag,
    page_overdue,
    page_undone,
    remind,
    settle_causes,
    settle_withdrawn,
)

_START_S = 60.0
"""Longest that a start may take; a driver comes up by itself after it."""
BROKER_EVERY_S = 10.0
"""Seconds between two looks at a broker while drivers are well."""
AFTERMATH_S = 120.0
"""Seconds after a server's absence in which a driver that is lost is part of it."""
DEADLINE_LOOKS = 6
"""Looks at the store for which a deadline is missed before its owner is told: half a minute."""
TENDED_EVERY_S = 60.0
"""Seconds between two looks at open incidents."""
WATCHED_EVERY_S = 60.0
"""Seconds between two writings of since when somebody watches."""


@dataclass
class Supervisor:
    """Supervisor of the drivers of its own machine. A driver elsewhere has no pid file here, and is
    judged by its words in the store alone."""

    settings: Settings
    named: Mapping[str, str]
    """DAG, task, run and url of the watch, for what it tells."""
    kept: dict[str, Supervised] = field(init=False)

    def __post_init__(self) -> None:
        self._state = StateFolder(self.settings.state_dir)
        self.kept = drivers.kept(self._state)
        self._absence = drivers.kept_absence(self._state)
        self._lags = drivers.kept_lags(self._state)
        self._deployments = drivers.kept_deployments(self._state)
        self._looks: Mapping[str, DriverLook | None] = {}
        self._away = ""
        self._since_us = time.time_ns() // 1_000
        """Time before which no driver is judged by its words."""
        self._broker_next_s = 0.0
        self._tended_next_s = 0.0
        self._deadlines = Deadlines(DEADLINE_LOOKS)
        self._watched = Watched()
        self._watched_next_s = 0.0
        self._well: frozenset[str] = frozenset()
        self._notices: set[asyncio.Task[None]] = set()
        self._tending: asyncio.Task[None] | None = None

    @property
    def ill(self) -> dict[Part, tuple[str, ...]]:
        """Parts whose drivers are lost and not well again yet, and the reasons."""
        return {PARTS[name]: (one.fault,) for name, one in self.kept.items() if one.ill}

    async def look(self) -> bool:
        """Starts what died, is silent or is stuck, and is due; tells what it found. True where a
        driver is to be started whose process cannot be seen from here: a task is to do it."""
        looks = await asyncio.to_thread(drivers.looks, self._state)
        now_us = time.time_ns() // 1_000
        faulty = any(
            look is not None
            and supervision.fault_of(look, now_us, since_us=self._since_us) is not None
            for look in looks.values()
        )
        away = await self._server_away(faulty)
        if away:
            self.server_was_away()
        excused = faulty and not away and await asyncio.to_thread(aftermath, AFTERMATH_S)
        steps = {
            name: supervision.step(
                self.kept.get(name, Supervised()),
                look,
                now_us,
                away=away,
                since_us=self._since_us,
                excused=excused,
            )
            for name, look in looks.items()
        }
        kept = {name: step.kept for name, step in steps.items()}
        await self._keep({name: of for name, of in kept.items() if of != Supervised()})
        self._looks, self._away = looks, away
        started = [name for name, step in steps.items() if step.start]
        elsewhere = any(
            look is not None and look.elsewhere for name, look in looks.items() if steps[name].start
        )
        if started and not elsewhere:
            await self._start(started)
        for name, step in steps.items():
            began_us = getattr(looks[name], "heartbeat_us", None) or 0
            for notice in step.notices:
                self._notify(page_driver, name, NAMED[name], notice, began_us)
        await self._look_at_lag(looks[MICROBATCH], now_us)
        return elsewhere

    def server_was_away(self) -> None:
        """Gives drivers their time anew: what they wait for did not answer until now."""
        self._since_us = time.time_ns() // 1_000

    def tend(self, recovered: Collection[Part]) -> None:
        """Ends the incidents of what is well, and pages again for what lasts: once a minute, and as
        soon as another part has recovered. recovered: parts that were well for several looks."""
        well = frozenset[str](part for part in recovered if part not in self.ill)
        if self._broker_next_s and not self._absence.reason:
            well |= {BROKER}
        well |= self._deadlines.over
        well |= {
            f"driver.{name}" for name in self._looks if not self.kept.get(name, Supervised()).fault
        }
        at_work = self._tending is not None and not self._tending.done()
        if at_work or (well <= self._well and time.monotonic() < self._tended_next_s):
            return
        self._well, self._tended_next_s = well, time.monotonic() + TENDED_EVERY_S
        lasting = {f"driver.{name}" for name, one in self.kept.items() if one.ill}
        lasting |= {f"lag.{source}" for source, lag in self._lags.items() if lag.notified}
        if self._absence.notified:
            lasting.add(BROKER)
        lasting |= self._deadlines.notified
        self._tending = asyncio.create_task(self._tended(tuple(self._notices), well, lasting))

    def close(self) -> None:
        """Looks at open incidents no more: the next watch does."""
        if self._tending is not None:
            self._tending.cancel()

    async def _tended(
        self, before: Collection[asyncio.Task[None]], well: Collection[str], lasting: set[str]
    ) -> None:
        """before: notices that go out first; the words of their own say better what is over."""
        if before:
            await asyncio.wait(before)
        await asyncio.to_thread(settle_causes, well)
        await asyncio.to_thread(settle_withdrawn, self.settings.freshness_deadlines)
        await asyncio.to_thread(remind, lasting)

    async def _look_at_lag(self, look: DriverLook | None, now_us: int) -> None:
        """Tells of a micro-batch lane that is well and falls behind. look: at its driver."""
        if look is not None and (
            # one that starts has said nothing yet
            not look.statuses or supervision.fault_of(look, now_us) is not None
        ):
            return
        statuses = () if look is None else look.statuses
        limit_s = self.settings.lag_limit_s
        before = self._lags
        self._lags, notices = lagging.step(before, statuses, now_us, limit_s)
        if self._lags != before:
            await self._written(drivers.keep_lags, self._lags)
        for notice in notices:
            lag = self._lags.get(notice.text.partition(":")[0])
            self._notify(page_lag, notice, 0 if lag is None else lag.first_us)

    async def look_at_deadlines(self, missed: Sequence[Missed] | None) -> None:
        """Tells of deadlines that were missed look after look, and that no other incident explains.
        missed: by the store's status; None where it does not answer."""
        if missed is None or self._away:
            return
        await self._look_at_watched()
        agreed = {fresh_cause(name) for name in self.settings.freshness_deadlines}
        # of answers that a lost driver brings nothing is known
        judged = set() if self.ill.keys() & {PARTS[MICROBATCH], PARTS["tail"]} else agreed
        watched = judged | {overdue_cause(DAGS[job]) for job in EVERY_S}
        by_cause = {one.cause: one for one in missed}
        if self._watched.gives_time(time.time_ns() // 1_000, int(ALLOWED_S * 1e6)):
            # of a job that has its time anew nothing is known: an incident that is open stays
            waiting = by_cause.keys() - agreed
            by_cause = {cause: one for cause, one in by_cause.items() if cause in agreed}
            watched -= waiting
        self._deadlines = self._deadlines.after(by_cause, watched)
        for cause in sorted(self._deadlines.due):
            if await asyncio.to_thread(explained, cause, AFTERMATH_S):
                continue
            self._deadlines = self._deadlines.notifying([cause])
            page = page_freshness if cause in agreed else page_overdue
            self._notify(page, by_cause[cause])

    async def _look_at_watched(self) -> None:
        """Keeps that somebody watches, once a minute; while the store keeps nothing no job has its
        time anew."""
        if time.monotonic() < self._watched_next_s:
            return
        url, now_us = self.settings.redis_url, time.time_ns() // 1_000
        try:
            texts = await asyncio.to_thread(read_part, url, WATCHED)
            watched = Watched.of(texts).after(now_us)
            await asyncio.to_thread(record_part, url, WATCHED, watched.text())
        except StoreUnavailable:
            return
        self._watched, self._watched_next_s = watched, time.monotonic() + WATCHED_EVERY_S

    async def look_at_deployment(self, deployed: Deployed | None) -> None:
        """Undoes a deployment under which a driver cannot live, where one is known to be good.
        deployed: what the store names now, where it answers."""
        if deployed is None or self._away:
            return
        now_us = time.time_ns() // 1_000
        states = {
            name: _state_of(look, self.kept.get(name, Supervised()), now_us)
            for name, look in self._looks.items()
            if look is not None
        }
        step = deployments.step(self._deployments, deployed, states, now_us)
        await self._keep_deployments(step.kept)
        if step.driver:
            await self._undo(step.driver, states[step.driver].fault)

    async def _undo(self, name: str, fault: str) -> None:
        before = self._deployments
        words = ("--version", str(before.version), "--by", instance_of(self.named).dag_id)
        output, error = await self._command("rollback", "--json", *words)
        now_us = time.time_ns() // 1_000
        log_event("deployment_undone", version=before.version, driver=name, error=error)
        if error:
            await self._keep_deployments(deployments.not_undone(before, error))
            return
        outcome = json.loads(output.splitlines()[-1])
        deployed = Deployed(int(outcome["version"]), str(outcome["digest"]))
        await self._keep_deployments(deployments.undone(before, deployed, fault, now_us))
        # it is started at once: what it could not live under is gone
        kept = self.kept[name]
        again = replace(kept, restarts=restarts.stopped(kept.restarts))
        await self._keep(self.kept | {name: again})
        gone = ", ".join(one["view"] for one in outcome["changes"] if one["change"] == "removed")
        without = f", without {gone}, which it had not" if gone else ""
        text = (
            f"version {before.version}, under which {NAMED[name]} did not live: {fault}. "
            f"Version {deployed.version} is what version {before.good_version} was{without}"
        )
        self._notify(page_undone, name, text)

    async def _keep_deployments(self, kept: deployments.Deployments) -> None:
        if kept != self._deployments:
            self._deployments = kept
            await self._written(drivers.keep_deployments, kept)

    async def _server_away(self, faulty: bool) -> str:
        """The server that drivers wait for, if any; the broker is looked at now and then in any
        case, as drivers that wait for it look well."""
        if not faulty and not self._absence.reason and time.monotonic() < self._broker_next_s:
            return ""
        self._broker_next_s = time.monotonic() + BROKER_EVERY_S
        broker = await asyncio.to_thread(drivers.broker_away, self.settings)
        before = self._absence
        self._absence, notices = absence.step(before, broker, time.time_ns() // 1_000)
        if self._absence != before:
            await self._written(drivers.keep_absence, self._absence)
        for notice in notices:
            self._notify(page_broker, notice, self._absence.since_us)
        if broker or not faulty:
            return broker
        return await asyncio.to_thread(drivers.store_away, self.settings)

    async def end(self) -> None:
        """Waits until all was told."""
        tending = () if self._tending is None else (self._tending,)
        if last := (*self._notices, *tending):
            await asyncio.wait(last)

    async def _start(self, names: list[str]) -> None:
        begun = time.monotonic()
        _, error = await self._command("stream", "ensure")
        log_event(
            "drivers_started",
            drivers=",".join(names),
            took_s=round(time.monotonic() - begun, 1),
            error=error,
        )
        if error:
            now_us = time.time_ns() // 1_000
            await self._keep(
                self.kept
                | {name: supervision.not_started(self.kept[name], now_us, error) for name in names}
            )

    async def _command(self, *words: str) -> tuple[str, str]:
        """Runs a `slicewise` command; what it printed, and why it failed, or an empty text."""
        program = str(self.settings.platform_python.parent / "slicewise")
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *words,
                env=os.environ | self.settings.to_env(),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return "", str(error)
        try:
            printed = await asyncio.wait_for(process.communicate(), _START_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            return "", f"slicewise {' '.join(words)} did not end within {_START_S:.0f} s"
        stdout, stderr = (text.decode("utf-8", "replace").strip() for text in printed)
        if process.returncode == 0:
            return stdout, ""
        status = f"slicewise {' '.join(words)}: exit status {process.returncode}"
        return stdout, stderr.splitlines()[-1] if stderr else status

    async def _keep(self, kept: dict[str, Supervised]) -> None:
        if kept == self.kept:
            return
        self.kept = kept
        await self._written(drivers.keep, kept)

    async def _written(self, keep: Callable[[StateFolder, Any], None], kept: object) -> None:
        try:
            await asyncio.to_thread(keep, self._state, kept)
        except OSError as error:  # a full disk: it is known while this watch lasts
            warning("supervision_not_kept", error=str(error))

    def _notify(self, page: Callable[..., None], *words: object) -> None:
        """Pages in a thread: a channel that is slow holds up no look."""
        task = asyncio.create_task(asyncio.to_thread(page, instance_of(self.named), *words))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)


def _state_of(look: DriverLook, kept: Supervised, now_us: int) -> DriverState:
    fault = supervision.fault_of(look, now_us)
    reason = kept.fault if kept.ill else "" if fault is None else fault.reason
    # probes come once a second under any deployment
    records = sum(status.records for status in look.statuses if status.source != own.SOURCE)
    # what refuses to go on does so for its log or its disk, and a start that failed for its machine
    refused = any(status.state == "refused" for status in look.statuses)
    begun = kept.restarts
    helpless = begun.in_a_row if begun.next_us is not None else begun.in_a_row - 1
    starts = 0 if refused or begun.error else max(0, helpless)
    return DriverState(reason, kept.since_us, starts, records)


def instance_of(named: Mapping[str, str]) -> Any:
    """The task instance that these names are of, for alerts."""
    return SimpleNamespace(
        dag_id=named.get("dag", "ingest_stream"),
        task_id=named.get("task", "watch"),
        run_id=named.get("run", ""),
        log_url=named.get("url", ""),
    )
