"""An Airflow run alone decides what a bounded job is asked to do: the same run, the same
arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slicewise.errors import BadRequest
from slicewise.lifecycle.reports import slice_rows

SPARK_POOL = "slicewise_spark"
"""Airflow's pool of all tasks that run a Spark job. The stream's supervision is in none."""
_HOUR = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}(:00(:00)?)?(Z|\+00:00)?")


@dataclass(frozen=True)
class Run:
    """Parts of an Airflow run that a decision may depend on."""

    run_type: str
    """scheduled, manual, backfill, asset_triggered."""
    partition_key: str | None
    run_after: datetime
    params: Mapping[str, object]


def hour_of(text: str, where: str = "partition key") -> str:
    """An hour as jobs take it, `2026-11-21T08`, from a partition key. where: it was given
    elsewhere. Raises BadRequest."""
    if not _HOUR.fullmatch(text):
        raise BadRequest(
            f"{text!r} is no hour",
            where=where,
            expected="2026-11-21T08:00:00, in UTC",
            next_step="trigger the run with the hour's start as its partition key",
        )
    hour = text[:13]
    try:
        datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    except ValueError as error:
        raise BadRequest(
            f"{text!r} is no hour of the calendar",
            where=where,
            next_step="give the hour's start as 2026-11-21T08:00:00",
        ) from error
    return hour


def hour_number(text: str) -> int:
    """An hour as `hour_of` takes it, counted since 1970. Raises BadRequest."""
    hour = datetime.strptime(hour_of(text), "%Y-%m-%dT%H").replace(tzinfo=UTC)
    return int(hour.timestamp()) // 3600


def hour_text(number: int) -> str:
    """The inverse of `hour_number`: `2026-11-21T08`."""
    return f"{datetime.fromtimestamp(number * 3600, UTC):%Y-%m-%dT%H}"


def may_be_clean(run: Run) -> str | None:
    """The hour of a run that another run of its backfill may have taken with its own; None where
    the run has work of its own in any case.

    A run at a day's first hour also adds up the day before, whose last hour may have had no events.
    """
    if (
        run.run_type != "backfill"
        or not run.partition_key
        or run.params.get("only")
        or run.params.get("from_raw")
    ):
        return None
    hour = hour_of(run.partition_key)
    return None if hour_number(hour) % 24 == 0 else hour


def last_finished_hour(now: datetime) -> str:
    """The hour that ended last at `now` (aware)."""
    start = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    return start.strftime("%Y-%m-%dT%H")


def compact_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of spark_jobs/compact.py.

    A run compacts its hour and then other dirty ones, a backfill's too: what one takes, the others
    find clean (`may_be_clean`). A run that a person starts without a key is about the hour that
    ended last.
    """
    hour = hour_of(run.partition_key) if run.partition_key else last_finished_hour(run.run_after)
    arguments = ["--hour", hour, "--json"]
    if run.params.get("only"):
        arguments.append("--only")
    if run.params.get("from_raw"):
        arguments += ["--from", "raw"]
    max_hours = run.params.get("max_hours")
    if max_hours is not None:
        arguments += ["--max-hours", str(_positive("max_hours", max_hours))]
    return tuple(arguments)


def compacted_hours(run: Run, report: Mapping[str, object]) -> tuple[str, ...]:
    """Partition keys of the hours that a compaction brought, oldest first. report: as the job gives
    it. Of a scheduled run its own hour is one in any case: who waits for it need wait no more."""
    hours = {hour_of(str(row["hour"])) for row in slice_rows(report)}
    if until := report.get("over_until"):  # an open hour that was recomputed is not over
        hours = {hour for hour in hours if hour < hour_of(str(until))}
    if run.run_type == "scheduled" and run.partition_key:
        hours.add(hour_of(run.partition_key))
    return tuple(f"{hour}:00:00" for hour in sorted(hours))


def recompute_arguments(concerned: Mapping[str, int]) -> tuple[str, ...]:
    """Arguments of spark_jobs/compact.py that recompute hours from raw events. concerned: view ->
    first hour, since 1970, of the windows of its values that differ."""
    first = datetime.fromtimestamp(min(concerned.values()) * 3600, UTC)
    since = first.strftime("%Y-%m-%dT%H")
    return ("--from", "raw", "--since", since, "--units", *sorted(concerned), "--json")


def backfill_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of spark_jobs/backfill.py: one view, or all that are not ready."""
    view = str(run.params.get("view") or "").strip()
    return ("--view", view, "--json") if view else ("--json",)


def maintain_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of spark_jobs/maintain.py."""
    arguments = ["--json"]
    if (days := run.params.get("keep_days")) is not None:
        arguments += ["--keep-days", str(_positive("keep_days", days))]
    if run.params.get("dry_run"):
        arguments.append("--dry-run")
    if tables := names("tables", run.params.get("tables")):
        arguments += ["--tables", *tables]
    return tuple(arguments)


def check_arguments(run: Run, report_dir: str) -> tuple[str, ...]:
    """Arguments of spark_jobs/check.py; its HTML report goes below report_dir."""
    sample = _positive("sample", run.params.get("sample", 500))
    arguments = ("--sample", str(sample), "--report", report_dir, "--json")
    views = names("views", run.params.get("views"))
    return (*arguments, "--views", *views) if views else arguments


def expect_arguments(run: Run, docs_dir: str) -> tuple[str, ...]:
    """Arguments of spark_jobs/expect.py; its data docs go below docs_dir. The hour: the param's
    alone, else the partition's, or the one that ended last, with those that nobody has judged since
    another was."""
    since: tuple[str, ...] = ("--since-judged",)
    if given := str(run.params.get("hour") or "").strip():
        hour, since = hour_of(given, "param hour"), ()
    elif run.partition_key:
        hour = hour_of(run.partition_key)
    else:
        hour = last_finished_hour(run.run_after)
    sample = _positive("sample", run.params.get("sample", 2000))
    return ("--hour", hour, *since, "--sample", str(sample), "--docs", docs_dir, "--json")


def restart_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of `slicewise stream` that restart one driver, or all."""
    driver = str(run.params.get("driver") or "all")
    return ("restart",) if driver == "all" else ("restart", "--only", driver)


def drain_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of `slicewise stream` that wait for what is not applied yet, and stop nothing."""
    wait_s = _positive("wait_s", run.params.get("wait_s", 300))
    return ("drain", "--wait-s", str(wait_s), "--no-stop")


def versions_of(run: Run) -> tuple[str, ...]:
    """Versions of views that a run is about, as `slicewise promote` takes them."""
    names = [name.strip() for name in str(run.params.get("version") or "").split(",")]
    if not all(names):
        raise BadRequest(
            "no version is named",
            where="params of promote_view",
            expected="a version, as by_card@2; several with commas",
            next_step="trigger the run with this param",
        )
    return tuple(names)


def dataset_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of `slicewise dataset build`."""
    missing = [name for name in ("spine", "features", "out") if not run.params.get(name)]
    if missing:
        raise BadRequest(
            f"a training set needs {', '.join(missing)}",
            where="params of build_training_set",
            expected=(
                "spine (a file of rows), features (a feature set or view:column, comma "
                "separated), out"
            ),
            next_step="trigger the run with these params",
        )
    knowledge = str(run.params.get("knowledge") or "event_time")
    arguments = ["--spine", str(run.params["spine"]), "--features", str(run.params["features"])]
    refusing = () if run.params.get("archive", True) else ("--no-archive",)
    more = [
        part
        for name in ("known_at", "as_of_definition", "engine")
        if run.params.get(name)
        for part in (f"--{name.replace('_', '-')}", str(run.params[name]))
    ]
    return (
        *arguments,
        "--knowledge",
        knowledge,
        "--out",
        str(run.params["out"]),
        "--json",
        *more,
        *refusing,
    )


def names(name: str, value: object) -> list[str]:
    """Names of a param's list, or of a text that separates them by commas or white space. Raises
    BadRequest."""
    given = value.replace(",", " ").split() if isinstance(value, str) else value or []
    if not isinstance(given, Sequence) or not all(
        isinstance(one, str) and one and not one.startswith("-") for one in given
    ):
        raise BadRequest(
            f"{name} = {value!r}",
            where="params",
            expected="a list of names",
            next_step="correct the parameter, and trigger the run again",
        )
    return [str(one) for one in given]


def _positive(name: str, value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise BadRequest(
            f"{name} = {value!r}",
            where="params",
            expected="a whole number above 0",
            next_step="correct the parameter, and trigger the run again",
        )
    return number
