"""Features are looked at beside the stream, in a task of its own: an API that is slow holds up no
look at a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slicewise.errors import SettingsError, SlicewiseError
from slicewise.lifecycle.health.deadlines import Deadlines
from slicewise.lifecycle.monitors.monitor import LOOKS, Judged, Monitor
from slicewise.local.monitors.looking import judged, load_monitors, require_models
from slicewise.local.servers.inbox import Inbox
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise_airflow.alerts import page_monitor, remind, settle_causes, settle_monitors
from slicewise_airflow.models.runs import retrain

EVERY_S = 5.0
"""Seconds between two looks."""
TENDED_EVERY_S = 60.0
"""Seconds after which one that lasts is looked at for its next page."""


@dataclass
class Looking:
    """Monitors look after look, over one watch."""

    settings: Settings
    page: Callable[[Judged], None]
    deadlines: Deadlines = field(default_factory=lambda: Deadlines(LOOKS))
    unreadable: str = ""
    _causes: frozenset[str] | None = None
    """Causes of the monitors that were listed at the last look."""
    _over: frozenset[str] = frozenset()
    """Causes that were kept for long at the last look."""
    _retrained: frozenset[str] = frozenset()
    """Causes whose incident has a run that trains their model."""
    _looks: int = 0

    def look(self) -> None:
        """One look: tells of what is out of its bounds for long enough, and of what is over."""
        try:
            monitors = load_monitors(self.settings)
        except SettingsError as error:
            if str(error) != self.unreadable:
                warning("monitors_not_read", what=error.what, where=error.where)
            self.unreadable = str(error)
            return
        self.unreadable = ""
        causes = frozenset(one.cause for one in monitors)
        if causes != self._causes:  # also at the first look: an earlier watch may have left some
            settle_monitors(causes)
            self._causes = causes
            self._check_models(monitors)
        looked = judged(self.settings, monitors)
        if looked is None:  # the API's absence is a matter of its own
            return
        by_cause = {one.monitor.cause: one for one in looked if one.fault}
        # what was not judged is neither in its bounds nor out of them
        seen = {one.monitor.cause for one in looked if one.fault or one.value is not None}
        lasting = (self.deadlines.notified - seen) & causes
        self.deadlines = self.deadlines.after(by_cause, seen).notifying(lasting)
        due = sorted(self.deadlines.due)
        for cause in due:
            self.deadlines = self.deadlines.notifying([cause])
            self.page(by_cause[cause])
        if self.deadlines.over - self._over:  # else nothing of it is open
            settle_causes(self.deadlines.over)
        self._over = self.deadlines.over
        self._looks += 1
        tended = self._looks % int(TENDED_EVERY_S / EVERY_S) == 0
        if due or tended:
            self._retrain(monitors)
        if tended:
            remind(self.deadlines.notified)

    def _check_models(self, monitors: tuple[Monitor, ...]) -> None:
        """Warns of a model that could not be trained: its monitor is looked at all the same."""
        try:
            require_models(monitors, self.settings)
        except SettingsError as error:
            warning("monitor_trains_nothing", what=error.what, where=error.where)

    def _retrain(self, monitors: Sequence[Monitor]) -> None:
        """Has the models trained of monitors that are out of their bounds: once for an incident,
        and later where it cannot be done now."""
        self._retrained &= self.deadlines.notified
        wanted = [
            one
            for one in monitors
            if one.retrain and one.cause in self.deadlines.notified - self._retrained
        ]
        if not wanted:
            return
        opened = {one.key: one.opened_us for one in Inbox(self.settings).read() if one.is_open}
        for monitor in wanted:
            if monitor.cause not in opened:
                continue
            try:
                if retrain(self.settings, monitor.retrain, monitor.cause, opened[monitor.cause]):
                    self._retrained |= {monitor.cause}
            except (SlicewiseError, OSError) as error:
                warning("not_retrained", model=monitor.retrain, kind=type(error).__name__)


async def keep_looking(instance: object) -> None:
    """Looks at the monitors until it is cancelled. instance: the task instance that watches."""
    looking = Looking(Settings.load(), lambda one: page_monitor(instance, one))
    while True:
        try:
            await asyncio.to_thread(looking.look)
        except Exception as error:  # noqa: BLE001  # the next look may see more
            warning("monitors_not_judged", kind=type(error).__name__, error=str(error))
        await asyncio.sleep(EVERY_S)
