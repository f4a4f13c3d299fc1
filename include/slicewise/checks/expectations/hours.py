"""A compaction may bring several hours: those that nobody has judged yet are judged with the
newest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from slicewise.checks.expectations.outcome import NOT_MADE, SUITE
from slicewise.stores.lake.archive import load, records_by_hour
from slicewise.stores.lake.catalog import ensure
from slicewise.stores.lake.schemas import CHECKS

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

MOST = 24
"""Hours of one run: each takes seconds, and those of a longer absence say little."""
_LOOKED_BACK = 31 * 24
"""Hours back in which a judged one is looked for; without one, judging begins with the newest."""


def unjudged(
    judged: Collection[int], with_events: Callable[[], Collection[int]], hour: int
) -> list[int]:
    """`hour`, after those of the day before it that nobody has judged although one was before, and
    that have events: an hour in which all was off says nothing of events. Hours since 1970.

    with_events: hours of which something is archived, asked for where it matters.
    """
    since = max(hour - MOST + 1, min(judged, default=hour) + 1)
    missing = [one for one in range(since, hour) if one not in judged]
    archived = with_events() if missing else ()
    return [*(one for one in missing if one in archived), hour]


def judged_before(catalog: SqlCatalog, hour: int) -> set[int]:
    """Hours of the month before `hour` of which a run has judged something."""
    wanted = f"kind = '{SUITE}' and result != '{NOT_MADE}' and hour > {hour - _LOOKED_BACK} and hour < {hour}"
    rows = ensure(catalog, CHECKS).scan(row_filter=wanted, selected_fields=("hour",)).to_arrow()
    return set(rows["hour"].to_pylist())


def archived_hours(catalog: SqlCatalog, sources: Collection[str]) -> set[int]:
    """Hours with events of any of these sources in the archive."""
    tables = (load(catalog, source) for source in sources)
    return {hour for table in tables if table is not None for hour in records_by_hour(table)}
