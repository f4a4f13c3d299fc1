"""A copy of the marks keeps the largest ledger and the newest deployment seen, as one whole text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import metadata_backup as witness
from slicewise.stores.online.model.metadata_backup import MetadataBackup, MetadataBackupFile
from tests.support.stores.stored import TOPIC, cover

STANDS = StoreMetadata(
    generation=7,
    epoch=3,
    units="d3",
    places=frozenset(),
    ledger=cover(10, 5),
    starts={},
    ready=frozenset(),
    building={},
    aliases={},
    topics={"plays": TOPIC},
    terms={},
    retired=0,
)


@pytest.mark.parametrize(
    ("changed", "deployed"),
    [
        ({"epoch": 2, "units": "d2"}, "d3"),  # the store fell back behind a deployment
        ({"generation": 6, "epoch": 9, "units": "d9"}, "d3"),  # a dump of before it was emptied
        ({"generation": 8, "epoch": 0, "units": ""}, "d3"),  # it was emptied
        ({"generation": 8, "epoch": 1, "units": "d1"}, "d1"),  # and somebody deployed
        ({"epoch": 4, "units": "d4"}, "d4"),
    ],
)
def test_the_newest_deployment_and_the_largest_ledger_are_kept(changed: dict[str, object], deployed: str) -> None:
    found = witness.of(STANDS).after(replace(STANDS, ledger=cover(4, 9), **changed))  # type: ignore[arg-type]
    assert (found.units, found.ledger) == (deployed, cover(10, 9))


def test_a_copy_that_learns_nothing_is_the_same_object() -> None:
    kept = witness.of(STANDS)
    assert kept.after(STANDS) is kept


def test_a_copy_is_read_as_it_was_written_with_its_deployment_alone(tmp_path: Path) -> None:
    file = MetadataBackupFile(tmp_path / "stream")
    assert file.read() is None
    first, second = witness.of(STANDS), replace(witness.of(STANDS), units="d4", ledger=OffsetVector())
    file.write(first, "{}")
    assert (file.read(), file.manifest("d3")) == (first, "{}")
    file.write(second, '{"4": 4}')
    assert (file.read(), file.manifest("d3"), file.manifest("d4")) == (second, None, '{"4": 4}')


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"generation": 1}', witness.of(STANDS).to_json()[:-9]])
def test_a_torn_copy_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(CodecError):
        MetadataBackup.parse(text)
    (tmp_path / witness.FILE).write_text(text)
    assert MetadataBackupFile(tmp_path).read() is None
