"""`ops.checks` keeps of every run a row per feature and a row per difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from slicewise import log
from slicewise.checks.model import Outcome
from slicewise.checks.report.gate import Gate
from slicewise.checks.report.page import feature_lines, summary
from slicewise.checks.values import shown

MOST_RECORDED = 10_000


def kept(outcome: Outcome, keep: Callable[[], None]) -> str:
    """Keeps a run. Tells why it could not be kept; nothing where it was. Raises what `keep` raises
    where no value differs: a proof that is kept nowhere is none, but a difference is one wherever
    it is told."""
    try:
        keep()
    except Exception as error:
        if not outcome.differs:
            raise
        log.warning("check_not_kept", error=f"{type(error).__name__}: {error}")
        return f"not kept, {type(error).__name__}: {error}"
    return ""


def rows_of(outcome: Outcome, gate: Gate) -> list[dict[str, Any]]:
    """Rows of `ops.checks`: result is `green` or `red` for the run (its figures in `online`),
    `feature` for a feature's figures, and a difference's verdict with its cause as kind."""
    common = {"run_id": outcome.run, "time": outcome.finished_us}
    whole = json.dumps(summary(outcome, gate), sort_keys=True)
    rows: list[dict[str, Any]] = [
        common | {"result": "green" if gate.green else "red", "online": whole}
    ]
    for line in feature_lines(outcome):
        figures = {
            "compared": line.compared,
            "wrong": line.wrong,
            "missing": line.missing,
            "extra": line.extra,
        }
        rows.append(
            common
            | {"view": line.view, "feature": line.feature, "kind": line.mode, "result": "feature"}
            | {"online": json.dumps(figures)}
        )
    for row in outcome.wrong()[:MOST_RECORDED]:
        rows.append(
            common
            | {
                "view": row.view,
                "unit": row.unit,
                "feature": row.feature,
                "entity": row.entity,
                "token": row.token,
                "online": shown(row.online),
                "offline": shown(row.offline),
                "result": row.verdict.value,
                "kind": row.cause.value,
            }
        )
    return rows
