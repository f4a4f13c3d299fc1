"""A feature set that names what only a new version of a view has waits for it as a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slicewise.errors import DefinitionError
from slicewise.features.naming import at_version, base_of, version_of
from slicewise.features.plan.changes.renaming import is_answered, reading, views_of
from slicewise.features.plan.deployment import Deployment, LiveVersion, PlannedSet

Beside = dict[int, PlannedSet]
"""Number -> version of a feature set that is not live."""


def versioned_sets(
    planned: Deployment, deployed: Deployment, result: Deployment, moved: Mapping[str, str]
) -> tuple[tuple[PlannedSet, ...], tuple[LiveVersion, ...]]:
    """The feature sets of a project with their versions, beside what is deployed of it.

    result: the deployment with the views that stand then; moved: view -> the version that its
    definitions are, where that is not the live one. Raises DefinitionError where a set that stays
    live until then reads what goes.
    """
    sets: list[PlannedSet] = []
    records: list[LiveVersion] = []
    then = {one.name: one for one in deployed.feature_sets}
    for one in planned.feature_sets:
        record = record_of(deployed, one.name, planned.project)
        # what nothing answers any more goes: it stores nothing
        beside = {
            number: other
            for number, other in versions_beside(deployed, one.name).items()
            if is_answered(other, result)
        }
        if _is_live(one, planned, then.get(one.name), result, moved):
            beside.pop(record.waits, None)  # nobody wants it any more
            record = replace(record, waits=0)
            if not record.live:
                record = replace(record, live=record.newest + 1, newest=record.newest + 1)
            sets.append(one)
        else:
            live = then.get(one.name)
            if live is not None:
                _refuse_unanswered(live, result)
                sets.append(live)
            record = _waiting(reading(one, moved), record, beside)
        sets += beside.values()
        if beside or record.newest > 1 or not record.live:
            records.append(record)
    return tuple(sets), tuple(records)


def versions_beside(deployment: Deployment, name: str) -> Beside:
    """Versions of a feature set that are not live, by their numbers."""
    return {
        number: one
        for one in deployment.feature_sets
        if base_of(one.name) == name and (number := version_of(one.name)) is not None
    }


def record_of(deployment: Deployment, name: str, project: str) -> LiveVersion:
    """The versions of a feature set until now; of one that was never deployed none."""
    for one in deployment.live:
        if (one.kind, one.name) == ("feature set", name):
            return one
    number = int(any(one.name == name for one in deployment.feature_sets))
    return LiveVersion("feature set", name, number, number, project)


def _waiting(candidate: PlannedSet, record: LiveVersion, beside: Beside) -> LiveVersion:
    """Adds the version that waits to those beside the live one, in place of one that waited; what
    there is of them then."""

    def alike_named(one: PlannedSet) -> PlannedSet:
        return replace(
            one,
            name=candidate.name,
            owner=candidate.owner,
            log=candidate.log,
            log_rate=candidate.log_rate,
        )

    alike = [number for number, other in beside.items() if alike_named(other) == candidate]
    number = record.waits if record.waits in alike else max(alike, default=record.newest + 1)
    if record.waits != number:
        beside.pop(record.waits, None)
    beside[number] = replace(candidate, name=at_version(candidate.name, number))
    return replace(record, waits=number, newest=max(record.newest, number))


def _is_live(
    one: PlannedSet,
    planned: Deployment,
    then: PlannedSet | None,
    result: Deployment,
    moved: Mapping[str, str],
) -> bool:
    """Tells whether live versions of its views answer it; of one that stands as it is declared
    they do."""
    if not views_of(one) & moved.keys() or then == one:
        return True
    now, wanted = result.features, planned.features
    return all(
        ref in now and now[ref][1].aggregate.output_type == wanted[ref][1].aggregate.output_type
        for ref in one.features
    )


def _refuse_unanswered(live: PlannedSet, result: Deployment) -> None:
    if is_answered(live, result):
        return
    lost = ", ".join(ref for ref in live.features if ref not in result.features)
    raise DefinitionError(
        f"feature set {live.name!r} reads {lost} until its new version is live, and it is removed",
        where=f"feature set {live.name!r}",
        expected="all that the live version of the set reads",
        next_step="leave it in until the set's new version is promoted, and remove it then",
    )
