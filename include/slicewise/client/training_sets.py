"""Requests for training sets, their states, and files that take their names when they are whole.
Both clients carry it out."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal
from uuid import uuid4

from slicewise.client.instants import instant_text, instant_us
from slicewise.client.wire import Features, Form, error_of
from slicewise.errors import BadRequest, NoResult, SlicewiseError, StoreUnavailable

PATH = "/v1/training-sets"
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 2.0
"""Seconds between two looks at a training set: few at first, more the longer it takes."""
PART_BYTES = 1 << 16
_ICEBERG, _AT = "iceberg:", "at"
_STREAM = "application/vnd.apache.arrow.stream"
_FILES = {
    ".parquet": "application/vnd.apache.parquet",
    ".feather": "application/vnd.apache.arrow.file",
    ".arrow": "application/vnd.apache.arrow.file",
    ".csv": "text/csv",
}
_BESIDE = {
    "spine": ".spine.parquet",
    "arrival": ".arrival.parquet",
    "manifest": ".manifest.json",
}
"""Files beside a set's data, by the API's names, in the order in which they are written."""
Knowledge = Literal["event_time", "token", "arrival"]
Instant = str | int | datetime | None


@dataclass(frozen=True)
class TrainingSetState:
    """State of a requested training set.

    state: waiting, running, done, failed, cancelled or removed. waits_for: number of sets that are
    worked before one that waits. content: SHA-256 of one that is done, as Parquet. errors and
    incomplete: as its manifest has them. error: of one that failed.
    """

    id: str
    state: str
    format: str
    submitted_us: int
    begun_us: int | None = None
    ended_us: int | None = None
    expires_us: int | None = None
    attempts: int = 0
    progress: str | None = None
    waits_for: int | None = None
    dataset: str | None = None
    rows: int | None = None
    bytes: int | None = None
    content: str | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    incomplete: Mapping[str, int] = field(default_factory=dict)
    error: SlicewiseError | None = None
    files: Sequence[str] = ()

    @property
    def active(self) -> bool:
        """Tells whether it waits or is built."""
        return self.state in ("waiting", "running")

    def checked(self) -> TrainingSetState:
        """The state of a set that is done. Raises its error where it failed, NoResult where it has
        no result."""
        if self.error is not None:
            raise self.error
        if self.state != "done":
            raise NoResult(
                f"the training set is {self.state}",
                where=f"{PATH}/{self.id}",
                expected="one that is done",
                next_step="wait for it: wait()" if self.active else "request it again",
            )
        return self


def state_of(wire: Mapping[str, Any]) -> TrainingSetState:
    """The state that the API answered."""
    result = wire["result"] or {}
    return TrainingSetState(
        id=wire["id"],
        state=wire["state"],
        format=wire["format"],
        submitted_us=instant_us(wire["submitted"]),
        begun_us=_us(wire["begun"]),
        ended_us=_us(wire["ended"]),
        expires_us=_us(wire["expires"]),
        attempts=wire["attempts"],
        progress=wire["progress"],
        waits_for=wire["waits_for"],
        dataset=result.get("dataset"),
        rows=result.get("rows"),
        bytes=result.get("bytes"),
        content=result.get("content"),
        errors=result.get("errors", {}),
        incomplete=result.get("incomplete", {}),
        error=None if wire["error"] is None else error_of(wire["error"]),
        files=tuple(wire["files"]),
    )


def _us(text: str | None) -> int | None:
    return None if text is None else instant_us(text)


@dataclass(frozen=True)
class Submission:
    """A request for a training set. content: bytes, or the file whose bytes they are. key: by which
    it is one training set, however often it is sent."""

    content: bytes | Path
    media_type: str
    query: Mapping[str, str] = field(default_factory=dict)
    key: str = field(default_factory=lambda: uuid4().hex)


def submission(
    form: Form,
    spine: object,
    features: Features,
    knowledge: str,
    known_at: Instant,
    as_of_definition: Instant,
    engine: str,
    format: str,  # noqa: A002  # as the API names it
    *,
    archive: bool,
) -> Submission:
    """The request for a training set. Raises BadRequest for what is no spine."""
    options: dict[str, Any] = {"knowledge": knowledge, "engine": engine, "format": format}
    for name, instant in (("known_at", known_at), ("as_of_definition", as_of_definition)):
        if instant is not None:
            options[name] = instant_text(instant_us(instant))
    query = {
        **options,
        "features": features if isinstance(features, str) else ",".join(features),
        "archive": "true" if archive else "false",
    }
    if isinstance(spine, Path) or (isinstance(spine, str) and not spine.startswith(_ICEBERG)):
        return Submission(*_of_file(Path(spine)), query)
    if hasattr(spine, "__arrow_c_stream__"):
        return Submission(_streamed(spine), _STREAM, query)
    named = features if isinstance(features, str) else list(features)
    body = {**options, "features": named, "archive": archive, "spine": _members(spine)}
    try:
        return Submission(form.pack(body), form.media_type)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(
            f"a value of the spine cannot be written: {error}",
            where="spine",
            expected="texts, integers of 64 bits, doubles, booleans and nulls; `at` also as aware "
            "datetimes",
            next_step="give the spine as a frame, an Arrow table or a file, which have types",
        ) from error


def _of_file(path: Path) -> tuple[Path, str]:
    kind = _FILES.get(path.suffix.lower())
    if kind is None or not path.is_file():
        raise BadRequest(
            f"{path} is no file of a spine" if path.is_file() else f"there is no file {path}",
            where="spine",
            expected=f"a file that ends in {', '.join(_FILES)}; rows; or iceberg:namespace.table",
            next_step="name the file with its ending, or give the rows themselves",
        )
    return path, kind


def _streamed(spine: object) -> bytes:
    """The bytes of an Arrow stream; where nothing has a stream, nothing is imported."""
    import pyarrow as pa

    table = pa.table(spine)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _members(spine: object) -> object:
    """Rows, columns or a table's name, with the instants as text."""
    if isinstance(spine, str):
        return spine
    if isinstance(spine, Mapping):
        columns = {name: list(values) for name, values in spine.items()}
        return {
            name: [_at(value) for value in values] if name == _AT else values
            for name, values in columns.items()
        }
    if isinstance(spine, Iterable):
        rows = [dict(row) if isinstance(row, Mapping) else row for row in spine]
        return [
            row | {_AT: _at(row[_AT])} if isinstance(row, dict) and _AT in row else row
            for row in rows
        ]
    raise BadRequest(
        f"{type(spine).__name__} is no spine",
        where="spine",
        expected="dicts of rows, a dict of columns, a frame, an Arrow table, a file, or "
        "iceberg:namespace.table",
        next_step="give the rows in one of these forms",
    )


def _at(value: object) -> object:
    return instant_text(instant_us(value)) if isinstance(value, datetime) else value


def parts_of(path: Path) -> Iterator[bytes]:
    """A file's bytes, in parts."""
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def waits() -> Iterator[float]:
    """Seconds between looks, without end."""
    wait_s = FIRST_WAIT_S
    while True:
        yield wait_s
        wait_s = min(LONGEST_WAIT_S, wait_s * 1.5)


def late(state: TrainingSetState, timeout_s: float) -> NoResult:
    """The error of one that is not over in time; it goes on."""
    return NoResult(
        f"the training set is {state.state} after {timeout_s:g} s: {state.progress or 'no step yet'}",
        where=f"{PATH}/{state.id}",
        expected="one that is over",
        next_step="wait longer, or cancel it",
    )


class Incoming:
    """A file that comes in under another name, and is checked."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest, self.size = file, hashlib.sha256(), 0

    def write(self, part: bytes) -> None:
        self._file.write(part)
        self._digest.update(part)
        self.size += len(part)

    @property
    def content(self) -> str:
        return self._digest.hexdigest()


class Target:
    """The file that a training set is written to, with those beside it."""

    def __init__(self, path: Path, state: TrainingSetState) -> None:
        """Raises BadRequest for a name of another form than the set has."""
        self._path, self._state = path, state
        is_csv = path.suffix.lower() == ".csv"
        if is_csv != (state.format == "csv"):
            raise BadRequest(
                f"{path.name} is no name of {state.format}",
                where="write_to",
                expected=f"a name that ends in .{state.format}",
                next_step='request the set with format="csv"' if is_csv else "name it .csv",
            )

    def files(self) -> list[tuple[str, Path]]:
        """The API's name of each file, and its own here; the manifest comes last."""
        name = self._path.name.removesuffix(".parquet").removesuffix(".csv")
        beside = [(part, self._path.with_name(name + end)) for part, end in _BESIDE.items()]
        for part, path in beside:
            if part not in self._state.files:
                path.unlink(missing_ok=True)  # of another set
        return [("data", self._path), *(one for one in beside if one[0] in self._state.files)]

    @contextmanager
    def incoming(self, part: str, path: Path) -> Iterator[Incoming]:
        """A file that takes its name when all of it came. Raises StoreUnavailable."""
        scratch = path.with_name(f".{path.name[:100]}.{os.getpid()}")
        try:
            with scratch.open("wb") as file:
                incoming = Incoming(file)
                yield incoming
            if part == "data":
                self._check(incoming)
                # until here what stood before stands, with its manifest
                for _, beside in self.files()[1:]:
                    beside.unlink(missing_ok=True)
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)

    def _check(self, incoming: Incoming) -> None:
        state = self._state
        same = state.format == "csv" or incoming.content == state.content
        if incoming.size != state.bytes or not same:
            raise StoreUnavailable(
                f"{incoming.size} bytes came, and they are not those of the training set",
                where=f"{PATH}/{state.id}/data",
                expected=f"{state.bytes} bytes",
                next_step="write it once more",
            )
