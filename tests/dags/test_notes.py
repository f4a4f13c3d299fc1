"""A task's note says what the task did, within what Airflow takes."""

from __future__ import annotations

from typing import Any

import pytest
from slicewise_airflow.notes import MOST, note_of, size


def maintained(tables: int, *, dry_run: bool) -> dict[str, Any]:
    moments = {"files": (9, 1), "bytes": (9_000, 5_000), "stored_bytes": (12_345_678, 5_000)}
    row: dict[str, Any] = {"snapshots_before": 40, "snapshots_after": 5}
    for name, (before, after) in moments.items():
        row |= {f"{name}_before": before, f"{name}_after": before if dry_run else after}
    row |= {
        "rewritten_data_files_count": 9,
        "expired_snapshots": 35,
        "deleted_data_files_count": 8,
        "deleted_bytes": 7_000,
        "orphans": 1,
        "orphan_bytes": 21,
        "rows_deleted": 3,
    }
    return row | {
        "dry_run": dry_run,
        "busy": 0,
        "tables": [row | {"table": f"slices.u_{i:016x}"} for i in range(tables)],
    }


def test_a_runs_note_has_each_table_before_and_after() -> None:
    text = note_of("maintain", maintained(2, dry_run=False))
    assert "On disk 12.3 MB → 5.0 kB" in text
    assert text.count("\n| slices.u_") == 2
    assert "| 12.3 MB → 5.0 kB | 9.0 kB → 5.0 kB | 9 → 1 | 40 → 5 |" in text


def test_a_dry_runs_note_says_that_nothing_was_changed_and_what_would_be() -> None:
    text = note_of("maintain", maintained(1, dry_run=True))
    assert text.startswith("**Dry run: nothing was changed.**")
    assert "| 9 of 9 files | 35 of 40 snapshots, 7.0 kB | 1 | 3 |" in text


@pytest.mark.parametrize("tables", [0, 8, 9, 10, 11, 300])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_note_never_has_more_than_airflow_takes_and_counts_what_it_leaves_out(
    tables: int, dry_run: bool
) -> None:
    text = note_of("maintain", maintained(tables, dry_run=dry_run))
    assert len(text) <= MOST
    listed = text.count("\n| slices.u_")
    assert listed == tables or f"… and {tables - listed} more" in text


def test_bytes_are_for_people() -> None:
    assert [size(n) for n in (0, 999, 1_000, 1_234_567, 5 * 10**15)] == [
        *("0 B", "999 B", "1.0 kB", "1.2 MB", "5000.0 TB"),
    ]
