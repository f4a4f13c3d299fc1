"""A copy of the metadata keeps the largest committed offsets and the newest deployment seen, as one
whole text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector
from slicewise.stores import metadata_backup
from slicewise.stores.metadata_backup import MetadataBackup, MetadataBackupFile
from slicewise.stores.online.control_record import StoreMetadata
from tests.support.stores.stored import TOPIC, offset_vector

CURRENT = StoreMetadata(
    store_id=7,
    deployment_version=3,
    units="d3",
    topic_partitions=frozenset(),
    committed=offset_vector(10, 5),
    starts={},
    ready=frozenset(),
    building={},
    aliases={},
    topics={"plays": TOPIC},
    builds={},
    retired=0,
)


@pytest.mark.parametrize(
    ("changed", "deployed"),
    [
        ({"deployment_version": 2, "units": "d2"}, "d3"),  # the store fell back behind a deployment
        # a dump of before it was emptied
        ({"store_id": 6, "deployment_version": 9, "units": "d9"}, "d3"),
        ({"store_id": 8, "deployment_version": 0, "units": ""}, "d3"),  # it was emptied
        ({"store_id": 8, "deployment_version": 1, "units": "d1"}, "d1"),  # and somebody deployed
        ({"deployment_version": 4, "units": "d4"}, "d4"),
    ],
)
def test_the_newest_deployment_and_the_largest_committed_offsets_are_kept(
    changed: dict[str, Any], deployed: str
) -> None:
    result = metadata_backup.of(CURRENT).after(
        replace(CURRENT, committed=offset_vector(4, 9), **changed)
    )
    assert (result.units, result.committed) == (deployed, offset_vector(10, 9))


def test_a_copy_that_learns_nothing_is_the_same_object() -> None:
    kept = metadata_backup.of(CURRENT)
    assert kept.after(CURRENT) is kept


def test_a_copy_is_read_as_it_was_written_with_its_deployment_alone(tmp_path: Path) -> None:
    file = MetadataBackupFile(tmp_path / "stream")
    assert file.read() is None
    first, second = (
        metadata_backup.of(CURRENT),
        replace(metadata_backup.of(CURRENT), units="d4", committed=OffsetVector()),
    )
    file.write(first, "{}")
    assert (file.read(), file.manifest("d3")) == (first, "{}")
    file.write(second, '{"4": 4}')
    assert (file.read(), file.manifest("d3"), file.manifest("d4")) == (second, None, '{"4": 4}')


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"generation": 1}', metadata_backup.of(CURRENT).to_json()[:-9]]
)
def test_a_torn_copy_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(CodecError):
        MetadataBackup.parse(text)
    (tmp_path / metadata_backup.FILE).write_text(text)
    assert MetadataBackupFile(tmp_path).read() is None
