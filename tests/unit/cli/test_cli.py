"""Commands are found by their module's name, explain themselves, and report errors without a
traceback."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from slicewise import cli
from slicewise.local.servers import services


@pytest.fixture(autouse=True)
def empty_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))


@pytest.mark.parametrize("name", cli.command_names())
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    output = capsys.readouterr().out
    assert f"slicewise {name}" in output
    docstring = (importlib.import_module(cli.command_modules()[name]).__doc__ or "").strip()
    assert docstring in output, "its lines stand as they were written"


@pytest.mark.parametrize(("realtime", "state"), [("on", "down"), ("off", "idle")])
def test_status_tells_the_truth_when_nothing_runs(
    realtime: str, state: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_REALTIME", realtime)
    assert cli.main(["status", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["state"] for row in rows} == dict.fromkeys(services.NAMES, "down") | {
        "tail": state,
        "shadow": "idle",
    }


def test_status_says_what_its_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["status", "--help"])
    output = " ".join(capsys.readouterr().out.split())
    assert (
        "0 all is well; 1 a service that is always on is not up; 3 all are up, and something else"
        in output
    )


def test_down_with_nothing_running_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["down"]) == 0
    assert "nothing runs" in capsys.readouterr().out


def test_an_error_is_told_in_its_own_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path))
    assert cli.main(["up"]) == 1
    output = capsys.readouterr().err
    assert "SLICEWISE_STATE" in output
    assert "Traceback" not in output


def test_a_service_that_is_none_is_refused_and_nothing_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["up", "Redis"]) == 1
    assert "did you mean redis" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("load", "--rate", "nan"), "'nan' is no amount"),
        (("load", "--seconds", "-1"), "'-1' is no amount"),
        (("plan", "--events-per-hour", "-3"), "'-3' is no number of events"),
        (("plan", "--events-per-hour", "many"), "'many' is no number of events"),
    ],
)
def test_a_number_that_is_of_no_use_is_refused_by_name(
    wrong: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(wrong)
    assert ended.value.code == 2
    output = capsys.readouterr().err
    assert message in output
    assert wrong[1] in output


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["fly"])
    assert ended.value.code == 2
    assert "status" in capsys.readouterr().err
