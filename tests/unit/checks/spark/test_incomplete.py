"""Windows that are known to lack events are not judged, and this is said; nothing left is not
green."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

import slicewise as sw
from slicewise.checks import run
from slicewise.checks.compare import run as compare
from slicewise.checks.model import Cause, Compared, Outcome, PlainSum, Predicted, Verdict
from slicewise.checks.recompute.questions import OnlineAnswer
from slicewise.checks.report.gate import judge
from slicewise.checks.report.page import summary
from slicewise.checks.report.record import kept
from slicewise.clock import ManualClock
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.checking import judged
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector

# great_expectations imports what Python 3.11 deprecates
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NOW = 1_700_000_000_000_000
_source = sw.KafkaSource(
    "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
)
_view = sw.FeatureView(
    "all", source=_source, entity=[], features=[sw.Feature("n", sw.count(), windows=["10m", "1h"])]
)
DEPLOYMENT = plan(Project.of("p", [_view]))
SHORT, LONG = "all:n_10m", "all:n_1h"


class Reader:
    """Answers 0 everywhere; some features lack events."""

    def __init__(self, incomplete: set[str]) -> None:
        self.incomplete = frozenset(incomplete)

    def read(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> list[Predicted]:
        unit = DEPLOYMENT.units[0]
        bounds = {"n_10m": (NOW - 600_000_000, NOW), "n_1h": (NOW - 3_600_000_000, NOW)}
        mode = "live" if at_us is None else "at"
        text = tokens.encode(
            unit.storage_fingerprint, unit.definition_fingerprint, OffsetVector(), {}, mode, bounds
        )
        values = dict.fromkeys(refs, 0)
        return [Predicted(values, tokens.decode_all(text), text, self.incomplete) for _ in entities]


def checked(
    monkeypatch: pytest.MonkeyPatch, incomplete: set[str]
) -> tuple[run.CheckRun, list[str]]:
    """The run, and the columns of the values that came to be compared."""
    columns: list[str] = []

    def compared(
        _: run.CheckRun, unit: StorageUnit, reads: list[compare.Read]
    ) -> tuple[list[Compared], list[PlainSum]]:
        columns.extend(value.feature.column for value in compare._values(unit, reads))
        return [], []

    monkeypatch.setattr(run.CheckRun, "_compare", compared)
    made = run.CheckRun(
        cast("Any", None),
        DEPLOYMENT,
        Reader(incomplete),
        lambda _: OffsetVector(),
        str,
        ManualClock(NOW),
        "r",
        10,
    )
    return made, columns


def test_a_feature_that_lacks_events_is_not_compared_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, columns = checked(monkeypatch, {LONG})
    outcome = made.execute()
    assert columns == ["n_10m", "n_10m"], "live and at"
    assert outcome.expected_views == ("all",)
    assert [note for note in outcome.notes if LONG in note and "lost" in note and SHORT not in note]


def test_where_nothing_is_left_to_compare_the_check_is_not_green(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, columns = checked(monkeypatch, {SHORT, LONG})
    outcome = made.execute()
    assert (columns, outcome.expected_views) == ([], ())
    assert not judge(outcome).green


TWO = plan(
    Project.of(
        "p",
        [
            sw.FeatureView(
                name,
                source=_source,
                entity=[],
                features=[sw.Feature("n", sw.count(), windows=["10m"])],
            )
            for name in ("first", "second")
        ],
    )
)


def _row(verdict: Verdict) -> Compared:
    return Compared("first", "n_10m", "{}", "live", 0, 1, b"\x01", b"\x02", verdict)


@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize("verdict", [Verdict.EQUAL, Verdict.MISMATCH])
def test_what_was_found_to_differ_stands_where_another_view_cannot_be_compared(
    monkeypatch: pytest.MonkeyPatch, verdict: Verdict, agrees: bool
) -> None:
    def compared(
        _: run.CheckRun, unit: StorageUnit, _reads: object
    ) -> tuple[list[Compared], list[PlainSum]]:
        if unit.view == "second":
            raise MemoryError("no heap is left")
        return [_row(verdict)], [PlainSum("first", "n_10m", "{}", agrees)]

    made, _ = checked(monkeypatch, set())
    monkeypatch.setattr(run.CheckRun, "_compare", compared)
    monkeypatch.setattr(run.CheckRun, "_read", lambda *_: [])
    made = replace(made, deployment=TWO)
    if verdict is Verdict.EQUAL and agrees:
        with pytest.raises(MemoryError):
            made.execute()
        return
    outcome = made.execute()
    assert outcome.compared == (_row(verdict),)
    assert "view second: not checked, MemoryError: no heap is left" in outcome.notes
    gate = judge(outcome)
    assert not gate.green
    report = summary(outcome, gate)
    assert judged(report, "").result == "red"
    assert set(report["concerned"]) == {"first"}, "a view whose sums are off is marked too"


def test_a_difference_stands_where_the_search_for_its_cause_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def searched(*_: object) -> list[Cause]:
        raise MemoryError("no heap is left")

    unit, reader = DEPLOYMENT.units[0], Reader(set())
    [answer] = reader.read([SHORT, LONG], [{}], None)
    read = compare.Read(
        OnlineAnswer(0, {}, answer.tokens[0]), answer.values, "live", None, answer.text
    )
    values = [*compare._values(unit, [read])]
    monkeypatch.setattr(compare, "causes_of", searched)
    rows = compare._with_causes(
        cast("Any", None), values, [_row(Verdict.MISMATCH), _row(Verdict.EQUAL)], {}
    )
    assert [(row.verdict, row.cause) for row in rows] == [
        (Verdict.MISMATCH, Cause.UNCLASSIFIED),
        (Verdict.EQUAL, Cause.NONE),
    ]


@pytest.mark.parametrize("verdict", [Verdict.EQUAL, Verdict.MISMATCH])
def test_a_difference_that_cannot_be_kept_is_told_all_the_same(verdict: Verdict) -> None:
    outcome = Outcome("r", 0, 1, 1, ("first",), (_row(verdict),), ())

    def keep() -> None:
        raise OSError("no space is left")

    if verdict is Verdict.EQUAL:
        with pytest.raises(OSError, match="no space"):
            kept(outcome, keep)
    else:
        assert kept(outcome, keep) == "not kept, OSError: no space is left"
    assert kept(outcome, lambda: None) == ""


def test_a_view_that_could_not_be_read_is_still_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = checked(monkeypatch, set())
    monkeypatch.setattr(run.CheckRun, "_read", lambda *_: [])
    assert made.execute().expected_views == ("all",)
