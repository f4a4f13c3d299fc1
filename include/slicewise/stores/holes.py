"""What the store says of lost events only grows: a run that was paused takes back nothing that others told since."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.errors import CodecError
from slicewise.holes import Hole, from_json, joined, to_json
from slicewise.log import warning
from slicewise.stores.ports import OnlineStore

NONE = to_json(())


def tell(store: OnlineStore, source: str, holes: Sequence[Hole]) -> None:
    """Tells readers of a source's accepted holes, beside those that they were told of before.

    holes: as the archive has them. What cannot be read is replaced: the archive is where holes are kept.
    """
    part = f"holes:{source}"
    texts = store.statuses(part)
    told: tuple[Hole, ...] = ()
    for text in texts:
        try:
            told = told if text is None else joined(told, from_json(text, f"status {part}"))
        except CodecError as error:
            warning("holes_replaced", source=source, what=error.what)
    whole = to_json(joined(told, holes))
    # each node is asked: one that was emptied may be the only one that answers
    if any(whole != (NONE if text is None else text) for text in texts):
        store.put_status(part, whole)
