"""A policy of maintenance changes what it names, and never lets values lose what they are made
of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.errors import BadRequest, SettingsError
from slicewise.settings import Settings
from slicewise.stores.lake.policy import Policies, TablePolicy, chosen_tables

NAMES = ("log.plays", "log.skips", "ops.checks", "ops.runs", "slices.u_1")


def load(folder: Path, text: str) -> Policies:
    (folder / "maintenance.toml").write_text(text)
    return Policies.load(Settings.load({"SLICEWISE_PROJECT": str(folder)}))


def test_without_a_file_every_table_has_the_defaults(tmp_path: Path) -> None:
    policies = Policies.load(Settings.load({"SLICEWISE_PROJECT": str(tmp_path)}))
    assert policies.of("log.plays") == policies.of("ops.runs") == TablePolicy(512, 7, 5, 3, None)


def test_a_tables_own_policy_goes_before_its_namespaces_and_that_before_the_defaults(
    tmp_path: Path,
) -> None:
    policies = load(
        tmp_path,
        """
        [defaults]
        keep_days = 3
        file_mb = 128
        [tables."log.*"]
        keep_days = 14
        orphan_days = 5
        [tables."log.plays"]
        keep_days = 30
        [tables."ops.runs"]
        rows_days = 90
        """,
    )
    assert policies.of("log.plays") == TablePolicy(128, 30, 5, 5)
    assert policies.of("log.skips") == TablePolicy(128, 14, 5, 5)
    assert policies.of("slices.u_1") == TablePolicy(128, 3)
    assert policies.of("ops.runs") == TablePolicy(128, 3, rows_days=90)
    assert policies.unmatched(("log.plays", "slices.u_1")) == ("ops.runs",)


@pytest.mark.parametrize(
    "table", ["log.plays", "log.*", "slices.u_1", "events.own", "ops.ledger", "ops.*"]
)
def test_rows_that_values_are_made_of_are_never_given_up(tmp_path: Path, table: str) -> None:
    with pytest.raises(SettingsError, match="rows_days") as refused:
        load(tmp_path, f'[tables."{table}"]\nrows_days = 30\n')
    assert "ops.checks, ops.datasets, ops.runs" in str(refused.value)
    with pytest.raises(SettingsError, match="rows_days"):
        load(tmp_path, "[defaults]\nrows_days = 30\n")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[defaults\n", "maintenance.toml"),
        ("[default]\nkeep_days = 3\n", "[default]"),
        ("[defaults]\nkeep_day = 3\n", "keep_day"),
        ("[defaults]\norphan_days = 0\n", "at least 1"),
        ("[defaults]\nfile_mb = 1.5\n", "1.5"),
        ("[defaults]\nkeep_days = true\n", "True"),
        ('[tables."logs.plays"]\n', "log, events, slices, ops"),
        ('[tables."log.pl*"]\n', "log.pl*"),
        ("[tables]\nlog = 3\n", "log"),
        ('[tables]\n"log.plays" = 3\n', "log.plays"),
        ("tables = 3\n", "tables = 3"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_full(
    tmp_path: Path, text: str, names: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, text)
    assert names in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert refused.value.expected
    assert refused.value.next_step


def test_a_file_that_somebody_names_must_be_there(tmp_path: Path) -> None:
    settings = Settings.load({"SLICEWISE_PROJECT": str(tmp_path)})
    with pytest.raises(SettingsError, match="no such file"):
        Policies.load(replace(settings, maintenance=tmp_path / "other.toml"))


def test_tables_are_chosen_by_name_or_namespace_and_a_wrong_name_is_refused() -> None:
    assert chosen_tables(NAMES, ()) == NAMES
    assert chosen_tables(NAMES, ("ops.*", "log.plays")) == ("log.plays", "ops.checks", "ops.runs")
    with pytest.raises(BadRequest, match=r"log\.play"):
        chosen_tables(NAMES, ("log.play",))


@pytest.mark.parametrize(
    "line",
    [
        "keep_days = 1000000",
        "orphan_days = 1000000",
        "file_mb = 9000000000000",
        "keep_snapshots = 3000000000",
    ],
)
def test_a_bound_beyond_every_date_is_refused_before_anything_is_done(
    line: str, tmp_path: Path
) -> None:
    (tmp_path / "maintenance.toml").write_text(f"[defaults]\n{line}\n")
    settings = Settings.load(
        {
            "SLICEWISE_MAINTENANCE": str(tmp_path / "maintenance.toml"),
            "SLICEWISE_STATE": str(tmp_path / "s"),
        }
    )
    with pytest.raises(SettingsError):
        Policies.load(settings)
