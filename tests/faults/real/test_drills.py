"""The quick drills: whoever of tail and fold is killed or wakes as a zombie, every answer is what its token says."""

from __future__ import annotations

import pytest

from tests.faults.real.drills import DRILLS
from tests.faults.real.play import play

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(1500)]

SEED = 20261122
LEAST = 1_000
"""Values of a drill; fewer show nothing."""


def test_every_answer_is_what_its_token_says_through_the_quick_drills() -> None:
    quick = [name for name, drill in DRILLS.items() if drill.quick]
    found = list(play(quick, SEED, once=True))
    print("\n".join(map(str, found)))
    assert [each.drill for each in found] == quick
    for each in found:
        assert each.passed, "\n".join((str(each), *each.wrong[:20]))
        assert each.kills
        assert each.compared > LEAST
