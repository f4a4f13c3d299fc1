"""The songs that are played most, live: `slicewise load` makes the plays."""

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
    max_lateness="1d",
    owner="music",
    description="Plays of songs, each with the seconds that were listened to.",
)

songs = sw.FeatureView(
    "songs",
    source=plays,
    entity=["song_id"],
    slice="1s",
    features=[
        sw.Feature("plays", sw.count(), windows=["10s"]),
        sw.Feature("heard", sw.sum("seconds"), windows=["10s"], description="Seconds in all."),
    ],
    owner="music",
    description="How much each song is played just now.",
    tags=["live"],
    tests=[
        sw.case(
            name="half-open: a play at the end of the window is of the next one",
            events=[
                {
                    "user_id": "u",
                    "song_id": "s",
                    "seconds": 30.0,
                    "skipped": False,
                    "played_at": 1_000_000,
                },
                {
                    "user_id": "v",
                    "song_id": "s",
                    "seconds": 0.5,
                    "skipped": True,
                    "played_at": 10_999_999,
                },
                {
                    "user_id": "v",
                    "song_id": "s",
                    "seconds": 9.0,
                    "skipped": True,
                    "played_at": 11_000_000,
                },
            ],
            at=11_000_000,
            expect={"plays_10s": 2, "heard_10s": 30.5},
        )
    ],
)

# The ten songs with the most plays of the last ten seconds, every second. A play that comes late
# changes no leaderboard that was published: with late="correct" it would, and old and new rows
# would go to a topic.
top_songs = sw.Leaderboard(
    "top_songs",
    view=songs,
    by="plays_10s",
    k=10,
    every="1s",
    owner="music",
    description="The ten songs with the most plays of the last ten seconds.",
    tags=["live"],
)
