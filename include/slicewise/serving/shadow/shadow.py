"""One model goes through the request log: what it read counts as done when its predictions
stand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from slicewise import log
from slicewise.clock import Clock
from slicewise.errors import BadRequest, SlicewiseError, StoreUnavailable
from slicewise.models.scoring import Scores, scorer
from slicewise.serving.logged.outcomes import prediction_event
from slicewise.serving.shadow.figures import Figures
from slicewise.serving.shadow.lookups import Lookups, Rate, Stopped
from slicewise.serving.shadow.planned import Plan, resume_us
from slicewise.serving.shadow.rows import (
    Chosen,
    LoggedRow,
    chosen_rows,
    features_of,
    prediction_of,
    split_at,
)
from slicewise.stores.log.producer import EventWriter
from slicewise.stores.log.publisher import Follower, Keyed

BATCH = 1_000
"""Logged answers that are read at once."""
READ_S = 0.5
RETRY_S = 5.0
"""Pause after a failure: of the broker, the model's file or its endpoint."""
REOPEN_S = 300.0
"""After which partitions that were added are seen."""
PATIENCE_S = 15.0
"""Longest that the broker may take for predictions."""
END_S = PATIENCE_S + 5.0
"""Longest that a thread may take to end: what it handed over stands or is given up by then, and
once a stop is requested nothing more is handed over."""


class Shadow:
    """A model's thread. A failure ends nothing: it is shown, and tried again."""

    def __init__(
        self, plan: Plan, bootstrap: str, url: str, bound_s: float, rate: Rate, clock: Clock
    ) -> None:
        """bound_s: beyond which it is too far behind, and skips."""
        self.plan, self.figures = plan, Figures()
        self._bootstrap, self._url, self._clock = bootstrap, url, clock
        self._bound_us, self._rate = int(bound_s * 1e6), rate
        self._stop = threading.Event()
        self._follower: Follower | None = None
        self._opened_at = 0.0
        self._skips_to_us, self._skipped = 0, 0
        self._writer = EventWriter(bootstrap, PATIENCE_S, BATCH)
        self._lookups = Lookups(url, rate, self._stop.wait)
        self._scorer: Callable[[pa.Table], Scores] | None = None
        self._stamp: object = None
        self._thread = threading.Thread(
            target=self._run, name=f"shadow {plan.model.name}", daemon=True
        )

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it: predictions that are being written are waited for, and no others are begun."""
        self._stop.set()

    @property
    def is_ending(self) -> bool:
        """Tells whether it was stopped."""
        return self._stop.is_set()

    def join(self, timeout_s: float) -> bool:
        """Waits until it has ended; tells whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._turn()
            except Stopped:
                break  # nothing of the batch is committed: it is read again
            except Exception as error:  # noqa: BLE001  # other models go on, and this one again
                self._fail(error)
                self._stop.wait(RETRY_S)
        self._close_follower()
        self._lookups.close()
        self._writer.close(1.0)

    def _fail(self, error: Exception) -> None:
        text = (
            str(error) if isinstance(error, SlicewiseError) else f"{type(error).__name__}: {error}"
        )
        if text != self.figures.error:
            log.warning("shadow_failed", model=self.plan.model.name, error=text)
        self.figures.error = text
        try:
            self._close_follower()  # it goes on at what was committed
        except Exception as again:  # noqa: BLE001
            log.warning("shadow_not_closed", model=self.plan.model.name, error=str(again))

    def _close_follower(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def _turn(self) -> None:
        """Reads a batch, writes its predictions, and commits."""
        follower = self._opened()
        records = follower.read(BATCH, READ_S)
        now_us = self._clock.now_us()
        oldest_us = min((one.time_us for one in records), default=now_us)
        self.figures.behind_s = max(0.0, (now_us - oldest_us) / 1e6)
        until_us = resume_us(oldest_us, now_us, self._bound_us)
        if until_us is not None:
            self._skips_to_us = until_us
        older, taken = split_at(records, self._skips_to_us)
        passed, chosen = chosen_rows(older, self.plan), Chosen()
        is_skipping = bool(older) and not taken  # by a model that cannot be read, too
        if not is_skipping:
            chosen = self._answer(taken)
        if records:
            follower.commit()
        self.figures.foreign += passed.foreign + chosen.foreign
        self._count_skipped(len(passed.rows), is_over=not older)
        if not is_skipping:
            self.figures.error = ""

    def _answer(self, records: Sequence[Keyed]) -> Chosen:
        """Writes predictions for the rows of these records; the rows. Raises Stopped."""
        score = self._read_model()
        chosen = chosen_rows(records, self.plan)
        if chosen.rows:
            table, errors = features_of(chosen.rows, self.plan, self._lookups)
            scores = score(table)
            if self._stop.is_set():
                raise Stopped
            self._write(chosen.rows, scores, errors)
        return chosen

    def _opened(self) -> Follower:
        if self._follower is not None and time.monotonic() - self._opened_at > REOPEN_S:
            self._close_follower()
        if self._follower is None:
            group = f"slicewise-shadow-{self.plan.model.name}"
            self._follower = Follower(self._bootstrap, self.plan.topic, group)
            self._opened_at = time.monotonic()
        return self._follower

    def _count_skipped(self, answers: int, *, is_over: bool) -> None:
        """Counts its own answers that were passed over, and logs them once that is over."""
        self.figures.skipped += answers
        self._skipped += answers
        if is_over and self._skipped:
            log.warning("shadow_skipped", model=self.plan.model.name, answers=self._skipped)
            self._skipped = 0

    def _read_model(self) -> Callable[[pa.Table], Scores]:
        """The model, read anew where its file is another."""
        stamp = _stamp(self.plan)
        if self._scorer is None or stamp != self._stamp:
            self._scorer = None
            made = scorer(self.plan.model, list(self.plan.kinds))
            made(pa.table({ref: pa.array([], kind) for ref, kind in self.plan.kinds.items()}))
            self._scorer, self._stamp = made, stamp
            log.event("shadow_model_read", model=self.plan.model.name, share=self.plan.model.shadow)
        return self._scorer

    def _write(self, rows: Sequence[LoggedRow], scores: Scores, errors: dict[int, str]) -> None:
        """Writes a prediction for each row. Raises StoreUnavailable where some may not stand."""
        failures: list[str] = []
        scored, examples = 0, list[str]()

        def delivered(error: str | None) -> None:
            if error is not None:
                failures.append(error)

        for number, row in enumerate(rows):
            why = errors.get(number) or scores.errors.get(number)
            value = None if why else float(scores.values[number])
            scored += value is not None
            if why:
                examples.append(f"request {row.request_id}: {why}")
            made = prediction_of(row, self.plan, value)
            try:
                key, event = prediction_event(made, row.logged_us, f"request {row.request_id}")
            except BadRequest as error:  # an entity that is larger than an event may be
                examples.append(f"request {row.request_id}: {error.what}")
                continue
            while not self._writer.append(self.plan.predictions, key, event, delivered):
                self._writer.close(0.1)
        left = self._writer.close(PATIENCE_S + 1.0)
        if left or failures:
            raise StoreUnavailable(
                f"{left + len(failures)} of {len(rows)} predictions were not written: "
                + (failures[0] if failures else "no answer"),
                where=f"Kafka at {self._bootstrap}",
                next_step="see that the broker runs (slicewise status); they are made again",
            )
        self.figures.scored += scored
        self.figures.without_score += len(rows) - scored
        self.figures.examples.extend(examples)


def _stamp(plan: Plan) -> object:
    """Changes where the model's file does; None of an endpoint, or a file that is not there."""
    if plan.model.kind == "url":
        return None
    try:
        file = Path(plan.model.location).stat()
    except OSError:
        return None
    return file.st_mtime_ns, file.st_size, file.st_ino
