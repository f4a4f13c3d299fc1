"""The platform's status is read whole, with the store's time, and changes nothing.

Light on purpose: Airflow's triggerer and its UI page read it every few seconds, so redis-py is all
that it imports, and only when it is called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from slicewise.errors import StoreUnavailable
from slicewise.settings import redacted, urls_of
from slicewise.stores.online.keys import (
    METADATA,
    manifest_key,
    published_hours,
    published_key,
    status_key,
    unit_name,
)

DEPLOYED = "deployed"
"""Part: the instant of the last deployment."""
DRIVERS = ("stream", "tail", "emit", "probes")


@dataclass(frozen=True)
class StoreStatus:
    """The metadata of a node as text, the deployment that it names, and what running parts say."""

    now_us: int
    """By the store's clock."""
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """The deployment's JSON; empty before the first `apply`."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Part (`stream:<source>`, `tail:<source>`, `emit:<source>`, `holes:<source>`, `job:<name>`,
    `building`, `alerts`) -> what it said last. Of `deployed`, `ensured:<driver>` and
    `started:<driver>` the instant, in microseconds by the store's clock."""
    published: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Unit -> compacted hour, counted since the epoch -> archive version."""
    wanting: tuple[str, ...] = ()
    """Nodes that are away, or lack the newest deployment, in words, of a store of several."""

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(str(source["name"]) for source in self.manifest.get("sources", ()))

    @property
    def emitted(self) -> tuple[str, ...]:
        """Sources of which something is published: windows of a view, or a leaderboard."""
        leaderboards = {
            str(leaderboard["view"]) for leaderboard in self.manifest.get("leaderboards", ())
        }
        sources = {
            str(unit["source"])
            for unit in self.units
            if "emission" in unit or unit["view"] in leaderboards
        }
        return tuple(sorted(sources))

    @property
    def units(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.manifest.get("units", ()))


@dataclass(frozen=True)
class NodeUsage:
    """Memory and keys of a node that answered."""

    used_bytes: int
    limit_bytes: int
    """Limit beyond which it takes no more writes; 0: none."""
    keys: int
    evicted_keys: int
    """Keys that it threw away to make room, since its server started; of a sound store none."""
    clients: int


def read_status(url: str, jobs: Sequence[str] = (), *, timeout_s: float = 5.0) -> StoreStatus:
    """The status of the store at `url` and of the named jobs: what all of its nodes claim that
    answer. Raises StoreUnavailable where none does."""
    urls = urls_of(url)
    if len(urls) == 1:
        return _read_node(url, jobs, timeout_s)
    statuses, failed = dict[int, StoreStatus](), dict[int, StoreUnavailable]()
    for number, node_url in enumerate(urls):
        try:
            statuses[number] = _read_node(node_url, jobs, timeout_s)
        except StoreUnavailable as error:
            failed[number] = error
    if not statuses:
        raise failed[0]
    return _together(
        statuses, [f"node {number + 1} of {len(urls)} is away" for number in failed], len(urls)
    )


def _together(
    statuses: Mapping[int, StoreStatus], wanting: Sequence[str], count: int
) -> StoreStatus:
    """The claims of nodes together, as `sharded.metadata.merged` has them, as far as a picture
    shows them."""
    newest = max(statuses, key=lambda number: (_deployment_version(statuses[number]), -number))
    first = statuses[newest]
    newest_version = (_deployment_version(first), first.metadata.get("units"))
    behind = [
        n
        for n, status in statuses.items()
        if (_deployment_version(status), status.metadata.get("units")) != newest_version
    ]
    records = [status.metadata for status in statuses.values()]
    metadata = dict(first.metadata)
    for name in [name for name in metadata if name[:2] in ("g:", "y:")]:
        if all(name in record for record in records):
            metadata[name] = min((record[name] for record in records), key=int)
        else:
            del metadata[name]
    for record in records:
        for name, value in record.items():
            if name[:2] == "w:":
                metadata[name] = max(value, metadata.get(name, b"0"), key=int)
            elif name[:2] == "b:" and f"y:{name[2:]}" not in record:
                metadata[name] = value
    published = {
        unit: {
            h: min(archive_version, *(o.published[unit][h] for o in statuses.values()))
            for h, archive_version in hours.items()
        }
        for unit, own in first.published.items()
        for hours in [
            {
                h: s
                for h, s in own.items()
                if all(h in o.published.get(unit, {}) for o in statuses.values())
            }
        ]
    }
    lacking = [f"node {number + 1} of {count} lacks the newest deployment" for number in behind]
    return replace(
        first,
        now_us=max(status.now_us for status in statuses.values()),
        metadata=metadata,
        published=published,
        parts={
            part: text
            for status in reversed(list(statuses.values()))
            for part, text in status.parts.items()
        },
        wanting=(*wanting, *lacking),
    )


def _deployment_version(status: StoreStatus) -> int:
    return int(status.metadata.get("epoch", -1))


def _read_node(url: str, jobs: Sequence[str], timeout_s: float) -> StoreStatus:
    with connected(url, timeout_s) as client:
        time, metadata = client.pipeline(transaction=False).time().hgetall(METADATA).execute()
        now_us = time[0] * 1_000_000 + time[1]
        named = {name.decode(): value for name, value in metadata.items()}
        if not named.get("units"):
            parts = _parts(client, [f"job:{job}" for job in jobs])
            return StoreStatus(now_us, named, parts=parts)
        text = client.get(manifest_key(named["units"].decode()))
        manifest = json.loads(text) if text else {}
        status = StoreStatus(now_us, named, manifest)
        parts = _parts(client, [*_drivers(status), *(f"job:{j}" for j in jobs)])
        return StoreStatus(now_us, named, manifest, parts, _published(client, status))


def read_usage(url: str, *, timeout_s: float = 5.0) -> tuple[NodeUsage | None, ...]:
    """The usage of each node of the store at `url`, in order; None for a node that is away."""
    return tuple(_read_usage(node_url, timeout_s) for node_url in urls_of(url))


def _read_usage(url: str, timeout_s: float) -> NodeUsage | None:
    try:
        with connected(url, timeout_s) as client:
            pipe = client.pipeline(transaction=False)
            for section in ("memory", "stats", "clients"):
                pipe.info(section)
            memory, stats, clients, keys = pipe.dbsize().execute()
    except StoreUnavailable:
        return None
    return NodeUsage(
        used_bytes=int(memory["used_memory"]),
        limit_bytes=int(memory["maxmemory"]),
        keys=int(keys),
        evicted_keys=int(stats["evicted_keys"]),
        clients=int(clients["connected_clients"]),
    )


def read_part(url: str, part: str, *, timeout_s: float = 5.0) -> tuple[str, ...]:
    """Texts of a part, one of each node that answers and has one. Raises
    StoreUnavailable where none answers."""
    texts: list[str] = []
    _on_every_node(url, timeout_s, lambda client: texts.extend(_parts(client, [part]).values()))
    return tuple(texts)


def record_part(url: str, part: str, text: str, *, timeout_s: float = 5.0) -> None:
    """Lets a part say something of itself, on every node that answers. Raises StoreUnavailable
    where none does."""
    _on_every_node(url, timeout_s, lambda client: client.set(status_key(part), text))


def _on_every_node(url: str, timeout_s: float, change: Callable[[Any], object]) -> None:
    failed: list[StoreUnavailable] = []
    urls = urls_of(url)
    for node_url in urls:
        try:
            with connected(node_url, timeout_s) as client:
                change(client)
        except StoreUnavailable as error:
            failed.append(error)
    if len(failed) == len(urls):
        raise failed[0]


def record_instants(url: str, parts: Sequence[str], *, timeout_s: float = 5.0) -> None:
    """Notes that these parts (`deployed`, `started:<driver>`) have just happened, by each node's
    clock, on every node that answers. Raises StoreUnavailable where none does."""
    _on_every_node(url, timeout_s, lambda client: _set_instants(client, parts))


def _set_instants(client: Any, parts: Sequence[str]) -> None:
    seconds, micros = client.time()
    client.mset({status_key(part): str(seconds * 1_000_000 + micros) for part in parts})


def amend_part(
    url: str, part: str, change: Callable[[str | None], str], *, timeout_s: float = 5.0
) -> None:
    """Changes what a part says by what it said, on every node that answers; `change` may be called
    again where somebody else changed it meanwhile. Raises StoreUnavailable where none answers."""
    key = status_key(part)
    _on_every_node(
        url,
        timeout_s,
        lambda client: client.transaction(lambda pipe: _amend(pipe, key, change), key),
    )


def _amend(pipe: Any, key: bytes, change: Callable[[str | None], str]) -> None:
    stored = pipe.get(key)
    pipe.multi()
    pipe.set(key, change(None if stored is None else stored.decode()))


def _drivers(status: StoreStatus) -> list[str]:
    always = [
        f"{part}:{source}" for source in status.sources for part in ("stream", "tail", "holes")
    ]
    emitted = [f"emit:{view}" for view in status.emitted]
    beginnings = [f"{fact}:{driver}" for driver in DRIVERS for fact in ("ensured", "started")]
    return [*always, *emitted, "probes", "alerts", "building", DEPLOYED, *beginnings]


def _parts(client: Any, names: Sequence[str]) -> dict[str, str]:
    if not names:
        return {}
    values = client.mget([status_key(name) for name in names])
    return {
        name: value.decode() for name, value in zip(names, values, strict=True) if value is not None
    }


def _published(client: Any, status: StoreStatus) -> dict[str, dict[int, int]]:
    store_id = int(status.metadata["generation"])
    units = [str(unit["storage_fingerprint"]) for unit in status.units]
    pipe = client.pipeline(transaction=False)
    for unit in units:
        build = int(status.metadata.get(f"n:{unit}", 0))
        pipe.hgetall(published_key(store_id, unit_name(unit, build)))
    replies = pipe.execute() if units else []
    return {
        unit: published_hours(fields.items()) for unit, fields in zip(units, replies, strict=True)
    }


@contextmanager
def connected(url: str, timeout_s: float = 5.0) -> Iterator[Any]:
    """A redis-py client; its errors become StoreUnavailable."""
    import redis

    client = redis.Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    try:
        yield client
    except redis.RedisError as error:
        raise StoreUnavailable(
            f"the online store does not answer: {error}",
            where=redacted(url),
            next_step="is it up? slicewise status",
        ) from error
    finally:
        client.close()
