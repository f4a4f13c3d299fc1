"""The check checks itself: what is wrong in a real store is found, under its own cause, and nothing
else is.

So it is at once, and when more has come to what was harmed: to the slices, to the hours that are
compacted, to the real-time lane.

A store of real bytes, a serving process, an archive in Iceberg, the check as its job runs it; then
one kind of damage for each user (tests/support/stores/planted.py).
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

import slicewise as sw
from slicewise.checks.compare.run import MOST_CLASSIFIED
from slicewise.checks.model import Cause, Outcome
from slicewise.checks.online import HttpReader
from slicewise.checks.report.gate import judge
from slicewise.checks.report.page import summary
from slicewise.checks.run import CheckRun
from slicewise.clock import ManualClock
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.local.servers import ports
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.runtime.session import job_session
from slicewise.stores.lake.catalog import open_catalog
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.archived import archive, offset_vector_of
from tests.support.stores.planted import RECENT_US, Planter, plants
from tests.support.stores.served import TOPIC, Event, Served

pytestmark = [
    pytest.mark.timeout(600),
    # Great Expectations imports what Python 3.11 deprecates.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SEED = 61
SOURCE = sw.KafkaSource(
    "plays",
    schema={
        "user": "string",
        "seconds": "double",
        "items": "long",
        "late": "boolean",
        "played_at": "timestamp_us",
    },
    timestamp="played_at",
    max_lateness="2d",
)
WINDOWS: list[sw.Window | str] = [
    "10m",
    "1h",
    "6h",
    "1d",
    sw.tumbling("1h"),
    sw.session("20m", max_length="6h"),
]
VIEW = sw.FeatureView(
    "users",
    source=SOURCE,
    entity=["user"],
    slice="1m",
    features=[
        sw.Feature("n", sw.count(), WINDOWS),
        sw.Feature("total", sw.sum("seconds"), WINDOWS),
        sw.Feature("most", sw.max("seconds"), WINDOWS),
        sw.Feature("typical", sw.mean("seconds"), WINDOWS),
        sw.Feature("items", sw.sum("items"), WINDOWS),
        sw.Feature("spread", sw.variance("items"), WINDOWS),
        sw.Feature(
            "lengths", sw.quantiles("seconds", q=[0.1, 0.9], threshold=6, error=0.02), ["6h"]
        ),
    ],
)
SOUND = ("sound_a", "sound_b")
AT_EDGE = ("shifted", "shifted_last")
"""Users whose slice at the start of a past window is moved."""
PAST_US = range(10 * MINUTE_US, 15 * MINUTE_US)
"""Ages of the past instant: the slice that is harmed for most users is in the middle of its
windows."""
DECISIVE = ("total", "typical")
"""Sums of random doubles: no two changes of a question give the same. A count may be given by one
even where nothing explains what its entity has."""


@contextmanager
def serving(settings: Settings, redis_url: str, folder: Path) -> Iterator[str]:
    """The serving process of the platform's environment; its address."""
    url = f"http://{ports.HOST}:{ports.choose(owner=folder)}"
    env = {
        **os.environ,
        "SLICEWISE_STATE": str(folder),
        "SLICEWISE_REDIS_URL": redis_url,
        "SLICEWISE_SERVING_URL": url,
    }
    log = folder / "serving.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(settings.platform_python), "-m", "slicewise.serving"],
            env=env,
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            try:
                with urllib.request.urlopen(url + "/healthz", timeout=5):
                    break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(20)


class World:
    """The store, the archive and the check of one instant."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.now_us = time.time_ns() // 1_000
        self.hour = self.now_us // HOUR_US
        self.twice, self.late = self.hour - 5, self.hour - 4
        self.deployment = plan(Project.of("test", [VIEW]))
        (self.unit,) = self.deployment.units
        self.source = self.deployment.source("plays")
        self.chance, self.ends = random.Random(SEED), [0, 0]
        self.settings = Settings.load({**os.environ, "SLICEWISE_STATE": str(folder / "state")})
        server = stack.enter_context(running(RedisServer))
        self.served = stack.enter_context(Served.on(server.url, self.deployment))
        self.url = stack.enter_context(serving(self.settings, server.url, folder))
        self.spark = job_session(self.settings, "test-planted")
        stack.callback(self.spark.stop)
        client = stack.enter_context(redis.Redis.from_url(server.operator_url))
        self.planter = Planter(client, self.served.store, self.unit, self.served.log, self.now_us)
        names = (f"planted-{n}" for n in itertools.count())
        self.name = next(
            name for name in names if self.now_us - self._run(name)._past(self.unit) in PAST_US
        )
        self.edge_us = (self._run(self.name)._past(self.unit) - HOUR_US) // MINUTE_US * MINUTE_US
        self.plants = plants(self.edge_us, self.twice, self.late, SOUND[0])
        self.users = (*self.plants, *SOUND)
        self._fill()

    def _fill(self) -> None:
        """Hours before the last three are compacted, one of them twice; both times the archive went
        ahead."""
        first, second = self._events()
        self.served.apply(first)
        early = OffsetVector({(TOPIC, p): sum(e.partition == p for e in first) for p in (0, 1)})
        for hour in range(self.hour - 8, self.hour - 2):
            self.served.compact(hour, early)
        self.planter.before = {user: self._day(user) for user in self.users}
        self.served.apply(second)
        whole = OffsetVector(
            {(TOPIC, p): sum(e.partition == p for e in self.served.log) for p in (0, 1)}
        )
        for hour in (self.twice, self.late):
            self.served.compact(hour, whole)
        catalog, source = open_catalog(self.settings), self.source
        rows = [[_row(event) for event in some] for some in (first, second)]
        archive(catalog, source, TOPIC, 1, rows[0], [], self.now_us)
        self.offset_vector = archive(catalog, source, TOPIC, 2, rows[1], rows[0], self.now_us)
        assert self.offset_vector == offset_vector_of([*rows[0], *rows[1]], TOPIC)

    def _day(self, user: str) -> dict[Any, Any]:
        return self.planter.fields(self.planter.day(user, self.twice))

    def _events(self) -> tuple[list[Event], list[Event]]:
        """Events that the first archive has, and the second: later ones, of the hour that is
        compacted twice too."""
        print(f"seed {SEED}")
        chance = self.chance
        made: tuple[list[Event], list[Event]] = ([], [])

        def add(some: int, user: str, time_us: int, seconds: float, late: bool = False) -> None:
            partition = self.users.index(user) % 2
            made[some].append(self._event(partition, user, time_us, seconds, late))

        for some, spans in (
            (0, range(self.hour - 8, self.hour + 1)),
            (1, (self.twice, self.hour - 1, self.hour)),
        ):
            for user in self.users:
                for hour in spans:
                    for at in self._instants(user, hour, 12, some):
                        if at < self.now_us - MINUTE_US and not self._is_beside(user, at):
                            add(some, user, at, chance.uniform(1, 300))
                if some == 0:
                    add(
                        0,
                        user,
                        self.now_us - RECENT_US,
                        1e6 if user == "one_ulp" else chance.uniform(1, 300),
                    )
                if some == 0 and user in AT_EDGE:
                    add(0, user, self.edge_us + 1, chance.uniform(1, 300))
        for n in range(3):
            add(
                1,
                "without_late",
                self.late * HOUR_US + n * 7 * MINUTE_US,
                chance.uniform(1, 300),
                late=True,
            )
        return made

    def _instants(self, user: str, hour: int, n: int, some: int) -> list[int]:
        """Instants of an hour: whatever the minute, the same of it. Those of "of_another" are the
        other user's, so that no session tells one from the other."""
        user = SOUND[0] if user == "of_another" else user
        chance = random.Random(f"{SEED} {user} {hour - self.hour} {some}")
        return [hour * HOUR_US + chance.randrange(HOUR_US) for _ in range(n)]

    def _is_beside(self, user: str, at_us: int) -> bool:
        """Tells whether a user has nothing there but what is moved: around it, or up to the end of
        its hour.

        There a window that is cut short at the hour lacks the same as one that begins a slice too
        late, as by chance it does for others at some minutes of the hour."""
        hour_end_us = (self.edge_us // HOUR_US + 1) * HOUR_US
        until_us = hour_end_us if user == "shifted_last" else self.edge_us + 2 * MINUTE_US
        return user in AT_EDGE and self.edge_us - 2 * MINUTE_US < at_us < max(
            until_us, self.edge_us + 2 * MINUTE_US
        )

    def _event(self, partition: int, user: str, time_us: int, seconds: float, late: bool) -> Event:
        items = self.chance.choice(
            [self.chance.randint(1, 9), self.chance.randint(1, 9), -(2**40), None]
        )
        self.ends[partition] += 1
        columns = {"user": user, "seconds": seconds, "items": items, "late": late}
        return Event(partition, self.ends[partition] - 1, time_us, columns)

    def grow(self) -> None:
        """Adds to every slice that was planted, and late events to the hours that are compacted
        too. They are of both partitions, small and large; the newest of them the real-time lane
        has, and an archive goes on."""
        before = [_row(record) for record in self.served.log]
        slices = (self.now_us - RECENT_US, self.now_us - RECENT_US + MINUTE_US, self.edge_us + 1)
        hours = (self.twice, self.late, self.hour - 3)
        more: list[Event] = []
        for user in self.users:
            for partition in (0, 1):
                for at in slices:
                    more.append(
                        self._event(partition, user, at, self.chance.uniform(1, 300), late=False)
                    )
                for hour in hours:
                    (at,) = self._instants(user, hour, 1, 2 + partition)
                    more.append(
                        self._event(
                            partition, user, at, 10.0 ** self.chance.randint(-200, 2), late=True
                        )
                    )
        self.served.apply(more)
        self.served.begin_realtime()
        newest = [
            self._event(
                n % 2, user, self.now_us - RECENT_US, self.chance.uniform(1, 300), late=False
            )
            for n, user in enumerate(self.users * 2)
        ]
        self.served.write_pending(newest)
        self.served.log.extend(newest)
        rows = [_row(event) for event in (*more, *newest)]
        self.offset_vector = archive(
            open_catalog(self.settings), self.source, TOPIC, 3, rows, before, self.now_us
        )

    def _run(self, name: str) -> CheckRun:
        return CheckRun(
            self.spark,
            self.deployment,
            HttpReader(self.url),
            lambda source: self.offset_vector,  # noqa: ARG005
            lambda source: f"{self.settings.catalog_name}.log.`{source}`",
            ManualClock(self.now_us),
            name,
            100,
        )

    def check(self) -> Outcome:
        """Checks as the job does."""
        return self._run(self.name).execute()


def _row(event: Event) -> dict[str, object]:
    late = 2 * HOUR_US if event.columns["late"] else 1_000_000
    return {
        **event.columns,
        "played_at": event.time_us,
        "kafka_time": event.time_us + late,
        "partition": event.partition,
        "offset": event.offset,
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, tmp_path_factory.mktemp("planted"))


def test_nothing_is_found_where_nothing_is_wrong_and_every_plant_is_found_by_its_cause(
    world: World,
) -> None:
    sound = world.check()
    assert sound.wrong() == ()
    assert judge(sound).green
    assert len(sound.compared) == len(world.users) * len(world.unit.features) * 2
    for user, (plant, _) in world.plants.items():
        plant(world.planter, user)
    check_causes(world, "quiet")
    world.grow()
    check_causes(world, "grown")


def check_causes(world: World, when: str) -> None:
    """Finds every plant by its cause, and nobody else."""
    outcome = world.check()
    gate = judge(outcome)
    assert not gate.green
    causes = summary(outcome, gate)["causes"]
    assert "" not in causes
    assert sum(causes.values()) == len(outcome.wrong()) > MOST_CLASSIFIED
    assert causes[Cause.UNCLASSIFIED] == len(outcome.wrong()) - MOST_CLASSIFIED
    wrong: dict[str, list[tuple[str, Cause]]] = {}
    for row in outcome.wrong():
        user = row.entity.partition(': "')[2].partition('"')[0]
        wrong.setdefault(user, []).append((f"{row.feature} {row.mode}", row.cause))
    for user, some in sorted(wrong.items()):
        print(f"{when}: {user}: {len(some)} values, {dict(Counter(cause for _, cause in some))}")
        print(
            "   ",
            [
                reported_cause
                for reported_cause in some
                if reported_cause[1] is not world.plants[user][1]
            ],
        )
    assert set(wrong) == set(world.plants)
    for user, (_, cause) in world.plants.items():
        decisive = {
            reported_cause
            for feature, reported_cause in wrong[user]
            if cause is not Cause.LOGIC or feature.startswith(DECISIVE)
        }
        named = decisive - {Cause.UNCLASSIFIED}
        assert named == {cause}, (when, user, wrong[user])
