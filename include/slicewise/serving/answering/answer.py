"""An answer says what it contains: bounds per feature, a token per entity, and every flag."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import msgspec
import xxhash

from slicewise.client import answers
from slicewise.client.answers import Entity
from slicewise.client.answers import EntityAnswer as EntityAnswer
from slicewise.client.answers import Interval as Interval
from slicewise.client.answers import SourceFreshness as SourceFreshness
from slicewise.client.instants import instant_text, instant_us
from slicewise.codec.plain import json_safe
from slicewise.errors import BadRequest
from slicewise.serving.answering.requests import interval_text


class Bounds(dict[str, Interval]):
    """Feature -> effective (start_us, end_us), half-open; they are written once for all answers of
    a plan."""

    def written(self, *, text: bool) -> msgspec.Raw:
        """The bounds as the API writes them: JSON if text, else msgpack."""
        return self._json if text else self._msgpack

    @cached_property
    def after(self) -> dict[bool, tuple[tuple[SourceFreshness, ...], bytes]]:
        """Text or not -> the freshness written last, and all behind the results with it."""
        return {}

    @cached_property
    def _json(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(_texts(self)))

    @cached_property
    def _msgpack(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.msgpack.encode(_texts(self)))


def _texts(bounds: Mapping[str, Interval]) -> dict[str, tuple[str, str]]:
    return {name: interval_text(interval) for name, interval in bounds.items()}


@dataclass(frozen=True)
class LogRule:
    """Logging of a feature set's answers, under the deployment by which they are read.

    below: hashes of entities that are logged. deployment: its digest. versions: numbers of the set
    and its views, of those that have had several. columns: the entity's own, and which of them are
    instants.
    """

    topic: str
    below: int
    deployment: str
    versions: str
    columns: tuple[tuple[str, bool], ...]

    def key(self, entity: Entity) -> bytes:
        """JSON of an entity's own columns: the same for every spelling of it."""
        own = {name: entity.get(name) for name, _ in self.columns}
        for name, is_instant in self.columns:
            if is_instant:
                # of an answer that the store did not give nobody has checked the entity
                with contextlib.suppress(BadRequest):
                    own[name] = instant_us(cast(Any, own[name]))
        return _SORTED.encode(own)

    def takes(self, key: bytes) -> bool:
        """Tells whether answers of this entity are logged, by whichever process."""
        return is_within(key, self.below)


LOG_ALL = 1 << 64


def is_within(key: bytes, below: int) -> bool:
    """Tells whether an entity of this key is of the share that `below` is of LOG_ALL."""
    return below >= LOG_ALL or xxhash.xxh64_intdigest(key) < below


_SORTED = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True)
class Answer(answers.Answer):
    """An answer that the API can write."""

    doubles: tuple[bool, ...] = ()
    """Per feature, whether a value may be NaN or infinite."""
    log: LogRule | None = None
    """Rule by which it is logged; None where it is not."""

    def to_wire(self, *, text: bool) -> dict[str, Any]:
        """The answer as the API writes it; text: for JSON, where NaN and infinities are text."""
        return {
            **self._before(),
            "results": [self._result(result, text=text) for result in self.results],
            **self._after(text=text),
        }

    @property
    def is_particular(self) -> bool:
        """Tells whether it says something that may be of some of its entities alone."""
        return bool(self.flags) or any(s.pending_events for s in self.freshness)

    def bodies(self, *, text: bool) -> list[bytes]:
        """Per entity the body of an answer of it alone, JSON if text, else msgpack; of an answer
        of one entity, or that `is_particular` of none."""
        encode = _JSON.encode if text else _MSGPACK.encode
        before = encode(self._before())
        after = self._after_written(text=text)
        if text:
            before, behind = before[:-1] + b',"results":[', b"]," + after[1:]
        else:
            members = before[0] + after[0] + 1 - _MAP
            before = bytes((members,)) + before[1:] + _RESULTS + _ONE
            behind = after[1:]
        return [
            b"".join((before, encode(self._result(result, text=text)), behind))
            for result in self.results
        ]

    def _before(self) -> dict[str, Any]:
        """Members before the results."""
        return {"mode": self.mode, "t": instant_text(self.t_us)}

    def values_text(self, position: int) -> bytes:
        """The member `values` of one entity, as JSON has it."""
        return _JSON.encode(self._values(self.results[position], text=True))

    def _values(self, result: EntityAnswer, *, text: bool) -> dict[str, Any]:
        values: Any = result.values
        if text and self._unsafe and not _is_plain(values):
            values = [json_safe(value) for value in values]
        return dict(zip(self.features, values, strict=True))

    def _result(self, result: EntityAnswer, *, text: bool) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "entity": result.entity,
            "values": self._values(result, text=text),
        }
        if self.tokens:
            wire["token"] = result.token
        if result.errors:
            wire["errors"] = result.errors
        if result.bounds:
            wire["bounds"] = _texts(result.bounds)
        if result.no_data:
            wire["no_data"] = result.no_data
        return wire

    def _after(self, *, text: bool) -> dict[str, Any]:
        """Members after the results."""
        bounds = self.bounds
        after: dict[str, Any] = {
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
            after["incomplete"] = self.incomplete
        return after

    def _after_written(self, *, text: bool) -> bytes:
        """The same, written; once while a plan's answers say the same."""
        bounds = self.bounds
        encode = _JSON.encode if text else _MSGPACK.encode
        if not isinstance(bounds, Bounds) or self.flags:
            return encode(self._after(text=text))
        written = bounds.after.get(text)
        if written is None or written[0] != self.freshness:
            written = bounds.after[text] = (self.freshness, encode(self._after(text=text)))
        return written[1]

    @cached_property
    def _unsafe(self) -> bool:
        return any(self.doubles)


_JSON = msgspec.json.Encoder()
_MSGPACK = msgspec.msgpack.Encoder()
_MAP = 0x80
"""First byte of a map of less than 16 members, without their number."""
_RESULTS, _ONE = _MSGPACK.encode("results"), b"\x91"


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
