"""`slicewise rollback` puts the last good deployment back on a running store, and nothing else."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewise.local import deploy
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.registered import PART, added, registered_of
from slicewise.stores.lake.registry import enter, enter_if_possible
from slicewise.stores.online.redis.status import read_part, record_part
from tests.integration.local.deployed_project import MORE, PLAYS, Platform


def test_what_was_good_stands_again_under_a_new_version(platform: Platform) -> None:
    first = platform.deploys(PLAYS)
    platform.good()
    before = platform.stands
    second = platform.deploys(PLAYS, MORE)
    assert platform.rollback("--plan")[1].splitlines() == [
        "removed    longest                  no longer served; what it stored is swept",
        f"version {second} would be undone for what was version {first}",
    ]
    assert platform.stands[0] == second, "a plan changes nothing"
    code, printed = platform.rollback("--json", "--version", str(second))
    outcome: dict[str, Any] = json.loads(printed)
    assert (code, outcome["done"], outcome["version"]) == (0, True, second + 1)
    assert [(change["view"], change["change"]) for change in outcome["changes"]] == [
        ("longest", "removed")
    ]
    assert platform.stands == (second + 1, *before[1:])
    code, printed = platform.rollback()
    assert (code, printed) == (
        0,
        f"deployment version {second + 1} is the last good one: nothing to do\n",
    )


def test_another_version_than_the_one_that_was_meant_is_left_alone(platform: Platform) -> None:
    platform.deploys(PLAYS)
    platform.good()
    second = platform.deploys(PLAYS, MORE)
    code, printed = platform.rollback("--version", str(second - 1))
    assert code == 1
    assert f"deployment version {second} stands, and {second - 1} is to be undone" in printed
    assert platform.stands[0] == second


def test_a_changed_schema_is_not_undone(platform: Platform) -> None:
    platform.deploys(PLAYS)
    platform.good()
    second = platform.deploys(PLAYS, MORE, more='"device": "string", ')
    code, printed = platform.rollback()
    assert code == 1
    assert "the schema of 'plays' changed since: column 'device' (string) is added" in printed
    assert "slicewise apply" in printed
    assert platform.stands[0] == second


def test_without_a_deployment_that_is_known_to_be_good_the_error_says_what_to_do(
    platform: Platform,
) -> None:
    version = platform.deploys(PLAYS)
    code, printed = platform.rollback()
    assert code == 1
    assert "no deployment is known under which all drivers were well" in printed
    assert "slicewise apply --remove" in printed
    assert platform.stands[0] == version


def test_the_history_says_who_deployed_what_and_all_that_a_name_has_meant(
    platform: Platform,
) -> None:
    first = platform.deploys(PLAYS)
    platform.good()
    second = platform.deploys(PLAYS, MORE)
    assert platform.deploys(PLAYS, MORE) == second, "nothing changed: no deployment"
    assert platform.rollback("--by", "on call")[0] == 0
    shown = platform.history()
    assert [(one["version"], one["how"]) for one in shown["deployments"]] == [
        (first, "apply"),
        (second, "apply"),
        (second + 1, "rollback"),
    ]
    assert shown["deployments"][2]["by"] == "on call"
    assert all(one["by"] and one["at_us"] for one in shown["deployments"])
    assert [
        [(change["name"], change["effect"]) for change in one["changes"]]
        for one in shown["deployments"]
    ] == [
        [("plays", "new"), ("listening", "new")],
        [("longest", "new")],
        [("longest", "removed")],
    ]
    (longest,) = platform.history("longest")["versions"]
    assert (longest["deployment_version"], longest["until_us"]) == (
        second,
        shown["deployments"][2]["at_us"],
    )
    assert platform.history("listening")["versions"][0]["until_us"] is None

    # the archive keeps them when the store says them no more
    catalog, url = open_catalog(platform.settings), platform.settings.redis_url
    with deploy.connected(platform.settings) as store:
        for count in (3, 0):
            assert enter(catalog, store, url, time.time_ns() // 1_000) == count
    record_part(url, PART, "[]")
    assert platform.history() == shown
    assert len(platform.history("--limit", "1")["deployments"]) == 1


def test_a_deployment_that_nobody_registered_is_in_the_history_all_the_same(
    platform: Platform,
) -> None:
    version = platform.deploys(PLAYS)
    record_part(platform.settings.redis_url, PART, "none of ours")
    (one,) = platform.history()["deployments"]
    assert (one["version"], one["by"], one["how"]) == (version, "", "")
    # what it was is known when another takes its place, and is not that one's doing
    platform.deploys(PLAYS, MORE)
    before, after = platform.history()["deployments"]
    assert (before["version"], before["how"]) == (version, "")
    assert (after["how"], [change["name"] for change in after["changes"]]) == ("apply", ["longest"])
    # a row that says who made it takes the place of one that does not
    catalog, url = open_catalog(platform.settings), platform.settings.redis_url
    text = read_part(url, PART)[0]
    record_part(url, PART, "[]")
    with deploy.connected(platform.settings) as store:
        assert enter(catalog, store, url, time.time_ns() // 1_000) == 1
        assert [of["how"] for of in platform.history()["deployments"]] == [""]
        record_part(url, PART, text)
        assert enter(catalog, store, url, time.time_ns() // 1_000) == 2
    record_part(url, PART, "[]")
    assert [of["how"] for of in platform.history()["deployments"]] == ["", "apply"]
    code, printed = platform.runs("history", "listning")
    assert code == 1
    assert "did you mean listening?" in printed
    # of a store that is away the archive says what stood
    platform.redis.kill()
    shown = platform.history()
    assert [of["how"] for of in shown["deployments"]] == ["", "apply"]
    assert shown["gaps"] == ["the store says nothing"]
    code, printed = platform.runs("history", "--limit", "-1")
    assert code == 1
    assert "0 or more" in printed


def test_what_is_deployed_is_shown_in_words_and_is_met_by_a_search(platform: Platform) -> None:
    platform.deploys(PLAYS)
    platform.deploys(PLAYS, MORE)
    code, printed = platform.runs("show", "longest")
    assert code == 0
    assert printed.splitlines()[0] == "view longest"
    assert "version 1, deployment 2" in printed
    code, printed = platform.runs("show", "plays", "--json")
    (source,) = json.loads(printed)["definitions"]
    assert source["uses"] == ["view listening", "view longest"]
    code, printed = platform.runs("search", "max", "1h")
    assert code == 0
    assert [line.split()[:2] for line in printed.splitlines()[1:]] == [["view", "longest"]]
    assert platform.runs("search", "--json", "nobody")[1].strip().endswith('"matches": []}')
    code, printed = platform.runs("show", "longst")
    assert code == 1
    assert "did you mean longest?" in printed


def test_a_deployment_that_cannot_be_read_is_named_and_hides_no_other(platform: Platform) -> None:
    platform.deploys(PLAYS)
    url = platform.settings.redis_url
    (text,) = read_part(url, PART)
    (made,) = registered_of(text)
    lost = replace(made, version=made.version - 1, digest="0" * 64, at_us=made.at_us - 1)
    record_part(url, PART, added(text, lost))
    shown = platform.history()
    assert [one["version"] for one in shown["deployments"]] == [made.version]
    assert shown["unread"] == [{"version": lost.version, "reason": "its definitions are lost"}]
    assert f"version {lost.version} is not shown" in platform.runs("history")[1]


def test_what_is_wrong_with_the_registry_fails_no_job(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    platform.deploys(PLAYS)
    catalog, url = open_catalog(platform.settings), platform.settings.redis_url
    with deploy.connected(platform.settings) as store:
        assert enter(catalog, store, url, time.time_ns() // 1_000) == 1
        platform.deploys(PLAYS, MORE)
        where = catalog.load_table("ops.deployments").metadata_location
        Path(where.removeprefix("file://")).write_text("{")
        enter_if_possible(open_catalog(platform.settings), store, url, time.time_ns() // 1_000)
    assert "deployments_not_entered" in caplog.text
    # what the store says is shown all the same
    shown = platform.history()
    assert [one["how"] for one in shown["deployments"]] == ["apply", "apply"]
    (gap,) = shown["gaps"]
    assert "the archive cannot be read" in gap
