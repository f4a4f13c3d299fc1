"""Partials within a partial stand as lists of the same three kinds; codec and tables need no
fourth.

Row i holds the partials of its buckets, one after the other. A scalar of theirs becomes an item of
a list; a list of theirs becomes two: how many items each bucket has (`n_<field>`), and all items
(`of_<field>`). Nested partials nest again by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.fields import Field, Fixed, Items, Texts
from slicewise.aggregates.kernel.ragged import Int64, Ragged, RaggedBytes, offsets_of
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError


def nested_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The fields that hold several partials of these fields in a row."""
    nested: list[Field] = []
    for field in fields:
        name = f"of_{field.name}"
        if isinstance(field, Fixed):
            nested.append(Items(name, field.dtype))
        elif isinstance(field, Items):
            nested += [Items(f"n_{field.name}", "<u4"), Items(name, field.dtype)]
        else:
            nested += [Items(f"n_{field.name}", "<u4"), Texts(name)]
    return tuple(nested)


def nest(fields: Sequence[Field], partials: Columns, offsets: Int64) -> dict[str, Values]:
    """The nested fields of rows whose buckets [n_buckets] stand between these offsets [n+1]."""
    nested: dict[str, Values] = {}
    for field in fields:
        name = f"of_{field.name}"
        if isinstance(field, Fixed):
            nested[name] = Ragged(offsets, partials.fixed(field.name))
            continue
        lists = partials.lists(field.name)
        nested[f"n_{field.name}"] = Ragged(offsets, lists.lengths.astype("<u4"))
        inner = lists.offsets[offsets]
        if isinstance(lists, Ragged):
            nested[name] = Ragged(inner, lists.values)
        else:
            nested[name] = RaggedBytes(inner, lists.ends, lists.data)
    return nested


def unnest(fields: Sequence[Field], rows: Columns, offsets: Int64) -> Columns:
    """The partials of all buckets of all rows. Raises CodecError where the lists disagree."""
    values: dict[str, Values] = {}
    for field in fields:
        name = f"of_{field.name}"
        if isinstance(field, Fixed):
            values[field.name] = aligned(rows, name, offsets).values
            continue
        sizes = offsets_of(aligned(rows, f"n_{field.name}", offsets).values.astype(np.int64))
        lists = rows.lists(name)
        if not np.array_equal(sizes[offsets], lists.offsets):
            raise _uneven(name)
        if isinstance(lists, Ragged):
            values[field.name] = Ragged(sizes, lists.values)
        else:
            values[field.name] = RaggedBytes(sizes, lists.ends, lists.data)
    return Columns(int(offsets[-1]), values)


def aligned(rows: Columns, name: str, offsets: Int64) -> Ragged:
    """A list of one item per bucket. Raises CodecError where it is not."""
    items = rows.items(name)
    if not np.array_equal(items.offsets, offsets):
        raise _uneven(name)
    return items


def nest_states(fields: Sequence[Field], states: Sequence[State]) -> State:
    """`nest` of one row."""
    nested: list[Any] = []
    for i, field in enumerate(fields):
        column = [state[i] for state in states]
        if isinstance(field, Fixed):
            nested.append(tuple(column))
        else:
            nested += [tuple(map(len, column)), tuple(item for items in column for item in items)]
    return tuple(nested)


def unnest_states(fields: Sequence[Field], nested: State, n: int) -> list[State]:
    """`unnest` of one row of n buckets."""
    left, columns = list(nested), []
    for field in fields:
        first = left.pop(0)
        if isinstance(field, Fixed):
            columns.append(first)
        else:
            items = left.pop(0)
            columns.append([items[a:b] for a, b in pairwise(accumulate(first, initial=0))])
    return list(zip(*columns, strict=True)) if columns else [()] * n


def _uneven(name: str) -> CodecError:
    return CodecError(
        f"the list {name} has other sizes than its buckets",
        next_step="the stored value is damaged or of another unit: rebuild it",
    )
