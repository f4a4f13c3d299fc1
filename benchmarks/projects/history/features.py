"""The view that the recipe is compared with, and five views of ten features, over 26 hours of
plays."""

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
    max_lateness="2d",
    required=["user_id"],
)

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


def _view(number: int) -> sw.FeatureView:
    return sw.FeatureView(
        f"view{number}",
        source=plays,
        entity=["user_id"],
        where=f"seconds >= {number}",
        features=[
            sw.Feature("plays", sw.count(), windows=["1h", "1d"]),
            sw.Feature("seconds", sw.sum("seconds"), windows=["1h", "1d"]),
            sw.Feature("mean", sw.mean("seconds"), windows=["1h", "1d"]),
            sw.Feature("shortest", sw.min("seconds"), windows=["1h", "1d"]),
            sw.Feature("longest", sw.max("seconds"), windows=["1h", "1d"]),
        ],
    )


view0, view1, view2, view3, view4 = (_view(number) for number in range(5))

listening_v1 = sw.FeatureSet(
    "listening_v1",
    features=[
        f"listening:{name}_{window}"
        for name in ("plays", "seconds")
        for window in ("30m", "1h", "2h")
    ],
)
five_v1 = sw.FeatureSet(
    "five_v1",
    features=[
        f"view{number}:{name}_{window}"
        for number in range(5)
        for name in ("plays", "seconds", "mean", "shortest", "longest")
        for window in ("1h", "1d")
    ],
)
