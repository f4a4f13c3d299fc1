"""The inbox of incidents: a file of the state folder, so that it is there while the store is away,
and a copy in the store, so that other machines and a new folder know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slicewise.clock import Clock, SystemClock
from slicewise.errors import ServerError, SlicewiseError
from slicewise.lifecycle import incidents
from slicewise.lifecycle.health.alerts import Alert
from slicewise.lifecycle.history.entries import of_incident
from slicewise.lifecycle.incidents import PART, Incidents, Step
from slicewise.local import history
from slicewise.local.servers.state import StateFolder
from slicewise.log import warning
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import StoreStatus, amend_part, read_part

_LOCK, _FILE = "incidents", "incidents.json"
_STORE_S = 2.0
"""Longest that a copy waits for the store: an alert must go out."""


@dataclass(frozen=True)
class Inbox:
    """Incidents of a platform. One process at a time changes it on a machine; two machines may
    still open an incident of one cause each, and then page twice."""

    settings: Settings
    clock: Clock = field(default_factory=SystemClock)

    def read(self, status: StoreStatus | None = None) -> Incidents:
        """Incidents by the file and by the store, as far as each can be read. status: of the store,
        where the caller has read it; else it is read."""
        texts = self._of_store() if status is None else (status.parts.get(PART),)
        copies = [one for text in texts for one in incidents.from_text(text)]
        return incidents.merged(self.of_file(), copies, self.clock.now_us())

    def of_file(self) -> Incidents:
        """Incidents by the file alone, which asks no server; none where it cannot be read."""
        try:
            return incidents.from_text(self._file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return ()

    def change(self, step: Callable[[Incidents, int], Step]) -> tuple[Alert, ...]:
        """Changes the incidents; the alerts that are to go out for it. step: takes the incidents
        and the time now. Raises ServerError where the file cannot be written."""
        state = StateFolder(self.settings.state_dir)
        try:
            state.create()
            with state.locked(_LOCK):
                now_us = self.clock.now_us()
                before = self.read()
                after, alerts = step(before, now_us)
                if after != before:
                    part = self._file.with_suffix(".part")
                    part.write_text(incidents.to_text(after), encoding="utf-8")
                    part.replace(self._file)
                    self._copy(after, now_us)
                    for over in incidents.ended_between(before, after):
                        history.keep(self.settings, of_incident(over))
        except OSError as error:
            raise ServerError(
                f"the inbox of incidents cannot be changed: {error}",
                where=str(self._file),
                next_step="make room, or let this user write there",
            ) from error
        return alerts

    @property
    def _file(self) -> Path:
        return self.settings.state_dir / _FILE

    def _of_store(self) -> tuple[str, ...]:
        try:
            return read_part(self.settings.redis_url, PART, timeout_s=_STORE_S)
        except SlicewiseError:
            return ()

    def _copy(self, after: Incidents, now_us: int) -> None:
        def changed(text: str | None) -> str:
            before = incidents.from_text(text)
            return incidents.to_text(incidents.merged(before, after, now_us))

        try:
            amend_part(self.settings.redis_url, PART, changed, timeout_s=_STORE_S)
        except SlicewiseError as error:
            warning("incidents_not_copied", reason=error.what)
