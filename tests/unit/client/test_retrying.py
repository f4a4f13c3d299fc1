"""A read is sent once more only where that may help, within its number, its time and the client's
budget."""

from __future__ import annotations

import pytest

from slicewise.client.retrying import (
    AGAIN,
    BUDGET,
    Budget,
    NoReply,
    Outcome,
    Reply,
    Retry,
    Send,
    Wait,
    attempts,
)
from slicewise.errors import BadRequest

OK = Reply(200, b"fine")


class Call:
    """One call, with a clock that moves by what is waited and by `takes_s` for each attempt."""

    def __init__(
        self,
        retry: Retry,
        *,
        budget: Budget | None = None,
        timeout_s: float = 60.0,
        takes_s: float = 0.0,
    ) -> None:
        self.now, self.takes_s = 100.0, takes_s
        self.sent: list[float] = []
        self.waited: list[float] = []
        self._steps = attempts(
            retry, budget or Budget(retry.share), timeout_s, lambda: self.now, lambda: 0.5
        )

    def run(self, *outcomes: Outcome) -> Outcome:
        """The outcome that counts; the last of `outcomes` stands for all further attempts."""
        answer: Outcome | None = None
        try:
            while True:
                step = self._steps.send(answer)
                if isinstance(step, Wait):
                    self.waited.append(step.seconds)
                    self.now += step.seconds
                    answer = None
                else:
                    assert isinstance(step, Send)
                    self.sent.append(step.timeout_s)
                    self.now += self.takes_s
                    answer = outcomes[min(len(self.sent), len(outcomes)) - 1]
        except StopIteration as end:
            ended: Outcome = end.value
            return ended


def test_an_answer_counts_at_once() -> None:
    call = Call(Retry())
    assert call.run(OK) == OK
    assert (len(call.sent), call.waited) == (1, [])


@pytest.mark.parametrize("status", sorted(AGAIN))
def test_a_refusal_for_the_moment_is_tried_again(status: int) -> None:
    assert Call(Retry(times=1)).run(Reply(status, b""), OK) == OK


@pytest.mark.parametrize("status", [400, 404, 406, 408, 413, 422, 500])
def test_a_refusal_that_stays_is_not(status: int) -> None:
    call = Call(Retry())
    assert call.run(Reply(status, b"")) == Reply(status, b"")
    assert len(call.sent) == 1


def test_a_connection_that_failed_is_tried_again() -> None:
    assert Call(Retry(times=1)).run(NoReply(OSError("reset")), OK) == OK


def test_never_more_often_than_it_says_and_the_last_outcome_counts() -> None:
    call = Call(Retry(times=2))
    assert call.run(Reply(503, b"1"), Reply(503, b"2"), Reply(503, b"3")) == Reply(503, b"3")
    assert len(call.sent) == 3


def test_waits_double_up_to_the_longest_and_half_of_each_is_chance() -> None:
    call = Call(Retry(times=5, first_wait_s=1.0, longest_wait_s=4.0))
    call.run(Reply(503, b""))
    assert call.waited == [0.5, 1.0, 2.0, 2.0, 2.0]  # chance is 0.5 here
    assert Retry(first_wait_s=1.0).wait_s(1, 0.0, 0.0) == 0.0
    assert Retry(times=2_000).wait_s(2_000, 0.0, 0.5) == 1.0


def test_retry_after_is_waited_for_and_chance_comes_on_top() -> None:
    call = Call(Retry(times=1, first_wait_s=0.2))
    call.run(Reply(503, b"", retry_after_s=3.0), OK)
    assert call.waited == [3.1]


def test_no_retry_begins_after_the_time_of_the_call() -> None:
    # |-- 2 s of attempt --|-- Retry-After 3 s --| would begin at the end of 5 s
    call = Call(Retry(times=5), timeout_s=5.0, takes_s=2.0)
    assert call.run(Reply(429, b"", retry_after_s=3.0)) == Reply(429, b"", retry_after_s=3.0)
    assert call.sent == [5.0]


def test_a_further_attempt_has_what_is_left_of_the_time() -> None:
    call = Call(Retry(times=1), timeout_s=10.0, takes_s=2.0)
    call.run(Reply(503, b"", retry_after_s=3.0), OK)
    assert call.sent == [10.0, pytest.approx(10.0 - 2.0 - 3.05)]


def test_a_client_whose_calls_all_fail_spends_its_reserve_and_then_a_share() -> None:
    retry = Retry(times=3, share=0.1)
    budget, calls = Budget(retry.share), 1_000
    sent = 0
    for _ in range(calls):
        call = Call(retry, budget=budget)
        call.run(Reply(503, b""))
        sent += len(call.sent)
    assert calls < sent <= calls * 1.1 + BUDGET


def test_a_retry_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadRequest, match="no such number"):
        Retry(times=-1)
