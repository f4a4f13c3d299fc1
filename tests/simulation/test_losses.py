"""Every loss comes back with no hand, flagged meanwhile and right throughout; and not without any
one rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from slicewise.lifecycle.compaction import Fill, Filling
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.metadata_backup import MetadataBackup
from slicewise.stores.online import control_record
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.rules import decisions
from tests.simulation.worlds.losses import losses

SEEDS = 40
MUTANT_SEEDS = 400
of, after = Filling.of, MetadataBackup.after


def taking(wrongly: Fill) -> Callable[..., Fill]:
    """Rows are published as what lies below the start offsets, which they are not."""

    def lenient(
        self: Filling, hour: int, archive_version: int, offset_vector: OffsetVector | None
    ) -> Fill:
        result = of(self, hour, archive_version, offset_vector)
        return Fill.START if result is wrongly else result

    return lenient


def falling_back(self: MetadataBackup, metadata: StoreMetadata) -> MetadataBackup:
    return replace(after(self, metadata), committed=metadata.committed)


def moved_freely(committed: OffsetVector, wanted: OffsetVector, kept: object) -> OffsetVector:  # noqa: ARG001
    return OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in wanted.offsets.items()
            if offset > committed.get(topic_partition)
        }
    )


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "told": (MetadataBackup, "lost", lambda self, metadata: OffsetVector()),  # noqa: ARG005
    "kept": (MetadataBackup, "after", falling_back),
    "deployed-again": (MetadataBackup, "to_be_deployed", lambda self, metadata: False),  # noqa: ARG005
    "resumed": (decisions, "resumed", moved_freely),
    "lacking": (Filling, "of", taking(Fill.EXTEND)),
    "beyond": (Filling, "of", taking(Fill.RECOMPACT)),
    "build": (control_record, "unit_name", lambda fingerprint, build: fingerprint),  # noqa: ARG005
}


@pytest.mark.long
def test_what_is_lost_comes_back_by_itself_and_no_answer_is_wrong_or_silently_older() -> None:
    answers = 0
    for seed in range(SEEDS):
        history = losses(seed)
        assert history.wrong is None, str(history)
        answers += history.answers
    print(f"seeds 0..{SEEDS - 1}: {answers} answers compared, none wrong")
    assert answers > 100 * SEEDS, "histories in which hardly anything is ready prove nothing"


@pytest.mark.long
@pytest.mark.parametrize("rule", sorted(MUTANTS))
def test_without_the_rule_a_loss_goes_wrong(rule: str) -> None:
    with patch.object(*MUTANTS[rule]):
        for seed in range(MUTANT_SEEDS):
            history = losses(seed)
            if history.wrong is not None:
                print(f"without {rule}: seed {seed}: {history.wrong[:200]}")
                return
    pytest.fail(f"{MUTANT_SEEDS} histories do not need the rule {rule!r}")
