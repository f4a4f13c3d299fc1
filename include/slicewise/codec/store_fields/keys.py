"""The keys of the online store."""

from __future__ import annotations

from slicewise.codec.store_fields.forms import Key

_UNIT = "sw:<store id>:{<tag>}:<unit>:"

HOT_KEY = Key("hotKey", f"{_UNIT}hot", "what is not compacted yet; read whole", in_jvm=True)
DAY_KEY = Key("dayKey", f"{_UNIT}day:<yyyymmdd>", "compacted hours of a day; read by field")
IDS_KEY = Key(
    "idsKey",
    f"{_UNIT}ids",
    "of a source with `dedupe`: ids that are remembered; no reader fetches it",
)
LIST_KEY = Key(
    "listKey", f"{_UNIT}list", "of an event list: applied offsets and low-water mark", in_jvm=True
)
MEMBERS_KEY = Key(
    "membersKey", f"{_UNIT}events", "sorted set: members of the event list", in_jvm=True
)
METADATA_KEY = Key("metadataKey", "sw:marks:{0}", "the store's metadata")
PUBLISHED_KEY = Key(
    "publishedKey",
    "sw:<store id>:swapped:<unit>:{0}",
    "the hours of a unit that were published to all its entities",
)
VECTORS_KEY = Key(
    "vectorsKey",
    "sw:<store id>:covers:<source>:{0}",
    "the offset vectors that archive versions stand for",
)
ENTERED_KEY = Key(
    "enteredKey",
    "sw:<store id>:entered:<source>:<hour>:{0}",
    "how far a source was applied at instants of an hour of the store's clock, until `ops.ledger` "
    "has them; goes by itself after two days",
)
LEADERBOARD_KEY = Key("leaderboardKey", "sw:<store id>:board:<name>", "a leaderboard")
PAST_LEADERBOARD_KEY = Key(
    "pastLeaderboardKey",
    "sw:<store id>:board:<name>:<window end>",
    'the same of a past window end, where `late="correct"`',
)
MANIFEST_KEY = Key(
    "manifestKey",
    "sw:manifest:<digest>",
    "text: the deployment's canonical JSON. A source whose schema changed has `earlier`: each "
    "schema before "
    "(`source`), and `until`: [topic id, partition, first offset that it does not judge], null "
    "while it is not "
    "recorded",
)
STATUS_KEY = Key(
    "statusKey",
    "sw:status:<part>",
    "text: the status of a running part; part `holes:<source>`: a JSON list of accepted gaps "
    "(fields of "
    "`slicewise.offsets.gaps.AcceptedGap`); `building`: unit -> what its build waits for (`text`, "
    "`at_us`); `alerts`: a JSON "
    "list of incidents (fields of `slicewise.lifecycle.incidents.Incident`); `registered`: a "
    "JSON list of the newest deployments (fields of "
    "`slicewise.stores.lake.registered.Registered`); parts `deployed`, "
    "`ensured:<driver>`, `started:<driver>`: an "
    "instant, in "
    "microseconds by the store's clock, as decimal digits",
)
