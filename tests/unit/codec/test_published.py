"""Published records are the bytes of docs/format.md, whatever their values hold."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slicewise.codec.published import keys_of, objects_of, texts_of, values_of, version_of
from slicewise.offsets.vector import OffsetVector

TOPIC = "0123456789abcdef0123456789abcdef"
OFFSET_VECTOR = OffsetVector({(TOPIC, 0): 41, (TOPIC, 1): 7})
PAGE = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")


def ints(*values: int) -> pa.Array:
    return pa.array(values, pa.int64())


def test_the_golden_records_of_the_page() -> None:
    entities = pa.table({"user_id": ['größe "q"']})
    [key] = keys_of(
        "listening",
        "tumbling_10s",
        ints(1_767_225_600_000_000),
        ints(1_767_225_610_000_000),
        entities,
    )
    values = pa.table({"plays_tumbling_10s": ints(3), "minutes_tumbling_10s": [0.1]})
    old = pa.table(
        {"plays_tumbling_10s": ints(2), "minutes_tumbling_10s": pa.array([None], pa.float64())}
    )
    [window] = values_of("00112233aabbccdd", OFFSET_VECTOR, values, {})
    [correction] = values_of(
        "00112233aabbccdd",
        OFFSET_VECTOR,
        values,
        {"minutes_tumbling_10s": {0: "overflow"}},
        old=old,
        causes=[(TOPIC, 1, 6)],
    )
    for golden in (key, window, correction):
        assert f"\n{golden.decode()}\n" in PAGE, golden.decode()


def test_of_a_global_view_the_entity_is_empty() -> None:
    keys = keys_of("all", "10s", ints(0, 1), ints(10, 11), pa.table({}))
    assert [json.loads(key)["entity"] for key in keys] == [{}, {}]


def test_the_version_grows_with_the_offset_vector() -> None:
    assert (
        version_of(OFFSET_VECTOR)
        == 48
        < version_of(OFFSET_VECTOR.join(OffsetVector({(TOPIC, 2): 1})))
    )


@given(
    st.lists(
        st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
        max_size=8,
    ),
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), max_size=8),
    st.lists(st.one_of(st.none(), st.booleans()), max_size=8),
)
def test_every_value_reads_back(
    strings: list[str | None], doubles: list[float | None], flags: list[bool | None]
) -> None:
    for values, kind in ((strings, pa.string()), (doubles, pa.float64()), (flags, pa.bool_())):
        assert [json.loads(text) for text in texts_of(pa.array(values, kind)).to_pylist()] == values


def test_nested_and_infinite_values_are_those_of_the_api() -> None:
    table = pa.table(
        {
            "top": pa.array([[{"by": 1.5, "payload": "x"}], None]),
            "x": pa.array([float("inf"), float("nan")]),
        }
    )
    assert objects_of(table, 2).to_pylist() == [
        '{"top":[{"by":1.5,"payload":"x"}],"x":"Infinity"}',
        '{"top":null,"x":"NaN"}',
    ]
