"""A job's Airflow run decides what it is asked to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from slicewise.errors import BadRequest
from slicewise.lifecycle.jobs import (
    Run,
    backfill_arguments,
    check_arguments,
    compact_arguments,
    compacted_hours,
    dataset_arguments,
    expect_arguments,
    hour_number,
    hour_of,
    last_finished_hour,
    maintain_arguments,
    may_be_clean,
    recompute_arguments,
)

AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def run(
    run_type: str = "scheduled", key: str | None = "2026-11-21T08:00:00", **params: object
) -> Run:
    return Run(run_type, key, AT, params)


def test_a_scheduled_run_takes_its_hour_and_then_other_dirty_ones() -> None:
    assert compact_arguments(run()) == ("--hour", "2026-11-21T08", "--json")


def test_a_backfills_first_run_takes_the_others_hours_along() -> None:
    assert compact_arguments(run("backfill")) == ("--hour", "2026-11-21T08", "--json")


def test_an_hour_of_a_backfill_may_be_clean_by_the_time_that_its_run_begins() -> None:
    assert may_be_clean(run("backfill")) == "2026-11-21T08"


@pytest.mark.parametrize(
    "own",
    [
        run("scheduled"),  # archives what came, whatever is clean
        run("manual"),
        run("backfill", None),
        run("backfill", only=True),
        run("backfill", from_raw=True),  # what stands is to be made anew
        run("backfill", "2026-11-21T00:00:00"),  # adds up the day before
    ],
)
def test_other_runs_have_work_of_their_own(own: Run) -> None:
    assert may_be_clean(own) is None


def test_the_hours_of_a_compaction_are_partitions_and_a_scheduled_run_has_its_own() -> None:
    rows = [{"hour": f"2026-11-21T{hour}Z"} for hour in ("07", "05", "07")]
    report = {"slices": rows}
    both = ("2026-11-21T05:00:00", "2026-11-21T07:00:00")
    assert compacted_hours(run("backfill", "2026-11-21T05:00:00"), report) == both
    assert compacted_hours(run(), report) == (*both, "2026-11-21T08:00:00")
    assert compacted_hours(run(), {}) == ("2026-11-21T08:00:00",)
    assert compacted_hours(run("backfill"), {"slices": []}) == ()
    assert compacted_hours(run("manual", None), report) == both


def test_a_red_check_recomputes_from_the_first_hour_that_it_is_about() -> None:
    first = hour_number("2026-11-21T05")
    assert recompute_arguments({"songs": first + 3, "plays": first}) == (
        "--from",
        "raw",
        "--since",
        "2026-11-21T05",
        "--units",
        "plays",
        "songs",
        "--json",
    )


def test_an_hour_is_counted_since_1970() -> None:
    assert hour_number("1970-01-02T03:00:00Z") == 27


def test_a_run_without_a_key_is_about_the_hour_that_ended_last() -> None:
    assert compact_arguments(run("manual", None))[1] == "2026-11-21T08"
    assert last_finished_hour(datetime(2026, 11, 21, 0, 59, tzinfo=UTC)) == "2026-11-20T23"
    berlin = timezone(timedelta(hours=1))
    assert last_finished_hour(datetime(2026, 11, 21, 0, 59, tzinfo=berlin)) == "2026-11-20T22"


def test_params_become_arguments() -> None:
    given = compact_arguments(run(from_raw=True, only=True, max_hours=3))
    assert given == (
        "--hour",
        "2026-11-21T08",
        "--json",
        "--only",
        "--from",
        "raw",
        "--max-hours",
        "3",
    )
    assert backfill_arguments(run(view=" by_carrier ")) == ("--view", "by_carrier", "--json")
    assert backfill_arguments(run(view=None)) == ("--json",)
    assert maintain_arguments(run()) == ("--json",)
    assert maintain_arguments(run(keep_days=2, dry_run=True, tables=["log.*", "ops.runs"])) == (
        *("--json", "--keep-days", "2", "--dry-run", "--tables", "log.*", "ops.runs"),
    )
    assert maintain_arguments(run(tables="log.a, log.b")) == (
        "--json",
        "--tables",
        "log.a",
        "log.b",
    )
    for wrong in (7, ["--dry-run"], [3]):
        with pytest.raises(BadRequest, match="tables"):
            maintain_arguments(run(tables=wrong))
    assert check_arguments(run(sample=7), "out") == ("--sample", "7", "--report", "out", "--json")


@pytest.mark.parametrize(
    "key", ["2026-11-21", "2026-11-21T08:30:00", "2026-13-01T00:00:00", "x", "2026-11-21T24:00:00"]
)
def test_a_key_that_is_no_hour_is_refused(key: str) -> None:
    with pytest.raises(BadRequest, match="no hour"):
        hour_of(key)


@pytest.mark.parametrize(
    "key", ["2026-11-21T08", "2026-11-21T08:00", "2026-11-21T08:00:00", "2026-11-21T08:00:00Z"]
)
def test_an_hour_has_one_text(key: str) -> None:
    assert hour_of(key) == "2026-11-21T08"


@pytest.mark.parametrize("value", [0, -1, "many", None])
def test_a_number_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(BadRequest, match="sample"):
        check_arguments(run(sample=value), "out")


def test_a_training_set_without_its_params_names_those_that_are_missing() -> None:
    with pytest.raises(BadRequest, match="spine, out"):
        dataset_arguments(run(features="churn_v1"))


def test_a_training_set_is_built_from_its_params() -> None:
    given = dataset_arguments(
        run(spine="s.parquet", features="churn_v1", out="o.parquet", knowledge="token")
    )
    assert given == (
        *("--spine", "s.parquet", "--features", "churn_v1"),
        *("--knowledge", "token", "--out", "o.parquet", "--json"),
    )


def test_a_training_set_of_a_day_has_its_knowledge_and_its_definitions() -> None:
    day = "2026-11-21T08:00:00Z"
    params = {"spine": "s.csv", "features": "churn_v1", "out": "o.csv", "known_at": day}
    assert dataset_arguments(run(**params))[-2:] == ("--known-at", day)
    assert dataset_arguments(run(**params, as_of_definition=day))[-2:] == (
        "--as-of-definition",
        day,
    )
    assert "--known-at" not in dataset_arguments(run(**{**params, "known_at": ""}))
    assert dataset_arguments(run(**params, engine="spark"))[-2:] == ("--engine", "spark")


def test_a_training_set_archives_what_its_spine_needs_unless_the_run_says_no() -> None:
    params = {"spine": "s.csv", "features": "churn_v1", "out": "o.csv"}
    assert "--no-archive" not in dataset_arguments(run(**params, archive=True))
    assert "--no-archive" in dataset_arguments(run(**params, archive=False))


def test_an_hour_that_is_none_says_which_param() -> None:
    given = run(hour="2026-02-30T08")
    with pytest.raises(BadRequest) as error:
        expect_arguments(given, "/docs")
    assert error.value.where == "param hour"


@pytest.mark.parametrize(
    ("given", "hour", "with_others"),
    [
        (run(hour="2026-11-21T07:00"), "2026-11-21T07", False),
        (run(key="2026-11-21T06:00:00"), "2026-11-21T06", True),
        (run(key=None), "2026-11-21T08", True),
    ],
    ids=["asked for", "compacted", "by hand"],
)
def test_only_who_asks_for_an_hour_judges_it_alone(
    given: Run, hour: str, with_others: bool
) -> None:
    arguments = expect_arguments(given, "/docs")
    assert arguments[:2] == ("--hour", hour)
    assert ("--since-judged" in arguments) is with_others
