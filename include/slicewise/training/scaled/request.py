"""A folder holds what a data set is answered from by shares, and then its values.

`request.json`, `spine.parquet` and, by knowledge of arrival, `arrival.parquet` are written by
whoever wants the set; `values/` by the shares. A share has all rows and all events of some
entities, so that no answer needs another share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.features.plan.deployment import Deployment
from slicewise.training.archive import Archived
from slicewise.training.arrival import Arrival, read_entries
from slicewise.training.events.rows import Span
from slicewise.training.manifest import archived_of
from slicewise.training.requests.unit_requests import (
    UnitRequest,
    entity_types,
    questions_of,
    resolve,
)
from slicewise.training.snapshots import presenting
from slicewise.training.tables.spine import AT, TOKEN
from slicewise.training.writing import RUN_ROWS

ROW = "_slicewise_row"
"""Column of a row's number in the spine, from 0."""
SHARE = "_slicewise_share"
REQUEST, SPINE, ARRIVED, VALUES = "request.json", "spine.parquet", "arrival.parquet", "values"
ERRORS, DONE = "errors", "done"


@dataclass(frozen=True)
class ScaledRequest:
    """Request for the values of a spine, as it stands in a folder.

    deployment: canonical JSON. sources: as of a manifest. spans: per unit the span of event times
    that its windows reach, microseconds. shares: how many the entities are cut into. ats_us: of a
    snapshot, whose spine is made of the entities that are there at these instants.
    """

    deployment: str
    features: tuple[str, ...]
    knowledge: str
    sources: Mapping[str, Mapping[str, Any]]
    spans: tuple[Span, ...]
    shares: int
    known_at_us: int = 0
    ats_us: tuple[int, ...] = ()
    folder: Path = field(default=Path(), compare=False)

    def write(self, spine: pa.Table | None, arrived: pa.Table | None = None) -> None:
        """Writes the folder: the rows of the spine, if they are known, and this."""
        if spine is not None:
            self.write_spine(spine)
        if arrived is not None:
            pq.write_table(arrived, self.folder / ARRIVED)
        values = {name: value for name, value in asdict(self).items() if name != "folder"}
        (self.folder / REQUEST).write_text(json.dumps(values), encoding="utf-8")

    def write_spine(self, rows: pa.Table) -> None:
        """Writes the rows that are answered, with their numbers: the columns that are asked by."""
        names = dict.fromkeys(name for i in range(len(self.requested)) for name in self.columns(i))
        number = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        own = rows.select(list(names)).append_column(ROW, number)
        pq.write_table(own, self.folder / SPINE, row_group_size=RUN_ROWS)

    @property
    def rows(self) -> int:
        """Number of rows that are answered."""
        return int(pq.read_metadata(self.folder / SPINE).num_rows)

    @staticmethod
    @lru_cache(maxsize=2)
    def read(folder: Path) -> ScaledRequest:
        """Reads the request of a folder; once in a process."""
        raw = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
        raw["features"] = tuple(raw["features"])
        raw["ats_us"] = tuple(raw["ats_us"])
        raw["spans"] = tuple((start, end) for start, end in raw["spans"])
        return ScaledRequest(**raw, folder=folder)

    @cached_property
    def deployed(self) -> Deployment:
        return Deployment.from_json(self.deployment)

    @cached_property
    def requested(self) -> tuple[UnitRequest, ...]:
        return resolve(self.deployed, list(self.features))[1]

    @cached_property
    def presenting(self) -> tuple[int, ...]:
        """Positions of the units whose entities are the rows of a snapshot."""
        return presenting(self.requested)

    @cached_property
    def archived(self) -> dict[str, Archived]:
        return archived_of(self.sources)

    @cached_property
    def arrival(self) -> Arrival | None:
        """Knowledge of the rows, where it is by arrival."""
        path = self.folder / ARRIVED
        if not path.exists():
            return None
        return Arrival.of_table(read_entries(path), self.known_at_us or None)

    def topics(self, source: str) -> tuple[str, ...]:
        """Topic ids of a source's archived events, by whose positions these are named."""
        return tuple(sorted({topic for topic, _ in self.archived[source].offset_vector.offsets}))

    def present(self, position: int) -> Path:
        """The folder of the rows that a unit gives a snapshot."""
        return self.folder / "present" / str(position)

    def values(self, position: int) -> Path:
        """The folder of a unit's values."""
        return self.folder / VALUES / str(position)

    def columns(self, position: int) -> tuple[str, ...]:
        """Columns of the spine that the answers of a unit are a function of."""
        some = self.requested[position : position + 1]
        token = (TOKEN,) if self.knowledge == "token" else ()
        return tuple(dict.fromkeys((*entity_types(some), *questions_of(some), AT, *token)))
