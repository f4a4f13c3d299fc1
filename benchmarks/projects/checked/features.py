"""Plays in a view of six features, and in one of thirty: counts, exact sums, extremes, ranks,
distinct values and moments over three windows each."""

import slicewise as sw

WINDOWS = ["1h", "6h", "1d"]

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
    max_lateness="2d",
    required=["user_id"],
)

narrow = sw.FeatureView(
    "narrow",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=WINDOWS),
        sw.Feature("seconds", sw.sum("seconds"), windows=WINDOWS),
    ],
)

wide = sw.FeatureView(
    "wide",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=WINDOWS),
        sw.Feature("seconds", sw.sum("seconds"), windows=WINDOWS),
        sw.Feature("mean", sw.mean("seconds"), windows=WINDOWS),
        sw.Feature("spread", sw.stddev("seconds"), windows=WINDOWS),
        sw.Feature("shortest", sw.min("seconds"), windows=WINDOWS),
        sw.Feature("longest", sw.max("seconds"), windows=WINDOWS),
        sw.Feature("skipped_any", sw.bool_or("skipped"), windows=WINDOWS),
        sw.Feature("songs", sw.distinct_count("song_id"), windows=WINDOWS),
        sw.Feature("favourite", sw.argmax("song_id", by="seconds"), windows=WINDOWS),
        sw.Feature("latest", sw.last("song_id"), windows=WINDOWS),
    ],
)
