"""Damage to a real store, one kind for each user: what the check has to find, and to name by its
cause.

All that is planted is whole bytes of the store's own formats, checksums too: nothing but its
content is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import redis

from slicewise.checks.model import Cause
from slicewise.codec import (
    pack_running,
    pack_slices,
    pack_total,
    unpack_running,
    unpack_slices,
    unpack_total,
)
from slicewise.features.plan.unit import StorageUnit
from slicewise.stores.online import keys
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.port import OnlineStore
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.support.stores.served import Event, accumulated, hour_entries, rows_of


@dataclass
class Planter:
    """A store, what was applied into it, and the instant of the check. The unit's entity is one
    column, of users."""

    client: redis.Redis
    store: OnlineStore
    unit: StorageUnit
    log: Sequence[Event]
    now_us: int
    amount: str = "seconds"
    """The column whose value is put off by a unit in the last place."""
    partition: int | None = None
    """Partition whose running partials are harmed; None: any."""
    before: dict[str, dict[Any, Any]] = field(default_factory=dict)
    """By user what its day hash of the hour that was compacted twice held after the first time."""

    def of(self, user: str) -> list[Event]:
        """The user's events."""
        ((who, _),) = self.unit.entity
        return [record for record in self.log if record.columns[who] == user]

    def tag(self, user: str) -> bytes:
        return keys.entity_tags(self.unit.entity, [[user]])[0]

    def hot(self, user: str) -> bytes:
        metadata = self.store.run(ReadMetadata())
        return keys.hot_key(
            metadata.store_id, self.tag(user), metadata.name(self.unit.storage_fingerprint)
        )

    def day(self, user: str, hour: int) -> bytes:
        metadata, day = self.store.run(ReadMetadata()), hour * HOUR_US // DAY_US
        return keys.day_key(
            metadata.store_id, self.tag(user), metadata.name(self.unit.storage_fingerprint), day
        )

    def fields(self, key: bytes) -> dict[Any, Any]:
        """All of a hash."""
        fields: Any = self.client.hgetall(key)
        return dict(fields)

    def running(self, user: str, around_us: int) -> tuple[bytes, int]:
        """The field of its running partial that is nearest to an instant, and its slice number."""
        names = [name for name in self.fields(self.hot(user)) if name.startswith(b"r:")]
        numbers = {
            int(name.split(b":")[1]): name
            for name in names
            if self.partition is None or int(name.split(b":")[3]) == self.partition
        }
        number = min(numbers, key=lambda value: abs(value - around_us // self.unit.slice_us))
        return numbers[number], number

    def moved(self, name: bytes, number: int) -> bytes:
        """The same field of another slice."""
        return b":".join([b"r", b"%d" % number, *name.split(b":")[2:]])

    def inside(self, user: str, number: int) -> list[Event]:
        """The user's events of a slice."""
        return [event for event in self.of(user) if event.time_us // self.unit.slice_us == number]

    def within(self, user: str, name: bytes) -> list[Event]:
        """The user's events that a running partial holds; those and no others, as its bytes say."""
        _, number, topic, partition = name.split(b":")
        stored = unpack_running(self.fields(self.hot(user))[name])
        topic_partition = (topic.decode(), int(partition))
        events = [
            e
            for e in self.inside(user, int(number))
            if e.topic_partition == topic_partition and stored.first <= e.offset <= stored.last
        ]
        assert self.row(events) == stored.row, f"{name!r} of {user} holds other events"
        return events

    def row(self, events: list[Event]) -> bytes:
        """The events' partials, as one row."""
        groups = np.zeros(len(events), np.int64)
        return self.unit.layout.encode_rows(
            accumulated(self.unit, rows_of(self.unit, events), groups, 1)
        )[0]


Plant = Callable[[Planter, str], None]
RECENT_US = 25 * MINUTE_US
"""Before the check: in every window, and in no window's first or last slice."""


def one_ulp(planter: Planter, user: str) -> None:
    """The greatest value of a running partial, one unit in the last place up."""
    name, _ = planter.running(user, planter.now_us - RECENT_US)
    events, amount = planter.within(user, name), planter.amount
    greatest = max(
        (e for e in events if e.columns[amount] is not None), key=lambda e: e.columns[amount]
    )
    above = math.nextafter(greatest.columns[amount], math.inf)
    altered = [
        replace(e, columns={**e.columns, amount: above}) if e is greatest else e for e in events
    ]
    stored = unpack_running(planter.fields(planter.hot(user))[name])
    planter.client.hset(
        planter.hot(user), name, pack_running(stored.first, stored.last, planter.row(altered))
    )


def dropped(planter: Planter, user: str) -> None:
    """A running partial is gone."""
    name, _ = planter.running(user, planter.now_us - RECENT_US)
    planter.client.hdel(planter.hot(user), name)


def doubled(planter: Planter, user: str) -> None:
    """A running partial stands a second time, in a slice that has none."""
    name, number = planter.running(user, planter.now_us - RECENT_US)
    fields = planter.fields(planter.hot(user))
    free = next(n for n in range(number + 1, number + 600) if planter.moved(name, n) not in fields)
    planter.client.hset(planter.hot(user), planter.moved(name, free), fields[name])


def risen(planter: Planter, user: str) -> None:
    """A slice that was compacted stands as a running partial too, under an offset beyond the hour's
    offset vector."""
    some = planter.running(user, planter.now_us)[0]
    topic, partition = some.split(b":")[2:]
    compacted = [
        e for e in planter.of(user) if e.time_us // HOUR_US == planter.now_us // HOUR_US - 3
    ]
    number = compacted[0].time_us // planter.unit.slice_us
    events = planter.inside(user, number)
    last = max(event.offset for event in planter.of(user))
    name = b"r:%d:%s:%s" % (number, topic, partition)
    planter.client.hset(planter.hot(user), name, pack_running(last, last, planter.row(events)))


def shifted_at(edge_us: int) -> Plant:
    """The running partial of the slice that begins at this instant, one slice earlier."""

    def plant(planter: Planter, user: str) -> None:
        number = edge_us // planter.unit.slice_us
        name, result = planter.running(user, edge_us)
        assert result == number, "an event lies in the window's first slice"
        value = planter.fields(planter.hot(user))[name]
        assert planter.moved(name, number - 1) not in planter.fields(planter.hot(user))
        planter.client.hdel(planter.hot(user), name)
        planter.client.hset(planter.hot(user), planter.moved(name, number - 1), value)

    return plant


def shifted_over(first: int, last: int) -> Plant:
    """The running partials of these slices, each one slice earlier: whichever of them a window
    begins with."""

    def plant(planter: Planter, user: str) -> None:
        fields = planter.fields(planter.hot(user))
        running = {name: int(name.split(b":")[1]) for name in fields if name.startswith(b"r:")}
        own = {name: number for name, number in running.items() if first <= number <= last}
        assert {*own.values()} == {*range(first, last + 1)}, "an event lies in each of the slices"
        assert first - 1 not in running.values(), "the slice before them is free"
        planter.client.hdel(planter.hot(user), *own)
        moved: dict[Any, Any] = {
            planter.moved(name, number - 1): fields[name] for name, number in own.items()
        }
        planter.client.hset(planter.hot(user), mapping=moved)

    return plant


def expired(planter: Planter, user: str) -> None:
    """Deletes the user's days: all that was compacted."""
    for hour in {event.time_us // HOUR_US for event in planter.of(user)}:
        planter.client.delete(planter.day(user, hour))


def stale_at(hour: int) -> Plant:
    """The hour stands as its first compaction left it, though a second one took the running
    partials."""

    def plant(planter: Planter, user: str) -> None:
        key, old = planter.day(user, hour), planter.before[user]
        planter.client.delete(key)
        planter.client.hset(key, mapping=old)

    return plant


def renamed_at(hour: int) -> Plant:
    """The same, but under the archive of the second: it claims to hold what that one brought."""

    def plant(planter: Planter, user: str) -> None:
        key, old = planter.day(user, hour), planter.before[user]
        archive_version = unpack_total(planter.fields(key)[b"h:%d" % hour]).archive_version
        total = unpack_total(old[b"h:%d" % hour])
        assert total.archive_version < archive_version, "the hour was compacted twice"
        values: dict[Any, Any] = {b"h:%d" % hour: pack_total(archive_version, total.row)}
        for name in (b"s:%d" % hour, b"m:%d" % hour):
            if name in old:
                rows = unpack_slices(old[name])
                values[name] = pack_slices(archive_version, rows.numbers, rows.block)
        planter.client.hset(key, mapping=values)

    return plant


def without_late_at(hour: int) -> Plant:
    """The hour's newest compaction has not the events that came after the hour."""

    def plant(planter: Planter, user: str) -> None:
        key = planter.day(user, hour)
        archive_version = int.from_bytes(planter.fields(key)[b"h:%d" % hour][:8], "little")
        own = [
            e for e in planter.of(user) if e.time_us // HOUR_US == hour and not e.columns["late"]
        ]
        (entry,) = hour_entries(planter.unit, own, archive_version, None)
        values = {
            b"h:%d" % hour: entry.total,
            b"s:%d" % hour: entry.slices,
            b"m:%d" % hour: entry.minutes,
        }
        planter.client.hset(
            key, mapping={name: value for name, value in values.items() if value is not None}
        )

    return plant


def of_another(other: str) -> Plant:
    """Plants what another user has under this one's key."""

    def plant(planter: Planter, user: str) -> None:
        planter.client.delete(planter.hot(user))
        planter.client.hset(planter.hot(user), mapping=planter.fields(planter.hot(other)))

    return plant


def plants(edge_us: int, twice: int, late: int, other: str) -> Mapping[str, tuple[Plant, Cause]]:
    """By name: what is planted, and the cause that the check has to give. edge_us: where a window
    of the check's past instant begins, of which "shifted_last" has nothing more in the hour of this
    slice; twice, late: the hours that were compacted twice, and with late events; other: whose
    events happen when those of "of_another" do."""
    return {
        "one_ulp": (one_ulp, Cause.ROUNDING),
        "dropped": (dropped, Cause.DROPPED),
        "doubled": (doubled, Cause.DOUBLED),
        "risen": (risen, Cause.DOUBLED),
        "shifted": (shifted_at(edge_us), Cause.BOUNDARY),
        "shifted_last": (shifted_at(edge_us), Cause.BOUNDARY),
        "expired": (expired, Cause.EXPIRY),
        "stale": (stale_at(twice), Cause.STALE),
        "renamed": (renamed_at(twice), Cause.STALE),
        "without_late": (without_late_at(late), Cause.LATE),
        "of_another": (of_another(other), Cause.LOGIC),
    }
