"""The sweep looks at every key once. It changes a key only under a condition that a newer write
would break.

An expiry is only ever shortened (EXPIREAT … LT), to a bound beyond all that a micro-batch sets: one
that extended it meanwhile loses nothing. Keys of an old store id, or of a unit's build that is
over, are read by nobody. Builds were read in one server run: writes are of that server run alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from slicewise.errors import ServerRunChanged, StoreUnavailable
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.keys import METADATA, manifest_key
from slicewise.stores.online.model import metadata
from slicewise.stores.online.redis.adapter import RedisNode
from slicewise.stores.online.redis.status import connected
from slicewise.stores.online.redis.wire import Address, ReplyError
from slicewise.stores.online.steps import WHOLE_METADATA, Text

BATCH = 1_000
TIMEOUT_S = 30.0
Progress = Callable[[int], None]


class Verdict(Protocol):
    """Decision about a key."""

    @property
    def name(self) -> str: ...
    @property
    def expire_at_s(self) -> int | None: ...
    @property
    def delete(self) -> bool: ...
    @property
    def needs_fields(self) -> bool: ...


Seen = Callable[[bytes, Any, int], None]
"""Gets each key with what is found, and the bytes that it takes; 0 of a key that is well."""
Decide = Callable[[bytes, int | None, int, Sequence[bytes] | None], Verdict]
"""(key, its expiry in seconds or None, the store's time in microseconds, names of its fields if
they were asked for) -> what is found."""


@dataclass
class UnitMemory:
    """Keys and bytes by unit, as the sweep meets them. Bytes are those of a sample: one of so many
    keys of a unit, the first among them.

    unit_of: the unit of a key; empty for one that is of none."""

    unit_of: Callable[[bytes], str]
    every: int = 50
    keys: Counter[str] = field(default_factory=Counter)
    measured: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)

    def add(self, client: Any, keys: Sequence[bytes]) -> None:
        """Counts keys, and asks the store for the size of a sample of them."""
        chosen: list[tuple[str, bytes]] = []
        for key in keys:
            unit = self.unit_of(key)
            if unit and self.keys[unit] % self.every == 0:
                chosen.append((unit, key))
            if unit:
                self.keys[unit] += 1
        pipe = client.pipeline(transaction=False)
        for _, key in chosen:
            pipe.memory_usage(key)
        for (unit, _), size in zip(chosen, pipe.execute() if chosen else (), strict=True):
            if size is not None:  # not one that has just gone
                self.measured[unit] += 1
                self.sizes[unit] += size

    def estimated(self) -> dict[str, tuple[int, int]]:
        """Unit -> its keys and about how many bytes they take."""
        return {
            unit: (count, round(count * self.sizes[unit] / max(1, self.measured[unit])))
            for unit, count in self.keys.items()
        }


@dataclass(frozen=True)
class Deployed:
    """Content of a server store."""

    server_run: ServerRun
    metadata: StoreMetadata
    manifest: Mapping[str, Any]


def deployed(url: str) -> Deployed | None:
    """None before the first deployment."""
    with closing(RedisNode(Address.parse(url), TIMEOUT_S)) as node:
        (flat,) = node.run([WHOLE_METADATA])
        stored = metadata.parse(flat)
        if stored is None or not stored.units:
            return None
        (text,) = node.run([Text(manifest_key(stored.units))])
        return None if text is None else Deployed(node.server_run, stored, json.loads(text))


def sweep(
    url: str,
    deployed: Deployed,
    decide: Decide,
    *,
    dry_run: bool = False,
    progress: Progress = lambda _: None,
    seen: Seen | None = None,
    memory: UnitMemory | None = None,
) -> Counter[str]:
    """Counts what is found over all keys, and sets it right unless dry_run; "scanned" and "changed"
    too.

    Stops when the store's store id is no more the one that the decision was made for: what
    was read of it says nothing about the new one. Raises StoreUnavailable; ServerRunChanged where
    the store is in another server run: it may have forgotten the deployment that ended a build.
    """
    counts: Counter[str] = Counter()
    with connected(url) as client, closing(RedisNode(Address.parse(url), TIMEOUT_S)) as node:
        if node.server_run != deployed.server_run:
            raise ServerRunChanged(
                "the store restarted since its metadata was read", next_step="sweep again"
            )
        for keys in _batches(client):
            seconds, _ = client.time()
            expiries = _expiries(client, keys)
            verdicts = [
                (key, _decided(client, decide, key, at, seconds * 1_000_000))
                for key, at in zip(keys, expiries, strict=True)
                if at != _GONE
            ]
            counts.update(verdict.name for _, verdict in verdicts)
            counts["scanned"] += len(verdicts)
            if seen is not None:
                sizes = _sizes(client, verdicts)
                for key, verdict in verdicts:
                    seen(key, verdict, sizes.get(key, 0))
            if (
                not dry_run
                and int(client.hget(METADATA, "generation") or -1) != deployed.metadata.store_id
            ):
                break
            if memory is not None:
                memory.add(client, keys)
            if not dry_run:
                counts["changed"] += _apply(node, verdicts)
            progress(counts["scanned"])
    return counts


_GONE = -2


def _decided(
    client: Any, decide: Decide, key: bytes, expires_at_s: int | None, now_us: int
) -> Verdict:
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


def _sizes(client: Any, verdicts: Sequence[tuple[bytes, Verdict]]) -> dict[bytes, int]:
    """Bytes of the keys that are to be changed."""
    changed = [
        key for key, verdict in verdicts if verdict.delete or verdict.expire_at_s is not None
    ]
    pipe = client.pipeline(transaction=False)
    for key in changed:
        pipe.memory_usage(key)
    return {key: int(size or 0) for key, size in zip(changed, pipe.execute(), strict=True)}


def usage(url: str) -> tuple[int, int]:
    """Keys of a store, and bytes of its memory."""
    with connected(url) as client:
        return int(client.dbsize()), int(client.info("memory")["used_memory"])


def _apply(node: RedisNode, verdicts: Sequence[tuple[bytes, Verdict]]) -> int:
    commands: list[tuple[bytes, ...]] = []
    for key, verdict in verdicts:
        if verdict.delete:
            commands.append((b"UNLINK", key))
        elif verdict.expire_at_s is not None:
            # no expiry counts as the longest
            commands.append((b"EXPIREAT", key, b"%d" % verdict.expire_at_s, b"LT"))
    replies = node.plain(commands)
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise StoreUnavailable(
                f"the store refuses: {reply}",
                next_step="see the store's log, and its memory: slicewise status",
            )
    return sum(replies)
