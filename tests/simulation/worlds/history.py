"""Histories of slices: what can happen to the store, the stream and what runs beside it; in the end
all heals."""

from __future__ import annotations

from slicewise.stores.online.operations.publish_days import ReadHours
from tests.simulation.actors import slices as actors
from tests.simulation.histories.play import Play, finish, joins, step, steps
from tests.simulation.worlds.world import FIRST_HOUR, HOURS, PARTITIONS, Actor, World, Wrong
from tests.support.stores.stored import StoreUnit, topic_partition


def begin(world: World) -> None:
    finish(world, actors.operator(world))
    world.groups["streams"].append(actors.stream(world, None))
    world.groups["others"] += [
        actors.compaction(world),
        actors.compaction(world),
        actors.totals(world),
    ]
    world.groups["readers"].append(actors.reader(world))
    world.checkpoint = world.ends()


def hour_passes(world: World) -> None:
    world.now = min(world.now + 1, HOURS)
    world.note("an hour passes")


def lose_some(world: World) -> None:
    lose(world)
    if world.rng.random() < 0.5:
        del world.groups["streams"][1:]


def empty_under_a_sweep(world: World) -> None:
    world.groups["sweeps"] = [actors.sweep(world)]
    for _ in range(4):
        step(world, world.groups["sweeps"])
    empty(world)


def want_another(world: World) -> None:
    if sum(world.ends()) > 6:
        before = world.units
        world.want(another(world))
        # a unit is left out and back at once: jobs span both its builds
        if world.rng.random() < 0.3:
            finish(world, actors.operator(world))
            world.want(before)
    another_operator(world)


def another_operator(world: World) -> None:
    joins(world, "operators", actors.operator(world), keeping=0)


def add_partition(world: World) -> None:
    if len(world.log) < PARTITIONS:
        world.log.append([])
        world.log_start.append(0)
        world.note("a partition is added")


def another_stream(world: World) -> None:
    begins = None if world.rng.random() < 0.5 else nearby(world)
    if world.rng.random() < 0.3:
        begins = world.checkpoint
    joins(world, "streams", actors.stream(world, begins), keeping=world.rng.randint(0, 2))


def another_fill(world: World) -> None:
    joins(world, "fills", actors.backfill(world, world.rng.choice(world.all_units)), keeping=1)


def compact_and_trim(world: World) -> None:
    finish(world, actors.compaction_run(world, most=9))
    world.groups["others"][world.rng.randrange(len(world.groups["others"]))] = actors.trim(world)


def another_sweep(world: World) -> None:
    joins(world, "sweeps", actors.sweep(world), keeping=1)


def another_other(world: World) -> None:
    others = world.groups["others"]
    others[world.rng.randrange(len(others))] = world.rng.choice([actors.compaction, actors.totals])(
        world
    )


def another_reader(world: World) -> None:
    joins(world, "readers", actors.reader(world), keeping=0)


def go_on(world: World) -> None:
    streams_go_on(world)
    others_go_on(world, 3)


def streams_go_on(world: World) -> None:
    """Somebody starts what has ended, and a sweep."""
    rng, groups = world.rng, world.groups
    metadata = world.metadata()
    if (
        metadata is not None
        and metadata.deployment_version > world.deployment_version
        and rng.random() < 0.9
    ):
        # the new units' first stream: it may begin below their start offsets
        groups["streams"] = [actors.stream(world, nearby(world))]
    if (
        metadata is not None
        and metadata.deployment_version > world.deployment_version
        and rng.random() < 0.5
    ):
        another_sweep(world)
    world.deployment_version = 0 if metadata is None else metadata.deployment_version
    if metadata is not None and rng.random() < 0.2:
        world.checkpoint = tuple(metadata.committed.get(p) for p in _topic_partitions(world))
    if not groups["streams"]:
        groups["streams"].append(actors.stream(world, None))
    if rng.random() < 0.2:
        step(world, groups["sweeps"])
    if groups["operators"] and rng.random() < 0.3:
        step(world, groups["operators"])
    if not groups["readers"]:
        another_reader(world)


def others_go_on(world: World, count: int) -> None:
    others = world.groups["others"]
    while len(others) < count:
        others.append(world.rng.choice([actors.compaction, actors.totals])(world))


def another(world: World) -> tuple[StoreUnit, ...]:
    """The units that are wanted next: one comes, one goes, or one goes and comes back."""
    choices = [world.all_units, world.all_units[:1], world.all_units[1:]]
    return world.rng.choice([units for units in choices if units != world.units])


def _topic_partitions(world: World) -> list[tuple[str, int]]:
    return [topic_partition(p) for p in range(len(world.log))]


def nearby(world: World) -> tuple[int, ...]:
    """Some offsets at or below the committed offsets."""
    metadata = world.metadata()
    if metadata is None:
        return tuple(world.log_start)
    return tuple(
        max(first, metadata.committed.get(p) - world.rng.randint(0, 8))
        for p, first in zip(_topic_partitions(world), world.log_start, strict=True)
    )


def lose(world: World) -> None:
    """A restart without the last writes."""
    lost = world.server.restart(world.rng.randint(0, world.rng.choice((0, 3, 10, 40, 64))))
    world.note("the store restarts", f"its last {lost} writes are lost")
    world.check()
    if world.metadata() is None or world.rng.random() < 0.3:
        finish(world, actors.operator(world))


def empty(world: World) -> None:
    """The operator empties the store: the server run stays."""
    world.server.flush()
    world.note("the store is emptied")
    finish(world, actors.operator(world))


def forget_log(world: World) -> None:
    """Retention passes what the archive has and the store says that it holds."""
    metadata = world.metadata()
    if metadata is None or not world.archive:
        return
    archived = actors.newest(world)[1]
    for p, where in enumerate(_topic_partitions(world)):
        kept = min(metadata.committed.get(where), archived[p] if p < len(archived) else 0)
        world.log_start[p] = max(world.log_start[p], kept - world.rng.randint(0, 5))
    world.note(f"the log begins at {world.log_start}")


def heal(world: World) -> None:
    """Leaves the platform alone, and it comes to hold everything. Nobody helps but by a rebuild
    where the log no longer has what a loss took."""
    for _ in range(5):  # nodes of which each lost something else are built one after another
        finish(world, actors.operator(world))
        metadata = world.metadata()
        if metadata is None:
            raise Wrong("no metadata after the operator was there")
        if behind(world):
            world.recover()
            continue
        bounded(world, actors.stream(world, None))
        for unit in world.all_units:
            finish(world, actors.backfill(world, unit))
        world.archived()
        archive_version, offsets = actors.newest(world)
        store = world.connect()
        for unit in world.units:
            for hour in range(FIRST_HOUR, FIRST_HOUR + HOURS):
                finish(world, actors.compact(world, store, unit, hour, archive_version, offsets))
        metadata = world.metadata()
        if metadata is not None and whole(world):
            break
    metadata = world.metadata()
    if metadata is None or not whole(world):
        raise Wrong(f"not healed: {metadata}, log {world.ends()}")
    world.check()


def behind(world: World) -> bool:
    """Tells whether the log no longer has what the store needs."""
    metadata = world.metadata()
    return metadata is not None and any(
        metadata.committed.get(p) < s
        for p, s in zip(_topic_partitions(world), world.log_start, strict=True)
    )


def is_at_end(world: World) -> bool:
    """Tells whether the committed offsets stand at the log's end."""
    metadata = world.metadata()
    return (
        metadata is not None
        and tuple(metadata.committed.get(p) for p in _topic_partitions(world)) == world.ends()
    )


def whole(world: World) -> bool:
    metadata = world.metadata()
    assert metadata is not None
    ready = metadata.ready.issuperset(u.storage_fingerprint for u in world.units)
    published = all(
        world.connect().run(ReadHours(unit)).get(hour) == max(world.archive)
        for unit in world.units
        for hour in range(FIRST_HOUR, FIRST_HOUR + HOURS)
    )
    return is_at_end(world) and ready and published


def bounded(world: World, actor: Actor) -> None:
    """Until the committed offsets stand at the log's end."""
    finish(world, actor, most=5_000, until=lambda: is_at_end(world))


PLAY = Play(
    "slices",
    World,
    begin,
    (
        (120, World.produce),
        (10, hour_passes),
        (370, steps("streams")),
        (240, steps("others")),
        (120, steps("fills")),
        (60, steps("readers")),
        (10, lose_some),
        (1, empty_under_a_sweep),
        (11, want_another),
        (4, another_operator),
        (3, add_partition),
        (2, forget_log),
        (14, another_stream),
        (10, another_fill),
        (7, compact_and_trim),
        (3, another_sweep),
        (7, another_other),
        (8, another_reader),
    ),
    go_on,
    heal,
    60,
    900,
)
