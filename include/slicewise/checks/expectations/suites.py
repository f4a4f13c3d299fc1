"""A suite is what definitions imply, and what their authors and suite files add to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import PlannedFeature, Source, StorageUnit

Kind = Literal["events", "arrivals", "features"]
EVENTS: Kind = "events"
ARRIVALS: Kind = "arrivals"
FEATURES: Kind = "features"
GOOD_SHARE = 0.95
"""Share of the records of an hour that are to be good ones."""
PUNCTUAL_SHARE = 0.99
"""Share of the records of an hour that are to come in half of what the source allows."""
LATENESS = "lateness_s"
"""Column of arrivals: seconds from an event's time to its Kafka record's."""
KL_THRESHOLD = 0.5
"""Kullback-Leibler divergence of what stands implied: a normal distribution that moved by a little
more than its standard deviation is as far from what it was, and chance alone is not
(`reference.FEWEST`)."""
KL = "expect_column_kl_divergence_to_be_less_than"
NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
ROWS = "expect_table_row_count_to_be_between"
FROM_OTHER_HOURS: Mapping[Kind, Sequence[str]] = {
    EVENTS: (ROWS,),
    ARRIVALS: (),
    FEATURES: (NOT_NULL, KL),
}
"""Kind of suite -> expectations that a run adds by other hours."""
_COUNTS = frozenset(
    {"count", "distinct_count", "stddev", "variance", "span", "decay_count", "count_by"}
)
"""Aggregates whose answer is no less than nothing."""
_SHARES = {"bloom_fill": (0.0, 1.0), "correlation": (-1.0, 1.0)}
_NEVER_EMPTY = frozenset({"count", "distinct_count"})


@dataclass(frozen=True)
class Wanted:
    """An expectation of a suite. kwargs: None of a value that a run computes. origin: "implied" by
    the definition, or "declared" by its author."""

    type: str
    kwargs: Mapping[str, Any]
    severity: str
    about: str
    origin: str = "implied"

    @property
    def column(self) -> str:
        """The column that it is about; empty of a table's."""
        return str(self.kwargs.get("column") or "")

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "type": self.type,
            "kwargs": dict(self.kwargs),
            "severity": self.severity,
            "about": self.about,
            "origin": self.origin,
        }


@dataclass(frozen=True)
class Suite:
    """Expectations on one batch. kind: of the batch; of: its source or its view."""

    kind: Kind
    of: str
    wanted: tuple[Wanted, ...]
    owner: str = ""

    @property
    def name(self) -> str:
        """The name that Great Expectations and the deployment have for it."""
        return f"{self.kind}.{self.of}"

    def with_wanted(self, wanted: Sequence[Wanted]) -> Suite:
        """The suite with these too: what is wanted anew takes the place of what stands implied of
        the same name and column."""
        return replace(self, wanted=_joined(self.wanted, wanted))


def suites(deployment: Deployment) -> tuple[Suite, ...]:
    """The suites of all that projects declare, sources first. What depends on other hours is added
    by the run: the volume, the share of nulls and the distance of distributions."""
    declared = deployment.declared
    units: dict[str, list[StorageUnit]] = {}
    for unit in declared.units:
        units.setdefault(unit.view, []).append(unit)
    made: list[Suite] = []
    for source in declared.sources:
        owner = source.owner or ""
        read = [unit for unit in declared.units if unit.source == source.name]
        made += [
            Suite("events", source.name, tuple(_events(source, read)), owner),
            Suite("arrivals", source.name, tuple(_arrivals(source)), owner),
        ]
    for view, parts in units.items():
        features = [feature for unit in parts for feature in valued(unit)]
        implied = [wanted for feature in features for wanted in _feature(feature)]
        made.append(Suite("features", view, tuple(implied), parts[0].owner or ""))
    given: dict[str, list[Wanted]] = {}
    for expectation in deployment.expectations:
        given.setdefault(expectation.suite, []).append(
            Wanted(
                expectation.type,
                json.loads(expectation.kwargs),
                expectation.severity,
                "declared",
                "declared",
            )
        )
    return tuple(suite.with_wanted(given.get(suite.name, ())) for suite in made)


def valued(unit: StorageUnit) -> tuple[PlannedFeature, ...]:
    """The features of a unit that have a value without a question beside the entity."""
    return tuple(f for f in unit.features if not f.needs_values)


def volume(counts: Sequence[int]) -> Wanted | None:
    """The rows of an hour, by those of the hours before it that had any; None where they are too
    few to say."""
    if len(counts) < _FEWEST_HOURS:
        return None
    return Wanted(
        ROWS,
        {"min_value": min(counts) // _VOLUME_FACTOR, "max_value": max(counts) * _VOLUME_FACTOR},
        "warning",
        f"between a {_VOLUME_WORD} of the least and {_VOLUME_FACTOR} times the most of the "
        f"{len(counts)} hours before that have events",
    )


_FEWEST_HOURS, _VOLUME_FACTOR, _VOLUME_WORD = 6, 4, "fourth"
# the least and the most of a day hold its rhythm; twice their distance is a weekend or a campaign,
# and four times is what nobody plans. Fewer than six hours say nothing of a night.


def _events(source: Source, units: Sequence[StorageUnit]) -> Iterator[Wanted]:
    names = [name for name, _ in source.columns]
    yield Wanted(
        "expect_table_columns_to_match_set",
        {"column_set": [*names, "event_time", "kafka_time"], "exact_match": True},
        "critical",
        "the archive has the columns that the source declares",
    )
    needed = dict.fromkeys(
        [*source.required, *([source.time_column] if source.time_column else [])]
    )
    for name in ("event_time", *needed):
        yield Wanted(NOT_NULL, {"column": name}, "critical", "no record lacks what is required")
    keys = dict.fromkeys(name for unit in units for name, _ in unit.entity)
    for name in keys:
        if name in names and name not in needed:
            about = "an event without its entity is in no answer of the view"
            yield Wanted(NOT_NULL, {"column": name, "mostly": PUNCTUAL_SHARE}, "warning", about)


def _arrivals(source: Source) -> Iterator[Wanted]:
    yield Wanted(
        "expect_column_values_to_be_in_set",
        {"column": "kind", "value_set": ["good"], "mostly": GOOD_SHARE},
        "warning",
        "most records are good; the others are kept aside with their reasons",
    )
    if source.time_column is not None:
        yield Wanted(
            BETWEEN,
            {
                "column": LATENESS,
                "min_value": -source.max_ahead_us / 1e6,
                "max_value": source.max_lateness_us / 2e6,
                "mostly": PUNCTUAL_SHARE,
            },
            "warning",
            "nearly all events come in half of the lateness that the source allows",
        )


def _feature(feature: PlannedFeature) -> Iterator[Wanted]:
    kind = feature.aggregate.core.spec()["kind"]
    if kind in _NEVER_EMPTY:
        yield Wanted(NOT_NULL, {"column": feature.column}, "critical", f"{kind} is never empty")
    if kind in _COUNTS and _is_number(feature):
        about = f"{kind} is no less than 0"
        yield Wanted(BETWEEN, {"column": feature.column, "min_value": 0}, "critical", about)
    if kind in _SHARES:
        low, high = _SHARES[kind]
        bounds = {"column": feature.column, "min_value": low, "max_value": high}
        yield Wanted(BETWEEN, bounds, "critical", f"{kind} lies from {low:g} to {high:g}")


def _is_number(feature: PlannedFeature) -> bool:
    import pyarrow as pa

    kind = feature.aggregate.output_type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _joined(implied: Sequence[Wanted], declared: Sequence[Wanted]) -> tuple[Wanted, ...]:
    replaced = {(wanted.type, wanted.column) for wanted in declared if wanted.column}
    left = [
        wanted
        for wanted in implied
        if wanted.origin != "implied" or (wanted.type, wanted.column) not in replaced
    ]
    return (*left, *declared)
