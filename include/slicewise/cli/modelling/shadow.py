"""answer logged requests by models that have `shadow`, beside the live ones, until it is stopped

The models stand in models.toml: `shadow = 0.2` is the share of the entities whose logged requests a
model answers. It gets the features that were answered, or reads what they lack at the instant of
the answer, and its scores go to the topic of predictions, where its views and `slicewise backtest
--scores sent` find them. The API does not wait for it, and does not know of it.

`slicewise up` and the main job start it by themselves where a model has `shadow`. SIGTERM ends it
once what it writes stands; started again it goes on where it was.

  slicewise shadow
"""

from __future__ import annotations

import argparse
import signal
import threading

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Takes none: the models stand in a file."""


def run(_: argparse.Namespace, settings: Settings) -> int:
    from slicewise import log
    from slicewise.serving.shadow.process import run_shadows

    log.to_stderr()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_given: stop.set())
    run_shadows(settings, stop)
    return 0
