"""Clocks tell integer microseconds UTC."""

from __future__ import annotations

import time

from slicewise.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_tells_microseconds_since_the_epoch() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns() // 1000
    now_us = clock.now_us()
    assert before <= now_us <= time.time_ns() // 1000


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(5)
    assert clock.now_us() == clock.now_us() == 5
    clock.advance(7)
    assert clock.now_us() == 12
    clock.set(3)
    assert clock.now_us() == 3
