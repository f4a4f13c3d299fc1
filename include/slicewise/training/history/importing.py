"""A history is planned, written part by part, and shown by one commit; stopped at any moment, it
goes on to the same rows.

A part that is written is recorded beside the others in the state folder, with what it holds. The
next run reads the table again: one that changed is refused, and of one that did not the written
parts stand.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa

from slicewise.clock import Clock
from slicewise.errors import BadRequest, CommitConflict
from slicewise.features.own import history_id
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.settings import Settings
from slicewise.training.history.given import PART_ROWS, Census, GivenTable, HourOf, opened
from slicewise.training.tables.given.events import judged_events
from slicewise.training.tables.instants import text_of

JOB, DONE = "import", "imported"
"""Name of a run in `ops.runs`, and its outcome."""
_RAW_BYTES = 1 << 20


class TakenInto(Protocol):
    """A history that an archive holds (`stores/lake/imported`)."""

    @property
    def topic_id(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def bad(self) -> int: ...
    @property
    def archive_version(self) -> int: ...


@dataclass(frozen=True)
class ImportPlan:
    """Contents of a table, and what taking it in costs. seconds: by the rate of the import that
    was measured last; None where none was. written: rows that stand of an import that was
    stopped."""

    source: str
    location: str
    until_us: int
    rows: int
    hours: int
    first_us: int | None
    last_us: int | None
    beyond: int
    no_time: int
    digest: str
    left_out: tuple[str, ...]
    written: int
    seconds: float | None
    is_done: bool

    def to_json(self) -> dict[str, Any]:
        """Plain values; instants as text."""
        first, last = self.first_us, self.last_us
        return asdict(self) | {
            "until": text_of(self.until_us),
            "first": None if first is None else text_of(first),
            "last": None if last is None else text_of(last),
        }


@dataclass(frozen=True)
class Imported:
    """Outcome of an import. bad: reason -> rows that were kept aside."""

    taken: TakenInto
    bad: Mapping[str, int]
    is_new: bool


@dataclass
class Import:
    """Import of the history of one source, as it is deployed."""

    settings: Settings
    catalog: Any
    deployment: Deployment
    source: Source
    location: str
    clock: Clock
    part_rows: int = PART_ROWS

    def __post_init__(self) -> None:
        until_us = self.source.history_until_us
        if until_us is None:
            raise BadRequest(
                f"source {self.source.name!r} is deployed without a history",
                where="history_until",
                expected="a source with history= and history_until=",
                next_step="declare both, then slicewise apply",
            )
        if any(other.topic == self.source.topic for other in self._others()):
            raise BadRequest(
                f"another source reads topic {self.source.topic!r} too",
                where=f"source {self.source.name!r}",
                expected="a topic of its own",
                next_step="declare one source over the topic",
            )
        self.until_us = until_us
        self.topic_id = history_id(self.source.name, until_us)

    def _others(self) -> list[Source]:
        return [other for other in self.deployment.sources if other.name != self.source.name]

    @property
    def folder(self) -> Path:
        """Folder of what is written and not committed."""
        return self.settings.state_dir / "history" / self.source.name

    def plan(self) -> ImportPlan:
        """Reads the table, and changes nothing. Raises BadRequest where it cannot be taken in."""
        with self._opened() as table:
            return self._planned(table, table.census())

    def run(self, notify: Callable[[str], None]) -> Imported:
        """Takes the table in, or goes on where an import was stopped. notify: is given a line of
        progress for each part. Raises BadRequest, CommitConflict."""
        from slicewise.stores.lake.imported.history import (
            ROOM,
            HistoryFiles,
            TakenIn,
            commit,
            state_of,
            taken_in,
        )

        begun = time.monotonic()
        with self._opened() as table:
            census = table.census()
            planned = self._planned(table, census)
            stood = taken_in(self.catalog, self.source.name)
            if stood is not None:
                shutil.rmtree(self.folder, ignore_errors=True)
                return Imported(stood, {}, is_new=False)
            version = state_of(self.catalog, self.source).archive_version
            staged = self._begun(census.digest)
            if staged is not None and staged["archive_version"] <= version:
                self.discard()
                staged = None
            if staged is None:
                staged = {
                    "digest": census.digest,
                    "schema": self.source.schema_fingerprint,
                    "part_rows": self.part_rows,
                    "archive_version": version + ROOM,
                    "at_us": self.clock.now_us(),
                }
                self._keep("plan.json", staged)
            files = HistoryFiles.of(
                self.catalog,
                self.source,
                self.topic_id,
                staged["archive_version"],
                staged["at_us"],
            )
            offset, all_files, bad = 0, [], Counter[str]()
            for number, part in enumerate(census.parts(staged["part_rows"])):
                name = f"part-{number:05d}.json"
                written = self._read(name)
                if written is None or not files.stand(written["files"]):
                    written = self._write(table, files, part, offset)
                    self._keep(name, written)
                offset += written["rows"]
                all_files += written["files"]
                bad.update(written["bad"])
                seconds = time.monotonic() - begun
                notify(f"{offset:,} of {census.rows:,} rows are written, {seconds:.0f} s")
        taken = TakenIn(
            self.topic_id,
            census.digest,
            self.until_us,
            offset - bad.total(),
            bad.total(),
            staged["at_us"],
            staged["archive_version"],
        )
        complete_us = min(self.until_us, self.clock.now_us())
        try:
            commit(self.catalog, self.source, taken, all_files, complete_us)
        except CommitConflict:
            stood = taken_in(self.catalog, self.source.name)
            if stood is None or stood.digest != taken.digest:
                raise
            return Imported(stood, {}, is_new=False)
        self._record(planned, int((time.monotonic() - begun) * 1000))
        shutil.rmtree(self.folder, ignore_errors=True)
        return Imported(taken, dict(bad), is_new=True)

    def stood(self) -> TakenInto | None:
        """The history that the archive holds, where it has this cut."""
        from slicewise.stores.lake.imported.history import taken_in

        taken = taken_in(self.catalog, self.source.name)
        return taken if taken is not None and taken.until_us == self.until_us else None

    def forget(self) -> None:
        """Removes the record of what was written: the archive holds it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def discard(self) -> None:
        """Removes what an import that was stopped has written; of one that is archived its record
        alone."""
        from slicewise.stores.lake.imported.history import HistoryFiles, taken_in

        staged = self._read("plan.json")
        if staged is not None and taken_in(self.catalog, self.source.name) is None:
            files = HistoryFiles.of(
                self.catalog,
                self.source,
                self.topic_id,
                staged["archive_version"],
                staged["at_us"],
            )
            for path in sorted(self.folder.glob("part-*.json")):
                files.remove(json.loads(path.read_text())["files"])
        self.forget()

    def _opened(self) -> Any:
        return opened(
            self.settings, self.location, self.source, self.until_us, lambda: self.deployment
        )

    def _planned(self, table: GivenTable, census: Census) -> ImportPlan:
        from slicewise.stores.lake.imported.history import earlier_events, rate, taken_in

        where = f"history of source {self.source.name!r}"
        if not census.rows:
            raise BadRequest(
                f"the table has no row before {text_of(self.until_us)}",
                where=where,
                expected="rows whose event time lies before history_until",
                next_step="correct history= or history_until= of the source",
            )
        stood = taken_in(self.catalog, self.source.name)
        if stood is not None and (stood.digest, stood.until_us) != (census.digest, self.until_us):
            raise BadRequest(
                "the archive holds another history of the source: "
                f"{stood.rows + stood.bad:,} rows before {text_of(stood.until_us)}, digest "
                f"{stood.digest}; the table has {census.rows:,}, digest {census.digest}",
                where=where,
                expected="the table that was taken in: what is archived does not change",
                next_step="name the table of then, or declare the source under a new name",
            )
        if stood is None and (
            earlier := earlier_events(self.catalog, self.source.name, self.until_us)
        ):
            raise BadRequest(
                f"{earlier:,} events of the topic before {text_of(self.until_us)} are "
                "archived: those that the table has too would count twice",
                where=where,
                expected="no event of the topic before history_until",
                next_step="declare an earlier history_until, or the source under a new name",
            )
        if stood is None:
            self._refuse_unjudged()
        staged = self._begun(census.digest)
        hours = [one.hour for one in census.hours if one.hour is not None]
        measured = rate(self.catalog)
        parts = (self._read(path.name) for path in self.folder.glob("part-*.json"))
        return ImportPlan(
            source=self.source.name,
            location=self.location,
            until_us=self.until_us,
            rows=census.rows,
            hours=len(hours),
            first_us=hours[0] * 3_600_000_000 if hours else None,
            last_us=(hours[-1] + 1) * 3_600_000_000 if hours else None,
            beyond=census.beyond,
            no_time=sum(one.rows for one in census.hours if one.hour is None),
            digest=census.digest,
            left_out=table.left_out,
            written=0 if staged is None else sum(part["rows"] for part in parts if part),
            seconds=None if measured is None else census.rows / measured,
            is_done=stood is not None,
        )

    def _refuse_unjudged(self) -> None:
        """Refuses while records that an earlier schema judged are not archived: it took those
        before history_until for good."""
        from slicewise.stores.lake.imported.history import state_of

        vector = state_of(self.catalog, self.source).offset_vector
        for version in self.source.earlier:
            other = version.source.history_until_us != self.until_us
            if other and (version.until is None or not vector.dominates(version.until)):
                raise BadRequest(
                    "records of before history_until was declared are not archived yet",
                    where=f"history of source {self.source.name!r}",
                    expected="an archive that holds them, so that none counts twice",
                    next_step="run it again after the next hour (DAG compact_slices archives)",
                )

    def _begun(self, digest: str) -> dict[str, Any] | None:
        """The import that was stopped. Raises BadRequest where it was of another table."""
        staged = self._read("plan.json")
        if staged is None:
            return None
        if (staged["digest"], staged["schema"]) != (digest, self.source.schema_fingerprint):
            raise BadRequest(
                "the table, or the source's schema, is another than when its import was begun",
                where=f"history of source {self.source.name!r}",
                expected=f"digest {staged['digest']}; it is {digest}",
                next_step="bring it back, or begin anew: slicewise import-history "
                f"{self.source.name} --anew",
            )
        return staged

    def _write(
        self, table: GivenTable, files: Any, part: Sequence[HourOf], offset: int
    ) -> dict[str, Any]:
        rows, digest = table.rows_of(part)
        wanted = sum(one.rows for one in part), sum(one.digest for one in part)
        if (rows.num_rows, digest) != wanted:
            raise BadRequest(
                f"the table changed while it was read: {rows.num_rows:,} rows, {wanted[0]:,} "
                "were counted before",
                where=f"history of source {self.source.name!r}",
                expected="a table that nobody writes to",
                next_step="run it again once it stands still",
            )
        judged = judged_events(self.source, rows)
        offsets = pa.array(range(offset, offset + rows.num_rows), pa.int64())
        typed = judged.rows.drop_columns(["offset", "partition", "topic_id"])
        typed = typed.append_column("offset", offsets)
        good = typed.filter(judged.good)
        numbers = [n for n, reason in enumerate(judged.reasons) if reason is not None]
        reasons = [str(judged.reasons[n]) for n in numbers]
        chosen = typed.take(pa.array(numbers, pa.int64()))
        # of a row without a time the end of the history is all that is known
        times = chosen["event_time"].to_pylist() if part[0].hour is not None else None
        bad = pa.table(
            {
                "offset": chosen["offset"],
                "kafka_time": pa.array(times or [self.until_us] * len(numbers), pa.int64()),
                "reason": pa.array(reasons, pa.string()),
                "raw": pa.array(
                    [_text_of(row) for row in rows.take(pa.array(numbers, pa.int64())).to_pylist()],
                    pa.binary(),
                ),
            }
        )
        return {
            "rows": rows.num_rows,
            "bad": dict(Counter(reasons)),
            "files": files.write(good, bad),
        }

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            read: dict[str, Any] = json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return None
        return read

    def _keep(self, name: str, value: Mapping[str, Any]) -> None:
        """Writes a file whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".{name}"
        with part.open("w") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / name)

    def _record(self, planned: ImportPlan, took_ms: int) -> None:
        from slicewise.stores.lake.records import append
        from slicewise.stores.lake.schemas import RUNS

        row = {
            "run_id": uuid4().hex,
            "job": JOB,
            "time": self.clock.now_us(),
            "source": self.source.name,
            "outcome": DONE,
            "events": planned.rows - planned.written,
            "took_ms": took_ms,
        }
        append(self.catalog, RUNS, [row])


def _text_of(row: Mapping[str, Any]) -> bytes:
    """A bad row as JSON, for people."""
    return json.dumps(row, default=str, ensure_ascii=False).encode()[:_RAW_BYTES]
