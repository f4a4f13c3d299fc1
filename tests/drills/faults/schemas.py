"""A source's schema changes in place while drivers, serving, a compaction and producers of old and
new shape go on.

What each record is, the oracle tells once more, by the schema of its offset (`judge.read`). The
offsets are those that the platform recorded; each lies between where the log ended before its
deployment and after it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from slicewise.features.plan.changes.explain import schema_history
from slicewise.lifecycle.reports import bad_shares
from slicewise.local.servers import stream
from slicewise.offsets.token import decode_all
from slicewise.offsets.vector import TopicPartition
from slicewise.stores.lake.archive import archive_state, load
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.log.topics import KafkaLog
from slicewise.training.archiving.offline import Offline
from tests.drills.faults.changes import define, request_all
from tests.drills.faults.compactions import Compaction, late
from tests.drills.judging.judge import read, source_of, with_training
from tests.drills.stage.run import Run
from tests.drills.stage.scene import MICROBATCH, PROJECT, SOURCE, TOPIC, Scene
from tests.e2e.compare import Count
from tests.e2e.payments import BAD, Produced

_TAGS = '        "tags": "array<string>",\n'
ADDED = _TAGS + '        "fee": "float",\n        "born": "date",\n'
WIDER = _TAGS + '        "fee": "double",\n'
"""The second: a float is a double now, and a column that no view reads is gone."""
NEW_VIEWS = """

fees_by_card = sw.FeatureView(
    "fees_by_card",
    source=payments,
    entity=["card"],
    slice="10s",
    features=[
        sw.Feature("payments", sw.count(), windows=["2m", "1h"]),
        sw.Feature("fees", sw.count("fee"), windows=["2m", "1h"]),
        sw.Feature("paid", sw.sum("fee"), windows=["2m", "1h"]),
        sw.Feature("least", sw.min("fee"), windows=["2m", "1h"]),
        sw.Feature("most", sw.max("fee"), windows=["2m", "1h"]),
        sw.Feature("latest", sw.last_k("fee", k=3), windows=["2m", "1h"]),
    ],
)

fees_exactly = sw.FeatureView(
    "fees_exactly",
    source=payments,
    entity=["card"],
    features=[
        sw.Feature("paid", sw.sum("fee"), windows=[sw.exact_range("2m"), sw.rows(20)]),
        sw.Feature("latest", sw.last_k("fee", k=3), windows=[sw.exact_range("2m"), sw.rows(20)]),
    ],
)
"""
NEW = ("fees_by_card", "fees_exactly")
_SHAPES = {
    "new": 60,
    "old": 25,
    "fee as text": 4,
    "fee beyond a float": 4,
    "born as number": 3,
    "born as no day": 2,
}
_OTHER_SHOP = "harbour"
REASONS = {"wrong_type:fee", "out_of_range:fee", "wrong_type:born", "bad_date:born"}
_SUPERSEDED = ("another schema", "no recorded offsets yet", "is not deployed on this store")
"""Reasons for which a job may end that began before a deployment: it is tried again, by the new
one."""
_TRAINED = 60
_SAMPLE = "20"
_BUILT_S = 600.0


def changed_project(folder: Path, schema: str) -> Path:
    """The drills' project with these columns, and views that read `fee`."""
    text = (PROJECT / "features.py").read_text(encoding="utf-8")
    assert text.count(_TAGS) == 1, f"the project no longer has {_TAGS}"
    folder.mkdir(exist_ok=True)
    (folder / "features.py").write_text(text.replace(_TAGS, schema) + NEW_VIEWS, encoding="utf-8")
    (folder / "slicewise.toml").write_text(
        (PROJECT / "slicewise.toml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    return folder


def shaped(rng: random.Random, made: Produced) -> Produced:
    """The record as one of the producers sends it: what is good by one schema may be bad by
    another."""
    if made.value in BAD:
        return made
    event = json.loads(made.value)
    shape = rng.choices([*_SHAPES], [*_SHAPES.values()])[0]
    if shape == "old":
        del event["fee"], event["born"]
    elif shape == "fee as text":
        event["fee"] = "0.25"
    elif shape == "fee beyond a float":
        event["fee"] = 1e300
    elif shape == "born as number":
        event["born"] = 1970
    elif shape == "born as no day":
        event["born"] = "soon"
    if rng.random() < 0.1:
        event["shop"] = _OTHER_SHOP  # a value that the column never had
    return replace(made, value=json.dumps(event).encode())


def schema_changed(run: Run) -> None:
    """Columns are added, one is widened and one removed, and all goes back; a compaction archives
    meanwhile."""
    scene, feed = run.scene, run.scene.feed
    home = scene.platform.settings.state_dir.parent
    before = {name: scene.tree(name)[0] for name in scene.drivers}
    feed.shape = shaped
    try:
        run.some(3, 5)
        added = changed_project(home / "added", ADDED)
        what = "column 'fee' (float) is added; column 'born' (date) is added"
        _take_offsets(run, added, what, new="stored from now on")
        _rebuilt(scene)
        request_all(run)
        late(run)
        job = Compaction.of(scene)
        run.some(4, 12)
        wider = changed_project(home / "wider", WIDER)
        what = "column 'born' is removed; column 'fee' is double, was float"
        _take_offsets(
            run,
            wider,
            what,
            new="the source's fee changed: built again from the archive, 503 until then",
        )
        if job.over() is None:
            output = job.log.read_text(encoding="utf-8")
            assert any(phrase in output for phrase in _SUPERSEDED), (
                f"it failed for another reason:\n{output[-3_000:]}"
            )
        _rebuilt(scene)
        request_all(run)
        late(run)
        scene.await_applied()
        _check_alerts(scene, Compaction.of(scene).done())
        _archived(scene)
        _trained(run)
        result = scene.platform.job("check", "--sample", _SAMPLE)
        print(f"the check: {result}"[:600], flush=True)
        _take_offsets(run, PROJECT, "column 'fee' is removed", new=None)
        request_all(run)
    finally:
        feed.shape = None
    for name, birth in before.items():
        log = (scene.settings[name].state_dir / "logs" / f"{name}.log").read_text(encoding="utf-8")
        print(*(line for line in log.splitlines() if "interrupted" in line), sep="\n", flush=True)
        assert scene.tree(name)[0] == birth, f"the driver {name} ended"


def _rebuilt(scene: Scene) -> None:
    """Builds the history of what is new."""
    try:
        scene.platform.cli("rebuild", "--here", timeout_s=_BUILT_S)
    finally:
        log = (scene.platform.settings.state_dir / "logs" / "backfill.log").read_text(
            encoding="utf-8"
        )
        print(
            *(line for line in log.splitlines() if "unit_ready" in line or "failed" in line),
            sep="\n",
            flush=True,
        )


def _take_offsets(run: Run, project: Path, what: str, new: str | None) -> None:
    """Deploys it; `plan` says before what is read otherwise, and what is built for it. new: of what
    reads `fee`."""
    scene = run.scene
    plan = json.loads(scene.platform.cli("plan", str(project), "--json").stdout)
    for change in plan["changes"]:
        gone = ("removed", "no longer served")
        kind, words = (
            ("definition", what)
            if change["view"] not in NEW
            else gone
            if new is None
            else ("new", new)
        )
        assert change["change"] == kind, change
        assert words in change["reason"], change
    begun, least = time.monotonic(), _ends(scene)
    define(scene, project)
    most, took = _ends(scene), schema_history(source_of(scene.deployment))[-1]
    assert "; ".join(took.changes) == what, took
    assert took.until is not None
    for topic_partition, end in least.items():
        assert end <= took.until.get(topic_partition) <= most[topic_partition], (
            f"{topic_partition}: {end}, {took.until.get(topic_partition)}, {most[topic_partition]}"
        )
    print(f"the schema that {took.text}", flush=True)
    run.whole(begun)


def _ends(scene: Scene) -> Mapping[TopicPartition, int]:
    with KafkaLog(scene.platform.settings.kafka_bootstrap) as log:
        return log.latest(TOPIC).offsets


def _check_alerts(scene: Scene, report: Mapping[str, object]) -> None:
    """Bad records are counted by their reasons, and a share of them is alerted (docs/adr/0058)."""
    counts = stream.driver_status(scene.settings[MICROBATCH], MICROBATCH).heartbeat["sources"][
        SOURCE
    ]["bad"]
    assert counts.keys() >= REASONS, f"the stream has counted {counts}"
    alerts = bad_shares(report, scene.platform.settings.bad_percent)
    assert [alert for alert in alerts if alert.startswith(f"{SOURCE}: ")], f"no alert of {report}"
    print(f"alerted: {alerts}", flush=True)


def _archived(scene: Scene) -> None:
    """Checks that every archived record is good or bad as its offset's schema says, with its values
    or reason."""
    table = load(open_catalog(scene.platform.settings), SOURCE)
    assert table is not None
    offset_vector, source = archive_state(table).offset_vector, source_of(scene.deployment)
    wanted: dict[tuple[str, int, int], tuple[object, ...]] = {}
    for record in scene.records():
        if offset_vector.contains(record[:2], record[2]):
            event = read(source, record)
            if isinstance(event, str):
                wanted[record[:3]] = (event, record[4])
            else:
                wanted[record[:3]] = (None, event.columns["fee"], event.columns["born"])
    fields = ("kind", "topic_id", "partition", "offset", "reason", "raw", "fee", "born")
    results: dict[tuple[str, int, int], tuple[object, ...]] = {}
    for row in table.scan(selected_fields=fields).to_arrow().to_pylist():
        at = row["topic_id"], row["partition"], row["offset"]
        if row["kind"] == "good":
            results[at] = (
                None,
                row["fee"],
                None if row["born"] is None else row["born"].isoformat(),
            )
        elif row["kind"] == "bad":
            is_reason = row["reason"] in REASONS
            results[at] = (row["reason"] if is_reason else "no payment", row["raw"])
    wrong = [
        (at, wanted.get(at), results.get(at))
        for at in {*wanted, *results}
        if wanted.get(at) != results.get(at)
    ]
    assert not wrong, f"{len(wrong)} of {len(wanted)} records are archived otherwise: {wrong[:5]}"
    print(
        f"archived as they are: {len(wanted)} records, "
        f"{sum(row[0] is not None for row in wanted.values())} bad"
    )


def _trained(run: Run) -> None:
    """Training by the platform's own archive gives what was answered, also of tokens from below the
    offsets."""
    scene = run.scene
    offline = Offline.open(scene.platform.settings)
    offset_vector = offline.archive.reaches(SOURCE).offset_vector
    definitions = {unit.definition_fingerprint for unit in scene.deployment.units}

    def is_archived(text: str) -> bool:
        return all(
            offset_vector.dominates(token_offsets)
            for token in decode_all(text)
            for token_offsets in (token.base, *token.compacted_beyond.values())
        )

    answers = [
        answer
        for answer in list(scene.watch.answers)
        if answer.question.unit.definition_fingerprint in definitions
        and is_archived(answer.result["token"])
    ]
    some = run.rng.sample(answers, min(_TRAINED, len(answers)))
    count = Count()
    with_training([scene.deployment], lambda _: offline.archive, some, count)
    assert count.compared, "no answer is archived"
    assert not count.wrong, count.wrong[:5]
    print(f"trained by the archive: {count.compared} values of {len(some)} answers", flush=True)
