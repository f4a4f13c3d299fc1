"""Airflow in these tests has a home of its own, and this repository's dags/ and plugins/.

Airflow reads its variables when it is first imported, so they are set before any test module is.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platform.receiver import Receiver, receiving

ROOT = Path(__file__).resolve().parents[2]
_HOME = tempfile.TemporaryDirectory(prefix="slicewise-airflow-")

for _name in [name for name in os.environ if name.startswith(("AIRFLOW", "SLICEWISE_"))]:
    del os.environ[_name]
os.environ.update(
    AIRFLOW_HOME=_HOME.name,
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__UNIT_TEST_MODE="True",
    AIRFLOW__API_AUTH__JWT_SECRET="secret of tests " * 4,
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_HOME.name}/airflow.db",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    SLICEWISE_STATE=f"{_HOME.name}/state",
)

# puts plugins/ where modules are found, as every part of Airflow does when it starts
import airflow  # noqa: E402, F401


def pytest_configure(config: pytest.Config) -> None:
    # Airflow and its providers warn about their own dependencies; ours stay errors
    config.addinivalue_line(
        "filterwarnings",
        "ignore::DeprecationWarning:(airflow|pathspec|pydantic|starlette|fastapi).*",
    )


def pytest_unconfigure() -> None:
    _HOME.cleanup()


@pytest.fixture(autouse=True)
def platform_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test has an inbox of its own, and servers that answer."""
    from slicewise.local.servers import drivers

    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    for look in ("store_away", "store_ill", "broker_away"):
        monkeypatch.setattr(drivers, look, lambda _: "")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The one channel that alerts go to."""
    with receiving() as server:
        monkeypatch.setenv("SLICEWISE_ALERT_WEBHOOK", server.url)
        yield server
