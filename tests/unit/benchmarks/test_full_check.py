"""The full check finds what is wrong, repeats itself with a seed, and sums as brute force does."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from slicewise.aggregates import Event
from slicewise.offsets.vector import OffsetVector
from tests.full import compared
from tests.full.__main__ import CYCLE, histories, main
from tests.full.compared import bounds_of, fingerprint, play, played, same
from tests.full.histories import SOURCES, at_random
from tests.full.opinion import QUICK, Contained
from tests.full.world import Part, World
from tests.laws.oracles import aggregates as laws
from tests.laws.oracles.values import Error

SMALL = 0.04
SEED = 11


@pytest.mark.parametrize("source", [pytest.param(name, marks=pytest.mark.long) for name in SOURCES])
def test_a_small_history_of_each_source_is_right_and_another_run_compares_the_same(
    source: str,
) -> None:
    result = play(source, SEED, SMALL)
    print(fingerprint(result))
    assert not result.wrong, "\n".join(result.wrong)
    assert result.online == result.training > 500
    assert result.bounds > 100
    assert result.hours > 0
    if source == "random":
        assert fingerprint(play(source, SEED, SMALL)) == fingerprint(result)
        assert fingerprint(play(source, SEED + 1, SMALL)) != fingerprint(result)


@pytest.mark.long
def test_rows_that_never_were_applied_are_found_by_the_opinion_and_by_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, left = World._apply, iter([True])

    def forgetful(self: World, part: Part, partition: int, end: OffsetVector) -> None:
        topic_partition = next(iter(end))
        if part is self.parts[0] and self.ends.get(topic_partition) and next(left, False):
            return
        whole(self, part, partition, end)

    monkeypatch.setattr(World, "_apply", forgetful)
    result = played(World(SOURCES["plays"](SEED, SMALL)))
    assert result.mismatches > 10
    assert (
        any("training of" in line for line in result.wrong)
        or result.mismatches > compared.MAX_LISTED
    )


@pytest.mark.long
def test_an_hour_that_was_compacted_with_other_events_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contained = World._contained

    def one_less(self: World, rows: object) -> object:
        result = contained(self, rows).copy()
        result[result.nonzero()[0][:1]] = False
        return result

    monkeypatch.setattr(World, "_contained", one_less)
    assert played(World(SOURCES["plays"](SEED, SMALL))).mismatches > 0


@pytest.mark.long
def test_sums_that_are_subtracted_say_what_counting_out_says() -> None:
    kinds = set()
    for seed in range(4):
        history = at_random(seed, 0.3)
        world = World(history)
        rng = Random(seed)
        for part in world.parts:
            groups = compared._events(history, part)
            events: list[Event] = max(groups.values(), key=len)
            contained = Contained(events)
            for feature in part.unit.features:
                spec = str(feature.aggregate.spec())
                inner = getattr(feature.aggregate, "aggregate", feature.aggregate).kind
                if inner not in QUICK:
                    continue
                kinds.add(inner)
                for first, beyond in [(0, 0), (0, len(events)), *_ranges(rng, len(events))]:
                    wanted = laws.expected(feature.aggregate, contained.events[first:beyond], 0)
                    result = contained.value(spec, feature.aggregate, first, beyond, 0)
                    if isinstance(wanted, Error):
                        assert (result, type(result)) == (wanted, Error)
                    else:
                        assert same(result, wanted), (spec, first, beyond, result, wanted)
    assert len(kinds) >= 14, kinds


def _ranges(rng: Random, n: int) -> list[tuple[int, int]]:
    return [tuple(sorted((rng.randint(0, n), rng.randint(0, n)))) for _ in range(6)]  # type: ignore[misc]


def test_a_last_bit_a_sign_and_a_type_are_differences() -> None:
    assert same(0.1 + 0.2, 0.30000000000000004)
    assert not same(0.1 + 0.2, 0.3)
    assert not same(0.0, -0.0)
    assert not same(1, 1.0)
    assert not same(None, 0)
    assert same([1, None], [1, None])
    assert not same([1, 2.0], [1, 2])
    assert not same([{"by": 1}], [{"key": 1}])


def test_bounds_are_those_of_the_design() -> None:
    # |···· an hour of five-minute slices ····|
    #                                      at ^ 12:03:07
    history = SOURCES["plays"](SEED, SMALL)
    (unit,) = history.deployment.view("listening")
    feature = next(column for column in unit.features if column.column == "plays_1h")
    noon = 1_767_355_200_000_000
    at = noon + 187_000_000
    assert bounds_of(unit, feature, "at", at) == (noon - 3_600_000_000, noon)
    assert bounds_of(unit, feature, "live", at) == (noon - 3_600_000_000, noon + 300_000_000)


def test_histories_follow_from_the_seed_and_a_source_alone_begins_with_it() -> None:
    assert [name for name, _ in islice(histories([], 5), len(CYCLE))] == list(CYCLE)
    assert list(islice(histories(["random"], 17), 2)) == [("random", 17), ("random", 18)]


@pytest.mark.long
def test_a_run_tells_its_counts_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["--histories", "2", "--only", "random", "--seed", "3", "--size", str(SMALL), "--jobs", "1"]
    )
    output = capsys.readouterr().out
    assert code == 0
    assert "values compared, 0 differ" in output
    assert "random" in output
