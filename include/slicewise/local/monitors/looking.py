"""Monitors of a project are read from its file, and their values from the prediction API."""

from __future__ import annotations

from slicewise.client.http import HttpClient
from slicewise.errors import (
    NotReady,
    RetryLater,
    SettingsError,
    SlicewiseError,
    StoreUnavailable,
)
from slicewise.lifecycle.monitors.monitor import Judged, Monitor, parsed
from slicewise.models.declared import declared_models
from slicewise.names import nearest
from slicewise.settings import MONITORS_FILE, Settings, read_listed

TIMEOUT_S = 3.0
"""Longest that the API may take for one monitor."""


def load_monitors(settings: Settings) -> tuple[Monitor, ...]:
    """The monitors of the file that the settings name; none without one. Raises SettingsError."""
    file = settings.monitors
    document = read_listed(file, settings.project_dir / MONITORS_FILE, "SLICEWISE_MONITORS")
    return parsed(document, str(file))


def require_models(monitors: tuple[Monitor, ...], settings: Settings) -> None:
    """Requires of each `retrain` a model that slicewise trains. Raises SettingsError."""
    wanted = [one for one in monitors if one.retrain]
    models = declared_models(settings) if wanted else {}
    trained = {name for name, model in models.items() if model.training is not None}
    for one in wanted:
        if one.retrain not in trained:
            is_listed = one.retrain in models
            raise SettingsError(
                f"slicewise does not train model {one.retrain!r}"
                if is_listed
                else f"there is no model {one.retrain!r}",
                where=f"{settings.monitors}: [monitors.{one.name}] retrain",
                expected="one of " + ", ".join(sorted(trained))
                if trained
                else f"a model with a training, in {settings.models}",
                next_step="name another, or give it a training: docs/guides/models.md"
                if is_listed
                else nearest(one.retrain, sorted(trained)),
            )


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
