"""Folders decide the environment of a test, and whether it may start servers; no file states
either.

tests/dags belongs to the Airflow environment, every folder named `spark` to Spark's, all others
to the platform's; `make test` runs all three, so that nothing is left out. The folders of `SERVED`
may start servers; `make test-fast` leaves them out. tests/cluster needs Debian packages, and
tests/upgrade an older Airflow: who names them has these (`make test-cluster`, `test-upgrade`).
"""

from __future__ import annotations

import gc
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
NAMED = (TESTS / "cluster", TESTS / "upgrade")
"""Folders whose tests run where they are named: each needs what `make setup` does not bring."""
SERVED = (
    "integration",
    "e2e",
    "compat",
    "parity",
    "cluster",
    "upgrade",
    "package",
    "contract/redis",
)
"""Folders whose tests may start servers, and drivers beside them. Of the adapters of tests/contract
those on a server carry the mark themselves."""
STARTS = frozenset(
    {
        "redis_server",
        "kafka_broker",
        "own_redis",
        "own_kafka",
        "contract_redis",
        "contract_two_redis",
    }
)
"""Fixtures that start a server."""
ENVIRONMENT = (
    "spark"
    if find_spec("great_expectations")
    else "airflow"
    if find_spec("airflow")
    else "platform"
)

LONGEST = (
    "e2e/test_whole.py",
    "e2e/test_newcomer.py",
    "integration/local/test_airflow_dags.py",
    "integration/checks/test_check_job.py",
    "simulation/test_histories.py",
    "integration/local/test_replay.py",
    "integration/sql/test_served.py",
    "integration/emission/test_leaderboards.py",
    "integration/emission/test_emission.py",
    "integration/stream/test_realtime_service.py",
    "integration/stream/test_freshness_probed.py",
    "integration/stream/test_stream_service.py",
    "integration/local/test_embedded_airflow.py",
    "integration/local/test_embedded_servers.py",
    "parity/spark/test_formats.py",
    "parity/spark/test_record_reader.py",
    "integration/checks/spark/test_check.py",
    "integration/spark/test_builds.py",
    "integration/spark/test_lake.py",
    "integration/spark/test_lifetime.py",
)
"""Files that take minutes. Where files run side by side these begin first, else the last one runs
alone; of Spark's the formats, since a JVM that read Avro for another file before waits half a
minute for each schema that never comes."""

# Airflow's tests start no server, and its environment lacks what starts them.
pytest_plugins = (
    []
    if ENVIRONMENT == "airflow"
    else ["tests.support.platform.leftovers", "tests.support.platform.servers"]
)


if ENVIRONMENT != "airflow":
    from hypothesis import HealthCheck, settings

    # how long an example takes says how busy the machine is
    quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("beside others", quiet)
    settings.register_profile("few", quiet, max_examples=16)  # of make test-fast
    settings.load_profile("beside others")


def environment_of(path: Path) -> str:
    """The environment that a test file runs in."""
    if "dags" in path.relative_to(TESTS).parts[:1]:
        return "airflow"
    return "spark" if "spark" in path.relative_to(TESTS).parts[:-1] else "platform"


@cache  # asked for each test
def markers_of(path: Path) -> tuple[str, ...]:
    """Marks that a test file has by its folder."""
    folder = path.relative_to(TESTS).parent
    served = any(folder.is_relative_to(name) for name in SERVED)
    return (*(["server"] if served else []), *({environment_of(path)} - {"platform"}))


def starts_unmarked(item: pytest.Item) -> bool:
    """Tells whether a test asks for a server without the mark of one."""
    return item.get_closest_marker("server") is None and not STARTS.isdisjoint(
        getattr(item, "fixturenames", ())
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path in NAMED:
        named = (
            config.invocation_params.dir / argument.partition("::")[0] for argument in config.args
        )
        return None if any(path.is_relative_to(collection_path) for path in named) else True
    if collection_path.is_dir():
        # a folder's conftest imports as its tests do
        of_airflow = collection_path == TESTS / "dags"
        return (
            True
            if collection_path.parent == TESTS and of_airflow != (ENVIRONMENT == "airflow")
            else None
        )
    if collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
        return True if environment_of(collection_path) != ENVIRONMENT else None
    return None


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in markers_of(item.path):
            item.add_marker(name)
    if strangers := [item.nodeid for item in items if starts_unmarked(item)]:
        raise pytest.UsageError(
            f"tests that start a server in a folder for those that start none: {strangers}"
        )
    if "PYTEST_XDIST_WORKER" in os.environ:
        rank = {TESTS / name: position for position, name in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(item.path, len(rank)))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # modules and tests stay: no collection looks at them again


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def pytest_report_header() -> str:
    return f"environment: {ENVIRONMENT}"


@pytest.hookimpl(trylast=True)  # once there is a terminal reporter
def pytest_configure(config: pytest.Config) -> None:
    if ENVIRONMENT == "spark":
        # PySpark, py4j and librdkafka leave sockets to the garbage collector, which may run in any
        # later test
        config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Counted(terminal))


class Counted:
    """Counts and durations of the whole platform's tests are shown where these pass too."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and report.nodeid.startswith("tests/e2e/"):
            self._terminal.ensure_newline()
            self._terminal.write(report.capstdout)
