"""A view keeps its name when its logic changes: the new version stands beside the live one until it
is promoted, and what it was stays readable until it is retired (docs/adr/0121).

The live version stands under the view's name, all others under names of their own, as "by_card@2".
Feature sets are versioned alike, where they name what only a new version of a view has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slicewise.errors import DefinitionError
from slicewise.features.naming import at_version, base_of, version_of
from slicewise.features.plan.build import fingerprinted
from slicewise.features.plan.changes.explain import change_of
from slicewise.features.plan.changes.schema_change import refusals, succeeded
from slicewise.features.plan.deployment import (
    Deployment,
    LiveVersion,
    PlannedDescription,
    PlannedExpectation,
    PlannedLeaderboard,
    PlannedSet,
    VersionedKind,
)
from slicewise.features.plan.unit import Source, StorageUnit, shared
from slicewise.features.suites import FEATURES
from slicewise.names import unknown

KINDS: tuple[VersionedKind, ...] = ("view", "feature set")


@dataclass(frozen=True)
class Versioned:
    """A project's deployment with all versions of its views that stand. carried: the units that
    stand as they were deployed, whatever the definitions say now."""

    deployment: Deployment
    carried: tuple[StorageUnit, ...] = ()


def versioned(planned: Deployment, deployed: Deployment) -> Versioned:
    """A project's definitions beside what is deployed of it.

    A view that what is stored can answer stays live as it is planned. One that needs other partials
    is its next version, beside the live one; where a version that stands has them already, it is
    that version.
    """
    after = replace(
        planned, sources=tuple(_succeeding(source, deployed) for source in planned.sources)
    )
    names = dict.fromkeys(unit.view for unit in planned.units)
    chosen = {name: _chosen(name, after, deployed) for name in names}
    if not deployed.live and all(number == 1 for number in chosen.values()):
        return Versioned(planned)
    own = [unit for unit in deployed.units if unit.project == planned.project]
    units: list[StorageUnit] = []
    carried: list[StorageUnit] = []
    live: dict[tuple[str, str], LiveVersion] = {}
    moved: dict[str, str] = {}
    for name, number in chosen.items():
        stands = deployed.live_version("view", name)
        number = number or stands.newest + 1
        own_name = name if number == stands.live else at_version(name, number)
        units += (_as(unit, own_name, number, after) for unit in after.view(name))
        others = [unit for unit in own if base_of(unit.view) == name and unit.view != own_name]
        carried += others
        newest = max(stands.newest, number)
        if newest > 1:
            live["view", name] = replace(stands, newest=newest, project=planned.project)
        if own_name != name:
            moved[name] = own_name
    sources = {source.name: source for source in deployed.sources} | {
        source.name: source for source in planned.sources
    }
    read = {unit.source for unit in (*units, *carried)}
    result = replace(
        planned,
        sources=tuple(source for name, source in sources.items() if name in read),
        units=shared((*units, *carried)),
        feature_sets=(),
        leaderboards=(),
        expectations=(
            *_renamed_suites(planned.expectations, moved),
            *_of_carried_suites(deployed, carried),
        ),
        described=(
            *_renamed_words(planned.described, moved),
            *_of_carried_words(deployed, carried),
        ),
        live=tuple(live.values()),
    )
    sets = _Sets(planned, deployed, result, moved)
    result = replace(
        result,
        feature_sets=tuple(sets.chosen()),
        live=(*live.values(), *sets.live.values()),
    )
    ranked = tuple(_ranked(leaderboard, result, moved) for leaderboard in planned.leaderboards)
    return Versioned(canonical(replace(result, leaderboards=ranked)), tuple(carried))


def canonical(deployment: Deployment) -> Deployment:
    """The deployment in one order, whichever versions were promoted one after another: else
    applying what stands would be a new one. The order of what has no versions is its own."""
    if not deployment.live:
        return deployment
    return replace(
        deployment,
        units=tuple(
            sorted(
                deployment.units,
                key=lambda unit: (unit.project, base_of(unit.view), version_of(unit.view) or 0),
            )
        ),
        feature_sets=tuple(
            sorted(
                deployment.feature_sets,
                key=lambda one: (one.project, base_of(one.name), version_of(one.name) or 0),
            )
        ),
        expectations=tuple(
            sorted(
                deployment.expectations,
                key=lambda one: (one.project, one.suite, one.type, one.kwargs, one.severity),
            )
        ),
        described=tuple(
            sorted(deployment.described, key=lambda one: (one.project, one.kind, one.name))
        ),
        live=tuple(sorted(deployment.live, key=lambda one: (one.project, one.kind, one.name))),
    )


def promoted(deployment: Deployment, name: str) -> Deployment:
    """The deployment in which a version, as "by_card@2", stands under the view's name.

    The one that did stands under its own.

    Raises UnknownName, and DefinitionError, with the users, where a feature set or a leaderboard
    reads what the version has not, or has of another type.
    """
    view = base_of(name)
    before = deployment.live_version("view", view)
    number = version_of(name)
    if number is None or deployment.current_name("view", name) not in deployment.views:
        raise unknown("version", name, _other_versions(deployment))
    if number == before.live:
        return deployment
    renamed = {name: view, view: at_version(view, before.live)}
    live = {(one.kind, one.name): one for one in deployment.live}
    live["view", view] = replace(before, live=number)
    bare = replace(
        deployment,
        units=tuple(
            replace(unit, view=renamed.get(unit.view, unit.view)) for unit in deployment.units
        ),
        feature_sets=(),
        leaderboards=(),
        expectations=_renamed_suites(deployment.expectations, renamed),
        described=_renamed_words(deployment.described, renamed),
    )
    sets: list[PlannedSet] = []
    beginning = _beginning(deployment, name, view)
    for one in deployment.feature_sets:
        base = base_of(one.name)
        if one.name in beginning.values():
            stands = deployment.live_version("feature set", base)
            live["feature set", base] = replace(stands, live=version_of(one.name) or 0)
            sets.append(replace(_reading(one, {name: view}), name=base))
        elif one.name in beginning:
            number_then = deployment.live_version("feature set", base).live
            sets.append(
                replace(_reading(one, {view: renamed[view]}), name=at_version(base, number_then))
            )
        elif version_of(one.name) is None:
            _refuse_lost(one, deployment, bare, name)
            sets.append(one)
        else:
            sets.append(_reading(one, {name: view, view: renamed[view]}))
    ranked = []
    for leaderboard in deployment.leaderboards:
        if leaderboard.view == view:
            _refuse_lost_column(
                leaderboard.ref, f"leaderboard {leaderboard.name!r}", deployment, bare, name
            )
            unit, feature = bare.resolve(leaderboard.ref)
            leaderboard = replace(
                leaderboard, fingerprint=leaderboard.fingerprint_over(unit, feature)
            )
        ranked.append(leaderboard)
    return canonical(
        replace(
            bare,
            feature_sets=tuple(sets),
            leaderboards=tuple(ranked),
            live=tuple(live.values()),
        )
    )


def retired(deployment: Deployment, names: Sequence[str]) -> Deployment:
    """The deployment without these versions, as "by_card@1", of views and feature sets.

    Raises UnknownName, and DefinitionError where one is live, or a feature set that stays reads it.
    """
    named = {
        "view": deployment.views,
        "feature set": tuple(one.name for one in deployment.feature_sets),
    }
    for name in names:
        current = [deployment.current_name(kind, name) for kind in KINDS]
        stands = [of for kind, of in zip(KINDS, current, strict=True) if of in named[kind]]
        if not stands:
            raise unknown("version", name, _versions(deployment))
        if version_of(stands[0]) is None:
            raise DefinitionError(
                f"{name} is live",
                where=f"retire {name}",
                expected="a version beside it: " + (", ".join(_versions(deployment)) or "none"),
                next_step="promote another one first, or take it out of the definitions",
            )
    for one in deployment.feature_sets:
        if one.name in names:
            continue
        lost = sorted({ref.partition(":")[0] for ref in one.features} & {*names})
        if lost:
            raise DefinitionError(
                f"feature set {one.name!r} reads {', '.join(lost)}",
                where=f"retire {' '.join(names)}",
                expected="versions that nothing reads which stays",
                next_step=(
                    f"retire it too: slicewise retire {' '.join(names)} {one.name}"
                    if version_of(one.name) is not None
                    else "promote another version of the view, or change the feature set"
                ),
            )
    gone = dict.fromkeys(names, "")
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
        )
    )


def _chosen(name: str, planned: Deployment, deployed: Deployment) -> int:
    """Number of the deployed version that the planned view is; 0 where it is none of them."""
    stands = deployed.live_version("view", name)
    if name not in deployed.views:
        return stands.live
    units = planned.view(name)
    for source in {unit.source for unit in units}:
        then = next((one for one in deployed.sources if one.name == source), None)
        if then is not None and refusals(planned.source(source), then):
            return stands.live  # which is refused as a whole
    own = (version_of(other) for other in deployed.views if base_of(other) == name)
    others = sorted((number for number in own if number is not None), reverse=True)
    for number in (stands.live, *others):
        own_name = name if number == stands.live else at_version(name, number)
        alike = tuple(_as(unit, own_name, number, planned) for unit in units)
        after = replace(planned, units=alike)
        if all(change_of(unit, after, deployed).kind != "refused" for unit in alike):
            return number
    return 0


def _as(unit: StorageUnit, name: str, number: int, of: Deployment) -> StorageUnit:
    """The unit as one of this version, under this name."""
    return fingerprinted(replace(unit, view=name, version=number), of.source(unit.source))


def _succeeding(source: Source, deployed: Deployment) -> Source:
    then = next((one for one in deployed.sources if one.name == source.name), None)
    return source if then is None or refusals(source, then) else succeeded(source, then)


def _reading(one: PlannedSet, renamed: Mapping[str, str]) -> PlannedSet:
    """The feature set with the refs of renamed views."""

    def named(ref: str) -> str:
        view, _, column = ref.partition(":")
        return f"{renamed.get(view, view)}:{column}"

    return replace(
        one,
        features=tuple(map(named, one.features)),
        defaults=tuple((named(ref), value) for ref, value in one.defaults),
    )


class _Sets:
    """The feature sets of a project beside what is deployed of it."""

    def __init__(
        self,
        planned: Deployment,
        deployed: Deployment,
        result: Deployment,
        moved: Mapping[str, str],
    ) -> None:
        self.planned, self.deployed, self.result, self.moved = planned, deployed, result, moved
        self.live: dict[tuple[str, str], LiveVersion] = {}
        self._then = {one.name: one for one in deployed.feature_sets}

    def chosen(self) -> Iterator[PlannedSet]:
        """Live ones, and versions that wait for the views that they read."""
        for one in self.planned.feature_sets:
            stands = self._stands(one.name)
            candidate = None if self._is_live(one) else _reading(one, self.moved)
            beside = [
                other
                for name, other in self._then.items()
                if base_of(name) == one.name and version_of(name) is not None
            ]
            if candidate is None:
                yield one
            else:
                if one.name in self._then:
                    yield self._then[one.name]
                alike = [other for other in beside if replace(other, name=one.name) == candidate]
                if not alike:
                    stands = replace(stands, newest=stands.newest + 1)
                    beside.append(replace(candidate, name=at_version(one.name, stands.newest)))
            yield from beside
            if beside or stands.newest > 1 or not stands.live:
                self.live["feature set", one.name] = stands

    def _stands(self, name: str) -> LiveVersion:
        """The set's versions until now; of one that was never deployed none."""
        kept = {(one.kind, one.name): one for one in self.deployed.live}.get(("feature set", name))
        if kept is not None:
            return kept
        number = int(name in self._then)
        return LiveVersion("feature set", name, number, number, self.planned.project)

    def _is_live(self, one: PlannedSet) -> bool:
        """Tells whether live versions of its views answer it; of one that stands as it is declared
        they do."""
        if not any(ref.partition(":")[0] in self.moved for ref in one.features):
            return True
        if self._then.get(one.name) == one:
            return True
        return all(self._has(ref) for ref in one.features)

    def _has(self, ref: str) -> bool:
        """Tells whether the live version has the feature, of the type that is planned."""
        view, _, column = ref.partition(":")
        now = {f.column: f for unit in self.result.view(view) for f in unit.features}.get(column)
        wanted = self.planned.resolve(ref)[1].aggregate.output_type
        return now is not None and now.aggregate.output_type == wanted


def _ranked(
    leaderboard: PlannedLeaderboard, after: Deployment, moved: Mapping[str, str]
) -> PlannedLeaderboard:
    """The leaderboard over the live version of its view."""
    columns = {f.column for unit in after.view(leaderboard.view) for f in unit.features}
    if leaderboard.column not in columns:
        version = moved.get(leaderboard.view, leaderboard.view)
        raise DefinitionError(
            f"leaderboard {leaderboard.name!r} ranks {leaderboard.ref}, which only {version} has",
            where=f"leaderboard {leaderboard.name!r}",
            expected="a feature of the version that is live",
            next_step=(
                f"apply without it, promote the version (slicewise promote {version}), and apply "
                "with it"
            ),
        )
    unit, feature = after.resolve(leaderboard.ref)
    return replace(leaderboard, fingerprint=leaderboard.fingerprint_over(unit, feature))


def _beginning(deployment: Deployment, name: str, view: str) -> dict[str, str]:
    """Feature set -> its version that becomes live with the view's: all that it reads would be
    live; the newest where several would."""
    result: dict[str, str] = {}
    for one in deployment.feature_sets:
        number = version_of(one.name)
        if number is None:
            continue
        views = {ref.partition(":")[0] for ref in one.features}
        if name not in views or view in views:
            continue
        if all(other == name or version_of(other) is None for other in views):
            base = base_of(one.name)
            then = version_of(result.get(base, "")) or 0
            if number > then:
                result[base] = one.name
    return result


def _refuse_lost(one: PlannedSet, deployment: Deployment, after: Deployment, name: str) -> None:
    """Refuse a version that lacks what a feature set reads, or gives another type of it."""
    for ref in one.features:
        if ref.partition(":")[0] == base_of(name):
            _refuse_lost_column(ref, f"feature set {one.name!r}", deployment, after, name)


def _refuse_lost_column(
    ref: str, user: str, deployment: Deployment, after: Deployment, name: str
) -> None:
    view, _, column = ref.partition(":")
    now = {f.column: f for unit in after.view(view) for f in unit.features}.get(column)
    before = deployment.resolve(ref)[1].aggregate.output_type
    if now is not None and now.aggregate.output_type == before:
        return
    what = (
        f"{name} has no {column}, which {user} reads"
        if now is None
        else f"{column} of {name} is {now.aggregate.output_type}, and {user} reads {before}"
    )
    raise DefinitionError(
        what,
        where=f"promote {name}",
        expected="a version that has all that is read of the live one",
        next_step="take the feature out of its users, and apply; or give the version the feature",
    )


def _renamed_suites(
    expectations: Iterable[PlannedExpectation], renamed: Mapping[str, str]
) -> tuple[PlannedExpectation, ...]:
    suites = {f"{FEATURES}.{name}": f"{FEATURES}.{to}" for name, to in renamed.items()}
    return tuple(replace(one, suite=suites.get(one.suite, one.suite)) for one in expectations)


def _renamed_words(
    described: Iterable[PlannedDescription], renamed: Mapping[str, str]
) -> tuple[PlannedDescription, ...]:
    def named(one: PlannedDescription) -> PlannedDescription:
        if one.kind not in ("view", "feature"):
            return one
        view, separator, feature = one.name.partition(":")
        return replace(one, name=f"{renamed.get(view, view)}{separator}{feature}")

    return tuple(map(named, described))


def _of_carried_suites(
    deployed: Deployment, carried: Iterable[StorageUnit]
) -> Iterator[PlannedExpectation]:
    suites = {f"{FEATURES}.{unit.view}" for unit in carried}
    return (one for one in deployed.expectations if one.suite in suites)


def _of_carried_words(
    deployed: Deployment, carried: Iterable[StorageUnit]
) -> Iterator[PlannedDescription]:
    views = {unit.view for unit in carried}
    return (
        one
        for one in deployed.described
        if one.kind in ("view", "feature") and one.name.partition(":")[0] in views
    )


def _versions(deployment: Deployment) -> list[str]:
    """Names of versions that are not live."""
    names = (*deployment.views, *(one.name for one in deployment.feature_sets))
    return [name for name in names if version_of(name) is not None]


def _other_versions(deployment: Deployment) -> list[str]:
    return [name for name in deployment.views if version_of(name) is not None]
