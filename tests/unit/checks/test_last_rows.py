"""The check takes the latest rows of a window, in its own total order, whatever engine runs its
SQL."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from slicewise.checks.recompute.queries import last_rows

# (window, most, time, topic, partition, offset): equal times, partitions and offsets in turn
ROWS = [
    (0, 2, 5, "a", 0, 1),
    (0, 2, 5, "a", 1, 0),
    (0, 2, 5, "a", 0, 2),
    (0, 2, 4, "b", 9, 9),
    (1, 0, 1, "a", 0, 1),
    (1, 0, 2, "a", 0, 2),
    (2, 9, 7, "a", 0, 3),
]


def test_the_latest_rows_of_a_window_count_and_all_where_none_are_asked_for() -> None:
    names = ("w", "most", "t", "topic_id", "p", "o")
    joined = pa.table({name: [row[i] for row in ROWS] for i, name in enumerate(names)})
    with duckdb.connect() as engine:
        engine.register("joined", joined)
        rows = engine.sql(last_rows("SELECT * FROM joined")).fetchall()
    assert sorted(row[: len(names)] for row in rows) == sorted(
        [(0, 2, 5, "a", 0, 2), (0, 2, 5, "a", 1, 0), *ROWS[4:]]
    )
