"""One session with Airflow's REST API: signed in when needed, asked again where that is safe,
errors as ours."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from slicewise.errors import BadRequest, ServerError, UnknownName

TIMEOUT_S = 60.0
TRIES = 6
"""Number of times that a request that changes nothing twice is sent before its server error
counts."""


class AirflowHttp:
    """Signs in with user and password, or with the token that everybody gets on an embedded
    platform."""

    def __init__(
        self,
        url: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._user = os.environ.get("SLICEWISE_AIRFLOW_USER")
        self._password = os.environ.get("SLICEWISE_AIRFLOW_PASSWORD")
        self._sleep = sleep
        self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False)
        self._signed_in = False

    def close(self) -> None:
        self._http.close()

    def send(
        self, method: str, path: str, *, tries: int | None = None, **more: Any
    ) -> dict[str, Any]:
        """Asks, again after a server error or none in time where that is safe: Airflow's SQLite is
        locked at times."""
        left = tries or (1 if method == "POST" else TRIES)
        while True:
            left -= 1
            try:
                return self._send(method, path, **more)
            except Unwell:
                if left <= 0:
                    raise
                self._sleep(1.0)

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        json: Mapping[str, object] | None = None,
        signed: bool = True,
        again: bool = True,
    ) -> dict[str, Any]:
        if signed and not self._signed_in:
            self._sign_in()
        headers = {"Accept": "application/json"}
        try:
            query = {k: str(v) for k, v in (params or {}).items()}
            answer = self._http.request(method, path, params=query, json=json, headers=headers)
        except (httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError) as error:
            # it runs, on a busy machine, or closed a connection that rested: a run of minutes does
            # not end for that
            late = isinstance(error, httpx.ReadTimeout)
            raise Unwell(
                f"{method} {path}: {f'no answer within {TIMEOUT_S:g} s' if late else error}",
                where=self.url,
                next_step="is the machine overloaded? slicewise status",
            ) from error
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.status_code == 401 and signed and again:  # the token is a day old at most
            self._signed_in = False
            return self._send(method, path, params=params, json=json, again=False)
        if answer.status_code < 400:
            body: dict[str, Any] = answer.json() if answer.content else {}
            return body
        what = f"{method} {path}: {answer.status_code} {_detail(answer)}"
        if answer.status_code == 404:
            raise UnknownName(
                what,
                where=self.url,
                next_step="ask for what Airflow has: its page lists DAGs and runs",
            )
        if answer.status_code == 409:
            raise Conflict(what, where=self.url)
        if answer.status_code < 500:
            raise BadRequest(
                what,
                where=self.url,
                next_step="correct the request; Airflow's page shows what it takes",
            )
        raise ServerFault(what, where=self.url, next_step="look at the log of Airflow's api-server")

    def _sign_in(self) -> None:
        try:
            if self._user:
                body = {"username": self._user, "password": self._password or ""}
                answer = self._http.post("/auth/token", json=body)
            else:
                answer = self._http.get("/auth/token")
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.status_code >= 400:
            raise ServerError(
                f"Airflow refuses the sign-in ({answer.status_code})",
                where=self.url,
                next_step="set SLICEWISE_AIRFLOW_USER and SLICEWISE_AIRFLOW_PASSWORD",
            )
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        self._signed_in = True

    def _unreachable(self, error: Exception) -> ServerError:
        return ServerError(
            f"Airflow does not answer: {error or type(error).__name__}",
            where=self.url,
            next_step="is it up? slicewise status",
        )


class Unwell(ServerError):
    """Airflow answered that it could not, or did not answer in time."""


class ServerFault(Unwell):
    """Airflow answered that it could not."""


class Conflict(BadRequest):
    """Something of that kind is under way already."""


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json().get("detail", ""))[:300]
    except (ValueError, AttributeError):
        return answer.text[:300]
