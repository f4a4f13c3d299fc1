"""The table of a history is read hour by hour, in an order that follows from its rows alone.

Rows are ordered by event time and then by their text, so that the order, and with it each row's
offset, is the same however the table's files are cut. Digests are sums over rows, likewise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import KAFKA_TIME
from slicewise.settings import Settings
from slicewise.training.tables.given.events import judged_events
from slicewise.training.tables.locations import located
from slicewise.windows.durations import HOUR_US

PARQUET = "parquet:"
OF_KAFKA = "kafka_time"
"""Column of the event time, where that is the time of the Kafka record."""
_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
_ZONED = "TIMESTAMP WITH TIME ZONE"
PART_ROWS = 500_000
"""About so many rows are in memory at once; an hour is not cut."""


@dataclass(frozen=True)
class HourOf:
    """Rows of an hour; hour None: those whose event time is null or before 1970."""

    hour: int | None
    rows: int
    digest: int
    """Sum of the digests of its rows."""


@dataclass(frozen=True)
class Census:
    """Contents of a table up to the instant at which it is cut. beyond: rows from there on, which
    the topic has."""

    hours: tuple[HourOf, ...]
    beyond: int

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.hours)

    @property
    def digest(self) -> str:
        """Digest of all rows up to the cut: 32 hex digits."""
        text = json.dumps([[one.hour, one.rows, str(one.digest)] for one in self.hours])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def parts(self, most: int) -> list[tuple[HourOf, ...]]:
        """Hours that are read and written together: about `most` rows, those without a time
        last."""
        parts: list[list[HourOf]] = []
        for one in self.hours:
            last = parts[-1] if parts else None
            if last is None or one.hour is None or sum(h.rows for h in last) + one.rows > most:
                parts.append([one])
            else:
                last.append(one)
        return [tuple(part) for part in parts]


@dataclass(frozen=True)
class GivenTable:
    """A table of rows of a source, up to an instant."""

    engine: duckdb.DuckDBPyConnection
    source: Source
    until_us: int
    names: tuple[str, ...]
    """Columns that are read of it."""
    left_out: tuple[str, ...]
    """Columns that the source does not have."""
    zoned: bool

    def census(self) -> Census:
        """Rows and digest of each hour. Reads the whole table once."""
        micros = self._micros
        placed = f"CASE WHEN {micros} >= 0 THEN {micros} // {HOUR_US} END"
        rows = self._run(
            f"SELECT {placed} AS h, count(*), sum(md5_number_lower({self._text}))::VARCHAR "
            f"FROM _history WHERE {micros} IS NULL OR {micros} < {self.until_us} "
            "GROUP BY 1 ORDER BY 1 NULLS LAST"
        )
        (beyond,) = self._run(f"SELECT count(*) FROM _history WHERE {micros} >= {self.until_us}")
        hours = (HourOf(hour, count, int(digest)) for hour, count, digest in rows)
        return Census(tuple(hours), beyond[0])

    def rows_of(self, part: Sequence[HourOf]) -> tuple[pa.Table, int]:
        """The rows of these hours in their order, and the sum of their digests."""
        micros, columns = self._micros, ", ".join(map(_quoted, self.names))
        chosen = f"{micros} IS NULL OR {micros} < 0"
        if part[0].hour is not None and part[-1].hour is not None:
            start = part[0].hour * HOUR_US
            end = min((part[-1].hour + 1) * HOUR_US, self.until_us)
            chosen = f"{micros} >= {start} AND {micros} < {end}"
            if self.zoned:  # which files are read follows from this
                chosen += (
                    f" AND {_quoted(self.time)} >= make_timestamptz({start})"
                    f" AND {_quoted(self.time)} < make_timestamptz({end})"
                )
        query = (
            f"SELECT {columns}, md5_number_lower({self._text}) AS _digest FROM _history "
            f"WHERE {chosen} ORDER BY {micros}, {self._text}"
        )
        try:
            table = self.engine.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise _unread(self.source.name, error) from error
        digest = sum(table["_digest"].to_pylist())
        return table.drop_columns(["_digest"]), digest

    @property
    def time(self) -> str:
        return self.source.time_column or OF_KAFKA

    @property
    def _micros(self) -> str:
        name = _quoted(self.time)
        ticks = _TICKS.get(self.source.time_form, 1) if self.source.time_column else 1
        return f"epoch_us({name})" if self.zoned else f"({name}::BIGINT * {ticks})"

    @property
    def _text(self) -> str:
        """A row as text: of each column its length and its value, so that no two rows are alike."""
        columns = (
            f"coalesce(length({name}::VARCHAR) || ':' || {name}::VARCHAR, '-')"
            for name in map(_quoted, self.names)
        )
        return "concat(" + ", ".join(columns) + ")"

    def _run(self, query: str) -> list[tuple[int, ...]]:
        try:
            return list(self.engine.execute(query).fetchall())
        except duckdb.Error as error:
            raise _unread(self.source.name, error) from error


@contextmanager
def opened(
    settings: Settings,
    location: str,
    source: Source,
    until_us: int,
    deployment: Callable[[], Deployment],
) -> Iterator[GivenTable]:
    """The table at a location, once its columns are those of the source. Raises BadRequest."""
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'; SET threads = 2")
        engine.execute("SET python_enable_replacements = false")
        if location.startswith(PARQUET):
            pattern = location.removeprefix(PARQUET)
            if "://" not in pattern:
                path = settings.project_dir.resolve() / Path(pattern).expanduser()
                pattern = str(path)
                if not any(Path(path.anchor).glob(str(path.relative_to(path.anchor)))):
                    raise BadRequest(
                        f"no file matches {pattern}",
                        where=f"history of source {source.name!r}",
                        expected="Parquet files",
                        next_step="correct history= of the source",
                    )
            literal = pattern.replace("'", "''")
            read = f"read_parquet('{literal}', union_by_name = true)"
            try:
                engine.execute(f"CREATE VIEW _history AS SELECT * FROM {read}")
            except duckdb.Error as error:
                raise _unread(source.name, error) from error
        else:
            rows = located(settings, location, deployment)
            engine.register("_rows", rows)
            engine.execute("CREATE VIEW _history AS SELECT * FROM _rows")
        described = engine.execute("DESCRIBE _history").fetchall()
        kinds = {str(name): str(kind) for name, kind, *_ in described}
        yield _checked(engine, source, until_us, kinds)


def _checked(
    engine: duckdb.DuckDBPyConnection, source: Source, until_us: int, kinds: dict[str, str]
) -> GivenTable:
    where = f"history of source {source.name!r}"
    wanted = [name for name, _ in source.columns]
    if source.timestamp == KAFKA_TIME:
        wanted.append(OF_KAFKA)
    missing = [name for name in wanted if name not in kinds]
    if missing:
        raise BadRequest(
            f"the table has no column {', '.join(map(repr, missing))}",
            where=where,
            expected="all columns of the source: " + ", ".join(wanted),
            next_step='name the table by a query that gives them: history="sql:SELECT …, NULL AS '
            f"{missing[0]} FROM 'file.parquet'\"",
        )
    time = source.time_column or OF_KAFKA
    if kinds[time] != _ZONED and kinds[time] not in _INTEGERS:
        raise BadRequest(
            f"the event time {time!r} is {kinds[time]}",
            where=where,
            expected="instants with a zone, or whole numbers in the source's form",
            next_step=f"cast it by a query: history=\"sql:SELECT {time} AT TIME ZONE 'UTC' AS "
            f"{time}, … FROM 'file.parquet'\"",
        )
    left_out = tuple(name for name in kinds if name not in wanted)
    table = GivenTable(engine, source, until_us, tuple(wanted), left_out, kinds[time] == _ZONED)
    nothing = engine.sql(f"SELECT {', '.join(map(_quoted, wanted))} FROM _history LIMIT 0")
    try:
        judged_events(source, nothing.to_arrow_table())
    except BadRequest as error:
        raise BadRequest(
            error.what,
            where=f"{where}: {error.where}",
            expected=error.expected,
            next_step='cast the column by a query: history="sql:SELECT …"',
        ) from error
    return table


def _unread(source: str, error: duckdb.Error) -> BadRequest:
    return BadRequest(
        f"the table cannot be read: {str(error).partition(chr(10))[0]}",
        where=f"history of source {source!r}",
        expected="rows that can be read",
        next_step="correct history= of the source",
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
