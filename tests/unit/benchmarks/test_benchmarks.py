"""A measurement hides nothing: stalls count, aims are kept or missed, and both sides compute the
same."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks import columns
from benchmarks.baseline import recipe_api
from benchmarks.freshness import compared
from benchmarks.freshness_away import IN_A_ROW, judged
from benchmarks.freshness_sides import MICROBATCH, REALTIME, RECIPE, Measured
from benchmarks.whole import http_load, probes, windows
from benchmarks.whole.document import write_doc
from benchmarks.whole.figures import Figure, Percentiles, table
from benchmarks.whole.http_load import CLOSED, OPEN, Spec, get, run
from benchmarks.whole.probes import AGED, POLL_S, Requester, Waiting, next_request
from benchmarks.whole.servers import PROJECTS
from slicewise.aggregates import REGISTRY
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.windows.durations import parse_duration

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def server(
    stall_s: float = 0.0, stalled: int = -1, answer: bytes = ANSWER, *, once: bool = False
) -> Iterator[int]:
    """Answers each request at once, but request number `stalled`, and what comes after it, after
    stall_s; once: closes a connection after its answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen = 0
        turn, over = threading.Lock(), threading.Event()

        def serve(connection: socket.socket) -> None:
            nonlocal seen
            with connection, suppress(OSError):
                while connection.recv(65536):
                    with turn:
                        seen += 1
                        if seen == stalled:
                            over.wait(stall_s)
                    connection.sendall(answer)
                    if once:
                        return

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)


def _spec(port: int, mode: str, connections: int, rate: float = 0.0) -> Spec:
    return Spec(
        "127.0.0.1", port, (get("/"),), mode, connections, seconds=1.0, rate=rate, warm_up_s=0.0
    )


def test_quantiles_are_values_of_the_sample_by_nearest_rank() -> None:
    result = Percentiles.of([float(n) for n in range(1, 101)])
    assert (result.n, result.p50, result.p90, result.p99, result.worst) == (
        100,
        50.0,
        90.0,
        99.0,
        100.0,
    )
    assert Percentiles.of([7.0]) == Percentiles(1, 7.0, 7.0, 7.0, 7.0, 7.0)


def test_open_load_counts_a_stall_for_every_request_that_was_due_in_it() -> None:
    with server(stall_s=0.4, stalled=20) as port:
        result = run(_spec(port, OPEN, 2, rate=100))
    # about 40 of 100 requests fell due while the server stood still, and waited 0.2 s on average
    assert result.failed == result.unanswered == 0
    assert result.latency.worst >= 390
    assert result.latency.p90 >= 200


def test_requests_that_are_never_answered_are_counted_with_their_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_load, "PATIENCE_S", 0.3)
    with server(stall_s=30.0, stalled=5) as port:
        result = run(_spec(port, OPEN, 1, rate=50))
    assert result.unanswered >= 20
    assert result.latency.worst >= 900


def test_open_load_opens_a_connection_for_each_that_the_server_closed() -> None:
    with server(once=True) as port:
        result = run(_spec(port, OPEN, 2, rate=100))
    assert result.failed == result.unanswered == 0
    assert result.latency.n > 50


def test_a_connection_that_is_closed_instead_of_an_answer_is_a_request_without_one() -> None:
    with server(answer=b"", once=True) as port:
        result = run(_spec(port, OPEN, 2, rate=100))
    assert result.unanswered == result.latency.n > 50


def test_closed_load_keeps_one_request_per_connection_under_way_and_counts_refusals() -> None:
    with server(answer=b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n") as port:
        result = run(_spec(port, CLOSED, 3))
    assert result.failed == result.latency.n > 10


@pytest.mark.parametrize(
    ("better", "ours", "theirs", "times", "met"),
    [
        ("lower", 10.0, 30.0, 3.0, True),
        ("lower", 10.0, 29.0, 2.9, False),
        ("higher", 50.0, 10.0, 5.0, True),
    ],
)
def test_an_aim_is_a_multiple_of_the_baseline_whichever_way_is_better(
    better: str, ours: float, theirs: float, times: float, met: bool
) -> None:
    figure = Figure("s", "n", "ms", ours, theirs, better, aim=3.0)
    assert figure.times_better == pytest.approx(times)
    assert figure.met is met
    assert ("NOT MET" in table([figure])) is not met


def test_a_bound_is_kept_by_our_figure_alone() -> None:
    assert Figure("s", "n", "ms", 9.9, bound=10.0).met is True
    assert Figure("s", "n", "ms", 10.1, bound=10.0).met is False


def test_a_run_replaces_what_stands_between_its_own_marks_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "b.md"
    others = "before\n<!-- begin: written by `make bench-aggregates` -->\nkept\n<!-- end -->\n"
    file.write_text(
        f'{others}<!-- begin: written by `make bench BENCH="--quick"` -->\nold\n<!-- end '
        "-->\nafter\n"
    )
    write_doc(file, "new", "make bench", ["--only", "serving"])
    assert file.read_text() == (
        f'{others}<!-- begin: written by `make bench BENCH="--only serving"` '
        "-->\n```\nnew\n```\n<!-- end -->\nafter\n"
    )


def test_a_document_without_the_commands_marks_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "b.md"
    file.write_text("<!-- begin: written by `make bench-aggregates` -->\n<!-- end -->\n")
    with pytest.raises(SystemExit, match="no marks to write between"):
        write_doc(file, "new", "make bench")


def test_every_aggregate_is_measured() -> None:
    assert {case.aggregate.kind for case in columns.CASES} | {"where"} == set(REGISTRY) | {"where"}


def test_the_recipe_is_asked_for_the_very_windows_and_slices_of_the_view() -> None:
    for project in ("plays", "history"):
        [unit] = plan(load_project(PROJECTS / project / "features.py")).view("listening")
        assert unit.slice_us == recipe_api.BUCKET_SECONDS * 1_000_000
        windows = {name: seconds * 1_000_000 for name, seconds in recipe_api.WINDOWS.items()}
        assert windows == {name: parse_duration(name) for name in recipe_api.WINDOWS}
        assert {feature.window.length_us for feature in unit.features} == set(windows.values())
        assert {feature.column for feature in unit.features} == {
            f"{f}_{w}" for f in ("plays", "seconds") for w in windows
        }


def test_the_recipes_stream_and_its_api_mean_the_same_bucket() -> None:
    text = (Path(recipe_api.__file__).parent / "recipe_stream.py").read_text()
    assert f"BUCKET_SECONDS = {recipe_api.BUCKET_SECONDS}\n" in text


def test_an_event_lies_in_as_many_windows_as_the_view_is_named_for() -> None:
    planned = windows.definitions()
    for count in windows.COUNTS:
        [unit] = planned.view(f"w{count}")
        assert unit.slice_us == 60_000_000
        for feature in unit.features:
            assert feature.window.length_us // feature.window.ends_every(unit.slice_us) == count


# ------------------------------------------------------------------ freshness
def test_a_young_probe_is_asked_for_every_millisecond_and_an_old_one_by_its_age() -> None:
    assert next_request(since=10.0, requested=10.004) == pytest.approx(10.004 + POLL_S)
    assert next_request(since=10.0, requested=11.0) == pytest.approx(11.0 + AGED)


def _requester(port: int) -> closing[Requester]:
    return closing(
        Requester(probes.Spec("", "", 1, "127.0.0.1", port, "/", None, ("n",), seconds=1.0))
    )


def _answers(requester: Requester) -> list[tuple[str, bool]]:
    return [(probe.user, shown) for probe, _, shown in requester.answers(5.0)]


def test_a_probe_is_asked_for_while_answers_to_others_are_under_way() -> None:
    counted = b'HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n{"n": 1}'
    with server(stall_s=0.3, stalled=1, answer=counted) as port, _requester(port) as requester:
        for user in ("a", "b"):
            requester.request(Waiting(user, 0.0, 0.0, get("/").encode(), 0.0), 0.0)
        answers = _answers(requester)
        if len(answers) < 2:
            answers += _answers(requester)
        assert sorted(answers) == [("a", True), ("b", True)]
        assert requester.polls == 2


def test_a_question_goes_over_a_new_connection_where_the_server_has_closed_an_idle_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "CONNECTIONS", 1)
    null = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"n": null}'
    with server(answer=null, once=True) as port, _requester(port) as requester:
        for _ in range(3):
            requester.request(Waiting("a", 0.0, 0.0, get("/").encode(), 0.0), 0.0)
            assert _answers(requester) == [("a", False)]
            time.sleep(0.05)


def _measured(side: str, p50: float) -> Measured:
    percentiles = dict.fromkeys(("p50", "p90", "p99", "p999", "worst"), p50)
    seen = {"freshness": percentiles, "resolution": percentiles, "answer": percentiles}
    return Measured(
        side, 2_000.0, 60.0, 2_000.0, seen, {"redis": 0.2, "probes": 0.1}, {"redis": 30.0}
    )


def test_the_real_time_lane_stands_beside_the_recipe_and_the_micro_batch_lane_alone_and_is_held_to_its_bounds() -> (
    None
):
    results = {
        (side, 2_000.0): _measured(side, p50)
        for side, p50 in ((REALTIME, 6.0), (MICROBATCH, 300.0), (RECIPE, 900.0))
    }
    figures = {figure.name: figure for figure in compared(2_000.0, results)}
    assert (figures["p50"].ours, figures["p50"].theirs, dict(figures["p50"].others)) == (
        6.0,
        900.0,
        {"micro-batch lane alone": 300.0},
    )
    assert figures["p50"].met is False
    assert figures["p99"].met is True
    assert figures["redis, memory"].ours == 30.0
    alone = {
        figure.name: figure
        for figure in compared(2_000.0, {(MICROBATCH, 2_000.0): _measured(MICROBATCH, 300.0)})
    }
    assert alone["p50"].met is None
    assert alone["p50"].theirs is None


def test_an_absence_is_over_when_probes_in_a_row_are_fresh_again() -> None:
    # the store is away from 10 to 40; what fell into it shows at 41, and up to 45 probes take a
    # second
    samples = [
        (float(t), 1000 * (41 - t) if 10 <= t < 41 else 1000.0 if t < 45 and t > 40 else 5.0)
        for t in range(80)
    ]
    result = judged("dies", 10.0, 40.0, samples, lost=1)
    assert (result.away_s, result.first, result.caught_up, result.never) == (30.0, 1.0, 1.0, 1)
    assert result.fresh == pytest.approx(5.005)
    with pytest.raises(RuntimeError, match="not fresh"):
        judged("dies", 10.0, 40.0, samples[: 45 + IN_A_ROW - 1], lost=0)
