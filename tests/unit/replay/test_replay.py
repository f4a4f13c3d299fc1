"""A replay is the same sequence of events whoever asks, whenever, and from any number on."""

import collections
import json
from collections.abc import Sequence
from typing import TypedDict, Unpack

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.clock import ManualClock
from slicewise.errors import DataLoss, DefinitionError
from slicewise.replay import flights
from slicewise.replay.run import NewestEvent, resume, run
from slicewise.replay.schedule import Event, Pace, Schedule, partition_of
from slicewise.replay.songs import CHUNK, SCHEMA, Plays
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US

N = 336_776
NOW = 1_790_000_000_123_456


class PaceFields(TypedDict, total=False):
    speed: int
    share: float
    offset_us: int


def schedule(base_us: int = 0, **pace: Unpack[PaceFields]) -> Schedule:
    return Schedule(flights.year(), Pace(**pace), base_us)


# ---------------------------------------------------------------- the year
def test_the_year_has_every_flight_once() -> None:
    assert len(flights.year()) == N
    assert sum(flights.year().columns["cancelled"]) == 8_255
    delays = [delay for delay in flights.year().columns["dep_delay"] if delay is not None]
    assert (min(delays), max(delays)) == (-43, 1_301)


def test_a_flight_is_logged_at_its_arrival_and_a_cancelled_one_when_it_should_have_left() -> None:
    late = flights.year().arrival - flights.year().scheduled
    for i in (0, 1_000, 100_000, N - 1):
        delay, air = flights.year().columns["dep_delay"][i], flights.year().columns["air_time"][i]
        assert late[i] == ((delay or 0) + (air or 0)) * MINUTE_US
    cancelled = [i for i in range(0, N, 7) if flights.year().columns["cancelled"][i]]
    assert cancelled
    assert all(late[i] == 0 for i in cancelled)


def test_the_order_is_that_of_arrival_and_event_times_are_out_of_order() -> None:
    assert (flights.year().arrival[1:] >= flights.year().arrival[:-1]).all()
    assert flights.year().arrival[0] >= 0
    assert flights.year().arrival[-1] < flights.YEAR_US
    backwards = (flights.year().scheduled[1:] < flights.year().scheduled[:-1]).mean()
    assert 0.3 < backwards < 0.7


def test_a_flight_that_lands_after_the_years_end_stands_at_its_beginning() -> None:
    wrapped = flights.year().scheduled < 0
    assert 0 < wrapped.sum() < 100
    assert (flights.year().arrival[wrapped] < DAY_US).all()


def test_a_flight_past_midnight_keeps_its_length() -> None:
    # 23:59 scheduled, 2 h in the air: it arrives two hours later, not 22 hours earlier
    late = flights.year().arrival - flights.year().scheduled
    assert late.min() >= -HOUR_US
    assert late.max() < 2 * DAY_US


# ------------------------------------------------------------ the schedule
def test_the_year_is_compressed_into_a_day_and_shifted_by_one_each_time() -> None:
    made = schedule(base_us=NOW)
    assert made.pace.cycle_us == DAY_US
    for i in (0, 5, N - 1):
        one, next_year = made.event(i), made.event(i + N)
        assert next_year.arrival_us - one.arrival_us == DAY_US
        assert next_year.event_us - one.event_us == DAY_US
        a, b = json.loads(one.value), json.loads(next_year.value)
        assert (a.pop("number"), b.pop("number")) == (i, i + N)
        assert b.pop("scheduled") - a.pop("scheduled") == DAY_US
        assert a == b


def test_lateness_shrinks_as_time_does() -> None:
    made = schedule()
    real = flights.year().arrival - flights.year().scheduled
    for i in range(0, N, 9_973):
        event = made.event(i)
        assert abs((event.arrival_us - event.event_us) - real[i] // 365) <= 1
    assert real.max() // 365 < 15 * MINUTE_US, "max_lateness of the example fits"


@pytest.mark.parametrize("offset_us", [0, 90 * DAY_US + 5 * HOUR_US, flights.YEAR_US - 1])
def test_arrivals_never_go_back_over_the_end_of_a_year(offset_us: int) -> None:
    made = schedule(base_us=NOW, offset_us=offset_us)
    numbers = [*range(50), *range(N - 50, N + 50)]
    arrivals = [made.event(n).arrival_us for n in numbers]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] >= NOW
    every = {made.event(n).value.partition(b"carrier")[2] for n in range(200)}
    assert len(every) > 150, "different flights"


@given(st.integers(0, 3 * N), st.sampled_from([0, 33 * DAY_US]), st.sampled_from([1, 365, 10_950]))
@settings(max_examples=60, deadline=None)
def test_what_is_due_is_what_arrived(number: int, offset_us: int, speed: int) -> None:
    made = schedule(base_us=NOW, offset_us=offset_us, speed=speed)
    at = made.event(number).arrival_us
    assert made.arrival_us(number) == at
    due = made.due(at)
    assert made.due(at - 1) <= number < due
    assert made.event(due).arrival_us > at
    assert made.due(NOW - 1) == 0


def test_the_share_lies_before_the_start() -> None:
    pace = Pace(share=0.8)
    made = Schedule(flights.year(), pace, pace.base_us(NOW))
    assert abs(made.live_from_us - NOW) < 2_000
    assert 0.75 * N < made.due(made.live_from_us) < 0.85 * N
    assert made.base_us % 1000 == 0


@pytest.mark.parametrize(
    "wrong", [{"speed": 0}, {"share": 1.5}, {"share": -0.1}, {"offset_us": flights.YEAR_US}]
)
def test_an_impossible_pace_is_refused(wrong: PaceFields) -> None:
    with pytest.raises(DefinitionError, match="a replay at speed"):
        Pace(**wrong)


# ------------------------------------------------------------------ resume
def ends(made: Schedule, numbers: list[int]) -> dict[int, NewestEvent]:
    return {
        p: NewestEvent(made.event(n).value, made.event(n).arrival_us // 1000)
        for p, n in enumerate(numbers)
    }


def test_an_empty_topic_starts_now() -> None:
    made, first = resume(Pace(), {}, NOW)
    assert (first, made.base_us) == (0, Pace().base_us(NOW))


@pytest.mark.parametrize("numbers", [[0], [17, 4_000, 3], [N + 5, N + 6]])
def test_a_topic_says_where_its_replay_goes_on(numbers: list[int]) -> None:
    made = schedule(base_us=NOW // 1000 * 1000, offset_us=7 * DAY_US)
    result, first = resume(made.pace, ends(made, numbers), now_us=NOW + 10**12)
    assert result.base_us == made.base_us
    assert first == max(numbers) + 1


def test_a_topic_of_another_replay_is_refused() -> None:
    made = schedule(base_us=NOW // 1000 * 1000)
    with pytest.raises(DataLoss, match="is not that of this replay"):
        resume(Pace(offset_us=DAY_US), ends(made, [100]), NOW)
    with pytest.raises(DataLoss, match="is not that of this replay"):
        resume(Pace(speed=100), ends(made, [3, 100]), NOW)
    with pytest.raises(DataLoss, match="no replay wrote"):
        resume(Pace(), {0: NewestEvent(b"{}", 1)}, NOW)


# --------------------------------------------------------------------- run
class Sink:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, events: Sequence[Event]) -> None:
        self.events.extend(events)


def test_history_is_written_at_once_and_live_at_its_pace() -> None:
    pace = Pace(share=0.001)
    made = Schedule(flights.year(), pace, pace.base_us(NOW))
    clock, sink = ManualClock(NOW), Sink()

    def wait(seconds: float) -> bool:
        assert all(event.arrival_us <= clock.now_us() for event in sink.events)
        clock.advance(max(1_000, int(seconds * 1e6)))
        return clock.now_us() > NOW + 20_000_000

    following = run(made, 0, sink, clock, wait, history_only=False)
    assert [event.number for event in sink.events] == list(range(following))
    assert following >= made.due(NOW + 19_000_000)
    history = made.due(made.live_from_us)
    assert 0 < history < following

    only = Sink()
    assert run(made, 5, only, ManualClock(NOW), lambda _: False, history_only=True) == history
    assert [event.number for event in only.events] == list(range(5, history))


def test_a_carrier_has_one_partition_and_carriers_have_several() -> None:
    carriers = set(flights.year().columns["carrier"])
    assert {partition_of(c, 2) for c in carriers} == {0, 1}
    assert partition_of("UA", 2) == partition_of("UA", 2)


# ------------------------------------------------------------------- songs
@given(st.integers(0, 3 * CHUNK), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_plays_are_the_same_from_any_number_on(first: int, n: int) -> None:
    plays = Plays(users=1_000, songs=1_000)
    whole = pa.Table.from_batches([plays.batch(0, first + n)]).slice(first)
    assert pa.Table.from_batches([plays.batch(first, n)]).to_pylist() == whole.to_pylist()
    assert len(plays.json(first, n)) == n


def test_equal_seeds_make_equal_plays_and_others_do_not() -> None:
    assert Plays(seed=3).json(0, 100) == Plays(seed=3).json(0, 100)
    assert Plays(seed=3).json(0, 100) != Plays(seed=4).json(0, 100)


def test_plays_are_zipf_distributed_and_a_few_are_late() -> None:
    plays = Plays(users=1_000, songs=1_000, rate=1_000, start_us=NOW, late_share=0.1)
    batch = plays.batch(0, 50_000)
    assert batch.schema == SCHEMA
    counts = collections.Counter(batch["user_id"].to_pylist())
    (top, first), (_, second) = counts.most_common(2)
    assert top == "u0"
    assert 1.7 < first / second < 2.5  # 2^1.05 expected
    at = batch["played_at"].to_numpy()
    late = sum(NOW + i * 1_000 - t > 0 for i, t in enumerate(at.tolist()))
    assert 0.08 < late / 50_000 < 0.12


def test_json_holds_what_the_batch_holds() -> None:
    plays = Plays()
    rows = [json.loads(value) for value in plays.json(CHUNK - 3, 6)]
    assert rows == plays.batch(CHUNK - 3, 6).to_pylist()


def test_impossible_plays_are_refused() -> None:
    with pytest.raises(DefinitionError):
        Plays(users=0)
