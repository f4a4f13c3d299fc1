"""A query's rows stand in an order of the log's, however the archive's files lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.features.plan.unit import Source
from slicewise.training.queries import GivenArchive, query_rows

T0 = 1_700_000_000_000_000
PLAYS = sw.KafkaSource(
    "plays", schema={"user": "string", "played": "timestamp_us"}, timestamp="played"
)


@dataclass(frozen=True)
class AsFilesLie(GivenArchive):
    """The archive of files that lie in another order than the log's, topic ids as a dictionary."""

    seed: int = 0

    def events(
        self,
        source: Source,
        columns: Sequence[str],
        start_us: int,
        end_us: int,
        archive_version: int,
    ) -> pa.Table:
        rows = super().events(source, columns, start_us, end_us, archive_version)
        order = np.random.default_rng(self.seed).permutation(rows.num_rows)
        at = rows.column_names.index("topic_id")
        rows = rows.set_column(at, "topic_id", rows["topic_id"].dictionary_encode())
        return rows.take(pa.array(order))


@pytest.mark.parametrize("window", ["1h", sw.tumbling("10m")])
def test_events_of_one_instant_stand_as_in_the_log(window: str | sw.Window) -> None:
    view = sw.FeatureView(
        "users",
        source=PLAYS,
        entity=["user"],
        features=[sw.Feature("n", sw.count(), windows=[window])],
    )
    events = pa.Table.from_pylist(
        [
            {
                "user": f"u{offset % 7}",
                "played": T0 + offset // 20,
                "partition": p,
                "offset": offset,
            }
            for p in (0, 1)
            for offset in range(60)
        ]
    )
    archive, _ = GivenArchive.of(view, events)
    expected = query_rows(view, archive).table
    assert expected.num_rows >= 7
    for seed in range(3):
        assert query_rows(view, AsFilesLie(archive.table, seed)).table.equals(expected)
