"""One service object answers every read; the committed offsets of an answer come with its data.

A flow (`read`) plans, asks the store once, and answers. It asks again only where the reply shows
that the plan was made under other metadata, or that a total is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slicewise.clock import Clock, SystemClock
from slicewise.errors import (
    DataLoss,
    NotReady,
    Overloaded,
    ServerRunChanged,
    StoreUnavailable,
    UnknownArchive,
    UnknownName,
)
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import ListUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.exchange import NodeClaims
from slicewise.reading.plan import ReadMode, Total
from slicewise.reading.reader import (
    Answered,
    NeedsClaims,
    PartialCache,
    Replies,
    Stale,
    shared_tags,
    tick_of,
)
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.assemble import answer_of, views_without_data
from slicewise.serving.answering.catalog import Catalog, Part, Selection, tags_of
from slicewise.serving.answering.explaining import (
    Explanation,
    ReadOnce,
    check_one,
    explanation_of,
)
from slicewise.serving.answering.memory.fallback import CLOCK_OFF, LastAnswers, defaults_of
from slicewise.serving.answering.memory.freshness import Freshness
from slicewise.serving.answering.memory.high_water import (
    HighWater,
    check_recovered,
    check_regression,
)
from slicewise.serving.answering.past import PastQuestion as PastQuestion
from slicewise.serving.answering.planned import Planned, plan_selection
from slicewise.serving.answering.questions import NO_QUESTIONS, questions_of
from slicewise.serving.answering.refusals import (
    check_kept,
    check_min_token,
    check_named,
    check_ready,
    check_whole,
)
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.serving.connection.steps import Flow, Reopen, StoreId
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.archive_versions import ReadArchiveVersions
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.operations.reading import NodeReply, Read, ReadReply
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.sharded.routing import check_one_set

ATTEMPTS = 6
"""Replans of one request before it is given up: each has a cause that passes."""
PLANS = 500
"""Plans that are remembered; each can know megabytes of field names."""
WITHOUT_TOTAL = 10_000


@dataclass
class FeatureService:
    """Answers reads. It does no I/O itself: `read` is a flow that a connection drives."""

    clock: Clock = field(default_factory=SystemClock)
    catalog: Catalog | None = None
    freshness: Freshness = field(default_factory=Freshness)
    last_answers: LastAnswers = field(default_factory=LastAnswers)
    partials: PartialCache = field(default_factory=PartialCache)
    """Combined partials of compacted hours, of all plans."""
    high_water: HighWater = field(default_factory=HighWater)
    _declared: Catalog | None = None
    """The newest catalog that there was: what feature sets declare for a store that is away or
    empty."""
    _plans: dict[object, tuple[object, Planned]] = field(default_factory=dict)
    """The newest live plan of a selection, and plans of past instants; each with its place in
    time."""
    _offset_vectors: dict[tuple[int, str], Mapping[int, OffsetVector]] = field(default_factory=dict)
    _without_total: set[tuple[str, Total]] = field(default_factory=set)
    _claims: dict[tuple[int, str], tuple[StoreMetadata, Mapping[int, OffsetVector], NodeClaims]] = (
        field(default_factory=dict)
    )

    # ------------------------------------------------------------ reading
    def read(self, request: FeaturesRequest) -> Flow[Answer]:
        """The answer. Raises BadRequest, UnknownName, NotReady, BeyondRetention, BehindToken,
        StoreUnavailable, DataLoss, CodecError."""
        try:
            answer = yield from self.read_store(request)
        except (StoreUnavailable, NotReady) as error:
            return self.instead(request, error)
        return answer

    def explain(self, request: FeaturesRequest) -> Flow[Explanation]:
        """The answer for one entity as the store gives it, and what it was made of; nothing instead
        of the store. Raises what `read` raises."""
        check_one(request)
        reads: list[ReadOnce] = []
        answer = yield from self.read_store(replace(request, tokens=True), reads.append)
        return explanation_of(answer, reads[-1])

    def past(self, request: FeaturesRequest) -> Flow[PastQuestion]:
        """The question to the archive that a request is, which the store no longer answers. Raises
        UnknownName, NotReady."""
        catalog = yield from self.load()
        return PastQuestion(request, catalog, catalog.select(request.features, request.feature_set))

    def load(self) -> Flow[Catalog]:
        """The catalog of the deployment that the store runs now. NotReady where there is none."""
        for _ in range(ATTEMPTS):
            yield StoreId()
            try:
                reply: ReadReply = yield Read(())
            except ServerRunChanged:
                yield Reopen()
                continue
            current = {
                number: node_reply.metadata for number, node_reply in reply.node_replies.items()
            }
            if reply.count > 1:
                check_one_set(current)
                current = newest_of(current)
            metadata = next(iter(current.values()))
            loaded, newest = (
                self.catalog,
                {number: reply.node_replies[number] for number in current},
            )
            if (
                loaded is not None
                and loaded.matches_replies(newest)
                and (loaded.count == 1 or loaded.nodes.keys() == newest.keys())
            ):
                return loaded
            manifest: str | None = None
            if metadata.units:
                manifest = yield ReadManifest(metadata.units)
            if manifest is None:
                self.catalog = None
                raise NotReady(
                    "nothing is deployed on this store",
                    progress=0.0,
                    next_step="deploy the project: slicewise apply",
                )
            deployment = Deployment.from_json(manifest)
            self._forget(metadata)
            catalog = Catalog.of(deployment, metadata)
            if reply.count > 1:
                catalog = Catalog.of_nodes(deployment, current, reply.count)
            # before the first answer under it: which windows lack events is part of an answer
            yield from self.freshness.listen(catalog)
            self.catalog = catalog
            return catalog
        raise StoreUnavailable("the store's metadata does not stand still", next_step="ask again")

    def readiness(self, catalog: Catalog) -> Flow[dict[str, Any]]:
        """Tells whether every view answers, and why not."""
        reply: ReadReply = yield Read(())
        reasons = []
        for number in range(catalog.count):
            on = f"node {number + 1} of {catalog.count}: " if catalog.nodes else ""
            if number not in reply.node_replies or (catalog.nodes and number not in catalog.nodes):
                reasons.append(f"{on}away, or without the deployment")
                continue
            _, metadata, server_run = reply.node_replies[number]
            for unit in catalog.deployment.units:
                if unit.storage_fingerprint not in metadata.ready:
                    done, total = metadata.building.get(unit.storage_fingerprint, (0, 0))
                    reasons.append(f"{on}view {unit.view} is building: {done} of {total} hours")
            for source, lost in (
                self.high_water.of_node(number)
                .after(catalog.deployment.sources, metadata, server_run)
                .items()
            ):
                reasons.append(
                    f"{on}source {source}: the store lost what it had applied, {lost.events} "
                    "events to go"
                )
        return {
            "ready": not reasons,
            "reasons": reasons,
            "epoch": catalog.deployment_version,
            "generation": catalog.store_id,
            "deployment": catalog.digest,
        }

    def read_store(
        self, request: FeaturesRequest, note: Callable[[ReadOnce], None] | None = None
    ) -> Flow[Answer]:
        """Answers as `read` does, but nothing instead of the store. note: takes the read that was
        answered."""
        last: StoreUnavailable | None = None
        failed = False
        for attempt in range(ATTEMPTS):
            try:
                answer = yield from self._attempt(request, note)
            except ServerRunChanged as error:
                last = error
                self.catalog = None
                yield Reopen()
                continue
            except StoreUnavailable as error:
                # Reading changes nothing, so it may be tried once more; replans do not count, as
                # they come with a deployment, and that alone may have made this attempt fail.
                if failed:
                    raise
                failed, last = True, error
                continue
            except DataLoss:
                # Between the data and the offset vectors of its archive versions, an hour may have
                # been compacted to another archive version, and the one that was read forgotten.
                if attempt:
                    raise
                continue
            if answer is not None:
                return answer
        raise last or StoreUnavailable(
            "the deployment or its compacted days changed with every attempt",
            next_step="ask again",
        )

    def _attempt(
        self, request: FeaturesRequest, note: Callable[[ReadOnce], None] | None
    ) -> Flow[Answer | None]:
        """None: plan again."""
        catalog = self.catalog
        if catalog is None:
            catalog = yield from self.load()
        self._declared = catalog
        if not catalog.nodes:  # else each node says with its data which one it is
            store_id: int = yield StoreId()
            if store_id != catalog.store_id:
                self.catalog = None
                return None
        try:
            selection = catalog.select(request.features, request.feature_set)
        except UnknownName:
            # it may have been deployed since: what does not exist is told by the newest catalog
            if (yield from self.load()) is not catalog:
                return None
            raise
        mode: ReadMode = "live" if request.at_us is None else "at"
        t_us = self.clock.now_us() if request.at_us is None else request.at_us
        planned = self._planned(catalog, selection, mode, t_us)
        try:
            targets, tags, nodes = tags_of(catalog, selection, request.entities)
        except StoreUnavailable:
            if (yield from self.load()) is catalog:
                raise
            return None  # the node is back
        questions = (
            questions_of(selection, request.entities) if selection.question_types else NO_QUESTIONS
        )
        plan = planned.plan
        shared = shared_tags(targets, tags, nodes) if len(request.entities) > 1 else None
        reply: ReadReply = yield Read(
            plan.requests(targets, tags, nodes)
            if shared is None
            else plan.requests(shared.targets, shared.tags, shared.nodes)
        )
        if shared is not None:
            reply = _of_all(reply, shared.positions)
        if not catalog.matches_replies(reply.node_replies):
            self.catalog = None
            return None
        if request.min_token:
            check_named(request, selection)
        now_us = 0
        for number, (time_us, metadata, server_run) in reply.node_replies.items():
            now_us = max(now_us, time_us)
            self.freshness.saw(catalog, metadata, time_us, number)
            lost = self.high_water.of_node(number).after(
                catalog.deployment.sources, metadata, server_run
            )
            if not metadata.ready >= selection.units:
                check_ready(selection, metadata, self.freshness.phases, time_us)
            if lost:
                check_recovered(selection, lost)
        if now_us > planned.kept_until_us or t_us > now_us:
            check_kept(plan, mode, t_us, now_us)
        replies = Replies(
            len(request.entities),
            targets,
            reply.entities,
            reply.nodes if catalog.nodes else None,
            {} if shared is None else shared.alike,
        )
        store_answer = yield from self._answered(
            catalog, selection, planned, replies, reply.node_replies
        )
        if isinstance(store_answer, Stale):
            self._read_without(store_answer)
            return None
        if selection.listed:
            check_whole(request, store_answer, mode, now_us)
        parts = () if catalog.nodes else selection.parts
        committed_offsets = [
            self._claims_of(catalog, part, 0, reply.node_replies[0]).committed for part in parts
        ]
        check_regression(
            self.high_water, selection, targets, tags, reply, store_answer, committed_offsets
        )
        if request.min_token:
            check_min_token(request, store_answer)
        freshness = self.freshness.of(selection, store_answer.pending)
        unseen = views_without_data(selection, targets, reply.entities, len(request.entities))
        answer = answer_of(
            request, selection, mode, t_us, planned, store_answer, freshness, questions, unseen
        )
        if lacking := self.freshness.incomplete(selection, planned.bounds):
            answer = replace(answer, incomplete=lacking, flags=(*answer.flags, "incomplete"))
        if mode == "live":
            if abs(t_us - now_us) > decisions.CLOCK_OFF_US:
                answer = replace(answer, flags=(*answer.flags, CLOCK_OFF))
            # under the selection that it was read with: another read may have brought a newer
            # catalog
            if selection.is_remembered:
                self.last_answers.keep(answer, selection)
        if note is not None:
            claims = self._all_claims(catalog, selection, reply.node_replies)
            note(ReadOnce(selection, replies, store_answer, claims))
        return answer

    def _planned(
        self, catalog: Catalog, selection: Selection, mode: ReadMode, t_us: int
    ) -> Planned:
        tick = tick_of(t_us, selection.slices_us)
        # The present does not come back: of a selection only the newest live plan is kept.
        key: object = selection if mode == "live" else (selection, tick)
        plan = self._plans.get(key)
        if plan is not None and plan[0] == tick:
            # of event lists no two instants have a plan in common
            return (
                plan_selection(catalog, selection, mode, t_us, (), plan[1])
                if selection.listed
                else plan[1]
            )
        if plan is not None:
            del self._plans[key]
        elif len(self._plans) >= PLANS:
            del self._plans[next(iter(self._plans))]
        planned = plan_selection(
            catalog, selection, mode, t_us, self._without_total, partials=self.partials
        )
        self._plans[key] = (tick, planned)
        return planned

    def _answered(
        self,
        catalog: Catalog,
        selection: Selection,
        planned: Planned,
        replies: Replies,
        node_replies: Mapping[int, NodeReply],
    ) -> Flow[Answered | Stale]:
        """Answer of the replies, under the claims of their nodes."""
        for again in (False, True):
            for part in selection.parts if catalog.nodes else selection.sliced:
                where = (catalog.store_id, part.unit.source)
                if again or where not in self._offset_vectors:
                    # What an archive version stands for never changes: it may be learned after the
                    # data.
                    self._offset_vectors[where] = yield ReadArchiveVersions(part.unit.source)
            claims = self._all_claims(catalog, selection, node_replies)
            answer = planned.plan.answer(replies, claims, planned.cache)
            if not isinstance(answer, NeedsClaims):
                return answer
            if again:
                raise UnknownArchive(
                    f"nothing says what archive version {answer.version} stands for",
                    next_step="register the archive's offset vectors again",
                ) from answer.version
        raise AssertionError("the second attempt returns or raises")

    def _all_claims(
        self, catalog: Catalog, selection: Selection, node_replies: Mapping[int, NodeReply]
    ) -> list[Mapping[int, NodeClaims]]:
        """Per part the claims of each node that replied."""
        return [
            {
                number: self._claims_of(catalog, part, number, node_reply)
                for number, node_reply in node_replies.items()
            }
            for part in selection.parts
        ]

    def _claims_of(
        self, catalog: Catalog, part: Part, number: int, node_reply: NodeReply
    ) -> NodeClaims:
        """Kept while replies bring the same metadata: equal metadata is one object per connection,
        and a connection is of one server run.

        catalog: the read's own; another read may have found it void meanwhile.
        """
        name = part.unit.storage_fingerprint
        _, metadata, server_run = node_reply
        offset_vectors = self._offset_vectors.get(
            (catalog.store_id, part.unit.source), _NO_VERSIONS
        )
        claim = self._claims.get((number, name))
        if claim is None or claim[0] is not metadata or claim[1] is not offset_vectors:
            committed = catalog.committed_of(metadata, part.source_topic)
            begun = metadata.realtime_starts.get(part.unit.source)
            pending = decisions.realtime_counts(begun, server_run, committed)
            left = (
                metadata.topics.get(part.source_topic, "")
                if decisions.pending_left(begun, server_run)
                else ""
            )
            start = metadata.starts.get(name, OffsetVector())
            # it was filled to there, also where its node has yet to apply it
            if isinstance(part.unit, ListUnit):
                committed = committed.join(start)
            claims = NodeClaims(committed, start, offset_vectors, pending, left)
            claim = self._claims[number, name] = (metadata, offset_vectors, claims)
        return claim[2]

    def _read_without(self, stale: Stale) -> None:
        # Until a day's total is written again, its hours are read at once; of a five-day total its
        # days.
        if len(self._without_total) >= WITHOUT_TOTAL:
            self._without_total.clear()
        self._without_total.update(stale.totals)
        self._plans.clear()

    def retry_totals(self) -> None:
        """Asks for totals again; to be called now and then, since compaction writes them."""
        if self._without_total:
            self._without_total.clear()
            self._plans.clear()

    def _forget(self, metadata: StoreMetadata) -> None:
        self._plans.clear()
        self._without_total.clear()
        self._claims.clear()
        self._offset_vectors = {
            k: v for k, v in self._offset_vectors.items() if k[0] == metadata.store_id
        }

    # ------------------------------------------------------------ failure
    def instead(
        self, request: FeaturesRequest, error: StoreUnavailable | NotReady | Overloaded
    ) -> Answer:
        """Answers as the feature set declares for a store that does not answer, or a service that
        cannot ask it; else the error is raised."""
        catalog = self.catalog or self._declared
        if (
            request.feature_set is None
            or catalog is None
            or request.at_us is not None
            or request.min_token
        ):
            # a token asks for events by name: neither memory nor a default holds them
            raise error
        selection = catalog.select(request.features, request.feature_set)
        now_us = self.clock.now_us()
        answer: Answer | None = None
        if selection.on_failure == "stale":
            answer = self.last_answers.answer(request, selection, now_us, self.freshness.incomplete)
        elif selection.on_failure == "default":
            answer = defaults_of(request, selection, now_us)
        if answer is None:
            raise error
        return answer


_NO_VERSIONS: Mapping[int, OffsetVector] = {}


def newest_of(metadata: Mapping[int, StoreMetadata]) -> dict[int, StoreMetadata]:
    """The nodes that have the newest deployment: what the others have is not all that is
    deployed."""
    first = list(metadata.values())[sharded_metadata.newest(list(metadata.values()))]
    return {
        n: node
        for n, node in metadata.items()
        if (node.deployment_version, node.units) == (first.deployment_version, first.units)
    }


def _of_all(reply: ReadReply, positions: Sequence[int]) -> ReadReply:
    """The reply to all tags of a request; positions: of each among those that were read."""
    return replace(
        reply,
        entities=[reply.entities[position] for position in positions],
        nodes=[reply.nodes[position] for position in positions] if reply.nodes else reply.nodes,
    )
