"""show the monitors of the project, and whether their values are within their bounds

A monitor holds a feature of an entity within bounds: the accuracy of a model, the drift of its
scores, the number of answers. They stand in monitors.toml beside the definitions. ingest_stream
looks at them every five seconds, and tells the owner of one that is out of its bounds for three
looks. This command looks once, and ends with 1 where one is out of its bounds. It refuses one whose
`retrain` names no model that slicewise trains.

  slicewise monitors
  slicewise monitors --json
"""

from __future__ import annotations

import argparse
import json

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.table import print_table
    from slicewise.errors import StoreUnavailable
    from slicewise.local.monitors.looking import judged, load_monitors, require_models

    monitors = load_monitors(settings)
    require_models(monitors, settings)
    looked = judged(settings, monitors)
    if looked is None:
        raise StoreUnavailable(
            "the prediction API does not answer",
            where=settings.serving_url,
            expected="an API that is ready",
            next_step="slicewise status shows why; slicewise up starts it",
        )
    if arguments.json:
        print(json.dumps({"monitors": [one.to_json() for one in looked]}))
    elif not looked:
        print(f"nothing is monitored: {settings.monitors} lists nothing")
    else:
        rows = [
            (one.monitor.name, "OUT" if one.fault else "ok", one.monitor.owner, one.text)
            for one in looked
        ]
        print_table(("monitor", "state", "owner", "what"), rows)
    return 1 if any(one.fault for one in looked) else 0
