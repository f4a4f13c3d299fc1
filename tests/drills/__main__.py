"""`python -m tests.drills`: faults on real processes, as many as a time gives.

    --time 1800            after so many seconds no drill is begun any more
    --seed 7               of all that is random (default: of the clock; it is told)
    --only kill-tail       this drill; may be given again
    --quick                a few, with one kill each
    --records FILE         where each drill's line goes (default: docs/drills.jsonl; of --quick: .drills.jsonl)
    --list                 the drills
    --table                write the table of docs/faults.md from the records

The exit status is 1 where a value differs, a token went back, or a drill did not end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.drills.catalog import DRILLS
from tests.drills.judging import records
from tests.drills.play import play

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "faults.md"
RECORDS = ROOT / "docs" / "drills.jsonl"
_QUICK_RECORDS = ROOT / ".drills.jsonl"
"""Records of drills that kill less than the page says."""
_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.drills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--time", type=float, help="seconds after which no drill is begun")
    parser.add_argument("--seed", type=int, help="of all that is random")
    parser.add_argument("--only", action="append", choices=[*DRILLS], help="this drill")
    parser.add_argument("--quick", action="store_true", help="a few, with one kill each")
    parser.add_argument("--records", type=Path, help="a line for each drill")
    parser.add_argument("--list", action="store_true", help="the drills")
    parser.add_argument("--table", action="store_true", help="write the table of docs/faults.md")
    given = parser.parse_args()
    file = given.records or (_QUICK_RECORDS if given.quick else RECORDS)
    if given.list:
        for drill in DRILLS.values():
            print(f"{drill.name:<16} {drill.fault} ({', '.join(drill.invariants)})")
        return 0
    if given.table:
        return table(file)
    # what was mounted and started goes with it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = int(time.time()) if given.seed is None else given.seed
    names = given.only or [name for name, drill in DRILLS.items() if drill.quick or not given.quick]
    print(f"seed {seed}: {', '.join(names)}", flush=True)
    passed = True
    for drilled in play(names, seed, once=given.quick, seconds=given.time):
        records.keep(file, drilled)
        print(
            "\n".join((str(drilled), *(f"  {fault}" for fault in drilled.wrong[:_SHOWN]))),
            flush=True,
        )
        passed &= drilled.passed
    return 0 if passed else 1


def table(file: Path) -> int:
    """Writes it; 1 where there is nothing to write."""
    if not file.exists():
        print(f"no records in {file}: make test-faults writes them", file=sys.stderr)
        return 1
    PAGE.write_text(
        records.written(PAGE.read_text(encoding="utf-8"), records.read(file), [*DRILLS]),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
