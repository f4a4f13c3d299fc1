"""An offset vector says, per partition, the first offset that a result does not contain; it only
grows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from types import MappingProxyType

from slicewise.errors import CodecError

TopicPartition = tuple[str, int]
"""(topic id: 32 lower-case hex digits, partition)"""

_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class OffsetVector:
    """First offset not contained, per (topic id, partition); a place that is absent has 0.

    Zeros are dropped and partitions sorted when an offset vector is made, so that equal offset
    vectors are equal values, hashes and bytes.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {}
        for topic_partition in sorted(self.offsets):
            topic, partition = topic_partition
            offset = self.offsets[topic_partition]
            if offset < 0 or partition < 0 or len(topic) != 32 or not _HEX.issuperset(topic):
                raise CodecError(
                    f"{offset} at {topic_partition!r} is no entry of an offset vector",
                    expected="(topic id of 32 hex digits, partition >= 0) -> offset >= 0",
                )
            if offset:
                kept[topic_partition] = int(offset)
        object.__setattr__(self, "offsets", MappingProxyType(kept))

    def __hash__(self) -> int:
        return hash(tuple(self.offsets.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return (OffsetVector, (dict(self.offsets),))  # a mapping proxy cannot be pickled

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.offsets)

    def __bool__(self) -> bool:
        return bool(self.offsets)

    def get(self, topic_partition: TopicPartition) -> int:
        """First offset of `topic_partition` that is not contained."""
        return self.offsets.get(topic_partition, 0)

    def contains(self, topic_partition: TopicPartition, offset: int) -> bool:
        return offset < self.get(topic_partition)

    def join(self, other: OffsetVector) -> OffsetVector:
        """Per partition the larger: what two results contain together."""
        joined = dict(self.offsets)
        for topic_partition, offset in other.offsets.items():
            if offset > joined.get(topic_partition, 0):
                joined[topic_partition] = offset
        return OffsetVector(joined)

    def dominates(self, other: OffsetVector) -> bool:
        """Tells whether this offset vector contains everything that `other` contains."""
        return all(
            self.get(topic_partition) >= offset for topic_partition, offset in other.offsets.items()
        )

    def nested(self) -> dict[str, dict[int, int]]:
        """Topic id -> partition -> first offset not contained."""
        nested: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in self.offsets.items():
            nested.setdefault(topic, {})[partition] = offset
        return nested

    def pack(self) -> bytes:
        """Canonical msgpack: {topic hex: {partition: offset}}, keys sorted, zeros left out."""
        return self.packed

    @cached_property
    def packed(self) -> bytes:
        import msgpack  # here, so that Airflow's environment can import this module without it

        return bytes(msgpack.packb(self.nested()))

    @staticmethod
    def unpack(raw: bytes) -> OffsetVector:
        """The offset vector that `pack` wrote; CodecError for any other bytes."""
        import msgpack

        try:
            nested = msgpack.unpackb(raw, strict_map_key=False)
            offset_vector = OffsetVector(
                {(t, p): o for t, entry in nested.items() for p, o in entry.items()}
            )
        except (ValueError, TypeError, AttributeError, msgpack.exceptions.UnpackException) as error:
            raise CodecError(
                f"{len(raw)} bytes are no packed offset vector: {error}",
                expected="canonical msgpack {topic id: {partition: offset}}",
            ) from error
        if offset_vector.pack() != bytes(raw):
            raise CodecError(
                "a packed offset vector is not in canonical form", expected="what pack writes"
            )
        return offset_vector


def joined(offset_vectors: Iterable[OffsetVector]) -> OffsetVector:
    """The offset vector of what any of these contains."""
    return reduce(OffsetVector.join, offset_vectors, OffsetVector())
