"""Names of views are part of other things: expectations, words, the refs of feature sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from slicewise.features.naming import base_of, version_of
from slicewise.features.plan.deployment import (
    Deployment,
    PlannedDescription,
    PlannedExpectation,
    PlannedSet,
)
from slicewise.features.suites import FEATURES


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


def reading(one: PlannedSet, renamed: Mapping[str, str]) -> PlannedSet:
    """The feature set with the refs of renamed views."""

    def named(ref: str) -> str:
        view, _, column = ref.partition(":")
        return f"{renamed.get(view, view)}:{column}"

    return replace(
        one,
        features=tuple(map(named, one.features)),
        defaults=tuple((named(ref), value) for ref, value in one.defaults),
    )


def views_of(one: PlannedSet) -> set[str]:
    """Names of the views that a feature set reads."""
    return {ref.partition(":")[0] for ref in one.features}


def is_answered(one: PlannedSet, by: Deployment) -> bool:
    """Tells whether a deployment has all that a feature set names, under these names."""
    return all(ref in by.features for ref in one.features)


def renamed_suites(
    expectations: Iterable[PlannedExpectation], renamed: Mapping[str, str]
) -> tuple[PlannedExpectation, ...]:
    """Expectations, those of renamed views in the suites of their new names."""
    suites = {f"{FEATURES}.{name}": f"{FEATURES}.{to}" for name, to in renamed.items()}
    return tuple(replace(one, suite=suites.get(one.suite, one.suite)) for one in expectations)


def renamed_words(
    described: Iterable[PlannedDescription], renamed: Mapping[str, str]
) -> tuple[PlannedDescription, ...]:
    """Words, those of renamed views and their features under the new names."""

    def named(one: PlannedDescription) -> PlannedDescription:
        if one.kind not in ("view", "feature"):
            return one
        view, separator, feature = one.name.partition(":")
        return replace(one, name=f"{renamed.get(view, view)}{separator}{feature}")

    return tuple(map(named, described))
