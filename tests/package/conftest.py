"""A run says on which interpreters the package is tried, and which it does not find here."""

from __future__ import annotations

from tests.package.interpreters import VERSIONS, interpreters


def pytest_report_header() -> list[str]:
    result = interpreters()
    missing = [version for version in VERSIONS if version not in result]
    lines = [f"tried on: Python {', '.join(result)}"]
    return (
        [*lines, f"NOT FOUND here, and not tried: Python {', '.join(missing)}"]
        if missing
        else lines
    )
