"""An answer says what it contains: bounds per feature, a token per entity, and every flag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from slicewise.serving.answering.requests import Entity, instant_text, interval_text
from slicewise.serving.answering.values import json_safe

Interval = tuple[int, int]


class Bounds(dict[str, Interval]):
    """Feature -> effective (start_us, end_us), half-open; they are written once for all answers of a plan."""

    def written(self, *, text: bool) -> msgspec.Raw:
        """As the API writes them: JSON if text, else msgpack."""
        return self._json if text else self._msgpack

    @cached_property
    def _json(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(_texts(self)))

    @cached_property
    def _msgpack(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.msgpack.encode(_texts(self)))


def _texts(bounds: Mapping[str, Interval]) -> dict[str, tuple[str, str]]:
    return {name: interval_text(interval) for name, interval in bounds.items()}


@dataclass(frozen=True)
class EntityAnswer:
    """Values of one entity, in the order of the answer's features."""

    entity: Entity
    values: tuple[Any, ...]
    token: str
    """Tokens of the units that were read, joined; "" where nothing was read (flag `default`), or none was asked for."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Feature -> error code, for values that are null because of an error (`overflow`)."""
    bounds: Mapping[str, Interval] = field(default_factory=dict)
    """Feature -> effective (start_us, end_us) of this entity's own session; empty at its end where none is open."""
    no_data: tuple[str, ...] = ()
    """Views of which the read found nothing of this entity: it was never seen, or nothing of it is kept any more.
    Of a view that is not named, events are kept, if not in these windows."""


@dataclass(frozen=True)
class SourceFreshness:
    """How current the ledger of a source is, as far as this process knows."""

    source: str
    ledger_advanced_us: int | None
    """Store's time at which this process last saw the ledger move; None: not since it started."""
    lag_events: int | None
    """Events in the log that are not applied yet, as the stream last said; None: it said nothing."""
    heartbeat_us: int | None
    """When the stream last said something."""
    tail_events: int = 0
    """Events in the answer that the ledger does not hold yet: of the tail, each counted once per view that has it."""
    tail_newest_us: int | None = None
    """Event time of the latest of them."""


@dataclass(frozen=True)
class Answer:
    """Features of some entities at one time."""

    features: tuple[str, ...]
    mode: str
    t_us: int
    """The serving clock (live) or the `at` that was asked for."""
    bounds: Mapping[str, Interval]
    """Feature -> effective (start_us, end_us), half-open; of a session those within which it was looked for."""
    results: tuple[EntityAnswer, ...]
    freshness: tuple[SourceFreshness, ...] = ()
    flags: tuple[str, ...] = ()
    """"stale": last known values, of `t_us`; "default": declared defaults; "overflow": see errors;
    "incomplete": see incomplete; "clock_off": the service's present is not the store's."""
    doubles: tuple[bool, ...] = ()
    """Per feature, whether a value may be NaN or infinite."""
    incomplete: tuple[str, ...] = ()
    """Features whose windows may lack events that the log lost before they were archived; a person accepted it."""
    tokens: bool = True
    """Whether the API writes the tokens."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dict per entity: its columns and its features."""
        for result in self.results:
            yield {**result.entity, **dict(zip(self.features, result.values, strict=True))}

    def values(self, index: int = 0) -> dict[str, Any]:
        """Feature -> value of one entity."""
        return dict(zip(self.features, self.results[index].values, strict=True))

    def bounds_of(self, index: int = 0) -> dict[str, Interval]:
        """Feature -> effective bounds of one entity, its own sessions' included."""
        return {**self.bounds, **self.results[index].bounds}

    def to_wire(self, *, text: bool) -> dict[str, Any]:
        """As the API writes it; text: for JSON, where NaN and infinities are text."""
        names, unsafe = self.features, text and any(self.doubles)
        bounds = self.bounds
        results = []
        for result in self.results:
            values: Any = result.values
            if unsafe and not _is_plain(values):
                values = [json_safe(value) for value in values]
            wire: dict[str, Any] = {
                "entity": result.entity,
                "values": dict(zip(names, values, strict=True)),
            }
            if self.tokens:
                wire["token"] = result.token
            if result.errors:
                wire["errors"] = result.errors
            if result.bounds:
                wire["bounds"] = _texts(result.bounds)
            if result.no_data:
                wire["no_data"] = result.no_data
            results.append(wire)
        whole: dict[str, Any] = {
            "mode": self.mode,
            "t": instant_text(self.t_us),
            "results": results,
            "bounds": bounds.written(text=text) if isinstance(bounds, Bounds) else _texts(bounds),
            "freshness": {
                each.source: {
                    "ledger_advanced_at": _instant(each.ledger_advanced_us),
                    "lag_events": each.lag_events,
                    "stream_heartbeat_at": _instant(each.heartbeat_us),
                    **({"tail": _tail(each)} if each.tail_events else {}),
                }
                for each in self.freshness
            },
            "flags": self.flags,
        }
        if self.incomplete:
            whole["incomplete"] = self.incomplete
        return whole


def _tail(freshness: SourceFreshness) -> dict[str, Any]:
    return {"events": freshness.tail_events, "newest": _instant(freshness.tail_newest_us)}


def _is_plain(values: Sequence[Any]) -> bool:
    """Whether JSON writes all as they stand; an infinity or NaN less itself is no zero."""
    if not _PLAIN.issuperset(map(type, values)):
        return False
    return sum([value - value for value in values if type(value) is float]) == 0.0


_PLAIN = frozenset((float, int, str, bool, type(None)))


def _instant(us: int | None) -> str | None:
    return None if us is None else instant_text(us)
