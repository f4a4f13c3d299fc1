"""A leaderboard is planned over a feature of a view, or refused where it was declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from slicewise.errors import DefinitionError, SlicewiseError
from slicewise.features.plan.deployment import PlannedLeaderboard
from slicewise.windows.durations import format_duration, parse_duration
from slicewise.windows.periodic import Periodic
from slicewise.windows.window import Window

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
    _check_feature(declared, unit, feature)
    _check_every(declared, unit, feature.window, every_us)
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


def _check_feature(declared: Leaderboard, unit: StorageUnit, feature: PlannedFeature) -> None:
    kind = feature.aggregate.output_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DefinitionError(
            f"by={declared.by!r} is {kind}",
            where=declared.where,
            expected="a feature whose values are numbers",
            next_step="rank by a count, a sum, a mean, …",
        )
    if unit.dedupe is not None:
        raise DefinitionError(
            f"view {unit.view!r} is of a source whose events count once by their id",
            where=declared.where,
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
            where=declared.where,
            expected='a view by what the leaderboard lists, as entity=["song_id"]',
            next_step="rank a view that has an entity",
        )
    window = feature.window
    if not window.ends_complete:
        raise DefinitionError(
            f"by={declared.by!r} is over {window.column_suffix()}",
            where=declared.where,
            expected=(
                "a window that is complete at its end: sliding, tumbling, hopping, without open= "
                "and offset="
            ),
            next_step="declare the feature over a sliding window too, and rank by that",
        )


def _check_every(declared: Leaderboard, unit: StorageUnit, window: Window, every_us: int) -> None:
    step = window.ends_every(unit.slice_us)
    if every_us % step:
        raise DefinitionError(
            (
                f"every={declared.every!r}, and the window of {declared.by!r} ends every "
                f"{format_duration(step)}"
            ),
            where=declared.where,
            expected=f"a multiple of {format_duration(step)}",
            next_step="change every="
            if isinstance(window, Periodic)
            else "change every=, or slice= of the view",
        )
