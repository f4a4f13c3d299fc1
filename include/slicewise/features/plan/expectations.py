"""Expectations of definitions and of suite files become one list, by suite."""

from __future__ import annotations

from collections.abc import Iterator

from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.expectations import Expectation, refuse_unknown
from slicewise.features.plan.deployment import PlannedExpectation
from slicewise.features.plan.fingerprint import canonical_json
from slicewise.features.suites import EVENTS, FEATURES
from slicewise.names import nearest


def expectations(project: Project) -> tuple[PlannedExpectation, ...]:
    """The expectations of a project, each once. Raises DefinitionError for those about what it does
    not declare."""
    planned = (
        PlannedExpectation(
            suite, given.type, canonical_json(dict(given.kwargs)), given.severity, project.name
        )
        for suite, given in _given(project)
    )
    return tuple(dict.fromkeys(planned))


def _given(project: Project) -> Iterator[tuple[str, Expectation]]:
    """(suite, expectation) of definitions, then of files."""
    columns: dict[str, list[str]] = {}
    for source in {view.source.name: view.source for view in project.views}.values():
        columns[f"{EVENTS}.{source.name}"] = list(source.schema)
        for given in source.expect:
            if isinstance(given, Expectation):  # made so by the source
                yield f"{EVENTS}.{source.name}", given
    for view in project.views:
        suite = f"{FEATURES}.{view.name}"
        columns[suite] = [column for feature in view.features for column in feature.columns()]
        for feature in view.features:
            for given in feature.expect:
                if isinstance(given, Expectation):
                    yield from ((suite, one) for one in feature.of_columns(given))
    for file in project.suites:
        if file.name not in columns:
            raise DefinitionError(
                f"the suite {file.name!r} is about nothing that is declared",
                where=file.where,
                expected="one of " + ", ".join(columns),
                next_step=nearest(file.name, columns),
            )
        for given in file.expectations:
            refuse_unknown(given, columns[file.name], file.where)
            yield file.name, given
