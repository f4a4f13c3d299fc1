"""A batch's bound grows while the lane is behind, as far as a batch stays short.

A batch reads, checks and writes each of its entities once: the more of an entity's events it has,
the less an event costs. What bounds it is its time, which a drain waits for (docs/adr/0088).
"""

from __future__ import annotations

FIRST = 200_000
"""Events of a lane's first batches, and of no fewer later on."""
WANTED_S = 8.0
"""Seconds that a full batch may take."""
_LONGEST_S = 20.0
"""Seconds after which a batch was too long."""
_GROWTH = 1.5
"""Least factor of a growth, since each costs a query that begins again."""


def first_bound(most: int) -> int:
    """Events of a first batch. most: of any batch (`Settings.max_events_per_batch`)."""
    return min(FIRST, most)


def next_bound(bound: int, offsets: int, took_s: float, lag: int, most: int) -> int:
    """Bound of the batches after one; the same where another would not be worth a new query.

    All but the time are offsets, which Spark counts: a transaction takes one for itself. bound: of
    the batch; offsets: that it had; took_s: seconds that it took; lag: left in the log; most: of
    any batch.
    """
    if took_s <= 0:
        return bound
    fitting = int(min(offsets / took_s * WANTED_S, most))
    if took_s > _LONGEST_S:
        return min(bound, max(fitting, first_bound(most)))
    grows = 10 * offsets >= 9 * bound and lag > bound and fitting > bound
    return fitting if grows and fitting >= min(_GROWTH * bound, most) else bound
