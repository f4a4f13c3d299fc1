"""A small source with a view that has every aggregate, random events over it, and the oracle's
answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import slicewise as sw
from slicewise.features.plan.unit import Source
from slicewise.offsets.gaps import AcceptedGap
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.archive import Archived
from slicewise.training.queries import GivenArchive
from slicewise.training.tables.given.events import typed_events
from slicewise.windows.durations import FOR_EVER_US
from slicewise.windows.kinds import as_window
from tests.support.inputs import classes, folds
from tests.support.oracles import answers as oracle
from tests.support.oracles.answers import MINUTE, OracleEvent

START = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
TOPIC = "0" * 32
SCHEMA = {
    "user": "string",
    "device": "int64",
    "song": "string",
    "seconds": "double",
    "stars": "int64",
    "skipped": "boolean",
    "tags": "array<string>",
    "played_at": "timestamp_us",
}

PLAYS = sw.KafkaSource(
    "plays", schema=SCHEMA, timestamp="played_at", max_lateness="30d", max_ahead="30d"
)
RISES = sw.ordered(folds.nothing, folds.rise, folds.rises, columns=["stars"], output="long")


@sw.row_function(output="long")
def doubled(stars, seconds):  # type: ignore[no-untyped-def]
    return pc.if_else(pc.greater(pc.coalesce(seconds, 20.0), 29.7), pc.multiply(stars, 2), stars)


AGGREGATES: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "n": (sw.count(), "count", ()),
    "rated": (sw.count("stars"), "count", ("stars",)),
    "seconds": (sw.sum("seconds"), "sum", ("seconds",)),
    "stars": (sw.sum("stars"), "sum", ("stars",)),
    "mean_minutes": (sw.mean("minutes"), "mean", ("minutes",)),
    "mean_stars": (sw.mean("stars"), "mean", ("stars",)),
    "shortest": (sw.min("seconds"), "min", ("seconds",)),
    "last_name": (sw.max("song"), "max", ("song",)),
    "least_song": (sw.argmin("song", by="stars"), "argmin", ("song", "stars")),
    "best_song": (sw.argmax("song", by="stars"), "argmax", ("song", "stars")),
    "best": (sw.top_k("song", by="seconds", k=3), "top_k", ("song", "seconds", 3)),
    "first_song": (sw.first("song"), "first", ("song",)),
    "last_stars": (sw.last("stars"), "last", ("stars",)),
    "earliest": (sw.first_k("seconds", k=2), "first_k", ("seconds", 2)),
    "latest": (sw.last_k("song", k=3), "last_k", ("song", 3)),
    "latest_songs": (sw.last_k_distinct("song", k=3), "last_k_distinct", ("song", 3)),
    "lengths": (sw.quantiles("seconds", q=[0.5, 0.9]), "quantiles", ("seconds", (0.5, 0.9))),
    "frequent": (sw.top_k_frequent("song", k=2), "top_k_frequent", ("song", 2)),
    "songs": (sw.distinct_count("song"), "distinct_count", ("song",)),
    "lately": (sw.decay_count(half_life="20m"), "decay_count", (None, "20m")),
    "seconds_lately": (sw.decay_sum("seconds", half_life="7m"), "decay_sum", ("seconds", "7m")),
    "rises": (RISES, "rises", ("stars",)),
    "stars_lately": (sw.decay_sum("stars", half_life="1h"), "decay_sum", ("stars", "1h")),
    "spread": (sw.variance("seconds"), "variance", ("seconds",)),
    "spread_stars": (sw.stddev("stars"), "stddev", ("stars",)),
    "lean": (sw.skewness("stars"), "skewness", ("stars",)),
    "tails": (sw.kurtosis("minutes"), "kurtosis", ("minutes",)),
    "together": (sw.covariance("stars", "minutes"), "covariance", ("stars", "minutes")),
    "alike": (sw.correlation("minutes", "stars"), "correlation", ("minutes", "stars")),
    "rise": (sw.linear_trend("stars"), "linear_trend", ("stars",)),
    "base": (
        sw.linear_trend("minutes", over="stars", output="intercept"),
        "linear_trend",
        ("minutes", "stars", "intercept"),
    ),
    "all_skipped": (sw.bool_and("skipped"), "bool_and", ("skipped",)),
    "any_skipped": (sw.bool_or("skipped"), "bool_or", ("skipped",)),
    "rated_seconds": (
        sw.sum("seconds", where="stars >= 3 AND skipped"),
        "where",
        (
            lambda row: (row["stars"] or 0) >= 3 and row["skipped"] is True,
            lambda some: oracle.sum_(some, "seconds"),
        ),
    ),
    "long_ones": (
        sw.count(where="minutes > 0.5"),
        "where",
        (lambda row: (row["minutes"] or 0) > 0.5, len),
    ),
    "by_song": (sw.count_by("song"), "bucketed", ("song", len)),
    "few_songs": (sw.count_by("song", max_categories=6), "bucketed", ("song", len, 6)),
    "mean_by_song": (
        sw.bucketed(sw.mean("seconds"), by="song"),
        "bucketed",
        ("song", lambda some: oracle.mean(some, "seconds")),
    ),
    "songs_by_stars": (
        sw.bucketed(sw.last_k("song", k=2), by="stars", where="seconds > 30"),
        "where",
        (
            lambda row: (row["seconds"] or 0) > 30,
            lambda some: oracle.bucketed(
                some, "stars", lambda part: oracle.last_k(part, "song", 2)
            ),
        ),
    ),
    "by_tag": (sw.count_by("tags"), "bucketed", ("tags", len)),
    "stars_by_tag": (
        sw.bucketed(sw.sum("stars"), by="tags"),
        "bucketed",
        ("tags", lambda some: oracle.sum_(some, "stars")),
    ),
    "lengths_spread": (
        sw.histogram("seconds", edges=[10, 29.7, 60]),
        "histogram",
        ("seconds", (10, 29.7, 60)),
    ),
    "lasted": (sw.span(), "span", ()),
    "reach": (classes.Reach("seconds"), "reach", ("seconds",)),
    "cubes": (classes.Power("stars", degree=3), "power", ("stars", 3)),
    "doubled": (sw.sum("doubled"), "sum", ("doubled",)),
    "last_doubled": (
        sw.last_k("doubled", k=2, where="minutes > 0.3"),
        "where",
        (
            lambda row: (row["minutes"] or 0) > 0.3,
            lambda some: oracle.last_k(some, "doubled", 2),
        ),
    ),
}
WINDOWS: tuple[Any, ...] = (
    "10m",
    "3h",
    sw.tumbling("1h"),
    sw.hopping("1h", every="10m"),
    sw.sliding("1h", offset="90m"),
    sw.session("10m", max_length="2h"),
)


def view(
    entity: Sequence[str], windows: Sequence[Any] = WINDOWS, name: str = "listening"
) -> sw.FeatureView:
    """Every aggregate over the windows that it can answer; sixty seconds are a minute, and short
    plays do not count."""
    ever = any(as_window(window).unbounded for window in windows)
    answering = {
        name: made
        for name, (made, _, _) in AGGREGATES.items()
        if not (ever and made.answers(FOR_EVER_US))
    }
    return sw.FeatureView(
        name,
        source=PLAYS,
        entity=list(entity),
        where="seconds >= 10 OR seconds IS NULL",
        columns={"minutes": "seconds / 60", "doubled": doubled},
        features=[
            sw.Feature(name, made, windows=list(windows)) for name, made in answering.items()
        ],
    )


def random_events(seed: int, n: int, span_us: int = 6 * 60 * MINUTE) -> list[dict[str, Any]]:
    """Events in log order, out of order in time, with ties, nulls, signed zeros and huge
    doubles."""
    rng = np.random.default_rng(seed)
    doubles = [0.0, -0.0, 0.1, 10.0, 29.7, 1e16, -1e16, 1e308, 5e-324, 33.3]
    offsets = [0, 0, 0]
    events = []
    for _ in range(n):
        partition = int(rng.integers(3))
        time = (
            START
            + int(rng.integers(span_us // (MINUTE // 2))) * (MINUTE // 2)
            + int(rng.integers(2)) * 7
        )
        seconds = (
            doubles[rng.integers(len(doubles))] if rng.random() < 0.5 else float(rng.normal(60, 40))
        )
        events.append(
            {
                "user": ["ann", "bob", "Zoë", ""][rng.integers(4)],
                "device": int(rng.integers(3)),
                "song": None if rng.random() < 0.1 else f"song-{rng.integers(9)}",
                "seconds": None if rng.random() < 0.1 else seconds,
                "stars": (stars := None if rng.random() < 0.2 else int(rng.integers(-2, 6))),
                "tags": None
                if stars is None
                else ["é", None, "rock", "é", "pop", "jazz"][: stars + 2],
                "skipped": [None, True, False][rng.integers(3)],
                "played_at": time,
                "partition": partition,
                "offset": offsets[partition],
            }
        )
        offsets[partition] += int(rng.integers(1, 3))  # offsets have gaps, as after transactions
    return events


def oracle_events(events: Sequence[Mapping[str, Any]]) -> list[OracleEvent]:
    """The view's rows, by the oracle's own reading of its row logic."""
    out = []
    for event in events:
        seconds = event["seconds"]
        if seconds is None or seconds >= 10:
            stars, twice = event["stars"], seconds is not None and seconds > 29.7
            columns = {
                **event,
                "minutes": None if seconds is None else seconds / 60,
                "doubled": stars * 2 if twice and stars is not None else stars,
            }
            out.append(
                OracleEvent(event["played_at"], TOPIC, event["partition"], event["offset"], columns)
            )
    return out


def expected(name: str, events: Sequence[OracleEvent], end: int) -> Any:
    """The oracle's value of an aggregate over these events of a window that ends there."""
    _, kind, arguments = AGGREGATES[name]
    return oracle.BY_KIND[kind](
        events, *arguments, **({"end": end} if kind.startswith("decay") else {})
    )


def same(actual: Any, wanted: Any) -> bool:
    """Equal in value and type, doubles bit for bit; a ranked item is (by, payload) to the
    oracle."""
    if isinstance(actual, float) and isinstance(wanted, float):
        return actual == wanted and math.copysign(1, actual) == math.copysign(1, wanted)
    if isinstance(actual, list) and isinstance(wanted, list):
        return len(actual) == len(wanted) and all(map(same, actual, wanted))
    if isinstance(actual, dict) and isinstance(wanted, tuple):
        return same(actual["by"], wanted[0]) and same(actual["payload"], wanted[1])
    if isinstance(actual, dict) and isinstance(wanted, dict):
        return list(actual) == list(wanted) and all(
            same(actual[name], wanted[name]) for name in actual
        )
    return type(actual) is type(wanted) and bool(actual == wanted)


class InMemoryArchive:
    """The archive's port over a list of typed events, each of one archive version."""

    def __init__(
        self, source: Source, batches: Sequence[Sequence[Mapping[str, Any]]], until_us: int
    ) -> None:
        self.tables = []
        for archive_version, batch in enumerate(batches, start=1):
            typed, refused = typed_events(source, list(batch))
            assert not refused
            self.tables.append(
                typed.append_column("seq", pa.array([archive_version] * typed.num_rows, pa.int64()))
            )
        self.until_us = until_us
        self.reads: list[tuple[int, int]] = []
        self.log_ends_us: int | None = None
        self.accepted_gaps: tuple[AcceptedGap, ...] = ()

    def reaches(self, source: str) -> Archived:  # noqa: ARG002
        offsets: dict[TopicPartition, int] = {}
        for event in pa.concat_tables(self.tables).select(["partition", "offset"]).to_pylist():
            topic_partition = (TOPIC, event["partition"])
            offsets[topic_partition] = max(offsets.get(topic_partition, 0), event["offset"] + 1)
        return Archived(
            len(self.tables), OffsetVector(offsets), self.until_us, 7, self.accepted_gaps
        )

    def confirmed(self, source: Source, archived: Archived) -> Archived:  # noqa: ARG002
        return (
            replace(archived, until_us=self.log_ends_us)
            if self.log_ends_us is not None
            else archived
        )

    def events(
        self,
        source: Source,
        columns: Sequence[str],
        start_us: int,
        end_us: int,
        archive_version: int,
    ) -> pa.Table:
        self.reads.append((start_us, end_us))
        return self._until(archive_version).events(
            source, columns, start_us, end_us, archive_version
        )

    def below(
        self,
        source: Source,
        columns: Sequence[str],
        offset_vector: OffsetVector,
        kafka_us: int,
        archive_version: int,
    ) -> pa.Table:
        return self._until(archive_version).below(
            source, columns, offset_vector, kafka_us, archive_version
        )

    def _until(self, archive_version: int) -> GivenArchive:
        """The archive of the archives up to this one."""
        table = pa.concat_tables(self.tables)
        return GivenArchive(table.filter(pa.array(table["seq"].to_numpy() <= archive_version)))
