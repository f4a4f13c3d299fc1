"""Definitions and their versions are read from the store beside the answers: one reading at a time,
in a thread of its own. Data sets that were built of them come from the archive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from slicewise.errors import BadRequest, SlicewiseError, StoreUnavailable
from slicewise.features.plan.changes.explain import Description, descriptions, matching
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.registry.shown import Shown, refuse_unknown, shown, shown_json
from slicewise.lifecycle.registry.uses import Uses
from slicewise.serving.data_sets import DataSetUses, Read
from slicewise.stores.lake.stood import read_stood, registry_of
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.redis.status import read_status

MOST = 30
"""Newest deployments that a page reads: each is parsed beside the answers."""
LONGEST_SEARCH = 400
OLDER = "older deployments are not read here: slicewise history"


@dataclass(frozen=True)
class ShownName:
    """All definitions of a name."""

    every: tuple[Shown, ...]
    unread: tuple[tuple[int, str], ...]
    """Versions of deployments that cannot be shown, and why."""
    gaps: tuple[str, ...]
    """Reasons why there may be older versions; then nobody knows their numbers here."""
    no_data_sets: str = ""
    """Reason why data sets are left out."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for programs."""
        values = shown_json(self.every)
        if self.gaps:
            for version in values["versions"]:
                del version["number"]
        left = [{"version": version, "reason": reason} for version, reason in self.unread]
        why = {"no_data_sets": self.no_data_sets} if self.no_data_sets else {}
        return values | {"unread": left, "gaps": list(self.gaps)} | why


class RegistryReader:
    """Reader of the registry, of one process."""

    def __init__(self, redis_url: str, timeout_s: float, read_data_sets: Read) -> None:
        """timeout_s: longest that a page waits for the store. read_data_sets: of the archive."""
        self._redis_url, self._timeout_s = redis_url, timeout_s
        self._data_sets = DataSetUses(read_data_sets)
        self._one_at_a_time = asyncio.Semaphore(1)

    async def read(self, deployment: Deployment, name: str) -> ShownName:
        """All definitions of this name. Raises UnknownName and StoreUnavailable."""
        refuse_unknown(name, deployment)
        uses, why = None, ""
        try:
            uses = await self._data_sets.of(deployment.digest, name)
        except SlicewiseError as error:  # the store's part of the page does not depend on it
            why = error.what
        try:
            async with asyncio.timeout(self._timeout_s), self._one_at_a_time:
                named = await asyncio.to_thread(self._read, deployment, name, uses)
                return replace(named, no_data_sets=why)
        except TimeoutError as error:
            raise StoreUnavailable(
                f"the registry was not read within {self._timeout_s:g} s",
                where="/registry",
                next_step="ask again",
            ) from error

    async def end(self) -> None:
        """Ends what is read of the archive."""
        await self._data_sets.end()

    def _read(self, deployment: Deployment, name: str, uses: Uses | None) -> ShownName:
        manifests = {deployment.digest: deployment.to_json()}
        status = read_status(self._redis_url, timeout_s=self._timeout_s)
        store = open_store(self._redis_url, self._timeout_s)
        try:
            given = read_stood(self._redis_url, store, manifests, MOST + 1)
        finally:
            store.close()
        gaps = (OLDER,) if len(given) > MOST else ()
        registry = registry_of(given[-MOST:], manifests, gaps)
        every = shown(name, deployment, registry, status, uses)
        return ShownName(every, registry.unread, registry.gaps)


def search(deployment: Deployment, words: str) -> tuple[Description, ...]:
    """Definitions that all words are about. Raises BadRequest for a text that is none of a
    person's."""
    if len(words) > LONGEST_SEARCH:
        raise BadRequest(
            f"{len(words)} characters to search for",
            where="q",
            expected=f"at most {LONGEST_SEARCH}",
            next_step="leave some words out",
        )
    return matching(descriptions(deployment), words)
