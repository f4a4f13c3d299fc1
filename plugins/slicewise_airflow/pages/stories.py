"""The way from red to green stands on one page: what differed, what recomputed it, what was green,
and the alert about it."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment

from slicewise.client.instants import instant_text
from slicewise.errors import SlicewiseError
from slicewise.lifecycle.healing.record import PART, Healing, Step, Story
from slicewise.lifecycle.incidents import Incidents
from slicewise.lifecycle.jobs import hour_text
from slicewise.local import history
from slicewise.local.servers.inbox import Inbox
from slicewise.settings import Settings
from slicewise_airflow.pages.frames import environment
from slicewise_airflow.pages.page import Document, error_of
from slicewise_airflow.reports.routes import HEADERS

INCIDENT = "check_red"
_JUST_US = 600_000_000
"""Time after a story's end within which its incident is over."""


def mount(app: FastAPI, reading: list[Any]) -> None:
    """Adds the page; reading: what a request must be, as the stories hold values of entities."""

    @app.get("/stories/", response_class=HTMLResponse, dependencies=reading)
    def page() -> HTMLResponse:
        document, status = stories()
        return HTMLResponse(rendered(document), status, headers=HEADERS)

    @app.get("/stories.json", dependencies=reading)
    def document() -> JSONResponse:
        given, status = stories()
        return JSONResponse(given, status, headers=HEADERS)


def stories() -> tuple[Document, int]:
    """The last stories, newest first, and what is marked now."""
    from slicewise.stores.online.redis.status import read_part

    try:
        settings = Settings.load()
        healing = Healing.of(read_part(settings.redis_url, PART))
    except SlicewiseError as error:
        return error_of(error), 503
    kept = Inbox(settings).of_file()
    reports = {
        path.stem.rpartition("-")[2]: path.stem
        for path in history.checks(settings).glob("check-*.html")
    }
    return {
        "now_us": time.time_ns() // 1_000,
        "marked": [mark.shown() for mark in healing.marked],
        "stories": [_story(story, kept, reports) for story in reversed(healing.stories)],
    }, 200


def _story(story: Story, kept: Incidents, reports: dict[str, str]) -> Document:
    began_us = story.steps[0].at_us
    until_us = (story.over_us or time.time_ns() // 1_000) + _JUST_US
    alerts = [
        {
            "owner": incident.alert.owner,
            "opened_us": incident.opened_us,
            "over_us": incident.over_us,
            "pages": incident.pages,
        }
        for incident in kept
        if incident.key == INCIDENT and began_us <= incident.opened_us <= until_us
    ]
    return {
        "began_us": began_us,
        "over_us": story.over_us,
        "gate": "open" if story.over_us or not _is_red(story) else "closed",
        "steps": [_step(step, reports) for step in story.steps],
        "alerts": alerts,
    }


def _is_red(story: Story) -> bool:
    return any(step.kind == "red" for step in story.steps)


def _step(step: Step, reports: dict[str, str]) -> Document:
    document = asdict(step)
    document["hours"] = {
        view: [hour_text(hour) for hour in hours] for view, hours in step.hours.items()
    }
    if step.run:
        document["url"] = f"../dags/{quote(step.dag)}/runs/{quote(step.run, safe='')}"
    if step.report in reports:
        document["report_url"] = f"reports/checks/{reports[step.report]}"
    return document


def rendered(document: Document) -> str:
    """The page of a document, or of the error that it is."""
    return _environment().get_template("stories.html").render(**{"error": None} | document)


@cache
def _environment() -> Environment:
    made = environment(Path(__file__).with_name("templates"))
    made.filters["instant"] = _instant
    return made


def _instant(us: int) -> str:
    return instant_text(us // 1_000_000 * 1_000_000)
