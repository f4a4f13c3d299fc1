"""What an archive takes next follows from archive and log; offsets that are gone are never skipped in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewise.cover import Cover, Place
from slicewise.errors import DataLoss


@dataclass(frozen=True)
class Extent:
    """Offsets of one archive: partition -> first, and partition -> first one beyond."""

    start: Mapping[int, int]
    end: Mapping[int, int]

    @property
    def offsets(self) -> int:
        """How many, transaction markers included."""
        return sum(self.end[partition] - first for partition, first in self.start.items())


def next_extent(cover: Cover, earliest: Cover, goal: Cover, starts: Sequence[Cover], most: int) -> Extent:
    """What follows `cover`, up to `goal`, about `most` offsets; empty where nothing is left.

    cover: of what is archived; earliest, goal: where the topic's log begins, and where it ended when
    the run began. Another run may have archived beyond the goal since: there nothing is left to take.
    starts: start covers of the source's deployed units. A topic that was never archived begins where
    its log begins, but not behind what the stream has folded: a cover would claim what it lacks, and
    the swap would delete it.

    Raises DataLoss where the log no longer holds what is missing.
    """
    known = {topic for topic, _ in cover}
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    for place, until in goal.offsets.items():
        first = earliest.get(place)
        if place[0] in known:
            begin = cover.get(place)
            _refuse_gone(place, begin, first, "nothing brings them back: keep the log longer")
        else:
            begin = first
            wanted = min((each.get(place) for each in starts), default=first)
            _refuse_gone(
                place,
                wanted,
                first,
                "the online store alone has them: deploy its views under new names, whose history begins "
                "with what the log still holds, and keep the log longer",
            )
        start[place[1]] = begin
        end[place[1]] = max(begin, min(until, begin + max(1, most // len(goal.offsets))))
    return Extent(start, end)


def refuse_lost_end(cover: Cover, latest: Cover, topic_id: str) -> None:
    """Refuses a log that ends before what is archived of it: later records would get archived offsets again.

    latest: where the log ends, asked after `cover` was read. Raises DataLoss.
    """
    for place, offset in cover.offsets.items():
        if place[0] == topic_id and latest.get(place) < offset:
            raise DataLoss(
                f"the log ends at {latest.get(place)}, archived is up to {offset}",
                where=f"topic {place[0]} partition {place[1]}",
                expected="a log that holds what was archived, or has dropped it by its retention",
                next_step="the broker lost acknowledged records: bring its data back, or make the topic anew",
            )


def _refuse_gone(place: Place, wanted: int, earliest: int, next_step: str) -> None:
    if earliest > wanted:
        raise DataLoss(
            f"{earliest - wanted} offsets are gone from the log before they were archived",
            where=f"topic {place[0]} partition {place[1]}: wanted from {wanted}, log begins at {earliest}",
            expected="a retention longer than the longest pause of the archive",
            next_step=next_step,
        )
