"""Spark's jobs open the catalog that PyIceberg opens, by the same one setting."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable

import pytest

from slicewise.settings import Settings
from slicewise.spark.runtime.conf import job_conf, realtime_conf, stream_conf


def test_a_catalogs_user_and_password_reach_jdbc_as_they_are() -> None:
    uri = "postgresql+psycopg2://ice%40work:p%2Fa%25s%40s@db:5432/catalog"
    conf = job_conf(Settings.load({"SLICEWISE_CATALOG_URI": uri}))
    own = {
        key.rpartition("slicewise.")[2]: value
        for key, value in conf.items()
        if "catalog.slicewise." in key
    }
    assert own["uri"] == "jdbc:postgresql://db:5432/catalog"
    assert (own["jdbc.user"], own["jdbc.password"]) == ("ice@work", "p/a%s@s")


def shown_by_java(conf: dict[str, str], *wanted: str) -> str:
    """Output of a JVM with the compiler options of a session."""
    options = [
        option
        for option in shlex.split(conf["spark.driver.extraJavaOptions"])
        if option.startswith(("-XX:Tiered", "-XX:ReservedCode", "-XX:+Unlock", "-XX:CompilerDir"))
    ]
    return subprocess.run(
        ["java", *options, *wanted, "-version"], capture_output=True, text=True, check=True
    ).stdout


def flags_of(conf: dict[str, str]) -> dict[str, str]:
    lines = shown_by_java(conf, "-XX:+PrintFlagsFinal").splitlines()
    return {words[1]: words[3] for line in lines if len(words := line.split()) > 3}


@pytest.mark.parametrize(
    ("conf", "tier"), [(job_conf, "1"), (stream_conf, "4"), (realtime_conf, "1")]
)
def test_a_jvm_of_one_compiler_has_the_room_for_code_of_two(
    conf: Callable[[Settings], dict[str, str]], tier: str
) -> None:
    flags = flags_of(conf(Settings.load({})))
    assert (flags["TieredStopAtLevel"], int(flags["ReservedCodeCacheSize"])) == (tier, 240 << 20)


@pytest.mark.parametrize(("conf", "begin"), [(stream_conf, "128m"), (realtime_conf, "64m")])
def test_a_heap_does_not_begin_with_what_the_machine_suggests(
    conf: Callable[[Settings], dict[str, str]], begin: str
) -> None:
    options = shlex.split(conf(Settings.load({}))["spark.driver.extraJavaOptions"])
    assert [option for option in options if option.startswith("-Xms")] == [f"-Xms{begin}"]


def test_a_stream_compiles_the_way_of_its_records_twice_and_nothing_else() -> None:
    shown = shown_by_java(stream_conf(Settings.load({})), "-XX:+CompilerDirectivesPrint")
    way, rest = shown.split("Directive:")[1:3]
    assert "io/slicewise/*.*" in way
    assert "Exclude:false" in of_the_second_compiler(way)
    assert "matching: *.*" in rest
    assert "Exclude:true" in of_the_second_compiler(rest)


def of_the_second_compiler(directive: str) -> str:
    return directive.partition("c2 directives")[2]
