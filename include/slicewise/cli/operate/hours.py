"""show which hours of each view are compacted, which are dirty and which are open, day by day

A line has a day of a view, and a letter per hour in UTC: c compacted; D dirty, so that a compaction
would find something to do, or a red check marked it and none was green since; o open: not over, or
not archived since its end; · no events.

  slicewise hours
  slicewise hours --days 14 --json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from slicewise.errors import BadRequest
from slicewise.lifecycle.jobs import hour_text
from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.cli.hour_states import Calendar

MOST_DAYS = 92
_LETTERS = {"compacted": "c", "dirty": "D", "open": "o"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--days", type=int, default=7, help=f"today and the days before; up to {MOST_DAYS}"
    )
    parser.add_argument("--json", action="store_true", help="the calendar as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.hour_states import calendar

    if not 1 <= arguments.days <= MOST_DAYS:
        raise BadRequest(
            f"{arguments.days} days",
            where="--days",
            expected=f"1 to {MOST_DAYS}",
            next_step="give a number of days",
        )
    shown = calendar(settings, arguments.days)
    if arguments.json:
        print(json.dumps(to_json(shown)))
    elif shown is None:
        print("nothing is deployed: slicewise apply")
    else:
        _show(shown)
    return 0


def to_json(shown: Calendar | None) -> dict[str, object]:
    """The calendar in plain values: hours as `2026-11-21T08`."""
    if shown is None:
        return {"now_us": None, "first": None, "views": []}
    return {
        "now_us": shown.now_us,
        "first": hour_text(shown.first),
        "views": [
            {
                "view": view.view,
                "rows": view.rows,
                "bytes": view.bytes,
                "marked": None if view.mark is None else view.mark.shown(),
                "hours": {hour_text(hour): view.states[hour].value for hour in sorted(view.states)},
            }
            for view in shown.views
        ],
    }


def _show(shown: Calendar) -> None:
    widest = max((len(view.view) for view in shown.views), default=0)
    for view in shown.views:
        for day in range(shown.first // 24, max(view.states) // 24 + 1):
            hours = (view.states.get(hour) for hour in range(day * 24, day * 24 + 24))
            letters = "".join("·" if state is None else _LETTERS[state.value] for state in hours)
            print(f"{view.view:<{widest}}  {hour_text(day * 24)[:10]}  {letters}")
        dirty = sum(state.value == "dirty" for state in view.states.values())
        size = f"{view.rows:,} rows, {view.bytes / 1e6:,.1f} MB in the lake"
        print(f"{view.view:<{widest}}  {dirty} dirty; {size}")
        if view.mark is not None:
            marked = view.mark.shown()
            done = "recomputed, to be checked" if marked["recomputed"] else "to be recomputed"
            print(f"{view.view:<{widest}}  {marked['since']} to {marked['until']}: {done}")
        print()
