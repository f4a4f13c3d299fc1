"""Commands that deploy take the same arguments, and look at the store before they write to it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.local.deploy import Current
    from slicewise.stores.online.port import OnlineStore


def add_deploying(parser: argparse.ArgumentParser) -> None:
    """Adds what a command takes that deploys: --plan, --by and --json."""
    parser.add_argument("--plan", action="store_true", help="show the plan, and change nothing")
    parser.add_argument(
        "--by", default="", metavar="NAME", help="who does so, for slicewise history (default: you)"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome for programs")


@contextmanager
def deployed(settings: Settings, *, plan: bool) -> Iterator[tuple[OnlineStore, Current]]:
    """The store and what is deployed on it. plan: nothing is to be written, not even a store id."""
    from slicewise.local import deploy

    with (deploy.looked_at if plan else deploy.connected)(settings) as store:
        yield store, deploy.current(store)
