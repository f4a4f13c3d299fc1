"""The way from red to green is one record: the hours to recompute, the entities to compare again,
and the stories of what was done.

Its text is a part of the store's status, which checks and compactions change by what it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from slicewise.lifecycle.jobs import hour_text
from slicewise.windows.durations import HOUR_US

PART = "healing"
"""Part of the store's status that holds the record."""
MOST_ENTITIES = 50
"""Entities of a view that are compared again."""
MOST_VALUES = 10
"""Values of a step, for people."""
AGAIN_US = 600_000_000
"""Time after a red check before a light check asks for another one."""
MOST_STORIES, MOST_STEPS = 10, 30
Kind = Literal["suspected", "red", "recomputed", "green"]


@dataclass(frozen=True)
class Mark:
    """Hours of a view, counted since 1970, that values which differ are about: the first and the
    last of them."""

    view: str
    since: int
    until: int
    at_us: int
    entities: tuple[str, ...] = ()
    """JSON of the entities whose values differ: a check compares them again."""
    recomputed_us: int = 0
    """Instant since which all of them are recomputed; 0: a compaction is to do it."""

    def includes(self, hour: int) -> bool:
        """Tells whether it is one of the hours."""
        return self.since <= hour <= self.until

    def shown(self) -> dict[str, object]:
        """The mark for people and their programs: hours as text, and how many entities."""
        return {
            "view": self.view,
            "since": hour_text(self.since),
            "until": hour_text(self.until),
            "recomputed": bool(self.recomputed_us),
            "entities": len(self.entities),
        }

    def due(self, hours: Iterable[int], most: int | None = None) -> tuple[frozenset[int], bool]:
        """Picks the oldest `most` of these hours that are to be recomputed; tells whether that is
        all of them."""
        if self.recomputed_us:
            return frozenset(), True
        every = sorted(hour for hour in hours if self.includes(hour))
        return frozenset(every[:most]), most is None or len(every) <= most


@dataclass(frozen=True)
class Step:
    """Step on the way: a check that was red or green, a light check that suspects values,
    a compaction that recomputed hours."""

    kind: Kind
    at_us: int
    dag: str = ""
    run: str = ""
    """Run of Airflow; empty for a job that was run by hand."""
    report: str = ""
    """Id of the job's report."""
    hours: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """View -> first and last hour."""
    values: tuple[Mapping[str, Any], ...] = ()
    entities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """View -> JSON of the entities that a light check suspects."""
    count: int = 0
    """Values that differ; of a green check, values that were compared."""


@dataclass(frozen=True)
class Story:
    """Steps from the first value that differed to the check that was green."""

    steps: tuple[Step, ...]
    over_us: int = 0
    """Instant of the green check; 0 while the gate is closed, or a value is suspected."""

    def then(self, step: Step) -> Story:
        """The story with one more step; of a long one the middle goes."""
        steps = (*self.steps, step)
        return replace(self, steps=steps[:1] + steps[1:][-(MOST_STEPS - 1) :])


@dataclass(frozen=True)
class Job:
    """Job that changes the record: when, and in which run of Airflow."""

    at_us: int
    report: str
    dag: str = ""
    run: str = ""

    @staticmethod
    def of(at_us: int, report: str, variables: Mapping[str, str]) -> Job:
        """The job of a process. variables: its environment, where Airflow names the run."""
        return Job(
            at_us,
            report,
            variables.get("AIRFLOW_CTX_DAG_ID", ""),
            variables.get("AIRFLOW_CTX_DAG_RUN_ID", ""),
        )

    def step(self, kind: Kind, **more: Any) -> Step:
        """Step that this job is."""
        return Step(kind, self.at_us, self.dag, self.run, self.report, **more)


@dataclass(frozen=True)
class Healing:
    """The record: marks by view, suspected entities by view, and stories, the newest last."""

    marked: tuple[Mark, ...] = ()
    suspects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stories: tuple[Story, ...] = ()

    @staticmethod
    def of(texts: Iterable[str | None]) -> Healing:
        """The record of these texts, one of each node: the one that changed last."""
        return max((_parsed(text) for text in texts), key=_changed_us, default=Healing())

    def text(self) -> str:
        """Text of the part; the inverse of `of`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def mark(self, view: str) -> Mark | None:
        """The mark of a view, if it has one."""
        return next((mark for mark in self.marked if mark.view == view), None)

    def renamed(self, names: Mapping[str, str]) -> Healing:
        """The record after views took other names: what is marked and suspected is of what was
        stored under them. names: old -> new."""
        return replace(
            self,
            marked=tuple(replace(m, view=names.get(m.view, m.view)) for m in self.marked),
            suspects={names.get(view, view): of for view, of in self.suspects.items()},
        )

    @property
    def views(self) -> tuple[str, ...]:
        """Views with a mark, or with suspected entities."""
        return tuple(sorted({*self.suspects, *(mark.view for mark in self.marked)}))

    def healed_since(self, at_us: int) -> bool:
        """Tells whether all that differed at that time was seen green since."""
        return not self.marked and bool(self.stories) and self.stories[-1].over_us >= at_us

    def compared_again(self) -> dict[str, list[dict[str, Any]]]:
        """View -> entities that a check has to compare whatever it samples."""
        every = {mark.view: list(mark.entities) for mark in self.marked}
        for view, texts in self.suspects.items():
            every[view] = [*every.get(view, ()), *texts]
        return {
            view: [json.loads(text) for text in dict.fromkeys(of)] for view, of in every.items()
        }

    # ------------------------------------------------------------ what a light check makes of it
    def new_suspects(
        self, differs: Mapping[str, Sequence[str]], now_us: int
    ) -> dict[str, tuple[str, ...]]:
        """View -> entities that differ in a light check, and that no check is to compare anyway.
        Those of which a check was green within the hour are left to the next one."""
        cleared = {
            (view, text)
            for story in self.stories
            if story.over_us > now_us - HOUR_US and story.steps[-1].kind == "green"
            if not any(step.kind == "red" for step in story.steps)
            for step in story.steps
            for view, texts in step.entities.items()
            for text in texts
        }
        compared = {mark.view: set(mark.entities) for mark in self.marked}
        new = {
            view: tuple(
                text
                for text in of
                if text not in compared.get(view, ())
                and text not in self.suspects.get(view, ())
                and (view, text) not in cleared
            )[:MOST_ENTITIES]
            for view, of in differs.items()
        }
        return {view: of for view, of in new.items() if of}

    def is_waiting(self, now_us: int) -> bool:
        """Tells whether a check is to be asked for once more: what is suspected was judged by none,
        and nobody suspected more a moment ago."""
        last = max((step.at_us for story in self.stories[-1:] for step in story.steps), default=0)
        return bool(self.suspects) and now_us - last >= AGAIN_US

    def may_be_over(self, equal: Mapping[str, Collection[str]], now_us: int) -> bool:
        """Tells whether a check is worth its while: all that differed is right in a light check,
        and the last check was not a moment ago."""
        if not self.marked or not all(mark.entities for mark in self.marked):
            return False
        last = max(mark.at_us for mark in self.marked)
        return now_us - last >= AGAIN_US and all(
            set(mark.entities) <= set(equal.get(mark.view, ())) for mark in self.marked
        )

    # ------------------------------------------------------------ what jobs change
    def suspected(
        self,
        job: Job,
        entities: Mapping[str, Sequence[str]],
        values: Sequence[Mapping[str, Any]] = (),
    ) -> Healing:
        """A light check suspects values of these entities (view -> JSON of each)."""
        both = {
            view: tuple(dict.fromkeys((*self.suspects.get(view, ()), *of)))[:MOST_ENTITIES]
            for view, of in {**self.suspects, **entities}.items()
        }
        count = sum(len(of) for of in entities.values())
        given = [value for value in values if value["entity"] in entities.get(value["view"], ())]
        values = tuple(given)[:MOST_VALUES]
        step = job.step("suspected", values=values, entities=entities, count=count)
        return replace(self, suspects=both)._with(step)

    def red(
        self,
        job: Job,
        since: Mapping[str, int],
        until: int,
        values: Sequence[Mapping[str, Any]],
        began_us: int,
    ) -> Healing:
        """A check that began then was red. since: view -> first hour that its values which differ
        are about; until: the hour of the check. values: those that differ."""
        marked = {mark.view: mark for mark in self.marked}
        for view, first in since.items():
            before = marked.get(view) or Mark(view, first, until, job.at_us)
            own = (str(value["entity"]) for value in values if value["view"] == view)
            entities = dict.fromkeys((*own, *before.entities))
            marked[view] = Mark(
                view,
                min(first, before.since),
                max(until, before.until),
                job.at_us,
                tuple(entities)[:MOST_ENTITIES],
            )
        left = self._suspects_after(since, began_us)
        hours = {view: (marked[view].since, marked[view].until) for view in since}
        step = job.step("red", hours=hours, values=tuple(values)[:MOST_VALUES], count=len(values))
        return replace(self, marked=tuple(marked.values()), suspects=left)._with(step)

    def recomputed(
        self, job: Job, hours: Mapping[str, Collection[int]], whole: Collection[str]
    ) -> Healing:
        """A compaction recomputed hours of views from raw events. whole: views of which these were
        all that were marked."""
        marked: list[Mark] = []
        own: dict[str, tuple[int, int]] = {}
        for mark in self.marked:
            done = sorted(hour for hour in hours.get(mark.view, ()) if mark.includes(hour))
            # what was marked while the job ran stays to be done
            if mark.at_us > job.at_us or not (done or mark.view in whole):
                marked.append(mark)
                continue
            if done:
                own[mark.view] = (done[0], done[-1])
            marked.append(
                replace(mark, recomputed_us=job.at_us)
                if mark.view in whole
                else replace(mark, since=done[-1] + 1)
            )
        changed = replace(self, marked=tuple(marked))
        return changed._with(job.step("recomputed", hours=own)) if own else changed

    def green(self, job: Job, views: Collection[str], count: int, began_us: int) -> Healing:
        """A check of these views was green, and compared what differed or was suspected before it
        began."""
        marked = tuple(m for m in self.marked if m.view not in views or m.at_us > began_us)
        suspects = self._suspects_after(views, began_us)
        changed = replace(self, marked=marked, suspects=suspects)
        if not self.stories or self.stories[-1].over_us:
            return changed
        changed = changed._with(job.step("green", count=count))
        if marked or suspects:
            return changed
        *earlier, last = changed.stories
        return replace(changed, stories=(*earlier, replace(last, over_us=job.at_us)))

    def _suspects_after(self, judged: Collection[str], began_us: int) -> dict[str, tuple[str, ...]]:
        """Suspects that a check of these views, which began then, did not compare."""
        later = {
            (view, text)
            for story in self.stories[-1:]
            for step in story.steps
            if step.at_us > began_us
            for view, texts in step.entities.items()
            for text in texts
        }
        every = {
            view: tuple(text for text in of if view not in judged or (view, text) in later)
            for view, of in self.suspects.items()
        }
        return {view: of for view, of in every.items() if of}

    def _with(self, step: Step) -> Healing:
        *earlier, last = self.stories or (Story((), 1),)
        stories = (
            (*earlier, last.then(step)) if not last.over_us else (*self.stories, Story((step,)))
        )
        return replace(self, stories=stories[-MOST_STORIES:])


def _changed_us(healing: Healing) -> int:
    return max((step.at_us for story in healing.stories for step in story.steps), default=0)


def _parsed(text: str | None) -> Healing:
    """The record of a text; an empty one where it is none."""
    try:
        given = json.loads(text or "{}")
        return Healing(
            tuple(
                Mark(**{**mark, "entities": tuple(mark["entities"])})
                for mark in given.get("marked", ())
            ),
            {view: tuple(of) for view, of in given.get("suspects", {}).items()},
            tuple(
                Story(
                    tuple(Step(**{**s, "values": tuple(s["values"])}) for s in story["steps"]),
                    story["over_us"],
                )
                for story in given.get("stories", ())
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Healing()
