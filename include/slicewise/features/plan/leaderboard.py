"""A planned leaderboard says what its rows mean: a stored leaderboard of another fingerprint is not
this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slicewise.errors import DefinitionError, SlicewiseError
from slicewise.features.plan.build import leaderboard_payload
from slicewise.features.plan.fingerprint import fingerprint
from slicewise.windows.durations import format_duration, parse_duration
from slicewise.windows.periodic import Periodic
from slicewise.windows.window import Window

if TYPE_CHECKING:
    from slicewise.features.declare.leaderboard import Leaderboard
    from slicewise.features.plan.unit import PlannedFeature, StorageUnit

    Resolve = Callable[[str], tuple[StorageUnit, PlannedFeature]]

CORRECTIONS = ".corrections"


@dataclass(frozen=True)
class PlannedLeaderboard:
    """A leaderboard of a deployment. topic: of its corrections; None where late events are ignored.

    fingerprint: 16 hex digits of what its rows mean; a stored leaderboard of another one is not
    this leaderboard.
    """

    name: str
    view: str
    column: str
    k: int
    every_us: int
    topic: str | None
    correct_within_us: int
    owner: str | None = None
    project: str = ""
    fingerprint: str = ""

    @property
    def ref(self) -> str:
        """ "view:column"."""
        return f"{self.view}:{self.column}"


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
    return replace(leaderboard, fingerprint=_fingerprint(leaderboard, unit, feature))


def _fingerprint(
    leaderboard: PlannedLeaderboard, unit: StorageUnit, feature: PlannedFeature
) -> str:
    return fingerprint(leaderboard_payload(unit, feature, leaderboard.k, leaderboard.every_us))


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


def leaderboard_to_json(leaderboard: PlannedLeaderboard) -> dict[str, Any]:
    """Plain values from which `leaderboard_from_json` builds an equal leaderboard."""
    return {name: getattr(leaderboard, name) for name in PlannedLeaderboard.__dataclass_fields__}


def leaderboard_from_json(
    raw: Mapping[str, Any], unit: StorageUnit, feature: PlannedFeature
) -> PlannedLeaderboard:
    """The leaderboard; DefinitionError where this version would rank other values under its
    fingerprint."""
    leaderboard = PlannedLeaderboard(**raw)
    now = _fingerprint(leaderboard, unit, feature)
    if now != leaderboard.fingerprint:
        raise DefinitionError(
            (
                f"the fingerprint of leaderboard {leaderboard.name!r} is "
                f"{leaderboard.fingerprint} in the deployment and {now} here"
            ),
            expected="the version of slicewise that deployed it, or one that ranks alike",
            next_step="run that version, or deploy again with this one",
        )
    return leaderboard
