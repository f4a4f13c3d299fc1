"""A store that lost what it had applied says so itself, until its ledger has come there again.

What was reached is known from copies kept elsewhere; it is marked on the node, so that every reader sees it in the
reply that brings the data. If it is lost with the data, the copies tell it again.
"""

from __future__ import annotations

from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.model import metadata as marks
from slicewise.stores.online.port import StoreMetadata
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import ABSENT, ATTEMPTS, Steps, contended, exact


def known_field(place: TopicPartition) -> bytes:
    return b"w:%s:%d" % (place[0].encode(), place[1])


def tell(generation: int, reached: OffsetVector) -> Steps[StoreMetadata]:
    """Marks what was reached and is not held; takes the marks of what is held again. The marks afterwards."""
    for _ in range(ATTEMPTS):
        found = yield from marks.read(generation)
        both = found.known.join(reached)
        # before the first deployment nobody knows which topics stand: then all may
        lost = decisions.still_lost(found.ledger, both, found.topics.values() or {topic for topic, _ in both})
        if lost == found.known:
            return found
        stands = found.known.offsets
        differ = sorted(at for at in {*lost, *stands} if lost.get(at) != stands.get(at))
        changed = [(place, lost.offsets.get(place)) for place in differ]
        checks = [
            (known_field(place), exact(b"%d" % stands[place]) if place in stands else ABSENT) for place, _ in changed
        ]
        sets = [(known_field(place), b"%d" % offset, 0) for place, offset in changed if offset is not None]
        gone = [known_field(place) for place, offset in changed if offset is None]
        yield [marks.change(generation, checks, sets, gone)]
    raise contended("what is known of a loss")
