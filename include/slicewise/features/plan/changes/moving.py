"""Promoting a version moves names, and retiring one takes it away; no stored byte changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from slicewise.errors import DefinitionError
from slicewise.features.naming import at_version, base_of, version_of
from slicewise.features.plan.changes.renaming import (
    canonical,
    is_answered,
    reading,
    renamed_suites,
    renamed_words,
    views_of,
)
from slicewise.features.plan.changes.versioned_sets import record_of, versions_beside
from slicewise.features.plan.deployment import Deployment, LiveVersion, PlannedSet, VersionedKind
from slicewise.features.plan.leaderboard import ranked_over
from slicewise.features.suites import FEATURES
from slicewise.names import unknown

KINDS: tuple[VersionedKind, ...] = ("view", "feature set")


def promoted(deployment: Deployment, *names: str) -> Deployment:
    """The deployment in which these versions, as "by_card@2", stand under the views' names.

    Those that did stand under their own. Raises UnknownName, and DefinitionError, with the users,
    where a feature set or a leaderboard reads what a version has not, or has of another type.
    """
    numbers: dict[str, int] = {}
    for name in names:
        view, number = base_of(name), version_of(name)
        if number is None or deployment.current_name("view", name) not in deployment.views:
            raise unknown("version", name, _versions(deployment, deployment.views))
        if numbers.setdefault(view, number) != number:
            raise DefinitionError(
                f"two versions of {view} are named",
                where=f"promote {' '.join(names)}",
                expected="one version of a view",
                next_step="name the one that is to be live",
            )
    before = {view: deployment.live_version("view", view) for view in numbers}
    numbers = {view: number for view, number in numbers.items() if number != before[view].live}
    if not numbers:
        return deployment
    begins = {at_version(view, number): view for view, number in numbers.items()}
    ends = {view: at_version(view, before[view].live) for view in numbers}
    renamed = begins | ends
    records = {(one.kind, one.name): one for one in deployment.live}
    for view, number in numbers.items():
        records["view", view] = replace(before[view], live=number)
    bare = replace(
        deployment,
        units=tuple(
            replace(unit, view=renamed.get(unit.view, unit.view)) for unit in deployment.units
        ),
        feature_sets=(),
        leaderboards=(),
        expectations=renamed_suites(deployment.expectations, renamed),
        described=renamed_words(deployment.described, renamed),
        live=tuple(records.values()),
    )
    sets: list[PlannedSet] = []
    for base in dict.fromkeys(base_of(one.name) for one in deployment.feature_sets):
        moved = _MovedSet(deployment, bare, base, begins, ends)
        sets += moved.sets()
        if moved.record != moved.before:
            records["feature set", base] = moved.record
    ranked = [
        ranked_over(leaderboard, bare) if leaderboard.view in numbers else leaderboard
        for leaderboard in deployment.leaderboards
    ]
    return canonical(
        replace(
            bare,
            feature_sets=tuple(sets),
            leaderboards=tuple(ranked),
            live=tuple(records.values()),
        )
    )


class _MovedSet:
    """A feature set, with its versions, while versions of views are promoted.

    The version that waits for them becomes live with them. Where the live one is not answered any
    more, the version that was live before does, or, where it began with what ends, it waits again.
    """

    def __init__(
        self,
        deployment: Deployment,
        after: Deployment,
        name: str,
        begins: Mapping[str, str],
        ends: Mapping[str, str],
    ) -> None:
        self._deployment, self._after, self._name = deployment, after, name
        self._begins, self._renamed = begins, {**begins, **ends}
        self._ends = ends
        self.before = self.record = record_of(deployment, name, "")
        self._live = next((one for one in deployment.feature_sets if one.name == name), None)
        self._beside = versions_beside(deployment, name)

    def sets(self) -> Iterator[PlannedSet]:
        """The set and its versions afterwards."""
        live, record = self._live, self.record
        if record.waits in self._beside and self._may_begin(record.waits):
            self._exchange(record.waits, waits=0)
        elif live is not None and (lost := self._lost(live)):
            past = [n for n in sorted(self._beside, reverse=True) if n != record.waits]
            begin = next((number for number in past if self._is_live_then(number)), 0)
            if not begin and record.began != record.live:
                raise lost
            self._beside.pop(record.waits, None)
            self._exchange(begin, waits=record.live)
        else:
            self._rename()
        if self._live is not None:
            yield self._live
        yield from (one for one in self._beside.values() if is_answered(one, self._after))

    def _rename(self) -> None:
        self._beside = {n: reading(one, self._renamed) for n, one in self._beside.items()}

    def _exchange(self, begin: int, waits: int) -> None:
        """Makes a version live (0: none), and what was live a version."""
        then, self._live = self._live, None
        self._rename()
        if begin:
            self._live = replace(self._beside.pop(begin), name=self._name)
        if then is not None:
            own_name = at_version(self._name, self.record.live)
            self._beside[self.record.live] = replace(reading(then, self._ends), name=own_name)
        began = self.record.began if then is not None else begin
        self.record = replace(self.record, live=begin, waits=waits, began=began if begin else 0)

    def _may_begin(self, number: int) -> bool:
        """Tells whether the version that waits reads what becomes live, and nothing that does
        not."""
        one = self._beside.get(number)
        reads = one is not None and bool(views_of(one) & self._begins.keys())
        return reads and self._is_live_then(number)

    def _is_live_then(self, number: int) -> bool:
        """Tells whether all that a version reads is live afterwards."""
        one = reading(self._beside[number], self._renamed)
        return is_answered(one, self._after) and all(version_of(v) is None for v in views_of(one))

    def _lost(self, live: PlannedSet) -> DefinitionError | None:
        """The refusal of a version that lacks what the set reads, or gives another type of it."""
        for ref in live.features:
            view, _, column = ref.partition(":")
            if view not in self._ends:
                continue
            _, now = self._after.features.get(ref, (None, None))
            before = self._deployment.resolve(ref)[1].aggregate.output_type
            if now is not None and now.aggregate.output_type == before:
                continue
            version = next(of for of, base in self._begins.items() if base == view)
            what = (
                f"{version} has no {column}, which feature set {self._name!r} reads"
                if now is None
                else f"{column} of {version} is {now.aggregate.output_type}, and feature set "
                f"{self._name!r} reads {before}"
            )
            return DefinitionError(
                what,
                where=f"promote {version}",
                expected="a version that has all that is read of the live one",
                next_step=(
                    "promote it together with the versions that the set's new version reads; or "
                    "take the feature out of the set, and apply"
                ),
            )
        return None


def retired(deployment: Deployment, names: Sequence[str]) -> Deployment:
    """The deployment without these versions, as "by_card@1", of views and feature sets.

    Raises UnknownName, and DefinitionError where one is live, or a feature set that stays reads it.
    """
    sets = tuple(one.name for one in deployment.feature_sets)
    named: Mapping[VersionedKind, Sequence[str]] = {"view": deployment.views, "feature set": sets}
    every = (*deployment.views, *sets)
    for name in names:
        current = [deployment.current_name(kind, name) for kind in KINDS]
        stands = [of for kind, of in zip(KINDS, current, strict=True) if of in named[kind]]
        if not stands:
            raise unknown("version", name, _versions(deployment, every))
        if version_of(stands[0]) is None:
            raise DefinitionError(
                f"{name} is live",
                where=f"retire {name}",
                expected=(
                    "a version beside it: " + (", ".join(_versions(deployment, every)) or "none")
                ),
                next_step="promote another one first, or take it out of the definitions",
            )
    for one in deployment.feature_sets:
        lost = sorted(views_of(one) & {*names})
        if lost and one.name not in names:
            raise DefinitionError(
                f"feature set {one.name!r} reads {', '.join(lost)}",
                where=f"retire {' '.join(names)}",
                expected="versions that nothing reads which stays",
                next_step=f"retire it too: slicewise retire {' '.join(names)} {one.name}",
            )
    gone = {*names}
    units = tuple(unit for unit in deployment.units if unit.view not in gone)
    read = {unit.source for unit in units}
    suites = {f"{FEATURES}.{name}" for name in names}
    return canonical(
        replace(
            deployment,
            sources=tuple(source for source in deployment.sources if source.name in read),
            units=units,
            feature_sets=tuple(one for one in deployment.feature_sets if one.name not in gone),
            expectations=tuple(one for one in deployment.expectations if one.suite not in suites),
            described=tuple(
                one
                for one in deployment.described
                if one.kind not in ("view", "feature") or one.name.partition(":")[0] not in gone
            ),
            live=tuple(_without_waiting(one, gone) for one in deployment.live),
        )
    )


def _without_waiting(one: LiveVersion, gone: set[str]) -> LiveVersion:
    is_gone = one.kind == "feature set" and at_version(one.name, one.waits) in gone
    return replace(one, waits=0) if is_gone else one


def _versions(deployment: Deployment, names: Sequence[str]) -> list[str]:
    """Names of versions that are not live, and of live ones their own."""
    live = [at_version(one.name, one.live) for one in deployment.live if one.kind == "view"]
    return sorted({*live, *(name for name in names if version_of(name) is not None)})
