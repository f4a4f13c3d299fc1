"""A check's report goes below the platform's state, where the UI page finds the newest."""

from __future__ import annotations

from slicewise.lifecycle.jobs import Run, check_arguments
from slicewise.settings import Settings


def check_run_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of the check job of this run."""
    return check_arguments(run, str(Settings.load().state_dir / "reports" / "check"))
