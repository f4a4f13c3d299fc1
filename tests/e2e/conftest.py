"""What these tests counted, and how long things took, is shown where they pass too."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and report.when == "call" and report.passed:
        terminal.ensure_newline()
        terminal.write(report.capstdout)
    return report
