"""A window that is looked up has the bits of one that is combined from slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.aggregates.exact import prefixes
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.training import ranges
from slicewise.training.answering import local
from slicewise.training.dataset import build_training_set
from slicewise.training.tables.instants import as_timestamps
from tests.support.inputs.seeds import seeds
from tests.support.oracles.answers import HOUR
from tests.unit.training.world import AGGREGATES, START, InMemoryArchive, random_events, view

WINDOWS = ("10m", "3h")
VIEWS = (view(["user"], WINDOWS, name="users"), view([], WINDOWS, name="everyone"))
DEPLOYMENT = plan(Project.of("lookup", VIEWS))
REFS = [f"{v.name}:{name}_{window}" for v in VIEWS for name in AGGREGATES for window in WINDOWS]


def training_table(seed: int) -> pa.Table:
    """A training set of every aggregate; each has an entity without events too."""
    archive = InMemoryArchive(
        DEPLOYMENT.source("plays"), [random_events(seed, 300)], START + 7 * HOUR
    )
    at = START + np.random.default_rng(seed).integers(0, 6 * HOUR, 40)
    users = [["bob", "ann", "nobody"][i % 3] for i in range(40)]
    spine = pa.table({"user": users, "at": as_timestamps(at)})
    return build_training_set(DEPLOYMENT, archive, spine, REFS, "event_time").table


@pytest.mark.parametrize("seed", seeds([1, 2]))
def test_looking_up_changes_no_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = training_table(seed)
    layouts = [unit.layout for v in VIEWS for unit in DEPLOYMENT.view(v.name)]
    kinds = {type(aggregate) for layout in layouts for aggregate in layout.partials}
    for kind in kinds:
        monkeypatch.setattr(kind, "over_ranges", lambda *_: None)
    assert training_table(seed).equals(looked_up)


@pytest.mark.parametrize("at_once", [7, pytest.param(1, marks=pytest.mark.long)])
def test_no_run_of_entities_shows(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training_table(3)
    monkeypatch.setattr(local, "EVENTS_AT_ONCE", at_once)
    monkeypatch.setattr(ranges, "SORTED_AT_ONCE", at_once)
    assert training_table(3).equals(whole)


def test_a_table_that_would_be_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training_table(4)
    monkeypatch.setattr(prefixes, "MOST_CELLS", 100)
    assert training_table(4).equals(whole)


times = st.integers(-5, 5) | st.sampled_from([-(2**62), 2**62, 2**61 + 1])


@given(st.lists(st.tuples(st.integers(0, 9) | st.just(70_000), times)), st.integers(1, 6))
def test_rows_are_put_in_order_by_entity_and_time(
    rows: list[tuple[int, int]], at_once: int
) -> None:
    entity, time = np.array(rows, np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "SORTED_AT_ONCE", at_once)
        order, by_entity, by_time = ranges.order_by(entity, time)
    wanted = np.lexsort((time, entity))  # stable
    assert order.tolist() == wanted.tolist()
    assert (by_entity.tolist(), by_time.tolist()) == (
        entity[wanted].tolist(),
        time[wanted].tolist(),
    )
