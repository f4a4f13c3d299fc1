"""A data set has one name for all jobs, by OpenLineage's conventions: else no graph of them is
connected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from slicewise.lifecycle.lineage.columns import RawUnit, chosen_by, event_columns
from slicewise.settings import Settings, urls_of

RawSource = Mapping[str, Any]
"""A source of a deployment's JSON."""
Types = Mapping[tuple[str, str], str]
"""View and feature column -> its type, where it is known."""
_REDIS_PORT, _KAFKA_PORT = 6379, 9092
_ENDING = ("sliding", "tumbling", "hopping")
_MEMBERSHIP = ("bloom", "cuckoo")


class Origin(NamedTuple):
    """Column that another is made of. direct: its values are; else they decide which events
    count."""

    namespace: str
    dataset: str
    column: str
    direct: bool = True


@dataclass(frozen=True)
class Column:
    """A column of a data set. kind: its type; none where the definition does not say it."""

    name: str
    kind: str | None = None
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """A topic, a table, a view in the store, or a file."""

    namespace: str
    name: str
    columns: tuple[Column, ...] = ()

    def as_input(self) -> Dataset:
        """The data set as a job reads it: where its columns come from is another job's word."""
        columns = tuple(Column(column.name, column.kind) for column in self.columns)
        return Dataset(self.namespace, self.name, columns)


@dataclass(frozen=True)
class Namespaces:
    """Namespaces of the platform's data sets."""

    log: str
    lake: str
    store: str

    @staticmethod
    def of(settings: Settings) -> Namespaces:
        """Namespaces by the settings: the first broker, the warehouse, and the store's first node.
        No user and no password is in them."""
        broker = settings.kafka_bootstrap.split(",")[0].strip().rpartition("//")[2]
        node = urlsplit(urls_of(settings.redis_url)[0])
        log = f"kafka://{_address(urlsplit(f'//{broker}'), _KAFKA_PORT)}"
        store = f"redis://{_address(node, _REDIS_PORT)}" if node.hostname else f"unix://{node.path}"
        return Namespaces(log, settings.warehouse.rstrip("/"), store)

    def topic(self, name: str, columns: Iterable[tuple[str, str]] = ()) -> Dataset:
        """A topic with the columns of its records."""
        return Dataset(self.log, name, tuple(Column(*named) for named in columns))

    def source(self, source: RawSource) -> Dataset:
        """The topic of a source."""
        return self.topic(source["topic"], source["columns"])

    def archive(self, source: RawSource) -> Dataset:
        """The table of the lake that keeps a source's records."""
        return Dataset(
            self.lake,
            f"log.{source['name']}",
            tuple(
                Column(name, kind, (Origin(self.log, source["topic"], name),))
                for name, kind in source["columns"]
            ),
        )

    def slices(self, unit: RawUnit) -> Dataset:
        """The table of the lake that keeps a unit's compacted hours: its entity's columns, beside
        the partials."""
        archive = f"log.{unit['source']}"
        return Dataset(
            self.lake,
            f"slices.u_{unit['storage_fingerprint']}",
            tuple(
                Column(name, kind, (Origin(self.lake, archive, name),))
                for name, kind in unit["entity"]
            ),
        )

    def view(self, units: Iterable[RawUnit], namespace: str, dataset: str, types: Types) -> Dataset:
        """A view in the store. units: all of the view's; namespace, dataset: the events that they
        are made of."""
        columns: dict[str, Column] = {}
        name = ""
        for unit in units:
            name = unit["view"]
            for column, kind in unit["entity"]:
                columns[column] = Column(column, kind, (Origin(namespace, dataset, column),))
            for feature in unit["features"]:
                made = _feature(unit, feature, namespace, dataset, types)
                columns[made.name] = made
        return Dataset(self.store, name, tuple(columns.values()))

    def published(
        self, topic: str, source: RawSource, units: Iterable[RawUnit], types: Types
    ) -> Dataset:
        """A topic to which windows of a source's events are published: records have the entity's
        columns, and the values of windows that end, by their members."""
        columns: dict[str, Column] = {}
        for unit in units:
            for name, kind in unit["entity"]:
                origins = (Origin(self.log, source["topic"], name),)
                columns[f"entity.{name}"] = Column(f"entity.{name}", kind, origins)
            for feature in filter(is_published, unit["features"]):
                made = _feature(unit, feature, self.log, source["topic"], types)
                columns[f"values.{made.name}"] = replace(made, name=f"values.{made.name}")
        return Dataset(self.log, topic, tuple(columns.values()))


def is_published(feature: Mapping[str, Any]) -> bool:
    """Tells whether a feature of a deployment's JSON is published where its view is: its window
    ends, and it is a value."""
    window, aggregate = feature["window"], feature["aggregate"]
    if aggregate["kind"] == "where":
        aggregate = aggregate["aggregate"]
    ends = window["kind"] in _ENDING and not window["open"] and not window["offset_us"]
    return ends and aggregate["kind"] not in _MEMBERSHIP


def _feature(
    unit: RawUnit, feature: Mapping[str, Any], namespace: str, dataset: str, types: Types
) -> Column:
    chosen, read = chosen_by(unit), event_columns(unit, feature["aggregate"])
    origins = [Origin(namespace, dataset, one) for one in sorted(read)]
    origins += [Origin(namespace, dataset, one, False) for one in sorted(chosen - read)]
    name = feature["column"]
    return Column(name, types.get((unit["view"], name)), tuple(origins))


def file(path: str, columns: tuple[Column, ...] = ()) -> Dataset:
    """A file that a job reads or writes."""
    return Dataset("file", str(Path(path).absolute()), columns)


def _address(url: SplitResult, port: int) -> str:
    """Host and port, as OpenLineage names a server. port: where the address has none."""
    host = url.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{url.port or port}"
