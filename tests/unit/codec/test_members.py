"""Members of event lists are what docs/format.md says, to the byte, and are refused for anything
else."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.aggregates.kernel.events import Rows
from slicewise.codec import Members, identity_time, score_of
from slicewise.errors import CodecError

TOPIC_HI, TOPIC_LO = 0x0123456789ABCDEF, 0x0123456789ABCDEF
TYPES: dict[str, pa.DataType] = {
    "at": pa.timestamp("us", "UTC"),
    "n": pa.int64(),
    "ok": pa.bool_(),
    "price": pa.decimal128(9, 2),
    "song": pa.string(),
    "v": pa.float64(),
}
MEMBERS = Members(tuple(TYPES.items()))


def rows_of(events: list[tuple[int, int, int]], columns: dict[str, list[Any]]) -> Rows:
    """events: (time, partition, offset)."""
    n = len(events)
    return Rows(
        np.array([t for t, _, _ in events], np.int64),
        np.full(n, TOPIC_HI, np.uint64),
        np.full(n, TOPIC_LO, np.uint64),
        np.array([p for _, p, _ in events], np.int32),
        np.array([o for _, _, o in events], np.int64),
        {name: pa.array(columns[name], kind) for name, kind in TYPES.items() if name in columns},
    )


def test_a_member_is_the_golden_one() -> None:
    columns: dict[str, list[Any]] = {
        "n": [-2], "ok": [True], "price": [Decimal("1.50")], "song": ["zoë"], "v": [-0.0], "at": [None],
    }  # fmt: skip
    identity = "80038d7ea4c680000123456789abcdef0123456789abcdef00000002000000000000012c"
    present = "000101010101"
    values = "0000000000000000feffffffffffffff0110000000040000000000000000000000"
    texts = "80000000000000000000000000000096" + "7a6fc3ab"
    body = bytes.fromhex(identity + present + values + texts)
    golden = body + zlib.crc32(body).to_bytes(4, "little")
    assert MEMBERS.encode(rows_of([(1_000_000_000_000_000, 2, 300)], columns)) == [golden]
    assert identity_time(golden) == 1_000_000_000_000_000


def test_a_member_with_arrays_is_the_golden_one_and_comes_back() -> None:
    kinds = {"days": pa.date32(), "ns": pa.int64(), "ok": pa.bool_(), "price": pa.decimal128(9, 2),
             "tags": pa.string(), "v": pa.float64()}  # fmt: skip
    lists = {name: pa.list_(kind) for name, kind in kinds.items()}
    given: dict[str, list[Any]] = {
        "days": [[1, None], None], "ns": [[-1, 2**63 - 1, -(2**63)], []], "ok": [[True, None, False], [None]],
        "price": [[Decimal("-0.01")], []], "tags": [["é", "", None], ["é"]], "v": [[-0.0, float("nan")], None],
    }  # fmt: skip
    rows = replace(
        rows_of([(0, 0, 1), (1, 0, 2)], {}),
        columns={n: pa.array(given[n], k) for n, k in lists.items()},
    )
    first, second = Members(tuple(lists.items())).encode(rows)
    bodies = [
        "92" + "01" + "c0", "93" + "ff" + "cf7fffffffffffffff" + "d38000000000000000", "93" + "01" + "c0" + "00",
        "91" + "c410" + "7" + "f" * 31, "93" + "c402c3a9" + "c400" + "c0",
        "92" + "cb" + "00" * 8 + "cb7ff8000000000000",
    ]  # fmt: skip
    sizes = "".join((len(body) // 2).to_bytes(4, "little").hex() for body in bodies)
    assert first[36:-4].hex() == "01" * 6 + sizes + "".join(bodies)
    decoded = Members(tuple(lists.items())).decode([first, second])
    assert Members(tuple(lists.items())).encode(decoded) == [first, second]
    for name, kind in lists.items():
        assert decoded.columns[name].type == kind
        assert repr(decoded.columns[name].to_pylist()).replace("-0.0", "0.0") == repr(
            rows.columns[name].to_pylist()
        ).replace("-0.0", "0.0")
    # sealed anew, so that the checksum says nothing of it
    for body in (
        b"",
        b"\x91",
        b"\x81\x01\x02",
        b"\x91\xa1a",
        b"\x91\x02",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 5_000,
    ):
        one = Members((("ok", lists["ok"]),))
        head = first[:36] + b"\x01" + len(body).to_bytes(4, "little") + body
        with pytest.raises(CodecError):
            one.decode([head + zlib.crc32(head).to_bytes(4, "little")])


def test_a_member_without_columns_is_its_identity() -> None:
    (member,) = Members(()).encode(rows_of([(-1, 0, 0)], {}))
    assert (
        member.hex()
        == "7fffffffffffffff" + "0123456789abcdef" * 2 + "00000000" + "00" * 8 + member[-4:].hex()
    )


def test_scores_are_exact_where_a_double_is() -> None:
    most = 2**53 - 1
    assert [score_of(t) for t in (0, -5, most, most + 1, 2**62, -(2**62))] == [
        0,
        -5,
        most,
        most,
        most,
        -most,
    ]


def plain(column: pa.Array) -> list[Any]:
    """Python values; instants as numbers, since not all are dates of Python's."""
    rows: list[Any] = (
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    ).to_pylist()
    return rows


values = st.fixed_dictionaries(
    {
        "at": st.one_of(st.none(), st.integers(-(2**62), 2**62)),
        "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "ok": st.one_of(st.none(), st.booleans()),
        "price": st.one_of(st.none(), st.decimals("-9999999.99", "9999999.99", places=2)),
        "song": st.one_of(st.none(), st.text(max_size=12), st.just("\0" * 3)),
        "v": st.one_of(st.none(), st.floats(allow_nan=False)),
    }
)
identities = st.tuples(
    st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**53)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(identities, values), max_size=8))
def test_members_come_back_as_they_were_and_sort_in_the_total_order(
    events: list[tuple[Any, dict[str, Any]]],
) -> None:
    given_rows = rows_of(
        [event for event, _ in events], {name: [v[name] for _, v in events] for name in TYPES}
    )
    members = MEMBERS.encode(given_rows)
    decoded = MEMBERS.decode(members)
    assert decoded.time.tolist() == given_rows.time.tolist()
    assert decoded.offset.tolist() == given_rows.offset.tolist()
    for name, column in given_rows.columns.items():
        expected = [0.0 if v == 0 and isinstance(v, float) else v for v in plain(column)]
        assert decoded.columns[name].type == TYPES[name]
        assert list(map(repr, plain(decoded.columns[name]))) == list(map(repr, expected))
    assert MEMBERS.encode(decoded) == members
    order = sorted(range(len(events)), key=lambda i: events[i][0])
    assert sorted(m[:36] for m in members) == [members[i][:36] for i in order]


def test_random_and_mutated_bytes_are_refused() -> None:
    print("seed 20261121")
    chance = random.Random(20_261_121)
    columns: dict[str, list[Any]] = {name: [None] for name in TYPES} | {"song": ["a" * 40]}
    (member,) = MEMBERS.encode(rows_of([(5, 0, 1)], columns))
    for _ in range(300):
        broken = bytearray(member)
        if chance.random() < 0.5:
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        else:
            broken = broken[: chance.randrange(len(broken))]
        with pytest.raises(CodecError):
            MEMBERS.decode([bytes(broken)])
    for size in (0, 3, 80, 5_000):
        with pytest.raises(CodecError):
            MEMBERS.decode([member, chance.randbytes(size)])


def test_many_members_of_one_width_come_back_and_any_damaged_ones_among_them_are_refused() -> None:
    print("seed 20261122")
    chance = random.Random(20_261_122)
    kinds = {"n": pa.int64(), "v": pa.float64()}
    form = Members(tuple(kinds.items()))
    events = [(chance.randrange(10**15), 1, i) for i in range(40)]
    columns: dict[str, list[Any]] = {
        "n": [None, *range(39)],
        "v": [chance.random() for _ in events],
    }
    members = form.encode(rows_of(events, columns))
    decoded = form.decode(members)
    assert decoded.offset.tolist() == list(range(40))
    assert decoded.columns["n"].to_pylist() == columns["n"]
    assert decoded.columns["v"].to_pylist() == columns["v"]
    assert form.open(members).take([3, 5]).rows().offset.tolist() == [3, 5]
    for _ in range(200):
        broken = [bytearray(member) for member in members]
        for at in chance.sample(range(40), chance.choice([1, 1, 2, 7])):
            broken[at][chance.randrange(len(broken[at]))] ^= 1 << chance.randrange(8)
        with pytest.raises(CodecError):
            form.decode(list(map(bytes, broken)))


def test_sizes_that_do_not_add_up_are_refused_though_the_checksum_holds() -> None:
    (member,) = MEMBERS.encode(
        rows_of([(5, 0, 1)], {name: [None] for name in TYPES} | {"song": ["abc"]})
    )
    for body in (member[:-4] + b"x", member[:-5]):
        sealed = body + zlib.crc32(body).to_bytes(4, "little")
        with pytest.raises(CodecError):
            MEMBERS.decode([sealed])
    # ten gigabytes claimed: refused before anything of that size is made
    at = MEMBERS.record.fields["v4"][1]  # type: ignore[index]
    body = member[:at] + (2**32 - 1).to_bytes(4, "little") + member[at + 4 : -4]
    with pytest.raises(CodecError):
        MEMBERS.decode([body + zlib.crc32(body).to_bytes(4, "little")])
