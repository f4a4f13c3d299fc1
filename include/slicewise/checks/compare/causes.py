"""The likeliest cause of a difference is what explains most of the differences of its entity, as bytes.

Changes are tried to the question as a whole: what the whole answer may have been read with; and where none explains
all that differs of an entity, to what a store may have lost, kept, moved or doubled (`parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slicewise.checks.compare import parts
from slicewise.checks.compare.hypotheses import (
    TELLING,
    Hypothesis,
    beside,
    engines_of,
    gives,
    is_rounded,
    is_tied,
    session_starts,
)
from slicewise.checks.model import Cause
from slicewise.checks.recompute.queries import BY_SQL
from slicewise.checks.recompute.questions import (
    ANY_COVER,
    BASE_ALONE,
    NOT_LATE,
    TOKEN,
    Held,
    Part,
    Recomputed,
    WindowOf,
)
from slicewise.checks.recompute.run import Recomputation
from slicewise.windows.durations import HOUR_US

MOST_CUTS = 48
MOST_ENTITIES = 24
"""Entities whose slices and hours are tried one by one."""
MOST_SEARCHED = 4
"""Values of each for which they are; the others are held to what explains these."""
MOST_HYPOTHESES = 6
"""That the others are held to."""


@dataclass(frozen=True)
class _Change:
    """Explanation of a doubt that stands by itself: a cause, and a part of the store or a rule of reading."""

    cause: Cause
    what: Part | tuple[str, int, int]


@dataclass(frozen=True)
class _Tried:
    """A changed question of doubt number `doubt`, and what it would be the sign of."""

    doubt: int
    change: _Change
    window: WindowOf
    edge: bool = True


def causes_of(recomputation: Recomputation, doubts: Sequence[Hypothesis]) -> list[Cause]:
    """One per doubt; `logic` where no change gives the answer.

    A session that is not where it should be has no voice in what its entity has: it has the cause of the change that
    moves it there, and is a `boundary` where none does.
    """
    slice_us = recomputation.unit.slice_us
    exactly = [i for i, doubt in enumerate(doubts) if not (doubt.approximate or doubt.gap_us)]
    whole = (each for i in exactly for each in _whole(i, doubts[i].window, slice_us))
    found = _matching(recomputation, doubts, whole)
    entities: dict[str, list[int]] = {}
    for i in range(len(doubts)):
        entities.setdefault(doubts[i].row.entity, []).append(i)
    judged = [[i for i in mine if not (doubts[i].approximate or doubts[i].gap_us)] for mine in entities.values()]
    unsure = [mine for mine in judged if mine and not _is_one(mine, found)][:MOST_ENTITIES]
    searched = [_telling(doubts, mine) for mine in unsure]
    _add(found, _matching(recomputation, doubts, _parts(recomputation, doubts, [i for some in searched for i in some])))
    held = (each for mine in entities.values() for each in _held_to(doubts, mine, found, slice_us))
    _add(found, _matching(recomputation, doubts, held, with_engine=True))
    causes: dict[int, Cause] = {}
    for mine in entities.values():
        votes = _votes([i for i in mine if not doubts[i].gap_us], found)
        for i in mine:
            if i in found:
                causes[i] = max(found[i], key=lambda each: votes[each.change]).change.cause
    return [causes.get(i, Cause.BOUNDARY if doubts[i].gap_us else Cause.LOGIC) for i in range(len(doubts))]


def _add(found: dict[int, list[_Tried]], more: Mapping[int, list[_Tried]]) -> None:
    for i, some in more.items():
        found[i] = [*found.get(i, ()), *some]


def _is_one(mine: Sequence[int], found: Mapping[int, list[_Tried]]) -> bool:
    """Tells whether one change explains all of these."""
    each = [{tried.change for tried in found.get(i, ())} for i in mine]
    return bool(set.intersection(*each))


def _votes(mine: Sequence[int], found: Mapping[int, list[_Tried]]) -> dict[_Change, tuple[int, int]]:
    """By change: how many doubts it explains; of two that explain as many, the more particular is the greater.

    What stands at the edge of every window that lacks it was moved rather than dropped. A bound moved by one slice is
    more particular than a window cut short at some hour, which is the same window where the slice is all that a window
    holds before that hour. What expired lacks in longer windows too, so that expiry has their votes.
    """
    counts: Counter[_Change] = Counter()
    moved: dict[_Change, bool] = {}
    for i in mine:
        for change in dict.fromkeys(each.change for each in found.get(i, ())):
            counts[change] += 1
        for each in found.get(i, ()):
            moved[each.change] = moved.get(each.change, True) and each.edge
    return {change: (n, _particular(change, moved[change])) for change, n in counts.items()}


def _particular(change: _Change, edge: bool) -> int:
    if not isinstance(change.what, Part):
        return 4 if change.cause is Cause.BOUNDARY else 3
    if change.cause is not Cause.BOUNDARY:
        return 1
    return 2 if edge else 0


def _telling(doubts: Sequence[Hypothesis], mine: Sequence[int]) -> list[int]:
    """Some of an entity's, of many windows, and of kinds that tell."""
    by_window: dict[tuple[int, int, int], list[int]] = {}
    for i in sorted(mine, key=lambda i: _rank(doubts[i])):
        window = doubts[i].window
        by_window.setdefault((window.who, window.start_us, window.end_us), []).append(i)
    rounds = max(len(some) for some in by_window.values())
    turns = [some[n] for n in range(rounds) for some in by_window.values() if n < len(some)]
    return turns[:MOST_SEARCHED]


def _rank(doubt: Hypothesis) -> int:
    kind = doubt.each.kind
    return 0 if kind in TELLING else 3 if kind == "count" else 1 if kind in BY_SQL else 2


def _held_to(
    doubts: Sequence[Hypothesis], mine: Sequence[int], found: Mapping[int, list[_Tried]], slice_us: int
) -> Iterator[_Tried]:
    """Tries what explains most of an entity's doubts for all of them that it was not tried for."""
    votes = _votes(mine, found)
    likely = sorted(votes, key=lambda each: votes[each], reverse=True)[:MOST_HYPOTHESES]
    for i in mine:
        known = {each.change for each in found.get(i, ())}
        wanted = [change for change in likely if change not in known]
        for each in wanted:
            if isinstance(each.what, Part):
                yield _of_part(i, doubts[i].window, each.cause, each.what)
        if doubts[i].approximate or doubts[i].gap_us:
            yield from (each for each in _whole(i, doubts[i].window, slice_us) if each.change in wanted)


def _of_part(i: int, window: WindowOf, cause: Cause, part: Part) -> _Tried:
    """The change that a part with this cause makes to a window."""
    outside = part.end_us <= window.start_us or part.start_us >= window.end_us
    edge = outside or part.start_us == window.start_us or part.end_us == window.end_us
    times = 2 if cause is Cause.DOUBLED or (cause is Cause.BOUNDARY and outside) else 0
    return _Tried(i, _Change(cause, part), replace(window, part=part, times=times), edge)


def _whole(i: int, window: WindowOf, slice_us: int) -> Iterator[_Tried]:
    """Changes to the question as a whole."""
    start, end = window.start_us, window.end_us

    def tried(cause: Cause, said: str, at: int, by: int, changed: WindowOf) -> _Tried:
        return _Tried(i, _Change(cause, (said, at, by)), changed)

    yield tried(Cause.TIE, TOKEN, 0, 0, window)
    yield tried(Cause.ROUNDING, TOKEN, 0, 0, window)
    for cause, rule in ((Cause.LATE, NOT_LATE), (Cause.LAG, ANY_COVER), (Cause.LAG, BASE_ALONE)):
        yield tried(cause, rule, 0, 0, replace(window, rule=rule))
    hours = range(start // HOUR_US + 1, -(-end // HOUR_US))
    for hour in hours[:: max(1, len(hours) // MOST_CUTS)]:
        yield tried(Cause.EXPIRY, TOKEN, hour, 0, replace(window, start_us=hour * HOUR_US))
    for moved in (-slice_us, slice_us):
        yield tried(Cause.BOUNDARY, "start", 0, moved, replace(window, start_us=start + moved))
        yield tried(Cause.BOUNDARY, "end", 0, moved, replace(window, end_us=end + moved))


def _parts(recomputation: Recomputation, doubts: Sequence[Hypothesis], searched: Sequence[int]) -> Iterator[_Tried]:
    """Parts of the store, tried for these."""
    slice_us = recomputation.unit.slice_us
    around: dict[int, WindowOf] = {}
    for i in searched:
        window = doubts[i].window
        before = around.get(window.who, window)
        start = min(before.start_us, window.start_us - parts.REACH_US)
        end = max(before.end_us, window.end_us + parts.REACH_US)
        around[window.who] = WindowOf(window.who, window.who, TOKEN, start, end)
    held: dict[int, list[Held]] = recomputation.held(list(around.values())) if around else {}
    for i in searched:
        window = doubts[i].window
        added = None if window.rows else doubts[i].added
        for each in parts.tried(window, held.get(window.who, []), added, slice_us):
            changed = replace(window, part=each.part, times=each.times)
            yield _Tried(i, _Change(each.cause, each.part), changed, each.edge)


def _matching(
    recomputation: Recomputation, doubts: Sequence[Hypothesis], tried: Iterable[_Tried], *, with_engine: bool = False
) -> dict[int, list[_Tried]]:
    """All changes of each doubt that give its answer, in their order."""
    given = list(tried)
    numbered, _ = _numbered(each for each in given if not doubts[each.doubt].gap_us)
    aside = {(each.doubt, each.change.cause): beside(doubts[each.doubt].each, each.change.cause) for each in numbered}
    asked = [(each.window, doubts[each.doubt].each) for each in numbered]
    asked += [(each.window, one) for each in numbered for one in aside[each.doubt, each.change.cause]]
    results = recomputation.of(asked) if asked else Recomputed()
    pairs = ((doubts[each.doubt], each.window) for each in numbered) if with_engine else ()
    engines = engines_of(recomputation, pairs, results)
    found: dict[int, list[_Tried]] = {}
    for each in numbered:
        doubt, w = doubts[each.doubt], each.window.w
        said = [results.value(w, one) for one in aside[each.doubt, each.change.cause]]
        if each.change.cause is Cause.TIE:
            is_it = bool(said) and is_tied(doubt, said[0])
        elif each.change.cause is Cause.ROUNDING:
            is_it = is_rounded(doubt, said)
        else:
            is_it = gives(results, engines, w, doubt)
        if is_it:
            found.setdefault(each.doubt, []).append(each)
    for gap_us in {doubts[each.doubt].gap_us for each in given} - {0}:
        numbered, windows = _numbered(each for each in given if doubts[each.doubt].gap_us == gap_us)
        starts = session_starts(recomputation, windows, gap_us)
        for each in numbered:
            if starts[each.window.w] == doubts[each.doubt].row.start_us:
                found.setdefault(each.doubt, []).append(each)
    return found


def _numbered(tried: Iterable[_Tried]) -> tuple[list[_Tried], list[WindowOf]]:
    """Numbers the windows, of which equal ones are one. Gives what was tried with these numbers, and the windows."""
    windows: dict[WindowOf, WindowOf] = {}
    numbered = [
        replace(each, window=windows.setdefault(key := replace(each.window, w=0), replace(key, w=len(windows))))
        for each in tried
    ]
    return numbered, list(windows.values())
