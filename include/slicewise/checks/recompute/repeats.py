"""Events that come again: which of them count, by Spark SQL alone.

The rule is that of docs/adr/0064, said once more; it shares nothing with the code that applies.
"""

from __future__ import annotations

from slicewise.checks.recompute.queries import EVENT_ID
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.dedupe import EventIds
from slicewise.windows.durations import HOUR_US

STEP_BACK_US = HOUR_US


def since_us(source: Source, ids: EventIds, start_us: int) -> int:
    """Kafka time of the earliest event that bears on events of this time or later."""
    return start_us - source.most_ahead_us - ids.within_us - STEP_BACK_US


def counted_once(unit: StorageUnit, ids: EventIds, viewed: str, start_us: int, end_us: int) -> str:
    """Selects the rows that count, with times in [start, end), of those that the view takes
    (`queries.viewed`)."""
    entity = ", ".join(["topic_id", "p", *(f"`e_{name}`" for name, _ in unit.entity)])
    so_far = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    clocked = (
        f"SELECT *, max(kafka_t) OVER (PARTITION BY {entity} ORDER BY o {so_far}) AS clock "
        f"FROM ({viewed}) WHERE {EVENT_ID} IS NOT NULL"
    )
    placed = f"SELECT *, kafka_t >= clock - {STEP_BACK_US} AS placed FROM ({clocked})"
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY {entity}, placed ORDER BY o) AS nth FROM "
        f"({placed})"
    )
    same = f"OVER (PARTITION BY {entity}, placed, {EVENT_ID} ORDER BY o)"
    seen = (
        f"SELECT *, nth - lag(nth) {same} AS apart, clock - lag(clock) {same} AS later FROM "
        f"({numbered})"
    )
    again = f"placed AND apart IS NOT NULL AND apart <= {ids.most} AND later <= {ids.within_us}"
    once = f"SELECT * EXCEPT (clock, placed, nth, apart, later) FROM ({seen}) WHERE NOT ({again})"
    without = f"SELECT * FROM ({viewed}) WHERE {EVENT_ID} IS NULL"
    return f"SELECT * FROM (({once}) UNION ALL ({without})) WHERE t >= {start_us} AND t < {end_us}"
