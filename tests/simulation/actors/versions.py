"""Operators of versions, and readers by name: each is the command's procedure, and may stop for
ever anywhere."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from slicewise.errors import NotReady, SlicewiseError
from slicewise.features.naming import at_version
from slicewise.features.plan.changes.projects import joined, promoted, retired
from slicewise.features.plan.deployment import Deployment
from slicewise.local import deploy
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.store import Store
from tests.simulation.histories.play import finish
from tests.simulation.worlds.versions import (
    KINDS,
    MOST,
    VIEWS,
    Account,
    VersionsWorld,
    parsed,
    planned,
    stored_unit,
)
from tests.simulation.worlds.world import DAY_FIELDS, ENTITIES, Actor, entity_keys
from tests.support.stores.stored import TOPIC


class Deed(NamedTuple):
    """A command: what it deploys, and what its operator means by that."""

    name: str
    after: Callable[[Deployment, StoreMetadata], Deployment]
    account: Callable[[Account], Account]


def applies(kinds: tuple[int, int]) -> Deed:
    """`slicewise apply` of definitions of these logics."""
    return Deed(
        f"apply {kinds}",
        lambda now, metadata: joined(planned(kinds), now),  # noqa: ARG005
        lambda account: tuple(
            intended.applied(kind) for intended, kind in zip(account, kinds, strict=True)
        ),
    )


def promotes(world: VersionsWorld, *names: tuple[str, int]) -> Deed:
    """`slicewise promote` of versions of views."""
    versions = [at_version(view, number) for view, number in names]
    numbers = dict(names)

    def after(now: Deployment, metadata: StoreMetadata) -> Deployment:
        result = promoted(now, *versions)
        building = deploy.building(now, metadata)
        if result != now and world.requires_built:
            for name in versions:
                if now.current_name("view", name) in building:
                    raise NotReady(f"{name} is not built yet", progress=0.0)
        return result

    return Deed(
        f"promote {' '.join(versions)}",
        after,
        lambda account: tuple(
            intended.promoted(numbers[view]) if view in numbers else intended
            for view, intended in zip(VIEWS, account, strict=True)
        ),
    )


def retires(*names: tuple[str, int]) -> Deed:
    """`slicewise retire` of versions of views."""
    numbers = dict(names)

    def account(before: Account) -> Account:
        return tuple(
            intended.retired(numbers[view]) if view in numbers else intended
            for view, intended in zip(VIEWS, before, strict=True)
        )

    versions = [at_version(view, number) for view, number in names]
    return Deed(
        f"retire {' '.join(versions)}",
        lambda now, metadata: retired(now, versions),  # noqa: ARG005
        account,
    )


def current(
    world: VersionsWorld, store: Store
) -> Generator[None, None, tuple[StoreMetadata, Deployment]]:
    """The state of the store, as commands read it."""
    metadata = yield from world.on(store, store.steps(ReadMetadata()))
    text = yield from world.on(store, store.steps(ReadManifest(metadata.units)))
    return metadata, parsed(text or "")


def operator(world: VersionsWorld, deed: Deed) -> Actor:
    """Reads what stands, decides, and deploys on it."""
    store = world.connect()
    metadata, now = yield from current(world, store)
    account = world.account(metadata)
    try:
        after = deed.after(now, metadata)
    except SlicewiseError as refused:
        world.note(f"{deed.name} is refused", refused.what)
        return
    if after == now:
        return
    yield
    if not world.conditional:
        metadata = yield from world.on(store, store.steps(ReadMetadata()))
        account = world.account(metadata)
    version = metadata.deployment_version
    world.means(version + 1, after, deed.account(account))
    yield from world.on(
        store, store.steps(Deploy(after, version, {"plays": TOPIC}, world.earliest()))
    )
    world.note(deed.name, f"deployed over version {version}")
    gone = {u.storage_fingerprint for u in now.units} - {u.storage_fingerprint for u in after.units}
    yield
    for where in [where for where in world.committed if where[0] in gone]:
        del world.committed[where]


def any_deed(world: VersionsWorld) -> Deed | None:
    """A command that a person gives who looks at what stands; None: none comes to mind."""
    rng, metadata = world.rng, world.metadata()
    if metadata is None or not metadata.units:
        return None
    account = world.account(metadata)
    drawn = rng.random()
    if drawn < 0.35:
        if max(len(intended.kinds) for intended in account) >= MOST:
            return None
        return applies((rng.randrange(KINDS), rng.randrange(KINDS)))
    others = [
        (view, number)
        for view, intended in zip(VIEWS, account, strict=True)
        for number, _ in intended.kinds
        if number != intended.live
    ]
    if not others:
        return None
    one = rng.choice(others)
    if drawn < 0.75:
        both = [other for other in others if other[0] != one[0]]
        return promotes(world, one, *([rng.choice(both)] if both and drawn < 0.5 else []))
    return retires(one)


def reader(world: VersionsWorld) -> Actor:
    """Reads names while they move: an answer must be of the version that each name stood for."""
    while True:
        store = world.connect()
        metadata, deployment = yield from current(world, store)
        named = [*VIEWS, *(at_version(view, world.rng.randint(1, 3)) for view in VIEWS)]
        requested = [
            (name, unit, entity)
            for name in named
            if deployment.current_name("view", name) in deployment.views
            for unit in deployment.view(name)
            for entity in range(ENTITIES)
        ]
        reads = []
        for _, unit, entity in requested:
            hot, day = entity_keys(metadata, stored_unit(unit), entity)
            reads.append(EntityRead((UnitRead(hot, ((day, DAY_FIELDS),)),)))
        reply = yield from world.on(store, store.steps(Read(reads)))
        _, after, server_run = reply.node_replies[0]
        if after.deployment_version == metadata.deployment_version or not world.plans_again:
            for (name, unit, entity), (given,) in zip(requested, reply.entities, strict=True):
                if unit.storage_fingerprint in after.ready:
                    world.check_named_as_meant(name, unit, after)
                    world.judge(stored_unit(unit), entity, after, given, server_run)
        yield


def done(world: VersionsWorld, deed: Deed) -> None:
    """Carries a command out with nobody beside it."""
    finish(world, operator(world, deed))
