"""Typed queries are read by the rules of definitions, and answered by the code that builds training
sets."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slicewise.aggregates.sketches.membership import membership_of
from slicewise.cli.define.check import definitions_of
from slicewise.cli.define.plan import print_units
from slicewise.cli.table import print_table, shortened
from slicewise.codec.plain import converter, json_safe
from slicewise.errors import BadRequest, Location, SlicewiseError
from slicewise.features.declare.definitions import FeatureView, KafkaSource
from slicewise.features.plan.changes.explain import explain
from slicewise.features.project import load_project
from slicewise.features.sql import (
    Definitions,
    event_time_named,
    read_definitions,
    sources_named,
    text_of,
)
from slicewise.features.sql.python_form import python_form
from slicewise.settings import Settings
from slicewise.training.queries import GivenArchive, QueryRows, deployment_of, query_rows
from slicewise.training.tables.given.files import FileEvents, read_events, source_of_file
from slicewise.training.tables.instants import instant_us
from slicewise.windows.durations import HOUR_US

PROMPT, MORE = "sql> ", "...> "
HELP = "a statement ends with ;   \\d lists sources   \\q leaves"


@dataclass
class Session:
    """One run of the command. sources: declared in what was typed. of_project: the project's, once
    they are needed.

    guessed: the file's events by the source that was made of its columns.
    """

    arguments: argparse.Namespace
    settings: Settings
    at_us: int | None = None
    start_us: int | None = None
    end_us: int | None = None
    sources: dict[str, KafkaSource] = field(default_factory=dict)
    of_project: dict[str, KafkaSource] | None = None
    guessed: dict[str, FileEvents] = field(default_factory=dict)

    @staticmethod
    def of(arguments: argparse.Namespace, settings: Settings) -> Session:
        """A session by the command's arguments. Raises BadRequest."""
        at, start, end = (
            _instant(name, getattr(arguments, name)) for name in ("at", "start", "end")
        )
        if at is not None and (start is not None or end is not None):
            raise BadRequest(
                "--at beside --start or --end",
                where="slicewise sql",
                expected="one instant, or a span",
                next_step="leave one of them out",
            )
        return Session(arguments, settings, at, start, end)

    # ---- statements
    def run_file(self, file: Path) -> None:
        """Runs a file of statements."""
        self.run(text_of(file), str(file))

    def run(self, text: str, name: str) -> None:
        """Runs statements: declares their sources, shows their queries."""
        read = self._read(text, name)
        self.sources |= {source.name: source for source in read.sources}
        views = [*read.views, *read.queries]
        if not views and not self.arguments.json:
            print(f"declared: {', '.join(source.name for source in read.sources)}")
        for number, view in enumerate(views):
            if number and not self.arguments.json:
                print()
            if self.arguments.definition:
                self._show_definition(view)
            else:
                self._show_rows(view, named=len(views) > 1)

    def _read(self, text: str, name: str) -> Definitions:
        named = sources_named(text, name)
        sources = (
            self.sources
            if named <= set(self.sources)
            else {**self.project_sources(), **self.sources}
        )
        over = self.arguments.over
        if over is not None and len(named - set(sources)) == 1:
            (missing,) = named - set(sources)
            source, self.guessed[missing] = source_of_file(
                missing, over, event_time_named(text, name)
            )
            sources = {**sources, missing: source}
        return read_definitions(text, name, Location(name, 1), sources.values())

    def project_sources(self) -> dict[str, KafkaSource]:
        """The sources of the project; none, where there is no project."""
        if self.of_project is None:
            file = definitions_of(self.arguments.project, self.settings)
            exists = file.exists() or self.arguments.project is not None
            self.of_project = {s.name: s for s in load_project(file).sources} if exists else {}
        return self.of_project

    # ---- answers
    def _show_definition(self, view: FeatureView) -> None:
        units = explain(deployment_of(view))
        if self.arguments.json:
            whole = {
                "view": view.name,
                "python": python_form(view),
                "units": [row.to_json() for row in units],
            }
            print(json.dumps(whole, ensure_ascii=False))
            return
        print(python_form(view))
        print_units(units)

    def _show_rows(self, view: FeatureView, *, named: bool) -> None:
        rows, refused, notes = self._answer(view)
        if self.arguments.json:
            print(
                json.dumps(
                    _as_json(view, rows, refused, notes, self.arguments.limit), ensure_ascii=False
                )
            )
            return
        if named:
            print(f"-- {view.name}")
        shown = _shown(rows, self.arguments.limit)
        columns = _plain(rows, shown)
        lines = [
            tuple(shortened(_text(values[i])) for values in columns.values()) for i in range(shown)
        ]
        print_table(tuple(columns), lines)
        left = rows.table.num_rows - shown
        summary = f"{rows.table.num_rows} row" + ("" if rows.table.num_rows == 1 else "s")
        print(summary + (f", {left} more than shown: --limit 0" if left else ""))
        for note in (
            *notes,
            *(f"null for {code}: {count} values" for code, count in sorted(rows.errors.items())),
        ):
            print(f"note: {note}")
        if refused:
            print(
                "left out: "
                + ", ".join(f"{count} {reason}" for reason, count in sorted(refused.items()))
            )

    def _answer(self, view: FeatureView) -> tuple[QueryRows, Mapping[str, int], tuple[str, ...]]:
        _refuse_membership(view)
        start, end = self.start_us, self.end_us
        if self.arguments.over is not None:
            guessed = self.guessed.get(view.source.name)
            events = read_events(self.arguments.over, view.source) if guessed is None else guessed
            given, refused = GivenArchive.of(view, events.table)
            rows = query_rows(view, given, at_us=self.at_us, start_us=start, end_us=end)
            return rows, refused, (*events.notes, *_approximate(view))
        from slicewise.training.archiving.offline import Offline

        archive = Offline.open(self.settings, deployment_of(view)).archive
        notes: tuple[str, ...] = ()
        if self.at_us is None and start is None:
            until = archive.reaches(view.source.name).until_us
            end = until if end is None else end
            start = end - HOUR_US
            notes = ("the last hour of the archive; --start and --end say which",)
        rows = query_rows(view, archive, at_us=self.at_us, start_us=start, end_us=end)
        return rows, {}, (*notes, *_approximate(view))

    # ---- a prompt
    def prompt(self, read_line: Callable[[str], str] = input) -> int:
        """Reads statements until the input ends; an error is shown, and the next one may be
        typed."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401
        print(HELP)
        typed = ""
        while True:
            try:
                typed += read_line(MORE if typed else PROMPT) + "\n"
            except EOFError:
                print()
                return 0
            except KeyboardInterrupt:
                typed = ""
                print()
                continue
            stripped = typed.strip()
            if stripped in ("\\q", "quit", "exit"):
                return 0
            if stripped in ("", "\\d", "help", "?", "\\?"):
                typed = ""
                self._aside(stripped)
            elif stripped.endswith(";"):
                typed = ""
                try:
                    self._aside("\\d") if stripped == ";" else self.run(stripped, "the query")
                except SlicewiseError as error:
                    print(error, file=sys.stderr)

    def _aside(self, line: str) -> None:
        if not line:
            return
        if line != "\\d":
            print(HELP)
            return
        try:
            every = {**self.project_sources(), **self.sources}
        except SlicewiseError as error:
            print(error, file=sys.stderr)
            every = dict(self.sources)
        for source in every.values():
            kinds = ", ".join(f"{name} {kind}" for name, kind in source.schema.items())
            print(f"{source.name} ({kinds}), event time {source.timestamp}")


def _instant(name: str, value: str | None) -> int | None:
    return None if value is None else instant_us(value, f"--{name}")


def _refuse_membership(view: FeatureView) -> None:
    for feature in view.features:
        membership = membership_of(feature.aggregate)
        if membership is not None:
            raise BadRequest(
                (
                    f"{feature.name} is asked whether it holds a value of "
                    f"{membership.question!r}: a query's rows ask nothing"
                ),
                where=f"feature {feature.name!r}",
                expected="features that answer by themselves",
                next_step="see its plan with --definition; ask it in a request, a spine or sw.evaluate",
            )


def _approximate(view: FeatureView) -> tuple[str, ...]:
    approximate = {}
    for feature in view.features:
        spec = feature.aggregate.spec()
        spec = spec.get("aggregate", spec)
        if spec["kind"] == "distinct_count":
            error = 1.04 / 2 ** (spec["precision"] / 2)
            approximate[feature.name] = (
                f"{feature.name} is exact up to {spec['threshold']} distinct values of a window, "
                f"beyond it an estimate (standard error {error:.1%})"
            )
    return tuple(approximate.values())


def _shown(rows: QueryRows, limit: int) -> int:
    count = int(rows.table.num_rows)
    return count if limit <= 0 else min(limit, count)


def _plain(rows: QueryRows, count: int) -> dict[str, list[Any]]:
    table = rows.table.slice(0, count).combine_chunks()
    return {
        name: converter(column.type)(
            column.combine_chunks() if hasattr(column, "combine_chunks") else column
        )
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, list | dict):
        return json.dumps(json_safe(value), ensure_ascii=False)
    return str(json_safe(value)) if isinstance(value, float) else str(value)


def _as_json(
    view: FeatureView,
    rows: QueryRows,
    refused: Mapping[str, int],
    notes: tuple[str, ...],
    limit: int,
) -> dict[str, Any]:
    count = _shown(rows, limit)
    columns = _plain(rows, count)
    return {
        "view": view.name,
        "time": rows.time,
        "columns": {column.name: str(column.type) for column in rows.table.schema},
        "rows": [
            {name: json_safe(values[i]) for name, values in columns.items()} for i in range(count)
        ],
        "count": rows.table.num_rows,
        "left_out": dict(refused),
        "errors": dict(rows.errors),
        "notes": list(notes),
    }
