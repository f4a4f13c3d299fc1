"""Requests are answered, wait or are refused: nobody waits beyond the patience, nobody is
forgotten, nobody takes all."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

import pytest

from slicewise.errors import Overloaded, OverShare
from slicewise.serving.http.admission import (
    ENTITIES_PER_UNIT,
    Admission,
    Limits,
    Refusal,
    Ticket,
)
from slicewise.serving.http.gate import RETRY_AFTER_S, Gate
from slicewise.serving.metrics import Metrics

LIMITS = Limits(at_once=4, patience_s=0.1, waiting=6)


def filled(limits: Limits = LIMITS, client: str = "a") -> tuple[Admission, list[Ticket]]:
    """An admission with as many in work as there may be."""
    admission = Admission(limits)
    return admission, [admission.arrive(client, 0.0)[0] for _ in range(limits.at_once)]


def test_what_fits_begins_at_once_and_what_does_not_waits() -> None:
    admission, working = filled()
    assert not any(ticket.waits for ticket in working)
    ticket, refused = admission.arrive("a", 0.0)
    assert ticket.waits
    assert not refused
    assert admission.begin(0.0) == []
    admission.leave(working[0])
    assert admission.begin(0.0) == [ticket]
    assert (admission.working, admission.waiting, ticket.waits) == (4, 0, False)


def test_nobody_waits_longer_than_the_patience() -> None:
    admission, _ = filled()
    early, late = (admission.arrive("a", t)[0] for t in (1.0, 1.04))
    assert admission.expires == 1.1
    assert admission.expire(1.0999) == []
    assert admission.expire(1.1) == [(early, Refusal.WAITED)]
    assert admission.expire(2.0) == [(late, Refusal.WAITED)]
    assert admission.waiting == 0
    assert admission.expires is None


def test_the_oldest_is_next_until_it_has_waited_for_half_the_patience_and_then_the_newest() -> None:
    for now, wanted in ((0.05, 0), (0.0501, 2)):
        admission, working = filled()
        waiting = [admission.arrive("a", 0.0)[0] for _ in range(3)]
        admission.leave(working[0])
        assert admission.begin(now) == [waiting[wanted]], now


def test_where_all_places_are_taken_the_newest_of_the_client_with_most_is_refused() -> None:
    admission, _ = filled()
    crowd = [admission.arrive("a", 0.0)[0] for _ in range(LIMITS.waiting)]
    single, refused = admission.arrive("b", 0.0)
    assert refused == [(crowd[-1], Refusal.SHARE)]
    assert single.waits
    one_more, refused = admission.arrive("a", 0.0)
    assert refused == [(one_more, Refusal.SHARE)]
    assert admission.waiting == LIMITS.waiting


def test_clients_take_turns() -> None:
    admission, working = filled()
    for _ in range(4):
        admission.arrive("a", 0.0)
    own = [admission.arrive("b", 0.01)[0] for _ in range(2)]
    served = []
    for ticket in working:
        admission.leave(ticket)
        served += admission.begin(0.02)
    assert [ticket.client for ticket in served] == ["a", "b", "a", "b"]
    assert [ticket for ticket in served if ticket.client == "b"] == own


def test_only_who_has_more_than_an_equal_share_is_told_so_and_only_beside_others() -> None:
    admission, _ = filled()
    admission.arrive("a", 0.0)
    [(_, alone)] = admission.expire(1.0)
    assert alone is Refusal.WAITED
    for client in "aab":
        admission.arrive(client, 2.0)
    assert [(ticket.client, why) for ticket, why in admission.expire(3.0)] == [
        ("a", Refusal.SHARE), ("a", Refusal.SHARE), ("b", Refusal.WAITED),
    ]  # fmt: skip


def test_a_request_counts_by_its_entities_and_the_largest_is_answered_alone() -> None:
    admission = Admission(LIMITS)
    small, _ = admission.arrive("a", 0.0, ENTITIES_PER_UNIT)
    assert small.units == 1
    large, _ = admission.arrive("a", 0.0, 1_000)
    behind, _ = admission.arrive("a", 0.0)
    assert (large.units, large.waits, behind.waits) == (LIMITS.at_once, True, True)
    admission.leave(small)
    assert admission.begin(0.0) == [large]  # and nobody goes before it, else it would never begin
    admission.leave(large)
    assert admission.begin(0.0) == [behind]


@pytest.mark.parametrize("seed", range(40))
def test_any_history_keeps_the_bounds_and_ends_every_request_once(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    limits = Limits(chance.randint(1, 5), 0.1, chance.randint(1, 8))
    admission, now = Admission(limits), 0.0
    working: list[Ticket] = []
    waiting: list[Ticket] = []
    ends: Counter[Ticket] = Counter()

    def refuse(refused: list[tuple[Ticket, Refusal]]) -> None:
        for ticket, why in refused:
            assert why is not Refusal.WAITED or now >= ticket.since + limits.patience_s
            assert (
                why is not Refusal.SHARE
                or len({request.client for request in working + waiting}) > 1
            )
            waiting.remove(ticket)
            ends[ticket] += 1

    everybody = 0
    for _ in range(400):
        now += chance.choice([0.0, 0.001, 0.03])
        what = chance.random()
        if what < 0.5:
            ticket, refused = admission.arrive(
                chance.choice("aaab"), now, chance.choice([1, 1, 100, 1_000])
            )
            everybody += 1
            (waiting if ticket.waits else working).append(ticket)
            refuse(refused)
        elif what < 0.9 and working:
            gone = working.pop(chance.randrange(len(working)))
            ends[gone] += 1
            admission.leave(gone)
        elif waiting:
            gone = waiting.pop(chance.randrange(len(waiting)))
            ends[gone] += 1
            admission.abandon(gone)
        refuse(admission.expire(now))
        for ticket in admission.begin(now):
            waiting.remove(ticket)
            working.append(ticket)
        assert admission.used == sum(ticket.units for ticket in working) <= limits.at_once
        assert (admission.working, admission.waiting) == (len(working), len(waiting))
        assert len(waiting) <= limits.waiting
        assert all(now < ticket.since + limits.patience_s for ticket in waiting)
        assert working or not waiting  # nobody waits for nothing
    assert set(ends.values()) == {1}
    assert everybody == len(ends) + len(working) + len(waiting)
    for ticket in working:
        admission.leave(ticket)
    for ticket in waiting:
        admission.abandon(ticket)
    assert (admission._admitted, admission._turns, admission.used) == ({}, {}, 0)


def test_who_waits_is_woken_by_an_answer_or_refused_in_time() -> None:
    async def scenario() -> None:
        gate = Gate(Limits(at_once=1, patience_s=0.05, waiting=10), Metrics())
        first = await gate.enter("a")
        second = asyncio.create_task(gate.enter("a"))
        await asyncio.sleep(0)
        gate.leave(first)
        ticket = await second
        loop = asyncio.get_running_loop()
        begin = loop.time()
        result = await asyncio.gather(*(gate.enter("a") for _ in range(4)), return_exceptions=True)
        assert loop.time() - begin >= 0.05
        assert [type(error) for error in result] == [Overloaded] * 4
        assert {error.retry_after_s for error in result if isinstance(error, Overloaded)} == set(
            RETRY_AFTER_S
        )
        assert gate.admission.waiting == 0
        gate.leave(ticket)
        gate.leave(await gate.enter("a"))
        assert (gate.admission.working, gate._waits) == (0, {})
        shed = gate._metrics.registry.get_sample_value("slicewise_shed_total", {"why": "waited"})
        assert shed == 4

    asyncio.run(scenario())


def test_behind_a_large_one_that_is_refused_or_gone_a_small_one_begins() -> None:
    async def scenario() -> None:
        gate = Gate(Limits(at_once=2, patience_s=0.05, waiting=10), Metrics())
        await gate.enter("a")
        for cancelled in (False, True):
            large = asyncio.create_task(gate.enter("a", 1_000))
            await asyncio.sleep(0.03)
            small = asyncio.create_task(gate.enter("a"))
            await asyncio.sleep(0)
            if cancelled:
                large.cancel()
            gate.leave(await small)
            assert gate.admission.working == 1
            with contextlib.suppress(Overloaded, asyncio.CancelledError):
                await large

    asyncio.run(scenario())


def test_a_client_over_its_share_is_told_so() -> None:
    async def scenario() -> None:
        gate = Gate(Limits(at_once=1, patience_s=0.02, waiting=2), Metrics())
        await gate.enter("a")
        result = await asyncio.gather(
            gate.enter("a"),
            gate.enter("a"),
            gate.enter("b"),
            gate.enter("a"),
            return_exceptions=True,
        )
        assert [type(error) for error in result] == [OverShare, OverShare, Overloaded, OverShare]

    asyncio.run(scenario())


def test_a_request_that_is_cancelled_gives_its_place_back_waiting_or_just_begun() -> None:
    async def scenario() -> None:
        gate = Gate(Limits(at_once=1, patience_s=10.0, waiting=10), Metrics())
        first = await gate.enter("a")
        gone, begun, last = (asyncio.create_task(gate.enter("a")) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert gate.admission.waiting == 2
        gate.leave(first)
        begun.cancel()  # in the turn of the loop in which its work begins
        ticket = await last
        same_turn = [asyncio.create_task(gate.enter("a")) for _ in range(2)]
        await asyncio.sleep(0)
        same_turn[0].cancel()
        gate.leave(ticket)  # the next one is gone already, and does not know yet
        gate.leave(await same_turn[1])
        assert begun.cancelled()
        assert (gate.admission.working, gate.admission.waiting) == (0, 0)

    asyncio.run(scenario())
