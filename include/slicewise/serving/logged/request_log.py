"""Answers are logged after they were given, in what time the loop has left.

A bounded buffer stands between the two: what finds it full is lost, and counted. A slow or absent
broker delays no answer (docs/adr/0126).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from slicewise import log
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.logged.records import Answered, record_of
from slicewise.serving.metrics import Metrics

if TYPE_CHECKING:
    from slicewise.stores.log.producer import EventWriter

BUFFER = 20_000
"""Answers of entities that wait to be written; those of entities that are not sampled count too."""
BROKER_BUFFER = 5_000
"""Events that wait for the broker: where it refuses them all, it says so in one turn of the loop,
which takes some 30 ms."""
LINGER_MS = 1_000
"""An event waits for others to go with: each batch takes the processor from whoever is answered."""
PATIENCE_S = 30.0
"""An event that the broker has not taken for so long is lost."""
TURN_S = 0.0004
"""Time of the loop after which the log ends its turn; one answer of many values may take longer."""
PAUSE_S = 0.002
"""Between two turns while there is something to write: whoever is answered meanwhile goes first."""
EVERY_S = 0.05
"""Between looks at the broker's answers, and at an empty buffer."""
END_S = 3.0
"""Longest that the end of the process waits for the broker."""
LOG_EVERY_S = 10.0


class RequestLog:
    """The request log of one process of the API."""

    def __init__(
        self,
        service: FeatureService,
        metrics: Metrics,
        bootstrap: str,
        buffer: int = BUFFER,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """bootstrap: the broker's address."""
        self._service, self._metrics, self._bootstrap = service, metrics, bootstrap
        self._patience_s = patience_s
        self._most = buffer
        self._buffer: deque[Answered] = deque()
        self._entities = 0
        """Entities of the answers in the buffer."""
        self._rest: tuple[Answered, int] | None = None
        """The answer that is being written, and the next of its positions."""
        self._unopened = ""
        """Reason why no client could be made, as it was logged last."""
        self._timer: asyncio.TimerHandle | None = None
        self._writer: EventWriter | None = None
        self._appended, self._refused, self._stood = 0, 0, 0
        """Events that the broker's client was given, those of them that are lost, and those that
        stand as far as was counted."""
        # of every process another: ids that nobody gave are different for ever
        self._prefix, self._numbered = os.urandom(6).hex(), 0
        self._lost_since = Counter[str]()
        """Reason -> answers that were lost since the last line about it."""
        self._last_error = ""
        self._reported_lost_at = -LOG_EVERY_S
        self._taken = metrics.logged_answers
        self._lost = metrics.lost_answers

    # ------------------------------------------------------------ beside the answers
    def take(
        self,
        request: FeaturesRequest,
        answer: Answer,
        position: int | None,
        caller: str,
        seconds: float,
    ) -> None:
        """Takes note of an answer that was given. position: of the request's only entity in an
        answer to several requests. seconds: that it took."""
        rule = answer.log
        if rule is None:
            return
        entities = 1 if position is not None else len(answer.results)
        if self._entities + entities > self._most:
            some = answer.results if position is None else (answer.results[position],)
            self._lose(sum(rule.takes(rule.key(one.entity)) for one in some), "buffer")
            return
        self._numbered += 1
        self._entities += entities
        self._buffer.append(
            Answered(
                rule,
                request,
                request.request_id or f"{self._prefix}-{self._numbered}",
                answer,
                position,
                caller,
                self._service.clock.now_us(),
                int(seconds * 1e6),
            )
        )
        if self._timer is None:
            self._again(PAUSE_S)

    def open(self) -> None:
        """Makes the broker's client before the first answer, where something is deployed that
        logs: that takes some hundredths of a second."""
        catalog = self._service.catalog
        sets = () if catalog is None else catalog.deployment.feature_sets
        if self._writer is None and any(one.log is not None for one in sets):
            self._opened()

    # ------------------------------------------------------------ in the time that is left
    def _again(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._turn)

    def _turn(self) -> None:
        """Writes some of the buffer, and comes again while there is more."""
        self._timer = None
        has_room = self._written(time.perf_counter() + TURN_S)
        waiting = 0 if self._writer is None else self._writer.waiting
        self._count(waiting)
        if self._entities and has_room:
            self._again(PAUSE_S)
        elif self._entities or waiting:
            self._again(EVERY_S)
        else:
            self._report_lost()

    def _written(self, until: float) -> bool:
        """Writes for so long; False where the broker has enough for now, or cannot be reached."""
        writer = self._opened()
        if writer is None:
            return False
        writer.poll()
        while self._entities:
            if self._rest is None:
                answered = self._buffer.popleft()
                self._rest = answered, answered.positions.start
            answered, position = self._rest
            try:
                if not self._hand_over(writer, answered, position):
                    return False
            except Exception as error:  # noqa: BLE001  # the others are logged all the same
                self._lose(1, "defect", f"{type(error).__name__}: {error}")
            self._entities -= 1
            last = position + 1 >= answered.positions.stop
            self._rest = None if last else (answered, position + 1)
            if time.perf_counter() >= until:
                break
        return True

    def _hand_over(self, writer: EventWriter, answered: Answered, position: int) -> bool:
        rule = answered.rule
        key = rule.key(answered.answer.results[position].entity)
        if not rule.takes(key):
            return True
        if not writer.append(rule.topic, key, record_of(answered, position), self._failed):
            return False
        self._appended += 1
        return True

    def _failed(self, error: str | None) -> None:
        self._refused += 1
        self._lose(1, "broker", error or "")

    def _count(self, waiting: int) -> None:
        """Counts what stands since the last time. waiting: events that the client still has, and
        what else it has to say."""
        stood = self._appended - self._refused - waiting
        if stood > self._stood:
            self._taken.inc(stood - self._stood)
            self._stood = stood

    def _opened(self) -> EventWriter | None:
        """The broker's client; None where none can be made: then answers wait, and are lost when
        they are too many."""
        if self._writer is None:
            try:
                from slicewise.stores.log.producer import EventWriter  # for those alone who log

                self._writer = EventWriter(
                    self._bootstrap, self._patience_s, BROKER_BUFFER, LINGER_MS, failures_only=True
                )
            except Exception as error:  # noqa: BLE001
                text = f"{type(error).__name__}: {error}"
                if text != self._unopened:
                    log.warning("request_log_not_opened", error=text)
                self._unopened = text
        return self._writer

    def _lose(self, answers: int, why: str, error: str = "") -> None:
        if not answers:
            return
        self._lost.labels(why).inc(answers)
        self._lost_since[why] += answers
        self._last_error = error or self._last_error
        if time.monotonic() - self._reported_lost_at >= LOG_EVERY_S:
            self._report_lost()

    def _report_lost(self) -> None:
        """Writes a line about what was lost since the last one."""
        if self._lost_since:
            log.warning("answers_not_logged", **self._lost_since, error=self._last_error)
            self._reported_lost_at, self._last_error = time.monotonic(), ""
            self._lost_since.clear()

    def close(self) -> None:
        """Writes what is left, as far as the broker takes it in a few seconds; the rest is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._entities and self._writer is None:
            return
        deadline = time.perf_counter() + END_S
        while self._entities and time.perf_counter() < deadline:
            if self._written(deadline):
                continue
            if self._writer is None:
                break
            self._writer.close(0.1)
        waiting = 0
        if self._writer is not None:
            waiting = self._writer.close(max(0.0, deadline - time.perf_counter()))
            self._count(waiting)
        self._lose(self._entities + waiting, "end")
        self._report_lost()
