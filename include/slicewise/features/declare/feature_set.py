"""A feature set names features of many views that are read together, and what is answered where
they cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slicewise.calls import checked_class, shown
from slicewise.errors import DefinitionError
from slicewise.features.declare.cases import Scalar
from slicewise.features.logs import kind_of
from slicewise.features.naming import (
    Location,
    check_mapping,
    check_name,
    check_words,
    frozen,
    placed,
    refuse_twice,
    subject_of,
    texts,
    written_at,
)
from slicewise.features.schema.kafka_source import KafkaSource
from slicewise.windows.durations import parse_duration

ON_FAILURE = ("error", "stale", "default")


@checked_class
@dataclass(frozen=True)
class FeatureSet:
    """Named features of many views, read together: features=["listening:plays_7d", …].

    defaults: values to answer instead of null, by ref or, where that is unambiguous, by column.
    on_failure: what a live read answers while the online store does not: "error" (status 503),
    "stale" (the last known values, flagged, no older than max_staleness) or "default" (the
    defaults, flagged). log: the source that the API's answers go to, made by sw.request_log;
    log_rate: the share of entities whose answers do, always the same ones. description, tags: words
    for people, which slicewise show and search read.
    """

    name: str
    features: Sequence[str]
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    owner: str | None = None
    on_failure: str = "error"
    max_staleness: str | None = None
    log: KafkaSource | None = None
    log_rate: float = 1.0
    description: str | None = None
    tags: Sequence[str] = ()
    location: Location | None = field(default_factory=written_at, compare=False, repr=False)

    @property
    def where(self) -> str:
        return subject_of("feature set", self.name, self.location)

    def __post_init__(self) -> None:
        where = self.where
        check_name(self.name, "a feature set", where)
        check_words(self, where)
        check_mapping(self.defaults, "defaults", where, '{"plays_7d": 0}')
        refs = texts(self.features, "features", where)
        if not refs:
            raise DefinitionError(
                "a feature set is empty",
                where=where,
                expected='["view:column"]',
                next_step="name the features that are read together",
            )
        for ref in refs:
            if ref.count(":") != 1:
                raise DefinitionError(
                    f"{ref!r} is no feature",
                    where=where,
                    expected='"view:column", as in "listening:plays_7d"',
                    next_step="put the view's name and a colon before the column",
                )
        refuse_twice(refs, "feature", where)
        object.__setattr__(self, "features", refs)
        object.__setattr__(self, "defaults", frozen(self.defaults))
        if self.on_failure not in ON_FAILURE:
            raise DefinitionError(
                f"on_failure is {self.on_failure!r}",
                where=where,
                expected="one of " + ", ".join(ON_FAILURE),
                next_step="leave on_failure= out for an error",
            )
        if (self.on_failure == "stale") != (self.max_staleness is not None):
            raise DefinitionError(
                f"on_failure is {self.on_failure!r}, max_staleness {self.max_staleness!r}",
                where=where,
                expected='both, as on_failure="stale", max_staleness="5m", or neither',
                next_step="say how old a last known value may be",
            )
        if self.max_staleness is not None:
            with placed(f"max_staleness of {where}"):
                parse_duration(self.max_staleness)
        self._check_log(where)

    def _check_log(self, where: str) -> None:
        if self.log is not None and (
            not isinstance(self.log, KafkaSource) or kind_of(self.log.schema) != "answers"
        ):
            raise DefinitionError(
                f"log is {shown(self.log)}",
                where=where,
                expected="a source made by sw.request_log",
                next_step='declare requests = sw.request_log("requests"), and write log=requests',
            )
        rate = self.log_rate
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
            raise DefinitionError(
                f"log_rate is {shown(rate)}",
                where=where,
                expected="a share above 0, up to 1 for every entity",
                next_step="leave log_rate= out for all, or log= for none",
            )
        if self.log is None and rate != 1.0:
            raise DefinitionError(
                f"log_rate is {rate:g}, and there is no log",
                where=where,
                expected="log= beside it",
                next_step='declare requests = sw.request_log("requests"), and write log=requests',
            )
