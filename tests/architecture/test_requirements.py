"""The platform's promised packages stand in a lock, with hashes, and in an import of the code that
runs."""

from __future__ import annotations

import re

import pytest

from tests.architecture.import_table import ROOT, imports_of, python_files

# distribution -> (the locks that hold it, the module, folders of which one must import it)
USED = {
    "apache-airflow": ({"requirements.txt"}, "airflow", ("dags", "plugins")),
    "apache-airflow-providers-apache-spark": (
        {"requirements.txt"},
        "airflow.providers.apache.spark",
        ("dags", "plugins"),
    ),
    "pyspark": ({"requirements/spark.txt"}, "pyspark", ("include", "spark_jobs")),
    "redis": (
        {"requirements.txt", "requirements/platform.txt", "requirements/spark.txt"},
        "redis",
        ("include",),
    ),
    "pyiceberg": (
        {"requirements/platform.txt", "requirements/spark.txt"},
        "pyiceberg",
        ("include",),
    ),
    "great-expectations": ({"requirements/spark.txt"}, "great_expectations", ("include",)),
    "pytest": (
        {"requirements.txt", "requirements/platform.txt", "requirements/spark.txt"},
        "pytest",
        ("tests",),
    ),
}
LOCKS = (
    "requirements.txt",
    "requirements/platform.txt",
    "requirements/spark.txt",
    "requirements/tools.txt",
)


def locked(lock: str) -> dict[str, str]:
    """Distribution -> the lines that pin it."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)
    pins = {
        re.split(r"[\[=]", block, maxsplit=1)[0]: block
        for block in blocks
        if "==" in block.partition("\n")[0]
    }
    assert pins, f"{lock} pins nothing"
    return pins


@pytest.mark.parametrize("name", sorted(USED))
def test_a_promised_package_is_pinned_with_hashes_where_it_runs(name: str) -> None:
    locks = USED[name][0]
    for lock in sorted(locks):
        assert "--hash=sha256:" in locked(lock).get(name, ""), f"{name} in {lock}"


@pytest.mark.parametrize("name", sorted(USED))
def test_a_promised_package_is_imported(name: str) -> None:
    _, module, folders = USED[name]
    assert any(
        imported.name == module or imported.name.startswith(f"{module}.")
        for path in python_files(*folders)
        for imported in imports_of(path)
    ), f"nothing below {folders} imports {module}"


def test_pyspark_and_the_spark_provider_never_share_an_environment() -> None:
    # the provider requires pyspark-client, which overwrites the files of pyspark
    for lock in LOCKS:
        assert not {"pyspark", "pyspark-client"} <= set(locked(lock)), lock


def test_the_locks_name_no_index() -> None:
    for lock in LOCKS:
        text = (ROOT / lock).read_text(encoding="utf-8")
        assert not re.findall(r"--(?:extra-)?index-url|--find-links|https?://", text), lock


def test_requirements_txt_is_what_airflow_installs_and_points_to_its_fellows() -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert "apache-airflow" in locked("requirements.txt")
    for other in ("requirements/platform.txt", "requirements/spark.txt"):
        assert other in text
