"""A status and its metrics are what readers know: each name, label and figure as ever.

`golden/statuses.json` has, per lane and look at it, the JSON and the Prometheus text that the
classes before docs/adr/0084 gave for the same happenings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from prometheus_client import generate_latest

from slicewise.clock import ManualClock
from slicewise.emission.ticks import Correction, Tick
from slicewise.errors import BadRequest
from slicewise.spark.driver import Lane
from slicewise.spark.emission.figures import ViewFigures
from slicewise.spark.microbatch.figures import BatchFigures, SourceFigures
from slicewise.spark.realtime.figures import WriterFigures, WriterStatus
from slicewise.spark.runtime.status_sinks import (
    Metrics,
    emission_metrics,
    put_statuses,
    realtime_metrics,
    write_heartbeat,
)
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.model.status import OUTCOMES, Status, Totals, ViewStatus
from slicewise.stores.online.operations.status import ReadStatus

NOW, SECOND = 1_700_000_000_000_000, 1_000_000
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "statuses.json").read_text())
REASONS = {1: "null_entity", 2: "filtered"}
NOTHING = cast(Any, None)


class Looks:
    """A lane's figures; a look gives its status and shows it."""

    def __init__(self, metrics: Metrics) -> None:
        self.clock, self.metrics, self.seen = ManualClock(NOW), metrics, list[dict[str, Any]]()
        self.source = SourceFigures("plays", self.clock)
        self.statuses: list[Status] = []

    def look(self, lane: Lane) -> None:
        status = lane.status()
        self.metrics.show(status)
        self.statuses.append(status)
        self.seen.append(
            {"status": json.dumps(status.to_json()), "metrics": exposition(self.metrics)}
        )


def exposition(metrics: Metrics) -> str:
    """The text, its lines sorted: their order says nothing. Since when a figure is counted was the
    wall clock's."""
    text = re.sub(r"(_created\{.*\}) .*", r"\1 SINCE", generate_latest(metrics.registry).decode())
    return "\n".join(sorted(text.splitlines()))


def outcome(records: int, bad: Any, units: Any, *fresh: float) -> dict[str, Any]:
    return {"records": records, "freshness_ms": list(fresh), "bad": bad, "units": units}


def unit(left_out: dict[str, int], **more: int) -> dict[str, Any]:
    return {"left_out": left_out, "most": 1, **more}


def stream() -> Looks:
    looks = Looks(Metrics())
    lane, clock = BatchFigures(looks.source), looks.clock
    looks.source.realtime = "on"
    looks.look(lane)
    clock.advance(2 * SECOND)
    first = {"u1": unit({"1": 2}), "u2": unit({})}
    second = {"u1": unit({"1": 1}, cut=4, duplicates=0), "u2": unit({"2": 6}, duplicates=9)}
    outcomes = [
        outcome(7, {"wrong_type: a": 2, "not_json": 1}, first, 5.5, 120.0),
        outcome(3, {"wrong_type: b": 1}, second, 30.0),
    ]
    assert lane.applied(outcomes, 0.25, REASONS) == 10
    looks.source.lagging({0: 4, 1: 0})
    looks.source.lost = 11
    clock.advance(SECOND // 2)
    looks.look(lane)
    clock.advance(3 * SECOND)
    lane.applied([outcome(50, {}, {"u1": unit({"1": 1})}, 900.0)], 1.125, REASONS)
    looks.source.lagging({0: 0, 1: 0})
    looks.source.lost = 0
    looks.source.restarted("the store is away")
    clock.advance(58 * SECOND)
    looks.look(lane)
    looks.source.state = "stopped"
    clock.advance(60 * SECOND)
    looks.source.restarted("again")
    looks.look(lane)
    return looks


def emitted(view: str, *units: tuple[int, int, int]) -> Any:
    emissions = [
        SimpleNamespace(state=SimpleNamespace(rows=rows), late_rows=late, too_late=too_late)
        for rows, late, too_late in units
    ]
    return SimpleNamespace(view=view, emissions=emissions)


def tick(*changed: bool) -> Tick:
    return Tick("songs", NOTHING, 0, 0, NOTHING, NOTHING, np.array(changed), NOTHING)


def at(instant_us: int) -> Any:
    return SimpleNamespace(instant_us=instant_us)


def emission() -> Looks:
    looks = Looks(emission_metrics())
    lane, clock = ViewFigures(looks.source), looks.clock
    looks.look(lane)
    lane.begun("songs", NOW - 9 * SECOND)
    lane.begun("users", NOW)
    looks.source.lagging({0: 3})
    looks.look(lane)
    clock.advance(SECOND)
    ends = np.array([1, 2])
    correction = Correction("songs", NOTHING, ends, NOTHING, NOTHING, NOTHING, [], NOTHING)
    units = (10, 1, 0), (5, 0, 2)
    some: list[Tick | Correction] = [tick(True, False, True), correction]
    lane.published(emitted("songs", *units), at(NOW - SECOND), some)
    units = (11, 2, 0), (5, 0, 2)
    lane.published(emitted("songs", *units), at(NOW - SECOND // 4), [tick(True)])
    lane.skipped("songs", {"top": 2, "low": 1})
    lane.skipped("songs", {"top": 3})
    lane.skipped("users", {})
    lane.read(40, 0.5)
    looks.source.lagging({0: 0})
    clock.advance(4 * SECOND)
    looks.look(lane)
    lane.begun("songs", NOW)  # another query: metrics go on, its own figures begin anew
    lane.published(emitted("songs", (1, 0, 0)), at(NOW + SECOND), [tick(True, True)])
    lane.skipped("songs", {"top": 1})
    looks.source.restarted("another deployment")
    looks.look(lane)
    return looks


def writer(run: str, partition: int, rows: int, quick: int, **more: int) -> WriterStatus:
    values = {
        "run": run,
        "partition": partition,
        "acked": rows - 1,
        "rows": rows,
        "written": 2 * rows,
        "ms": {"bounds": [1.0, 10.0], "counts": [quick, rows, rows], "sum": 3.5},
    }
    return WriterStatus.parse(json.dumps(values | more))


def realtime() -> Looks:
    looks = Looks(realtime_metrics())
    lane, clock = WriterFigures(looks.source), looks.clock
    looks.source.waiting = "the micro-batch lane is behind"
    looks.source.lagging({0: 9})
    looks.look(lane)
    looks.source.waiting = None
    clock.advance(SECOND)
    lane.take_in([writer("a", 0, 10, 9), writer("a", 1, 4, 4, expired=3)])
    looks.source.lagging({0: 0, 1: 2})
    clock.advance(2 * SECOND)
    looks.look(lane)
    lane.take_in([writer("a", 0, 10, 9), writer("a", 1, 6, 6, skipped=2, expired=3)])
    other = {"known": 1, "reconnects": 2}
    lane.take_in([writer("b", 0, 3, 0, **other)])
    looks.source.restarted("a writer failed")
    clock.advance(59 * SECOND)
    looks.look(lane)
    clock.advance(60 * SECOND)
    looks.look(lane)
    return looks


LANES: dict[str, Callable[[], Looks]] = {
    "stream": stream,
    "emission": emission,
    "realtime": realtime,
}


@pytest.mark.parametrize("lane", LANES)
def test_the_json_of_a_status_is_byte_for_byte_what_it_was(lane: str) -> None:
    assert [seen["status"] for seen in LANES[lane]().seen] == [
        seen["status"] for seen in GOLDEN[lane]
    ]


@pytest.mark.parametrize("lane", LANES)
def test_metrics_are_line_for_line_what_they_were(lane: str) -> None:
    for seen, golden in zip(LANES[lane]().seen, GOLDEN[lane], strict=True):
        assert seen["metrics"] == golden["metrics"]


@pytest.mark.parametrize("lane", LANES)
def test_a_status_that_is_shown_again_counts_nothing_twice(lane: str) -> None:
    looks = LANES[lane]()
    looks.metrics.show(looks.statuses[-1])
    assert exposition(looks.metrics) == GOLDEN[lane][-1]["metrics"]


@pytest.mark.parametrize("lane", LANES)
def test_who_parses_a_status_has_all_that_its_json_says(lane: str) -> None:
    for text in (seen["status"] for seen in GOLDEN[lane]):
        assert json.dumps(Status.parse("plays", text).to_json()) == text


def test_store_and_heartbeat_file_have_the_same_status(tmp_path: Path) -> None:
    looks = stream()
    *_, status = looks.statuses
    store, file = open_memory(MemoryServer(looks.clock)), tmp_path / "heartbeat.json"
    put_statuses(store, "stream", [status])
    write_heartbeat(file, [status], 9100, "on")
    text = store.run(ReadStatus("stream:plays"))
    assert text is not None
    assert text == GOLDEN["stream"][-1]["status"]
    assert json.loads(file.read_text()) == {
        "metrics_port": 9100,
        "tail": "on",
        "sources": {"plays": json.loads(text)},
    }


def test_a_view_that_moved_to_another_source_is_one_series_and_goes_on() -> None:
    metrics = emission_metrics()
    totals = Totals(1, 0.5, {"clicks": 100}, {}, {})
    behind = {"clicks": ViewStatus(1, partials=5, late_events=0, too_late_events=0, behind_ms=40)}
    metrics.show(
        Status("new", "running", 9 * SECOND, views=behind, totals=Totals(1, 0.5, {"clicks": 3}))
    )
    metrics.show(Status("old", "running", 2 * SECOND, views={}, totals=totals))
    lines = exposition(metrics).splitlines()
    assert [line for line in lines if line.startswith("slicewise_emit_windows_total")] == [
        'slicewise_emit_windows_total{view="clicks"} 103.0'
    ]
    assert [line for line in lines if line.startswith("slicewise_emit_behind_seconds{")] == [
        'slicewise_emit_behind_seconds{view="clicks"} 0.04'
    ]


def test_an_emission_keeps_how_far_its_own_views_are_and_what_was_counted_of_all() -> None:
    looks = Looks(emission_metrics())
    figures = ViewFigures(looks.source)
    figures.begun("stays", 1)
    figures.begun("moves", 1)
    figures.skipped("moves", {"board": 2})
    figures.keep({"stays"})
    status = figures.status()
    assert set(status.views or ()) == {"stays"}
    assert status.totals.leaderboards_skipped == {"board": 2}


@pytest.mark.parametrize(
    "raw",
    [
        '{"heartbeat_us": Infinity, "state": "running"}',
        '{"heartbeat_us": 1, "lag": {"0": 1e999}}',
        "[" * 100_000,
        '{"heartbeat_us": 1, "views": {"v": 3}}',
    ],
)
def test_a_damaged_status_is_refused_as_one(raw: str) -> None:
    with pytest.raises(BadRequest):
        Status.parse("s", raw)


def test_a_status_of_a_writer_that_knows_fewer_figures_is_read() -> None:
    status = Status.parse(
        "s", '{"heartbeat_us": 1, "rows": 5, "views": {"v": {"instant_us": 2, "behind_ms": null}}}'
    )
    assert status.outcomes == {**dict.fromkeys(OUTCOMES, 0), "rows": 5}
    assert status.views == {"v": ViewStatus(2)}
