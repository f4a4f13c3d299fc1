"""Logged requests meet the labels of their predictions, as these had matured by an instant."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest, UnknownName
from slicewise.features.plan.deployment import Deployment, base_of
from slicewise.features.plan.unit import Source
from slicewise.models.scoring import typed
from slicewise.training.archive import Archive, Archived, NothingArchived
from slicewise.training.logged.columns import is_entity
from slicewise.training.logged.replaying import NO_EVENT, log_of, of_set
from slicewise.training.tables.instants import text_of

REQUESTS = (
    "request_id",
    "logged_at",
    "feature_set",
    "deployment",
    "versions",
    "caller",
    "mode",
    "answered_at",
    "entity",
    "answer",
    "flags",
)
PREDICTIONS = ("prediction_id", "logged_at", "model", "request_id", "entity", "score")
LABELS = ("prediction_id", "logged_at", "model", "label", "value")

PAST = "about a past instant"
"""Reason of answers that no model was asked for."""
AGAIN = "answered again under the same id"
"""Reason of all answers of a request and an entity but the newest."""

_JOINED = """
WITH newest_labels AS (
    SELECT * FROM labels
    QUALIFY row_number() OVER (
        PARTITION BY prediction_id, model ORDER BY event_time DESC, "partition" DESC, "offset" DESC
    ) = 1
),
corrected AS (
    SELECT prediction_id, model, count(DISTINCT (label, value)) > 1 AS corrected
    FROM labels GROUP BY prediction_id, model
),
links AS (
    SELECT prediction_id, model, request_id, entity FROM predictions
    WHERE request_id IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY prediction_id, model ORDER BY event_time DESC, "partition" DESC, "offset" DESC
    ) = 1
),
labelled AS (
    SELECT l.label, l.value, l.event_time AS label_us, c.corrected,
           coalesce(k.request_id, l.prediction_id) AS request_id, k.entity
    FROM newest_labels l JOIN corrected c
      ON c.prediction_id = l.prediction_id AND c.model IS NOT DISTINCT FROM l.model
    LEFT JOIN links k
      ON k.prediction_id = l.prediction_id AND (l.model IS NULL OR k.model = l.model)
),
counted AS (
    SELECT *, count(DISTINCT entity) OVER (PARTITION BY request_id) AS entities FROM requests
),
scored AS (
    SELECT r.number, s.score
    FROM counted r JOIN predictions s ON s.model = $beside AND s.score IS NOT NULL
        AND coalesce(s.request_id, s.prediction_id) = r.request_id
        AND (s.entity = r.entity OR (s.entity IS NULL AND r.entities = 1))
    QUALIFY row_number() OVER (
        PARTITION BY r.number ORDER BY s.event_time DESC, s."partition" DESC, s."offset" DESC
    ) = 1
)
SELECT r.number,
       any_value(l.label) AS label, any_value(l.value) AS value,
       any_value(l.label_us) AS label_us, bool_or(l.corrected) AS corrected,
       count(DISTINCT (l.label, l.value)) AS labels, any_value(s.score) AS score
FROM counted r
LEFT JOIN labelled l ON l.request_id = r.request_id
    AND (l.entity = r.entity OR (l.entity IS NULL AND r.entities = 1))
LEFT JOIN scored s ON s.number = r.number
GROUP BY r.number ORDER BY r.number
"""


@dataclass(frozen=True)
class LoggedRows:
    """Logged requests, a row per entity, the oldest first.

    requests: columns of the log. label, value: of the newest label; null where there is none yet.
    label_us: when it came. score: of the model beside, as it was sent. labels: how many different
    labels a row has: more than one where several predictions of it have others. left_out: reason ->
    logged answers that are none of the rows. inputs: log -> what of its archive was read.
    """

    requests: pa.Table
    label: pa.ChunkedArray
    value: pa.ChunkedArray
    label_us: np.ndarray[Any, np.dtype[np.float64]]
    corrected: int
    labels: np.ndarray[Any, np.dtype[np.int64]]
    score: np.ndarray[Any, np.dtype[np.float64]]
    left_out: Counter[str]
    inputs: Mapping[str, Mapping[str, Any]]

    def __len__(self) -> int:
        return int(self.requests.num_rows)


def read_rows(
    deployment: Deployment,
    archive: Archive,
    *,
    log: str | None,
    feature_set: str | None,
    start_us: int,
    end_us: int | None,
    labels_until_us: int | None,
    beside: str,
) -> LoggedRows:
    """The requests of one feature set that were logged in [start_us, end_us).

    labels_until_us: the newest labels and scores count that came before. beside: the model whose
    scores were sent, or "". Raises UnknownName, BadRequest and NothingArchived.
    """
    source = log_of(deployment, log)
    inputs = dict[str, Mapping[str, Any]]()
    requests = _events(archive, source, REQUESTS, start_us, end_us, inputs)
    if requests is None:
        raise NothingArchived(
            f"nothing of {source.name!r} is archived yet",
            where=f"log.{source.name}",
            expected="answers that were logged, and an hourly archive since",
            next_step="wait for compact_slices, or trigger it",
        )
    requests = _of_one_set(requests, feature_set)
    left_out = Counter[str]()
    requests = _kept(requests, pc.equal(requests["mode"], "live"), left_out, PAST)
    whole = [is_entity(text) for text in requests["entity"].to_pylist()]
    whole = [a and is_answer(b) for a, b in zip(whole, requests["answer"].to_pylist(), strict=True)]
    requests = _kept(requests, pa.array(whole, pa.bool_()), left_out, NO_EVENT)
    order = [("event_time", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    requests = requests.sort_by(order)
    pairs = _pairs(requests)
    last = {pair: row for row, pair in enumerate(pairs)}
    newest = [last[pair] == row for row, pair in enumerate(pairs)]
    requests = _kept(requests, pa.array(newest, pa.bool_()), left_out, AGAIN)
    numbers = pa.array(np.arange(requests.num_rows), pa.int64())
    joined = _joined(
        requests.append_column("number", numbers),
        _of_kind(deployment, archive, "predictions", PREDICTIONS, labels_until_us, inputs),
        _of_kind(deployment, archive, "labels", LABELS, labels_until_us, inputs),
        beside,
    )
    return LoggedRows(
        requests,
        joined["label"],
        joined["value"],
        _doubles(joined["label_us"]),
        int(pc.sum(joined["corrected"].cast(pa.int64())).as_py() or 0),
        np.asarray(joined["labels"].to_numpy(), np.int64),
        _doubles(joined["score"]),
        left_out,
        inputs,
    )


def sent_scores(
    deployment: Deployment,
    archive: Archive,
    rows: LoggedRows,
    labels_until_us: int | None,
    model: str,
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The newest score of each row that was sent as a prediction of a model; NaN without one."""
    numbers = pa.array(np.arange(len(rows)), pa.int64())
    inputs = dict[str, Mapping[str, Any]]()
    predictions = _of_kind(deployment, archive, "predictions", PREDICTIONS, labels_until_us, inputs)
    joined = _joined(
        rows.requests.append_column("number", numbers),
        predictions,
        pa.table({name: pa.array([], kind) for name, kind in _NO_LABELS.items()}),
        model,
    )
    return _doubles(joined["score"])


_NO_LABELS = {
    **{name: pa.string() for name in LABELS},
    "value": pa.float64(),
    **{name: pa.int64() for name in ("logged_at", "event_time", "partition", "offset")},
}


def _joined(requests: pa.Table, predictions: pa.Table, labels: pa.Table, beside: str) -> pa.Table:
    with duckdb.connect() as connection:
        names = ("number", "request_id", "entity")
        connection.register("requests", requests.select(names))
        connection.register("predictions", predictions)
        connection.register("labels", labels)
        return connection.sql(_JOINED, params={"beside": beside}).to_arrow_table()


def _events(
    archive: Archive,
    source: Source,
    columns: Sequence[str],
    start_us: int,
    end_us: int | None,
    inputs: dict[str, Mapping[str, Any]],
) -> pa.Table | None:
    try:
        reaches: Archived = archive.reaches(source.name)
    except NothingArchived:
        return None
    until_us = reaches.until_us if end_us is None else end_us
    inputs[source.name] = {
        "archive_version": reaches.archive_version,
        "snapshot_id": reaches.snapshot_id,
        "from": text_of(start_us),
        "to": text_of(until_us),
    }
    return archive.events(source, columns, start_us, until_us, reaches.archive_version)


def _of_kind(
    deployment: Deployment,
    archive: Archive,
    kind: str,
    columns: Sequence[str],
    end_us: int | None,
    inputs: dict[str, Mapping[str, Any]],
) -> pa.Table:
    """Events of all sources of a kind; an empty table where there are none."""
    sources = [source for source in deployment.sources if source.log_kind == kind]
    read = [_events(archive, source, columns, 0, end_us, inputs) for source in sources]
    names = (*columns, "event_time", "partition", "offset")
    tables = [table.select(names) for table in read if table is not None]
    if tables:
        return pa.concat_tables(tables)
    texts = {name: pa.array([], pa.string()) for name in columns}
    numbers = {name: pa.array([], pa.float64()) for name in ("score", "value") if name in columns}
    ints = {name: pa.array([], pa.int64()) for name in ("event_time", "partition", "offset")}
    return pa.table(texts | numbers | ints)


def _of_one_set(requests: pa.Table, feature_set: str | None) -> pa.Table:
    sets = pc.unique(requests["feature_set"]).to_pylist()
    if feature_set is not None:
        return of_set(requests, feature_set, "--set")
    if len({base_of(name) for name in sets}) != 1:
        raise BadRequest(
            f"answers of {len(sets)} feature sets were logged in this time",
            where="--set",
            expected="one of " + (", ".join(sorted(sets)) or "them: none was logged in it"),
            next_step="name one" if sets else "name another time",
        )
    return requests


def _doubles(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    filled = column.cast(pa.float64()).combine_chunks().fill_null(float("nan"))
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.float64)


def _kept(
    requests: pa.Table, mask: pa.Array | pa.ChunkedArray, left_out: Counter[str], reason: str
) -> pa.Table:
    kept = requests.filter(mask)
    left_out[reason] += requests.num_rows - kept.num_rows
    return kept


def _pairs(requests: pa.Table) -> list[tuple[str, str]]:
    ids, entities = requests["request_id"].to_pylist(), requests["entity"].to_pylist()
    return list(zip(ids, entities, strict=True))


def is_answer(text: str) -> bool:
    """Tells whether a text is a JSON object of values."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def answered(rows: LoggedRows, types: Mapping[str, pa.DataType]) -> pa.Table | None:
    """Values of these features as they were answered; None where an answer lacks one. types: of the
    features, by ref. Raises BadRequest for a value that is none of its feature's type."""
    answers = [json.loads(text) for text in rows.requests["answer"].to_pylist()]
    if not all(ref in answer for answer in answers for ref in types):
        return None
    columns = {}
    for ref, kind in types.items():
        try:
            columns[ref] = typed([answer[ref] for answer in answers], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise BadRequest(
                f"an answer has a value of {ref!r} that is no {kind}: {error}",
                where=ref,
                expected="answers of the feature as it is deployed",
                next_step="name a time in which it had this type (--start)",
            ) from error
    return pa.table(columns)


def meant_otherwise(
    rows: LoggedRows,
    refs: Sequence[str],
    deployment: Deployment,
    stood: Callable[[], Mapping[str, Deployment]],
) -> tuple[str, ...]:
    """The features that some answer has by another definition than is deployed.

    A view may have been promoted since. A definition that nobody has any more counts as another.
    stood: digest -> deployment.
    """
    digests = pc.unique(rows.requests["deployment"]).to_pylist()
    others = [stood().get(digest) for digest in digests if digest != deployment.digest]
    return tuple(
        ref
        for ref in refs
        if any(other is None or not _means_alike(deployment, other, ref) for other in others)
    )


def _means_alike(now: Deployment, then: Deployment, ref: str) -> bool:
    try:
        (unit, feature), (unit_then, feature_then) = now.resolve(ref), then.resolve(ref)
    except UnknownName:
        return False
    return (
        unit.storage_fingerprint == unit_then.storage_fingerprint
        and feature.aggregate.meaning() == feature_then.aggregate.meaning()
        and feature.window.stored() == feature_then.window.stored()
    )
