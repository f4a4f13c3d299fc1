"""The page about slicewise in the Airflow UI; nothing of it is imported before somebody opens it.

Rights are Airflow's. Who may see Airflow's own pages may see this one; entities' values also need
the right to read assets, since they are what the assets hold. The page itself changes nothing: it
starts runs over Airflow's REST API, as the person who is signed in.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin
from fastapi import Body, Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

PREFIX = "/slicewise"
FILES = Path(__file__).with_name("page")
KINDS = {".css": "text/css", ".js": "text/javascript"}
DOCS = Path(__file__).resolve().parents[1] / "docs"
COMPACTION = "compact_slices"
# all that the page loads comes from here, and what it shows cannot run
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def _app() -> FastAPI:
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import (
        get_user,
        requires_access_asset,
        requires_access_view,
    )
    from slicewise_airflow.pages import page as reads
    from slicewise_airflow.pages.data_docs import mount as mount_data_docs
    from slicewise_airflow.pages.stories import mount as mount_stories
    from slicewise_airflow.reports.routes import add_routes

    signed_in = [Depends(requires_access_view(AccessView.WEBSITE))]
    reading = [*signed_in, Depends(requires_access_asset("GET"))]
    app = FastAPI(title="slicewise", docs_url=None, redoc_url=None, openapi_url=None)
    stored = reads.Shared(lambda: asyncio.to_thread(reads.sizes), seconds=30.0)
    calendar = reads.Shared(reads.hours, seconds=60.0)
    ranked = reads.Shared(reads.leaderboards, seconds=2.0)

    @app.get("/", response_class=HTMLResponse, dependencies=signed_in)
    async def page() -> HTMLResponse:
        return HTMLResponse(
            (FILES / "page.html").read_text(encoding="utf-8"),
            headers={"Content-Security-Policy": POLICY},
        )

    @app.get("/page/{name}", dependencies=signed_in)
    async def file(name: str) -> FileResponse:
        """A script or the style of the page."""
        path = next((one for one in FILES.iterdir() if one.name == name), None)
        if path is None or path.suffix not in KINDS:
            raise HTTPException(404, f"no file {name} of the page")
        return FileResponse(
            path, media_type=KINDS[path.suffix], headers={"Cache-Control": "no-cache"}
        )

    @app.get("/docs/{name:path}", response_class=HTMLResponse)
    async def docs(name: str) -> HTMLResponse:
        """A page of the documentation: public text, which whoever is paged can read before signing
        in."""
        from slicewise_airflow.pages.docs import rendered

        document = rendered(DOCS, name)
        if document is None:
            raise HTTPException(404, f"no page {name} in docs/")
        return HTMLResponse(document)

    mount_data_docs(app, reading)
    mount_stories(app, reading)

    @app.get("/rights.json", dependencies=signed_in)
    async def rights(user: Any = Depends(get_user)) -> JSONResponse:  # noqa: B008
        return _fresh(_rights(user), 200)

    @app.get("/status.json", dependencies=signed_in)
    async def status() -> JSONResponse:
        return _fresh(*await asyncio.to_thread(reads.status))

    @app.get("/sizes.json", dependencies=signed_in)
    async def sizes() -> JSONResponse:
        return _fresh(*await stored.get())

    @app.get("/hours.json", dependencies=signed_in)
    async def hours() -> JSONResponse:
        return _fresh(*await calendar.get())

    @app.get("/leaderboards.json", dependencies=reading)
    async def leaderboards() -> JSONResponse:
        return _fresh(*await ranked.get())

    @app.get("/features.json", dependencies=reading)
    async def features() -> JSONResponse:
        return _fresh(*await reads.features())

    # a POST, so that no entity stands in a log of addresses
    @app.post("/explain.json", dependencies=reading)
    async def explain(body: dict[str, Any] = Body()) -> JSONResponse:  # noqa: B008
        return _fresh(*await reads.explained(body))

    add_routes(app, signed_in, reading)
    return app


def _fresh(document: dict[str, Any], status: int) -> JSONResponse:
    return JSONResponse(document, status, headers={"Cache-Control": "no-store"})


def _rights(user: Any) -> dict[str, bool]:
    """Rights of this person, by Airflow: the page offers nothing else."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import (
        DagAccessEntity,
        DagDetails,
    )

    manager = get_auth_manager()
    return {
        "read": manager.is_authorized_asset(method="GET", user=user),
        "compact": manager.is_authorized_dag(
            method="POST",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=COMPACTION),
            user=user,
        ),
    }


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
