"""One user may get nearly all plays, and all of them count for everyone: the most pending events
that there can be."""

import slicewise as sw

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
    required=["user_id"],
)

listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    slice="5m",
    features=[
        sw.Feature("plays", sw.count(), windows=["30m", "2h"]),
        sw.Feature("seconds", sw.sum("seconds"), windows=["30m", "2h"]),
    ],
)

everyone = sw.FeatureView(
    "everyone",
    source=plays,
    entity=[],
    slice="5m",
    features=[sw.Feature("plays", sw.count(), windows=["30m", "2h"])],
)
