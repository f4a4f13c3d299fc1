"""Every command is a module of one of the five folders, found by its name; it says its own help
and arguments.

To add `slicewise <name>`, add `<folder>/<name>.py` with a docstring (its first line is the help),
`add_arguments(parser)` and `run(arguments, settings) -> int` (the exit code). What is heavy is
imported inside run, so that the other commands start at once.

Work that commands do themselves stands beside the folders, as `gaps` does that of `hole`.

Doors: main.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType

from slicewise.errors import SlicewiseError
from slicewise.extras import needed
from slicewise.settings import Settings

FOLDERS = ("define", "change", "operate", "data", "modelling")
EXTRA = {
    "dataset": "training",
    "explain": "client",
    "import-history": "training",
    "replay-requests": "training",
    "sql": "training",
}
"""The extra that brings what a command may need beside the base; of all others it is `platform`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; 0 is success, 1 an error that the text explains, 2 wrong usage."""
    given = list(sys.argv[1:] if argv is None else argv)
    names = command_names()
    # only the module that is asked for is imported; help needs them all
    chosen = [name for name in names if given and given[0] == name] or names
    parser = argparse.ArgumentParser(
        prog="slicewise", description=_first_line(importlib.import_module("slicewise"))
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    modules: dict[str, ModuleType] = {}
    for name in chosen:
        modules[name] = importlib.import_module(command_modules()[name])
        text = _first_line(modules[name])
        form = argparse.RawDescriptionHelpFormatter  # examples stand in lines of their own
        parsed = commands.add_parser(
            name, help=text, description=modules[name].__doc__, formatter_class=form
        )
        modules[name].add_arguments(parsed)
    arguments = parser.parse_args(given)
    try:
        with needed(EXTRA.get(arguments.command, "platform"), f"slicewise {arguments.command}"):
            return int(modules[arguments.command].run(arguments, Settings.load()))
    except SlicewiseError as error:
        print(f"slicewise {arguments.command}: {error}", file=sys.stderr)
        _write_event(arguments.command, error)
        return 1
    except KeyboardInterrupt:
        print(
            f"slicewise {arguments.command}: interrupted; running it again goes on", file=sys.stderr
        )
        return 130


def _write_event(command: str, error: SlicewiseError) -> None:
    """Writes the event of a failure for the task that runs the command, as jobs do."""
    from slicewise.lifecycle.reports import TASK
    from slicewise.log import warning

    if os.environ.get(TASK):
        warning("job_failed", job=command, lasting=error.lasting, error=str(error))


def command_names() -> list[str]:
    """All commands, as they are typed."""
    return sorted(command_modules())


@cache
def command_modules() -> dict[str, str]:
    """Command, as it is typed -> its module."""
    return {
        module.name.replace("_", "-"): f"{__name__}.{folder}.{module.name}"
        for folder in FOLDERS
        for path in __path__
        for module in pkgutil.iter_modules([f"{path}/{folder}"])
        if not module.name.startswith("_")
    }


def _first_line(module: ModuleType) -> str:
    return " ".join((module.__doc__ or "").strip().partition("\n\n")[0].split())
