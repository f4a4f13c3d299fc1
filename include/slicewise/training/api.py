"""Training sets and snapshots as users ask for them: one call, everything else from the
settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np

from slicewise.calls import checked_arguments
from slicewise.errors import BadRequest
from slicewise.extras import needed
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings
from slicewise.training.archiving.job import archive_first
from slicewise.training.archiving.offline import Offline, deployed, deployed_at
from slicewise.training.archiving.pending import Need, need_of, pending
from slicewise.training.arrival import Arrival, read_entries, refuse_later
from slicewise.training.dataset import DataSet, rebuild
from slicewise.training.entered import age_text, read_arrival
from slicewise.training.manifest import ARRIVAL_SUFFIX, SPINE_SUFFIX, SUFFIX, Manifest
from slicewise.training.ranges import Ints
from slicewise.training.requests.training_request import (
    AUTO,
    looked_through,
    refuse_engine,
    training_request,
)
from slicewise.training.requests.unit_requests import ARRIVAL, UnitRequest, named, resolve
from slicewise.training.scaled.building import ScaledSet, build_set, build_snapshot_set
from slicewise.training.snapshots import instants
from slicewise.training.tables.instants import instant_us, text_of
from slicewise.training.tables.locations import located
from slicewise.training.writing import checked_target as checked_target
from slicewise.training.writing import parquet_bytes as parquet_bytes
from slicewise.training.writing import put as put
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
    known_at: datetime | str | int | None = None,
    as_of_definition: datetime | str | int | None = None,
    engine: str = AUTO,
    deployment: Deployment | None = None,
    settings: Settings | None = None,
    archive: bool = True,
    progress: Notify | None = None,
) -> DataSet:
    """The features' values for every row of the spine, as they were known.

    spine: entity columns, `at` (aware) and whatever else is to be kept, such as labels; an Arrow
    table or stream, a frame of pandas or polars, a list of dicts, a file (Parquet, Feather or CSV),
    "iceberg:namespace.table" or "sql:SELECT …" over sources, tables and files. Rows may repeat, and
    an entity may have several instants; unknown entities have empty aggregates. features: a feature
    set or its name, or refs such as ["listening:plays_7d"]. knowledge: "event_time", all that is
    known now of events before `at`; "token", exactly what the answers contained whose tokens stand
    in the column `token`; "arrival", what the stream had applied by `at`: never more than an answer
    had then, and less by what came in the second before (docs/adr/0122). known_at: an aware instant
    at which all rows know what had been applied, instead of each at its own `at`, which is at or
    before it. as_of_definition: an aware instant, whose deployment is used in place of the one that
    runs. engine: "local", "spark" (the same bits, of more events than this process has room for)
    or "auto", which chooses by size. deployment: in place of the one that runs. archive: where the
    spine asks for more than is archived, the log is archived first, by Spark; False refuses
    instead. progress: is given what is done, line by line; to standard error by default.

    Raises BadRequest and UnknownName before anything but the store's deployment is read;
    NothingArchived where the log holds nothing either; ServerError and SettingsError where it could
    not be archived.
    """
    settings, notify = settings or Settings.load(), progress or to_stderr
    built = open_training_set(
        settings,
        spine,
        features,
        knowledge,
        as_of(settings, deployment, as_of_definition),
        known_at=known_at,
        engine=engine,
        archive=archive,
        notify=notify,
        in_memory=True,
    )[1]
    return whole(built)


@checked_arguments
@needed("training", "sw.snapshot")
def snapshot(
    features: object,
    *,
    at: datetime | str | int | None = None,
    start: datetime | str | int | None = None,
    end: datetime | str | int | None = None,
    every: str | None = None,
    known_at: datetime | str | int | None = None,
    as_of_definition: datetime | str | int | None = None,
    engine: str = AUTO,
    deployment: Deployment | None = None,
    settings: Settings | None = None,
    archive: bool = True,
    progress: Notify | None = None,
) -> DataSet:
    """The features of every entity that has events in some window, at each of the instants.

    Either `at`, or start, start + every, … before end; aware. known_at: an aware instant, at or
    after all of these: only events count that had been applied by then, and an entity whose events
    came later has no row. Other arguments as of training_set.
    """
    settings, ats = settings or Settings.load(), snapshot_instants(at, start, end, every)
    definitions = as_of(settings, deployment, as_of_definition)
    built = open_snapshot(
        settings,
        features,
        ats,
        definitions,
        known_at=known_at,
        engine=engine,
        archive=archive,
        notify=progress or to_stderr,
        in_memory=True,
    )[1]
    return whole(built)


def whole(built: DataSet | ScaledSet) -> DataSet:
    """The set, with all its values in memory."""
    if not isinstance(built, ScaledSet):
        return built
    with built:
        return built.whole()


def as_of(
    settings: Settings, deployment: Deployment | None, instant: datetime | str | int | None
) -> Deployment | None:
    """The deployment that stood at this instant; without one the deployment that was given. Raises
    BadRequest."""
    if instant is None:
        return deployment
    if deployment is not None:
        raise BadRequest(
            "a deployment and an instant of one",
            where="as_of_definition",
            expected="either of them",
            next_step="leave deployment out to use what stood then",
        )
    return deployed_at(settings, instant_us(instant, "as_of_definition"))


def open_training_set(
    settings: Settings,
    spine: object,
    features: object,
    knowledge: str,
    deployment: Deployment | None = None,
    *,
    known_at: datetime | str | int | None = None,
    engine: str = AUTO,
    archive: bool,
    notify: Notify,
    step: Notify = _nobody,
    in_memory: bool = False,
) -> tuple[Offline, DataSet | ScaledSet]:
    """Builds what training_set gives, and the offline side that it came from.

    Each step opens more than the one before, so that what is wrong is said by the first that can
    see it. notify: is told what is archived; step: of each step. in_memory: whether the caller
    holds all values in the end.
    """
    refuse_engine(engine)
    known_at_us = None if known_at is None else instant_us(known_at, "known_at")
    knowledge = _by_arrival(knowledge, known_at_us)
    current = cache(lambda: deployment or deployed(settings))
    given = looked_through(located(settings, spine, current), features, knowledge)
    question = training_request(current(), given, features, knowledge)
    rows = question.spine
    step(
        f"the spine has {len(rows):,} rows, `at` from {text_of(rows.at_us.min())} to "
        f"{text_of(rows.at_us.max())}"
    )
    step("opening the archive")
    offline = Offline.open(settings, question.deployment)
    arrival = None
    if knowledge == ARRIVAL:
        arrival = _read_arrival(
            settings, offline, question.requested, rows.at_us, known_at_us, step
        )
    if archive:
        need = need_of(question.requested, rows.at_us, question.tokens, arrival)
        extend_archive(settings, offline, question.requested, need, notify)
    return offline, build_set(
        settings,
        offline.archive,
        question,
        knowledge,
        arrival,
        engine,
        notify,
        step,
        in_memory=in_memory,
    )


def _by_arrival(knowledge: str, known_at_us: int | None) -> str:
    """The knowledge that is meant, where an instant of it is given. Raises BadRequest."""
    if known_at_us is None or knowledge == ARRIVAL:
        return knowledge
    if knowledge == "token":
        raise BadRequest(
            "tokens say themselves what was known",
            where="known_at",
            expected='knowledge="arrival" beside it',
            next_step="leave known_at out, or the tokens",
        )
    return ARRIVAL if knowledge == "event_time" else knowledge


def open_snapshot(
    settings: Settings,
    features: object,
    ats_us: Sequence[int],
    deployment: Deployment | None = None,
    *,
    known_at: datetime | str | int | None = None,
    engine: str = AUTO,
    archive: bool,
    notify: Notify,
    step: Notify = _nobody,
    in_memory: bool = False,
) -> tuple[Offline, DataSet | ScaledSet]:
    """Builds what snapshot gives, in the same way."""
    refuse_engine(engine)
    named(features)
    ats = np.array(sorted(ats_us), np.int64)
    known_at_us = None if known_at is None else instant_us(known_at, "known_at")
    if known_at_us is not None:
        refuse_later(ats, known_at_us, "at")
    definitions = deployment or deployed(settings)
    refs, requested = resolve(definitions, features)
    step("opening the archive")
    offline = Offline.open(settings, definitions)
    arrival = None
    if known_at_us is not None:
        arrival = _read_arrival(settings, offline, requested, ats, known_at_us, step)
    if archive:
        need = need_of(requested, ats, None, arrival)
        extend_archive(settings, offline, requested, need, notify)
    return offline, build_snapshot_set(
        settings,
        offline.archive,
        definitions,
        list(refs),
        ats_us,
        engine,
        notify,
        step,
        arrival=arrival,
        in_memory=in_memory,
    )


def _read_arrival(
    settings: Settings,
    offline: Offline,
    requested: Sequence[UnitRequest],
    at_us: Ints,
    known_at_us: int | None,
    step: Notify,
) -> Arrival:
    """Reads what rows at these instants know by arrival; step: is given how exact that is."""
    sources = {unit_request.unit.source for unit_request in requested}
    arrival = read_arrival(settings, offline.archive.catalog, sources, at_us, known_at_us)
    for source in sorted(sources):
        step(age_text(arrival, source, at_us))
    return arrival


def open_again(
    settings: Settings, path: Path, spine: Path | None, *, step: Notify = _nobody
) -> tuple[Offline, DataSet]:
    """Builds what a manifest's file tells of again, in the same way. spine: None for the file
    beside the manifest."""
    manifest = Manifest.read(path)
    step("opening the archive")
    offline = Offline.open(settings, manifest.deployed())
    name = path.name.removesuffix(SUFFIX)
    beside = path.with_name(name + SPINE_SUFFIX)
    step(f"building {manifest.rows} rows of {len(manifest.features)} features again")
    given = spine or (beside if manifest.spine else None)
    arrival = None
    if manifest.arrival:
        entries = read_entries(path.with_name(name + ARRIVAL_SUFFIX))
        arrival = Arrival.of_table(entries, manifest.known_at_us or None)
    return offline, rebuild(offline.archive, manifest, given, str(path), arrival)


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
