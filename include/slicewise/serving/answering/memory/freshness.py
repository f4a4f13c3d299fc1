"""Facts about a source are what was seen: when its ledger moved, the stream's lag, and events known to be lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slicewise import log
from slicewise.errors import CodecError
from slicewise.offsets.gaps import AcceptedGap, from_json
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.pending import NO_EVENTS, PendingSeen
from slicewise.serving.answering.answer import SourceFreshness
from slicewise.serving.answering.catalog import Catalog, Selection
from slicewise.serving.connection.steps import Flow
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model.phases import PART, Phase, said
from slicewise.stores.online.operations.status import ReadStatus


@dataclass
class Freshness:
    """Per source, remembered by this process."""

    holes: dict[str, tuple[AcceptedGap, ...]] = field(default_factory=dict)
    """Source -> losses that were accepted; sources without any are left out."""
    unreadable: dict[str, CodecError] = field(default_factory=dict)
    """Source -> why its losses cannot be read: until they can, any of its events may be lost."""
    _marks: dict[int, StoreMetadata] = field(default_factory=dict)
    _ledgers: dict[tuple[int, str], OffsetVector] = field(default_factory=dict)
    _known: dict[str, SourceFreshness] = field(default_factory=dict)
    tails: dict[str, int] = field(default_factory=dict)
    """Source -> time of the latest event that an answer had from its tail."""
    phases: dict[str, Phase] = field(default_factory=dict)
    """Unit that is not ready -> what its build waits for."""

    def saw(self, catalog: Catalog, marks: StoreMetadata, time_us: int, node: int = 0) -> None:
        """A reply's marks, of one node at its time."""
        if marks is self._marks.get(node):
            return
        self._marks[node] = marks
        for source in catalog.deployment.sources:
            ledger = catalog.ledger_of(marks, source.topic)
            before = self._ledgers.get((node, source.name))
            if ledger == before:
                continue
            self._ledgers[node, source.name] = ledger
            if before is not None:
                known = self._of(source.name)
                self._known[source.name] = SourceFreshness(source.name, time_us, known.lag_events, known.heartbeat_us)

    def of(self, selection: Selection, tails: Sequence[PendingSeen] = ()) -> tuple[SourceFreshness, ...]:
        """The freshness of the sources of a selection; tails: per part of slices what its answer has of the tail."""
        found = tuple(self._of(name) for name in sorted({p.unit.source for p in selection.parts}))
        if not max(tails, default=NO_EVENTS).events:
            return found
        merged: dict[str, PendingSeen] = {}
        for part, seen in zip(selection.sliced, tails, strict=True):
            merged[part.unit.source] = seen.and_of(merged.get(part.unit.source, NO_EVENTS))
        for source, seen in merged.items():
            if seen.events:
                self.tails[source] = max(seen.newest_us, self.tails.get(source, seen.newest_us))
        return tuple(
            replace(each, tail_events=seen.events, tail_newest_us=seen.newest_us)
            if (seen := merged.get(each.source, NO_EVENTS)).events
            else each
            for each in found
        )

    def all(self) -> Mapping[str, SourceFreshness]:
        return self._known

    def listen(self, catalog: Catalog) -> Flow[None]:
        """Reads what the stream says of each source, and which of its events are lost; `unreadable` tells of which
        sources that is no text of ours."""
        for gone in self.unreadable.keys() - {source.name for source in catalog.deployment.sources}:
            del self.unreadable[gone]
        for source in catalog.deployment.sources:
            text: str | None = yield ReadStatus(f"stream:{source.name}")
            lag, heartbeat = _said(text)
            known = self._of(source.name)
            self._known[source.name] = SourceFreshness(source.name, known.ledger_advanced_us, lag, heartbeat)
            text = yield ReadStatus(f"holes:{source.name}")
            self._take_in(source.name, text)
        yield from self._listen_to_builds(catalog)

    def _listen_to_builds(self, catalog: Catalog) -> Flow[None]:
        units = {unit.storage_fingerprint for unit in catalog.deployment.units}
        if all(units <= marks.ready for marks in self._marks.values()):
            self.phases = {}
            return
        text: str | None = yield ReadStatus(PART)
        self.phases = said(text)

    def _take_in(self, source: str, text: str | None) -> None:
        try:
            holes = () if text is None else from_json(text, f"status holes:{source}")
        except CodecError as error:
            if source not in self.unreadable:
                log.warning("holes_unreadable", source=source, what=error.what)
            self.unreadable[source] = error
            return
        self.unreadable.pop(source, None)
        if holes:
            self.holes[source] = holes
        else:
            self.holes.pop(source, None)

    def incomplete(self, selection: Selection, bounds: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
        """The refs whose windows may lack events that are lost for good."""
        if not self.holes and not self.unreadable:
            return ()
        return tuple(
            ref
            for part in selection.parts
            for ref in (selection.refs[position] for position in part.positions)
            if part.unit.source in self.unreadable
            or any(hole.touches(*bounds[ref]) for hole in self.holes.get(part.unit.source, ()))
        )

    def _of(self, source: str) -> SourceFreshness:
        return self._known.get(source) or SourceFreshness(source, None, None, None)


def _said(text: str | None) -> tuple[int | None, int | None]:
    """(events of lag, heartbeat) of a stream's status; None for what it does not say."""
    try:
        raw: Any = json.loads(text) if text else {}
    except ValueError:
        raw = {}
    if not isinstance(raw, dict):
        return None, None
    lag, heartbeat = raw.get("lag"), raw.get("heartbeat_us")
    if isinstance(lag, dict) and all(isinstance(v, int) for v in lag.values()):
        lag = sum(lag.values())
    return (
        lag if isinstance(lag, int) else None,
        heartbeat if isinstance(heartbeat, int) else None,
    )
