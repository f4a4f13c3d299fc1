"""Many histories side by side; the first that goes wrong is told as the shortest that goes wrong in
the same way."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import NamedTuple

from tests.simulation.catalog import ENTRIES, MEETINGS, Entry
from tests.simulation.histories.play import History, Rules
from tests.simulation.histories.shrink import shrunk

CHUNK = 4
"""Histories that a process plays before it says so."""
LEAST_ANSWERS = 100
"""Answers per history, on average: histories in which hardly anything is ready prove nothing."""
LEAST_DEATHS = 500
"""Stops of one actor in all meetings together; a run of all pairs plays each of them too."""
LEAST_PAIRS = 50
"""Pairs of stops of a meeting that rules are removed from."""
LEAST_HISTORIES = 10
"""Histories of a world that are too few for an average."""
Task = tuple[str, int, int, float]
"""World, first seed, how many, and until when (0: however long it takes)."""


class Done(NamedTuple):
    world: str
    histories: int
    answers: int
    seed: int | None
    """Seed of the history that was wrong."""


def timed(worlds: list[str], first: int, seconds: float, jobs: int, least: int = 0) -> int:
    """Plays as many histories as that time gives; on a slow machine so many at least."""
    until = time.monotonic() + seconds
    sure = -(-least // CHUNK)  # tasks that are played however long they take
    tasks = (
        (world, first + CHUNK * i, CHUNK, until if i * len(worlds) + w >= sure else 0.0)
        for i in count()
        for w, world in enumerate(worlds)
    )
    return _report(_played(tasks, until, jobs, sure), first)


def counted(worlds: list[str], first: int, histories: int, jobs: int) -> int:
    tasks: list[Task] = [
        (world, at, min(CHUNK, first + histories - at), 0.0)
        for at in range(first, first + histories, CHUNK)
        for world in worlds
    ]
    return _report(_played(tasks, None, jobs), first)


def without(entry: Entry, rule: str, seed: int | None, histories: int, shrink: bool) -> int:
    """Histories without a rule, until one goes wrong, which is told; 1 where none does."""
    with entry.mutants[rule].removed() as rules:
        for at in range(seed or 0, (seed or 0) + histories):
            ended = entry.play.history(at, rules)
            if ended.wrong is not None:
                print(shortest(entry, ended, rules) if shrink else ended)
                return 0
    print(f"{histories} histories of {entry.name} do not need the rule {rule!r}")
    return 1


def shortest(entry: Entry, ended: History, rules: Rules = ()) -> History:
    return shrunk(ended, lambda tape: entry.play.history(ended.seed, rules, tape))


def stops(jobs: int) -> int:
    """Every pair of stops of every meeting; 1 where anything is wrong."""
    failed, total = 0, 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for name, played, wrong in pool.imap(_meet, MEETINGS):
            print(f"{name}: {played} pairs of stops, {wrong or 'none wrong'}", flush=True)
            failed |= wrong is not None
            total += played
    if total <= LEAST_DEATHS:
        print(f"{total} pairs of stops are too few: actors hardly stop")
    return int(failed or total <= LEAST_DEATHS)


def _meet(name: str) -> tuple[str, int, str | None]:
    played, met = MEETINGS[name].wrong()
    return name, played, None if met is None else f"wrong:\n{met}"


def _play(task: Task) -> Done:
    world, first, histories, until = task
    play, answers = ENTRIES[world].play, 0
    for played in range(histories):
        if until and time.monotonic() > until:
            return Done(world, played, answers, None)
        ended = play.history(first + played)
        answers += ended.answers
        if ended.wrong is not None:
            return Done(world, played + 1, answers, ended.seed)
    return Done(world, histories, answers, None)


def _played(tasks: Iterable[Task], until: float | None, jobs: int, sure: int = 0) -> Iterator[Done]:
    """Until one is wrong. until: when nothing more begins but the first `sure` tasks."""
    left = iter(tasks)
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        running = [pool.apply_async(_play, (task,)) for task in islice(left, 2 * jobs)]
        begun = len(running)
        while running:
            done = running.pop(0).get()
            yield done
            if done.seed is None and (until is None or begun < sure or time.monotonic() < until):
                more = [pool.apply_async(_play, (task,)) for task in islice(left, 1)]
                running += more
                begun += len(more)


def _report(played: Iterable[Done], first: int) -> int:
    histories: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    for done in played:
        histories[done.world] += done.histories
        answers[done.world] += done.answers
        if done.seed is not None:
            entry = ENTRIES[done.world]
            print(shortest(entry, entry.play.history(done.seed)))
            print(f"replay: python -m tests.simulation --world {done.world} --seed {done.seed}")
            return 1
    for world in histories:
        print(
            f"{world}: {histories[world]} histories from seed {first} on, {answers[world]} "
            "answers compared, none wrong"
        )
    print(f"{histories.total()} histories, {answers.total()} answers compared, none wrong")
    idle = [
        world
        for world, n in histories.items()
        if n >= LEAST_HISTORIES and answers[world] <= LEAST_ANSWERS * n
    ]
    if idle:
        print(f"too few answers, so that hardly anything was ready: {', '.join(idle)}")
    return int(bool(idle))
