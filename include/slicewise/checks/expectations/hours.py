"""A compaction may bring several hours: those that nobody has judged yet are judged with the
newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slicewise.checks.expectations.outcome import SUITE
from slicewise.stores.lake.catalog import ensure
from slicewise.stores.lake.schemas import CHECKS

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

MOST = 24
"""Hours of one run: each takes seconds, and those of a longer absence say little."""


def unjudged(judged: list[int], hour: int) -> range:
    """The hours up to `hour` that follow the last one that was judged; `hour` alone where none of
    the day before was, as on a new platform. judged: hours since 1970, in any order."""
    before = [one for one in judged if hour - MOST < one < hour]
    return range(max(before) + 1 if before else hour, hour + 1)


def judged_before(catalog: SqlCatalog, hour: int) -> list[int]:
    """Hours of the day before `hour` that a run has judged."""
    wanted = f"kind = '{SUITE}' and hour > {hour - MOST} and hour < {hour}"
    rows = ensure(catalog, CHECKS).scan(row_filter=wanted, selected_fields=("hour",)).to_arrow()
    return sorted(set(rows["hour"].to_pylist()))
