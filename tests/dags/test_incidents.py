"""One failure is one page, whoever meets it, and one word that it is over."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from pagerduty import EventsApiV2Client
from slicewise_airflow import alerts, record
from slicewise_airflow.alerts import NotWell, page, page_parts, page_records, settle
from slicewise_airflow.channels import send
from slicewise_airflow.commands import JobRefused
from slicewise_airflow.stream import StreamHealth
from slicewise_airflow.supervise import Supervisor

from slicewise.errors import SettingsError
from slicewise.lifecycle.checking import CheckNotMade, CheckRed
from slicewise.lifecycle.health.alerts import Alert, Channel, matter_alert
from slicewise.lifecycle.reports import JobFailed
from slicewise.local.servers import drivers
from slicewise.local.servers.inbox import Inbox
from slicewise.settings import Settings
from tests.support.platform.receiver import Receiver

Kind = Literal["smtp", "slack"]
PROVIDERS = "airflow.providers"
HOOKS = {
    "slack": f"{PROVIDERS}.slack.hooks.slack_webhook.SlackWebhookHook",
    "pagerduty": f"{PROVIDERS}.pagerduty.hooks.pagerduty_events.PagerdutyEventsHook",
}


def task(dag: str = "compact_slices", name: str = "compact", run: str = "r", tries: int = 3) -> Any:
    return SimpleNamespace(
        dag_id=dag, task_id=name, run_id=run, log_url="http://airflow/log", try_number=tries
    )


def failed(instance: Any, error: BaseException | None = None, **params: object) -> None:
    page({"task_instance": instance, "exception": error or ValueError("broken"), "params": params})


def succeeded(instance: Any) -> None:
    settle({"task_instance": instance})


def test_runs_that_fail_alike_page_once_and_the_first_that_succeeds_says_that_it_is_over(
    receiver: Receiver,
) -> None:
    for run in ("r1", "r2", "r3"):
        failed(task(run=run))
    for run in ("r4", "r5"):
        succeeded(task(run=run))
    opened, over = receiver.posts
    assert (opened["event"], opened["run"], opened["state"]) == ("task_failed", "r1", "open")
    assert opened["attempts"] == "3 times, and each failed"
    assert opened["next_step"].startswith("read the task's log")
    assert (over["event"], over["state"], over["key"]) == ("incident_over", "over", opened["key"])
    assert "met 3 times: broken" in over["error"]


def test_what_another_task_does_ends_nothing(receiver: Receiver) -> None:
    failed(task())
    succeeded(task("sweep_expired", "sweep"))
    assert receiver.events() == ["task_failed"]


def test_tasks_that_fail_for_a_server_are_one_incident_of_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "store_away", lambda _: "the store: it does not answer")
    monkeypatch.setattr(drivers, "store_ill", lambda _: "the store: it does not answer")
    failed(task())
    failed(task("sweep_expired", "sweep"))
    failed(task("ingest_stream", "watch"), NotWell({"store": ["it cannot be asked"]}))
    (post,) = receiver.posts
    assert (post["event"], post["key"], post["severity"]) == ("store_not_well", "store", "critical")
    assert "it does not answer; compact_slices.compact failed: broken" in post["error"]
    succeeded(task("build_training_set", "build"))
    assert len(receiver.posts) == 1, "a task that needs no store proves nothing of it"
    monkeypatch.setattr(drivers, "store_away", lambda _: "")
    succeeded(task())
    assert len(receiver.posts) == 1, "it answers, and has lost events"
    monkeypatch.setattr(drivers, "store_ill", lambda _: "")
    succeeded(task())
    succeeded(task("sweep_expired", "sweep"))
    assert receiver.events() == ["store_not_well", "incident_over"]


def test_a_task_that_fails_for_the_broker_belongs_to_its_incident(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "broker_away", lambda _: "the broker: h:1: refused")
    alerts.page_broker(task("ingest_stream", "watch"), drivers_notice("down", "away for 30 s"))
    failed(task())
    assert receiver.events() == ["broker_away"]
    monkeypatch.setattr(drivers, "broker_away", lambda _: "")
    alerts.page_broker(task("ingest_stream", "watch"), drivers_notice("over", "it answers again"))
    succeeded(task())
    assert receiver.events() == ["broker_away", "broker_back"]


def drivers_notice(kind: Any, text: str) -> Any:
    return SimpleNamespace(kind=kind, text=text)


def test_an_error_that_another_try_would_meet_again_is_nobody_elses(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "store_away", lambda _: "the store: it does not answer")
    failed(task(), JobRefused("a definition is wrong"))
    assert receiver.events() == ["task_failed"]


def test_a_page_that_no_channel_took_goes_out_the_next_time(receiver: Receiver) -> None:
    receiver.code = 500
    failed(task())
    receiver.code = 200
    failed(task())
    failed(task())
    assert receiver.events() == ["task_failed"]


def test_an_inbox_that_cannot_be_changed_keeps_no_alert_back(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Settings.load().state_dir
    folder.mkdir()
    (folder / "theirs").touch()
    failed(task())
    assert receiver.events() == ["task_failed"]
    assert "incident_not_kept" in caplog.text


def test_a_check_that_is_green_ends_a_red_one_and_a_red_one_ends_one_that_was_not_made(
    receiver: Receiver,
) -> None:
    check = task("check_consistency", "check")
    failed(check, CheckNotMade("the check could not be made: no entities"))
    failed(check, CheckRed("the check is red: 3 values differ"))
    assert sorted(receiver.events()) == ["check_not_made", "check_red", "incident_over"]
    succeeded(check)
    succeeded(check)
    assert receiver.events()[3:] == ["incident_over"]
    assert receiver.posts[-1]["key"] == "check_red"


def test_a_part_whose_driver_is_known_to_be_lost_is_the_same_incident(receiver: Receiver) -> None:
    watch = task("ingest_stream", "watch")
    alerts.page_driver(watch, "tail", "the real-time lane", drivers_notice("down", "it died"))
    page_parts({"task_instance": watch}, {"tail": ["no heartbeat"], "emission": ["it gave up"]})
    assert receiver.events() == ["driver_lost", "emission_lost"]


def test_what_follows_from_a_servers_absence_is_no_incident_of_its_own(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = {"task_instance": task("ingest_stream", "watch")}
    assert not alerts.aftermath(60)
    page_parts(watch, {"store": ["it cannot be asked"]})
    page_parts(watch, {"probes": ["p99 58,948 ms"], "emission": ["it gave up"]})
    alerts.settle_causes(["store"])
    page_parts(watch, {"probes": ["p99 58,948 ms"]})
    assert alerts.aftermath(60)
    assert receiver.events() == ["store_not_well", "emission_lost", "incident_over"]
    assert not alerts.aftermath(0)
    monkeypatch.setattr(alerts, "PROBED_S", 0.0)
    page_parts(watch, {"probes": ["p99 58,948 ms"]})
    assert receiver.events()[3:] == ["answers_late"]


def test_a_run_that_failed_after_a_servers_absence_pages_where_the_next_one_fails_too(
    receiver: Receiver,
) -> None:
    began = SimpleNamespace(start_date=datetime.now(UTC) - timedelta(minutes=1))
    alerts.page_broker(task("ingest_stream", "watch"), drivers_notice("down", "away for 30 s"))
    alerts.page_broker(task("ingest_stream", "watch"), drivers_notice("over", "it answers again"))
    compact, check = task(), task("check_consistency", "check")
    not_made = CheckNotMade("the check could not be made: the archive")
    for instance, error in ((compact, ValueError("broken")), (check, not_made)):
        page({"task_instance": instance, "exception": error, "dag_run": began})
    assert receiver.events() == ["broker_away", "broker_back"]
    build = task("build_training_set", "build")
    page({"task_instance": build, "exception": ValueError("broken"), "dag_run": began})
    page({"task_instance": compact, "exception": JobRefused("wrong"), "dag_run": began})
    assert receiver.events()[2:] == ["task_failed", "task_failed"]
    later = SimpleNamespace(start_date=datetime.now(UTC) + timedelta(seconds=1))
    page({"task_instance": check, "exception": not_made, "dag_run": later})
    assert receiver.events()[4:] == ["check_not_made"]


def test_a_run_that_began_in_an_absence_that_lasts_hides_nothing(receiver: Receiver) -> None:
    page_parts({"task_instance": task("ingest_stream", "watch")}, {"store": ["it lost events"]})
    later = SimpleNamespace(start_date=datetime.now(UTC) + timedelta(seconds=1))
    page({"task_instance": task(), "exception": ValueError("broken"), "dag_run": later})
    assert receiver.events() == ["store_not_well", "task_failed"]


def test_a_missed_deadline_is_over_with_the_last_task_of_a_run(receiver: Receiver) -> None:
    late = {
        "dag_run": {"dag_id": "compact_slices", "dag_run_id": "r"},
        "deadline": {"deadline_time": "noon"},
    }
    asyncio.run(alerts.page_deadline(late))
    first = SimpleNamespace(downstream_task_ids={"announce"})
    settle({"task_instance": task(), "task": first})
    assert receiver.events() == ["deadline_missed"]
    last = SimpleNamespace(downstream_task_ids=set())
    settle({"task_instance": task(name="announce"), "task": last})
    assert receiver.events() == ["deadline_missed", "incident_over"]


def test_models_that_fail_to_train_are_an_incident_each(receiver: Receiver) -> None:
    instance = task("train_model", "train")
    for model in ("delay", "delay.v2", "delay"):
        failed(instance, model=model)
    first, second = receiver.posts
    assert first["key"] == "train_model.train.delay"
    assert second["key"] == "train_model.train.delay.v2"
    settle({"task_instance": instance, "params": {"model": ""}})
    settle({"task_instance": instance, "params": {"model": "del"}})
    assert len(receiver.posts) == 2
    settle({"task_instance": instance, "params": {"model": " delay "}})
    assert receiver.posts[2]["key"] == first["key"]
    assert [receiver.posts[2]["event"], len(receiver.posts)] == ["incident_over", 3]


def test_a_run_without_a_model_that_fails_is_an_incident_of_its_task(receiver: Receiver) -> None:
    instance = task("train_model", "begin")
    failed(instance, model="")
    assert receiver.posts[0]["key"] == "train_model.begin"
    settle({"task_instance": instance, "params": {"model": ""}})
    assert receiver.events() == ["task_failed", "incident_over"]


def test_bad_records_of_a_source_are_over_with_its_next_good_ones(receiver: Receiver) -> None:
    reasons = ["plays: 7 of 9 records were bad", "songs: 1 of 9 records were bad"]
    page_records({"task_instance": task()}, reasons)
    page_records({"task_instance": task(run="r2")}, reasons[:1])
    alerts.settle_records(["songs"])
    assert receiver.events() == ["records_bad", "records_bad", "incident_over"]
    assert receiver.posts[-1]["key"] == "records.songs"


def test_an_alert_about_a_view_or_a_source_names_its_owner(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "owners", lambda: {"listening": "team-music", "plays": "team-log"})
    failed(task("backfill_view", "backfill"), view="listening")
    failed(task("compact_slices", "compact"))
    page_records({"task_instance": task()}, ["plays: 7 of 9 records were bad"])
    assert [post["owner"] for post in receiver.posts] == ["team-music", "slicewise", "team-log"]


def test_a_stream_that_is_stopped_on_purpose_ends_what_was_wrong_with_it(
    receiver: Receiver,
) -> None:
    watch = {"task_instance": task("ingest_stream", "watch")}
    page_parts(watch, {"stream": ["silent"], "store": ["it lost events"]})
    with pytest.raises(AirflowSkipException):
        StreamHealth(task_id="watch", for_s=1).done(watch, {"outcome": "stopped", "looks": 1})
    assert receiver.events() == ["task_failed", "store_not_well", "incident_over"]


def tended(recovered: set[Any], prepare: Callable[[Supervisor], None] = lambda _: None) -> None:
    async def tend() -> None:
        supervisor = Supervisor(Settings.load(), {})
        prepare(supervisor)
        supervisor.tend(recovered)
        await supervisor.end()

    asyncio.run(tend())


def test_a_watch_ends_the_incidents_of_parts_that_are_well(receiver: Receiver) -> None:
    watch = {"task_instance": task("ingest_stream", "watch")}
    page_parts(watch, {"stream": ["silent"], "probes": ["late"]})
    tended(set())
    assert len(receiver.posts) == 2
    tended({"stream"})
    tended({"stream"})
    assert receiver.events() == ["task_failed", "answers_late", "incident_over"]
    assert receiver.posts[-1]["key"] == "stream"


def test_a_watch_pages_again_for_what_lasts(receiver: Receiver) -> None:
    begun = time.monotonic()
    alerts.page_broker(task("ingest_stream", "watch"), drivers_notice("down", "away for 30 s"))

    def away(supervisor: Supervisor) -> None:
        supervisor._absence = SimpleNamespace(reason="away", notified=True)  # type: ignore[assignment]

    tended({"stream"}, away)
    assert receiver.events() == ["broker_away"], "it is not due"
    Inbox(Settings.load()).change(
        lambda before, _: (tuple(replace(one, paged_us=1) for one in before), ())
    )
    tended({"stream"})
    assert receiver.events() == ["broker_away"], "this watch did not see it last"
    tended({"stream"}, away)
    tended({"stream"}, away)
    assert receiver.events() == ["broker_away", "broker_away"]
    lasted = re.search(r"\(open for (\d+) s, met once\)", receiver.posts[1]["error"])
    assert lasted is not None
    assert int(lasted[1]) <= time.monotonic() - begun


def test_a_pager_takes_an_incident_by_its_key_and_resolves_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.reply = {"dedup_key": "taken"}
    # in place of a property that takes https alone
    monkeypatch.setattr(EventsApiV2Client, "url", "")
    monkeypatch.setattr(EventsApiV2Client, "default_base_url", receiver.url.rstrip("/"))
    monkeypatch.delenv("SLICEWISE_ALERT_WEBHOOK")
    monkeypatch.setenv("SLICEWISE_ALERT_PAGERDUTY_CONN", "pager")
    connection = {"conn_type": "pagerduty_events", "password": "an integration key"}
    monkeypatch.setenv("AIRFLOW_CONN_PAGER", json.dumps(connection))
    ensure = task("ingest_stream", "ensure_running")
    failed(ensure)
    failed(ensure)
    succeeded(ensure)
    first, last = receiver.posts
    assert (first["event_action"], last["event_action"]) == ("trigger", "resolve")
    assert first["dedup_key"] == last["dedup_key"] == "ingest_stream.ensure_running"
    assert (first["payload"]["severity"], last["payload"]["severity"]) == ("critical", "info")
    assert first["payload"]["custom_details"]["owner"] == "slicewise"
    assert "Next: read the task's log" in first["payload"]["summary"]


def test_a_page_that_no_channel_took_is_told_with_the_reason_until_one_takes_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = os.environ["SLICEWISE_ALERT_WEBHOOK"]
    monkeypatch.delenv("SLICEWISE_ALERT_WEBHOOK")
    monkeypatch.setenv("SLICEWISE_ALERT_SLACK_CONN", "on-call")
    failed(task())
    (incident,) = Inbox(Settings.load()).read()
    reason = "SLICEWISE_ALERT_SLACK_CONN: Airflow has no connection on-call"
    assert (incident.undelivered, incident.paged_us, incident.pages) == (reason, 0, 0)
    assert f'alert_not_delivered kind=slack error="{reason}"' in caplog.text
    monkeypatch.setenv("SLICEWISE_ALERT_WEBHOOK", url)
    failed(task())
    (incident,) = Inbox(Settings.load()).read()
    assert (incident.undelivered, incident.pages) == ("", 1)
    assert receiver.events() == ["task_failed"]


@pytest.mark.parametrize(
    ("error", "error_words", "next_step"),
    [
        (
            SettingsError("'foo' is no usable address", next_step="correct the variable"),
            "'foo' is no usable address",
            "correct the variable",
        ),
        (
            JobRefused("job 'backfill' failed: no view 'x'", next_step="slicewise plan lists them"),
            "job 'backfill' failed: no view 'x'",
            "slicewise plan lists them",
        ),
        (
            JobFailed("job 'compact' failed: OSError: [Errno 28] No space left on device"),
            "job 'compact' failed: OSError: [Errno 28] No space left on device",
            "make room on the disk, then clear the task: nothing of it is half done",
        ),
    ],
    ids=["a wrong setting", "a wrong parameter", "a full disk"],
)
def test_a_page_says_what_was_wrong_and_what_mends_it(
    error: Exception, error_words: str, next_step: str, receiver: Receiver
) -> None:
    page({"exception": error, "task_instance": task()})
    (post,) = receiver.posts
    assert (post["error"], post["next_step"]) == (error_words, next_step)


def test_the_inbox_has_all_of_it() -> None:
    failed(task())
    (incident,) = Inbox(Settings.load()).read()
    assert incident.to_json()["state"] == "open"
    succeeded(task())
    (incident,) = Inbox(Settings.load()).read()
    assert incident.to_json()["state"] == "over"


# ------------------------------------------------------------ what channels get
def unmet(*reasons: str) -> Alert:
    return matter_alert("expectations_warning", "check_expectations", "expect", "r", list(reasons))


@pytest.mark.parametrize("kind", ["smtp", "slack"])
def test_a_value_of_an_event_is_text_in_a_mail_and_in_a_chat(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def by_mail(notifier: Any, _: object) -> None:
        given.append(notifier.html_content)

    def by_chat(_: object, *, text: str) -> Any:
        given.append(text)
        return SimpleNamespace(status_code=200, body="ok")

    monkeypatch.setattr(f"{PROVIDERS}.smtp.notifications.smtp.SmtpNotifier.notify", by_mail)
    monkeypatch.setattr(f"{HOOKS['slack']}.__init__", lambda _, **__: None)
    monkeypatch.setattr(f"{HOOKS['slack']}.send", by_chat)
    value = "3 unexpected of 9, as <!channel> <a href='http://evil'>Runbook</a>"
    send(Channel(kind, "x"), unmet(value))
    (text,) = given
    assert "<" not in text
    assert "&lt;!channel&gt;" in text, "it is shown as it is"


def test_a_page_fits_into_a_pagers_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def event(_: object, **words: Any) -> str:
        given.append(words)
        return "taken"

    monkeypatch.setattr(f"{HOOKS['pagerduty']}.__init__", lambda _, **__: None)
    monkeypatch.setattr(f"{HOOKS['pagerduty']}.send_event", event)
    long = unmet(*(f"source_{n}: events wait, and no batch ended for 130 s" for n in range(30)))
    assert len(long.text()) > 1024
    send(Channel("pagerduty", "x"), long)
    (words,) = given
    assert len(words["summary"]) <= 1024
    assert long.text().startswith(words["summary"][:1000])
    assert words["custom_details"] == long.fields()
