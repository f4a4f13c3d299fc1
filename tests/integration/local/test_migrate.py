"""`slicewise migrate` takes the steps that are left, on a running store, also after a stop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewise.aggregates.exact.sums import Sum
from slicewise.features.plan.changes.migrating import STEPS
from tests.integration.local.deployed_project import MORE, VIEW, Platform

SUMS = VIEW.format(name="listening", aggregate='sum("seconds")')


class FirstSum(Sum):
    """The class of before, as a release keeps it."""

    semantic_version = 1


def views(platform: Platform) -> tuple[str, ...]:
    """Views that are deployed."""
    return platform.stands[1]


def left(platform: Platform) -> list[dict[str, Any]]:
    """Migrations that are left, as programs are given them; nothing is changed."""
    before = platform.stands
    code, printed = platform.runs("migrate", "--plan", "--json")
    assert (code, platform.stands) == (0, before), printed
    line = next(line for line in printed.splitlines() if line.startswith('{"done"'))
    plan = json.loads(line)
    assert plan["done"] is False
    migrations: list[dict[str, Any]] = plan["migrations"]
    return migrations


def test_a_view_is_migrated_from_wherever_it_was_stopped(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.deploys(SUMS)
    assert left(platform) == []
    monkeypatch.setattr(Sum, "semantic_version", 2)
    monkeypatch.setattr(Sum, "earlier", {1: FirstSum})
    code, printed = platform.runs("plan")
    assert code == 0, printed
    assert "stored by semantic version 1 of sum, this code has 2; a version is needed" in printed
    (plan,) = left(platform)
    assert (plan["version"], plan["replaced"]) == ("listening@2", ["listening@1"])
    assert tuple(plan["steps"]) == STEPS
    assert platform.runs("apply", "--no-wait")[0] == 0
    assert views(platform) == ("listening", "listening@2")
    (plan,) = left(platform)
    assert tuple(plan["steps"]) == STEPS[2:], "nothing lies below its start: it is built"
    assert platform.runs("promote", "listening@2")[0] == 0
    (plan,) = left(platform)
    assert plan["steps"] == ["retire"]
    code, printed = platform.runs("migrate", "--by", "ann")
    assert code == 0, printed
    assert "migrated: listening" in printed
    assert views(platform) == ("listening",)
    assert platform.history()["deployments"][-1]["how"] == "retire"
    assert platform.history()["deployments"][-1]["by"] == "ann"
    assert "nothing to migrate" in platform.runs("migrate")[1]


def test_where_both_cannot_be_compared_the_name_stays(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.deploys(SUMS)
    monkeypatch.setattr(Sum, "semantic_version", 2)
    monkeypatch.setattr(Sum, "earlier", {1: FirstSum})
    assert platform.runs("migrate")[0] == 1, "nothing is archived"
    assert views(platform) == ("listening", "listening@2")


def test_changes_that_are_no_part_of_it_are_not_deployed_along(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.deploys(SUMS)
    before = platform.stands
    monkeypatch.setattr(Sum, "semantic_version", 2)
    monkeypatch.setattr(Sum, "earlier", {1: FirstSum})
    platform.writes(SUMS, MORE)
    code, printed = platform.runs("migrate", "--plan")
    assert code == 0, printed
    assert "not part of it, and not applied yet" in printed
    code, printed = platform.runs("migrate")
    assert (code, platform.stands) == (1, before), printed
    assert "other changes that are not applied: view longest (new)" in printed
    assert "slicewise apply first" in printed
    platform.runs("migrate", "--with-others")
    assert {"longest", "listening@2"} <= {*views(platform)}


def test_a_version_that_somebody_keeps_stays(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.deploys(SUMS)
    later = VIEW.format(name="listening", aggregate='sum("seconds", where="seconds > 3")')
    platform.writes(later)
    assert platform.runs("apply", "--no-wait")[0] == 0
    assert platform.runs("promote", "listening@2")[0] == 0
    monkeypatch.setattr(Sum, "semantic_version", 2)
    monkeypatch.setattr(Sum, "earlier", {1: FirstSum})
    assert platform.runs("apply", "--no-wait")[0] == 0
    assert platform.runs("promote", "listening@3")[0] == 0
    code, printed = platform.runs("migrate")
    assert code == 0, printed
    assert "listening@1 stays" in printed
    assert views(platform) == ("listening", "listening@1")


def test_without_the_class_of_before_the_deployment_is_refused(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.deploys(SUMS)
    monkeypatch.setattr(Sum, "semantic_version", 2)
    code, printed = platform.runs("plan")
    assert code == 1
    assert "partials of sum are stored by semantic version 1, and this code reads 2" in printed
