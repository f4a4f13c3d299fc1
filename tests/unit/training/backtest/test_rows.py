"""A logged request has the newest label of its prediction, and the newest score that was sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slicewise.training.backtest.rows import _joined


def requests(*pairs: tuple[str, str]) -> pa.Table:
    return pa.table(
        {
            "number": list(range(len(pairs))),
            "request_id": [pair[0] for pair in pairs],
            "entity": [pair[1] for pair in pairs],
        }
    )


def events(columns: dict[str, pa.DataType], *rows: dict[str, Any]) -> pa.Table:
    kinds = {
        **columns,
        "event_time": pa.int64(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
    given = [{"event_time": n, "partition": 0, "offset": n, **row} for n, row in enumerate(rows)]
    return pa.Table.from_pylist(given, schema=pa.schema(list(kinds.items())))


def predictions(*rows: dict[str, Any]) -> pa.Table:
    texts = dict.fromkeys(("prediction_id", "model", "request_id", "entity"), pa.string())
    return events({**texts, "score": pa.float64()}, *rows)


def labels(*rows: dict[str, Any]) -> pa.Table:
    texts = dict.fromkeys(("prediction_id", "model", "label"), pa.string())
    return events({**texts, "value": pa.float64()}, *rows)


def joined(requests: pa.Table, predictions: pa.Table, labels: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _joined(requests, predictions, labels, "a").to_pylist()
    return rows


def test_a_label_comes_by_its_prediction_or_by_the_requests_own_id() -> None:
    rows = joined(
        requests(("r0", "{}"), ("r1", "{}"), ("r2", "{}")),
        predictions({"prediction_id": "p", "model": "a", "request_id": "r0", "score": 0.5}),
        labels({"prediction_id": "p", "value": 1.0}, {"prediction_id": "r1", "label": "fair"}),
    )
    assert [row["value"] for row in rows] == [1.0, None, None]
    assert [row["label"] for row in rows] == [None, "fair", None]
    assert [row["score"] for row in rows] == [0.5, None, None]


def test_the_newest_label_counts_and_a_correction_is_seen() -> None:
    [row] = joined(
        requests(("r", "{}")),
        predictions(),
        labels(
            {"prediction_id": "r", "value": 1.0},
            {"prediction_id": "r", "value": 0.0, "event_time": 9},
            {"prediction_id": "r", "value": 1.0, "event_time": 5},
        ),
    )
    assert (row["value"], row["corrected"], row["labels"]) == (0.0, True, 1)


def test_a_label_that_comes_twice_is_one() -> None:
    twice = {"prediction_id": "r", "value": 1.0}
    [row] = joined(requests(("r", "{}")), predictions(), labels(twice, twice))
    assert (row["value"], row["corrected"], row["labels"]) == (1.0, False, 1)


def test_predictions_of_one_request_whose_labels_differ_are_seen() -> None:
    [row] = joined(
        requests(("r", "{}")),
        predictions(
            {"prediction_id": "p", "model": "a", "request_id": "r", "score": 0.1},
            {"prediction_id": "q", "model": "b", "request_id": "r", "score": 0.9},
        ),
        labels({"prediction_id": "p", "value": 1.0}, {"prediction_id": "q", "value": 0.0}),
    )
    assert row["labels"] == 2
    assert row["score"] == 0.1, "of the model beside"


def test_the_newest_score_counts() -> None:
    [row] = joined(
        requests(("r", "{}")),
        predictions(
            {"prediction_id": "p", "model": "a", "request_id": "r", "score": 0.1, "event_time": 5},
            {"prediction_id": "p", "model": "a", "request_id": "r", "score": 0.2, "event_time": 4},
        ),
        labels(),
    )
    assert row["score"] == 0.1


def test_entities_of_one_request_have_labels_of_their_own() -> None:
    ann, bob = '{"user":"ann"}', '{"user":"bob"}'
    rows = joined(
        requests(("r", ann), ("r", bob), ("r", "{}")),
        predictions(
            {"prediction_id": "p", "model": "a", "request_id": "r", "entity": bob, "score": 0.7},
            {"prediction_id": "q", "model": "a", "request_id": "r", "entity": ann, "score": 0.2},
        ),
        labels({"prediction_id": "p", "value": 1.0}, {"prediction_id": "r", "value": 5.0}),
    )
    assert [row["value"] for row in rows] == [None, 1.0, None], "whose label has no entity has none"
    assert [row["score"] for row in rows] == [0.2, 0.7, None]


def test_of_a_request_of_several_one_that_was_logged_alone_has_its_own_label() -> None:
    ann, bob = '{"user":"ann"}', '{"user":"bob"}'
    [row] = joined(
        requests(("r", ann)),
        predictions(
            {"prediction_id": "p", "model": "a", "request_id": "r", "entity": bob, "score": 0.9},
            {"prediction_id": "q", "model": "a", "request_id": "r", "entity": ann, "score": 0.1},
        ),
        labels({"prediction_id": "p", "value": 1.0}, {"prediction_id": "q", "value": 0.0}),
    )
    assert (row["value"], row["score"], row["labels"]) == (0.0, 0.1, 1)


def test_models_that_number_alike_have_labels_of_their_own() -> None:
    rows = joined(
        requests(("r0", "{}"), ("r1", "{}")),
        predictions(
            {"prediction_id": "1", "model": "a", "request_id": "r0", "score": 0.1},
            {"prediction_id": "1", "model": "b", "request_id": "r1", "score": 0.2},
        ),
        labels(
            {"prediction_id": "1", "model": "a", "value": 0.0},
            {"prediction_id": "1", "model": "b", "value": 1.0},
        ),
    )
    assert [(row["value"], row["corrected"]) for row in rows] == [(0.0, False), (1.0, False)]


def test_a_prediction_that_names_another_request_later_labels_that_one() -> None:
    sent = {"prediction_id": "p", "model": "a", "score": 0.1}
    rows = joined(
        requests(("r0", "{}"), ("r1", "{}")),
        predictions({**sent, "request_id": "r0"}, {**sent, "request_id": "r1"}),
        labels({"prediction_id": "p", "value": 1.0}),
    )
    assert [row["value"] for row in rows] == [None, 1.0]


def test_a_prediction_without_a_score_hides_none() -> None:
    sent = {"prediction_id": "p", "model": "a", "request_id": "r"}
    [row] = joined(requests(("r", "{}")), predictions({**sent, "score": 0.3}, sent), labels())
    assert row["score"] == 0.3
