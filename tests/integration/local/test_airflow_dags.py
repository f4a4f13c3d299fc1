"""Every DAG runs for real, on a running Airflow, and does what its page says."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from slicewise.errors import BadRequest
from slicewise.lifecycle.health.overview import JOBS, jobs_of
from slicewise.lifecycle.incidents import from_text
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.servers import stream, supervisor
from slicewise.local.servers.inbox import Inbox
from slicewise.settings import MONITORS_FILE, SNAPSHOTS_FILE
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.online import keys
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.redis.status import read_status
from slicewise.windows.durations import HOUR_US
from tests.support.platform.airflow import (
    EVENTS,
    HOURS,
    PATIENCE_S,
    PROJECT,
    SECOND_VIEW,
    USERS,
    AirflowStack,
    airflow_stack,
)
from tests.support.platform.receiver import Receiver, receiving

pytestmark = pytest.mark.timeout(2400)

DAGS = {
    "backfill_view",
    "backtest_model",
    "build_training_set",
    "check_consistency",
    "check_expectations",
    "check_open_hour",
    "compact_slices",
    "drain_stream",
    "ingest_stream",
    "maintain_iceberg",
    "promote_view",
    "restart_stream",
    "stop_stream",
    "sweep_expired",
    "take_snapshots",
    "train_model",
}


LONG = 'source=plays, where="seconds >= 0"'


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """The channel that alerts of the platform go to."""
    with receiving() as server:
        yield server


@pytest.fixture(scope="module")
def lineage() -> Iterator[Receiver]:
    """The receiver that all tell what they read and wrote."""
    with receiving() as server:
        yield server


@pytest.fixture(scope="module")
def platform(receiver: Receiver, lineage: Receiver) -> Iterator[AirflowStack]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLICEWISE_ALERT_WEBHOOK", receiver.url)
        with airflow_stack({"SLICEWISE_LINEAGE_URL": lineage.url}) as stack:
            yield stack


def test_airflow_parses_every_dag_and_every_plugin(platform: AirflowStack) -> None:
    platform.api.wait_for_dags(sorted(DAGS))
    assert platform.api.import_errors() == ()
    assert platform.api.paused_by_dag().keys() == DAGS


def test_ingest_stream_starts_the_driver_and_everything_is_applied(platform: AirflowStack) -> None:
    assert platform.streamed
    assert stream.stream_status(platform.settings).running


def test_one_run_of_a_backfill_takes_the_hours_of_all_and_the_others_start_no_spark(
    platform: AirflowStack,
) -> None:
    runs = platform.compacted
    bad = [run for run in runs if not run.well]
    assert not bad, platform.api.log(bad[0], "compact")[-6000:]
    assert len(runs) == HOURS
    submitted = []
    for run, hour in zip(runs, platform.hours, strict=True):
        report, log = platform.api.xcom(run, "compact"), platform.api.log(run, "compact")
        assert isinstance(report, dict)
        if report["slices"]:
            _check_hours(platform, run, report)
            assert re.search(r"view +unit +hour +slice +events +entities +late +bytes", log)
        if "job_submitted" in log:
            submitted.append(run)
        else:
            assert (report["outcome"], report["slices"]) == ("clean", [])
            assert hour % 24, "a run at a day's first hour adds up the day before"
        print(
            f"{hour}: {run.seconds:.1f} s in Airflow, {run.run_type}, {report['outcome']}",
            flush=True,
        )
    # unpaused right after a full hour, Airflow makes the newest hour's run by itself
    assert len([run for run in submitted if run.run_type == "backfill"]) <= 1 + sum(
        h % 24 == 0 for h in platform.hours
    )
    # whichever run came first did the work: a scheduled one takes other dirty hours too
    assert sum(row["events"] for row in platform.compacted_slices()) == EVENTS
    published = read_status(platform.settings.redis_url).published
    assert all(set(platform.hours) <= set(hours) for hours in published.values())
    assert published


def _check_hours(platform: AirflowStack, run: DagRun, report: dict[str, Any]) -> None:
    """Checks that each hour of a run is a task of its own, with its name and its figures."""
    tasks = platform.api.task_runs(run)
    (compact,) = [task for task in tasks if task.task_id == "compact"]
    assert compact.pool == "slicewise_spark"
    assert "events" in compact.note
    assert compact.ended is not None
    hours = [task for task in tasks if task.task_id == "hour"]
    expected = sorted({row["hour"].replace("T", " ") + ":00" for row in report["slices"]})
    assert [task.name for task in hours] == expected
    assert {task.state for task in hours} == {"success"}
    for task in hours:
        rows = [row for row in report["slices"] if f"{row['hour'][-2:]}:00" == task.name[-5:]]
        listening = [row for row in rows if row["view"] == "listening"]
        assert f"| listening | {sum(row['events'] for row in listening)} |" in task.note, task.note
    of_hours = {row["hour"]: row for row in report["hours"] if row["view"] == "listening"}
    assert sum(row["freed"] for row in of_hours.values()) > 0, "running partials left the store"
    assert all(row["bytes_after"] > 0 for row in of_hours.values() if row["swapped"])
    last = max(task.ended or "" for task in hours)
    lasted = datetime.fromisoformat(last) - datetime.fromisoformat(compact.ended)
    print(f"{len(hours)} hours shown {lasted.total_seconds():.1f} s after compact", flush=True)


def test_backfills_that_overlap_compact_no_hour_at_once_and_change_no_value(
    platform: AirflowStack,
) -> None:
    assert platform.compacted
    platform.settle("compact_slices")
    late = [
        {"user_id": f"user {n % USERS}", "song_id": "late", "seconds": 1.0}
        | {"played_at": (platform.hours[-1] + 1) * HOUR_US - (n + 1) * 1_000_000}
        for n in range(24)
    ]
    now_ms = time.time_ns() // 1_000_000
    platform.produce("plays", [(n % 2, json.dumps(e).encode(), now_ms) for n, e in enumerate(late)])
    platform.wait_applied("plays", PATIENCE_S)
    before = _plays(platform)
    assert sum(before.values()) == EVENTS + len(late)
    earlier = {run.run_id for run in platform.api.runs("compact_slices")}
    first, last = (datetime.fromtimestamp(platform.hours[i] * 3600, UTC) for i in (0, -1))

    def backfill(begin: datetime) -> list[DagRun]:
        with AirflowApi(platform.settings.airflow_url) as api:
            return api.backfill("compact_slices", begin, last, timeout_s=PATIENCE_S)

    with ThreadPoolExecutor(2) as pool:
        every = [run for runs in pool.map(backfill, (first, last)) for run in runs]
    assert all(run.well for run in every), every
    platform.settle("compact_slices")
    runs = [r for r in platform.api.runs("compact_slices") if r.run_id not in earlier]
    assert {run.partition_key for run in every} <= {run.partition_key for run in runs}
    spans = sorted(
        (task.started or "", task.ended or "")
        for run in runs
        for task in platform.api.task_runs(run)
        if task.task_id == "compact"
    )
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans)), spans
    reports: list[Any] = [platform.api.xcom(run, "compact") for run in runs]
    slices = [row for report in reports for row in report["slices"] if row["view"] == "listening"]
    assert {row["hour"] for row in slices} == {last.strftime("%Y-%m-%dT%H")}
    assert len(slices) == len({row["slice"] for row in slices}), "each slice was written once"
    assert _plays(platform) == before


def _plays(platform: AirflowStack) -> dict[str, int]:
    """User -> plays of a day, as the store answers."""
    users = [f"user {n}" for n in range(USERS)]
    answer = platform.request(
        features=["listening:plays_1d"], entities=[{"user_id": user} for user in users]
    )
    plays = (int(one["values"]["listening:plays_1d"] or 0) for one in answer["results"])
    return dict(zip(users, plays, strict=True))


def test_running_an_hour_again_is_a_recorded_no_op(platform: AirflowStack) -> None:
    assert platform.compacted
    key = time.strftime("%Y-%m-%dT%H:00:00", time.gmtime(platform.hours[0] * 3600))
    run = platform.api.wait(
        platform.api.trigger("compact_slices", conf={"only": True}, partition_key=key),
        timeout_s=PATIENCE_S,
    )
    assert run.well
    report = platform.api.xcom(run, "compact")
    assert isinstance(report, dict)
    assert (report["outcome"], report["slices"]) == ("clean", [])


def test_a_red_check_recomputes_what_it_is_about_and_is_green_then(
    platform: AirflowStack, receiver: Receiver
) -> None:
    assert platform.compacted
    status = read_status(platform.settings.redis_url)
    unit = str(status.units[0]["storage_fingerprint"])
    with redis.Redis.from_url(platform.settings.redis_url) as client:
        days = [key for key in client.scan_iter(f"*{unit}*") if not key.endswith(b":hot")]
        assert client.delete(*days), "nothing is compacted"
    platform.api.unpause("check_consistency")
    run = platform.api.wait(
        platform.api.trigger("check_consistency", conf={"sample": USERS}), timeout_s=PATIENCE_S
    )
    states = platform.api.task_states(run)
    assert states == {
        "newest": "success",
        "check": "failed",
        "recompute": "success",
        "check_again": "success",
        "gate": "success",
    }, platform.api.log(run, "recompute")[-6000:]
    assert run.well
    report = platform.api.xcom(run, "check_again")
    assert isinstance(report, dict)
    assert report["mismatches"] == 0
    values = report["values"]
    assert isinstance(values, int)
    assert values >= USERS
    assert receiver.events("check_red") == ["check_red", "incident_over"]
    assert receiver.posts[-1]["key"] == "check_red"


def test_a_compaction_is_followed_by_a_check_of_its_hour(platform: AirflowStack) -> None:
    assert platform.compacted
    platform.api.unpause("check_consistency")
    platform.settle("check_consistency")
    before = {run.run_id for run in platform.api.runs("check_consistency")}
    key = time.strftime("%Y-%m-%dT%H:00:00", time.gmtime(platform.hours[0] * 3600))
    conf = {"only": True, "from_raw": True}
    compacted = platform.api.trigger("compact_slices", conf=conf, partition_key=key)
    assert platform.api.wait(compacted, timeout_s=PATIENCE_S).well

    def checks() -> list[DagRun]:
        """New runs for the hour; at a full hour the schedule compacts another one."""
        runs = platform.api.runs("check_consistency")
        return [run for run in runs if run.run_id not in before and run.partition_key == key]

    def followed() -> str | None:
        return None if any(run.well for run in checks()) else f"{checks()}"

    platform.wait(followed, "the check of the hour", PATIENCE_S)
    platform.api.pause("check_consistency")  # other tests compact too
    (run,) = checks()
    assert run.run_type.startswith("asset"), run
    print(f"the check of {key}: {run}", flush=True)


def test_a_wrong_value_of_the_open_hour_is_suspected_judged_and_healed(
    platform: AirflowStack, receiver: Receiver
) -> None:
    assert platform.compacted
    platform.api.pause("compact_slices")  # the check of an hour would judge what is suspected here
    platform.settle("compact_slices")
    platform.api.unpause("check_consistency")
    platform.api.unpause("check_open_hour")  # which makes a run
    platform.wait(_early_in_an_hour, "the next hour", PATIENCE_S)
    platform.settle("check_consistency")
    now_us = time.time_ns() // 1_000
    event = {"user_id": "user 3", "song_id": "open", "seconds": 2.0, "played_at": now_us}
    platform.produce("plays", [(0, json.dumps(event).encode(), now_us // 1_000)])
    platform.wait_applied("plays", PATIENCE_S)
    platform.settle("check_open_hour")
    status = read_status(platform.settings.redis_url)
    unit = str(status.units[0]["storage_fingerprint"])
    tag = keys.entity_tags([("user_id", "string")], [["user 3"]])[0]
    hot = keys.hot_key(int(status.metadata["generation"]), tag, unit)
    before = len(receiver.events("check_red"))
    with redis.Redis.from_url(platform.settings.redis_url) as client:
        number = now_us // 60_000_000
        partials = [name for name in client.hkeys(hot) if name.startswith(b"r:%d:" % number)]
        assert client.hdel(hot, *partials) == 1, "the event has no running partial"
    run = platform.api.wait(platform.api.trigger("check_open_hour"), timeout_s=PATIENCE_S)
    assert run.well, platform.api.log(run, "look")[-6000:]
    platform.settle("check_open_hour")
    reports = [platform.api.xcom(run, "look") for run in platform.api.runs("check_open_hour")]
    [looked] = [report for report in reports if isinstance(report, dict) and report["judge"]]
    assert (looked["judge"], looked["differs"]) == (["listening"], {"listening": 1})
    assert "user 3" in looked["wrong"][0]["entity"]
    print(
        f"the light check: {looked['took_ms'] / 1e3:.1f} s, {looked['values']} values", flush=True
    )
    judged = platform.api.run("check_consistency", looked["started"])
    judged = platform.api.wait(judged, timeout_s=PATIENCE_S)
    assert platform.api.task_states(judged) == {
        "newest": "success",
        "check": "failed",
        "recompute": "success",
        "check_again": "success",
        "gate": "skipped",
    }, platform.api.log(judged, "check_again")[-6000:]
    assert receiver.events("check_red")[before:] == ["check_red", "incident_over"]
    assert receiver.posts[-1]["owner"] == "tests"
    stories = json.loads(platform.cli("checks", "--json").stdout)["stories"]
    assert [step["kind"] for step in stories[-1]["steps"]] == [
        *("suspected", "red", "recomputed", "green")
    ]
    assert {step["run"] for step in stories[-1]["steps"][1:]} == {judged.run_id}
    assert stories[-1]["over_us"]
    assert json.loads(platform.cli("checks", "look", "--json").stdout)["outcome"] == "equal"
    platform.api.pause("check_open_hour")
    platform.api.pause("check_consistency")  # other tests compact
    platform.api.unpause("compact_slices")


def _early_in_an_hour() -> str | None:
    """The hour that is open stays so while a test looks at it."""
    minute = datetime.now(UTC).minute
    return f"minute {minute}" if minute >= 57 else None


def test_a_new_view_gets_its_history_and_is_ready(platform: AirflowStack) -> None:
    assert platform.compacted
    platform.define(PROJECT + SECOND_VIEW)
    platform.cli("apply", timeout_s=PATIENCE_S)  # triggers the DAG, and waits for the view
    [run] = platform.api.runs("backfill_view", run_type="manual")
    assert platform.api.wait(run, timeout_s=PATIENCE_S).well, platform.api.log(run, "backfill")[
        -6000:
    ]
    with platform.store() as store:
        metadata = store.run(ReadMetadata())
    units = [
        unit for unit in read_status(platform.settings.redis_url).units if unit["view"] == "songs"
    ]
    assert [unit["storage_fingerprint"] in metadata.ready for unit in units] == [True]


def test_a_version_is_promoted_once_a_person_approves(platform: AirflowStack) -> None:
    assert platform.compacted
    platform.define(PROJECT + SECOND_VIEW.replace("source=plays", LONG))
    platform.cli("apply", timeout_s=PATIENCE_S)
    run = platform.api.trigger("promote_view", conf={"version": "songs@2"})

    def waits() -> str | None:
        states = platform.api.task_states(run)
        return None if states["approve"] == "awaiting_input" else f"{states}"

    platform.wait(waits, "the approval", PATIENCE_S)
    compared: Any = platform.api.xcom(run, "compare")
    assert "**songs and songs@2**" in compared["text"]
    page = platform.settings.state_dir / "reports" / "versions" / "songs@2.html"
    assert "songs and songs@2" in page.read_text()
    where = f"/api/v2/dags/promote_view/dagRuns/{run.run_id}/taskInstances/approve/-1"
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    # a person takes longer: Airflow 3.3 fails a task that is answered before its executor has
    # reported that it was parked
    time.sleep(10)
    platform.api._http.send("PATCH", f"{where}/hitlDetails", json=answer)
    ended = platform.api.wait(run, timeout_s=PATIENCE_S)
    assert ended.well, platform.api.task_states(run)
    history = platform.cli("history", "--limit", "1", "--json")
    assert '"how": "promote"' in history.stdout
    # all that follows is about the view as it was
    platform.define(PROJECT + SECOND_VIEW)
    platform.cli("promote", "songs@1")
    platform.cli("retire", "songs@2")


def test_the_sweep_finds_a_key_without_expiry_and_sets_it_right(platform: AirflowStack) -> None:
    assert platform.streamed
    status = read_status(platform.settings.redis_url)
    unit = str(status.units[0]["storage_fingerprint"])
    tag = keys.entity_tags([("user_id", "string")], [["user 0"]])[0]
    hot = keys.hot_key(int(status.metadata["generation"]), tag, unit)
    # Unpausing makes a scheduled run, which would find the key as well: let it pass first.
    platform.do("sweep_expired", "sweep")
    platform.settle("sweep_expired")
    with redis.Redis.from_url(platform.settings.redis_url) as client:
        client.hset(hot, "l:00000000000000000000000000000000:9", "1")
        client.persist(hot)
        outcome = platform.do("sweep_expired", "sweep")
        assert outcome["no_expiry"] == 1
        assert outcome["changed"] == 1
        assert outcome["unknown"] == 0
        assert client.ttl(hot) > 0
        assert platform.do("sweep_expired", "sweep")["no_expiry"] == 0


def test_snapshots_that_are_due_are_taken_once(platform: AirflowStack) -> None:
    assert platform.compacted
    (platform.project / SNAPSHOTS_FILE).write_text(
        '[snapshots.users]\nfeatures = ["listening:plays_1d"]\n'
        'table = "snapshots.users"\nevery = "1h"\n'
    )
    platform.do("take_snapshots", "take")
    # unpaused, Airflow may have made the hour's own run before that: of all of them one took it
    reports: list[Any] = [
        platform.api.xcom(run, "take") for run in platform.api.runs("take_snapshots") if run.over
    ]
    taken = [one for report in reports for one in report["taken"]]
    assert [one["name"] for one in taken] == ["users"]
    assert taken[0]["rows"] > 0
    table = open_catalog(platform.settings).load_table("snapshots.users")
    assert table.scan().to_arrow().num_rows == taken[0]["rows"]
    again: Any = platform.do("take_snapshots", "take")["taken"]
    assert not set(taken[0]["ats"]) & {at for one in again for at in one["ats"]}
    (platform.project / SNAPSHOTS_FILE).unlink()


def test_maintenance_keeps_every_table(platform: AirflowStack) -> None:
    assert platform.compacted
    planned = platform.do("maintain_iceberg", "maintain", dry_run=True, tables=["log.*"])
    assert (planned["outcome"], planned["snapshots_after"]) == (
        "planned",
        planned["snapshots_before"],
    )
    (run, *_) = platform.api.runs("maintain_iceberg", run_type="manual")
    (task,) = platform.api.task_runs(run)
    assert task.note.startswith("**Dry run: nothing was changed.**")
    assert "| log.plays |" in task.note
    assert "| ops.runs |" not in task.note
    report = platform.do("maintain_iceberg", "maintain")
    assert report["outcome"] == "done"
    (run, *_) = platform.api.runs("maintain_iceberg", run_type="manual")
    (task,) = platform.api.task_runs(run)
    assert "On disk" in task.note
    assert task.pool == "slicewise_spark"
    jobs = {line.job: line for line in jobs_of(read_status(platform.settings.redis_url, JOBS))}
    assert jobs["maintain"].report["bytes_before"] == report["bytes_before"]


def test_a_training_set_is_built_from_params_and_archives_first_what_it_needs(
    platform: AirflowStack,
) -> None:
    assert platform.compacted
    now = time.time_ns() // 1_000
    play = {"user_id": "late", "song_id": "song 0", "seconds": 1.0, "played_at": now - 60_000_000}
    platform.produce("plays", [(0, json.dumps(play).encode(), now // 1_000)])
    spine, out = platform.project / "spine.parquet", platform.project / "set.parquet"
    at = (platform.hours[-1] + 1) * HOUR_US
    users = [f"user {n}" for n in range(USERS)] + ["late"]
    instants = pa.array([at] * USERS + [time.time_ns() // 1_000], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"user_id": users, "at": instants}), spine)
    report = platform.do(
        "build_training_set",
        "build",
        spine=str(spine),
        features="listening:plays_1d,listening:seconds_1h",
        out=str(out),
    )
    assert report["rows"] == USERS + 1
    built = pq.read_table(out)
    [plays] = [name for name in built.column_names if name.endswith("plays_1d")]
    *before, late = built.column(plays).to_pylist()
    log = [json.loads(value) for *_, value in platform.records("plays")]
    counted = Counter(event["user_id"] for event in log if event["played_at"] < at)
    assert before == [counted[user] for user in users[:USERS]]
    assert sum(before) >= EVENTS
    assert late == 1, "archived a moment ago, by the task"


def test_the_graph_goes_from_the_topic_to_the_data_set(
    platform: AirflowStack, lineage: Receiver
) -> None:
    """Airflow's provider and the drivers sent it; the tests before this one ran the jobs."""
    assert platform.compacted
    platform.wait(
        lambda: None if "build_training_set.build" in _jobs(lineage) else f"{_jobs(lineage)}",
        "the training set's lineage",
        PATIENCE_S,
    )
    done = [post for post in lineage.posts if post["eventType"] in ("COMPLETE", "RUNNING")]
    edges = {
        (read["name"], post["job"]["name"], made["name"])
        for post in done
        for read in post["inputs"]
        for made in post["outputs"]
    }
    units = read_status(platform.settings.redis_url).units
    (unit,) = [one["storage_fingerprint"] for one in units if one["view"] == "listening"]
    slices = f"slices.u_{unit}"
    made = str(platform.project / "set.parquet")
    assert {
        ("plays", "stream", "listening"),
        ("plays", "compact.archive", "log.plays"),
        ("log.plays", "compact.hours", slices),
        (slices, "compact.publish", "listening"),
        ("listening", "build_training_set.build", made),
        ("log.plays", "build_training_set.build", made),
        ("plays", "compact_slices.compact", "listening"),
        ("listening", "check.compare", "ops.checks"),
    } <= edges
    named = {(one["namespace"], one["name"]) for post in done for one in post["inputs"]}
    assert len({name for _, name in named}) == len(named), "a data set has one name for all"
    (column,) = [
        read
        for post in done
        if post["job"]["name"] == "build_training_set.build"
        for one in post["outputs"]
        for read in one["facets"]["columnLineage"]["fields"]["listening:seconds_1h"]["inputFields"]
        if read["name"] == "log.plays"
    ]
    assert column["field"] == "seconds"
    tasks = {
        post["run"]["facets"]["parent"]["job"]["name"]
        for post in lineage.posts
        if post["job"]["name"] == "compact"
    }
    begun_by = {"compact_slices.compact", "check_consistency.recompute"}
    assert {"compact_slices.compact"} <= tasks <= begun_by, "a job's parent is its task"


def _jobs(lineage: Receiver) -> set[str]:
    return {post["job"]["name"] for post in lineage.posts if post["eventType"] == "COMPLETE"}


def test_the_page_shows_stream_views_and_jobs(platform: AirflowStack) -> None:
    assert platform.compacted
    answer = httpx.get(
        f"{platform.settings.airflow_url}/slicewise/status.json", trust_env=False, timeout=30
    )
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["health"]["well"], body["health"]
    assert {line["view"] for line in body["views"]} >= {"listening"}
    assert any(line["job"] == "compact" and line["ok"] for line in body["jobs"])
    page = httpx.get(f"{platform.settings.airflow_url}/slicewise/", trust_env=False, timeout=30)
    assert "<title>slicewise</title>" in page.text


def test_the_page_explains_an_entity_and_shows_hours_and_sizes(platform: AirflowStack) -> None:
    assert platform.compacted
    with httpx.Client(
        base_url=f"{platform.settings.airflow_url}/slicewise/", trust_env=False, timeout=120
    ) as client:
        (view,) = [
            v for v in client.get("features.json").json()["views"] if v["name"] == "listening"
        ]
        request = {"features": view["features"], "kinds": view["entity"]}
        answer = client.post("explain.json", json=request | {"entity": {"user_id": "user 7"}})
        assert answer.status_code == 200, answer.text
        (explained,) = answer.json()["views"]
        values = {one["feature"]: int(one["value"]) for one in explained["features"][:3]}
        plays = "listening:plays_1d"
        served = platform.request(features=[plays], entities=[{"user_id": "user 7"}])
        assert values[plays] == served["results"][0]["values"][plays] >= EVENTS // USERS
        wheres = {
            s["where"] for w in explained["windows"] for s in w["segments"] if s["slices"] != 0
        }
        assert wheres & {"hour", "minutes", "slices"}
        unknown = client.post(
            "explain.json", json={"features": ["x:y"], "entity": {"user_id": "7"}}
        )
        assert unknown.status_code == 400
        assert unknown.json()["error"]["what"] == "unknown view 'x'"
        hours = client.get("hours.json").json()
        (listening,) = [v for v in hours["views"] if v["view"] == "listening"]
        assert list(listening["hours"].values()).count("compacted") >= 2
        platform.do("sweep_expired", "sweep")
        sizes = client.get("sizes.json").json()["views"]["listening"]
        assert (sizes["keys"] > 0, sizes["bytes"] > 0) == (True, True)


def test_a_killed_driver_is_started_again_by_the_watch_and_told_once(
    platform: AirflowStack, receiver: Receiver
) -> None:
    assert platform.streamed
    before = stream.stream_status(platform.settings).pid
    watching = {run.run_id for run in platform.api.runs("ingest_stream") if not run.over}
    platform.kill_stream()
    _await_another(platform, before)
    # the same run watches on
    assert {run.run_id for run in platform.api.runs("ingest_stream") if not run.over} == watching
    _await_events(platform, receiver, "driver.stream", ["driver_lost", "driver_well"])


def test_a_feature_that_leaves_its_bounds_is_told_within_half_a_minute_and_over_once(
    platform: AirflowStack, receiver: Receiver
) -> None:
    assert platform.streamed
    file = platform.project / MONITORS_FILE
    monitor = '[monitors.plays]\nfeature = "listening:plays_1d"\nowner = "radio"\n'
    monitor += 'entity = { user_id = "user 1" }\n'
    file.write_text(monitor + "above = 0\n")
    written = time.monotonic()
    key = "monitor.plays"
    _await_events(platform, receiver, key, ["feature_out_of_bounds"])
    assert time.monotonic() - written < 30
    [post] = [post for post in receiver.posts if post["key"] == key]
    assert (post["owner"], post["severity"]) == ("radio", "warning")
    assert "listening:plays_1d of user_id user 1 is" in post["error"]
    shown = platform.cli("monitors", "--json", check=False)
    assert (shown.returncode, json.loads(shown.stdout)["monitors"][0]["fault"]) == (1, True)
    file.write_text(monitor + "above = 1000000\n")
    _await_events(platform, receiver, key, ["feature_out_of_bounds", "incident_over"])
    assert "ok" in platform.cli("monitors").stdout
    file.unlink()


def test_a_broker_that_is_away_is_told_once_and_no_driver_is_started_for_it(
    platform: AirflowStack, receiver: Receiver
) -> None:
    assert platform.streamed
    driver = stream.stream_status(platform.settings).pid
    drivers_before = receiver.events("driver.stream")
    supervisor.down(platform.settings, print, only=("kafka",))
    _await_events(platform, receiver, "broker", ["broker_away"])
    platform.up("kafka")
    _await_events(platform, receiver, "broker", ["broker_away", "broker_back"])
    assert stream.stream_status(platform.settings).pid == driver
    assert receiver.events("driver.stream") == drivers_before


def test_a_store_that_is_away_is_one_page_for_all_that_fail_for_it(
    platform: AirflowStack, receiver: Receiver
) -> None:
    assert platform.streamed
    platform.settle("sweep_expired")
    supervisor.down(platform.settings, print, only=("redis",))
    _await_events(platform, receiver, "store", ["store_not_well"])
    platform.api.unpause("sweep_expired")
    swept = platform.api.wait(platform.api.trigger("sweep_expired"), timeout_s=PATIENCE_S)
    assert not swept.well
    answer = httpx.get(
        f"{platform.settings.airflow_url}/slicewise/status.json", trust_env=False, timeout=30
    )
    assert answer.status_code == 503
    shown = {one["key"]: one for one in answer.json()["incidents"] if one["state"] == "open"}
    assert shown.keys() == {"store"}
    assert (shown["store"]["pages"], shown["store"]["severity"]) == (1, "critical")
    assert shown["store"]["times"] > 1, "the sweep failed for it too"
    platform.up("redis")
    _await_events(platform, receiver, "store", ["store_not_well", "incident_over"])
    platform.do("sweep_expired", "sweep")
    (over,) = [one for one in Inbox(platform.settings).read() if one.key == "store"]
    print(f"the store's incident: met {over.times} times, paged once", flush=True)
    kept = from_text(read_status(platform.settings.redis_url).parts["alerts"])
    assert over in kept, "the store has a copy"
    assert receiver.events("store") == ["store_not_well", "incident_over"]
    assert not receiver.events("sweep_expired.sweep")


def test_a_run_that_somebody_triggers_or_clears_does_not_wait_for_the_watch(
    platform: AirflowStack,
) -> None:
    assert platform.streamed
    before = stream.stream_status(platform.settings).pid
    runs = [platform.api.trigger("ingest_stream", conf={"watch_s": 3}) for _ in range(2)]
    for run in runs:
        over = platform.api.wait(run, timeout_s=PATIENCE_S)
        assert over.well, platform.api.log(run, "watch")[-6000:]
    assert stream.stream_status(platform.settings).pid == before, "the driver went on meanwhile"


def test_drivers_that_are_restarted_are_no_fault(
    platform: AirflowStack, receiver: Receiver
) -> None:
    assert platform.streamed
    before_it = receiver.events("driver.stream")
    before = stream.stream_status(platform.settings).pid
    platform.do("restart_stream", "restart", driver="stream")
    _await_another(platform, before)
    assert receiver.events("driver.stream") == before_it


def _await_another(platform: AirflowStack, before: int | None) -> None:
    """Waits for a driver of the micro-batch lane that is well and not the one of before."""

    def another() -> str | None:
        stream_status = stream.stream_status(platform.settings)
        return None if stream_status.well and stream_status.pid != before else f"{stream_status}"

    platform.wait(another, "another driver", PATIENCE_S)


def _await_events(platform: AirflowStack, receiver: Receiver, key: str, events: list[str]) -> None:
    """Waits until the pages of an incident's key are these; more of them are a failure at once."""

    def missing() -> str | None:
        paged = receiver.events(key)
        assert paged == events[: len(paged)], f"{key}: {receiver.posts}"
        return None if paged == events else f"{key}: {paged}"

    platform.wait(missing, f"{events} of {key}", PATIENCE_S)


def test_a_run_whose_params_are_wrong_is_refused_before_it_begins(platform: AirflowStack) -> None:
    given = {"spine": "rows.parquet", "out": "set.parquet"}
    for conf in (given, given | {"features": ""}, given | {"features": 7}):
        with pytest.raises(BadRequest, match="features"):
            platform.api.trigger("build_training_set", conf=conf)
    with pytest.raises(BadRequest, match="driver"):
        platform.api.trigger("restart_stream", conf={"driver": "redis"})


def test_a_run_for_no_hour_is_tried_once_and_its_page_says_what_an_hour_is(
    platform: AirflowStack, receiver: Receiver
) -> None:
    key = "2026-11-21T08:30:00"
    run = platform.api.trigger("compact_slices", partition_key=key)
    assert not platform.api.wait(run, timeout_s=PATIENCE_S).well
    [post] = [post for post in receiver.posts if post["run"] == run.run_id]
    assert (post["error"], post["attempts"]) == (f"{key!r} is no hour", "")
    assert post["next_step"] == "trigger the run with the hour's start as its partition key"


def test_drain_stream_applies_what_the_log_holds_and_stops_the_drivers(
    platform: AirflowStack,
) -> None:
    assert platform.streamed
    report = platform.do("drain_stream", "await_applied", wait_s=120)
    assert report["applied"] == 0, "all was applied before"
    assert platform.api.is_paused("ingest_stream")
    assert not stream.stream_status(platform.settings).running
    platform.api.unpause("ingest_stream")
    _await_another(platform, None)


def test_stop_stream_drains_the_driver_and_nothing_starts_it_again(platform: AirflowStack) -> None:
    assert platform.streamed
    platform.do("stop_stream", "drain")
    assert platform.api.is_paused("ingest_stream")
    assert not stream.stream_status(platform.settings).running

    runs = platform.api.runs("ingest_stream")
    assert all(run.over for run in runs), runs
    assert runs[0].well, "it was stopped on purpose: nobody is paged"
