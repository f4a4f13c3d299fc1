"""`init` writes a project that passes its check; `check` and `plan` tell what is wrong by text,
JSON and exit code."""

import json
import os
import re
from pathlib import Path

import pytest

from slicewise.cli import main

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights"


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "first project"
    assert main(["init", str(folder)]) == 0
    capsys.readouterr()
    return folder


@pytest.fixture(autouse=True)
def no_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("SLICEWISE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")  # nothing listens there


def edit(project: Path, old: str, new: str) -> None:
    file = project / "features.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_new_project_passes_its_check_and_has_a_plan(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(project)]) == 0
    assert "1 tests passed" in capsys.readouterr().out
    assert main(["check", str(project), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert report["project"] == "first-project"
    assert report["views"][0]["features"]["plays_10m"] == "int64"
    assert main(["plan", str(project), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [change["change"] for change in plan["changes"]] == ["new"]
    assert re.fullmatch("[0-9a-f]{64}", plan["digest"])


def test_a_project_is_found_from_inside_its_folder(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = project / "notebooks"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert main(["check"]) == 0
    assert "first-project" in capsys.readouterr().out


def test_init_never_writes_over_what_is_there(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "features.py").read_text(encoding="utf-8")
    assert main(["init", str(project)]) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert (project / "features.py").read_text(encoding="utf-8") == before


def test_a_failing_test_says_what_was_expected_and_what_was_answered(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(project, '"plays_10m": 2', '"plays_10m": 3')
    assert main(["check", str(project)]) == 1
    out = capsys.readouterr().out
    assert "plays_10m: expected 3, answered 2" in out
    assert "1 of 1 tests failed" in out
    assert main(["check", str(project), "--json"]) == 1
    (view,) = json.loads(capsys.readouterr().out)["views"]
    assert view["tests"][0]["differences"] == [
        {"column": "plays_10m", "expected": "3", "answered": "2"}
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"plays_10m": 2', '"plays_9m": 2', "did you mean plays_10m"),
        ("seconds >= 30", "second >= 30", "did you mean seconds"),
        ('at="1970-01-01T00:05:00Z"', 'at="1970-01-01 00:05"', "RFC 3339 with zone"),
        ('"seconds": 90.0', '"seconds": "long"', "seconds"),
        ("import slicewise as sw", "import slicewise as sw\nimport nowhere", r"features.py:4"),
        ("entity=[", "entity=[[", "features.py:"),
        ("sw.distinct_count(", "sw.distinct_kount(", "distinct_kount"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    project: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    edit(project, old, new)
    assert main(["check", str(project)]) == 1
    captured = capsys.readouterr()
    assert message in captured.out + captured.err
    assert "Traceback" not in captured.out + captured.err


def test_a_case_over_several_entities_must_name_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(project, '"user_id": "ann", "song_id": "b"', '"user_id": "bob", "song_id": "b"')
    assert main(["check", str(project)]) == 1
    assert "the events hold 2 entities" in capsys.readouterr().out


def test_what_breaks_a_law_is_neither_checked_nor_applied(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    adds = """class Adds(sw.Aggregate):
    columns = {"x": "double"}
    fields = {"total": "double"}
    output = "double"

    def empty(self):
        return (0.0,)

    def accumulate(self, state, event):
        return (state[0] + event["x"],)

    def combine(self, a, b):
        return (a[0] + b[0],)

    def finish(self, state):
        return state[0]
"""
    edit(project, "import slicewise as sw\n", f"import slicewise as sw\n\n\n{adds}\n\n")
    edit(project, "sw.count()", 'Adds("seconds")')
    monkeypatch.chdir(project)
    # nothing listens where it would be deployed, nor is that looked for
    for command in ("check", "apply"):
        assert main([command]) == 1
        assert "the order of events does not matter" in capsys.readouterr().err


def test_a_project_without_definitions_is_told_how_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path)]) == 1
    assert "slicewise init" in capsys.readouterr().err


def test_definitions_may_be_a_package_that_imports_its_own_modules(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = project / "features"
    package.mkdir()
    (project / "features.py").rename(package / "listening.py")
    (package / "__init__.py").write_text(
        "from .listening import churn, listening\n", encoding="utf-8"
    )
    (project / "slicewise.toml").write_text(
        'name = "split"\ndefinitions = "features"\n', encoding="utf-8"
    )
    assert main(["check", str(project)]) == 0
    assert "project split: 1 views, 1 feature sets, 1 tests passed" in capsys.readouterr().out


def test_the_shipped_project_passes_its_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(EXAMPLE), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {view["view"] for view in report["views"]} == {
        "carrier",
        "route",
        "long_haul",
        "cancellations",
        "new_york",
    }
    assert all(view["tests"] for view in report["views"])


def test_the_shipped_projects_use_the_everyday_aggregates_and_every_kind_of_window() -> None:
    everyday = {
        "count",
        "sum",
        "mean",
        "min",
        "max",
        "argmin",
        "argmax",
        "top_k",
        "last_k",
        "distinct_count",
    }
    newer = {"where", "quantiles", "decay_sum", "bucketed", "top_k_frequent"}
    from slicewise.features.plan.planner import plan
    from slicewise.features.project import load_project

    files = (EXAMPLE / "features.py", EXAMPLE.parent / "purchases" / "views.sql")
    features = [
        f for file in files for unit in plan(load_project(file)).units for f in unit.features
    ]
    assert {f.aggregate.kind for f in features} >= everyday | newer | {"bool_and", "bool_or"}
    kinds = {f.window.kind for f in features}
    assert kinds == {"sliding", "tumbling", "hopping", "session", "exact", "rows"}
    assert any(f.window.offset_us for f in features)


def test_a_plan_without_a_platform_says_so_and_reads_well(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(project)]) == 0
    out = capsys.readouterr().out
    assert "nothing runs at redis://127.0.0.1:1/0" in out
    assert re.search(r"listening +user_id +1m .* new", out)


@pytest.mark.parametrize(
    ("file", "text", "message", "line", "instead"),
    [
        (
            "features.py",
            "import slicewise as sw\nx = 1 / 0\n",
            "ZeroDivisionError",
            2,
            "correct the definitions",
        ),
        (
            "features.py",
            "import slicewise as sw\nsw.avg('x')\n",
            "no attribute 'avg'",
            2,
            "sw.mean",
        ),
        ("features.py", "from slicewise import avg\n", "cannot import name 'avg'", 1, "sw.mean"),
        (
            "features.py",
            "import nothing_of_this_name\n",
            "ModuleNotFoundError",
            1,
            "correct the definitions",
        ),
        ("features.py", "\nraise SystemExit(0)\n", "SystemExit: 0", 2, "correct the definitions"),
        ("features.py", "def f(:\n", "invalid syntax", 1, "correct the line"),
        (
            "features.py",
            "import slicewise as sw\nsw.sum('n', filter='n > 1')\n",
            "no parameter 'filter'",
            2,
            "where=",
        ),
        ("made/__init__.py", "from . import part\n", "KeyError", 2, "correct the definitions"),
    ],
)
def test_whatever_python_says_of_a_project_is_told_with_its_line_and_no_traceback(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    message: str,
    line: int,
    instead: str,
) -> None:
    written = tmp_path / file
    written.parent.mkdir(exist_ok=True)
    written.write_text(text)
    (written.parent / "part.py").write_text("import os\n{}['missing']\n")
    (tmp_path / "slicewise.toml").write_text(
        f'definitions = "{written.relative_to(tmp_path).parts[0]}"\n'
    )
    assert main(["check", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    where = written.parent / "part.py" if "part" in text else written
    assert f"{where}:{line}" in err
    assert instead in err.rpartition("next step: ")[2]
    assert "Traceback" not in err


def test_a_settings_file_that_is_no_toml_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slicewise.toml").write_text("definitions = \n")
    assert main(["check", str(tmp_path)]) == 1
    assert "slicewise.toml" in capsys.readouterr().err
