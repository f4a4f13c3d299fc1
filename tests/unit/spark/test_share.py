"""The micro-batch lane gives way while nobody waits for it, and only with what is its own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from slicewise.lifecycle.health.realtime import Pace
from slicewise.local.servers import process
from slicewise.spark.microbatch.streaming import SourceQuery
from slicewise.spark.runtime.share import AUTOGROUP, Share


@pytest.fixture
def autogroup(tmp_path: Path) -> Path:
    file = tmp_path / "autogroup"
    file.write_text("")
    return file


def test_a_session_of_its_own_gives_way_and_takes_its_part_back(autogroup: Path) -> None:
    share = Share(autogroup, own=True)
    share.give_way(False)
    assert autogroup.read_text() == "", "an equal part is what it had"
    share.give_way(True)
    assert autogroup.read_text() == "15"
    autogroup.write_text("")
    share.give_way(True)
    assert autogroup.read_text() == "", "the kernel is told what changes"
    share.give_way(False)
    assert autogroup.read_text() == "0"


def test_a_session_that_others_share_is_left_alone(autogroup: Path) -> None:
    Share(autogroup, own=False).give_way(True)
    assert autogroup.read_text() == ""


def test_where_the_kernel_refuses_it_is_asked_again(tmp_path: Path) -> None:
    share = Share(tmp_path / "autogroup", own=True)
    share.give_way(True)
    (tmp_path / "autogroup").write_text("")
    share.give_way(True)
    assert (tmp_path / "autogroup").read_text() == "15"


def test_what_the_platform_starts_leads_its_session_and_can_give_way(tmp_path: Path) -> None:
    log = tmp_path / "said"
    script = (
        "from slicewise.spark.runtime.share import *; Share().give_way(True); "
        f"print(open({str(AUTOGROUP)!r}).read())"
    )
    process.spawn([sys.executable, "-c", script], dict(os.environ), tmp_path, log)
    deadline = time.monotonic() + 30
    while not (log.exists() and log.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    output = log.read_text()
    if AUTOGROUP.exists():  # a kernel without them has nothing to say
        assert "nice 15" in output, output
    else:
        assert "FileNotFoundError" in output, output


def _query(
    *, paced: bool = True, has_realtime: bool = True, waits: bool = True, since_s: float = 0.2
) -> SourceQuery:
    query = object.__new__(SourceQuery)
    query.paced, query._all_realtime, query._waits, query._pace = (
        paced,
        has_realtime,
        waits,
        Pace(1.0, 1_000, 200_000),
    )
    query._begun = time.monotonic() - since_s
    return query


def test_a_micro_batch_gives_way_only_while_the_real_time_lane_brings_all_and_its_batches_are_not_overdue() -> (
    None
):
    assert _query().in_time(2_000)
    assert not _query(paced=False).in_time(0), "answers wait for it"
    assert not _query(has_realtime=False).in_time(0), "those of a view wait for it"
    assert not _query(waits=False).in_time(2_000), "its last batch was behind"
    assert not _query(since_s=2.1).in_time(2_000), "the next batch, or its end, is overdue"
    assert _query(waits=False, since_s=100.0).in_time(0), "nothing is left to do"
