"""What is answered instead of a store that is away is flagged, young enough, and of the same definition."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

import msgspec

from slicewise.serving.answer import Answer, EntityAnswer
from slicewise.serving.catalog import Selection
from slicewise.serving.requests import Entity, FeaturesRequest

STALE, DEFAULT = "stale", "default"
_KEY = msgspec.msgpack.Encoder(order="sorted")
Meaning = tuple[object, ...]
"""What the values of a selection mean; equal for answers that may stand for each other."""


@dataclass
class LastKnown:
    """The newest live answer of each feature set and entity, the least recently used forgotten."""

    limit: int = 50_000
    _answers: OrderedDict[tuple[str, bytes], tuple[Meaning, Answer]] = field(default_factory=OrderedDict)

    def keep(self, answer: Answer, selection: Selection) -> None:
        """Remembers an answer, if its feature set may be answered from memory."""
        if selection.on_failure != STALE or selection.feature_set is None:
            return
        meaning = _meaning(selection)
        for result in answer.results:
            key = (selection.feature_set, _key(result.entity))
            self._answers[key] = (meaning, replace(answer, results=(result,)))
            self._answers.move_to_end(key)
        while len(self._answers) > self.limit:
            self._answers.popitem(last=False)

    def answer(self, request: FeaturesRequest, selection: Selection, now_us: int) -> Answer | None:
        """The last known values of all entities asked for, or None where one has none that is young
        enough and of these definitions. `t_us` and the bounds are those of the oldest."""
        found, meaning = [], _meaning(selection)
        for entity in request.entities:
            meant, known = self._answers.get((selection.feature_set or "", _key(entity)), (None, None))
            if known is None or meant != meaning:
                return None
            limit = selection.max_staleness_us
            if limit is not None and now_us - known.t_us > limit:
                return None
            found.append(known)
        oldest = min(found, key=lambda known: known.t_us)
        results = tuple(known.results[0] for known in found)
        return replace(oldest, results=results, flags=(*oldest.flags, STALE))


def defaults_of(request: FeaturesRequest, selection: Selection, now_us: int) -> Answer:
    """The declared defaults; null where there is none."""
    values = selection.defaults or (None,) * len(selection.refs)
    results = tuple(EntityAnswer(entity, values, "") for entity in request.entities)
    return Answer(selection.refs, "live", now_us, {}, results, (), (DEFAULT,), selection.doubles)


def _meaning(selection: Selection) -> Meaning:
    """A feature keeps its name while where, windows or columns change: the fingerprints do not."""
    units = tuple((p.unit.storage_fingerprint, p.unit.definition_fingerprint) for p in selection.parts)
    return (selection.refs, units, selection.defaults)


def _key(entity: Entity) -> bytes:
    return _KEY.encode(entity)
