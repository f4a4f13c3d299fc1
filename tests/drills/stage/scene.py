"""The platform that drills are played on: real Redis, Kafka, serving and both drivers, loaded and
asked all the while.

A driver may run "elsewhere": in a state folder of its own, as on another machine, so that nobody
ends the one that it succeeds.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import redis
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from slicewise.errors import SlicewiseError
from slicewise.features.plan.deployment import Deployment
from slicewise.local import deploy
from slicewise.local.servers import control, stream
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.process import Birth, descendants, marked, spawn, wait_gone
from slicewise.local.servers.state import StateFolder
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.keys import unit_name
from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.drills.judging.judge import Record
from tests.drills.judging.watch import Question, Watch, questions
from tests.drills.stage.feed import Feed
from tests.support.platform.receiver import Receiver
from tests.support.platform.stack import Stack, stack
from tests.support.stores.stored import is_pending

MICROBATCH, REALTIME = stream.NAME, stream.REALTIME
TOPIC = SOURCE = "payments"
PROJECT = Path(__file__).parents[1] / "project"
SETTINGS = {
    "SLICEWISE_KAFKA_PARTITIONS": "2",
    "SLICEWISE_REALTIME": "on",
    "SLICEWISE_REALTIME_BATCH_S": "20",  # reliefs come in every drill
    "SLICEWISE_REALTIME_FIELDS": "300",  # and a micro-batch lane that stands still leads to skips
}
PER_SECOND = 100
WITHIN_S = 240.0
"""In which all must be well again after a fault."""
_POLL_S = 0.05


def write_project(folder: Path, features: str) -> None:
    """Writes a project with the drills' settings and these definitions."""
    (folder / "features.py").write_text(features, encoding="utf-8")
    settings = (PROJECT / "slicewise.toml").read_text(encoding="utf-8")
    (folder / "slicewise.toml").write_text(settings, encoding="utf-8")


@contextmanager
def scene(rng: random.Random, project: Path = PROJECT, **settings: str) -> Iterator[Scene]:
    """A platform that runs and has its real-time lane, before any load; gone afterwards with all
    its processes. settings: by which it runs beside `SETTINGS`."""
    with stack(project, SETTINGS | settings) as platform:
        platform.up()
        platform.cli("apply", "--no-wait")
        made = Scene(platform, rng)
        try:
            for name in (MICROBATCH, REALTIME):
                made.start(name)
            made.await_whole()
            yield made
        finally:
            made.end()


class Scene:
    """Scene of a drill's harm."""

    def __init__(self, platform: Stack, rng: random.Random) -> None:
        self.platform = platform
        self.state = StateFolder(platform.settings.state_dir)
        with deploy.connected(platform.settings) as store:
            self.deployment: Deployment = deploy.require_units(deploy.current(store))
        self.settings = dict.fromkeys((MICROBATCH, REALTIME), platform.settings)
        """By which each driver runs now; its state folder is where it runs."""
        self.drivers = [MICROBATCH, REALTIME]
        """Drivers that are to run."""
        self.feed = Feed(
            platform.settings.kafka_bootstrap, TOPIC, random.Random(rng.random()), PER_SECOND
        )
        # about the platform's own events there is no question
        chosen = [q for q in questions(self.deployment) if q.unit.source == SOURCE]
        self.watch = Watch(platform.settings.serving_url, chosen, random.Random(rng.random()))
        self.receiver: Receiver | None = None
        """The channel that the platform's alerts go to, if there is one."""
        self.deployments = [self.deployment]
        """All that ever stood."""
        self._gone: list[Record] = []
        self._numbers = itertools.count(1)
        self._probes = itertools.count()

    def end(self) -> None:
        """Nothing that was started elsewhere is left; what runs at home, the stack ends."""
        self.watch.stop()
        self.feed.stop()
        for folder in self._folder.glob("elsewhere-*"):
            left = marked(folder)
            for process in left:
                process.signal(signal.SIGKILL)
            wait_gone(left, 20)

    @property
    def _folder(self) -> Path:
        return self.platform.settings.state_dir.parent

    # ------------------------------------------------------------ drivers
    def start(self, name: str) -> None:
        """Starts a driver as `ingest_stream` does, which looks again and again."""
        stream.ensure_driver(self.settings[name], name)

    def runs(self, name: str) -> bool:
        return stream.driver_status(self.settings[name], name).running

    def tree(self, name: str) -> list[Birth]:
        """A driver, and all below it."""
        settings = self.settings.get(name, self.platform.settings)
        state = StateFolder(settings.state_dir)
        birth = control.running(stream.service(settings, state, name), state)
        assert birth is not None, f"the driver {name} does not run"
        return [birth, *descendants(birth)]

    def twin(self, name: str) -> Birth:
        """Another of this driver begins in the same state folder, as `ensure_driver` never lets
        it."""
        settings = self.settings[name]
        service = stream.service(settings, StateFolder(settings.state_dir), name)
        log = settings.state_dir / "logs" / f"{name}-twin.log"
        return spawn(service.argv, service.environment(settings), service.cwd, log)

    def elsewhere(self, name: str) -> None:
        """The driver that is started next runs on another machine, so to speak."""
        folder = self._folder / f"elsewhere-{next(self._numbers)}"
        self.settings[name] = _changed(self.settings[name], SLICEWISE_STATE=str(folder))
        StateFolder(folder).create()

    def by_way_of(self, name: str, port: int) -> None:
        """The driver that is started next finds the store at this port."""
        url = urlsplit(self.settings[name].redis_url)
        to = url._replace(netloc=f"{url.netloc.rpartition(':')[0]}:{port}").geturl()
        self.settings[name] = _changed(self.settings[name], SLICEWISE_REDIS_URL=to)

    def switch(self, realtime: str) -> None:
        """The setting of the real-time lane: the micro-batch lane is drained and started under it.
        A real-time lane that runs is left to the caller."""
        stream.stop_driver(self.settings[MICROBATCH], MICROBATCH)
        self.settings = {
            name: _changed(setting, SLICEWISE_REALTIME=realtime)
            for name, setting in self.settings.items()
        }
        self.drivers = [MICROBATCH] if realtime == "off" else [MICROBATCH, REALTIME]
        for name in self.drivers:
            self.start(name)

    # ------------------------------------------------------------ servers
    def server(self, name: str) -> Birth:
        """The process of redis or kafka."""
        (row,) = [service for service in self.platform.status() if service.name == name]
        assert row.pid is not None, f"{name} does not run"
        birth = Birth.of(row.pid)
        assert birth is not None
        return birth

    def is_up(self, name: str) -> bool:
        """By `slicewise status`."""
        return any(
            service.name == name and service.state == "up" for service in self.platform.status()
        )

    @property
    def store_data(self) -> Path:
        return self.state.path / redis_server.NAME / "appendonlydir"

    @contextmanager
    def operator(self) -> Iterator[redis.Redis]:
        """The client that may do to the store what the platform's own users may not."""
        url = redis_server.operator_url(self.state, self.state.ports()[redis_server.NAME])
        client = redis.Redis.from_url(url)
        try:
            yield client
        finally:
            client.close()

    def restarts(self, name: str) -> int:
        """The number of times that a driver has begun anew after an error, by its own word."""
        source = (
            stream.driver_status(self.settings[name], name)
            .heartbeat.get("sources", {})
            .get(SOURCE, {})
        )
        return int(source.get("restarts", 0))

    def add_partition(self) -> int:
        """To the topic; its number."""
        admin = AdminClient({"bootstrap.servers": self.platform.settings.kafka_bootstrap})
        with KafkaLog(self.platform.settings.kafka_bootstrap) as log:
            number = log.partitions(TOPIC)
        for future in admin.create_partitions([NewPartitions(TOPIC, number + 1)]).values():
            future.result(30)
        return number

    def records(self) -> list[Record]:
        """All that the log ever had: what it is about to lose is to be kept before."""
        by_record = {record[:3]: record for record in (*self._gone, *self.platform.records(TOPIC))}
        return list(by_record.values())

    def keep_records(self) -> None:
        """The log may lose all that it has now."""
        self._gone = self.records()

    # ------------------------------------------------------------ what must come
    def await_whole(self) -> None:
        """Waits until all drivers run, and the real-time lane has begun in this server store. All
        that the log has now is applied, and an event of now is in an answer."""
        self.wait(self._unwell, "the drivers to be well")
        self.await_applied()
        self.await_visible()

    def await_applied(self) -> None:
        """Waits until what the log has now is applied."""
        with KafkaLog(self.platform.settings.kafka_bootstrap) as log:
            end = log.latest(TOPIC)
        self.wait(lambda: self._lacks(end), "the committed offsets")

    def await_none_pending(self) -> None:
        """Nothing of the real-time lane is left: to be asked when nothing is produced any more."""
        self.wait(
            lambda: ", ".join(self._pending_fields()[:5]) or None,
            "the real-time lane to be applied",
        )

    def wait(self, reason: Callable[[], str | None], what: str) -> None:
        """Polls until `reason` gives None; fails with the last one, and what the drivers said."""
        deadline = time.monotonic() + WITHIN_S
        while (why := _reason_of(reason)) is not None:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{what}: not within {WITHIN_S:.0f} s: {why}\n{self._log_ends()}"
                )
            time.sleep(_POLL_S)

    def _unwell(self) -> str | None:
        for name in self.drivers:
            result = stream.driver_status(self.settings[name], name)
            source = result.heartbeat.get("sources", {}).get(SOURCE)
            if not result.running:  # `ingest_stream` looks again and again
                print(f"the driver {name} had ended, and is started again", flush=True)
                self.start(name)
            if not result.well or source is None or source["state"] != "running":
                return f"{name}: {result}"
            if name == REALTIME and source["waiting"]:
                return f"{name} waits: {source['waiting']}"
        if REALTIME not in self.drivers:
            return None
        with self.platform.store() as store:
            start = store.run(ReadMetadata()).realtime_starts.get(SOURCE)
            begun = start is not None and start.server_run == store.server_run
        return None if begun else "no real-time lane has begun in this server run"

    def _lacks(self, end: OffsetVector) -> str | None:
        with self.platform.store() as store:
            committed = store.run(ReadMetadata()).committed
        return (
            None
            if committed.dominates(end)
            else f"committed {dict(committed.offsets)} of {dict(end.offsets)}"
        )

    def await_visible(self, partition: int = 0) -> None:
        """An event that is produced there now."""
        card, now = f"probe-{next(self._probes)}", time.time_ns() // 1000
        event = {
            "card": card,
            "shop": "north",
            "amount": 1.5,
            "items": 1,
            "accepted": True,
            "paid_at": now,
        }
        event |= dict.fromkeys(("born", "fee", "at", "tags"))
        self.platform.produce(TOPIC, [(partition, json.dumps(event).encode(), now // 1000)])
        question = self.question("per_card", "payments_10m")

        def missing() -> str | None:
            answer = self.watch.request(question, (card,))
            result = None if answer is None else answer.result["values"]["per_card:payments_10m"]
            return None if result == 1 else f"{card} has {result} payments"

        self.wait(missing, "an event to be visible")

    def question(self, view: str, column: str) -> Question:
        """The question about one feature."""
        unit, feature = self.deployment.resolve(f"{view}:{column}")
        return Question(unit, (feature,))

    def _pending_fields(self) -> list[str]:
        """Pending fields of the units and the store that stand: what was written for others nobody
        reads, and it expires."""
        with self.platform.store() as store:
            metadata = store.run(ReadMetadata())
        names = {unit_name(name, metadata.builds.get(name, 0)).encode() for name in metadata.starts}
        pending_fields = []
        with closing(redis.Redis.from_url(self.platform.settings.redis_url)) as client:
            cursor, begun = 0, False
            while cursor or not begun:
                cursor, hot = client.scan(cursor, f"sw:{metadata.store_id}:*:hot", 1000)
                begun = True
                hot = [
                    key for key in hot if isinstance(key, bytes) and key.rsplit(b":", 2)[1] in names
                ]
                pipe = client.pipeline(transaction=False)
                for key in hot:
                    pipe.hkeys(key)
                named = [
                    (key, bytes(name))
                    for key, names in zip(hot, pipe.execute(), strict=True)
                    for name in names
                ]
                pending_fields += [f"{key!r} {name!r}" for key, name in named if is_pending(name)]
        return pending_fields

    def _log_ends(self) -> str:
        folders = {
            name: StateFolder(settings.state_dir) for name, settings in self.settings.items()
        }
        return "\n".join(
            f"--- {name}\n{folder.last_lines(name)}" for name, folder in folders.items()
        )


def _reason_of(reason: Callable[[], str | None]) -> str | None:
    """A store or broker that is away is a reason too."""
    try:
        return reason()
    except SlicewiseError as error:
        return str(error)


def _changed(settings: Settings, **variables: str) -> Settings:
    return Settings.load({**settings.to_env(), **variables})


def signal_all(processes: Sequence[Birth], number: signal.Signals) -> None:
    """Killed or stopped parents first: none of them starts what was ended."""
    for process in processes:
        process.signal(number)
    if number is signal.SIGKILL:
        assert not wait_gone(processes, 20), "they do not end"
