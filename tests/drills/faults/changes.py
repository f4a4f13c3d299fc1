"""Changes by people to a running platform: another definition is deployed, the topic is made anew,
its log is cut off.

Every answer says by which definition it was made, and is judged by that one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient

from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.local import deploy
from slicewise.local.servers.state import StateFolder
from slicewise.stores.log.topics import KafkaLog
from tests.drills.faults.compactions import Compaction, late
from tests.drills.judging.watch import questions
from tests.drills.stage.run import Run
from tests.drills.stage.scene import MICROBATCH, PROJECT, REALTIME, TOPIC, Scene, write_project

CHANGES: Mapping[str, str] = {
    'sw.Feature("spread", sw.variance("amount")': 'sw.Feature("spread", sw.stddev("amount")',
    "q=[0.1, 0.5, 0.9]": "q=[0.25, 0.75]",
    'windows=["30s", "5m", sw.tumbling("10s")]': 'windows=["30s", "2m", "5m", sw.tumbling("10s")]',
}
"""Changes of features under the names that they have, over what is stored; and a window more."""
NEW_VIEW = """

lately_by_shop = sw.FeatureView(
    "lately_by_shop",
    source=payments,
    entity=["shop"],
    slice="5s",
    features=[
        sw.Feature("payments", sw.count(), windows=["1m", "10m"]),
        sw.Feature("spent", sw.sum("amount"), windows=["1m", "10m"]),
        sw.Feature("cards", sw.distinct_count("card"), windows=["1m", "10m"]),
    ],
)
"""
_ENTITIES = 3
"""Entities that each question is asked about at once after a change."""


def changed_project(folder: Path) -> Path:
    """The drills' project, with `CHANGES` and a view more."""
    text = (PROJECT / "features.py").read_text(encoding="utf-8")
    for before, after in CHANGES.items():
        assert before in text, f"the project no longer has {before}"
        text = text.replace(before, after)
    folder.mkdir(exist_ok=True)
    write_project(folder, text + NEW_VIEW)
    return folder


def define(scene: Scene, project: Path) -> None:
    """Deploys as a person does. Until it has returned, either definition may answer; afterwards
    only the new one."""
    before, after = scene.deployment, plan(load_project(project / "features.py"))
    scene.watch.set_questions(
        [question for question in questions(before) if set(question.refs) <= refs(after)]
    )
    scene.watch.defined(before, after)
    scene.platform.given["SLICEWISE_PROJECT"] = str(project)
    apply(scene)
    with deploy.connected(scene.platform.settings) as store:
        scene.deployment = deploy.require_units(deploy.current(store))
    definitions = {unit.definition_fingerprint for unit in scene.deployment.units}
    assert definitions == {unit.definition_fingerprint for unit in after.units}, (
        "another deployment stands"
    )
    scene.deployments.append(scene.deployment)
    scene.watch.defined(scene.deployment)
    scene.watch.set_questions(questions(scene.deployment))


def apply(scene: Scene) -> None:
    """Applies, and builds what is new here: these platforms have no Airflow, of which
    `slicewise apply` would ask it."""
    done = scene.platform.cli("apply", "--no-wait", "--remove", check=False)
    assert "deployed: version" in done.stdout, f"nothing was deployed\n{done.stdout}\n{done.stderr}"
    print(done.stdout, flush=True)
    with deploy.connected(scene.platform.settings) as store:
        current = deploy.current(store)
        left = deploy.building(deploy.require_units(current), current.metadata)
    assert done.returncode == 0 or left, f"nothing is left to build\n{done.stdout}\n{done.stderr}"


def refs(deployment: Deployment) -> set[str]:
    return {
        f"{unit.view}:{feature.column}" for unit in deployment.units for feature in unit.features
    }


# ------------------------------------------------------------ drills
def redefined(run: Run) -> None:
    """Features mean something else from now on and a view is new; and back, so that the view
    goes."""
    scene = run.scene
    run.some(1, 3)
    begun = time.monotonic()
    define(scene, changed_project(scene.platform.settings.state_dir.parent / "changed"))
    run.some(0, 2)
    scene.platform.cli("rebuild", "--here")
    run.whole(begun)
    request_all(run)
    run.some(4, 8)
    begun = time.monotonic()
    define(scene, PROJECT)
    run.whole(begun)
    request_all(run)


def request_all(run: Run) -> None:
    """Nothing is refused of what stands."""
    watch = run.scene.watch
    assert watch.questions, "nothing is asked"
    for question in watch.questions:
        for _ in range(_ENTITIES):
            key = question.key(run.rng)
            assert watch.request(question, key) is not None, (
                f"{question.unit.view} {key} is refused"
            )


def topic_made_anew(run: Run) -> None:
    """Deleted under load and made again at once, with more events than it had: of other identities,
    whatever their offsets. The stream refuses to go on, and says why, until a person deploys."""
    scene = run.scene
    run.some(1, 3)
    scene.feed.pause()
    scene.await_applied()
    scene.await_none_pending()
    scene.keep_records()
    ends = _ends(scene)
    begun = time.monotonic()
    with KafkaLog(scene.platform.settings.kafka_bootstrap) as log:
        admin = AdminClient({"bootstrap.servers": scene.platform.settings.kafka_bootstrap})
        admin.delete_topics([TOPIC])[TOPIC].result(30)
        _await_gone(scene)
        log.create(TOPIC, len(ends))
    scene.feed.resume()
    scene.feed.burst(2 * sum(ends.values()))
    run.noticed(begun, lambda: not scene.runs(MICROBATCH))
    scene.start(MICROBATCH)  # as `ingest_stream` does, which looks again
    scene.wait(
        lambda: f"{MICROBATCH} runs" if scene.runs(MICROBATCH) else None,
        "the micro-batch lane to refuse another topic",
    )
    output = StateFolder(scene.settings[MICROBATCH].state_dir).last_lines(MICROBATCH)
    assert "made anew" in output, output
    run.some(1, 2)
    apply(scene)
    for name in (MICROBATCH, REALTIME):
        scene.start(name)
    run.whole(begun)


def _await_gone(scene: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": scene.platform.settings.kafka_bootstrap})
    scene.wait(
        lambda: (
            f"{TOPIC} is still there" if TOPIC in admin.list_topics(timeout=10).topics else None
        ),
        "the topic",
    )


def retention_passed(run: Run) -> None:
    """The log drops what the stream has applied and no archive has read. The archive refuses to go
    on, with what was lost; running partials still answer for it."""
    scene = run.scene
    late(run)
    Compaction.of(scene).done()
    run.some(1, 3)
    late(run)
    scene.feed.pause()
    scene.await_applied()
    scene.keep_records()
    ends = _ends(scene)
    begun = time.monotonic()
    with KafkaLog(scene.platform.settings.kafka_bootstrap) as log:
        log.delete_records(TOPIC, {p: end - run.rng.randint(1, 50) for p, end in ends.items()})
        first = {p: offset for (_, p), offset in log.earliest(TOPIC).offsets.items()}
    scene.feed.resume()
    job = Compaction.of(scene)
    assert job.over() is None, "an archive went on beyond what was lost"
    run.detect_s.append(time.monotonic() - begun)
    output = job.log.read_text(encoding="utf-8")
    assert "were archived" in output, output[-2_000:]
    missing = json.loads(scene.platform.cli("hole", "--json").stdout)["sources"][0]["missing"]
    assert {lost["partition"]: lost["end"] for lost in missing} == first, missing
    run.some(2, 4)
    run.whole(begun)


def _ends(scene: Scene) -> dict[int, int]:
    with KafkaLog(scene.platform.settings.kafka_bootstrap) as log:
        return {partition: end for (_, partition), end in log.latest(TOPIC).offsets.items()}
