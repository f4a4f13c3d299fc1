"""What an archive seq stands for never changes, and is known for as long as an hour may name it.

A run announces the seqs of the hours that it committed before it swaps them; every announcement is
counted. What is trimmed was decided from hours read after the count, and goes only while the count
stands: a run that the decision did not see announces later, and registers its seqs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slicewise.errors import GapRefused
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.model import metadata as marks
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import ATTEMPTS, MISSED, KeyChange, Steps, Whole, contended, exact

COUNT = decisions.ANNOUNCED


def _parsed(flat: Sequence[bytes]) -> tuple[dict[int, bytes], bytes | None]:
    """seq -> packed cover, and the count as it stands."""
    raw = dict(zip(flat[::2], flat[1::2], strict=True))
    count = raw.pop(COUNT, None)
    return {int(seq): value for seq, value in raw.items()}, count


def put_cover(generation: int, source: str, seq: int, cover: OffsetVector) -> Steps[None]:
    """Announces an archive seq: registers what it stands for, if that is not known. A cover that
    contradicts what is known is refused."""
    if seq <= decisions.START_SEQ:
        raise GapRefused(
            f"archive seq {seq}", expected="1 or more: 0 is the start cover", next_step="number archives from 1"
        )
    key, field, packed = keys.covers_key(generation, source), b"%d" % seq, cover.pack()
    for _ in range(ATTEMPTS):
        (flat,) = yield [Whole(key)]
        known, count = _parsed(flat)
        decisions.check_cover(source, seq, cover, {s: OffsetVector.unpack(raw) for s, raw in _around(known, seq)})
        checks = [(COUNT, exact(count)), (field, exact(known.get(seq)))]
        sets = [(COUNT, b"%d" % (int(count or 0) + 1), 0)]
        if seq not in known:
            sets.append((field, packed, 0))
        (reply,) = yield [marks.change(generation, [], [], (), KeyChange(key, checks, sets))]
        if reply != MISSED:
            return
        yield from marks.read(generation)  # says whether the store was emptied
    raise contended(f"covers of {source}")


def _around(known: dict[int, bytes], seq: int) -> Iterable[tuple[int, bytes]]:
    """The seq itself and its neighbours."""
    below, above = [s for s in known if s < seq], [s for s in known if s > seq]
    near = [*([max(below)] if below else []), *([seq] if seq in known else []), *([min(above)] if above else [])]
    return [(s, known[s]) for s in near]


def covers(generation: int, source: str) -> Steps[dict[int, OffsetVector]]:
    (flat,) = yield [Whole(keys.covers_key(generation, source))]
    return {seq: OffsetVector.unpack(raw) for seq, raw in _parsed(flat)[0].items()}


def announced(generation: int, source: str) -> Steps[int]:
    """How many announcements there were: to be read before the hours that decide what to trim."""
    (flat,) = yield [Whole(keys.covers_key(generation, source))]
    return int(_parsed(flat)[1] or 0)


def trim(generation: int, source: str, count: int, epoch: int, live: Sequence[tuple[int, int]]) -> Steps[int]:
    """Forgets the seqs that no hour names; how many. 0 where anything was announced or deployed
    since `count` and `epoch` were read: the next run decides again."""
    key = keys.covers_key(generation, source)
    (flat,) = yield [Whole(key)]
    known, found = _parsed(flat)
    drop = decisions.covers_to_drop(known, live)
    if not drop or int(found or 0) != count:
        return 0
    other = KeyChange(key, [(COUNT, exact(found))], (), [b"%d" % seq for seq in drop])
    (reply,) = yield [marks.change(generation, [(b"epoch", exact(b"%d" % epoch))], [], (), other)]
    if reply == MISSED:
        yield from marks.read(generation)
        return 0
    return len(drop)
