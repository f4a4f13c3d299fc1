"""Settings come from the environment, then from the supervisor, then from defaults; and show no
secret."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.errors import SettingsError
from slicewise.settings import Settings


def test_the_environment_wins_over_the_supervisor_and_that_over_the_default(tmp_path: Path) -> None:
    written = {"redis_url": "redis://127.0.0.1:21000/0", "serving_url": "http://127.0.0.1:21001"}
    (tmp_path / "endpoints.json").write_text(json.dumps({"settings": written, "ports": {}}))
    env = {"SLICEWISE_STATE": str(tmp_path), "SLICEWISE_REDIS_URL": "redis://elsewhere:6379/1"}
    settings = Settings.load(env)
    assert settings.redis_url == "redis://elsewhere:6379/1"
    assert settings.serving_url == "http://127.0.0.1:21001"
    assert settings.kafka_bootstrap == "127.0.0.1:9092"


def test_a_child_given_to_env_loads_the_same_settings(tmp_path: Path) -> None:
    settings = Settings.load(
        {
            "SLICEWISE_STATE": str(tmp_path / "state"),
            "SLICEWISE_MICROBATCH_INTERVAL_MS": "250",
            "SLICEWISE_REALTIME": "on",
            "SLICEWISE_REALTIME_FIELDS": "12",
            "SLICEWISE_PROJECT": str(tmp_path),
        }
    )
    assert Settings.load(settings.to_env(), cwd=Path("/")) == settings


def test_no_secret_is_shown(tmp_path: Path) -> None:
    env = {
        "SLICEWISE_STATE": str(tmp_path),
        "SLICEWISE_REDIS_URL": "redis://user:hunter2@store:6379/0",
        "SLICEWISE_CATALOG_URI": "postgresql+psycopg2://user:hunter2@db/catalog",
    }
    settings = Settings.load(env)
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings)
    assert "store:6379" in repr(settings)
    with pytest.raises(SettingsError) as raised:
        Settings.load({**env, "SLICEWISE_REDIS_URL": "http://user:hunter2@store"})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SLICEWISE_MAX_EVENTS_PER_BATCH", "many"),
        ("SLICEWISE_MAX_EVENTS_PER_BATCH", "0"),
        ("SLICEWISE_MICROBATCH_INTERVAL_MS", "-1"),
        ("SLICEWISE_REALTIME", "yes"),
        ("SLICEWISE_REALTIME_BATCH_S", "4"),  # shorter ones Spark's real-time mode refuses
        ("SLICEWISE_REALTIME_METRICS", "9402"),
        ("SLICEWISE_REDIS_URL", "127.0.0.1:6379"),
        ("SLICEWISE_REDIS_URL", "redis://[::1"),
        ("SLICEWISE_REDIS_URL", "redis://store:port/0"),
        ("SLICEWISE_REDIS_URL", "redis://one:6379/0,redis://two:99999/0"),
        ("SLICEWISE_SERVING_URL", "http://127.0.0.1:99999"),
        ("SLICEWISE_SERVING_URL", "localhost"),
        ("SLICEWISE_SERVING_CLIENT_HEADER", "x-client: id"),
        ("SLICEWISE_SERVING_CLIENT_HEADER", "x-ü"),
        ("SLICEWISE_HOME", "~nobody-of-this-name/x"),
        ("SLICEWISE_STREAM_METRICS", "9400"),
        ("SLICEWISE_STREAM_METRICS", "127.0.0.1:http"),
        ("SLICEWISE_STREAM_METRICS", "0.0.0.0:²"),
        ("SLICEWISE_STREAM_METRICS", "a b:9400"),
        ("SLICEWISE_SHADOW_BEHIND_S", "1801"),  # later predictions would be late for their source
    ],
)
def test_a_malformed_setting_is_refused_by_name(variable: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.load({"SLICEWISE_STATE": str(tmp_path), variable: value})
    assert variable in str(raised.value)
    assert raised.value.expected


def test_a_broken_endpoints_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text("{")
    with pytest.raises(SettingsError, match=r"endpoints\.json"):
        Settings.load({"SLICEWISE_STATE": str(tmp_path)})


def test_the_project_is_found_from_any_folder_below_it(tmp_path: Path) -> None:
    (tmp_path / "slicewise.toml").write_text('definitions = "mine.py"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    settings = Settings.load({}, cwd=below)
    assert settings.project_dir == tmp_path
    assert settings.definitions == tmp_path / "mine.py"


def test_without_a_project_the_shipped_example_is_it(tmp_path: Path) -> None:
    settings = Settings.load({}, cwd=tmp_path)
    assert settings.project_dir == settings.home / "examples" / "flights"


@pytest.mark.parametrize(
    ("uri", "jdbc"),
    [
        ("sqlite:////data/catalog.db?timeout=60", "jdbc:sqlite:/data/catalog.db"),
        ("postgresql+psycopg2://u:p@db:5432/catalog", "jdbc:postgresql://db:5432/catalog"),
    ],
)
def test_the_jvm_gets_the_same_catalog(uri: str, jdbc: str) -> None:
    assert Settings.load({"SLICEWISE_CATALOG_URI": uri}).catalog_jdbc_uri == jdbc


def test_a_catalog_that_the_jvm_cannot_open_is_refused() -> None:
    with pytest.raises(SettingsError, match="SLICEWISE_CATALOG_URI"):
        _ = Settings.load({"SLICEWISE_CATALOG_URI": "mysql://db/catalog"}).catalog_jdbc_uri


def test_links_lead_to_airflow_wherever_it_is_unless_a_base_is_set() -> None:
    embedded = Settings.load({"SLICEWISE_AIRFLOW_URL": "http://127.0.0.1:27054/"})
    assert embedded.runbook_url == "http://127.0.0.1:27054/slicewise"
    # the supervisor chooses the port later, and children load what it gives them
    moved = replace(embedded, airflow_url="http://127.0.0.1:1234")
    assert Settings.load(moved.to_env()).runbook_url == "http://127.0.0.1:1234/slicewise"
    named = Settings.load({"SLICEWISE_RUNBOOK_BASE": "https://docs.example.org/slicewise"})
    assert named.runbook_url == "https://docs.example.org/slicewise"
    with pytest.raises(SettingsError, match="no usable address"):
        Settings.load({"SLICEWISE_RUNBOOK_BASE": "docs"})
