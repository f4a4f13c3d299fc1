"""Parts of the surge's figures: lag, drains, batches and what was answered, each of its own part of
the run."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from benchmarks.surge_overload import Overloading
from benchmarks.surge_watch import (
    Look,
    Phase,
    Seen,
    Watch,
    batches,
    beside,
    drain_of,
    largest,
    seen,
)
from benchmarks.whole.figures import Percentiles
from benchmarks.whole.http_load import Sample
from slicewise import log
from slicewise.settings import Settings


def _looks(*applied: int, produced: int = 1_000) -> list[Look]:
    return [Look(100.0 + second, produced, count) for second, count in enumerate(applied)]


def test_a_drain_leaves_its_first_batch_out() -> None:
    # a start of 3 s, one batch of 200, then 200 a second
    drain = drain_of(_looks(0, 0, 0, 200, 400, 600, 800, 1_000, 1_000), 100.0, 1_000)
    assert (drain.events, drain.seconds, drain.steady_events_per_s) == (1_000, 7.0, 200.0)


def test_a_drain_of_a_single_batch_is_as_long_as_it_took() -> None:
    assert drain_of(_looks(0, 0, 1_000), 100.0, 1_000).steady_events_per_s == 500.0


def test_a_drain_that_nobody_saw_the_end_of_is_none() -> None:
    with pytest.raises(RuntimeError, match="were not applied"):
        drain_of(_looks(0, 999), 100.0, 1_000)


def _watch(looks: list[Look]) -> Watch:
    watch = Watch(Settings.load({}), {})
    watch.looks = looks
    watch.memory = [(100.0, {"stream": 10.0}), (104.0, {"stream": 30.0}), (108.0, {"stream": 20.0})]
    return watch


def test_lag_rates_and_memory_are_those_of_a_phase() -> None:
    watch = _watch(
        [Look(100.0 + s, 100 * s, max(0, 100 * s - (50 if 3 <= s <= 5 else 5))) for s in range(10)]
    )
    assert watch.most_lag(Phase(100, 103)) == 5
    assert watch.most_lag(Phase(102, 107)) == 50
    assert watch.rates(Phase(106, 110)) == (100.0, 100.0)
    assert watch.most_memory("stream", Phase(100, 106)) == 30.0
    assert watch.most_memory("stream", Phase(105, 107)) == 20.0, (
        "the next look, where none fell into it"
    )
    with pytest.raises(RuntimeError, match="nobody looked"):
        watch.within(Phase(200, 210))


def test_batches_are_read_from_what_the_driver_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("slicewise")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(logger, name, [] if name == "handlers" else getattr(logger, name))
    log.to_stderr()
    log.event("batch_applied", source="plays", batch=0, records=700, s=0.25)
    log.event("batch_applied", source="slicewise.probes", batch=9, records=9_999, s=0.1)
    log.event("query_drained", source="plays")
    log.event("batch_applied", source="plays", batch=1, records=300, s=1e-05)
    (tmp_path / "log").write_text(capsys.readouterr().err)
    result = batches(tmp_path / "log")
    assert [(batch.records, batch.seconds) for batch in result] == [(700, 0.25), (300, 1e-05)]
    assert largest(result, Phase(result[0].at - 1, result[0].at + 5)) == 700
    assert largest(result, Phase(0, 1)) == 0


def _samples() -> list[Sample]:
    right = [Sample(float(n), 0.001 * n, 200) for n in range(1, 101)]
    return [
        *right,
        Sample(3.0, 0.1, 503),
        Sample(4.0, 0.3, 503),
        Sample(5.0, 0.2, 429),
        Sample(6.0, 9.0, 0),
    ]


def test_latency_is_of_what_was_answered_and_refusals_are_counted_by_status() -> None:
    result = seen(_samples())
    assert (result.requests, result.latency.p50, result.latency.worst) == (104, 50.0, 100.0)
    assert result.refused == {0: 1, 429: 1, 503: 2}
    assert result.refusal is not None
    assert result.refusal.worst == 9_000.0
    with pytest.raises(RuntimeError, match="none of 1 requests"):
        seen([Sample(1.0, 0.1, 503)])


def test_what_a_watcher_raised_is_raised_at_the_end() -> None:
    class Broken(Watch):
        def run(self, over: object) -> None:  # noqa: ARG002
            raise RuntimeError("it broke")

    with pytest.raises(RuntimeError, match="it broke"), beside(Broken(Settings.load({}), {})):
        pass


def test_an_unanswered_request_and_a_refusal_without_a_word_are_told_as_not_met() -> None:
    calm = Seen(10, Percentiles.of([1.0]), {}, None)
    overloading = Overloading(
        bound_ms=4_100.0,
        capacity=100.0,
        requested=300.0,
        seconds=10.0,
        greedy=seen(_samples()),
        undisturbed=calm,
        modest=calm,
        after=calm,
        health=Percentiles.of([1.0]),
        retry_after={"1": 2, "": 1},
        shed={"waited": 2.0},
        lag=3,
        memory_mib=(10.0, 12.0),
    )
    by_name = {figure.name: figure for figure in overloading.figures()}
    assert by_name["answered"].ours == 10.0
    assert by_name["refused with 503"].ours == 0.2
    assert by_name["neither answered nor refused"].met is False
    assert by_name["refusals without Retry-After"].met is False
    assert by_name["worst of those answered"].met is True
