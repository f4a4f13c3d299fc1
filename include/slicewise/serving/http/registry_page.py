"""The registry's pages: all that is deployed, with a search, and one name with all that it has
meant. Nothing comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

from slicewise.features.plan.changes.explain import Description, Version
from slicewise.lifecycle.registry.shown import Shown
from slicewise.lifecycle.registry.uses import values_text
from slicewise.serving.http.page import STYLE
from slicewise.serving.registry import ShownName

_STYLE = (
    STYLE
    + "body{background:#fff}table{display:block;overflow-x:auto}input{font:inherit;padding:.3rem .5rem;width:20rem;"
    "max-width:60vw}button{font:inherit;padding:.3rem .8rem}.tag{background:#eef;padding:0 .4rem;"
    "border-radius:4px}@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}"
    "pre,.tag{background:#262a31}td,th{border-color:#3a3f47}a{color:#8ab4f8}.quiet{color:#9aa0a6}}"
)
_FOOT = (
    '<p class=quiet><a href="/registry">all definitions</a> · <a href="/">features</a> · '
    '<a href="/openapi.json">OpenAPI</a></html>'
)


def matches_html(words: str, matches: Sequence[Description]) -> bytes:
    """Page of the definitions that the words are about; of all where there are no words."""
    rows = (
        (
            escape(one.kind),
            f'<a href="/registry/{quote(one.name)}">{escape(one.name)}</a>',
            escape(one.owner),
            _tags(one.tags),
            escape(_first(one.description)),
        )
        for one in matches
    )
    about = f"about “{escape(words)}”" if words else "deployed"
    count = f"<p class=quiet>{len(matches)} definitions {about}</p>"
    table = _table(("kind", "name", "owner", "tags", "description"), rows) if matches else ""
    return (
        _head("slicewise registry")
        + "<h1>Registry</h1><form action=/registry role=search><label>Words of names, columns, "
        "aggregates, owners, descriptions and tags<br>"
        f'<input name=q type=search value="{escape(words)}"></label> <button>Search</button></form>'
        + count
        + table
        + _FOOT
    ).encode()


def shown_html(shown: ShownName) -> bytes:
    """Page of all definitions of a name."""
    every = shown.every
    parts = [_head(f"{every[0].definition.name} - slicewise registry")]
    for one in every:
        definition = one.definition
        parts.append(
            f"<h1>{escape(definition.name)} <span class=quiet>{escape(definition.kind)}</span></h1>"
        )
        parts += [f"<p>{escape(text)}</p>" for text in definition.description.split("\n\n") if text]
        facts = (f"<tr><th scope=row>{escape(w)}<td>{escape(t)}" for w, t in one.facts.items())
        parts.append(f"<table>{''.join(facts)}</table>")
        if definition.features:
            parts += ["<h2>Features</h2>", _features(one)]
        parts.append("<h2>Versions</h2>")
        header = ("version", "deployment", "since (UTC)", "until", "by", "differences")
        versions = (_version(v, whole=not shown.gaps) for v in reversed(one.versions))
        parts.append(_table(header, versions))
    parts += [
        f"<p class=quiet>deployment {version} is not shown: {escape(why)}</p>"
        for version, why in shown.unread
    ]
    parts += [f"<p class=quiet>{escape(gap)}</p>" for gap in shown.gaps]
    if shown.no_data_sets:
        parts.append(f"<p class=quiet>data sets are not shown: {escape(shown.no_data_sets)}</p>")
    return ("".join(parts) + _FOOT).encode()


def _features(one: Shown) -> str:
    """Table of a definition's features, with the values that a data set has of them."""
    statistics = one.statistics()
    names: tuple[str, ...] = ("feature", "aggregate", "window", "description")
    rows: list[tuple[str, ...]] = []
    for feature in one.definition.features:
        texts = (feature.aggregate, feature.window, feature.description)
        row = (f"<code>{escape(feature.column)}</code>", *map(escape, texts))
        values = escape(values_text(statistics.get(feature.column, {})))
        rows.append((*row, values) if statistics else row)
    return _table((*names, "values of the newest data set") if statistics else names, rows)


def _head(title: str) -> str:
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        '<meta name=viewport content="width=device-width,initial-scale=1"><link rel=icon href=data:,>'
        f"<style>{_STYLE}</style>"
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """header: texts; rows: markup."""
    head = "".join(f"<th scope=col>{escape(word)}" for word in header)
    return f"<table><tr>{head}" + "".join(f"<tr>{_cells(row)}" for row in rows) + "</table>"


def _cells(row: Iterable[str]) -> str:
    return "".join(f"<td>{cell}" for cell in row)


def _version(version: Version, *, whole: bool) -> tuple[str, ...]:
    """whole: whether all versions are known; else nobody knows their numbers."""
    return (
        str(version.number) if whole else "",
        str(version.deployment_version),
        version.since,
        version.until,
        escape(version.by or "-"),
        escape("; ".join(version.differences) or ("new" if whole else "")),
    )


def _tags(tags: Iterable[str]) -> str:
    return " ".join(f"<span class=tag>{escape(tag)}</span>" for tag in tags)


def _first(text: str) -> str:
    """The first line, for a table."""
    line = text.partition("\n")[0]
    return line if len(line) <= 120 else line[:119] + "…"
