"""What the store says of lost events only grows: a run that was paused takes back nothing that others told since."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.errors import CodecError
from slicewise.log import warning
from slicewise.offsets.gaps import AcceptedGap, from_json, joined, to_json
from slicewise.stores.online.port import OnlineStore

NONE = to_json(())


PART = "holes:"
"""And a source: where its accepted holes are told."""


def tell(store: OnlineStore, source: str, holes: Sequence[AcceptedGap]) -> None:
    """Tells readers of a source's accepted holes, beside those that they were told of before.

    holes: as the archive has them. What cannot be read is replaced: the archive is where holes are kept.
    """
    part = f"{PART}{source}"
    texts = store.statuses(part)
    told: tuple[AcceptedGap, ...] = ()
    for text in texts:
        try:
            told = told if text is None else joined(told, from_json(text, f"status {part}"))
        except CodecError as error:
            warning("holes_replaced", source=source, what=error.what)
    whole = to_json(joined(told, holes))
    # each node is asked: one that was emptied may be the only one that answers
    if any(whole != (NONE if text is None else text) for text in texts):
        store.put_status(part, whole)


def of_nodes(part: str, texts: Sequence[str | None]) -> str | None:
    """What several nodes say of a part together: of holes all that any of them was told, since one that lost its last
    commands knows fewer; else what the first says that says anything. One that cannot be read stands for all."""
    said = list(dict.fromkeys(text for text in texts if text is not None))
    if len(said) < 2 or not part.startswith(PART):
        return next(iter(said), None)
    known: tuple[AcceptedGap, ...] = ()
    for text in said:
        try:
            known = joined(known, from_json(text, f"status {part}"))
        except CodecError:
            return text
    return to_json(known)
