"""Few rows stand by what they count in, as Python's own numbers, and are combined once per key.

The same rows as `merge_rows.Gathering` holds, to the same bits (docs/adr/0016).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any

from slicewise.aggregates.few import Listed, Run
from slicewise.codec import FewRows, Row
from slicewise.merge_base import Stored
from slicewise.merge_joint import JointPlan, combine_few
from slicewise.merge_plan import HourRows, Int64, ReadPlan


@dataclass
class FewGathering:
    """Rows of one layout by their key."""

    few: FewRows
    by_key: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:
        """As `merge_rows.Rows`."""
        rows, by_key = self.few.singles(values, head), self.by_key
        if len(set(masks)) == 1:
            by_key[key + masks[0]] += rows
        else:
            for mask, row in zip(masks, rows, strict=True):
                by_key[key + mask].append(row)

    def block(self, key: int, value: bytes, start: int, numbers: Sequence[int] | Int64, part: HourRows) -> None:
        """As `merge_rows.Rows`."""
        rows = self.few.block(value, start, len(numbers))
        at = 0
        for mask, n in part.runs(numbers):
            if mask:
                self.by_key[key + mask] += rows[at : at + n]
            at += n

    def columns(self) -> tuple[list[Sequence[Sequence[Any]]], list[Run], list[int]]:
        """Per partial and field the values by row; the range of rows of each key; the keys."""
        rows = self.by_key.values()
        ends = accumulate(map(len, rows), initial=0)
        return self.few.columns(list(chain.from_iterable(rows))), list(pairwise(ends)), list(self.by_key)


def rows_of(plan: ReadPlan, stored: Sequence[Stored]) -> int:
    """About how many rows are stored: what decides between the two ways."""
    size = plan.unit.layout.record.itemsize
    at = [at for at, _, _ in plan.fetched.rows]
    found = 0
    for part in stored:
        found += (len(part.hot) >> 1) + len(plan.fetched.totals)
        if at:
            values = list(chain.from_iterable(part.days))
            found += sum([len(value) // size for i in at if (value := values[i]) is not None])
    return found


def finish_few(joint: JointPlan, gathered: Sequence[FewGathering], entities: int) -> tuple[Listed, ...]:
    """Per finish of the plan its values."""
    decoded, runs, groups = [], [], []
    for found, table in zip(gathered, joint.tables, strict=True):
        columns, ranges, keys = found.columns()
        decoded.append(columns)
        runs.append(ranges)
        groups.append(table.runs_of(keys, entities))
    return combine_few(joint, decoded, runs, groups)
