"""Every loss comes back with no hand, flagged meanwhile and right throughout; and not without any one rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from slicewise.lifecycle.compaction import Fill, Filling
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import control_record
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model.metadata_backup import MetadataBackup
from slicewise.stores.online.rules import decisions
from tests.simulation.worlds.losses import losses

SEEDS = 40
MUTANT_SEEDS = 400
of, after = Filling.of, MetadataBackup.after


def taking(wrongly: Fill) -> Callable[..., Fill]:
    """Rows are swapped as what lies below the start cover, which they are not."""

    def lenient(self: Filling, hour: int, seq: int, cover: OffsetVector | None) -> Fill:
        found = of(self, hour, seq, cover)
        return Fill.START if found is wrongly else found

    return lenient


def falling_back(self: MetadataBackup, marks: StoreMetadata) -> MetadataBackup:
    return replace(after(self, marks), ledger=marks.ledger)


def moved_freely(ledger: OffsetVector, wanted: OffsetVector, kept: object) -> OffsetVector:  # noqa: ARG001
    return OffsetVector({place: offset for place, offset in wanted.offsets.items() if offset > ledger.get(place)})


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "told": (MetadataBackup, "lost", lambda self, marks: OffsetVector()),  # noqa: ARG005
    "kept": (MetadataBackup, "after", falling_back),
    "deployed-again": (MetadataBackup, "to_be_deployed", lambda self, marks: False),  # noqa: ARG005
    "ahead": (decisions, "ahead", moved_freely),
    "lacking": (Filling, "of", taking(Fill.EXTEND)),
    "beyond": (Filling, "of", taking(Fill.RECOMPACT)),
    "term": (control_record, "unit_name", lambda fingerprint, term: fingerprint),  # noqa: ARG005
}


@pytest.mark.long
def test_what_is_lost_comes_back_by_itself_and_no_answer_is_wrong_or_silently_older() -> None:
    answers = 0
    for seed in range(SEEDS):
        told = losses(seed)
        assert told.wrong is None, str(told)
        answers += told.answers
    print(f"seeds 0..{SEEDS - 1}: {answers} answers compared, none wrong")
    assert answers > 100 * SEEDS, "histories in which hardly anything is ready prove nothing"


@pytest.mark.long
@pytest.mark.parametrize("rule", sorted(MUTANTS))
def test_without_the_rule_a_loss_goes_wrong(rule: str) -> None:
    with patch.object(*MUTANTS[rule]):
        for seed in range(MUTANT_SEEDS):
            told = losses(seed)
            if told.wrong is not None:
                print(f"without {rule}: seed {seed}: {told.wrong[:200]}")
                return
    pytest.fail(f"{MUTANT_SEEDS} histories do not need the rule {rule!r}")
