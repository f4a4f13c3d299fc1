"""Existing names can be listed by whoever may ask for them, with what each of them means."""

from __future__ import annotations

from typing import Any

from slicewise.aggregates.sketches.membership import answer_type, membership_of
from slicewise.features.plan.deployment import Deployment, PlannedLeaderboard
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.metrics import Metrics
from slicewise.windows.durations import format_duration


def leaderboards(deployment: Deployment) -> dict[str, Any]:
    """The leaderboards, each with what it ranks."""
    return {
        "leaderboards": [
            _leaderboard(leaderboard) | _words(deployment, "leaderboard", leaderboard.name)
            for leaderboard in deployment.leaderboards
        ]
    }


def _words(deployment: Deployment, kind: str, name: str) -> dict[str, Any]:
    """Words of the author of a definition."""
    words = deployment.description(kind, name)
    if words is None:
        return {"description": "", "tags": []}
    return {"description": words.description, "tags": list(words.tags)}


def _leaderboard(leaderboard: PlannedLeaderboard) -> dict[str, Any]:
    return {
        "name": leaderboard.name,
        "feature": leaderboard.ref,
        "k": leaderboard.k,
        "every": format_duration(leaderboard.every_us),
        "corrections": leaderboard.topic,
        "owner": leaderboard.owner,
    }


def everything(deployment: Deployment) -> dict[str, Any]:
    """Views with their features, and feature sets."""
    return {
        "project": deployment.project,
        "views": [view(deployment, name) for name in deployment.views],
        "feature_sets": [
            feature_set(deployment, declared.name) for declared in deployment.feature_sets
        ],
        **leaderboards(deployment),
    }


def one(deployment: Deployment, name: str) -> dict[str, Any]:
    """A view, a feature "view:column" or a feature set. Raises UnknownName."""
    if ":" in name:
        return _feature(deployment, *deployment.resolve(name))
    if name in {declared.name for declared in deployment.feature_sets}:
        return feature_set(deployment, name)
    return view(deployment, name)


def view(deployment: Deployment, name: str) -> dict[str, Any]:
    """A view with its features."""
    units = deployment.view(name)
    return {
        "name": name,
        "source": units[0].source,
        "owner": units[0].owner,
        **_words(deployment, "view", name),
        "entity": dict(units[0].entity),
        "features": [
            _feature(deployment, unit, feature) for unit in units for feature in unit.features
        ],
    }


def feature_set(deployment: Deployment, name: str) -> dict[str, Any]:
    """A feature set with the entity columns that it needs."""
    definition = deployment.feature_set(name)
    entity = {
        column: kind
        for ref in definition.features
        for column, kind in deployment.resolve(ref)[0].entity
    }
    return {
        "name": name,
        "owner": definition.owner,
        **_words(deployment, "feature set", name),
        "features": list(definition.features),
        "defaults": dict(definition.defaults),
        "entity": entity,
    }


def _feature(deployment: Deployment, unit: StorageUnit, feature: PlannedFeature) -> dict[str, Any]:
    membership = membership_of(feature.aggregate)
    question = (
        {}
        if membership is None
        else {"asked_by": {membership.question: dict(unit.input_types)[membership.question]}}
    )
    return {
        "ref": f"{unit.view}:{feature.column}",
        "aggregate": feature.aggregate.describe(),
        "description": _words(deployment, "feature", f"{unit.view}:{feature.feature}")[
            "description"
        ],
        "type": str(answer_type(feature.aggregate)),
        **question,
        "window": feature.window.column_suffix(),
        "slice": unit.step_text,
        "unit": unit.storage_fingerprint,
    }


def gauges(metrics: Metrics, service: FeatureService) -> None:
    """Sets what is read off when metrics are asked for."""
    now_us = service.clock.now_us()
    metrics.partial_cache_bytes.set(service.partials.bytes)
    metrics.partial_cache_reads.labels("yes").set(service.partials.hits)
    metrics.partial_cache_reads.labels("no").set(service.partials.misses)
    for source in service.catalog.deployment.sources if service.catalog is not None else ():
        lost = service.high_water.anywhere.get(source.name)
        metrics.lost.labels(source.name).set(0 if lost is None else lost.events)
    for name, newest_us in service.freshness.newest_pending.items():
        metrics.realtime_age.labels(name).set((now_us - newest_us) / 1e6)
    for name, freshness in service.freshness.all().items():
        if freshness.ledger_advanced_us is not None:
            metrics.committed_age.labels(name).set((now_us - freshness.ledger_advanced_us) / 1e6)
        if freshness.lag_events is not None:
            metrics.lag.labels(name).set(freshness.lag_events)
