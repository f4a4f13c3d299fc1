"""A model's scores are those of the library that trained it, row by row, or an error of the row."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import skops.io
from skl2onnx import to_onnx
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from slicewise.errors import BadRequest, SettingsError, StoreUnavailable
from slicewise.models.declared import DeclaredModel
from slicewise.models.scoring import scored

FEATURES = ("a:x", "a:y")
CHANCE = np.random.default_rng(7)
X = CHANCE.normal(size=(300, 2))
Y = (X[:, 0] + CHANCE.normal(size=300) > 0).astype(int)
TABLE = pa.table({"a:x": X[:, 0], "a:y": X[:, 1]})


def declared(kind: str, location: object, **more: Any) -> DeclaredModel:
    return DeclaredModel("m", FEATURES, kind, str(location), **more)


def saved(folder: Path, estimator: Any) -> Path:
    skops.io.dump(estimator, folder / "m.skops")
    return folder / "m.skops"


def test_a_classifier_gives_the_probability_of_its_second_class(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(X, Y)
    scores = scored(declared("skops", saved(tmp_path, estimator)), TABLE)
    assert scores.values.tolist() == estimator.predict_proba(X)[:, 1].tolist()
    assert not scores.errors


def test_a_regressor_gives_its_prediction_of_whole_numbers_and_truths_too(tmp_path: Path) -> None:
    estimator = LinearRegression().fit(X, X[:, 0] * 3)
    table = pa.table({"a:x": [1, 2, None], "a:y": [True, False, None]})
    model = declared("skops", saved(tmp_path, estimator), missing=5.0)
    wanted = estimator.predict(np.array([[1.0, 1.0], [2.0, 0.0], [5.0, 5.0]]))
    assert scored(model, table).values.tolist() == wanted.tolist()


def test_onnx_gives_what_the_library_gives(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(X, Y)
    for zipmap, name in ((False, "tensor"), (True, "map")):
        kind = np.float32 if zipmap else np.float64
        made = to_onnx(estimator, X[:1].astype(kind), options={"zipmap": zipmap})
        (tmp_path / f"{name}.onnx").write_bytes(made.SerializeToString())
    scores = scored(declared("onnx", tmp_path / "tensor.onnx"), TABLE)
    assert scores.values == pytest.approx(estimator.predict_proba(X)[:, 1])
    with pytest.raises(SettingsError, match="zipmap=False"):
        scored(declared("onnx", tmp_path / "map.onnx"), TABLE)


def test_rows_that_a_model_fails_on_are_named_and_the_others_have_scores(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(X, Y)  # which takes no missing values
    with_nan = X.copy()
    with_nan[[3, 250], 1] = np.nan
    table = pa.table({"a:x": with_nan[:, 0], "a:y": pa.array(with_nan[:, 1], from_pandas=True)})
    scores = scored(declared("skops", saved(tmp_path, estimator)), table)
    assert sorted(scores.errors) == [3, 250]
    assert all("NaN" in why for why in scores.errors.values())
    assert np.isnan(scores.values[[3, 250]]).all()
    left = np.delete(np.arange(300), [3, 250])
    assert scores.values[left].tolist() == estimator.predict_proba(X[left])[:, 1].tolist()
    trees = HistGradientBoostingClassifier(max_iter=3).fit(with_nan, Y)  # which takes them
    trusted = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",)
    model = declared("skops", saved(tmp_path, trees), trusted=trusted)
    assert scored(model, table).values.tolist() == trees.predict_proba(with_nan)[:, 1].tolist()


def doubled(matrix: Any) -> Any:
    return matrix * 2


def test_a_file_with_code_of_its_own_is_refused_until_it_is_trusted(tmp_path: Path) -> None:
    path = saved(tmp_path, FunctionTransformer(doubled))
    with pytest.raises(SettingsError, match="doubled"):
        scored(declared("skops", path), TABLE)


@pytest.mark.parametrize("kind", ["skops", "onnx"])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        scored(declared(kind, tmp_path / "nothing"), TABLE)
    (tmp_path / "text").write_text("no model")
    with pytest.raises(SettingsError, match="cannot be read"):
        scored(declared(kind, tmp_path / "text"), TABLE)


def test_a_model_of_other_inputs_is_refused(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(X, Y)
    with pytest.raises(SettingsError, match="2 inputs, and its features are 1"):
        scored(declared("skops", saved(tmp_path, estimator)), TABLE.select(["a:x"]))


def test_a_version_is_given_the_features_that_it_was_trained_on(tmp_path: Path) -> None:
    """The name of a feature set may stand for other features since."""
    file = saved(tmp_path, LogisticRegression().fit(X, Y))
    assert not scored(declared("skops", file, trained_on=FEATURES), TABLE).errors
    with pytest.raises(SettingsError, match="without a:z; with a:y"):
        scored(declared("skops", file, trained_on=("a:x", "a:z")), TABLE)
    with pytest.raises(SettingsError, match="reordered"):
        scored(declared("skops", file, trained_on=("a:y", "a:x")), TABLE)


def test_a_text_is_no_input_and_is_named(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(X, Y)
    table = pa.table({"a:x": [1.0], "a:song": ["x"]})
    with pytest.raises(BadRequest, match="'a:song' is string"):
        scored(declared("skops", saved(tmp_path, estimator)), table)


@contextmanager
def endpoint(reply: Any, status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """An HTTP server that gives one reply, or what a function makes of the rows."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            bodies.append(body)
            made = json.dumps(reply(body["rows"]) if callable(reply) else reply).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(made)))
            self.end_headers()
            self.wfile.write(made)

        def log_message(self, *_: object) -> None:
            """Writes no lines."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/score", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_endpoint_gets_rows_and_gives_scores_in_their_order() -> None:
    rows = 2_500
    table = pa.table({"a:x": list(range(rows)), "a:song": [f"s{n}" for n in range(rows)]})

    def reply(given: list[dict[str, Any]]) -> dict[str, Any]:
        return {"scores": [None if row["a:x"] == 7 else row["a:x"] / 2 for row in given]}

    with endpoint(reply) as (url, bodies):
        scores = scored(declared("url", url), table)
    assert [len(body["rows"]) for body in bodies] == [1000, 1000, 500]
    assert bodies[0]["rows"][1] == {"a:x": 1, "a:song": "s1"}
    assert scores.values[8:12].tolist() == [4.0, 4.5, 5.0, 5.5]
    assert dict(scores.errors) == {7: "its score is None"}


@pytest.mark.parametrize(
    ("reply", "status"),
    [({"scores": [1.0]}, 200), ({"score": []}, 200), ([], 200), ({"scores": [0.0, 0.0]}, 500)],
)
def test_an_endpoint_that_answers_otherwise_is_said(reply: Any, status: int) -> None:
    table = pa.table({"a:x": [1, 2]})
    with endpoint(reply, status) as (url, _), pytest.raises(StoreUnavailable):
        scored(declared("url", url), table)


def test_an_endpoint_that_is_away_is_said() -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        scored(declared("url", "http://127.0.0.1:1/"), pa.table({"a:x": [1]}))


def test_the_class_that_is_meant_may_be_the_first(tmp_path: Path) -> None:
    names = np.where(Y == 1, "bad", "good")
    estimator = LogisticRegression().fit(X, names)
    model = declared("skops", saved(tmp_path, estimator), positive="bad")
    assert scored(model, TABLE).values.tolist() == estimator.predict_proba(X)[:, 0].tolist()
    with pytest.raises(SettingsError, match="bad, good, not ugly"):
        scored(declared("skops", saved(tmp_path, estimator), positive="ugly"), TABLE)


def test_columns_in_another_order_than_the_model_has_are_refused(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(TABLE.to_pandas()[["a:y", "a:x"]], Y)
    with pytest.raises(SettingsError, match="trained on a:y, a:x"):
        scored(declared("skops", saved(tmp_path, estimator)), TABLE)


@pytest.mark.parametrize("estimator", [LogisticRegression(), StandardScaler().fit(X)])
def test_what_predicts_nothing_is_refused(tmp_path: Path, estimator: Any) -> None:
    with pytest.raises(SettingsError, match="no fitted"):
        scored(declared("skops", saved(tmp_path, estimator)), TABLE)


def test_a_model_that_fails_on_every_row_is_refused(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(X, Y)
    empty = pa.table({"a:x": pa.nulls(5), "a:y": pa.nulls(5)})
    with pytest.raises(SettingsError, match="fails on every row: ValueError"):
        scored(declared("skops", saved(tmp_path, estimator)), empty)


def test_an_endpoint_gets_values_as_the_api_writes_them() -> None:
    at = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    columns = {"a:n": [math.nan], "a:t": at, "a:d": pa.array([Decimal("1.50")])}
    with endpoint({"scores": [10**400]}) as (url, bodies):
        scores = scored(declared("url", url), pa.table(columns))
    row = {"a:n": "NaN", "a:t": "2023-11-14T22:13:20Z", "a:d": "1.50"}
    assert bodies[0]["rows"] == [row]
    assert list(scores.errors) == [0]
