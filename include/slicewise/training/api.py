"""Training sets and snapshots as users ask for them: one call, everything else from the
settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from slicewise.calls import checked_arguments
from slicewise.errors import BadRequest
from slicewise.extras import needed
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings
from slicewise.training.archiving.job import archive_first
from slicewise.training.archiving.offline import Offline, deployed
from slicewise.training.archiving.pending import Need, need_of, pending
from slicewise.training.dataset import DataSet, build_snapshot, build_training_set, rebuild
from slicewise.training.manifest import SPINE_SUFFIX, SUFFIX, Manifest
from slicewise.training.requests.training_request import looked_through, training_request
from slicewise.training.requests.unit_requests import UnitRequest, named, resolve
from slicewise.training.snapshots import instants
from slicewise.training.tables.instants import instant_us, text_of
from slicewise.windows.durations import parse_duration

Notify = Callable[[str], None]


def _nobody(line: str) -> None:
    """Tells nobody: for callers that want no steps."""


@checked_arguments
@needed("training", "sw.training_set")
def training_set(
    spine: object,
    features: object,
    knowledge: str = "event_time",
    *,
    deployment: Deployment | None = None,
    settings: Settings | None = None,
    archive: bool = True,
    progress: Notify | None = None,
) -> DataSet:
    """The features' values for every row of the spine, as they were known.

    spine: entity columns, `at` (aware) and whatever else is to be kept, such as labels; an Arrow
    table, a pandas frame, a list of dicts or a file (Parquet, Feather or CSV). Rows may repeat, and
    an entity may have several instants; unknown entities have empty aggregates. features: a feature
    set or its name, or refs such as ["listening:plays_7d"]. knowledge: "event_time", all that is
    known now of events before `at`; "token", exactly what the answers contained whose tokens stand
    in the column `token`. deployment: in place of the one that runs. archive: where the spine asks
    for more than is archived, the log is archived first, by Spark; False refuses instead. progress:
    is given what is done, line by line; to standard error by default.

    Raises BadRequest and UnknownName before anything but the store's deployment is read;
    NothingArchived where the log holds nothing either; ServerError and SettingsError where it could
    not be archived.
    """
    settings = settings or Settings.load()
    return open_training_set(
        settings,
        spine,
        features,
        knowledge,
        deployment,
        archive=archive,
        notify=progress or to_stderr,
    )[1]


@checked_arguments
@needed("training", "sw.snapshot")
def snapshot(
    features: object,
    *,
    at: datetime | str | int | None = None,
    start: datetime | str | int | None = None,
    end: datetime | str | int | None = None,
    every: str | None = None,
    deployment: Deployment | None = None,
    settings: Settings | None = None,
    archive: bool = True,
    progress: Notify | None = None,
) -> DataSet:
    """The features of every entity that has events in some window, at each of the instants.

    Either `at`, or start, start + every, … before end; aware. Other arguments as of training_set.
    """
    settings, ats = settings or Settings.load(), snapshot_instants(at, start, end, every)
    return open_snapshot(
        settings, features, ats, deployment, archive=archive, notify=progress or to_stderr
    )[1]


def open_training_set(
    settings: Settings,
    spine: object,
    features: object,
    knowledge: str,
    deployment: Deployment | None = None,
    *,
    archive: bool,
    notify: Notify,
    step: Notify = _nobody,
) -> tuple[Offline, DataSet]:
    """Builds what training_set gives, and the offline side that it came from.

    Each step opens more than the one before, so that what is wrong is said by the first that can
    see it. notify: is told what is archived; step: of each step.
    """
    given = looked_through(spine, features, knowledge)
    question = training_request(deployment or deployed(settings), given, features, knowledge)
    rows = question.spine
    step(
        f"the spine has {len(rows):,} rows, `at` from {text_of(rows.at_us.min())} to "
        f"{text_of(rows.at_us.max())}"
    )
    step("opening the archive")
    offline = Offline.open(settings, question.deployment)
    if archive:
        extend_archive(
            settings,
            offline,
            question.requested,
            need_of(question.requested, rows.at_us, question.tokens),
            notify,
        )
    step(f"building {len(question.refs)} features")
    return offline, build_training_set(
        offline.deployment, offline.archive, rows, features, knowledge
    )


def open_snapshot(
    settings: Settings,
    features: object,
    ats_us: Sequence[int],
    deployment: Deployment | None = None,
    *,
    archive: bool,
    notify: Notify,
    step: Notify = _nobody,
) -> tuple[Offline, DataSet]:
    """Builds what snapshot gives, in the same way."""
    named(features)
    definitions = deployment or deployed(settings)
    refs, requested = resolve(definitions, features)
    step("opening the archive")
    offline = Offline.open(settings, definitions)
    if archive:
        extend_archive(
            settings,
            offline,
            requested,
            need_of(requested, np.array(sorted(ats_us), np.int64), None),
            notify,
        )
    step(f"building {len(refs)} features")
    return offline, build_snapshot(definitions, offline.archive, features, ats_us)


def open_again(
    settings: Settings, path: Path, spine: Path | None, *, step: Notify = _nobody
) -> tuple[Offline, DataSet]:
    """Builds what a manifest's file tells of again, in the same way. spine: None for the file
    beside the manifest."""
    manifest = Manifest.read(path)
    step("opening the archive")
    offline = Offline.open(settings, manifest.deployed())
    beside = path.with_name(path.name.removesuffix(SUFFIX) + SPINE_SUFFIX)
    step(f"building {manifest.rows} rows of {len(manifest.features)} features again")
    given = spine or (beside if manifest.spine else None)
    return offline, rebuild(offline.archive, manifest, given, str(path))


def extend_archive(
    settings: Settings,
    offline: Offline,
    requested: Sequence[UnitRequest],
    need: Need,
    notify: Notify,
) -> None:
    """Archives what these features need and no archive holds yet; nothing where all is there.

    Raises BadRequest for instants in the future, NothingArchived, StoreUnavailable, ServerError,
    SettingsError.
    """
    archive = offline.archive
    some = pending(offline.deployment, archive, archive, requested, need, offline.clock.now_us())
    if some:
        archive_first(settings, some, archive, notify)


def to_stderr(line: str) -> None:
    """A line of progress for people."""
    sys.stderr.write(f"dataset: {line}\n")
    sys.stderr.flush()


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
