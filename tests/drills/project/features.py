"""Features of the drills: every kind of store entry that the real-time lane writes beside, and
windows that the present fills."""

import slicewise as sw

payments = sw.KafkaSource(
    "payments",
    schema={
        "card": "string",
        "shop": "string",
        "amount": "double",
        "items": "long",
        "accepted": "boolean",
        "paid_at": "timestamp_us",
        "tags": "array<string>",
    },
    timestamp="paid_at",
    max_lateness="1d",
    max_ahead="5m",
)


def no_price() -> tuple[float | None, int]:
    return (None, 0)


def increase(
    state: tuple[float | None, int], event: dict[str, float | None]
) -> tuple[float | None, int]:
    """Counts the prices that are higher than the one before."""
    last, n = state
    price = event["amount"]
    if price is None:
        return state
    return (price, n + 1 if last is not None and price > last else n)


def increases(state: tuple[float | None, int]) -> int:
    return state[1]


WINDOWS: list[sw.Window | str] = [
    "10m",
    "1h",
    sw.tumbling("1m"),
    sw.hopping("4m", every="2m"),
    sw.sliding("10m", offset="2m"),
    sw.session("1m", max_length="30m"),
]

per_card = sw.FeatureView(
    "per_card",
    source=payments,
    entity=["card"],
    columns={"dear": "amount >= 100"},
    slice="1m",
    features=[
        sw.Feature("payments", sw.count(), windows=WINDOWS),
        sw.Feature("spent", sw.sum("amount"), windows=WINDOWS),
        sw.Feature("items", sw.sum("items"), windows=WINDOWS),
        sw.Feature("basket", sw.mean("amount"), windows=WINDOWS),
        sw.Feature("least", sw.min("amount"), windows=WINDOWS),
        sw.Feature("dearest_shop", sw.argmax("shop", by="amount"), windows=WINDOWS),
        sw.Feature("first_amounts", sw.first_k("amount", k=2), windows=WINDOWS),
        sw.Feature("last_shops", sw.last_k("shop", k=3), windows=WINDOWS),
        sw.Feature("recent_shops", sw.last_k_distinct("shop", k=3), windows=WINDOWS),
        sw.Feature("dearest", sw.top_k("shop", by="amount", k=3), windows=WINDOWS),
        sw.Feature("shops", sw.distinct_count("shop"), windows=WINDOWS),
        sw.Feature(
            "increases",
            sw.ordered(
                no_price, increase, increases, columns=["amount"], output="long", cap=10_000
            ),
            windows=WINDOWS,
        ),
        sw.Feature("spent_lately", sw.decay_sum("amount", half_life="1h"), windows=WINDOWS),
        sw.Feature(
            "shares",
            sw.quantiles("amount", q=[0.1, 0.5, 0.9], threshold=6, error=0.02),
            windows=WINDOWS,
        ),
        sw.Feature(
            "frequent_shops", sw.top_k_frequent("shop", k=3, capacity=4, error=0.1), windows=WINDOWS
        ),
        sw.Feature("spread", sw.variance("amount"), windows=WINDOWS),
        sw.Feature("alike", sw.correlation("items", "amount"), windows=WINDOWS),
        sw.Feature("shop_fill", sw.bloom_fill("shop", capacity=100, error=1e-6), windows=WINDOWS),
        sw.Feature("any_dear", sw.bool_or("dear"), windows=WINDOWS),
        sw.Feature("accepted_amount", sw.sum("amount", where="accepted"), windows=WINDOWS),
        sw.Feature("by_shop", sw.count_by("shop", max_categories=50), windows=WINDOWS),
        sw.Feature(
            "spent_by_shop",
            sw.bucketed(sw.sum("amount", where="accepted"), by="shop"),
            windows=WINDOWS,
        ),
        sw.Feature(
            "amounts_spread", sw.histogram("amount", edges=[0, 9.5, 50, 100]), windows=WINDOWS
        ),
        sw.Feature("lasted", sw.span(), windows=WINDOWS),
    ],
)

by_shop = sw.FeatureView(
    "by_shop",
    source=payments,
    entity=["shop"],
    slice="1s",
    features=[
        sw.Feature("payments", sw.count(), windows=["30s", "5m", sw.tumbling("10s")]),
        sw.Feature("spent", sw.sum("amount"), windows=["30s", "5m", sw.tumbling("10s")]),
        sw.Feature("last_cards", sw.last_k("card", k=3), windows=["30s", "5m"]),
    ],
)

by_card_and_shop = sw.FeatureView(
    "by_card_and_shop",
    source=payments,
    entity=["shop", "card"],
    slice="10s",
    where="amount > 0",
    features=[
        sw.Feature("payments", sw.count(), windows=["2m", sw.hopping("6m", every="10s")]),
        sw.Feature("spent", sw.sum("amount"), windows=["2m", sw.hopping("6m", every="10s")]),
    ],
)

everything = sw.FeatureView(
    "everything",
    source=payments,
    entity=[],
    features=[
        sw.Feature("payments", sw.count(), windows=["10m", "1h"]),
        sw.Feature("turnover", sw.sum("amount"), windows=["10m", "1h"]),
    ],
)

ever_by_card = sw.FeatureView(
    "ever_by_card",
    source=payments,
    entity=["card"],
    where="amount > 0",
    features=[
        sw.Feature("payments", sw.count(), windows=["1h", "lifetime"]),
        sw.Feature("spent", sw.sum("amount"), windows=["1h", "lifetime"]),
        sw.Feature("shops", sw.distinct_count("shop"), windows=["1h", "lifetime"]),
    ],
)

EXACT: list[sw.Window | str] = [
    sw.exact_range("2m"),
    sw.exact_range("5m", closed="left"),
    sw.rows(1),
    sw.rows(20),
]

exactly_by_card = sw.FeatureView(
    "exactly_by_card",
    source=payments,
    entity=["card"],
    columns={"dear": "amount >= 100"},
    features=[
        sw.Feature("payments", sw.count(), windows=EXACT),
        sw.Feature("spent", sw.sum("amount"), windows=EXACT),
        sw.Feature("last_shops", sw.last_k("shop", k=3), windows=EXACT),
        sw.Feature("any_dear", sw.bool_or("dear"), windows=EXACT),
        sw.Feature("tags", sw.count_by("tags"), windows=EXACT),
    ],
)

everything_exactly = sw.FeatureView(
    "everything_exactly",
    source=payments,
    entity=[],
    capacity=200_000,
    features=[
        sw.Feature("amounts", sw.last_k("amount", k=5), windows=[sw.rows(50), sw.exact_range("1m")])
    ],
)
