"""The record reader and its oracle in Spark SQL say the same of every record: reason, time, and
each value."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from slicewise.features.plan.unit import Source
from slicewise.settings import Settings
from slicewise.spark.records import parse
from slicewise.spark.runtime.session import job_session
from tests.support.inputs import hostile
from tests.support.oracles import sql_records

NOW = 1_700_000_000_000_000
SOURCE = Source(
    name="plays",
    topic="plays",
    columns=(
        ("s", "string"),
        ("n", "long"),
        ("x", "double"),
        ("y", "double"),
        ("b", "boolean"),
        ("p", "decimal(6,2)"),
        ("q", "decimal(3,3)"),
        ("r", "decimal(38,10)"),
        ("t", "timestamp_us"),
    ),
    timestamp="t",
    time_form="us",
    max_lateness_us=10_000_000,
    max_ahead_us=5_000_000,
    required=("s",),
    allow_nan=("y",),
)
MORE = replace(
    SOURCE,
    columns=(
        ("s", "string"),
        ("i8", "long"),
        ("i16", "long"),
        ("i32", "long"),
        ("u8", "long"),
        ("u16", "long"),
        ("u32", "long"),
        ("f", "double"),
        ("g", "double"),
        ("d", "date"),
        ("ts", "array<string>"),
        ("ns", "array<long>"),
        ("is", "array<long>"),
        ("xs", "array<double>"),
        ("fs", "array<double>"),
        ("bs", "array<boolean>"),
        ("ds", "array<date>"),
        ("ps", "array<decimal(6,2)>"),
        ("deep", "long"),
        ("deeper", "string"),
    ),
    timestamp="kafka",
    allow_nan=("g",),
    wire=(
        *(
            (name, f"{'u' * (name[0] == 'u')}int{name[1:]}")
            for name in ("i8", "i16", "i32", "u8", "u16", "u32")
        ),
        *((name, "float") for name in "fg"),
        ("is", "array<int8>"),
        ("fs", "array<float>"),
    ),
    paths=(("deep", ("o", "n")), ("deeper", ("o", "@p", "s s"))),
)
COLUMNS = tuple(name for name, _ in SOURCE.columns)

# Each is one value as it may stand on the wire.
VALUES = (
    *("null", "true", "false", "{}", "[]", '""', '"a"', '"1"', '"1.5"', '"true"', '"null"'),
    *(
        '"NaN"',
        '"Infinity"',
        '"-Infinity"',
        '"+Infinity"',
        '"nan"',
        '"inf"',
        "NaN",
        "Infinity",
        "-Infinity",
    ),
    *(
        "0",
        "-0",
        "-0.0",
        "-0e0",
        "1",
        "-1",
        "1.0",
        "1.9",
        "1e0",
        "1E3",
        "1e-3",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "0x1",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *(
        "9223372036854775808.0",
        "9223372036854775807.5",
        "1e19",
        "-1e19",
        "1e400",
        "-1e400",
        "1e-400",
        "5e-324",
    ),
    *(
        "9" * 37,
        "9" * 38,
        "9" * 39,
        "-" + "9" * 38,
        "1" + "0" * 38,
        "1" + "0" * 999,
        "1" + "0" * 1001,
    ),
    *(
        "0." + "1" * 37,
        "0." + "1" * 38,
        "0." + "1" * 39,
        "0." + "0" * 40,
        "1." + "0" * 40,
        "1" * 20 + "." + "1" * 18,
    ),
    *(
        "9999.99",
        "9999.995",
        "10000",
        "9999.990",
        "0.1",
        "0.10",
        "0.001",
        "0.0001",
        "0.999",
        "1.000",
        "100.0",
        "1e2",
    ),
    *(
        "0.30000000000000004",
        "179769313486231580000000000000000000000000000.0",
        "321.901",
        "4503599627370497.5",
    ),
    *(
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\\\ud800"',
        '"\\\\\\ud800"',
        '"\\u0000"',
        '"\\uD83D"',
    ),
    # an escaped backslash parts two halves
    *('"\\ud83d\\\\\\ude00"', '"\\ud83d\\ude00\\\\\\ud83d"'),
    *('"\\x"', '"\\u12"', '"a\tb"', '"a\\tb"', '"é"', '"😀"', '"]"', '"}"', '"\\""'),
    *(
        '{"a": 1, "a": 1}',
        '{"a": {"b": 1, "b": 2}}',
        '[{"a": 1, "\\u0061": 2}]',
        '{"a": [1, {"b": []}]}',
        "[1,]",
    ),
    *("[" * 900 + "]" * 900, "[" * 998 + "]" * 998, "[" * 999 + "]" * 999, "[" * 1200 + "]" * 1200),
    *(
        str(NOW),
        str(NOW - 10_000_000),
        str(NOW - 10_000_001),
        str(NOW + 5_000_000),
        str(NOW + 5_000_001),
        f"{NOW}.0",
    ),
    *(
        "253402300799999999",
        "253402300800000000",
        "253402300799",
        "253402300800",
        "1700000000",
        "1700000000000",
    ),
    *(
        f'"{date}{time}"'
        for date in ("2023-11-14", "2024-02-29", "2023-02-29")
        for time in ("T22:13:20Z", "")
    ),
    *('"2023-11-14T22:13:20+01:00"', '"2023-11-14T22:13:20+01:00\\n"', '"2023-11-14T22:13:20Z\\n"'),
    *(
        '"2023-11-14T22:13:20.1234567-05:30"',
        '"2023-11-14T22:13:20.+01:00"',
        '"0000-01-01T00:00:00Z"',
    ),
    *(
        '"9999-12-31T23:59:59.999999Z"',
        '"9999-12-31T23:59:59.999999-00:01"',
        '"1970-01-01T00:00:00+00:01"',
    ),
    *(
        '"2023-11-14T22:13:20\u0661Z"',
        '"2023-00-10T00:00:00Z"',
        '"2023-13-10T00:00:00Z"',
        '"2023-04-31t00:00:00z"',
    ),
)
MORE_VALUES = (
    *VALUES,
    *(
        str(n)
        for bits in (7, 8, 15, 16, 31, 32)
        for n in (2**bits, 2**bits - 1, -(2**bits), -(2**bits) - 1)
    ),
    *(
        "0.1",
        "16777217",
        "16777219.0",
        "3.4028234663852886e38",
        "3.4028235677973366e38",
        "3.5e38",
        "-3.5e38",
        "1e-46",
    ),
    *(
        '"0001-01-01"',
        '"0000-01-01"',
        '"1582-10-10"',
        '"1900-02-29"',
        '"2000-02-29"',
        '"9999-12-31"',
        '"10000-01-01"',
    ),
    *(
        '"2024-2-9"',
        '" 2024-02-09"',
        '"2024-02-09\\n"',
        '"2024-02-30"',
        '"2024-13-01"',
        '"-001-01-01"',
        '"٢٠٢٤-02-09"',
    ),
    *(
        '["a", null, "é"]',
        '["a", 1]',
        "[1, null, 127]",
        "[1, 128]",
        "[1, 2.0]",
        "[null]",
        "[true, false]",
        "[[1]]",
    ),
    *(
        '["2024-02-29", "2023-02-29"]',
        '["2024-02-29"]',
        "[1.5, 1e400]",
        "[0.1, -0.0, 1e39]",
        "[9999.99, 0.1]",
    ),
    *(
        '[1, {"a": 1, "a": 2}]',
        '[{"a": []}, "x"]',
        "[0.001]",
        '["NaN"]',
        "[9223372036854775808]",
        '["\\ud800"]',
    ),
    *(
        '{"n": 7}',
        '{"n": null, "@p": {"s s": "x"}}',
        '{"@p": {"s s": 3}}',
        '{"@p": 3}',
        '{"@p": [1], "n": 1}',
    ),
    *(
        '{"@p": {"s s": "a", "z": {"s s": 1}}, "n": 1.0}',
        '{"@p": null}',
        '{"n": 1, "n": 2}',
        '{"@p": {"s s": {}}}',
    ),
)
# What may stand around and in a record, as bytes: the cuts and additions of a broken producer.
PIECES = (
    *(
        b"",
        b" ",
        b"\t\r\n",
        b"\x0b",
        b"\x00",
        b"\xef\xbb\xbf",
        b"\xc2\xa0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc0\x80",
    ),
    *(
        b"]",
        b"[",
        b"}",
        b"{",
        b",",
        b", {}",
        b", null",
        b"] [",
        b"] }",
        b"]]",
        b"null",
        b"{}",
        b"//",
        b"/* */",
        b"#",
    ),
    *(b'"', b"\\", b"\\ud800", b"'", b":", b"1", b"x"),
)
FRAME = "value binary, partition int, offset long"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("state")
    made = job_session(Settings.load({"SLICEWISE_STATE": str(folder)}), "reader-parity", cores=1)
    yield made
    made.stop()


def differences(session: SparkSession, values: list[bytes | None], source: Source) -> list[str]:
    """The records of which the two do not say the same, to the bit."""
    frame = session.createDataFrame(
        [(value, 3, i) for i, value in enumerate(values)], FRAME
    ).selectExpr("*", f"timestamp_micros({NOW}) AS timestamp")
    results, wanted = (
        _rows_of(module.parsed(frame, source), source) for module in (parse, sql_records)
    )
    assert len(results) == len(wanted) == len(values)
    return [
        f"{(value or b'')[:200]!r}\n  reader {ours}\n  oracle {theirs}"
        for value, ours, theirs in zip(values, results, wanted, strict=True)
        if ours != theirs
    ]


def _rows_of(frame: DataFrame, source: Source) -> list[tuple[object, ...]]:
    names = ["partition", "offset", "kafka_time", "event_time", "reason", "raw"]
    rows = (
        frame.select(*names, *(f"c_{name}" for name, _ in source.columns))
        .orderBy("offset")
        .collect()
    )
    # doubles as bytes, so that zeros of another sign differ, and NaN is itself
    return [tuple(struct.pack(">d", v) if isinstance(v, float) else v for v in row) for row in rows]


def record(members: dict[str, str], *, spaced: bool = False) -> bytes:
    pairs = {"s": '"ada"', "t": str(NOW), **members}
    colon, comma = (": ", ", ") if spaced else (":", ",")
    return (
        "{" + comma.join(f'"{name}"{colon}{value}' for name, value in pairs.items()) + "}"
    ).encode()


@pytest.mark.parametrize("form", ["us", "ms", "s", "rfc3339"])
def test_every_value_in_every_column_is_read_as_the_oracle_reads_it(
    session: SparkSession, form: str
) -> None:
    source = replace(SOURCE, time_form=form, max_lateness_us=10**17, max_ahead_us=10**17 * 3)
    good = {
        "us": str(NOW),
        "ms": str(NOW // 1000),
        "s": str(NOW // 1_000_000),
        "rfc3339": '"2023-11-14T22:13:20Z"',
    }
    # also of a member that no column names
    values: list[bytes | None] = [
        record({"t": good[form], name: value}) for name in (*COLUMNS, "other") for value in VALUES
    ]
    assert differences(session, values, source) == []


def test_every_value_of_narrow_types_dates_arrays_and_nested_members_is_read_alike(
    session: SparkSession,
) -> None:
    names = [name for name, _ in MORE.columns if not name.startswith("deep")]
    values: list[bytes | None] = [
        record({name: value}) for name in (*names, "o") for value in dict.fromkeys(MORE_VALUES)
    ]
    values.append(b'{"s":"a","o.n":1}')
    assert differences(session, values, MORE) == []
    required = replace(MORE, required=("deeper",))
    assert differences(session, [record({"o": value}) for value in MORE_VALUES], required) == []


def test_the_time_of_the_record_may_be_the_events_time_and_must_be_one(
    session: SparkSession,
) -> None:
    for stamp in (NOW, 0, -1000, 253_402_300_800_000_000):
        frame = session.createDataFrame([(b'{"s":"a"}', 0, 0)], FRAME).selectExpr(
            "*", f"timestamp_micros({stamp}) AS timestamp"
        )
        for module in (parse, sql_records):
            row = module.parsed(frame, MORE).collect()[0]
            wanted = (
                (stamp, None) if 0 <= stamp < 253_402_300_800_000_000 else (None, "bad_time:kafka")
            )
            assert (row.event_time, row.reason) == wanted


def test_every_frame_around_a_record_is_judged_as_the_oracle_judges_it(
    session: SparkSession,
) -> None:
    whole = record({"n": "1", "list": "[1, [2]]"}, spaced=True)
    values: list[bytes | None] = [None, b"\n" + whole + b" " * parse.MAX_VALUE_BYTES]
    values += [before + whole + after for before in PIECES for after in PIECES]
    values += [whole[:cut] + piece + whole[cut:] for cut in range(len(whole)) for piece in PIECES]
    values += [whole[:cut] for cut in range(len(whole))]
    values += [
        record({"s": '"a"'})[:-1] + b',"%s":%s}' % (name, b"1")
        for name in (b"s", b"n", b"t", b"\\u0073")
    ]
    assert differences(session, values, SOURCE) == []


def test_the_catalogue_of_hostile_records_is_judged_as_the_oracle_judges_it(
    session: SparkSession,
) -> None:
    source = replace(
        SOURCE, columns=tuple(hostile.SCHEMA.items()), timestamp="at", required=hostile.REQUIRED
    )
    # ten megabytes through an expression of hundreds of calls take minutes, and say no more than
    # one
    values = [entry.value for entry in hostile.records(NOW) if len(entry.value or b"") < 2 << 20]
    assert differences(session, values, source) == []


def _colliding(start: int, count: int) -> dict[str, str]:
    """Members whose names have one hash to Jackson: it is 33 * hash + character, and Aa comes to
    what B@ does."""
    names = (
        "".join("Aa" if n >> bit & 1 else "B@" for bit in range(12))
        for n in range(start, start + count)
    )
    return dict.fromkeys(names, "1")


def test_a_record_is_judged_by_itself_whatever_names_were_read_before(
    session: SparkSession,
) -> None:
    values: list[bytes | None] = [record(_colliding(start, 300)) for start in (0, 300, 600)]
    frame = session.createDataFrame([(value, 0, i) for i, value in enumerate(values)], FRAME)
    judged = parse.parsed(
        frame.selectExpr("*", f"timestamp_micros({NOW}) AS timestamp").coalesce(1), SOURCE
    )
    assert [row.reason for row in judged.collect()] == [None] * 3


MEMBERS = st.dictionaries(
    st.sampled_from([*COLUMNS, "other", "o]"]), st.sampled_from(VALUES), max_size=9
)
EDITS = st.lists(st.tuples(st.integers(0, 200), st.sampled_from(PIECES)), max_size=2)


# no longer lists: beyond some sixty records hypothesis runs out of the choices that it keeps, and
# throws the list away
@settings(max_examples=10, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(MEMBERS, EDITS, st.booleans()), min_size=20, max_size=40))
def test_any_record_is_read_as_the_oracle_reads_it(
    session: SparkSession, drawn: list[tuple[dict[str, str], list[tuple[int, bytes]], bool]]
) -> None:
    values: list[bytes | None] = []
    for members, edits, spaced in drawn:
        value = record(members, spaced=spaced)
        for at, piece in edits:
            value = value[:at] + piece + value[at:]
        values.append(value)
    assert differences(session, values, SOURCE) == []


@settings(max_examples=3, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.decimals(allow_nan=False, allow_infinity=False).map(str),
            st.integers().map(str),
            st.text(max_size=12).map(json.dumps),
            st.text(max_size=12).map(lambda text: json.dumps(text, ensure_ascii=False)),
        ),
        min_size=200,
        max_size=300,
    )
)
def test_any_number_and_any_text_is_read_as_the_oracle_reads_it(
    session: SparkSession, drawn: list[str]
) -> None:
    values: list[bytes | None] = [
        record({name: text}).decode(errors="surrogatepass").encode(errors="replace")
        for text in drawn
        for name in ("s", "n", "x", "p", "r")
    ]
    assert differences(session, values, SOURCE) == []


def test_the_values_reach_every_reason(session: SparkSession) -> None:
    values = [record({name: value}) for name in COLUMNS for value in VALUES] + [
        b" " * (parse.MAX_VALUE_BYTES + 1)
    ]
    frame = session.createDataFrame(
        [(value, 3, i) for i, value in enumerate(values)],
        "value binary, partition int, offset long",
    ).selectExpr("*", f"timestamp_micros({NOW}) AS timestamp")
    reasons = {
        row.reason for row in parse.parsed(frame, SOURCE).select("reason").distinct().collect()
    }
    for reason in (
        None,
        "too_large",
        "not_json",
        "bad_text",
        "missing_required:s",
        "bad_time:t",
        "too_late",
    ):
        assert reason in reasons
    wrong = {f"wrong_type:{name}" for name in COLUMNS}
    beyond = {f"out_of_range:{name}" for name in ("n", "x", "y", "p", "q")}
    assert {"too_far_ahead", *wrong, *beyond} <= reasons


def test_columns_that_are_not_wanted_are_judged_all_the_same(session: SparkSession) -> None:
    values = [record({name: value}) for name in COLUMNS for value in VALUES]
    frame = session.createDataFrame(
        [(value, 3, i) for i, value in enumerate(values)],
        "value binary, partition int, offset long",
    ).selectExpr("*", f"timestamp_micros({NOW}) AS timestamp")
    narrowed = parse.parsed(frame, SOURCE, {"x"}).orderBy("offset")
    all_of_it = parse.parsed(frame, SOURCE).orderBy("offset")
    columns = ("event_time", "reason", "raw", "c_x")
    assert narrowed.columns == ["partition", "offset", "kafka_time", *columns]
    assert [str(r) for r in narrowed.select(*columns).collect()] == [
        str(r) for r in all_of_it.select(*columns).collect()
    ]
