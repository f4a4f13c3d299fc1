"""train the next version of a model, or show that one comes again

models.toml says what a model is trained on: a spine with labels, features, and a function of the
project that fits an estimator of scikit-learn. The version is a folder of the setting
models_folder: the model's file, and a manifest by which the same bytes are trained again. It
answers nobody before it is promoted. docs/guides/models.md says more.

  slicewise train delay
  slicewise train delay --until 2026-11-21T08:00:00Z --json
  slicewise train --again delay@2      exit code 1, and which input differs, where it is another
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.training.fitting.training import Again, Trained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="a model of models.toml with a training")
    parser.add_argument("--again", metavar="VERSION", help="train a version again: delay@2")
    parser.add_argument(
        "--until", help="rows of the spine before then alone; aware instant: 2026-11-21T08:00:00Z"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.clock import SystemClock
    from slicewise.errors import BadRequest
    from slicewise.models.declared import declared_models, named_model
    from slicewise.models.versions.folder import split_version
    from slicewise.training.fitting.training import train, train_again
    from slicewise.training.tables.instants import instant_us

    if (arguments.name is None) == (arguments.again is None) or (
        arguments.again is not None and arguments.until is not None
    ):
        raise BadRequest(
            "it is not said what is trained",
            where="train",
            expected="a model's name, or --again and a version",
            next_step="slicewise train delay, or slicewise train --again delay@2",
        )
    models, clock = declared_models(settings), SystemClock()
    with bars(_notify, wanted=not arguments.json) as notify:
        if arguments.again is not None:
            name, number = split_version(arguments.again)
            model = named_model(models, name, "--again")
            if number is None:
                raise BadRequest(
                    f"{arguments.again} names no version",
                    where="--again",
                    expected=f"a version, as {name}@1",
                    next_step=f"see them: slicewise models {name}",
                )
            again = train_again(settings, model, number, clock=clock, notify=notify)
        else:
            model = named_model(models, arguments.name, "model")
            until = None if arguments.until is None else instant_us(arguments.until, "--until")
            trained = train(settings, model, until_us=until, clock=clock, notify=notify)
    if arguments.again is not None:
        print(json.dumps(again.to_json())) if arguments.json else _show_again(again)
        return 0 if again.same else 1
    print(json.dumps(trained.to_json())) if arguments.json else _show(trained)
    return 0


def _show(trained: Trained) -> None:
    from slicewise.cli.table import print_table
    from slicewise.models.measures import MEASURE_WORDS

    made = trained.manifest
    print(f"{trained.title}: {made.rows:,} rows, mean of the label {made.label_rate:.4g}")
    for reason, rows in made.left_out.items():
        print(f"  left out: {rows:,} {reason}")
    print(f"sha256    {made.sha256}\nmanifest  {trained.path}\n\n{made.split}")
    lines = [
        (words, f"{made.measures[name]:.4g}")
        for name, words in MEASURE_WORDS
        if made.measures.get(name) is not None
    ]
    if lines:
        print_table(("measure", trained.title), lines)


def _show_again(again: Again) -> None:
    word = "the same bytes" if again.same else "NOT the same"
    print(f"{again.title} trained again: {word}")
    print(f"data   {again.data or 'another'}, and was {again.data_before}")
    print(f"model  {again.sha256 or 'not trained'}, and was {again.before}")
    for line in again.differs:
        print(f"differs: {line}")


def _notify(line: str) -> None:
    print(f"train: {line}", file=sys.stderr, flush=True)
