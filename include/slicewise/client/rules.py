"""Settings, steps and reading of a call: one set of rules for both clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from slicewise.calls import shown
from slicewise.client.answers import Answer, Explanation, Leaderboard
from slicewise.client.retrying import Attempts, Budget, Outcome, Reply, Retry, attempts
from slicewise.client.training_sets import Submission, TrainingSetState, state_of
from slicewise.client.wire import answer_of, decoded, explanation_of, form_of, leaderboard_of
from slicewise.clock import Clock
from slicewise.errors import BadRequest


class Rules:
    """Settings, steps and reading of a call, for both clients."""

    def __init__(
        self,
        url: str | None,
        timeout_s: float,
        retry: Retry | None,
        form: str,
        clock: Clock,
        monotonic: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        if url is None:
            from slicewise.settings import Settings

            url = Settings.load().serving_url
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadRequest(
                f"url is {shown(url)}",
                where="HttpClient",
                expected="the address of the serving API, as http://host:8000",
                next_step="leave it out for the one of the settings (SLICEWISE_SERVING_URL)",
            )
        if type(timeout_s) not in (int, float) or not 0 < timeout_s < math.inf:
            raise BadRequest(
                f"timeout_s is {timeout_s!r}",
                where="HttpClient",
                expected="a number of seconds, more than 0",
                next_step="leave it out for 5 seconds",
            )
        self.url, self.form = url, form_of(form)
        self.timeout_s, self._retry = timeout_s, retry or Retry(times=0)
        self._budget = Budget(self._retry.share)
        self._clock, self.monotonic, self._random = clock, monotonic, random

    def options(self, connections: int, headers: Mapping[str, str] | None) -> dict[str, Any]:
        """Options of httpx."""
        return {
            "base_url": self.url,
            "trust_env": False,
            "limits": httpx.Limits(
                max_connections=connections, max_keepalive_connections=connections
            ),
            "headers": {
                **(headers or {}),
                "content-type": self.form.media_type,
                "accept": self.form.media_type,
            },
        }

    def call(self) -> Attempts:
        """The steps of one call."""
        return attempts(self._retry, self._budget, self.timeout_s, self.monotonic, self._random)

    def reply(self, response: httpx.Response) -> Reply:
        """A response whose body was read."""
        after = response.headers.get("retry-after")
        return Reply(
            response.status_code, response.content, None if after is None else self._seconds(after)
        )

    def _seconds(self, retry_after: str) -> float | None:
        """Retry-After is a number of seconds, or a date."""
        try:
            return max(0.0, float(retry_after))
        except ValueError:
            pass
        try:
            return max(
                0.0, parsedate_to_datetime(retry_after).timestamp() - self._clock.now_us() / 1e6
            )
        except ValueError:
            return None

    def answer(self, outcome: Outcome) -> Answer:
        return answer_of(decoded(self.form, outcome, self.url))

    def explanation(self, outcome: Outcome) -> Explanation:
        return explanation_of(decoded(self.form, outcome, self.url))

    def leaderboard(self, outcome: Outcome) -> Leaderboard:
        return leaderboard_of(decoded(self.form, outcome, self.url))

    def taken(self, outcome: Outcome) -> dict[Literal["predictions", "labels"], int]:
        numbers = decoded(self.form, outcome, self.url)
        return {"predictions": numbers["predictions"], "labels": numbers["labels"]}

    def state(self, outcome: Outcome) -> TrainingSetState:
        return state_of(decoded(self.form, outcome, self.url))

    def states(self, outcome: Outcome) -> Sequence[TrainingSetState]:
        listed = decoded(self.form, outcome, self.url)["training_sets"]
        return tuple(state_of(wire) for wire in listed)

    def fetching(self) -> dict[str, Any]:
        """Options of a request whose answer is a file, or an error in the client's form."""
        accept = f"application/octet-stream, {self.form.media_type}"
        return {"headers": {"accept": accept}, "timeout": self.timeout_s}

    def submitting(self, given: Submission) -> dict[str, Any]:
        """Options of a submission, without its content and its time."""
        headers = {"content-type": given.media_type, "idempotency-key": given.key}
        if isinstance(given.content, Path):
            headers["content-length"] = str(given.content.stat().st_size)
        return {"params": given.query, "headers": headers}
