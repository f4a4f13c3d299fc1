"""Every answer of an entity is what its token says by its own node's metadata, whatever befalls the
others.

The worlds of slices, of lifetimes and of event lists over a store of three nodes (`several`).
"""

from __future__ import annotations

from typing import Any

from slicewise import codec
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.reading import UnitReply
from slicewise.stores.online.rules.decisions import START_VERSION
from slicewise.stores.online.steps import Fields
from slicewise.windows.durations import HOUR_US
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Play, steps
from tests.simulation.worlds import history, lists
from tests.simulation.worlds import lifetime_play as lifetimes
from tests.simulation.worlds.lifetime import DAYS, RETENTION_US, LifetimeWorld
from tests.simulation.worlds.lists import ListWorld
from tests.simulation.worlds.several import (
    Several,
    another_bridge,
    another_operator,
    empty_one,
    forget_log,
    healed,
    lose_some,
)
from tests.simulation.worlds.world import FIRST_HOUR, World, Wrong
from tests.support.stores.stored import StoreUnit, tag


class NodesWorld(Several, World):
    """A world of slices over several nodes."""

    def judged(
        self,
        unit: StoreUnit,
        entity: int,
        metadata: StoreMetadata,
        reply: UnitReply,
        base: list[int],
    ) -> None:
        super().judged(unit, entity, metadata, reply, base)
        self.no_way_back(unit, entity, metadata, base)


class LifetimeNodesWorld(Several, LifetimeWorld):
    """A world of lifetimes over several nodes, whose clocks go with the days: what begins empty has
    its total-until hour where that is due, which is a day behind."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.late = 0.15
        self.pass_time(RETENTION_US)

    @property
    def target(self) -> int:
        return FIRST_HOUR + 24 * max(0, self.day - 1)

    def judged(
        self,
        unit: StoreUnit,
        entity: int,
        metadata: StoreMetadata,
        reply: UnitReply,
        base: list[int],
    ) -> None:
        super().judged(unit, entity, metadata, reply, base)
        self.no_way_back(unit, entity, metadata, base)
        name, announced = (
            metadata.name(unit.storage_fingerprint),
            self.connect_quietly(metadata.store_id),
        )
        for day in range(FIRST_HOUR // 24, FIRST_HOUR // 24 + DAYS):
            (raw,) = self.server.execute(
                Fields(keys.day_key(metadata.store_id, tag(entity), name, day), [keys.HOURS])
            )
            hours = codec.unpack_hours(raw).items()
            named = {
                archive_version
                for h, archive_version in hours
                if h >= metadata.totals_until[unit.storage_fingerprint].hour
            } - {START_VERSION}
            if not named <= announced:
                raise Wrong(
                    f"nothing says what archive versions {sorted(named - announced)} stand for"
                )


class ListNodesWorld(Several, ListWorld):
    """A world of event lists over several nodes. (An applied offset that ran ahead of the committed
    offsets expires with its list.)"""


def day_passes(world: LifetimeNodesWorld) -> None:
    if 0 < world.day < DAYS:
        world.pass_time(24 * HOUR_US)
    lifetimes.day_passes(world)


_INSTEAD: dict[Any, Any] = {history.lose_some: lose_some, history.empty_under_a_sweep: empty_one}
PLAY: Play[NodesWorld] = Play(
    "nodes",
    NodesWorld,
    history.begin,
    (
        *(
            (4 if deed is history.empty_under_a_sweep else weight, _INSTEAD.get(deed, deed))
            for weight, deed in history.PLAY.deeds
        ),
        (4, another_bridge),
    ),
    history.go_on,
    healed(history.heal),
    60,
    900,
)
LIFETIMES: Play[LifetimeNodesWorld] = Play(
    "lifetime-nodes",
    LifetimeNodesWorld,
    lifetimes.begin,
    (
        (120, LifetimeNodesWorld.produce),
        (15, day_passes),
        (285, steps("streams")),
        (300, steps("others")),
        (100, steps("fills")),
        (30, steps("readers")),
        (20, steps("operators")),
        (5, lose_some),
        (6, empty_one),
        (4, forget_log),
        (4, lifetimes.redeploy),
        (6, another_operator),
        (4, another_bridge),
        (20, lifetimes.another_stream),
        (25, lifetimes.another_fill),
        (10, lifetimes.catch_up),
        (10, lifetimes.compact_all),
        (15, lifetimes.another_other),
    ),
    lifetimes.go_on,
    healed(lifetimes.heal),
    100,
    500,
)
LISTS: Play[ListNodesWorld] = Play(
    "list-nodes",
    ListNodesWorld,
    lists.begin,
    (
        (200, ListNodesWorld.produce),
        (420, steps("streams")),
        (230, steps("fills")),
        (20, steps("operators")),
        (30, lists.pass_time),
        (10, lose_some),
        (8, empty_one),
        (4, forget_log),
        (13, lists.redeploy),
        (6, another_operator),
        (4, another_bridge),
        (45, lists.another_stream),
        (50, lists.another_fill),
    ),
    lists.go_on,
    healed(lists.heal),
    60,
    500,
)
