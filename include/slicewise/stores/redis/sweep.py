"""The sweep looks at every key once, and changes a key only under a condition that a newer write would break.

An expiry is only ever shortened (EXPIREAT … LT), to a bound beyond all that a fold sets: one that
extended it meanwhile loses nothing. Keys of an old generation are read by nobody.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from slicewise.stores.keys import MARKS, manifest_key
from slicewise.stores.redis.status import connected

BATCH = 1_000
Progress = Callable[[int], None]


class Found(Protocol):
    """What a decision says about a key."""

    @property
    def name(self) -> str: ...
    @property
    def expire_at_s(self) -> int | None: ...
    @property
    def delete(self) -> bool: ...
    @property
    def needs_fields(self) -> bool: ...


Decide = Callable[[bytes, int | None, int, Sequence[bytes] | None], Found]
"""(key, its expiry in seconds or None, the store's time in microseconds, names of its fields if
they were asked for) -> what is found."""


def deployed(url: str) -> tuple[int, dict[str, Any]] | None:
    """Generation and manifest of the store; None before the first deployment."""
    with connected(url) as client:
        marks = client.hgetall(MARKS)
        text = client.get(manifest_key(marks[b"units"].decode())) if marks.get(b"units") else None
    return None if text is None else (int(marks[b"generation"]), json.loads(text))


def sweep(
    url: str, generation: int, decide: Decide, *, dry_run: bool = False, progress: Progress = lambda _: None
) -> Counter[str]:
    """Counts what is found over all keys, and sets it right unless dry_run; "scanned" and "changed" too.

    Stops when the store's generation is no more the one that the decision was made for: what
    was read of it says nothing about the new one. Raises StoreUnavailable.
    """
    found: Counter[str] = Counter()
    with connected(url) as client:
        for keys in _batches(client):
            seconds, _ = client.time()
            expiries = _expiries(client, keys)
            verdicts = [
                (key, _decided(client, decide, key, at, seconds * 1_000_000))
                for key, at in zip(keys, expiries, strict=True)
                if at != _GONE
            ]
            found.update(each.name for _, each in verdicts)
            found["scanned"] += len(verdicts)
            if not dry_run and int(client.hget(MARKS, "generation") or -1) != generation:
                break
            if not dry_run:
                found["changed"] += _apply(client, verdicts)
            progress(found["scanned"])
    return found


_GONE = -2


def _decided(client: Any, decide: Decide, key: bytes, expires_at_s: int | None, now_us: int) -> Found:
    first = decide(key, expires_at_s, now_us, None)
    return decide(key, expires_at_s, now_us, client.hkeys(key)) if first.needs_fields else first


def _batches(client: Any) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for key in client.scan_iter(match="sw:*", count=BATCH):
        batch.append(key)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _expiries(client: Any, keys: Sequence[bytes]) -> list[int | None]:
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.expiretime(key)
    return [None if at == -1 else int(at) for at in pipe.execute()]


def _apply(client: Any, verdicts: Sequence[tuple[bytes, Found]]) -> int:
    pipe = client.pipeline(transaction=False)
    for key, each in verdicts:
        if each.delete:
            pipe.unlink(key)
        elif each.expire_at_s is not None:
            # no expiry counts as the longest
            pipe.expireat(key, each.expire_at_s, lt=True)
    return sum(int(bool(each)) for each in pipe.execute()) if len(pipe) else 0
