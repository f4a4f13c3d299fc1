"""Distinct counts are exact up to the threshold, and within the stated error beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from slicewise import aggregates as agg
from slicewise.aggregates import Columns, Rows
from slicewise.aggregates.kernel.hashing import SEED, hash_one, hash_stored
from slicewise.aggregates.sketches import hyperloglog
from slicewise.aggregates.sketches.distinct import DistinctCount
from slicewise.errors import CodecError, DefinitionError
from tests.laws.oracles.sketches import ertl


def partial_of(aggregate: DistinctCount, array: pa.Array) -> Columns:
    n, zero = len(array), np.zeros(len(array), np.uint64)
    rows = Rows(np.arange(n), zero, zero, np.zeros(n, np.int32), np.arange(n), {"x": array})
    return aggregate.accumulate_columns(rows, np.zeros(n, np.int64), 1)


def bound(kind: pa.DataType, threshold: int = 256, precision: int = 12) -> DistinctCount:
    made = agg.distinct_count("x", threshold=threshold, precision=precision).bind({"x": kind})
    assert isinstance(made, DistinctCount)
    return made


@pytest.mark.parametrize(("n", "is_dense"), [(255, False), (256, False), (257, True)])
def test_the_switch_is_one_value_beyond_the_threshold(n: int, is_dense: bool) -> None:
    aggregate = bound(pa.int64())
    partial = partial_of(aggregate, pa.array(list(range(n)) * 3))
    assert partial.items("registers").lengths.tolist() == [4096 if is_dense else 0]
    assert partial.items("values").lengths.tolist() == [0 if is_dense else n]


@pytest.mark.parametrize(("size", "is_dense"), [(2048, False), (2049, True)])
def test_text_switches_by_its_bytes_too(size: int, is_dense: bool) -> None:
    partial = partial_of(bound(pa.string()), pa.array(["a" * 2048, "b" * size]))
    assert partial.items("registers").lengths.tolist() == [4096 if is_dense else 0]


@pytest.mark.parametrize("n", [1_000, 20_000, 300_000])
@pytest.mark.parametrize("precision", [8, 12, 14])
def test_estimates_are_within_four_standard_errors(n: int, precision: int) -> None:
    aggregate = bound(pa.int64(), 4, precision)
    (result,) = aggregate.finish_columns(
        partial_of(aggregate, pa.array(np.arange(n) * 7919))
    ).values.to_pylist()
    assert abs(result - n) <= 4 * 1.04 / 2 ** (precision / 2) * n


def test_the_estimate_is_ertls_to_the_last_digit() -> None:
    random = np.random.default_rng(5)
    for precision in (4, 8):
        highest = 64 - precision + 1
        cases = [random.geometric(0.5, 2**precision).clip(0, highest) for _ in range(20)]
        cases += [np.zeros(2**precision, int), np.full(2**precision, 1), np.full(2**precision, 30)]
        for registers in cases:
            estimate = hyperloglog.estimates(registers.astype(np.uint8)[None, :], precision)[0]
            assert estimate == ertl(registers.tolist(), precision)


def test_whole_columns_are_hashed_as_the_library_hashes_each() -> None:
    values = [0, 1, -1, 2**63 - 1, -(2**63), 123456789]
    wanted = [
        xxhash.xxh64(v.to_bytes(8, "little", signed=True), seed=SEED).intdigest() for v in values
    ]
    assert hash_stored(np.array(values)).tolist() == wanted == [hash_one(v) for v in values]
    texts = [b"", b"a", "日本".encode(), b"x" * 1000]
    wanted = [xxhash.xxh64(text, seed=SEED).intdigest() for text in texts]
    assert (
        hash_stored(pa.array(texts, pa.large_binary())).tolist()
        == wanted
        == [hash_one(t) for t in texts]
    )


@pytest.mark.parametrize("precision", [4, 12, 16])
def test_both_forms_place_every_hash_alike(precision: int) -> None:
    edges = [0, 1, 2**64 - 1, 2**63, 2 ** (64 - precision) - 1, 2 ** (63 - precision), 3]
    hashes = np.array(edges + np.random.default_rng(3).integers(0, 2**63, 500).tolist(), np.uint64)
    registers, ranks = hyperloglog.registers_and_ranks(hashes, precision)
    assert list(zip(registers.tolist(), ranks.tolist(), strict=True)) == [
        hyperloglog.register_and_rank(int(value), precision) for value in hashes
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0},
        {"threshold": 10**6},
        {"precision": 3},
        {"precision": 17},
        {"precision": True},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="expected: an integer from"):
        agg.distinct_count("x", **wrong)


def test_registers_of_another_size_are_refused() -> None:
    aggregate = bound(pa.int64(), 1, 4)
    fields = {"values": agg.Ragged.empty(1, "<i8"), "registers": agg.Ragged.of([[1] * 15], "|u1")}
    with pytest.raises(CodecError, match="other than 16 registers"):
        aggregate.combine_columns(Columns(1, fields), np.zeros(1, np.int64), 1)


@pytest.mark.parametrize("precision", [4, 5, 12, 16])
def test_whole_columns_place_hashes_as_one_by_one(precision: int) -> None:
    one_bit = [1 << at for at in range(64)]
    runs = [(1 << at) - 1 for at in range(65)]  # ones that rounding could carry beyond the first
    strewn = [0x9E3779B97F4A7C15 * i % 2**64 for i in range(999)]
    hashes = [*one_bit, *runs, *(2**64 - 1 - word for word in one_bit), *strewn]
    register, rank = hyperloglog.registers_and_ranks(np.array(hashes, np.uint64), precision)
    assert list(zip(register.tolist(), rank.tolist(), strict=True)) == [
        hyperloglog.register_and_rank(h, precision) for h in hashes
    ]
