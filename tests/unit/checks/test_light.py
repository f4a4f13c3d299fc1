"""A light check compares answers with the log at the same token. It names what differs twice, and
says what it cannot compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import slicewise as sw
from slicewise.checks.light import LightCheck, Looked
from slicewise.checks.model import Predicted
from slicewise.clock import ManualClock
from slicewise.errors import CodecError
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.token import decode, encode
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.reading import Record
from slicewise.training.archive import NothingArchived
from slicewise.training.recent.events import RecentEvents
from slicewise.windows.durations import HOUR_US, MINUTE_US

TOPIC, HOUR = "0" * 32, 491_000
NOW_US = HOUR * HOUR_US + 30 * MINUTE_US
PLAYS = sw.KafkaSource(
    "plays",
    schema={"user": "string", "song": "string", "seconds": "double", "at_home": "timestamp_us"},
    timestamp="at_home",
    max_ahead="1m",
)
VIEW = sw.FeatureView(
    "listening",
    source=PLAYS,
    entity=["user"],
    features=[
        sw.Feature("plays", sw.count(), ["10m", "2h"]),
        sw.Feature("known", sw.bloom("song", capacity=5), ["10m"]),
    ],
)
DEPLOYMENT = plan(Project.of("plays", [VIEW]))
(UNIT,) = DEPLOYMENT.view("listening")
WINDOWS = {"plays_10m": 10, "plays_2h": 120}


class Log:
    """A log of plays: (user, minute of the open hour) in order of their offsets."""

    def __init__(self, plays: Sequence[tuple[str, int]]) -> None:
        self.plays = plays

    def latest(self, _topic: str) -> OffsetVector:
        return OffsetVector({(TOPIC, 0): len(self.plays)})

    def earliest(self, _topic: str) -> OffsetVector:
        return OffsetVector()

    def topic_id(self, _topic: str) -> str:
        return TOPIC

    def records_between(
        self, _topic: str, start: OffsetVector, end: OffsetVector
    ) -> Iterator[Record]:
        for offset in range(start.get((TOPIC, 0)), end.get((TOPIC, 0))):
            user, minute = self.plays[offset]
            at_us = HOUR * HOUR_US + minute * MINUTE_US
            text = json.dumps({"user": user, "song": "s", "seconds": 1.5, "at_home": at_us})
            yield Record(0, offset, at_us, text.encode())

    def offsets_since(self, _topic: str, time_us: int) -> OffsetVector:
        first = sum(HOUR * HOUR_US + minute * MINUTE_US < time_us for _, minute in self.plays)
        return OffsetVector({(TOPIC, 0): first})


class Reader:
    """Answers by what its log holds so far. wrong: user -> by how much, of the first answers about
    him."""

    def __init__(self, log: Log, wrong: Mapping[str, Sequence[int]], unread: str = "") -> None:
        self.log, self.unread = log, unread
        self.wrong = {user: list(by) for user, by in wrong.items()}

    def read(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted]:
        assert at_us is None
        if self.unread in [entity["user"] for entity in entities]:
            raise CodecError("its bytes are damaged")
        bounds = {
            column: (NOW_US - minutes * MINUTE_US, NOW_US) for column, minutes in WINDOWS.items()
        }
        base = OffsetVector({(TOPIC, 0): len(self.log.plays)})
        of = (UNIT.storage_fingerprint, UNIT.definition_fingerprint)
        text = encode(*of, base, {}, "live", {**bounds, "known_10m": bounds["plays_10m"]})
        answers = []
        for entity in entities:
            user = entity["user"]
            off = (self.wrong.get(user) or [0]).pop(0)
            self.wrong.setdefault(user, [])
            values = {ref: off + self._count(user, bounds[ref.partition(":")[2]]) for ref in refs}
            answers.append(Predicted(values, (decode(text),), text))
        return answers

    def _count(self, user: str, bounds: tuple[int, int]) -> int:
        times = (HOUR * HOUR_US + m * MINUTE_US for who, m in self.log.plays if who == user)
        return sum(bounds[0] <= at < bounds[1] for at in times)


class NoArchive:
    """Nothing is archived yet."""

    def reaches(self, _source: str) -> Any:
        raise NothingArchived("nothing is archived")


PLAYED = [
    ("anna", -90),
    ("anna", -5),
    *((name, m) for m in (2, 22, 25) for name in ("anna", "bob")),
]


def looked(
    wrong: Mapping[str, Sequence[int]] | None = None,
    unread: str = "",
    sample: int = 9,
    again: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    most_records: int = 1_000,
) -> Looked:
    log: Any = Log(PLAYED)
    offline: Any = SimpleNamespace(
        deployment=DEPLOYMENT, archive=NoArchive(), clock=ManualClock(NOW_US)
    )
    return LightCheck(
        DEPLOYMENT,
        lambda source: RecentEvents.of(offline, log, source, most_records),
        Reader(log, wrong or {}, unread),
        "run",
        sample,
        again or {},
        pause=lambda _: None,
    ).execute()


def test_answers_that_are_what_the_log_says_are_equal() -> None:
    looked_at = looked()
    assert (looked_at.values, looked_at.entities) == (4, 2), (
        "two features that need no further value"
    )
    assert looked_at.differs == {"listening": []}
    assert looked_at.equal == {"listening": ['{"user": "anna"}', '{"user": "bob"}']}
    assert looked_at.left_out["features"] == 1


def test_what_differs_twice_is_named_and_what_differs_once_is_not() -> None:
    looked_at = looked({"bob": [1, 1], "anna": [1, 0]})
    assert looked_at.differs == {"listening": ['{"user": "bob"}']}
    assert looked_at.equal == {"listening": ['{"user": "anna"}']}
    assert [(one["feature"], one["online"], one["offline"]) for one in looked_at.wrong] == [
        ("plays_10m", "3", "2"),
        ("plays_2h", "4", "3"),
    ]


def test_an_entity_that_has_no_answer_is_named() -> None:
    looked_at = looked(unread="bob")
    assert looked_at.differs == {"listening": ['{"user": "bob"}']}
    assert looked_at.wrong[0]["online"] == "its bytes are damaged"


def test_what_differed_before_is_looked_at_again_whatever_is_sampled() -> None:
    every = [{"user": name} for name in ("anna", "bob", "nobody")]
    looked_at = looked(sample=1, again={"listening": every})
    assert [json.loads(text)["user"] for text in looked_at.equal["listening"]] == [
        *("anna", "bob", "nobody")
    ]


def test_of_a_long_log_the_end_is_read_and_shorter_windows_are_compared() -> None:
    looked_at = looked(most_records=4)
    assert looked_at.values == 2, "of each entity the window of ten minutes alone"
    assert looked_at.left_out["features"] == 2
    assert looked_at.differs == {"listening": []}


def test_a_log_of_which_a_minute_is_too_long_is_left_to_the_check() -> None:
    looked_at = looked(most_records=-1)
    assert (looked_at.values, looked_at.entities) == (0, 0)
    assert looked_at.notes == ["source plays: more than -1 records came in a minute"]
