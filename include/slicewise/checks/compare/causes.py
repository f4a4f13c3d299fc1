"""The likeliest cause of a difference is what explains most of the differences of its entity, as
bytes.

Changes are tried to the question as a whole: what the whole answer may have been read with; and
where none explains all that differs of an entity, to what a store may have lost, kept, moved or
doubled (`parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slicewise.checks.compare import parts
from slicewise.checks.compare.hypotheses import (
    DECISIVE,
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
    ANY_OFFSETS,
    BASE_ONLY,
    NOT_LATE,
    TOKEN,
    Part,
    Recomputed,
    StoredSlice,
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
"""Most hypotheses that the others are held to."""


@dataclass(frozen=True)
class _Change:
    """Explanation of a doubt that stands by itself: a cause, and a part of the store or a rule of
    reading."""

    cause: Cause
    what: Part | tuple[str, int, int]


@dataclass(frozen=True)
class _Candidate:
    """A changed question of hypothesis number `hypothesis`, and what it would be the sign of."""

    hypothesis: int
    change: _Change
    window: WindowOf
    edge: bool = True


def causes_of(recomputation: Recomputation, hypotheses: Sequence[Hypothesis]) -> list[Cause]:
    """One per hypothesis; `logic` where no change gives the answer.

    A session that is not where it should be has no voice in what its entity has: it has the cause
    of the change that moves it there, and is a `boundary` where none does.
    """
    slice_us = recomputation.unit.slice_us
    exactly = [
        i
        for i, hypothesis in enumerate(hypotheses)
        if not (hypothesis.approximate or hypothesis.gap_us)
    ]
    whole = (candidate for i in exactly for candidate in _whole(i, hypotheses[i].window, slice_us))
    matching = _matching(recomputation, hypotheses, whole)
    entities: dict[str, list[int]] = {}
    for i in range(len(hypotheses)):
        entities.setdefault(hypotheses[i].row.entity, []).append(i)
    judged = [
        [i for i in own if not (hypotheses[i].approximate or hypotheses[i].gap_us)]
        for own in entities.values()
    ]
    unsure = [own for own in judged if own and not _is_one(own, matching)][:MOST_ENTITIES]
    searched = [_decisive(hypotheses, own) for own in unsure]
    _add(
        matching,
        _matching(
            recomputation,
            hypotheses,
            _parts(recomputation, hypotheses, [i for some in searched for i in some]),
        ),
    )
    untried = (
        candidate
        for own in entities.values()
        for candidate in _candidates_for_all(hypotheses, own, matching, slice_us)
    )
    _add(matching, _matching(recomputation, hypotheses, untried, with_engine=True))
    causes: dict[int, Cause] = {}
    for own in entities.values():
        votes = _votes([i for i in own if not hypotheses[i].gap_us], matching)
        for i in own:
            if i in matching:
                causes[i] = max(
                    matching[i], key=lambda candidate: votes[candidate.change]
                ).change.cause
    return [
        causes.get(i, Cause.BOUNDARY if hypotheses[i].gap_us else Cause.LOGIC)
        for i in range(len(hypotheses))
    ]


def _add(matching: dict[int, list[_Candidate]], more: Mapping[int, list[_Candidate]]) -> None:
    for i, some in more.items():
        matching[i] = [*matching.get(i, ()), *some]


def _is_one(own: Sequence[int], matching: Mapping[int, list[_Candidate]]) -> bool:
    """Tells whether one change explains all of these."""
    changes = [{candidate.change for candidate in matching.get(i, ())} for i in own]
    return bool(set.intersection(*changes))


def _votes(
    own: Sequence[int], matching: Mapping[int, list[_Candidate]]
) -> dict[_Change, tuple[int, int]]:
    """By change: how many hypotheses it explains; of two that explain as many, the more particular
    is the greater.

    What stands at the edge of every window that lacks it was moved rather than dropped. A bound
    moved by one slice is more particular than a window cut short at some hour, which is the same
    window where the slice is all that a window holds before that hour. What expired lacks in longer
    windows too, so that expiry has their votes.
    """
    counts: Counter[_Change] = Counter()
    moved: dict[_Change, bool] = {}
    for i in own:
        for change in dict.fromkeys(candidate.change for candidate in matching.get(i, ())):
            counts[change] += 1
        for candidate in matching.get(i, ()):
            moved[candidate.change] = moved.get(candidate.change, True) and candidate.edge
    return {change: (n, _particular(change, moved[change])) for change, n in counts.items()}


def _particular(change: _Change, edge: bool) -> int:
    if not isinstance(change.what, Part):
        return 4 if change.cause is Cause.BOUNDARY else 3
    if change.cause is not Cause.BOUNDARY:
        return 1
    return 2 if edge else 0


def _decisive(hypotheses: Sequence[Hypothesis], own: Sequence[int]) -> list[int]:
    """Some of an entity's, of many windows, and of kinds that tell."""
    by_window: dict[tuple[int, int, int], list[int]] = {}
    for i in sorted(own, key=lambda i: _rank(hypotheses[i])):
        window = hypotheses[i].window
        by_window.setdefault((window.who, window.start_us, window.end_us), []).append(i)
    rounds = max(len(some) for some in by_window.values())
    turns = [some[n] for n in range(rounds) for some in by_window.values() if n < len(some)]
    return turns[:MOST_SEARCHED]


def _rank(hypothesis: Hypothesis) -> int:
    kind = hypothesis.aggregate.kind
    return 0 if kind in DECISIVE else 3 if kind == "count" else 1 if kind in BY_SQL else 2


def _candidates_for_all(
    hypotheses: Sequence[Hypothesis],
    own: Sequence[int],
    matching: Mapping[int, list[_Candidate]],
    slice_us: int,
) -> Iterator[_Candidate]:
    """Tries what explains most of an entity's doubts for all of them that it was not tried for."""
    votes = _votes(own, matching)
    likely = sorted(votes, key=lambda vote: votes[vote], reverse=True)[:MOST_HYPOTHESES]
    for i in own:
        already = {candidate.change for candidate in matching.get(i, ())}
        wanted = [change for change in likely if change not in already]
        for change in wanted:
            if isinstance(change.what, Part):
                yield _of_part(i, hypotheses[i].window, change.cause, change.what)
        if hypotheses[i].approximate or hypotheses[i].gap_us:
            yield from (
                candidate
                for candidate in _whole(i, hypotheses[i].window, slice_us)
                if candidate.change in wanted
            )


def _of_part(i: int, window: WindowOf, cause: Cause, part: Part) -> _Candidate:
    """The change that a part with this cause makes to a window."""
    outside = part.end_us <= window.start_us or part.start_us >= window.end_us
    edge = outside or part.start_us == window.start_us or part.end_us == window.end_us
    times = 2 if cause is Cause.DOUBLED or (cause is Cause.BOUNDARY and outside) else 0
    return _Candidate(i, _Change(cause, part), replace(window, part=part, times=times), edge)


def _whole(i: int, window: WindowOf, slice_us: int) -> Iterator[_Candidate]:
    """Changes to the question as a whole."""
    start, end = window.start_us, window.end_us

    def candidate(cause: Cause, words: str, at: int, by: int, changed: WindowOf) -> _Candidate:
        return _Candidate(i, _Change(cause, (words, at, by)), changed)

    yield candidate(Cause.TIE, TOKEN, 0, 0, window)
    yield candidate(Cause.ROUNDING, TOKEN, 0, 0, window)
    for cause, rule in ((Cause.LATE, NOT_LATE), (Cause.LAG, ANY_OFFSETS), (Cause.LAG, BASE_ONLY)):
        yield candidate(cause, rule, 0, 0, replace(window, rule=rule))
    hours = range(start // HOUR_US + 1, -(-end // HOUR_US))
    for hour in hours[:: max(1, len(hours) // MOST_CUTS)]:
        yield candidate(Cause.EXPIRY, TOKEN, hour, 0, replace(window, start_us=hour * HOUR_US))
    for moved in (-slice_us, slice_us):
        yield candidate(Cause.BOUNDARY, "start", 0, moved, replace(window, start_us=start + moved))
        yield candidate(Cause.BOUNDARY, "end", 0, moved, replace(window, end_us=end + moved))


def _parts(
    recomputation: Recomputation, hypotheses: Sequence[Hypothesis], searched: Sequence[int]
) -> Iterator[_Candidate]:
    """Parts of the store, tried for these."""
    slice_us = recomputation.unit.slice_us
    around: dict[int, WindowOf] = {}
    for i in searched:
        window = hypotheses[i].window
        before = around.get(window.who, window)
        start = min(before.start_us, window.start_us - parts.REACH_US)
        end = max(before.end_us, window.end_us + parts.REACH_US)
        around[window.who] = WindowOf(window.who, window.who, TOKEN, start, end)
    stored: dict[int, list[StoredSlice]] = (
        recomputation.stored_slices(list(around.values())) if around else {}
    )
    for i in searched:
        window = hypotheses[i].window
        added = None if window.rows else hypotheses[i].added
        for candidate in parts.candidates(window, stored.get(window.who, []), added, slice_us):
            changed = replace(window, part=candidate.part, times=candidate.times)
            yield _Candidate(i, _Change(candidate.cause, candidate.part), changed, candidate.edge)


def _matching(
    recomputation: Recomputation,
    hypotheses: Sequence[Hypothesis],
    candidates: Iterable[_Candidate],
    *,
    with_engine: bool = False,
) -> dict[int, list[_Candidate]]:
    """All changes of each hypothesis that give its answer, in their order."""
    given = list(candidates)
    numbered, _ = _numbered(
        candidate for candidate in given if not hypotheses[candidate.hypothesis].gap_us
    )
    aside = {
        (candidate.hypothesis, candidate.change.cause): beside(
            hypotheses[candidate.hypothesis].aggregate, candidate.change.cause
        )
        for candidate in numbered
    }
    requested = [
        (candidate.window, hypotheses[candidate.hypothesis].aggregate) for candidate in numbered
    ]
    requested += [
        (candidate.window, one)
        for candidate in numbered
        for one in aside[candidate.hypothesis, candidate.change.cause]
    ]
    results = recomputation.of(requested) if requested else Recomputed()
    pairs = (
        ((hypotheses[candidate.hypothesis], candidate.window) for candidate in numbered)
        if with_engine
        else ()
    )
    engines = engines_of(recomputation, pairs, results)
    matching: dict[int, list[_Candidate]] = {}
    for candidate in numbered:
        hypothesis, w = hypotheses[candidate.hypothesis], candidate.window.w
        values = [
            results.value(w, one) for one in aside[candidate.hypothesis, candidate.change.cause]
        ]
        if candidate.change.cause is Cause.TIE:
            is_it = bool(values) and is_tied(hypothesis, values[0])
        elif candidate.change.cause is Cause.ROUNDING:
            is_it = is_rounded(hypothesis, values)
        else:
            is_it = gives(results, engines, w, hypothesis)
        if is_it:
            matching.setdefault(candidate.hypothesis, []).append(candidate)
    for gap_us in {hypotheses[candidate.hypothesis].gap_us for candidate in given} - {0}:
        numbered, windows = _numbered(
            candidate for candidate in given if hypotheses[candidate.hypothesis].gap_us == gap_us
        )
        starts = session_starts(recomputation, windows, gap_us)
        for candidate in numbered:
            if starts[candidate.window.w] == hypotheses[candidate.hypothesis].row.start_us:
                matching.setdefault(candidate.hypothesis, []).append(candidate)
    return matching


def _numbered(candidates: Iterable[_Candidate]) -> tuple[list[_Candidate], list[WindowOf]]:
    """Numbers the windows, of which equal ones are one. Gives what was tried with these numbers,
    and the windows."""
    windows: dict[WindowOf, WindowOf] = {}
    numbered = [
        replace(
            candidate,
            window=windows.setdefault(
                key := replace(candidate.window, w=0), replace(key, w=len(windows))
            ),
        )
        for candidate in candidates
    ]
    return numbered, list(windows.values())
