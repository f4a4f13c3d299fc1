"""The OpenAPI document is made of the types and tables that the code itself runs on."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from slicewise import __version__
from slicewise.serving.answering.requests import (
    MAX_BODY_BYTES,
    MAX_ENTITIES,
    MAX_FEATURES,
    FeaturesBody,
)
from slicewise.serving.http.training_sets import documented as training_sets
from slicewise.serving.logged.outcomes import MAX_EVENTS, OutcomesBody

_VALUE = {"description": "null, number, text, boolean, list or object, by the feature's type"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["kind", "what", "where", "expected", "next_step"],
            "properties": {
                "kind": {"type": "string"},
                "what": {"type": "string"},
                "where": _TEXT_OR_NULL,
                "expected": _TEXT_OR_NULL,
                "next_step": _TEXT_OR_NULL,
                "progress": {"type": "number", "description": "of a storage unit that is building"},
                "earliest_at_us": {"type": "integer"},
                "retry_after_s": {
                    "type": "number",
                    "description": "of a service that is overloaded",
                },
            },
        }
    },
}
_BOUNDS = {
    "type": "object",
    "additionalProperties": {
        "type": "array",
        "items": {"type": "string", "format": "date-time"},
        "minItems": 2,
        "maxItems": 2,
    },
}
_ANSWER = {
    "type": "object",
    "required": ["mode", "t", "results", "bounds", "freshness", "flags"],
    "properties": {
        "mode": {"enum": ["live", "at"]},
        "t": {"type": "string", "format": "date-time"},
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["entity", "values"],
                "properties": {
                    "entity": {"type": "object"},
                    "values": {"type": "object", "additionalProperties": _VALUE},
                    "token": {
                        "type": "string",
                        "description": "what the answer contains, exactly; left out where "
                        "the request says tokens: false",
                    },
                    "errors": {"type": "object", "additionalProperties": {"type": "string"}},
                    "bounds": {
                        **_BOUNDS,
                        "description": "of this entity's sessions, in the place of the answer's",
                    },
                    "no_data": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "views of which the read found nothing of this entity: it was never seen, what "
                        "was kept of it has expired, or it came by a backfill alone and lies outside of the windows. "
                        "Of a view that is not named the store keeps events, if not in these windows",
                    },
                },
            },
        },
        "bounds": {**_BOUNDS, "description": "feature -> effective [start, end), RFC 3339"},
        "freshness": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["ledger_advanced_at", "lag_events", "stream_heartbeat_at"],
                "properties": {
                    "ledger_advanced_at": {"type": ["string", "null"], "format": "date-time"},
                    "lag_events": {"type": ["integer", "null"]},
                    "stream_heartbeat_at": {"type": ["string", "null"], "format": "date-time"},
                    "tail": {
                        "type": "object",
                        "description": "where the answer has events that are milliseconds old and not applied yet: how "
                        "many, and the event time of the latest",
                        "required": ["events", "newest"],
                        "properties": {
                            "events": {"type": "integer", "minimum": 1},
                            "newest": {"type": "string", "format": "date-time"},
                        },
                    },
                },
            },
        },
        "flags": {
            "type": "array",
            "items": {
                "enum": ["offline", "stale", "default", "overflow", "incomplete", "clock_off"]
            },
            "description": "clock_off: the clock of the service, which says when the present is, and the store's are "
            "more than half a minute apart",
        },
        "incomplete": {
            "type": "array",
            "items": {"type": "string"},
            "description": "with the flag of that name: features whose windows may lack events that are lost for good",
        },
    },
}


_OUTCOMES = {
    "type": "object",
    "required": ["predictions", "labels"],
    "properties": {
        "predictions": {"type": "integer", "minimum": 0},
        "labels": {"type": "integer", "minimum": 0},
    },
}
_INSTANT_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_LEADERBOARD = {
    "type": "object",
    "required": [
        "leaderboard", "feature", "k", "every", "now", "start", "end", "written", "rows", "more", "cover", "flags",
    ],
    "properties": {
        "leaderboard": {"type": "string"},
        "feature": {"type": "string"},
        "k": {"type": "integer"},
        "every": {"type": "string", "description": "how often it is made anew"},
        "now": {"type": "string", "format": "date-time", "description": "by the store's clock"},
        "start": _INSTANT_OR_NULL,
        "end": {**_INSTANT_OR_NULL, "description": "of the window, half-open"},
        "written": _INSTANT_OR_NULL,
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["rank", "entity", "value"],
                "properties": {"rank": {"type": "integer"}, "entity": {"type": "object"}, "value": _VALUE},
            },
        },
        "more": {"type": "boolean", "description": "whether entities beyond these rows have a value too"},
        "cover": {
            "type": "object",
            "description": "topic id -> partition -> first offset that is not in it",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "flags": {
            "type": "array",
            "items": {"enum": ["missing", "stale", "short"]},
            "description": "missing: nobody made a leaderboard lately; stale: its window ended over two periods ago; "
            "short: late events took rows off it that are not known",
        },
    },
}  # fmt: skip


_INSTANT = {"type": "string", "format": "date-time"}
_OFFSETS = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
}
_SEGMENT = {
    "type": "object",
    "required": ["start", "end", "where", "state"],
    "properties": {
        "start": {**_INSTANT_OR_NULL, "description": "null: since the first event"},
        "end": _INSTANT,
        "where": {
            "enum": [
                "lifetime_total", "five_day_total", "day_total", "hour", "minutes", "slices", "live", "pending", "events",
            ],
            "description": "totals of compacted hours; minutes and slices: rows of a compacted hour; live: slices that "
            "are not compacted yet; pending: events of the real-time lane that are not applied yet; events: an event list",
        },
        "state": {
            "enum": ["counted", "empty", "contained"],
            "description": "empty: the store has nothing there; contained: a compacted hour or a total has it already, "
            "so that it does not count again",
        },
        "slices": {"type": "integer", "description": "rows in it, where they stand singly"},
        "events": {"type": "integer", "description": "events in it, where they stand singly"},
        "archive_versions": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "by which its hours were compacted; 0: the backfill up to the start offsets",
        },
        "offsets": {
            "type": "object",
            "description": "topic id -> partition -> [first, last] offset of its events, of live slices and pending events",
        },
        "late": {"type": "boolean", "description": "true: its events came after their hour was compacted, and count beside it"},
        "partition": {"type": "integer", "description": "of a view that is stored per partition"},
    },
}  # fmt: skip
_EXPLANATION = {
    "type": "object",
    "required": ["answer", "views"],
    "properties": {
        "answer": {"$ref": "#/components/schemas/Answer"},
        "views": {
            "type": "array",
            "description": "one for each storage unit that was read",
            "items": {
                "type": "object",
                "required": [
                    "view", "unit", "source", "stored", "slice", "token", "features", "windows", "pending", "offsets",
                    "compacted_beyond", "archive_versions", "archive_versions_left",
                ],
                "properties": {
                    "view": {"type": "string"},
                    "unit": {"type": "string", "description": "its storage fingerprint"},
                    "source": {"type": "string"},
                    "stored": {"enum": ["slices", "events"]},
                    "slice": {"type": "string", "description": "length of a slice; empty for event lists"},
                    "token": {"type": "string", "description": "its part of the answer's token"},
                    "features": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["feature", "value", "window"],
                            "properties": {
                                "feature": {"type": "string"},
                                "value": _VALUE,
                                "window": {"type": "integer", "description": "place among the windows, from 0"},
                            },
                        },
                    },
                    "windows": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["start", "end", "resolution", "segments", "left_out"],
                            "properties": {
                                "start": {**_INSTANT_OR_NULL, "description": "null: since the first event"},
                                "end": {**_INSTANT, "description": "half-open"},
                                "resolution": {"type": "string"},
                                "segments": {"type": "array", "items": _SEGMENT},
                                "left_out": {
                                    "type": "object",
                                    "additionalProperties": {"type": "integer"},
                                    "description": "state, or late -> number of further segments, of a window that has "
                                    "too many",
                                },
                            },
                        },
                    },
                    "pending": {
                        "type": "object",
                        "required": ["events", "left"],
                        "properties": {
                            "events": {"type": "integer", "description": "in the answer, and not applied yet"},
                            "left": {
                                "type": "integer",
                                "description": "offsets of pending events that another run of the store's server had, and "
                                "that do not count",
                            },
                        },
                    },
                    "offsets": {
                        "type": "object",
                        "description": "topic id -> partition -> first offset that is not contained",
                        "required": ["contained", "committed", "applied", "start"],
                        "properties": {
                            "contained": {**_OFFSETS, "description": "base of the token: what the answer contains"},
                            "committed": {**_OFFSETS, "description": "by the stream, as the store said with the data"},
                            "applied": {**_OFFSETS, "description": "beyond the latest event of this entity"},
                            "start": {**_OFFSETS, "description": "what lies below came by a backfill"},
                        },
                    },
                    "compacted_beyond": {
                        "type": "object",
                        "additionalProperties": _OFFSETS,
                        "description": "hour -> what its compaction contains beyond the base",
                    },
                    "archive_versions": {
                        "type": "object",
                        "description": "of the segments: what their hours contain; the newest, where there are too many",
                        "additionalProperties": {
                            "type": "object",
                            "required": ["offsets", "beyond_committed"],
                            "properties": {
                                "offsets": _OFFSETS,
                                "beyond_committed": {
                                    "type": "boolean",
                                    "description": "whether it has events that were not committed yet",
                                },
                            },
                        },
                    },
                    "archive_versions_left": {"type": "integer", "description": "number of further ones"},
                },
            },
        },
    },
}  # fmt: skip


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    _, components = msgspec.json.schema_components(
        [FeaturesBody, OutcomesBody], ref_template="#/components/schemas/{name}"
    )
    body = components["FeaturesBody"]
    body["properties"]["entities"] |= {"minItems": 1, "maxItems": MAX_ENTITIES}
    body["properties"]["entities"]["description"] = (
        "Entity columns, and the columns that features are asked by (`asked_by` of a feature): a value, "
        "answered by a boolean, or a list of values, answered by a list of booleans."
    )
    body["properties"]["features"]["maxItems"] = MAX_FEATURES
    body["oneOf"] = [{"required": ["features"]}, {"required": ["feature_set"]}]
    body["description"] = (
        f"At most {MAX_BODY_BYTES} bytes. at: RFC 3339 with zone, or microseconds."
    )
    outcomes = components["OutcomesBody"]["properties"]
    for events in ("predictions", "labels"):
        outcomes[events]["maxItems"] = MAX_EVENTS
    schemas = {
        **components,
        "Answer": _ANSWER,
        "Explanation": _EXPLANATION,
        "Leaderboard": _LEADERBOARD,
        "Error": _ERROR,
        **training_sets.schemas(),
    }
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    words = {
        "name": "q",
        "in": "query",
        "description": "words, all of which are to be met",
        "schema": {"type": "string"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "slicewise", "version": __version__},
        "paths": {
            "/v1/features": {
                "get": _get("What can be asked for", 406),
                "post": {
                    "summary": "Features of entities, live or at a past time",
                    "requestBody": {
                        "required": True,
                        "content": _both({"$ref": "#/components/schemas/FeaturesBody"}),
                    },
                    "responses": {
                        "200": {
                            "description": "Values with their token",
                            "content": _both({"$ref": "#/components/schemas/Answer"}),
                        },
                        **_errors(400, 404, 406, 408, 413, 422, 429, 500, 503),
                    },
                },
            },
            "/v1/explain": {
                "post": {
                    "summary": "Features of one entity, and what their answer was made of",
                    "requestBody": {
                        "required": True,
                        "content": _both({"$ref": "#/components/schemas/FeaturesBody"}),
                    },
                    "responses": {
                        "200": {
                            "description": "The answer, and per view its windows and offsets",
                            "content": _both({"$ref": "#/components/schemas/Explanation"}),
                        },
                        **_errors(400, 404, 406, 408, 413, 422, 429, 500, 503),
                    },
                },
            },
            "/v1/outcomes": {
                "post": {
                    "summary": "Predictions and labels; they stand in their topics when it answers",
                    "requestBody": {
                        "required": True,
                        "content": _both({"$ref": "#/components/schemas/OutcomesBody"}),
                    },
                    "responses": {
                        "200": {
                            "description": "How many were taken",
                            "content": _both(_OUTCOMES),
                        },
                        **_errors(400, 404, 406, 408, 413, 500, 503),
                    },
                },
            },
            "/v1/features/{name}": {
                "get": _get("A view, a feature view:column, or a feature set", 404, 406),
                "parameters": [name],
            },
            "/v1/leaderboards": {"get": _get("The leaderboards", 406)},
            "/v1/leaderboards/{name}": {
                "get": {
                    "summary": "A leaderboard as it stands",
                    "responses": {
                        "200": {
                            "description": "Its rows, best first, with the window and the offset vector that they are of",
                            "content": _both({"$ref": "#/components/schemas/Leaderboard"}),
                        },
                        **_errors(404, 406, 429, 500, 503),
                    },
                },
                "parameters": [name],
            },
            "/leaderboards/{name}": {
                "get": _page("A leaderboard for people, live", "text/html", 404, 406),
                "parameters": [name],
            },
            **training_sets.paths(_both, _errors),
            "/v1/registry": {
                "get": _get(
                    "Definitions that are deployed, or those that words are about", 400, 406
                ),
                "parameters": [words],
            },
            "/v1/registry/{name}": {
                "get": _get(
                    "A name: definitions, versions, uses, data sets and freshness", 404, 406
                ),
                "parameters": [name],
            },
            "/registry": {
                "get": _page("Definitions for people, with a search", "text/html", 400, 406),
                "parameters": [words],
            },
            "/registry/{name}": {
                "get": _page("A name for people", "text/html", 404, 406),
                "parameters": [name],
            },
            "/healthz": {"get": _get("Whether the process runs")},
            "/readyz": {"get": _get("Whether every view answers, with the reasons why not")},
            "/openapi.json": {"get": _get("This document")},
            "/metrics": {"get": _page("For Prometheus: this process", "text/plain")},
            "/metrics/platform": {
                "get": _page("For Prometheus: jobs, views, incidents and the store", "text/plain")
            },
            "/": {"get": _page("For people", "text/html", 406)},
        },
        "components": {"schemas": schemas},
    }


def _both(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}, "application/msgpack": {"schema": schema}}


def _get(summary: str, *statuses: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    return {
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": content},
            **_errors(*statuses, 429, 500, 503),
        },
    }


def _page(summary: str, kind: str, *statuses: int) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string"}}}
    errors = _errors(*statuses, 429, 500, 503) if statuses else {}
    return {
        "summary": summary,
        "responses": {"200": {"description": summary, "content": content}, **errors},
    }


_MEANING = {
    400: "The request is malformed, or its min_token does not name every storage unit that is read",
    404: "A name does not exist; the nearest that do are named",
    422: "A window reaches before what is kept; the earliest `at` is named",
    406: "Accept names none of the forms that the answer has",
    409: "The training set is not done, or was cancelled or failed, and has no files",
    416: "Range lies outside of the file",
    408: "The body did not arrive in time",
    413: "The body is too large",
    429: "Overloaded, and this client asks for more than its share; ask less, and again after Retry-After",
    500: "What is stored is damaged or contradicts itself",
    503: "Not ready, behind min_token, or the store does not answer, or overloaded; ask again after Retry-After",
}


def _errors(*statuses: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    both = {**content, "application/msgpack": content["application/json"]}
    errors: dict[str, Any] = {}
    for status in statuses:
        errors[str(status)] = {"description": _MEANING[status], "content": both}
    for status in {429, 503} & set(statuses):
        errors[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return errors
