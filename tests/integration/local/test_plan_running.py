"""`slicewise plan` compares with what is deployed on the running store, and changes nothing
there."""

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from slicewise.cli import main
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from tests.support.platform.servers import RedisServer

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights"


def planned(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["plan", str(EXAMPLE), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_plan_says_what_differs_from_the_deployment(
    own_redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SLICEWISE_REDIS_URL", own_redis.url)
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    code, result = planned(capsys)
    assert (code, result["compared"]) == (0, "nothing is deployed yet")
    operator = redis.Redis.from_url(own_redis.operator_url)
    assert operator.dbsize() == 0, "a plan writes nothing"

    project = tmp_path / "flights"
    project.mkdir()
    text = (EXAMPLE / "features.py").read_text(encoding="utf-8")
    (project / "slicewise.toml").write_text(
        (EXAMPLE / "slicewise.toml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    # the deployed long_haul has another row logic
    (project / "features.py").write_text(
        text.replace("distance >= 1500", "distance >= 1000"), encoding="utf-8"
    )
    deployed = plan(load_project(project / "features.py"))
    store = open_store(own_redis.url)
    try:
        metadata = store.run(Initialise())
        topics = {source.topic: "0" * 31 + "1" for source in deployed.sources}
        store.run(Deploy(deployed, metadata.deployment_version, topics, OffsetVector()))
    finally:
        store.close()
    before = operator.dbsize()
    code, result = planned(capsys)
    assert code == 0
    kinds = {change["view"]: change["change"] for change in result["changes"]}
    assert kinds == dict.fromkeys(deployed.views, "unchanged") | {"long_haul@2": "new"}
    (version,) = [change for change in result["changes"] if change["change"] == "new"]
    assert (
        "where is `distance >= 1500 AND NOT cancelled`, was `distance >= 1000 AND NOT cancelled`"
        in version["reason"]
    )
    assert result["compared"] == f"compared with deployment {deployed.digest[:16]}"
    assert operator.dbsize() == before
    operator.close()
