"""Monitors of a project are read from its file, and their values from the prediction API."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from slicewise.client.http import HttpClient
from slicewise.errors import (
    NotReady,
    RetryLater,
    SettingsError,
    SlicewiseError,
    StoreUnavailable,
)
from slicewise.lifecycle.monitors.monitor import Judged, Monitor, parsed
from slicewise.settings import MONITORS_FILE, Settings

TIMEOUT_S = 3.0
"""Longest that the API may take for one monitor."""


def load_monitors(settings: Settings) -> tuple[Monitor, ...]:
    """The monitors of the file that the settings name; none without one. Raises SettingsError."""
    file = settings.monitors
    if not file.is_file():
        if file == settings.project_dir / MONITORS_FILE:
            return ()
        raise SettingsError(
            "there is no such file",
            where=f"SLICEWISE_MONITORS, {file}",
            expected="a TOML file with monitors",
            next_step="correct the variable, or leave it out",
        )
    try:
        document: Mapping[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(
            str(error), where=str(file), expected="a readable TOML file", next_step="correct it"
        ) from error
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
