"""Questions to raw events: an aggregate over a window of one answer, under a rule that says which
take part.

A value is known by its window's number and its aggregate's key; what was not asked has no value,
not even an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slicewise.checks.judges import judged
from slicewise.checks.recompute.queries import BY_SQL, Aggregated
from slicewise.offsets.token import Token

TOKEN, ANY_OFFSETS, BASE_ONLY, NOT_LATE = "token", "any", "base", "not_late"
"""Rules by which an event takes part: the token's; whatever its offset; the base without hours
ahead; the token's, but without events that came after their hour was over."""


@dataclass(frozen=True)
class OnlineAnswer:
    """One answer that was read online: `who` numbers it."""

    who: int
    entity: Mapping[str, Any]
    token: Token


class Part(NamedTuple):
    """Events that a store keeps, or loses, together: of an interval, and of what is not None beside
    it."""

    start_us: int
    end_us: int
    topic_id: str | None = None
    partition: int | None = None
    first: int | None = None
    """The lowest of their offsets."""
    last: int | None = None
    after_version: int | None = None
    """Archived after it."""
    to_version: int | None = None
    """Archived by it, or before."""
    late: bool = False
    """Only what came after its hour was over."""


class StoredSlice(NamedTuple):
    """The events of an answer of one slice and partition that one archive brought, in time or
    late."""

    number: int
    topic_id: str
    partition: int
    archive_version: int
    late: bool
    offsets: Sequence[int]
    """Ascending, the first `queries.MOST_OFFSETS` of them."""
    n: int
    """Number of events."""


@dataclass(frozen=True)
class WindowOf:
    """An interval of one answer under a rule: `w` numbers it. rows: only the last so many of its
    rows (0: all).

    part: these events count `times` (0: not at all). A part that lies outside counts once less:
    what is doubled stands in the store a second time, and maybe within. back_us: how long before
    the end the instant lies that ages are counted from.
    """

    w: int
    who: int
    rule: str
    start_us: int
    end_us: int
    rows: int = 0
    part: Part | None = None
    times: int = 1
    back_us: int = 0


Question = tuple[WindowOf, Aggregated]
"""An aggregate over a window."""


@dataclass(frozen=True)
class Distinct:
    """Counts by Spark: distinct values, and the bytes of their texts together."""

    count: int
    text_bytes: int


@dataclass(frozen=True)
class PlainSum:
    """An ordinary sum beside the exact one; n values, absolute: Σ|x|."""

    plain: float | None
    exact: float | None
    n: int
    absolute: float


@dataclass(frozen=True)
class Recomputed:
    """Values by (w, aggregate's key); of what was `requested` and has no entry no event takes
    part."""

    requested: AbstractSet[tuple[int, str]] = frozenset()
    values: Mapping[tuple[int, str], Any] = field(default_factory=dict)
    plain_sums: Mapping[tuple[int, str], PlainSum] = field(default_factory=dict)

    def value(self, w: int, aggregate: Aggregated) -> Any:
        """The value of an aggregate over a window; of no events null, and 0 of a count. Raises
        KeyError for what was not asked."""
        if (w, aggregate.key) not in self.requested:
            raise KeyError((w, aggregate.key))
        if (w, aggregate.key) in self.values:
            return self.values[w, aggregate.key]
        if aggregate.kind not in BY_SQL:
            return judged((), aggregate.parameters)
        return {"count": 0, "distinct_count": Distinct(0, 0)}.get(aggregate.kind)
