"""A question that is not answered says nothing: only an answer of 200 tells whether a probe is in
it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from slicewise import log
from slicewise.features.own import REF

TIMEOUT_S = 5.0
"""Seconds after which an API that hangs is asked anew: well within the time for which a prober may
be silent, which is not to blame."""


@dataclass
class Api:
    """The HTTP API, over one connection that is kept, and made anew where it broke."""

    url: str
    refused: int = 0
    _connection: http.client.HTTPConnection | None = None
    _last_refusal: str = ""
    _headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})

    def request(self, probes: Sequence[str]) -> Sequence[bool] | None:
        """Asks for the probes, and tells for each whether it is in the answer; None where there was
        none, which is logged once for each reason."""
        body = json.dumps(
            {"features": [REF], "entities": [{"probe": probe} for probe in probes]}
        ).encode()
        try:
            connection = self._connected()
            connection.request("POST", "/v1/features", body, self._headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                self._refuse(f"status {answer.status}")
                return None
            request = [bool(result["values"][REF]) for result in json.loads(text)["results"]]
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            self.close()
            self._refuse(f"{type(error).__name__}: {error}")
            return None
        self._last_refusal = ""
        return request

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            address = urlsplit(self.url)
            kind = (
                http.client.HTTPSConnection
                if address.scheme == "https"
                else http.client.HTTPConnection
            )
            self._connection = kind(
                address.hostname or "127.0.0.1", address.port, timeout=TIMEOUT_S
            )
        return self._connection

    def _refuse(self, why: str) -> None:
        self.refused += 1
        if why != self._last_refusal:
            self._last_refusal = why
            log.warning("probes_not_answered", why=why)

    def close(self) -> None:
        """The next question makes a new connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
