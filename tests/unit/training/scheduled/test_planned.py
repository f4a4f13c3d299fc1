"""Scheduled snapshots are read from a file, or refused with what is wrong in it; their instants
follow from the newest that was taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import BadRequest, SettingsError
from slicewise.settings import Settings
from slicewise.training.scheduled.planned import (
    MOST_MISSING,
    ScheduledSnapshot,
    chosen,
    load_scheduled,
)
from slicewise.windows.durations import DAY_US, HOUR_US

DAILY = ScheduledSnapshot("daily", "churn", "snapshots.churn", "1d", DAY_US)
GOOD = """
[snapshots.daily]
features = "churn"
table = "snapshots.churn"
every = "1d"

[snapshots.hourly]
features = ["plays:n_1h"]
table = "snapshots.plays"
every = "3h"
"""


def settings(tmp_path: Path, text: str | None) -> Settings:
    file = tmp_path / "snapshots.toml"
    if text is not None:
        file.write_text(text)
    return replace(Settings.load({}, tmp_path), snapshots=file)


def test_a_file_says_what_is_taken(tmp_path: Path) -> None:
    planned = load_scheduled(settings(tmp_path, GOOD))
    hourly = ScheduledSnapshot("hourly", ("plays:n_1h",), "snapshots.plays", "3h", 3 * HOUR_US)
    assert planned == (DAILY, hourly)
    assert chosen(planned, ()) == planned
    assert chosen(planned, ("hourly",)) == (hourly,)
    with pytest.raises(BadRequest, match=r"(?s)no scheduled snapshot 'x'.*daily, hourly"):
        chosen(planned, ("x",))


def test_without_a_file_nothing_is_taken_unless_one_is_named(tmp_path: Path) -> None:
    assert load_scheduled(Settings.load({}, tmp_path)) == ()
    with pytest.raises(SettingsError, match="there is no such file"):
        load_scheduled(replace(Settings.load({}, tmp_path), snapshots=tmp_path / "other.toml"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "readable TOML"),
        ("[other]", r"tables \[snapshots\.<name>\] alone"),
        ("[snapshots.a]\nevery = '1d'", "the fields every, features, table"),
        (GOOD.replace('"churn"', "7"), r"\[snapshots\.daily\] features"),
        (GOOD.replace('["plays:n_1h"]', "[]"), r"\[snapshots\.hourly\] features"),
        (GOOD.replace('"snapshots.churn"', '"churn"'), r"\[snapshots\.daily\] table"),
        (GOOD.replace('"1d"', '"day"'), r"\[snapshots\.daily\] every"),
        (GOOD.replace('"1d"', '"90m"'), "whole hours"),
        (GOOD.replace("snapshots.plays", "snapshots.churn"), "which two snapshots name"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=f"(?s){why}"):
        load_scheduled(settings(tmp_path, text))


@given(st.integers(0, 100 * DAY_US), st.integers(0, 100 * DAY_US))
def test_each_instant_is_taken_once_and_none_before_its_time(newest: int, now: int) -> None:
    newest = newest // DAY_US * DAY_US
    ats = DAILY.missing(newest, now)
    assert list(ats) == sorted(set(ats))
    assert all(at % DAY_US == 0 and newest < at <= now for at in ats)
    every = range(newest + DAY_US, now + 1, DAY_US)
    assert list(ats) == list(every)[-MOST_MISSING:]


def test_a_table_that_has_none_begins_with_the_last_instant() -> None:
    assert DAILY.missing(None, 10 * DAY_US + 5) == (10 * DAY_US,)
