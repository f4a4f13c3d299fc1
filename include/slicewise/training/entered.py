"""Entries of how far the stream was come from the store and from `ops.ledger`.

The store has the newest; the table keeps them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import numpy as np

from slicewise.errors import BadRequest
from slicewise.settings import Settings
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.training.arrival import Arrival, CommittedTimes, refuse_later
from slicewise.training.ranges import Ints
from slicewise.training.tables.instants import text_of


def read_arrival(
    settings: Settings,
    catalog: Any,
    sources: Iterable[str],
    at_us: Ints,
    known_at_us: int | None = None,
) -> Arrival:
    """Reads what rows at these instants know of these sources.

    catalog: Iceberg's. known_at_us: one instant for all rows. Raises BadRequest for instants in the
    future and for rows after known_at_us, StoreUnavailable.
    """
    from slicewise.stores.lake.committed import committed_at
    from slicewise.stores.online.redis.adapter import open_store

    if known_at_us is not None:
        refuse_later(at_us, known_at_us)
        at_us = np.full(1, known_at_us, np.int64)
    last_us = int(at_us.max())
    with closing(open_store(settings.redis_url)) as store:
        now_us = store.run(ReadTime())
        if last_us > now_us:
            raise BadRequest(
                f"{text_of(last_us)} lies in the future",
                where="known_at"
                if known_at_us is not None
                else f"column 'at', row {int(at_us.argmax())}",
                expected=f"instants up to now, {text_of(now_us)}",
                next_step="leave it out: what will be known then, nobody knows now",
            )
        return Arrival(
            {
                source: CommittedTimes.of(source, committed_at(catalog, store, source, at_us))
                for source in sorted(set(sources))
            },
            known_at_us,
        )


def age_text(arrival: Arrival, source: str, at_us: Ints) -> str:
    """A line on how exact that is."""
    age_s = np.sort(arrival.ages_us(source, at_us)) / 1e6
    return (
        f"by arrival: what was applied of {source} is known {age_s[len(age_s) // 2]:.1f} s before "
        f"a row's instant (median), {age_s[-1]:.1f} s at most"
    )
