"""Monitors of a project are read from its file, and their values from the prediction API."""

from __future__ import annotations

from slicewise.client.http import HttpClient
from slicewise.errors import (
    NotReady,
    RetryLater,
    SlicewiseError,
    StoreUnavailable,
)
from slicewise.lifecycle.monitors.monitor import Judged, Monitor, parsed
from slicewise.settings import MONITORS_FILE, Settings, read_listed

TIMEOUT_S = 3.0
"""Longest that the API may take for one monitor."""


def load_monitors(settings: Settings) -> tuple[Monitor, ...]:
    """The monitors of the file that the settings name; none without one. Raises SettingsError."""
    file = settings.monitors
    document = read_listed(file, settings.project_dir / MONITORS_FILE, "SLICEWISE_MONITORS")
    return parsed(document, str(file))


def judged(settings: Settings, monitors: tuple[Monitor, ...]) -> tuple[Judged, ...] | None:
    """One look at each of these monitors; None where the API does not answer the first: then
    nothing is known of any. One that is not answered is not judged; a name that is not deployed, or
    a feature that the store cannot give, is a fault of its monitor."""
    looked = list[Judged]()
    if not monitors:
        return ()
    with HttpClient(settings.serving_url, timeout_s=TIMEOUT_S, form="json") as client:
        for monitor in monitors:
            try:
                answer = client.get(list(monitor.refs), dict(monitor.entity), tokens=False)
            except (StoreUnavailable, NotReady, RetryLater) as error:
                if not looked:
                    return None  # the API itself, and there may be many of them
                looked.append(Judged(monitor, None, f"not judged: {error.what}"))
            except SlicewiseError as error:
                text = f"it cannot be judged: {error.what}"
                looked.append(Judged(monitor, None, text, fault=True))
            else:
                looked.append(monitor.judge(answer.values()))
    return tuple(looked)
