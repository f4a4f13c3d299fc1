"""A spine's needs are archived before it is answered; what nothing can bring is refused with the
next step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import slicewise as sw
from slicewise.errors import BadRequest, SlicewiseError, StoreUnavailable, TopicGone
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.offsets.token import Token
from slicewise.offsets.vector import OffsetVector
from slicewise.training.archive import Archived, NothingArchived
from slicewise.training.archiving.job import outcome
from slicewise.training.archiving.pending import Need, lacking, need_of, pending, plan_text
from slicewise.training.requests.unit_requests import resolve
from slicewise.training.spark_job import failure
from slicewise.training.tables.tokens import TokenColumns, alike_tokens
from slicewise.windows.durations import HOUR_US

TOPIC = "a" * 32
NOW = 100 * HOUR_US
PLAYS = sw.KafkaSource(
    "plays", schema={"user": "string", "at_us": "timestamp_us"}, timestamp="at_us"
)
DEPLOYMENT = plan(
    Project.of(
        "mine",
        [
            sw.FeatureView(
                "users",
                source=PLAYS,
                entity=["user"],
                features=[sw.Feature("n", sw.count(), windows=["1h"])],
            )
        ],
    )
)
REQUESTED = resolve(DEPLOYMENT, ["users:n_1h"])[1]
ARCHIVED = Archived(3, OffsetVector({(TOPIC, 0): 10}), 90 * HOUR_US, 1)


@dataclass(frozen=True)
class Side:
    """An archive that reaches so far, and a log of so many offsets; `fails` instead of saying how
    many."""

    archive: Archived | None
    offsets: int = 0
    fails: SlicewiseError | None = None

    def reaches(self, source: str) -> Archived:
        if self.archive is None:
            raise NothingArchived(f"nothing of {source!r} is archived")
        return self.archive

    def confirmed(self, _: Source, archived: Archived) -> Archived:
        return archived if self.offsets or self.fails else replace(archived, until_us=NOW)

    def pending(self, _: Source) -> int:
        if self.fails is not None:
            raise self.fails
        return self.offsets

    def events(self, *_: object) -> None:
        raise AssertionError("no event is read to decide")

    below = events


def to_archive(side: Side, need: Need) -> list[tuple[str, int]]:
    return [
        (p.source.name, p.offsets) for p in pending(DEPLOYMENT, side, side, REQUESTED, need, NOW)
    ]


def test_only_what_the_rows_need_is_archived() -> None:
    #   archived |-------------------| 90 h .......... now 100 h
    assert to_archive(Side(ARCHIVED, 5), Need(90 * HOUR_US)) == []
    assert to_archive(Side(ARCHIVED, 5), Need(90 * HOUR_US + 1)) == [("plays", 5)]
    assert to_archive(Side(ARCHIVED), Need(95 * HOUR_US)) == [], (
        "a quiet log has nothing to archive"
    )
    assert to_archive(Side(None, 7), Need(1)) == [("plays", 7)], (
        "the first archive, whatever `at` is"
    )
    assert to_archive(Side(ARCHIVED, 5), Need(NOW)) == [("plays", 5)]


def test_tokens_ask_for_what_they_contain() -> None:
    archived, beyond = (
        Need(None, 0, {"plays": OffsetVector({(TOPIC, 0): end})}) for end in (10, 11)
    )
    assert to_archive(Side(ARCHIVED, 5), archived) == []
    assert to_archive(Side(ARCHIVED, 5), beyond) == [("plays", 5)]
    assert to_archive(Side(ARCHIVED, 0), beyond) == [], (
        "no log of ours has it: refused by its row later"
    )


def test_what_tokens_contain_is_that_of_all_rows_hours_compacted_beyond_included() -> None:
    unit = DEPLOYMENT.units[0]
    tokens = [
        Token(
            unit.storage_fingerprint,
            unit.definition_fingerprint,
            "live",
            OffsetVector({(TOPIC, p): 3 + p}),
            compacted_beyond,
            {},
        )
        for p, compacted_beyond in ((0, {}), (1, {5: OffsetVector({(TOPIC, 0): 9})}))
    ]
    need = need_of(REQUESTED, np.array([1, 2], np.int64), _columns(tokens))
    assert need.latest_us is None
    assert need.offset_vectors == {"plays": OffsetVector({(TOPIC, 0): 9, (TOPIC, 1): 4})}
    latest = need_of(REQUESTED, np.array([5, 9, 7], np.int64), None)
    assert (latest.latest_us, latest.latest_row) == (9, 1)
    other = _columns([replace(tokens[0], unit="f" * 16)])
    with pytest.raises(BadRequest, match="no token of row 0"):
        need_of(REQUESTED, np.array([1], np.int64), other)


def _columns(tokens: list[Token]) -> TokenColumns:
    return TokenColumns(len(tokens), alike_tokens(enumerate(tokens)))


def test_the_future_is_no_reason_to_archive() -> None:
    with pytest.raises(BadRequest, match="lies in the future") as refused:
        to_archive(Side(ARCHIVED, 5), Need(NOW + 1, 8))
    assert "row 8" in str(refused.value)
    assert "next step" in str(refused.value)


@pytest.mark.parametrize(
    ("side", "kind", "message"),
    [
        (Side(None), NothingArchived, "its topic holds no event"),
        (Side(None, fails=TopicGone("gone")), NothingArchived, "no topic 'plays'"),
        (
            Side(None, fails=StoreUnavailable("silent")),
            NothingArchived,
            "its log does not answer: silent",
        ),
        (
            Side(ARCHIVED, fails=StoreUnavailable("silent")),
            StoreUnavailable,
            "lags, and its log does not answer",
        ),
        (
            Side(ARCHIVED, fails=TopicGone("gone")),
            StoreUnavailable,
            "lags, and the broker has no topic",
        ),
    ],
)
def test_what_cannot_be_archived_is_refused(
    side: Side, kind: type[SlicewiseError], message: str
) -> None:
    with pytest.raises(kind, match=message) as refused:
        to_archive(side, Need(95 * HOUR_US))
    assert refused.value.next_step
    assert refused.value.expected


def test_the_plan_says_why_and_how_much() -> None:
    some = pending(
        DEPLOYMENT,
        Side(ARCHIVED, 12_345),
        Side(ARCHIVED, 12_345),
        REQUESTED,
        Need(95 * HOUR_US),
        NOW,
    )
    (line,) = plan_text(some)
    assert line.startswith("archiving plays first: it is archived until 1970-01-04T18:00:00+00:00")
    assert line.endswith("12,345 offsets to go")
    assert lacking("plays", None, Need(1)) == "nothing of it is archived yet"


REPORT = (
    '{"job": "archive", "archived": [{"source": "plays", "seq": 2, "events": 1200, "bad": %s}]}'
)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (REPORT % "{}", ["archived plays: 1,200 offsets"]),
        (
            REPORT % '{"not_json": 3}',
            ["archived plays: 1,200 offsets (3 not_json: bad records, kept aside)"],
        ),
        ("a line of Spark", []),
    ],
)
def test_what_was_archived_is_told_bad_records_too(message: str, shown: list[str]) -> None:
    assert outcome(f"2026-11-21T08:00:00 INFO archived source=plays\n{message}\n") == shown


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            (
                "WARN Utils\n2026 WARNING job_failed job=archive error=x\n5 offsets are gone\n  "
                "where: topic\n"
            ),
            "5 offsets are gone\n  where: topic",
        ),
        ("java.lang.Error: no heap\n\n", "java.lang.Error: no heap"),
        ("no heap\nnanobind: leaked 3 functions!\nSee https://nanobind\n", "no heap"),
        ("", "it said nothing"),
    ],
)
def test_a_failed_job_is_told_by_its_own_error(message: str, why: str) -> None:
    assert failure(message) == why
