"""Speed of the column forms and the codec on this machine: one JSON object, then the same as a table.

Run it with the platform's Python: `.venvs/platform/bin/python benchmarks/algebra.py [rows]`.
Each figure is the best of several runs, in CPU time of one thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from slicewise import aggregates as agg
from slicewise.codec import Layout

GROUPS = 1_000
PARTIALS = 100
WINDOWS = 3
TYPES = {
    "d": pa.float64(),
    "i": pa.int64(),
    "c": pa.decimal128(21, 2),
    "s": pa.string(),
    "b": pa.bool_(),
}
AGGREGATES = {
    "count": agg.count(),
    "sum(double)": agg.sum("d"),
    "sum(int64)": agg.sum("i"),
    "sum(decimal)": agg.sum("c"),
    "min(double)": agg.min("d"),
    "max(string)": agg.max("s"),
    "argmax(string by double)": agg.argmax("s", by="d"),
    "top_k(5)": agg.top_k("s", by="d", k=5),
    "last_k(10)": agg.last_k("d", k=10),
    "distinct_count(string)": agg.distinct_count("s"),
    "distinct_count(int64)": agg.distinct_count("i"),
    "bool_and": agg.bool_and("b"),
}
SERVED = [
    agg.count(),
    agg.count("d"),
    agg.sum("d"),
    agg.mean("d"),
    agg.sum("i"),
    agg.min("d"),
    agg.max("d"),
    agg.argmax("s", by="d"),
    agg.top_k("s", by="d", k=5),
    agg.bool_or("b"),
]


def make_rows(n: int, seed: int = 7) -> agg.Rows:
    """n events of one partition in offset order, a twentieth of their values null."""
    random = np.random.default_rng(seed)
    null = random.random(n) < 0.05
    integers = random.integers(0, 50_000, n)
    words = np.char.add("song-", np.arange(20_000).astype(str))
    text = pa.DictionaryArray.from_arrays(random.zipf(1.3, n) % 20_000, words).cast(pa.string())
    return agg.Rows(
        np.arange(n) * 1_000 + random.integers(0, 5_000_000, n),
        np.full(n, 1, np.uint64),
        np.full(n, 2, np.uint64),
        np.zeros(n, np.int32),
        np.arange(n),
        {
            "d": pa.array(random.normal(3, 100, n), mask=null),
            "i": pa.array(integers, mask=null),
            "c": pa.array(integers, mask=null).cast(TYPES["c"]),
            "s": text,
            "b": pa.array(integers % 2 == 0, mask=null),
        },
    )


def best(work: Callable[[], object], seconds: float = 0.6) -> float:
    """The least CPU time of one call, in seconds: what others do meanwhile is not counted."""
    end, least = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end or least == float("inf"):
        start = time.thread_time()
        work()
        least = min(least, time.thread_time() - start)
    return least


def accumulating(n: int) -> dict[str, float]:
    """Million rows a second into 1,000 groups, per aggregate."""
    rows = make_rows(n)
    groups = np.random.default_rng(8).integers(0, GROUPS, n)
    found = {}
    for name, unbound in AGGREGATES.items():
        bound = unbound.bind(TYPES)
        found[name] = round(n / best(lambda bound=bound: bound.accumulate_columns(rows, groups, GROUPS)) / 1e6, 2)  # type: ignore[misc]
    return found


def serving() -> dict[str, float]:
    """Microseconds to answer 10 aggregates over 3 windows from 100 partial rows of one entity."""
    aggregates = [a.bind(TYPES) for a in SERVED]
    layout = Layout.of(aggregates)
    rows = make_rows(PARTIALS * 20)
    slices = np.repeat(np.arange(PARTIALS), 20)
    columns = [p.accumulate_columns(rows, slices, PARTIALS) for p in layout.partials]
    one_block, each = layout.encode_block(columns), layout.encode_rows(columns)
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
        "decode_one_block_us": round(best(lambda: layout.decode_blocks([one_block], [PARTIALS])) * 1e6, 1),
        "decode_100_rows_us": round(best(lambda: layout.decode_blocks(each, [1] * PARTIALS)) * 1e6, 1),
        "combine_finish_us": round(best(lambda: merge(decoded)) * 1e6, 1),
    }


def coding(n: int = 20_000) -> dict[str, float]:
    """Thousand rows a second of ten partials through the codec."""
    layout = Layout.of([a.bind(TYPES) for a in SERVED])
    rows = make_rows(n * 3)
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
    return {name: round(n / best(work) / 1e3, 1) for name, work in timed.items()}


def main(n: int) -> None:
    """Measures and prints."""
    found = {
        "rows": n,
        "groups": GROUPS,
        "accumulate_million_rows_per_s": accumulating(n),
        "merge_100_partials_10_aggregates": serving(),
        "codec_thousand_rows_per_s": coding(),
    }
    lines = [json.dumps(found)]
    for section, figures in found.items():
        if isinstance(figures, dict):
            lines += ["", section, *(f"  {name:<28}{figure:>12}" for name, figure in figures.items())]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
