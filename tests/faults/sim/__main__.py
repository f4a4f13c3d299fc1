"""`python -m tests.faults.sim N [RULE] [--seed FIRST]`: N histories, without a rule if one is named.

Prints the story of the first that goes wrong; exits with 1 where that is not as it should be.
"""

from __future__ import annotations

import argparse
import sys

from tests.faults.sim.history import history
from tests.faults.sim.mutants import PAUSES, RULES, removed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sim")
    parser.add_argument("histories", type=int, nargs="?", default=500)
    parser.add_argument("rule", nargs="?", choices=[*RULES, *PAUSES], help="leave this rule out")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    given = parser.parse_args()
    answers = 0
    with removed(given.rule or "") as rules:
        for seed in range(given.seed, given.seed + given.histories):
            told = history(seed, rules)
            answers += told.answers
            if told.wrong:
                print(told)
                break
    found = told.wrong is not None
    print(f"seeds {given.seed}..{seed}: {answers} answers compared, {'one' if found else 'none'} wrong")
    return int(found == (given.rule is None))


if __name__ == "__main__":
    sys.exit(main())
