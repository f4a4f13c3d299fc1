"""The recipe's features, declared: plays and seconds of each user, over three sliding windows."""

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

# The slice is the recipe's bucket, so that both read the same number of pieces.
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    slice="5m",
    features=[
        sw.Feature("plays", sw.count(), windows=["30m", "1h", "2h"]),
        sw.Feature("seconds", sw.sum("seconds"), windows=["30m", "1h", "2h"]),
    ],
)

listening_v1 = sw.FeatureSet(
    "listening_v1",
    features=[
        f"listening:{name}_{window}"
        for name in ("plays", "seconds")
        for window in ("30m", "1h", "2h")
    ],
)
