"""A version is compared before a person decides, and promoted by the command that a person would
run."""

from __future__ import annotations

from typing import Any

from slicewise.lifecycle.jobs import versions_of
from slicewise.local import history
from slicewise.settings import Settings
from slicewise_airflow.commands import run_command
from slicewise_airflow.notes import leave
from slicewise_airflow.spark import run_of

_MOST = 12
"""Features in the text that a person decides by; the page has all."""


def compared(context: Any) -> dict[str, Any]:
    """Compares the run's versions with the live ones. The text to decide by, and the pages."""
    folder = history.versions(Settings.load())
    folder.mkdir(parents=True, exist_ok=True)
    texts, pages = [], []
    for version in versions_of(run_of(context)):
        report: Any = run_command(
            "diff", version, "--json", "--html", str(folder / f"{version}.html")
        )
        texts.append(text_of(report))
        pages.append(f"/slicewise/reports/versions/{version}")
    text = "\n\n".join([*texts, *(f"[With pictures]({page})" for page in pages)])
    leave(context, text)
    return {"text": text, "pages": pages}


def text_of(report: dict[str, Any]) -> str:
    """Text that a person decides by, in Markdown: by feature, the most changed first."""
    columns = sorted(report["columns"], key=lambda one: -one["changed"])
    lines = [
        f"**{report['then']} and {report['now']}**, {report['rows']:,} entities, compared as bits.",
        "",
        "| feature | equal | changed | psi |",
        "|---|---|---|---|",
        *(
            f"| {one['column']} | {one['equal']:,} | {one['changed']:,} | {one['index']:.3f} |"
            for one in columns[:_MOST]
        ),
    ]
    if len(columns) > _MOST:
        lines.append(f"\n… and {len(columns) - _MOST} features more, on the page.")
    for word, what in (("gone", "Without"), ("added", "New"), ("retyped", "Of another type")):
        if report[word]:
            lines.append(f"\n{what}: {', '.join(report[word])}.")
    return "\n".join(lines)


def promoted(context: Any) -> dict[str, object]:
    """Promotes the run's versions, in the name of who approved."""
    answer = context["ti"].xcom_pull(task_ids="approve") or {}
    who = (answer.get("responded_by_user") or {}).get("name") or "Airflow"
    return run_command("promote", *versions_of(run_of(context)), "--by", str(who), "--json")
