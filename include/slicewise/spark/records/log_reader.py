"""The log is followed by a small JVM of our own: each record is parsed once, by the parser of every
stream.

It is a child process without Spark (jvm/…/LogReader.java, docs/adr/0043): it polls, parses and
writes columns ahead of who reads them, as far as a pipe and a short queue allow. What it says is in
offset order within each partition.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from slicewise.errors import DataLoss, SettingsError, SlicewiseError, StoreUnavailable
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import BOOLEAN, STRING, TIMESTAMP, arrow_type, element_type
from slicewise.settings import Settings
from slicewise.spark.records.parse import versions_of

MAIN = "io.slicewise.log.LogReader"
LOST = 3
"""Exit code where the log no longer holds what was asked for."""
_JAR = "slicewise-spark.jar"
_MOST_FRAMES = 8
"""Frames that wait to be taken; one has at most `max.poll.records`."""
_AT_ONCE_BYTES = 64 << 20
_END_S = 10.0
_ALIGNED = 8


@dataclass(frozen=True, eq=False)
class Frame:
    """Consecutive records of one partition, as columns of equal length."""

    partition: int
    end: int
    """First offset that it does not reach."""
    offset: np.ndarray[Any, np.dtype[np.int64]]
    kafka_time: np.ndarray[Any, np.dtype[np.int64]]
    """Microseconds UTC."""
    good: np.ndarray[Any, np.dtype[np.bool_]]
    event_time: pa.Array
    """Microseconds UTC; null of bad records, as all columns."""
    columns: Mapping[str, pa.Array]
    size: int
    """Bytes that it holds."""


class LogReader:
    """Follows a topic from `start`. only: the source's columns that are given. Raises
    SettingsError."""

    def __init__(
        self,
        settings: Settings,
        source: Source,
        topic_id: str,
        only: Collection[str],
        start: Mapping[int, int],
    ) -> None:
        self._bootstrap, self._topic = settings.kafka_bootstrap, source.topic
        self._kinds = {name: kind for name, kind in source.columns if name in only}
        self._frames: queue.Queue[Frame] = queue.Queue(_MOST_FRAMES)
        self._closed = False
        self._broken: Exception | None = None
        self._child = subprocess.Popen(
            _command(settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 20
        )
        request = {
            "topic": source.topic,
            "start": {str(partition): offset for partition, offset in start.items()},
            "options": _options(settings),
            "versions": versions_of(source, list(self._kinds), topic_id),
        }
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            pass  # it ended: whoever takes hears why
        self._thread = threading.Thread(
            target=self._follow, args=(stdout,), name=f"log-{source.topic}", daemon=True
        )
        self._thread.start()

    def _follow(self, out: IO[bytes]) -> None:
        try:
            while (frame := _frame(out, self._kinds)) is not None:
                while not self._closed:
                    try:
                        self._frames.put(frame, timeout=0.2)
                        break
                    except queue.Full:
                        continue
        except (ValueError, OSError, pa.ArrowException) as error:
            self._broken = error  # `take` raises it

    def take(self, most: int, timeout_s: float) -> list[Frame]:
        """Takes what is there, up to about `most` records; waits for a first frame, and gives none
        after `timeout_s`.

        Raises DataLoss where the log no longer holds what comes next, SlicewiseError where the
        reader ended.
        """
        frames: list[Frame] = []
        rows, size, deadline = 0, 0, time.monotonic() + timeout_s
        while rows < most and size < _AT_ONCE_BYTES:
            try:
                frame = self._frames.get(
                    timeout=max(0.0, deadline - time.monotonic()) if not frames else 0.0
                )
            except queue.Empty:
                break
            frames.append(frame)
            rows += len(frame.offset)
            size += frame.size
        if not frames and not self._thread.is_alive() and self._frames.empty():
            raise self._ended()
        return frames

    def _ended(self) -> SlicewiseError:
        code, where = self._child.wait(_END_S), f"topic {self._topic!r} at {self._bootstrap}"
        if code == LOST:
            return DataLoss(
                "Kafka lost records that were not read yet",
                where=where,
                expected="a retention longer than the longest stop",
                next_step="docs/runbook.md, 'The log no longer holds what the stream needs'",
            )
        why = (
            f"with exit code {code}"
            if self._broken is None
            else f"in the middle of a frame: {self._broken}"
        )
        return StoreUnavailable(
            f"the reader of the log ended {why}",
            where=where,
            next_step="the driver's log has its last words",
        )

    def close(self) -> None:
        """Ends the child; what was not taken is forgotten."""
        self._closed = True
        if self._child.stdin is not None:
            self._child.stdin.close()  # it ends with its input
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(_END_S)
        self._thread.join(_END_S)
        if self._child.stdout is not None:
            self._child.stdout.close()


def _command(settings: Settings) -> list[str]:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None or not (settings.spark_jars / _JAR).exists():
        raise SettingsError(
            "the reader of the log is missing",
            where=str(settings.spark_jars / _JAR),
            expected="the environment of Spark and its jars, which `make setup` makes",
            next_step="make setup",
        )
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    classes = f"{settings.spark_jars}/*:{Path(spark.origin).parent / 'jars'}/*"
    options = ("-XX:+UseSerialGC", "-Xms32m", "-Xmx512m", "-XX:-UsePerfData")
    return [java, *options, "-cp", classes, MAIN]


def _options(settings: Settings) -> dict[str, str]:
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "max.poll.records": "20000",
        "max.partition.fetch.bytes": str(8 << 20),
        "fetch.max.bytes": str(32 << 20),
        # a log that trickles is read twenty times a second, not once per record
        "fetch.min.bytes": str(64 << 10),
        "fetch.max.wait.ms": "50",
    }


# ---------------------------------------------------------------- frames
def _frame(out: IO[bytes], kinds: Mapping[str, str]) -> Frame | None:
    """The next frame; None where the child ended. Raises ValueError where it ended within one."""
    length = out.read(4)
    if not length:
        return None
    head = json.loads(_exactly(out, int.from_bytes(length, "big")))
    sizes: list[int] = head["sizes"]
    whole = pa.py_buffer(_exactly(out, sum(size + -size % _ALIGNED for size in sizes)))
    buffers, at = [], 0
    for size in sizes:
        buffers.append(whole.slice(at, size))
        at += size + -size % _ALIGNED
    given, rows = iter(buffers), int(head["rows"])
    offset, kafka_time = np.frombuffer(next(given), np.int64), np.frombuffer(next(given), np.int64)
    good = np.frombuffer(next(given), np.bool_)
    event_time = _array("long", given, rows)
    columns = {name: _array(kind, given, rows) for name, kind in kinds.items()}
    return Frame(
        int(head["partition"]),
        int(head["end"]),
        offset,
        kafka_time,
        good,
        event_time,
        columns,
        whole.size,
    )


def _exactly(out: IO[bytes], size: int) -> bytes:
    data = out.read(size)
    if len(data) != size:
        raise ValueError(f"{len(data)} of {size} bytes")
    return data


def _array(kind: str, given: Any, rows: int) -> pa.Array:
    """The next column of these buffers; instants as longs."""
    there = next(given)
    valid = (
        pa.py_buffer(np.packbits(np.frombuffer(there, np.uint8), bitorder="little"))
        if there.size
        else None
    )
    element = element_type(kind)
    if element is not None:
        ends = next(given)
        count = int(np.frombuffer(ends, np.int32)[-1])
        values = _array(element, given, count)
        return pa.Array.from_buffers(pa.list_(values.type), rows, [valid, ends], children=[values])
    if kind == STRING:
        return pa.Array.from_buffers(pa.string(), rows, [valid, next(given), next(given)])
    if kind == BOOLEAN:
        values = pa.py_buffer(np.packbits(np.frombuffer(next(given), np.uint8), bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), rows, [valid, values])
    stored = pa.int64() if kind == TIMESTAMP else arrow_type(kind)
    return pa.Array.from_buffers(stored, rows, [valid, next(given)])
