"""Alertmanager sends an alert where its severity says, or shows it alone where nobody named a
receiver: amtool says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cluster.composed import RULES, mounted

NAMED = {
    "SLICEWISE_ALERTMANAGER_WEBHOOK": "https://pager.example/alerts",
    "SLICEWISE_ALERTMANAGER_PAGERDUTY_KEY": "k" * 32,
}
SENT = {"critical": "pagerduty-to,webhook-to", "warning": "webhook-to", "info": "nobody"}
SHOWN = {"critical": "pagerduty,webhook", "warning": "webhook", "info": "nobody"}


def amtool(*words: object) -> subprocess.CompletedProcess[str]:
    command = ["amtool", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def written(folder: Path, variables: dict[str, str]) -> Path:
    file = folder / "alertmanager.yml"
    file.write_text(mounted("alertmanager", **variables), encoding="utf-8")
    return file


@pytest.mark.parametrize("variables", [{}, NAMED], ids=["nothing is set", "receivers are named"])
def test_alertmanager_takes_its_configuration(tmp_path: Path, variables: dict[str, str]) -> None:
    done = amtool("check-config", written(tmp_path, variables))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 receivers" in done.stdout
    text = written(tmp_path, variables).read_text()
    assert all(value in text for value in variables.values())


@pytest.mark.parametrize("severity", SENT)
@pytest.mark.parametrize(
    ("variables", "receivers"), [({}, SHOWN), (NAMED, SENT)], ids=["shown", "sent"]
)
def test_an_alert_goes_where_its_severity_says(
    tmp_path: Path, variables: dict[str, str], receivers: dict[str, str], severity: str
) -> None:
    done = amtool(
        "config",
        "routes",
        "test",
        f"--config.file={written(tmp_path, variables)}",
        f"--verify.receivers={receivers[severity]}",
        f"severity={severity}",
        "alertname=SlicewiseCheckRed",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_has_a_severity_of_which_somebody_hears() -> None:
    severities = {
        rule["labels"]["severity"] for group in RULES["groups"] for rule in group["rules"]
    }
    assert severities == {"critical", "warning"}
