"""A record is good or bad by one function: every hostile value has its reason, and none becomes
null in silence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from slicewise.features.plan.unit import Source
from slicewise.settings import Settings
from slicewise.spark.records.parse import parsed
from slicewise.spark.runtime.conf import stream_conf
from slicewise.spark.runtime.session import job_session
from tests.support.inputs import hostile

NOW = 1_700_000_000_000_000
SOURCE = Source(
    name="plays",
    topic="plays",
    columns=tuple(hostile.SCHEMA.items()),
    timestamp=hostile.TIMESTAMP,
    time_form="us",
    max_lateness_us=hostile.MAX_LATENESS_US,
    max_ahead_us=hostile.MAX_AHEAD_US,
    required=hostile.REQUIRED,
    allow_nan=hostile.ALLOW_NAN,
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    state = tmp_path_factory.mktemp("state")
    made = job_session(Settings.load({"SLICEWISE_STATE": str(state)}), "parse", cores=1)
    yield made
    made.stop()


def rows(session: SparkSession, values: list[bytes | None], source: Source = SOURCE) -> list[Row]:
    frame = session.createDataFrame(
        [(value, 3, i) for i, value in enumerate(values)],
        "value binary, partition int, offset long",
    ).selectExpr("*", f"timestamp_micros({NOW}) AS timestamp")
    return sorted(parsed(frame, source).collect(), key=lambda row: int(row.offset))


def event(**changes: object) -> bytes:
    return hostile.event(NOW, **changes)


def raw(member: str) -> bytes:
    return hostile.raw(NOW, member)


@pytest.mark.parametrize("length", [4_200, 1_000_000])
def test_a_backlog_of_long_texts_fits_in_memory(
    session: SparkSession, tmp_path: Path, length: int
) -> None:
    records = session.range(0, 600 * 1_000_000 // length, 1, 1).selectExpr(
        f"""cast(concat('{{"at": {NOW}, "user_id": "', id, repeat('x', {length}), '"}}') as binary) AS value""",
        "3 AS partition",
        "id AS offset",
        f"timestamp_micros({NOW}) AS timestamp",
    )
    stream = stream_conf(Settings.load({"SLICEWISE_STATE": str(tmp_path)}))
    for name in (
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.execution.arrow.maxBytesPerBatch",
    ):
        session.conf.set(name, stream[name])

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict(
            {"n": [sum(batch.column("c_user_id").is_valid().true_count for batch in batches)]}
        )

    kept = parsed(records, SOURCE, {"user_id"}).select("c_user_id")
    assert kept.mapInArrow(counted, "n long").collect()[0].n == 600 * 1_000_000 // length


CATALOGUE = hostile.records(NOW)


def test_every_record_of_the_catalogue_gets_its_verdict(session: SparkSession) -> None:
    assert len({case.name for case in CATALOGUE}) == len(CATALOGUE)
    for wanted, row in zip(
        CATALOGUE, rows(session, [case.value for case in CATALOGUE]), strict=True
    ):
        assert row.reason == wanted.reason, f"{wanted.name}: {row.reason}"
        assert (row.partition, row.kafka_time) == (3, NOW)
        if wanted.reason is None:  # every value exactly as it is
            assert row.raw is None
            for name, expected in wanted.columns.items():
                actual = row[name if name == "event_time" else f"c_{name}"]
                assert actual == expected, f"{wanted.name}: {name} is {actual!r}"
        else:  # its bytes are kept, and nothing else is made of it
            assert (None if row.raw is None else bytes(row.raw)) == wanted.value
            assert row.event_time is None
            assert all(row[f"c_{name}"] is None for name, _ in SOURCE.columns)


def test_a_negative_zero_is_zero_and_nan_one_nan(session: SparkSession) -> None:
    first, second, third = rows(session, [raw('"x": -0.0'), raw('"x": -0e0'), raw('"y": "NaN"')])
    assert [str(first.c_x), str(second.c_x), str(third.c_y)] == ["0.0", "0.0", "nan"]


TIMES = {
    "2023-11-14T22:13:20Z": NOW,
    "2023-11-14t22:13:20z": NOW,
    "2023-11-14 22:13:20Z": NOW,
    "2023-11-14T22:13:20.5Z": NOW + 500_000,
    "2023-11-14T22:13:20.123456789Z": NOW + 123_456,
    "2023-11-14T23:13:20+01:00": NOW,
    "2023-11-14T16:43:20-05:30": NOW,
    "2024-02-29T00:00:00Z": 1_709_164_800_000_000,
    "1970-01-01T00:00:00Z": 0,
    "2023-11-14T22:13:20": None,
    "2023-02-30T22:13:20Z": None,
    "2023-02-29T22:13:20Z": None,
    "2023-11-14T24:00:00Z": None,
    "2023-11-14T22:60:00Z": None,
    "2023-11-14T22:13:60Z": None,
    "2023-11-14T22:13:20+24:00": None,
    "2023-11-14T22:13:20.Z": None,
    "1969-12-31T23:59:59Z": None,
    "0000-01-01T00:00:00Z": None,
    "": None,
}
ANY_TIME = replace(SOURCE, time_form="rfc3339", max_lateness_us=10**17, max_ahead_us=10**18)


def test_rfc_3339_with_zone_is_read_by_its_form_alone(session: SparkSession) -> None:
    for (text, wanted), row in zip(
        TIMES.items(), rows(session, [event(at=t) for t in TIMES], ANY_TIME), strict=True
    ):
        assert (row.event_time, row.reason) == (
            wanted,
            None if wanted is not None else "bad_time:at",
        ), text


@settings(max_examples=3, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)), min_size=20, max_size=40)  # noqa: DTZ001
)
def test_any_instant_is_read_as_python_reads_it(
    session: SparkSession, instants: list[datetime]
) -> None:
    aware = [instant.replace(tzinfo=UTC) for instant in instants]
    result = rows(session, [event(at=moment.isoformat()) for moment in aware], ANY_TIME)
    first = datetime(1970, 1, 1, tzinfo=UTC)
    for moment, row in zip(aware, result, strict=True):
        delta = moment - first
        assert (
            row.event_time == (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
        ), moment


@pytest.mark.parametrize(("form", "unit"), [("s", 1_000_000), ("ms", 1_000), ("us", 1)])
def test_integers_are_read_in_the_declared_unit(
    session: SparkSession, form: str, unit: int
) -> None:
    source = replace(ANY_TIME, time_form=form)
    last = 253_402_300_799_999_999 // unit
    result = rows(
        session,
        [event(at=NOW // unit), event(at=last), event(at=last + 1), event(at=2**63 - 1)],
        source,
    )
    assert [row.event_time for row in result] == [NOW // unit * unit, last * unit, None, None]
    assert [row.reason for row in result[2:]] == ["bad_time:at", "bad_time:at"]
