"""A job's classes are kept for the next job under their jars and Java, and fail none."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from slicewise.settings import Settings
from slicewise.spark.runtime.classes import forget, leaving, sharing, surviving
from slicewise.spark.runtime.conf import job_conf, realtime_conf, stream_conf

LEAVES, MAPS = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="


@pytest.fixture(autouse=True)
def no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"a")
    return Settings.load(
        {"SLICEWISE_SPARK_JARS": str(jars), "SLICEWISE_STATE": str(tmp_path / "state")}
    )


def part_of(option: str) -> Path:
    return Path(option.split('"')[1].partition("=")[2])


def archives(settings: Settings) -> list[Path]:
    return sorted(settings.spark_jars.glob("classes-*.jsa"))


def left(settings: Settings, *, fails: bool = False) -> str:
    """Ends a JVM under the option as it would end."""
    with leaving(settings) as option:
        if LEAVES in option:
            part_of(option).write_bytes(b"classes")
        if fails:
            raise RuntimeError("the job failed")
    return option


def test_what_a_job_leaves_the_next_maps_and_does_not_leave_again(settings: Settings) -> None:
    assert sharing(settings) == ""
    assert LEAVES in left(settings)
    [kept] = settings.spark_jars.glob("classes-*")
    assert f'{MAPS}{kept}"' in sharing(settings)
    assert str(kept) in job_conf(settings)["spark.driver.extraJavaOptions"]
    assert left(settings) == sharing(settings)


def test_a_job_that_fails_leaves_nothing_and_the_next_tries(settings: Settings) -> None:
    with pytest.raises(RuntimeError, match="the job failed"):
        left(settings, fails=True)
    assert list(settings.spark_jars.glob("classes-*")) == []
    assert LEAVES in left(settings)


def test_other_jars_are_due_an_archive_of_their_own_which_replaces_the_old(
    settings: Settings,
) -> None:
    left(settings)
    [old] = settings.spark_jars.glob("classes-*")
    (settings.spark_jars / "b.jar").write_bytes(b"b")
    assert sharing(settings) == ""
    left(settings)
    [new] = settings.spark_jars.glob("classes-*")
    assert new != old


def test_a_jvm_that_leaves_nothing_is_no_failure(settings: Settings) -> None:
    with leaving(settings):
        pass
    assert sharing(settings) == ""


@pytest.mark.parametrize("size", [0, 3, 4096])
def test_an_archive_of_another_size_than_it_was_made_with_is_not_mapped_but_made_anew(
    settings: Settings, size: int
) -> None:
    left(settings)
    [damaged] = archives(settings)
    damaged.chmod(0o644)
    os.truncate(damaged, size)
    assert sharing(settings) == ""
    assert LEAVES in left(settings)
    [whole] = archives(settings)
    assert whole.read_bytes() == b"classes"
    assert str(whole) in sharing(settings)


def test_all_of_an_archive_is_on_the_disk_before_it_has_its_name(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    sync = os.fsync

    def seen(descriptor: int) -> None:
        synced.append(
            (str(Path(f"/proc/self/fd/{descriptor}").readlink()), archives(settings) != [])
        )
        sync(descriptor)

    monkeypatch.setattr("os.fsync", seen)
    with leaving(settings) as option:
        part_of(option).write_bytes(b"classes")
    folder = str(settings.spark_jars)
    assert synced == [(str(part_of(option)), False), (folder, False), (folder, True)]


def test_what_is_forgotten_is_due_again(settings: Settings) -> None:
    forget(settings)
    left(settings)
    forget(settings)
    assert archives(settings) == []
    assert LEAVES in left(settings)


@pytest.mark.parametrize("conf", [stream_conf, realtime_conf])
def test_drivers_map_what_a_job_left(
    settings: Settings, conf: Callable[[Settings], dict[str, str]]
) -> None:
    left(settings)
    [kept] = archives(settings)
    assert f'{MAPS}{kept}"' in conf(settings)["spark.driver.extraJavaOptions"]


def test_an_archive_that_a_driver_does_not_survive_is_removed_at_its_third_beginning(
    settings: Settings,
) -> None:
    left(settings)
    for beginning in range(3):
        assert bool(archives(settings)) is True, beginning
        with suppress(KeyboardInterrupt), surviving(settings, "stream"):
            there = bool(archives(settings))
            raise KeyboardInterrupt
    assert not there, "it began without the archive"
    left(settings)
    with surviving(settings, "stream"):
        pass
    left(settings)
    for _ in range(4):  # one that ends early is no sign: the next survives
        with suppress(KeyboardInterrupt), surviving(settings, "stream"):
            raise KeyboardInterrupt
        with surviving(settings, "stream"):
            pass
    assert archives(settings)


def test_a_disk_without_room_is_not_filled(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shutil.disk_usage(settings.spark_jars)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: whole._replace(free=(1 << 30) - 1))
    assert left(settings) == ""
    assert list(settings.spark_jars.glob("classes-*")) == []
    monkeypatch.setattr("shutil.disk_usage", lambda _path: whole._replace(free=1 << 30))
    assert LEAVES in left(settings)


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
@pytest.mark.parametrize("given", ["-Xshare:off", "-Dx=1 -javaagent:/opt/agent.jar"])
def test_options_given_to_every_jvm_bar_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, given: str
) -> None:
    monkeypatch.setenv(name, given)
    assert left(settings) == ""
    monkeypatch.delenv(name)
    left(settings)
    monkeypatch.setenv(name, given)
    assert (left(settings), sharing(settings)) == ("", "")


def test_where_java_cannot_leave_one_no_job_is_asked_to_and_java_is_asked_once(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\necho asked >> '{tmp_path}/asked'\necho 'no room for classes' >&2\nexit 1\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    with caplog.at_level(logging.WARNING):
        assert [left(settings), left(settings)] == ["", ""]
    assert (tmp_path / "asked").read_text() == "asked\n"
    [note] = settings.spark_jars.glob("classes-*")
    assert (note.suffix, note.stat().st_size) == (".none", 0)
    assert "classes_not_left" in caplog.text
    assert "no room for classes" in caplog.text


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    nowhere = Settings.load(
        {"SLICEWISE_SPARK_JARS": str(tmp_path / "no"), "SLICEWISE_STATE": str(tmp_path)}
    )
    assert (left(nowhere), sharing(nowhere)) == ("", "")


def test_a_job_that_fails_without_leaving_one_is_the_last_that_was_asked_to(
    settings: Settings,
) -> None:
    with pytest.raises(RuntimeError, match="exit code 1"), leaving(settings):
        raise RuntimeError("exit code 1")
    [note] = settings.spark_jars.glob("classes-*")
    assert note.suffix == ".none"
    assert left(settings) == ""
    (settings.spark_jars / "b.jar").write_bytes(b"b")  # other jars, another digest
    left(settings)
    assert [path.suffix for path in settings.spark_jars.glob("classes-*")] == [".jsa"]


def test_a_job_that_is_ended_from_outside_says_nothing_about_archives(settings: Settings) -> None:
    with pytest.raises(KeyboardInterrupt), leaving(settings):
        raise KeyboardInterrupt
    assert LEAVES in left(settings)


def test_of_two_jobs_that_leave_one_each_one_is_kept_and_neither_fails(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leaving(settings) as own:
        part_of(own).write_bytes(b"mine")
        with monkeypatch.context() as other:
            other.setattr("os.getpid", os.getppid)  # of a process that runs
            with leaving(settings) as theirs:
                part_of(theirs).write_bytes(b"theirs")
        assert part_of(own).read_bytes() == b"mine"
        [kept] = archives(settings)
    assert archives(settings) == [kept] == list(settings.spark_jars.glob("classes-*"))
    assert kept.read_bytes() == b"theirs"


def test_what_a_process_that_ended_had_begun_is_removed(settings: Settings) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    dead = settings.spark_jars / f"classes-0123456789abcdef.{ended.pid}.part"
    runs = dead.with_name(f"classes-0123456789abcdef.{os.getppid()}.part")
    for archive in (dead, runs):
        archive.write_bytes(b"half")
    left(settings)
    assert (dead.exists(), runs.exists()) == (False, True)


@pytest.mark.parametrize("refused", ["os.fsync", "pathlib.Path.rename", "fcntl.flock"])
def test_an_archive_that_cannot_be_kept_is_a_warning_and_no_failure(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refused: str,
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(refused, refuse)
    with caplog.at_level(logging.WARNING):
        assert LEAVES in left(settings)
    assert "classes_not_kept" in caplog.text
    assert list(settings.spark_jars.glob("classes-*")) == []


def test_a_jar_that_vanishes_while_it_is_looked_at_fails_nothing(settings: Settings) -> None:
    left(settings)
    # listed, and not there
    (settings.spark_jars / "b.jar").symlink_to(settings.spark_jars / "gone")
    assert (sharing(settings), left(settings)) == ("", "")
    assert job_conf(settings)["spark.driver.extraJavaOptions"]
    (settings.spark_jars / "b.jar").unlink()
    assert MAPS in sharing(settings)


def test_a_command_line_has_one_option_about_archives(settings: Settings) -> None:
    with leaving(settings) as option:
        left(settings)  # by a job that ended meanwhile
        java = job_conf(settings, classes=option)["spark.driver.extraJavaOptions"]
    assert (java.count(LEAVES), java.count(MAPS)) == (1, 0)
    with leaving(settings) as option:
        forget(settings)
        java = job_conf(settings, classes=option)["spark.driver.extraJavaOptions"]
    assert (java.count(LEAVES), java.count(MAPS)) == (0, 1)
    assert MAPS not in job_conf(settings, classes="")["spark.driver.extraJavaOptions"]
