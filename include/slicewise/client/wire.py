"""Requests to bytes, and replies to typed answers or to the error that the API names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slicewise import errors, extras
from slicewise.client.answers import (
    Answer,
    ArchiveVersion,
    Entity,
    EntityAnswer,
    ExplainedFeature,
    ExplainedView,
    ExplainedWindow,
    Explanation,
    Interval,
    Leaderboard,
    LeaderboardRow,
    Offsets,
    Segment,
    SourceFreshness,
)
from slicewise.client.instants import bound_us, instant_us
from slicewise.client.retrying import Outcome, Reply
from slicewise.errors import BadRequest, SlicewiseError, StoreUnavailable
from slicewise.windows.durations import parse_duration

Features = str | Sequence[str]
"""The name of a feature set, or refs "view:column"."""
Entities = Mapping[str, Any] | Sequence[Mapping[str, Any]]
ManyEntities = Mapping[str, Any] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Form:
    """Writer and reader of bodies."""

    media_type: str
    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]


def form_of(name: str) -> Form:
    """The form "msgpack" or "json". Raises BadRequest, and MissingExtra where msgpack is not
    installed."""
    if name == "json":
        return Form(
            "application/json",
            lambda value: json.dumps(value, allow_nan=False).encode(),
            json.loads,
        )
    if name == "msgpack":
        with extras.needed("client", 'HttpClient(form="msgpack")'):
            import msgpack
        return Form(
            "application/msgpack",
            msgpack.packb,
            lambda body: msgpack.unpackb(body, strict_map_key=False),
        )
    raise BadRequest(
        f"form is {name!r}",
        where="HttpClient",
        expected='"msgpack", in which doubles are their eight bytes, or "json"',
        next_step="leave it out for msgpack",
    )


def entities_of(entities: Entities) -> list[Entity]:
    """One entity or several, as a list."""
    if isinstance(entities, Mapping):
        return [dict(entities)]
    return [dict(entity) for entity in entities]


def features_body(
    form: Form,
    features: Features,
    entities: Sequence[Entity],
    at: str | int | datetime | None,
    min_token: str | None,
    tokens: bool,
    *,
    offline: bool = False,
    request_id: str | None = None,
) -> bytes:
    """The body of POST /v1/features. Raises BadRequest where it cannot be written."""
    body: dict[str, Any] = {"entities": entities}
    if isinstance(features, str):
        body["feature_set"] = features
    else:
        body["features"] = list(features)
    if at is not None:
        body["at"] = instant_us(at)
    if min_token is not None:
        body["min_token"] = min_token
    if not tokens:
        body["tokens"] = False
    if offline:
        body["offline"] = True
    if request_id is not None:
        body["request_id"] = request_id
    return _packed(form, body, "entities")


def outcomes_body(
    form: Form, predictions: Sequence[Mapping[str, Any]], labels: Sequence[Mapping[str, Any]]
) -> bytes:
    """The body of POST /v1/outcomes. Raises BadRequest where it cannot be written."""
    for name, events in (("predictions", predictions), ("labels", labels)):
        if isinstance(events, Mapping | str) or not all(isinstance(e, Mapping) for e in events):
            raise BadRequest(
                f"{name} are no list of mappings",
                where=name,
                expected='[{"prediction_id": …}, …]',
                next_step="put one that is sent by itself into a list",
            )
    body = {"predictions": list(map(dict, predictions)), "labels": list(map(dict, labels))}
    return _packed(form, body, "predictions, labels")


def _packed(form: Form, body: Mapping[str, Any], where: str) -> bytes:
    try:
        return form.pack(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(
            f"a value of the request cannot be written: {error}",
            where=where,
            expected="texts, integers of 64 bits, doubles and booleans, or lists of them",
            next_step="give times as RFC 3339 text, as 2013-01-01T12:00:00Z",
        ) from error


def decoded(form: Form, outcome: Outcome, address: str) -> Any:
    """The members of a reply with status 200 or 202. Raises the error that the API names, else
    StoreUnavailable."""
    if not isinstance(outcome, Reply):
        raise _no_answer(
            f"the serving API does not answer: {outcome.error}", address
        ) from outcome.error
    try:
        wire = form.unpack(outcome.body)
        failed = None if outcome.status in (200, 202) else wire["error"]
    except Exception as error:  # what a gateway or another server writes
        what = (
            f"the serving API does not answer: status {outcome.status} with a body of another form"
        )
        raise _no_answer(what, address) from error
    if failed is not None:
        raise error_of(failed, outcome.retry_after_s)
    return wire


def _no_answer(what: str, address: str) -> StoreUnavailable:
    return StoreUnavailable(
        what, where=address, next_step="see that it runs: slicewise status; then ask again"
    )


def error_of(wire: Mapping[str, Any], retry_after_s: float | None = None) -> SlicewiseError:
    """The error that the API names."""
    named = getattr(errors, str(wire["kind"]), None)
    kind = (
        named if isinstance(named, type) and issubclass(named, SlicewiseError) else SlicewiseError
    )
    parts: dict[str, Any] = {name: wire.get(name) for name in ("where", "expected", "next_step")}
    if issubclass(kind, errors.NotReady):
        parts["progress"] = wire.get("progress", 0.0)
    elif issubclass(kind, errors.BeyondRetention):
        parts["earliest_at_us"] = wire.get("earliest_at_us", 0)
    elif issubclass(kind, errors.RetryLater):
        after = wire.get("retry_after_s", retry_after_s)
        parts["retry_after_s"] = 1.0 if after is None else after
    return kind(wire["what"], **parts)


def answer_of(wire: Mapping[str, Any]) -> Answer:
    """The answer of POST /v1/features."""
    results = wire["results"]
    features = tuple(results[0]["values"])
    return Answer(
        features=features,
        mode=wire["mode"],
        t_us=instant_us(wire["t"]),
        bounds=_bounds(wire["bounds"]),
        results=tuple(_entity_answer(result, features) for result in results),
        freshness=tuple(_freshness(source, entry) for source, entry in wire["freshness"].items()),
        flags=tuple(wire["flags"]),
        incomplete=tuple(wire.get("incomplete", ())),
        tokens=all("token" in result for result in results),
    )


def _entity_answer(result: Mapping[str, Any], features: Sequence[str]) -> EntityAnswer:
    return EntityAnswer(
        result["entity"],
        tuple(result["values"][name] for name in features),
        result.get("token", ""),
        result.get("errors", {}),
        _bounds(result.get("bounds", {})),
        tuple(result.get("no_data", ())),
    )


def _freshness(source: str, entry: Mapping[str, Any]) -> SourceFreshness:
    pending = entry.get("tail", {})
    return SourceFreshness(
        source,
        _instant(entry["ledger_advanced_at"]),
        entry["lag_events"],
        _instant(entry["stream_heartbeat_at"]),
        pending.get("events", 0),
        _instant(pending.get("newest")),
    )


def explanation_of(wire: Mapping[str, Any]) -> Explanation:
    """The explanation of POST /v1/explain."""
    return Explanation(
        answer_of(wire["answer"]), tuple(_explained_view(view) for view in wire["views"])
    )


def _explained_view(wire: Mapping[str, Any]) -> ExplainedView:
    offsets, pending = wire["offsets"], wire["pending"]
    return ExplainedView(
        view=wire["view"],
        unit=wire["unit"],
        source=wire["source"],
        stored=wire["stored"],
        slice=wire["slice"],
        token=wire["token"],
        features=tuple(
            ExplainedFeature(one["feature"], one["value"], one["window"])
            for one in wire["features"]
        ),
        windows=tuple(
            ExplainedWindow(
                _instant(window["start"]),
                instant_us(window["end"]),
                window["resolution"],
                tuple(_segment(segment) for segment in window["segments"]),
                window.get("left_out", {}),
            )
            for window in wire["windows"]
        ),
        pending_events=pending["events"],
        pending_left=pending["left"],
        contained=_offsets(offsets["contained"]),
        committed=_offsets(offsets["committed"]),
        applied=_offsets(offsets["applied"]),
        start=_offsets(offsets["start"]),
        compacted_beyond={
            instant_us(at): _offsets(beyond) for at, beyond in wire["compacted_beyond"].items()
        },
        archive_versions={
            int(number): ArchiveVersion(_offsets(version["offsets"]), version["beyond_committed"])
            for number, version in wire["archive_versions"].items()
        },
        archive_versions_left=wire.get("archive_versions_left", 0),
    )


def _segment(wire: Mapping[str, Any]) -> Segment:
    return Segment(
        start_us=_instant(wire["start"]),
        end_us=instant_us(wire["end"]),
        where=wire["where"],
        state=wire["state"],
        slices=wire.get("slices"),
        events=wire.get("events"),
        archive_versions=tuple(wire.get("archive_versions", ())),
        offsets={
            topic: {int(p): (first, last) for p, (first, last) in spans.items()}
            for topic, spans in wire.get("offsets", {}).items()
        },
        late=wire.get("late", False),
        partition=wire.get("partition"),
    )


def _offsets(wire: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets by partition; the keys of JSON's objects are text."""
    return {
        topic: {int(p): offset for p, offset in offsets.items()} for topic, offsets in wire.items()
    }


def leaderboard_of(wire: Mapping[str, Any]) -> Leaderboard:
    """The leaderboard of GET /v1/leaderboards/{name}."""
    return Leaderboard(
        name=wire["leaderboard"],
        feature=wire["feature"],
        k=wire["k"],
        every_us=parse_duration(wire["every"]),
        now_us=instant_us(wire["now"]),
        start_us=_instant(wire["start"]),
        end_us=_instant(wire["end"]),
        written_us=_instant(wire["written"]),
        rows=tuple(
            LeaderboardRow(row["rank"], row["entity"], row["value"]) for row in wire["rows"]
        ),
        more=wire["more"],
        # the keys of JSON's objects are text
        cover={
            topic: {int(p): offset for p, offset in ends.items()}
            for topic, ends in wire["cover"].items()
        },
        flags=tuple(wire["flags"]),
    )


def _bounds(wire: Mapping[str, Any]) -> dict[str, Interval]:
    return {name: (bound_us(start), bound_us(end)) for name, (start, end) in wire.items()}


def _instant(text: str | None) -> int | None:
    return None if text is None else instant_us(text)
