"""Spark's jobs open the catalog that PyIceberg opens, by the same one setting."""

from __future__ import annotations

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


@pytest.mark.parametrize("conf", [job_conf, stream_conf, realtime_conf])
def test_a_jvm_of_one_compiler_has_the_room_for_code_of_two(
    conf: Callable[[Settings], dict[str, str]],
) -> None:
    given = conf(Settings.load({}))["spark.driver.extraJavaOptions"].split()
    options = [option for option in given if option.startswith(("-XX:Tiered", "-XX:ReservedCode"))]
    shown = subprocess.run(
        ["java", *options, "-XX:+PrintFlagsFinal", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    flags = {words[1]: words[3] for line in shown.splitlines() if len(words := line.split()) > 3}
    assert (flags["TieredStopAtLevel"], int(flags["ReservedCodeCacheSize"])) == ("1", 240 << 20)
