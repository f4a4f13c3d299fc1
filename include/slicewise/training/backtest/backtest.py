"""Logged requests go through a model, beside the one that answered them: scores, labels, measures
and where the new one is worse."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.sketches.membership import answer_type
from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.models.declared import DAMAGED, TRAINED, DeclaredModel
from slicewise.models.measures import (
    Doubles,
    Gain,
    Measures,
    gain,
    groups_of,
    losses,
    measured,
    single_auc,
)
from slicewise.models.scoring import Scores, scored
from slicewise.settings import Settings
from slicewise.training.api import training_set
from slicewise.training.archiving.offline import Offline
from slicewise.training.backtest.rows import (
    LoggedRows,
    answered,
    meant_otherwise,
    read_rows,
    sent_scores,
)
from slicewise.training.logged.columns import entity_columns
from slicewise.training.logged.replaying import definitions_that_stood
from slicewise.training.requests.unit_requests import (
    UnitRequest,
    as_answered,
    entity_types,
    questions_of,
    resolve,
)

Notify = Callable[[str], None]
LEAST_ROWS = 20
"""Fewest rows of a slice that is measured by itself."""
MOST_SLICES = 20
LEAKS_FROM = 0.995
"""Area under the curve from which a single feature is taken to know the label."""
SERVED = "served"
"""Features as they were answered."""
SENT, COMPUTED, BOTH = "sent", "computed", "sent, else computed"
"""Scores of the model beside: as they came, or made of the answers."""


@dataclass(frozen=True)
class Slice:
    """Rows that share a value of a column: an entity's, the caller, the versions, the hour."""

    column: str
    value: str
    gain: Gain

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"column": self.column, "value": self.value} | self.gain.to_json()


@dataclass(frozen=True)
class Leak:
    """A feature that by itself tells the label, or nearly does."""

    feature: str
    auc: float


@dataclass(frozen=True)
class Backtest:
    """Outcome of a backtest of B, beside A where there is one.

    left_out: reason -> rows that were not measured. features: "served", or the knowledge by which
    they were computed. scores_of_a: "sent" to the API, "computed" from the answers, or "sent, else
    computed". by_b, by_a:
    measures over the rows that both have scores and labels of. slices: where B is worse beyond
    chance, the worst first. inputs: what was read, by which the same comes again.
    """

    model: str
    beside: str
    requests: int
    measured: int
    left_out: Mapping[str, int]
    examples: Sequence[str]
    features: str
    scores_of_a: str
    by_b: Measures
    by_a: Measures | None
    gain: Gain | None
    slices: tuple[Slice, ...]
    leaks: tuple[Leak, ...]
    labels_before: int
    """Rows whose label came before their answer."""
    corrected: int
    """Rows whose label was corrected."""
    inputs: Mapping[str, Any]
    rows: pa.Table
    """A row per logged entity: what it was, its label and its scores."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the rows."""
        return {
            "model": self.model,
            "beside": self.beside or None,
            "requests": self.requests,
            "measured": self.measured,
            "left_out": dict(self.left_out),
            "examples": list(self.examples),
            "features": self.features,
            "scores_of_a": self.scores_of_a or None,
            "measures": self.by_b.to_json(),
            "measures_of_a": None if self.by_a is None else self.by_a.to_json(),
            "gain": None if self.gain is None else self.gain.to_json(),
            "worse_slices": [one.to_json() for one in self.slices],
            "leaks": [{"feature": one.feature, "auc": one.auc} for one in self.leaks],
            "labels_before_answers": self.labels_before,
            "corrected_labels": self.corrected,
            "inputs": dict(self.inputs),
        }


def run_backtest(
    settings: Settings,
    models: Mapping[str, DeclaredModel],
    model: DeclaredModel,
    *,
    beside: str = "",
    scores: str = "computed",
    log: str | None = None,
    feature_set: str | None = None,
    start_us: int = 0,
    end_us: int | None = None,
    labels_until_us: int | None = None,
    knowledge: str = "arrival",
    archive: bool = True,
    notify: Notify,
) -> Backtest:
    """Judges a model on the requests that were logged in [start_us, end_us).

    scores: of the model: "computed" now, or "sent" as predictions of its name
    (docs/guides/shadow.md). beside: the model that answered them: its scores are those that were
    sent, and of other rows those of the model of this name. labels_until_us: labels that came later
    do not count. knowledge: of features that were not answered then, by which they are computed
    from the archive. Raises what reading the archive, building a training set and reading a model
    raise.
    """
    offline = Offline.open(settings)
    deployment = offline.deployment
    rows = read_rows(
        deployment,
        offline.archive,
        log=log,
        feature_set=feature_set,
        start_us=start_us,
        end_us=end_us,
        labels_until_us=labels_until_us,
        beside=beside,
    )
    notify(f"{len(rows):,} logged answers, of which {_labelled(rows):,} have a label")
    if not len(rows):
        raise BadRequest(
            "no answer was logged in this time",
            where="--start, --end",
            expected="a time with logged answers",
            next_step="name another; slicewise replay-requests counts them",
        )
    labels = _labels(rows, model)
    # before they are read: a file may be replaced meanwhile
    named = [models[name] for name in (model.name, beside) if name in models]
    digests = {one.name: _digest(one) for one in named if one.kind not in (TRAINED, DAMAGED)}
    features, how = _features(settings, deployment, model, rows, knowledge, archive, notify)
    notify(f"scores of {model.name}")
    if scores == SENT:
        values = sent_scores(deployment, offline.archive, rows, labels_until_us, model.name)
        scores_b = Scores(values, {})
        _refuse_unsent(model, scores_b)
        digests.pop(model.name, None)
    else:
        scores_b = scored(model, features)
    of_beside, sent = beside_scores(deployment, models, beside, rows, notify)
    scores_a = of_beside.values
    left = Counter(rows.left_out)
    usable = np.isfinite(labels)
    left["without a label"] = int((~usable).sum())
    ambiguous = usable & (rows.labels > 1)
    left["with labels that contradict each other"] = int(ambiguous.sum())
    usable &= ~ambiguous
    failed = usable & ~np.isfinite(scores_b.values)
    left[f"without a score of {model.name}"] = int(failed.sum())
    usable &= ~failed
    if beside:
        lacking = usable & ~np.isfinite(scores_a)
        left[f"without a score of {beside}"] = int(lacking.sum())
        usable &= ~lacking
    of_label, of_b, of_a = labels[usable], scores_b.values[usable], scores_a[usable]
    both: Gain | None = None
    slices: tuple[Slice, ...] = ()
    if beside and len(of_label):
        loss_a, loss_b = losses(of_label, of_a, of_b)
        entities = rows.requests["entity"].filter(pa.array(usable)).to_pylist()
        both = gain(loss_a, loss_b, groups_of(entities))
        slices = _slices(rows, usable, loss_a, loss_b)
    if sent == SENT:
        digests.pop(beside, None)
    return Backtest(
        model.name,
        beside,
        len(rows) + rows.left_out.total(),
        int(usable.sum()),
        {reason: count for reason, count in left.items() if count},
        [*_examples(rows, model.name, scores_b), *_examples(rows, beside, of_beside)],
        how,
        sent,
        measured(of_label, of_b, model.threshold),
        measured(of_label, of_a, _threshold(models, beside)) if beside else None,
        both,
        slices,
        _leaks(features, usable, of_label),
        _before(rows),
        rows.corrected,
        {"logs": rows.inputs, "models": digests, "deployment": deployment.digest},
        _table(rows, labels, scores_a, scores_b, beside),
    )


def _refuse_unsent(model: DeclaredModel, scores: Scores) -> None:
    if not np.isfinite(scores.values).any():
        raise BadRequest(
            f"no prediction of model {model.name!r} stands in the log",
            where="--scores",
            expected="predictions that were sent, or made by slicewise shadow",
            next_step="name a time in which some were, or leave --scores out",
        )


def _labelled(rows: LoggedRows) -> int:
    return int(np.isfinite(rows.label_us).sum())


def _labels(rows: LoggedRows, model: DeclaredModel) -> Doubles:
    labels = np.full(len(rows), np.nan)
    _refuse_positive(rows, model)
    texts = zip(rows.label.to_pylist(), rows.value.to_pylist(), strict=True)
    for row, (label, value) in enumerate(texts):
        if value is not None:
            labels[row] = value
        elif label is not None:
            if not model.positive:
                raise BadRequest(
                    f"the label of request {rows.requests['request_id'][row].as_py()!r} is the text "
                    f"{label!r}",
                    where=f"[models.{model.name}]",
                    expected="labels with a value, or positive= for the label of a score of 1",
                    next_step=f'add positive = "{label}", if that is what a score of 1 stands for',
                )
            labels[row] = float(label == model.positive)
    return labels


def _refuse_positive(rows: LoggedRows, model: DeclaredModel) -> None:
    """Refuses a label for a score of 1 that no row has."""
    texts = sorted({text for text in rows.label.to_pylist() if text is not None})
    if model.positive and texts and model.positive not in texts:
        raise BadRequest(
            f"no label is {model.positive!r}",
            where=f"[models.{model.name}] positive",
            expected="one of " + ", ".join(texts[:10]),
            next_step="correct it: it is the label that a score of 1 stands for",
        )


def _features(
    settings: Settings,
    deployment: Deployment,
    model: DeclaredModel,
    rows: LoggedRows,
    knowledge: str,
    archive: bool,
    notify: Notify,
) -> tuple[pa.Table, str]:
    refs, requested, kinds = _inputs(deployment, model)
    others = meant_otherwise(rows, refs, deployment, lambda: definitions_that_stood(settings))
    served = None if others else answered(rows, kinds)
    if served is not None:
        return served, SERVED
    types: Mapping[str, str] = {**entity_types(requested), **questions_of(requested)}
    entities = rows.requests["entity"].to_pylist()
    for row, text in enumerate(entities):
        missing = types.keys() - json.loads(text).keys()
        if missing:
            raise BadRequest(
                f"the entity of request {rows.requests['request_id'][row].as_py()!r} lacks "
                f"{', '.join(sorted(missing))}",
                where=f"features of {model.name}",
                expected="requests whose entities have what its features are asked by",
                next_step="name a feature set of the same entity",
            )
    notify(
        f"features of {model.name} by {knowledge}: "
        + (
            f"by other definitions than now were answered {', '.join(others)}"
            if others
            else "they were not answered then"
        )
    )
    spine = pa.table({**entity_columns(entities, types), "at": rows.requests["answered_at"]})
    built = training_set(
        spine,
        list(refs),
        knowledge,
        deployment=deployment,
        settings=settings,
        archive=archive,
        progress=notify,
    )
    return as_answered(deployment, model.features, built.to_arrow().select(list(refs))), knowledge


def _inputs(
    deployment: Deployment, model: DeclaredModel
) -> tuple[tuple[str, ...], Sequence[UnitRequest], Mapping[str, pa.DataType]]:
    """Refs of a model's features in its order, what is asked of each unit, and their types."""
    named = model.features if isinstance(model.features, str) else list(model.features)
    refs, requested = resolve(deployment, named)
    kinds = {ref: answer_type(deployment.resolve(ref)[1].aggregate) for ref in refs}
    return refs, requested, kinds


def beside_scores(
    deployment: Deployment,
    models: Mapping[str, DeclaredModel],
    beside: str,
    rows: LoggedRows,
    notify: Notify,
) -> tuple[Scores, str]:
    """Scores of the model beside, and where they are from."""
    sent = np.isfinite(rows.score)
    if not beside or sent.all():
        return Scores(rows.score, {}), SENT if beside else ""
    declared, some = models.get(beside), bool(sent.any())
    if some and (declared is None or declared.kind in (TRAINED, DAMAGED)):
        return Scores(rows.score, {}), SENT
    if declared is None:
        raise BadRequest(
            f"no prediction of model {beside!r} stands in the log",
            where="--beside",
            expected="predictions that were sent to POST /v1/outcomes with the request's id, or a "
            "model of this name in models.toml",
            next_step="leave it out, or name the model that answered",
        )
    refs, _, kinds = _inputs(deployment, declared)
    given = answered(rows, kinds)
    if given is None and some:
        return Scores(rows.score, {}), SENT
    if given is None:
        raise BadRequest(
            f"no prediction of model {beside!r} was sent, and the answers lack some of its features",
            where="--beside",
            expected="answers with " + ", ".join(refs),
            next_step="send its predictions with the request's id, or leave it out",
        )
    lacking = np.flatnonzero(~sent)
    were = f"{int(sent.sum()):,} were" if some else "none was"
    notify(f"scores of {beside}: {were} sent, {len(lacking):,} are computed from the answers")
    computed = scored(declared, given.take(pa.array(lacking)))
    values = rows.score.copy()
    values[lacking] = computed.values
    errors = {int(lacking[row]): why for row, why in computed.errors.items()}
    return Scores(values, errors), BOTH if some else COMPUTED


def _threshold(models: Mapping[str, DeclaredModel], name: str) -> float:
    return models[name].threshold if name in models else 0.5


def _examples(rows: LoggedRows, model: str, scores: Scores) -> Sequence[str]:
    ids, first = rows.requests["request_id"], sorted(scores.errors.items())[:3]
    return [f"{model}, request {ids[row].as_py()}: {why}" for row, why in first]


def _slices(
    rows: LoggedRows,
    usable: np.ndarray[Any, np.dtype[np.bool_]],
    loss_a: Doubles,
    loss_b: Doubles,
) -> tuple[Slice, ...]:
    """Slices in which B is worse beyond chance, by losses of all rows together."""
    requests = rows.requests.filter(pa.array(usable))
    columns: dict[str, list[str]] = {
        name: [str(value) for value in requests[name].to_pylist()]
        for name in ("caller", "versions")
    }
    instants = requests["answered_at"].cast(pa.int64()).to_pylist()
    columns["hour"] = [f"{us // 3_600_000_000 % 24:02d}:00 UTC" for us in instants]
    texts = requests["entity"].to_pylist()
    entities = [json.loads(text) for text in texts]
    for name in dict.fromkeys(name for entity in entities for name in entity):
        columns[f"entity.{name}"] = [str(entity.get(name)) for entity in entities]
    groups = groups_of(texts)
    slices = []
    for name, values in columns.items():
        by_value: dict[str, list[int]] = {}
        for row, value in enumerate(values):
            by_value.setdefault(value, []).append(row)
        for value, numbers in by_value.items():
            if LEAST_ROWS <= len(numbers) < len(loss_a):
                own = gain(loss_a[numbers], loss_b[numbers], groups[numbers])
                if own.within is not None and own.difference > own.within:
                    slices.append(Slice(name, value, own))
    worst = sorted(slices, key=lambda one: (one.gain.within or 0.0) - one.gain.difference)
    return tuple(worst[:MOST_SLICES])


def _leaks(
    features: pa.Table, usable: np.ndarray[Any, np.dtype[np.bool_]], labels: Doubles
) -> tuple[Leak, ...]:
    leaks = []
    for name in features.column_names:
        kind = features[name].type
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            continue
        column = features[name].filter(pa.array(usable)).combine_chunks()
        values = column.cast(pa.float64(), safe=False).fill_null(float("nan"))
        auc = single_auc(labels, np.asarray(values.to_numpy(zero_copy_only=False)))
        if auc is not None and auc >= LEAKS_FROM:
            leaks.append(Leak(name, auc))
    return tuple(leaks)


def _before(rows: LoggedRows) -> int:
    answered_us = np.asarray(rows.requests["answered_at"].cast(pa.int64()).to_numpy(), np.float64)
    return int((rows.label_us < answered_us).sum())


def _table(
    rows: LoggedRows, labels: Doubles, scores_a: Doubles, scores_b: Scores, beside: str
) -> pa.Table:
    def column(values: Doubles) -> pa.Array:
        return pa.array(values, pa.float64(), mask=~np.isfinite(values))

    table = rows.requests.select(["request_id", "answered_at", "entity"])
    table = table.append_column("label", column(labels))
    if beside:
        table = table.append_column("score_a", column(scores_a))
    table = table.append_column("score_b", column(scores_b.values))
    why = [scores_b.errors.get(row) for row in range(len(rows))]
    return table.append_column("error_b", pa.array(why, pa.string()))


def _digest(model: DeclaredModel) -> str:
    """SHA-256 of a model's file, or its address."""
    if model.kind == "url":
        return model.location
    return hashlib.sha256(Path(model.location).read_bytes()).hexdigest()
