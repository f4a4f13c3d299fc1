"""Answers about entities of the open hour are compared with the log itself, without Spark: what
differs twice is suspected, and the check judges it.

What is compared with is recomputed as a training set is, by token. That finds whatever went wrong
on the way to the store, in it and out of it; the check, which shares no code with the platform,
finds the rest (docs/adr/0111).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from slicewise.checks.compare.engine import question_column
from slicewise.checks.model import OnlineReader, Predicted
from slicewise.checks.online import HttpReader, token_of
from slicewise.checks.patience import Patience
from slicewise.checks.values import canonical, typed, wire
from slicewise.errors import CodecError, DataLoss, NotReady, UnknownArchive
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import PlannedFeature, Source, StorageUnit
from slicewise.offsets.token import Token

_PAUSE_S = 1.0
"""Until what differs is looked at once more."""
_WAIT_S = 30.0
"""Time for which a service that is away is waited for."""
_UNREADABLE = (UnknownArchive, DataLoss, CodecError)
Entity = Mapping[str, Any]
Answers = Mapping[str, tuple[Entity, Predicted]]
"""JSON of an entity -> the entity, and its answer."""
Values = dict[str, list[dict[str, Any]]]
"""JSON of an entity -> its values that differ."""


class Recent(Protocol):
    """The events of a source, as far as they are known without Spark."""

    from_us: int
    """Event time from which on every event is known."""

    @property
    def not_plain(self) -> int:
        """Records that were left to the platform's own reader."""
        ...

    def entities(self, unit: StorageUnit) -> list[dict[str, Any]]:
        """Entities of a unit that have events in the open hour."""
        ...

    def extend(self, tokens: Iterable[Token]) -> None:
        """Reads the log on, up to what these tokens contain."""
        ...

    def values(
        self, unit: StorageUnit, refs: Sequence[str], answers: Sequence[tuple[Entity, str]]
    ) -> pa.Table:
        """The values of features by token: a column per ref."""
        ...


@dataclass
class Looked:
    """Result of a light check."""

    values: int = 0
    entities: int = 0
    equal: dict[str, list[str]] = field(default_factory=dict)
    """View -> JSON of each entity all of whose compared values are right."""
    differs: dict[str, list[str]] = field(default_factory=dict)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason -> features, or records, that were not compared."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LightCheck:
    """The means of a light check. recent: what is known of a source, or why nothing is. again: view
    -> entities that are compared whatever is sampled."""

    deployment: Deployment
    recent: Callable[[Source], Recent | str]
    reader: OnlineReader
    run: str
    sample: int
    again: Mapping[str, Sequence[Entity]]
    pause: Callable[[float], None] = time.sleep

    @staticmethod
    def over_http(
        url: str,
        deployment: Deployment,
        recent: Callable[[Source], Recent | str],
        run: str,
        sample: int,
        again: Mapping[str, Sequence[Entity]],
    ) -> LightCheck:
        """A light check that reads from the serving API at `url`."""
        reader = HttpReader(url, patience=Patience(_WAIT_S))
        return LightCheck(deployment, recent, reader, run, sample, again)

    def execute(self) -> Looked:
        """Looks at every view. What cannot be looked at without Spark is noted."""
        looked = Looked()
        for name in dict.fromkeys(unit.source for unit in self.deployment.declared.units):
            source = self.deployment.source(name)
            if source.format != "json":
                looked.notes.append(f"source {name}: {source.format} is read by the check alone")
                continue
            recent = self.recent(source)
            if isinstance(recent, str):
                looked.notes.append(f"source {name}: {recent}")
                continue
            for unit in self.deployment.declared.units:
                if unit.source == name:
                    try:
                        self._unit(unit, recent, looked)
                    except NotReady as error:
                        looked.notes.append(f"view {unit.view}: {error.what}")
            if recent.not_plain:
                looked.left_out[f"records of {name}"] = recent.not_plain
        return looked

    def _unit(self, unit: StorageUnit, recent: Recent, looked: Looked) -> None:
        entities = self._entities(unit, recent)
        if not entities:
            return
        compared, differing = self._compared(unit, recent, entities, looked)
        if differing:  # what is written between an answer and another look at it is in neither
            self.pause(_PAUSE_S)
            chosen = [entity for entity in entities if _text(entity) in differing]
            _, differing = self._compared(unit, recent, chosen, Looked())
        texts = {_text(entity) for entity in entities} & compared
        looked.entities += len(texts)
        bad = set(looked.differs.get(unit.view, ())) | differing.keys()
        looked.differs[unit.view] = sorted(bad)
        good = set(looked.equal.get(unit.view, ())) | texts
        looked.equal[unit.view] = sorted(good - bad)
        looked.wrong += [value for values in differing.values() for value in values]

    def _entities(self, unit: StorageUnit, recent: Recent) -> list[Entity]:
        """Entities with events in the open hour, by the hash of run and entity.

        Those that are to be compared again come last.
        """
        if not unit.entity:
            return [{}]
        every = [
            {name: wire(value) for name, value in row.items()} for row in recent.entities(unit)
        ]
        every.sort(key=lambda entity: hashlib.sha256(f"{self.run} {entity}".encode()).digest())
        sampled, names = every[: self.sample], {name for name, _ in unit.entity}
        again = [dict(one) for one in self.again.get(unit.view, ()) if one.keys() == names]
        return [*sampled, *(one for one in again if one not in sampled)]

    def _compared(
        self, unit: StorageUnit, recent: Recent, entities: Sequence[Entity], looked: Looked
    ) -> tuple[set[str], Values]:
        """The entities of which a value was compared, and the values that differ, by entity."""
        features = [f for f in unit.features if question_column(f.aggregate) is None]
        refs = [f"{unit.view}:{feature.column}" for feature in features]
        answers, differing = _answers(self.reader, refs, entities) if refs else ({}, {})
        compared = set(differing)
        if not answers:
            return compared, differing
        recent.extend(token for _, answer in answers.values() for token in answer.tokens)
        tokens = {t: token_of(unit, answer.tokens) for t, (_, answer) in answers.items()}
        chosen = [f for f in features if _is_complete(f, unit, answers, tokens, recent.from_us)]
        looked.left_out["features"] += len(unit.features) - len(chosen)
        if not chosen:
            return compared, differing
        refs = [f"{unit.view}:{feature.column}" for feature in chosen]
        built = recent.values(
            unit, refs, [(entity, answer.text) for entity, answer in answers.values()]
        )
        for feature, ref in zip(chosen, refs, strict=True):
            kind = feature.aggregate.output_type
            offline = built.column(ref).to_pylist()
            for (text, (_, answer)), value in zip(answers.items(), offline, strict=True):
                online = answer.values[ref]
                compared.add(text)
                looked.values += 1
                if canonical(typed(online, kind)) != canonical(typed(value, kind)):
                    row = {"view": unit.view, "feature": feature.column, "entity": text}
                    row |= {"online": repr(online)[:200], "offline": repr(value)[:200]}
                    differing.setdefault(text, []).append(row)
        return compared, differing


def _answers(
    reader: OnlineReader, refs: Sequence[str], entities: Sequence[Entity]
) -> tuple[dict[str, tuple[Entity, Predicted]], Values]:
    """Answers by the JSON of their entity; and of what is stored gives none, why."""
    try:
        read = reader.read(refs, entities, None)
        answers = zip(entities, read, strict=True)
        return {_text(entity): (entity, answer) for entity, answer in answers}, {}
    except _UNREADABLE as error:
        if len(entities) == 1:
            (entity,) = entities
            view = refs[0].partition(":")[0]
            row = {"view": view, "feature": "*", "entity": _text(entity), "online": error.what}
            return {}, {_text(entity): [row | {"offline": "an answer"}]}
    half = len(entities) // 2
    one, other = (_answers(reader, refs, some) for some in (entities[:half], entities[half:]))
    return {**one[0], **other[0]}, {**one[1], **other[1]}


def _is_complete(
    feature: PlannedFeature,
    unit: StorageUnit,
    answers: Answers,
    tokens: Mapping[str, Token],
    from_us: int,
) -> bool:
    """Tells whether all events of the feature's windows are known, and none is lost."""
    ref = f"{unit.view}:{feature.column}"
    for text, (_, answer) in answers.items():
        start, end = tokens[text].bounds[feature.column]
        if feature.window.session_gap_us:
            start = min(start, end - feature.window.length_us)
        if ref in answer.incomplete or start < from_us:
            return False
    return True


def _text(entity: Entity) -> str:
    """Text of an entity as the check writes it."""
    return json.dumps(dict(entity), sort_keys=True, ensure_ascii=False)
