"""Batches of an hour as Spark SQL over the archive; nothing is read here."""

from __future__ import annotations

from slicewise.checks.expectations.suites import LATENESS
from slicewise.checks.recompute.queries import archived, viewed
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.windows.durations import HOUR_US

HOURS_BEFORE = 24
"""Hours by which the volume of one is judged."""


def events(table: str, source: Source, hour: int) -> str:
    """Good events of an hour: the source's columns, and the platform's two times."""
    columns = ", ".join(f"`{name}`" for name, _ in source.columns)
    return f"SELECT {columns}, event_time, kafka_time FROM {table} {_hour(hour)}"


def arrivals(table: str, hour: int) -> str:
    """Records that came in an hour, good and bad ones: kind, reason and lateness."""
    return (
        f"SELECT kind, reason, (unix_micros(kafka_time) - unix_micros(event_time)) / 1e6 "
        f"AS {LATENESS} FROM {table} WHERE kind IN ('good', 'bad') "
        f"AND kafka_time >= timestamp_micros({hour * HOUR_US}) "
        f"AND kafka_time < timestamp_micros({(hour + 1) * HOUR_US})"
    )


def counts(table: str, hour: int) -> str:
    """Good events of each of the hours before, of those that have any."""
    return (
        f"SELECT hour, count(*) AS events FROM {table} WHERE kind = 'good' "
        f"AND hour >= {hour - HOURS_BEFORE} AND hour < {hour} GROUP BY hour"
    )


def entities(unit: StorageUnit, source: Source, table: str, hour: int, sample: int) -> str:
    """`sample` entities of a view that have events in an hour, by the hash of hour and key."""
    rows = viewed(unit, source, archived(table, source, hour * HOUR_US, (hour + 1) * HOUR_US))
    columns = ", ".join(f"`e_{name}`" for name, _ in unit.entity)
    named = ", ".join(f"`e_{name}` AS `{name}`" for name, _ in unit.entity)
    text = ", ".join(f"cast(`e_{name}` AS string)" for name, _ in unit.entity)
    return (
        f"SELECT {named} FROM ({rows}) GROUP BY {columns} "
        f"ORDER BY sha2(concat_ws(char(31), '{hour}', {text}), 256) LIMIT {sample}"
    )


def _hour(hour: int) -> str:
    return f"WHERE kind = 'good' AND hour = {hour}"
