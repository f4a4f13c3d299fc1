"""One platform serves many projects: deploying one leaves the views of the others as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slicewise.errors import DefinitionError
from slicewise.features import own
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.schema_change import refusals, reread, succeeded
from slicewise.features.plan.unit import Source, StorageUnit, shared


def joined(planned: Deployment, deployed: Deployment | None) -> Deployment:
    """The deployment after a project is applied: its own views and sets, and those of all other projects.

    planned: of one project. A source that is deployed keeps the schemas that it had (docs/adr/0057). Raises
    DefinitionError where a name is another project's already, or where a source changes in a way that its archive or
    another project's views cannot go on with.
    """
    if deployed is None:
        return planned
    name = planned.project
    units = tuple(unit for unit in deployed.units if unit.project != name)
    sets = tuple(each for each in deployed.feature_sets if each.project != name)
    boards = tuple(each for each in deployed.leaderboards if each.project != name)
    _refuse_taken("view", planned.views, {unit.view: unit.project for unit in units}, name)
    _refuse_taken("feature set", [s.name for s in planned.feature_sets], {s.name: s.project for s in sets}, name)
    _refuse_taken("leaderboard", [b.name for b in planned.leaderboards], {b.name: b.project for b in boards}, name)
    sources = _sources(planned, deployed, units)
    projects = sorted({name, *(unit.project for unit in units)})
    if len(projects) == 1:
        return replace(planned, sources=sources)
    # One order, whichever project was applied last: else applying what stands would be a new deployment.
    return Deployment(
        ", ".join(each for each in projects if each != own.PROJECT),
        tuple(sorted(sources, key=lambda source: source.name)),
        shared(sorted((*units, *planned.units), key=lambda unit: unit.project)),
        tuple(sorted((*sets, *planned.feature_sets), key=lambda each: each.project)),
        tuple(sorted((*boards, *planned.leaderboards), key=lambda each: each.project)),
    )


def _refuse_taken(what: str, names: Iterable[str], owners: Mapping[str, str], project: str) -> None:
    taken = sorted(set(names) & set(owners))
    if taken:
        raise DefinitionError(
            f"{what} {taken[0]!r} is deployed by project {owners[taken[0]]!r}",
            where=f"project {project!r}",
            expected="names that no other project on this platform has",
            next_step="rename it, or apply it from that project",
        )


def _sources(planned: Deployment, deployed: Deployment, units: Sequence[StorageUnit]) -> tuple[Source, ...]:
    """units: of other projects."""
    own = {source.name: source for source in planned.sources}
    others = {unit.source for unit in units}
    for stands in deployed.sources:
        mine = own.get(stands.name)
        if mine is None:
            continue
        _refuse_change(mine, stands, [unit for unit in units if unit.source == stands.name], planned.project)
        if mine.dedupe != stands.dedupe and stands.name in others:
            raise DefinitionError(
                f"source {stands.name!r} is deployed with another dedupe, and views of other projects read it",
                where=f"project {planned.project!r}",
                expected="the source's dedupe as it is deployed",
                next_step="change it where no other project reads the source",
            )
        own[stands.name] = succeeded(mine, stands)
    kept = tuple(each for each in deployed.sources if each.name in others and each.name not in own)
    _refuse_one_topic(planned, kept)
    return (*kept, *own.values())


def _refuse_change(mine: Source, stands: Source, others: Iterable[StorageUnit], project: str) -> None:
    if mine.schema_fingerprint == stands.schema_fingerprint:
        return
    if reasons := refusals(mine, stands):
        raise DefinitionError(
            "; ".join(reasons),
            where=f"project {project!r}, source {mine.name!r}",
            expected="columns added, optional ones removed, wider decimals, widths, other required or limits",
            next_step="put a column of another name in its place, paths={…: '$.…'}; or give the source another name",
        )
    changed = reread(mine, stands)
    for unit in others:
        if mine.max_lateness_us > stands.max_lateness_us:
            raise DefinitionError(
                f"max_lateness of source {mine.name!r} grows, and view {unit.view!r} keeps too little for it",
                where=f"project {project!r}; the view is of project {unit.project!r}",
                expected="max_lateness as it is deployed, or a shorter one",
                next_step="give the changed source another name; its topic may stay where no other project reads it",
            )
        if lost := sorted(changed & set(unit.reads)):
            raise DefinitionError(
                f"column {lost[0]!r} of source {mine.name!r} changes, and view {unit.view!r} reads it",
                where=f"project {project!r}; the view is of project {unit.project!r}",
                expected="columns that views of other projects read, as they are",
                next_step="take the column out of those views first, or put one of another name beside it",
            )


def _refuse_one_topic(planned: Deployment, kept: Iterable[Source]) -> None:
    """Refuses two sources of one topic: what is applied of a topic is known by its places alone, and both would move one ledger."""
    theirs = {source.topic: source for source in kept}
    for source in planned.sources:
        other = theirs.get(source.topic)
        if other is not None:
            raise DefinitionError(
                f"topic {source.topic!r} is read by source {other.name!r}, which views of other projects use",
                where=f"project {planned.project!r}, source {source.name!r}",
                expected="one source for a topic",
                next_step="use that source, as it is deployed, by its name",
            )
