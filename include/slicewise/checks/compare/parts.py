"""Parts of one answer's events that a store may have lost, kept from before, moved or doubled, all at once.

A store holds together: compacted hours, each up to the archive that its compaction read; and running partials, each
of one slice and place, from where the compaction of its hour ended up to some event. What came to the store after it
was damaged stands beside it. Where it is known how many events an answer has too many or too few, only parts of as
many are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from slicewise.checks.model import Cause
from slicewise.checks.recompute.questions import Held, Part, WindowOf
from slicewise.windows.durations import HOUR_US

MOST_PARTS = 200
"""Of each kind, of one answer; the newest."""
REACH_US = HOUR_US
"""How far outside of a window a part of a slice may belong that is counted within."""
MOST_SEQS = 24
"""Archives of one hour that a compaction may have ended with; the newest."""
_EVER_US = 1 << 62
"""As parts of no window in particular, so that those of several windows are the same."""


class Tried(NamedTuple):
    """A part that counts so many times, and what it would be a sign of."""

    cause: Cause
    part: Part
    times: int
    edge: bool = False
    """Whether the part is the window's first or last slice."""


class _Piece(NamedTuple):
    part: Part
    n: int
    edge: bool


def tried(window: WindowOf, held: Sequence[Held], added: int | None, slice_us: int) -> Iterator[Tried]:
    """Parts of the events around a window, the widest first.

    held: newest first. added: how many events too many the answer has; None: nobody knows.
    """
    start, end = window.start_us, window.end_us
    if added is None or added < 0:
        for cause, pieces in (
            (Cause.LATE, _late(window, held, slice_us)),
            (Cause.EXPIRY, _cut(window, held, slice_us)),
            (Cause.STALE, _stale(window, held, slice_us)),
            (Cause.DROPPED, _hours(window, held, slice_us)),
        ):
            yield from (Tried(cause, each.part, 0) for each in _some(pieces, added))
    if added is None or added > 0:
        yield from (Tried(Cause.DOUBLED, each.part, 2) for each in _some(_hours(window, held, slice_us), added))
    inside = [each for each in held if start <= each.number * slice_us < end]
    edges = {start // slice_us, end // slice_us - 1}
    near = [each for each in held if not start <= each.number * slice_us < end]
    near = [each for each in near if start - REACH_US <= each.number * slice_us < end + REACH_US]
    if added is None or added < 0:
        for each in _some(_slices(inside, added, edges, slice_us), added):
            yield Tried(Cause.DROPPED, each.part, 0, each.edge)
            yield Tried(Cause.BOUNDARY, each.part, 0, each.edge)
    if added is None or added > 0:
        for each in _some(_slices(inside, added, edges, slice_us), added):
            yield Tried(Cause.DOUBLED, each.part, 2)
        for each in _some(_slices(near, added, edges, slice_us), added):
            yield Tried(Cause.BOUNDARY, each.part, 2, edge=True)
            yield Tried(Cause.DOUBLED, each.part, 2)


def _some(pieces: Iterable[_Piece], added: int | None) -> Iterable[_Piece]:
    fitting = (each for each in pieces if each.n and (added is None or each.n == abs(added)))
    return islice(fitting, MOST_PARTS)


def _within(window: WindowOf, held: Sequence[Held], slice_us: int) -> list[Held]:
    return [each for each in held if window.start_us <= each.number * slice_us < window.end_us]


def _seqs(held: Iterable[Held]) -> list[int]:
    return sorted({each.seq for each in held}, reverse=True)[:MOST_SEQS]


def _by_hour(held: Iterable[Held], slice_us: int) -> dict[int, list[Held]]:
    hours: dict[int, list[Held]] = {}
    for each in held:
        hours.setdefault(each.number * slice_us // HOUR_US, []).append(each)
    return hours


def _late(window: WindowOf, held: Sequence[Held], slice_us: int) -> Iterator[_Piece]:
    """Pieces that came late and had been archived by then, of all hours or of one."""
    mine = [each for each in _within(window, held, slice_us) if each.late]
    spans = [(0, _EVER_US, mine)]
    spans += [(hour * HOUR_US, (hour + 1) * HOUR_US, some) for hour, some in _by_hour(mine, slice_us).items()]
    for start, end, some in spans:
        for seq in _seqs(some):
            n = sum(each.n for each in some if each.seq <= seq)
            yield _Piece(Part(start, end, to_seq=seq, late=True), n, edge=False)


def _cut(window: WindowOf, held: Sequence[Held], slice_us: int) -> Iterator[_Piece]:
    """Pieces that had been archived by then, up to the end of an hour."""
    mine = _within(window, held, slice_us)
    seqs, hours = _seqs(mine), _by_hour(mine, slice_us)
    for end in sorted(hour + 1 for hour in hours):
        for seq in seqs:
            n = sum(each.n for hour, some in hours.items() if hour < end for each in some if each.seq <= seq)
            yield _Piece(Part(0, end * HOUR_US, to_seq=seq), n, edge=False)


def _stale(window: WindowOf, held: Sequence[Held], slice_us: int) -> Iterator[_Piece]:
    """Pieces of one hour that archives brought after one that its compaction ended with, up to another."""
    for hour, some in _by_hour(_within(window, held, slice_us), slice_us).items():
        seqs = _seqs(some)
        for i, to in enumerate(seqs):
            for after in seqs[i + 1 :]:
                n = sum(each.n for each in some if after < each.seq <= to)
                yield _Piece(Part(hour * HOUR_US, (hour + 1) * HOUR_US, after_seq=after, to_seq=to), n, edge=False)


def _hours(window: WindowOf, held: Sequence[Held], slice_us: int) -> Iterator[_Piece]:
    """Pieces of one hour that had been archived by then, of all places or of one."""
    for hour, some in _by_hour(_within(window, held, slice_us), slice_us).items():
        places = dict.fromkeys((each.topic_id, each.partition) for each in some)
        for place in (None, *(places if len(places) > 1 else ())):
            of_it = [each for each in some if place in (None, (each.topic_id, each.partition))]
            for seq in _seqs(of_it):
                n = sum(each.n for each in of_it if each.seq <= seq)
                topic_id, partition = place or (None, None)
                whole = Part(hour * HOUR_US, (hour + 1) * HOUR_US, topic_id, partition, to_seq=seq)
                yield _Piece(whole, n, edge=False)


def _slices(held: Sequence[Held], added: int | None, edges: set[int], slice_us: int) -> Iterator[_Piece]:
    """Pieces of one slice and place from the end of an archive to any event; and of all places together."""
    by_slice: dict[int, dict[tuple[str, int], list[Held]]] = {}
    for each in held:
        by_slice.setdefault(each.number, {}).setdefault((each.topic_id, each.partition), []).append(each)
    cuts: list[_Piece] = []
    for number, places in by_slice.items():
        start, end = number * slice_us, (number + 1) * slice_us
        for place, some in places.items():
            some.sort(key=lambda each: each.seq)
            offsets = sorted(offset for each in some for offset in each.offsets)
            firsts = dict.fromkeys(min(each.offsets) for each in some)
            for first in firsts:
                mine = [offset for offset in offsets if offset >= first]
                wanted = (abs(added),) if added is not None else range(len(mine), 0, -1)
                for n in wanted:
                    if n <= len(mine):
                        part = Part(start, end, *place, first, mine[n - 1])
                        piece = _Piece(part, n, number in edges)
                        if added is not None or n == len(mine):
                            yield piece
                        else:
                            cuts.append(piece)
        if len(places) > 1:
            n = sum(each.n for some in places.values() for each in some)
            yield _Piece(Part(start, end), n, number in edges)
    yield from cuts
