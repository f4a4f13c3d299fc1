"""A command that only shows leaves a store as it found it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.cli import gaps as accepted_gaps
from slicewise.cli import rebuilding
from slicewise.clock import SystemClock
from slicewise.errors import ServerError
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import connected
from tests.support.platform.servers import RedisServer


@pytest.mark.parametrize("look", ["rebuild --plan", "hole"])
def test_a_store_without_metadata_has_none_after_it_was_looked_at(
    own_redis: RedisServer, tmp_path: Path, look: str
) -> None:
    settings = Settings.load(
        {"SLICEWISE_STATE": str(tmp_path), "SLICEWISE_REDIS_URL": own_redis.url}
    )
    with pytest.raises(ServerError, match="no metadata"):
        rebuilding.plans(settings, None) if look == "rebuild --plan" else accepted_gaps.plans(
            settings, SystemClock()
        )
    with connected(own_redis.url) as client:
        assert not client.dbsize()
