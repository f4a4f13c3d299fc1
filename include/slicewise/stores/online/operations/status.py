"""Status of a running part stands on every node, for people and health checks.

Accepted gaps of a source are one: readers are told of them by the store, and the archive is where
they are kept. That text only grows: a run that was paused takes back nothing that others told
since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewise.errors import CodecError
from slicewise.log import warning
from slicewise.offsets.gaps import AcceptedGap, from_json, joined, to_json
from slicewise.stores.online import keys
from slicewise.stores.online.port import Everywhere, NodeContext, OnlineStore
from slicewise.stores.online.steps import PutText, Steps, Text

GAPS = "holes:"
"""Prefix of a source: where its accepted gaps are told."""


@dataclass(frozen=True)
class PutStatus(Everywhere[None]):
    """Writes the status of a part, in the place of the one before."""

    part: str
    text: str

    def steps(self, at: NodeContext) -> Steps[None]:  # noqa: ARG002
        yield [PutText(keys.status_key(self.part), self.text.encode())]

    def merge(self, replies: Mapping[int, None]) -> None: ...


@dataclass(frozen=True)
class ReadStatus(Everywhere[str | None]):
    """The status of a part; None where it never wrote one."""

    part: str

    def steps(self, at: NodeContext) -> Steps[str | None]:  # noqa: ARG002
        (raw,) = yield [Text(keys.status_key(self.part))]
        return None if raw is None else raw.decode()

    def merge(self, replies: Mapping[int, str | None]) -> str | None:
        return _of_nodes(self.part, list(replies.values()))


@dataclass(frozen=True)
class ReadStatuses(Everywhere[Sequence[str | None]]):
    """The status of a part as each node has it."""

    part: str

    def steps(self, at: NodeContext) -> Steps[Sequence[str | None]]:
        return [(yield from ReadStatus(self.part).steps(at))]

    def merge(self, replies: Mapping[int, Sequence[str | None]]) -> Sequence[str | None]:
        return [text for texts in replies.values() for text in texts]


def publish_gaps(store: OnlineStore, source: str, accepted_gaps: Sequence[AcceptedGap]) -> None:
    """Tells readers of a source's accepted gaps, beside those that they were told of before.

    accepted_gaps: as the archive has them. What cannot be read is replaced: the archive is where
    accepted gaps are kept.
    """
    part = f"{GAPS}{source}"
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
    if any(whole != (to_json(()) if text is None else text) for text in texts):
        store.run(PutStatus(part, whole))


def _of_nodes(part: str, texts: Sequence[str | None]) -> str | None:
    """The text of several nodes about a part together: of accepted gaps all that any of them was
    told, since one that lost its last commands knows fewer; else the first text there is. One that
    cannot be read stands for all."""
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    if len(distinct) < 2 or not part.startswith(GAPS):
        return next(iter(distinct), None)
    gaps: tuple[AcceptedGap, ...] = ()
    for text in distinct:
        try:
            gaps = joined(gaps, from_json(text, f"status {part}"))
        except CodecError:
            return text
    return to_json(gaps)
