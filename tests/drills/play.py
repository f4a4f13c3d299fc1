"""A drill is played, all that was answered is judged, and what came of it is told: nothing is left
out in silence."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.drills.catalog import STAGES, Drill, Stage
from tests.drills.judging.judge import judged
from tests.drills.judging.records import Drilled, Part
from tests.drills.judging.watch import Answer, Question
from tests.drills.stage.run import Run
from tests.drills.stage.scene import TOPIC, Scene
from tests.e2e.compare import Count

_LAST_KEYS = 6
"""Entities that each question is asked about at the end of a drill."""
_TRIES, _PAUSE_S = 10, 0.5
_MAX_TEXT = 2_000
"""Characters of why a drill broke."""


def play(
    names: Sequence[str], seed: int, *, once: bool = False, seconds: float | None = None
) -> Iterator[Drilled]:
    """Plays these drills, those of a scene on one platform, one after another. once: those that
    kill again and again do so once. seconds: after which no drill is begun any more; those that are
    left out are told."""
    begun = time.monotonic()
    for stage in STAGES:
        wanted = [drill for drill in stage.drills if drill.name in names]
        while wanted:
            if seconds is not None and time.monotonic() - begun > seconds:
                print(
                    f"no time was left for: {', '.join(drill.name for drill in wanted)}", flush=True
                )
                break
            with ExitStack() as stack:
                for drilled in _on_one(
                    stage, wanted, seed, once, stack, None if seconds is None else begun + seconds
                ):
                    wanted = wanted[1:]
                    yield drilled
                    if drilled.broke is not None:
                        break  # what it left is no place for the next


def _on_one(
    stage: Stage,
    drills: Sequence[Drill],
    seed: int,
    once: bool,
    stack: ExitStack,
    end: float | None,
) -> Iterator[Drilled]:
    """Drills on one platform, until the time is over."""
    first = drills[0]
    try:
        made = stack.enter_context(stage.scene(random.Random(f"{seed}/scene/{first.name}")))
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        yield _drilled(first, seed, broke=f"the platform did not come up: {error}"[:_MAX_TEXT])
        return
    for drill in drills:
        if end is not None and drill is not first and time.monotonic() > end:
            return
        yield played(made, drill, seed, once)


def played(made: Scene, drill: Drill, seed: int, once: bool) -> Drilled:
    """One drill: load, harm, recovery, rest, and everything that was answered judged."""
    run = Run(made, random.Random(f"{seed}/{drill.name}"), 1 if once else drill.times)
    answers: list[Answer] = []
    wrong: list[str] = []
    refused, events, count, broke = 0, 0, Count(), None
    try:
        before = len(made.records())
        made.watch.taken()
        made.feed.resume()
        made.watch.resume()
        run.some(1, 3)
        drill.inject(run)
        made.feed.pause()
        wrong += _at_rest(made, run)
        answers, refused, seen = made.watch.taken()
        wrong += seen
        records = made.records()
        events = len(records) - before
        count = judged(made.deployments, records, answers)
        wrong += count.wrong
    except Exception as error:  # noqa: BLE001
        broke = "".join(traceback.format_exception_only(error)).strip()[:_MAX_TEXT]
        traceback.print_exc()
        made.watch.pause()
        wrong += made.watch.wrong
    return _drilled(
        drill,
        seed,
        events=events,
        kills=run.kills,
        answers=len(answers),
        refused=refused,
        compared=count.compared,
        wrong=tuple(wrong),
        detect_s=max(run.detect_s, default=None),
        recover_s=max(run.recover_s, default=None),
        broke=broke,
        parts=tuple(run.parts),
    )


def _at_rest(made: Scene, run: Run) -> list[str]:
    """Nothing is produced any more: all is applied and applied, and answers have all of the log."""
    made.await_applied()
    made.await_none_pending()
    made.watch.pause()
    with made.platform.store() as store:
        metadata = store.run(ReadMetadata())
    topic = metadata.topics[TOPIC]  # not the platform's own
    offsets = metadata.committed.offsets.items()
    committed = OffsetVector({at: offset for at, offset in offsets if at[0] == topic})
    wrong = []
    for question in made.watch.questions:
        for key in sorted({question.key(run.rng) for _ in range(_LAST_KEYS)}):
            answer = _insisting(made, question, key)
            if answer is None:
                wrong.append(f"at rest: {question.unit.view} {key} was refused {_TRIES} times")
            elif not answer.base.dominates(committed):
                wrong.append(
                    f"at rest: {question.unit.view} {key} lacks events: {dict(answer.base.offsets)}"
                )
    return wrong


def _insisting(made: Scene, question: Question, key: tuple[str, ...]) -> Answer | None:
    """A single refusal may be for load."""
    for _ in range(_TRIES):
        if (answer := made.watch.request(question, key)) is not None:
            return answer
        time.sleep(_PAUSE_S)
    return None


def _drilled(
    drill: Drill,
    seed: int,
    *,
    events: int = 0,
    kills: int = 0,
    answers: int = 0,
    refused: int = 0,
    compared: int = 0,
    wrong: tuple[str, ...] = (),
    detect_s: float | None = None,
    recover_s: float | None = None,
    broke: str | None = None,
    parts: tuple[Part, ...] = (),
) -> Drilled:
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Drilled(
        drill.name,
        drill.fault,
        drill.invariants,
        seed,
        when,
        events,
        kills,
        answers,
        refused,
        compared,
        wrong,
        detect_s,
        recover_s,
        broke,
        parts,
    )
