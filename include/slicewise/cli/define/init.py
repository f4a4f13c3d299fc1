"""write a first project: a source, a view with its test, a feature set"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from slicewise.errors import DefinitionError
from slicewise.settings import PROJECT_FILE, Settings

TOML = """name = "{name}"
definitions = "features.py"
"""

FEATURES = '''"""What we know of each user's listening, fresh for predictions and exact for training."""

import slicewise as sw

# Events are JSON objects in the Kafka topic "plays".
plays = sw.KafkaSource(
    "plays",
    schema={
        "user_id": "string",
        "song_id": "string",
        "seconds": "double",
        "skipped": "boolean",
        "played_at": "timestamp_us",
    },
    timestamp="played_at",
    max_lateness="1d",
    required=["user_id"],
)

listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    where="seconds >= 30",
    columns={"minutes": "seconds / 60"},
    features=[
        sw.Feature("plays", sw.count(), windows=["10m", "1h", "7d"]),
        sw.Feature("minutes", sw.sum("minutes"), windows=["1h", "7d"]),
        sw.Feature("songs", sw.distinct_count("song_id"), windows=["1d"]),
    ],
    tests=[
        sw.case(
            name="plays under 30 seconds do not count",
            events=[
                {"user_id": "ann", "song_id": "a", "seconds": 90.0, "skipped": False, "played_at": 0},
                {"user_id": "ann", "song_id": "b", "seconds": 12.0, "skipped": True, "played_at": 90_000_000},
                {"user_id": "ann", "song_id": "a", "seconds": 45.0, "skipped": False, "played_at": 102_000_000},
            ],
            at="1970-01-01T00:05:00Z",
            expect={"plays_10m": 2, "minutes_1h": 2.25, "songs_1d": 1},
        )
    ],
)

churn = sw.FeatureSet(
    "churn_v1",
    features=["listening:plays_7d", "listening:minutes_1h"],
    defaults={"listening:minutes_1h": 0.0},
)
'''

README = """# {name}

Features over streaming events, declared in `features.py`.

    slicewise check     # types and tests; needs no server
    slicewise plan      # slices, sizes, and what deploying would change
    slicewise up        # start the platform; what runs already stays
    slicewise apply     # deploy this folder's project onto it; the first time the stream starts too
    slicewise load      # produce made-up plays to the topic, to try it

docs/tutorial.md of slicewise goes on from here: a producer of your own, answers, a training set.

Edit `features.py`: a source is a topic with its columns, a view is features over one entity key,
a feature is an aggregate over windows. Its column is `<feature>_<window>`, as in `plays_10m`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="a new or empty folder")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    del settings
    folder = Path(arguments.folder).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DefinitionError(
            "there is something already",
            where=str(folder),
            expected="a new or empty folder",
            next_step="choose another name; nothing was written",
        )
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9_-]", "-", folder.resolve().name) or "project"
    for file, text in ((PROJECT_FILE, TOML), ("features.py", FEATURES), ("README.md", README)):
        (folder / file).write_text(text.replace("{name}", name), encoding="utf-8")
        print(f"wrote {folder / file}")
    print(f"next: cd {folder} && slicewise check")
    return 0
