"""What the platform says about itself is read whole, with the store's time, and changes nothing.

Light on purpose: Airflow's triggerer and its UI page read it every few seconds, so redis-py is all
that it imports, and only when it is called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from slicewise.errors import StoreUnavailable
from slicewise.settings import redacted
from slicewise.stores.keys import MARKS, manifest_key, status_key, swapped_hours, swapped_key, unit_name


@dataclass(frozen=True)
class StoreStatus:
    """The marks of a node as text, the deployment that they name, and what running parts say."""

    now_us: int
    """By the store's clock."""
    marks: Mapping[str, bytes] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """The deployment's JSON; empty before the first `apply`."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Part (`stream:<source>`, `tail:<source>`, `emit:<source>`, `job:<name>`) -> what it said last."""
    swapped: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Unit -> compacted hour, counted since the epoch -> archive seq."""

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
    """The status of the store at `url` and of the named jobs. Raises StoreUnavailable."""
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
    """Lets a part say something of itself. Raises StoreUnavailable."""
    with connected(url, timeout_s) as client:
        client.set(status_key(part), text)


def _drivers(status: StoreStatus) -> list[str]:
    always = [f"{part}:{each}" for each in status.sources for part in ("stream", "tail")]
    return [*always, *(f"emit:{each}" for each in status.emitted), "probes"]


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
