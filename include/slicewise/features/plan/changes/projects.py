"""One platform serves many projects: deploying one leaves the views of the others as they stand.

The platform's own source, view and feature, by which it sees how fresh answers are, are a project
beside those of users: theirs, and what they are shown, is the same with it and without it
(docs/adr/0052).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from slicewise.aggregates import count
from slicewise.errors import DefinitionError
from slicewise.features import own
from slicewise.features.declare.definitions import Feature, FeatureView, KafkaSource
from slicewise.features.declare.project import Project
from slicewise.features.naming import at_version, base_of
from slicewise.features.plan.changes.migrating import Migration as Migration
from slicewise.features.plan.changes.migrating import beside as beside
from slicewise.features.plan.changes.migrating import migrations as migrations
from slicewise.features.plan.changes.moving import promoted as promoted
from slicewise.features.plan.changes.moving import retired as retired
from slicewise.features.plan.changes.renaming import canonical
from slicewise.features.plan.changes.schema_change import refusals, reread, succeeded
from slicewise.features.plan.changes.versions import versioned
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source, StorageUnit, shared


def joined(planned: Deployment, deployed: Deployment | None) -> Deployment:
    """The deployment after a project is applied: its own views and sets, and those of all other
    projects.

    planned: of one project. A source that is deployed keeps the schemas that it had
    (docs/adr/0057). Raises DefinitionError where a name is another project's already, or where a
    source changes in a way that its archive or another project's views cannot go on with.
    """
    if deployed is None:
        return planned
    name = planned.project
    units = tuple(unit for unit in deployed.units if unit.project != name)
    sets = tuple(
        feature_set for feature_set in deployed.feature_sets if feature_set.project != name
    )
    leaderboards = tuple(
        leaderboard for leaderboard in deployed.leaderboards if leaderboard.project != name
    )
    # a version of another project's view has its name too
    _refuse_taken("view", planned.views, {base_of(u.view): u.project for u in units}, name)
    _refuse_taken(
        "feature set",
        [s.name for s in planned.feature_sets],
        {base_of(s.name): s.project for s in sets},
        name,
    )
    _refuse_taken(
        "leaderboard",
        [b.name for b in planned.leaderboards],
        {b.name: b.project for b in leaderboards},
        name,
    )
    with_versions = versioned(planned, deployed)
    planned = with_versions.deployment
    sources = _sources(planned, deployed, (*units, *with_versions.carried))
    projects = sorted({name, *(unit.project for unit in units)})
    if len(projects) == 1:
        return replace(planned, sources=sources)
    # One order, whichever project was applied last: else applying what stands would be a new
    # deployment.
    together = Deployment(
        ", ".join(project for project in projects if project != own.PROJECT),
        tuple(sorted(sources, key=lambda source: source.name)),
        shared(sorted((*units, *planned.units), key=lambda unit: unit.project)),
        tuple(sorted((*sets, *planned.feature_sets), key=lambda feature_set: feature_set.project)),
        tuple(
            sorted(
                (*leaderboards, *planned.leaderboards), key=lambda feature_set: feature_set.project
            )
        ),
        tuple(
            sorted(
                (*(e for e in deployed.expectations if e.project != name), *planned.expectations),
                key=lambda expectation: expectation.project,
            )
        ),
        tuple(
            sorted(
                (*(one for one in deployed.described if one.project != name), *planned.described),
                key=lambda one: (one.project, one.kind, one.name),
            )
        ),
        (*(one for one in deployed.live if one.project != name), *planned.live),
    )
    return canonical(together)


def _refuse_taken(what: str, names: Iterable[str], owners: Mapping[str, str], project: str) -> None:
    taken = sorted(set(names) & set(owners))
    if taken:
        raise DefinitionError(
            f"{what} {taken[0]!r} is deployed by project {owners[taken[0]]!r}",
            where=f"project {project!r}",
            expected="names that no other project on this platform has",
            next_step="rename it, or apply it from that project",
        )


def _sources(
    planned: Deployment, deployed: Deployment, units: Sequence[StorageUnit]
) -> tuple[Source, ...]:
    """units: of other projects."""
    own = {source.name: source for source in planned.sources}
    others = {unit.source for unit in units}
    for current in deployed.sources:
        planned_source = own.get(current.name)
        if planned_source is None:
            continue
        _refuse_change(
            planned_source,
            current,
            [unit for unit in units if unit.source == current.name],
            planned.project,
        )
        if planned_source.dedupe != current.dedupe and current.name in others:
            raise DefinitionError(
                (
                    f"source {current.name!r} is deployed with another dedupe, and views of "
                    "other projects, or versions that stay, read it"
                ),
                where=f"project {planned.project!r}",
                expected="the source's dedupe as it is deployed",
                next_step="change it where no other project reads the source, and no version stays",
            )
        own[current.name] = succeeded(planned_source, current)
    kept = tuple(
        source for source in deployed.sources if source.name in others and source.name not in own
    )
    _refuse_one_topic(planned, kept)
    return (*kept, *own.values())


def _refuse_change(
    source: Source, current: Source, others: Iterable[StorageUnit], project: str
) -> None:
    if source.schema_fingerprint == current.schema_fingerprint:
        return
    if reasons := refusals(source, current):
        raise DefinitionError(
            "; ".join(reasons),
            where=f"project {project!r}, source {source.name!r}",
            expected=(
                "columns added, optional ones removed, wider decimals, widths, other required or "
                "limits"
            ),
            next_step=(
                "put a column of another name in its place, paths={…: '$.…'}; or give the source "
                "another name"
            ),
        )
    changed = reread(source, current)
    for unit in others:
        if unit.project == project:
            _refuse_change_below(source, current, unit, changed)
            continue
        if source.max_lateness_us > current.max_lateness_us:
            raise DefinitionError(
                (
                    f"max_lateness of source {source.name!r} grows, and view {unit.view!r} keeps "
                    "too little for it"
                ),
                where=f"project {project!r}; the view is of project {unit.project!r}",
                expected="max_lateness as it is deployed, or a shorter one",
                next_step=(
                    "give the changed source another name; its topic may stay where no other "
                    "project reads it"
                ),
            )
        if lost := sorted(changed & set(unit.reads)):
            raise DefinitionError(
                (
                    f"column {lost[0]!r} of source {source.name!r} changes, and view "
                    f"{unit.view!r} reads it"
                ),
                where=f"project {project!r}; the view is of project {unit.project!r}",
                expected="columns that views of other projects read, as they are",
                next_step=(
                    "take the column out of those views first, or put one of another name beside it"
                ),
            )


def _refuse_change_below(
    source: Source, current: Source, unit: StorageUnit, changed: frozenset[str]
) -> None:
    """Refuse a schema that a version which stays as it was deployed could not go on with."""
    lost = sorted(changed & {*unit.reads})
    longer = source.max_lateness_us > current.max_lateness_us
    if not lost and not longer:
        return
    version = at_version(base_of(unit.view), unit.version)
    what = f"column {lost[0]!r}" if lost else "max_lateness"
    raise DefinitionError(
        f"{what} of source {source.name!r} changes, and {version} stays as it is and reads it",
        where=f"source {source.name!r}",
        expected="a source whose columns stay while several versions of a view stand",
        next_step=(
            f"retire it first: slicewise retire {version}"
            if unit.view != base_of(unit.view)
            else "change the schema first, in an apply of its own, and the view's logic after it"
        ),
    )


def _refuse_one_topic(planned: Deployment, kept: Iterable[Source]) -> None:
    """Refuses two sources of one topic: what is applied of a topic is known by its partitions
    alone, and both would move the same committed offsets."""
    theirs = {source.topic: source for source in kept}
    for source in planned.sources:
        other = theirs.get(source.topic)
        if other is not None:
            raise DefinitionError(
                (
                    f"topic {source.topic!r} is read by source {other.name!r}, which views of "
                    "other projects use"
                ),
                where=f"project {planned.project!r}, source {source.name!r}",
                expected="one source for a topic",
                next_step="use that source, as it is deployed, by its name",
            )


@cache
def of_probes() -> Deployment:
    """The deployment of the probes: a view with an entity for every probe, whose one event it
    counts."""
    source = KafkaSource(
        own.SOURCE,
        topic=own.TOPIC,
        schema={"probe": "string"},
        timestamp="kafka",
        required=["probe"],
        max_lateness="1m",
    )
    feature, _, window = own.REF.partition(":")[2].partition("_")
    seen = Feature(feature, count(), windows=[window])
    return plan(
        Project.of(
            own.PROJECT, [FeatureView(own.VIEW, source=source, entity=["probe"], features=[seen])]
        )
    )


def whole(planned: Deployment, deployed: Deployment | None, *, probes: bool) -> Deployment:
    """The deployment after a project is applied: it, the other projects' and, where they are
    wanted, the probes.

    Raises DefinitionError as `joined` does."""
    together = joined(planned, None if deployed is None else deployed.declared)
    return joined(of_probes(), together) if probes else together
