"""Spark's jobs open the catalog that PyIceberg opens, by the same one setting."""

from __future__ import annotations

from slicewise.settings import Settings
from slicewise.spark.runtime.conf import job_conf


def test_a_catalogs_user_and_password_reach_jdbc_as_they_are() -> None:
    uri = "postgresql+psycopg2://ice%40work:p%2Fa%25s%40s@db:5432/catalog"
    conf = job_conf(Settings.load({"SLICEWISE_CATALOG_URI": uri}))
    own = {key.rpartition("slicewise.")[2]: value for key, value in conf.items() if "catalog.slicewise." in key}
    assert own["uri"] == "jdbc:postgresql://db:5432/catalog"
    assert (own["jdbc.user"], own["jdbc.password"]) == ("ice@work", "p/a%s@s")
