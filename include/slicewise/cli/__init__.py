"""Every command is a module of this package, found by its name; it says its own help and arguments.

To add `slicewise <name>`, add `cli/<name>.py` with a docstring (its first line is the help),
`add_arguments(parser)` and `run(arguments, settings) -> int` (the exit code). What is heavy is
imported inside run, so that the other commands start at once.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

from slicewise.errors import SlicewiseError
from slicewise.settings import Settings


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; 0 is success, 1 an error that the text explains, 2 wrong usage."""
    given = list(sys.argv[1:] if argv is None else argv)
    names = command_names()
    # only the module that is asked for is imported; help needs them all
    chosen = [name for name in names if given and given[0] == name] or names
    parser = argparse.ArgumentParser(prog="slicewise", description=_first_line(importlib.import_module("slicewise")))
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    modules: dict[str, ModuleType] = {}
    for name in chosen:
        modules[name] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
        text = _first_line(modules[name])
        form = argparse.RawDescriptionHelpFormatter  # examples stand in lines of their own
        parsed = commands.add_parser(name, help=text, description=modules[name].__doc__, formatter_class=form)
        modules[name].add_arguments(parsed)
    arguments = parser.parse_args(given)
    try:
        return int(modules[arguments.command].run(arguments, Settings.load()))
    except SlicewiseError as error:
        print(f"slicewise {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"slicewise {arguments.command}: interrupted; running it again goes on", file=sys.stderr)
        return 130


def command_names() -> list[str]:
    """All commands, as they are typed."""
    modules = sorted(each.name for each in pkgutil.iter_modules(__path__))
    return [name.replace("_", "-") for name in modules if not name.startswith("_")]


def _first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]
