"""Readers are told of accepted gaps by the store; the archive is where they are kept."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.errors import CodecError
from slicewise.log import warning
from slicewise.offsets.gaps import AcceptedGap, from_json, joined, to_json
from slicewise.stores.online.model.gaps import NONE, PART
from slicewise.stores.online.operations.status import PutStatus, ReadStatuses
from slicewise.stores.online.port import OnlineStore


def publish_gaps(store: OnlineStore, source: str, accepted_gaps: Sequence[AcceptedGap]) -> None:
    """Tells readers of a source's accepted gaps, beside those that they were told of before.

    accepted_gaps: as the archive has them. What cannot be read is replaced: the archive is where
    accepted gaps are kept.
    """
    part = f"{PART}{source}"
    texts = store.run(ReadStatuses(part))
    published: tuple[AcceptedGap, ...] = ()
    for text in texts:
        try:
            published = (
                published if text is None else joined(published, from_json(text, f"status {part}"))
            )
        except CodecError as error:
            warning("gaps_replaced", source=source, what=error.what)
    whole = to_json(joined(published, accepted_gaps))
    # each node is asked: one that was emptied may be the only one that answers
    if any(whole != (NONE if text is None else text) for text in texts):
        store.run(PutStatus(part, whole))
