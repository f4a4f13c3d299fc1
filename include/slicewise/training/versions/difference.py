"""Two versions of a view are compared by what each answers of every entity, from the archive: value
by value, as bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment, base_of
from slicewise.lifecycle.history import drift

EXAMPLES = 5


@dataclass(frozen=True)
class Example:
    """An entity of which two versions answer different values."""

    entity: Mapping[str, Any]
    then: Any
    now: Any


@dataclass(frozen=True)
class ColumnDifference:
    """A feature of two versions. null_then, null_now: rows of which each answers nothing."""

    column: str
    rows: int
    equal: int
    null_then: int
    null_now: int
    index: float
    """Population stability index of the values: below 0.1 they lie alike, above 0.25 they do
    not."""
    then: Mapping[str, int]
    """Bin -> values of the first version (`slicewise.lifecycle.history.drift`)."""
    now: Mapping[str, int]
    examples: tuple[Example, ...]
    """Some of the rows that differ; of numbers those that are furthest apart."""

    @property
    def changed(self) -> int:
        """Rows whose values differ."""
        return self.rows - self.equal


@dataclass(frozen=True)
class Difference:
    """Two versions of a view, compared at an instant over all entities with events in a window."""

    then: str
    now: str
    at_us: int
    rows: int
    columns: tuple[ColumnDifference, ...]
    gone: tuple[str, ...]
    """Columns that the first version alone has."""
    added: tuple[str, ...]
    """Columns that the second alone has."""
    retyped: tuple[str, ...]
    """Columns whose types differ, so that no values are compared."""

    @property
    def is_equal(self) -> bool:
        """Tells whether both answer the same bits of all that both have."""
        return not any(column.changed for column in self.columns) and not self.retyped

    def to_json(self) -> dict[str, Any]:
        """Plain values; what JSON has no form for as text."""
        document = asdict(self)
        for column, plain in zip(self.columns, document["columns"], strict=True):
            plain["changed"] = column.changed
        return document | {"equal": self.is_equal}


def compared_refs(
    deployment: Deployment, then: str, now: str
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Columns of two versions that can be compared, and those that cannot: "gone", "added" and
    "retyped".

    Raises UnknownName, and BadRequest where they are of two views, or of other entities.
    """
    first, second = deployment.view(then), deployment.view(now)
    if base_of(first[0].view) != base_of(second[0].view):
        raise BadRequest(
            f"{then} and {now} are two views",
            where="diff",
            expected="two versions of one view, as by_card by_card@2",
            next_step="name versions of one view: slicewise search says what is deployed",
        )
    if first[0].entity != second[0].entity:
        entities = (", ".join(name for name, _ in of[0].entity) or "none" for of in (first, second))
        raise BadRequest(
            f"{then} and {now} are of other entities: {' and '.join(entities)}",
            where="diff",
            expected="two versions whose rows are of the same entities",
            next_step="compare them by training sets of their own: sw.snapshot",
        )
    types = [
        {
            f.column: f.aggregate.output_type
            for unit in of
            for f in unit.features
            if not f.needs_values
        }
        for of in (first, second)
    ]
    both = [column for column in types[0] if column in types[1]]
    retyped = tuple(column for column in both if types[0][column] != types[1][column])
    return [column for column in both if column not in retyped], {
        "gone": tuple(column for column in types[0] if column not in types[1]),
        "added": tuple(column for column in types[1] if column not in types[0]),
        "retyped": retyped,
    }


def difference(
    table: pa.Table, keys: Sequence[str], then: str, now: str, column: str
) -> ColumnDifference:
    """A feature of two versions, compared. table: a row for each entity, with the entity's columns
    (keys) and `<version>:<column>` of both versions."""
    first, second = (table[f"{of}:{column}"].combine_chunks() for of in (then, now))
    same = equal_bits(first, second)
    changed = np.flatnonzero(~same)
    summaries = [drift.summary(of.to_pylist()) for of in (first, second)]
    chosen = _furthest(first, second, changed)[:EXAMPLES]
    examples = tuple(
        Example({key: table[key][i].as_py() for key in keys}, first[i].as_py(), second[i].as_py())
        for i in chosen.tolist()
    )
    bins = [of[drift.BINS] for of in summaries]
    return ColumnDifference(
        column,
        table.num_rows,
        int(same.sum()),
        first.null_count,
        second.null_count,
        drift.stability(*bins) if any(bins) else 0.0,
        bins[0],
        bins[1],
        examples,
    )


def equal_bits(first: pa.Array, second: pa.Array) -> npt.NDArray[np.bool_]:
    """Tells of each row whether both have the same value, to the bit; two that have none are
    equal."""
    if pa.types.is_float64(first.type):
        first, second = (of.view(pa.int64()) for of in (first, second))
    if pa.types.is_nested(first.type):
        pairs = zip(map(repr, first.to_pylist()), map(repr, second.to_pylist()), strict=True)
        return np.array([a == b for a, b in pairs], np.bool_)
    both = pc.fill_null(pc.equal(first, second), False)
    none = pc.and_(pc.is_null(first), pc.is_null(second))
    result: npt.NDArray[np.bool_] = pc.or_(both, none).to_numpy(zero_copy_only=False)
    return result


def _furthest(
    first: pa.Array, second: pa.Array, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The rows, of numbers those with the greatest difference first."""
    kind = first.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return rows
    values = [
        pc.fill_null(pc.cast(of, pa.float64(), safe=False), 0.0).to_numpy()
        for of in (first, second)
    ]
    apart = np.nan_to_num(np.abs(values[1] - values[0])[rows], nan=np.inf)
    return rows[np.argsort(-apart, kind="stable")]
