"""The platform's page reads the store, the prediction API and the records of the lake, and changes
nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slicewise.errors import BadRequest, ServerError, SlicewiseError, StoreUnavailable
from slicewise.settings import Settings
from slicewise.windows.durations import DAY_US

if TYPE_CHECKING:
    from slicewise.client.answers import ExplainedView, Explanation
    from slicewise.client.http import AsyncHttpClient
    from slicewise.lifecycle.incidents import Incidents

DAYS = 7
"""Days of the calendar: today and those before."""
LEADERBOARDS, ROWS = 3, 10
"""Leaderboards on the page, and rows of each."""
_API_S, _HOURS_S = 10.0, 90.0
Document = dict[str, Any]


@dataclass
class Shared:
    """A document that is made at most once in a while, whoever asks for it; those who ask together
    wait for the same one."""

    make: Callable[[], Coroutine[Any, Any, tuple[Document, int]]]
    seconds: float
    _made: tuple[Document, int] | None = None
    _at: float = 0.0
    _making: asyncio.Task[tuple[Document, int]] | None = None

    async def get(self) -> tuple[Document, int]:
        """The document and its status. One that says an error is not kept."""
        if self._made is not None and time.monotonic() - self._at < self.seconds:
            return self._made
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self.make())
        document, status = await asyncio.shield(self._making)
        if status == 200:
            self._made, self._at = (document, status), time.monotonic()
        return document, status


def error_of(error: SlicewiseError) -> Document:
    """An error in its parts, for the page."""
    return {
        "error": {
            "what": error.what,
            "where": error.where,
            "expected": error.expected,
            "next_step": error.next_step,
        }
    }


# ------------------------------------------------------------------ the store
def status() -> tuple[Document, int]:
    """Stream, views, jobs, findings and incidents."""
    from slicewise.lifecycle.findings import findings
    from slicewise.lifecycle.health.judge import Limits
    from slicewise.lifecycle.health.overview import JOBS, overview
    from slicewise.local.servers import drivers
    from slicewise.local.servers.inbox import Inbox
    from slicewise.stores.online.redis.status import read_status

    try:
        settings = Settings.load()
        limits = Limits.of(settings)
    except SlicewiseError as error:
        return _away(error, []), 503
    inbox = Inbox(settings)
    try:
        stored = read_status(settings.redis_url, JOBS)
    except SlicewiseError as error:
        return _away(error, _shown(inbox.of_file())), 503
    now_us = time.time_ns() // 1_000
    every = (*drivers.findings(settings, now_us), *findings(stored, limits))
    # the inbox has the alerts
    findings_now = [asdict(one) for one in every if not one.part.startswith("alert ")]
    return overview(stored, limits).to_json() | {
        "findings": findings_now,
        "incidents": _shown(inbox.read(stored)),
        "serving_url": settings.serving_url,
    }, 200


def _away(error: SlicewiseError, shown: list[dict[str, object]]) -> Document:
    return error_of(error) | {"incidents": shown, "now_us": time.time_ns() // 1_000}


def _shown(incidents: Incidents) -> list[dict[str, object]]:
    """Incidents for the page: open ones first, the newest of each first."""
    newest = sorted(incidents, key=lambda one: (one.over_us > 0, -one.opened_us))
    return [incident.to_json() for incident in newest]


def sizes() -> tuple[Document, int]:
    """Memory and keys of each node of the store; keys and bytes of each view are the last
    sweep's."""
    from slicewise.local import history
    from slicewise.stores.online.redis.status import read_usage

    try:
        settings = Settings.load()
        nodes = read_usage(settings.redis_url)
    except SlicewiseError as error:
        return error_of(error), 503
    if not any(nodes):
        away = StoreUnavailable("no node of the store answers", next_step="slicewise status")
        return error_of(away), 503
    past = history.read(settings, time.time_ns() // 1_000 - DAY_US)
    swept = next((entry for entry in reversed(past) if "memory" in entry), None)
    return {
        "nodes": [None if node is None else asdict(node) for node in nodes],
        "views": {} if swept is None else swept["memory"],
        "swept_us": None if swept is None else swept["at_us"],
        "now_us": time.time_ns() // 1_000,
    }, 200


# ------------------------------------------------------------------ the lake
async def hours() -> tuple[Document, int]:
    """The calendar of hours, read by a process of the platform's environment: Airflow's has no
    library for the lake."""
    try:
        settings = Settings.load()
        program = settings.platform_python.parent / "slicewise"
        process = await asyncio.create_subprocess_exec(
            str(program),
            *("hours", "--json", "--days", str(DAYS)),
            env=_environment(settings),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except SlicewiseError as error:
        return error_of(error), 503
    except OSError as error:
        return _no_hours(f"{program} does not start: {error}"), 503
    try:
        out, err = await asyncio.wait_for(process.communicate(), _HOURS_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        return _no_hours(f"slicewise hours gave nothing within {_HOURS_S:g} s"), 503
    if process.returncode:
        return _no_hours(err.decode(errors="replace").strip()), 503
    document: Document = json.loads(out)
    return document | {"days": DAYS}, 200


def _environment(settings: Settings) -> dict[str, str]:
    import os

    return os.environ | settings.to_env()


def _no_hours(why: str) -> Document:
    return error_of(
        ServerError(
            f"the hours cannot be read: {why}",
            next_step="run slicewise hours by hand, where the lake can be reached",
        )
    )


# ------------------------------------------------------------------ the prediction API
async def features() -> tuple[Document, int]:
    """Names that can be read, with the columns that each needs, and the leaderboards' names."""
    return await _of_api("/v1/features", _names)


def _names(listed: Document) -> Document:
    refs = {
        feature["ref"]: {**view["entity"], **feature.get("asked_by", {})}
        for view in listed["views"]
        for feature in view["features"]
    }
    return {
        "views": [
            {
                "name": view["name"],
                "entity": view["entity"],
                "features": [f["ref"] for f in view["features"] if "asked_by" not in f],
                "further": _further(view["features"]),
            }
            for view in listed["views"]
        ],
        "feature_sets": [
            {
                "name": one["name"],
                "entity": {k: v for ref in one["features"] for k, v in refs[ref].items()},
            }
            for one in listed["feature_sets"]
        ],
        "leaderboards": [one["name"] for one in listed["leaderboards"]],
    }


def _further(listed: Sequence[Document]) -> Document:
    """Further column -> its type, and the features that answer whether an entity has a value of
    it."""
    columns: Document = {}
    for feature in listed:
        for column, kind in feature.get("asked_by", {}).items():
            of = columns.setdefault(column, {"kind": kind, "features": []})
            of["features"].append(feature["ref"])
    return columns


async def leaderboards() -> tuple[Document, int]:
    """The first rows of the leaderboards that are deployed."""
    listed, status_code = await _of_api("/v1/leaderboards", lambda document: document)
    if status_code != 200:
        return listed, status_code
    try:
        async with _client() as client:
            shown = [
                await client.leaderboard(one["name"])
                for one in listed["leaderboards"][:LEADERBOARDS]
            ]
    except SlicewiseError as error:
        return error_of(error), 503
    return {
        "leaderboards": [
            {
                "name": one.name,
                "feature": one.feature,
                "age_us": one.age_us,
                "flags": one.flags,
                "rows": [
                    {
                        "rank": row.rank,
                        "entity": [_text(value) for value in row.entity.values()],
                        "value": _text(row.value),
                    }
                    for row in one.rows[:ROWS]
                ],
            }
            for one in shown
        ]
    }, 200


async def explained(body: Mapping[str, Any]) -> tuple[Document, int]:
    """An explanation for people. body: `features` (a list) or `feature_set`, `entity` (column ->
    text), `kinds` (column -> type) and `at` or nothing."""
    try:
        names, entity, at = _request(body)
        async with _client() as client:
            explanation = await client.explain(names, entity, at)
    except StoreUnavailable as error:
        return error_of(error), 503
    except SlicewiseError as error:
        return error_of(error), 400
    return _explanation(explanation), 200


def _request(body: Mapping[str, Any]) -> tuple[str | list[str], dict[str, Any], str | None]:
    named, listed = body.get("feature_set"), body.get("features")
    texts, kinds, at = body.get("entity"), body.get("kinds", {}), body.get("at") or None
    if (
        not (isinstance(named, str) or (isinstance(listed, list) and listed))
        or not isinstance(texts, dict)
        or not isinstance(kinds, dict)
        or not isinstance(at, str | None)
    ):
        raise BadRequest(
            "the request has no features, or no entity",
            expected="features (a list) or feature_set, and entity (an object)",
            next_step="choose a view and fill in its columns",
        )
    names = named if isinstance(named, str) else [str(name) for name in listed or ()]
    return names, {name: _value(name, text, kinds.get(name)) for name, text in texts.items()}, at


def _value(column: str, text: object, kind: object) -> Any:
    """A column's value: a text as it was typed, anything else as JSON."""
    if kind == "string" or not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadRequest(
            f"{text!r} is no {kind}",
            where=f"column {column!r}",
            expected="a number, true or false",
            next_step="correct the value",
        ) from error


def _explanation(explanation: Explanation) -> Document:
    (result,) = explanation.answer.results
    return {
        "t_us": explanation.answer.t_us,
        "mode": explanation.answer.mode,
        "flags": explanation.answer.flags,
        "no_data": result.no_data,
        "errors": dict(result.errors),
        "token": result.token,
        "views": [_view(view) for view in explanation.views],
    }


def _view(view: ExplainedView) -> Document:
    # a script reads whole numbers beyond 2^53 wrong: values travel as text
    document = asdict(view)
    for feature in document["features"]:
        feature["value"] = _text(feature["value"])
    return document


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _client() -> AsyncHttpClient:
    from slicewise.client.http import AsyncHttpClient

    return AsyncHttpClient(timeout_s=_API_S, form="json")


async def _of_api(path: str, shape: Callable[[Document], Document]) -> tuple[Document, int]:
    """A list of the prediction API. One that does not answer is an error in words."""
    import httpx

    try:
        url = Settings.load().serving_url
        async with httpx.AsyncClient(base_url=url, timeout=_API_S, trust_env=False) as client:
            answer = await client.get(path, headers={"accept": "application/json"})
        document = answer.json()
    except SlicewiseError as error:
        return error_of(error), 503
    except (httpx.HTTPError, ValueError) as error:
        away = ServerError(
            f"the prediction API does not answer: {error or type(error).__name__}",
            where=url,
            next_step="is it up? slicewise status",
        )
        return error_of(away), 503
    if answer.status_code != 200:
        return document, 503
    return shape(document), 200
