"""A row asks in a column of its own, in evaluate and training alike; elsewhere it is refused."""

from __future__ import annotations

from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import BadRequest, DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.training.dataset import build_snapshot, build_training_set
from tests.support.oracles.answers import HOUR, MINUTE
from tests.unit.training.world import PLAYS, START, InMemoryArchive, random_events

LISTENED = sw.FeatureView(
    "heard",
    source=PLAYS,
    entity=["user"],
    features=[
        sw.Feature("songs", sw.bloom("song", capacity=20, error=1e-6), windows=["1h"]),
        sw.Feature(
            "rated", sw.bloom("song", capacity=20, error=1e-6, where="stars >= 3"), windows=["1h"]
        ),
        sw.Feature("stars", sw.cuckoo("stars", capacity=4, error=1e-6), windows=["1h"]),
        sw.Feature("fill", sw.bloom_fill("song", capacity=20, error=1e-6), windows=["1h"]),
    ],
)
SONGS = ["song-1", "song-4", "song-8", "song-99", None]


def _wanted(events: list[Any], user: str, at: int) -> tuple[set[Any], set[Any], set[Any]]:
    """Songs, songs of three stars or more, and numbers of stars of the hour before."""
    raw = [
        e
        for e in events
        if e["user"] == user and (at - HOUR) // MINUTE * MINUTE <= e["played_at"] < at
    ]
    songs = {e["song"] for e in raw} - {None}
    rated = {e["song"] for e in raw if e["stars"] is not None and e["stars"] >= 3} - {None}
    return songs, rated, {e["stars"] for e in raw} - {None}


@pytest.mark.parametrize("seed", range(3))
def test_evaluate_and_a_training_set_answer_what_was_seen(seed: int) -> None:
    events = random_events(seed, 300)
    source = plan(Project.of("test", [LISTENED])).source("plays")
    archive = InMemoryArchive(source, [events], START + 7 * HOUR)
    queries = [
        {
            "user": ["ann", "bob", "nobody"][i % 3],
            "at": START + i * 17 * MINUTE,
            "song": SONGS,
            "stars": i % 6,
        }
        for i in range(20)
    ]
    evaluated = sw.evaluate(LISTENED, events, queries)
    refs = [f"heard:{name}_1h" for name in ("songs", "rated", "stars", "fill")]
    trained = build_training_set(
        plan(Project.of("test", [LISTENED])), archive, queries, refs, "event_time"
    ).table
    given_columns = {"user", "at", "song", "stars"}
    assert set(evaluated.column_names) == given_columns | {ref.partition(":")[2] for ref in refs}
    for ref in refs:
        assert evaluated[ref.partition(":")[2]].to_pylist() == trained[ref].to_pylist()
    for query, row in zip(queries, evaluated.to_pylist(), strict=True):
        songs, rated, stars = _wanted(events, query["user"], query["at"])  # type: ignore[arg-type]
        assert row["songs_1h"] == [None if song is None else song in songs for song in SONGS]
        assert row["rated_1h"] == [None if song is None else song in rated for song in SONGS]
        assert row["stars_1h"] == (None if len(stars) > 4 else query["stars"] in stars)
        assert (row["fill_1h"] is None) == (not songs)


def test_what_went_beyond_its_capacity_is_said() -> None:
    events = [{"user": "ann", "stars": i, "played_at": START + i} for i in range(5)]
    answered = sw.evaluate(
        LISTENED, events, [{"user": "ann", "at": START + HOUR // 2, "song": "a", "stars": 2}]
    )
    assert answered["stars_1h"].to_pylist() == [None]
    assert answered.schema.metadata[b"slicewise.errors"] == b"stars_1h: over_capacity"


def test_rows_that_ask_nothing_are_refused() -> None:
    with pytest.raises(BadRequest, match="lacks song, stars"):
        sw.evaluate(LISTENED, [], [{"user": "ann", "at": START}])
    with pytest.raises(BadRequest, match="column 'stars'"):
        sw.evaluate(LISTENED, [], [{"user": "ann", "at": START, "song": "a", "stars": "many"}])


def test_a_snapshot_has_no_rows_that_could_ask() -> None:
    deployment = plan(Project.of("test", [LISTENED]))
    archive = InMemoryArchive(deployment.source("plays"), [random_events(1, 10)], START + 7 * HOUR)
    with pytest.raises(BadRequest, match="no answer without a question"):
        build_snapshot(deployment, archive, ["heard:songs_1h"], [START + HOUR])


def test_an_entity_is_not_asked_for_its_own_key_nor_are_buckets() -> None:
    for aggregate in (
        sw.bloom("user", capacity=9),
        sw.bloom("user", capacity=9, where="stars > 1"),
    ):
        features = [sw.Feature("own", aggregate, windows=["1h"])]
        with pytest.raises(DefinitionError, match="a column of the view's entity"):
            plan(
                Project.of(
                    "test", [sw.FeatureView("v", source=PLAYS, entity=["user"], features=features)]
                )
            )
    with pytest.raises(DefinitionError, match="next step: make 'device' an entity column"):
        sw.bucketed(sw.bloom("song", capacity=9), by="device")
