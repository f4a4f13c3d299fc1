"""An emission follows the log from its own progress: what it publishes stands before the progress
says so.

It reads as the micro-batch lane does, by the same parse and row logic, and asks no store for values
(docs/adr/0043): its state is made again from the log, from before all that its last instant could
still need.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slicewise.clock import Clock
from slicewise.emission.leaderboards import LeaderboardSink
from slicewise.emission.ticks import EmittedView, Sink, Tick, emitted_views
from slicewise.emission.view import Progress, ViewEmission, resumed
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.emission.figures import ViewFigures
from slicewise.spark.emission.leaderboards import leaderboard_sinks
from slicewise.spark.emission.rows import records_of
from slicewise.spark.emission.sinks import KafkaSink
from slicewise.spark.records.log_reader import Frame, LogReader
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.log.publisher import Kept, ProgressLog
from slicewise.stores.log.topics import KafkaLog

SinksOf = Callable[[Settings, EmittedView, Clock], Sequence[Sink]]
"""Makes the sinks of one view."""
_SAVE_S = 5.0
"""Seconds for which publication goes on, while it catches up, before its progress is saved."""


def kafka_sinks(settings: Settings, emitted: EmittedView, clock: Clock) -> Sequence[Sink]:  # noqa: ARG001
    """To the topic that the view names."""
    if emitted.topic is None:
        return []
    with KafkaLog(settings.kafka_bootstrap) as log:
        log.create(emitted.topic, settings.kafka_partitions)
    return [KafkaSink(settings.kafka_bootstrap, emitted.topic, emitted.units)]


SINKS: list[SinksOf] = [leaderboard_sinks, kafka_sinks]
"""Makers of sinks, which are asked here for each emitted view."""


@dataclass
class _View:
    emission: ViewEmission
    sinks: Sequence[Sink]
    log: ProgressLog
    partitions: int
    saved: Progress
    begun_s: float = field(default_factory=time.monotonic)

    def save(self, topic_id: str) -> None:
        progress = self.emission.progress
        if progress is not self.saved:
            for sink in self.sinks:
                sink.flush()
            kept = Kept(progress.since_us, progress.instant_us, progress.offset_vector)
            self.log.save(kept, topic_id, self.partitions)
            self.saved, self.begun_s = progress, time.monotonic()


_BUSY_S = 1.0
_MOST = 200_000
"""Records that are held at once."""
_QUIET_S = 0.25
"""Seconds of waiting for records before it is seen whether to end."""


class EmissionQuery:
    """The emissions over one source: one reader of its log, one state per view, one thread that
    publishes."""

    def __init__(
        self,
        settings: Settings,
        deployment: Deployment,
        source: Source,
        figures: ViewFigures,
        clock: Clock,
    ) -> None:
        self.failure: BaseException | None = None
        self.figures, self.source = figures, source
        self._clock, self._settings = clock, settings
        self._log = KafkaLog(settings.kafka_bootstrap)
        self._between = threading.Lock()
        self._draining, self._outgrown = threading.Event(), False
        self._topic_id, partitions = (
            self._log.topic_id(source.topic),
            self._log.partitions(source.topic),
        )
        earliest = self._log.earliest(source.topic)
        emitted = emitted_views(deployment, source.name)
        self._views = [self._begun(view, partitions, earliest) for view in emitted]
        self._at = {
            p: min(view.emission.start[p] for view in self._views) for p in range(partitions)
        }
        units = [unit for view in emitted for unit in view.units]
        self._units = {unit.storage_fingerprint: unit for unit in units}
        read = {column for unit in units for column in unit.reads}
        self._reader = LogReader(settings, source, self._topic_id, read, self._at)
        self._thread = threading.Thread(target=self._run, name=f"emit-{source.name}", daemon=True)
        self._thread.start()

    def _begun(self, emitted: EmittedView, partitions: int, earliest: OffsetVector) -> _View:
        """The state from which a view's emission goes on, or begins: now."""
        topic_id, log = (
            self._topic_id,
            ProgressLog(self._settings.kafka_bootstrap, self.source.topic, emitted.view),
        )
        kept = log.load(topic_id, partitions)
        if kept is None:
            now = self._clock.now_us()
            kept = Kept(now, now, self._log.latest(self.source.topic))
            # so that it begins here however often it is started
            log.save(kept, topic_id, partitions)
            event("emission_begins", view=emitted.view, since_us=now)
        progress = Progress(kept.since_us, kept.instant_us, kept.offset_vector)
        reach_us = ViewEmission(emitted, topic_id, {}, progress).reach_us
        first = log.offsets_at(kept.instant_us - reach_us - self.source.most_ahead_us, partitions)
        emitted_until = {p: kept.offset_vector.get((topic_id, p)) for p in range(partitions)}
        start = {
            p: emitted_until[p] if offset is None else min(emitted_until[p], offset)
            for p, offset in first.items()
        }
        gone = {
            p: earliest.get((topic_id, p))
            for p in start
            if 0 < earliest.get((topic_id, p)) >= start[p]
        }
        if gone:
            whole = resumed(progress, emitted, self.source.most_ahead_us, self._log_begins_us(gone))
            if whole is not progress:
                warning(
                    "emission_skips",
                    view=emitted.view,
                    from_us=progress.instant_us,
                    to_us=whole.instant_us,
                )
            progress = whole
            start = {p: max(at, gone.get(p, 0)) for p, at in start.items()}
        emission = ViewEmission(emitted, topic_id, start, progress)
        sinks = [sink for make in SINKS for sink in make(self._settings, emitted, self._clock)]
        self.figures.begun(emitted.view, progress.instant_us)
        event("emission_started", view=emitted.view, instant_us=progress.instant_us, start=start)
        return _View(emission, sinks, log, partitions, progress)

    def _log_begins_us(self, gone: Mapping[int, int]) -> int:
        from slicewise.stores.log.topics import first_times_us

        times = first_times_us(self._log, self.source.topic)
        return max((times[p] for p in gone if p in times), default=self._clock.now_us())

    # ------------------------------------------------------------ batches
    def _run(self) -> None:
        interval_s = self._settings.microbatch_interval_ms / 1000
        most = min(_MOST, self._settings.max_events_per_batch)
        try:
            while not self._draining.is_set():
                begun = time.monotonic()
                frames = self._reader.take(most, _QUIET_S)
                if frames:
                    self._take(frames)
                    self._draining.wait(begun + interval_s - time.monotonic())
        except Exception as error:  # noqa: BLE001
            self.failure = error

    def _take(self, frames: Sequence[Frame]) -> None:
        with self._between:
            if self._draining.is_set():
                return
            begun = time.monotonic()
            self._log.check_topic(self.source.topic, self._topic_id)
            for records in records_of(frames, self._units, self._topic_id, self._clock.now_us()):
                for view in self._views:
                    view.emission.take(records)
                self._at[records.partition] = records.end
            self._publish()
            self.figures.read(sum(len(frame.offset) for frame in frames), time.monotonic() - begun)

    def _publish(self) -> None:
        for view in self._views:
            for progress, published in view.emission.advance():
                for item in published:
                    for sink in view.sinks:
                        if isinstance(item, Tick):
                            sink.publish(item)
                        else:
                            sink.correct(item)
                self.figures.published(view.emission, progress, published)
                if time.monotonic() - view.begun_s > _SAVE_S:
                    view.save(self._topic_id)
            view.save(self._topic_id)
            for sink in view.sinks:
                if isinstance(sink, LeaderboardSink):
                    self.figures.skipped(view.emission.view, sink.take_skipped())

    # ------------------------------------------------------------ what the driver asks
    @property
    def active(self) -> bool:
        return self.failure is None and not self._outgrown and self._thread.is_alive()

    def lag(self) -> dict[int, int]:
        """Events in the log that were not taken yet, per partition; publishes what a quiet log has
        let pass."""
        requested_us = self._clock.now_us()  # before the end: a later record has a later Kafka time
        latest = self._log.latest(self.source.topic)
        if any(topic_partition not in self._at for _, topic_partition in latest):
            event("partitions_added", source=self.source.name)
            self._outgrown = True  # another query begins with all of them
        # while a batch publishes much, the driver's heart beats on
        if self._between.acquire(timeout=_BUSY_S):
            try:
                if not self._draining.is_set():
                    for partition in self._at:
                        for view in self._views:
                            view.emission.read_to(
                                partition, latest.get((self._topic_id, partition)), requested_us
                            )
                    self._publish()
            finally:
                self._between.release()
        return {p: max(0, latest.get((self._topic_id, p)) - at) for p, at in self._at.items()}

    def error(self) -> BaseException | None:
        """The reason why it ended, if it ended by itself."""
        return self.failure

    def begin_drain(self) -> None:
        """Lets no further batch begin."""
        self._draining.set()

    def drain(self) -> None:
        """Ends it between two batches; all that it published stands, and its progress with it."""
        self.begin_drain()
        self._thread.join()
        self._reader.close()
        for view in self._views:
            view.log.close()
        del self._log
