"""A model gives a score per row, or a reason why it gives none; no file of it runs code of its
own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicewise.codec.plain import converter, json_safe
from slicewise.errors import BadRequest, SettingsError, StoreUnavailable
from slicewise.models.declared import DeclaredModel, require_live

Doubles = npt.NDArray[np.float64]
Predict = Callable[[Doubles], Doubles]
AT_ONCE = 1_000
"""Rows of one request to an endpoint."""
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Scores:
    """Scores of some rows; NaN where there is none. errors: row -> why there is none."""

    values: Doubles
    errors: Mapping[int, str]


def scored(model: DeclaredModel, features: pa.Table) -> Scores:
    """The model's scores of these rows. features: a column per input of the model, in its order.

    Raises SettingsError for a model that cannot be read, BadRequest for features that are no
    numbers, StoreUnavailable for an endpoint that does not answer. Rows that it fails on have
    errors.
    """
    require_live(model, "model")
    if model.kind == "url":
        return _from_endpoint(model, features)
    predict = _opened(model, features.column_names)
    values, errors = _predicted(model, predict, features)
    if len(values) > 1 and len(errors) == len(values) and len(set(errors.values())) == 1:
        raise _unreadable(model, f"it fails on every row: {errors[0]}")
    return _finite(values, errors)


def scorer(model: DeclaredModel, refs: Sequence[str]) -> Callable[[pa.Table], Scores]:
    """Scores as `scored` gives them, of a model that is read once: for whoever has many tables.

    refs: features of the model, in its order. One that fails on every row of a table has errors
    alone there, since a table may be a single request. Raises SettingsError; calling it raises
    BadRequest and StoreUnavailable.
    """
    require_live(model, "model")
    if model.kind == "url":
        return lambda features: _from_endpoint(model, features)
    predict = _opened(model, refs)
    return lambda features: _finite(*_predicted(model, predict, features))


def _opened(model: DeclaredModel, refs: Sequence[str]) -> Predict:
    if model.trained_on and model.trained_on != tuple(refs):
        lost = [ref for ref in model.trained_on if ref not in refs]
        new = [ref for ref in refs if ref not in model.trained_on]
        of = f"feature set {model.features!r}" if isinstance(model.features, str) else "its list"
        raise SettingsError(
            f"model {model.name!r} was trained on other features than {of} has now: "
            + (f"without {', '.join(lost)}; with {', '.join(new)}" if lost or new else "reordered"),
            where=model.location,
            expected=", ".join(model.trained_on),
            next_step="train a version on those of now (slicewise train), or bring the features of "
            "then back (slicewise promote)",
        )
    return (_skops if model.kind == "skops" else _onnx)(model, refs)


def _predicted(
    model: DeclaredModel, predict: Predict, features: pa.Table
) -> tuple[Doubles, dict[int, str]]:
    matrix = matrix_of(features, model.missing)
    values, errors = np.full(len(matrix), np.nan), dict[int, str]()
    _predict(predict, matrix, 0, values, errors)
    return values, errors


def _finite(values: Doubles, errors: dict[int, str]) -> Scores:
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        errors.setdefault(row, f"its score is {values[row]:g}")
        values[row] = np.nan
    return Scores(values, errors)


def _predict(
    predict: Predict, matrix: Doubles, first: int, values: Doubles, errors: dict[int, str]
) -> None:
    """Predicts all rows at once; where that fails, halves of them, down to the rows at fault."""
    if not len(matrix):
        return
    try:
        values[first : first + len(matrix)] = predict(matrix)
    except Exception as error:  # noqa: BLE001  # a model may raise anything
        if len(matrix) == 1:
            text = str(error).strip().splitlines()
            errors[first] = f"{type(error).__name__}: {text[0] if text else ''}"[:300]
            return
        half = len(matrix) // 2
        _predict(predict, matrix[:half], first, values, errors)
        _predict(predict, matrix[half:], first + half, values, errors)


def matrix_of(features: pa.Table, missing: float) -> Doubles:
    """Features as a model of a file takes them. Raises BadRequest for what is no number."""
    columns = []
    for name, column in zip(features.column_names, features.columns, strict=True):
        kind = column.type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (number or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise BadRequest(
                f"feature {name!r} is {kind}",
                where="features of the model",
                expected="numbers and booleans",
                next_step="leave it out, or give the model as an endpoint, which takes any value",
            )
        flat = column.combine_chunks().cast(pa.float64(), safe=False)
        columns.append(np.asarray(flat.fill_null(missing).to_numpy(zero_copy_only=False)))
    return np.column_stack(columns).astype(np.float64)


def _skops(model: DeclaredModel, refs: Sequence[str]) -> Predict:
    import skops.io

    path = Path(model.location)
    try:
        unknown = [t for t in skops.io.get_untrusted_types(file=path) if t not in model.trusted]
        if unknown:
            raise SettingsError(
                f"model {model.name!r} holds types that nobody trusts: {', '.join(unknown)}",
                where=str(path),
                expected="types of scikit-learn that skops knows, or that `trusted` names",
                next_step="look at where the file is from; then name them as trusted",
            )
        estimator = skops.io.load(path, trusted=list(model.trusted))
    except SettingsError:
        raise
    except Exception as error:
        raise _unreadable(model, error) from error
    has_classes = hasattr(estimator, "classes_")
    if not hasattr(estimator, "predict") or has_classes != hasattr(estimator, "predict_proba"):
        raise _unreadable(
            model, "it is no fitted regressor, and no fitted classifier with predict_proba"
        )
    _check_inputs(model, getattr(estimator, "n_features_in_", len(refs)), len(refs))
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    if names != list(refs) and set(names) == set(refs):
        raise SettingsError(
            f"model {model.name!r} was trained on {', '.join(names)}, in this order",
            where=model.location,
            expected="its features in that order",
            next_step="correct `features` of the model",
        )
    # what was fitted on named columns is given them: it may choose some by their names
    given = (lambda matrix: named_columns(matrix, names).to_pandas()) if names else _as_given
    if not has_classes:
        predict = estimator.predict
        return lambda matrix: np.asarray(predict(given(matrix)), np.float64).reshape(len(matrix))
    classes = [str(one) for one in np.asarray(estimator.classes_).tolist()]
    if len(classes) != 2:
        raise _unreadable(model, f"it has {len(classes)} classes, not two")
    if model.positive and isinstance(estimator.classes_[0], str) and model.positive not in classes:
        raise _unreadable(model, f"its classes are {', '.join(classes)}, not {model.positive}")
    # classes are sorted: the one that is meant may be the first
    column = classes.index(model.positive) if model.positive in classes else 1
    shares = estimator.predict_proba
    return lambda matrix: np.asarray(shares(given(matrix)), np.float64)[:, column]


def named_columns(matrix: Doubles, refs: Sequence[str]) -> pa.Table:
    """The matrix as a table of doubles, a column per input."""
    return pa.table([pa.array(column) for column in matrix.T], names=list(refs))


def _as_given(matrix: Doubles) -> Any:
    return matrix


def _onnx(model: DeclaredModel, refs: Sequence[str]) -> Predict:
    inputs = len(refs)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.location, options)
    except Exception as error:
        raise _unreadable(model, error) from error
    given = session.get_inputs()
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    if len(given) != 1 or given[0].type not in types or len(given[0].shape) != 2:
        shown = ", ".join(f"{one.name}: {one.type} {one.shape}" for one in given)
        raise _unreadable(model, f"its inputs are {shown}, not one matrix of numbers")
    width = given[0].shape[1]
    _check_inputs(model, width if isinstance(width, int) else inputs, inputs)
    outputs = [one for one in session.get_outputs() if one.type in types]
    named = [one for one in outputs if one.name == "probabilities"] or outputs
    if not named:
        raise _unreadable(model, "none of its outputs is a tensor of numbers (zipmap=False)")
    name, shape = named[0].name, named[0].shape
    numbers = shape[-1] if len(shape) > 1 else 1
    if isinstance(numbers, int) and numbers > 2:
        raise _unreadable(model, f"it gives {numbers} numbers per row, not one or two")

    def predict(matrix: Doubles) -> Doubles:
        fed = {given[0].name: matrix.astype(types[given[0].type])}
        scores = np.asarray(session.run([name], fed)[0], np.float64).reshape(len(matrix), -1)
        return scores[:, -1]

    return predict


def _from_endpoint(model: DeclaredModel, features: pa.Table) -> Scores:
    import httpx

    values = np.full(features.num_rows, np.nan)
    errors = dict[int, str]()
    with httpx.Client(timeout=TIMEOUT_S, trust_env=False) as client:
        for first in range(0, features.num_rows, AT_ONCE):
            rows = _rows_of(features.slice(first, AT_ONCE))
            try:
                reply = client.post(model.location, json={"model": model.name, "rows": rows})
                reply.raise_for_status()
                scores = reply.json()["scores"]
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                raise StoreUnavailable(
                    f"model {model.name!r} does not answer: {type(error).__name__}: {error}",
                    where=model.location,
                    expected='status 200 and {"scores": [number or null, …]}',
                    next_step="see that its endpoint runs, then start again",
                ) from error
            _take(model, scores, first, len(rows), values, errors)
    return Scores(values, errors)


_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Texts by which JSON has what it lacks."""


def typed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of a feature as an answer in JSON has them, as a column of its type. Raises
    pa.ArrowException, TypeError, ValueError and OverflowError for a value that is none."""
    if pa.types.is_floating(kind):
        numbers = [None if v is None else float(_DOUBLES.get(v, v)) for v in values]
        return pa.array(numbers, kind)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pa.array(values, kind)
    return pa.array(values)


def _rows_of(features: pa.Table) -> list[dict[str, Any]]:
    """Rows of an endpoint's request: values as the API writes them."""
    columns = [
        [json_safe(value) for value in converter(column.type)(column.combine_chunks())]
        for column in features.columns
    ]
    names = features.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _take(
    model: DeclaredModel,
    scores: Any,
    first: int,
    rows: int,
    values: Doubles,
    errors: dict[int, str],
) -> None:
    if not isinstance(scores, list) or len(scores) != rows:
        raise StoreUnavailable(
            f"model {model.name!r} gave other than {rows} scores for {rows} rows",
            where=model.location,
            expected="a score, or null, for each row in its order",
            next_step="correct the endpoint",
        )
    for row, score in enumerate(scores, first):
        number = np.nan
        if isinstance(score, int | float) and not isinstance(score, bool):
            with suppress(OverflowError):
                number = float(score)
        values[row] = number
        if not np.isfinite(number):
            values[row], errors[row] = np.nan, f"its score is {score!r}"[:300]


def _check_inputs(model: DeclaredModel, wanted: int, given: int) -> None:
    if wanted != given:
        raise SettingsError(
            f"model {model.name!r} has {wanted} inputs, and its features are {given}",
            where=model.location,
            expected="the features that it was trained on, in their order",
            next_step="correct `features` of the model",
        )


def _unreadable(model: DeclaredModel, error: object) -> SettingsError:
    lines = str(error).strip().splitlines()
    return SettingsError(
        f"model {model.name!r} cannot be read: {lines[0] if lines else error!r}"[:400],
        where=model.location,
        expected="a file of skops.io.dump with two classes or a number, or of ONNX with one matrix "
        "of numbers as input",
        next_step="write it anew; docs/guides/models.md shows how",
    )
