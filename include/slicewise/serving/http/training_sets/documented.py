"""Paths of training sets in the OpenAPI document, made of the tables that the code runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slicewise.serving.http.training_sets.requests import UPLOADS, body_schema, query_schema
from slicewise.serving.http.training_sets.routes import FILES, PATH, TYPES
from slicewise.stores.jobs.job import State

_TEXT_OR_NULL = {"type": ["string", "null"]}
_INSTANT = {"type": "string", "format": "date-time"}
_INSTANT_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_FILE = {"type": "string", "format": "binary"}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    "description": "sent again with it, a request is answered with the training set that it made",
}
_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}
_INSTANT_GIVEN = {"type": ["string", "integer", "null"]}
_SET = {
    "type": "object",
    "required": [
        "id", "address", "state", "progress", "waits_for", "features", "knowledge", "engine", "format",
        "submitted", "begun", "ended", "expires", "attempts", "result", "error", "files",
    ],
    "properties": {
        "id": {"type": "string", "description": "who knows it may read, cancel and remove the set"},
        "address": {"type": "string"},
        "state": {"enum": [*map(str, State), "removed"]},
        "progress": {**_TEXT_OR_NULL, "description": "of one that is running: its latest step"},
        "waits_for": {
            "type": ["integer", "null"],
            "description": "of one that is waiting: how many are worked before it",
        },
        "features": {"description": "a feature set's name, or refs, as they were given"},
        "refs": {
            "type": ["array", "null"],
            "items": {"type": "string"},
            "description": "in the answer to its request: the features, by the deployment that is "
            "served; null with as_of_definition",
        },
        "knowledge": {"type": "string"},
        "known_at": _INSTANT_GIVEN,
        "as_of_definition": _INSTANT_GIVEN,
        "engine": {"type": "string"},
        "archive": {"type": "boolean"},
        "format": {"type": "string"},
        "submitted": _INSTANT,
        "begun": _INSTANT_OR_NULL,
        "ended": _INSTANT_OR_NULL,
        "expires": {**_INSTANT_OR_NULL, "description": "when it is removed by itself"},
        "attempts": {"type": "integer", "description": "how often it was begun"},
        "result": {
            "type": ["object", "null"],
            "description": "of one that is done",
            "properties": {
                "dataset": {"type": "string", "description": "its name in `ops.datasets`"},
                "rows": {"type": "integer"},
                "content": {
                    "type": "string",
                    "description": "SHA-256 of the set as Parquet, as its manifest has it",
                },
                "bytes": {"type": "integer", "description": "size of its data"},
                "errors": {**_COUNTS, "description": "ref -> values that are null for an error"},
                "incomplete": {
                    **_COUNTS,
                    "description": "ref -> rows whose window may lack events that are lost for good",
                },
            },
        },
        "error": {
            "type": ["object", "null"],
            "description": "of one that failed: the members of an error",
            "properties": {
                "kind": {"type": "string"},
                "what": {"type": "string"},
                "where": _TEXT_OR_NULL,
                "expected": _TEXT_OR_NULL,
                "next_step": _TEXT_OR_NULL,
            },
        },
        "files": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "of one that is done: addresses of its data, its manifest, its spine, and "
            "what its rows knew by arrival",
        },
    },
}  # fmt: skip
Both = Callable[[dict[str, Any]], dict[str, Any]]
Errors = Callable[..., dict[str, Any]]


def schemas() -> dict[str, Any]:
    """Schemas of the bodies."""
    body, others = body_schema()
    listed = {
        "type": "object",
        "required": ["training_sets"],
        "properties": {
            "training_sets": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/TrainingSet"},
            }
        },
    }
    return {**others, "TrainingSetBody": body, "TrainingSet": _SET, "TrainingSets": listed}


def paths(both: Both, errors: Errors) -> dict[str, Any]:
    """Paths of the document. both: content in both forms of a schema; errors: responses."""
    one = both({"$ref": "#/components/schemas/TrainingSet"})
    job_id = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    uploads = ", ".join(f"`{kind.decode()}`" for kind in UPLOADS)
    by_path: dict[str, Any] = {
        PATH: {
            "get": {
                "summary": "The client's own training sets",
                "responses": {
                    "200": {
                        "description": "In the order in which they came",
                        "content": both({"$ref": "#/components/schemas/TrainingSets"}),
                    },
                    **errors(406, 500, 503),
                },
            },
            "post": {
                "summary": "Request a training set",
                "description": f"A larger spine is the body itself ({uploads}), with the options in "
                "the query: `features=churn_v1`, or `features=view:column,…`.",
                "requestBody": {
                    "required": True,
                    "content": both({"$ref": "#/components/schemas/TrainingSetBody"})
                    | {kind.decode(): {"schema": _FILE} for kind in UPLOADS},
                },
                "parameters": [_KEY, *query_schema()],
                "responses": {
                    "202": {
                        "description": "It waits, and is built by a process beside the API",
                        "content": one,
                        "headers": {"Location": {"schema": {"type": "string"}}},
                    },
                    **errors(400, 404, 406, 408, 413, 429, 500, 503),
                },
            },
        },
        f"{PATH}/{{id}}": {
            "get": {
                "summary": "State of a training set",
                "responses": {
                    "200": {
                        "description": "Its state, and its files once it is done",
                        "content": one,
                    },
                    **errors(404, 406, 500, 503),
                },
            },
            "delete": {
                "summary": "Cancel a training set, or remove one that is over",
                "responses": {
                    "200": {"description": "It as it is now", "content": one},
                    **errors(404, 406, 500, 503),
                },
            },
            "parameters": [job_id],
        },
    }
    about = {
        "data": "A training set, as `slicewise dataset build` writes it; Range asks for a part",
        "manifest": "Its manifest, of which `slicewise dataset rebuild` makes it again",
        "spine": "Its spine, typed by the entity",
        "arrival": "What its rows knew, by knowledge of arrival",
    }
    for name in FILES:
        kinds = {f".{name}" for name in ("parquet", "csv")} if name == "data" else set()
        kinds = kinds or {FILES[name][FILES[name].rindex(".") :]}
        content = {
            TYPES[kind].decode().partition(";")[0]: {
                "schema": {"type": "object"} if kind == ".json" else _FILE
            }
            for kind in sorted(kinds)
        }
        by_path[f"{PATH}/{{id}}/{name}"] = {
            "get": {
                "summary": about[name],
                "responses": {
                    "200": {"description": "The file", "content": content},
                    "206": {"description": "The part that Range names", "content": content},
                    **errors(404, 406, 409, 416, 500, 503),
                },
            },
            "parameters": [job_id],
        }
    return by_path
