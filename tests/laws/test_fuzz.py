"""Bytes that no events gave are refused with the declared error, or are some partial: never another
error, nor memory beyond what the bytes could hold."""

from __future__ import annotations

import tracemalloc
from random import Random

import numpy as np
import pytest
from hypothesis import settings

from slicewise.aggregates import REGISTRY, Aggregate, Columns
from slicewise.codec import Layout
from slicewise.errors import CodecError
from slicewise.reading.columnar import Columnar
from tests.laws.laws import ends, one
from tests.unit.golden.partials import events_for

EXAMPLES = [
    example for registration in REGISTRY.values() for example in registration.bound_examples()
]
BYTES = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
MUTANTS = 24
MOST_MEMORY = 8_000_000


def mutated(raw: bytes, random: Random) -> bytes:
    """A few bytes changed, taken away or put in; or other bytes altogether."""
    changed = bytearray(raw)
    if random.random() < 0.1:
        return random.randbytes(random.randrange(len(raw) + 8))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(changed) + 1)
        how = random.random()
        if how < 0.85:
            changed[at : at + 1] = bytes([random.choice((*BYTES, random.randrange(256)))])
        elif how < 0.93:
            del changed[at : at + random.randint(1, 4)]
        else:
            changed[at:at] = random.randbytes(random.randint(1, 4))
    return bytes(changed)


def read(aggregate: Aggregate, raw: bytes) -> None:
    """Reads as compaction, serving and the laws do."""
    (decoded,) = Layout((aggregate,)).decode_blocks([raw], [3])
    joined = aggregate.combine_columns(decoded, np.zeros(3, np.int64), 1)
    aggregate.finish_columns_at(joined, ends(1))
    aggregate.finish_columns_at(decoded, ends(3))


def read_scalars(aggregate: Aggregate, raw: bytes) -> None:
    """Reads a few rows, as serving does."""
    layout, scalar = Layout((aggregate,)), aggregate.scalar
    columns = layout.scalar.columns(layout.scalar.singles([raw + b"seal"] * 2, 0))
    combiner = scalar or Columnar(aggregate)
    combined = combiner.combine(columns[0], [(0, 1), (1, 2)], [[0, 1], [1]])
    if isinstance(combiner, Columnar):
        combiner.finish(combined, ends(2))
    else:
        combiner.finish(combined)


@pytest.mark.parametrize(
    "aggregate", EXAMPLES, ids=lambda a: f"{a.kind}-{'-'.join(map(str, a.types or ()))}"
)
def test_mutated_bytes_are_refused_or_some_partial(aggregate: Aggregate) -> None:
    events = events_for(aggregate)
    layout = Layout((aggregate,))
    partials = [one(aggregate, events), one(aggregate, events[:2]), one(aggregate, [])]
    block, row = (
        layout.encode_block([Columns.concat(partials)]),
        layout.encode_rows([partials[0]])[0],
    )
    read(aggregate, block)  # what is imported late for the first time is not of the bytes
    read_scalars(aggregate, row)
    tracemalloc.start()
    try:
        for seed in range(min(MUTANTS, settings().max_examples // 4)):
            for reads, raw in ((read, block), (read_scalars, row)):
                changed = mutated(raw, Random(seed))
                try:
                    reads(aggregate, changed)
                except CodecError:
                    continue
                except Exception as error:
                    raise AssertionError(f"seed {seed}: {changed.hex()}") from error
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
