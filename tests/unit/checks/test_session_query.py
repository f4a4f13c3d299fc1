"""The check's SQL finds the sessions that brute force finds; here in DuckDB, which reads it as
Spark SQL does."""

from __future__ import annotations

from collections import defaultdict

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.checks.recompute.queries import ROWS, sessions


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 120)), max_size=40), st.integers(1, 30))
def test_every_session_of_every_window_is_found_with_its_first_and_last_event(
    rows: list[tuple[int, int]], gap: int
) -> None:
    with duckdb.connect() as connection:
        columns = {
            "w": pa.array([w for w, _ in rows], pa.int64()),
            "t": pa.array([t for _, t in rows], pa.int64()),
        }
        connection.register(ROWS, pa.table(columns))
        result = connection.execute(f"SELECT w, first_t, last_t FROM ({sessions(gap)})").fetchall()
    times: dict[int, list[int]] = defaultdict(list)
    for w, t in sorted(rows):
        times[w].append(t)
    wanted = []
    for w, kept in times.items():
        first = last = kept[0]
        for t in kept[1:]:
            if t - last >= gap:
                wanted.append((w, first, last))
                first = t
            last = t
        wanted.append((w, first, last))
    assert sorted(result) == wanted
