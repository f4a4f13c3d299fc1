"""The alert rules that Prometheus is given fire when they should and not before: promtool says so,
of each."""

from __future__ import annotations

import shutil
import subprocess
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from tests.cluster.composed import RULES, mounted

CASES = Path(__file__).with_name("alerts.yaml")
ALERTS = [rule["alert"] for group in RULES["groups"] for rule in group["rules"]]


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    command = ["promtool", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The rules as mounted, beside their cases."""
    (tmp_path / "rules.yml").write_text(mounted("prometheus-rules"), encoding="utf-8")
    shutil.copy(CASES, tmp_path / "alerts.yaml")
    return tmp_path


def test_prometheus_takes_its_configuration_and_the_rules(folder: Path) -> None:
    config = mounted("prometheus").replace("/etc/prometheus/rules.yml", str(folder / "rules.yml"))
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    done = promtool("check", "config", folder / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout
    linted = promtool("check", "rules", "--lint=all", "--lint-fatal", folder / "rules.yml")
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_every_rule_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    cases = [
        case
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == set(ALERTS)
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == set(ALERTS)


def test_the_rules_fire_and_do_not_fire_as_their_cases_say(folder: Path) -> None:
    done = promtool("test", "rules", folder / "alerts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("expression", ["vector(1)", "vector(1) > 2"], ids=["always", "never"])
@pytest.mark.parametrize("alert", ALERTS)
def test_a_rule_that_always_or_never_fires_is_found(
    folder: Path, alert: str, expression: str
) -> None:
    changed = deepcopy(RULES)
    [rule] = [
        rule for group in changed["groups"] for rule in group["rules"] if rule["alert"] == alert
    ]
    rule["expr"] = expression
    (folder / "rules.yml").write_text(yaml.safe_dump(changed), encoding="utf-8")
    done = promtool("test", "rules", folder / "alerts.yaml")
    assert done.returncode != 0
    assert alert in done.stdout + done.stderr
