"""An array as the value of a member is one canonical msgpack array of its elements' stored values.

Nulls are among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.aggregates.kernel.ragged import offsets_of
from slicewise.aggregates.kernel.values import ValueType
from slicewise.errors import CodecError


@dataclass(frozen=True)
class ListType:
    """Stored form of arrays in members: as bytes, beside texts. The counterpart of ValueType."""

    arrow: pa.DataType
    dtype = None

    @cached_property
    def element(self) -> ValueType:
        """The stored type of an element."""
        return ValueType(self.arrow.value_type)

    @cached_property
    def _python(self) -> type:
        return {None: bytes, "<f8": float}.get(self.element.dtype, int)

    def store(self, array: pa.Array) -> pa.Array:
        """Bytes of each array; those of a null are none."""
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0).to_numpy(), np.int64)
        flat = pc.list_flatten(array)
        stored = self.element.store(flat)
        values: list[Any] = (
            stored.tolist() if isinstance(stored, np.ndarray) else stored.to_pylist()
        )
        if flat.null_count:
            for at in np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False)).tolist():
                values[at] = None
        ends = offsets_of(lengths).tolist()
        packed = [
            msgpack.packb(values[start:end], use_bin_type=True) if valid else b""
            for start, end, valid in zip(ends, ends[1:], array.is_valid().to_pylist(), strict=False)
        ]
        return pa.array(packed, pa.large_binary())

    def load(self, values: pa.Array, valid: NDArray[np.bool_] | None = None) -> pa.Array:
        """The arrays again. Raises CodecError for bytes that are none of such elements."""
        given = np.ones(len(values), np.bool_) if valid is None else valid
        lists = [
            self._unpacked(raw) if there else ()
            for raw, there in zip(values.to_pylist(), given, strict=True)
        ]
        flat = list(chain.from_iterable(lists))
        present = np.array([item is not None for item in flat], np.bool_)
        kind = self.element
        if kind.dtype is None:
            filled: Any = pa.array(
                [b"" if item is None else item for item in flat], pa.large_binary()
            )
        else:
            filled = np.array([0 if item is None else item for item in flat], kind.dtype)
        offsets = pa.array(
            offsets_of(np.array([len(items) for items in lists], np.int64)).astype(np.int32)
        )
        array = pa.ListArray.from_arrays(offsets, kind.load(filled, present)).cast(self.arrow)
        return (
            array
            if given.all()
            else pc.if_else(pa.array(given), array, pa.scalar(None, self.arrow))
        )

    def _unpacked(self, raw: bytes) -> list[Any]:
        try:
            unpacked = msgpack.unpackb(raw, raw=False, strict_map_key=True)
            fits = isinstance(unpacked, list) and all(
                item is None or type(item) is self._python for item in unpacked
            )
            if fits and self.element.dtype == "|u1":
                fits = all(item in (None, 0, 1) for item in unpacked)
            elif fits and self.element.dtype == "<i8":
                fits = all(item is None or -(1 << 63) <= item < 1 << 63 for item in unpacked)
            elif fits and self.element.dtype is None:
                self.element.load(pa.array([item or b"" for item in unpacked], pa.large_binary()))
        except (
            ValueError,
            TypeError,
            RecursionError,
            msgpack.exceptions.UnpackException,
            pa.ArrowInvalid,
        ) as error:
            raise CodecError(
                "an array in a member of an event list is damaged", next_step="build the view anew"
            ) from error
        if not fits:
            raise CodecError("an array in a member of an event list holds what its column does not")
        elements: list[Any] = unpacked
        return elements


def stored_type(kind: pa.DataType) -> ValueType | ListType:
    """The stored type of a column's values in members."""
    return ListType(kind) if pa.types.is_list(kind) else ValueType(kind)
