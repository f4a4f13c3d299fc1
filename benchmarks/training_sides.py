"""One side of the measurement in a process of its own, whose peak of memory is its own.

ours, tokens: `sw.training_set` by event time, and by token. spark: by event time through Spark,
with its start and all of its processes. windows: DuckDB's RANGE windows over the events and the
spine together. join: DuckDB's join of the spine with the events of its longest window, grouped by
row. All read the same Parquet files.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Self

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import slicewise as sw
from benchmarks.training_data import (
    AMOUNT,
    BEGIN_US,
    DAYS,
    REFS,
    SPINE_DAYS,
    definitions,
    settings,
    spine_file,
)
from slicewise.stores.lake.archive import load
from slicewise.stores.lake.catalog import open_catalog
from slicewise.windows.durations import DAY_US, HOUR_US

THREADS = 2
LOOKED_EVERY_S = 0.5
OLDEST_US = BEGIN_US + (DAYS - 2 * SPINE_DAYS) * DAY_US
"""No window reaches before."""


def ours(folder: Path) -> pa.Table:
    """The answer of a user's call."""
    return _training_set(folder, "event_time")


def tokens(folder: Path) -> pa.Table:
    """The same by the tokens of the spine."""
    return _training_set(folder, "token")


def spark(folder: Path) -> pa.Table:
    """The first by the engine of what has no room in one process."""
    return _training_set(folder, "event_time", "spark")


def _training_set(folder: Path, knowledge: str, engine: str = "local") -> pa.Table:
    built = sw.training_set(
        spine_file(folder, tokens=knowledge == "token"),
        REFS,
        knowledge,
        deployment=definitions(),
        settings=settings(folder),
        engine=engine,
        archive=False,
        progress=lambda _: None,
    )
    return built.to_arrow()


def windows(folder: Path) -> pa.Table:
    """DuckDB's answer by windows whose frames begin where ours do."""
    frames, columns = [], []
    for unit_feature in definitions().view("spending")[0].features:
        window = unit_feature.window
        step = window.resolution(_slice_us())
        name = f"w{window.label}"
        begin = f"t - (t - {window.length_us}) // {step} * {step}"
        frame = (
            f"{name} AS (PARTITION BY user_id ORDER BY t "
            f"RANGE BETWEEN {begin} PRECEDING AND 1 PRECEDING)"
        )
        if frame not in frames:
            frames.append(frame)
        columns.append(f'{_called(unit_feature.column)} OVER {name} AS "{unit_feature.column}"')
    return _queried(
        folder,
        f"""
        SELECT {_names()} FROM (
          SELECT rid, {", ".join(columns)}
          FROM (
            SELECT user_id, t, {AMOUNT}, NULL::BIGINT AS rid FROM events
            UNION ALL SELECT user_id, ts, NULL, rid FROM spine
          )
          WINDOW {", ".join(frames)}
        )
        WHERE rid IS NOT NULL ORDER BY rid
        """,
    )


def join(folder: Path) -> pa.Table:
    """DuckDB's answer by a join, which takes as long as its windows have events."""
    columns, longest = [], ""
    for unit_feature in definitions().view("spending")[0].features:
        window = unit_feature.window
        step = window.resolution(_slice_us())
        longest = f"(ts - {window.length_us}) // {step} * {step}"  # of the last, which is longest
        columns.append(
            f"{_called(unit_feature.column)} FILTER (WHERE t >= {longest}) "
            f'AS "{unit_feature.column}"'
        )
    return _queried(
        folder,
        f"""
        SELECT {_names()} FROM (
          SELECT rid, {", ".join(columns)}
          FROM spine LEFT JOIN events
            ON spine.user_id = events.user_id AND t < ts AND t >= {longest}
          GROUP BY rid
        )
        ORDER BY rid
        """,
    )


SIDES: dict[str, Callable[[Path], pa.Table]] = {
    "ours": ours,
    "tokens": tokens,
    "spark": spark,
    "windows": windows,
    "join": join,
}


def _slice_us() -> int:
    return definitions().view("spending")[0].slice_us


def _names() -> str:
    columns = [feature.column for feature in definitions().view("spending")[0].features]
    return ", ".join(f'"{column}"' for column in columns)


def _called(column: str) -> str:
    function = {"total": "sum", "n": "count", "most": "max"}[column.rpartition("_")[0]]
    return f"{function}({AMOUNT})"


def _queried(folder: Path, text: str) -> pa.Table:
    with duckdb.connect() as engine:
        engine.execute(f"SET threads = {THREADS}")
        files = ", ".join(f"'{name}'" for name in archived_files(folder))
        engine.execute(
            f"""
            CREATE VIEW events AS
            SELECT user_id, epoch_us(event_time) AS t, {AMOUNT} FROM read_parquet([{files}])
            WHERE kind = 'good' AND hour >= {OLDEST_US // HOUR_US};
            CREATE VIEW spine AS
            SELECT user_id, epoch_us("at") AS ts, file_row_number AS rid
            FROM read_parquet('{spine_file(folder)}', file_row_number = true)
            """
        )
        return engine.sql(text).to_arrow_table()


def archived_files(folder: Path) -> list[str]:
    """The Parquet files of the archive."""
    table = load(open_catalog(settings(folder)), "payments")
    assert table is not None
    return [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mib() -> float:
    """The peak of this program: what `getrusage` tells may be that of the process that began it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(
        int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")
    )


class _Others:
    """Processes that this one began, and theirs: looked at while they run, as some are never waited
    for. memory_mib: most that all of them took at once."""

    def __init__(self) -> None:
        self.memory_mib, self._used = 0.0, dict[int, float]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def processor_s(self) -> float:
        return sum(self._used.values())

    def _look(self) -> None:
        while not self._over.wait(LOOKED_EVERY_S):
            memory = 0
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    used = process.cpu_times()
                    self._used[process.pid] = used.user + used.system
                    memory += process.memory_info().rss
            self.memory_mib = max(self.memory_mib, memory / 2**20)


def main(side: str, folder: Path) -> None:
    """Writes the answer beside the spine, and what it took as JSON to standard output."""
    archived_files(folder)  # what a first read imports is no part of the figure
    definitions()
    begun, used = time.perf_counter(), _processor_s()
    # to look for processes takes a processor's time, and the interpreter's lock
    with _Others() if side == "spark" else nullcontext(_Others()) as others:
        answer = SIDES[side](folder)
    figures = {
        "seconds": time.perf_counter() - begun,
        "processor_s": _processor_s() - used + others.processor_s,
        "peak_mib": max(_peak_mib(), others.memory_mib),
    }
    names = [name.removeprefix("spending:") for name in answer.column_names]
    pq.write_table(answer.rename_columns(names), folder / f"{side}.parquet")
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
