"""A task's page in Airflow says in a note what the task did: totals first, then the largest parts.

A note is set over Airflow's REST API, as a person would set it. All figures are in the task's XCom;
a note that cannot be set fails nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slicewise.errors import SlicewiseError
from slicewise.lifecycle.reports import hour_summaries, rows_of
from slicewise.local.airflow.api import AirflowApi
from slicewise.log import warning
from slicewise.settings import Settings

MOST = 1_000
"""Characters of a note that Airflow takes."""
_MORE = "\n… and {} more, in the XCom."
Row = Mapping[str, Any]


def leave(context: Any, text: str) -> None:
    """Sets the note of the task that runs."""
    instance = context.get("ti")
    if not text or not hasattr(instance, "dag_id"):
        return
    try:
        with AirflowApi(Settings.load().airflow_url) as api:
            api.note(
                instance.dag_id,
                instance.run_id,
                instance.task_id,
                text,
                getattr(instance, "map_index", -1),
            )
    except (SlicewiseError, OSError) as error:
        warning("note_not_left", task=instance.task_id, error=type(error).__name__)


def note_of(job: str, report: Row) -> str:
    """The note of a job, from its report; none for a job that has no words for it."""
    make = _NOTES.get(job)
    return make(report) if make is not None else ""


def _maintenance(report: Row) -> str:
    rows = sorted(rows_of(report, "tables"), key=lambda row: -int(row["stored_bytes_before"]))
    if report.get("dry_run"):
        head = (
            "**Dry run: nothing was changed.** A run would rewrite "
            f"{report['rewritten_data_files_count']} files, expire {report['expired_snapshots']} "
            f"snapshots, delete {report['deleted_data_files_count']} files with them, "
            f"{report['orphans']} orphans ({size(report['orphan_bytes'])}) and "
            f"{report['rows_deleted']} rows."
        )
        columns = ("table", "rewrites", "expires", "orphans", "rows")
        cells = [
            (
                row["table"],
                f"{row['rewritten_data_files_count']} of {row['files_before']} files",
                _expired(row),
                row["orphans"],
                row["rows_deleted"],
            )
            for row in rows
        ]
        return _note(head, columns, cells)
    head = (
        f"{len(rows)} tables. On disk {_step(report, 'stored_bytes', size)}; "
        f"files {_step(report, 'files')}; snapshots {_step(report, 'snapshots')}; "
        f"{report['orphans']} orphans ({size(report['orphan_bytes'])}) and "
        f"{report['rows_deleted']} rows went. Busy: {report['busy']}."
    )
    columns = ("table", "on disk", "newest snapshot", "files", "snapshots")
    return _note(
        head,
        columns,
        [
            (
                row["table"],
                _step(row, "stored_bytes", size),
                _step(row, "bytes", size),
                _step(row, "files"),
                _step(row, "snapshots"),
            )
            for row in rows
        ],
    )


def _sweep(report: Row) -> str:
    verb = "would go" if report["dry_run"] else "went"
    head = (
        f"{'**Dry run: nothing was changed.** ' if report['dry_run'] else ''}"
        f"{report['scanned']} keys looked at, {report['changed']} changed. "
        f"{size(report['bytes_freed'])} {verb}, {size(report['bytes_to_expire'])} got an expiry. "
        f"Store: {_step(report, 'keys')} keys, {_step(report, 'bytes', size)}."
    )
    rows = sorted(rows_of(report, "kinds"), key=lambda row: (-row["found"], -row["keys"]))
    cells = [
        (row["view"] or "-", row["kind"], row["keys"], row["found"], size(row["found_bytes"]))
        for row in rows
    ]
    return _note(head, ("view", "kind", "keys", "found", "bytes"), cells)


def hour_note(summary: Row) -> str:
    """The note of a compacted hour."""
    views = sorted(summary["views"], key=lambda view: ("error" not in view, -view["events"]))
    columns = ("view", "events", "late", "entities", "keys freed", "bytes")
    cells = [
        (view["view"], view["error"], "", "", "", "")
        if "error" in view
        else (
            *(view["view"], view["events"], view["late"], view["entities"], view["freed"]),
            _step(view, "bytes", size),
        )
        for view in views
    ]
    return _note(f"{summary['hour']} UTC: {_figures(summary)}.", columns, cells)


def _compaction(report: Row) -> str:
    summaries = hour_summaries(report)
    if not summaries:
        return "No hour was dirty: nothing was compacted."
    sums = {name: sum(one[name] for one in summaries) for name in _SUMMED}
    columns = ("hour", "events", "late", "entities", "keys freed", "bytes")
    cells = [
        (
            *(one["hour"], one["events"], one["late"], one["entities"], one["freed"]),
            _step(one, "bytes", size),
        )
        for one in summaries
    ]
    return _note(f"{len(summaries)} hours: {_figures(sums)}.", columns, cells)


def _figures(sums: Row) -> str:
    return (
        f"{sums['events']} events, {sums['late']} of them late, {sums['entities']} entities; "
        f"{sums['freed']} running partials were freed, {_step(sums, 'bytes', size)}"
    )


_SUMMED = ("events", "late", "entities", "freed", "bytes_before", "bytes_after")
_NOTES: Mapping[str, Callable[[Row], str]] = {
    "compact": _compaction,
    "maintain": _maintenance,
    "sweep": _sweep,
}


def _expired(row: Row) -> str:
    snapshots = f"{row['expired_snapshots']} of {row['snapshots_before']} snapshots"
    return f"{snapshots}, {size(row['deleted_bytes'])}"


def _step(row: Row, name: str, shown: Callable[[Any], str] = str) -> str:
    before, after = shown(row[f"{name}_before"]), shown(row[f"{name}_after"])
    return before if before == after else f"{before} → {after}"


def size(count: float) -> str:
    """Bytes for people: `1.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1_000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"


def _note(head: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table below a sentence, with as many rows as a note holds."""
    text = f"{head}\n\n{_line(columns)}\n{_line(['---'] * len(columns))}"
    lines = [_line(row) for row in rows]
    for i, line in enumerate(lines):
        left = len(lines) - i
        if len(text) + 1 + len(line) + (len(_MORE) + 4 if left > 1 else 0) > MOST:
            return text + "\n" + _MORE.format(left)
        text += f"\n{line}"
    return text


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
