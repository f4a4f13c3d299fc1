"""The example's songs stand beside its flights: plays that go on for ever, and the ten that are
played most, live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.settings import Settings

LEADERBOARD = "top_songs"
PLAYS_TOPIC = "plays"
FLIGHTS_TOPIC = "flights"
"""Topic of the example's other half; a project that reads it is the example, or began as a copy of
it."""


@dataclass(frozen=True)
class LeaderboardShown:
    """The leaderboard as the API tells it, and the page where it is live."""

    page: str
    rows: Sequence[tuple[str, float]]
    """Songs and their plays, the best first; none where no leaderboard stands yet."""


def songs_beside(settings: Settings, project: Deployment) -> Deployment | None:
    """The deployment that a first run makes beside the project. None where the project is not the
    example, or has names of the songs' for something of its own, or no songs are wanted."""
    if not settings.plays_rate or all(source.topic != FLIGHTS_TOPIC for source in project.sources):
        return None
    songs = plan(load_project(settings.home / "examples" / "songs" / "features.py"))
    return songs if _names(songs).isdisjoint(_names(project)) else None


def has_songs(settings: Settings, deployment: Deployment) -> bool:
    """Tells whether plays are to be made: the leaderboard is deployed, of the topic that they go
    to."""
    leaderboards = {leaderboard.name: leaderboard.view for leaderboard in deployment.leaderboards}
    topics = (
        {
            deployment.source(unit.source).topic
            for unit in deployment.view(leaderboards[LEADERBOARD])
        }
        if LEADERBOARD in leaderboards
        else set()
    )
    return bool(settings.plays_rate) and topics == {PLAYS_TOPIC}


def leaderboard_shown(settings: Settings) -> LeaderboardShown:
    """The leaderboard of now, asked over HTTP as a page would ask; without rows where it cannot be
    told."""
    import httpx

    page = f"{settings.serving_url}/leaderboards/{LEADERBOARD}"
    try:
        answer = httpx.get(
            f"{settings.serving_url}/v1/leaderboards/{LEADERBOARD}", timeout=10, trust_env=False
        )
        shown: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
    except (httpx.HTTPError, ValueError):  # the API is busy, or restarts: the page is the same
        shown = {}
    return LeaderboardShown(
        page, tuple((row["entity"]["song_id"], row["value"]) for row in shown.get("rows", ()))
    )


def _names(deployment: Deployment) -> set[str]:
    return {
        *deployment.views,
        *(source.name for source in deployment.sources),
        *(leaderboard.name for leaderboard in deployment.leaderboards),
    }
