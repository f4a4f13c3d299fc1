"""Reports are served under the sign-in of Airflow's own pages; nothing of them is imported before
somebody opens one, and none is made in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse, JSONResponse

HEADERS = {
    # a report loads nothing, runs nothing, and is framed by Airflow alone
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Days = Annotated[str, Query()]


def add_routes(app: FastAPI, signed_in: Sequence[Any], reading: Sequence[Any]) -> None:
    """Adds the reports below /reports of the plugin's page. signed_in: what a request must
    fulfil."""
    dependencies = list(signed_in)

    @app.get("/reports/", response_class=HTMLResponse, dependencies=dependencies)
    async def reports(days: Days = "7") -> HTMLResponse:
        from slicewise_airflow.reports.page import figures_page

        return await _html(figures_page, days)

    @app.get("/reports/figures.json", dependencies=dependencies)
    async def figures(days: Days = "7") -> JSONResponse:
        from slicewise_airflow.reports.page import figures_json

        document, status = await asyncio.to_thread(figures_json, days)
        return JSONResponse(document, status, headers=HEADERS)

    @app.get("/reports/checks/", response_class=HTMLResponse, dependencies=dependencies)
    async def checks() -> HTMLResponse:
        from slicewise_airflow.reports.page import checks_page

        return await _html(checks_page)

    @app.get("/reports/checks/{run:path}", response_class=HTMLResponse, dependencies=list(reading))
    async def check(run: str) -> HTMLResponse:
        from slicewise_airflow.reports.page import check_page

        return await _html(check_page, run)

    @app.get("/reports/versions/{name}", response_class=HTMLResponse, dependencies=list(reading))
    async def version(name: str) -> HTMLResponse:
        from slicewise_airflow.reports.page import version_page

        return await _html(version_page, name)

    @app.get("/reports/backtests/", response_class=HTMLResponse, dependencies=dependencies)
    async def backtests() -> HTMLResponse:
        from slicewise_airflow.reports.page import backtests_page

        return await _html(backtests_page)

    @app.get("/reports/backtests/{name}", response_class=HTMLResponse, dependencies=list(reading))
    async def backtest(name: str) -> HTMLResponse:
        from slicewise_airflow.reports.page import backtest_page

        return await _html(backtest_page, name)

    @app.get("/reports/trainings/", response_class=HTMLResponse, dependencies=dependencies)
    async def trainings() -> HTMLResponse:
        from slicewise_airflow.reports.page import trainings_page

        return await _html(trainings_page)

    @app.get("/reports/trainings/{name}", response_class=HTMLResponse, dependencies=list(reading))
    async def training(name: str) -> HTMLResponse:
        from slicewise_airflow.reports.page import training_page

        return await _html(training_page, name)


async def _html(page: Any, *arguments: object) -> HTMLResponse:
    text, status = await asyncio.to_thread(page, *arguments)
    return HTMLResponse(text, status, headers=HEADERS)
