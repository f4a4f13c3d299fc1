"""A view as the Python that declares it: what is printed here, run, is the same definition."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from keyword import iskeyword
from typing import Any

from slicewise import aggregates
from slicewise.aggregates import SEMANTIC, Aggregate
from slicewise.aggregates.custom.own import Own
from slicewise.features.declare.definitions import Feature, FeatureView, KafkaSource
from slicewise.features.declare.event_list import CAPACITY
from slicewise.features.expectations import Expectation
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.features.schema.dedupe import MOST, WITHIN, Dedupe
from slicewise.windows.kinds import as_window

_SOURCE_DEFAULTS: Mapping[str, Any] = {
    "max_lateness": "1d",
    "max_ahead": "1m",
    "topic": None,
    "required": (),
    "allow_nan": (),
    "history": None,
    "history_until": None,
    "owner": None,
    "paths": {},
    "format": "json",
    "registry": None,
    "dedupe": None,
    "expect": (),
    "description": None,
    "tags": (),
}


def python_form(view: FeatureView) -> str:
    """Source and view as Python text, without `import slicewise as sw`."""
    return f"{source_form(view.source)}\n\n{view_form(view)}"


def source_form(source: KafkaSource) -> str:
    """`name = sw.KafkaSource(…)`."""
    schema = "".join(
        f"        {_text(name)}: {_text(kind)},\n" for name, kind in source.schema.items()
    )
    lines = [
        f"    {_text(source.name)},\n",
        f"    schema={{\n{schema}    }},\n",
        f"    timestamp={_text(source.timestamp)},\n",
    ]
    for name, default in _SOURCE_DEFAULTS.items():
        value = getattr(source, name)
        if value != default:
            lines.append(f"    {name}={_value(value)},\n")
    return f"{_variable(source.name)} = sw.KafkaSource(\n{''.join(lines)})\n"


def view_form(view: FeatureView) -> str:
    """`name = sw.FeatureView(…)`, of a source that is a variable of its own name."""
    lines = [f"    {_text(view.name)},\n", f"    source={_variable(view.source.name)},\n"]
    lines.append(f"    entity={_value(view.entity)},\n")
    if view.where is not None:
        lines.append(f"    where={_text(view.where)},\n")
    if view.columns:
        inner = "".join(
            f"        {_text(name)}: {_column(made)},\n" for name, made in view.columns.items()
        )
        lines.append(f"    columns={{\n{inner}    }},\n")
    features = "".join(f"        {_feature(feature)},\n" for feature in view.features)
    lines.append(f"    features=[\n{features}    ],\n")
    if view.tags:
        lines.append(f"    tags={_value(view.tags)},\n")
    for name in ("slice", "owner", "description"):
        if getattr(view, name) is not None:
            lines.append(f"    {name}={_text(getattr(view, name))},\n")
    if view.spread:
        lines.append("    spread=True,\n")
    if view.capacity != CAPACITY:
        lines.append(f"    capacity={view.capacity},\n")
    if view.emit is not None and not isinstance(view.emit, str):  # made so by the view
        wait = "" if view.emit.wait is None else f", wait={_text(view.emit.wait)}"
        given = f"{_text(view.emit.topic)}{wait}, corrections={_text(view.emit.corrections)}"
        lines.append(f"    emit=sw.Emit({given}),\n")
    functions = {
        column.name: column for column in view.columns.values() if isinstance(column, RowFunction)
    }
    made = "".join(
        f"@sw.row_function(output={_text(f.output)})\n{f.source}\n\n" for f in functions.values()
    )
    return f"{made}{_variable(view.name)} = sw.FeatureView(\n{''.join(lines)})\n"


def _column(made: str | RowFunction) -> str:
    return _text(made) if isinstance(made, str) else made.name


def _feature(feature: Feature) -> str:
    windows = ", ".join(as_window(window).as_python() for window in feature.windows)
    expect = f", expect={_value(feature.expect)}" if feature.expect else ""
    if feature.description is not None:
        expect += f", description={_text(feature.description)}"
    return (
        f"sw.Feature({_text(feature.name)}, {aggregate_form(feature.aggregate)}, "
        f"windows=[{windows}]{expect})"
    )


def aggregate_form(aggregate: Aggregate) -> str:
    """`sw.top_k("song", by="seconds", k=3)`."""
    return _call(aggregate.spec())


def _call(spec: Mapping[str, Any]) -> str:
    values = {name: value for name, value in spec.items() if name not in ("kind", SEMANTIC)}
    if spec["kind"] == "where":
        inner = _call(values["aggregate"])
        return f"{inner[:-1]}{'' if inner.endswith('()') else ', '}where={_value(values['where'])})"
    if spec["kind"] == "own":
        given = [
            *map(_text, values["columns"]),
            *(f"{name}={_value(v)}" for name, v in values["parameters"].items()),
        ]
        return f"{Own(**values).own.name}({', '.join(given)})"
    parameters = signature(getattr(aggregates, spec["kind"])).parameters
    parts = []
    for name, parameter in parameters.items():
        if name not in values or values[name] == parameter.default:
            continue
        value = values[name]
        shown = _call(value) if isinstance(value, Mapping) and "kind" in value else _value(value)
        parts.append(f"{name}={shown}" if parameter.kind is Parameter.KEYWORD_ONLY else shown)
    return f"sw.{spec['kind']}({', '.join(parts)})"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(name)}: {_value(item)}' for name, item in value.items())}}}"
    if isinstance(value, Expectation):
        given = [_text(value.type), *(f"{n}={_value(v)}" for n, v in value.kwargs.items())]
        return f"sw.expect({', '.join(given)}, severity={_text(value.severity)})"
    if isinstance(value, Dedupe):
        within = "" if value.within == WITHIN else f", within={_text(value.within)}"
        return f"sw.dedupe({_text(value.column)}{within}{'' if value.most == MOST else f', most={value.most}'})"
    return repr(value)


def _text(value: str) -> str:
    """A Python text in double quotes, as this project writes them."""
    plain = repr(value)
    if plain.startswith("'") and '"' not in value:
        return '"' + plain[1:-1].replace("\\'", "'") + '"'
    return plain


def _variable(name: str) -> str:
    return f"{name}_" if iskeyword(name) or name == "sw" else name
