"""After every write, an answer holds exactly the events that its token says, without those whose id
came before.

The world of slices over a source whose producers send events again, at once or hours later, some of
them changed; what counts is told by an account of the log that knows nothing of stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slicewise.features.schema.dedupe import STEP_BACK_US, EventIds
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations import ids
from slicewise.stores.online.operations.apply_batch import MicroBatch
from slicewise.stores.online.operations.ids import Ids
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Play
from tests.simulation.mutants.rules import Mutant, flag, patched
from tests.simulation.worlds import history
from tests.simulation.worlds.world import ENTITIES, FIRST_HOUR, HOURS, Logged, World
from tests.support.stores.stored import (
    Event,
    StoreUnit,
    micro_batch,
    offset_vector,
    topic_partition,
)

RULE = EventIds("event_id", HOUR_US, 4)
KEEP_US = 4 * DAY_US
judged, ids_key = ids.judged, keys.ids_key


class Account:
    """Account of one entity and partition, event after event: which of them count."""

    def __init__(self) -> None:
        self.clock = 0
        self.seen: list[tuple[int, int]] = []

    def counts(self, event_id: int | None, kafka_us: int) -> bool:
        if event_id is None:
            return True
        self.clock = max(self.clock, kafka_us)
        if kafka_us < self.clock - STEP_BACK_US:
            return True
        again = any(
            seen_id == event_id and self.clock - clock <= RULE.within_us
            for seen_id, clock in self.seen[-RULE.most :]
        )
        self.seen.append((event_id, self.clock))
        return not again


class RepeatsWorld(World):
    """A world of events with ids."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.named: dict[int, list[tuple[int | None, int]]] = {}
        """partition -> id and Kafka time of each event."""
        self.counted: dict[int, list[bool]] = {}
        self.accounts: dict[tuple[int, int], Account] = {}
        self.all_of_archive = False
        """Removed rule: what is compacted counts every event."""

    def produce(self) -> None:
        """A new event, or one of the last ones again."""
        rng, partition = self.rng, self.rng.randrange(len(self.log))
        log, named = self.log[partition], self.named.setdefault(partition, [])
        began = (FIRST_HOUR * HOUR_US, *(kafka_us for _, kafka_us in named))
        kafka_us = max(began) + rng.choice((0, 1, 5, 20, 50)) * MINUTE_US
        # an hour back at most: further, and a stream that begins at a unit's start cannot know
        if rng.random() < 0.1:
            kafka_us = max(began) - rng.randint(0, 60) * MINUTE_US
        latest = min(self.now, HOURS - 1)
        hour = latest if rng.random() < 0.7 else rng.randrange(latest + 1)
        at = (FIRST_HOUR + hour) * HOUR_US + rng.randrange(4) * HOUR_US // 4
        event = Logged(rng.randrange(ENTITIES), FIRST_HOUR + hour, at)
        event_id: int | None = len(log) if rng.random() < 0.95 else None
        if log and rng.random() < 0.5:
            again = len(log) - 1 - rng.randrange(min(len(log), 8))
            event_id = named[again][0]
            # the same id with another time is a conflict, and no other event
            event = log[again] if rng.random() < 0.9 else event._replace(entity=log[again].entity)
        log.append(event)
        named.append((event_id, kafka_us))
        account = self.accounts.setdefault((partition, event.entity), Account())
        self.counted.setdefault(partition, []).append(account.counts(event_id, kafka_us))
        self.note(
            f"event p{partition} o{len(log) - 1} id {event_id}",
            (
                f"entity {event.entity} hour {event.hour - FIRST_HOUR} kafka "
                f"{kafka_us // MINUTE_US % 10_000} min"
            )
            + ("" if self.counted[partition][-1] else ", again"),
        )

    def counts(self, partition: int, offset: int, unit: StoreUnit | None = None) -> bool:  # noqa: ARG002
        return self.counted[partition][offset]

    def below(
        self, offsets: Sequence[int], hour: int, unit: StoreUnit | None = None
    ) -> dict[int, list[Event]]:
        if not self.all_of_archive:
            return super().below(offsets, hour, unit)
        counted, self.counted = (
            self.counted,
            {p: [True] * len(flags) for p, flags in self.counted.items()},
        )
        try:
            return super().below(offsets, hour, unit)
        finally:
            self.counted = counted

    def batch(self, unit: StoreUnit, events: Sequence[Event]) -> MicroBatch:
        named = [self.named[e.partition][e.offset] for e in events]
        return replace(
            micro_batch(unit, events),
            ids=Ids(
                RULE,
                np.array([0 if event_id is None else event_id for event_id, _ in named], np.uint64),
                np.array([event_id is not None for event_id, _ in named]),
                np.array([kafka_us for _, kafka_us in named], np.int64),
                KEEP_US,
            ),
        )

    def begins(self, position: list[int], metadata: StoreMetadata) -> list[int]:
        """Begins as `plan_stream` does: before the ids that a unit must know."""
        committed = offset_vector(
            *(metadata.committed.get(topic_partition(p)) for p in range(len(self.log)))
        )
        starts = [
            metadata.starts[name]
            for unit in self.units
            if (name := unit.storage_fingerprint) in metadata.starts
        ]
        earlier = list(position)
        for (_, p), at in ids.unremembered(committed, starts).items():
            times = [kafka_us for _, kafka_us in self.named[p][:at]]
            since = times[-1] - RULE.look_back_us - STEP_BACK_US
            earlier[p] = min(
                position[p], next(o for o, kafka_us in enumerate(times) if kafka_us >= since)
            )
        return earlier


def forgetful(*given: object) -> tuple[object, dict[int, object]]:
    """Knows the ids that come again in one batch, and remembers none."""
    return judged(*given)[0], {}  # type: ignore[arg-type]


PLAY = Play(
    "repeats",
    RepeatsWorld,
    history.begin,
    tuple(
        (weight, RepeatsWorld.produce if deed is World.produce else deed)
        for weight, deed in history.PLAY.deeds
        # the log reaches back as far as ids are remembered (docs/adr/0064)
        if deed is not history.forget_log
    ),
    history.go_on,
    history.heal,
    60,
    900,
)
MUTANTS: dict[str, Mutant] = {
    "ids-remembered": Mutant(
        "event ids",
        "a micro-batch remembers ids with what it counts",
        patched(ids, "judged", forgetful),
    ),
    "ids-before": Mutant(
        "event ids",
        "a stream begins before the ids that a new unit must know",
        patched(ids, "unremembered", lambda committed, starts: {}),  # noqa: ARG005
    ),
    "ids-store-id": Mutant(
        "metadata",
        "ids of an emptied store are not those of the next",
        patched(keys, "ids_key", lambda store_id, tag, unit: ids_key(0, tag, unit)),  # noqa: ARG005
    ),
    "ids-archive": Mutant(
        "event ids",
        "compaction leaves out what the micro-batch lane leaves out",
        world=flag("all_of_archive"),
    ),
}
