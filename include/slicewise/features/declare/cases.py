"""A case is events, an instant and what a view then answers; what cannot be asked is refused where
it is written."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.calls import checked_call, shown
from slicewise.clock import END_OF_TIME_US
from slicewise.errors import DefinitionError
from slicewise.features.naming import Location, check_mapping, frozen, written_at

MODES = ("event_time", "at", "live")
Scalar = str | int | float | bool | None
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?([Zz]|[+-]\d{2}:\d{2})")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Case:
    """A test of a view: after these events, a read at `at` answers `expect`.

    events: dicts in log order with the source's columns (and optionally partition, offset,
    kafka_time). at: RFC 3339 text with zone, or integer microseconds. entity: the entity's columns
    (may be left out where the events hold one entity). expect: feature column -> value.
    """

    events: tuple[Mapping[str, Any], ...]
    at: str | int
    expect: Mapping[str, Any]
    entity: Mapping[str, Scalar] | None = None
    mode: str = "event_time"
    name: str | None = None
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def where(self) -> str:
        """The case and where it was written, for messages."""
        return (
            "case"
            + (f" {self.name!r}" if self.name else "")
            + (f" ({self.location})" if self.location else "")
        )

    @staticmethod
    def instant(at: object, where: str) -> dt.datetime:
        """An aware instant from RFC 3339 text with zone, or integer microseconds UTC."""
        try:
            if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < END_OF_TIME_US:
                return _EPOCH + dt.timedelta(microseconds=at)
            if isinstance(at, str) and _INSTANT.fullmatch(at):
                moment = dt.datetime.fromisoformat(at.upper()).astimezone(dt.UTC)
                if moment >= _EPOCH:
                    return moment
        except (ValueError, OverflowError):
            pass  # a day that does not exist is refused like any other text
        raise DefinitionError(
            f"at is {shown(at)}",
            where=where,
            expected='RFC 3339 with zone ("2026-01-31T12:00:00Z"), or integer microseconds, from 1970 on',
            next_step="write the instant so; a time without zone is another instant in every place",
        )

    def __post_init__(self) -> None:
        where = self.where
        if self.name is not None and not isinstance(self.name, str):
            raise DefinitionError(
                f"name is {self.name!r}",
                where=where,
                expected="a text, or none",
                next_step='write name="what it shows", or leave it out',
            )
        if isinstance(self.events, str | Mapping) or not isinstance(self.events, Sequence):
            raise DefinitionError(
                f"events is {shown(self.events)}",
                where=where,
                expected='a list of dicts: events=[{"user_id": "ann", …}]',
                next_step="put the events in [ ], each a dict of the source's columns",
            )
        for number, event in enumerate(self.events):
            check_mapping(event, f"events[{number}]", where, '{"user_id": "ann", …}')
        object.__setattr__(self, "events", tuple(frozen(event) for event in self.events))
        self.instant(self.at, where)
        check_mapping(self.expect, "expect", where, '{"plays_10m": 3}')
        if not self.expect:
            raise DefinitionError(
                "a case expects nothing",
                where=where,
                expected='expect={"plays_10m": 3}',
                next_step="name a feature column and the value that it is to have",
            )
        object.__setattr__(self, "expect", frozen(self.expect))
        if self.entity is not None:
            check_mapping(self.entity, "entity", where, '{"user_id": "ann"}')
            object.__setattr__(self, "entity", frozen(self.entity))
        if self.mode not in MODES:
            raise DefinitionError(
                f"{self.mode!r} is no mode",
                where=where,
                expected="one of " + ", ".join(MODES),
                next_step=f"leave mode= out for {MODES[0]}",
            )


@checked_call
def case(
    *,
    events: Sequence[Mapping[str, Any]],
    at: str | int,
    expect: Mapping[str, Any],
    entity: Mapping[str, Scalar] | None = None,
    mode: str = "event_time",
    name: str | None = None,
) -> Case:
    """A test of a view, run by `slicewise check` through the whole path of `sw.evaluate`."""
    return Case(events, at, expect, entity, mode, name)  # type: ignore[arg-type]  # made a tuple, once it is known to be a list
