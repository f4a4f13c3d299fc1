"""A deployment is one change of the metadata: nothing of it stands before all of it does.

Units that are new begin at the committed offsets, and so do those that are built again: in a build
of their own, under other keys (docs/adr/0023, docs/adr/0060).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slicewise.errors import DefinitionError, DeploymentSuperseded
from slicewise.features.own import history_topic
from slicewise.offsets.vector import OffsetVector, joined
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.control_record import StoreMetadata, TotalUntil
from slicewise.stores.online.model import metadata
from slicewise.stores.online.model.metadata import Sets
from slicewise.stores.online.operations.publish_total import first_total_until
from slicewise.stores.online.port import Everywhere, NodeContext, NodesContext, Operation
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.sharded.routing import ShardedSteps, on_node
from slicewise.stores.online.steps import MISSED, Command, PutText, Steps, Text, Time, exact
from slicewise.stores.online.stored_unit import Deployable

NOTHING = OffsetVector()


@dataclass(frozen=True)
class Renewal:
    """Deployed units that are to be built again from the archive, each in a build of its own."""

    units: frozenset[str] = frozenset()
    resume_at: OffsetVector = field(default_factory=OffsetVector)
    """Places from which the committed offsets are to go on, beyond what was applied: of topics all
    of whose units are built again."""


NO_RENEWAL = Renewal()


@dataclass(frozen=True)
class Deploy(Operation[StoreMetadata]):
    """One script per node: the next deployment version, digest, start := committed offsets for new
    units and those to be built again, aliases. The metadata afterwards.

    A unit that was left out once is a new one, in a build of its own. A deployment that stands
    already changes nothing, unless units are to be built again. GapRefused where the committed
    offsets would go on beyond what a unit that goes on has.
    """

    deployment: Deployable
    expected_version: int
    """Version that it was planned on; DeploymentSuperseded where another stands."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """Topic name -> topic id."""
    earliest: OffsetVector = NOTHING
    """First offsets of the log, where topics are new: committed offsets and starts begin there."""
    renewal: Renewal = NO_RENEWAL
    target_version: int = 0
    """Deployment version that all of several nodes get; 0: the next."""
    since: OffsetVector = NOTHING
    """Offsets that another of several nodes has applied: units begin at or beyond them, so that one
    backfill is of all nodes."""

    def steps(self, at: NodeContext) -> Steps[StoreMetadata]:
        if not {topic for topic, _ in self.earliest}.issubset(self.topics.values()):
            raise DefinitionError(
                "earliest offsets of a topic that is not named",
                expected="its name and id in topics",
                next_step="give the topic with its offsets",
            )
        yield [
            PutText(keys.manifest_key(self.deployment.digest), self.deployment.to_json().encode())
        ]
        return (yield from change_while(lambda _: self._change(at), None, "deployment"))

    def _change(
        self, at: NodeContext
    ) -> Generator[Sequence[Command], list[Any], Missed[None] | StoreMetadata]:
        next_version = self.target_version or self.expected_version + 1
        units = {unit.storage_fingerprint: unit for unit in self.deployment.units}
        lists = {name: unit.event_list for name, unit in units.items()}
        views: dict[str, list[str]] = {}
        for unit in self.deployment.units:
            views.setdefault(unit.view, []).append(unit.storage_fingerprint)
        current = yield from at.metadata()
        unknown = any(current.topics.get(name) != topic for name, topic in self.topics.items())
        unchanged = current.units == self.deployment.digest and self.target_version in (
            0,
            current.deployment_version,
        )
        if unchanged and not unknown and not self.renewal.units:
            return current
        if current.deployment_version != self.expected_version:
            raise _superseded(current.deployment_version, self.expected_version)
        begun = decisions.begun(current.topic_partitions, current.topics.values(), self.earliest)
        rebuilt = decisions.lists_to_rebuild(lists, current) | (
            self.renewal.units & set(current.starts) & set(units)
        )
        committed, ids = current.committed.join(begun), {**current.topics, **self.topics}
        of_topic = {
            name: ids.get(self.deployment.topic_of(unit.source), "") for name, unit in units.items()
        }
        history_of = {
            name: ids.get(history_topic(self.deployment.topic_of(unit.source), unit.source), "")
            for name, unit in units.items()
        }
        decisions.refuse_history_of_kept(
            begun,
            {n: t for n, t in history_of.items() if n in current.starts and n not in rebuilt},
        )
        kept_topics = {
            topic
            for name, topic in of_topic.items()
            if name in current.starts and name not in rebuilt
        }
        resumed = decisions.resumed(committed, self.renewal.resume_at, kept_topics)
        committed = committed.join(resumed)
        starts = {
            name: decisions.start_offsets(
                committed.join(self.since),
                {of_topic[name], history_of[name]} if of_topic[name] else None,
            )
            for name in sorted((set(units) - set(current.starts)) | rebuilt)
        }
        at_once = [name for name, start in starts.items() if not start]  # nothing lies below
        totals_until = {}
        if empty := [name for name in at_once if units[name].lifetime]:
            (now_us,) = yield [Time()]
            totals_until = {
                name: TotalUntil(
                    first_total_until(now_us, units[name].retention_us), decisions.START_VERSION
                )
                for name in empty
            }
        ready = ((current.ready - rebuilt) | set(at_once)) & set(units)
        build = decisions.new_build(current, next_version)
        # a list that is built again leaves what it kept so far under the name that it had
        builds = {name: next_version if name in rebuilt else build for name in starts}
        gone = sorted(set(current.starts) - set(units))
        aliases = decisions.aliases_to_set(
            views, {v: a for v, a in current.aliases.items() if v in views}, ready
        )
        sets: Sets = [
            (b"epoch", b"%d" % next_version, 0),
            (b"units", self.deployment.digest.encode(), 0),
            (
                metadata.TOPIC_PARTITIONS,
                b"%d" % (len(current.topic_partitions | set(begun.join(resumed)))),
                0,
            ),
            *[
                (metadata.committed_field(p), b"%d" % o, 0)
                for p, o in begun.join(resumed).offsets.items()
            ],
            *[(b"s:%s" % u.encode(), start.pack(), 0) for u, start in starts.items()],
            *[(b"y:%s" % u.encode(), b"1", 0) for u in at_once],
            *[(b"n:%s" % u.encode(), b"%d" % number, 0) for u, number in builds.items() if number],
            *[
                (b"k:%s" % u.encode(), kept.text().encode(), 0)
                for u, kept in lists.items()
                if kept is not None
            ],
            *[
                (b"h:%s" % u.encode(), metadata.total_until_text(total_until), 0)
                for u, total_until in totals_until.items()
            ],
            *([(b"retired", b"%d" % next_version, 0)] if gone or rebuilt else []),
            *[(b"a:%s" % v.encode(), ",".join(f).encode(), 0) for v, f in aliases.items()],
            *[(b"t:%s" % n.encode(), t.encode(), 0) for n, t in self.topics.items()],
        ]
        deletes = [
            *[
                b"%s:%s" % (kind, u.encode())
                for u in gone
                for kind in (b"s", b"n", b"y", b"b", b"k", b"h")
            ],
            *[
                b"%s:%s" % (kind, u.encode())
                for u in sorted(rebuilt - set(at_once))
                for kind in (b"y", b"b", b"h")
            ],
            *[b"a:%s" % v.encode() for v in set(current.aliases) - set(views)],
            *[
                metadata.realtime_field(source)
                for source in set(current.realtime_starts)
                - {unit.source for unit in self.deployment.units}
            ],
        ]
        checks = [
            (b"epoch", exact(b"%d" % self.expected_version)),
            *metadata.unmoved_checks(current, {*current.topic_partitions, *begun, *resumed}),
            *metadata.topic_partitions(current),
        ]
        (reply,) = yield [metadata.change(at.store_id, checks, sets, deletes)]
        return Missed(None) if reply == MISSED else (yield from at.metadata())

    def over(self, nodes: NodesContext) -> ShardedSteps[StoreMetadata]:
        """One node after another, to one version; who finds that it stopped between two nodes goes
        on with it."""
        records = yield from nodes.metadata_of_nodes()
        newest = records[sharded_metadata.newest(records)]
        version = self.target_version
        unknown = any(newest.topics.get(name) != topic for name, topic in self.topics.items())
        if newest.units == self.deployment.digest and not unknown and not self.renewal.units:
            others = [
                record
                for record in records
                if (record.deployment_version, record.units)
                != (newest.deployment_version, newest.units)
            ]
            if not others:
                return sharded_metadata.merged(records)
            if all(record.deployment_version < newest.deployment_version for record in others):
                version = newest.deployment_version
        if newest.deployment_version != self.expected_version:
            raise _superseded(newest.deployment_version, self.expected_version)
        anew = not version
        version = version or newest.deployment_version + 1
        since = joined([self.since, *(record.committed for record in records)])
        for n, (node, record) in enumerate(zip(nodes.contexts, records, strict=True)):
            of_node = replace(
                self,
                expected_version=record.deployment_version,
                renewal=self._renewal_of(record),
                target_version=version,
                # a node that was emptied is brought everything again: what the log has needs no
                # backfill
                since=since if anew and record.topic_partitions else NOTHING,
            )
            since = since.join((yield from on_node(n, of_node.steps(node))).committed)
        return sharded_metadata.merged((yield from nodes.metadata_of_nodes()))

    def _renewal_of(self, record: StoreMetadata) -> Renewal:
        """The part of the renewal for one of several nodes: where it holds all that the others
        lost, its units go on."""
        if not self.renewal.resume_at or not record.committed.dominates(self.renewal.resume_at):
            return self.renewal
        return NO_RENEWAL


def _superseded(version: int, expected: int) -> DeploymentSuperseded:
    return DeploymentSuperseded(
        f"deployment version {version} stands, the deployment was planned on {expected}",
        next_step="plan again and apply",
    )


@dataclass(frozen=True)
class ReadManifest(Everywhere[str | None]):
    """JSON of the deployment with this digest; None where it was never deployed here."""

    digest: str

    def steps(self, at: NodeContext) -> Steps[str | None]:  # noqa: ARG002
        (raw,) = yield [Text(keys.manifest_key(self.digest))]
        return None if raw is None else raw.decode()

    def merge(self, replies: Mapping[int, str | None]) -> str | None:
        return next((text for text in replies.values() if text is not None), None)
