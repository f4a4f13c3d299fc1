"""A platform's own folder knows of faults that its store does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.cli.findings import Picture, emptied
from slicewise.cli.operate import status as command
from slicewise.lifecycle.findings import Finding
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import overview
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.metadata_backup import MetadataBackup, MetadataBackupFile
from slicewise.stores.online.redis.status import StoreStatus

NOW = 1_700_000_000_000_000
WELL = StoreStatus(
    NOW,
    {"generation": b"3", "epoch": b"2", "units": b"digest"},
    {"sources": [{"name": "flights"}]},
    {"stream:flights": '{"state": "stopped", "heartbeat_us": 1699999999000000, "lag": 0}'},
)


def test_a_store_that_lost_its_deployment_is_no_new_one(tmp_path: Path) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")})
    empty = StoreStatus(NOW)
    assert emptied(settings, empty) == (), "nobody deployed yet"
    copy = MetadataBackupFile(settings.state_dir / "stream")
    copy.write(MetadataBackup(NOW, 2, "digest", OffsetVector(), {"flights": "aa"}), "{}")
    (result,) = emptied(settings, empty)
    assert (result.part, result.now, result.look) == (
        "store",
        True,
        "docs/runbook.md#the-store-is-not-well",
    )
    assert emptied(settings, WELL) == ()


def test_all_is_well_is_not_said_of_a_stream_that_is_stopped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    past = (
        Finding(
            "stream", "stopped on purpose: answers grow old", "slicewise stream ensure", now=False
        ),
    )
    stopped = Picture((), overview(WELL, Limits()), past)
    command.show(stopped)
    output = capsys.readouterr().out
    assert "stopped on purpose" in output
    assert "all is well" not in output
    running = replace(
        WELL, parts={"stream:flights": WELL.parts["stream:flights"].replace("stopped", "running")}
    )
    command.show(Picture((), overview(running, Limits()), ()))
    assert "all is well" in capsys.readouterr().out
