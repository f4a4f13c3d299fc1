"""Answers are logged after they were given, in what time the loop has left.

A bounded buffer stands between the two: what finds it full is lost, and counted. A slow or absent
broker delays no answer (docs/adr/0126).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from typing import TYPE_CHECKING

from slicewise import log
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.logged.records import Answered, record_of
from slicewise.serving.logged.rules import Rule, entity_text, rule_of
from slicewise.serving.metrics import Metrics

if TYPE_CHECKING:
    from slicewise.stores.log.producer import EventWriter

BUFFER = 20_000
"""Answers of entities that wait to be written; those of entities that are not sampled count too."""
BROKER_BUFFER = 20_000
"""Events that wait for the broker."""
PATIENCE_S = 30.0
"""An event that the broker has not taken for so long is lost."""
TURN_S = 0.0004
"""Longest that the log holds the loop in one of its turns."""
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
        self._rules: dict[str, Rule | None] = {}
        self._rules_of: object = None
        """The catalog that the rules are of."""
        self._timer: asyncio.TimerHandle | None = None
        self._writer: EventWriter | None = None
        # of every process another: ids that nobody gave are different for ever
        self._prefix, self._numbered = os.urandom(6).hex(), 0
        self._lost_since = 0
        self._logged_lost_at = -LOG_EVERY_S
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
        name = request.feature_set
        if name is None:
            return
        rule = self._rule(name)
        if rule is None:
            return
        entities = 1 if position is not None else len(answer.results)
        if self._entities + entities > self._most:
            self._lose(entities, "buffer")
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

    def _rule(self, name: str) -> Rule | None:
        catalog = self._service.catalog
        if catalog is None:  # a default was answered while the store was away
            return self._rules.get(name)
        if catalog is not self._rules_of:
            self._rules, self._rules_of = {}, catalog
        if name not in self._rules:
            self._rules[name] = rule_of(catalog.deployment, catalog.digest, name)
        return self._rules[name]

    # ------------------------------------------------------------ in the time that is left
    def _again(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._turn)

    def _turn(self) -> None:
        """Writes some of the buffer, and comes again while there is more."""
        self._timer = None
        try:
            has_room = self._write(time.perf_counter() + TURN_S)
        except Exception as error:  # noqa: BLE001  # the next answers are logged all the same
            self._broke(error)
            has_room = True
        if self._entities and has_room:
            self._again(PAUSE_S)
        elif self._entities or (self._writer is not None and self._writer.waiting):
            self._again(EVERY_S)

    def _write(self, until: float) -> bool:
        """Writes for so long; False where the broker has enough for now."""
        writer = self._opened()
        writer.poll()
        while self._entities:
            if self._rest is None:
                answered = self._buffer.popleft()
                self._rest = answered, answered.positions.start
            answered, position = self._rest
            if not self._hand_over(writer, answered, position):
                return False
            self._entities -= 1
            last = position + 1 >= answered.positions.stop
            self._rest = None if last else (answered, position + 1)
            if time.perf_counter() >= until:
                break
        return True

    def _hand_over(self, writer: EventWriter, answered: Answered, position: int) -> bool:
        entity = entity_text(answered.answer.results[position].entity)
        if not answered.rule.takes(entity):
            return True
        record = record_of(answered, position, entity)
        return writer.append(answered.rule.topic, entity, record, self._delivered)

    def _delivered(self, error: str | None) -> None:
        if error is None:
            self._taken.inc()
        else:
            self._lose(1, "broker", error)

    def _opened(self) -> EventWriter:
        if self._writer is None:
            from slicewise.stores.log.producer import EventWriter  # for those alone who log

            self._writer = EventWriter(self._bootstrap, self._patience_s, BROKER_BUFFER)
        return self._writer

    def _broke(self, error: Exception) -> None:
        """Loses the answer that could not be written."""
        if self._rest is not None:
            answered, position = self._rest
            left, self._rest = answered.positions.stop - position, None
            self._entities -= left
            self._lose(left, "defect", f"{type(error).__name__}: {error}")

    def _lose(self, answers: int, why: str, error: str = "") -> None:
        self._lost.labels(why).inc(answers)
        self._lost_since += answers
        now = time.monotonic()
        if now - self._logged_lost_at >= LOG_EVERY_S:
            log.warning("answers_not_logged", answers=self._lost_since, why=why, error=error)
            self._logged_lost_at, self._lost_since = now, 0

    def close(self) -> None:
        """Writes what is left, as far as the broker takes it in a few seconds; the rest is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._entities and self._writer is None:
            return
        deadline = time.perf_counter() + END_S
        while self._entities and time.perf_counter() < deadline:
            if not self._write(deadline):
                self._opened().close(0.1)
        left = self._entities + self._opened().close(max(0.0, deadline - time.perf_counter()))
        if left:
            self._lose(left, "end")
