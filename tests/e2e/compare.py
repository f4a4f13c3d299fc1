"""Online, training and the oracle side by side, as bytes, for every entity and every feature
column."""

from __future__ import annotations

import hashlib
import json
import struct
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import groupby
from typing import Any

import pyarrow as pa

from slicewise.aggregates import Aggregate, Event
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.offsets.token import decode_all
from slicewise.windows.session import Session
from tests.e2e.payments import SHOPS
from tests.laws.oracles import aggregates as laws
from tests.support.oracles import answers as oracle
from tests.support.oracles import moments
from tests.support.oracles.answers import OracleEvent
from tests.support.platform.stack import Stack


@dataclass
class Count:
    """Compared values, and those that differ."""

    compared: int = 0
    wrong: list[str] = field(default_factory=list)

    def check(self, what: str, expected: Any, actual: Any) -> None:
        self.compared += 1
        if as_bytes(expected) != as_bytes(actual):
            self.wrong.append(f"{what}: expected {expected!r}, found {actual!r}")


def as_bytes(value: Any) -> bytes:
    """A value with its type and all its bits."""
    if isinstance(value, float):
        return b"d" + struct.pack("<d", value)
    if isinstance(value, Mapping):
        return as_bytes(list(value.values()))
    if isinstance(value, list | tuple):
        return b"[" + b",".join(as_bytes(item) for item in value) + b"]"
    if type(value) is date:  # JSON has no dates: answers write them so
        return repr(value.isoformat()).encode()
    return repr(value).encode()


CONDITIONS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "accepted": lambda columns: columns["accepted"] is True,
    "dear": lambda columns: (columns["amount"] or 0) >= 100,
    "items >= 2 OR dear": lambda columns: (
        (columns["items"] or 0) >= 2 or (columns["amount"] or 0) >= 100
    ),
}
"""Conditions of the project's features; a null is not true."""


def oracle_value(spec: Mapping[str, Any], events: Sequence[OracleEvent], end: int) -> Any:
    """The answer of an aggregate, given as its kind and parameters, over these events of a window
    that ends there."""
    if spec["kind"] == "where":
        chosen_events = [e for e in events if CONDITIONS[spec["where"]](e.columns)]
        return oracle_value(spec["aggregate"], chosen_events, end)
    if spec["kind"] == "bucketed":
        return oracle.bucketed(
            events, spec["by"], lambda some: oracle_value(spec["aggregate"], some, end)
        )
    if spec["kind"] == "histogram":
        return oracle.histogram(events, spec["column"], [_edge(edge) for edge in spec["edges"]])
    parameters = {
        name: value for name, value in spec.items() if name != "kind" and value is not None
    }
    if spec["kind"] in moments.BY_KIND:
        return oracle.BY_KIND[str(spec["kind"])](events, **parameters)
    if spec["kind"] == "ordered":
        return oracle.BY_KIND[{"increase": "rises", "double": "doubles"}[spec["step"]]](
            events, *spec["columns"]
        )
    if spec["kind"] == "own":
        name = "reach" if "class Reach" in spec["source"] else "discount"
        return oracle.BY_KIND[name](events, *spec["columns"], **spec["parameters"])
    if "half_life" in parameters:
        column = parameters.pop("column", None)
        return oracle.BY_KIND[str(spec["kind"])](events, column, **parameters, end=end)
    if spec["kind"] == "count" or "column" in parameters:
        column = parameters.pop("column", None)
        extra = {"k": parameters["k"]} if "k" in parameters else {}
        arguments = () if column is None else (column,)
        return oracle.BY_KIND[str(spec["kind"])](events, *arguments, **extra)
    chosen = {name: parameters[name] for name in ("payload", "by", "k") if name in parameters}
    if str(spec["kind"]).startswith("arg"):
        chosen.pop("k", None)
    return oracle.BY_KIND[str(spec["kind"])](events, **chosen)


def _edge(edge: int | str) -> float:
    return float.fromhex(edge) if isinstance(edge, str) else edge


APPROXIMATE = frozenset(["quantiles", "top_k_frequent", "bloom_fill"])
"""Kinds whose bits have a definition beyond the exact answer: the laws' brute force says it."""


QUESTIONS = {"by_card": {"shop": [*SHOPS, "nowhere", None]}}
"""Questions to the views whose features are asked."""


def members(
    spec: Mapping[str, Any], values: Sequence[Any], events: Sequence[OracleEvent]
) -> list[bool | None]:
    """Tells which of the values asked for came; nothing of more than a cuckoo filter's capacity."""
    seen = {e.columns[spec["column"]] for e in events} - {None}
    full = spec["kind"] == "cuckoo" and len(seen) > spec["capacity"]
    # of no filter at all, as of one that is not full, a stranger is one
    return [None if value is None or full else value in seen for value in values]


@dataclass(frozen=True)
class Inside:
    """The events of a window that ends there. log: what the log says of them, their identities, as
    one hash."""

    events: Sequence[OracleEvent]
    end: int
    log: tuple[str, bytes]

    @staticmethod
    def of(events: Sequence[OracleEvent], end: int) -> Inside:
        # nearly all logs have one topic: two of a name, where it was made anew
        topics = ",".join(topic for topic, _ in groupby(e.topic for e in events))
        runs = array("q", [len(list(some)) for _, some in groupby(e.topic for e in events)])
        identities = array("q", [e.partition << 48 | e.offset for e in events])
        return Inside(events, end, (topics, hashlib.sha256(runs + identities).digest()))


_ANSWERED: dict[tuple[Any, ...], Any] = {}


@cache
def _spec_text(aggregate: Aggregate) -> str:
    return json.dumps(aggregate.spec(), sort_keys=True)


def value_of(aggregate: Aggregate, inside: Inside) -> Any:
    """The answer of a bound aggregate over a window.

    Most windows hold the same events at one step as at the next: those that were counted out once
    are remembered, by what the log says of each event and by the window's end where the aggregate
    looks at it.
    """
    spec_text = _spec_text(aggregate)
    key = (spec_text, inside.end if "half_life" in spec_text else None, *inside.log)
    if key not in _ANSWERED:
        _ANSWERED[key] = _counted_out(aggregate, inside.events, inside.end)
    return _ANSWERED[key]


def _counted_out(aggregate: Aggregate, events: Sequence[OracleEvent], end: int) -> Any:
    if aggregate.kind in ("bloom", "cuckoo"):
        return members(aggregate.spec(), QUESTIONS["by_card"]["shop"], events)
    if aggregate.kind not in APPROXIMATE:
        return oracle_value(aggregate.spec(), events, end)
    topic = [(int(e.topic[:16], 16), int(e.topic[16:], 16)) for e in events]
    given = [
        Event(e.time, *of, e.partition, e.offset, e.columns)
        for e, of in zip(events, topic, strict=True)
    ]
    return laws.expected(aggregate, given, end)


ONLY_PAID = frozenset(["by_card_and_shop", "ever_by_card"])
"""Views that leave out what is no payment of more than nothing."""
VERSION_STEP = 5.0
"""Difference of the amounts from which a payment counts, of one version of such a view and the
next."""


def least_amount(unit: StorageUnit) -> float | None:
    """The amount above which a payment counts; None: all that came count."""
    if unit.view.partition("@")[0] not in ONLY_PAID:
        return None
    return 0.0 if unit.version == 1 else unit.version * VERSION_STEP


def by_entity(
    unit: StorageUnit, events: Sequence[OracleEvent]
) -> dict[tuple[Any, ...], list[OracleEvent]]:
    """Events of each entity of a unit; those without a whole key, or that the view leaves out, are
    in none."""
    result: dict[tuple[Any, ...], list[OracleEvent]] = defaultdict(list)
    names, least = [name for name, _ in unit.entity], least_amount(unit)
    for event in events:
        key = tuple(event.columns[name] for name in names)
        amount = event.columns["amount"]
        if None not in key and (least is None or (amount is not None and amount > least)):
            result[key].append(event)
    return result


def compare(
    stack: Stack,
    deployment: Deployment,
    events: Sequence[OracleEvent],
    at: str | None,
    count: Count,
) -> list[dict[str, Any]]:
    """Every entity and column of every unit, online against the oracle; the rows (entity, at,
    token, values)."""
    rows = []
    for unit in deployment.units:
        groups = by_entity(unit, events)
        names = [name for name, _ in unit.entity]
        keys = sorted(groups) or [()]
        unknown: tuple[Any, ...] = tuple(
            "0001-01-01" if kind == "date" else "nobody" for _, kind in unit.entity
        )
        keys = [*keys, *([unknown] if names and unknown not in groups else [])]
        for first in range(0, len(keys), 50):
            part = keys[first : first + 50]
            body: dict[str, Any] = {
                "features": [f"{unit.view}:{f.column}" for f in unit.features],
                "entities": [
                    {**dict(zip(names, key, strict=True)), **QUESTIONS.get(unit.view, {})}
                    for key in part
                ],
            }
            answer = stack.request(**body, **({"at": at} if at else {}))
            for key, result in zip(part, answer["results"], strict=True):
                check_result(
                    unit, unit.features, f"{key}", f"at {at}", result, groups.get(key, ()), count
                )
                rows.append({"unit": unit, "key": key, "at": answer["t"], **result})
    return rows


def check_result(
    unit: StorageUnit,
    features: Sequence[PlannedFeature],
    key: str,
    when: str,
    result: dict[str, Any],
    events: Sequence[OracleEvent],
    count: Count,
) -> None:
    """Compares what was answered for an entity with the oracle over its events, at the answer's own
    token."""
    (token,) = decode_all(result["token"])
    contained = oracle.contained(
        events,
        token.base.offsets,
        {hour: offset_vector.offsets for hour, offset_vector in token.compacted_beyond.items()},
    )
    windows: dict[tuple[int, int, int | None], Inside] = {}
    for feature in features:
        start, end = token.bounds[feature.column]
        if isinstance(feature.window, Session):
            gap, longest = feature.window.gap_us, feature.window.length_us
            visit = oracle.session(contained, end - longest, end, gap)
            first_us = min((e.time for e in visit), default=end)
            where = f"start of {unit.view} {key} {feature.column} {when}"
            count.check(where, first_us // unit.slice_us * unit.slice_us, start)
        window = start, end, feature.window.most_rows
        if window not in windows:
            within = oracle.inside(contained, start, end)
            if feature.window.most_rows:
                within = sorted(within, key=lambda e: e.order)[-feature.window.most_rows :]
            windows[window] = Inside.of(within, end)
        expected = value_of(feature.aggregate, windows[window])
        answer = result["values"][f"{unit.view}:{feature.column}"]
        if isinstance(answer, str) and pa.types.is_float64(feature.aggregate.output_type):
            answer = float(answer)  # JSON has no numbers for NaN and infinities
            result["values"][f"{unit.view}:{feature.column}"] = answer
        count.check(f"{unit.view} {key} {feature.column} {when}", expected, answer)


def spine(unit: StorageUnit, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows of one unit as the spine of a training set by token."""
    names = [name for name, _ in unit.entity]
    chosen = [row for row in rows if row["unit"] is unit]
    columns: dict[str, Any] = {
        name: pa.array([row["key"][i] for row in chosen], pa.string())
        for i, name in enumerate(names)
    }
    for column, values in QUESTIONS.get(unit.view, {}).items():
        columns[column] = pa.array([values] * len(chosen), pa.list_(pa.string()))
    columns["at"] = pa.array([row["at"] for row in chosen]).cast(pa.timestamp("us", "UTC"))
    columns["token"] = pa.array([row["token"] for row in chosen], pa.string())
    return pa.table(columns)
