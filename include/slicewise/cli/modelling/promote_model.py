"""make a version of a trained model the live one, or go back to an earlier one

The live version is what a model's name stands for. Whoever serves the model reads which one it is;
no file of a version changes. --instead-of refuses where another one is live than that which the
version was judged against. Who promoted what stands in the history: slicewise models delay.

  slicewise promote-model delay@3 --by ann
  slicewise promote-model delay@3 --by ann --instead-of delay@2
  slicewise promote-model delay@1 --by ann --instead-of none     the first one
  slicewise promote-model delay@2 --by ann                       go back
"""

from __future__ import annotations

import argparse
import json

from slicewise.errors import BadRequest
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", help="a version, as delay@3")
    parser.add_argument("--by", required=True, help="who promotes it, for the history")
    parser.add_argument("--instead-of", help="the version that has to be live; none: no version")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.clock import SystemClock
    from slicewise.models.declared import declared_models, named_model
    from slicewise.models.versions.folder import NONE, ModelFolder, split_version

    name, number = split_version(arguments.version)
    model = named_model(declared_models(settings), name, "promote-model")
    instead_of: int | str | None = None
    if arguments.instead_of is not None:
        of, instead_of = split_version(arguments.instead_of)
        if arguments.instead_of == NONE:
            instead_of = NONE
        elif of != name or instead_of is None:
            raise _refused("--instead-of", arguments.instead_of, name)
    if number is None or model.training is None:
        raise _refused("promote-model", arguments.version, name)
    if not arguments.by.strip():
        raise BadRequest(
            "nobody is named who promotes it",
            where="--by",
            expected="a name",
            next_step="give it: it stands in the history",
        )
    folder = ModelFolder(settings.models_folder, name)
    now_us = SystemClock().now_us()
    before = folder.promote(number, arguments.by.strip(), now_us, instead_of)
    title = None if before is None else folder.title(before)
    if arguments.json:
        print(json.dumps({"model": arguments.version, "before": title}))
    elif before == number:
        print(f"{arguments.version} is live already")
    else:
        print(f"{arguments.version} is live, and was {title or 'none'} before")
    return 0


def _refused(where: str, given: str, name: str) -> BadRequest:
    return BadRequest(
        f"{given!r} is no version of a trained model {name!r}",
        where=where,
        expected=f"a version, as {name}@1",
        next_step="see them: slicewise models",
    )
