"""Ticks leave as records: those rows alone whose values changed, one record per entity and
window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slicewise.codec.published import keys_of, values_of
from slicewise.emission.ticks import Correction, Tick
from slicewise.features.plan.unit import StorageUnit
from slicewise.stores.log.publisher import Publisher


class KafkaSink:
    """To the topic of a view's `emit=`."""

    def __init__(self, bootstrap: str, topic: str, units: Sequence[StorageUnit]) -> None:
        self._definitions = {
            feature.column: unit.definition_fingerprint
            for unit in units
            for feature in unit.features
        }
        self._publisher = Publisher(bootstrap, topic)

    def publish(self, tick: Tick) -> None:
        rows = np.flatnonzero(tick.changed)
        if not len(rows):
            return
        taken = pa.array(rows)
        starts, ends = (
            pa.array(np.full(len(rows), at, np.int64)) for at in (tick.start_us, tick.end_us)
        )
        index = {int(row): i for i, row in enumerate(rows)} if any(tick.errors.values()) else {}
        errors = {
            column: {index[row]: code for row, code in codes.items() if row in index}
            for column, codes in tick.errors.items()
        }
        whole = len(rows) == tick.values.num_rows
        entities, values = tick.entities, tick.values
        if not whole:
            values = values.take(taken)
            entities = entities.take(taken) if entities.num_columns else entities
        keys = keys_of(tick.view, tick.window.column_suffix(), starts, ends, entities)
        self._publisher.append(
            keys, values_of(self._definition(values), tick.offset_vector, values, errors)
        )

    def correct(self, correction: Correction) -> None:
        ends = correction.ends_us
        starts = pa.array(ends - correction.window.length_us)
        suffix = correction.window.column_suffix()
        keys = keys_of(correction.view, suffix, starts, pa.array(ends), correction.entities)
        definition = self._definition(correction.values)
        values = values_of(
            definition,
            correction.offset_vector,
            correction.values,
            correction.errors,
            old=correction.old,
            causes=correction.causes,
        )
        self._publisher.append(keys, values)

    def flush(self) -> None:
        self._publisher.flush()

    def _definition(self, values: pa.Table) -> str:
        return self._definitions[values.column_names[0]]
