"""A leaderboard ranks the entities of a view by one of its features. It is refused where it could
not be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slicewise.calls import checked_class, shown
from slicewise.errors import DefinitionError
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.naming import (
    Location,
    check_name,
    check_words,
    placed,
    subject_of,
    written_at,
)
from slicewise.features.schema.kafka_source import TOPIC_NAME
from slicewise.windows.durations import DAY_US, parse_duration

MOST_ROWS = 1_000
LATE = ("ignore", "correct")


@checked_class
@dataclass(frozen=True)
class Leaderboard:
    """The k entities of a view with the highest value of a feature, made anew at every multiple of
    `every`.

    view: a sw.FeatureView or its name. by: the feature's column, as "plays_10s"; it must be a
    number. Equal values stand in the order of their keys' bytes; an entity without an event in the
    window stands on no leaderboard. late: what an event does that comes after the leaderboard of
    its time: "ignore" leaves that leaderboard as it was, "correct" publishes the old and the new
    rows to `topic` (`<name>.corrections` by default) for leaderboards no older than correct_within.
    description, tags: words for people, which slicewise show and search read.
    """

    name: str
    view: FeatureView | str
    by: str
    k: int = 10
    every: str = "1s"
    late: str = "ignore"
    topic: str | None = None
    correct_within: str = "10m"
    owner: str | None = None
    description: str | None = None
    tags: Sequence[str] = ()
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def where(self) -> str:
        return subject_of("leaderboard", self.name, self.location)

    @property
    def view_name(self) -> str:
        return self.view if isinstance(self.view, str) else self.view.name

    def __post_init__(self) -> None:
        where = self.where
        check_name(self.name, "a leaderboard", where)
        check_words(self, where)
        if not isinstance(self.view, FeatureView | str):
            raise DefinitionError(
                f"view is {shown(self.view)}",
                where=where,
                expected="a sw.FeatureView or its name",
                next_step="give the view that has the feature, or its name in quotes",
            )
        if not isinstance(self.by, str):
            raise DefinitionError(
                f"by is {shown(self.by)}",
                where=where,
                expected='a feature column, as "plays_10s"',
                next_step="name a column of the view: <feature>_<window>",
            )
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= MOST_ROWS:
            raise DefinitionError(
                f"k is {self.k!r}",
                where=where,
                expected=f"an integer from 1 to {MOST_ROWS}",
                next_step="say how many rows it has",
            )
        if self.late not in LATE:
            raise DefinitionError(
                f"late is {self.late!r}",
                where=where,
                expected="one of " + ", ".join(LATE),
                next_step="leave late= out for " + repr(LATE[0]),
            )
        if self.topic is not None and self.late != "correct":
            raise DefinitionError(
                "topic= is where corrections go, and there are none",
                where=where,
                expected='late="correct", or no topic',
                next_step="leave topic= out, or publish corrections",
            )
        if self.topic is not None and not (
            isinstance(self.topic, str) and TOPIC_NAME.fullmatch(self.topic)
        ):
            raise DefinitionError(
                f"{self.topic!r} is no topic name",
                where=where,
                expected="letters, digits, '.', '_' and '-', at most 200",
                next_step="correct it, or leave it out",
            )
        for option in ("every", "correct_within"):
            with placed(f"{option} of {where}"):
                length = parse_duration(getattr(self, option))
            if length > DAY_US:
                raise DefinitionError(
                    f"{option} is {getattr(self, option)!r}",
                    where=where,
                    expected="at most 1d",
                    next_step="shorten it",
                )
