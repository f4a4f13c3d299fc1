"""After every write, a list of a ready unit holds each event that its token says, down to its low-water mark, once.

The same log, store and operator as the world of slices; units are event lists, time passes so that they are trimmed
and expire, and what they must keep grows and shrinks with deployments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from slicewise import codec
from slicewise.features.event_list import EventList
from slicewise.slices import HOUR_US
from slicewise.stores import decisions, keys
from slicewise.stores.ports import Marks
from slicewise.stores.steps import ListChange, Members, Whole
from tests.faults.sim import actors
from tests.faults.sim.history import Told, empty, finish, lose, step
from tests.faults.sim.world import ENTITIES, FIRST_HOUR, Actor, Logged, Server, World, Wrong
from tests.support.stored import EVER, NO_COLUMNS, Event, StoreUnit, cover, list_batch, list_unit, place, tag

LATE_US = HOUR_US // 2
RANGES, ROWS, SMALL = "00000000000000e0", "00000000000000e1", "00000000000000e2"
SHORT, LONG = EventList(HOUR_US, 0, LATE_US, 1_000), EventList(3 * HOUR_US, 0, LATE_US, 1_000)
ROOM = 4
LISTS = (
    list_unit(SHORT, RANGES, "ranges"),
    list_unit(EventList(0, 2, LATE_US, 1_000), ROWS, "rows"),
    list_unit(EventList(3 * HOUR_US, 0, LATE_US, ROOM), SMALL, "small"),
)
LONGER = (list_unit(LONG, RANGES, "ranges"), *LISTS[1:])
DEPLOYMENTS = (LISTS, LONGER, LISTS[1:])
Known = tuple[int, int, int]
"""(time, partition, offset): the total order."""


class ListServer(Server):
    """A store that tells of writes to lists, and with a rule removed lacks their checks."""

    lax_lists = False

    def execute(self, command: Any) -> Any:
        if isinstance(command, ListChange):
            self.time.advance(1)
            reply = self._list_change(command._replace(checks=()) if self.lax_lists else command)
            self.world.check()
            return reply
        return super().execute(command)


class ListWorld(World):
    """A world whose units are event lists."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.units = LISTS
        self.server: ListServer = ListServer(self)

    def produce(self) -> None:
        """An event of lately, or of some hours ago; many at the same instant."""
        partition = self.rng.randrange(len(self.log))
        now = self.server.time.now_us()
        at = now - self.rng.choice((0, 1, 3, 6, 11, 20)) * HOUR_US // 4
        at -= at % (HOUR_US // 8)
        self.log[partition].append(Logged(self.rng.randrange(ENTITIES), at // HOUR_US, at))
        self.say(f"event p{partition} o{len(self.log[partition]) - 1} at {at - FIRST_HOUR * HOUR_US}")

    def check(self) -> None:
        found = self.marks()
        if found is None:
            return
        for unit in self.units:
            if unit.storage_fingerprint in found.ready and unit.storage_fingerprint in found.starts:
                for entity in range(ENTITIES):
                    self.judge_list(unit, entity, found)

    def judge_list(self, unit: StoreUnit, entity: int, found: Marks) -> None:
        """Compares a list with the log. Raises Wrong."""
        kept_as = found.keeps[unit.storage_fingerprint]
        name = found.name(unit.storage_fingerprint)
        flat = self.server.execute(Whole(keys.list_key(found.generation, tag(entity), name)))
        members = self.server.execute(Members(keys.members_key(found.generation, tag(entity), name), -EVER, EVER))
        self.checked += 1
        base = [found.ledger.get(place(p)) for p in range(len(self.log))]
        low: Known | None = None
        for field, value in zip(flat[::2], flat[1::2], strict=True):
            if field == keys.LOW:
                low = _order(value)
            elif field.startswith(b"l:"):
                p = int(field.split(b":")[2])
                base[p] = max(base[p], int(value) + 1)
        rows = NO_COLUMNS.decode(members)
        stands = sorted(zip(rows.time.tolist(), rows.partition.tolist(), rows.offset.tolist(), strict=True))
        known = sorted(
            (event.time_us, p, offset)
            for p, log in enumerate(self.log)
            for offset, event in enumerate(log[: base[p]])
            if event.entity == entity
        )
        now = self.server.time.now_us()
        # what a read may still ask for: of time, what is young enough; of rows, all above the mark
        oldest = now - kept_as.range_us if kept_as.expires else -EVER
        want = [each for each in known if (low is None or each > low) and each[0] >= oldest]
        got = [each for each in stands if each[0] >= oldest]
        where = f"{unit.view} entity {entity}, base {base}, low {low}"
        if got != want:
            missing, many = sorted(set(want) - set(got)), sorted(set(got) - set(want))
            raise Wrong(f"{where}: missing {missing}, too many {many}")
        if len(stands) > kept_as.most:
            raise Wrong(f"{where}: {len(stands)} events where {kept_as.most} have room")
        if kept_as.most > ROOM:
            self.judge_policy(kept_as, known, low, now, where)

    def judge_policy(self, keeps: EventList, known: Sequence[Known], low: Known | None, now: int, where: str) -> None:
        """A list that has room refuses nothing that it must answer."""
        if low is None:
            return
        if keeps.range_us and low[0] >= now - keeps.range_us:
            raise Wrong(f"{where}: a window of {keeps.range_us} us is refused")
        if keeps.rows:
            last = [each for each in known if each[0] <= now - keeps.late_us][-keeps.rows :]
            if len(last) < keeps.rows or last[0] <= low:
                raise Wrong(f"{where}: the last {keeps.rows} rows at the earliest `at` are refused")


def _order(identity: bytes) -> Known:
    return codec.identity_time(identity), int.from_bytes(identity[24:28], "big"), int.from_bytes(identity[28:36], "big")


# ------------------------------------------------------------ actors
def stream(world: ListWorld, start: tuple[int, ...] | None) -> Actor:
    """Batches from `start` (None: the ledger) on."""
    store = world.connect()
    found = yield from world.on(store, store.steps.marks())
    ledger = [found.ledger.get(place(p)) for p in range(len(world.log))]
    position = list(start or ledger)
    units, epoch, digest = world.units, found.epoch, found.units
    if digest != world.deployment().digest:
        return
    world.say(f"stream from {position}, ledger {ledger}")
    while True:
        yield from world.on(store, store.steps.begin_batch(cover(*position), epoch, digest))
        end = [min(len(world.log[p]), at + world.rng.randint(0, 4)) for p, at in enumerate(position)]
        tasks = [(unit, p) for unit in units for p in range(len(position)) if end[p] > position[p]]
        world.rng.shuffle(tasks)
        for unit, p in tasks:
            task = store if world.rng.random() < 0.4 else actors.executor(world)
            actors.same_life(world, task, store)
            yield from world.on(task, task.steps.hold(actors.terms_of(found)))
            outcome = yield from world.on(task, task.steps.add(list_batch(unit, world.events(p, position[p], end[p]))))
            world.say(f"add {unit.view} p{p} {position[p]}..{end[p] - 1}: {outcome.applied} applied")
        after = yield from world.on(store, store.steps.advance_ledger(cover(*position), cover(*end), epoch, digest))
        world.say(f"ledger {[after.get(place(p)) for p in range(len(end))]}")
        position = end
        yield


def backfill(world: ListWorld, unit: StoreUnit) -> Actor:
    """Everything below the start cover, then ready. The archive is the log."""
    store = world.connect()
    name = unit.storage_fingerprint
    found = yield from world.on(store, store.steps.marks())
    if name not in found.starts or name in found.ready or found.units != world.deployment().digest:
        return
    yield from world.on(store, store.steps.hold(actors.terms_of(found)))
    start = found.starts[name]
    below: list[Event] = [e for p in range(len(world.log)) for e in world.events(p, 0, start.get(place(p)))]
    world.rng.shuffle(below)
    for at in range(0, len(below), 5):
        some = below[at : at + 5]
        yield from world.on(store, store.steps.add(list_batch(unit, some, fill=True)))
    world.say(f"filled {unit.view} with {len(below)}")
    yield from world.on(store, store.steps.mark_ready(unit, start, {unit.view: [name]}))
    world.say(f"ready {unit.view}")


def pass_time(world: ListWorld) -> None:
    hours = world.rng.choice((1, 2, 5, 16)) * HOUR_US // 4
    world.server.time.advance(hours)
    world.say(f"{hours / HOUR_US} hours pass")
    world.check()


def history(seed: int, rules: Iterable[object] = ()) -> Told:
    """Plays one seed; rules: mutants that are applied to the world."""
    world = ListWorld(seed)
    for rule in rules:
        if callable(rule):
            rule(world)
    try:
        _run(world)
    except Wrong as wrong:
        return Told(seed, str(wrong), world.checked, world.story)
    return Told(seed, None, world.checked, world.story)


def _run(world: ListWorld) -> None:
    rng = world.rng
    finish(world, actors.operator(world))
    streams: list[Actor] = [stream(world, None)]
    fills: list[Actor] = []
    for _ in range(rng.randint(60, 500)):
        a = rng.random()
        if a < 0.2:
            world.produce()
        elif a < 0.62:
            step(world, streams)
        elif a < 0.85:
            step(world, fills)
        elif a < 0.88:
            pass_time(world)
        elif a < 0.89:
            lose(world)
            if rng.random() < 0.5:
                streams = streams[:1]
        elif a < 0.892:
            empty(world)
        elif a < 0.905:
            world.want(rng.choice([units for units in DEPLOYMENTS if units != world.units]))
            finish(world, actors.operator(world))
        elif a < 0.95:
            streams = [stream(world, nearby(world) if rng.random() < 0.6 else None), *streams[: rng.randint(0, 2)]]
        else:
            fills = [backfill(world, rng.choice(world.units)), *fills[:1]]
        if not streams:
            streams.append(stream(world, None))
    for _ in range(2):  # left alone, every list comes to be ready
        finish(world, actors.operator(world))
        for unit in world.units:
            finish(world, backfill(world, unit))
    found = world.marks()
    if found is None or not found.ready.issuperset(unit.storage_fingerprint for unit in world.units):
        raise Wrong("not every list became ready")
    world.check()


def nearby(world: ListWorld) -> tuple[int, ...]:
    """Some offsets at or below the ledger."""
    found = world.marks()
    if found is None:
        return tuple(0 for _ in world.log)
    return tuple(max(0, found.ledger.get(place(p)) - world.rng.randint(0, 8)) for p in range(len(world.log)))


# ------------------------------------------------------------ rules
surplus = decisions.surplus


def surplus_by_time(keeps: EventList, total: int, older: int, before: int) -> tuple[int, int]:  # noqa: ARG001
    """Trims by time alone, also what a rows window needs."""
    return surplus(EventList(LATE_US, 0, keeps.late_us, keeps.most) if keeps.rows else keeps, total, before, before)


def without_room(keeps: EventList, total: int, older: int, before: int) -> tuple[int, int]:
    """Never cuts."""
    drop, cut = surplus(keeps, total, older, before)
    return drop - cut, 0


def lax(world: ListWorld) -> None:
    world.server.lax_lists = True
