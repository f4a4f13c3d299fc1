"""Speed of merging few partials and of the codec on this machine: one JSON object, then the same as
a table.

`.venvs/platform/bin/python -m benchmarks.algebra`. Each figure is the best of several runs, in
processor time.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa

from benchmarks.columns import TYPES, best, make_rows
from slicewise import aggregates as agg
from slicewise.codec import Layout

PARTIALS = 100
WINDOWS = 3
SERVED = [
    agg.count(),
    agg.count("x"),
    agg.sum("x"),
    agg.mean("x"),
    agg.sum("i"),
    agg.min("x"),
    agg.max("x"),
    agg.argmax("s", by="x"),
    agg.top_k("s", by="x", k=5),
    agg.bool_or("b"),
]


SECONDS = 0.6


def serving() -> dict[str, float]:
    """Microseconds to answer 10 aggregates over 3 windows from 100 partial rows of one entity."""
    aggregates = [a.bind(TYPES) for a in SERVED]
    layout = Layout.of(aggregates)
    rows, _ = make_rows(PARTIALS * 20, 1)
    slices = np.repeat(np.arange(PARTIALS), 20)
    columns = [p.accumulate_columns(rows, slices, PARTIALS) for p in layout.partials]
    one_block, by_row = layout.encode_block(columns), layout.encode_rows(columns)
    window_rows = np.concatenate([np.arange(PARTIALS - n, PARTIALS) for n in (6, 30, PARTIALS)])
    windows = np.repeat(np.arange(WINDOWS), (6, 30, PARTIALS))

    def merge(decoded: list[agg.Columns]) -> None:
        combined = [
            partial.combine_columns(part.take(window_rows), windows, WINDOWS)
            for partial, part in zip(layout.partials, decoded, strict=True)
        ]
        for aggregate in aggregates:
            aggregate.finish_columns(combined[layout.index(aggregate)])

    decoded = layout.decode_blocks([one_block], [PARTIALS])
    return {
        "bytes_per_row": round(len(one_block) / PARTIALS, 1),
        "decode_one_block_us": round(
            best(lambda: layout.decode_blocks([one_block], [PARTIALS]), SECONDS) * 1e6, 1
        ),
        "decode_100_rows_us": round(
            best(lambda: layout.decode_blocks(by_row, [1] * PARTIALS), SECONDS) * 1e6, 1
        ),
        "combine_finish_us": round(best(lambda: merge(decoded), SECONDS) * 1e6, 1),
    }


def coding(n: int = 20_000) -> dict[str, float]:
    """Thousand rows a second of ten partials through the codec."""
    layout = Layout.of([a.bind(TYPES) for a in SERVED])
    rows, _ = make_rows(n * 3, 1)
    columns = [p.accumulate_columns(rows, np.arange(n * 3) // 3, n) for p in layout.partials]
    block = layout.encode_block(columns)
    table = pa.table(layout.to_arrow(columns))
    timed = {
        "encode_block": lambda: layout.encode_block(columns),
        "encode_rows": lambda: layout.encode_rows(columns),
        "decode_block": lambda: layout.decode_blocks([block], [n]),
        "to_arrow": lambda: layout.to_arrow(columns),
        "from_arrow": lambda: layout.from_arrow(table),
    }
    return {name: round(n / best(work, SECONDS) / 1e3, 1) for name, work in timed.items()}


def main() -> None:
    """Measures and prints."""
    sections = {
        "merge_100_partials_10_aggregates": serving(),
        "codec_thousand_rows_per_s": coding(),
    }
    lines = [json.dumps(sections)]
    for section, figures in sections.items():
        if isinstance(figures, dict):
            lines += [
                "",
                section,
                *(f"  {name:<28}{figure:>12}" for name, figure in figures.items()),
            ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
