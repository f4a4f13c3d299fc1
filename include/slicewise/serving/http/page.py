"""The page at / tells a person what can be asked here, and how, with nothing fetched from
elsewhere."""

from __future__ import annotations

import json
from html import escape

from slicewise.aggregates.sketches.membership import answer_type
from slicewise.features.plan.deployment import Deployment
from slicewise.features.schema.types import BOOLEAN, DATE, LONG, STRING, TIMESTAMP
from slicewise.serving.answering.service import FeatureService

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 "
    "1rem;color:#222}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}code,pre{font:14px/1.45 "
    "ui-monospace,monospace}"
    "pre{background:#f4f4f1;padding:.8rem;overflow:auto;border-radius:4px}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .8rem .25rem 0;"
    "border-bottom:1px solid #ddd;vertical-align:top}.quiet{color:#666}"
)
_EXAMPLES: dict[str, object] = {
    STRING: "…",
    LONG: 1,
    BOOLEAN: True,
    DATE: "2013-01-01",
    TIMESTAMP: "2013-01-01T00:00:00Z",
}


def html(service: FeatureService) -> bytes:
    """The page; without a catalog it says that nothing is deployed."""
    catalog = service.catalog
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>slicewise</title>"]
    parts.append(f"<style>{STYLE}</style><h1>slicewise features</h1>")
    if catalog is None:
        parts.append(
            "<p>Nothing is deployed, or the store does not answer: see <a href=/readyz>/readyz</a>."
        )
    else:
        parts.append(_body(catalog.deployment, catalog.digest))
    parts.append(
        "<p class=quiet><code>no_data</code> names the views that keep nothing of an entity; "
        '<code>"tokens": false</code> leaves tokens out.'
    )
    parts.append(
        "<p class=quiet><a href=/registry>registry</a> · <a href=/openapi.json>OpenAPI</a> · <a href=/v1/features>JSON list</a> · "
        "<a href=/v1/training-sets>training sets</a> · "
        "<a href=/readyz>readiness</a> · <a href=/metrics>metrics</a></html>"
    )
    return "".join(parts).encode()


def _body(deployment: Deployment, digest: str) -> str:
    parts = [
        (f"<p>Project <b>{escape(deployment.project)}</b>, deployment <code>{digest[:12]}</code>.")
    ]
    for name in deployment.views:
        units = deployment.view(name)
        entity = ", ".join(f"{column} ({kind})" for column, kind in units[0].entity) or "global"
        parts.append(f"<h2>{escape(name)} <span class=quiet>by {escape(entity)}</span></h2><table>")
        parts.append("<tr><th>feature<th>aggregate<th>type<th>slice")
        for unit in units:
            for feature in unit.features:
                cells = (
                    f"<code>{escape(name)}:{escape(feature.column)}</code>",
                    escape(feature.aggregate.describe()),
                    escape(str(answer_type(feature.aggregate))),
                    unit.step_text,
                )
                parts.append("<tr>" + "".join(f"<td>{cell}" for cell in cells))
        parts.append("</table>")
        refs = [f"{name}:{feature.column}" for feature in units[0].features[:3]]
        parts.append(_curl({"features": refs}, dict(units[0].entity)))
    for feature_set in deployment.feature_sets:
        parts.append(f"<h2>{escape(feature_set.name)} <span class=quiet>feature set</span></h2><p>")
        parts.append(", ".join(f"<code>{escape(ref)}</code>" for ref in feature_set.features))
        columns = {
            c: k for ref in feature_set.features for c, k in deployment.resolve(ref)[0].entity
        }
        parts.append(_curl({"feature_set": feature_set.name}, columns))
    for leaderboard in deployment.leaderboards:
        name = escape(leaderboard.name)
        parts.append(f"<h2>{name} <span class=quiet>leaderboard</span></h2>")
        parts.append(f'<p><a href="/leaderboards/{name}">the {leaderboard.k} with the highest ')
        parts.append(f"<code>{escape(leaderboard.ref)}</code></a>, live")
    return "".join(parts)


def _curl(request: dict[str, object], entity: dict[str, str]) -> str:
    example = {column: _EXAMPLES.get(kind, "0") for column, kind in entity.items()}
    body = json.dumps({**request, "entities": [example]}, ensure_ascii=False)
    return (
        "<pre>curl -s -X POST $SLICEWISE_SERVING_URL/v1/features -d "
        f"'{escape(body, quote=False)}'</pre>"
    )
