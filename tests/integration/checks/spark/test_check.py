"""The check's recomputation in Spark agrees with brute force, and every kind of difference is found
and named.

Online is played by brute force over the same events with random tokens, so that Spark SQL and the
oracle, which share nothing, are compared over every aggregate; then single answers are falsified.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import slicewise as sw
from slicewise.checks.compare.run import MOST_CLASSIFIED
from slicewise.checks.model import NO_ANSWER, Cause, Outcome, Predicted, Verdict
from slicewise.checks.online import _error
from slicewise.checks.report.gate import judge
from slicewise.checks.report.page import rendered
from slicewise.checks.report.record import rows_of
from slicewise.checks.run import MODES, CheckRun
from slicewise.checks.values import shown
from slicewise.clock import ManualClock
from slicewise.errors import CodecError, DataLoss, SlicewiseError, StoreUnavailable, UnknownArchive
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.runtime.session import job_session
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.records import append, records
from slicewise.stores.lake.schemas import CHECKS
from tests.support.oracles.answers import HOUR, MINUTE, OracleEvent, contained, inside, session
from tests.support.stores.archived import archive
from tests.unit.training.world import (
    AGGREGATES,
    PLAYS,
    START,
    TOPIC,
    expected,
    oracle_events,
    random_events,
    view,
)

pytestmark = [
    pytest.mark.timeout(1200),  # of two busy cores: some minutes of SQL
    # Great Expectations imports what Python 3.11 deprecates.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

NOW = START + 6 * HOUR
WINDOWS = ("10m", "3h", sw.tumbling("1h"), sw.sliding("1h", offset="90m"))
EXACT = (sw.exact_range("40m"), sw.exact_range("2h", closed="neither"), sw.rows(1), sw.rows(9))
SKETCHES = {
    "songs": sw.distinct_count("song", threshold=3, precision=10),
    "lengths": sw.quantiles("seconds", q=[0.1, 0.5], threshold=3, error=0.05),
    "heard": sw.bloom("song", capacity=5, error=0.001),
    "marked": sw.cuckoo("song", capacity=7),
    "filled": sw.bloom_fill("song", capacity=5, error=0.001),
    "long_ones": sw.bloom("song", capacity=9, where="seconds > 50"),
    "frequent": sw.top_k_frequent("song", k=2, capacity=4, error=0.2),
}


def sketches(window: str) -> sw.FeatureView:
    """The approximate aggregates, most of them beyond what they count exactly."""
    features = [sw.Feature(name, aggregate, [window]) for name, aggregate in SKETCHES.items()]
    return sw.FeatureView("sketch", source=PLAYS, entity=["user"], features=features)


SKETCH = sketches("3h")
WIDE = sketches("4h")
"""Features whose window holds every one of SKETCH that ends where it does, also one with a slice
begun at either end."""
EVER = ("n", "mean_minutes", "best", "first_song", "songs_by_stars", "doubled")
"""Aggregates over lifetimes, of which the check makes nothing but longer windows."""
_ALL = view(["user"], ["lifetime", sw.lifetime(offset="90m")], name="ever")
LIVED = replace(_ALL, features=[feature for feature in _ALL.features if feature.name in EVER])
DEPLOYMENT = plan(
    Project.of(
        "test",
        [view(["user"], WINDOWS, name="users"), view([], WINDOWS, name="everyone"), SKETCH,
         view(["user"], EXACT, name="exactly"),
         view(["device", "user"], ["3h"], name="devices"),
         view(["user"], [sw.session("5m", max_length="2h")], name="visitors"),
         LIVED],
    )
)  # fmt: skip
Falsify = Callable[[str, Mapping[str, Any], str], Any]


class OracleReader:
    """Answers as the online store should: by brute force, under a random offset vector per answer.

    falsify(ref, entity, mode) may give another value; None keeps the right one.
    """

    def __init__(
        self, deployment: Deployment, events: Sequence[Mapping[str, Any]], seed: int
    ) -> None:
        self.deployment, self.raw = deployment, oracle_events(events)
        self.all = [
            OracleEvent(e["played_at"], TOPIC, e["partition"], e["offset"], {**e, "minutes": None})
            for e in events
        ]
        self.rng = np.random.default_rng(seed)
        self.falsify: dict[tuple[str, str], Callable[[list[OracleEvent], int, int], Any]] = {}
        self.move_bounds = 0
        self.whole_searches = False  # all that a session was looked for in, instead of the session
        self.requests: list[tuple[tuple[str, ...], int | None]] = []

    def read(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted]:
        self.requests.append((tuple(refs), at_us))
        return [self._one(refs, entity, at_us) for entity in entities]

    def _one(self, refs: Sequence[str], entity: Mapping[str, Any], at_us: int | None) -> Predicted:
        unit, _ = self.deployment.resolve(refs[0])
        mode, t = ("live", NOW) if at_us is None else ("at", at_us)
        base, compacted_beyond = self._offset_vectors()
        raw = self.all if unit.view == "sketch" else self.raw
        own = [e for e in raw if all(e.columns[name] == entity[name] for name, _ in unit.entity)]
        in_token = contained(own, base, compacted_beyond)
        values, intervals = {}, {}
        for ref in refs:
            _, feature = self.deployment.resolve(ref)
            start, end = feature.window.bounds(mode, t, unit.slice_us)  # type: ignore[arg-type]
            chosen = inside(in_token, start, end)
            if feature.window.most_rows:
                chosen = sorted(chosen, key=lambda e: e.order)[-feature.window.most_rows :]
            if feature.window.session_gap_us and not self.whole_searches:
                chosen = session(in_token, start, end, feature.window.session_gap_us)
                start = min((e.time for e in chosen), default=end) // unit.slice_us * unit.slice_us
            intervals[feature.column] = (start + self.move_bounds, end)
            wrong = self.falsify.get((ref, mode))
            song = entity.get("song")
            # the instant that is asked for
            aged = t - feature.window.offset_us if feature.window.by_events else end
            value = (
                wrong(own, start, end)
                if wrong
                else self._value(unit.view, feature.feature, chosen, aged, song)
            )
            values[ref] = _as_served(value)
        offset_vectors = {hour: OffsetVector(offsets) for hour, offsets in compacted_beyond.items()}
        text = tokens.encode(
            unit.storage_fingerprint,
            unit.definition_fingerprint,
            OffsetVector(base),
            offset_vectors,
            mode,
            intervals,
        )
        return Predicted(values, (tokens.decode(text),), text)

    def _offset_vectors(self) -> tuple[dict[Any, int], dict[int, dict[Any, int]]]:
        ends = {
            (TOPIC, p): max(e.offset for e in self.all if e.partition == p) + 1 for p in range(3)
        }
        base = {
            topic_partition: int(self.rng.integers(end // 2, end + 1))
            for topic_partition, end in ends.items()
        }
        hours = START // HOUR + self.rng.choice(6, 2, replace=False)
        return base, {
            int(h): {p: int(self.rng.integers(end + 1)) for p, end in ends.items()} for h in hours
        }

    def _value(
        self, name: str, feature: str, events: list[OracleEvent], end: int, song: Any
    ) -> Any:
        if name != "sketch":
            return expected(feature, events, end)
        whole = [
            {**{n: e.columns[n] for n in ("song", "seconds")}, "user": "x", "played_at": e.time,
             "partition": e.partition, "offset": e.offset}
            for e in events
        ]  # fmt: skip
        answered = sw.evaluate(WIDE, whole, [{"user": "x", "at": end, "song": song}])
        return answered[f"{feature}_4h"].to_pylist()[0]


def _as_served(value: Any) -> Any:
    if isinstance(value, list):
        return [
            {"by": item[0], "payload": item[1]} if isinstance(item, tuple) else item
            for item in value
        ]
    return value


EVENTS = [{**event, "kafka_time": event["played_at"] + (3 * HOUR if i % 7 == 0 else 1)}
          for i, event in enumerate(random_events(31, 500))]  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    state = tmp_path_factory.mktemp("check") / "state"
    return Settings.load({**os.environ, "SLICEWISE_STATE": str(state)})


@pytest.fixture(scope="module")
def spark(settings: Settings) -> Iterator[SparkSession]:
    catalog = open_catalog(settings)
    archive(catalog, DEPLOYMENT.source("plays"), TOPIC, 1, EVENTS, [], NOW)
    session = job_session(settings, "test-check")
    yield session
    session.stop()


def _run(
    spark: SparkSession, settings: Settings, reader: Any, sample: int = 20, **more: Any
) -> CheckRun:
    ends = {
        (TOPIC, p): max(e["offset"] for e in EVENTS if e["partition"] == p) + 1 for p in range(3)
    }
    given: dict[str, Any] = {
        "archived": lambda source: OffsetVector(ends),  # noqa: ARG005
        "table": lambda source: f"{settings.catalog_name}.log.`{source}`",
        **more,
    }
    return CheckRun(
        spark,
        DEPLOYMENT,
        reader,
        given["archived"],
        given["table"],
        ManualClock(NOW),
        "run-1",
        sample,
    )


@pytest.fixture(scope="module")
def agreed(spark: SparkSession, settings: Settings) -> Outcome:
    return _run(spark, settings, OracleReader(DEPLOYMENT, EVENTS, 1)).execute()


def test_spark_and_brute_force_agree_on_every_value(agreed: Outcome) -> None:
    assert [row for row in agreed.compared if row.verdict is not Verdict.EQUAL] == []
    per_entity = len(AGGREGATES) * len(WINDOWS)
    exactly = 4 * len(AGGREGATES) * len(EXACT)
    # two modes; four users, one global, four users with sketches, twelve pairs, four users with
    # sessions
    expected_rows = (
        4 * per_entity + per_entity + 4 * len(SKETCHES) + exactly + (12 + 4) * len(AGGREGATES)
    )
    assert len(agreed.compared) == 2 * (expected_rows + 4 * 2 * len(EVER))
    sessions = [row for row in agreed.compared if row.feature == "n_session_5m"]
    assert any(row.start_us < row.end_us for row in sessions)
    assert any(row.start_us == row.end_us for row in sessions)
    assert judge(agreed).green
    assert agreed.plain_sums
    assert all(plain_sum.agrees for plain_sum in agreed.plain_sums)
    empty = sum(row.online in (b"\xc0", b"\x00") for row in agreed.compared)
    assert empty < len(agreed.compared) / 2  # else little was compared


def test_the_report_reads_without_a_network_and_escapes(agreed: Outcome) -> None:
    strange = replace(agreed.compared[0], entity='{"user": "<script>x"}', verdict=Verdict.MISMATCH)
    text = rendered(replace(agreed, compared=(strange,)), judge(agreed))
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text


def test_the_same_run_takes_the_same_sample(spark: SparkSession, settings: Settings) -> None:
    def entities(run: str) -> list[list[Mapping[str, Any]]]:
        made = replace(
            _run(spark, settings, OracleReader(DEPLOYMENT, EVENTS, 1), sample=5), run=run
        )
        return [list(made._entities(unit)) for unit in DEPLOYMENT.units]

    first = entities("a")
    assert entities("a") == first
    assert max(map(len, first)) == 5
    assert any(entities(other) != first for other in "bcde")


def test_what_differed_before_is_compared_whatever_is_sampled(
    spark: SparkSession, settings: Settings
) -> None:
    unit = next(unit for unit in DEPLOYMENT.units if unit.entity)
    names = [name for name, _ in unit.entity]
    again: list[dict[str, Any]] = [dict.fromkeys(names, "nobody"), {"a column of old": 1}]
    made = replace(
        _run(spark, settings, OracleReader(DEPLOYMENT, EVENTS, 1), sample=1),
        again={unit.view: again},
    )
    sampled = made._entities(unit)
    assert sampled[-1] == again[0]
    assert again[1] not in sampled


def test_an_empty_sample_is_red(spark: SparkSession, settings: Settings) -> None:
    nothing = _run(spark, settings, OracleReader(DEPLOYMENT, EVENTS, 1))
    outcome = replace(nothing, modes=()).execute()
    gate = judge(outcome)
    assert not outcome.compared
    assert not gate.green
    assert "something was compared" in {
        expectation.about for expectation in gate.expectations if not expectation.met
    }


def test_a_view_that_was_not_compared_is_red(agreed: Outcome) -> None:
    partly = replace(
        agreed, compared=tuple(row for row in agreed.compared if row.view != "devices")
    )
    gate = judge(partly)
    assert not gate.green
    assert [expectation.observed for expectation in gate.expectations if not expectation.met] == [
        "missing: devices"
    ]


@dataclass
class Damaged:
    """Has no answer for a batch with one of these users; the reason is that of the first."""

    reader: OracleReader
    users: Mapping[str, SlicewiseError]

    def read(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted]:
        for entity in entities:
            if refs[0].startswith("users:") and entity["user"] in self.users:
                raise self.users[entity["user"]]
        return self.reader.read(refs, entities, at_us)


def test_an_entity_that_has_no_answer_is_named_and_all_others_are_checked(
    spark: SparkSession, settings: Settings, agreed: Outcome
) -> None:
    first, second = sorted(
        {json.loads(row.entity)["user"] for row in agreed.compared if row.view == "users"}
    )[:2]
    users = {
        first: UnknownArchive("nothing says what archive version 7 stands for"),
        second: CodecError("3 bytes"),
    }
    outcome = _run(spark, settings, Damaged(OracleReader(DEPLOYMENT, EVENTS, 1), users)).execute()
    wrong_rows = {(json.loads(row.entity)["user"], row.mode): row for row in outcome.wrong()}
    assert len(wrong_rows) == len(outcome.wrong())
    assert {key: row.cause for key, row in wrong_rows.items()} == {
        (user, mode): cause
        for user, cause in ((first, Cause.STALE), (second, Cause.LOGIC))
        for mode in MODES
    }
    assert {(row.view, row.feature, row.verdict) for row in wrong_rows.values()} == {
        ("users", NO_ANSWER, Verdict.MISSING)
    }
    assert "archive version 7" in shown(wrong_rows[first, "live"].online)
    named = {row.entity for row in wrong_rows.values()}
    others = [row for row in agreed.compared if row.view != "users" or row.entity not in named]
    assert len(outcome.compared) == len(others) + len(wrong_rows)
    assert not judge(outcome).green
    kept = [row["online"] for row in rows_of(outcome, judge(outcome)) if row.get("kind") == "stale"]
    assert len(kept) == len(MODES)
    assert all("archive version 7" in line for line in kept)


def test_an_error_of_what_is_stored_is_known_by_its_name() -> None:
    def error_of(kind: str) -> type[Exception]:
        return type(_error(500, {"error": {"kind": kind, "what": "x"}}, "http://there"))

    kinds = [UnknownArchive, DataLoss, CodecError]
    assert [error_of(kind.__name__) for kind in kinds] == kinds
    assert error_of("Defect") is StoreUnavailable


def test_an_answer_beyond_the_archive_cannot_be_checked(
    spark: SparkSession, settings: Settings
) -> None:
    reader = OracleReader(DEPLOYMENT, EVENTS, 1)
    with pytest.raises(DataLoss, match="not in the archive"):
        _run(
            spark,
            settings,
            reader,
            archived=lambda source: OffsetVector({(TOPIC, 0): 1}),  # noqa: ARG005
        ).execute()


def _expected(name: str, without: Callable[[OracleEvent], bool] = lambda _: False) -> Any:
    return lambda own, start, end: expected(
        name, [e for e in inside(own, start, end) if not without(e)], end
    )


def _late(event: OracleEvent) -> bool:
    return bool(event.columns["kafka_time"] >= (event.time // HOUR + 1) * HOUR)


def _tied_song(own: list[OracleEvent], start: int, end: int) -> Any:
    ranked = [e for e in inside(own, start, end) if e.columns["stars"] is not None]
    best = max(e.columns["stars"] for e in ranked)
    first = expected("best_song", inside(own, start, end), end)
    return next(
        e.columns["song"]
        for e in ranked
        if e.columns["stars"] == best and e.columns["song"] not in (first, None)
    )


def _moved(own: list[OracleEvent], start: int, end: int) -> Any:
    """The value with one of the bounds a slice further, where that changes it."""
    right = expected("mean_stars", inside(own, start, end), end)
    moved = [(start - MINUTE, end), (start + MINUTE, end), (start, end - MINUTE)]
    return next(
        v
        for v in (expected("mean_stars", inside(own, *span), span[1]) for span in moved)
        if v != right
    )


def test_differences_are_found_and_their_causes_named(
    spark: SparkSession, settings: Settings
) -> None:
    reader = OracleReader(DEPLOYMENT, EVENTS, 2)
    whole = {
        (TOPIC, p): max(e["offset"] for e in EVENTS if e["partition"] == p) + 1 for p in range(3)
    }
    reader._offset_vectors = lambda: (whole, {})  # type: ignore[method-assign]
    cut = (START // HOUR + 4) * HOUR
    reader.falsify = {
        ("everyone:n_3h", "live"): _expected("n", _late),
        ("everyone:mean_stars_3h", "live"): _expected("mean_stars", lambda e: e.time < cut),
        ("everyone:mean_stars_3h", "at"): _moved,
        ("everyone:best_song_3h", "live"): _tied_song,
        ("everyone:mean_minutes_3h", "live"): lambda *_: 41.5,
        ("everyone:rated_3h", "live"): lambda *_: 0,
        ("everyone:latest_3h", "live"): lambda *_: None,
        ("everyone:songs_3h", "at"): lambda *_: 12345,
    }
    outcome = _run(spark, settings, reader).execute(["everyone"])
    results = {(row.feature, row.mode): (row.verdict, row.cause) for row in outcome.wrong()}
    assert results == {
        ("n_3h", "live"): (Verdict.MISMATCH, Cause.LATE),
        ("mean_stars_3h", "live"): (Verdict.MISMATCH, Cause.EXPIRY),
        ("mean_stars_3h", "at"): (Verdict.MISMATCH, Cause.BOUNDARY),
        ("best_song_3h", "live"): (Verdict.MISMATCH, Cause.TIE),
        ("mean_minutes_3h", "live"): (Verdict.MISMATCH, Cause.LOGIC),
        ("rated_3h", "live"): (Verdict.MISSING, Cause.LOGIC),
        ("latest_3h", "live"): (Verdict.MISSING, Cause.LOGIC),
        ("songs_3h", "at"): (Verdict.MISMATCH, Cause.LOGIC),
    }
    gate = judge(outcome)
    assert not gate.green
    unmet = {expectation.about for expectation in gate.expectations if not expectation.met}
    assert unmet == {
        "both sides are the same bytes",
        "mismatches per million are 0",
        "no value differs",
        "no value is missing online",
    }
    catalog = open_catalog(settings)
    append(catalog, CHECKS, rows_of(outcome, gate))
    kept = records(catalog, CHECKS)
    differences = [row for row in kept if row["result"] in ("mismatch", "missing")]
    assert {row["feature"] for row in differences} == {feature for feature, _ in results}
    assert [row["result"] for row in kept if row["result"] in ("green", "red")] == ["red"]
    assert "41.5" in rendered(outcome, gate)


def test_an_answer_under_another_offset_vector_than_its_token_says_is_lag(
    spark: SparkSession, settings: Settings
) -> None:
    reader = OracleReader(DEPLOYMENT, EVENTS, 3)
    # everything, whatever the token says
    reader.falsify = {("everyone:n_3h", "live"): _expected("n")}
    outcome = _run(spark, settings, reader).execute(["everyone"])
    assert [(row.feature, row.cause) for row in outcome.wrong()] == [("n_3h", Cause.LAG)]


def test_a_value_where_there_are_no_events_is_extra(
    spark: SparkSession, settings: Settings
) -> None:
    reader = OracleReader(DEPLOYMENT, EVENTS, 4)
    reader._offset_vectors = lambda: ({(TOPIC, 0): 1}, {})  # type: ignore[method-assign]
    reader.falsify = {("users:n_10m", "live"): lambda *_: 3}
    outcome = _run(spark, settings, reader).execute(["users"])
    assert {row.verdict for row in outcome.wrong()} == {Verdict.EXTRA}


def test_bounds_that_the_window_cannot_have_are_a_difference(
    spark: SparkSession, settings: Settings
) -> None:
    reader = OracleReader(DEPLOYMENT, EVENTS, 5)
    reader.move_bounds = -2 * MINUTE  # by one slice a live read's instant may account for
    outcome = _run(spark, settings, reader).execute(["everyone"])
    assert {row.cause for row in outcome.wrong()} >= {Cause.BOUNDARY}
    assert len([row for row in outcome.wrong() if row.cause is Cause.BOUNDARY]) == len(
        outcome.compared
    )


def test_a_session_that_is_not_where_its_events_have_it_is_a_difference(
    spark: SparkSession, settings: Settings
) -> None:
    reader = OracleReader(DEPLOYMENT, EVENTS, 6)
    reader.whole_searches = True
    outcome = _run(spark, settings, reader).execute(["visitors"])
    verdicts = Counter((row.verdict, row.cause) for row in outcome.wrong())
    searched = min(len(outcome.compared), MOST_CLASSIFIED)
    assert verdicts.pop((Verdict.MISMATCH, Cause.BOUNDARY)) == searched
    assert verdicts[Verdict.MISMATCH, Cause.UNCLASSIFIED] == len(outcome.compared) - searched
    assert len(outcome.wrong()) == len(outcome.compared)


def test_nothing_of_the_recomputation_comes_from_the_algebra() -> None:
    import ast

    import slicewise.checks as package

    home = Path(package.__file__).parent
    read = [path for path in home.rglob("*.py") if path != home / "compare" / "engine.py"]
    assert {
        home / "recompute" / "in_python.py",
        home / "recompute" / "run.py",
        home / "judges" / "own.py",
    } <= {*read}
    for path in read:
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names |= {node.module or "", *(f"{node.module}.{name.name}" for name in node.names)}
            elif isinstance(node, ast.Import):
                names |= {name.name for name in node.names}
        algebra = {
            name
            for name in names
            if name.startswith(("slicewise.aggregates", "slicewise.reading", "slicewise.codec"))
        }
        assert not algebra, (path.name, algebra)
