"""Every environment is locked with hashes, names no index, and agrees with the others where bytes
depend on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = {
    "airflow": ROOT / "requirements.txt",
    "platform": ROOT / "requirements" / "platform.txt",
    "spark": ROOT / "requirements" / "spark.txt",
    "tools": ROOT / "requirements" / "tools.txt",
}


def _pins(lock: Path) -> dict[str, str]:
    return dict(
        re.findall(
            r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^\s\\;]+)", lock.read_text(), re.MULTILINE
        )
    )


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash(name: str) -> None:
    text = LOCKS[name].read_text()
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(_pins(LOCKS[name])) > 0
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize(
    "path", [*LOCKS.values(), ROOT / "include/slicewise/jvm/pom.xml", ROOT / "Makefile"]
)
def test_no_file_names_an_index_or_a_repository(path: Path) -> None:
    text = path.read_text().replace('xmlns="http://maven.apache.org/POM/4.0.0"', "")
    assert "://" not in text
    assert "<repository>" not in text
    assert "index-url" not in text.replace("--no-emit-index-url", "")


def test_what_decides_stored_bytes_has_one_version_in_platform_and_spark() -> None:
    platform, spark = _pins(LOCKS["platform"]), _pins(LOCKS["spark"])
    shared = {
        "numpy",
        "pyarrow",
        "pandas",
        "xxhash",
        "sqlglot",
        "duckdb",
        "msgpack",
        "redis",
        "hiredis",
        "pyiceberg",
    }
    assert {name: platform[name] for name in shared} == {name: spark[name] for name in shared}


def test_pyspark_and_the_provider_that_overwrites_it_stand_apart() -> None:
    assert "pyspark" in _pins(LOCKS["spark"])
    assert "pyspark-client" in _pins(LOCKS["airflow"])
    assert "pyspark" not in _pins(LOCKS["airflow"])
    assert "pyspark-client" not in _pins(LOCKS["spark"])


def test_requirements_txt_points_to_its_fellows() -> None:
    head = LOCKS["airflow"].read_text()[:600]
    for name in ("platform", "spark", "tools"):
        assert f"requirements/{name}.txt" in head
