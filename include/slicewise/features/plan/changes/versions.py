"""A view keeps its name when its logic changes: the new version stands beside the live one until it
is promoted, and what it was stays readable until it is retired (docs/adr/0121).

The live version stands under the view's name, all others under names of their own, as "by_card@2".
Feature sets are versioned alike, where they name what only a new version of a view has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from slicewise.errors import DefinitionError
from slicewise.features.naming import at_version, base_of, version_of
from slicewise.features.plan.build import fingerprinted
from slicewise.features.plan.changes.explain import change_of
from slicewise.features.plan.changes.renaming import canonical, renamed_suites, renamed_words
from slicewise.features.plan.changes.schema_change import refusals, succeeded
from slicewise.features.plan.changes.versioned_sets import versioned_sets
from slicewise.features.plan.deployment import (
    Deployment,
    LiveVersion,
    PlannedDescription,
    PlannedExpectation,
)
from slicewise.features.plan.leaderboard import ranked_over
from slicewise.features.plan.unit import Source, StorageUnit, shared
from slicewise.features.rowlogic.expression import canonical as canonical_tree
from slicewise.features.suites import FEATURES


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
            *renamed_suites(planned.expectations, moved),
            *_of_carried_suites(deployed, carried),
        ),
        described=(
            *renamed_words(planned.described, moved),
            *_of_carried_words(deployed, carried),
        ),
        live=tuple(live.values()),
    )
    sets, live_sets = versioned_sets(planned, deployed, result, moved)
    result = replace(result, feature_sets=sets, live=(*live.values(), *live_sets))
    ranked = tuple(
        ranked_over(leaderboard, result, moved.get(leaderboard.view))
        for leaderboard in planned.leaderboards
    )
    return Versioned(canonical(replace(result, leaderboards=ranked)), tuple(carried))


def _chosen(name: str, planned: Deployment, deployed: Deployment) -> int:
    """Number of the deployed version that the planned view is; 0 where it is none of them.

    Raises DefinitionError where it is of other entities: its readers would send other columns.
    """
    stands = deployed.live_version("view", name)
    if name not in deployed.views:
        return stands.live
    units = planned.view(name)
    for source in {unit.source for unit in units}:
        then = next((one for one in deployed.sources if one.name == source), None)
        if then is not None and refusals(planned.source(source), then):
            return stands.live  # which is refused as a whole
    _refuse_other_entity(units[0], deployed.view(name)[0])
    own = (version_of(other) for other in deployed.views if base_of(other) == name)
    others = sorted((number for number in own if number is not None), reverse=True)
    for number in (stands.live, *others):
        own_name = name if number == stands.live else at_version(name, number)
        alike = tuple(_as(unit, own_name, number, planned) for unit in units)
        after = replace(planned, units=alike, live=deployed.live)
        kinds = [change_of(unit, after, deployed).kind for unit in alike]
        if "refused" in kinds:
            continue
        # a unit that is new under this name: the view keeps events beside slices, or is built
        # again for a column of another type
        if "new" not in kinds or _same_logic(alike, deployed.view(own_name)):
            return number
    return 0


def _same_logic(units: Sequence[StorageUnit], stands: Sequence[StorageUnit]) -> bool:
    """Tells whether the units choose and compute rows as those that stand do.

    Those of one kind hold the same partials, whatever the types of the columns that they read.
    """

    def row_logic(unit: StorageUnit) -> tuple[object, dict[str, object]]:
        where = None if unit.where is None else canonical_tree(unit.where.tree)
        columns = {name: canonical_tree(column.tree) for name, column in unit.columns}
        return where, {**columns, **{name: made.stored() for name, made in unit.functions}}

    def partials(unit: StorageUnit) -> list[str]:
        return sorted(str(partial.spec()) for partial in unit.layout.partials)

    now, then = row_logic(units[0])[0], row_logic(stands[0])[0]
    computed = [
        {name: made for unit in of for name, made in row_logic(unit)[1].items()}
        for of in (units, stands)
    ]
    both = computed[0].keys() & computed[1].keys()
    if now != then or any(computed[0][name] != computed[1][name] for name in both):
        return False
    return all(
        any(
            type(other) is not type(unit)
            or (other.slice_us == unit.slice_us and partials(other) == partials(unit))
            for other in stands
        )
        for unit in units
    )


def _refuse_other_entity(now: StorageUnit, then: StorageUnit) -> None:
    if now.entity == then.entity:
        return
    entities = [
        ", ".join(f"{name} {kind}" for name, kind in unit.entity) or "none" for unit in (now, then)
    ]
    raise DefinitionError(
        f"the entity of view {base_of(now.view)!r} is {entities[0]}, was {entities[1]}",
        where=f"view {base_of(now.view)!r}",
        expected="the entity that it is deployed with: its readers send these columns",
        next_step="give the changed view another name, and move its readers",
    )


def _as(unit: StorageUnit, name: str, number: int, of: Deployment) -> StorageUnit:
    """The unit as one of this version, under this name."""
    return fingerprinted(replace(unit, view=name, version=number), of.source(unit.source))


def _succeeding(source: Source, deployed: Deployment) -> Source:
    then = next((one for one in deployed.sources if one.name == source.name), None)
    return source if then is None or refusals(source, then) else succeeded(source, then)


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
