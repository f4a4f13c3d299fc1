"""A job's classes are kept for the next job under the jars and the Java that they came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.settings import Settings
from slicewise.spark.classes import leaving, sharing
from slicewise.spark.conf import job_conf


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"a")
    return Settings.load({"SLICEWISE_SPARK_JARS": str(jars), "SLICEWISE_STATE": str(tmp_path / "state")})


def left(settings: Settings, *, fails: bool = False) -> str:
    """What a JVM under the option does at its end."""
    with leaving(settings) as option:
        if option:
            Path(option.split('"')[1].partition("=")[2]).write_bytes(b"classes")
        if fails:
            raise RuntimeError("the job failed")
    return option


def test_what_a_job_leaves_the_next_maps_and_does_not_leave_again(settings: Settings) -> None:
    assert sharing(settings) == ""
    assert "-XX:ArchiveClassesAtExit=" in left(settings)
    [kept] = settings.spark_jars.glob("classes-*")
    assert f'-XX:SharedArchiveFile={kept}"' in sharing(settings)
    assert str(kept) in job_conf(settings)["spark.driver.extraJavaOptions"]
    assert left(settings) == ""


def test_a_job_that_fails_leaves_nothing(settings: Settings) -> None:
    with pytest.raises(RuntimeError, match="the job failed"):
        left(settings, fails=True)
    assert list(settings.spark_jars.glob("classes-*")) == []


def test_other_jars_are_due_an_archive_of_their_own_which_replaces_the_old(settings: Settings) -> None:
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
