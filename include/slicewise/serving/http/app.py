"""HTTP over the service object: parse once, one flow, encode once.

Bare ASGI, since a framework costs more here than the whole answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
import traceback
from collections.abc import MutableMapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from slicewise import log
from slicewise.clock import Clock, SystemClock
from slicewise.errors import SlicewiseError, UnknownName
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import FeaturesRequest, parse_body
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.factory import asynchronous
from slicewise.serving.http import describe, leaderboard_page, openapi, page
from slicewise.serving.http import errors as http
from slicewise.serving.http.admission import Limits
from slicewise.serving.http.body import Receive, Send, whole
from slicewise.serving.http.errors import Response, encoded, error_response
from slicewise.serving.http.failures import Failures
from slicewise.serving.http.features import Features
from slicewise.serving.http.gate import Gate
from slicewise.serving.http.negotiation import (
    HTML_KINDS,
    JSON_KINDS,
    check_accepted,
    media_types,
)
from slicewise.serving.http.training_sets.routes import PATH as TRAINING_SETS
from slicewise.serving.http.training_sets.routes import Options, TrainingSets
from slicewise.serving.leaderboards import read_leaderboard
from slicewise.serving.logged.outcomes import Outcomes, parse_outcomes
from slicewise.serving.logged.request_log import RequestLog
from slicewise.serving.metrics import CONTENT_TYPE, Metrics
from slicewise.stores.jobs.folder import FOLDER, JobFolder
from slicewise.stores.jobs.job import Limits as JobLimits
from slicewise.windows.durations import HOUR_US

if TYPE_CHECKING:
    from slicewise.serving.platform_metrics import PlatformMetrics
    from slicewise.serving.registry import RegistryReader

Scope = MutableMapping[str, Any]

LISTEN_EVERY_S = 1.0
STORE_TIMEOUT_S = 5.0
"""A node that has not answered for so long is no node to wait for; a request waits for less
(`timeout_s`)."""
RETRY_TOTALS_EVERY_S = 30.0
LIMITS = Limits(at_once=16, patience_s=0.1, waiting=1_000)


class App:
    """The ASGI application of one process."""

    def __init__(
        self,
        redis_url: str,
        clock: Clock | None = None,
        timeout_s: float = 4.0,
        limits: Limits = LIMITS,
        client_header: str = "",
        kafka_bootstrap: str = "",
        training_sets: tuple[Path, Options] | None = None,
    ) -> None:
        """timeout_s: longest that a request is in work. client_header: names the client, else its
        address does. kafka_bootstrap: where answers are logged and outcomes go; empty: nowhere.
        training_sets: the folder of their jobs, and their options; None: there are none."""
        self.metrics = Metrics()
        self._redis_url, self._timeout_s = redis_url, timeout_s
        self.gate = Gate(limits, self.metrics)
        observe = self.metrics.store_seconds.observe
        self.connection = asynchronous(redis_url, STORE_TIMEOUT_S, observe, timeout_s)
        clock = clock or SystemClock()
        self.service = FeatureService(clock)
        self._failures = Failures(self.metrics)
        self.request_log = (
            RequestLog(self.service, self.metrics, kafka_bootstrap) if kafka_bootstrap else None
        )
        self.outcomes = Outcomes(kafka_bootstrap, self.metrics)
        self.features = Features(
            self.service,
            self.connection,
            self.gate,
            self.metrics,
            self._failures,
            client_header,
            self.request_log,
        )
        self.training_sets: TrainingSets | None = None
        if training_sets is not None:
            folder, options = training_sets
            self.training_sets = TrainingSets(
                JobFolder(folder),
                options,
                clock,
                self.service,
                self.connection,
                self._failures,
                self.metrics,
            )
        self._jobs: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._deaf: str | None = None
        """Reason for which catalog and freshness are not kept current, while they are not."""

    @cached_property
    def platform(self) -> PlatformMetrics:
        """Metrics of the platform; what makes them is imported by the first scrape of them."""
        from slicewise.serving.platform_metrics import PlatformMetrics

        return PlatformMetrics(self._redis_url)

    @cached_property
    def registry(self) -> RegistryReader:
        """Reader of the registry; imported by the first who asks for a name."""
        from slicewise.serving.registry import RegistryReader

        return RegistryReader(self._redis_url, self._timeout_s, self.features.offline.data_sets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    # ------------------------------------------------------------ life
    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._listener = asyncio.create_task(self._listen())
                if self.training_sets is not None:
                    self._jobs = asyncio.create_task(self.training_sets.process.run())
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self) -> None:
        """Ends what runs in the background, and the connection."""
        for task in (self._listener, self._jobs):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if "registry" in self.__dict__:  # which nobody may have asked for
            await self.registry.end()
        if self.training_sets is not None:
            await self.training_sets.process.end()
        await self.features.offline.end()
        if self.request_log is not None:
            self.request_log.close()
        self.outcomes.close()
        self.connection.close()

    async def _listen(self) -> None:
        """Keeps the catalog and the freshness current while nobody asks, and day totals in use."""
        retry_totals = time.monotonic() + RETRY_TOTALS_EVERY_S
        while True:
            try:
                catalog = self.service.catalog
                if catalog is None:
                    catalog = await self.connection.run(self.service.load())
                await self.connection.run(self.service.freshness.listen(catalog))
                if self.request_log is not None:
                    self.request_log.open()
                unreadable = self.service.freshness.unreadable.items()
                self._deaf = (
                    "; ".join(f"source {name}: {error.what}" for name, error in unreadable) or None
                )
                if unreadable:
                    self.metrics.listening_failures.inc()
            except SlicewiseError as error:
                log.warning("store_not_ready", kind=type(error).__name__, what=error.what)
            except Exception as error:  # noqa: BLE001
                lines = "".join(traceback.format_exception(error))
                log.warning("listening_failed", kind=type(error).__name__, trace=lines)
                self.metrics.listening_failures.inc()
                self._deaf = f"what the stream says cannot be taken in: {type(error).__name__}"
            if time.monotonic() >= retry_totals:
                self.service.retry_totals()
                retry_totals = time.monotonic() + RETRY_TOTALS_EVERY_S
            await asyncio.sleep(LISTEN_EVERY_S)

    # ------------------------------------------------------------ requests
    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        start = time.perf_counter()
        if path == "/v1/features" and method == "POST":
            response = await self._features(scope, receive)
            self.features.seconds.observe(time.perf_counter() - start)
            await _respond(send, method, response)
            return
        sets = self.training_sets
        if sets is not None and (path == TRAINING_SETS or path.startswith(f"{TRAINING_SETS}/")):
            respond = partial(_respond, send, method)
            await sets.handle(scope, receive, send, self._client(scope), respond)
        else:
            response = await self._other(scope, receive, path, method)
            await _respond(send, method, response)
        self.metrics.request_seconds.labels(_route(path)).observe(time.perf_counter() - start)

    async def _features(self, scope: Scope, receive: Receive) -> Response:
        headers = scope["headers"]
        packed_in, packed_out, accept = media_types(headers)
        try:
            check_accepted(accept, JSON_KINDS)
            body = await whole(headers, receive)
            request = parse_body(body, msgpack=packed_in)
            answer = await self.features.answer(request, self._client(scope))
        except Exception as error:  # noqa: BLE001
            return self._failures.response(error, msgpack=packed_out)
        return self.features.response(answer, msgpack=packed_out)

    def _client(self, scope: Scope) -> str:
        named = self.features.named(scope["headers"])
        if named is not None:
            return named
        client = scope.get("client")
        return client[0] if client else ""

    async def _explain(self, scope: Scope, receive: Receive) -> Response:
        headers = scope["headers"]
        packed_in, packed_out, accept = media_types(headers)
        try:
            check_accepted(accept, JSON_KINDS)
            request = parse_body(await whole(headers, receive), msgpack=packed_in)
            async with self.gate.entered(self._client(scope)):
                explanation = await self.connection.run(self.service.explain(request))
                wire = explanation.to_wire(text=not packed_out)
                return encoded(200, wire, msgpack=packed_out)
        except Exception as error:  # noqa: BLE001
            return self._failures.response(error, msgpack=packed_out)

    async def _outcomes(self, scope: Scope, receive: Receive) -> Response:
        headers = scope["headers"]
        packed_in, packed_out, accept = media_types(headers)
        try:
            check_accepted(accept, JSON_KINDS)
            given = await whole(headers, receive)
            async with self.gate.entered(self._client(scope)):  # as long as it takes the loop
                body = parse_outcomes(given, msgpack=packed_in)
                catalog = await self.connection.run(self.service.load())
                now_us = self.service.clock.now_us()
                matched = await self.outcomes.matched(body, catalog.deployment, self._read)
                events = await self.outcomes.checked(body, catalog.deployment, now_us, matched)
            await self.outcomes.write(events)
            return encoded(200, self.outcomes.count(body), msgpack=packed_out)
        except Exception as error:  # noqa: BLE001
            return self._failures.response(error, msgpack=packed_out)

    async def _read(self, request: FeaturesRequest) -> Answer:
        return await self.connection.run(self.service.read(request))

    async def _other(self, scope: Scope, receive: Receive, path: str, method: str) -> Response:
        if path == _OUTCOMES:
            if method != "POST":
                return http.method_refused(method, "POST")
            return await self._outcomes(scope, receive)
        if path == _EXPLAIN:
            if method != "POST":
                return http.method_refused(method, "POST")
            return await self._explain(scope, receive)
        served = path in _PAGES or path.startswith(_NAMED)
        if not served and path != "/v1/features":
            pages = ", ".join((*_PAGES, _EXPLAIN, _OUTCOMES, TRAINING_SETS))
            error = UnknownName("no such page", expected=pages, next_step="see /")
            return error_response(error)
        if method not in ("GET", "HEAD"):
            return http.method_refused(method, "GET" if path != "/v1/features" else "GET, POST")
        _, packed, accept = media_types(scope["headers"])
        try:
            if path in _UNGATED:
                return await self._page(path)
            check_accepted(
                accept,
                HTML_KINDS if path == "/" or path.startswith(_HTML) else JSON_KINDS,
            )
            if path.startswith(_REGISTRIES):  # one at a time, in no place of an answer
                return await self._registry(path, scope.get("query_string", b""), packed)
            async with self.gate.entered(self._client(scope)):
                if path.startswith(_LEADERBOARD):
                    return await self._leaderboard(unquote(path[len(_LEADERBOARD) :]), packed)
                return await self._page(path)
        except SlicewiseError as error:
            return self._failures.response(error, msgpack=packed)
        except Exception as error:  # noqa: BLE001
            return self._failures.response(error)

    async def _page(self, path: str) -> Response:
        if path == "/healthz":
            return encoded(200, {"status": "ok"})
        if path == "/metrics":
            describe.gauges(self.metrics, self.service)
            self.metrics.requests.labels("work").set(self.gate.admission.working)
            self.metrics.requests.labels("wait").set(self.gate.admission.waiting)
            return Response(200, self.metrics.text(), CONTENT_TYPE.encode())
        if path == _PLATFORM:
            return Response(200, await self.platform.read(), CONTENT_TYPE.encode())
        if path == "/openapi.json":
            return encoded(200, openapi.document())
        if path == "/readyz":
            return await self._ready()
        if path == "/":
            with contextlib.suppress(SlicewiseError):
                await self.connection.run(self.service.load())
            return Response(200, page.html(self.service), http.HTML)
        catalog = await self.connection.run(self.service.load())
        if path.startswith(_LEADERBOARD_PAGE):
            leaderboard = catalog.deployment.leaderboard(unquote(path[len(_LEADERBOARD_PAGE) :]))
            return Response(200, leaderboard_page.html(leaderboard), http.HTML)
        if path == "/v1/leaderboards":
            return encoded(200, describe.leaderboards(catalog.deployment))
        if path == "/v1/features":
            return encoded(200, describe.everything(catalog.deployment))
        return encoded(200, describe.one(catalog.deployment, unquote(path[len("/v1/features/") :])))

    async def _leaderboard(self, name: str, packed: bool) -> Response:
        leaderboard = await self.connection.run(read_leaderboard(self.service, name))
        if leaderboard.age_us is not None:
            self.metrics.leaderboard_age.labels(name).set(leaderboard.age_us / 1e6)
        for flag in leaderboard.flags:
            self.metrics.flags.labels(flag).inc()
        return encoded(200, leaderboard.to_wire(text=not packed), msgpack=packed)

    async def _registry(self, path: str, query: bytes, packed: bool) -> Response:
        """Definitions that are deployed, or those that all words of `q` are about; or one name."""
        # imported by the first who asks: answers need none of it
        from slicewise.serving.http import registry_page
        from slicewise.serving.registry import search

        catalog = await self.connection.run(self.service.load())
        people = path.startswith(_REGISTRY_PAGE)
        name = unquote(path.removeprefix("/v1").removeprefix(_REGISTRY_PAGE)).removeprefix("/")
        if name:
            shown = await self.registry.read(catalog.deployment, name)
            if people:
                return Response(200, registry_page.shown_html(shown), http.HTML)
            return encoded(200, shown.to_json(), msgpack=packed)
        words = " ".join(parse_qs(query.decode("latin-1"), errors="replace").get("q", ()))
        matches = search(catalog.deployment, words)
        if people:
            return Response(200, registry_page.matches_html(words, matches), http.HTML)
        listed = {"words": words, "matches": [one.to_json() for one in matches]}
        return encoded(200, listed, msgpack=packed)

    async def _ready(self) -> Response:
        try:
            catalog = await self.connection.run(self.service.load())
            report = await self.connection.run(self.service.readiness(catalog))
        except SlicewiseError as error:
            body = {"ready": False, "reasons": [error.what], **http.error_body(error)}
            return encoded(503, body)
        if self._listener is not None and self._listener.done():
            self._deaf = self._deaf or "the listener has ended"
        if self._deaf is not None:
            report |= {"ready": False, "reasons": [*report["reasons"], self._deaf]}
        return encoded(200 if report["ready"] else 503, report)


_PLATFORM = "/metrics/platform"
_PAGES = (
    "/",
    "/healthz",
    "/readyz",
    "/metrics",
    _PLATFORM,
    "/openapi.json",
    "/v1/features",
    "/v1/leaderboards",
    "/registry",
    "/v1/registry",
)
_UNGATED = ("/healthz", "/readyz", "/metrics", _PLATFORM, "/openapi.json")
"""Paths that tell how the service is: they must be told while it is busy."""
_OUTCOMES = "/v1/outcomes"
_EXPLAIN = "/v1/explain"
_LEADERBOARD, _LEADERBOARD_PAGE = "/v1/leaderboards/", "/leaderboards/"
_REGISTRY, _REGISTRY_PAGE = "/v1/registry", "/registry"
_REGISTRIES = (_REGISTRY, _REGISTRY_PAGE)
_HTML = (_LEADERBOARD_PAGE, _REGISTRY_PAGE)
_NAMED = (
    "/v1/features/",
    _LEADERBOARD,
    _LEADERBOARD_PAGE,
    f"{_REGISTRY}/",
    f"{_REGISTRY_PAGE}/",
)


async def _respond(send: Send, method: str, response: Response) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": [
                (b"content-type", response.content_type),
                (b"content-length", b"%d" % len(response.body)),
                *response.headers,
            ],
        }
    )
    body = b"" if method == "HEAD" else response.body
    await send({"type": "http.response.body", "body": body})


def _route(path: str) -> str:
    if path.startswith(f"{TRAINING_SETS}/"):
        part = path.count("/") > TRAINING_SETS.count("/") + 1
        return f"{TRAINING_SETS}/{{id}}" + ("/{file}" if part else "")
    for named in _NAMED:
        if path.startswith(named):
            return named + "{name}"
    return path if path in (*_PAGES, _EXPLAIN, _OUTCOMES, TRAINING_SETS) else "other"


GARBAGE = 50_000
"""Objects that were made and not freed, after which cycles among them are looked for.

A read makes thousands of objects and frees them all by their counts. By Python's own bound, 700,
they are all looked through several times while it is answered.
"""


def create() -> App:
    """The application by the settings of the environment; each worker process calls it."""
    from slicewise.settings import Settings

    gc.collect()
    gc.freeze()  # what is imported stays
    gc.set_threshold(GARBAGE)

    settings = Settings.load()
    limits = Limits(
        settings.serving_at_once, settings.serving_wait_ms / 1e3, settings.serving_waiting
    )
    return App(
        settings.redis_url,
        timeout_s=settings.serving_timeout_ms / 1e3,
        limits=limits,
        client_header=settings.serving_client_header,
        kafka_bootstrap=settings.kafka_bootstrap,
        training_sets=(
            settings.state_dir / FOLDER,
            Options(
                JobLimits(
                    settings.training_sets_waiting,
                    settings.training_sets_per_client,
                    settings.training_sets_keep_h * HOUR_US,
                ),
                settings.training_sets_bytes,
                tuple(filter(None, map(str.strip, settings.training_sets_namespaces.split(",")))),
            ),
        ),
    )
