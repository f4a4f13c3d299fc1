"""Approximate answers are held to two things: the declared error, and the engine's own recomputation from raw events.

This is the one place of the check that runs the algebra, because above its threshold a sketch's
bytes have no other definition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Aggregate, Rows, canonicalise
from slicewise.checks.queries import Aggregated

SIGMAS = 6.0
"""A correct sketch exceeds this many standard errors about once in five hundred million answers."""


def is_exact(each: Aggregated, count: int, text_bytes: int) -> bool:
    """Whether so many distinct values are counted exactly."""
    return bool(count <= each["threshold"] and text_bytes <= 1 << each["precision"])


def within_declared_error(each: Aggregated, count: int, estimate: object) -> bool:
    """Whether an estimate lies within six declared standard errors, 1.04 / 2^(precision/2), of the count."""
    if not isinstance(estimate, int) or isinstance(estimate, bool):
        return False
    error = 1.04 / math.sqrt(1 << each["precision"])
    return bool(abs(estimate - count) <= SIGMAS * error * count + 1)


def recomputed(aggregate: Aggregate, column: str, rows: pa.Table, ws: Sequence[int]) -> Mapping[int, object]:
    """The aggregate's value per window `w`, accumulated from the raw rows of `Recomputation.raw`."""
    number = {w: i for i, w in enumerate(ws)}
    groups = np.array([number[w] for w in rows["w"].to_pylist()], np.int64)
    topics = rows["topic_id"].to_pylist()
    values = rows[f"v_{column}"].combine_chunks()
    columns = {column: canonicalise(values.cast(aggregate.type_of(column)))}
    events = Rows(
        rows["t"].to_numpy().astype(np.int64),
        np.array([int(topic[:16], 16) for topic in topics], np.uint64),
        np.array([int(topic[16:], 16) for topic in topics], np.uint64),
        rows["p"].to_numpy().astype(np.int32),
        rows["o"].to_numpy().astype(np.int64),
        columns,
    )
    finished = aggregate.finish_columns(aggregate.accumulate_columns(events, groups, len(ws)))
    return dict(zip(ws, finished.values.to_pylist(), strict=True))
