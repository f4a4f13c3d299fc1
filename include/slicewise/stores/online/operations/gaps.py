"""Readers are told of accepted gaps by the store; the archive is where they are kept."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.errors import CodecError
from slicewise.log import warning
from slicewise.offsets.gaps import AcceptedGap, from_json, joined, to_json
from slicewise.stores.online.model.gaps import NONE, PART
from slicewise.stores.online.operations.status import PutStatus, ReadStatuses
from slicewise.stores.online.port import OnlineStore


def tell(store: OnlineStore, source: str, holes: Sequence[AcceptedGap]) -> None:
    """Tells readers of a source's accepted holes, beside those that they were told of before.

    holes: as the archive has them. What cannot be read is replaced: the archive is where holes are kept.
    """
    part = f"{PART}{source}"
    texts = store.run(ReadStatuses(part))
    told: tuple[AcceptedGap, ...] = ()
    for text in texts:
        try:
            told = told if text is None else joined(told, from_json(text, f"status {part}"))
        except CodecError as error:
            warning("holes_replaced", source=source, what=error.what)
    whole = to_json(joined(told, holes))
    # each node is asked: one that was emptied may be the only one that answers
    if any(whole != (NONE if text is None else text) for text in texts):
        store.run(PutStatus(part, whole))
