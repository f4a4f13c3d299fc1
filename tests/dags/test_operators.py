"""The operators hand over what the decisions say, and believe exit codes and reports alone."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import shlex
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    TaskDeferred,
)
from slicewise_airflow import assets
from slicewise_airflow.alerts import UnlessLasting, page, page_deadline, page_records
from slicewise_airflow.check import CheckJob, GateClosed, RecomputeJob, require_gate
from slicewise_airflow.commands import JobRefused, run_command
from slicewise_airflow.spark import SparkJob
from slicewise_airflow.stream import StreamHealth, StreamHealthTrigger, StreamNotWell
from slicewise_airflow.versions import promoting

from slicewise.errors import DefinitionError, ServerError, SettingsError, StoreUnavailable
from slicewise.features import own
from slicewise.lifecycle.checking import CheckNotMade, CheckRed
from slicewise.lifecycle.health.overview import job_record
from slicewise.lifecycle.jobs import Run, compact_arguments, may_be_clean
from slicewise.lifecycle.reports import JobFailed, ReportMissing
from slicewise.settings import Settings
from slicewise.spark.runtime.classes import leaving
from slicewise.stores.online.redis.status import StoreStatus


def context(run_type: str = "backfill", **params: object) -> dict[str, Any]:
    run = SimpleNamespace(
        run_type=run_type,
        partition_key="2026-11-21T08:00:00",
        run_after=datetime(2026, 11, 21, 9, tzinfo=UTC),
    )
    return {"dag_run": run, "params": params}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a program that stands where spark-submit or slicewise would, and writes down its
    arguments."""
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("SLICEWISE_SPARK_JARS", str(tmp_path / "jars"))

    def make(name: str, output: str, code: int = 0) -> Path:
        path = tmp_path / name
        path.write_text(
            f'#!/bin/sh\necho "$@" > {shlex.quote(str(tmp_path / "given"))}\n'
            f"env > {shlex.quote(str(tmp_path / 'env'))}\nprintf '%s\\n' {shlex.quote(output)}\nexit {code}\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("SLICEWISE_SPARK_SUBMIT", str(path))
        monkeypatch.setenv("SLICEWISE_PLATFORM_PYTHON", str(tmp_path / "python"))
        return tmp_path / "given"

    return make


def job() -> SparkJob:
    return SparkJob(task_id="compact", job="compact", arguments=compact_arguments)


def test_a_job_is_submitted_with_the_decided_arguments_and_returns_its_report(program: Any) -> None:
    given = program(
        "submit", 'noise\n{"hours": 1, "slices": [{"slice": 5, "events": 2}]}\nmore noise'
    )
    assert job().execute(context()) == {"hours": 1, "slices": [{"slice": 5, "events": 2}]}
    words = given.read_text().split()
    assert words[-3:] == ["--hour", "2026-11-21T08", "--json"]
    assert words[words.index("--master") + 1] == "local[2]"
    assert any(word.endswith("spark_jobs/compact.py") for word in words)


def test_the_slices_are_listed_in_the_tasks_log(
    program: Any, caplog: pytest.LogCaptureFixture
) -> None:
    program(
        "submit",
        '{"slices": [{"unit": "u", "hour": "h", "slice": 5, "events": 2, "late": 1, "bytes": 9}]}',
    )
    task = job()
    with caplog.at_level(logging.INFO):
        task.execute(context())
    assert "unit  hour  slice  events  entities  late  bytes" in caplog.text


def test_a_job_that_succeeds_without_a_report_fails(program: Any) -> None:
    program("submit", "all fine")
    with pytest.raises(ReportMissing, match="compact"):
        job().execute(context())


def test_a_job_that_reports_and_fails_is_failed(program: Any) -> None:
    program(
        "submit",
        '{"mismatches": 1}\nslicewise.errors.GapRefused: events are gone\n  where: x',
        code=2,
    )
    with pytest.raises(
        JobFailed, match=r"job 'compact' failed: slicewise\.errors\.GapRefused: events are gone"
    ):
        job().execute(context())


@pytest.mark.parametrize("lasting", [True, False])
def test_a_job_is_tried_again_unless_the_reason_lasts(lasting: bool, program: Any) -> None:
    program("submit", f'x job_failed job=backfill lasting={lasting} error="no such view"', code=1)
    with pytest.raises(JobFailed, match="job 'compact' failed: no such view") as failed:
        job().execute(context())
    assert isinstance(failed.value, AirflowFailException) is lasting
    copy = pickle.loads(pickle.dumps(failed.value))
    assert type(copy) is type(failed.value)
    assert str(copy) == str(failed.value)


def test_no_password_stands_on_a_command_line(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "SLICEWISE_CATALOG_URI", "postgresql+psycopg2://slicewise:hidden-word@db/catalog"
    )
    given = program("submit", "{}")
    job().execute(context())
    assert "hidden-word" not in given.read_text()


def test_a_configured_connection_names_the_master(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://master:7077"}'
    )
    given = program("submit", "{}")
    job().execute(context())
    words = given.read_text().split()
    assert words[words.index("--master") + 1] == "spark://master:7077"


def test_a_connections_port_and_queue_are_those_of_the_job(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": "spark://master", "port": 7078}
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection | {"extra": {"queue": "features"}})
    )
    given = program("submit", "{}")
    job().execute(context())
    words = given.read_text().split()
    assert words[:4] == ["--master", "spark://master:7078", "--queue", "features"]


def test_a_connection_that_wants_the_driver_elsewhere_is_refused_before_anything_is_submitted(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    given = program("submit", "{}")
    with pytest.raises(JobRefused, match="where its task runs"):
        job().execute(context())
    assert not given.exists()


def test_a_job_whose_task_is_ended_is_ended(program: Any) -> None:
    given = program("submit", "{}")
    Path(given.parent / "submit").write_text("#!/bin/sh\necho begun\nexec sleep 60\n")
    task = job()

    class Ended(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == "begun":
                task.on_kill()

    handler = Ended()
    logger = logging.getLogger("slicewise.commands")
    logger.addHandler(handler)
    try:
        with pytest.raises(JobFailed, match="job 'compact' failed: begun"):
            task.execute(context())
    finally:
        logger.removeHandler(handler)


def test_a_task_that_fails_while_it_reads_takes_its_job_along(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = program("submit", "{}")
    Path(given.parent / "submit").write_text("#!/bin/sh\necho begun\nexec sleep 60\n")

    def timed_out(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(logging.getLogger("slicewise.commands"), "info", timed_out)
    task = job()
    with pytest.raises(TimeoutError):
        task.execute(context())
    assert task._process is not None
    assert task._process.poll() == -signal.SIGKILL


@pytest.fixture
def archive(tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of classes that a compaction left."""
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    program("submit", "{}")
    jars = tmp_path / "jars"
    jars.mkdir()
    with leaving(Settings.load()) as option:
        Path(shlex.split(option)[0].partition("=")[2]).write_bytes(b"classes")
    [kept] = jars.glob("classes-*.jsa")
    return kept


def attempt(number: int) -> dict[str, Any]:
    return context() | {"ti": SimpleNamespace(try_number=number)}


def test_the_first_compaction_leaves_its_classes_and_the_next_job_maps_them(
    program: Any, archive: Path
) -> None:
    given = program("submit", "{}")
    job().execute(attempt(1))
    assert f"-XX:SharedArchiveFile={archive}" in given.read_text()
    assert "ArchiveClassesAtExit" not in given.read_text()
    archive.unlink()
    job().execute(attempt(1))
    assert "-XX:ArchiveClassesAtExit=" in given.read_text()
    assert "SharedArchiveFile" not in given.read_text()


def test_a_task_that_is_tried_again_maps_no_classes_and_makes_new_ones_due(
    program: Any, archive: Path
) -> None:
    given = program("submit", "{}")
    job().execute(attempt(2))
    assert "-Dderby.system.home=" in given.read_text()
    assert "SharedArchiveFile" not in given.read_text()
    assert "ArchiveClassesAtExit" not in given.read_text()
    assert not archive.exists()


def test_a_command_returns_its_report(program: Any) -> None:
    given = program("slicewise", 'working\n{"scanned": 3}')
    assert run_command("sweep", "--json") == {"scanned": 3}
    assert given.read_text().split() == ["sweep", "--json"]


def test_a_version_is_compared_and_promoted_in_the_name_of_who_approves(program: Any) -> None:
    column = {"column": "n_1h", "equal": 1, "changed": 1_200, "index": 0.25}
    report = {
        "then": "by_card",
        "now": "by_card@2",
        "rows": 1_201,
        "columns": [{**column, "column": "same_1h", "changed": 0}, column],
        "gone": ["old_1h"],
        "added": [],
        "retyped": [],
    }
    given = program("slicewise", json.dumps(report))
    of_run = context(version="shops@3, by_card@2")
    outcome = promoting.compared(of_run)
    assert given.read_text().split()[:2] == ["diff", "by_card@2"]
    assert given.read_text().split()[-1].endswith("/reports/versions/by_card@2.html")
    assert "**by_card and by_card@2**, 1,201 entities" in outcome["text"]
    assert outcome["text"].index("n_1h") < outcome["text"].index("same_1h"), "what changed first"
    assert "Without: old_1h." in outcome["text"]
    assert outcome["pages"] == [
        f"/slicewise/reports/versions/{n}" for n in ("shops@3", "by_card@2")
    ]
    answer = {"responded_by_user": {"name": "ann"}}
    of_run["ti"] = SimpleNamespace(xcom_pull=lambda **_: answer)
    promoting.promoted(of_run)
    assert given.read_text().split() == [
        *("promote", "shops@3", "by_card@2"),
        *("--by", "ann", "--json"),
    ]


def test_a_command_that_fails_says_its_last_words(program: Any) -> None:
    program("slicewise", "slicewise sweep: the store does not answer", code=1)
    with pytest.raises(JobFailed, match="exit code 1: slicewise sweep: the store does not answer"):
        run_command("sweep", "--json")


@pytest.mark.parametrize(
    ("arguments", "lasting", "message"),
    [
        (
            ("dataset", "build", "--spine", "gone.parquet", "--features", "a:b", "--out", "x.csv"),
            True,
            "gone.parquet cannot be read as Parquet: there is no such file",
        ),
        (("stream", "drain", "--wait-s", "soon"), True, "argument --wait-s: invalid float value"),
        (("sweep", "--json"), False, "the store does not answer"),
    ],
    ids=["a file that is not there", "a wrong parameter", "a store that is away"],
)
def test_a_command_is_tried_again_unless_the_reason_lasts(
    arguments: tuple[str, ...],
    lasting: bool,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    with pytest.raises(JobFailed, match=message) as failed:
        run_command(*arguments)
    decision = UnlessLasting().evaluate(failed.value, 1, 3)
    assert (decision.action is RetryAction.FAIL) is lasting
    if "gone.parquet" in message:
        assert failed.value.next_step is not None
        assert failed.value.next_step.startswith("give a file that ends in .parquet")


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (SettingsError("SLICEWISE_LAG_LIMIT_S is no number"), True),
        (DefinitionError("the window is no multiple of its slice"), True),
        (AirflowNotFoundException("The conn_id `spark_default` isn't defined"), True),
        (StoreUnavailable("the store does not answer"), False),
        (ServerError("serving did not start"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_what_another_try_would_meet_again_is_not_tried_again(
    error: Exception, lasting: bool
) -> None:
    decision = UnlessLasting().evaluate(error, 1, 3)
    assert (decision.action is RetryAction.FAIL) is lasting


def test_a_program_that_is_not_there_is_a_setting_to_correct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_PLATFORM_PYTHON", str(tmp_path / "bin" / "python"))
    with pytest.raises(SettingsError, match="bin/slicewise cannot be started: No such file"):
        run_command("sweep", "--json")


def test_the_trigger_survives_its_serialisation() -> None:
    trigger = StreamHealthTrigger(100.0, 50.0, 5.0, 4, 30.0, 90.0)
    path, arguments = trigger.serialize()
    assert path == f"{StreamHealthTrigger.__module__}.{StreamHealthTrigger.__qualname__}"
    assert StreamHealthTrigger(**arguments).serialize() == (path, arguments)


def test_a_batch_that_hangs_under_a_live_heartbeat_fails_the_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_700_000_000_000_000
    status_json = {
        "state": "running",
        "heartbeat_us": now,
        "lag": {"0": 7},
        "progress_us": now - 200_000_000,
    }
    manifest = {"sources": [{"name": "flights"}]}
    status = StoreStatus(now, manifest=manifest, parts={"stream:flights": json.dumps(status_json)})
    monkeypatch.setattr("slicewise.stores.online.redis.status.read_status", lambda *_: status)
    task = StreamHealth(task_id="watch", for_s=60, every_s=0.001)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({"params": {}})
    trigger = deferred.value.trigger
    trigger.grace_until_s = 0.0  # its driver was not started just now

    async def fired() -> Any:
        return await anext(trigger.run())

    event = asyncio.run(fired()).payload
    assert (event["outcome"], event["looks"]) == ("lost", task.patience)
    with pytest.raises(StreamNotWell, match="7 events behind, and no batch has ended for 200 s"):
        task.done({}, event)


def test_a_lost_stream_fails_the_watch_with_its_reasons() -> None:
    watch = StreamHealth(task_id="watch", for_s=5)
    event = {"outcome": "lost", "reasons": ["flights: no heartbeat for 31 s"], "looks": 9}
    with pytest.raises(StreamNotWell, match="no heartbeat for 31 s"):
        watch.done({}, event)
    assert watch.done({}, event | {"outcome": "well"})["looks"] == 9


def test_a_lost_real_time_lane_pages_and_fails_no_task(caplog: pytest.LogCaptureFixture) -> None:
    watch = StreamHealth(task_id="watch", for_s=5)
    instance = SimpleNamespace(dag_id="ingest_stream", task_id="watch", run_id="r", log_url="")
    event = {"outcome": "aging", "reasons": ["tail: flights: no heartbeat for 61 s"], "looks": 9}
    assert watch.done({"task_instance": instance}, event) == event
    assert "realtime_lost dag=ingest_stream" in caplog.text
    assert "no heartbeat for 61 s" in caplog.text
    assert "docs/runbook.md#the-real-time-lane-is-lost" in caplog.text


INSTANCE = SimpleNamespace(dag_id="ingest_stream", task_id="watch", run_id="r", log_url="")


def looked(
    monkeypatch: pytest.MonkeyPatch, status: Callable[[], StoreStatus], **given: Any
) -> dict[str, Any]:
    """The event of a watch that looks every millisecond, of stores that answer so; its grace is
    over."""
    monkeypatch.setattr("slicewise.stores.online.redis.status.read_status", lambda *_: status())
    monkeypatch.setattr("slicewise.local.servers.drivers.broker_away", lambda _settings: "")
    with pytest.raises(TaskDeferred) as deferred:
        StreamHealth(task_id="watch", every_s=0.001, **given).execute({"params": {}})
    trigger = deferred.value.trigger
    trigger.grace_until_s = 0.0

    async def fired() -> Any:
        return await anext(trigger.run())

    # as Airflow stores it
    event: dict[str, Any] = json.loads(json.dumps(asyncio.run(fired()).payload))
    return event


def alerts_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The alerts of the log; beside each stands that no store is there for a copy."""
    lines = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    alerts = [line for line in lines if not line.startswith("incidents_not_copied ")]
    assert len(lines) == 2 * len(alerts)
    return alerts


def test_late_probes_and_a_lost_real_time_lane_are_two_alerts_with_a_section_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1_700_000_000_000_000
    stream = {"state": "running", "heartbeat_us": now, "lag": 0, "tail": "on"}
    late = {"state": "running", "heartbeat_us": now, "shown": 1, "lost": 0, "waiting_ms": 90_000}
    manifest = {
        "sources": [{"name": "plays"}, {"name": own.SOURCE}],
        "units": [{"view": "v", "source": "plays"}],
    }
    parts = {
        "stream:plays": stream,
        f"stream:{own.SOURCE}": stream | {"tail": "off"},
        "probes": late,
    }
    status = StoreStatus(
        now, {}, manifest, {part: json.dumps(text) for part, text in parts.items()}
    )
    event = looked(monkeypatch, lambda: status, for_s=60)
    assert event["outcome"] == "aging"
    StreamHealth(task_id="watch", for_s=60).done({"task_instance": INSTANCE}, event)
    alerts = alerts_in(caplog)
    assert [line.split()[0] for line in alerts] == ["realtime_lost", "answers_late"]
    assert "#the-real-time-lane-is-lost" in alerts[0]
    assert "probe is in no answer" not in alerts[0]
    assert "a probe is in no answer for 90 s" in alerts[1]
    assert "#answers-are-not-fresh" in alerts[1]


def test_a_watch_that_fails_pages_each_part_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    event = {"outcome": "lost", "reasons": ["plays: silent", "emission: plays: silent"], "looks": 4}
    event["parts"] = {
        "stream": ["plays: silent"],
        "emission": ["plays: it gave up"],
        "probes": ["p99 40,000 ms"],
    }
    with pytest.raises(StreamNotWell) as failed:
        StreamHealth(task_id="watch", for_s=60).done({"task_instance": INSTANCE}, event)
    page({"task_instance": INSTANCE, "exception": failed.value})
    alerts = alerts_in(caplog)
    assert [line.split()[0] for line in alerts] == ["task_failed", "emission_lost", "answers_late"]
    sections = ["#the-stream-is-not-well", "#nothing-is-published", "#answers-are-not-fresh"]
    assert all(section in line for section, line in zip(sections, alerts, strict=True))


def test_a_first_leaderboard_ends_no_watch_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, plain = (
        1_700_000_000_000_000,
        {"sources": [{"name": "plays"}], "units": [{"view": "v", "source": "plays"}]},
    )
    looks = iter(range(1_000_000))

    def status() -> StoreStatus:
        """A look every five seconds of the store's clock; the leaderboard comes before the fourth,
        and no driver of it."""
        look = next(looks)
        now = begun + look * 5_000_000
        parts = {"stream:plays": json.dumps({"state": "running", "heartbeat_us": now, "lag": 0})}
        if look < 3:
            return StoreStatus(now, {}, plain, parts)
        return StoreStatus(
            now,
            {},
            {**plain, "leaderboards": [{"view": "v"}]},
            parts | {"deployed": str(begun + 12_000_000)},
        )

    event = looked(monkeypatch, status, for_s=60)
    assert (event["outcome"], event["parts"]) == ("wanting", {})
    assert event["looks"] == 7
    assert StreamHealth(task_id="watch", for_s=60).done({"task_instance": INSTANCE}, event) == event


RED = {"outcome": "red", "values": 6182, "mismatches": 2, "causes": {"stale": 2}}


@pytest.mark.parametrize(
    ("output", "code", "kind", "words"),
    [
        (json.dumps(RED), 2, CheckRed, "the check is red: 2 of 6182 values differ (stale 2)"),
        (
            json.dumps({"outcome": "not_made", "why": "the online store does not answer", "values": 0}),
            1,
            CheckNotMade,
            "the check could not be made: the online store does not answer",
        ),
        (
            json.dumps({"outcome": "red", "values": 0, "mismatches": 0, "notes": ["view v: not checked"]}),
            2,
            CheckNotMade,
            "the check could not be made: nothing was compared; view v: not checked",
        ),
        ("java.lang.OutOfMemoryError: heap", 1, CheckNotMade, "the check could not be made: java.lang"),
    ],
    ids=["red", "store away", "nothing compared", "no report"],
)  # fmt: skip
def test_a_check_that_could_not_be_made_is_not_red(
    program: Any,
    caplog: pytest.LogCaptureFixture,
    output: str,
    code: int,
    kind: type[Exception],
    words: str,
) -> None:
    program("submit", output, code=code)
    given = context("scheduled", sample=5)
    with pytest.raises(kind) as failed:
        CheckJob(task_id="check").execute(given | {"ti": Instance()})
    assert str(failed.value).startswith(words)
    caplog.clear()
    instance = SimpleNamespace(dag_id="check_consistency", task_id="check", run_id="r", log_url="")
    page({"task_instance": instance, "exception": failed.value})
    [line] = alerts_in(caplog)
    event, anchor = (
        ("check_red", "the-check-is-red")
        if kind is CheckRed
        else ("check_not_made", "the-check-could-not-be-made")
    )
    assert line.startswith(f"{event} ")
    assert line.count(words.partition(":")[0]) == 1
    assert f"#{anchor}" in line


class Instance:
    """A task instance that keeps values for those after it."""

    def __init__(self) -> None:
        self.try_number = 1
        self.kept: dict[str, Any] = {}

    def xcom_push(self, key: str, value: object) -> None:
        self.kept[key] = json.loads(json.dumps(value))

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        assert task_ids == "check"
        return self.kept.get(key)


def test_a_red_check_leaves_what_is_to_be_recomputed_and_another_does_not(program: Any) -> None:
    instance = Instance()
    program("submit", json.dumps(RED | {"concerned": {"listening": 498_000}}), code=2)
    with pytest.raises(CheckRed):
        CheckJob(task_id="check").execute(context("manual", sample=5) | {"ti": instance})
    given = program("submit", '{"job": "compact"}')
    task = RecomputeJob(task_id="recompute")
    assert task.execute(context("manual") | {"ti": instance}) == {"job": "compact"}
    words = given.read_text().split()
    assert words[words.index("--from") :] == [
        *("--from", "raw", "--since", "2026-10-24T00", "--units", "listening", "--json")
    ]
    with pytest.raises(AirflowSkipException):
        task.execute(context("manual", recompute=False) | {"ti": instance})
    with pytest.raises(AirflowSkipException):
        task.execute(context("manual") | {"ti": Instance()})


def test_a_compaction_gives_its_hours_to_its_assets_or_skips() -> None:
    events = {assets.HOURS: SimpleNamespace(), assets.COMPACTED: SimpleNamespace()}
    given: dict[str, list[str]] = {}
    for asset, accessor in events.items():
        accessor.add_partitions = lambda keys, name=asset.name: given.update({name: keys})
    report = {
        "slices": [{"hour": f"2026-11-21T0{n}", "view": "v", "events": n} for n in (7, 6, 6)],
        "failed": [{"hour": "2026-11-21T05", "view": "w", "error": "it lost rows"}],
    }
    summaries = assets.announce(context() | {"outlet_events": events}, report)
    hours = ["2026-11-21T06:00:00", "2026-11-21T07:00:00"]
    assert given == {"slicewise_hours": hours, "slicewise_compacted": hours[-1:]}
    assert [(one["hour"], one["events"]) for one in summaries] == [
        *(("2026-11-21 05:00", 0), ("2026-11-21 06:00", 12), ("2026-11-21 07:00", 7)),
    ]
    failed, *well = summaries
    for summary in well:
        named: dict[str, Any] = {}
        assets.show_hour(named, summary)
        assert named == {"hour": summary["hour"]}
    with pytest.raises(JobRefused, match="w: it lost rows"):
        assets.show_hour({}, failed)
    with pytest.raises(AirflowSkipException):
        assets.announce(context() | {"outlet_events": events}, {"slices": []})


@pytest.mark.parametrize(
    ("result", "gate", "closed"),
    [
        ("red", "green", True),
        ("red", "any", False),
        ("not_made", "green", False),
        (None, "green", False),
    ],
)
def test_a_training_set_is_refused_while_the_last_check_is_red(
    result: str | None, gate: str, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"result": result, "why": "3 values differ"}
    record = {} if result is None else {"job:check": job_record(report, ok=False, at_us=1)}
    status = StoreStatus(1, {}, {}, record)
    monkeypatch.setattr("slicewise_airflow.check.read_status", lambda *_: status)
    monkeypatch.setattr("slicewise_airflow.check.read_part", lambda *_: ())
    run = Run("manual", None, datetime.now(UTC), {"gate": gate})
    if not closed:
        require_gate(run)
        return
    with pytest.raises(GateClosed, match="the last check is red: 3 values differ"):
        require_gate(run)


def test_a_job_is_submitted_where_nobody_can_say_whether_its_hour_is_clean(
    program: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class FakeSession:
        """Airflow that tells since when the run was asked for; the program that looks is not
        there."""

        def __init__(self, _url: str) -> None: ...

        def __enter__(self) -> FakeSession:
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, *_: str) -> SimpleNamespace:
            return SimpleNamespace(queued_at="2026-11-21T09:00:00Z")

    monkeypatch.setattr("slicewise_airflow.clean.AirflowApi", FakeSession)
    program("submit", '{"hours": 1}')
    given = context()
    given["dag_run"].dag_id, given["dag_run"].run_id = "compact_slices", "r"
    operator = SparkJob(
        task_id="compact", job="compact", arguments=compact_arguments, unless_clean=may_be_clean
    )
    assert operator.execute(given) == {"hours": 1}
    assert "hour_not_judged" in caplog.text


def test_many_bad_records_page_and_fail_no_task(caplog: pytest.LogCaptureFixture) -> None:
    instance = SimpleNamespace(dag_id="compact_slices", task_id="compact", run_id="r", log_url="")
    page_records({"task_instance": instance}, ["plays: 7 of 9 records were bad (not_json 7)"])
    assert "records_bad dag=compact_slices" in caplog.text
    assert "7 of 9 records were bad" in caplog.text
    assert "docs/runbook.md#many-records-are-bad" in caplog.text


def test_a_channel_that_fails_hides_neither_the_failure_nor_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SLICEWISE_ALERT_WEBHOOK", "http://127.0.0.1:1/secret-path")
    instance = SimpleNamespace(dag_id="compact_slices", task_id="compact", run_id="r", log_url="")
    page({"task_instance": instance, "exception": ValueError("broken")})
    assert "task_failed dag=compact_slices" in caplog.text
    assert "docs/runbook.md#compaction-fails" in caplog.text
    assert "alert_not_delivered" in caplog.text
    assert "secret-path" not in caplog.text


def test_a_missed_deadline_is_an_event_with_its_runbook_section(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = {"dag_id": "compact_slices", "dag_run_id": "r1"}
    asyncio.run(
        page_deadline(
            {"dag_run": run, "deadline": {"id": "1", "deadline_time": "2026-11-21T10:55:00"}}
        )
    )
    assert "deadline_missed dag=compact_slices" in caplog.text
    assert "docs/runbook.md#compaction-fails" in caplog.text
