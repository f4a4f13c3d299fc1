"""A feature store of Feast's with ready values: what its server answers, without a slicewise.

Run in Feast's environment: python -m benchmarks.baseline.feast_store FOLDER < spec.json. The spec
has `redis` (host:port,options), `service` and `views`: of each its name, its keys, and rows of keys
and values; None where a row has no value. `feast --chdir FOLDER serve` serves it then.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from feast import Entity, FeatureService, FeatureStore, FeatureView, Field, FileSource
from feast.types import FeastType, Float64, Int64, String
from feast.value_type import ValueType

CONFIG = """project: compared
provider: local
registry: {folder}/registry.db
online_store:
  type: redis
  connection_string: {redis}
offline_store:
  type: dask
entity_key_serialization_version: 3
"""
TIME = "event_timestamp"


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    spec = json.load(sys.stdin)
    config = folder / "feature_store.yaml"
    config.write_text(CONFIG.format(folder=folder, redis=spec["redis"]), encoding="utf-8")
    store = FeatureStore(repo_path=str(folder))
    made = [_view(folder, **view) for view in spec["views"]]
    entities = {entity.name: entity for _, keys, _ in made for entity in keys}
    views = [view for view, _, _ in made]
    service = FeatureService(name=spec["service"], features=views)
    store.apply([*entities.values(), *views, service])
    for view, _, rows in made:
        store.write_to_online_store(view.name, df=rows)


def _view(
    folder: Path, name: str, keys: list[str], rows: list[dict[str, Any]]
) -> tuple[FeatureView, list[Entity], pd.DataFrame]:
    """A view, its keys, and its rows as a frame."""
    frame = pd.DataFrame(rows)
    frame[TIME] = datetime.now(UTC)
    frame.to_parquet(folder / f"{name}.parquet")
    entities = [Entity(name=key, value_type=ValueType.STRING) for key in keys]
    fields = [
        Field(name=column, dtype=String if column in keys else _type(frame[column]))
        for column in frame.columns
        if column != TIME
    ]
    source = FileSource(
        name=f"{name}_rows", path=str(folder / f"{name}.parquet"), timestamp_field=TIME
    )
    view = FeatureView(name=name, entities=entities, schema=fields, source=source)
    return view, entities, frame


def _type(values: pd.Series[Any]) -> FeastType:
    some = values.dropna()
    if all(isinstance(value, str) for value in some):
        return String
    return Int64 if values.dtype.kind == "i" else Float64


if __name__ == "__main__":
    main()
