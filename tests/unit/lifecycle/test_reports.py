"""A job's report is read from its output, and shown as a table."""

from __future__ import annotations

import pytest

from slicewise.errors import SlicewiseError, StoreUnavailable, UnknownName
from slicewise.lifecycle.reports import (
    ReportMissing,
    ReportReader,
    bad_shares,
    hour_summaries,
    slice_rows,
    summary,
    table,
)
from slicewise.log import to_stderr, warning

LINES = [
    "26/11/21 INFO {not json}",
    '{"hours": 1}',
    "[1]",
    '{"hours": 2, "slices": [{"slice": 1}]}',
    "done",
]


@pytest.mark.parametrize("error", [UnknownName("no view v"), StoreUnavailable("it is away")])
def test_a_jobs_own_word_says_whether_another_try_would_fail_again(
    error: SlicewiseError, capsys: pytest.CaptureFixture[str]
) -> None:
    to_stderr()
    warning("job_failed", job="backfill", lasting=error.lasting, error=str(error))
    reader = ReportReader()
    list(reader.read(capsys.readouterr().err.splitlines()))
    assert reader.lasting is isinstance(error, UnknownName)
    assert reader.why == error.what


def test_the_last_object_is_the_report_and_every_line_is_passed_on() -> None:
    reader = ReportReader()
    assert list(reader.read(LINES)) == LINES
    assert reader.required("compact")["hours"] == 2


def test_a_job_without_a_report_has_not_done_its_work() -> None:
    reader = ReportReader()
    list(reader.read(["fine", "{broken}", "3"]))
    with pytest.raises(ReportMissing, match="compact"):
        reader.required("compact")


def test_slices_are_listed_one_row_each() -> None:
    assert slice_rows({"slices": [{"slice": 1}, {"slice": 2}]}) == [{"slice": 1}, {"slice": 2}]
    assert slice_rows({"slices": "none"}) == []
    assert slice_rows({}) == []


def test_sources_whose_records_are_often_bad_are_named_with_the_reasons() -> None:
    bad = {"wrong_type:n": 7, "not_json": 2, "too_late": 2, "bad_text": 1}
    report = {
        "archived": [
            {"source": "plays", "events": 100, "bad": bad},
            {"source": "songs", "events": 1200, "bad": {"not_json": 12}},
            {"source": "flights", "events": 0, "bad": {}},
            {"source": "older", "events": 5},
        ]
    }
    line = "plays: 12 of 100 records were bad (wrong_type:n 7, not_json 2, too_late 2)"
    assert bad_shares(report, 1) == (line,), "one in a hundred is not more than one in a hundred"
    assert bad_shares(report, 12) == ()
    assert bad_shares(report, 0) == (line, "songs: 12 of 1200 records were bad (not_json 12)")
    assert bad_shares({}, 1) == ()


def test_a_table_aligns_numbers_to_the_right() -> None:
    rows = [{"unit": "a", "events": 7}, {"unit": "longer", "events": 12_345}]
    assert table(rows, ("unit", "events")) == ["unit    events", "a            7", "longer   12345"]


def test_a_summary_counts_lists_and_leaves_nested_objects_out() -> None:
    assert summary({"hours": 2, "slices": [1, 2, 3], "x": {"y": 1}}) == {"hours": 2, "slices": 3}


def test_why_a_job_failed_is_the_exception_that_its_traceback_ends_with() -> None:
    reader = ReportReader()
    list(
        reader.read(
            [
                "Traceback ...",
                "slicewise.errors.GapRefused: events are gone",
                "  where: topic x",
                "",
            ]
        )
    )
    assert reader.why == "slicewise.errors.GapRefused: events are gone"
    other_reader = ReportReader()
    line = (
        '2026-11-21T10:00:00 WARNING job_failed job=compact error="events are gone\\n  where: '
        'topic \\"x\\""'
    )
    list(other_reader.read([line, "events are gone", "  where: topic x"]))
    assert other_reader.why == "events are gone"
    silent = ReportReader()
    list(silent.read(["26/11/21 WARN Utils: your hostname", "killed"]))
    assert silent.why == "killed"
    red = ReportReader()
    list(red.read(['{"outcome": "red", "mismatches": 2, "rows": [1]}', ""]))
    assert red.why == "it reported outcome red, mismatches 2, rows 1"
    assert ReportReader().why == "it printed nothing"


def test_an_hours_summary_adds_up_its_slices_and_what_its_publication_freed() -> None:
    hour, other = "2026-11-21T07", "2026-11-21T06"
    published = {"swapped": 3, "freed": 5, "bytes_before": 900, "bytes_after": 200}
    report = {
        "slices": [
            {"hour": hour, "view": "plays", "events": 10, "late": 1},
            {"hour": hour, "view": "plays", "events": 5, "late": 0},
            {"hour": hour, "view": "songs", "events": 15, "late": 1},
        ],
        "hours": [
            {"hour": hour, "view": "plays"} | published,
            {"hour": hour, "view": "songs"} | published,
            {"hour": "2026-11-21T03", "view": "plays"} | published,
        ],
        "failed": [{"hour": other, "view": "songs", "error": "its files are gone"}],
    }
    failed, summary = hour_summaries(report)
    assert failed["hour"] == "2026-11-21 06:00"
    assert [view["error"] for view in failed["views"]] == ["its files are gone"]
    assert summary["hour"] == "2026-11-21 07:00"
    sums = {name: summary[name] for name in ("events", "late", "entities", "freed")}
    assert sums == {"events": 30, "late": 2, "entities": 6, "freed": 10}
    assert (summary["bytes_before"], summary["bytes_after"]) == (1_800, 400)
    assert [(view["view"], view["events"]) for view in summary["views"]] == [
        *(("plays", 15), ("songs", 15)),
    ]
