"""An archive version's content never changes, and is known for as long as an hour may name it.

A run announces the versions of the hours that it committed before it publishes them; every
announcement is counted. A trim was decided from hours read after the count, and goes only while the
count stands: a run that the decision did not see announces later, and registers its versions again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.errors import DataLoss, GapRefused
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.model import metadata
from slicewise.stores.online.port import Everywhere, NodeContext, NodesContext, Operation
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.routing import ShardedSteps, together
from slicewise.stores.online.steps import MISSED, Command, KeyChange, Steps, Whole, exact

COUNT = decisions.ANNOUNCED


@dataclass(frozen=True)
class PutArchiveVersion(Everywhere[None]):
    """Announces an archive version: registers what it contains, if that is not known. Offsets that
    contradict what is known are refused.

    A run says it of every version of the hours that it committed, before it publishes them, also of
    versions that are known: see `TrimArchiveVersions`.
    """

    source: str
    version: int
    offsets: OffsetVector

    def steps(self, at: NodeContext) -> Steps[None]:
        if self.version <= decisions.START_VERSION:
            raise GapRefused(
                f"archive version {self.version}",
                expected="1 or more: 0 is the start offsets",
                next_step="number archives from 1",
            )
        yield from change_while(
            lambda _: self._change(at), None, f"offset vectors of {self.source}"
        )
        at.cache.archive_versions.setdefault(self.source, {})[self.version] = self.offsets

    def _change(
        self, at: NodeContext
    ) -> Generator[Sequence[Command], list[Any], Missed[None] | None]:
        key, name = keys.offset_vectors_key(at.store_id, self.source), b"%d" % self.version
        (flat,) = yield [Whole(key)]
        registered, count = _parsed(flat)
        near = {
            version: OffsetVector.unpack(raw) for version, raw in _around(registered, self.version)
        }
        decisions.check_offset_vector(self.source, self.version, self.offsets, near)
        checks = [(COUNT, exact(count)), (name, exact(registered.get(self.version)))]
        sets = [(COUNT, b"%d" % (int(count or 0) + 1), 0)]
        if self.version not in registered:
            sets.append((name, self.offsets.pack(), 0))
        (reply,) = yield [metadata.change(at.store_id, [], [], (), KeyChange(key, checks, sets))]
        if reply != MISSED:
            return None
        yield from at.metadata()  # says whether the store was emptied
        return Missed(None)

    def merge(self, replies: Mapping[int, None]) -> None: ...


@dataclass(frozen=True)
class ReadArchiveVersions(Everywhere[Mapping[int, OffsetVector]]):
    """Archive version -> the offsets that it contains, of a source: what all nodes know."""

    source: str

    def steps(self, at: NodeContext) -> Steps[Mapping[int, OffsetVector]]:
        (flat,) = yield [Whole(keys.offset_vectors_key(at.store_id, self.source))]
        versions = {version: OffsetVector.unpack(raw) for version, raw in _parsed(flat)[0].items()}
        at.cache.archive_versions[self.source] = dict(versions)
        return versions

    def merge(
        self, replies: Mapping[int, Mapping[int, OffsetVector]]
    ) -> Mapping[int, OffsetVector]:
        first, *others = replies.values()
        return {
            version: offsets
            for version, offsets in first.items()
            if all(version in other for other in others)
        }

    def merge_answered(
        self, replies: Mapping[int, Mapping[int, OffsetVector]]
    ) -> Mapping[int, OffsetVector]:
        """Merges what the nodes know: a version contains the same wherever it is known."""
        return {
            version: offsets
            for registered in replies.values()
            for version, offsets in registered.items()
        }


@dataclass(frozen=True)
class CountArchiveVersions(Everywhere[int]):
    """Announcements of a source so far, on all nodes together: to be read before the hours that
    decide what is trimmed.

    A node's count only grows, so that an equal sum is of equal counts.
    """

    source: str

    def steps(self, at: NodeContext) -> Steps[int]:
        (flat,) = yield [Whole(keys.offset_vectors_key(at.store_id, self.source))]
        return int(_parsed(flat)[1] or 0)

    def merge(self, replies: Mapping[int, int]) -> int:
        return sum(replies.values())

    def over(self, nodes: NodesContext) -> ShardedSteps[int]:
        counts = yield from nodes.everywhere(self)
        nodes.announced.clear()
        nodes.announced[self.source, self.merge(counts)] = tuple(counts.values())
        return self.merge(counts)


def counts_by_node(nodes: NodesContext, source: str, total: int) -> ShardedSteps[tuple[int, ...]]:
    """Per-node counts that add up to `total`; -1 for each if a node announced more since."""
    if (source, total) not in nodes.announced:
        yield from CountArchiveVersions(source).over(nodes)
    return nodes.announced.get((source, total), (-1,) * nodes.count)


@dataclass(frozen=True)
class TrimArchiveVersions(Operation[int]):
    """Forgets the archive versions that no hour names; how many. 0 where anything was announced or
    deployed since `count` and the deployment version were read: the next run decides again."""

    source: str
    count: int
    """`CountArchiveVersions`, read before the hours."""
    deployment_version: int
    in_use: Sequence[tuple[int, int]]
    """Per kept hour of all the source's units the first and the last version that any entity's may
    be of."""

    def steps(self, at: NodeContext) -> Steps[int]:
        key = keys.offset_vectors_key(at.store_id, self.source)
        (flat,) = yield [Whole(key)]
        registered, count = _parsed(flat)
        drop = decisions.versions_to_drop(registered, self.in_use)
        if not drop or int(count or 0) != self.count:
            return 0
        other = KeyChange(key, [(COUNT, exact(count))], (), [b"%d" % version for version in drop])
        deployed = [(b"epoch", exact(b"%d" % self.deployment_version))]
        (reply,) = yield [metadata.change(at.store_id, deployed, [], (), other)]
        if reply == MISSED:
            yield from at.metadata()
            return 0
        return len(drop)

    def over(self, nodes: NodesContext) -> ShardedSteps[int]:
        counts = yield from counts_by_node(nodes, self.source, self.count)
        parts = {
            n: TrimArchiveVersions(
                self.source, counts[n], self.deployment_version, self.in_use
            ).steps(node)
            for n, node in enumerate(nodes.contexts)
        }
        return max((yield from together(parts)).values())


def check_registered(
    at: NodeContext, source: str, version: int, offsets: OffsetVector
) -> Steps[None]:
    """Raises UnknownArchive unless an archive version is registered, DataLoss where it contains
    other offsets."""
    if version == decisions.START_VERSION:
        return
    registered = yield from at.archive_versions(source, [version])
    if version not in registered:
        raise decisions.unknown_version(version, source)
    if registered[version] != offsets:
        raise DataLoss(
            f"archive version {version} of {source} is registered with another offset vector",
            next_step="see which archive this store belongs to",
        )


def _parsed(flat: Sequence[bytes]) -> tuple[dict[int, bytes], bytes | None]:
    """version -> packed offsets, and the count as it stands."""
    raw = dict(zip(flat[::2], flat[1::2], strict=True))
    count = raw.pop(COUNT, None)
    return {int(version): value for version, value in raw.items()}, count


def _around(registered: dict[int, bytes], version: int) -> Iterable[tuple[int, bytes]]:
    """The version itself and its neighbours."""
    below, above = [v for v in registered if v < version], [v for v in registered if v > version]
    near = [
        *([max(below)] if below else []),
        *([version] if version in registered else []),
        *([min(above)] if above else []),
    ]
    return [(v, registered[v]) for v in near]
