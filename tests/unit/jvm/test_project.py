"""The Java code is one Maven project of four packages, of which the lower ones know nothing of the
others."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[3]
JVM = ROOT / "include" / "slicewise" / "jvm"
MAY_IMPORT = {"records": set(), "wire": set(), "log": {"records"}, "realtime": {"records", "wire"}}
MOST_CLASSES = 16
POM = {"m": "http://maven.apache.org/POM/4.0.0"}


def _sources(kind: str) -> list[Path]:
    return sorted((JVM / "src" / kind / "java" / "io" / "slicewise").rglob("*.java"))


def test_the_packages_are_the_folders_and_each_is_small() -> None:
    packages = [path.parent.name for path in _sources("main")]
    assert set(packages) == set(MAY_IMPORT)
    assert {
        name: packages.count(name) for name in set(packages) if packages.count(name) > MOST_CLASSES
    } == {}


@pytest.mark.parametrize("kind", ["main", "test"])
def test_a_class_imports_only_packages_that_its_own_may_know(kind: str) -> None:
    wrong = []
    for path in _sources(kind):
        text, own = path.read_text(encoding="utf-8"), path.parent.name
        assert f"package io.slicewise.{own};" in text
        wrong += [
            f"{path.name}: {name}"
            for name in re.findall(r"\bio\.slicewise\.(\w+)\.", text)
            if name != own and name not in MAY_IMPORT[own]
        ]
    assert wrong == []


def test_every_plugin_and_every_jar_of_the_project_has_one_version() -> None:
    tree = ElementTree.parse(JVM / "pom.xml")
    named = [*tree.iterfind(".//m:plugin", POM), *tree.iterfind(".//m:dependency", POM)]
    versions = [plugin.findtext("m:version", "", POM) for plugin in named]
    assert len(versions) > 10
    assert [
        version for version in versions if not re.fullmatch(r"[\w.${}-]*\w[\w.${}-]*", version)
    ] == []


def test_set_up_compiles_by_the_rules_of_the_project() -> None:
    tree = ElementTree.parse(JVM / "pom.xml")
    plugins = {
        element.findtext("m:artifactId", "", POM): element
        for element in tree.iterfind(".//m:plugin", POM)
    }
    options = plugins["maven-compiler-plugin"].find("m:configuration", POM)
    assert options is not None
    flags = [arg.text for arg in options.iterfind(".//m:arg", POM)]
    flags += [
        f"--release {options.findtext('m:release', '', POM)}",
        f"-proc:{options.findtext('m:proc', '', POM)}",
    ]
    [command] = re.findall(
        r'javac" (.*?)-cp', (ROOT / "Makefile").read_text(encoding="utf-8"), re.DOTALL
    )
    assert sorted(re.findall(r"--release \S+|-X\S+|-W\S+|-proc\S+", command)) == sorted(
        map(str, flags)
    )
