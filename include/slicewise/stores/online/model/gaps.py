"""The store's text of lost events only grows: a run that was paused takes back nothing that others
told since."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.errors import CodecError
from slicewise.offsets.gaps import AcceptedGap, from_json, joined, to_json

NONE = to_json(())


PART = "holes:"
"""Prefix of a source: where its accepted gaps are told."""


def of_nodes(part: str, texts: Sequence[str | None]) -> str | None:
    """The text of several nodes about a part together: of accepted gaps all that any of them was
    told, since one that lost its last commands knows fewer; else the first text there is. One that
    cannot be read stands for all."""
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    if len(distinct) < 2 or not part.startswith(PART):
        return next(iter(distinct), None)
    gaps: tuple[AcceptedGap, ...] = ()
    for text in distinct:
        try:
            gaps = joined(gaps, from_json(text, f"status {part}"))
        except CodecError:
            return text
    return to_json(gaps)
