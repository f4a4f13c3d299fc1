"""Approximate answers are held to the engine's own recomputation from raw events, beside their
declared error.

This is the one place of the check that runs the algebra, because above its threshold a sketch's
bytes have no other definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Aggregate, Rows, canonicalise
from slicewise.aggregates.sketches.membership import Membership, membership_of


def question_column(aggregate: Aggregate) -> str | None:
    """The column of the reader's row that the aggregate is asked by; None of most."""
    membership: Membership | None = membership_of(aggregate)
    return None if membership is None else membership.question


def recomputed(
    aggregate: Aggregate, rows: pa.Table, ws: Sequence[int], values: Sequence[object] = ()
) -> Mapping[int, object]:
    """The aggregate's value per window `w`, accumulated from the raw rows of `Recomputation.raw`.

    values: the values that an aggregate of members is asked for.
    """
    order = np.argsort(ws)
    groups = order[np.searchsorted(np.array(ws)[order], rows["w"].to_numpy())].astype(np.int64)
    topic = rows["topic_id"].combine_chunks().dictionary_encode()
    topics, which = topic.dictionary.to_pylist(), topic.indices.to_numpy()
    columns = {
        name: canonicalise(rows[f"v_{name}"].combine_chunks().cast(aggregate.type_of(name)))
        for name in aggregate.inputs
    }
    events = Rows(
        rows["t"].to_numpy().astype(np.int64),
        np.array([int(topic[:16], 16) for topic in topics], np.uint64)[which],
        np.array([int(topic[16:], 16) for topic in topics], np.uint64)[which],
        rows["p"].to_numpy().astype(np.int32),
        rows["o"].to_numpy().astype(np.int64),
        columns,
    )
    finished = aggregate.finish_columns(aggregate.accumulate_columns(events, groups, len(ws)))
    if (filters := membership_of(aggregate)) is not None:
        questions = pa.array(
            [list(values)] * len(ws), pa.list_(aggregate.type_of(filters.question))
        )
        finished = filters.answered(finished, questions)
    return dict(zip(ws, finished.values.to_pylist(), strict=True))
