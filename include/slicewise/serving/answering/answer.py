"""An answer says what it contains: bounds per feature, a token per entity, and every flag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from slicewise.client import answers
from slicewise.client.answers import EntityAnswer as EntityAnswer
from slicewise.client.answers import Interval as Interval
from slicewise.client.answers import SourceFreshness as SourceFreshness
from slicewise.client.instants import instant_text
from slicewise.codec.plain import json_safe
from slicewise.serving.answering.requests import interval_text


class Bounds(dict[str, Interval]):
    """Feature -> effective (start_us, end_us), half-open; they are written once for all answers of
    a plan."""

    def written(self, *, text: bool) -> msgspec.Raw:
        """The bounds as the API writes them: JSON if text, else msgpack."""
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
class Answer(answers.Answer):
    """An answer that the API can write."""

    doubles: tuple[bool, ...] = ()
    """Per feature, whether a value may be NaN or infinite."""

    def to_wire(self, *, text: bool) -> dict[str, Any]:
        """The answer as the API writes it; text: for JSON, where NaN and infinities are text."""
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
                freshness.source: {
                    "ledger_advanced_at": _instant(freshness.ledger_advanced_us),
                    "lag_events": freshness.lag_events,
                    "stream_heartbeat_at": _instant(freshness.heartbeat_us),
                    **({"tail": _pending(freshness)} if freshness.pending_events else {}),
                }
                for freshness in self.freshness
            },
            "flags": self.flags,
        }
        if self.incomplete:
            whole["incomplete"] = self.incomplete
        return whole


def _pending(freshness: SourceFreshness) -> dict[str, Any]:
    return {"events": freshness.pending_events, "newest": _instant(freshness.pending_newest_us)}


def _is_plain(values: Sequence[Any]) -> bool:
    """Tells whether JSON writes all as they stand; an infinity or NaN less itself is no zero."""
    if not _PLAIN.issuperset(map(type, values)):
        return False
    return sum([value - value for value in values if type(value) is float]) == 0.0


_PLAIN = frozenset((float, int, str, bool, type(None)))


def _instant(us: int | None) -> str | None:
    return None if us is None else instant_text(us)
