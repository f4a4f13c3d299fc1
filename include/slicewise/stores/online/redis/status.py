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
from slicewise.stores.online.keys import MARKS, manifest_key, status_key, swapped_hours, swapped_key, unit_name

DEPLOYED = "deployed"
"""Part: the instant of the last deployment."""
DRIVERS = ("stream", "tail", "emit", "probes")


@dataclass(frozen=True)
class StoreStatus:
    """The marks of a node as text, the deployment that they name, and what running parts say."""

    now_us: int
    """By the store's clock."""
    marks: Mapping[str, bytes] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """The deployment's JSON; empty before the first `apply`."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Part (`stream:<source>`, `tail:<source>`, `emit:<source>`, `holes:<source>`, `job:<name>`, `building`,
    `alerts`) -> what it said last. Of `deployed`, `ensured:<driver>` and `started:<driver>` the instant, in
    microseconds by the store's clock."""
    swapped: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Unit -> compacted hour, counted since the epoch -> archive seq."""
    wanting: tuple[str, ...] = ()
    """Of a store of several nodes, which of them is away, or lacks the newest deployment, in words."""

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(str(each["name"]) for each in self.manifest.get("sources", ()))

    @property
    def emitted(self) -> tuple[str, ...]:
        """Sources of which something is published: windows of a view, or a leaderboard."""
        boards = {str(board["view"]) for board in self.manifest.get("leaderboards", ())}
        found = {str(unit["source"]) for unit in self.units if "emission" in unit or unit["view"] in boards}
        return tuple(sorted(found))

    @property
    def units(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.manifest.get("units", ()))


def read_status(url: str, jobs: Sequence[str] = (), *, timeout_s: float = 5.0) -> StoreStatus:
    """The status of the store at `url` and of the named jobs: what all of its nodes claim that answer. Raises
    StoreUnavailable where none does."""
    urls = urls_of(url)
    if len(urls) == 1:
        return _read_node(url, jobs, timeout_s)
    found, failed = dict[int, StoreStatus](), dict[int, StoreUnavailable]()
    for number, each in enumerate(urls):
        try:
            found[number] = _read_node(each, jobs, timeout_s)
        except StoreUnavailable as error:
            failed[number] = error
    if not found:
        raise failed[0]
    return _together(found, [f"node {number + 1} of {len(urls)} is away" for number in failed], len(urls))


def _together(found: Mapping[int, StoreStatus], wanting: Sequence[str], count: int) -> StoreStatus:
    """The claims of nodes together, as `sharded.metadata.merged` has them, as far as a picture shows them."""
    newest = max(found, key=lambda number: (_epoch(found[number]), -number))
    first = found[newest]
    said = (_epoch(first), first.marks.get("units"))
    behind = [n for n, each in found.items() if (_epoch(each), each.marks.get("units")) != said]
    all_marks = [each.marks for each in found.values()]
    marks = dict(first.marks)
    for name in [name for name in marks if name[:2] in ("g:", "y:")]:
        if all(name in each for each in all_marks):
            marks[name] = min((each[name] for each in all_marks), key=int)
        else:
            del marks[name]
    for each in all_marks:
        for name, value in each.items():
            if name[:2] == "w:":
                marks[name] = max(value, marks.get(name, b"0"), key=int)
            elif name[:2] == "b:" and f"y:{name[2:]}" not in each:
                marks[name] = value
    swapped = {
        unit: {h: min(seq, *(o.swapped[unit][h] for o in found.values())) for h, seq in hours.items()}
        for unit, mine in first.swapped.items()
        for hours in [{h: s for h, s in mine.items() if all(h in o.swapped.get(unit, {}) for o in found.values())}]
    }
    lacking = [f"node {number + 1} of {count} lacks the newest deployment" for number in behind]
    return replace(
        first,
        now_us=max(each.now_us for each in found.values()),
        marks=marks,
        swapped=swapped,
        parts={part: text for each in reversed(list(found.values())) for part, text in each.parts.items()},
        wanting=(*wanting, *lacking),
    )


def _epoch(status: StoreStatus) -> int:
    return int(status.marks.get("epoch", -1))


def _read_node(url: str, jobs: Sequence[str], timeout_s: float) -> StoreStatus:
    with connected(url, timeout_s) as client:
        time, marks = client.pipeline(transaction=False).time().hgetall(MARKS).execute()
        now_us = time[0] * 1_000_000 + time[1]
        named = {name.decode(): value for name, value in marks.items()}
        if not named.get("units"):
            parts = _parts(client, [f"job:{job}" for job in jobs])
            return StoreStatus(now_us, named, parts=parts)
        text = client.get(manifest_key(named["units"].decode()))
        manifest = json.loads(text) if text else {}
        status = StoreStatus(now_us, named, manifest)
        parts = _parts(client, [*_drivers(status), *(f"job:{j}" for j in jobs)])
        return StoreStatus(now_us, named, manifest, parts, _swapped(client, status))


def record_part(url: str, part: str, text: str, *, timeout_s: float = 5.0) -> None:
    """Lets a part say something of itself, on every node that answers. Raises StoreUnavailable where none does."""
    _on_every_node(url, timeout_s, lambda client: client.set(status_key(part), text))


def _on_every_node(url: str, timeout_s: float, change: Callable[[Any], object]) -> None:
    failed: list[StoreUnavailable] = []
    urls = urls_of(url)
    for each in urls:
        try:
            with connected(each, timeout_s) as client:
                change(client)
        except StoreUnavailable as error:
            failed.append(error)
    if len(failed) == len(urls):
        raise failed[0]


def record_instants(url: str, parts: Sequence[str], *, timeout_s: float = 5.0) -> None:
    """Notes that these parts (`deployed`, `started:<driver>`) have just happened, by each node's clock, on every node
    that answers. Raises StoreUnavailable where none does."""
    _on_every_node(url, timeout_s, lambda client: _set_instants(client, parts))


def _set_instants(client: Any, parts: Sequence[str]) -> None:
    seconds, micros = client.time()
    client.mset({status_key(part): str(seconds * 1_000_000 + micros) for part in parts})


def amend_part(url: str, part: str, change: Callable[[str | None], str], *, timeout_s: float = 5.0) -> None:
    """Changes what a part says by what it said, on every node that answers; `change` may be called again where
    somebody else changed it meanwhile. Raises StoreUnavailable where none answers."""
    key = status_key(part)
    _on_every_node(url, timeout_s, lambda client: client.transaction(lambda pipe: _amend(pipe, key, change), key))


def _amend(pipe: Any, key: bytes, change: Callable[[str | None], str]) -> None:
    said = pipe.get(key)
    pipe.multi()
    pipe.set(key, change(None if said is None else said.decode()))


def _drivers(status: StoreStatus) -> list[str]:
    always = [f"{part}:{each}" for each in status.sources for part in ("stream", "tail", "holes")]
    emitted = [f"emit:{each}" for each in status.emitted]
    beginnings = [f"{fact}:{driver}" for driver in DRIVERS for fact in ("ensured", "started")]
    return [*always, *emitted, "probes", "alerts", "building", DEPLOYED, *beginnings]


def _parts(client: Any, names: Sequence[str]) -> dict[str, str]:
    if not names:
        return {}
    values = client.mget([status_key(name) for name in names])
    return {name: value.decode() for name, value in zip(names, values, strict=True) if value is not None}


def _swapped(client: Any, status: StoreStatus) -> dict[str, dict[int, int]]:
    generation = int(status.marks["generation"])
    units = [str(unit["storage_fingerprint"]) for unit in status.units]
    pipe = client.pipeline(transaction=False)
    for unit in units:
        term = int(status.marks.get(f"n:{unit}", 0))
        pipe.hgetall(swapped_key(generation, unit_name(unit, term)))
    found = pipe.execute() if units else []
    return {unit: swapped_hours(fields.items()) for unit, fields in zip(units, found, strict=True)}


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
