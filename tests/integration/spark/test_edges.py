"""A loss is never passed over in silence: snapshots that data sets name, offset vectors by time,
accepted gaps of the log."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.errors import BadRequest, DataLoss
from slicewise.features.plan.deployment import Deployment
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.spark.lake.maintain import Maintenance
from slicewise.stores.lake.archive import load, scan_events
from slicewise.stores.lake.gaps import accepted
from slicewise.stores.lake.policy import Policies
from slicewise.stores.lake.records import append, records
from slicewise.stores.lake.registry import entries
from slicewise.stores.lake.schemas import COMMITTED, RUNS
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.training.archiving.offline import IcebergArchive, Offline
from slicewise.training.dataset import build_training_set, rebuild
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.support.platform.lake import Lake, lake

pytestmark = pytest.mark.timeout(1200)

USERS = ("ada", "bob", "eve")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("edges")) as running:
        yield running


def over(hours_ago: int) -> int:
    """Start of an hour that is over."""
    return (time.time_ns() // 1000 // HOUR_US - hours_ago) * HOUR_US


def events(start_us: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "user_id": USERS[i % 3],
            "song_id": f"s{i % 5}",
            "n": i,
            "played": start_us + i * 17_000_000,
        }
        for i in range(count)
    ]


def command(
    shared: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> Any:
    """Runs `slicewise <words> --json`; gives what it prints, or what it says on standard error
    where it fails."""
    for name, value in shared.settings.to_env().items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    code = main([*words, "--json"])
    shown = capsys.readouterr()
    return json.loads(shown.out) if code == 0 else shown.err


def test_a_loss_is_shown_accepted_by_a_person_recorded_and_flagged(
    shared: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = shared.topic("lost")
    deployment = shared.deploy(view(shared, "lost"))
    unit = deployment.units[0]
    seen = events(over(2), 30)
    shared.produce("lost", seen)
    shared.apply(deployment, "lost")
    with shared.context() as context:
        compact(context, Request(over(2) // HOUR_US))
        store = context.store
        store.run(
            MarkReady(
                unit,
                context.metadata.starts[unit.storage_fingerprint],
                {unit.view: [unit.storage_fingerprint]},
            )
        )
    assert command(shared, monkeypatch, capsys, "hole")["lost"] == 0

    # retention passes while the archive stands still: 20 of the next 30 go, the stream has applied
    # them
    shared.produce("lost", events(over(1), 30))
    shared.apply(deployment, "lost")
    log.delete_records("lost", {0: 50})
    for _ in range(2):
        with (
            shared.context() as context,
            pytest.raises(DataLoss, match=r"20 offsets are gone.*(?s:.*)slicewise hole"),
        ):
            context.archive("lost")

    shown = command(shared, monkeypatch, capsys, "hole", "--source", "lost")
    [planned] = shown["sources"]
    assert shown["lost"] == 20
    assert [(lost["first"], lost["end"]) for lost in planned["missing"]] == [(30, 50)]
    accept = ("hole", "--accept", planned["digest"], "--by", "Ada", "--why", "the disk of a broker")
    assert "no loss of digest" in command(
        shared, monkeypatch, capsys, "hole", "--accept", "0" * 12, *accept[3:]
    )
    assert "nobody says why" in command(shared, monkeypatch, capsys, *accept[:5], "--why", " ")
    with shared.context() as context, pytest.raises(DataLoss, match="20 offsets are gone"):
        context.archive("lost")  # nothing was accepted so far

    done = command(shared, monkeypatch, capsys, *accept)
    assert (done["lost"], done["seq"], done["by"]) == (20, 2, "Ada")
    assert "no loss of digest" in command(shared, monkeypatch, capsys, *accept), "once"

    with shared.context() as context:
        report = compact(context, Request(over(1) // HOUR_US)).to_json()
        assert report["archived"][0]["seq"] == 3
        table = load(context.catalog, "lost")
        assert table is not None
        source = context.deployment.source("lost")
        assert scan_events(table, source).num_rows == 40
        [accepted_gap] = accepted(table)
        assert (accepted_gap.first, accepted_gap.end, accepted_gap.by, accepted_gap.why) == (
            30,
            50,
            "Ada",
            "the disk of a broker",
        )
        assert accepted_gap.from_us <= over(1) < accepted_gap.until_us
        assert {
            row["outcome"] for row in records(context.catalog, RUNS) if row["job"] == "hole"
        } == {"accepted"}

        archive = IcebergArchive(context.catalog, shared.settings.kafka_bootstrap, shared.clock)
        spine = [{"user_id": user, "at": at} for user in USERS for at in (over(1), over(0))]
        built = build_training_set(
            context.deployment, archive, spine, ["lost_by_user:plays_1h"], "event_time"
        )
        assert dict(built.manifest.incomplete) == {"lost_by_user:plays_1h": 6}, (
            "lateness reaches back for days"
        )
    # as a user's process reads it; serving lives in the platform's environment
    script = (
        "import json, sys, slicewise as sw\n"
        "with sw.Client(sys.argv[1]) as client:\n"
        "    answer = client.get(['lost_by_user:plays_1h'], {'user_id': 'ada'})\n"
        "print(json.dumps([answer.flags, answer.incomplete]))\n"
    )
    process = [str(shared.settings.platform_python), "-c", script, shared.settings.redis_url]
    printed = subprocess.run(process, capture_output=True, text=True, timeout=60, check=True).stdout
    assert json.loads(printed) == [["incomplete"], ["lost_by_user:plays_1h"]]


def view(shared: Lake, name: str) -> sw.FeatureView:
    features = [sw.Feature("plays", sw.count(), windows=["1h"])]
    return sw.FeatureView(
        f"{name}_by_user", source=shared.source(name), entity=["user_id"], features=features
    )


def test_a_data_set_is_built_again_after_maintenance_and_its_snapshot_stays(
    shared: Lake,
) -> None:
    shared.topic("kept")
    shared.deploy(view(shared, "kept"))
    with shared.context() as context:
        shared.produce("kept", events(over(3), 60))
        context.archive("kept")
        archive = IcebergArchive(context.catalog, shared.settings.kafka_bootstrap, shared.clock)
        spine = [{"user_id": user, "at": over(2)} for user in USERS]
        built = build_training_set(
            context.deployment, archive, spine, ["kept_by_user:plays_1h"], "event_time"
        )
        assert [row["kept_by_user:plays_1h"] for row in built.to_arrow().to_pylist()] == [
            20,
            20,
            20,
        ]
        Offline(context.deployment, archive, shared.clock).record(built.manifest, "kept")
        named = built.manifest.archived()["kept"].snapshot_id
        others = []
        for _ in range(3):
            shared.produce("kept", events(over(3), 30))
            others.append(context.archive("kept").state.snapshot_id)

        policies = Policies(tables={"log.*": {"keep_snapshots": 1, "keep_days": 0}})
        of = (shared.session, shared.settings, context.catalog, shared.clock)
        planned = Maintenance(*of, dry_run=True, policies=policies, only=["log.kept"]).run()
        report = Maintenance(*of, policies=policies).run()
        (plan,) = planned["tables"]
        assert plan["held"] == 1
        assert plan["expired_snapshots"] == 2, "all but the newest, and the one that is named"
        table = load(context.catalog, "kept")
        assert table is not None
        left = {snapshot.snapshot_id for snapshot in table.snapshots()}
        assert named in left
        assert others[0] not in left, "what nothing names goes"
        assert (
            next(entry for entry in report["tables"] if entry["table"] == "log.kept")["held"] == 1
        )
        log = f"{shared.settings.catalog_name}.log.kept"
        text = f"SELECT count(*) AS n FROM {log} VERSION AS OF {named} WHERE kind = 'good'"
        seen = shared.session.sql(text).collect()
        assert seen[0].n == 60, "and it can be read"
        again = rebuild(archive, built.manifest, spine, "test")
        assert again.to_arrow().equals(built.to_arrow())


def test_a_dry_run_says_what_a_run_then_does_and_changes_nothing(shared: Lake) -> None:
    shared.topic("planned")
    shared.deploy(view(shared, "planned"))
    with shared.context() as context:
        for _ in range(5):
            shared.produce("planned", events(over(3), 12))
            context.archive("planned")
        table = load(context.catalog, "planned")
        assert table is not None
        stray = f"{table.location()}/data/stray.parquet"
        with table.io.new_output(stray).create() as file:
            file.write(b"of a writer that died")
        four_days_ago = time.time() - 4 * 86_400
        os.utime(stray.removeprefix("file://"), (four_days_ago, four_days_ago))
        now_us = shared.clock.now_us()
        ages = {"old": 40, "young": 3}
        append(
            context.catalog,
            RUNS,
            [
                {"run_id": run, "job": "planned", "time": now_us - days * DAY_US}
                for run, days in ages.items()
            ],
        )
        policies = Policies(
            {"keep_snapshots": 2}, {"log.*": {"keep_days": 0}, "ops.runs": {"rows_days": 30}}
        )

        def maintain(**how: Any) -> dict[str, dict[str, Any]]:
            report = Maintenance(
                shared.session,
                shared.settings,
                context.catalog,
                shared.clock,
                only=["log.planned", "ops.runs"],
                policies=policies,
                **how,
            ).run()
            return {row["table"]: row for row in report["tables"]}

        def stands() -> list[Any]:
            named = [context.catalog.load_table(name) for name in ("log.planned", "ops.runs")]
            return [*(one.metadata_location for one in named), table.io.new_input(stray).exists()]

        before = stands()
        plan = maintain(dry_run=True)
        assert stands() == before
        assert plan["ops.runs"]["rows_deleted"] == 1
        done = maintain()
        log, planned = done["log.planned"], plan["log.planned"]
        for figure in ("rewritten_data_files_count", "orphans", "orphan_bytes", "files_before"):
            assert log[figure] == planned[figure], figure
        assert planned["rewritten_data_files_count"] >= 4
        assert (planned["orphans"], planned["orphan_bytes"]) == (1, 21)
        assert log["files_after"] < log["files_before"]
        assert log["bytes_after"] < log["bytes_before"], "small files cost more bytes"
        # the rewrite's own snapshots push others out, which the plan of the table as it stood
        # does not count
        assert 0 < planned["expired_snapshots"] <= log["expired_snapshots"]
        assert log["snapshots_after"] == 2
        assert done["ops.runs"]["rows_deleted"] == 1
        left = [row["run_id"] for row in records(context.catalog, RUNS) if row["job"] == "planned"]
        assert left == ["young"]
        again = maintain()["log.planned"]
        assert (again["rewritten_data_files_count"], again["orphans"]) == (0, 0)
        with pytest.raises(BadRequest, match=r"log\.plannedd"):
            Maintenance(
                shared.session,
                shared.settings,
                context.catalog,
                shared.clock,
                only=["log.plannedd"],
            ).run()


def test_a_compaction_enters_the_deployment_once_with_its_definitions(shared: Lake) -> None:
    shared.topic("entered")
    deployment = shared.deploy(view(shared, "entered"))
    for _ in range(2):
        with shared.context() as context:
            compact(context, Request(over(3) // HOUR_US))
            entered = [of for of in entries(context.catalog) if of.of.digest == deployment.digest]
            version = context.metadata.deployment_version
        assert [of.of.version for of in entered] == [version]
        assert Deployment.from_json(entered[0].manifest) == deployment


def test_committed_offsets_are_recorded_by_time_and_a_rerun_records_nothing(shared: Lake) -> None:
    shared.topic("timed")
    shared.topic("other")
    deployment = shared.deploy(view(shared, "timed"), view(shared, "other"))
    topic = shared.topic("timed").topic_id("timed")

    def rows() -> list[dict[str, Any]]:
        with shared.context() as context:
            results = [
                row for row in records(context.catalog, COMMITTED) if row["source"] == "timed"
            ]
        return sorted(results, key=lambda row: row["time"])

    def run() -> None:
        with shared.context() as context:
            compact(context, Request(over(3) // HOUR_US))

    run()
    shared.produce("timed", events(over(3), 30), partition=1)
    run()  # archived, not applied: the committed offsets stand where it stood
    assert [OffsetVector.unpack(row["cover"]).get((topic, 1)) for row in rows()] == [0]
    shared.apply(deployment, "timed")
    run()
    run()
    result = rows()
    assert [OffsetVector.unpack(row["cover"]).get((topic, 1)) for row in result] == [0, 30]
    assert {
        topic_partition[0]
        for row in result
        for topic_partition in OffsetVector.unpack(row["cover"])
    } <= {topic}, "no other source's partitions"
    with shared.store() as store:
        metadata = store.run(ReadMetadata())
    assert {(row["epoch"], row["generation"]) for row in result} == {
        (metadata.deployment_version, metadata.store_id)
    }
