"""A name's pages show the data sets that were built of it, from the archive, and do without."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.training.archiving.offline import Offline
from tests.integration.serving.support import deployment, serving
from tests.integration.serving.test_answers import events_before
from tests.support.platform.servers import RedisServer
from tests.support.stores.archived import archive
from tests.support.stores.served import TOPIC, Served

SEED = 20_261_130
DEPLOYMENT = deployment()
CHURN = list(DEPLOYMENT.feature_set("churn_v1").features)
PATIENCE_S = 60.0


@dataclass
class World:
    """A store, an archive of what it has, and what an API is started with."""

    redis_url: str
    variables: dict[str, str]
    now_us: int

    @property
    def settings(self) -> Settings:
        return Settings.load(self.variables)

    def builds(self, name: str, refs: list[str], users: tuple[str, ...]) -> None:
        """Builds a training set and records it, as the command does."""
        spine = [{"user_id": user, "at": self.now_us - 1} for user in users]
        built = sw.training_set(
            spine, refs, settings=self.settings, archive=False, progress=lambda _: None
        )
        Offline.open(self.settings).record(built.manifest, name)

    @contextmanager
    def api(self, **variables: str) -> Iterator[httpx.Client]:
        more = {**self.variables, **variables}
        with (
            serving(self.redis_url, settings=more) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        ):
            yield client


@pytest.fixture
def world(tmp_path: Path, own_redis: RedisServer) -> Iterator[World]:
    print(f"seed {SEED}")
    now_us = time.time_ns() // 1_000
    with ExitStack() as stack:
        stack.enter_context(Served.on(own_redis.url, DEPLOYMENT))
        variables = {"SLICEWISE_STATE": str(tmp_path), "SLICEWISE_REDIS_URL": own_redis.url}
        events = events_before(now_us, 100, SEED)
        rows = [
            {**e.columns, "played_at": e.time_us, "partition": e.partition, "offset": e.offset}
            for e in events
        ]
        catalog = open_catalog(Settings.load(variables))
        archive(catalog, DEPLOYMENT.source("plays"), TOPIC, 1, rows, [], now_us)
        yield World(own_redis.url, variables, now_us)


def whole(client: httpx.Client, name: str) -> dict[str, Any]:
    """The page's values once the archive has been read: the process that reads it has to start."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        values: dict[str, Any] = client.get(f"/v1/registry/{name}").json()
        if "no_data_sets" not in values:
            return values
        assert "has not answered within 3 s" in values["no_data_sets"]
        assert values["definitions"][0]["data_sets"] is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


def readers() -> list[psutil.Process]:
    """The processes beside this test's API that read archives."""
    some = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            some += [process] if "slicewise.training.past" in process.cmdline() else []
    return some


def names_of(definition: Mapping[str, Any]) -> list[str]:
    return [one["name"] for one in definition["data_sets"]]


def test_a_page_names_the_sets_and_has_the_values_of_the_newest(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.builds("old.parquet", CHURN, ("ann", "nobody"))
    world.builds("new.parquet", ["listening:plays_1h"], ("nobody",))
    with world.api() as client:
        (view,) = whole(client, "listening")["definitions"]
        assert names_of(view) == ["new.parquet", "old.parquet"]
        assert [one["rows"] for one in view["data_sets"]] == [1, 2]
        assert view["statistics"]["plays_1h"] == {"nulls": 0, "min": 0, "max": 0, "mean": 0.0}
        assert view["statistics"]["seconds_1h"]["nulls"] >= 1, "of the newest that has it"
        page = client.get("/registry/listening").text
        assert "new.parquet" in page
        assert "values of the newest data set" in page
        assert "max 0, mean 0, min 0, nulls 0" in page
        assert "not shown" not in page
        (churn,) = whole(client, "churn_v1")["definitions"]
        assert names_of(churn) == ["old.parquet"]
        (unused,) = whole(client, "places")["definitions"]
        assert (unused["data_sets"], unused["statistics"]) == ([], {})
        page = client.get("/registry/places").text
        assert "values of the newest" not in page
        # the command shows the same
        for name, value in world.variables.items():
            monkeypatch.setenv(name, value)
        assert main(["show", "listening", "--json"]) == 0
        (shown,) = json.loads(capsys.readouterr().out)["definitions"]
        assert shown["data_sets"] == view["data_sets"]
        assert shown["statistics"] == view["statistics"]


def test_an_archive_that_does_not_answer_is_named_on_a_page_that_has_all_else(
    world: World, tmp_path: Path
) -> None:
    away = f"sqlite:///{tmp_path}/no/such/catalog.db"
    with world.api(SLICEWISE_CATALOG_URI=away) as client:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            values = client.get("/v1/registry/listening")
            assert values.status_code == 200
            if "catalog does not answer" in values.json()["no_data_sets"]:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (view,) = values.json()["definitions"]
        assert view["data_sets"] is None
        assert view["condition"]["ready"] is True
        page = client.get("/registry/listening")
        assert page.status_code == 200
        assert "data sets are not shown: the archive&#x27;s catalog does not answer" in page.text
        assert "seconds_1h" in page.text


def test_a_reader_that_hangs_delays_a_page_by_seconds_and_no_answer_at_all(world: World) -> None:
    with world.api() as client:
        body = {"features": ["listening:plays_1h"], "entities": [{"user_id": "ann"}]}
        assert client.post("/v1/features", json=body).status_code == 200
        assert client.get("/registry").status_code == 200
        assert readers() == [], "answers and the search start none"
        whole(client, "listening")
        (reader,) = readers()
        reader.suspend()
        try:
            begun = time.monotonic()
            page = client.get("/registry/places")
            assert page.status_code == 200
            assert "the archive has not answered within 3 s" in page.text
            assert 2.9 < time.monotonic() - begun < 8
            begun = time.monotonic()
            assert client.post("/v1/features", json=body).status_code == 200
            assert "has not answered" in client.get("/registry/places").text
            assert time.monotonic() - begun < 2.5, "one page waited, and this one need not"
            assert names_of(whole(client, "listening")["definitions"][0]) == [], "still there"
        finally:
            reader.resume()
        whole(client, "places")
