"""A job's report is one JSON object, the last such line that it prints; without one it did not
finish its work."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.errors import SlicewiseError

# slicewise.errors.GapRefused: ...   ValueError: ...
_EVENT = re.compile(r'\bjob_failed\b.* error=("(?:[^"\\]|\\.)*"|\S+)')
_LASTING = re.compile(r"\bjob_failed\b.* lasting=True ")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)+[A-Z]\w*: \S|[A-Z]\w*(?:Error|Exception): \S")

TASK = "SLICEWISE_TASK"
"""Variable of a command that a task runs: it then also writes the event of its failure, as jobs
do."""
Report = Mapping[str, object]
SLICE_COLUMNS = ("view", "unit", "hour", "slice", "events", "entities", "late", "bytes")


class JobFailed(SlicewiseError):
    """A job or command ended with an error: its output, in the task's log, says which."""


class ReportMissing(SlicewiseError):
    """A job ended without saying what it did: treat it as failed and look at its log."""


@dataclass
class ReportReader:
    """Passes the lines of a job's output on, and keeps the last that is a JSON object."""

    report: Report | None = None
    last_line: str = ""
    error_line: str = ""
    """Words of the job's own event of its failure, or the exception that a traceback ends with."""
    next_step: str = ""
    """Next step by the same event."""
    lasting: bool = False
    """Tells whether that event says that another try would fail for the same reason."""

    def read(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            report = report_in(line)
            if report is not None:
                self.report = report
            self.last_line = line.strip() or self.last_line
            self.error_line = error_in(line) or self.error_line
            self.next_step = next_step_in(line) or self.next_step
            self.lasting = self.lasting or _LASTING.search(line) is not None
            yield line

    @property
    def why(self) -> str:
        """The output's words about a failure, in a line."""
        if self.error_line:
            return self.error_line
        if self.report is not None:  # a red check reports, and fails
            return "it reported " + ", ".join(
                f"{k} {_cell(v)}" for k, v in summary(self.report).items()
            )
        return self.last_line or "it printed nothing"

    def required(self, job: str) -> Report:
        """The report; raises ReportMissing when the job printed none."""
        if self.report is None:
            raise ReportMissing(
                f"job {job!r} printed no report",
                expected="a JSON object on one line of its standard output",
                next_step="read the job's log above; run it by hand with --json",
            )
        return self.report


def error_in(line: str) -> str | None:
    """The error that a line of output tells of, in one line."""
    if text := _failure_in(line):
        return text.partition("\n")[0]
    return line.strip() if _EXCEPTION.match(line) else None


def next_step_in(line: str) -> str:
    """The next step that a job's own event of its failure names; empty where it names none."""
    lines = map(str.strip, _failure_in(line).splitlines())
    return next((one.partition(": ")[2] for one in lines if one.startswith("next step: ")), "")


def _failure_in(line: str) -> str:
    match = _EVENT.search(line)
    if not match:
        return ""
    return str(json.loads(match[1])) if match[1].startswith('"') else match[1]


def report_in(line: str) -> Report | None:
    """The JSON object that a line is, if it is one."""
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def slice_rows(report: Report) -> list[dict[str, Any]]:
    """The slices that a compaction wrote, one row each, in the order that it wrote them."""
    return rows_of(report, "slices")


def hour_summaries(report: Report) -> list[dict[str, Any]]:
    """The hours that a compaction wrote, or could not write, oldest first: sums over their views,
    and a row per view. `freed` counts running partials that left the store."""
    hours: dict[str, dict[str, dict[str, Any]]] = {}

    def of(row: Mapping[str, Any]) -> dict[str, Any]:
        view = str(row.get("view") or row.get("unit"))
        begin = {"view": view} | dict.fromkeys((*_OF_SLICES, *_OF_HOURS), 0)
        return hours.setdefault(str(row["hour"]), {}).setdefault(view, begin)

    for row in _of_hours(report, "slices"):
        for name in _OF_SLICES:
            of(row)[name] += _whole(row.get(name))
    for row in _of_hours(report, "failed"):
        of(row)["error"] = str(row["error"])
    for row in _of_hours(report, "hours"):
        if row["hour"] in hours:
            of(row)["entities"] += _whole(row.get("swapped"))
            for name in ("freed", "bytes_before", "bytes_after"):
                of(row)[name] += _whole(row.get(name))
    return [_hour_summary(hour, list(views.values())) for hour, views in sorted(hours.items())]


_OF_SLICES = ("events", "late")
_OF_HOURS = ("entities", "freed", "bytes_before", "bytes_after")


def _hour_summary(hour: str, views: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {name: sum(view[name] for view in views) for name in (*_OF_SLICES, *_OF_HOURS)}
    return {"hour": f"{hour.replace('T', ' ')}:00"} | sums | {"views": views}


def rows_of(report: Report, name: str) -> list[dict[str, Any]]:
    """The rows of one of a report's lists."""
    return [dict(row) for row in _listed(report.get(name)) if isinstance(row, Mapping)]


def _of_hours(report: Report, name: str) -> list[dict[str, Any]]:
    return [row for row in rows_of(report, name) if "hour" in row]


def archived_sources(report: Report) -> tuple[str, ...]:
    """Sources of which new records were archived."""
    sources = [one for one in _listed(report.get("archived")) if isinstance(one, Mapping)]
    return tuple(str(one["source"]) for one in sources if one.get("events"))


def bad_shares(report: Report, percent: float) -> tuple[str, ...]:
    """Tells how many of a source's new records are bad, and why, where more than so many percent
    are."""
    shares = []
    for source in _listed(report.get("archived")):
        bad = source.get("bad") if isinstance(source, Mapping) else None
        if not isinstance(source, Mapping) or not isinstance(bad, Mapping) or not bad:
            continue
        many, every = sum(bad.values()), int(source["events"])
        if many * 100 > percent * every:
            most = sorted(bad.items(), key=lambda item: (-item[1], item[0]))[:3]
            why = ", ".join(f"{reason} {count}" for reason, count in most)
            shares.append(f"{source['source']}: {many} of {every} records were bad ({why})")
    return tuple(shares)


def counts(report: Report) -> dict[str, int]:
    """Lengths of the lists of a compaction's report, and sums of their figures: hours and slices
    written, events and late ones in them, events archived and bad records."""
    lengths = {name: len(_listed(report[name])) for name in ("hours", "days") if name in report}
    figures: Counter[str] = Counter()
    if "slices" in report:
        figures.update({"slices": 0, "events": 0, "late_events": 0})
    for row in slice_rows(report):
        figures["slices"] += 1
        figures["events"] += _whole(row.get("events"))
        figures["late_events"] += _whole(row.get("late"))
    for source in _listed(report.get("archived")):
        if isinstance(source, Mapping):
            bad = source.get("bad")
            figures["archived_events"] += _whole(source.get("events"))
            figures["bad_records"] += sum(bad.values()) if isinstance(bad, Mapping) else 0
    return lengths | dict(figures)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> list[str]:
    """Rows as aligned lines for a task's log, numbers to the right; the header first."""
    cells = [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max([len(name), *(len(line[i]) for line in cells)]) for i, name in enumerate(columns)]
    right = [
        bool(rows) and all(isinstance(row.get(name), int | float) for row in rows)
        for name in columns
    ]

    def line(values: Sequence[str]) -> str:
        padded = (
            value.rjust(width) if number else value.ljust(width)
            for value, width, number in zip(values, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line(list(columns)), *(line(cell) for cell in cells)]


def summary(report: Report) -> dict[str, object]:
    """The report's plain values, as an event's; lists are counted, nested objects left out."""
    counted = {
        key: len(_listed(value)) if _is_list(value) else value for key, value in report.items()
    }
    return {
        key: value
        for key, value in counted.items()
        if key != "name" and not isinstance(value, Mapping)
    }


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()
