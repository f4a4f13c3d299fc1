"""After every write, an answer over all events of an entity holds exactly those that its token says, once.

The same log, store, stream and operator as the world of slices; units have a lifetime, hours lie in three days, and
what is before a horizon goes into totals. Answers are the readers' own: planned by the marks, merged by `merge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
import pyarrow as pa

from slicewise.aggregates.base import Finished
from slicewise.aggregates.columns import Columns
from slicewise.codec import Layout, Members, unpack_lifetime
from slicewise.cover import Cover
from slicewise.errors import BeyondRetention, DataLoss, GapRefused, StoreUnavailable
from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import NOTHING, Compacted, UnitHours
from slicewise.lifecycle.lifetime import Move, Reached
from slicewise.merge import Base, JointPlan, Stored, merge
from slicewise.merge_plan import ReadPlan, plan_read
from slicewise.slices import HOUR_US
from slicewise.slices import lifetime as lifetime_window
from slicewise.stores import decisions, keys
from slicewise.stores.decisions import START_SEQ
from slicewise.stores.ports import EntityRead, Incarnation, LifetimeEntry, Marks, UnitRead, UnitReply
from slicewise.stores.steps import Change, Command, Fields, Whole
from slicewise.stores.store import Store
from tests.faults.sim import actors
from tests.faults.sim.history import EXPECTED, Told, bounded, empty, finish, lose, nearby, step
from tests.faults.sim.world import ENTITIES, FIRST_HOUR, Actor, Logged, Server, World, Wrong, archive_cover
from tests.support.stored import NO_COLUMNS, Event, Identities, StoreUnit, cover, hour_entry, place, rows_of, tag

DAYS = 3
HOURS = tuple(FIRST_HOUR + 24 * day + hour for day in range(DAYS) for hour in (0, 7))
END_US = (FIRST_HOUR + 24 * DAYS) * HOUR_US
RETENTION_US = 24 * DAYS * HOUR_US
"""A unit that begins empty has its horizon before all events; what is due moves with the history's own days."""


class Seen(Identities):
    """Identities that are answered as they are: (partition, offset) as one number."""

    kind = "seen"

    @property
    def output_type(self) -> pa.DataType:
        return pa.list_(pa.int64())

    def finish_columns(self, partials: Columns) -> Finished:
        seen = partials.items("seen")
        numbers = (seen.values["partition"] << 32) | seen.values["offset"]
        return Finished(pa.ListArray.from_arrays(pa.array(seen.offsets.astype(np.int32)), pa.array(numbers)))


SEEN = Seen().bind({})
_LAYOUT = Layout.of([SEEN])
UNITS = tuple(
    StoreUnit(
        f"00000000000000f{n}", view=f"ever{n}", slice_us=size, retention_us=RETENTION_US, layout=_LAYOUT, lifetime=True
    )
    for n, size in enumerate((HOUR_US // 2, HOUR_US))
)


@dataclass(frozen=True)
class _Unit:
    """What a plan reads of a unit."""

    storage_fingerprint: str
    slice_us: int
    view: str = "ever"
    layout: Layout = _LAYOUT
    members: Members = NO_COLUMNS
    levels: tuple[int, ...] = ()
    definition_fingerprint: str = "11" * 8
    pentads: bool = False


@dataclass(frozen=True)
class _Feature:
    column: str = "n_lifetime"
    window: Any = lifetime_window()  # noqa: RUF009  frozen
    aggregate: Any = SEEN
    partial: int = 0


Offsets = tuple[int, ...]


class LifetimeServer(Server):
    """A store that, with a rule removed, lets what holds guards expire."""

    guards_expire = False

    def execute(self, command: Command) -> Any:
        if self.guards_expire and isinstance(command, Change):
            second = self.time.now_us() // 1_000_000 + 3_600
            command = Change(
                tuple(
                    key._replace(sets=[(f, v, second if key.key.endswith(b":hot") else e) for f, v, e in key.sets])
                    for key in command.keys
                )
            )
        return super().execute(command)


class LifetimeWorld(World):
    """A world whose units have a lifetime."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.units = UNITS[:1]
        self.server: LifetimeServer = LifetimeServer(self)
        self.table: dict[tuple[str, int], tuple[int, Offsets]] = {}
        """(unit, hour) -> (seq, cover) of its compacted rows, committed."""
        self.day = 0
        """Days that are over."""
        self._plans: dict[tuple[str, int], JointPlan] = {}
        self._answered: dict[tuple[Any, ...], list[int]] = {}
        self.moved = 0

    def produce(self) -> None:
        """An event of the present day, or a late one."""
        partition = self.rng.randrange(len(self.log))
        day = min(self.day, DAYS - 1)
        day = day if self.rng.random() < 0.6 else self.rng.randrange(day + 1)
        hour = FIRST_HOUR + 24 * day + self.rng.choice((0, 7))
        at = hour * HOUR_US + self.rng.randrange(4) * HOUR_US // 4
        self.log[partition].append(Logged(self.rng.randrange(ENTITIES), hour, at))
        self.say(f"event p{partition} o{len(self.log[partition]) - 1} day {day} hour {hour % 24}")

    def archived(self) -> tuple[int, tuple[int, ...]]:
        """As far as the log reaches, or, as when the stream keeps up, no further than the store has come."""
        found, newest = self.marks(), max(self.archive, default=0)
        if found is not None and newest and self.rng.random() < 0.7:
            held = tuple(found.ledger.get(place(p)) for p in range(len(self.log)))
            if cover(*held).dominates(archive_cover(self.archive[newest])) and held != self.archive[newest]:
                self.archive[newest + 1] = held
                self.say(f"archive seq {newest + 1} cover {held}")
                return newest + 1, held
        return super().archived()

    @property
    def target(self) -> int:
        """The horizon that is due."""
        return FIRST_HOUR + 24 * min(self.day, DAYS - 1)

    # ------------------------------------------------------------ the truth
    def plan(self, unit: StoreUnit, found: Marks) -> ReadPlan:
        reached = found.horizons.get(unit.storage_fingerprint)
        if reached is None:
            raise Wrong(f"{unit.view} is ready and has no horizon")
        key = (unit.storage_fingerprint, reached.hour)
        if key not in self._plans:
            asked = _Unit(unit.storage_fingerprint, unit.slice_us)
            made = plan_read(cast(Any, asked), cast(Any, [_Feature()]), "at", END_US, frozenset(), reached.hour)
            self._plans[key] = JointPlan((made,))
        return self._plans[key].plans[0]

    def check(self) -> None:
        found = self.marks()
        if found is None:
            return
        for unit in UNITS:
            if unit.storage_fingerprint in found.ready:
                plan = self.plan(unit, found)
                for entity in range(ENTITIES):
                    hot, days = keys_of(found, unit, entity, plan)
                    reply = UnitReply(
                        self.server.execute(Whole(hot)), [self.server.execute(Fields(k, n)) for k, n in days]
                    )
                    try:
                        base = self.judge_lifetime(unit, entity, found, plan, reply, self.server.incarnation, now=True)
                        self.judged(unit, entity, found, reply, base)
                    except (StoreUnavailable, DataLoss, BeyondRetention) as error:
                        raise Wrong(f"{unit.view} entity {entity}: {error.what}") from error

    def judge_lifetime(
        self,
        unit: StoreUnit,
        entity: int,
        found: Marks,
        plan: ReadPlan,
        reply: UnitReply,
        incarnation: Incarnation,
        now: bool = False,
    ) -> list[int]:
        """Compares an answer with the log; its base (none: it is no answer). now: nothing came between its parts, nor
        will. Raises Wrong."""
        self.checked += 1
        given = (
            found.name(unit.storage_fingerprint),
            entity,
            found.ledger,
            plan.number,
            tuple(reply.hot),
            tuple(map(tuple, reply.days)),
            self.tailed(found, incarnation),
        )
        if given in self._answered:
            return self._answered[given]
        if now:  # what was read before it was forgotten is read again
            self.check_total(reply.hot, found.generation)
        start = found.starts[unit.storage_fingerprint]
        covers = {seq: archive_cover(offsets) for seq, offsets in self.archive.items()}
        joint = self._plans[unit.storage_fingerprint, plan.horizon or 0]
        stored = [[Stored(0, None, reply.hot, reply.days)]]
        base = Base(found.ledger, start, covers, self.tailed(found, incarnation))
        merged = merge(joint, stored, 1, [base])
        if not merged.complete and not now:
            return []  # the totals of days are out of date: a reader asks again, hour by hour
        if not merged.complete:
            horizon = plan.horizon
            asked = plan_read(
                plan.unit, plan.features, "at", END_US, frozenset(d.day for d in plan.days), horizon=horizon
            )
            hours = [
                self.server.execute(Fields(keys_of(found, unit, entity, asked)[1][i][0], day.names))
                for i, day in enumerate(asked.days)
            ]
            merged = merge(JointPlan((asked,)), [[Stored(0, None, reply.hot, hours)]], 1, [base])
        numbers = cast(Finished, merged.finished[0]).values.to_pylist()[0] or []
        got = sorted((n >> 32, n & 0xFFFFFFFF) for n in numbers)
        held, ahead = merged.base[0][0], merged.ahead[0][0]
        want = sorted(
            (p, offset)
            for p, rows in enumerate(self.log)
            for offset, event in enumerate(rows)
            if event.entity == entity and offset < max(held.get(place(p)), ahead.get(event.hour, Cover()).get(place(p)))
        )
        if got != want:
            raise Wrong(
                f"{unit.view} entity {entity}, base {list(held.offsets.values())}, horizon {plan.horizon}: "
                f"missing {sorted((Counter(want) - Counter(got)).elements())}, "
                f"too many {sorted((Counter(got) - Counter(want)).elements())}"
            )
        return self._answered.setdefault(given, [held.get(place(p)) for p in range(len(self.log))])

    def check_total(self, hot: Sequence[bytes], generation: int) -> None:
        """The seq that a total names is one that the store knows."""
        for name, value in zip(hot[::2], hot[1::2], strict=True):
            seq = unpack_lifetime(value).seq if name == keys.LIFETIME else START_SEQ
            if seq != START_SEQ and seq not in self.connect_quietly(generation):
                raise Wrong(f"nothing says what archive seq {seq} of a total stands for")

    def connect_quietly(self, generation: int) -> set[int]:
        flat = self.server.execute(Whole(keys.covers_key(generation, "plays")))
        return {int(field) for field in flat[::2] if field != decisions.ANNOUNCED}

    # ------------------------------------------------------------ the tables
    def hours(self, unit: StoreUnit, found: Marks) -> UnitHours:
        """What a run knows of the unit's hours, without the store's claims."""
        start = found.starts[unit.storage_fingerprint]
        newest: dict[int, int] = {}
        for p, rows in enumerate(self.log):
            for offset, event in enumerate(rows):
                seq = min((s for s, ends in self.archive.items() if p < len(ends) and offset < ends[p]), default=0)
                if seq:
                    newest[event.hour] = max(newest.get(event.hour, 0), seq)
        compacted = {}
        for (name, hour), (seq, offsets) in self.table.items():
            if name == unit.storage_fingerprint:
                compacted[hour] = Compacted(seq, self._holds(seq, cover(*offsets), start))
        return UnitHours(newest, compacted, {})

    def _holds(self, seq: int, held: Cover, start: Cover) -> int:
        if seq == START_SEQ:
            return self.contained(start) if held == start else NOTHING
        return seq if held.dominates(start) else NOTHING

    def contained(self, held: Cover) -> int:
        return max((s for s, ends in self.archive.items() if held.dominates(cover(*ends))), default=0)

    def reached(self, unit: StoreUnit, found: Marks) -> Reached | None:
        claimed = found.horizons.get(unit.storage_fingerprint)
        if claimed is None:
            return None
        return Reached(claimed.hour, claimed.seq or self.contained(found.starts[unit.storage_fingerprint]))


def keys_of(
    found: Marks, unit: StoreUnit, entity: int, plan: ReadPlan
) -> tuple[bytes, list[tuple[bytes, tuple[bytes, ...]]]]:
    name, entity_tag = found.name(unit.storage_fingerprint), tag(entity)
    days = [(keys.day_key(found.generation, entity_tag, name, d.day), d.names) for d in plan.days]
    return keys.hot_key(found.generation, entity_tag, name), days


# ------------------------------------------------------------ actors
def compaction(world: LifetimeWorld) -> Actor:
    while True:
        yield from compaction_run(world)
        if world.rng.random() < 0.5:
            yield from trim(world)
        if world.rng.random() < 0.5:
            yield from totals(world)
        yield


def compaction_run(world: LifetimeWorld, everything: bool = False) -> Actor:
    """Hours that are over, then the horizon."""
    store = world.connect()
    found = yield from world.on(store, store.steps.marks())
    yield from world.on(store, store.steps.hold(actors.terms_of(found)))
    fresh = everything or world.rng.random() < 0.2 or not world.archive
    seq, offsets = world.archived() if fresh else actors.newest(world)
    for unit in [u for u in world.units if u.storage_fingerprint in found.starts]:
        hours = [h for h in HOURS if h < FIRST_HOUR + 24 * world.day]
        if not everything and world.rng.random() < 0.5:
            hours = world.rng.sample(hours, world.rng.randint(0, len(hours)))
        for hour in hours:
            yield from compact(world, store, unit, hour, seq, offsets)
        if everything or world.rng.random() < 0.9:
            yield from move(world, store, unit, seq, offsets)


def compact(
    world: LifetimeWorld, store: Store, unit: StoreUnit, hour: int, seq: int, offsets: Offsets, swap: bool = True
) -> Any:
    """Whether entities were left over."""
    where = (unit.storage_fingerprint, hour)
    stands = world.table.get(where)
    if stands is not None and not cover(*offsets).dominates(cover(*stands[1])):
        return True  # a header's cover never decreases
    content = world.below(offsets, hour)
    world.table[where] = (seq, offsets)
    yield
    if seq != START_SEQ:
        yield from world.on(store, store.steps.put_cover("plays", seq, cover(*offsets)))
    if not swap:
        return False
    entries = [hour_entry(unit, entity, seq, events) for entity, events in content.items()]
    try:
        outcome = yield from world.on(store, store.steps.swap(unit, hour, seq, cover(*offsets), entries))
    except GapRefused:
        return True
    world.say(f"swap {unit.view} hour {hour - FIRST_HOUR} seq {seq}: {outcome}")
    if not outcome.left_over:
        yield from world.on(store, store.steps.mark_swapped(unit, hour, seq))
    return bool(outcome.left_over)


def totals_of(
    unit: StoreUnit, world: LifetimeWorld, table: dict[tuple[str, int], tuple[int, Offsets]], move: Move
) -> list[LifetimeEntry]:
    """What the rows of the hours of a move come to, by entity."""
    events: dict[int, list[Event]] = {}
    for (name, hour), (_, offsets) in sorted(table.items()):
        if name == unit.storage_fingerprint and hour < move.horizon and (move.since is None or hour >= move.since):
            for entity, some in world.below(offsets, hour).items():
                events.setdefault(entity, []).extend(some)
    entries = []
    for entity, some in events.items():
        rows = rows_of(some)
        parts = [a.accumulate_columns(rows, np.zeros(len(some), np.int64), 1) for a in unit.layout.partials]
        entries.append(LifetimeEntry(tag(entity), unit.layout.encode_rows(parts)[0], move.since))
    return entries


def move(world: LifetimeWorld, store: Store, unit: StoreUnit, seq: int, offsets: Offsets) -> Actor:
    """As `spark.totals` moves a horizon that stands."""
    found = yield from world.on(store, store.steps.marks())
    reached = world.reached(unit, found)
    if reached is not None:
        yield from moved(world, store, unit, found, reached, seq, offsets)


def moved(
    world: LifetimeWorld,
    store: Store,
    unit: StoreUnit,
    found: Marks,
    reached: Reached | None,
    seq: int,
    offsets: Offsets,
) -> Any:
    """Whether a horizon was marked."""
    anew = False
    for _ in range(2):
        wanted = wanted_move(world, unit, found, reached, seq)
        if wanted is None:
            return False
        yield from world.on(store, store.steps.announce_lifetime(unit, wanted.horizon, seq, cover(*offsets)))
        announced = yield from world.on(store, store.steps.covers_announced("plays"))
        yield
        table = dict(world.table)
        if wanted_move(world, unit, found, reached, seq) != wanted:
            return False
        wanted = Move(wanted.horizon, None) if anew else wanted
        entries = totals_of(unit, world, table, wanted)
        yield
        days = moves.days_of(wanted, reached)
        outcome = yield from world.on(
            store, store.steps.bring(unit, wanted.horizon, seq, cover(*offsets), entries, days)
        )
        world.say(f"bring {unit.view} before {wanted.horizon - FIRST_HOUR} since {wanted.since} seq {seq}: {outcome}")
        if not outcome.left_over:
            done = yield from world.on(
                store, store.steps.mark_horizon(unit, wanted.horizon, seq, announced, wanted.since is None)
            )
            world.say(f"horizon {unit.view} {wanted.horizon - FIRST_HOUR} seq {seq}: {done}")
            world.moved += done
            return done
        if wanted.since is None:
            return False
        anew = True
    return False


def wanted_move(world: LifetimeWorld, unit: StoreUnit, found: Marks, reached: Reached | None, seq: int) -> Move | None:
    if seq == START_SEQ:
        return Move(world.target, None)
    return moves.next_move(world.hours(unit, found), reached, world.target, seq)


def totals(world: LifetimeWorld) -> Actor:
    """Totals of days, as a run writes them."""
    store = world.connect()
    for unit in world.units:
        tags = [tag(entity) for entity in range(ENTITIES)]
        for day in range(DAYS):
            yield from world.on(store, store.steps.total_day(unit, tags, FIRST_HOUR // 24 + day))


def trim(world: LifetimeWorld) -> Actor:
    """As a run of compaction ends: from hours and names that it reads after the count."""
    store = world.connect()
    found = yield from world.on(store, store.steps.marks())
    count = yield from world.on(store, store.steps.covers_announced("plays"))
    live = []
    for unit in UNITS:
        if unit.storage_fingerprint in found.starts:
            known = world.hours(unit, found)
            yield
            done = yield from world.on(store, store.steps.swapped(unit))
            names = yield from world.on(store, store.steps.lifetime_seqs(unit))
            reached = world.reached(unit, found)
            kept = 0 if reached is None else reached.hour
            live += UnitHours({}, known.compacted, done, kept, names).named()
    dropped = yield from world.on(store, store.steps.trim_covers("plays", count, found.epoch, live))
    world.say(f"{dropped} covers trimmed, live {live}")


def backfill(world: LifetimeWorld, unit: StoreUnit) -> Actor:
    """Everything below the start cover: what is older than the horizon into totals, the rest by hours, then ready."""
    store = world.connect()
    name = unit.storage_fingerprint
    found = yield from world.on(store, store.steps.marks())
    if name not in found.starts or name in found.ready:
        return
    yield from world.on(store, store.steps.hold(actors.terms_of(found)))
    start = found.starts[name]
    offsets = tuple(start.get(place(p)) for p in range(len(world.log)))
    if not world.archive or not cover(*actors.newest(world)[1]).dominates(start):
        world.archived()
    newest, ends = actors.newest(world)
    left = False
    for hour in HOURS:
        stands = world.table.get((name, hour))
        if stands is None:
            seq, held = START_SEQ, offsets
        elif cover(*stands[1]).dominates(start) and (stands[0] or cover(*stands[1]) == start):
            seq, held = stands
        else:
            seq, held = newest, ends
        left |= yield from compact(world, store, unit, hour, seq, held, swap=hour >= world.target)
    older = {h: world.table[name, h] for h in HOURS if h < world.target}
    seq, held = START_SEQ, offsets
    if any(s != START_SEQ or cover(*o) != start for s, o in older.values()):
        seq, held = newest, ends
        for hour, each in world.hours(unit, found).compacted.items():
            if hour < world.target and each.holds < newest:
                yield from compact(world, store, unit, hour, newest, ends, swap=False)
    done = yield from moved(world, store, unit, found, None, seq, held)
    if done and not left:
        yield from world.on(store, store.steps.mark_ready(unit, start, {unit.view: [name]}))
        world.say(f"ready {unit.view}")


def reader(world: LifetimeWorld) -> Actor:
    """Reads while everything else goes on, by the marks of a moment before."""
    while True:
        store = world.connect()
        for _ in range(world.rng.randint(1, 4)):
            found = yield from world.on(store, store.steps.marks())
            asked, reads = [], []
            for unit in UNITS:
                if unit.storage_fingerprint in found.ready:
                    plan = world.plan(unit, found)
                    for entity in range(ENTITIES):
                        hot, days = keys_of(found, unit, entity, plan)
                        reads.append(EntityRead((UnitRead(hot, tuple(days)),)))
                        asked.append((unit, entity, plan))
            reply = yield from world.on(store, store.steps.read(reads))
            if reply.marks.epoch != found.epoch or reply.marks.horizons != found.horizons:
                continue
            for (unit, entity, plan), (got,) in zip(asked, reply.entities, strict=True):
                if unit.storage_fingerprint in reply.marks.ready:
                    try:
                        world.judge_lifetime(unit, entity, reply.marks, plan, got, reply.incarnation)
                    except (StoreUnavailable, DataLoss, BeyondRetention) as error:
                        world.say(f"read again: {error.what}")
        yield


def history(seed: int, rules: Iterable[object] = ()) -> Told:
    """Plays one seed; rules: mutants that are applied to the world."""
    world = LifetimeWorld(seed)
    for rule in rules:
        if callable(rule):
            rule(world)
    try:
        _run(world)
        heal(world)
    except Wrong as wrong:
        return Told(seed, str(wrong), world.checked, world.story)
    return Told(seed, None, world.checked, world.story)


def _run(world: LifetimeWorld) -> None:
    rng = world.rng
    finish(world, actors.operator(world))
    streams: list[Actor] = [actors.stream(world, None)]
    fills: list[Actor] = []
    others = [compaction(world), compaction(world)]
    readers = [reader(world)]
    for _ in range(rng.randint(100, 800)):
        a = rng.random()
        if a < 0.12:
            world.produce()
        elif a < 0.135:
            world.day = min(world.day + 1, DAYS)
        elif a < 0.42:
            step(world, streams)
        elif a < 0.82:
            step(world, others)
        elif a < 0.88:
            step(world, fills)
        elif a < 0.91:
            step(world, readers)
        elif a < 0.915:
            world.server.time.advance(2 * HOUR_US)
        elif a < 0.918:
            lose(world)
            if rng.random() < 0.5:
                streams = streams[:1]
        elif a < 0.919:
            empty(world)
        elif a < 0.923:
            world.want(rng.choice([units for units in (UNITS, UNITS[:1], UNITS[1:]) if units != world.units]))
            finish(world, actors.operator(world))
        elif a < 0.943:
            streams = [
                actors.stream(world, nearby(world) if rng.random() < 0.6 else None),
                *streams[: rng.randint(0, 2)],
            ]
        elif a < 0.965:
            fills = [backfill(world, rng.choice(UNITS)), *fills[:1]]
        elif a < 0.975:
            bounded(world, actors.stream(world, None))
        elif a < 0.985:
            finish(world, compaction_run(world, everything=True))
        else:
            others[rng.randrange(len(others))] = compaction(world)
        if not streams:
            streams.append(actors.stream(world, None))
        while len(others) < 2:
            others.append(compaction(world))
        if not readers:
            readers.append(reader(world))


def heal(world: LifetimeWorld) -> None:
    """Left alone, totals come to hold all that is before the horizon that is due."""
    world.day = DAYS
    for _ in range(4):
        finish(world, actors.operator(world))
        bounded(world, actors.stream(world, None))
        for unit in world.units:
            finish(world, backfill(world, unit))
        finish(world, compaction_run(world, everything=True))
        if _whole(world):
            break
    if not _whole(world):
        raise Wrong(f"not healed: {world.marks()}, log {world.ends()}, target {world.target - FIRST_HOUR}")
    world.check()


def _whole(world: LifetimeWorld) -> bool:
    found = world.marks()
    assert found is not None
    names = [unit.storage_fingerprint for unit in world.units]
    if not found.ready.issuperset(names):
        return False
    return all(
        found.horizons[name].hour >= world.target
        and not moves.late_hours(world.hours(unit, found), cast(Reached, world.reached(unit, found)))
        for name, unit in zip(names, world.units, strict=True)
    )


STEPS = 16
"""About what either run has."""


def paused(rules: Iterable[object] = ()) -> str | None:
    """A run moves the horizon while another brings late events of the same hour: what is wrong at the first pair of
    stops at which anything is. None: nothing anywhere."""
    for first, second in product(range(STEPS), range(STEPS)):
        try:
            _play(first, second, rules)
        except Wrong as found:
            return f"the move stopped after {first}, the other run after {second}: {found}"
    return None


def _play(first: int, second: int, rules: Iterable[object]) -> None:
    world = LifetimeWorld(0)
    for rule in rules:
        if callable(rule):
            rule(world)
    world.rng.random = lambda: 0.0  # type: ignore[method-assign]  # stop before every command
    world.rng.randint = lambda a, b: b  # type: ignore[method-assign]  # noqa: ARG005
    world.rng.shuffle = lambda some: None  # type: ignore[assignment, method-assign]  # noqa: ARG005
    world.day = 1
    finish(world, actors.operator(world))
    unit, hour = UNITS[0], HOURS[0]
    world.log[0].append(Logged(0, hour, hour * HOUR_US))
    bounded(world, actors.stream(world, None))
    seq, offsets = world.archived()
    finish(world, compact(world, world.connect(), unit, hour, seq, offsets))
    move_it = move(world, world.connect(), unit, seq, offsets)
    _advance(move_it, first)
    world.log[0] += [Logged(entity, hour, hour * HOUR_US) for entity in (0, 1)]
    bounded(world, actors.stream(world, None))
    late = compact(world, world.connect(), unit, hour, *world.archived())
    for actor, steps in ((late, second), (move_it, 99), (late, 99)):
        _advance(actor, steps)
    world.check()


def _advance(actor: Actor, steps: int) -> None:
    for _ in range(steps):
        try:
            if next(actor, actor) is actor:
                return
        except EXPECTED:
            return


__all__ = ["EXPECTED", "HOURS", "LifetimeWorld", "history"]
