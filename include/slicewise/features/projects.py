"""One platform serves many projects: deploying one leaves the views of the others as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from slicewise.errors import DefinitionError
from slicewise.features import own
from slicewise.features.event_list import shared
from slicewise.features.plan import Deployment
from slicewise.features.unit import Source


def joined(planned: Deployment, deployed: Deployment | None) -> Deployment:
    """The deployment after a project is applied: its own views and sets, and those of all other projects.

    planned: of one project. Raises DefinitionError where a name is another project's already, or where two projects
    read a source by different schemas.
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
    sources = _sources(planned, deployed, {unit.source for unit in units})
    projects = sorted({name, *(unit.project for unit in units)})
    if len(projects) == 1:
        return planned
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


def _sources(planned: Deployment, deployed: Deployment, others: Set[str]) -> tuple[Source, ...]:
    own = {source.name: source for source in planned.sources}
    for stands in deployed.sources:
        mine = own.get(stands.name)
        if mine is not None and mine.schema_fingerprint != stands.schema_fingerprint:
            # Stream and archive would judge the same record by different rules, each from another moment on.
            raise DefinitionError(
                f"source {stands.name!r} is deployed with another schema or other limits",
                where=f"project {planned.project!r}",
                expected="the source as it is deployed: columns, timestamp, required, max_lateness, max_ahead",
                next_step="give the changed source another name (its topic= may stay), and its views too",
            )
    return (*(each for each in deployed.sources if each.name in others and each.name not in own), *planned.sources)
