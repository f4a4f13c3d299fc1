"""`python -m tests.simulation`: random histories of all worlds, and every pair of stops of two
actors.

    --seconds 180                               as many histories as that gives, from a seed that is told
    --seconds 180 --least 1000                  so many also where that takes longer
    --histories 500 --seed 0                    so many of each world
    --world realtime --seed 17 --shrink         one history, and if it goes wrong the shortest that does so
    --world realtime --without skip --shrink    histories without a rule, until one goes wrong
    --stops                                     every pair of stops
    --rules                                     which rule is needed by what, as docs/simulation.md shows it

A history that goes wrong prints its timeline. The exit status is 1 where anything is not as it
should be.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation import inventory
from tests.simulation.catalog import ENTRIES
from tests.simulation.histories import search


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--world", choices=[*ENTRIES], help="this world alone (default: all)")
    parser.add_argument("--seed", type=int, help="of the first history")
    parser.add_argument(
        "--histories", type=int, help="of each world (default: 1 where a seed is given, else 100)"
    )
    parser.add_argument("--seconds", type=float, help="as many histories as that gives")
    parser.add_argument(
        "--least", type=int, default=0, metavar="N", help="with --seconds: go on until there are N"
    )
    parser.add_argument("--without", metavar="RULE", help="leave this rule of the world out")
    parser.add_argument("--shrink", action="store_true", help="also of a history without a rule")
    parser.add_argument(
        "--stops", action="store_true", help="every pair of stops, instead of random histories"
    )
    parser.add_argument("--rules", action="store_true", help="the table of all rules")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    given = parser.parse_args()
    if given.rules:
        print(inventory.table(given.jobs))
        return 0
    if given.without:
        if given.world is None or given.without not in ENTRIES[given.world].mutants:
            parser.error(
                f"--without needs a --world, and one of its rules: {', '.join(_rules(given.world))}"
            )
        return search.without(
            ENTRIES[given.world], given.without, given.seed, given.histories or 800, given.shrink
        )
    if given.stops:
        return search.stops(given.jobs)
    worlds = [given.world] if given.world else [*ENTRIES]
    if given.seconds:
        first = int(time.time()) if given.seed is None else given.seed
        return search.timed(worlds, first, given.seconds, given.jobs, given.least)
    histories = given.histories or (100 if given.seed is None else 1)
    return search.counted(worlds, given.seed or 0, histories, given.jobs)


def _rules(world: str | None) -> list[str]:
    return (
        [*ENTRIES[world].mutants]
        if world
        else sorted({rule for entry in ENTRIES.values() for rule in entry.mutants})
    )


if __name__ == "__main__":
    sys.exit(main())
