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
from dataclasses import dataclass
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


Decide = Callable[[bytes, int | None, int, Sequence[bytes] | None], Verdict]
"""(key, its expiry in seconds or None, the store's time in microseconds, names of its fields if
they were asked for) -> what is found."""


class Seen(Protocol):
    """An observer of all keys that a sweep looks at."""

    def measures(self, key: bytes, verdict: Any) -> bool:
        """Tells whether the bytes of a key are wanted: each costs the store a command."""
        ...

    def see(self, key: bytes, verdict: Any, size: int | None) -> None:
        """Gets a key with what is found, and its bytes where they were wanted."""
        ...


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
                sizes = _sizes(client, [key for key, of in verdicts if seen.measures(key, of)])
                for key, of in verdicts:
                    seen.see(key, of, sizes.get(key))
            if (
                not dry_run
                and int(client.hget(METADATA, "generation") or -1) != deployed.metadata.store_id
            ):
                break
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


def _sizes(client: Any, keys: Sequence[bytes]) -> dict[bytes, int]:
    """Bytes of these keys; of one that has just gone, none."""
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.memory_usage(key)
    return {key: int(size or 0) for key, size in zip(keys, pipe.execute(), strict=True)}


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
