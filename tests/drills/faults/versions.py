"""A view's logic changes while it is loaded and asked: commands and builds are killed at any
moment, two people promote at once, versions are retired.

Whatever was killed, the deployment that stands is the one before or the one after, whole; the
command that is given again ends what was begun. Both versions are asked by their names all the
while, and every answer is judged by the definition that its token names.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import redis

from slicewise.features.naming import at_version, version_of
from slicewise.features.plan.changes.projects import promoted, retired, whole
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.local import deploy
from slicewise.local.servers.process import Birth, descendants
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.slices import load
from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.drills.faults.changes import request_all
from tests.drills.faults.compactions import Compaction, late, settled
from tests.drills.judging.watch import questions
from tests.drills.stage.run import Run
from tests.drills.stage.scene import PROJECT, SOURCE, Scene, signal_all, write_project
from tests.e2e.compare import VERSION_STEP

VIEW = "by_card_and_shop"
_LOGIC = 'slice="10s",\n    where="amount > 0"'
"""The part of the project that another version changes."""
_ENDS_S = 300.0
_BEGINS_S = 120.0
"""Seconds of waiting for a build to begin, after which it is killed all the same."""
_ROUNDS = 3
"""Pairs of promotions."""


class Command:
    """`slicewise …` in a session of its own, which may be killed."""

    def __init__(self, scene: Scene, *arguments: str) -> None:
        platform = scene.platform
        folder = platform.settings.state_dir / "logs"
        self.log = folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
        program = str(platform.settings.platform_python.parent / "slicewise")
        with self.log.open("w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [program, *arguments],
                stdout=out,
                stderr=out,
                env=platform.environment(),
                start_new_session=True,
            )

    def kill(self) -> bool:
        """SIGKILL to it and to all below it; False where it was over."""
        birth = Birth.of(self.process.pid)
        if birth is None or self.process.poll() is not None:
            return False
        signal_all([birth, *descendants(birth)], signal.SIGKILL)
        self.process.wait(20)
        return True

    def over(self) -> int:
        return self.process.wait(_ENDS_S)

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")[-3_000:]


# ------------------------------------------------------------ the state of versions
def current(scene: Scene) -> Deployment:
    with deploy.connected(scene.platform.settings) as store:
        return deploy.require_units(deploy.current(store))


def unbuilt(scene: Scene) -> set[str]:
    with deploy.connected(scene.platform.settings) as store:
        stored = deploy.current(store)
        return set(deploy.building(deploy.require_units(stored), stored.metadata))


def versions(deployment: Deployment) -> list[str]:
    """Versions of the view that are not live."""
    return [name for name in deployment.views if name.startswith(f"{VIEW}@") and version_of(name)]


def settles_on(scene: Scene) -> None:
    """Lets what stands now answer, and nothing else; it is asked, as far as it is built."""
    scene.deployment = current(scene)
    if scene.deployment not in scene.deployments:
        scene.deployments.append(scene.deployment)
    scene.watch.defined(scene.deployment)
    left = unbuilt(scene)
    scene.watch.set_questions(
        [
            question
            for question in questions(scene.deployment)
            if question.unit.source == SOURCE and question.unit.view not in left
        ]
    )


def changes(
    run: Run, after: Callable[[Deployment], Deployment], *arguments: str, kills: int = 0
) -> None:
    """A command that deploys, given again and again until it is not killed."""
    scene = run.scene
    before = current(scene)
    wanted = after(before)
    stay = {unit.storage_fingerprint for unit in wanted.units}
    scene.watch.set_questions(  # what goes is not asked any more
        [q for q in scene.watch.questions if q.unit.storage_fingerprint in stay]
    )
    scene.watch.defined(before, wanted)
    begun = time.monotonic()
    for _ in range(kills):
        command = Command(scene, *arguments)
        run.some(0.2, 6.0)
        run.kills += command.kill()
        stands = current(scene)
        assert stands in (before, wanted), f"{arguments} left something between\n{command.output}"
    command = Command(scene, *arguments)
    code = command.over()
    stands = current(scene)
    assert stands == wanted, f"{arguments} ended with {code}\n{command.output}"
    run.recover_s.append(time.monotonic() - begun)
    settles_on(scene)


# ------------------------------------------------------------ commands
def logic(scene: Scene, number: int) -> Path:
    """A project whose view counts other payments."""
    folder = scene.platform.settings.state_dir.parent / f"version-{number}"
    folder.mkdir(exist_ok=True)
    text = (PROJECT / "features.py").read_text(encoding="utf-8")
    assert text.count(_LOGIC) == 1, "the project no longer has it"
    least = f'slice="10s",\n    where="amount > {number * VERSION_STEP}"'
    write_project(folder, text.replace(_LOGIC, least))
    return folder


def apply(run: Run, kills: int = 0) -> str:
    """One more version stands beside what is live; its name."""
    scene = run.scene
    number = current(scene).live_version("view", VIEW).newest + 1
    folder = logic(scene, number)
    scene.platform.given["SLICEWISE_PROJECT"] = str(folder)
    planned = plan(load_project(folder / "features.py"))

    def after(before: Deployment) -> Deployment:
        return whole(planned, before, probes=before.declared != before)

    changes(run, after, "apply", "--no-wait", kills=kills)
    name = at_version(VIEW, number)
    assert name in scene.deployment.views, f"{name} does not stand"
    return name


def promote(run: Run, name: str, kills: int = 0) -> None:
    changes(run, lambda before: promoted(before, name), "promote", name, kills=kills)


def retire(run: Run, *names: str, kills: int = 0) -> None:
    """Takes versions away. A command that is given again once they are gone is refused."""
    changes(run, lambda before: retired(before, names), "retire", *names, kills=kills)


def await_hours(scene: Scene, command: Command, since_us: int) -> None:
    """Waits until hours of a version are computed or written, or the command is over."""
    ends = time.monotonic() + _BEGINS_S
    while command.process.poll() is None and time.monotonic() < ends:
        with deploy.connected(scene.platform.settings) as store:
            stored = deploy.current(store)
            deployment = deploy.require_units(stored)
            now = deploy.waiting(store, deployment, stored.metadata, "", since_us)
        if any("hours" in text.partition("; ")[2] for text in now.values()):
            return
        time.sleep(0.2)


def build(run: Run, kills: int = 0) -> None:
    """Builds what is not built, as a person does without Airflow."""
    scene = run.scene
    for _ in range(kills):
        since_us = time.time_ns() // 1000
        command = Command(scene, "rebuild", "--here")
        await_hours(scene, command, since_us)
        run.some(0, 5)
        run.kills += command.kill()
        for name in set(versions(current(scene))) & unbuilt(scene):
            refused = Command(scene, "promote", name)
            assert refused.over() != 0, f"{name} is promoted and not built\n{refused.output}"
    begun = time.monotonic()
    if unbuilt(scene):
        command = Command(scene, "rebuild", "--here")
        assert command.over() == 0, command.output
        assert not unbuilt(scene), command.output
    run.recover_s.append(time.monotonic() - begun)
    settles_on(scene)


def beside(run: Run, count: int = 1) -> list[str]:
    """Names so many built versions beside what is live."""
    while len(versions(current(run.scene))) < count:
        apply(run)
    if unbuilt(run.scene):
        build(run)
    return versions(current(run.scene))[:count]


# ------------------------------------------------------------ drills
def killed_apply(run: Run) -> None:
    apply(run, kills=run.times)
    build(run)
    request_all(run)


def killed_build(run: Run) -> None:
    late(run)
    run.scene.await_applied()  # what comes before a version's start is its history
    if not unbuilt(run.scene):
        apply(run)
    build(run, kills=run.times)
    request_all(run)


def killed_promote(run: Run) -> None:
    """To and fro."""
    (name,) = beside(run)
    live = current(run.scene).live_version("view", VIEW).live
    promote(run, name, kills=run.times)
    request_all(run)
    promote(run, at_version(VIEW, live), kills=run.times)
    request_all(run)


def two_promotions(run: Run) -> None:
    """Two people promote two versions at once, again and again: one of them at least succeeds, and
    what stands is what one of them meant."""
    scene = run.scene
    beside(run, 2)
    refused = 0
    for _ in range(_ROUNDS):
        before, names = current(scene), versions(current(scene))[:2]
        first = [promoted(before, name) for name in names]
        then = [promoted(one, name) for one, name in zip(first, reversed(names), strict=True)]
        scene.watch.defined(before, *first, *then)
        both = [Command(scene, "promote", name) for name in names]
        codes = [command.over() for command in both]
        outputs = "\n".join(command.output for command in both)
        assert 0 in codes, f"neither was promoted\n{outputs}"
        for code, command in zip(codes, both, strict=True):
            assert code == 0 or "deployment version" in command.output, outputs
        refused += sum(code != 0 for code in codes)
        stands = current(scene)
        live = at_version(VIEW, stands.live_version("view", VIEW).live)
        assert stands in (*first, *then), f"what stands was meant by nobody\n{outputs}"
        winners = [name for name, code in zip(names, codes, strict=True) if code == 0]
        assert live in winners, f"{live} is live and {winners} succeeded\n{outputs}"
        settles_on(scene)
        request_all(run)
    print(f"{refused} of {2 * _ROUNDS} promotions were refused", flush=True)


def retire_under_load(run: Run) -> None:
    """Versions go while what is live is asked; then the sweep, after which no key of theirs is
    left, nor a table, and the live version has all of its own."""
    scene = run.scene
    beside(run)
    names = versions(current(scene))
    units = [unit for name in names for unit in current(scene).view(name)]
    with scene.platform.store() as store:
        metadata = store.run(ReadMetadata())
    stored = [metadata.name(unit.storage_fingerprint) for unit in units]
    assert keys_of(scene, stored), "nothing of the versions is stored"
    retire(run, *names, kills=run.times)
    run.some(0, 2)
    scene.await_whole()
    swept = scene.platform.cli("sweep", "--json")
    left = keys_of(scene, stored)
    assert not left, f"{len(left)} keys are left of {names}: {left[:5]}\n{swept.stdout}"
    catalog = open_catalog(scene.platform.settings)
    tables = [unit.view for unit in units if load(catalog, unit.storage_fingerprint) is not None]
    assert not tables, f"tables of compacted hours are left: {tables}"
    request_all(run)


def keys_of(scene: Scene, names: Sequence[str]) -> list[bytes]:
    """Keys of units by the names that they have in keys."""
    client = redis.Redis.from_url(scene.platform.settings.redis_url)
    try:
        return [
            bytes(key)
            for name in names
            for key in client.scan_iter(match=f"sw:*:{name}:*", count=1000)
        ]
    finally:
        client.close()


def build_beside_compaction(run: Run) -> None:
    """A version is built while hours of it and of the live one are compacted.

    Late events come for them."""
    scene = run.scene
    late(run)
    scene.await_applied()  # what comes before a version's start is its history
    apply(run)
    assert unbuilt(scene), "the version has no history to build"
    late(run)
    command, job = Command(scene, "rebuild", "--here"), Compaction.of(scene)
    while command.process.poll() is None:
        late(run)
        run.some(1, 3)
    job.over()  # it says why, where it ended for what came beside it
    if command.over() != 0:
        print(f"a build beside a compaction ended:\n{command.output}", flush=True)
    build(run)
    request_all(run)
    settled(run)
