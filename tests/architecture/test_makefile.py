"""The first command says what is missing and how to get it, before it makes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import LONGEST, TESTS

ROOT = Path(__file__).resolve().parents[2]
NEEDED_BY_MAKE = ("bash", "sh", "sed", "head", "cat", "awk", "ls", "cksum", "mkdir", "env")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """A machine that has make and little else."""
    for name in NEEDED_BY_MAKE:
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    return {"PATH": str(tmp_path), "HOME": str(tmp_path)}


def _check(env: dict[str, str], python: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", str(ROOT / "requirements" / "check.sh")],
        env={**env, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_everything_that_is_missing_is_named_at_once_with_a_way_to_get_it(
    bare: dict[str, str],
) -> None:
    done = _check(bare)
    assert done.returncode == 1
    for thing in ("Python 3.11", "JDK 17", "Maven", "git"):
        [at] = [
            i
            for i, line in enumerate(done.stderr.splitlines())
            if line.startswith(f"missing: {thing}")
        ]
        assert "install" in done.stderr.splitlines()[at + 1]


def test_a_jdk_of_another_version_is_not_taken_for_17(bare: dict[str, str]) -> None:
    java = Path(bare["PATH"]) / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.4\" 2024-07-16' >&2\n")
    java.chmod(0o755)
    assert "JDK 17 (found: 21" in _check(bare).stderr


def test_a_jre_without_a_compiler_is_not_taken_for_a_jdk(bare: dict[str, str]) -> None:
    java = Path(bare["PATH"]) / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\" 2021-10-19' >&2\n")
    java.chmod(0o755)
    assert "missing: JDK 17's compiler" in _check(bare).stderr


def test_this_machine_has_all() -> None:
    python = str(ROOT / ".venvs" / "tools" / "bin" / "python")
    done = _check(dict(os.environ), python)
    assert (done.returncode, done.stderr) == (0, "")


def test_who_may_not_install_packages_is_told_which_and_how(bare: dict[str, str]) -> None:
    for name, output in (("id", "1000"), ("apt-get", "")):
        (Path(bare["PATH"]) / name).write_text(f"#!/bin/sh\necho {output}\n")
        (Path(bare["PATH"]) / name).chmod(0o755)
    command = [
        "/bin/bash",
        str(ROOT / "requirements" / "packages.sh"),
        "make:make",
        "promtool:prometheus",
        "sh:dash",
    ]
    done = subprocess.run(
        command, env=bare, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert "missing: make prometheus\n" in done.stderr
    assert "apt-get install --no-install-recommends make prometheus" in done.stderr


def test_help_lists_every_target_that_people_call() -> None:
    output = subprocess.run(
        ["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True
    ).stdout
    for target in (
        "run",
        "down",
        "status",
        "clean",
        "setup",
        "test",
        "test-fast",
        "test-cluster",
        "lint",
        "lock",
    ):
        assert f"make {target} " in output


@pytest.fixture
def readers_alone(tmp_path: Path) -> tuple[Path, str]:
    """A folder in which all is made but the record reader, and the target that makes it."""
    folder = tmp_path / "tree"
    jvm = "include/slicewise/jvm"
    source = folder / jvm / "src/main/java/io/slicewise/records/Reader.java"
    # one small class: what the real ones need of a compiler, setup itself shows
    source.parent.mkdir(parents=True)
    source.write_text("package io.slicewise.records;\n\npublic final class Reader {}\n")
    for name in ("Makefile", "pyproject.toml", f"{jvm}/pom.xml", "requirements.txt"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "requirements").symlink_to(ROOT / "requirements")
    site = ".venvs/spark/lib/python3.11/site-packages"
    (folder / site).mkdir(parents=True)
    (folder / site / "pyspark").symlink_to(ROOT / site / "pyspark")
    (folder / "told.mk").write_text(
        "told:\n\t@echo $(SPARK_STAMP) $(SPARK_JARS) $(TOOLS_STAMP) $(READER_JAR)\n"
    )
    done = subprocess.run(
        ["make", "-s", "-C", str(folder), "-f", "Makefile", "-f", "told.mk", "told"],
        capture_output=True,
        text=True,
        check=True,
    )
    *made, target = done.stdout.split()
    for stamp in reversed(made):  # the tools first: all others are made of them
        (folder / stamp).parent.mkdir(parents=True, exist_ok=True)
        (folder / stamp).touch()
    return folder, target


@pytest.mark.long
def test_the_record_reader_is_built_where_the_jdks_path_has_a_space_and_another_setup_builds_it_too(
    readers_alone: tuple[Path, str], tmp_path: Path
) -> None:
    folder, target = readers_alone
    compiler, archiver = shutil.which("javac"), shutil.which("jar")
    assert compiler is not None
    assert archiver is not None
    jdk = tmp_path / "a jdk" / "bin"
    jdk.mkdir(parents=True)
    # once this one has compiled, and before it has made its jar, another setup does all of it
    (jdk / "javac").write_text(
        f'#!/bin/sh\nset -e\n{compiler} "$@"\n'
        f'[ -n "$SECOND" ] || SECOND=1 MAKEFLAGS= make -s -C "{folder}" {target} > "{tmp_path}/second"\n'
    )
    (jdk / "javac").chmod(0o755)
    (jdk / "jar").symlink_to(archiver)
    env = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}
    }
    done = subprocess.run(
        ["make", "-s", "-C", str(folder), target],
        env=env | {"JAVA_HOME": str(jdk.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "setup: the record reader" in (tmp_path / "second").read_text()
    listed = subprocess.run(
        [archiver, "--list", "--file", str(folder / ".jars/spark/slicewise-spark.jar")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "io/slicewise/records/" in listed.stdout
    assert sorted(path.name for path in (folder / ".jars").iterdir()) == ["spark"]


@pytest.fixture
def three_environments(tmp_path: Path) -> Path:
    """A folder whose environments write down what they are asked, and of which the platform's
    fails."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name, code in (("airflow", 0), ("platform", 1), ("spark", 0)):
        python = tmp_path / ".venvs" / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/{name}"\nexit {code}\n')
        python.chmod(0o755)
    return tmp_path


def test_tests_that_fail_in_one_environment_do_not_hide_those_of_the_next(
    three_environments: Path,
) -> None:
    env = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}
    }
    done = subprocess.run(
        ["make", "-s", "-C", str(three_environments), "-o", "setup", "MAKE=true", "test"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    words_of = {
        environment: (three_environments / environment).read_text()
        for environment in ("airflow", "platform", "spark")
    }
    assert all(words.split()[-1] == "tests" for words in words_of.values()), words_of
    assert "-n 2" in words_of["platform"]
    assert done.returncode != 0
    assert "failed of: platform (" in done.stdout


def test_the_files_that_begin_first_exist() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
