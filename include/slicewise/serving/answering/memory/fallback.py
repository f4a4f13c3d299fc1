"""An answer instead of a store that is away is flagged, young enough, and of the same
definition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from slicewise.serving.answering.answer import Answer, EntityAnswer, Interval
from slicewise.serving.answering.catalog import Selection
from slicewise.serving.answering.requests import Entity, FeaturesRequest

STALE, DEFAULT = "stale", "default"
OVERFLOW, INCOMPLETE, CLOCK_OFF = "overflow", "incomplete", "clock_off"
_KEY = msgspec.msgpack.Encoder(order="sorted")
Meaning = tuple[object, ...]
"""Meaning of the values of a selection; equal for answers that may stand for each other."""
Lacking = Callable[[Selection, Mapping[str, Interval]], Sequence[str]]
"""The refs of a selection that are known to lack events within these bounds."""


@dataclass
class LastAnswers:
    """The newest live answer of each feature set and entity, the least recently used forgotten."""

    limit: int = 50_000
    _answers: OrderedDict[tuple[str, bytes], tuple[Meaning, Answer]] = field(
        default_factory=OrderedDict
    )

    def keep(self, answer: Answer, selection: Selection) -> None:
        """Remembers an answer, if its feature set may be answered from memory."""
        if selection.feature_set is None or not selection.is_remembered:
            return
        meaning = _meaning(selection)
        for result in answer.results:
            key = (selection.feature_set, _key(result.entity))
            # of the flags only `overflow` follows from one entity's values: the others follow from
            # the bounds
            flags = tuple(flag for flag in answer.flags if flag != OVERFLOW or result.errors)
            self._answers[key] = (meaning, replace(answer, results=(result,), flags=flags))
            self._answers.move_to_end(key)
        while len(self._answers) > self.limit:
            self._answers.popitem(last=False)

    def answer(
        self, request: FeaturesRequest, selection: Selection, now_us: int, lacking: Lacking
    ) -> Answer | None:
        """The last known values of all entities asked for. None where one of them has none that is
        young enough and of these definitions. `t_us` and the bounds are those of the oldest; flags
        and incomplete features are those of any, and what has been heard of lost events since."""
        answers, meaning = [], _meaning(selection)
        for entity in request.entities:
            meant, kept = self._answers.get(
                (selection.feature_set or "", _key(entity)), (None, None)
            )
            if kept is None or meant != meaning:
                return None
            limit = selection.max_staleness_us
            if limit is not None and now_us - kept.t_us > limit:
                return None
            answers.append(kept)
        oldest = min(answers, key=lambda kept: kept.t_us)
        results = tuple(kept.results[0] for kept in answers)
        lost = {
            ref for kept in answers for ref in (*kept.incomplete, *lacking(selection, kept.bounds))
        }
        flags = dict.fromkeys(flag for kept in answers for flag in kept.flags)
        if lost:
            flags[INCOMPLETE] = None
        incomplete = tuple(ref for ref in selection.refs if ref in lost)
        flagged = (*flags, STALE)
        return replace(
            oldest, results=results, flags=flagged, incomplete=incomplete, tokens=request.tokens
        )


def defaults_of(request: FeaturesRequest, selection: Selection, now_us: int) -> Answer:
    """The declared defaults; null where there is none."""
    values = selection.defaults or (None,) * len(selection.refs)
    results = tuple(EntityAnswer(entity, values, "") for entity in request.entities)
    flags = (DEFAULT,)
    return Answer(
        selection.refs,
        "live",
        now_us,
        {},
        results,
        (),
        flags,
        doubles=selection.doubles,
        log=selection.log,
        tokens=request.tokens,
    )


def _meaning(selection: Selection) -> Meaning:
    """A feature keeps its name while where, windows or columns change: the fingerprints do not."""
    units = tuple(
        (p.unit.storage_fingerprint, p.unit.definition_fingerprint) for p in selection.parts
    )
    return (selection.refs, units, selection.defaults)


def _key(entity: Entity) -> bytes:
    return _KEY.encode(entity)
