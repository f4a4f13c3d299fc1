"""The sweep looks at every key once. It changes a key only under a condition that a newer write would break.

An expiry is only ever shortened (EXPIREAT … LT), to a bound beyond all that a fold sets: one that
extended it meanwhile loses nothing. Keys of an old generation, or of a unit's term that is over,
are read by nobody. Terms were read in one life of the store: writes are of that life alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from slicewise.errors import IncarnationChanged, StoreUnavailable
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.keys import MARKS, manifest_key
from slicewise.stores.online.model import metadata as marks
from slicewise.stores.online.redis.adapter import RedisNode
from slicewise.stores.online.redis.status import connected
from slicewise.stores.online.redis.wire import Address, ReplyError
from slicewise.stores.online.steps import WHOLE_MARKS, Text

BATCH = 1_000
TIMEOUT_S = 30.0
Progress = Callable[[int], None]


class Found(Protocol):
    """Decision about a key."""

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


@dataclass(frozen=True)
class Deployed:
    """Content of a life of the store."""

    incarnation: ServerRun
    marks: StoreMetadata
    manifest: Mapping[str, Any]


def deployed(url: str) -> Deployed | None:
    """None before the first deployment."""
    with closing(RedisNode(Address.parse(url), TIMEOUT_S)) as node:
        (flat,) = node.run([WHOLE_MARKS])
        found = marks.parse(flat)
        if found is None or not found.units:
            return None
        (text,) = node.run([Text(manifest_key(found.units))])
        return None if text is None else Deployed(node.incarnation, found, json.loads(text))


def sweep(
    url: str, standing: Deployed, decide: Decide, *, dry_run: bool = False, progress: Progress = lambda _: None
) -> Counter[str]:
    """Counts what is found over all keys, and sets it right unless dry_run; "scanned" and "changed" too.

    Stops when the store's generation is no more the one that the decision was made for: what
    was read of it says nothing about the new one. Raises StoreUnavailable; IncarnationChanged where
    the store is in another life: it may have forgotten the deployment that ended a term.
    """
    found: Counter[str] = Counter()
    with connected(url) as client, closing(RedisNode(Address.parse(url), TIMEOUT_S)) as node:
        if node.incarnation != standing.incarnation:
            raise IncarnationChanged("the store restarted since its marks were read", next_step="sweep again")
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
            if not dry_run and int(client.hget(MARKS, "generation") or -1) != standing.marks.generation:
                break
            if not dry_run:
                found["changed"] += _apply(node, verdicts)
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


def _apply(node: RedisNode, verdicts: Sequence[tuple[bytes, Found]]) -> int:
    commands: list[tuple[bytes, ...]] = []
    for key, each in verdicts:
        if each.delete:
            commands.append((b"UNLINK", key))
        elif each.expire_at_s is not None:
            # no expiry counts as the longest
            commands.append((b"EXPIREAT", key, b"%d" % each.expire_at_s, b"LT"))
    replies = node.plain(commands)
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise StoreUnavailable(
                f"the store refuses: {reply}", next_step="see the store's log, and its memory: slicewise status"
            )
    return sum(replies)
