"""A share of entities is answered by a model; what is too old is skipped, and each row has its own
outcome."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pyarrow as pa
import pytest

from slicewise.local.servers.services import SHADOW, build
from slicewise.models.declared import DeclaredModel
from slicewise.serving.logged.outcomes import prediction_event
from slicewise.serving.logged.records import LoggedAnswer
from slicewise.serving.shadow.lookups import Lookups, Rate, Stopped
from slicewise.serving.shadow.planned import Plan, prediction_id, resume_us
from slicewise.serving.shadow.rows import chosen_rows, features_of, prediction_of, split_at
from slicewise.serving.shadow.shadow import END_S, PATIENCE_S
from slicewise.settings import Settings
from slicewise.stores.log.publisher import Keyed

KINDS = {"v:a": pa.int64(), "v:b": pa.float64()}


def plan(share: float = 1.0) -> Plan:
    model = DeclaredModel("b", "s", "onnx", "b.onnx", shadow=share)
    return Plan(model, "requests", "s", KINDS, {"v:b": 0.5}, frozenset({"u"}), "predictions")


def record(user: str, answer: object, **more: Any) -> Keyed:
    fields: dict[str, Any] = dict.fromkeys(LoggedAnswer.__struct_fields__, "")
    fields |= dict.fromkeys(("feature_count", "null_count", "latency_us", "logged_at"), 1)
    fields |= {"mode": "live", "feature_set": "s", "request_id": f"r-{user}", "answered_at": 7}
    fields |= {"entity": json.dumps({"u": user, "x": 1}), "answer": json.dumps(answer)}
    key = json.dumps({"u": user}, separators=(",", ":")).encode()
    return Keyed(0, 0, 0, key, json.dumps(fields | more).encode())


def unasked(refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at: int) -> list[list[Any]]:
    raise AssertionError(f"{refs} of {entities} at {at}")


@contextmanager
def away() -> Iterator[tuple[str, list[str]]]:
    """An API whose store is away: its address, and the paths that were requested."""
    requests: list[str] = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.path)
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Writes nothing."""

    with HTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
        thread.join(5)


def test_a_larger_share_has_all_entities_of_a_smaller_one() -> None:
    records = [record(f"u{n}", {}) for n in range(1000)]
    chosen = {
        share: {row.request_id for row in chosen_rows(records, plan(share)).rows}
        for share in (0.0, 0.1, 0.5, 1.0)
    }
    assert chosen[0.0] < chosen[0.1] < chosen[0.5] < chosen[1.0]
    assert not chosen[0.0]
    assert 60 < len(chosen[0.1]) < 140
    assert len(chosen[1.0]) == 1000


def test_other_sets_past_instants_and_strangers_are_left_out() -> None:
    records = [
        record("a", {}),
        record("b", {}, feature_set="s@2"),
        record("c", {}, feature_set="t"),
        record("d", {}, mode="at"),
        Keyed(0, 0, 0, b"", b"{}"),
        Keyed(0, 0, 0, b"", b"\xff"),
        record("e", [1]),
    ]
    chosen = chosen_rows(records, plan())
    assert [row.request_id for row in chosen.rows] == ["r-a", "r-b"]
    assert chosen.foreign == 3


def test_an_answer_with_all_features_gives_them_and_nulls_stay() -> None:
    rows = chosen_rows([record("a", {"v:b": None, "v:a": 3, "v:c": 1})], plan()).rows
    table, errors = features_of(rows, plan(), unasked)
    assert (table.to_pylist(), errors) == ([{"v:a": 3, "v:b": None}], {})
    assert table.schema.types == list(KINDS.values())


def test_what_an_answer_lacks_is_looked_up_by_instant_with_the_sets_defaults() -> None:
    calls = []

    def lookup(refs: Sequence[str], entities: Sequence[Mapping[str, Any]], at: int) -> list[Any]:
        calls.append((list(refs), [dict(one) for one in entities], at))
        return ["no such entity" if one["u"] == "c" else [at, None] for one in entities]

    records = [
        record("a", {"v:a": 1}),
        record("b", {"v:a": 1}, answered_at=9),
        record("c", {}),
        record("d", {"v:a": 4, "v:b": 2.0}),
    ]
    table, errors = features_of(chosen_rows(records, plan()).rows, plan(), lookup)
    refs = ["v:a", "v:b"]
    assert calls == [(refs, [{"u": "a"}, {"u": "c"}], 7), (refs, [{"u": "b"}], 9)]
    assert table["v:a"].to_pylist() == [7, 9, None, 4]
    assert table["v:b"].to_pylist() == [0.5, 0.5, None, 2.0]
    assert errors == {2: "no such entity"}


def test_a_value_of_another_type_is_an_error_of_its_row() -> None:
    records = [record("a", {"v:a": "x", "v:b": 1.0}), record("b", {"v:a": 2, "v:b": "Infinity"})]
    table, errors = features_of(chosen_rows(records, plan()).rows, plan(), unasked)
    assert table["v:a"].to_pylist() == [None, 2]
    assert table["v:b"].to_pylist() == [None, float("inf")]
    assert errors.keys() == {0}
    assert errors[0].startswith("v:a: ")


def test_no_rows_are_an_empty_table() -> None:
    table, errors = features_of([], plan(), unasked)
    assert (table.num_rows, table.column_names, errors) == (0, list(KINDS), {})


@pytest.mark.parametrize(("age", "wanted"), [(0, None), (600, None), (601, 700), (5000, 700)])
def test_what_is_older_than_the_bound_is_skipped_to_half_of_it(
    age: int, wanted: int | None
) -> None:
    # now 1000, bound 600: |--skipped--|400 ... 700 goes on here ... 1000
    assert resume_us(1000 - age, 1000, 600) == wanted


def test_an_id_is_of_the_request_the_entity_and_the_event() -> None:
    same = prediction_id("r", '{"u":"a"}', 5)
    assert prediction_id("r", '{"u":"a"}', 5) == same
    assert same.startswith("r-")
    others = [("q", '{"u":"a"}', 5), ("r", '{"u":"b"}', 5), ("r", '{"u":"a"}', 6)]
    assert same not in {prediction_id(*one) for one in others}


def test_a_prediction_that_is_written_again_has_the_same_bytes() -> None:
    rows = chosen_rows([record("a", {"v:a": 1, "v:b": 2.0}, logged_at=9, answered_at=7)], plan())
    [row] = rows.rows
    made = prediction_of(row, plan(), 0.25)
    event = prediction_event(made, row.logged_us, "here")
    assert event == prediction_event(prediction_of(row, plan(), 0.25), row.logged_us, "here")
    written = json.loads(event[1])
    assert (written["logged_at"], written["predicted_at"]) == (9, 7), "those of the answer"


def test_only_answers_that_a_model_would_take_count_as_skipped() -> None:
    share = 0.5
    records = [record(f"u{n}", {}, feature_set="st"[n % 2]) for n in range(100)]
    records = [replace(one, time_us=n) for n, one in enumerate(records)]
    own = {row.request_id for row in chosen_rows(records, plan(share)).rows}
    assert 0 < len(own) < 50
    older, left = split_at(records, 40)
    assert [one.time_us for one in left] == list(range(40, 100))
    skipped = chosen_rows(older, plan(share)).rows
    assert len(skipped) == len([name for name in own if int(name[3:]) < 40])


def test_no_lookup_is_sent_once_a_stop_is_requested() -> None:
    """Turns that a stop cuts short would let it read as fast as it can."""
    stop, rate = threading.Event(), Rate(1.0)
    with away() as (url, requests):
        lookups = Lookups(url, rate, stop.wait)
        threading.Timer(0.3, stop.set).start()
        begun = time.monotonic()
        with pytest.raises(Stopped):
            list(map(partial(lookups, ["v:a"], [{"u": "a"}]), range(100)))
        assert time.monotonic() - begun < 5.0
        lookups.close()
    assert len(requests) <= 1


def test_no_thread_outlives_the_wait_for_it_with_a_write_under_way() -> None:
    given = Settings.load({})
    assert PATIENCE_S < END_S, "what it hands to the broker stands or is given up by then"
    assert build(given).services[SHADOW].stop_timeout_s > END_S


def test_turns_come_at_a_bounded_rate() -> None:
    now = [0.0]
    rate = Rate(10.0, lambda: now[0])
    assert [round(rate.wait_s(), 6) for _ in range(3)] == [0.0, 0.1, 0.2]
    now[0] = 5.0
    assert rate.wait_s() == 0.0, "time without requests is not saved up"
