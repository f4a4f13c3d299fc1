"""The process beside the API: a thread for each model that has `shadow`, of the file and the
deployment as they are now."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from slicewise import log
from slicewise.clock import Clock, SystemClock
from slicewise.errors import SlicewiseError
from slicewise.features.plan.deployment import Deployment
from slicewise.models.declared import DeclaredModel, load_models
from slicewise.serving.shadow.figures import Figures, serve
from slicewise.serving.shadow.lookups import PER_S, Rate
from slicewise.serving.shadow.planned import Plan, plan_of
from slicewise.serving.shadow.shadow import END_S, Shadow
from slicewise.settings import Settings
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.redis import open_store

PART = "shadow"
EVERY_S = 2.0
"""Pause between two looks at the models' file and the deployment."""


def run_shadows(settings: Settings, stop: threading.Event) -> None:
    """Answers beside the live models until `stop`."""
    Shadows(settings, SystemClock()).run(stop)


class Shadows:
    """Models of the file, each with its thread."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._rate = Rate(PER_S)
        self._models: Mapping[str, DeclaredModel] = {}
        self._deployed: tuple[str, Deployment | None] = "", None
        self._running: dict[str, Shadow] = {}
        self._refused: dict[str, str] = {}
        """Model, or what else -> the reason why it cannot be answered by."""

    def run(self, stop: threading.Event) -> None:
        """Looks until it is to end; then each model ends what it writes."""
        port = serve(self._settings.shadow_metrics, self._figures)
        log.event("shadow_started", metrics_port=port)
        while not stop.is_set():
            self.look()
            self._report("running")
            stop.wait(EVERY_S)
        for one in self._running.values():
            one.stop()
        deadline = time.monotonic() + END_S
        for one in self._running.values():
            one.join(max(0.0, deadline - time.monotonic()))
        self._report("stopped")
        log.event("shadow_stopped")

    def look(self) -> None:
        """Starts, ends and changes threads as the file and the deployment say now."""
        models = self._taken("models", lambda: load_models(self._settings))
        self._models = self._models if models is None else models
        wanted = {name: model for name, model in self._models.items() if model.shadow}
        deployment = self._taken("deployment", self._read_deployment) if wanted else None
        plans = dict[str, Plan]()
        if deployment is not None:
            for name, model in wanted.items():
                plan = self._taken(name, partial(plan_of, model, deployment))
                if plan is not None:
                    plans[name] = plan
        for name in self._refused.keys() - wanted.keys() - {"models", "deployment"}:
            del self._refused[name]
        for name, one in list(self._running.items()):
            gone = name not in wanted or (name in plans and _differ(one.plan, plans[name]))
            if gone or one.is_ending:
                one.stop()
                if one.join(EVERY_S):  # else at a later look: two threads would write the same
                    del self._running[name]
                    log.event("shadow_ended", model=name)
        for name, plan in plans.items():
            if name not in self._running:
                self._running[name] = made = Shadow(
                    plan,
                    self._settings.kafka_bootstrap,
                    self._settings.serving_url,
                    self._settings.shadow_behind_s,
                    self._rate,
                    self._clock,
                )
                made.start()

    def _taken(self, what: str, call: Callable[[], Any]) -> Any:
        """Result of a call; None where it fails, which is logged once."""
        try:
            result = call()
        except SlicewiseError as error:
            text = str(error)
            if self._refused.get(what) != text:
                log.warning("shadow_waits", of=what, error=text)
            self._refused[what] = text
            return None
        self._refused.pop(what, None)
        return result

    def _read_deployment(self) -> Deployment | None:
        store = open_store(self._settings.redis_url)
        try:
            metadata = store.run(ReadMetadata())
            text = store.run(ReadManifest(metadata.units)) if metadata.units else None
        finally:
            store.close()
        if text is None:
            return None
        if text != self._deployed[0]:
            self._deployed = text, Deployment.from_json(text)
        return self._deployed[1]

    def _figures(self) -> Mapping[str, Figures]:
        """Figures by model, as they are now; for the thread that serves metrics too."""
        return {name: one.figures for name, one in list(self._running.items())}

    def _report(self, state: str) -> None:
        """Sign of life and figures, for the supervisor; replaced in one step."""
        models = {name: one.to_json() for name, one in self._figures().items()}
        for name, why in self._refused.items():
            models.setdefault(name, {})["error"] = why
        file = self._settings.state_dir / PART / "heartbeat.json"
        status = {"state": state, "heartbeat_us": self._clock.now_us(), "models": models}
        try:
            _replace(file, json.dumps(status))
        except OSError as error:
            log.warning("shadow_not_reported", error=str(error))


def _differ(one: Plan, other: Plan) -> bool:
    """Tells whether two plans are of other things; a NaN for `missing` is the same as another."""
    return repr(one) != repr(other)


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)
