"""Equal partials have equal bytes, and bytes that are not exactly a partial are refused.

docs/format.md gives every byte; golden vectors hold it. Decoding works on whole
columns over many blocks at once and checks all bounds before it allocates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.ragged import Int64, Ragged, RaggedBytes, offsets_of
from slicewise.codec.envelopes import Raw
from slicewise.codec.scalar import Row, ScalarRows
from slicewise.errors import CodecError, DefinitionError

CODEC_VERSION = 1
"""Part of the storage fingerprint: another layout of the same partials is another number."""


U4 = np.dtype("<u4")
LONG = 256
"""Lists of on average so many bytes are copied one by one: an index per item would take longer."""


@dataclass(frozen=True)
class Layout:
    """Stored form of a unit's row: these bound aggregates' partials, ordered by partial_id."""

    partials: tuple[Aggregate, ...]

    @staticmethod
    def of(aggregates: Iterable[Aggregate]) -> Layout:
        """The layout that answers all these bound aggregates; those with one partial share it."""
        by_id: dict[str, Aggregate] = {}
        for aggregate in sorted(aggregates, key=lambda a: (a.partial_id(), a.kind)):
            by_id.setdefault(aggregate.partial_id(), aggregate)
        return Layout(tuple(by_id[key] for key in sorted(by_id)))

    def __post_init__(self) -> None:
        ids = [aggregate.partial_id() for aggregate in self.partials]
        if not ids or ids != sorted(set(ids)):
            raise DefinitionError(
                "a layout needs at least one partial, each once, ordered by partial_id",
                where=", ".join(ids),
                next_step="build it with Layout.of",
            )

    def index(self, aggregate: Aggregate) -> int:
        """Position of the partial that answers this bound aggregate."""
        position = self._positions.get(aggregate.partial_id())
        if position is None:
            raise DefinitionError(
                f"the layout stores no partial for {aggregate.describe()}",
                next_step="plan again, with the features that are asked for: slicewise apply",
            )
        return position

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {partial.partial_id(): i for i, partial in enumerate(self.partials)}

    @cached_property
    def _slots(self) -> tuple[tuple[int, Field, str], ...]:
        """(partial, field, its name in records and tables), in stored order."""
        return tuple(
            (i, field, f"p{i}_{field.name}")
            for i, partial in enumerate(self.partials)
            for field in partial.fields
        )

    @cached_property
    def record(self) -> np.dtype[np.void]:
        """The packed record of one row: scalars, and the sizes of what its heap holds."""
        members: list[tuple[str, Any]] = []
        for _, field, name in self._slots:
            if isinstance(field, Fixed):
                members.append((name, np.dtype(field.dtype)))
            else:
                members.append((name, U4))
                if not isinstance(field, Items):
                    members.append((name + ".bytes", U4))
        return np.dtype(members)

    # ---- encoding

    def encode_block(self, columns: Sequence[Columns]) -> bytes:
        """n rows: all records, then all heaps."""
        records, heaps, _ = self._encode(columns)
        return records.tobytes() + heaps

    def encode_blocks(self, columns: Sequence[Columns], bounds: Sequence[int]) -> list[bytes]:
        """One block per run of rows: rows [bounds[i], bounds[i + 1])."""
        return self.encode_runs(columns, bounds)[0]

    def encode_runs(
        self, columns: Sequence[Columns], bounds: Sequence[int]
    ) -> tuple[list[bytes], Int64]:
        """`encode_blocks`, and how many bytes each row takes."""
        records, heaps, ends = self._encode(columns)
        raw, size, at = records.tobytes(), self.record.itemsize, ends[np.asarray(bounds)].tolist()
        blocks = [
            raw[a * size : b * size] + heaps[from_:to]
            for (a, b), (from_, to) in zip(pairwise(bounds), pairwise(at), strict=True)
        ]
        return blocks, size + np.diff(ends)

    def encode_rows(self, columns: Sequence[Columns]) -> list[bytes]:
        """Encodes every row by itself: its record, then its heap (a block of one row)."""
        records, heaps, ends = self._encode(columns)
        raw, size = records.tobytes(), self.record.itemsize
        if len(heaps) == 0:
            return [raw[at : at + size] for at in range(0, len(raw), size)]
        bounds = ends.tolist()
        return [
            raw[i * size : (i + 1) * size] + heaps[a:b] for i, (a, b) in enumerate(pairwise(bounds))
        ]

    def _encode(self, columns: Sequence[Columns]) -> tuple[NDArray[np.void], bytes, Int64]:
        """Records [n], all heaps, and where each row's heap ends [n+1]."""
        n = columns[0].n
        records = np.empty(n, self.record)
        segments: list[pa.Array] = []
        for i, field, name in self._slots:
            if isinstance(field, Fixed):
                records[name] = columns[i].fixed(field.name)
            elif isinstance(field, Items):
                items = columns[i].items(field.name)
                records[name] = _sizes(items.lengths, name)
                segments.append(_segment(items.values, items.offsets, field.numpy))
            else:
                texts = columns[i].texts(field.name)
                sizes = texts.ends[1:] - texts.ends[:-1]
                records[name] = _sizes(texts.lengths, name)
                records[name + ".bytes"] = _sizes(texts.byte_lengths(), name)
                segments.append(_segment(_sizes(sizes, name), texts.offsets, U4))
                segments.append(_segment(texts.data, texts.ends[texts.offsets], np.dtype("u1")))
        if not segments:
            return records, b"", np.zeros(n + 1, np.int64)
        # Row-major order of segments that stand field by field: one gather over all of them.
        chosen = np.arange(len(segments) * n).reshape(len(segments), n).T.reshape(-1)
        whole = (
            pa.concat_arrays(segments).take(pa.array(chosen)) if len(segments) > 1 else segments[0]
        )
        heap = RaggedBytes.from_strings(np.zeros(1, np.int64), whole)
        return records, heap.data.tobytes(), heap.ends[:: len(segments)]

    # ---- decoding

    def combine_rows(self, rows: Sequence[Raw], groups: Int64, n_groups: int) -> list[bytes]:
        """Encoded rows [n_groups], each of all the encoded rows of its group."""
        decoded = self.decode_blocks(rows, [1] * len(rows))
        return self.encode_rows(
            [
                partial.combine_columns(columns, groups, n_groups)
                for partial, columns in zip(self.partials, decoded, strict=True)
            ]
        )

    def decode_blocks(
        self,
        blocks: Sequence[Raw],
        counts: Sequence[int],
        wanted: frozenset[int] | None = None,
    ) -> list[Columns]:
        """The rows of all blocks, one after the other; block i has counts[i] rows.

        wanted: partials that are asked for, None for all; others come without fields.
        Raises CodecError for bytes that are not exactly such blocks; the memory
        used stays within a small multiple of the blocks' own size.
        """
        size = self.record.itemsize
        heads: list[Raw] = []
        behind: list[Raw] = []
        for block, count in zip(blocks, counts, strict=True):
            if not 0 <= count * size <= len(block):
                raise CodecError(
                    f"a block of {len(block)} bytes cannot hold {count} records of {size}",
                    next_step="the stored value is damaged or of another unit: rebuild it",
                )
            view = memoryview(block)
            heads.append(view[: count * size])
            behind.append(view[count * size :])
        records = np.frombuffer(b"".join(heads), self.record)
        lengths = np.fromiter(counts, np.int64, len(counts))
        return self._decode(records, behind, lengths, self._every if wanted is None else wanted)

    @cached_property
    def _every(self) -> frozenset[int]:
        return frozenset(range(len(self.partials)))

    def _decode(
        self,
        records: NDArray[np.void],
        behind: Sequence[Raw],
        counts: Int64,
        wanted: frozenset[int],
    ) -> list[Columns]:
        n = len(records)
        widths = self._segment_widths(records)
        ends = offsets_of(widths.reshape(-1))
        expected = np.diff(ends[offsets_of(counts) * widths.shape[1]])
        given = np.fromiter((len(block) for block in behind), np.int64, len(behind))
        if not np.array_equal(expected, given):
            bad = int(np.flatnonzero(expected != given)[0])
            raise CodecError(
                f"block {bad} has {given[bad]} bytes after its records",
                expected=f"{expected[bad]}, as the records say",
                next_step="the stored value is damaged or of another unit: rebuild it",
            )
        heap = np.frombuffer(b"".join(behind), np.uint8)
        starts = ends[:-1].reshape(n, widths.shape[1])
        out: list[dict[str, Values]] = [{} for _ in self.partials]
        at = 0
        indices: NDArray[Any] | None = None
        offsets = np.zeros(1, np.int64)
        for i, field, name in self._slots:
            if i not in wanted:
                at += 0 if isinstance(field, Fixed) else 1 if isinstance(field, Items) else 2
                continue
            if isinstance(field, Fixed):
                out[i][field.name] = np.ascontiguousarray(records[name])
                continue
            if indices is None or not np.array_equal(records[name], indices):
                indices = records[name]
                offsets = offsets_of(indices)
            if isinstance(field, Items):
                out[i][field.name] = Ragged(
                    offsets, _items(heap, starts[:, at], offsets, field.numpy)
                )
                at += 1
            else:
                sizes = _items(heap, starts[:, at], offsets, U4)
                spans = offsets_of(records[name + ".bytes"])
                text_ends = offsets_of(sizes)
                if not np.array_equal(text_ends[offsets], spans):
                    raise CodecError(
                        f"the lengths of the texts of {name} do not add up to its bytes",
                        next_step="the stored value is damaged or of another unit: rebuild it",
                    )
                data = _items(heap, starts[:, at + 1], spans, np.dtype("u1"))
                out[i][field.name] = RaggedBytes(offsets, text_ends, data)
                at += 2
        return [Columns(n, values) for values in out]

    def _segment_widths(self, records: NDArray[np.void]) -> Int64:
        """Bytes of each heap segment of each row [n, segments]."""
        counts, widths = self._segments
        if not len(widths):
            return np.zeros((len(records), 1), np.int64)
        raw = records.view(np.uint8).reshape(len(records), records.itemsize)
        sizes: Int64 = raw.take(counts, axis=1).view(U4) * widths
        return sizes

    @cached_property
    def _segments(self) -> tuple[Int64, Int64]:
        """The bytes of a record in which the counts of the heap segments stand, four of each; and
        per segment the bytes that one count stands for."""
        at, counts, widths = 0, list[int](), list[int]()
        for _, field, name in self._slots:
            if isinstance(field, Fixed):
                at += self.record[name].itemsize
                continue
            for width in (field.numpy.itemsize,) if isinstance(field, Items) else (U4.itemsize, 1):
                counts += range(at, at + U4.itemsize)
                widths.append(width)
                at += U4.itemsize
        return np.array(counts, np.int64), np.array(widths, np.int64)

    # ---- decoding few rows

    @cached_property
    def scalar(self) -> ScalarRows:
        """Form of some hundreds of rows in Python's own numbers and bytes."""
        fields = tuple(tuple(partial.fields) for partial in self.partials)
        return ScalarRows(fields, self.record.itemsize, *self._segments)

    def scalar_rows(self, columns: Sequence[Columns]) -> list[Row]:
        """Rows of `scalar` of all partials in column form."""
        records, heaps, ends = self._encode(columns)
        raw, size = records.tobytes(), self.record.itemsize
        return [
            (raw[at : at + size], heaps[a:b])
            for at, (a, b) in zip(range(0, len(raw), size), pairwise(ends.tolist()), strict=True)
        ]

    # ---- tables

    def arrow_fields(self) -> list[pa.Field]:
        """Table columns of the partials, `p<i>_<field>`, none of them nullable.

        Fixed: int64, int32, double; `|u1` as int32. Items: their raw bytes, binary.
        Texts: list<binary>.
        """
        return [
            pa.field(name, _arrow_type(field), nullable=False) for _, field, name in self._slots
        ]

    def to_arrow(self, columns: Sequence[Columns]) -> dict[str, pa.Array]:
        """Table columns of these partials, by name."""
        out: dict[str, pa.Array] = {}
        for i, field, name in self._slots:
            if isinstance(field, Fixed):
                out[name] = pa.array(columns[i].fixed(field.name)).cast(_arrow_type(field))
            elif isinstance(field, Items):
                items = columns[i].items(field.name)
                segment = _segment(items.values, items.offsets, field.numpy)
                out[name] = segment.cast(pa.binary())
            else:
                texts = columns[i].texts(field.name)
                strings = texts.strings().cast(pa.binary())
                out[name] = pa.ListArray.from_arrays(pa.array(texts.offsets, pa.int32()), strings)
        return out

    def from_arrow(self, table: pa.Table | pa.RecordBatch | Mapping[str, Any]) -> list[Columns]:
        """Partials from table columns; raises CodecError where a column is missing or malformed."""
        out: list[dict[str, Values]] = [{} for _ in self.partials]
        n = 0
        for i, field, name in self._slots:
            array = _one_array(table, name)
            n = len(array)
            if isinstance(field, Fixed):
                wide = array.to_numpy(zero_copy_only=False)
                out[i][field.name] = wide.astype(field.dtype, copy=False)
            elif isinstance(field, Items):
                texts = RaggedBytes.from_strings(
                    np.zeros(1, np.int64), array.cast(pa.large_binary())
                )
                width = field.numpy.itemsize
                if (texts.ends % width).any():
                    raise CodecError(f"column {name} holds no whole items of {width} bytes")
                values = np.frombuffer(texts.data.tobytes(), field.numpy)
                out[i][field.name] = Ragged(texts.ends // width, values)
            else:
                lists = array.cast(pa.large_list(pa.large_binary()))
                offsets = lists.offsets.to_numpy()
                strings = lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
                out[i][field.name] = RaggedBytes.from_strings(offsets - offsets[0], strings)
        return [Columns(n, values) for values in out]


def _sizes(lengths: Int64, name: str) -> NDArray[np.uint32]:
    if len(lengths) and int(lengths.max()) >= 2**32:
        raise CodecError(
            f"{name} has {int(lengths.max())} items or bytes in one row", expected="below 2^32"
        )
    return lengths.astype(U4)


def _segment(values: NDArray[Any], offsets: Int64, dtype: np.dtype[Any]) -> pa.Array:
    """Per row the raw bytes of its items, as a LargeBinaryArray over the values' own memory."""
    raw = np.ascontiguousarray(values.astype(dtype, copy=False))
    ends = pa.py_buffer(offsets * dtype.itemsize)
    data = pa.py_buffer(raw.view(np.uint8) if len(raw) else b"")
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, [None, ends, data])


def _items(
    heap: NDArray[np.uint8], starts: Int64, offsets: Int64, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Items of one segment of every row, gathered from the heap: starts [n] in bytes, offsets in
    items."""
    total = int(offsets[-1])
    if total == 0:
        return np.empty(0, dtype)
    width = dtype.itemsize
    lengths = offsets[1:] - offsets[:-1]
    if total * width >= LONG * len(lengths):
        data, sizes = heap.data, lengths * width
        pieces = [
            data[a : a + size]
            for a, size in zip(starts.tolist(), sizes.tolist(), strict=True)
            if size
        ]
        return np.frombuffer(b"".join(pieces), dtype)
    # Items stand at any byte: a view with a stride of one byte reads them where they are, as
    # plain bytes, which NumPy moves faster than records of fields.
    plain = np.dtype((np.void, width)) if dtype.names else dtype
    anywhere = np.ndarray((len(heap) - width + 1,), plain, heap, strides=(1,))
    if width == 1:
        at = np.repeat(starts - offsets[:-1], lengths) + np.arange(total)
    else:
        at = np.repeat(starts - offsets[:-1] * width, lengths) + np.arange(0, total * width, width)
    return anywhere[at].view(dtype)


def _arrow_type(field: Field) -> pa.DataType:
    if isinstance(field, Items):
        return pa.binary()
    if isinstance(field, Fixed):
        kinds = {"<i8": pa.int64(), "<i4": pa.int32(), "<f8": pa.float64(), "|u1": pa.int32()}
        return kinds[field.dtype]
    return pa.list_(pa.binary())


def _one_array(table: pa.Table | pa.RecordBatch | Mapping[str, Any], name: str) -> pa.Array:
    names = table if isinstance(table, Mapping) else table.schema.names
    if name not in names:
        raise CodecError(f"the table has no column {name}", next_step="read it with its own layout")
    column = table[name]
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        raise CodecError(f"column {name} has {array.null_count} nulls", expected="none")
    return array
