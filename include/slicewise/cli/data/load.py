"""produce Zipf-distributed song plays at a steady rate, for benchmarks and trials

slicewise load --rate 2000 --seconds 60    a minute of plays
slicewise load --rate 0 --seconds 60       as many, all at once: a backlog
slicewise load --rate 20 --live            until it is stopped, as slicewise run does it
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
import zlib
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from slicewise.clock import Clock
    from slicewise.replay.songs import Plays
    from slicewise.stores.log.producer import PlainWriter

TICK_S = 0.005
"""Between plays that go together: longer, and they come in bursts."""
LIVE_TICK_S = 0.05
"""The same where nobody measures: a load that runs for ever costs as little as it can."""
BLOCK = 5_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", default="plays")
    parser.add_argument(
        "--rate", type=_amount, default=2_000, help="plays a second; 0: all at once"
    )
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument(
        "--seconds", type=_amount, default=60, help="how long; with --rate 0: of 2,000/s"
    )
    how_long.add_argument("--live", action="store_true", help="until it is stopped; needs a rate")
    parser.add_argument("--seed", type=int, default=7, help="equal seeds make equal plays")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--songs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first play")
    parser.add_argument("--partitions", type=int, default=None, help="of a topic that is not there")


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount (from 0 to less than 1e9)")
    return amount


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.clock import SystemClock
    from slicewise.errors import SettingsError

    if not arguments.live:
        return _some(arguments, settings, SystemClock())
    if not arguments.rate:
        raise SettingsError(
            "--live at rate 0",
            where="slicewise load",
            expected="a rate above 0",
            next_step="name one: --rate 20 --live",
        )
    return _live(arguments, settings, SystemClock())


def _some(arguments: argparse.Namespace, settings: Settings, clock: Clock) -> int:
    """A number of plays, and how fast the broker took them."""
    rate = arguments.rate or 2_000.0
    total, done = int(arguments.seconds * rate), 0
    # All at once is a backlog: its plays happened before, or they would lie too far ahead.
    before = arguments.first + (0 if arguments.rate else total)
    plays = _plays(arguments, rate, start_us=clock.now_us() - int(before * 1_000_000 / rate))
    writer, write = _writer(arguments, settings, plays, clock)
    started = reported = time.monotonic()
    while done < total:
        elapsed = time.monotonic() - started
        due = total if arguments.rate == 0 else min(total, int(elapsed * rate) + 1)
        if due > done:
            n = min(due - done, BLOCK)
            write(arguments.first + done, n)
            done += n
        else:
            time.sleep(TICK_S)
        if time.monotonic() - reported > 5:
            reported = time.monotonic()
            print(f"load.progress events={done} of={total}", file=sys.stderr, flush=True)
    writer.flush()
    seconds = time.monotonic() - started
    summary = {"topic": arguments.topic, "events": done, "seconds": round(seconds, 3)}
    print(json.dumps({**summary, "events_per_s": round(done / seconds, 1)}))
    return 0


def _live(arguments: argparse.Namespace, settings: Settings, clock: Clock) -> int:
    """Plays as they are due until a signal: play n is due n / rate seconds after the epoch, however
    often the load was stopped between. A broker that restarts gets what it missed from the client,
    which waits for it."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    writer, write = _writer(
        arguments, settings, _plays(arguments, arguments.rate, start_us=0), clock
    )

    def due() -> int:
        return int(clock.now_us() * arguments.rate / 1_000_000)

    begun = done = due()
    print(
        f"load.start topic={arguments.topic} rate={arguments.rate:g} first={begun}",
        file=sys.stderr,
        flush=True,
    )
    while not stopping.wait(LIVE_TICK_S):
        until = due()
        done = max(done, until - BLOCK)  # of a machine that slept nobody wants all that passed
        if until > done:
            write(done, until - done)
            done = until
    writer.flush()
    print(f"load.end plays={done - begun}", file=sys.stderr, flush=True)
    return 0


def _plays(arguments: argparse.Namespace, rate: float, start_us: int) -> Plays:
    from slicewise.replay.songs import Plays

    return Plays(
        seed=arguments.seed,
        users=arguments.users,
        songs=arguments.songs,
        rate=rate,
        start_us=start_us,
    )


def _writer(
    arguments: argparse.Namespace, settings: Settings, plays: Plays, clock: Clock
) -> tuple[PlainWriter, Callable[[int, int], None]]:
    """A writer to the topic, which is made where it is missing; and what hands it plays from a
    number on."""
    from slicewise.stores.log.producer import PlainWriter, Record
    from slicewise.stores.log.topics import KafkaLog

    log = KafkaLog(settings.kafka_bootstrap)
    log.create(arguments.topic, arguments.partitions or settings.kafka_partitions)
    partitions = log.partitions(arguments.topic)
    writer = PlainWriter(settings.kafka_bootstrap, arguments.topic)

    def write(first: int, n: int) -> None:
        now_ms = clock.now_us() // 1000
        writer.append(
            Record(zlib.crc32(user) % partitions, user, value, now_ms)
            for user, value in plays.keyed(first, n)
        )

    return writer, write
