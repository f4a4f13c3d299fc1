"""produce the flights of 2013, compressed: the past at once, then live, for ever

Stopped in any way and started again, it goes on where the topic ends.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time

from slicewise.settings import Settings
from slicewise.windows.durations import DAY_US, parse_duration

PROGRESS_S = 1.0
RETRY_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--speed", type=int, default=365, help="365: the year in a day (default)")
    parser.add_argument(
        "--share", type=float, default=0.8, help="part of the year that lies before the start (0.8)"
    )
    parser.add_argument(
        "--offset", default=None, help="begin so far into the year, as in 90d (default: its start)"
    )
    parser.add_argument("--partitions", type=int, default=None, help="of a topic that is not there")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--history-only", action="store_true", help="end where live would begin")
    which.add_argument("--live", action="store_true", help="history, then live (the default)")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.clock import SystemClock
    from slicewise.errors import StoreUnavailable
    from slicewise.log import Progress
    from slicewise.replay.run import KafkaSink, NewestEvent, resume
    from slicewise.replay.run import run as run_replay
    from slicewise.replay.schedule import Pace
    from slicewise.stores.log.producer import TransactionalWriter, last_records
    from slicewise.stores.log.topics import KafkaLog

    offset_us = parse_duration(arguments.offset) % (365 * DAY_US) if arguments.offset else 0
    pace = Pace(arguments.speed, arguments.share, offset_us)
    clock, stopping = SystemClock(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())

    log = KafkaLog(settings.kafka_bootstrap)
    log.create(arguments.topic, arguments.partitions or settings.kafka_partitions)
    partitions = log.partitions(arguments.topic)

    def once() -> None:
        """Goes on where the topic ends, until told to stop."""
        # The writer comes first: it ends what an earlier one left open, and no other writes after
        # it.
        name = f"slicewise-replay-{arguments.topic}"
        writer = TransactionalWriter(settings.kafka_bootstrap, arguments.topic, name)
        ends = last_records(settings.kafka_bootstrap, arguments.topic, range(partitions))
        newest = {p: NewestEvent(record.value, record.time_ms) for p, record in ends.items()}
        schedule, first = resume(pace, newest, clock.now_us())
        history = schedule.due(schedule.live_from_us)
        where = {"topic": arguments.topic, "partitions": partitions, "first": first}
        notify("replay.start", **where, history=history, cycle_s=pace.cycle_us // 1_000_000)
        reported = [time.monotonic()]

        def progress(done: int, of: int) -> None:
            if done - first > 1000 and (done == of or time.monotonic() - reported[0] > PROGRESS_S):
                reported[0] = time.monotonic()
                phase = "history" if done <= history else "live"
                values = {"phase": phase, "events": done, "of": max(of, done)}
                line = _line("replay.progress", **values)
                shown(Progress(line, f"replay, {phase}", done, max(of, done)))

        with bars(_print) as shown:
            number = run_replay(
                schedule,
                first,
                KafkaSink(writer, partitions),
                clock,
                stopping.wait,
                history_only=arguments.history_only,
                progress=progress if first < history else None,
            )
        notify("replay.end", events=number, written=number - first)

    while not stopping.is_set():
        try:
            once()
            return 0
        except StoreUnavailable as error:
            # The broker was there just now: one that restarts is no reason to end what runs for
            # ever.
            if arguments.history_only:
                raise
            notify("replay.retry", pause_s=RETRY_S, error=type(error).__name__)
            stopping.wait(RETRY_S)
    return 0


def notify(event: str, **values: object) -> None:
    _print(_line(event, **values))


def _line(event: str, **values: object) -> str:
    return " ".join([event, *(f"{key}={value}" for key, value in values.items())])


def _print(line: str) -> None:
    print(line, flush=True, file=sys.stderr)
