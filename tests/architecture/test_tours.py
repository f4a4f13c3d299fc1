"""A read and a write go through few files, and mostly down: traced, not told.

The read is one of an entity by a service that has answered before, in process, from the store in
memory. The write is what a task does with the rows of a partition that it gets, to the same store.
A file counts when a function of it runs. A climb is a call from a file to one that imports
it, directly or by others: who reads down the page is sent back up. Going on with a generator is no
call. Climbs that are left are calls of what was handed in: steps that the store drives, rows that
are gathered, an aggregate that finishes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from slicewise.serving.answering.requests import checked
from slicewise.spark.microbatch.apply import Placed, SourceRows, batch_of
from slicewise.stores.online.memory.store import open_memory
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from tests.architecture.import_table import PACKAGE
from tests.architecture.test_rooms import arrows, module_of, reachable
from tests.support.stores import in_memory

NOW_US, ROWS, TOPIC = 1_700_000_000_000_000, 4, in_memory.TOPIC
BELOW = ("stores/", "clock.py")
MOST_OF_THE_READ = 12
"""Files above the store: those of 22 at first."""
MOST_FILES = 20
"""Files of the whole package, with the store in memory and the clock."""
MOST_CLIMBS = 3
MOST_OF_A_WRITE = 22
"""Files of the whole package that a micro-batch's rows go through."""
MOST_CLIMBS_OF_A_WRITE = 7


@dataclass
class Tour:
    """Files that a call goes through, in the order of their first entry, and its climbs."""

    files: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """(from file, to file, name of the function) where the file changes."""
    _begun: set[FrameType] = field(default_factory=set)

    def of(self, call: Callable[[], object]) -> Tour:
        """The tour of a call."""
        before = sys.getprofile()
        sys.setprofile(self._saw)
        try:
            call()
        finally:
            sys.setprofile(before)
        return self

    def _saw(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame in self._begun or (name := file_of(frame)) is None:
            return
        self._begun.add(frame)  # kept, so that no other frame is taken for it
        if name not in self.files:
            self.files.append(name)
        caller = frame.f_back
        while caller is not None and file_of(caller) is None:
            caller = caller.f_back
        if caller is not None and (origin := file_of(caller)) not in (None, name):
            self.calls.append((str(origin), name, frame.f_code.co_name))

    def climbs(self) -> list[str]:
        """Calls of a file that imports the caller's."""
        graph = arrows()
        above = {
            module_of(PACKAGE / name): reachable(graph, module_of(PACKAGE / name))
            for name in self.files
        }
        return [
            f"{origin} -> {target} {name}"
            for origin, target, name in self.calls
            if module_of(PACKAGE / origin) in above[module_of(PACKAGE / target)]
        ]


def file_of(frame: FrameType) -> str | None:
    """The file of the package that a frame runs in."""
    name = frame.f_code.co_filename
    return name.removeprefix(f"{PACKAGE}/") if name.startswith(f"{PACKAGE}/") else None


@pytest.fixture(scope="module")
def tour() -> Tour:
    world = in_memory.world(in_memory.deployment())
    request = checked(None, "strict", [{"user": "ada"}])
    for _ in range(3):  # the catalog is loaded, the plan kept
        world.connection.run(world.service.read(request))
    return Tour().of(lambda: world.connection.run(world.service.read(request)))


@pytest.fixture(scope="module")
def write() -> Tour:
    deployed = in_memory.deployment()
    (unit,) = deployed.units
    store = open_memory(in_memory.world(deployed).server)
    placed = Placed(unit.storage_fingerprint, "keep", ("user",), {})

    def task(first: int) -> None:
        batch = batch_of(unit, placed, SourceRows.of(rows(first), TOPIC, 0))
        assert batch is not None
        assert store.run(ApplyBatch(batch)).applied == ROWS

    task(0)  # what is imported late has been
    return Tour().of(lambda: task(ROWS))


def rows(first: int) -> pa.Table:
    """Rows of one partition as a task gets them; first: offset of the first."""
    return pa.table(
        {
            "partition": pa.array([0] * ROWS, pa.int32()),
            "offset": pa.array(range(first, first + ROWS), pa.int64()),
            "event_time": pa.array([NOW_US] * ROWS, pa.int64()),
            "kafka_time": pa.array([NOW_US] * ROWS, pa.int64()),
            "keep": pa.array([0] * ROWS, pa.int32()),
            "user": pa.array(["ada", "bob"] * (ROWS // 2)),
        }
    )


def test_a_read_enters_few_files(tour: Tour) -> None:
    print("\n".join(tour.files))
    own = [name for name in tour.files if not name.startswith(BELOW)]
    assert len(own) <= MOST_OF_THE_READ, own
    assert len(tour.files) <= MOST_FILES, tour.files


def test_a_read_climbs_seldom(tour: Tour) -> None:
    climbs = tour.climbs()
    print("\n".join(climbs))
    assert len(climbs) <= MOST_CLIMBS, climbs


def test_a_write_enters_few_files_and_climbs_seldom(write: Tour) -> None:
    climbs = write.climbs()
    print("\n".join([*write.files, *climbs]))
    assert len(write.files) <= MOST_OF_A_WRITE, write.files
    assert len(climbs) <= MOST_CLIMBS_OF_A_WRITE, climbs


def test_a_call_of_what_imports_the_caller_is_a_climb() -> None:
    tour = Tour(["reading/reader.py", "reading/answer.py"])
    tour.calls = [
        ("reading/reader.py", "reading/answer.py", "merge"),
        ("reading/answer.py", "reading/reader.py", "up"),
    ]
    assert tour.climbs() == ["reading/answer.py -> reading/reader.py up"]
