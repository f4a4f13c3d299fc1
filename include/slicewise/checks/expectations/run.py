"""A run judges one hour: the events of each source, then the values of each view's features at the
hour's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from slicewise import log
from slicewise.checks import row_functions
from slicewise.checks.expectations import frames
from slicewise.checks.expectations.outcome import RunOutcome, SuiteOutcome
from slicewise.checks.expectations.reference import is_open, with_reference
from slicewise.checks.expectations.suites import Suite, suites, valued, volume
from slicewise.checks.expectations.validation import Validation
from slicewise.clock import Clock
from slicewise.errors import SlicewiseError
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.history.drift import REFERENCES
from slicewise.windows.durations import HOUR_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHOLE = "whole"
"""Column of the one row that stands for a view without an entity."""
Values = Callable[[Sequence[str], pa.Table, int], pa.Table]
"""Refs, entities and an instant -> a column of each ref's values, as training has them."""


@dataclass(frozen=True)
class ExpectationRun:
    """The means that a run works with.

    table: the log's name in Spark, by source; None where nothing is archived. values: of refs for
    entities at an instant. sample: entities of a view.
    """

    spark: SparkSession
    deployment: Deployment
    table: Callable[[str], str | None]
    values: Values
    clock: Clock
    run: str
    hour: int
    sample: int
    validation: Validation
    notes: list[str] = field(default_factory=list)

    def execute(self, only: Sequence[str] = ()) -> RunOutcome:
        """Judges every suite; only: names of sources and views, by default all."""
        started = self.clock.now_us()
        outcomes: list[SuiteOutcome] = []
        for suite in suites(self.deployment):
            if only and suite.of not in only:
                continue
            try:
                outcome = self._of(suite)
            except Exception as error:  # noqa: BLE001
                outcome = SuiteOutcome(suite, why=_what(error))
                log.warning("suite_not_made", suite=suite.name, error=_what(error))
            if outcome is not None:
                outcomes.append(outcome)
                log.event(
                    "suite_judged",
                    suite=suite.name,
                    result=outcome.result,
                    rows=outcome.rows,
                    expectations=len(outcome.judged),
                    unmet=len(outcome.unmet),
                )
        return RunOutcome(
            self.run, self.hour, started, self.clock.now_us(), tuple(outcomes), tuple(self.notes)
        )

    def _of(self, suite: Suite) -> SuiteOutcome | None:
        """The outcome of a suite; None where there is nothing that it could be about."""
        if suite.kind == "features":
            return self._of_features(suite)
        table = self.table(suite.of)
        if table is None:
            self.notes.append(f"{suite.name}: not checked, nothing of it is archived")
            return None
        if suite.kind == "arrivals":
            return self._judged(suite, self.spark.sql(frames.arrivals(table, self.hour)))
        before = [
            row["events"] for row in self.spark.sql(frames.counts(table, self.hour)).collect()
        ]
        added = volume(before)
        if added is None:
            self.notes.append(f"{suite.name}: the hours before are too few to bound its volume")
        elif ("", added.type) not in {(one.column, one.type) for one in suite.wanted}:
            suite = suite.with_wanted([added])
        source = self.deployment.source(suite.of)
        return self._judged(suite, self.spark.sql(frames.events(table, source, self.hour)))

    def _of_features(self, suite: Suite) -> SuiteOutcome | None:
        values = self._values(suite.of, self.hour)
        if values is None:
            self.notes.append(f"{suite.name}: not checked, no entity has an event in the hour")
            return None
        reference, back = None, 0
        for back in REFERENCES:
            reference = self._values(suite.of, self.hour - back)
            if reference is not None:
                break
        if reference is None:
            self.notes.append(f"{suite.name}: no hour before it has values to compare with")
        whole = with_reference(suite, values, reference)
        for wanted in whole.wanted:
            if is_open(wanted):
                self.notes.append(
                    f"{suite.name}: {wanted.column} has too few different values to compare"
                )
        whole = replace(whole, wanted=tuple(w for w in whole.wanted if not is_open(w)))
        outcome = self._judged(whole, self.spark.createDataFrame(values))
        return replace(outcome, reference="" if reference is None else f"{back} hours before")

    def _values(self, view: str, hour: int) -> pa.Table | None:
        """The view's values at the end of an hour, of entities with events in it; None where there
        are none."""
        units = self.deployment.view(view)
        unit = units[0]
        table = self.table(unit.source)
        if table is None:
            return None
        at_us = (hour + 1) * HOUR_US
        refs = [f"{view}:{feature.column}" for part in units for feature in valued(part)]
        if not refs:
            return None
        row_functions.register(self.spark, unit)
        source = self.deployment.source(unit.source)
        if unit.entity:
            entities = self.spark.sql(
                frames.entities(unit, source, table, hour, self.sample)
            ).toArrow()
        else:
            some = self.spark.sql(frames.events(table, source, hour)).limit(1).toArrow()
            entities = pa.table({_WHOLE: [0] * len(some)})
        if not len(entities):
            return None
        return _named(self.values(refs, entities, at_us), view)

    def _judged(self, suite: Suite, frame: DataFrame) -> SuiteOutcome:
        # each figure would read the archive again
        frame.persist()
        try:
            rows = frame.count()
            return SuiteOutcome(suite, self.validation.judge(suite, frame), rows)
        finally:
            frame.unpersist()


def _named(values: pa.Table, view: str) -> pa.Table:
    """Columns by their own names instead of by refs; those of entities are left out."""
    refs: Mapping[str, str] = {
        name: name.removeprefix(f"{view}:")
        for name in values.column_names
        if name.startswith(f"{view}:")
    }
    return values.select(list(refs)).rename_columns(list(refs.values()))


def _what(error: Exception) -> str:
    return error.what if isinstance(error, SlicewiseError) else f"{type(error).__name__}: {error}"
