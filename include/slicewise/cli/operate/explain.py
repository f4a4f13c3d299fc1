"""show what one entity's features are made of: hours, slices, pending events, offsets and token

The serving API reads the features once and answers with all parts of that read. Per view there is a
table of values with their windows, one of the parts that each window was read by, and the offsets.
An entity's column is `column=text`, or `column:=json` where it is no text.

  where  lifetime_total, five_day_total, day_total, hour: totals of compacted hours;
         minutes, slices: rows of a compacted hour; live: slices that are not compacted yet;
         pending: events of the real-time lane that are not applied yet; events: an event list
  state  counted; contained: a compacted hour or a total has it already; late: counted, and came
         after its hour was compacted; empty (with --all): the store has nothing there

Of a window with very many parts the late, pending and newest ones are shown, and the number of the
others.

  slicewise explain carrier:flights_1h carrier:delay_1h carrier=UA
  slicewise explain delay_risk carrier=UA origin=EWR dest=IAH --at 2026-11-21T08:00:00Z
  slicewise explain orders:paid_7d customer_id:=42 --json       times in microseconds UTC
"""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING, Any

from slicewise.cli.table import print_table, shortened
from slicewise.errors import BadRequest
from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slicewise.client.answers import ExplainedView, Explanation, Segment

_COLUMN = re.compile(r"([A-Za-z_]\w*)(:?=)(.*)", re.DOTALL)
_TOPIC_LETTERS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="+",
        metavar="name",
        help="view:feature, … or a feature set; then the entity's columns, column=text",
    )
    parser.add_argument("--at", help="aware instant: 2026-11-21T08:00:00Z (default: now)")
    parser.add_argument(
        "--min-token", metavar="TOKEN", help="at least the events of this token of an answer"
    )
    parser.add_argument("--url", help="address of the serving API (default: that of the settings)")
    parser.add_argument("--all", action="store_true", help="also parts that are empty")
    parser.add_argument("--json", action="store_true", help="the explanation as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from dataclasses import asdict

    from slicewise.client.http import HttpClient

    features, entity = parsed(arguments.names)
    with HttpClient(arguments.url or settings.serving_url, timeout_s=30.0, form="json") as client:
        explanation = client.explain(features, entity, arguments.at, min_token=arguments.min_token)
    if arguments.json:
        print(json.dumps(asdict(explanation)))
    else:
        show(explanation, every=arguments.all)
    return 0


def parsed(names: Sequence[str]) -> tuple[str | list[str], dict[str, Any]]:
    """Refs or the name of a feature set, and the entity. Raises BadRequest."""
    entity: dict[str, Any] = {}
    features = []
    for name in names:
        column = _COLUMN.fullmatch(name)
        if column is None:
            features.append(name)
        elif column[2] == "=":
            entity[column[1]] = column[3]
        else:
            try:
                entity[column[1]] = json.loads(column[3])
            except ValueError as error:
                raise BadRequest(
                    f"{column[3]!r} is no JSON",
                    where=f"column {column[1]!r}",
                    expected="a number, true, false, or a list, as in customer_id:=42",
                    next_step=f"write {column[1]}={column[3]} where it is a text",
                ) from error
    if len(features) == 1 and ":" not in features[0]:
        return features[0], entity
    return features, entity


def show(explanation: Explanation, *, every: bool) -> None:
    """Prints an explanation. every: also parts that are empty."""
    from slicewise.client.instants import instant_text

    answer = explanation.answer
    flags = f"  flags: {', '.join(answer.flags)}" if answer.flags else ""
    print(
        f"{json.dumps(answer.results[0].entity)}  {answer.mode} {instant_text(answer.t_us)}{flags}"
    )
    for view in explanation.views:
        _show_view(view, every)
    print(f"\ntoken {answer.results[0].token}")


def _show_view(view: ExplainedView, every: bool) -> None:
    kind = f"slices of {view.slice}" if view.slice else "an event list"
    print(f"\n{view.view}: {kind}, source {view.source}, unit {view.unit}\n")
    rows = []
    for feature in view.features:
        window = view.windows[feature.window]
        value = shortened(json.dumps(feature.value, ensure_ascii=False))
        span = _instant(window.start_us), _instant(window.end_us)
        rows.append((feature.feature, value, *span, window.resolution, str(feature.window)))
    print_table(("feature", "value", "from", "to", "resolution", "window"), rows)
    parts = []
    empty = 0
    for number, window in enumerate(view.windows):
        shown = [part for part in window.segments if every or part.state != "empty"]
        empty += len(window.segments) - len(shown)
        parts += [(str(number), *_cells(part)) for part in shown]
    print()
    head = ("window", "from", "to", "where", "state", "rows", "archive version", "offsets")
    print_table(head, parts)
    if empty:
        print(f"and {empty} parts of which the store has nothing (--all shows them)")
    for number, window in enumerate(view.windows):
        if window.left_out:
            print(
                f"window {number} has too many parts to show; left out: {_counts(window.left_out)}"
            )
    print(f"\npending events in the answer: {view.pending_events}")
    if view.pending_left:
        print(f"pending events of another run of the store, left out: {view.pending_left} offsets")
    for name, offsets in (
        ("contained", view.contained),
        ("committed", view.committed),
        ("applied to the entity", view.applied),
        ("start", view.start),
    ):
        print(f"offsets {name}: {_offsets(offsets) or 'none'}")
    for at, offsets in view.compacted_beyond.items():
        print(f"hour {_instant(at)} is compacted beyond that: {_offsets(offsets)}")
    for version, content in view.archive_versions.items():
        print(f"archive version {version}: {_offsets(content.offsets) or 'none'}")
    if view.archive_versions_left:
        print(f"and {view.archive_versions_left} older archive versions")


def _cells(part: Segment) -> tuple[str, ...]:
    rows = part.events if part.slices is None else part.slices
    return (
        _instant(part.start_us),
        _instant(part.end_us),
        part.where,
        "late" if part.late else part.state,
        "" if rows is None else str(rows),
        ", ".join(map(str, part.archive_versions)),
        _offsets(part.offsets),
    )


def _counts(left_out: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in sorted(left_out.items()))


def _offsets(offsets: Mapping[str, Mapping[int, Any]]) -> str:
    """Offsets by partition, or their ranges; topics by the beginning of their ids."""
    return ", ".join(
        f"{topic[:_TOPIC_LETTERS]}/{partition}: "
        + (str(at) if isinstance(at, int) else f"{at[0]}–{at[1]}")
        for topic, of_topic in offsets.items()
        for partition, at in of_topic.items()
    )


def _instant(us: int | None) -> str:
    from slicewise.client.instants import instant_text

    return "the first event" if us is None else instant_text(us)
