"""Every column type has one stored form, whose order is the order of the values.

Integers, instants and dates are `<i8`; doubles and floats `<f8`; booleans `|u1`;
text its UTF-8 bytes; decimals 16 bytes, big-endian with the sign bit flipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.aggregates.kernel.fields import Field, Items, Texts
from slicewise.aggregates.kernel.ragged import Int64, Ragged, RaggedBytes
from slicewise.errors import CodecError

QUIET_NAN = np.uint64(0x7FF8_0000_0000_0000)
EXACT = Context(prec=200)  # wider than any decimal128 or sum of them
DECIMAL_BIAS = 1 << 127
NUMBERS = "an integer, double or decimal column"
ORDERED = "an integer, double, decimal, boolean, text, timestamp(us) or date column"


def is_integer(kind: pa.DataType) -> bool:
    """Signed integers up to 64 bits."""
    return bool(pa.types.is_signed_integer(kind))


def is_double(kind: pa.DataType) -> bool:
    """Doubles, and floats, which every double holds exactly."""
    return bool(pa.types.is_float64(kind) or pa.types.is_float32(kind))


def is_text(kind: pa.DataType) -> bool:
    """UTF-8 text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_decimal(kind: pa.DataType) -> bool:
    """decimal128."""
    return bool(pa.types.is_decimal128(kind))


def is_number(kind: pa.DataType) -> bool:
    """Tells whether values of the type can be added."""
    return is_integer(kind) or is_double(kind) or is_decimal(kind)


def is_instant(kind: pa.DataType) -> bool:
    """Timestamps in microseconds, with or without zone, and dates."""
    return bool((pa.types.is_timestamp(kind) and kind.unit == "us") or pa.types.is_date32(kind))


def is_ordered(kind: pa.DataType) -> bool:
    """Tells whether the type has a stored form."""
    return is_number(kind) or is_text(kind) or is_instant(kind) or bool(pa.types.is_boolean(kind))


def canonicalise(array: pa.Array) -> pa.Array:
    """The same column with every NaN the one quiet NaN and every −0.0 the +0.0.

    Applied right after row logic. Columns that are no doubles come back as they are.
    """
    if not is_double(array.type):
        return array
    return _with_validity(pa.array(_canonical_doubles(_primitive(array)), array.type), array)


def _with_validity(values: pa.Array, like: pa.Array) -> pa.Array:
    if like.null_count == 0:
        return values
    return pc.if_else(like.is_valid(), values, pa.scalar(None, values.type))


def _canonical_doubles(values: NDArray[Any]) -> NDArray[Any]:
    positive: NDArray[Any] = values + values.dtype.type(0)  # −0.0 + 0.0 is +0.0; all else stays
    nan = np.isnan(values)
    if nan.any():
        positive[nan] = QUIET_NAN.view(np.float64).astype(values.dtype)
    return positive


@dataclass(frozen=True)
class ValueType:
    """Stored form, order and given form of the values of one Arrow type."""

    arrow: pa.DataType

    @cached_property
    def dtype(self) -> str | None:
        """NumPy dtype of a stored value; None where values are byte strings."""
        if is_text(self.arrow) or is_decimal(self.arrow):
            return None
        if pa.types.is_boolean(self.arrow):
            return "|u1"
        return "<f8" if is_double(self.arrow) else "<i8"

    def field(self, name: str) -> Field:
        """The field that holds a list of such values per row."""
        return Texts(name) if self.dtype is None else Items(name, self.dtype)

    # ---- whole columns

    def store(self, array: pa.Array) -> Any:
        """Stored values of a column: a NumPy array, or a LargeBinaryArray; a null as 0 or no
        bytes."""
        if is_text(self.arrow):
            return pc.fill_null(array.cast(pa.large_binary()), b"")
        if is_decimal(self.arrow):
            keys = _decimal_keys(array)
            return (
                keys
                if array.null_count == 0
                else pc.if_else(array.is_valid(), keys, pa.scalar(b"", keys.type))
            )
        if pa.types.is_boolean(self.arrow):
            return pc.fill_null(array, False).cast(pa.uint8()).to_numpy()
        raw = _primitive(array)
        if is_double(self.arrow):
            values = _canonical_doubles(raw).astype(np.float64, copy=False)
        else:
            values = raw.astype(np.int64, copy=False)
        if array.null_count == 0:
            return values
        return np.where(
            array.is_valid().to_numpy(zero_copy_only=False), values, values.dtype.type(0)
        )

    def load(self, values: Any, valid: NDArray[np.bool_] | None = None) -> pa.Array:
        """Column of the Arrow type from stored values; null where not `valid`."""
        mask = None if valid is None or valid.all() else ~valid
        if is_decimal(self.arrow):
            array = _from_decimal_keys(values, self.arrow)
        elif is_text(self.arrow):
            array = _text(values, self.arrow)
        elif pa.types.is_boolean(self.arrow):
            array = pa.array(np.asarray(values) != 0)
        elif pa.types.is_float32(self.arrow):
            array = pa.array(np.asarray(values).astype(np.float32))
        elif self.dtype == "<f8":
            array = pa.array(np.asarray(values))
        elif pa.types.is_date32(self.arrow):
            array = pa.array(np.asarray(values).astype(np.int32)).cast(self.arrow)
        else:
            array = pa.array(np.asarray(values)).cast(self.arrow)
        if mask is None:
            return array
        return pc.if_else(pa.array(~mask), array, pa.scalar(None, self.arrow))

    def order(self, values: Any) -> Int64:
        """Integers that compare as the stored values do; equal only where those are.

        NaN, where a column allows it, is greater than every number, as in Spark.
        """
        if self.dtype is None:
            if len(values) == 0:
                return np.empty(0, np.int64)
            ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
            return np.asarray(ranks.to_numpy()).astype(np.int64)
        if self.dtype == "<f8":
            bits = np.ascontiguousarray(values).view(np.int64)
            return bits ^ ((bits >> 63) & np.int64(2**63 - 1))
        return np.asarray(values).astype(np.int64, copy=False)

    def unorder(self, keys: Int64) -> NDArray[Any]:
        """Stored values of fixed width from what `order` gave."""
        if self.dtype == "<f8":
            return (keys ^ ((keys >> 63) & np.int64(2**63 - 1))).view(np.float64)
        return keys.astype(self.dtype)

    def listed(self, stored: Any, chosen: Int64, offsets: Int64) -> Ragged | RaggedBytes:
        """The chosen stored values as lists of rows."""
        if self.dtype is None:
            return RaggedBytes.from_strings(offsets, stored.take(pa.array(chosen)))
        return Ragged(offsets, stored[chosen])

    # ---- rows

    def store_one(self, value: Any) -> Any:
        """Stored form of one Python value that is not None."""
        if is_text(self.arrow):
            return value.encode()
        if is_decimal(self.arrow):
            unscaled = int(value.scaleb(self.arrow.scale, EXACT))
            return (unscaled + DECIMAL_BIAS).to_bytes(16, "big")
        if self.dtype == "<f8":
            return float("nan") if value != value else value + 0.0
        return int(value)

    def load_one(self, stored: Any) -> Any:
        """The Python value of one stored value."""
        if is_text(self.arrow):
            try:
                return stored.decode()
            except UnicodeDecodeError as error:
                raise CodecError(
                    "text that is no UTF-8", expected="the text that was accumulated"
                ) from error
        if is_decimal(self.arrow):
            unscaled = int.from_bytes(stored, "big") - DECIMAL_BIAS
            return Decimal(unscaled).scaleb(-self.arrow.scale, EXACT)
        return bool(stored) if self.dtype == "|u1" else stored

    def order_one(self, stored: Any) -> Any:
        """Compares as the stored value; NaN after every number."""
        if self.dtype != "<f8":
            return stored
        nan = stored != stored
        return (nan, 0.0 if nan else stored)


def _primitive(array: pa.Array) -> NDArray[Any]:
    """The values of a fixed-width column as they stand, whatever stands under its nulls."""
    if pa.types.is_date32(array.type):
        kind: np.dtype[Any] = np.dtype("<i4")
    elif pa.types.is_timestamp(array.type):
        kind = np.dtype("<i8")
    else:
        kind = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), kind)
    return np.frombuffer(data, kind)[array.offset : array.offset + len(array)]


def decimal_words(array: pa.Array) -> NDArray[np.uint64]:
    """Unscaled values of a decimal128 column as two's complement words [n, 2], low word first."""
    words = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def _decimal_keys(array: pa.Array) -> pa.Array:
    words = decimal_words(array)
    keys = np.empty((len(array), 2), ">u8")
    keys[:, 0] = words[:, 1] ^ np.uint64(1 << 63)
    keys[:, 1] = words[:, 0]
    ends = np.arange(len(array) + 1, dtype=np.int64) * 16
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(keys.reshape(-1).view(np.uint8))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(array), buffers)


def _text(stored: Any, kind: pa.DataType) -> pa.Array:
    try:
        return stored.cast(kind)
    except pa.ArrowInvalid as error:
        raise CodecError(
            "text that is no UTF-8", expected="the text that was accumulated"
        ) from error


def _from_decimal_keys(keys: pa.Array, kind: pa.DataType) -> pa.Array:
    lengths = np.asarray(pc.binary_length(keys).to_numpy(zero_copy_only=False))
    if ((lengths != 16) & (lengths != 0)).any():
        raise CodecError(f"a decimal of {lengths.max()} bytes", expected="16")
    whole = np.zeros((len(keys), 16), np.uint8)  # a null's key is empty: leave zeros there
    _, _, data = keys.buffers()
    if data is not None and lengths.any():
        ends = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset :]
        flat = np.frombuffer(data, np.uint8)[ends[0] : ends[len(keys)]]
        whole[lengths == 16] = flat.reshape(-1, 16)
    big = whole.view(">u8")
    words = np.empty((len(keys), 2), np.uint64)
    words[:, 0] = big[:, 1]
    words[:, 1] = big[:, 0].astype(np.uint64) ^ np.uint64(1 << 63)
    words[lengths != 16] = 0
    return pa.Decimal128Array.from_buffers(kind, len(keys), [None, pa.py_buffer(words.reshape(-1))])


def flat(lists: Ragged | RaggedBytes) -> Any:
    """All stored values of all rows, as `ValueType.store` gives them."""
    return lists.values if isinstance(lists, Ragged) else lists.strings()


def non_null(array: pa.Array, groups: Int64) -> tuple[pa.Array, Int64, NDArray[np.bool_] | None]:
    """The column without its nulls, the groups of what is left, and what was kept (None: all)."""
    if array.null_count == 0:
        return array, groups, None
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    return array.filter(pa.array(valid)), groups[valid], valid
