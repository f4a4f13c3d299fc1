"""The pages of settings, metrics, the HTTP API and the command line, made from the code that they
describe.

python docs/surfaces.py            rewrite docs/reference/{settings,metrics,http,cli}.md
python docs/surfaces.py --check    fail where a page is not what this makes of today's code
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from slicewise import settings
from slicewise.cli import command_modules, command_names
from slicewise.probes.figures import Metrics as ProbeMetrics
from slicewise.serving.http.openapi import document
from slicewise.serving.metrics import Metrics as ServingMetrics
from slicewise.serving.platform_metrics import PlatformMetrics
from slicewise.settings import Settings
from slicewise.spark.runtime.status_sinks import Metrics as StreamMetrics
from slicewise.spark.runtime.status_sinks import emission_metrics, realtime_metrics

FOLDER = Path(__file__).parent / "reference"
WRITTEN = "`python docs/surfaces.py` writes this page from {}.\nA test holds it to be current."
WIDTH = 100
NOWHERE = Path("/home-of-slicewise")


def settings_page() -> str:
    """The page of variables, with the default and the docstring of each."""
    kept = Settings.load({"SLICEWISE_HOME": str(NOWHERE)}, cwd=NOWHERE)
    about = _field_docstrings()
    rows = []
    for field in fields(Settings):
        default = str(getattr(kept, field.name)).replace(str(NOWHERE), "<home>")
        rows.append(
            [
                f"`{settings._variable(field.name)}`",
                f"`{default}`" if default else "",
                about.get(field.name, ""),
            ]
        )
    return _page(
        "Settings",
        "`include/slicewise/settings.py`",
        "A setting is a variable of the environment. What the environment does not name, the "
        "embedded servers\n"
        "say in `endpoints.json` of the state folder; else the default holds. `<home>` is the "
        "repository.\n"
        "Variables of alerts stand in the [runbook](../runbook.md#alerts-and-where-they-go).",
        _table(["variable", "default", "meaning"], rows),
    )


def _field_docstrings() -> dict[str, str]:
    field_docstrings: dict[str, str] = {}
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(Settings)).body
        if isinstance(node, ast.ClassDef)
    )
    for node, then in pairwise(body):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(then, ast.Expr)
        ):
            field_docstrings[node.target.id] = " ".join(str(ast.literal_eval(then.value)).split())
    return field_docstrings


def metrics_page() -> str:
    """The page of each process's metrics, as its registry describes them."""
    parts: list[str] = []
    for title, where, make in (
        ("The prediction API", "`GET /metrics` of each process of the API", ServingMetrics),
        ("The stream", "the address in `SLICEWISE_STREAM_METRICS`", StreamMetrics),
        ("The real-time lane", "the address in `SLICEWISE_REALTIME_METRICS`", realtime_metrics),
        ("Emission", "the address in `SLICEWISE_EMIT_METRICS`", emission_metrics),
        (
            "The platform",
            "`GET /metrics/platform` of any process of the API, which reads the store",
            PlatformMetrics,
        ),
        ("Probes", "the address in `SLICEWISE_PROBES_METRICS`", ProbeMetrics),
    ):
        rows = sorted(_metrics(make))
        parts += [
            f"## {title}",
            f"At {where}.",
            _table(["metric", "type", "labels", "meaning"], rows),
        ]
    about = (
        "All metrics are for Prometheus. A histogram and a summary have `_count` and `_sum`,\n"
        "a histogram has `_bucket` too. One scrape configuration in `docker-compose.yaml` covers\n"
        "them all, and Airflow's own: [production](../guides/production.md#monitoring)."
    )
    return _page("Metrics", "the registries of the processes", about, *parts)


def _metrics(make: Callable[[], Any]) -> Iterator[list[str]]:
    made = make()
    for collector in made.registry._collector_to_names:
        described = collector.describe() if hasattr(collector, "describe") else collector.collect()
        for family in described:
            name = family.name + ("_total" if family.type == "counter" else "")
            owner = family if hasattr(family, "_labelnames") else collector
            labels = getattr(owner, "_labelnames", None) or getattr(owner, "_labels", ())
            shown = ", ".join(f"`{label}`" for label in labels) if isinstance(labels, tuple) else ""
            yield [f"`{name}`", family.type, shown, family.documentation]


def http_page() -> str:
    """Paths, bodies and errors of the OpenAPI document."""
    api = document()
    rows = []
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                statuses = ", ".join(sorted(operation["responses"]))
                rows.append([f"`{method.upper()} {path}`", operation["summary"], statuses])
    errors: dict[str, str] = {}
    for methods in api["paths"].values():
        for method, operation in methods.items():
            if method != "parameters":
                errors |= {
                    k: v["description"] for k, v in operation["responses"].items() if k != "200"
                }
    parts = [_table(["request", "answer", "statuses"], rows), "## Statuses"]
    parts.append(_table(["status", "meaning"], [[key, errors[key]] for key in sorted(errors)]))
    for name, schema in api["components"]["schemas"].items():
        parts += [f"## {name}", *([schema["description"]] if "description" in schema else [])]
        parts.append(_table(["member", "type", "meaning"], list(_members(schema, schema))))
    about = (
        "Bodies and answers are JSON, or MessagePack by `Content-Type` and `Accept`.\n"
        "The running API serves the whole document at `/openapi.json`."
    )
    return _page("HTTP API", "the API's OpenAPI document", about, *parts)


def _members(
    schema: Mapping[str, Any], top: Mapping[str, Any], prefix: str = ""
) -> Iterator[list[str]]:
    for name, member in schema.get("properties", {}).items():
        optional = "" if name in schema.get("required", ()) else ", optional"
        yield [f"`{prefix}{name}`", _kind(member) + optional, member.get("description", "")]
        inner = member.get("items", member)
        mark = f"{prefix}{name}[]." if "items" in member else f"{prefix}{name}."
        more = inner.get("additionalProperties")
        if isinstance(more, Mapping) and "properties" in more:
            inner, mark = more, f"{prefix}{name}.*."
        yield from _members(inner, top, mark)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    kind = schema.get("type", "any")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if schema.get("items"):
        text += f" of {_kind(schema['items'])}"
    return text + (f" ({schema['format']})" if "format" in schema else "")


def cli_page() -> str:
    """The page of commands: the `--help` of each."""
    os.environ["COLUMNS"] = str(WIDTH)
    parts, rows = [], []
    for name in command_names():
        module = importlib.import_module(command_modules()[name])
        parser = argparse.ArgumentParser(
            prog=f"slicewise {name}",
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)
        claim = " ".join(str(module.__doc__).strip().partition("\n\n")[0].split())
        rows.append([f"[`slicewise {name}`](#slicewise-{name})", claim])
        parts.append(f"## slicewise {name}")
        parts += [
            f"```text\n{command.format_help().rstrip()}\n```"
            for command in (parser, *_nested(parser))
        ]
    about = (
        "The exit status is 0 for success, 1 for an error that the text explains, 2 for wrong "
        "usage,\n"
        "130 where a command was interrupted; `slicewise status` has 3 too."
    )
    return _page(
        "Command line", "what `--help` prints", about, _table(["command", ""], rows), *parts
    )


def _nested(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _page(title: str, source: str, about: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", WRITTEN.format(source), about, *parts]) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(c.replace("|", "\\|").split()) for c in row) + " |"
        for row in lines
    )


PAGES = {"settings": settings_page, "metrics": metrics_page, "http": http_page, "cli": cli_page}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    is_check, stale = parser.parse_args().check, []
    for name, make in PAGES.items():
        file, made = FOLDER / f"{name}.md", make()
        if not is_check:
            file.write_text(made, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != made:
            stale.append(file.name)
    if stale:
        print(
            f"not what the code says now: {', '.join(stale)}: python docs/surfaces.py",
            file=sys.stderr,
        )
    return len(stale) > 0


if __name__ == "__main__":
    sys.exit(main())
