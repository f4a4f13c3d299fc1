"""An accepted gap is a range of offsets that the log lost before the archive had it. A person has
accepted it.

Answers that touch it are known to lack events: answers and data sets say so, for as long as the
accepted gap lies in their windows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from slicewise.errors import CodecError
from slicewise.offsets.vector import TopicPartition


@dataclass(frozen=True)
class AcceptedGap:
    """Offsets [first, end) of one partition, whose events have times in [from_us, until_us), as far
    as can be told.

    The times follow from the Kafka timestamps of the records on both sides, and from the source's
    max_lateness and max_ahead: a producer that sets timestamps out of order by more than that is
    not covered.
    """

    source: str
    topic_id: str
    partition: int
    first: int
    end: int
    from_us: int
    until_us: int
    by: str
    why: str
    at_us: int
    """Time at which it was accepted."""

    @property
    def topic_partition(self) -> TopicPartition:
        return (self.topic_id, self.partition)

    def touches(self, start_us: int, end_us: int) -> bool:
        """Tells whether an interval [start_us, end_us) of event time may lack events of it."""
        return start_us < self.until_us and self.from_us < end_us


def to_json(accepted_gaps: Sequence[AcceptedGap]) -> str:
    """Canonical JSON of several."""
    return json.dumps(
        [asdict(accepted_gap) for accepted_gap in accepted_gaps],
        sort_keys=True,
        separators=(",", ":"),
    )


def joined(*several: Sequence[AcceptedGap]) -> tuple[AcceptedGap, ...]:
    """Every accepted gap of any: an accepted gap stays for good, so that the longer of two lists is
    the newer."""
    return tuple(
        sorted(
            {accepted_gap for accepted_gaps in several for accepted_gap in accepted_gaps},
            key=lambda h: (h.at_us, h.topic_partition, h.first),
        )
    )


def from_json(text: str, where: str) -> tuple[AcceptedGap, ...]:
    """Inverse of to_json. Raises CodecError: an accepted gap that cannot be read must not count as
    none."""
    try:
        return tuple(AcceptedGap(**gap) for gap in json.loads(text))
    except (ValueError, TypeError) as error:
        raise CodecError(
            f"the accepted gaps cannot be read: {error}",
            where=where,
            expected="what this version of slicewise wrote",
            next_step="are versions mixed? docs/runbook.md, 'Events are gone before they were archived'",
        ) from error
