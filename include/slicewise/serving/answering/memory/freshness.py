"""Facts about a source are what was seen: when its committed offsets moved, the stream's lag, and
events known to be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slicewise import log
from slicewise.errors import BadRequest, CodecError
from slicewise.offsets.gaps import AcceptedGap, from_json
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.exchange import NO_EVENTS, PendingSeen
from slicewise.serving.answering.answer import SourceFreshness
from slicewise.serving.answering.catalog import Catalog, Selection
from slicewise.serving.connection.steps import Flow
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model.phases import PART, Phase, phases_of
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.operations.status import ReadStatus


@dataclass
class Freshness:
    """Per source, remembered by this process."""

    accepted_gaps: dict[str, tuple[AcceptedGap, ...]] = field(default_factory=dict)
    """Source -> losses that were accepted; sources without any are left out."""
    unreadable: dict[str, CodecError] = field(default_factory=dict)
    """Source -> why its losses cannot be read: until they can, any of its events may be lost."""
    _metadata: dict[int, StoreMetadata] = field(default_factory=dict)
    _committed_offsets: dict[tuple[int, str], OffsetVector] = field(default_factory=dict)
    _by_source: dict[str, SourceFreshness] = field(default_factory=dict)
    newest_pending: dict[str, int] = field(default_factory=dict)
    """Source -> time of the latest event that an answer had from its real-time lane."""
    phases: dict[str, Phase] = field(default_factory=dict)
    """Unit that is not ready -> what its build waits for."""

    def saw(self, catalog: Catalog, metadata: StoreMetadata, time_us: int, node: int = 0) -> None:
        """A reply's metadata, of one node at its time."""
        if metadata is self._metadata.get(node):
            return
        self._metadata[node] = metadata
        for source in catalog.deployment.sources:
            committed = catalog.committed_of(metadata, source.topic)
            before = self._committed_offsets.get((node, source.name))
            if committed == before:
                continue
            self._committed_offsets[node, source.name] = committed
            if before is not None:
                current = self._of(source.name)
                self._by_source[source.name] = SourceFreshness(
                    source.name, time_us, current.lag_events, current.heartbeat_us
                )

    def of(
        self, selection: Selection, pending: Sequence[PendingSeen] = ()
    ) -> tuple[SourceFreshness, ...]:
        """The freshness of the sources of a selection; pending: per part of slices what its answer
        has of the pending events."""
        freshness = tuple(
            self._of(name) for name in sorted({p.unit.source for p in selection.parts})
        )
        if not max(pending, default=NO_EVENTS).events:
            return freshness
        merged: dict[str, PendingSeen] = {}
        for part, seen in zip(selection.sliced, pending, strict=True):
            merged[part.unit.source] = seen.and_of(merged.get(part.unit.source, NO_EVENTS))
        for source, seen in merged.items():
            if seen.events:
                self.newest_pending[source] = max(
                    seen.newest_us, self.newest_pending.get(source, seen.newest_us)
                )
        return tuple(
            replace(source_freshness, pending_events=seen.events, pending_newest_us=seen.newest_us)
            if (seen := merged.get(source_freshness.source, NO_EVENTS)).events
            else source_freshness
            for source_freshness in freshness
        )

    def all(self) -> Mapping[str, SourceFreshness]:
        return self._by_source

    def listen(self, catalog: Catalog) -> Flow[None]:
        """Reads what the stream says of each source, and which of its events are lost; `unreadable`
        tells of which sources that is no text of ours."""
        for gone in self.unreadable.keys() - {source.name for source in catalog.deployment.sources}:
            del self.unreadable[gone]
        for source in catalog.deployment.sources:
            text: str | None = yield ReadStatus(f"stream:{source.name}")
            status, before = _status(source.name, text), self._of(source.name)
            seen = (None, None) if status is None else (status.lag_events, status.heartbeat_us)
            self._by_source[source.name] = SourceFreshness(
                source.name, before.ledger_advanced_us, *seen
            )
            text = yield ReadStatus(f"holes:{source.name}")
            self._take_in(source.name, text)
        yield from self._listen_to_builds(catalog)

    def _listen_to_builds(self, catalog: Catalog) -> Flow[None]:
        units = {unit.storage_fingerprint for unit in catalog.deployment.units}
        if all(units <= metadata.ready for metadata in self._metadata.values()):
            self.phases = {}
            return
        text: str | None = yield ReadStatus(PART)
        self.phases = phases_of(text)

    def _take_in(self, source: str, text: str | None) -> None:
        try:
            accepted_gaps = () if text is None else from_json(text, f"status holes:{source}")
        except CodecError as error:
            if source not in self.unreadable:
                log.warning("gaps_unreadable", source=source, what=error.what)
            self.unreadable[source] = error
            return
        self.unreadable.pop(source, None)
        if accepted_gaps:
            self.accepted_gaps[source] = accepted_gaps
        else:
            self.accepted_gaps.pop(source, None)

    def incomplete(
        self, selection: Selection, bounds: Mapping[str, tuple[int, int]]
    ) -> tuple[str, ...]:
        """The refs whose windows may lack events that are lost for good."""
        if not self.accepted_gaps and not self.unreadable:
            return ()
        return tuple(
            ref
            for part in selection.parts
            for ref in (selection.refs[position] for position in part.positions)
            if part.unit.source in self.unreadable
            or any(
                accepted_gap.touches(*bounds[ref])
                for accepted_gap in self.accepted_gaps.get(part.unit.source, ())
            )
        )

    def _of(self, source: str) -> SourceFreshness:
        return self._by_source.get(source) or SourceFreshness(source, None, None, None)


def _status(source: str, text: str | None) -> Status | None:
    """The stream's status; None where it has none that can be read."""
    try:
        return Status.parse(source, text) if text else None
    except BadRequest:
        return None
