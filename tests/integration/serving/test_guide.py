"""The examples of docs/guides/serving.md run as they are written, against a serving process with
the flights."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from tests.integration.serving.support import serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import Served

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "guides" / "serving.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\w+) -->\n```python\n(.*?)```\n", GUIDE, re.DOTALL))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    deployment = plan(load_project(ROOT / "examples" / "flights" / "features.py"))
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        stack.enter_context(Served.on(redis.url, deployment))
        yield stack.enter_context(serving(redis.url))


@pytest.mark.parametrize(("name", "printed"), [("blocking", 2 + 300), ("asynchronous", 3)])
def test_an_example_runs_as_it_is_written(
    name: str, printed: int, url: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[name]],
        env={"SLICEWISE_SERVING_URL": url, "SLICEWISE_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == printed


def test_every_option_of_a_client_is_explained() -> None:
    code = (ROOT / "include" / "slicewise" / "client" / "http.py").read_text(encoding="utf-8")
    options = re.findall(
        r"^        (\w+): .* = (\S+),$", code.partition('-> None:\n        """url')[0], re.MULTILINE
    )
    handed_in = {"url", "clock", "monotonic", "sleep", "random"}
    assert {name for name, _ in options} - handed_in == set(
        re.findall(r"^\| `(\w+)=", GUIDE, re.MULTILINE)
    )
