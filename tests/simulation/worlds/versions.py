"""An answer is of the version that its name stands for, and holds what its logic chooses.

Two views whose `where` changes again and again: real plans, and the real decisions of apply,
promote and retire. What each name must stand for is said by an account of what operators did, which
knows neither plans nor fingerprints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.naming import base_of, version_of
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.rowlogic.expression import Literal, walk
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.steps import Text
from tests.simulation.histories.choices import Choices
from tests.simulation.worlds.world import FIRST_HOUR, HOURS, LAYOUT, World, Wrong
from tests.support.stores.stored import Event, StoreUnit

VIEWS = ("v", "w")
KINDS = 3
"""Logics: events of a price of 0, 1 or 2 at least count."""
MOST = 3
"""Versions of a view that stand at once."""
_NAME = re.compile(rb"(?:\}|swapped):([0-9a-f]{16}(?:\.\d+)?):")


def price(partition: int, offset: int) -> int:
    """The price of an event, which follows from where it lies."""
    return (offset * 7 + partition) % KINDS


@lru_cache(maxsize=KINDS**2)
def planned(kinds: tuple[int, int]) -> Deployment:
    """The project whose views have these logics."""
    schema = {"user": "long", "at_us": "timestamp_us", "price": "long"}
    source = sw.KafkaSource("plays", schema=schema, timestamp="at_us", max_lateness="1h")
    feature = sw.Feature("n", sw.count(), windows=["2d"])
    views = [
        sw.FeatureView(
            name,
            source=source,
            entity=["user"],
            slice="1h",
            where=f"price >= {kind}" if kind else None,
            features=[feature],
        )
        for name, kind in zip(VIEWS, kinds, strict=True)
    ]
    return plan(Project.of("p", views))


@lru_cache(maxsize=1024)
def parsed(text: str) -> Deployment:
    return Deployment.from_json(text)


@dataclass(frozen=True)
class Intended:
    """Versions of one view, as the operators mean them: the live one, the newest number, and the
    logic of each."""

    live: int
    newest: int
    kinds: tuple[tuple[int, int], ...]
    """(number, logic), in the order of the numbers."""

    def applied(self, kind: int) -> Intended:
        """After definitions of this logic were applied."""
        if kind in dict(self.kinds).values():
            return self
        number = self.newest + 1
        return Intended(self.live, number, (*self.kinds, (number, kind)))

    def promoted(self, number: int) -> Intended:
        return replace(self, live=number)

    def retired(self, number: int) -> Intended:
        return replace(self, kinds=tuple(one for one in self.kinds if one[0] != number))


Account = tuple[Intended, ...]
"""One for each of `VIEWS`."""


def stored_unit(unit: StorageUnit) -> StoreUnit:
    """The same unit with identities in the place of its partials."""
    return StoreUnit(
        unit.storage_fingerprint,
        view=unit.view,
        slice_us=unit.slice_us,
        retention_us=unit.retention_us,
        layout=LAYOUT,
    )


class VersionsWorld(World):
    """A world of two views and their versions. What is removed of its rules are flags."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.all_units = self.units = ()
        self.current = planned((0, 0))
        """The deployment that stands."""
        self.by_digest: dict[str, tuple[StoreUnit, ...]] = {}
        self.meant: dict[tuple[int, str], Account] = {}
        """(deployment version, digest) -> what its operator meant by it."""
        self.kinds: dict[str, int] = {}
        """Unit -> the logic that it was applied for."""
        self.thresholds: dict[str, int] = {}
        """Unit -> the least price that its stored `where` chooses."""
        self.conditional = self.requires_built = self.plans_again = True
        self.hours_left_out: dict[str, int] = {}
        self.skips_hour = False
        self._checked = (0, "")

    # ------------------------------------------------------------ what operators do
    def account(self, actual: StoreMetadata) -> Account:
        """The account of what is deployed. Raises Wrong where nobody meant it."""
        account = self.meant.get((actual.deployment_version, actual.units))
        if account is None:
            raise Wrong(
                f"deployment version {actual.deployment_version} is not what anybody meant by it"
            )
        return account

    def means(self, version: int, deployment: Deployment, account: Account) -> None:
        """An operator is about to deploy this as this version."""
        self.meant[version, deployment.digest] = account

    # ------------------------------------------------------------ what others ask of a world
    def deployment(self) -> Any:
        return self.current

    def deployed_units(self, actual: StoreMetadata) -> tuple[StoreUnit, ...] | None:
        return self.by_digest.get(actual.units)

    def manifest(self, actual: StoreMetadata) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self._manifest_text(actual.units))
        return manifest

    def counts(self, partition: int, offset: int, unit: StoreUnit | None = None) -> bool:
        return unit is None or price(partition, offset) >= self.kinds[unit.storage_fingerprint]

    def chosen(self, unit: StoreUnit | None, events: list[Event]) -> list[Event]:
        if unit is None:
            return events
        least = self.thresholds[unit.storage_fingerprint]
        return [event for event in events if price(event.partition, event.offset) >= least]

    def build_hours(self, unit: StoreUnit) -> Sequence[int]:
        hours = super().build_hours(unit)
        left_out = self.hours_left_out.get(unit.storage_fingerprint) if self.skips_hour else None
        return [hour for hour in hours if hour != left_out]

    # ------------------------------------------------------------ the truth
    def check(self) -> None:
        actual = self.metadata()
        if actual is not None and actual.units:
            if (actual.deployment_version, actual.units) != self._checked:
                self._checked = (actual.deployment_version, actual.units)
                self._look(actual)
            self._check_live(actual)
        super().check()

    def _manifest_text(self, digest: str) -> str:
        text: bytes = self.server.execute(Text(keys.manifest_key(digest)))
        return text.decode()

    def _look(self, actual: StoreMetadata) -> None:
        """Takes in what is deployed, and compares it with what its operator meant."""
        self.current = parsed(self._manifest_text(actual.units))
        account = dict(zip(VIEWS, self.account(actual), strict=True))
        by_view: dict[str, set[int]] = {name: set() for name in VIEWS}
        for unit in self.current.units:
            by_view[base_of(unit.view)].add(unit.version)
        for name, intended in account.items():
            live = self.current.live_version("view", name).live
            numbers = {number for number, _ in intended.kinds}
            if (live, by_view[name]) != (intended.live, numbers):
                raise Wrong(
                    f"deployment version {actual.deployment_version} has versions "
                    f"{sorted(by_view[name])} of {name}, {live} live; meant were "
                    f"{sorted(numbers)}, {intended.live} live"
                )
        for unit in self.current.units:
            fingerprint = unit.storage_fingerprint
            kind = dict(account[base_of(unit.view)].kinds)[unit.version]
            if self.kinds.setdefault(fingerprint, kind) != kind:
                raise Wrong(f"version {unit.version} of {base_of(unit.view)} is of another logic")
            tree = None if unit.where is None else unit.where.tree
            self.thresholds[fingerprint] = 0 if tree is None else _threshold(tree)
            self.hours_left_out.setdefault(fingerprint, FIRST_HOUR + min(self.now, HOURS - 1))
        self.units = tuple(map(stored_unit, self.current.units))
        self.by_digest[actual.units] = self.units
        every = {unit.storage_fingerprint: unit for unit in self.all_units}
        every |= {unit.storage_fingerprint: unit for unit in self.units}
        self.all_units = tuple(every.values())

    def _check_live(self, actual: StoreMetadata) -> None:
        for unit in self.units:
            if version_of(unit.view) is None and unit.storage_fingerprint not in actual.ready:
                raise Wrong(f"{unit.view} stands for a version that is not built")

    def check_named_as_meant(self, name: str, unit: StorageUnit, actual: StoreMetadata) -> None:
        """Compares a version that a reader got by a name with the one that the name stands for."""
        intended = self.account(actual)[VIEWS.index(base_of(name))]
        number = version_of(name) or intended.live
        if self.kinds[unit.storage_fingerprint] != dict(intended.kinds).get(number):
            raise Wrong(f"{name} was answered by version {unit.version}, not by {number}")

    def check_swept(self) -> None:
        """No key is left of what no longer stands."""
        actual = self.metadata()
        assert actual is not None
        stands = {actual.name(fingerprint) for fingerprint in actual.starts}
        for key in self.server.hashes:
            named = _NAME.search(key)
            if named and named[1].decode() not in stands:
                raise Wrong(f"{key!r} is left of a version that was retired")


def _threshold(tree: Any) -> int:
    (least,) = (node.value for node in walk(tree) if isinstance(node, Literal))
    assert isinstance(least, int)
    return least
