"""A question's needs are archived before it is answered, or it is refused: never answered from
less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slicewise.errors import BadRequest, StoreUnavailable, TopicGone
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.training.archive import Archive, Archived, NothingArchived
from slicewise.training.arrival import Arrival
from slicewise.training.ranges import Ints
from slicewise.training.requests.unit_requests import UnitRequest, tokens_of
from slicewise.training.tables.instants import text_of
from slicewise.training.tables.spine import TokenColumns


class Log(Protocol):
    """The log beside its archive."""

    def pending(self, source: Source) -> int:
        """Offsets that the log holds and the archive does not. Raises StoreUnavailable,
        TopicGone."""
        ...


@dataclass(frozen=True)
class Need:
    """Need that archives must meet: every event before `latest_us`, and all that `offset_vectors`
    contain, per source."""

    latest_us: int | None
    latest_row: int = 0
    offset_vectors: Mapping[str, OffsetVector] = field(default_factory=dict)


@dataclass(frozen=True)
class Pending:
    """A source whose archive has to be brought on, and why."""

    source: Source
    offsets: int
    why: str


def need_of(
    requested: Sequence[UnitRequest],
    at_us: Ints,
    tokens: TokenColumns | None,
    arrival: Arrival | None = None,
) -> Need:
    """The need of these rows. tokens: of each row, where knowledge is that of tokens; arrival: what
    they know, where it is that of arrival."""
    if arrival is not None:
        applied = {source: arrival.of(source, at_us).joined() for source in arrival.times}
        return Need(None, 0, applied)
    if tokens is None:
        if not len(at_us):
            return Need(None)
        row = int(at_us.argmax())
        return Need(int(at_us[row]), row)
    offset_vectors: dict[str, OffsetVector] = {}
    for unit_request in requested:
        source = unit_request.unit.source
        for alike in tokens_of(unit_request.unit, tokens):
            joined = offset_vectors.get(source, OffsetVector())
            offset_vectors[source] = joined.join(alike.joined())
    return Need(None, 0, offset_vectors)


def lacking(name: str, archived: Archived | None, need: Need) -> str | None:
    """Tells why this archive is not enough; None where it is."""
    if archived is None:
        return "nothing of it is archived yet"
    if need.latest_us is not None and need.latest_us > archived.until_us:
        return (
            f"it is archived until {text_of(archived.until_us)}, and `at` goes to "
            f"{text_of(need.latest_us)}"
        )
    if not archived.offset_vector.dominates(need.offset_vectors.get(name, OffsetVector())):
        return "events are asked for that are not archived yet"
    return None


def pending(
    deployment: Deployment,
    archive: Archive,
    log: Log,
    requested: Sequence[UnitRequest],
    need: Need,
    now_us: int,
) -> list[Pending]:
    """The sources that must be archived first, with what is left to do of each.

    Raises BadRequest for instants that lie in the future, and NothingArchived where there is
    nothing to archive.
    """
    needed = []
    for name in sorted({unit_request.unit.source for unit_request in requested}):
        source = deployment.source(name)
        archived = _archived(archive, source, need.latest_us)
        why = lacking(name, archived, need)
        if why is None:
            continue
        if need.latest_us is not None and need.latest_us > now_us:
            raise BadRequest(
                f"`at` of {text_of(need.latest_us)} lies in the future",
                where=f"column 'at', row {need.latest_row}",
                expected=f"instants up to now, {text_of(now_us)}",
                next_step=(
                    "leave the row out; what is predicted now is asked of the serving API, or "
                    "with sw.Client"
                ),
            )
        # else another run was faster, or a token is of no log of ours
        if offsets := _offsets(log, source, archived):
            needed.append(Pending(source, offsets, why))
    return needed


def _archived(archive: Archive, source: Source, latest_us: int | None) -> Archived | None:
    try:
        archived = archive.reaches(source.name)
    except NothingArchived:
        return None
    late = latest_us is not None and latest_us > archived.until_us
    return archive.confirmed(source, archived) if late else archived


def _offsets(log: Log, source: Source, archived: Archived | None) -> int:
    what = (
        f"nothing of {source.name!r} is archived"
        if archived is None
        else f"the archive of {source.name!r} lags"
    )
    # an archive that stands is not nothing: then it is the broker's answer that is missing
    kind = NothingArchived if archived is None else StoreUnavailable
    try:
        offsets = log.pending(source)
    except TopicGone as error:
        raise kind(
            f"{what}, and the broker has no topic {source.topic!r}",
            where=error.where,
            expected="the topic that the source names",
            next_step="slicewise apply makes it; then produce events to it",
        ) from error
    except StoreUnavailable as error:
        raise kind(
            f"{what}, and its log does not answer: {error.what}",
            where=error.where,
            expected="a running broker",
            next_step="slicewise status shows whether it runs, slicewise up starts it; then ask again",
        ) from error
    if offsets == 0 and archived is None:
        raise NothingArchived(
            f"{what}, and its topic holds no event",
            where=f"topic {source.topic!r}",
            expected="events to make a training set of",
            next_step="produce some, then ask again",
        )
    return offsets


def plan_text(some: Sequence[Pending]) -> list[str]:
    """Lines on what is about to be done, and why, one per source."""
    return [
        f"archiving {needed.source.name} first: {needed.why}; {needed.offsets:,} offsets to go"
        for needed in some
    ]
