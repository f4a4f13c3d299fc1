"""An explanation describes the very read that gave its answer: the plan, the bytes that came back
and the claims that came with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from slicewise.client import answers
from slicewise.client.answers import (
    ArchiveVersion,
    ExplainedFeature,
    ExplainedView,
    ExplainedWindow,
    Offsets,
    Segment,
)
from slicewise.codec.store_fields import fields as f
from slicewise.errors import BadRequest
from slicewise.features.plan.unit import ListUnit
from slicewise.offsets.token import SEPARATOR
from slicewise.offsets.vector import OffsetVector, joined
from slicewise.reading.exchange import NO_EVENTS, NodeClaims, Stored
from slicewise.reading.explained.bounded import most_of_window, newest_versions, shown
from slicewise.reading.explained.segments import list_segments, slice_segments
from slicewise.reading.reader import Answered, Claims, ListReader, Replies, SliceReader
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.catalog import Part, Selection
from slicewise.serving.answering.requests import FeaturesRequest, instant_text
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.durations import HOUR_US, format_duration


class ReadOnce(NamedTuple):
    """One read as it was answered."""

    selection: Selection
    replies: Replies
    store_answer: Answered
    claims: Claims
    """Per part the claims of each node that replied."""


def check_one(request: FeaturesRequest) -> None:
    """Refuses a request of several entities: BadRequest."""
    if len(request.entities) != 1:
        raise BadRequest(
            f"{len(request.entities)} entities",
            where="entities",
            expected="one: an explanation is of one entity",
            next_step="explain each by itself",
        )


class Explanation(answers.Explanation):
    """An explanation that the API can write."""

    def to_wire(self, *, text: bool) -> dict[str, Any]:
        """The answer as POST /v1/features writes it, and its views. text: for JSON, where NaN and
        infinities are text."""
        assert isinstance(self.answer, Answer)
        answer = self.answer.to_wire(text=text)
        (result,) = answer["results"]
        return {
            "answer": answer,
            "views": [_view(view, result["values"]) for view in self.views],
        }


def explanation_of(answer: Answer, read: ReadOnce) -> Explanation:
    """The explanation of an answer for one entity, from the read that it was made of."""
    tokens = read.store_answer.token(0).split(SEPARATOR)
    values = answer.values()
    parts = [
        (part, token, *_windows(number, part, read))
        for (number, part), token in zip(enumerate(read.selection.parts), tokens, strict=True)
    ]
    most = most_of_window(sum(len(windows) for _, _, windows, _ in parts))
    views = tuple(
        _explained(number, part, read, token, values, _bounded(windows, most), window_of)
        for number, (part, token, windows, window_of) in enumerate(parts)
    )
    return Explanation(answer, views)


def _bounded(windows: Sequence[ExplainedWindow], most: int) -> tuple[ExplainedWindow, ...]:
    """The windows with at most so many segments each."""
    bounded = []
    for window in windows:
        segments, left_out = shown(window.segments, most)
        bounded.append(replace(window, segments=segments, left_out=left_out))
    return tuple(bounded)


def _explained(
    number: int,
    part: Part,
    read: ReadOnce,
    token: str,
    values: Mapping[str, Any],
    windows: tuple[ExplainedWindow, ...],
    window_of: Sequence[int],
) -> ExplainedView:
    stored, claims = read.replies.of(part, read.claims[number])
    refs = [read.selection.refs[position] for position in part.positions]
    own = [one.claims or claims for one in stored] or [claims]
    ((base, beyond),) = read.store_answer.contained(number)
    pending = NO_EVENTS
    if number < len(read.store_answer.pending):
        pending = read.store_answer.pending[number]
    is_list = isinstance(part.unit, ListUnit)
    committed = [(one.claims or claims).committed_of(one.partition) for one in stored]
    versions, versions_left = newest_versions(
        segment for window in windows for segment in window.segments
    )
    return ExplainedView(
        view=part.unit.view,
        unit=part.unit.storage_fingerprint,
        source=part.unit.source,
        stored="events" if is_list else "slices",
        slice="" if is_list else format_duration(part.unit.slice_us),
        token=token,
        features=tuple(
            ExplainedFeature(ref, values[ref], window)
            for ref, window in zip(refs, window_of, strict=True)
        ),
        windows=windows,
        pending_events=pending.events,
        pending_left=pending.left,
        contained=base.nested(),
        committed=joined(committed or [claims.committed]).nested(),
        applied=_applied(stored).nested(),
        start=joined([one.start for one in own]).nested(),
        compacted_beyond={hour * HOUR_US: ends.nested() for hour, ends in beyond.items()},
        archive_versions=_versions(versions, own),
        archive_versions_left=versions_left,
    )


def _windows(
    number: int, part: Part, read: ReadOnce
) -> tuple[tuple[ExplainedWindow, ...], Sequence[int]]:
    """The distinct windows of a unit with all their segments, and per feature its window."""
    stored, claims = read.replies.of(part, read.claims[number])
    reader, index = read.store_answer.plan.of(number)
    if isinstance(reader, ListReader):
        of_list = reader.plans[index]
        whole = list_segments(of_list, stored)
        resolutions = _resolutions(part, of_list.span_of, 1)
        return tuple(
            ExplainedWindow(segment.start_us, segment.end_us, resolutions[i], (segment,))
            for i, segment in enumerate(whole)
        ), of_list.span_of
    assert isinstance(reader, SliceReader)
    of_slices = reader.batch.plans[index]
    placed = slice_segments(of_slices, stored, claims)
    resolutions = _resolutions(part, of_slices.interval_of, part.unit.slice_us)
    intervals = read.store_answer.slices.intervals(number, 0)
    return tuple(
        ExplainedWindow(
            None if start == EARLIEST_US else start,
            end,
            resolutions[i],
            tuple(segment for mask, segment in placed if of_slices.masks[mask, i]),
        )
        for i, (start, end) in enumerate(intervals)
    ), of_slices.interval_of


def _resolutions(part: Part, window_of: Sequence[int], slice_us: int) -> dict[int, str]:
    """Window -> the finest resolution of its features: it is read by that."""
    finest: dict[int, int] = {}
    for feature, window in zip(part.features, window_of, strict=True):
        step_us = feature.window.resolution(slice_us)
        finest[window] = min(step_us, finest.get(window, step_us))
    return {window: format_duration(step_us) for window, step_us in finest.items()}


def _applied(stored: Sequence[Stored]) -> OffsetVector:
    """The offset beyond the last that was applied to the entity, per partition."""
    ends = {}
    for one in stored:
        for name, value in zip(one.hot[::2], one.hot[1::2], strict=True):
            if name.startswith(f.APPLIED.prefix):
                _, topic, partition = name.split(b":")
                ends[topic.decode("ascii"), int(partition)] = int(value) + 1
    return OffsetVector(ends)


def _versions(versions: Sequence[int], claims: Sequence[NodeClaims]) -> dict[int, ArchiveVersion]:
    """Archive versions, each with what it contains."""
    return {
        version: ArchiveVersion(
            joined([one.offset_vector(version) for one in claims]).nested(),
            any(not one.committed.dominates(one.offset_vector(version)) for one in claims),
        )
        for version in versions
    }


# ------------------------------------------------------------------ as the API writes it
def _view(view: ExplainedView, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "view": view.view,
        "unit": view.unit,
        "source": view.source,
        "stored": view.stored,
        "slice": view.slice,
        "token": view.token,
        "features": [
            {"feature": one.feature, "value": values[one.feature], "window": one.window}
            for one in view.features
        ],
        "windows": [
            {
                "start": _instant(window.start_us),
                "end": instant_text(window.end_us),
                "resolution": window.resolution,
                "segments": [_segment(segment) for segment in window.segments],
                "left_out": dict(window.left_out),
            }
            for window in view.windows
        ],
        "pending": {"events": view.pending_events, "left": view.pending_left},
        "offsets": {
            "contained": _keyed(view.contained),
            "committed": _keyed(view.committed),
            "applied": _keyed(view.applied),
            "start": _keyed(view.start),
        },
        "compacted_beyond": {
            instant_text(at): _keyed(offsets) for at, offsets in view.compacted_beyond.items()
        },
        "archive_versions": {
            str(number): {
                "offsets": _keyed(version.offsets),
                "beyond_committed": version.beyond_committed,
            }
            for number, version in view.archive_versions.items()
        },
        "archive_versions_left": view.archive_versions_left,
    }


def _segment(segment: Segment) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "start": _instant(segment.start_us),
        "end": instant_text(segment.end_us),
        "where": segment.where,
        "state": segment.state,
    }
    if segment.slices is not None:
        wire["slices"] = segment.slices
    if segment.events is not None:
        wire["events"] = segment.events
    if segment.archive_versions:
        wire["archive_versions"] = segment.archive_versions
    if segment.offsets:
        wire["offsets"] = _keyed(segment.offsets)
    if segment.late:
        wire["late"] = True
    if segment.partition is not None:
        wire["partition"] = segment.partition
    return wire


def _keyed(offsets: Offsets | Mapping[str, Mapping[int, Any]]) -> dict[str, dict[str, Any]]:
    """Offsets with the keys that JSON's objects have."""
    return {
        topic: {str(partition): offset for partition, offset in of_topic.items()}
        for topic, of_topic in offsets.items()
    }


def _instant(us: int | None) -> str | None:
    return None if us is None else instant_text(us)
