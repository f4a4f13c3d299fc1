"""A definition is frozen data, checked as soon as its author writes it; nothing here runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slicewise.calls import checked_class, shown
from slicewise.errors import DefinitionError
from slicewise.features.declare.cases import Case, case
from slicewise.features.declare.emission import Emit
from slicewise.features.declare.event_list import CAPACITY, check_capacity
from slicewise.features.declare.feature_set import FeatureSet
from slicewise.features.expectation_names import ARGUMENTS
from slicewise.features.expectations import (
    Expectation,
    expectations_of,
    refuse_lacking,
    refuse_unknown,
)
from slicewise.features.naming import (
    OF_QUESTIONS,
    Location,
    check_described,
    check_mapping,
    check_name,
    check_truth,
    check_words,
    frozen,
    placed,
    refuse_cases,
    refuse_reserved,
    refuse_twice,
    subject_of,
    texts,
    written_at,
)
from slicewise.features.schema.kafka_source import KafkaSource
from slicewise.windows.durations import parse_duration
from slicewise.windows.kinds import as_window
from slicewise.windows.window import Window

if TYPE_CHECKING:
    from slicewise.aggregates import Aggregate
    from slicewise.features.rowlogic.row_function import RowFunction

__all__ = ["Case", "Feature", "FeatureSet", "FeatureView", "KafkaSource", "case"]


@checked_class
@dataclass(frozen=True)
class Feature:
    """An aggregate over windows: `<feature>_<window>` are its columns.

    expect: what its values are to be like, as sw.expect(…) or Great Expectations' JSON; where an
    expectation names no column, it is one of each of the feature's columns. description: what it
    means, for people.
    """

    name: str
    aggregate: Aggregate
    windows: Sequence[Window | str]
    expect: Sequence[Expectation | Mapping[str, Any]] = ()
    description: str | None = None
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    def __post_init__(self) -> None:
        from slicewise.aggregates import Aggregate
        from slicewise.aggregates.sketches.membership import membership_of
        from slicewise.features import meant

        where = subject_of("feature", self.name, self.location)
        check_name(self.name, "a feature", where)
        check_described(self.description, where)
        if not isinstance(self.aggregate, Aggregate):
            raise DefinitionError(
                f"{meant.shown(self.aggregate)} is no aggregate",
                where=where,
                expected='an aggregate such as sw.count() or sw.sum("column")',
                next_step=meant.aggregate(self.aggregate),
            )
        if (
            isinstance(self.windows, str)
            or not isinstance(self.windows, Sequence)
            or not self.windows
        ):
            raise DefinitionError(
                f"windows are {shown(self.windows)}",
                where=where,
                expected='a list with at least one window: windows=["10m", sw.tumbling("1h")]',
                next_step=meant.windows(self.windows),
            )
        for window in self.windows:
            if callable(window):
                raise DefinitionError(
                    f"{meant.shown(window)} is no window",
                    where=where,
                    expected='a window such as "1h" or sw.tumbling("1h")',
                    next_step=f'call it: sw.{getattr(window, "__name__", "tumbling")}("1h")',
                )
        with placed(where):
            windows = tuple(as_window(window) for window in self.windows)
        object.__setattr__(self, "windows", windows)
        refuse_twice([w.column_suffix() for w in windows], "window", where)
        expect = expectations_of(self.expect, where)
        if expect and membership_of(self.aggregate) is not None:
            raise DefinitionError(
                f"{self.aggregate.describe()} has no value that could be expected",
                where=where,
                expected="expect=[…] on a feature that answers without a question",
                next_step="leave expect= out, or put it on sw.bloom_fill",
            )
        for expectation in (one for given in expect for one in self.of_columns(given)):
            refuse_lacking(expectation, where)
            refuse_unknown(expectation, self.columns(), where)
        object.__setattr__(self, "expect", expect)

    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it answers."""
        return tuple(f"{self.name}_{as_window(w).column_suffix()}" for w in self.windows)

    def of_columns(self, expectation: Expectation) -> tuple[Expectation, ...]:
        """The expectation for each of the columns that the feature answers, where it names none."""
        if "column" not in ARGUMENTS[expectation.type] or "column" in expectation.kwargs:
            return (expectation,)
        return tuple(
            replace(expectation, kwargs={"column": column, **expectation.kwargs})
            for column in self.columns()
        )


def _is_row_function(value: object) -> bool:
    from slicewise.features.rowlogic.row_function import RowFunction

    return isinstance(value, RowFunction)


@checked_class
@dataclass(frozen=True)
class FeatureView:
    """Features over one source and one entity key.

    entity: columns of the source that are the key; none for a global view. where: row logic that
    an event must satisfy. columns: computed columns, name -> row logic, or a function of
    `sw.row_function`. slice: declared slice
    (the planner's choice by default). spread: one set of keys per partition, for few hot entities.
    capacity: how many of an entity's latest events its exact windows can reach at most. emit: the
    Kafka topic to which results of sliding, tumbling and hopping windows are published as they end,
    or a sw.Emit. description, tags: words for people, which slicewise show and search read.
    """

    name: str
    source: KafkaSource
    entity: Sequence[str]
    features: Sequence[Feature]
    where: str | None = None
    columns: Mapping[str, str | RowFunction] = field(default_factory=dict)
    slice: str | None = None
    spread: bool = False
    owner: str | None = None
    tests: Sequence[Case] = ()
    capacity: int = CAPACITY
    emit: str | Emit | None = None
    description: str | None = None
    tags: Sequence[str] = ()
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def subject(self) -> str:
        """The view and where it was written, for messages."""
        return subject_of("view", self.name, self.location)

    def __post_init__(self) -> None:
        where = self.subject
        check_name(self.name, "a view", where)
        if not isinstance(self.source, KafkaSource):
            raise DefinitionError(
                f"source is {shown(self.source)}",
                where=where,
                expected="a sw.KafkaSource",
                next_step="declare the topic as a sw.KafkaSource, and give that object",
            )
        object.__setattr__(self, "entity", texts(self.entity, "entity", where))
        refuse_twice(self.entity, "entity column", where)
        if not isinstance(self.features, Sequence) or not all(
            isinstance(f, Feature) for f in self.features
        ):
            raise DefinitionError(
                "features are no list of them",
                where=where,
                expected="features=[sw.Feature(…), …]",
                next_step="put it in [ ]: features=[…]"
                if isinstance(self.features, Feature)
                else "list each as a sw.Feature(…)",
            )
        if not self.features:
            raise DefinitionError(
                "a view has no features",
                where=where,
                expected="features=[sw.Feature(…), …]",
                next_step="declare what it is to answer",
            )
        object.__setattr__(self, "features", tuple(self.features))
        refuse_twice([f.name for f in self.features], "feature", where)
        check_truth(self.spread, "spread", where)
        check_words(self, where)
        self._check_columns([c for f in self.features for c in f.columns()])
        if self.where is not None and not isinstance(self.where, str):
            raise DefinitionError(
                f"where is {shown(self.where)}",
                where=where,
                expected='row logic as text, as "seconds > 30", or none',
                next_step="write the condition in quotes, or leave where= out",
            )
        self._check_computed(where)
        object.__setattr__(self, "columns", frozen(self.columns))
        if self.slice is not None:
            with placed(f"slice of {where}"):
                parse_duration(self.slice)
        check_capacity(self.capacity, where)
        if self.emit is not None:
            object.__setattr__(self, "emit", self._emitted(self.emit, where))
        if not isinstance(self.tests, Sequence) or not all(
            isinstance(test, Case) for test in self.tests
        ):
            raise DefinitionError(
                "tests are cases",
                where=where,
                expected="tests=[sw.case(…)]",
                next_step="put each test in a sw.case(…), and these in [ ]",
            )
        object.__setattr__(self, "tests", tuple(self.tests))

    def _check_computed(self, where: str) -> None:
        check_mapping(self.columns, "columns", where, '{"minutes": "seconds / 60"}')
        for column in self.columns:
            check_name(column, "a computed column", where)
            refuse_reserved(column, where)
            if column.lower() in {name.lower() for name in self.source.schema}:
                raise DefinitionError(
                    f"the computed column {column!r} has the name of a column of the source",
                    where=where,
                    expected="a name of its own",
                    next_step="rename it",
                )
            if not isinstance(self.columns[column], str) and not _is_row_function(
                self.columns[column]
            ):
                raise DefinitionError(
                    f"the computed column {column!r} is {shown(self.columns[column])}",
                    where=where,
                    expected='row logic as text ("seconds / 60"), or a function of sw.row_function',
                    next_step="write the expression in quotes",
                )
        refuse_cases(self.columns, "computed column", where)

    def _emitted(self, given: str | Emit, where: str) -> Emit:
        emit = given if isinstance(given, Emit) else Emit(given)
        with placed(f"emit of {where}"):
            emit.times_us(where)
        if emit.topic == (self.source.topic or self.source.name):
            raise DefinitionError(
                f"emit names {emit.topic!r}, the topic that the view reads",
                where=where,
                expected="another topic",
                next_step="name a topic of its own, or events would be read that the view published",
            )
        return emit

    def _check_columns(self, names: Sequence[str]) -> None:
        """An answer has a column for each feature and window, and those of the entity: each under a
        name of its own."""
        refuse_twice(names, "feature column", self.subject)
        seen = {column.lower(): f"entity column {column!r}" for column in self.entity}
        for name in names:
            other = seen.setdefault(name.lower(), f"feature column {name!r}")
            if other != f"feature column {name!r}":
                raise DefinitionError(
                    f"the feature column {name!r} has the name of the {other}",
                    where=self.subject,
                    expected="names that differ in more than case, since SQL does not see it",
                    next_step="rename the feature",
                )
        for word in sorted({*self.entity} & OF_QUESTIONS):
            raise DefinitionError(
                f"an entity column named {word!r}",
                where=self.subject,
                expected=(
                    f"another name: in sw.evaluate and in spines the column {word!r} says how a "
                    "row is read"
                ),
                next_step=f'give the column another name, with paths={{"…": "$.{word}"}}',
            )
