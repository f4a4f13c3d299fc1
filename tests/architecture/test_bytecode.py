"""No process compiles what it imports, whatever the user's Python variables say, and no edit is
missed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from slicewise.local.servers.service import Service
from slicewise.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
COMPILED_ANEW = re.compile(r"^# code object from '(.*\.py)'$", re.MULTILINE)
# What the longest-lived process of each environment imports first.
STARTS = {
    "platform": "slicewise.cli.operate.run, slicewise.local.main_job, slicewise.serving.http.app",
    "spark": "pyspark.sql, slicewise.spark.lake.compact_run, slicewise.spark.driver",
    "airflow": "airflow.cli.cli_parser, airflow.api_fastapi.main, airflow.jobs.scheduler_job_runner",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name != "platform" else []) for name in STARTS],
)
def test_a_process_finds_all_that_it_imports_compiled(name: str, tmp_path: Path) -> None:
    env = {
        "PATH": os.defpath,
        "PYTHONDONTWRITEBYTECODE": "1",
        "AIRFLOW_HOME": str(tmp_path),
        "HOME": str(tmp_path),
    }
    argv = [str(ROOT / ".venvs" / name / "bin" / "python"), "-v", "-c", f"import {STARTS[name]}"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert COMPILED_ANEW.findall(done.stderr) == []


def test_a_service_is_not_led_away_from_the_bytecode_that_set_up_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    service = Service("some", ("true",), tmp_path, lambda _: None, "")
    assert "PYTHONPYCACHEPREFIX" not in service.environment(
        Settings.load({"SLICEWISE_STATE": str(tmp_path)})
    )


def test_an_edit_of_equal_length_and_time_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "ours" / "edited.py"
    module.parent.mkdir()
    module.write_text("print('old')\n")
    before = module.stat()
    python, env = (
        str(ROOT / ".venvs/platform/bin/python"),
        {"PYTHONPYCACHEPREFIX": str(tmp_path / "elsewhere")},
    )
    script = str(ROOT / "requirements" / "bytecode.py")
    subprocess.run([python, script, "ours", str(module.parent)], env=env, check=True, timeout=60)
    assert [path.name for path in (module.parent / "__pycache__").iterdir()] == [
        "edited.cpython-311.pyc"
    ]
    module.write_text("print('new')\n")
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    done = subprocess.run(
        [python, "-c", "import edited"],
        cwd=module.parent,
        env={},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "new\n"


@pytest.mark.parametrize("folder", ["home/me/slicewise", "home/test/mypy/slicewise"])
def test_where_the_project_stands_leaves_no_package_out(folder: str, tmp_path: Path) -> None:
    site = tmp_path / folder / ".venvs/platform/lib/python3.11/site-packages"
    for name in (
        "some/core.py",
        "some/tests/helpers.py",
        "polars/frame.py",
        "polars/_plr.py",
        "pip/main.py",
    ):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("x = 1\n")
    script = ROOT / "requirements" / "bytecode.py"
    text = (
        "import runpy, sys, sysconfig; "
        f"sysconfig.get_path = lambda _: {str(site)!r}; sys.argv = ['', 'installed']; "
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    python = str(ROOT / ".venvs/platform/bin/python")
    subprocess.run([python, "-c", text], check=True, timeout=60)
    compiled = sorted(path.name.partition(".")[0] for path in site.rglob("*.pyc"))
    assert compiled == ["_plr", "core"]


def test_a_file_of_ours_that_does_not_compile_is_told(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def\n")
    python, script = (
        str(ROOT / ".venvs/platform/bin/python"),
        str(ROOT / "requirements" / "bytecode.py"),
    )
    done = subprocess.run(
        [python, script, "ours", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "wrong.py" in done.stdout
