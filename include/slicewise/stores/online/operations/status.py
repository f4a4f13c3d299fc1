"""Status of a running part stands on every node, for people and health checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewise.stores.online import keys
from slicewise.stores.online.model import gaps
from slicewise.stores.online.operation import Everywhere, NodeContext
from slicewise.stores.online.steps import PutText, Steps, Text


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
        return gaps.of_nodes(self.part, list(replies.values()))


@dataclass(frozen=True)
class ReadStatuses(Everywhere[Sequence[str | None]]):
    """The status of a part as each node has it."""

    part: str

    def steps(self, at: NodeContext) -> Steps[Sequence[str | None]]:
        return [(yield from ReadStatus(self.part).steps(at))]

    def merge(self, replies: Mapping[int, Sequence[str | None]]) -> Sequence[str | None]:
        return [text for texts in replies.values() for text in texts]
