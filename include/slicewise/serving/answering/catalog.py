"""The store's own manifest tells what can be asked for, never a user's module.

A catalog is bound to the metadata that it was made from; a reply under other metadata makes it
void.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

import pyarrow as pa

from slicewise.aggregates.sketches.membership import Membership, membership_of
from slicewise.codec.plain import Converter, converter, has_doubles
from slicewise.errors import BadRequest
from slicewise.features.own import is_of_topic
from slicewise.features.plan.deployment import (
    Deployment,
    VersionedKind,
    base_of,
    version_of,
)
from slicewise.features.plan.unit import ListUnit, PlannedFeature, SliceUnit, StorageUnit
from slicewise.features.schema.types import BOOLEAN, DATE, LONG, STRING, TIMESTAMP, decimal_parts
from slicewise.names import unknown
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading.exchange import Target
from slicewise.serving.answering.answer import LOG_ALL, LogRule
from slicewise.serving.answering.requests import Entity, Scalar, instant, instant_us
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata, TotalUntil
from slicewise.stores.online.operations.reading import NodeReply
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.sharded import routing as nodes

SELECTIONS = 1_000
"""Lists of features that a catalog remembers the resolution of."""


@dataclass(frozen=True, eq=False)
class Part:
    """The features of one unit in a selection."""

    unit: StorageUnit
    source_topic: str
    features: tuple[PlannedFeature, ...]
    positions: tuple[int, ...]
    """Place of each feature in the selection."""
    group: int
    """Units of one group have one tag, and are read in one transaction."""
    position: int
    """Place of the unit in its group."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Features of a request, resolved."""

    refs: tuple[str, ...]
    parts: tuple[Part, ...]
    """Parts of slices first, then those of event lists."""
    groups: tuple[tuple[tuple[tuple[str, str], ...], bool, str], ...]
    """Per group: entity columns with types, whether per partition, name of the source."""
    columns: Mapping[str, str]
    """Every entity column that a request must give, and its type."""
    question_types: Mapping[str, str]
    """Every column that features are asked by, and its type."""
    memberships: Mapping[int, Membership]
    """Position -> what is asked there."""
    converters: tuple[Converter, ...]
    doubles: tuple[bool, ...]
    """Per feature, whether it may be a value that JSON lacks."""
    defaults: tuple[Scalar, ...] | None
    """Per feature what is answered instead of null (None: null); None where there is no default."""
    feature_set: str | None
    on_failure: str
    max_staleness_us: int | None
    log: LogRule | None = None

    @cached_property
    def is_remembered(self) -> bool:
        """Tells whether an answer may be repeated while the store does not answer."""
        return self.on_failure == "stale" and self.feature_set is not None

    @cached_property
    def units(self) -> frozenset[str]:
        """Storage fingerprints of the units that it reads."""
        return frozenset(part.unit.storage_fingerprint for part in self.parts)

    @cached_property
    def slices_us(self) -> tuple[int, ...]:
        """Lengths of its units' slices, without those that another one divides: bounds that move
        by them move by that one too."""
        lengths = {part.unit.slice_us for part in self.sliced}
        return tuple(
            sorted(
                length
                for length in lengths
                if not any(length % other == 0 for other in lengths - {length})
            )
        )

    @cached_property
    def sliced(self) -> tuple[Part, ...]:
        """Parts that are answered from slices."""
        return tuple(part for part in self.parts if isinstance(part.unit, SliceUnit))

    @cached_property
    def listed(self) -> tuple[Part, ...]:
        """Parts that are answered from event lists."""
        return tuple(part for part in self.parts if isinstance(part.unit, ListUnit))


@dataclass(frozen=True, eq=False)
class Catalog:
    """A deployment under the metadata of a store."""

    deployment: Deployment
    store_id: int
    deployment_version: int
    digest: str
    topic_partitions: frozenset[TopicPartition]
    topics: Mapping[str, str]
    names: Mapping[str, str]
    """Unit -> its name in keys."""
    builds: Mapping[str, int] = field(default_factory=dict)
    """Builds as in the metadata: a deployment version that was lost may come again, with other
    builds."""
    totals_until: Mapping[str, TotalUntil] = field(default_factory=dict)
    """Ends of totals as in the metadata: from where on plans read the days of units with a
    lifetime."""
    nodes: Mapping[int, Catalog] = field(default_factory=dict)
    """Deployment under the metadata of each of several nodes that answers and has it. Empty: of
    one."""
    count: int = 1
    """Nodes of the store."""
    _selections: dict[object, Selection] = field(default_factory=dict)

    @staticmethod
    def of(deployment: Deployment, metadata: StoreMetadata) -> Catalog:
        names = {
            unit.storage_fingerprint: metadata.name(unit.storage_fingerprint)
            for unit in deployment.units
        }
        return Catalog(
            deployment,
            metadata.store_id,
            metadata.deployment_version,
            metadata.units,
            metadata.topic_partitions,
            metadata.topics,
            names,
            metadata.builds,
            metadata.totals_until,
        )

    @staticmethod
    def of_nodes(deployment: Deployment, nodes: Mapping[int, StoreMetadata], count: int) -> Catalog:
        """The catalog of some nodes of a store of so many, which all have this deployment."""
        totals_until: dict[str, TotalUntil] = {}
        for metadata in nodes.values():
            # plans read from the earliest on: a node whose totals reach further says so with its
            # data
            totals_until |= {
                u: min(total_until, totals_until.get(u, total_until))
                for u, total_until in metadata.totals_until.items()
            }
        # a partition's committed offset is that of the node with its keys: others may not have
        # begun it
        topic_partitions = frozenset.union(
            *(metadata.topic_partitions for metadata in nodes.values())
        )
        together = replace(
            sharded_metadata.merged(list(nodes.values())),
            totals_until=totals_until,
            topic_partitions=topic_partitions,
        )
        catalogs = {number: Catalog.of(deployment, metadata) for number, metadata in nodes.items()}
        return replace(Catalog.of(deployment, together), nodes=catalogs, count=count)

    def of_node(self, number: int) -> Catalog:
        """The catalog as it stands on one node. StoreUnavailable where the node is away, or lacks
        the deployment."""
        if not self.nodes:
            return self
        node = self.nodes.get(number)
        if node is None:
            raise nodes.away(
                number, self.count, "it was away, or had another deployment, when it was asked last"
            )
        return node

    def matches_replies(self, replies: Mapping[int, NodeReply]) -> bool:
        """Tells whether what nodes said with a reply is what this catalog was made from."""
        if not self.nodes:
            (only,) = replies.values()
            return self.matches(only.metadata)
        return all(
            number in self.nodes and self.nodes[number].matches(reply.metadata)
            for number, reply in replies.items()
        )

    def matches(self, metadata: StoreMetadata) -> bool:
        """Tells whether the metadata of a reply are those that this catalog was made from."""
        return (
            metadata.deployment_version == self.deployment_version
            and metadata.units == self.digest
            and metadata.store_id == self.store_id
            and metadata.topic_partitions == self.topic_partitions
            and metadata.topics == self.topics
            and metadata.totals_until == self.totals_until
            and metadata.builds == self.builds
        )

    def partitions(self, source: str) -> tuple[int, ...]:
        """Partitions that a per-partition unit of this source has keys for."""
        foreign = self.foreign_topics(self.deployment.source(source).topic)
        return tuple(sorted({p for topic, p in self.topic_partitions if topic not in foreign}))

    def foreign_topics(self, topic: str) -> frozenset[str]:
        """Ids of the topics that are known to be others; earlier lives of this one are not."""
        return frozenset(id_ for name, id_ in self.topics.items() if not is_of_topic(name, topic))

    def committed_of(self, metadata: StoreMetadata, topic: str) -> OffsetVector:
        """The committed offsets of one source's partitions."""
        foreign = self.foreign_topics(topic)
        if not foreign:
            return metadata.committed
        offsets = metadata.committed.offsets
        return OffsetVector(
            {
                topic_partition: o
                for topic_partition, o in offsets.items()
                if topic_partition[0] not in foreign
            }
        )

    def select(self, refs: Sequence[str], feature_set: str | None) -> Selection:
        """Raises UnknownName, with what exists and near names."""
        key = feature_set if feature_set is not None else tuple(refs)
        selection = self._selections.get(key)
        if selection is None:
            if len(self._selections) >= SELECTIONS:
                self._selections.clear()
            selection = _select(self.deployment, refs, feature_set)
            selection = replace(selection, log=self._log_of(selection))
            self._selections[key] = selection
        return selection

    def _log_of(self, selection: Selection) -> LogRule | None:
        """The rule by which answers of a selection are logged; None where they are not."""
        if selection.feature_set is None:
            return None
        deployment = self.deployment
        chosen = deployment.feature_set(selection.feature_set)
        if chosen.log is None:
            return None
        views = dict.fromkeys(ref.partition(":")[0] for ref in chosen.features)
        versions = [
            _numbered(deployment, "feature set", chosen.name),
            *(_numbered(deployment, "view", view) for view in views),
        ]
        return LogRule(
            deployment.topic_of(chosen.log),
            int(chosen.log_rate * LOG_ALL),
            self.digest,
            " ".join(filter(None, versions)),
            tuple((name, kind == TIMESTAMP) for name, kind in selection.columns.items()),
        )


def _numbered(deployment: Deployment, kind: VersionedKind, name: str) -> str:
    base = base_of(name)
    live = deployment.live_version(kind, base)
    return "" if live.newest < 2 else f"{base}@{version_of(name) or live.live}"


def _select(deployment: Deployment, refs: Sequence[str], name: str | None) -> Selection:
    chosen = None if name is None else deployment.feature_set(name)
    refs = tuple(refs) if chosen is None else chosen.features
    by_unit: dict[tuple[bool, str, str], list[tuple[int, PlannedFeature]]] = {}
    units: dict[tuple[bool, str, str], StorageUnit] = {}
    for position, ref in enumerate(refs):
        unit, feature = deployment.resolve(ref)
        # views may share an event list: what each of them answers from it has a token of its own
        which = (isinstance(unit, ListUnit), unit.storage_fingerprint, unit.view)
        units[which] = unit
        by_unit.setdefault(which, []).append((position, feature))
    groups: dict[Any, int] = {}
    parts: list[Part] = []
    for which in sorted(by_unit, key=lambda unit_key: unit_key[0]):
        unit, members = units[which], by_unit[which]
        # a per-partition unit's keys are per partition of its source
        key = (unit.entity, unit.per_partition, unit.source if unit.per_partition else "")
        group = groups.setdefault(key, len(groups))
        parts.append(
            Part(
                unit,
                deployment.source(unit.source).topic,
                tuple(feature for _, feature in members),
                tuple(position for position, _ in members),
                group,
                sum(part.group == group for part in parts),
            )
        )
    kinds: list[pa.DataType] = [deployment.resolve(ref)[1].aggregate.output_type for ref in refs]
    defaults = None
    if chosen is not None and chosen.defaults:
        given = dict(chosen.defaults)
        defaults = tuple(given.get(ref) for ref in refs)
    columns: dict[str, str] = {}
    question_types: dict[str, str] = {}
    memberships: dict[int, Membership] = {}
    for fingerprint, members in by_unit.items():
        for position, feature in members:
            aggregate = membership_of(feature.aggregate)
            if aggregate is not None:
                memberships[position] = aggregate
                _agree(
                    question_types,
                    aggregate.question,
                    dict(units[fingerprint].input_types)[aggregate.question],
                )
    for unit in units.values():
        for column, kind in unit.entity:
            _agree(columns, column, kind)
            if column in question_types:
                _agree(question_types, column, kind)
    return Selection(
        refs,
        tuple(parts),
        tuple(groups),
        columns,
        question_types,
        memberships,
        tuple(converter(kind) for kind in kinds),
        tuple(has_doubles(kind) for kind in kinds),
        defaults,
        name,
        "error" if chosen is None else chosen.on_failure,
        None if chosen is None else chosen.max_staleness_us,
    )


def _agree(types: dict[str, str], column: str, kind: str) -> None:
    if types.setdefault(column, kind) != kind:
        raise BadRequest(
            f"entity column {column!r} has different types in the views asked for",
            where="features",
            expected="views whose entities can be given together",
            next_step="ask in two requests",
        )


def entity_tags(
    selection: Selection, entities: Sequence[Entity], partitions: Mapping[str, Sequence[int]]
) -> list[list[tuple[int | None, list[bytes]]]]:
    """Per group its (partition or None, tag per entity). Raises BadRequest."""
    columns = selection.columns
    given = {**selection.question_types, **columns} if selection.question_types else columns
    values: dict[str, list[object]] = {column: [] for column in columns}
    for i, entity in enumerate(entities):
        if len(entity) != len(given) or not given.keys() >= entity.keys():
            _refuse(entity, given, i)
        for column, kind in columns.items():
            values[column].append(value_of(entity.get(column), kind, column, i))
    tags = []
    for entity_columns, per_partition, source in selection.groups:
        rows = [values[column] for column, _ in entity_columns]
        parts: Sequence[int | None] = partitions[source] if per_partition else (None,)
        tags.append([(p, keys.entity_tags(entity_columns, rows, p, len(entities))) for p in parts])
    return tags


def tags_of(
    catalog: Catalog, selection: Selection, entities: Sequence[Entity]
) -> tuple[list[Target], list[bytes], list[int]]:
    """Tags with (group, entity, partition), and the node of each in a store of several.

    StoreUnavailable where that node is away.
    """
    several = bool(catalog.nodes)
    per_partition = {source: catalog.partitions(source) for _, s, source in selection.groups if s}
    targets: list[Target] = []
    all_tags: list[bytes] = []
    numbers: list[int] = []
    for group, by_partition in enumerate(entity_tags(selection, entities, per_partition)):
        for partition, tags in by_partition:
            targets += [(group, entity, partition) for entity in range(len(tags))]
            all_tags += tags
            if several:
                for tag in tags:
                    number = nodes.node_of(tag, catalog.count)
                    catalog.of_node(number)
                    numbers.append(number)
    return targets, all_tags, numbers


def _refuse(entity: Entity, columns: Mapping[str, str], i: int) -> None:
    where = f"entities[{i}]"
    for column in entity:
        if column not in columns:
            error = unknown("entity column", column, columns, where)
            raise BadRequest(
                error.what, where=where, expected=error.expected, next_step=error.next_step
            )
    for column in columns:
        if column not in entity:
            raise BadRequest(
                f"entity column {column!r} is missing",
                where=where,
                expected=", ".join(f"{name} ({kind})" for name, kind in columns.items()),
                next_step=f"add {column!r} to the entity",
            )


def value_of(value: object, kind: str, column: str, i: int) -> object:
    """A value of a request as the column's type has it. Raises BadRequest."""
    if kind == STRING and type(value) is str:
        return value
    typed: object = None
    whole = kind == LONG and type(value) is int and -(2**63) <= value < 2**63
    if whole or (kind == BOOLEAN and type(value) is bool):
        typed = value
    elif kind == TIMESTAMP and isinstance(value, str | int):
        typed = instant(instant_us(value))
    elif kind == DATE and type(value) is str and len(value) == len("yyyy-mm-dd"):
        typed = _date(value)
    elif decimal_parts(kind) and type(value) in (str, int):
        typed = _decimal(str(value), kind)
    if typed is None:
        raise BadRequest(
            f"{value!r} is no value of entity column {column!r}",
            where=f"entities[{i}]",
            expected=f"a {kind}" + (", as text" if decimal_parts(kind) else ""),
            next_step="send the value by the column's type",
        )
    return typed


def _date(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.isoformat() == text else None


def _decimal(text: str, kind: str) -> Decimal | None:
    parts = decimal_parts(kind)
    assert parts is not None
    precision, scale = parts
    try:
        number = Decimal(text)
        if not number.is_finite():
            return None
        exact = number.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    if exact != number or len(exact.as_tuple().digits) > precision:
        return None
    return abs(exact) if exact.is_zero() else exact
