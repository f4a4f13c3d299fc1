"""Parts of one answer's events that a store may have lost, kept from before, moved or doubled, all
at once.

A store holds together: compacted hours, each up to the archive that its compaction read; and
running partials, each of one slice and partition, from where the compaction of its hour ended up to
some event. What came to the store after it was damaged stands beside it. Where it is known how many
events an answer has too many or too few, only parts of as many are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from slicewise.checks.model import Cause
from slicewise.checks.recompute.questions import Part, StoredSlice, WindowOf
from slicewise.windows.durations import HOUR_US

MOST_PARTS = 200
"""Most parts of each kind, of one answer; the newest."""
REACH_US = HOUR_US
"""Distance outside of a window within which a part of a slice is counted."""
MOST_VERSIONS = 24
"""Archives of one hour that a compaction may have ended with; the newest."""
_EVER_US = 1 << 62
"""Bound for parts of no window in particular, so that those of several windows are the same."""


class Candidate(NamedTuple):
    """A part that counts so many times, and what it would be a sign of."""

    cause: Cause
    part: Part
    times: int
    edge: bool = False
    """Tells whether the part is the window's first or last slice."""


class _Piece(NamedTuple):
    part: Part
    n: int
    edge: bool


def candidates(
    window: WindowOf, stored: Sequence[StoredSlice], added: int | None, slice_us: int
) -> Iterator[Candidate]:
    """Parts of the events around a window, the widest first.

    stored: newest first. added: how many events too many the answer has; None: nobody knows.
    """
    start, end = window.start_us, window.end_us
    if added is None or added < 0:
        for cause, pieces in (
            (Cause.LATE, _late(window, stored, slice_us)),
            (Cause.EXPIRY, _cut(window, stored, slice_us)),
            (Cause.STALE, _stale(window, stored, slice_us)),
            (Cause.DROPPED, _hours(window, stored, slice_us)),
        ):
            yield from (Candidate(cause, piece.part, 0) for piece in _some(pieces, added))
    if added is None or added > 0:
        yield from (
            Candidate(Cause.DOUBLED, piece.part, 2)
            for piece in _some(_hours(window, stored, slice_us), added)
        )
    inside = [
        stored_slice for stored_slice in stored if start <= stored_slice.number * slice_us < end
    ]
    edges = {start // slice_us, end // slice_us - 1}
    near = [
        stored_slice for stored_slice in stored if not start <= stored_slice.number * slice_us < end
    ]
    near = [
        stored_slice
        for stored_slice in near
        if start - REACH_US <= stored_slice.number * slice_us < end + REACH_US
    ]
    if added is None or added < 0:
        for piece in _some(_slices(inside, added, edges, slice_us), added):
            yield Candidate(Cause.DROPPED, piece.part, 0, piece.edge)
            yield Candidate(Cause.BOUNDARY, piece.part, 0, piece.edge)
    if added is None or added > 0:
        for piece in _some(_slices(inside, added, edges, slice_us), added):
            yield Candidate(Cause.DOUBLED, piece.part, 2)
        for piece in _some(_slices(near, added, edges, slice_us), added):
            yield Candidate(Cause.BOUNDARY, piece.part, 2, edge=True)
            yield Candidate(Cause.DOUBLED, piece.part, 2)


def _some(pieces: Iterable[_Piece], added: int | None) -> Iterable[_Piece]:
    fitting = (piece for piece in pieces if piece.n and (added is None or piece.n == abs(added)))
    return islice(fitting, MOST_PARTS)


def _within(window: WindowOf, stored: Sequence[StoredSlice], slice_us: int) -> list[StoredSlice]:
    return [
        stored_slice
        for stored_slice in stored
        if window.start_us <= stored_slice.number * slice_us < window.end_us
    ]


def _versions(stored: Iterable[StoredSlice]) -> list[int]:
    return sorted({stored_slice.archive_version for stored_slice in stored}, reverse=True)[
        :MOST_VERSIONS
    ]


def _by_hour(stored: Iterable[StoredSlice], slice_us: int) -> dict[int, list[StoredSlice]]:
    hours: dict[int, list[StoredSlice]] = {}
    for stored_slice in stored:
        hours.setdefault(stored_slice.number * slice_us // HOUR_US, []).append(stored_slice)
    return hours


def _late(window: WindowOf, stored: Sequence[StoredSlice], slice_us: int) -> Iterator[_Piece]:
    """Pieces that came late and had been archived by then, of all hours or of one."""
    late = [stored_slice for stored_slice in _within(window, stored, slice_us) if stored_slice.late]
    spans = [(0, _EVER_US, late)]
    spans += [
        (hour * HOUR_US, (hour + 1) * HOUR_US, some)
        for hour, some in _by_hour(late, slice_us).items()
    ]
    for start, end, some in spans:
        for archive_version in _versions(some):
            n = sum(entry.n for entry in some if entry.archive_version <= archive_version)
            yield _Piece(Part(start, end, to_version=archive_version, late=True), n, edge=False)


def _cut(window: WindowOf, stored: Sequence[StoredSlice], slice_us: int) -> Iterator[_Piece]:
    """Pieces that had been archived by then, up to the end of an hour."""
    within = _within(window, stored, slice_us)
    archive_versions, hours = _versions(within), _by_hour(within, slice_us)
    for end in sorted(hour + 1 for hour in hours):
        for archive_version in archive_versions:
            n = sum(
                entry.n
                for hour, some in hours.items()
                if hour < end
                for entry in some
                if entry.archive_version <= archive_version
            )
            yield _Piece(Part(0, end * HOUR_US, to_version=archive_version), n, edge=False)


def _stale(window: WindowOf, stored: Sequence[StoredSlice], slice_us: int) -> Iterator[_Piece]:
    """Pieces of one hour that archives brought after one that its compaction ended with, up to
    another."""
    for hour, some in _by_hour(_within(window, stored, slice_us), slice_us).items():
        archive_versions = _versions(some)
        for i, to in enumerate(archive_versions):
            for after in archive_versions[i + 1 :]:
                n = sum(entry.n for entry in some if after < entry.archive_version <= to)
                yield _Piece(
                    Part(hour * HOUR_US, (hour + 1) * HOUR_US, after_version=after, to_version=to),
                    n,
                    edge=False,
                )


def _hours(window: WindowOf, stored: Sequence[StoredSlice], slice_us: int) -> Iterator[_Piece]:
    """Pieces of one hour that had been archived by then, of all partitions or of one."""
    for hour, some in _by_hour(_within(window, stored, slice_us), slice_us).items():
        topic_partitions = dict.fromkeys((entry.topic_id, entry.partition) for entry in some)
        for topic_partition in (None, *(topic_partitions if len(topic_partitions) > 1 else ())):
            of_it = [
                entry
                for entry in some
                if topic_partition in (None, (entry.topic_id, entry.partition))
            ]
            for archive_version in _versions(of_it):
                n = sum(entry.n for entry in of_it if entry.archive_version <= archive_version)
                topic_id, partition = topic_partition or (None, None)
                whole = Part(
                    hour * HOUR_US,
                    (hour + 1) * HOUR_US,
                    topic_id,
                    partition,
                    to_version=archive_version,
                )
                yield _Piece(whole, n, edge=False)


def _slices(
    stored: Sequence[StoredSlice], added: int | None, edges: set[int], slice_us: int
) -> Iterator[_Piece]:
    """Pieces of one slice and partition from the end of an archive to any event; and of all
    partitions together."""
    by_slice: dict[int, dict[tuple[str, int], list[StoredSlice]]] = {}
    for stored_slice in stored:
        by_slice.setdefault(stored_slice.number, {}).setdefault(
            (stored_slice.topic_id, stored_slice.partition), []
        ).append(stored_slice)
    cuts: list[_Piece] = []
    for number, topic_partitions in by_slice.items():
        start, end = number * slice_us, (number + 1) * slice_us
        for topic_partition, some in topic_partitions.items():
            some.sort(key=lambda entry: entry.archive_version)
            offsets = sorted(offset for entry in some for offset in entry.offsets)
            firsts = dict.fromkeys(min(entry.offsets) for entry in some)
            for first in firsts:
                newer = [offset for offset in offsets if offset >= first]
                wanted = (abs(added),) if added is not None else range(len(newer), 0, -1)
                for n in wanted:
                    if n <= len(newer):
                        part = Part(start, end, *topic_partition, first, newer[n - 1])
                        piece = _Piece(part, n, number in edges)
                        if added is not None or n == len(newer):
                            yield piece
                        else:
                            cuts.append(piece)
        if len(topic_partitions) > 1:
            n = sum(entry.n for some in topic_partitions.values() for entry in some)
            yield _Piece(Part(start, end), n, number in edges)
    yield from cuts
