"""Pages of the reports: figures of a window with their pictures, runs of the check, and the report
of one."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from jinja2 import Environment

from slicewise.errors import SettingsError
from slicewise.lifecycle.history.buckets import WINDOWS, Steps
from slicewise.lifecycle.history.drift import REACH_US
from slicewise.lifecycle.history.entries import Entry
from slicewise.lifecycle.history.picture import Picture, number
from slicewise.lifecycle.history.pictures import Past, pictures
from slicewise.lifecycle.models.backtests import PAGE, Backtested
from slicewise.local import history, run_pages
from slicewise.local.servers.inbox import Inbox
from slicewise.settings import Settings
from slicewise.windows.durations import DAY_US
from slicewise_airflow.pages.frames import environment
from slicewise_airflow.reports.drawing import drawn

CHECK = re.compile(r"check-(\d{8}T\d{6}Z)-([A-Za-z0-9][A-Za-z0-9_.-]{0,99})", re.ASCII)
"""Names of a check's reports: when it began, and the name of its run."""
VERSION = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}@[1-9][0-9]{0,8}", re.ASCII)
MOST_RUNS = 500
_NO_BACKTEST = Backtested("", "", "", 0, 0, "", None, None, 0, ()).to_json()
"""Values of a description that cannot be read."""
KEPT_PARTS = 120
"""A page is good for this part of its steps, 30 s of one whose steps are hours: many who open it
together cost one, and a page of many days costs most and changes least."""


@dataclass
class Kept:
    """A page by what it was asked for; one is made at a time."""

    made: dict[int, tuple[float, tuple[str, int]]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def page(self, days: int, make: Callable[[int], tuple[str, int]]) -> tuple[str, int]:
        """The page of a window, made anew where it is old."""
        with self.lock:
            made = self.made.get(days)
            if made is None or time.monotonic() - made[0] > kept_s(days):
                made = (time.monotonic(), make(days))
                if made[1][1] == 200:
                    self.made[days] = made
            return made[1]


KEPT = Kept()


def kept_s(days: int) -> float:
    """Seconds for which the page of a window is good."""
    return WINDOWS[days] / 1e6 / KEPT_PARTS


def figures_page(given: str) -> tuple[str, int]:
    """The page with all pictures of a window, and its status. given: its days, as they stand in the
    address."""
    days = _window(given)
    return (_refused(given), 400) if days is None else KEPT.page(days, _figures_page)


def _window(given: str) -> int | None:
    """Days of a window; None where there is none of so many."""
    return next((days for days in WINDOWS if str(days) == given.strip()), None)


def _figures_page(days: int) -> tuple[str, int]:
    try:
        past = _past(days)
    except SettingsError as error:
        return _words("The reports cannot be read", error.what, error.next_step), 503
    shown = [(picture, _svg(picture)) for picture in pictures(past)]
    return _rendered(
        "reports.html",
        days=days,
        windows=tuple(WINDOWS),
        shown=shown,
        until=_instant(time.time()),
    ), 200


def figures_json(given: str) -> tuple[dict[str, Any], int]:
    """The figures of all pictures as plain values, and the status. given: as of the page."""
    days = _window(given)
    if days is None:
        return {"error": {"what": _what(given), "expected": _expected()}}, 400
    try:
        past = _past(days)
    except SettingsError as error:
        return {"error": {"what": error.what, "next_step": error.next_step}}, 503
    return {"days": days, "pictures": [picture.to_json() for picture in pictures(past)]}, 200


def checks_page() -> tuple[str, int]:
    """The list of the check's runs whose reports are there, newest first."""
    try:
        settings = Settings.load()
    except SettingsError as error:
        return _words("The reports cannot be read", error.what, error.next_step, 1), 503
    files = sorted(history.checks(settings).glob("check-*.html"), reverse=True)
    names = [match for file in files if (match := CHECK.fullmatch(file.stem))]
    since_us = time.time_ns() // 1_000 - max(WINDOWS) * DAY_US
    figures = {
        str(entry.get("run_id")): entry
        for entry in history.read(settings, since_us)
        if entry.get("job") == "check"
    }
    runs = [_run(match, figures.get(match[2], {})) for match in names[:MOST_RUNS]]
    return _rendered("checks.html", runs=runs, hidden=max(0, len(names) - MOST_RUNS)), 200


def check_page(run: str) -> tuple[str, int]:
    """The report of a run of the check, as the check wrote it, and the status."""
    named = "A report is named check-<when it began>-<its run>, as the list has them."
    gone = "The figures of its run may still be in ops.checks."
    return _written(history.checks, run, CHECK, named, gone)


def version_page(name: str) -> tuple[str, int]:
    """The page on which a version of a view was compared, as `promote_view` left it, and the
    status."""
    named = "A page is named after the version that was compared, as by_card@2."
    return _written(history.versions, name, VERSION, named, "slicewise diff --html makes it anew.")


def backtests_page() -> tuple[str, int]:
    """The list of backtests that runs made, newest first."""
    try:
        pages = run_pages.backtests(Settings.load())
    except SettingsError as error:
        return _words("The reports cannot be read", error.what, error.next_step, 1), 503
    matches = [match for name in pages.names() if (match := PAGE.fullmatch(name))]
    runs = [
        {**_NO_BACKTEST, **pages.facts(match[0]), "name": match[0], "began": _began(match)}
        for match in matches
    ]
    return _rendered("backtests.html", runs=runs), 200


def backtest_page(name: str) -> tuple[str, int]:
    """The page on which a model was judged, as its run left it, and the status."""
    named = "A page is named backtest-<when its run began>-<its digest>, as the list has them."
    gone = "Trigger backtest_model again with the same params: slicewise backtest makes it anew."
    return _written(lambda of: run_pages.backtests(of).folder, name, PAGE, named, gone)


def trainings_page() -> tuple[str, int]:
    """The list of runs that trained a model, newest first."""
    from slicewise_airflow.reports.trainings import listed

    try:
        runs = listed()
    except SettingsError as error:
        return _words("The reports cannot be read", error.what, error.next_step, 1), 503
    return _rendered("trainings.html", runs=runs), 200


def training_page(name: str) -> tuple[str, int]:
    """The page of a run that trained a model, and the status."""
    from slicewise_airflow.reports.trainings import shown

    try:
        values = shown(name)
    except SettingsError as error:
        return _words("The reports cannot be read", error.what, error.next_step, 1), 503
    if values is None:
        what = "A page is named training-<when its run began>-<its digest>, as the list has them."
        return _words("No training has this name", what, "see the list", 1), 404
    return _rendered("training.html", **values), 200


def _written(
    folder_of: Callable[[Settings], Path], name: str, form: re.Pattern[str], named: str, gone: str
) -> tuple[str, int]:
    """A file of the state folder, as it was written, and the status. named: what its names are;
    gone: what is left of one that is not there."""
    below = 1 + name.count("/")
    try:
        folder = folder_of(Settings.load())
    except SettingsError as error:
        return _words("The reports cannot be read", error.what, error.next_step, below), 503
    file = folder / f"{name}.html"
    if not form.fullmatch(name):
        return _words("No report has this name", named, "see the list", below), 404
    try:
        if file.is_symlink():
            raise FileNotFoundError(file)
        return file.read_text(encoding="utf-8"), 200
    except (FileNotFoundError, NotADirectoryError):
        what = (
            f"The report {name} is gone, or never was here: reports stand beside the platform's "
            f"state, and go with it. {gone}"
        )
        return _words(
            "The report is gone", what, "see the list of those that are there", below
        ), 404
    except (OSError, UnicodeDecodeError) as error:
        what = f"The report {name} cannot be read: {type(error).__name__}."
        return _words("The report cannot be read", what, "look at its file's rights", below), 503


def _run(match: re.Match[str], entry: Entry) -> dict[str, object]:
    return {
        "name": match[0],
        "run": match[2],
        "began": _began(match),
        "outcome": {"not_made": "not made"}.get(str(entry.get("outcome")), entry.get("outcome")),
        "values": entry.get("values"),
        "mismatches": entry.get("mismatches"),
    }


def _began(match: re.Match[str]) -> str:
    began = datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return f"{began:%Y-%m-%d %H:%M:%S}"


def _past(days: int) -> Past:
    settings, now_us = Settings.load(), time.time_ns() // 1_000
    steps = Steps.until(now_us, days)
    entries = history.read(settings, steps.start_us - REACH_US)
    within = bisect_left(entries, steps.start_us, key=lambda entry: int(entry["at_us"]))
    earlier = [entry for entry in entries[:within] if entry.get("job") == "check"]
    return Past(entries[within:], steps, Inbox(settings).of_file(), earlier)


def _svg(picture: Picture) -> str:
    return drawn(picture) if picture.has_figures else ""


def _refused(days: str) -> str:
    return _words("There is no such report", _what(days), _expected())


def _what(days: str) -> str:
    return f"No report looks back days={days[:50]}."


def _expected() -> str:
    return f"days={', '.join(map(str, WINDOWS))}"


def _words(title: str, what: str, next_step: str | None, below: int = 0) -> str:
    """A page of words. below: folders between it and the reports' first page."""
    root = "../" * below or "./"
    return _rendered(
        "words.html", title=title, what=what, next_step=next_step or "slicewise status", root=root
    )


def _rendered(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = environment()
    made.filters["figure"] = number
    return made


def _instant(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
