"""A deployment is one change of the marks: nothing of it stands before all of it does.

Units that are new begin at the ledger, and so do those that are built again: in a term of their own, under other keys
(docs/adr/0023, docs/adr/0060).
"""

from __future__ import annotations

from collections.abc import Mapping

from slicewise.errors import DefinitionError, EpochSuperseded
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.model import metadata as marks
from slicewise.stores.online.model.metadata import Sets
from slicewise.stores.online.operations.publish_total import first_horizon
from slicewise.stores.online.port import Deployable, Renewal, StoreMetadata, TotalUntil
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import ATTEMPTS, MISSED, PutText, Steps, Time, contended, exact

NOTHING = OffsetVector()


def deploy(
    generation: int,
    deployment: Deployable,
    expected_epoch: int,
    topics: Mapping[str, str],
    earliest: OffsetVector,
    renewal: Renewal,
    epoch: int = 0,
    since: OffsetVector = NOTHING,
) -> Steps[StoreMetadata]:
    """Epoch + 1, digest, start cover := ledger for new units and those to be built again, aliases, in one change.

    epoch: of one of several nodes, the epoch that all of them get; since: what another of them has applied: units begin
    at or beyond it, so that one backfill is of all nodes.
    """
    reached = epoch or expected_epoch + 1
    if not {topic for topic, _ in earliest}.issubset(topics.values()):
        raise DefinitionError(
            "earliest offsets of a topic that is not named",
            expected="its name and id in topics",
            next_step="give the topic with its offsets",
        )
    yield [PutText(keys.manifest_key(deployment.digest), deployment.to_json().encode())]
    units = {unit.storage_fingerprint: unit for unit in deployment.units}
    lists = {name: unit.event_list for name, unit in units.items()}
    views: dict[str, list[str]] = {}
    for unit in deployment.units:
        views.setdefault(unit.view, []).append(unit.storage_fingerprint)
    for _ in range(ATTEMPTS):
        found = yield from marks.read(generation)
        unknown = any(found.topics.get(name) != topic for name, topic in topics.items())
        stands = found.units == deployment.digest and epoch in (0, found.epoch)
        if stands and not unknown and not renewal.units:
            return found
        if found.epoch != expected_epoch:
            raise EpochSuperseded(
                f"epoch {found.epoch} stands, the deployment was planned on {expected_epoch}",
                next_step="plan again and apply",
            )
        begun = decisions.begun(found.places, found.topics.values(), earliest)
        rebuilt = decisions.lists_to_rebuild(lists, found) | (renewal.units & set(found.starts) & set(units))
        ledger, ids = found.ledger.join(begun), {**found.topics, **topics}
        of_topic = {name: ids.get(deployment.topic_of(unit.source), "") for name, unit in units.items()}
        standing = {topic for name, topic in of_topic.items() if name in found.starts and name not in rebuilt}
        ahead = decisions.ahead(ledger, renewal.ahead, standing)
        ledger = ledger.join(ahead)
        starts = {
            name: decisions.start_cover(ledger.join(since), ids.get(deployment.topic_of(units[name].source)))
            for name in sorted((set(units) - set(found.starts)) | rebuilt)
        }
        at_once = [name for name, start in starts.items() if not start]  # nothing lies below
        horizons = {}
        if empty := [name for name in at_once if units[name].lifetime]:
            (now_us,) = yield [Time()]
            horizons = {
                name: TotalUntil(first_horizon(now_us, units[name].retention_us), decisions.START_SEQ) for name in empty
            }
        ready = ((found.ready - rebuilt) | set(at_once)) & set(units)
        term = decisions.new_term(found, reached)
        # a list that is built again leaves what it kept so far under the name that it had
        terms = {name: reached if name in rebuilt else term for name in starts}
        gone = sorted(set(found.starts) - set(units))
        aliases = decisions.aliases_to_set(views, {v: a for v, a in found.aliases.items() if v in views}, ready)
        sets: Sets = [
            (b"epoch", b"%d" % reached, 0),
            (b"units", deployment.digest.encode(), 0),
            (marks.PLACES, b"%d" % (len(found.places | set(begun.join(ahead)))), 0),
            *[(marks.ledger_field(p), b"%d" % o, 0) for p, o in begun.join(ahead).offsets.items()],
            *[(b"s:%s" % u.encode(), start.pack(), 0) for u, start in starts.items()],
            *[(b"y:%s" % u.encode(), b"1", 0) for u in at_once],
            *[(b"n:%s" % u.encode(), b"%d" % number, 0) for u, number in terms.items() if number],
            *[(b"k:%s" % u.encode(), kept.text().encode(), 0) for u, kept in lists.items() if kept is not None],
            *[(b"h:%s" % u.encode(), marks.horizon_text(each), 0) for u, each in horizons.items()],
            *([(b"retired", b"%d" % reached, 0)] if gone or rebuilt else []),
            *[(b"a:%s" % v.encode(), ",".join(f).encode(), 0) for v, f in aliases.items()],
            *[(b"t:%s" % n.encode(), t.encode(), 0) for n, t in topics.items()],
        ]
        deletes = [
            *[b"%s:%s" % (kind, u.encode()) for u in gone for kind in (b"s", b"n", b"y", b"b", b"k", b"h")],
            *[b"%s:%s" % (kind, u.encode()) for u in sorted(rebuilt - set(at_once)) for kind in (b"y", b"b", b"h")],
            *[b"a:%s" % v.encode() for v in set(found.aliases) - set(views)],
            *[marks.tail_field(source) for source in set(found.tails) - {unit.source for unit in deployment.units}],
        ]
        checks = [
            (b"epoch", exact(b"%d" % expected_epoch)),
            *marks.standing(found, {*found.places, *begun, *ahead}),
            *marks.places(found),
        ]
        (reply,) = yield [marks.change(generation, checks, sets, deletes)]
        if reply != MISSED:
            return (yield from marks.read(generation))
    raise contended("deployment")
