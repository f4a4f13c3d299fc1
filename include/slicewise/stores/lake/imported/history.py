"""A source's history is one archive: all of its rows and the offset vector after them in one
commit, or nothing at all.

Its files are written part by part before that, and no snapshot has them until then. What was
written is said by a property of the table that comes with the commit: it names the table that was
taken in, by its digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table as IcebergTable

from slicewise.errors import CommitConflict
from slicewise.features.own import HISTORY_PARTITION
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.archive import (
    ArchiveState,
    archive_state,
    instant_literal,
    load,
    remember_schemas,
)
from slicewise.stores.lake.catalog import ensure
from slicewise.stores.lake.gaps import once
from slicewise.stores.lake.hour_files import HourFiles, from_text, to_text
from slicewise.stores.lake.records import archived_until_us, as_table
from slicewise.stores.lake.schemas import BAD, GOOD, OFFSET_VECTOR, RUNS, log_table
from slicewise.windows.durations import HOUR_US

_HISTORY = "slicewise.history"
"""Property of a log table."""


ROOM = 1_000
"""Archives of the topic that may come while a history is written: it leaves them their numbers."""


@dataclass(frozen=True)
class TakenIn:
    """A history that an archive holds. at_us: when its import began; archive_version: the archive
    that brought it."""

    topic_id: str
    digest: str
    until_us: int
    rows: int
    bad: int
    at_us: int
    archive_version: int


def taken_in(catalog: SqlCatalog, source: str) -> TakenIn | None:
    """The history that the source's archive holds."""
    table = load(catalog, source)
    return None if table is None else taken_into(table)


def taken_into(table: IcebergTable) -> TakenIn | None:
    """The history that this log holds."""
    text = table.properties.get(_HISTORY)
    return None if text is None else TakenIn(**json.loads(text))


def earlier_events(catalog: SqlCatalog, source: str, until_us: int) -> int:
    """Good events of the topic before an instant that the archive holds."""
    table = load(catalog, source)
    if table is None or table.current_snapshot() is None:
        return 0
    chosen = (
        f"kind = '{GOOD}' and hour <= {until_us // HOUR_US} "
        f"and event_time < '{instant_literal(until_us)}'"
    )
    return int(table.scan(row_filter=chosen, selected_fields=("offset",)).to_arrow().num_rows)


@dataclass(frozen=True)
class HistoryFiles:
    """Writes the files of a history, part by part. at_us: the archive time of every row, the same
    in every attempt, so that files hold the same rows. archive_version: of the archive that will
    bring them."""

    source: Source
    topic_id: str
    archive_version: int
    at_us: int
    files: HourFiles

    @staticmethod
    def of(
        catalog: SqlCatalog, source: Source, topic_id: str, archive_version: int, at_us: int
    ) -> HistoryFiles:
        """Takes the source's log as it stands; it is made where it is not there."""
        table = ensure(catalog, log_table(source))
        return HistoryFiles(source, topic_id, archive_version, at_us, HourFiles.of(table))

    def write(self, good: pa.Table, bad: pa.Table) -> list[str]:
        """Files of one part, as text. good: the source's columns, event_time (int64) and offset, in
        the order of time; bad: offset, kafka_time (int64), reason and raw."""
        rows: list[tuple[int | None, pa.Table]] = []
        if good.num_rows:
            hours = good["event_time"].to_numpy() // HOUR_US
            starts = [0, *((hours[1:] != hours[:-1]).nonzero()[0] + 1).tolist(), len(hours)]
            for begin, end in pairwise(starts):
                hour, of_hour = int(hours[begin]), good.slice(begin, end - begin)
                time = of_hour["event_time"].cast(_UTC_US)
                columns = {name: of_hour[name] for name, _ in self.source.columns}
                identity = self._identity(GOOD, of_hour["offset"])
                fixed = {"kafka_time": time, "event_time": time}
                fixed["hour"] = pa.array([hour] * of_hour.num_rows, pa.int32())
                rows.append((hour, pa.table({**identity, **fixed, **columns})))
        if bad.num_rows:
            identity = self._identity(BAD, bad["offset"])
            fixed = {"kafka_time": bad["kafka_time"].cast(_UTC_US)}
            fixed |= {"reason": bad["reason"], "raw": bad["raw"]}
            rows.append((None, pa.table({**identity, **fixed})))
        return [to_text(file) for file in self.files.write(rows)]

    def stand(self, files: Sequence[str]) -> bool:
        """Tells whether all of them are there: maintenance removes files that no snapshot has once
        they are some days old."""
        return self.files.stand(map(from_text, files))

    def remove(self, files: Sequence[str]) -> None:
        """Removes files that no snapshot has."""
        self.files.remove(map(from_text, files))

    def _identity(self, kind: str, offsets: pa.ChunkedArray) -> dict[str, pa.Array]:
        count = len(offsets)
        return {
            "archive_seq": pa.array([self.archive_version] * count, pa.int64()),
            "kind": pa.array([kind] * count, pa.string()),
            "topic_id": pa.array([self.topic_id] * count, pa.string()),
            "partition": pa.array([HISTORY_PARTITION] * count, pa.int32()),
            "offset": offsets,
            "archive_time": pa.array([self.at_us] * count, pa.int64()).cast(_UTC_US),
        }


_UTC_US = pa.timestamp("us", tz="UTC")


def state_of(catalog: SqlCatalog, source: Source) -> ArchiveState:
    """The archive of a source; that of nothing where it has none."""
    table = load(catalog, source.name)
    return ArchiveState(None, {}) if table is None else archive_state(table)


def commit(
    catalog: SqlCatalog,
    source: Source,
    taken: TakenIn,
    files: Sequence[str],
    complete_until_us: int,
) -> TakenIn:
    """Enters these files as the archive `taken.archive_version`.

    complete_until_us: where nothing else is archived, the instant until which the archive then
    holds all events. Raises CommitConflict where another archive has that number: the rows say
    theirs.
    """
    table = ensure(catalog, log_table(source))
    remember_schemas(table, source)
    table.refresh()
    state = archive_state(table)
    if state.archive_version >= taken.archive_version:
        raise _conflict(table)
    end = OffsetVector({(taken.topic_id, HISTORY_PARTITION): taken.rows + taken.bad})
    vector = state.offset_vector.join(end)
    before = archived_until_us(catalog, source.name, state.archive_version)
    begin: dict[str, Any] = {
        "archive_seq": taken.archive_version,
        "kind": OFFSET_VECTOR,
        "archive_time": complete_until_us if before is None else before,
    }
    rows = [
        begin | {"topic_id": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in vector.offsets.items()
    ]
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    vectors = HourFiles.of(table)
    headers = vectors.write([(None, as_table(rows, schema))])
    bound = once(table)
    transaction = bound.transaction()
    properties = {"slicewise.archive-seq": str(taken.archive_version)}
    try:
        transaction.set_properties({_HISTORY: json.dumps(asdict(taken))})
        with transaction.update_snapshot(snapshot_properties=properties).fast_append() as change:
            for file in (*map(from_text, files), *headers):
                change.append_data_file(file)
        transaction.commit_transaction()
    except (CommitFailedException, ValidationException) as error:
        vectors.remove(headers)
        raise _conflict(table) from error
    return taken


def _conflict(table: IcebergTable) -> CommitConflict:
    return CommitConflict(
        "another archive came first",
        where=".".join(table.name()),
        next_step="run it again: it goes on",
    )


def rate(catalog: SqlCatalog) -> float | None:
    """Rows a second of the import that was measured last; None where none was."""
    table = ensure(catalog, RUNS).scan(row_filter="outcome = 'imported'").to_arrow()
    figures = zip(*(table[name].to_pylist() for name in ("time", "events", "took_ms")), strict=True)
    measured = [(at, rows, ms) for at, rows, ms in figures if rows and ms]
    if not measured:
        return None
    _, rows, took_ms = max(measured)
    return float(rows * 1000 / took_ms)
