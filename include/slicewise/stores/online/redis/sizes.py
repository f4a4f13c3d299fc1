"""Sizes of units in the online store are estimated from keys that each node draws at random: to
count them all would read every key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slicewise.errors import StoreUnavailable
from slicewise.settings import urls_of
from slicewise.stores.online.redis.status import connected

SAMPLE = 400
_UNIT = re.compile(rb"sw:\d+:\{[^{}]*\}:([0-9a-f]{16})(?:\.\d+)?:", re.DOTALL)


@dataclass(frozen=True)
class Sizes:
    """Estimates of a store, of the nodes that answered."""

    keys: Mapping[str, int] = field(default_factory=dict)
    """Storage fingerprint -> keys."""
    bytes: Mapping[str, int] = field(default_factory=dict)
    """Storage fingerprint -> bytes of their keys and values."""


def read_sizes(url: str, *, sample: int = SAMPLE, timeout_s: float = 5.0) -> Sizes:
    """The sizes by unit. sample: keys that each node draws. Raises StoreUnavailable where no node
    answers."""
    keys, sizes = Counter[str](), Counter[str]()
    failed: list[StoreUnavailable] = []
    urls = urls_of(url)
    for node_url in urls:
        try:
            with connected(node_url, timeout_s) as client:
                for unit, (count, size) in _of_node(client, sample).items():
                    keys[unit] += count
                    sizes[unit] += size
        except StoreUnavailable as error:
            failed.append(error)
    if len(failed) == len(urls):
        raise failed[0]
    return Sizes(dict(keys), dict(sizes))


def _of_node(client: Any, sample: int) -> dict[str, tuple[int, int]]:
    """Unit -> keys and bytes on a node."""
    pipe = client.pipeline(transaction=False)
    pipe.dbsize()
    for _ in range(sample):
        pipe.randomkey()
    total, *replies = pipe.execute()
    drawn = [key for key in replies if key is not None]
    for key in drawn:
        pipe.memory_usage(key)
    used = pipe.execute() if drawn else []
    sizes: dict[str, list[int]] = {}
    for key, size in zip(drawn, used, strict=True):
        unit = _UNIT.match(key)
        if unit is not None and size is not None:  # it may have expired in between
            sizes.setdefault(unit[1].decode(), []).append(size)
    return {
        unit: (round(len(some) * total / len(drawn)), round(sum(some) * total / len(drawn)))
        for unit, some in sizes.items()
    }
