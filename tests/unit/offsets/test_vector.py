"""An offset vector contains what lies below its offsets, and packs to one canonical form."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector

A, B = "0" * 31 + "a", "f" * 32
topic_partitions = st.tuples(st.sampled_from([A, B]), st.integers(0, 300))
offset_vectors = st.dictionaries(topic_partitions, st.integers(0, 2**62), max_size=6).map(
    OffsetVector
)


def test_the_first_offset_not_contained_is_not_contained() -> None:
    offset_vector = OffsetVector({(A, 0): 5})
    assert offset_vector.contains((A, 0), 4)
    assert not offset_vector.contains((A, 0), 5)


def test_an_absent_partition_has_offset_zero_and_zero_is_the_same_as_absent() -> None:
    assert OffsetVector().get((A, 0)) == 0
    assert OffsetVector({(A, 0): 0}) == OffsetVector()
    assert hash(OffsetVector({(A, 0): 0})) == hash(OffsetVector())
    assert OffsetVector({(A, 0): 0}).pack() == OffsetVector().pack() == b"\x80"


@given(offset_vectors, offset_vectors)
def test_a_join_is_the_least_offset_vector_that_dominates_both(
    a: OffsetVector, b: OffsetVector
) -> None:
    joined = a.join(b)
    assert joined.dominates(a)
    assert joined.dominates(b)
    assert all(joined.get(p) in (a.get(p), b.get(p)) for p in joined)
    assert joined == b.join(a)
    assert a.dominates(b) == (a.join(b) == a)


@given(offset_vectors)
def test_an_offset_vector_survives_packing_and_pickling(offset_vector: OffsetVector) -> None:
    assert OffsetVector.unpack(offset_vector.pack()) == offset_vector
    assert pickle.loads(pickle.dumps(offset_vector)) == offset_vector


def test_the_packed_form_does_not_depend_on_the_order_of_partitions() -> None:
    one = OffsetVector({(A, 2): 7, (B, 0): 1, (A, 1): 300})
    two = OffsetVector({(B, 0): 1, (A, 1): 300, (A, 2): 7})
    assert one.pack() == two.pack()
    assert list(one) == [(A, 1), (A, 2), (B, 0)]


def test_the_packed_form_is_what_the_format_says() -> None:
    # {"00…0a": {1: 300}}: map of 1, str of 32, map of 1, fixint 1, uint16 300
    assert (
        OffsetVector({(A, 1): 300}).pack() == b"\x81\xd9\x20" + A.encode() + b"\x81\x01\xcd\x01\x2c"
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x81",
        b"\x01",
        b"\x90",
        b"\xc1",
        b"\x81\xa1x\x81\x00\x01",  # a topic id that is none
        b"\x81\xd9\x20" + A.encode() + b"\x81\x00\x00",  # zero is left out
        b"\x81\xd9\x20" + A.encode() + b"\x81\x00\xcd\x00\x01",  # 1 not in its shortest form
        b"\x81\xd9\x20" + A.encode() + b"\x81\x00\xff",  # negative
        OffsetVector({(A, 1): 300}).pack() + b"\x00",
    ],
)
def test_bytes_that_pack_did_not_write_are_refused(raw: bytes) -> None:
    with pytest.raises(CodecError):
        OffsetVector.unpack(raw)


def test_an_offset_below_zero_is_no_offset_vector() -> None:
    with pytest.raises(CodecError):
        OffsetVector({(A, 0): -1})
