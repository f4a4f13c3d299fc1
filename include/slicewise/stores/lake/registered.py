"""The store says which deployments stood, who deployed each and when, until the archive has them.

A part of the status (`sw:status:registered`), beside the manifests, which no sweep removes. The
hourly compaction enters what is new into `ops.deployments`, where it is kept for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.redis.status import DEPLOYED, read_part

PART = "registered"
MOST = 200
"""Newest ones that the store says; far more than are deployed between two compactions."""
_LONGEST_NAME = 100
_SAME_US = 60_000_000
"""A deployment and the instant of it that the store noted lie no further apart."""


@dataclass(frozen=True)
class Registered:
    """A deployment that somebody made."""

    store_id: int
    """`StoreMetadata.set_or_store_id`: versions count anew in another."""
    version: int
    digest: str
    """Digest of its manifest."""
    at_us: int
    """Time of it by the clock of who deployed."""
    by: str = ""
    """Person or program that deployed it; empty where nobody said."""
    how: str = ""
    """Command: apply, run, rebuild or rollback; empty where nobody said."""

    @property
    def key(self) -> tuple[int, int, str]:
        """The deployment itself: a store that fell back counts versions again."""
        return self.store_id, self.version, self.digest

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts by the order in which they stood: store ids are times of the store."""
        return self.store_id, self.at_us, self.version


def registered_of(text: str | None) -> tuple[Registered, ...]:
    """Deployments of a text, oldest first. What cannot be read is left out: it decides nothing."""
    try:
        raw = json.loads(text or "[]")
    except ValueError:
        return ()
    read = (_of_json(item) for item in raw) if isinstance(raw, list) else ()
    return tuple(sorted((one for one in read if one is not None), key=lambda one: one.order))


def added(text: str | None, *given: Registered) -> str:
    """The text with these too. What was said of a deployment first stands, but nobody's word."""
    merged = together([*registered_of(text), *given])
    return json.dumps([asdict(one) for one in merged[-MOST:]], sort_keys=True)


def together(every: Iterable[Registered]) -> tuple[Registered, ...]:
    """Deployments in the order in which they stood, each once: by the first who said who made
    it."""
    kept: dict[tuple[int, int, str], Registered] = {}
    for one in every:
        before = kept.get(one.key)
        if before is None or (one.how and not before.how):
            kept[one.key] = one
    return tuple(sorted(kept.values(), key=lambda one: one.order))


def read_registered(url: str, metadata: StoreMetadata, now_us: int) -> tuple[Registered, ...]:
    """The deployments that the store says, and the one that stands, also where nobody said so.

    url: of the store. metadata: of the deployment that stands. now_us: its time where none is
    known. Raises StoreUnavailable.
    """
    given = [one for text in read_part(url, PART) for one in registered_of(text)]
    if metadata.units:
        noted = next(iter(read_part(url, DEPLOYED)), None)
        given.append(unregistered(metadata, given, noted, now_us))
    return together(given)


def unregistered(
    metadata: StoreMetadata, others: Iterable[Registered], noted: str | None, now_us: int
) -> Registered:
    """The deployment that stands, of which nobody said who made it. noted: the instant of the last
    deployment by the store, which is this one's unless it is another's of these. now_us: its time
    where none is known."""
    noted_us = int(noted) if noted and noted.isdigit() else 0
    is_of_another = any(abs(one.at_us - noted_us) < _SAME_US for one in others)
    at_us = noted_us if noted_us and not is_of_another else now_us
    return Registered(metadata.set_or_store_id, metadata.deployment_version, metadata.units, at_us)


def name_of(text: str) -> str:
    """A person's or program's name as it is kept: of printable characters, and no novel."""
    return "".join(character for character in text if character.isprintable())[:_LONGEST_NAME]


def _of_json(raw: object) -> Registered | None:
    if not isinstance(raw, dict):
        return None
    numbers = [raw.get(name) for name in ("store_id", "version", "at_us")]
    texts = [raw.get(name, "") for name in ("digest", "by", "how")]
    if not all(type(number) is int for number in numbers):
        return None
    if not texts[0] or not all(isinstance(text, str) for text in texts):
        return None
    store_id, version, at_us = numbers
    digest, by, how = map(str, texts)
    assert isinstance(store_id, int)
    assert isinstance(version, int)
    assert isinstance(at_us, int)
    return Registered(store_id, version, digest, at_us, name_of(by), name_of(how))
