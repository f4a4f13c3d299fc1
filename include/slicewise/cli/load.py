"""produce Zipf-distributed song plays at a steady rate, for benchmarks and trials"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib

from slicewise.settings import Settings

TICK_S = 0.005
"""Between plays that go together: longer, and they come in bursts."""
BLOCK = 5_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", default="plays")
    parser.add_argument("--rate", type=_amount, default=2_000, help="plays a second; 0: all at once")
    parser.add_argument("--seconds", type=_amount, default=60, help="how long; with --rate 0: of 2,000/s")
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
    from slicewise.replay.songs import Plays
    from slicewise.stores.kafka.log import KafkaLog
    from slicewise.stores.kafka.producer import PlainWriter, Record

    clock = SystemClock()
    rate = arguments.rate or 2_000.0
    total, done = int(arguments.seconds * rate), 0
    # All at once is a backlog: its plays happened before, or they would lie too far ahead.
    before = arguments.first + (0 if arguments.rate else total)
    plays = Plays(
        seed=arguments.seed,
        users=arguments.users,
        songs=arguments.songs,
        rate=rate,
        start_us=clock.now_us() - int(before * 1_000_000 / rate),
    )
    log = KafkaLog(settings.kafka_bootstrap)
    log.create(arguments.topic, arguments.partitions or settings.kafka_partitions)
    partitions = log.partitions(arguments.topic)
    writer = PlainWriter(settings.kafka_bootstrap, arguments.topic)
    started = said = time.monotonic()
    while done < total:
        elapsed = time.monotonic() - started
        due = total if arguments.rate == 0 else min(total, int(elapsed * rate) + 1)
        if due > done:
            n = min(due - done, BLOCK)
            now_ms = clock.now_us() // 1000
            writer.append(
                Record(zlib.crc32(user) % partitions, user, value, now_ms)
                for user, value in plays.keyed(arguments.first + done, n)
            )
            done += n
        else:
            time.sleep(TICK_S)
        if time.monotonic() - said > 5:
            said = time.monotonic()
            print(f"load.progress events={done} of={total}", file=sys.stderr, flush=True)
    writer.flush()
    seconds = time.monotonic() - started
    summary = {"topic": arguments.topic, "events": done, "seconds": round(seconds, 3)}
    print(json.dumps({**summary, "events_per_s": round(done / seconds, 1)}))
    return 0
