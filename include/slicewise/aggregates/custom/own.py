"""A user's aggregate stores what the text of its class makes of events. Nothing that it does breaks
a batch.

An event with a null among its columns does not count. What raises, or gives a state that is not of
the declared fields, makes the partial a failed one for ever: null with `function_error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.contract import Aggregate, Invertible
from slicewise.aggregates.custom.classes import OUTPUTS, OwnClass, read_class
from slicewise.aggregates.custom.examples import EXAMPLES
from slicewise.aggregates.custom.folding import FUNCTION
from slicewise.aggregates.custom.folding import OUTPUTS as ARROW
from slicewise.aggregates.custom.raised import NULL, report_raised
from slicewise.aggregates.custom.values import answer_of, family, field_of, loaded, size, stored
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.kernel.values import ValueType
from slicewise.aggregates.operations import Failed, Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError, DefinitionError

MOST_BYTES = 1 << 24
"""A state of more is a failed one: no definition makes rows of any size."""
FAILED = -1


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    return [
        cls.of_parameters({"source": source, "columns": list(types), "parameters": given}).bind(
            types
        )
        for source, every, given in EXAMPLES
        for types in every
    ]


@register(_examples)
@dataclass(frozen=True)
class Own(Aggregate):
    """Answer of a class of the user's (docs/adr/0045); null without events that have all columns.

    Partial: `n` (events; -1 failed for ever), then the class's fields.
    """

    kind = "own"

    source: str
    columns: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        roles = self.own.columns
        if len(self.columns) != len(roles) or not all(
            isinstance(column, str) for column in self.columns
        ):
            raise DefinitionError(
                f"{self.own.name} is given columns {list(self.columns)}",
                where=f"{self.own.name}(…)",
                expected="one for each of " + ", ".join(roles),
                next_step="name a column of the source or of the view's columns for each",
            )
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "parameters", self.own.checked(self.parameters))

    def __getstate__(self) -> dict[str, Any]:
        """Without what was compiled: another process reads the text itself."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> Aggregate:
        deducts = "deduct" in read_class(parameters["source"]).methods
        return (InvertibleOwn if deducts else Own)(**parameters)

    @property
    def own(self) -> OwnClass:
        """The class that the text states."""
        return read_class(self.source)

    def spec(self) -> dict[str, Any]:
        return {
            **super().spec(),
            "columns": list(self.columns),
            "parameters": dict(self.parameters),
        }

    def describe(self) -> str:
        given = [
            *map(repr, self.columns),
            *(f"{name}={value!r}" for name, value in self.parameters.items()),
        ]
        return f"{self.own.name}({', '.join(given)})"

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.columns))

    def accepts(self, column: str, kind: pa.DataType) -> str | None:
        for (role, kinds), name in zip(self.own.columns.items(), self.columns, strict=True):
            if name == column and family(kind) not in kinds:
                return f"{' or '.join(kinds)}, as {self.own.name} says of {role!r}"
        return None

    def stored(self) -> Mapping[str, Any]:
        own = self.own
        return {
            "form": "own",
            "class": own.name,
            "digest": own.stored,
            "class_version": own.version,
            "reads": list(self.columns),
            "parameters": dict(self.parameters),
        }

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Fixed("n", "<i8"),
            *(field_of(f"own_{name}", kind) for name, kind in self.own.fields.items()),
        )

    @property
    def output_type(self) -> pa.DataType:
        assert set(ARROW) == set(OUTPUTS)
        return ARROW[self.own.output]

    @cached_property
    def _object(self) -> Any:
        return self.own.made(self.parameters)

    @cached_property
    def _values(self) -> dict[str, tuple[str, ValueType]]:
        """Per role the column and how its values are stored."""
        return {
            role: (name, ValueType(self.type_of(name)))
            for role, name in zip(self.own.columns, self.columns, strict=True)
        }

    # ---- whole columns

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        values, groups = self.chosen(rows, groups)
        made = self.accumulated(values, groups, n_groups)
        if made is not None:
            return made
        states: list[State] = [self.empty()] * n_groups
        lists = [
            array.tolist()
            if value.dtype in ("<f8", "<i8")
            else [value.load_one(item) for item in _python(array)]
            for array, (_, value) in zip(values.values(), self._values.values(), strict=True)
        ]
        for group, *given in zip(groups.tolist(), *lists, strict=True):
            states[group] = self._add(states[group], dict(zip(self._values, given, strict=True)))
        return self.to_columns(states)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        made = self.combined(partials, groups, n_groups)
        if made is not None:
            return made
        states: list[State] = [self.empty()] * n_groups
        for group, state in zip(groups.tolist(), self.from_columns(partials), strict=True):
            states[group] = self.combine(states[group], state)
        return self.to_columns(states)

    def accumulated(
        self, values: Mapping[str, Any], groups: Int64, n_groups: int
    ) -> Columns | None:
        """By the class's own method over whole columns; None where none serves: then rows are taken
        alone."""
        if "accumulate_columns" not in self.own.methods:
            return None
        present, inner = np.unique(groups, return_inverse=True)
        typed = {
            role: v != 0 if self._values[role][1].dtype == "|u1" else v
            for role, v in values.items()
        }
        counts = np.bincount(inner, minlength=len(present))
        return self._placed(
            self._by_columns("accumulate_columns", typed, inner, counts), present, n_groups
        )

    def combined(self, partials: Columns, groups: Int64, n_groups: int) -> Columns | None:
        """Combines partials by the class's own method, as `accumulated`."""
        n = partials.fixed("n")
        if "combine_columns" not in self.own.methods or (n < 0).any():
            return None
        some = np.flatnonzero(n)
        present, inner = np.unique(groups[some], return_inverse=True)
        given = {name: partials.fixed(f"own_{name}")[some] for name in self.own.fields}
        given = {name: v != 0 if v.dtype == np.uint8 else v for name, v in given.items()}
        counts = np.zeros(len(present), np.int64)
        np.add.at(counts, inner, n[some])
        return self._placed(
            self._by_columns("combine_columns", given, inner, counts), present, n_groups
        )

    def chosen(self, rows: Rows, groups: Int64) -> tuple[dict[str, Any], Int64]:
        """Per role the stored values of the rows that have all columns, and their groups."""
        valid = np.ones(len(groups), bool)
        for name in self.inputs:
            if rows.columns[name].null_count:
                valid &= rows.columns[name].is_valid().to_numpy(zero_copy_only=False)
        every = bool(valid.all())
        kept = {
            name: rows.columns[name] if every else rows.columns[name].filter(pa.array(valid))
            for name in self.inputs
        }
        values = {role: value.store(kept[name]) for role, (name, value) in self._values.items()}
        return values, groups if every else groups[valid]

    def _by_columns(
        self, method: str, given: Mapping[str, Any], groups: Int64, counts: Int64
    ) -> Columns | None:
        """Runs the class's own method over these rows, in groups none of which is empty. None where
        it raises or gives other arrays than the fields say: then each row is taken alone."""
        n = len(counts)
        try:
            with np.errstate(all="ignore"):
                made = getattr(self._object, method)(dict(given), groups.copy(), n)
            if set(made) != set(self.own.fields):
                return None
            values: dict[str, Values] = {"n": counts}
            for name, kind in self.own.fields.items():
                array = made[name]
                if (
                    array.shape != (n,)
                    or array.dtype != {"long": "<i8", "double": "<f8", "boolean": "?"}[kind]
                ):
                    return None
                kinds = {"long": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
                values[f"own_{name}"] = ValueType(kinds[kind]).store(pa.array(array))
        except Exception:  # noqa: BLE001
            return None
        return Columns(n, values)

    def _placed(self, made: Columns | None, present: Int64, n_groups: int) -> Columns | None:
        """The partials of these groups among all, the others empty."""
        if made is None:
            return None
        at = np.full(n_groups, made.n)
        at[present] = np.arange(made.n)
        return Columns.concat([made, Columns.empty(self.fields, 1)]).take(at)

    def finish_columns(self, partials: Columns) -> Finished:
        answers = [self.finish(state) for state in self.from_columns(partials)]
        errors = {row: value.code for row, value in enumerate(answers) if isinstance(value, Failed)}
        kept = [None if isinstance(value, Failed) else value for value in answers]
        return Finished(pa.array(kept, self.output_type), errors)

    # ---- rows

    def accumulate(self, state: State, event: Event) -> State:
        values = {}
        for role, (name, value) in self._values.items():
            given = event.columns[name]
            if given is None:
                return state
            values[role] = value.load_one(value.store_one(given))
        return self._add(state, values)

    def _add(self, state: State, event: dict[str, Any]) -> State:
        if state[0] < 0:
            return state
        try:
            own = self._object
            given = own.accumulate(self.read_back(state[1:]) if state[0] else own.empty(), event)
            return self._kept("accumulate", state[0] + 1, given)
        except Exception as error:  # noqa: BLE001
            return self._raised("accumulate", error)

    def combine(self, a: State, b: State) -> State:
        if not a[0] or not b[0]:
            return a if a[0] else b
        if a[0] < 0 or b[0] < 0:
            return self._failed
        try:
            return self._kept(
                "combine",
                a[0] + b[0],
                self._object.combine(self.read_back(a[1:]), self.read_back(b[1:])),
            )
        except Exception as error:  # noqa: BLE001
            return self._raised("combine", error)

    def finish(self, state: State) -> Any:
        if state[0] == 0:
            return None
        if state[0] < 0:
            return Failed(FUNCTION)
        try:
            given = self._object.finish(self.read_back(state[1:]))
            answer = self.answered(given)
        except Exception as error:  # noqa: BLE001
            self._raised("finish", error)
            return Failed(FUNCTION)
        if isinstance(answer, Failed):
            self._raised("finish", f"gave {given!r:.80}, and output is {self.own.output}")
        return answer

    def from_columns(self, partials: Columns) -> list[State]:
        states = super().from_columns(partials)
        kinds = [*self.own.fields.values()]
        for n, *values in states:
            for kind, value in zip(kinds, values, strict=True):
                if kind in ("integer", "string") and len(value) != (n > 0):
                    raise CodecError(
                        f"{len(value)} of one field of {self.describe()}",
                        expected="one where there are events",
                    )
        return states

    @cached_property
    def _failed(self) -> State:
        return (FAILED, *self.empty()[1:])

    def read_back(self, form: Sequence[Any]) -> tuple[Any, ...]:
        """A stored form as the methods of its class are given it: lists as tuples, doubles as
        floats."""
        return tuple(map(loaded, form, self.own.fields.values()))

    def form_of(self, state: Any) -> tuple[Any, ...] | None:
        """A class's state as it is stored, with +0.0 unlike −0.0; None where it is not of the
        declared fields."""
        kinds = self.own.fields.values()
        if not isinstance(state, tuple | list) or len(state) != len(kinds):
            return None
        form = tuple(stored(value, kind) for value, kind in zip(state, kinds, strict=True))
        return None if any(value is None for value in form) else form

    def answered(self, given: Any) -> Any:
        """Value of the declared type of what `finish` gave, or `Failed`."""
        return answer_of(given, self.own.output)

    def _raised(self, method: str, did: BaseException | str) -> State:
        """The failed state, once it is told why."""
        report_raised(self.source, getattr(self._object, method), did, NULL)
        return self._failed

    def _kept(self, method: str, n: int, given: Any) -> State:
        """The stored form of what a method gave; told where it is not of the declared fields."""
        state = self._state(n, given)
        if state[0] < 0:
            kinds = dict(self.own.fields)
            self._raised(
                method,
                (
                    f"gave {given!r:.80}, and the fields are {kinds}, of at most "
                    f"{MOST_BYTES >> 20} MiB"
                ),
            )
        return state

    def _state(self, n: int, given: Any) -> State:
        """A class's state as it is stored; failed where it is not of the declared fields."""
        form = self.form_of(given)
        if form is None or sum(map(size, form)) > MOST_BYTES:
            return self._failed
        return (n, *form)


@dataclass(frozen=True)
class InvertibleOwn(Own, Invertible):
    """One whose class says how to deduct; a failed partial stays failed."""

    def deduct(self, whole: State, part: State) -> State:
        if whole[0] < 0 or part[0] < 0:
            return self._failed
        if whole[0] == part[0]:
            return self.empty()
        if not part[0]:
            return whole
        try:
            return self._kept(
                "deduct",
                whole[0] - part[0],
                self._object.deduct(self.read_back(whole[1:]), self.read_back(part[1:])),
            )
        except Exception as error:  # noqa: BLE001
            return self._raised("deduct", error)

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        pairs = zip(self.from_columns(whole), self.from_columns(part), strict=True)
        return self.to_columns([self.deduct(*pair) for pair in pairs])


def _python(stored_values: Any) -> list[Any]:
    values: list[Any] = (
        stored_values.tolist()
        if isinstance(stored_values, np.ndarray)
        else stored_values.to_pylist()
    )
    return values
