"""Small worlds of slices, and who meets in them."""

from __future__ import annotations

from collections.abc import Callable

from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.windows.durations import HOUR_US
from tests.simulation.actors import slices as actors
from tests.simulation.histories.play import finish
from tests.simulation.stops.pairs import Meeting
from tests.simulation.worlds.history import bounded, heal
from tests.simulation.worlds.realtime import RealtimeWorld, realtime
from tests.simulation.worlds.world import FIRST_HOUR, UNITS, Actor, Logged, World
from tests.support.stores.stored import offset_vector


def logged(world: World, partition: int, entity: int, hour: int) -> None:
    world.log[partition].append(Logged(entity, FIRST_HOUR + hour, (FIRST_HOUR + hour) * HOUR_US))


# ------------------------------------------------------------ the trim of offset vectors
def two_hours(world: World) -> None:
    """Hour 1 stands at the newest archive, hour 0 at none."""
    world.now = 2
    finish(world, actors.operator(world))
    logged(world, 0, 0, 0)
    logged(world, 0, 0, 1)
    archive_version, offsets = world.archived()
    store = world.connect()
    store.run(PutArchiveVersion("plays", archive_version, offset_vector(*offsets)))
    logged(world, 0, 0, 1)
    finish(world, actors.compact(world, store, UNITS[0], FIRST_HOUR + 1, *world.archived()))


def two_hours_compacted(world: World) -> None:
    """Prepares two hours, and hour 0 stands at the older archive."""
    two_hours(world)
    older = min(world.archive)
    finish(
        world,
        actors.compact(world, world.connect(), UNITS[0], FIRST_HOUR, older, world.archive[older]),
    )


def slow_run(world: World) -> Actor:
    """Commits, announces and publishes hour 0 from the older archive; where it stands there, from
    the newest."""
    archive_version = (
        max(world.archive)
        if (UNITS[0].storage_fingerprint, FIRST_HOUR) in world.committed
        else min(world.archive)
    )
    yield from actors.compact(
        world,
        world.connect(),
        UNITS[0],
        FIRST_HOUR,
        archive_version,
        world.archive[archive_version],
    )


# ------------------------------------------------------------ everybody
def half_applied(world: World) -> None:
    """Two partitions and two hours; some is applied and compacted, and more is in the log, late
    events too."""
    world.now = 2
    finish(world, actors.operator(world))
    for partition, entity, hour in ((0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)):
        logged(world, partition, entity, hour)
    bounded(world, actors.stream(world, None))
    finish(world, run(world))
    for partition, entity, hour in ((0, 0, 0), (0, 0, 1), (1, 1, 0)):
        logged(world, partition, entity, hour)


def half_built(world: World) -> None:
    """Prepares half a micro-batch, and a second unit that is not ready yet."""
    half_applied(world)
    world.want(UNITS)
    finish(world, actors.operator(world))


def one_batch(world: World) -> Actor:
    """A stream, up to the log's end."""
    stream, ends = actors.stream(world, (0,) * len(world.log)), world.ends()
    for _ in stream:
        metadata = world.metadata()
        if metadata is not None and all(
            metadata.committed.get(p) >= end for p, end in offset_vector(*ends).offsets.items()
        ):
            return
        yield


def run(world: World) -> Actor:
    """A run of compaction over all hours that are over, to the log's end."""
    world.archived()
    yield from actors.compaction_run(world, most=9)


def run_and_trim(world: World) -> Actor:
    yield from run(world)
    yield from actors.trim(world)


def build(world: World) -> Actor:
    yield from actors.backfill(world, UNITS[1])


def redeploy(world: World) -> Actor:
    """The other unit is wanted beside the first, or no more."""
    world.want(UNITS[:1] if len(world.units) > 1 else UNITS)
    yield from actors.operator(world)


def totals(world: World) -> Actor:
    yield next(actors.totals(world))


def forgetting(writes: int) -> Callable[[World], None]:
    """A restart without the last writes, and the operator after it."""

    def restart(world: World) -> None:
        lost = world.server.restart(writes)
        world.note("the store restarts", f"its last {lost} writes are lost")
        world.check()
        finish(world, actors.operator(world))

    return restart


def of_slices(
    name: str,
    first: Callable[[World], Actor],
    second: Callable[[World], Actor],
    prepare: Callable[[World], None] = half_applied,
) -> Meeting[World]:
    return Meeting(name, World, prepare, first, second, heal)


def nobody(world: World) -> Actor:  # noqa: ARG001
    yield from ()


def loss(name: str, first: Callable[[World], Actor], writes: int) -> Meeting[World]:
    """A store that forgets while somebody is at work."""
    return Meeting(f"{name}-{writes}", World, half_built, first, nobody, heal, forgetting(writes))


def flushes(world: RealtimeWorld) -> Actor:
    """The real-time lane from the committed offsets on, until it has sent all."""
    going = realtime(world, None)
    for _ in range(30):
        yield next(going, None)


def of_realtime(
    name: str, first: Callable[[RealtimeWorld], Actor], second: Callable[[RealtimeWorld], Actor]
) -> Meeting[RealtimeWorld]:
    return Meeting(name, RealtimeWorld, half_applied, first, second, heal)


TRIM = (
    Meeting("trim", World, two_hours, actors.trim, slow_run, World.check, dying=False),
    Meeting(
        "trim-again", World, two_hours_compacted, actors.trim, slow_run, World.check, dying=False
    ),
)
EVERYBODY: tuple[Meeting[World], ...] = (
    of_slices("streams", one_batch, one_batch),
    of_slices("stream-run", one_batch, run),
    of_slices("run-stream", run, one_batch),
    of_slices("runs", run, run_and_trim),
    of_slices("build-stream", build, one_batch, half_built),
    of_slices("build-run", build, run, half_built),
    of_slices("builds", build, build, half_built),
    of_slices("redeploy-stream", redeploy, one_batch),
    of_slices("run-redeploy", run, redeploy, half_built),
    of_slices("build-redeploy", build, redeploy, half_built),
    of_slices("sweep-redeploy", actors.sweep, redeploy, half_built),
    of_slices("totals-run", totals, run),
)
REALTIME = (
    of_realtime("realtime-stream", flushes, one_batch),
    of_realtime("realtime-redeploy", flushes, redeploy),
)
LOSSES = tuple(
    loss(name, first, writes)
    for name, first in (("stream-loss", one_batch), ("run-loss", run), ("build-loss", build))
    for writes in (1, 8, 55)
)
