"""Pages that read without a network, by the templates beside the commands."""

from __future__ import annotations

import argparse
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(template: str, **values: Any) -> str:
    """A page as HTML. values: of the template's names."""
    environment = Environment(
        loader=PackageLoader("slicewise.cli"),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template).render(**values)


def refuse_targets(arguments: argparse.Namespace, *options: str) -> None:
    """Refuse files of these options that have no folder to go to, or would stand for something
    else: before any work. Raises BadRequest."""
    from slicewise.errors import BadRequest
    from slicewise.training.api import checked_target

    for option in options:
        target = getattr(arguments, option)
        if target is not None and not checked_target(target).parent.is_dir():
            raise BadRequest(
                f"there is no folder {target.resolve().parent}",
                where=f"--{option}",
                expected="a folder that exists",
                next_step="make it first",
            )
