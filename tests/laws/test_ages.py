"""Ages are counted from one instant on every path: served, evaluated, trained, queried, to the same
bits as by hand.

Of an exact window it is the instant that was asked for, less the offset, whichever of its ends are
closed. Of others it is the end of their effective bounds; a query's row asks at its own event,
which is in its windows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import SliceUnit
from slicewise.serving.answering.requests import checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.training.dataset import build_snapshot, build_training_set
from slicewise.training.queries import query_rows
from slicewise.training.tables.instants import as_timestamps
from slicewise.windows.durations import DAY_US, MINUTE_US, SECOND_US
from slicewise.windows.exact_range import ExactRange
from slicewise.windows.kinds import as_window
from slicewise.windows.periodic import Periodic
from slicewise.windows.rows import Rows
from slicewise.windows.session import Session
from slicewise.windows.sliding import Sliding
from tests.support.oracles import answers as oracle
from tests.support.oracles.answers import OracleEvent
from tests.support.stores.logged import given, served_archive
from tests.support.stores.served import TOPIC, Event, Served

SEED = 20_261_124
NOW = 1_790_000_000_123_457
HALF = "90s"
plays = sw.KafkaSource(
    "plays",
    schema={"user": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="1d",
)
CLOSED: tuple[Literal["both", "left", "right", "neither"], ...] = (
    "both",
    "left",
    "right",
    "neither",
)
EXACT: list[sw.Window | str] = [
    *(sw.exact_range("10m", closed=closed) for closed in CLOSED),
    *(sw.exact_range("10m", closed=closed, offset="1us") for closed in CLOSED),
    sw.exact_range("9m", offset="7m"),
    sw.rows(3),
    sw.rows(3, offset="1us"),
    sw.rows(2, offset="7m"),
]
SLICED: list[sw.Window | str] = [
    "10m",
    sw.sliding("10m", offset="7m"),
    sw.tumbling("10m"),
    sw.tumbling("10m", open=True),
    sw.hopping("10m", every="5m", open=True, offset="1m"),
    sw.session("2m", max_length="1h"),
]
FEATURES = [
    ("seconds", sw.decay_sum("seconds", half_life=HALF)),
    ("n", sw.decay_count(half_life=HALF)),
]
ageing = sw.FeatureView(
    "ageing",
    source=plays,
    entity=["user"],
    features=[sw.Feature(name, made, windows=[*EXACT, *SLICED]) for name, made in FEATURES],
)
DEPLOYMENT = plan(Project.of("p", [ageing]))
SLICE = next(unit.slice_us for unit in DEPLOYMENT.units if isinstance(unit, SliceUnit))
COLUMNS = [
    (f"{name}_{w.column_suffix()}", name, w)
    for name, _ in FEATURES
    for w in map(as_window, [*EXACT, *SLICED])
]
REFS = [f"ageing:{column}" for column, _, _ in COLUMNS]


def made() -> list[Event]:
    """Plays of two users around the reading; some at the very edges of its windows."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    backs = [
        0,
        1,
        2,
        7 * MINUTE_US,
        7 * MINUTE_US - 1,
        7 * MINUTE_US + 1,
        10 * MINUTE_US,
        10 * MINUTE_US + 1,
        -1,
    ]
    backs += [chance.randrange(-MINUTE_US, 20 * MINUTE_US) for _ in range(60)]
    return [
        Event(
            0,
            o,
            NOW - back,
            {"user": chance.choice(["ann", "bob"]), "seconds": chance.choice([1.0, 0.1, -7e15])},
        )
        for o, back in enumerate(backs)
    ]


EVENTS = made()


def by_hand(name: str, window: sw.Window, mode: str, t: int, user: str) -> float | None:
    """The value by hand: the events in the window and the instant from which they age, by the words
    of the design alone."""
    own = sorted(
        (
            OracleEvent(e.time_us, TOPIC, e.partition, e.offset, e.columns)
            for e in EVENTS
            if e.columns["user"] == user
        ),
        key=lambda e: e.order,
    )
    t -= window.offset_us
    length = window.length_us
    present = {"live": -(-t // SLICE) * SLICE, "at": t // SLICE * SLICE}.get(mode, t)
    # the last microsecond that is in a window of the present
    at = t if mode == "row" else present - 1
    if isinstance(window, Rows):
        return _value(name, [e for e in own if e.time <= t][-window.rows :], t)
    if isinstance(window, ExactRange):
        first, last = window.closed in ("both", "left"), window.closed in ("both", "right")
        return _value(
            name,
            [
                e
                for e in own
                if (t - length < e.time or (first and e.time == t - length))
                and (e.time < t or (last and e.time == t))
            ],
            t,
        )
    if isinstance(window, Sliding):
        return _value(name, oracle.inside(own, (t - length) // SLICE * SLICE, at + 1), present)
    if isinstance(window, Session):
        begin = (at + 1 - length) // SLICE * SLICE
        return _value(name, oracle.session(own, begin, at + 1, window.gap_us), present)
    assert isinstance(window, Periodic)
    hop = window.hop_us
    end = t // hop * hop
    if not window.open:
        return _value(name, oracle.inside(own, end - length, end), end)
    end += hop
    if at + 1 >= end:
        return _value(name, oracle.inside(own, end - length, end), end)
    return _value(name, oracle.inside(own, end - length, at + 1), present)


def _value(name: str, events: Sequence[OracleEvent], instant: int) -> float | None:
    if name == "n":
        return oracle.decay_count(events, None, HALF, instant)
    return oracle.decay_sum(events, "seconds", HALF, instant)


def same(actual: Any, wanted: float | None, where: object) -> None:
    assert (actual is None) == (wanted is None), (where, actual, wanted)
    assert actual is None or actual.hex() == wanted.hex(), (where, actual, wanted)  # type: ignore[union-attr]


def archive() -> Any:
    return served_archive(DEPLOYMENT.source("plays"), EVENTS, NOW + DAY_US)


@pytest.mark.parametrize("back_us", [None, 0, 1, 7 * MINUTE_US, 13 * MINUTE_US + 17])
def test_an_answer_its_token_and_evaluate_count_ages_from_the_instant_asked_for(
    back_us: int | None,
) -> None:
    clock = ManualClock(NOW)
    server = MemoryServer(clock)
    served = Served(open_memory(server), DEPLOYMENT)
    served.deploy()
    served.apply(EVENTS)
    connection = SyncConnection(lambda: open_memory(server))
    users: list[dict[str, Any]] = [{"user": user} for user in ("ann", "bob", "nobody")]
    at = None if back_us is None else NOW - back_us
    answer = connection.run(FeatureService(clock).read(checked(REFS, None, users, at=at)))
    mode, t = ("live", NOW) if at is None else ("at", at)
    spine = [
        {**user, "at": as_timestamps(np.array([t]))[0], "token": result.token}
        for user, result in zip(users, answer.results, strict=True)
    ]
    trained = build_training_set(DEPLOYMENT, archive(), spine, REFS, "token").table.to_pylist()
    evaluated = sw.evaluate(
        ageing, given(EVENTS, "played_at"), [{**user, "at": t, "mode": mode} for user in users]
    ).to_pylist()
    compared = 0
    for i, user in enumerate(users):
        values = answer.values(i)
        for column, name, window in COLUMNS:
            wanted = by_hand(name, window, mode, t, user["user"])
            for age in (
                values[f"ageing:{column}"],
                trained[i][f"ageing:{column}"],
                evaluated[i][column],
            ):
                same(age, wanted, (column, mode, user))
                compared += 1
    assert compared == 3 * 3 * len(COLUMNS)


def test_training_sets_and_snapshots_by_event_time_count_ages_from_the_instant_asked_for() -> None:
    ats = [NOW, NOW - 1, NOW + 1, NOW - 7 * MINUTE_US, NOW // MINUTE_US * MINUTE_US]
    spine = [
        {"user": user, "at": as_timestamps(np.array([at]))[0]}
        for at in ats
        for user in ("ann", "bob")
    ]
    trained = build_training_set(DEPLOYMENT, archive(), spine, REFS, "event_time").table.to_pylist()
    snapped = build_snapshot(DEPLOYMENT, archive(), REFS, ats).table.to_pylist()
    evaluated = sw.evaluate(ageing, given(EVENTS, "played_at"), spine).to_pylist()
    rows = {(row["at"], row["user"]): row for row in snapped}
    for row, other in zip(trained, evaluated, strict=True):
        t = int((row["at"].timestamp() // 1) * SECOND_US) + row["at"].microsecond
        for column, name, window in COLUMNS:
            wanted = by_hand(name, window, "event_time", t, row["user"])
            same(row[f"ageing:{column}"], wanted, (column, row["user"], t))
            same(rows[row["at"], row["user"]][f"ageing:{column}"], wanted, (column, row["user"], t))
            same(other[column], wanted, (column, row["user"], t))


def test_the_rows_of_a_query_age_from_their_own_event() -> None:
    rows = query_rows(ageing, archive()).table.to_pylist()
    assert len(rows) == len(EVENTS)
    for row in rows:
        t = int((row["played_at"].timestamp() // 1) * SECOND_US) + row["played_at"].microsecond
        for column, name, window in COLUMNS:
            same(
                row[column], by_hand(name, window, "row", t, row["user"]), (column, row["user"], t)
            )


def test_after_a_half_life_an_event_weighs_half() -> None:
    #   T ------ 1 s ------ t       read at t: half, whichever ends are closed; at T itself, where it is in: all
    half = sw.decay_sum("seconds", half_life="1s")
    windows = [*(sw.exact_range("1m", closed=closed) for closed in CLOSED), sw.rows(1)]
    view = sw.FeatureView(
        "v", source=plays, entity=["user"], features=[sw.Feature("s", half, windows)]
    )
    event = {"user": "ann", "seconds": 1.0, "played_at": NOW}
    later, then = sw.evaluate(
        view, [event], [{"user": "ann", "at": NOW + SECOND_US}, {"user": "ann", "at": NOW}]
    ).to_pylist()
    assert [later[c] for c in view.features[0].columns()] == [0.5] * 5
    assert [then[c] for c in view.features[0].columns()] == [1.0, None, 1.0, None, 1.0]
