"""Versions of a view are promoted and retired on a running store, and refused with the reason."""

from __future__ import annotations

import json
import time

import pytest

from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.lifecycle.healing.record import PART, Healing, Job
from slicewise.local import deploy
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis.status import read_part, record_part
from slicewise.stores.recovery.beginning import beginnings
from tests.integration.local.deployed_project import MORE, PLAYS, VIEW, Platform

LONG = PLAYS.replace('entity=["user_id"]', 'entity=["user_id"], where="seconds > 30"')
SET = 'model = sw.FeatureSet("model", features=["listening:plays_1h"])\n'
LONGEST = (
    VIEW.format(name="listening", aggregate='max("seconds")')
    .replace('"plays", sw', '"longest", sw')
    .replace('entity=["user_id"]', 'entity=["user_id"], where="seconds > 30"')
)
LONGEST_SET = SET.replace("plays_1h", "longest_1h")


def applied(platform: Platform, *definitions: str) -> str:
    """Output of `slicewise apply` of these definitions."""
    platform.writes(*definitions)
    code, printed = platform.runs("apply", "--no-wait")
    assert code == 0, printed
    return printed


def test_a_version_is_promoted_and_what_it_was_is_retired(platform: Platform) -> None:
    platform.deploys(PLAYS, SET)
    platform.writes(LONG, SET)
    code, printed = platform.runs("plan")
    assert code == 0, printed
    assert "listening@2: new; beside listening, which answers as before: where is" in printed
    printed = applied(platform, LONG, SET)
    assert "slicewise promote listening@2" in printed
    version, views, _ = platform.stands
    assert views == ("listening", "listening@2")
    before = platform.stands
    code, printed = platform.runs("promote", "listening@2", "--plan")
    assert (code, platform.stands) == (0, before), "a plan changes nothing"
    assert "listening stands for version 2, would be deployed" in printed
    code, printed = platform.runs("promote", "listening@2", "--by", "ann", "--json")
    outcome = json.loads(printed)
    assert (code, outcome["done"], outcome["live"]) == (0, True, {"listening": 2})
    assert platform.stands[:2] == (version + 1, ("listening", "listening@1"))
    assert platform.history()["deployments"][-1]["how"] == "promote"
    assert platform.history()["deployments"][-1]["by"] == "ann"
    assert "nothing to do" in platform.runs("promote", "listening@2")[1]
    stands = platform.stands
    assert "unchanged" in applied(platform, LONG, SET)
    assert platform.stands == stands, "the definitions say what is live"

    code, printed = platform.runs("retire", "listening@2")
    assert code == 1
    assert "listening@2 is live" in printed
    assert platform.runs("retire", "listening@1", "--plan")[0] == 0
    assert platform.stands == stands
    code, printed = platform.runs("retire", "listening@1")
    assert (code, platform.stands[1]) == (0, ("listening",)), printed
    code, printed = platform.runs("promote", "listening@1")
    assert code == 1
    assert "unknown version 'listening@1'" in printed


def test_a_feature_set_goes_with_the_version_that_has_what_it_reads(platform: Platform) -> None:
    platform.deploys(PLAYS, SET)
    applied(platform, LONGEST, LONGEST_SET)
    assert platform.runs("promote", "listening@2")[0] == 0
    with deploy.connected(platform.settings) as store:
        stands = deploy.require_units(deploy.current(store))
    assert stands.feature_set("model").features == ("listening:longest_1h",)
    assert stands.feature_set("model@1").features == ("listening@1:plays_1h",)
    code, printed = platform.runs("retire", "listening@1")
    assert code == 1
    assert "slicewise retire listening@1 model@1" in printed
    assert platform.runs("retire", "listening@1", "model@1")[0] == 0


def test_what_is_not_built_or_not_green_is_not_promoted(platform: Platform) -> None:
    platform.writes(PLAYS)
    planned = plan(load_project(platform.project / "features.py"))
    # something lies below the start of what is deployed from then on
    with (
        deploy.connected(platform.settings) as store,
        KafkaLog(platform.settings.kafka_bootstrap) as log,
    ):
        log.create("plays", 1)
        topics, _ = beginnings(planned, log, None)
        store.run(Deploy(planned, 0, topics, OffsetVector({(topics["plays"], 0): 7})))
    platform.writes(LONG)
    # Airflow, which builds it, does not run here
    assert "deployed: version 2" in platform.runs("apply", "--no-wait")[1]
    code, printed = platform.runs("promote", "listening@2")
    assert code == 1
    assert "listening@2 is not built yet" in printed
    platform.ready()
    job = Job.of(time.time_ns() // 1_000, "a run", {})
    record_part(
        platform.settings.redis_url,
        PART,
        Healing().suspected(job, {"listening@2": ['{"user_id": "ann"}']}, []).text(),
    )
    code, printed = platform.runs("promote", "listening@2")
    assert code == 1
    assert "a check found values of listening@2 that differ, or suspects some" in printed
    # what is suspected of the live one goes with it
    live = Healing().suspected(job, {"listening": ['{"user_id": "ann"}']}, [])
    record_part(platform.settings.redis_url, PART, live.text())
    assert platform.runs("promote", "listening@2")[0] == 0
    assert Healing.of(read_part(platform.settings.redis_url, PART)).views == ("listening@1",)
    assert platform.runs("promote", "listening@1")[0] == 1
    code, printed = platform.runs("diff", "listening")
    assert code == 1
    assert "listening names one version" in printed


def test_tables_of_compacted_hours_go_with_the_version(platform: Platform) -> None:
    from slicewise.stores.lake.catalog import ensure
    from slicewise.stores.lake.schemas import slices_table

    platform.deploys(PLAYS)
    applied(platform, LONG)
    catalog = open_catalog(platform.settings)
    with deploy.connected(platform.settings) as store:
        (unit,) = deploy.require_units(deploy.current(store)).view("listening@2")
    ensure(catalog, slices_table(unit))
    code, printed = platform.runs("retire", "listening@2", "--json")
    assert code == 0, printed
    assert json.loads(printed)["tables"] == [unit.storage_fingerprint]
    assert catalog.list_tables("slices") == []


def test_where_the_archive_is_away_nothing_is_retired(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.deploys(PLAYS)
    applied(platform, LONG)
    stands = platform.stands
    monkeypatch.setenv("SLICEWISE_CATALOG_URI", "postgresql+psycopg2://127.0.0.1:1/none")
    code, printed = platform.runs("retire", "listening@2")
    assert (code, platform.stands) == (1, stands), printed
    assert "the archive's catalog does not answer" in printed
    # a plan says so, and all else that it says
    platform.writes(PLAYS, MORE)
    code, printed = platform.runs("plan")
    assert code == 0, printed
    assert "what a build costs is not known: the archive's catalog does not answer" in printed
