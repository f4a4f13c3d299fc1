"""A leaderboard is planned over a feature of a view, or refused where it was declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from slicewise.errors import DefinitionError, SlicewiseError
from slicewise.features.plan.deployment import Deployment, PlannedLeaderboard
from slicewise.windows.durations import format_duration, parse_duration
from slicewise.windows.periodic import Periodic

if TYPE_CHECKING:
    from slicewise.features.declare.leaderboard import Leaderboard
    from slicewise.features.plan.unit import PlannedFeature, StorageUnit

    Resolve = Callable[[str], tuple[StorageUnit, PlannedFeature]]

CORRECTIONS = ".corrections"


def plan_leaderboard(declared: Leaderboard, resolve: Resolve) -> PlannedLeaderboard:
    """A leaderboard over a planned view. resolve: of the deployment that has the view. Raises
    DefinitionError."""
    try:
        unit, feature = resolve(f"{declared.view_name}:{declared.by}")
    except SlicewiseError as error:
        raise DefinitionError(
            error.what, where=declared.where, expected=error.expected, next_step=error.next_step
        ) from error
    every_us = parse_duration(declared.every)
    check_ranked(unit, feature, every_us, declared.every, declared.where)
    leaderboard = PlannedLeaderboard(
        declared.name,
        unit.view,
        feature.column,
        declared.k,
        every_us,
        (declared.topic or declared.name + CORRECTIONS) if declared.late == "correct" else None,
        parse_duration(declared.correct_within),
        declared.owner,
    )
    return replace(leaderboard, fingerprint=leaderboard.fingerprint_over(unit, feature))


def check_ranked(
    unit: StorageUnit, feature: PlannedFeature, every_us: int, every: str, where: str | None
) -> None:
    """Refuse a feature that cannot be ranked, or not at these times. every: they as they were
    declared."""
    kind = feature.aggregate.output_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DefinitionError(
            f"by={feature.column!r} is {kind}",
            where=where,
            expected="a feature whose values are numbers",
            next_step="rank by a count, a sum, a mean, …",
        )
    if unit.dedupe is not None:
        raise DefinitionError(
            f"view {unit.view!r} is of a source whose events count once by their id",
            where=where,
            expected=(
                "a view of a source without dedupe=: a leaderboard reads the log by itself, where "
                "events come again"
            ),
            next_step=(
                "rank what /v1/features answers, or let the producers be idempotent "
                "(enable.idempotence=true)"
            ),
        )
    if not unit.entity:
        raise DefinitionError(
            f"view {unit.view!r} has no entity: there is nothing to rank",
            where=where,
            expected='a view by what the leaderboard lists, as entity=["song_id"]',
            next_step="rank a view that has an entity",
        )
    window = feature.window
    if not window.ends_complete:
        raise DefinitionError(
            f"by={feature.column!r} is over {window.column_suffix()}",
            where=where,
            expected=(
                "a window that is complete at its end: sliding, tumbling, hopping, without open= "
                "and offset="
            ),
            next_step="declare the feature over a sliding window too, and rank by that",
        )
    step = window.ends_every(unit.slice_us)
    if every_us % step:
        raise DefinitionError(
            f"every={every!r}, and the window of {feature.column!r} ends every "
            f"{format_duration(step)}",
            where=where,
            expected=f"a multiple of {format_duration(step)}",
            next_step="change every="
            if isinstance(window, Periodic)
            else "change every=, or slice= of the view",
        )


def ranked_over(
    leaderboard: PlannedLeaderboard, after: Deployment, version: str | None = None
) -> PlannedLeaderboard:
    """The leaderboard over the live version of its view. version: the one that it was declared
    with, where that is not live. Raises DefinitionError where what is live cannot be ranked so."""
    where = f"leaderboard {leaderboard.name!r}"
    try:
        unit, feature = after.resolve(leaderboard.ref)
        check_ranked(
            unit, feature, leaderboard.every_us, format_duration(leaderboard.every_us), where
        )
    except SlicewiseError as error:
        only = f", which only {version} has" if version else ""
        raise DefinitionError(
            f"{where} ranks {leaderboard.ref}{only}: {error.what}",
            where=where,
            expected=error.expected or "a feature of the version that is live",
            next_step=f"apply without it, promote {version}, and apply with it"
            if version
            else "apply without the leaderboard first, or give the version what it ranks",
        ) from error
    return replace(leaderboard, fingerprint=leaderboard.fingerprint_over(unit, feature))
