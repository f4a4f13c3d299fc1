"""Scheduled snapshots stand in a TOML file: what is taken, how often, and into which table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewise.errors import BadRequest, SettingsError, SlicewiseError
from slicewise.settings import SNAPSHOTS_FILE, Settings, read_listed
from slicewise.windows.durations import HOUR_US, parse_duration

MOST_MISSING = 48
"""Most instants of one run; older ones that were missed are left out."""
_FIELDS = ("every", "features", "table")


@dataclass(frozen=True)
class ScheduledSnapshot:
    """A snapshot of all entities, at every multiple of a duration.

    features: a feature set's name, or refs. table: namespace.table. every_us: microseconds.
    """

    name: str
    features: str | tuple[str, ...]
    table: str
    every: str
    every_us: int

    def missing(self, newest_us: int | None, now_us: int) -> tuple[int, ...]:
        """Instants that are to be taken now, ascending: those after the newest that was taken, and
        of a table that has none the last one alone."""
        last = now_us // self.every_us * self.every_us
        if newest_us is None:
            return (last,)
        first = newest_us // self.every_us * self.every_us + self.every_us
        first = max(first, last - (MOST_MISSING - 1) * self.every_us)
        return tuple(range(first, last + 1, self.every_us))


def load_scheduled(settings: Settings) -> tuple[ScheduledSnapshot, ...]:
    """The snapshots of the file that the settings name; none without one. Raises SettingsError."""
    file = settings.snapshots
    document = read_listed(file, settings.project_dir / SNAPSHOTS_FILE, "SLICEWISE_SNAPSHOTS")
    entries = document.get("snapshots", {})
    if set(document) - {"snapshots"} or not isinstance(entries, dict):
        raise _refused(file, "it", "tables [snapshots.<name>] alone")
    planned = tuple(_planned(file, name, entry) for name, entry in entries.items())
    tables = [one.table for one in planned]
    twice = sorted({table for table in tables if tables.count(table) > 1})
    if twice:
        raise _refused(file, f"table {twice[0]!r}, which two snapshots name", "a table of each")
    return planned


def _planned(file: Path, name: str, entry: object) -> ScheduledSnapshot:
    where = f"[snapshots.{name}]"
    if not isinstance(entry, Mapping) or set(entry) != set(_FIELDS):
        raise _refused(file, where, f"the fields {', '.join(_FIELDS)}, and no other")
    given: Mapping[str, Any] = entry
    features, table, every = given["features"], given["table"], given["every"]
    is_list = isinstance(features, list) and features and all(isinstance(f, str) for f in features)
    if not is_list and not (isinstance(features, str) and features):
        raise _refused(file, f"{where} features", 'a feature set, or a list of "view:column"')
    if not isinstance(table, str) or "." not in table.strip("."):
        raise _refused(file, f"{where} table", '"namespace.table"')
    try:
        every_us = parse_duration(every)
    except SlicewiseError as error:
        raise _refused(file, f"{where} every", str(error.expected)) from error
    if every_us % HOUR_US:
        raise _refused(file, f"{where} every", "whole hours: compaction begins each of them")
    chosen = tuple(features) if is_list else str(features)
    return ScheduledSnapshot(name, chosen, table, str(every), every_us)


def chosen(
    planned: tuple[ScheduledSnapshot, ...], names: tuple[str, ...]
) -> tuple[ScheduledSnapshot, ...]:
    """Snapshots of these names; all where there are none. Raises BadRequest."""
    listed = [one.name for one in planned]
    for name in names:
        if name not in listed:
            raise BadRequest(
                f"there is no scheduled snapshot {name!r}",
                where="dataset take",
                expected=", ".join(listed) or f"an entry in {SNAPSHOTS_FILE}; there is none",
                next_step="slicewise dataset scheduled lists them",
            )
    return tuple(one for one in planned if not names or one.name in names)


def _refused(file: Path, what: str, expected: str) -> SettingsError:
    return SettingsError(
        f"{what} cannot be taken",
        where=str(file),
        expected=expected,
        next_step="correct it: docs/guides/training.md, 'Snapshots on a schedule'",
    )
