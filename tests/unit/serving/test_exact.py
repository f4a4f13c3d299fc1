"""Exact windows are served as `evaluate` answers them, as bytes; what a list no longer has is
refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.errors import BeyondRetention
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import ListUnit
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import Entity, checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.durations import DAY_US, HOUR_US, SECOND_US
from tests.support.stores.served import TOPIC, Event, Served

SEED = 20_261_121
NOW = 1_790_000_000_000_000
plays = sw.KafkaSource(
    "plays",
    schema={"user": "string", "song": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="1d",
)
WINDOWS: list[sw.Window | str] = [
    sw.exact_range("3h"),
    sw.exact_range("10m", closed="left"),
    sw.rows(1),
    sw.rows(7),
]
listening = FeatureView(
    "listening",
    source=plays,
    entity=["user"],
    features=[
        sw.Feature("plays", sw.count(), windows=[*WINDOWS, "1h"]),
        sw.Feature("seconds", sw.sum("seconds"), windows=[*WINDOWS, "1h"]),
        sw.Feature("songs", sw.last_k("song", k=4), windows=WINDOWS),
        sw.Feature("best", sw.argmax("song", by="seconds"), windows=WINDOWS),
    ],
)
recent = FeatureView(
    "recent",
    source=plays,
    entity=["user"],
    features=[
        sw.Feature("lately", sw.sum("seconds"), [sw.rows(3)]),
        sw.Feature("song", sw.last_k("song", k=1), [sw.rows(3)]),
    ],
)
everybody = FeatureView(
    "everybody",
    source=plays,
    entity=[],
    features=[sw.Feature("plays", sw.last_k("song", k=3), WINDOWS)],
)
small = FeatureView(
    "small", source=plays, entity=["user"], capacity=5, where="seconds >= 0",
    features=[sw.Feature("n", sw.count(), [sw.exact_range("1h"), sw.rows(5)])],
)  # fmt: skip


def events(count: int, users: Sequence[str] = ("ann", "bob")) -> list[Event]:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    offsets, made = [0, 0], []
    for _ in range(count):
        partition = chance.randrange(2)
        # many times are equal, and some lie ahead of the reading
        t = NOW + SECOND_US * chance.choice(
            [chance.randrange(-600, 5), chance.randrange(-4 * 3600, 60), -60, -3600]
        )
        columns = {
            "user": chance.choice(users),
            "song": chance.choice(["a", "b", None]),
            "seconds": chance.choice([None, 0.1, 1e16, -1e16, chance.uniform(0, 300)]),
        }
        made.append(Event(partition, offsets[partition], t, columns))
        offsets[partition] += 1
    return made


class Bench:
    """A store in memory that was fed as the stream feeds it, and a service over it."""

    def __init__(self, *views: FeatureView) -> None:
        self.deployment: Deployment = plan(Project.of("p", list(views)))
        self.clock = ManualClock(NOW)
        self.server = MemoryServer(self.clock)
        self.served = Served(open_memory(self.server), self.deployment)
        self.served.deploy()
        self.service = FeatureService(self.clock)
        self.connection = SyncConnection(lambda: open_memory(self.server))

    def read(
        self, refs: Sequence[str], entities: Sequence[Entity], at: int | None = None
    ) -> Answer:
        return self.connection.run(
            self.service.read(checked(list(refs), None, list(entities), at=at))
        )


def refs_of(deployment: Deployment, *views: str) -> list[str]:
    return [
        f"{unit.view}:{f.column}"
        for unit in deployment.units
        if unit.view in views
        for f in unit.features
    ]


def evaluated(
    view: FeatureView, made: Sequence[Event], at: int, mode: str, **entity: str
) -> dict[str, Any]:
    rows = [
        {
            **e.columns,
            "played_at": e.time_us,
            "partition": e.partition,
            "offset": e.offset,
            "kafka_time": e.time_us,
        }
        for e in made
    ]
    (row,) = sw.evaluate(view, rows, [{**entity, "at": at, "mode": mode}]).to_pylist()
    return {f"{view.name}:{name}": value for name, value in row.items()}


def as_bytes(value: Any) -> str:
    return value.hex() if isinstance(value, float) else repr(value)


@pytest.mark.parametrize(
    "at", [None, NOW - 3600 * SECOND_US, NOW - 61 * SECOND_US, NOW - 60 * SECOND_US, NOW - 777]
)
def test_what_is_served_is_what_is_evaluated(at: int | None) -> None:
    bench, made = Bench(listening, recent, everybody), events(400)
    for begin in range(0, 400, 90):
        bench.served.apply(made[begin : begin + 90])
    refs = refs_of(bench.deployment, "listening", "recent")
    answer = bench.read(refs, [{"user": "ann"}, {"user": "bob"}, {"user": "eve"}], at)
    mode = "live" if at is None else "at"
    compared = 0
    for i, user in enumerate(("ann", "bob", "eve")):
        for view in (listening, recent):
            expected = evaluated(view, made, at or NOW, mode, user=user)
            for ref in refs_of(bench.deployment, view.name):
                assert as_bytes(answer.values(i)[ref]) == as_bytes(expected[ref]), (ref, user)
                compared += 1
    assert compared == 3 * (18 + 2)
    answers = bench.read(refs_of(bench.deployment, "everybody"), [{}], at).values()
    expected = evaluated(everybody, made, at or NOW, mode)
    assert answers == {ref: expected[ref] for ref in answers}


def test_views_with_the_same_source_key_and_columns_share_one_list() -> None:
    other = FeatureView(
        "other", source=plays, entity=["user"],
        features=[
            sw.Feature("n", sw.last_k("song", k=1), [sw.rows(2)]),
            sw.Feature("s", sw.sum("seconds"), [sw.exact_range("1m")]),
        ],
    )  # fmt: skip
    counts = {}
    for views in ((recent,), (recent, other), (recent, other, listening)):
        bench = Bench(*views)
        bench.served.apply(events(50))
        counts[len(views)] = sorted(key.decode().rpartition(":")[2] for key in bench.server.lists)
        hashes = [key for key in bench.server.hashes if key.endswith(b":list")]
        assert len(hashes) == len(bench.server.lists)
    assert counts == {1: ["events"] * 2, 2: ["events"] * 2, 3: ["events"] * 2}, (
        "two users, whatever many views"
    )


def test_the_token_of_each_view_says_its_bounds_and_offset_vector() -> None:
    bench, made = Bench(listening, recent), events(60)
    bench.served.apply(made)
    answer = bench.read(
        ["recent:lately_rows_3", "listening:plays_exact_3h", "listening:plays_1h"],
        [{"user": "ann"}],
    )
    by_definition = {t.definition: t for t in tokens.decode_all(answer.results[0].token)}
    by_view = {
        u.view: by_definition[u.definition_fingerprint]
        for u in bench.deployment.units
        if isinstance(u, ListUnit)
    }
    assert by_view["recent"].bounds == {"lately_rows_3": (EARLIEST_US, NOW + 1)}
    assert by_view["listening"].bounds == {"plays_exact_3h": (NOW - 3 * HOUR_US, NOW + 1)}
    ends = {(TOPIC, p): max(e.offset for e in made if e.partition == p) + 1 for p in (0, 1)}
    assert all(token.base == OffsetVector(ends) for token in by_definition.values())
    assert len(by_definition) == 3


def test_a_live_answer_moves_with_every_microsecond() -> None:
    bench = Bench(recent, listening)
    bench.served.apply([Event(0, 0, NOW + 5, {"user": "ann", "song": "a", "seconds": 1.0})])
    seen = []
    for _ in range(8):
        seen.append(
            bench.read(["listening:plays_rows_1"], [{"user": "ann"}]).values()[
                "listening:plays_rows_1"
            ]
        )
        bench.clock.advance(1)
    assert seen == [0, 0, 0, 0, 0, 1, 1, 1]


def song(offset: int, t: int, user: str = "ann") -> Event:
    return Event(0, offset, t, {"user": user, "song": "a", "seconds": 1.0})


def test_a_window_that_a_full_list_cannot_hold_is_refused_with_the_earliest_at() -> None:
    bench = Bench(small)
    bench.served.apply([song(o, NOW - (20 - o) * SECOND_US) for o in range(8)])
    with pytest.raises(BeyondRetention) as refused:
        bench.read(["small:n_exact_1h"], [{"user": "ann"}])
    trimmed = NOW - 18 * SECOND_US
    assert refused.value.earliest_at_us == trimmed + 1 + HOUR_US
    assert bench.read(["small:n_rows_5"], [{"user": "ann"}]).values() == {"small:n_rows_5": 5}
    with pytest.raises(BeyondRetention):
        bench.read(["small:n_rows_5"], [{"user": "ann"}], NOW - 14 * SECOND_US)
    bench.clock.advance(refused.value.earliest_at_us - NOW)
    assert bench.read(["small:n_exact_1h"], [{"user": "ann"}]).values() == {"small:n_exact_1h": 5}
    assert bench.read(["small:n_exact_1h"], [{"user": "bob"}]).values() == {"small:n_exact_1h": 0}


@pytest.mark.parametrize("spread", [False, True])
def test_evaluate_is_beyond_capacity_exactly_where_serving_refuses(spread: bool) -> None:
    #  a list of five: every window by itself, at instants around and between the events
    windows = [
        sw.exact_range("8s"),
        sw.exact_range("8s", closed="right"),
        sw.rows(5),
        sw.rows(2, offset="3s"),
    ]
    view = FeatureView(
        "kept", source=plays, entity=["user"], capacity=5, spread=spread,
        features=[sw.Feature("n", sw.count(), windows)],
    )  # fmt: skip
    bench = Bench(view)
    made = [
        Event(
            o % 2, o // 2, NOW - (14 - o) * SECOND_US, {"user": "ann", "song": "a", "seconds": 1.0}
        )
        for o in range(14)
    ]
    bench.served.apply(made)
    refs = refs_of(bench.deployment, "kept")
    refused = 0
    for back_us in (0, 1, *(SECOND_US * i + j for i in range(1, 16) for j in (0, 1))):
        at = NOW - back_us
        result = evaluated(view, made, at, "at", user="ann")
        by_event_time = evaluated(view, made, at, "event_time", user="ann")
        for ref in refs:
            try:
                served = bench.read([ref], [{"user": "ann"}], at).values()[ref]
            except BeyondRetention:
                refused += 1
                assert result[ref] is None, (ref, back_us)
                assert by_event_time[ref] is not None, "a training set answers from the archive"
            else:
                assert result[ref] == by_event_time[ref] == served, (ref, back_us)
    assert 0 < refused < 4 * 32
    rows = [
        {**e.columns, "played_at": e.time_us, "partition": e.partition, "offset": e.offset}
        for e in made
    ]
    queries = [{"user": "ann", "at": NOW, "mode": mode} for mode in ("live", "event_time")] + [
        {"user": "bob", "at": NOW}
    ]
    notes = sw.evaluate(view, rows, queries).schema.metadata or {}
    short = {False: "n_exact_8s=2, n_exact_8s_right=2", True: ""}[spread]
    assert notes[b"slicewise.beyond_capacity"].decode() == short
    wanted = "n_exact_8s: beyond_capacity, n_exact_8s_right: beyond_capacity" if short else ""
    assert notes[b"slicewise.errors"].decode() == wanted


def test_a_window_of_time_that_begins_before_what_is_kept_is_refused() -> None:
    feature = sw.Feature("n", sw.count(), [sw.exact_range("1h")])
    only = FeatureView("only", source=plays, entity=["user"], features=[feature])
    bench = Bench(only)
    bench.served.apply([song(0, NOW - 2 * DAY_US), song(1, NOW)])
    assert bench.read(["only:n_exact_1h"], [{"user": "ann"}], NOW - DAY_US).values() == {
        "only:n_exact_1h": 0
    }
    with pytest.raises(BeyondRetention) as refused:
        bench.read(["only:n_exact_1h"], [{"user": "ann"}], NOW - DAY_US - 1)
    assert refused.value.earliest_at_us == NOW - DAY_US


def test_a_min_token_of_a_list_is_held_to() -> None:
    from slicewise.errors import BehindToken

    bench = Bench(recent)
    bench.served.apply([song(0, NOW)])
    token = bench.read(["recent:lately_rows_3"], [{"user": "ann"}]).results[0].token
    request = checked(["recent:lately_rows_3"], None, [{"user": "ann"}], min_token=token)
    assert bench.connection.run(bench.service.read(request)).values() == {
        "recent:lately_rows_3": 1.0
    }
    (token_of,) = tokens.decode_all(token)
    beyond = tokens.encode(
        token_of.unit,
        token_of.definition,
        OffsetVector({(TOPIC, 0): 2}),
        {},
        "live",
        token_of.bounds,
    )
    request = checked(["recent:lately_rows_3"], None, [{"user": "ann"}], min_token=beyond)
    with pytest.raises(BehindToken):
        bench.connection.run(bench.service.read(request))
