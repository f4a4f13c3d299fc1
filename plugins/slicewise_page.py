"""The first page about slicewise in the Airflow UI; nothing of it is imported before somebody opens
it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, JSONResponse

if TYPE_CHECKING:
    from slicewise.errors import SlicewiseError
    from slicewise.lifecycle.incidents import Incidents

PREFIX = "/slicewise"
PAGE = Path(__file__).with_name("slicewise_page.html")
DOCS = Path(__file__).resolve().parents[1] / "docs"


def _app() -> FastAPI:
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from slicewise_airflow.reports.routes import add_routes

    # who may see Airflow's own pages may see this one; the platform is shown to nobody without a
    # sign-in
    signed_in = [Depends(requires_access_view(AccessView.WEBSITE))]
    app = FastAPI(title="slicewise", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/", response_class=HTMLResponse, dependencies=signed_in)
    async def page() -> HTMLResponse:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    @app.get("/docs/{name:path}", response_class=HTMLResponse)
    async def docs(name: str) -> HTMLResponse:
        """A page of the documentation: public text, which whoever is paged can read before signing
        in."""
        from slicewise_airflow.docs import rendered

        document = rendered(DOCS, name)
        if document is None:
            raise HTTPException(404, f"no page {name} in docs/")
        return HTMLResponse(document)

    @app.get("/status.json", dependencies=signed_in)
    async def status() -> JSONResponse:
        return JSONResponse(
            *await asyncio.to_thread(_status), headers={"Cache-Control": "no-store"}
        )

    add_routes(app, signed_in)
    return app


def _status() -> tuple[dict[str, Any], int]:
    from dataclasses import asdict

    from slicewise.errors import SlicewiseError
    from slicewise.lifecycle.findings import findings
    from slicewise.lifecycle.health.judge import Limits
    from slicewise.lifecycle.health.overview import JOBS, overview
    from slicewise.local.servers import drivers
    from slicewise.local.servers.inbox import Inbox
    from slicewise.settings import Settings
    from slicewise.stores.online.redis.status import read_status

    try:
        settings = Settings.load()
        limits = Limits(probe_ms=float(settings.probe_limit_ms))
    except SlicewiseError as error:
        return _error(error, []), 503
    inbox = Inbox(settings)
    try:
        status = read_status(settings.redis_url, JOBS)
    except SlicewiseError as error:
        return _error(error, _shown(inbox.of_file())), 503
    now_us = time.time_ns() // 1_000
    every = (*drivers.findings(settings, now_us), *findings(status, limits))
    # the inbox has the alerts
    findings_now = [asdict(one) for one in every if not one.part.startswith("alert ")]
    return overview(status, limits).to_json() | {
        "findings": findings_now,
        "incidents": _shown(inbox.read(status)),
        "serving_url": settings.serving_url,
    }, 200


def _error(error: SlicewiseError, shown: list[dict[str, object]]) -> dict[str, Any]:
    what = {"what": error.what, "next_step": error.next_step}
    return {"error": what, "incidents": shown, "now_us": time.time_ns() // 1_000}


def _shown(incidents: Incidents) -> list[dict[str, object]]:
    """Incidents for the page: open ones first, the newest of each first."""
    newest = sorted(incidents, key=lambda one: (one.over_us > 0, -one.opened_us))
    return [incident.to_json() for incident in newest]


class SlicewisePage(AirflowPlugin):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """Registers the page and its place in the navigation."""

    name = "slicewise"
    fastapi_apps: ClassVar[list[dict[str, Any]]] = [
        {"app": _app(), "url_prefix": PREFIX, "name": "slicewise"}
    ]
    external_views: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Slicewise",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "slicewise",
            "category": "browse",
            "nav_top_level": True,
        }
    ]
