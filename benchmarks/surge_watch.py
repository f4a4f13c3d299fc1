"""Observations of a platform while its load changes: lag and memory from one thread, reads from
another, batches from the driver's own log."""

from __future__ import annotations

import calendar
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.freshness_sides import memory_mib
from benchmarks.whole.figures import Percentiles
from benchmarks.whole.http_load import OPEN, Sample, Spec, post
from benchmarks.whole.servers import TOPIC, measure
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.redis import open_store

LOOK_S = 0.25
MEMORY_EVERY = 8
"""Looks from one at the memory to the next: shared pages take their time to be counted."""
CHUNK_S = 10.0
"""Reads come from one process after another, each for so long: between two of them nothing is asked
for a moment."""
CONNECTIONS = 8
PATIENCE_S = 30.0


class Look(NamedTuple):
    """at: seconds of the wall clock; events in the log, and of these applied, both since the topic
    began."""

    at: float
    produced: int
    applied: int

    @property
    def lag(self) -> int:
        return max(0, self.produced - self.applied)


class Phase(NamedTuple):
    """A part of a run, by the wall clock."""

    start: float
    end: float

    def holds(self, at: float) -> bool:
        return self.start <= at < self.end


@dataclass
class Watch:
    """Looks at log and committed offsets every LOOK_S, and at the processes' memory."""

    settings: Settings
    pids: Mapping[str, int]
    looks: list[Look] = field(default_factory=list)
    memory: list[tuple[float, Mapping[str, float]]] = field(default_factory=list)
    """Times, and MiB of each process with all below it."""

    def run(self, over: threading.Event) -> None:
        with (
            KafkaLog(self.settings.kafka_bootstrap) as log,
            open_store(self.settings.redis_url) as store,
        ):
            topic = store.run(ReadMetadata()).topics[TOPIC]
            while not over.wait(LOOK_S):
                # before the log's end: lag is never told too small
                committed = store.run(ReadMetadata()).committed
                applied = sum(
                    offset
                    for topic_partition, offset in committed.offsets.items()
                    if topic_partition[0] == topic
                )
                produced = sum(log.latest(TOPIC).offsets.values())
                if len(self.looks) % MEMORY_EVERY == 0:
                    self.memory.append((time.time(), memory_mib(self.pids)))
                self.looks.append(Look(time.time(), produced, applied))

    def within(self, phase: Phase) -> list[Look]:
        """At least one look."""
        looks = [look for look in self.looks if phase.holds(look.at)]
        if not looks:
            raise RuntimeError(
                f"nobody looked for {phase.end - phase.start:.1f} s: the machine is too busy"
            )
        return looks

    def most_lag(self, phase: Phase) -> int:
        """The largest of a phase."""
        return max(look.lag for look in self.within(phase))

    def rates(self, phase: Phase) -> tuple[float, float]:
        """Events produced and applied per second."""
        first, last = self.within(phase)[0], self.within(phase)[-1]
        seconds = max(last.at - first.at, LOOK_S)
        return (last.produced - first.produced) / seconds, (last.applied - first.applied) / seconds

    def most_memory(self, name: str, phase: Phase) -> float:
        """The largest that was seen of a process; of a phase without a look at it, the next one."""
        sizes = [memory[name] for at, memory in self.memory if phase.holds(at)]
        later = [memory[name] for at, memory in self.memory if at >= phase.end]
        return max(sizes or later[:1] or [self.memory[-1][1][name]])


@dataclass(frozen=True)
class Drain:
    """A backlog's way into the store. steady_events_per_s: without its first batch, in which
    processes are started."""

    events: int
    seconds: float
    steady_events_per_s: float


def drain_of(looks: Sequence[Look], since: float, target: int) -> Drain:
    """From `since` until `target` events were applied; RuntimeError where they never were."""
    after = [look for look in looks if look.at >= since]
    end = next((look for look in after if look.applied >= target), None)
    if end is None:
        raise RuntimeError(f"{target:,} events were not applied while anybody looked")
    start = after[0]
    first = next(look for look in after if look.applied > start.applied or look is end)
    whole = max(end.at - start.at, LOOK_S)
    if end.applied - first.applied >= (end.applied - start.applied) / 2 and end.at > first.at:
        steady = (end.applied - first.applied) / (end.at - first.at)
    else:
        # a batch or two: there is nothing steady about it
        steady = (end.applied - start.applied) / whole
    return Drain(end.applied - start.applied, round(whole, 2), round(steady))


@dataclass
class Reads:
    """Reads at Poisson times, whatever the platform does."""

    settings: Settings
    rate: float
    users: int
    samples: list[Sample] = field(default_factory=list)

    def run(self, over: threading.Event) -> None:
        address = urlsplit(self.settings.serving_url)
        requests = tuple(
            post(
                "/v1/features",
                {"feature_set": "listening_v1", "entities": [{"user_id": f"u{user}"}]},
            )
            for user in range(self.users)
        )
        number = 0
        while not over.is_set():
            number += 1
            spec = Spec(
                "127.0.0.1",
                address.port or 0,
                requests,
                OPEN,
                CONNECTIONS,
                CHUNK_S,
                self.rate,
                0.0,
                number,
                in_full=True,
            )
            load = measure("http_load", asdict(spec), CHUNK_S + PATIENCE_S)
            self.samples += [Sample(*sample) for sample in load["samples"]]

    def seen(self, phase: Phase) -> Seen:
        """The requests that were due in a phase."""
        return seen([sample for sample in self.samples if phase.holds(sample.due)])


@dataclass(frozen=True)
class Seen:
    """Requests of a phase. latency: of those that were answered with 200; refused: by status (0: no
    answer came)."""

    requests: int
    latency: Percentiles
    refused: Mapping[int, int]
    refusal: Percentiles | None
    """Durations of refusals; None without any."""


def seen(samples: Sequence[Sample]) -> Seen:
    """RuntimeError where nothing was answered."""
    right = [sample.seconds * 1000 for sample in samples if sample.status == 200]
    if not right:
        raise RuntimeError(f"none of {len(samples)} requests was answered")
    other = [sample for sample in samples if sample.status != 200]
    refused: dict[int, int] = {}
    for sample in other:
        refused[sample.status] = refused.get(sample.status, 0) + 1
    slow = Percentiles.of([sample.seconds * 1000 for sample in other]) if other else None
    return Seen(len(samples), Percentiles.of(right), dict(sorted(refused.items())), slow)


@contextmanager
def beside(*watchers: Watch | Reads) -> Iterator[None]:
    """Runs the watchers in threads of their own; what one of them raised is raised at the end."""
    over = threading.Event()
    failed: list[BaseException] = []

    def run(watcher: Watch | Reads) -> None:
        try:
            watcher.run(over)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=run, args=(watcher,)) for watcher in watchers]
    with ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
        stack.callback(over.set)
        yield
    if failed:
        raise failed[0]


_BATCH = re.compile(
    r"^(\S+) INFO batch_applied source=(\S+) batch=\d+ records=(\d+) s=(\S+)$", re.MULTILINE
)


class Batch(NamedTuple):
    """One that the stream applied. at: when it ended, in whole seconds of the wall clock."""

    at: float
    records: int
    seconds: float


def batches(log: Path) -> list[Batch]:
    """Batches of the topic, as the stream's driver logged them."""
    logged = []
    for at, source, records, seconds in _BATCH.findall(log.read_text(encoding="utf-8")):
        if source == TOPIC:
            when = calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%S"))
            logged.append(Batch(float(when), int(records), float(seconds)))
    return logged


def largest(some: Sequence[Batch], phase: Phase) -> int:
    """Records of the largest that ended in a phase; 0 where none did."""
    return max((batch.records for batch in some if phase.holds(batch.at)), default=0)
