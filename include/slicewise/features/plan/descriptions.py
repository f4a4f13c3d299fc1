"""Descriptions and tags of all definitions become one list, beside what is stored."""

from __future__ import annotations

from collections.abc import Iterator

from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import PlannedDescription


def described(project: Project) -> tuple[PlannedDescription, ...]:
    """Descriptions of a project, in one order; of those definitions alone that have one, or a
    tag."""
    having = (one for one in _every(project) if one.description or one.tags)
    return tuple(sorted(having, key=lambda one: (one.kind, one.name)))


def _every(project: Project) -> Iterator[PlannedDescription]:
    name = project.name
    for source in {view.source.name: view.source for view in project.views}.values():
        tags = tuple(source.tags)
        yield PlannedDescription("source", source.name, _of(source.description), tags, name)
    for view in project.views:
        tags = tuple(view.tags)
        yield PlannedDescription("view", view.name, _of(view.description), tags, name)
        for feature in view.features:
            ref = f"{view.name}:{feature.name}"
            yield PlannedDescription("feature", ref, _of(feature.description), (), name)
    for one in project.feature_sets:
        tags = tuple(one.tags)
        yield PlannedDescription("feature set", one.name, _of(one.description), tags, name)
    for ranked in project.leaderboards:
        tags = tuple(ranked.tags)
        yield PlannedDescription("leaderboard", ranked.name, _of(ranked.description), tags, name)


def _of(description: str | None) -> str:
    return (description or "").strip()
