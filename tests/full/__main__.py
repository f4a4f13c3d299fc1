"""The full check: histories of flights, of plays and of random views are played through the engine,
and every value that is answered is compared, as bytes, with a second opinion from raw events and
with training.

    make check-full                                         15 million values
    make check-full FULL="--quick"                          a hundred thousand, in a minute
    make check-full FULL="--only random --seed 17 --histories 1"    one history again

Equal seeds compare equal values. The exit status is 1 where a value differs; which history it was
is told.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.whole.document import write_doc
from tests.full.compared import Counted, play
from tests.full.histories import SOURCES

VALUES, QUICK_VALUES = 15_000_000, 100_000
SIZE, QUICK_SIZE = 0.5, 0.12
CYCLE = ("flights", "plays", *("random",) * 6)
"""In turn: a random history is small."""
PRINT_EVERY_S = 10.0


@dataclass
class Total:
    """Counts of all histories so far."""

    counted: list[Counted] = field(default_factory=list)

    @property
    def values(self) -> int:
        return sum(source_counts.values for source_counts in self.counted)

    @property
    def mismatches(self) -> int:
        return sum(source_counts.mismatches for source_counts in self.counted)

    def lines(self, seed: int, seconds: float) -> list[str]:
        """The table that is told at the end."""
        head = (
            "",
            "histories",
            "events",
            "hours compacted",
            "answers",
            "online",
            "empty",
            "training",
            "values",
            "differ",
        )
        rows: list[tuple[str, ...]] = [head]
        for name in (*SOURCES, "all"):
            some = [
                source_counts
                for source_counts in self.counted
                if name in (source_counts.source, "all")
            ]
            if some:
                whole = [
                    sum(getattr(source_counts, of) for source_counts in some) for of in _SUMMED
                ]
                rows.append((name, f"{len(some):,}", *(f"{total:,}" for total in whole)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        bounds = sum(source_counts.bounds for source_counts in self.counted)
        lines.append(f"seed {seed}, {seconds:,.0f} s; {bounds:,} windows' bounds beside them")
        return lines


_SUMMED = ("events", "hours", "answers", "online", "empty", "training", "values", "mismatches")


def histories(only: Sequence[str], seed: int) -> Iterator[tuple[str, int]]:
    """Source and seed of each, without end."""
    cycle = [name for name in CYCLE if not only or name in only]
    return ((cycle[i % len(cycle)], seed + i) for i in count())


def run(given: argparse.Namespace, total: Total) -> None:
    """Plays as many histories as give the values, or as were asked for; counted in their order:
    equal seeds give equal counts."""
    printed = begun = time.monotonic()
    wanted: int = given.values
    most: int | None = given.histories
    chosen = histories(given.only, given.seed)
    with ProcessPoolExecutor(given.jobs) as pool:
        under_way: deque[Future[Counted]] = deque()
        while True:
            enough = (
                len(total.counted) >= most
                if most is not None
                else _enough(total, wanted, given.only)
            )
            if enough:
                break
            while len(under_way) < given.jobs + 1:
                source, seed = next(chosen)
                under_way.append(pool.submit(play, source, seed, given.size))
            done = under_way.popleft().result()
            total.counted.append(done)
            for line in done.wrong:
                print(line, flush=True)
            if done.mismatches:
                print(
                    (
                        f"again: --only {done.source} --seed {done.seed} --histories 1 --size "
                        f"{given.size}"
                    ),
                    flush=True,
                )
            if time.monotonic() - printed > PRINT_EVERY_S or done.mismatches:
                printed = time.monotonic()
                print(_progress(total, wanted, printed - begun), flush=True)
        pool.shutdown(wait=False, cancel_futures=True)


def _enough(total: Total, wanted: int, only: Sequence[str]) -> bool:
    return total.values >= wanted and {
        source_counts.source for source_counts in total.counted
    } >= set(only or SOURCES)


def _progress(total: Total, wanted: int, seconds: float) -> str:
    newest = total.counted[-1]
    part = f"{total.values:,} of {wanted:,} values" if wanted else f"{total.values:,} values"
    return (
        f"{seconds:5.0f} s: {part}, {total.mismatches:,} differ; last: {newest.source} seed "
        f"{newest.seed}"
    )


def main(arguments: Sequence[str]) -> int:
    given = _parse(arguments)
    begun = time.monotonic()
    total, ended = Total(), False
    try:
        run(given, total)
        ended = True
    except KeyboardInterrupt:
        print("stopped before its end: this is what was compared by then")
    lines = total.lines(given.seed, time.monotonic() - begun)
    lines.append(f"{total.values:,} values compared, {total.mismatches:,} differ")
    print("\n".join(lines))
    if given.doc and ended:
        write_doc(given.doc, "\n".join(lines), "make check-full")
    return 0 if ended and not total.mismatches else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "check-full", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="small histories, and a hundred thousand values"
    )
    parser.add_argument("--values", type=int, help=f"at least so many ({VALUES:,})")
    parser.add_argument("--histories", type=int, help="so many, however many values they are")
    parser.add_argument("--seed", type=int, default=1, help="of the first history (1)")
    parser.add_argument("--size", type=float, help=f"of a history ({SIZE})")
    parser.add_argument("--only", nargs="+", choices=[*SOURCES], default=[])
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (all cores)"
    )
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    if given.values is None:
        given.values = QUICK_VALUES if given.quick else VALUES
    if given.size is None:
        given.size = QUICK_SIZE if given.quick else SIZE
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
