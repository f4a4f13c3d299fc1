"""Training sets and snapshots as users ask for them: one call, everything else from the settings."""

from __future__ import annotations

from datetime import datetime

from slicewise.errors import BadRequest
from slicewise.features.plan import Deployment
from slicewise.settings import Settings
from slicewise.slices import parse_duration
from slicewise.training.dataset import DataSet, build_snapshot, build_training_set
from slicewise.training.instants import instant_us
from slicewise.training.offline import Offline
from slicewise.training.snapshots import instants


def training_set(
    spine: object,
    features: object,
    knowledge: str = "event_time",
    *,
    deployment: Deployment | None = None,
    settings: Settings | None = None,
) -> DataSet:
    """The features' values for every row of the spine, as they were known.

    spine: entity columns, `at` (aware) and whatever else is to be kept, such as labels; an Arrow
    table, a pandas frame, a list of dicts or a Parquet file. Rows may repeat, and an entity may
    have several instants; unknown entities have empty aggregates. features: a feature set or its
    name, or refs such as ["listening:plays_7d"]. knowledge: "event_time", all that is known now of
    events before `at`; "token", exactly what the answers contained whose tokens stand in the
    column `token`. deployment: in place of the one that runs.

    Raises BadRequest, UnknownName, and where the spine asks for more than is archived, an error
    that says from when.
    """
    offline = Offline.open(settings or Settings.load(), deployment)
    return build_training_set(offline.deployment, offline.archive, spine, features, knowledge)


def snapshot(
    features: object,
    *,
    at: datetime | str | int | None = None,
    start: datetime | str | int | None = None,
    end: datetime | str | int | None = None,
    every: str | None = None,
    deployment: Deployment | None = None,
    settings: Settings | None = None,
) -> DataSet:
    """The features of every entity that has events in some window, at each of the instants.

    Either `at`, or start, start + every, … before end; aware. Other arguments as of training_set.
    """
    offline = Offline.open(settings or Settings.load(), deployment)
    return build_snapshot(offline.deployment, offline.archive, features, snapshot_instants(at, start, end, every))


def snapshot_instants(
    at: datetime | str | int | None,
    start: datetime | str | int | None,
    end: datetime | str | int | None,
    every: str | None,
) -> tuple[int, ...]:
    """The instants that these arguments name, in microseconds UTC. Raises BadRequest."""
    if at is not None and start is None and end is None and every is None:
        return (instant_us(at, "at"),)
    if at is None and start is not None and end is not None and every is not None:
        return instants(instant_us(start, "start"), instant_us(end, "end"), parse_duration(every))
    raise BadRequest(
        "it is not said when the snapshot is taken",
        where="snapshot",
        expected="at=…, or start=…, end=… and every=…",
        next_step="give one instant, or a span and its step",
    )
