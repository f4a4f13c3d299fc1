"""Answers are asked for while a fault lasts, and kept with their tokens: what each had to be is
judged afterwards.

Judged at once is only what no later look can tell: that no token goes back, whatever the store
lost.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.offsets.token import decode_all
from slicewise.offsets.vector import OffsetVector
from tests.e2e.payments import CARDS, SHOPS

_KEYS = {"card": CARDS, "shop": SHOPS}
_FEATURES = 12
"""Features of one question: answers are many rather than wide."""
_INTERVAL_S = 0.1
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Question:
    """Some features of a unit."""

    unit: StorageUnit
    features: tuple[PlannedFeature, ...]

    @property
    def refs(self) -> list[str]:
        return [f"{self.unit.view}:{feature.column}" for feature in self.features]

    def key(self, rng: random.Random) -> tuple[str, ...]:
        """The key of some entity; ("nobody",) stands for those that never come."""
        return tuple(rng.choice([*_KEYS[name], "nobody"]) for name, _ in self.unit.entity)


@dataclass(frozen=True)
class Answer:
    """Answer to a question about one entity."""

    question: Question
    key: tuple[str, ...]
    at: str
    result: dict[str, Any]
    """`token` and `values`, as the API gave them."""

    @property
    def base(self) -> OffsetVector:
        (token,) = decode_all(self.result["token"])
        return token.base


def under(question: Question, unit: StorageUnit) -> Question | None:
    """The same question, by the same name, as a unit of another definition understands it; None
    where it knows not all of its features."""
    if unit is question.unit:
        return question
    by_column = {feature.column: feature for feature in unit.features}
    wanted = [feature.column for feature in question.features]
    return (
        Question(replace(unit, view=question.unit.view), tuple(by_column[ref] for ref in wanted))
        if by_column.keys() >= set(wanted)
        else None
    )


def questions(deployment: Deployment) -> list[Question]:
    """Questions that together ask for every feature once."""
    results = []
    for unit in deployment.units:
        for first in range(0, len(unit.features), _FEATURES):
            results.append(Question(unit, tuple(unit.features[first : first + _FEATURES])))
    return results


def _by_definition(units: Iterable[StorageUnit]) -> Mapping[str, StorageUnit]:
    return {unit.definition_fingerprint: unit for unit in units}


@dataclass
class Bases:
    """Progress of the answers about each entity."""

    _highest: dict[tuple[str, tuple[str, ...]], OffsetVector] = field(default_factory=dict)

    def after(self, unit: str, key: tuple[str, ...], base: OffsetVector) -> str | None:
        """Tells what went back with an answer; None: nothing did."""
        before = self._highest.get((unit, key), OffsetVector())
        if not base.dominates(before):
            return (
                f"unit {unit} {key}: the token went back from {dict(before.offsets)} to "
                f"{dict(base.offsets)}"
            )
        self._highest[unit, key] = base
        return None


class Watch:
    """Asks ten questions a second, from `resume` to `pause`."""

    def __init__(self, serving_url: str, questions: Sequence[Question], rng: random.Random) -> None:
        self.questions, self._rng = list(questions), rng
        self.answers: list[Answer] = []
        self.refused = 0
        self.flagged: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._spared: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
        self._bases = Bases()
        self._tokens: dict[tuple[str, tuple[str, ...]], str] = {}
        self._current = _by_definition(question.unit for question in questions)
        self._url = f"{serving_url}/v1/features"
        # verify: reading certificates, which this address needs none of, takes longer than an
        # answer
        self._client = httpx.Client(timeout=_TIMEOUT_S, trust_env=False, verify=False)
        self._requesting = threading.Lock()
        self._keeping = threading.Lock()
        self._paused, self._over = threading.Event(), threading.Event()
        self._paused.set()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        self._paused.clear()

    def pause(self) -> None:
        """Returns when nothing is asked any more."""
        self._paused.set()
        with self._requesting:
            pass

    def stop(self) -> None:
        self._over.set()
        self._thread.join(_TIMEOUT_S + 5)
        self._client.close()

    def defined(self, *deployments: Deployment) -> None:
        """From now on what is asked may be answered by the definitions of these, and by no
        others."""
        self._current = _by_definition(
            unit for deployment in deployments for unit in deployment.units
        )

    def set_questions(self, questions: Sequence[Question]) -> None:
        """Asks these questions from now on; returns when none of the others is asked any more."""
        with self._requesting:
            self.questions = list(questions)

    def spares(self, entities: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Nothing is asked about these (view, key) from now on, and about all others; returns when
        nothing is."""
        with self._requesting:
            self._spared = frozenset(entities)

    def taken(self) -> tuple[list[Answer], int, list[str]]:
        """Answers, refusals and what was wrong since this was asked last."""
        assert self._thread.is_alive(), "nobody asks any more: see the trace of the thread 'watch'"
        result = self.answers, self.refused, self.wrong
        self.answers, self.refused, self.wrong = [], 0, []
        return result

    def request(
        self, question: Question, key: tuple[str, ...], *, min_token: str | None = None
    ) -> Answer | None:
        """One answer, which is kept; None where it was refused."""
        names = [name for name, _ in question.unit.entity]
        body: dict[str, Any] = {
            "features": question.refs,
            "entities": [dict(zip(names, key, strict=True))],
        }
        if min_token is not None:
            body["min_token"] = min_token
        current = self._current
        try:
            given = self._client.post(self._url, json=body)
        except httpx.HTTPError as error:
            self.wrong.append(f"{question.unit.view} {key}: no answer: {error!r}")
            return None
        with self._keeping:
            return self._kept(question, key, current, given)

    def _kept(
        self,
        question: Question,
        key: tuple[str, ...],
        current: Mapping[str, StorageUnit],
        given: httpx.Response,
    ) -> Answer | None:
        if given.status_code == 503 and "retry-after" in given.headers:
            self.refused += 1
            return None
        if given.status_code != 200:
            self.wrong.append(f"{question.unit.view} {key}: {given.status_code} {given.text[:300]}")
            return None
        parsed = given.json()
        (result,) = parsed["results"]
        self.flagged.update(parsed["flags"])
        definition = decode_all(result["token"])[0].definition
        meant = under(question, current[definition]) if definition in current else None
        if meant is None:
            self.wrong.append(
                f"{question.unit.view} {key}: answered by the definition {definition}, which "
                "does not stand"
            )
            return None
        answer = Answer(meant, key, parsed["t"], result)
        unit = meant.unit.storage_fingerprint  # a name may stand for another version by now
        self.answers.append(answer)
        if (why := self._bases.after(unit, key, answer.base)) is not None:
            self.wrong.append(f"{question.unit.view}: {why}")
        self._tokens[unit, key] = result["token"]
        return answer

    def _run(self) -> None:
        rng = self._rng
        while not self._over.wait(_INTERVAL_S):
            with self._requesting:
                if self._paused.is_set():
                    continue
                question = rng.choice(self.questions)
                key = question.key(rng)
                if (question.unit.view, key) in self._spared:
                    continue
                token = self._tokens.get((question.unit.storage_fingerprint, key))
                token = (
                    token
                    if rng.random() < 0.3 and not self._may_be_another(question.unit)
                    else None
                )
                self.request(question, key, min_token=token)

    def _may_be_another(self, unit: StorageUnit) -> bool:
        """Tells whether a unit that was built anew may answer for the view: it refuses tokens of
        the one before."""
        units = [
            storage_unit
            for storage_unit in self._current.values()
            if storage_unit.view == unit.view
        ]
        alike = [storage_unit for storage_unit in units if type(storage_unit) is type(unit)]
        return any(other.storage_fingerprint != unit.storage_fingerprint for other in alike)
