"""Payments for the end-to-end test: hostile where a producer can be, and reproducible by their
seed."""

from __future__ import annotations

import json
import random
import struct
from dataclasses import dataclass
from typing import Any

from tests.support.oracles.answers import HOUR, OracleEvent

PARTITIONS = 2
CARDS = [f"card-{n}" for n in range(24)] + ["ça{d}:é", "", "card 1", "card%201"]
SHOPS = ["north", "south", "east", "west", "größe", "a:b;c"]
_NARROW = b'{"card": "x", "paid_at": 1, "at": {"terminal": 128}}'
BAD = (
    b"",
    b"not json",
    _NARROW,
    b"[1]",
    b'{"card": 1}',
    b'{"card": "x", "paid_at": "soon"}',
    b"\xff\xfe",
)


@dataclass(frozen=True)
class Produced:
    """One record: where it goes, its bytes, its Kafka time in milliseconds."""

    partition: int
    value: bytes
    time_ms: int


def payments(
    seed: int, n: int, now_us: int, oldest_us: int, latest_us: int, bad: int = 0
) -> list[Produced]:
    """n payments with event times in [oldest_us, latest_us), in no order, and `bad` records that
    are none."""
    rng = random.Random(seed)
    made = [_payment(rng, rng.randrange(oldest_us, latest_us), now_us) for _ in range(n)]
    made += [
        Produced(rng.randrange(PARTITIONS), rng.choice(BAD), now_us // 1000) for _ in range(bad)
    ]
    rng.shuffle(made)
    return made


def _payment(rng: random.Random, paid_at: int, now_us: int) -> Produced:
    amount = rng.choice(
        [
            round(rng.uniform(0, 300), 2),
            rng.uniform(-1, 1) * 10.0 ** rng.randint(-200, 200),
            -0.0,
            5e-324,
            None,
        ]
    )
    event: dict[str, Any] = {
        "card": rng.choice(CARDS),
        "shop": rng.choice([*SHOPS, None]),
        "amount": amount,
        "items": rng.choice([rng.randint(1, 9), rng.randint(1, 9), -(2**40), None]),
        "accepted": rng.choice([True, True, False, None]),
        "paid_at": paid_at,
        "born": rng.choice(
            [f"{rng.randint(1930, 2010)}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}", None]
        ),
        "fee": rng.choice([rng.uniform(0, 3), 0.1, 1e-46, None]),
        "at": rng.choice(
            [{"terminal": rng.randint(-128, 127)}, {"terminal": None, "x": {}}, {}, None]
        ),
        "tags": rng.choice([["gift", None], [], ["gift", "é", "gift"], None]),
    }
    if rng.random() < 0.01:
        event["card"] = None
    return Produced(rng.randrange(PARTITIONS), json.dumps(event).encode(), now_us // 1000)


def parse(topic: str, partition: int, offset: int, value: bytes) -> OracleEvent | None:
    """The event that a record of this test is; None for one of BAD."""
    if value in BAD:
        return None
    event = json.loads(value)
    amount = event["amount"]
    event["amount"] = None if amount is None else amount + 0.0  # -0.0 is stored as +0.0
    event["terminal"] = (event["at"] or {}).get("terminal")
    if event["fee"] is not None:
        event["fee"] = struct.unpack("<f", struct.pack("<f", event["fee"]))[0]
    items = event["items"]
    event["per_item"] = amount / items if amount is not None and items else None
    event["dear"] = None if amount is None else amount >= 100
    return OracleEvent(event["paid_at"], topic, partition, offset, event)


def hour_of(time_us: int) -> int:
    """The hour of an instant, counted since the epoch."""
    return time_us // HOUR
