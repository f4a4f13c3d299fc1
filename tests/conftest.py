"""A test is collected by the environment that carries what it imports, and by no other.

tests/dags belongs to the Airflow environment, files named test_spark_*.py to Spark's, all others
to the platform's; `make test` runs all three, so that nothing is left out.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

TESTS = Path(__file__).parent
ENVIRONMENT = "spark" if find_spec("great_expectations") else "airflow" if find_spec("airflow") else "platform"

# Airflow's tests start no server, and its environment lacks what starts them.
pytest_plugins = [] if ENVIRONMENT == "airflow" else ["tests.support.servers"]


def environment_of(path: Path) -> str:
    """The environment that a test file runs in."""
    if "dags" in path.relative_to(TESTS).parts[:1]:
        return "airflow"
    return "spark" if path.name.startswith("test_spark_") else "platform"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if collection_path.is_dir():
        # a folder's conftest imports as its tests do
        of_airflow = collection_path == TESTS / "dags"
        return True if collection_path.parent == TESTS and of_airflow != (ENVIRONMENT == "airflow") else None
    if collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
        return True if environment_of(collection_path) != ENVIRONMENT else None
    return None


def pytest_report_header() -> str:
    return f"environment: {ENVIRONMENT}"
