"""One run of the check: sample, read online, archive what was read, recompute, compare; always in
this order.

The answers come first and the archive after them, so that everything that an answer contains can
be recomputed while the stream goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock, local
from typing import Any

from pyspark.sql import SparkSession

from slicewise import log
from slicewise.checks import declared, row_functions
from slicewise.checks.compare import engine
from slicewise.checks.compare.run import Read, compare
from slicewise.checks.model import (
    NO_ANSWER,
    Cause,
    Compared,
    OnlineReader,
    Outcome,
    PlainSum,
    Predicted,
    Repeats,
    Verdict,
)
from slicewise.checks.online import token_of
from slicewise.checks.phases import timed
from slicewise.checks.recompute import queries
from slicewise.checks.recompute.questions import OnlineAnswer
from slicewise.checks.recompute.run import Recomputation
from slicewise.checks.repeats import repeats
from slicewise.checks.values import canonical, wire
from slicewise.clock import Clock
from slicewise.errors import (
    BeyondRetention,
    CodecError,
    DataLoss,
    NotReady,
    SlicewiseError,
    UnknownArchive,
)
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import HOUR_US

MODES = ("live", "at")
MEMBERS = 24
"""Number of values seen somewhere for which the features that are asked are asked."""
LANES = 2
"""Units that are sampled, and recomputed, side by side: Spark plans one query while another one
runs."""
_BACK_US = HOUR_US
"""Distance back at which a past instant may lie, where the source's lateness leaves room for it."""


@dataclass(frozen=True)
class CheckRun:
    """The means that a run works with.

    archived: archives a source up to now and gives its offset vector. table: the log's name in
    Spark, by source. run: names the run; sample and past instant follow from it, so that a run can
    be made again.
    """

    spark: SparkSession
    deployment: Deployment
    reader: OnlineReader
    archived: Callable[[str], OffsetVector]
    table: Callable[[str], str]
    clock: Clock
    run: str
    sample: int
    modes: Sequence[str] = MODES
    again: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Entities of views that are compared whatever is sampled: those whose values differed."""
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase."""
    _own: local = field(default_factory=local, init=False, repr=False, compare=False)
    _catalog: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def execute(self, views: Sequence[str] = ()) -> Outcome:
        """Check every unit (of these views; by default of all)."""
        started = self.clock.now_us()
        units = [unit for unit in self.deployment.declared.units if not views or unit.view in views]
        compared: list[Compared] = []
        skipped: set[str] = set()
        with timed(self.seconds, "read", self.clock):
            read = self._answers(units, compared, skipped)
        sums: list[PlainSum] = []
        with timed(self.seconds, "archive", self.clock):
            offset_vectors = {
                source: self.archived(source)
                for source in sorted({unit.source for unit, _ in read})
            }
        for unit, reads in read:
            _refuse_unarchived(unit, offset_vectors[unit.source], reads)
        failed: list[Exception] = []
        with timed(self.seconds, "recompute", self.clock), ThreadPoolExecutor(LANES) as lanes:
            for unit, comparison in [
                (unit, lanes.submit(self._compare, unit, reads)) for unit, reads in read
            ]:
                try:
                    rows, plain = comparison.result()
                except Exception as error:  # noqa: BLE001
                    failed.append(error)
                    self.notes.append(f"view {unit.view}: not checked, {_what(error)}")
                    continue
                compared += rows
                sums += plain
        expected = tuple(sorted({unit.view for unit in units} - skipped))
        again: list[Repeats] = []
        if not failed:
            again.extend(self._repeats(offset_vectors))
        self.notes.extend(note for repeated in again for note in repeated.notes())
        outcome = Outcome(
            self.run, started, self.clock.now_us(), self.sample, expected, tuple(compared), tuple(sums),
            tuple(self.notes), tuple(again), dict(self.seconds),
        )  # fmt: skip
        if failed and not outcome.differs:
            raise failed[0]
        return outcome

    def _answers(
        self, units: Sequence[StorageUnit], compared: list[Compared], skipped: set[str]
    ) -> list[tuple[StorageUnit, list[Read]]]:
        """Samples entities of all units, and reads their answers unit after unit."""
        read: list[tuple[StorageUnit, list[Read]]] = []
        with ThreadPoolExecutor(LANES) as lanes:
            sampled = zip(units, lanes.map(self._entities, units), strict=True)
            for unit, entities in sampled:
                self._answered(unit, entities, read, compared, skipped)
        return read

    def _answered(
        self,
        unit: StorageUnit,
        entities: Sequence[Mapping[str, Any]],
        read: list[tuple[StorageUnit, list[Read]]],
        compared: list[Compared],
        skipped: set[str],
    ) -> None:
        if not entities:
            # The archive was just brought up to the end of the log: there is nothing to compare,
            # as at night or before a source's first event. If no view has any, the gate is red.
            skipped.add(unit.view)
            self.notes.append(f"view {unit.view}: not checked, no event of it lies in what is kept")
            return
        try:
            reads = self._read(unit, entities, compared)
        except NotReady as error:
            skipped.add(unit.view)
            self.notes.append(f"view {unit.view}: not checked, {error.what}")
            return
        refs = {f"{unit.view}:{feature.column}" for feature in unit.features}
        if reads and all(refs <= prediction.incomplete for prediction in reads):
            skipped.add(unit.view)
        else:
            read.append((unit, reads))

    def _repeats(self, sources: Iterable[str]) -> Iterator[Repeats]:
        for name in sources:
            source = self.deployment.source(name)
            if source.dedupe is not None:
                repeated = repeats(
                    self.spark, self._log(name), source, source.dedupe, self.clock.now_us()
                )
                log.event("check_repeats", **repeated.to_json())
                yield repeated

    def _read(
        self, unit: StorageUnit, entities: Sequence[Mapping[str, Any]], compared: list[Compared]
    ) -> list[Read]:
        """Reads the answers. compared: gets a row for each entity that had no answer."""
        refs = [f"{unit.view}:{feature.column}" for feature in unit.features]
        reads: list[Read] = []
        questions = self._questions(unit)
        for mode in self.modes:
            at_us = None if mode == "live" else self._past(unit)
            try:
                replies = self._replies(
                    refs, [{**entity, **_sent(questions)} for entity in entities], at_us
                )
            except BeyondRetention as error:
                self.notes.append(f"view {unit.view}: not checked at a past instant, {error.what}")
                continue
            answers = [reply for reply in replies if isinstance(reply, Predicted)]
            for entity, answer in zip(entities, replies, strict=True):
                if not isinstance(answer, Predicted):
                    compared.append(_unanswered(unit, entity, mode, answer))
                    continue
                online = OnlineAnswer(len(reads), entity, token_of(unit, answer.tokens))
                reads.append(
                    Read(
                        online,
                        answer.values,
                        mode,
                        at_us,
                        answer.text,
                        answer.incomplete,
                        questions,
                    )
                )
            lacking = sorted(answers[0].incomplete) if answers else []
            if lacking:
                named = ", ".join(lacking)
                self.notes.append(
                    f"not checked, their windows touch events that are lost ({mode}): {named}"
                )
        log.event("check_read", view=unit.view, unit=unit.storage_fingerprint, answers=len(reads))
        return reads

    def _replies(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted | SlicewiseError]:
        """One per entity: its answer, or why what is stored gives none, which is found by
        halves."""
        try:
            return [*self.reader.read(refs, entities, at_us)]
        except (DataLoss, CodecError) as error:
            if len(entities) == 1:
                return [error]
        half = len(entities) // 2
        return [
            *self._replies(refs, entities[:half], at_us),
            *self._replies(refs, entities[half:], at_us),
        ]

    def _entities(self, unit: StorageUnit) -> list[Mapping[str, Any]]:
        if not unit.entity:
            return [{}]
        entities = self._sampled(unit)
        if not entities:  # before the first archive there is nothing to sample from
            with self._catalog:
                self.archived(unit.source)
            entities = self._sampled(unit)
        names = {name for name, _ in unit.entity}
        some = [dict(entity) for entity in self.again.get(unit.view, ()) if entity.keys() == names]
        return [*entities, *(entity for entity in some if entity not in entities)]

    def _sampled(self, unit: StorageUnit) -> list[Mapping[str, Any]]:
        source = self.deployment.source(unit.source)
        now = self.clock.now_us()
        events = queries.archived(self._log(unit.source), source, 0, now + source.most_ahead_us)
        spark = self._session()
        row_functions.register(spark, unit)
        viewed = queries.viewed(unit, source, events)
        text = queries.sampled(unit, viewed, self.run, self.sample, now - unit.retention_us)
        rows: list[dict[str, Any]] = spark.sql(text).toArrow().to_pylist()
        entities = [{name: wire(row[f"e_{name}"]) for name, _ in unit.entity} for row in rows]
        return sorted(entities, key=repr)

    def _questions(self, unit: StorageUnit) -> dict[str, list[Any]]:
        """Per column that features are asked by some of its values, and strangers beside them."""
        source = self.deployment.source(unit.source)
        questions: dict[str, list[Any]] = {}
        for column in sorted(
            {c for f in unit.features if (c := engine.question_column(f.aggregate)) is not None}
        ):
            events = queries.archived(
                self._log(unit.source), source, 0, self.clock.now_us() + source.most_ahead_us
            )
            spark = self._session()
            row_functions.register(spark, unit)
            text = queries.question_values(
                queries.viewed(unit, source, events), column, self.run, MEMBERS
            )
            members = [row["value"] for row in spark.sql(text).toArrow().to_pylist()]
            questions[column] = members + declared.strangers(
                dict(unit.input_types)[column], self.run
            )
        return questions

    def _log(self, source: str) -> str:
        with self._catalog:  # it may have to make the table
            return self.table(source)

    def _session(self) -> SparkSession:
        """A lane's own: views and functions of the recomputation have names, which are a
        session's."""
        if not hasattr(self._own, "spark"):
            self._own.spark = self.spark.newSession()
        spark: SparkSession = self._own.spark
        return spark

    def _past(self, unit: StorageUnit) -> int:
        room = min(_BACK_US, self.deployment.source(unit.source).max_lateness_us // 2)
        digest = hashlib.sha256(f"{self.run} {unit.storage_fingerprint}".encode()).digest()
        return self.clock.now_us() - 1 - int.from_bytes(digest[:8], "big") % max(room, 1)

    def _compare(
        self, unit: StorageUnit, reads: list[Read]
    ) -> tuple[list[Compared], list[PlainSum]]:
        if not reads:
            return [], []
        source = self.deployment.source(unit.source)
        online = [read.answer for read in reads]
        with Recomputation(
            self._session(), unit, source, self._log(unit.source), online
        ) as recomputation:
            rows, plain = compare(recomputation, reads)
        log.event("check_compared", view=unit.view, unit=unit.storage_fingerprint, values=len(rows))
        return rows, plain


def _what(error: Exception) -> str:
    return error.what if isinstance(error, SlicewiseError) else f"{type(error).__name__}: {error}"


def _unanswered(
    unit: StorageUnit, entity: Mapping[str, Any], mode: str, error: SlicewiseError
) -> Compared:
    """Without an answer there is no token, so that nothing says what it had to be."""
    return Compared(
        view=unit.view,
        feature=NO_ANSWER,
        entity=json.dumps(dict(entity), sort_keys=True, ensure_ascii=False),
        mode=mode,
        start_us=0,
        end_us=0,
        online=canonical(f"no answer: {error.what}"),
        offline=canonical(None),
        verdict=Verdict.MISSING,
        cause=Cause.STALE if isinstance(error, UnknownArchive) else Cause.LOGIC,
        unit=unit.storage_fingerprint,
    )


def _sent(questions: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {column: [wire(value) for value in values] for column, values in questions.items()}


def _refuse_unarchived(unit: StorageUnit, archived: OffsetVector, reads: Sequence[Read]) -> None:
    """Everything that an answer contains was in the log when it was read, so it must be archived
    now."""
    for read in reads:
        token = read.answer.token
        for offset_vector in (token.base, *token.compacted_beyond.values()):
            if not archived.dominates(offset_vector):
                raise DataLoss(
                    f"an answer of view {unit.view!r} contains events that are not in the archive",
                    where=f"token {dict(offset_vector.offsets)}, archive {dict(archived.offsets)}",
                    expected="the archive of a moment later to reach at least as far",
                    next_step="see whether the store belongs to another log: slicewise status",
                )
