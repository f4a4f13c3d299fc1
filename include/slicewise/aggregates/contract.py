"""The result of an aggregate depends on the multiset of its events alone.

Not on their order, how they are split, or the tree in which partials merge;
equal multisets give equal partials, byte for byte, on every machine. Nothing
here calls libm or a transcendental whose last bit a CPU could choose.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from slicewise.aggregates.alone import FewOf
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.kinds import named
from slicewise.aggregates.kernel.ragged import Int64, Ragged, RaggedBytes
from slicewise.aggregates.scalar import ScalarForm
from slicewise.errors import DefinitionError

Ends = Callable[[], Int64]
"""Where the window of each row ends, in microseconds; called by those aggregates alone that ask."""

State = tuple[Any, ...]
"""A partial in row form: one Python value per field (int or float, tuple of items, tuple of bytes)."""

OVERFLOW = "overflow"
"""Error code: the exact result does not fit the output type."""


@dataclass(frozen=True)
class Failed:
    """A finished value that is null because of an error; `code` names it."""

    code: str


@dataclass(frozen=True, eq=False)
class Finished:
    """Finished values [n], and per failed row its error code (its value is null)."""

    values: pa.Array
    errors: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Aggregate(ABC):
    """Parameters only. Made unbound (`sw.sum("x")`), given column types by `bind`.

    `fields` and everything after it need a bound aggregate.
    """

    kind: ClassVar[str]
    semantic_version: ClassVar[int] = 1
    """Raised where equal events are stored as other bytes than before: part of the storage fingerprint."""
    finish_version: ClassVar[int] = 1
    """Raised where equal partials finish to another value than before: part of the definition fingerprint."""

    types: tuple[pa.DataType, ...] | None = field(default=None, kw_only=True, repr=False)

    # ---- size

    def longest(self, events: int) -> Mapping[str, int]:
        """Of each list among `fields`, by name, the most items that a partial of so many events has."""
        return {each.name: min(events, self.most_items) for each in self.fields if not isinstance(each, Fixed)}

    @property
    def most_items(self) -> int:
        """What its parameters bound such lists to."""
        return 2**63 - 1

    # ---- definition

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that it reads, each once."""

    @abstractmethod
    def accepts(self, column: str, kind: pa.DataType) -> str | None:
        """None if this input column may have this type, else what was expected instead."""

    def answers(self, length_us: int) -> str | None:  # noqa: ARG002
        """None if it can answer a window of this length, else what was expected instead."""
        return None

    def bind(self, types: Mapping[str, pa.DataType]) -> Aggregate:
        """The same aggregate over columns of these types.

        Raises DefinitionError for a column that does not exist or has a type
        that the aggregate cannot read.
        """
        for column in self.inputs:
            if column not in types:
                raise DefinitionError(
                    f"{self.describe()} reads column {column!r}, which does not exist",
                    expected="one of " + ", ".join(sorted(types)),
                    next_step="name a column of the source or of the view's columns",
                )
            expected = self.accepts(column, types[column])
            if expected is not None:
                raise DefinitionError(
                    f"{self.describe()} cannot read column {column!r} of type {named(types[column])}",
                    expected=expected,
                    next_step="convert it in the view's columns, or choose another aggregate",
                )
        return replace(self, types=tuple(types[column] for column in self.inputs))

    def type_of(self, column: str) -> pa.DataType:
        """The Arrow type of an input column of a bound aggregate."""
        if self.types is None:
            raise DefinitionError(
                f"{self.describe()} has no column types yet",
                next_step="call bind() with the types of the columns",
            )
        return self.types[self.inputs.index(column)]

    def spec(self) -> dict[str, Any]:
        """Kind and parameters as plain JSON values; `from_spec` reads them back."""
        parameters = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "types"}
        return {"kind": self.kind, **parameters}

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> Aggregate:
        """The unbound aggregate of a spec's parameters."""
        return cls(**parameters)

    def meaning(self) -> dict[str, Any]:
        """What of the spec bears on answers: without what is there for people to read."""
        return self.spec() if self.finish_version == 1 else {**self.spec(), "finish": self.finish_version}

    def resolve(self, named: Callable[[str], str]) -> Aggregate:  # noqa: ARG002
        """The same with each condition's text given the column that holds its values, which `named` tells."""
        return self

    @property
    def core(self) -> Aggregate:
        """What combines and finishes its partials: itself, or what it gives chosen events to."""
        return self

    def describe(self) -> str:
        """As a user would write it, for messages."""
        given = (f"{k}={v!r}" for k, v in self.spec().items() if k != "kind" and v is not None)
        return f"{self.kind}({', '.join(given)})"

    @abstractmethod
    def stored(self) -> Mapping[str, Any]:
        """What the partial depends on: the name of its form and its parameters, as JSON values."""

    def partial_id(self) -> str:
        """Canonical text of what is stored: form, parameters, column types, semantic version.

        Aggregates with one partial_id share one partial: sum and mean of a column do.
        """
        return self._partial_id

    @cached_property
    def _partial_id(self) -> str:
        types = {column: str(self.type_of(column)) for column in self.inputs}
        whole = {**self.stored(), "columns": types, "version": self.semantic_version}
        return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The partial as data."""

    @property
    @abstractmethod
    def output_type(self) -> pa.DataType:
        """Type of a finished value."""

    # ---- whole columns

    @abstractmethod
    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        """Partials [n_groups] of the rows of each group; without rows the empty partial."""

    @abstractmethod
    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        """Partials [n_groups], each of all the given partials of its group."""

    @abstractmethod
    def finish_columns(self, partials: Columns) -> Finished:
        """The value of each partial."""

    def finish_columns_at(self, partials: Columns, ends: Ends) -> Finished:  # noqa: ARG002
        """The value of each partial of a window that ends there; few depend on it (docs/adr/0031)."""
        return self.finish_columns(partials)

    # ---- few rows

    @property
    def few(self) -> ScalarForm | None:
        """How few partials are combined and finished in Python's own numbers; None: only as whole
        columns."""
        return None

    @property
    def few_of(self) -> FewOf | None:
        """How few events become a state of `few`; None: only as whole columns."""
        return None

    # ---- rows

    def empty(self) -> State:
        """The partial of no events."""
        return tuple(np.dtype(f.dtype).type(0).item() if isinstance(f, Fixed) else () for f in self.fields)

    @abstractmethod
    def accumulate(self, state: State, event: Event) -> State:
        """The partial of the state's events and this one; `state` stays as it is."""

    @abstractmethod
    def combine(self, a: State, b: State) -> State:
        """The partial of the events of both, which have none in common; both stay as they are."""

    @abstractmethod
    def finish(self, state: State) -> Any:
        """The value (a Python value that `pa.array` takes for `output_type`), or `Failed`."""

    def finish_at(self, state: State, end_us: int) -> Any:  # noqa: ARG002
        """The row form of `finish_columns_at`."""
        return self.finish(state)

    def to_columns(self, states: Sequence[State]) -> Columns:
        """Column form of these partials."""
        values: dict[str, Values] = {}
        for i, f in enumerate(self.fields):
            column = [state[i] for state in states]
            if isinstance(f, Fixed):
                values[f.name] = np.array(column, f.dtype)
            elif isinstance(f, Items):
                values[f.name] = Ragged.of(column, f.dtype)
            else:
                values[f.name] = RaggedBytes.of(column)
        return Columns(len(states), values)

    def from_columns(self, partials: Columns) -> list[State]:
        """Row form of these partials."""
        columns: list[list[Any]] = []
        for f in self.fields:
            if isinstance(f, Fixed):
                columns.append(partials.fixed(f.name).tolist())
            elif isinstance(f, Items):
                lists = partials.items(f.name)
                columns.append(_split(lists.values.tolist(), lists.offsets))
            else:
                texts = partials.texts(f.name)
                columns.append(_split(texts.strings().to_pylist(), texts.offsets))
        return list(zip(*columns, strict=True))


def _split(flat: list[Any], offsets: Int64) -> list[tuple[Any, ...]]:
    bounds = offsets.tolist()
    return [tuple(flat[a:b]) for a, b in pairwise(bounds)]


class Invertible(Aggregate):
    """An aggregate whose combine can be undone."""

    @abstractmethod
    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        """Row by row, the partial of the events of `whole` that are not in `part`.

        Every event of `part` must be one of `whole`: combine(deduct(w, p), p) == w.
        """

    @abstractmethod
    def deduct(self, whole: State, part: State) -> State:
        """The row form of `deduct_columns`."""


# ---- registry

Kind = TypeVar("Kind", bound=type[Aggregate])


@dataclass(frozen=True)
class Registration:
    """An aggregate's class and makers of bound examples, on which the law suite runs."""

    cls: type[Aggregate]
    examples: Callable[[type[Any]], Sequence[Aggregate]]

    def bound_examples(self) -> Sequence[Aggregate]:
        """Examples that cover its parameters and the types that it reads."""
        return self.examples(self.cls)


REGISTRY: dict[str, Registration] = {}


def register(examples: Callable[[type[Any]], Sequence[Aggregate]]) -> Callable[[Kind], Kind]:
    """Class decorator: enter the aggregate under its kind, with examples for the law suite."""

    def enter(cls: Kind) -> Kind:
        if cls.kind in REGISTRY:
            raise DefinitionError(
                f"aggregate kind {cls.kind!r} is registered twice", next_step="give one of the classes another kind"
            )
        REGISTRY[cls.kind] = Registration(cls, examples)
        return cls

    return enter


def from_spec(spec: Mapping[str, Any]) -> Aggregate:
    """The unbound aggregate that `spec()` described. Raises DefinitionError for an unknown kind."""
    parameters = dict(spec)
    kind = parameters.pop("kind", None)
    if kind not in REGISTRY:
        raise DefinitionError(
            f"unknown aggregate kind {kind!r}",
            expected="one of " + ", ".join(sorted(REGISTRY)),
            next_step="deploy with the version of slicewise that wrote it, or apply the project again",
        )
    return REGISTRY[kind].cls.of_parameters(parameters)
