"""list models, their versions, and which one is live

Of a trained model every version is shown: when it was trained, on how many rows, how good it was on
its newest tenth, and the SHA-256 of its file. With a name the promotions are shown too. --json has
the path of each file, by which a server reads the live one.

  slicewise models
  slicewise models delay
  slicewise models delay --json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.models.declared import DeclaredModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="this model alone, with its promotions")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.table import print_table
    from slicewise.models.declared import declared_models, named_model

    models = declared_models(settings)
    wanted = list(models.values())
    if arguments.name is not None:
        wanted = [named_model(models, arguments.name, "models")]
    listed = [_listed(settings, model) for model in wanted]
    if arguments.json:
        print(json.dumps({"models": listed}))
        return 0
    lines = []
    for one in listed:
        if one["kind"] != "trained" or not one["versions"]:
            lines.append((one["model"], one["kind"], "", one["location"] or "", "", "", "", ""))
        for version in one["versions"]:
            if "damaged" in version:
                live = "live" if version["live"] else ""
                lines.append((version["model"], "damaged", live, version["path"], "", "", "", ""))
                continue
            lines.append(
                (
                    version["model"],
                    one["kind"],
                    "live" if version["live"] else "",
                    version["trained_at"],
                    f"{version['rows']:,}",
                    f"{version['label_rate']:.4g}",
                    _measure(version["measures"]),
                    version["sha256"][:12],
                )
            )
    header = ("model", "kind", "live", "trained at", "rows", "label", "measure", "sha256")
    print_table(header, lines)
    for one in listed if arguments.name is not None else ():
        for change in one.get("promotions", ()):
            print(f"{change['at']}  {change['from'] or 'none'} -> {change['to']} by {change['by']}")
    return 0


def _listed(settings: Settings, model: DeclaredModel) -> dict[str, Any]:
    from slicewise.errors import DataLoss
    from slicewise.models.declared import TRAINED
    from slicewise.models.versions.folder import ModelFolder
    from slicewise.training.tables.instants import text_of

    location = model.location or None
    if model.kind != TRAINED:
        values = {"live": None, "location": location, "versions": list[Any]()}
        return {"model": model.name, "kind": model.kind, **values}
    folder = ModelFolder(settings.models_folder, model.name)
    live, versions = folder.live(), list[dict[str, Any]]()
    for number in folder.numbers():
        stands = {"model": folder.title(number), "live": number == live}
        path = str(folder.file(number).absolute())
        try:
            made = folder.manifest(number)
        except DataLoss as error:
            versions.append(stands | {"damaged": str(error), "path": path})
            continue
        versions.append(
            stands
            | {
                "trained_at": text_of(made.trained_us),
                "rows": made.rows,
                "positives": made.positives,
                "label_rate": made.label_rate,
                "first_at": text_of(made.first_us),
                "last_at": text_of(made.last_us),
                "measures": dict(made.measures),
                "sha256": made.sha256,
                "path": path,
                "seconds": made.seconds,
            }
        )

    def title(number: int | None) -> str | None:
        return None if number is None else folder.title(number)

    return {
        "model": model.name,
        "kind": TRAINED,
        "live": title(live),
        "location": None if live is None else str(folder.file(live).absolute()),
        "versions": versions,
        "promotions": [
            {
                "at": text_of(one.time_us),
                "by": one.by,
                "from": title(one.before),
                "to": title(one.after),
            }
            for one in folder.history()
        ],
    }


def _measure(measures: dict[str, float | None]) -> str:
    for name, words in (("auc", "AUC"), ("root_mean_squared_error", "RMSE")):
        value = measures.get(name)
        if value is not None:
            return f"{words} {value:.4g}"
    return "-"
