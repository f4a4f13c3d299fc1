"""The folder of a test decides where it runs and whether it may start servers; no file states
either."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.architecture.import_table import PACKAGE, python_files
from tests.conftest import SERVED, STARTS, TESTS, environment_of, markers_of, starts_unmarked

STATED = re.compile(r"\bmark\.(server|spark|airflow)\b")
BESIDE_THE_PACKAGE = {
    "benchmarks": "the figures that benchmarks/ takes",
    "golden": "bytes that every release reads",
}
"""Folders of tests/unit that are no rooms, and what they are about."""


def test_no_file_states_its_environment() -> None:
    stated = [
        path.relative_to(TESTS).as_posix()
        for path in python_files("tests")
        if path != Path(__file__).resolve() and STATED.search(path.read_text(encoding="utf-8"))
    ]
    assert stated == ["contract/conftest.py"], "the adapters of one suite alone differ in it"


def test_folders_that_may_start_servers_exist() -> None:
    assert [name for name in SERVED if not (TESTS / name).is_dir()] == []


@pytest.mark.parametrize(
    ("file", "environment", "markers"),
    [
        ("unit/codec/test_x.py", "platform", ()),
        ("unit/checks/spark/test_x.py", "spark", ("spark",)),
        ("parity/spark/test_x.py", "spark", ("server", "spark")),
        ("dags/test_x.py", "airflow", ("airflow",)),
        ("contract/test_x.py", "platform", ()),
        ("contract/redis/test_x.py", "platform", ("server",)),
    ],
)
def test_marks_follow_from_the_folder(
    file: str, environment: str, markers: tuple[str, ...]
) -> None:
    assert (environment_of(TESTS / file), markers_of(TESTS / file)) == (environment, markers)


@pytest.mark.parametrize("marked", [True, False])
def test_a_server_is_asked_for_in_folders_of_servers_only(marked: bool) -> None:
    for name in STARTS:
        item = SimpleNamespace(
            get_closest_marker=lambda _: marked or None, fixturenames=["tmp_path", name]
        )
        assert starts_unmarked(cast(Any, item)) is not marked
    assert not starts_unmarked(
        cast(Any, SimpleNamespace(get_closest_marker=lambda _: None, fixturenames=["tmp_path"]))
    )


def test_tests_of_a_room_stand_in_a_folder_of_its_path() -> None:
    unit = TESTS / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    # a folder named spark below a room is its environment
    rooms = {
        folder.parent if folder.name == "spark" and len(folder.parts) > 1 else folder
        for folder in folders
    }
    missing = [
        room.as_posix()
        for room in sorted(rooms)
        if room.parts and room.parts[0] not in BESIDE_THE_PACKAGE and not (PACKAGE / room).is_dir()
    ]
    assert not missing
