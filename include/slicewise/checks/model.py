"""Comparisons of the check, as data: every compared value has both sides, its bounds and a
verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from slicewise.checks.values import canonical, value_of
from slicewise.offsets.token import Token


class Verdict(StrEnum):
    """Result of comparing the two sides."""

    EQUAL = "equal"
    MISMATCH = "mismatch"
    MISSING = "missing"  # offline has a value, online is empty, or what is stored gives no answer
    EXTRA = "extra"  # online has a value, offline is empty


class Cause(StrEnum):
    """The likeliest reason of a difference: which change to the question gives the online value."""

    NONE = ""
    # without the events that came after their hour was over, or those that an archive had
    LATE = "late"
    LAG = "lag"  # with another offset vector than the token's
    BOUNDARY = (
        # with a bound, or what one slice holds, on its other side; or the bounds themselves are
        # wrong
        "boundary"
    )
    EXPIRY = "expiry"  # with the window, or what was compacted of it, cut short at its start
    TIE = "tie"  # the same rank, another event of the same value
    STALE = "stale"  # with an hour as an earlier archive had it
    ROUNDING = "rounding"  # one unit in the last place off
    DROPPED = "dropped"  # without what one slice or hour holds (of one partition, or of all)
    DOUBLED = "doubled"  # with what one slice or hour holds counted twice
    LOGIC = "logic"  # none of these
    UNCLASSIFIED = "unclassified"  # not looked for: too many values differ


@dataclass(frozen=True)
class Predicted:
    """Online answer for one entity: its values by ref, one token per unit, and their text.

    incomplete: refs whose windows lack events that are lost for good: nothing can say what they
    should be.
    """

    values: Mapping[str, Any]
    tokens: tuple[Token, ...]
    text: str
    incomplete: frozenset[str] = frozenset()


NO_ANSWER = "*"
"""Stands for all features of an entity of which what is stored gives no answer."""


class OnlineReader(Protocol):
    """Reader of predictions for the check: through the same door as everyone."""

    def read(
        self, refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> Sequence[Predicted]:
        """Per entity its values by ref ("view:column") and its tokens, one per unit.

        at_us: microseconds UTC; None asks for the present.
        """
        ...


@dataclass(frozen=True)
class Compared:
    """One value of one entity on both sides, as canonical bytes."""

    view: str
    feature: str
    entity: str
    mode: str
    start_us: int
    end_us: int
    online: bytes
    offline: bytes
    verdict: Verdict
    cause: Cause = Cause.NONE
    unit: str = ""
    token: str = ""

    def online_ranks(self) -> list[bytes]:
        """The keys by which the entries of a ranked answer were ranked."""
        entries = value_of(self.online)
        if not isinstance(entries, list):
            return []
        return [canonical(entry["by"]) for entry in entries if isinstance(entry, Mapping)]


@dataclass(frozen=True)
class PlainSum:
    """An ordinary SQL sum beside the exact one: how far apart they may be, and are."""

    view: str
    feature: str
    entity: str
    agrees: bool


@dataclass(frozen=True)
class Repeats:
    """Repeated ids among a source's latest events: how many have the id of one before them, of
    whatever entity.

    events: all of them. repeated: in their partition within the look-back time, with the same
    content; conflicts: with another content (docs/adr/0064: neither counts, where the entity is the
    same); across: the id came in another partition within the look-back time, which nothing leaves
    out.
    """

    source: str
    events: int
    repeated: int
    conflicts: int
    across: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def notes(self) -> list[str]:
        """Notes for a person to look at."""
        notes = []
        if self.conflicts:
            notes.append(
                f"source {self.source}: {self.conflicts} events have the id of another one and "
                "another content "
                f"(ops.duplicates_{self.source}, reason 'conflict')"
            )
        if self.across:
            notes.append(
                f"source {self.source}: {self.across} events have the id of one in another "
                "partition; they count twice"
            )
        return notes


@dataclass(frozen=True)
class Outcome:
    """One run of the check.

    expected_views: those that must be among the compared, else the check proves nothing.
    """

    run: str
    started_us: int
    finished_us: int
    sample: int
    expected_views: tuple[str, ...]
    compared: tuple[Compared, ...]
    plain_sums: tuple[PlainSum, ...]
    notes: tuple[str, ...] = ()
    repeats: tuple[Repeats, ...] = ()
    """Repeats of the sources whose events count once by their id."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each phase."""

    def wrong(self) -> tuple[Compared, ...]:
        """The compared values that are not equal."""
        return tuple(row for row in self.compared if row.verdict is not Verdict.EQUAL)

    @property
    def differs(self) -> bool:
        """Tells whether anything was found to differ: this stands, whatever else goes wrong in the
        run."""
        return bool(self.wrong()) or not all(plain_sum.agrees for plain_sum in self.plain_sums)

    def per_million(self) -> float:
        """Values that are not equal, per million compared."""
        return 1e6 * len(self.wrong()) / len(self.compared) if self.compared else 0.0
