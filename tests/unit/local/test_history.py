"""The history survives bad lines and full disks, and is no longer than its days."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.local import history
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.windows.durations import DAY_US

NOW_US = 20_000 * DAY_US + 5


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    loaded = Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")})
    StateFolder(loaded.state_dir).create()
    return loaded


def test_entries_are_read_in_the_order_of_their_times_since_one(settings: Settings) -> None:
    for at_us in (NOW_US, NOW_US - DAY_US, NOW_US - 3 * DAY_US):
        history.keep(settings, {"kind": "minute", "at_us": at_us})
    entries = history.read(settings, NOW_US - DAY_US)
    assert [entry["at_us"] for entry in entries] == [NOW_US - DAY_US, NOW_US]


def test_a_line_that_cannot_be_read_hides_no_other(settings: Settings) -> None:
    history.keep(settings, {"kind": "minute", "at_us": NOW_US})
    (file,) = history.folder(settings).iterdir()
    file.write_bytes(b'{"kind": "min\n\xff\n[]\n' + file.read_bytes())
    assert len(history.read(settings, 0)) == 1


def test_days_that_are_old_go(settings: Settings) -> None:
    history.keep(settings, {"kind": "minute", "at_us": NOW_US - 60 * DAY_US})
    history.keep(settings, {"kind": "minute", "at_us": NOW_US - history.KEPT_DAYS * DAY_US})
    history.keep(settings, {"kind": "minute", "at_us": NOW_US})
    assert len(history.read(settings, 0)) == 2


def test_a_history_that_cannot_be_written_fails_nothing(settings: Settings) -> None:
    (settings.state_dir / "reports").write_text("in the way")
    history.keep(settings, {"kind": "minute", "at_us": NOW_US})
    assert history.read(settings, 0) == ()
