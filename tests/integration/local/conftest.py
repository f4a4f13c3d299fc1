"""Fixture of the tests of a deployed project."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from tests.integration.local.deployed_project import Platform
from tests.support.platform.servers import KafkaBroker, RedisServer


@pytest.fixture
def platform(
    tmp_path: Path,
    own_redis: RedisServer,
    kafka_broker: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Platform:
    given = {
        "SLICEWISE_STATE": str(tmp_path / "state"),
        "SLICEWISE_PROJECT": str(tmp_path),
        "SLICEWISE_REDIS_URL": own_redis.url,
        "SLICEWISE_KAFKA_BOOTSTRAP": kafka_broker.bootstrap,
        "SLICEWISE_PROBES": "off",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load()
    StateFolder(settings.state_dir).create()
    return Platform(tmp_path, settings, own_redis, capsys)
