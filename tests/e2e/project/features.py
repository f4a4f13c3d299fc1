"""Every aggregate and every kind of window, over a one-column key, a two-column key and no key."""

from typing import Any

import numpy as np
import pyarrow.compute as pc

import slicewise as sw

Arrays = dict[str, Any]

payments = sw.KafkaSource(
    "payments",
    schema={
        "card": "string",
        "shop": "string",
        "amount": "double",
        "items": "long",
        "accepted": "boolean",
        "paid_at": "timestamp_us",
        "born": "date",
        "fee": "float",
        "terminal": "int8",
        "tags": "array<string>",
    },
    paths={"terminal": "$.at.terminal"},
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


def no_double() -> tuple[float | None, float]:
    return (None, 0.0)


def double(
    state: tuple[float | None, float], event: dict[str, float | None]
) -> tuple[float | None, float]:
    """Keeps the greatest ratio of a price to the one before, of those that at least double."""
    last, most = state
    price = event["amount"]
    if price is None:
        return state
    if last is not None and last > 0 and price >= 2 * last:
        most = max(most, price / last)
    return (price, most)


def doubled(state: tuple[float | None, float]) -> float:
    return state[1]


class Reach(sw.Aggregate):
    """Distance from the cheapest to the dearest; null where all are alike."""

    columns = {"price": "double"}  # noqa: RUF012
    fields = {"least": "double", "most": "double"}  # noqa: RUF012
    output = "double"

    def empty(self) -> tuple[float, float]:
        return (float("inf"), float("-inf"))

    def accumulate(
        self, state: tuple[float, float], event: dict[str, float]
    ) -> tuple[float, float]:
        return (min(state[0], event["price"]), max(state[1], event["price"]))

    def combine(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        return (min(a[0], b[0]), max(a[1], b[1]))

    def finish(self, state: tuple[float, float]) -> float | None:
        return state[1] - state[0] if state[0] < state[1] else None

    def accumulate_columns(self, columns: Arrays, groups: Any, n: int) -> Arrays:
        least, most = np.full(n, float("inf")), np.full(n, float("-inf"))
        np.minimum.at(least, groups, columns["price"])
        np.maximum.at(most, groups, columns["price"])
        return {"least": least, "most": most}

    def combine_columns(self, fields: Arrays, groups: Any, n: int) -> Arrays:
        least, most = np.full(n, float("inf")), np.full(n, float("-inf"))
        np.minimum.at(least, groups, fields["least"])
        np.maximum.at(most, groups, fields["most"])
        return {"least": least, "most": most}


class Discount(sw.Aggregate):
    """Cents that are given back: a share of what was paid beyond a price, each payment rounded to
    cents."""

    columns = {"price": "double", "pieces": "long"}  # noqa: RUF012
    fields = {"cents": "integer"}  # noqa: RUF012
    output = "string"
    beyond: float = 50.0

    def empty(self) -> tuple[int]:
        return (0,)

    def accumulate(self, state: tuple[int], event: dict[str, Any]) -> tuple[int]:
        over = min(max(event["price"] - self.beyond, 0.0), 1e9)
        return (state[0] + round(over * 10) * event["pieces"],)

    def combine(self, a: tuple[int], b: tuple[int]) -> tuple[int]:
        return (a[0] + b[0],)

    def deduct(self, whole: tuple[int], part: tuple[int]) -> tuple[int]:
        return (whole[0] - part[0],)

    def finish(self, state: tuple[int]) -> str:
        return str(state[0]) + " cents"


@sw.row_function(output="double")
def per_item(amount, items):  # type: ignore[no-untyped-def]
    """The cost of an item; null of no items."""
    return pc.if_else(pc.equal(items, 0), None, pc.divide(amount, items))


MOST = 10_000
WINDOWS: list[sw.Window | str] = [
    "10m",
    "1h",
    "1d",
    sw.tumbling("1h"),
    sw.hopping("2h", every="30m"),
    sw.sliding("1h", offset="2h"),
    sw.session("10m", max_length="6h"),
]

by_card = sw.FeatureView(
    "by_card",
    source=payments,
    entity=["card"],
    columns={"dear": "amount >= 100", "per_item": per_item},
    features=[
        sw.Feature("payments", sw.count(), windows=WINDOWS),
        sw.Feature("item_cost", sw.mean("per_item"), windows=WINDOWS),
        sw.Feature("amounts", sw.count("amount"), windows=WINDOWS),
        sw.Feature("spent", sw.sum("amount"), windows=WINDOWS),
        sw.Feature("basket", sw.mean("amount"), windows=WINDOWS),
        sw.Feature("items", sw.sum("items"), windows=WINDOWS),
        sw.Feature("least", sw.min("amount"), windows=WINDOWS),
        sw.Feature("most", sw.max("amount"), windows=WINDOWS),
        sw.Feature("dearest_shop", sw.argmax("shop", by="amount"), windows=WINDOWS),
        sw.Feature("cheapest_shop", sw.argmin("shop", by="amount"), windows=WINDOWS),
        sw.Feature("first_shop", sw.first("shop"), windows=WINDOWS),
        sw.Feature("last_amount", sw.last("amount"), windows=WINDOWS),
        sw.Feature("first_amounts", sw.first_k("amount", k=2), windows=WINDOWS),
        sw.Feature("last_shops", sw.last_k("shop", k=3), windows=WINDOWS),
        sw.Feature("recent_shops", sw.last_k_distinct("shop", k=3), windows=WINDOWS),
        sw.Feature("dearest", sw.top_k("shop", by="amount", k=3), windows=WINDOWS),
        sw.Feature("shops", sw.distinct_count("shop"), windows=WINDOWS),
        sw.Feature(
            "increases",
            sw.ordered(no_price, increase, increases, columns=["amount"], output="long", cap=MOST),
            windows=WINDOWS,
        ),
        sw.Feature(
            "doubled",
            sw.ordered(no_double, double, doubled, columns=["amount"], output="double", cap=MOST),
            windows=WINDOWS,
        ),
        sw.Feature("reach", Reach("amount"), windows=WINDOWS),
        sw.Feature(
            "discount",
            Discount("amount", pieces="items", beyond=20.0, where="accepted"),
            windows=WINDOWS,
        ),
        sw.Feature("reach_by_shop", sw.bucketed(Reach("amount"), by="shop"), windows=["1h", "1d"]),
        sw.Feature("lately", sw.decay_count(half_life="10m"), windows=WINDOWS),
        sw.Feature("spent_lately", sw.decay_sum("amount", half_life="1h"), windows=WINDOWS),
        sw.Feature(
            "amount_shares",
            sw.quantiles("amount", q=[0.1, 0.5, 0.9], threshold=6, error=0.02),
            windows=WINDOWS,
        ),
        sw.Feature(
            "frequent_shops", sw.top_k_frequent("shop", k=3, capacity=4, error=0.1), windows=WINDOWS
        ),
        sw.Feature("spread", sw.variance("amount"), windows=WINDOWS),
        sw.Feature("deviation", sw.stddev("amount", population=True), windows=WINDOWS),
        sw.Feature("lean", sw.skewness("amount"), windows=WINDOWS),
        sw.Feature("tails", sw.kurtosis("items"), windows=WINDOWS),
        sw.Feature("dearer_more", sw.covariance("amount", "items"), windows=WINDOWS),
        sw.Feature("alike", sw.correlation("items", "amount"), windows=WINDOWS),
        sw.Feature("rise", sw.linear_trend("amount"), windows=WINDOWS),
        sw.Feature(
            "per_item", sw.linear_trend("amount", over="items", output="intercept"), windows=WINDOWS
        ),
        sw.Feature("seen_shop", sw.bloom("shop", capacity=100, error=1e-6), windows=WINDOWS),
        sw.Feature("dear_shop", sw.cuckoo("shop", capacity=4, error=1e-6), windows=WINDOWS),
        sw.Feature("shop_fill", sw.bloom_fill("shop", capacity=100, error=1e-6), windows=WINDOWS),
        sw.Feature("all_accepted", sw.bool_and("accepted"), windows=WINDOWS),
        sw.Feature("any_dear", sw.bool_or("dear"), windows=WINDOWS),
        sw.Feature("accepted_payments", sw.count(where="accepted"), windows=WINDOWS),
        sw.Feature("accepted_amount", sw.sum("amount", where="accepted"), windows=WINDOWS),
        sw.Feature("large_basket", sw.mean("amount", where="items >= 2 OR dear"), windows=WINDOWS),
        sw.Feature("by_shop", sw.count_by("shop", max_categories=50), windows=WINDOWS),
        sw.Feature(
            "spent_by_shop",
            sw.bucketed(sw.sum("amount", where="accepted"), by="shop"),
            windows=WINDOWS,
        ),
        sw.Feature(
            "last_by_items",
            sw.bucketed(sw.last_k("shop", k=2), by="items", where="dear"),
            windows=WINDOWS,
        ),
        sw.Feature(
            "amounts_spread", sw.histogram("amount", edges=[0, 9.5, 50, 100]), windows=WINDOWS
        ),
        sw.Feature("lasted", sw.span(), windows=WINDOWS),
    ],
)

by_birthday = sw.FeatureView(
    "by_birthday",
    source=payments,
    entity=["born"],
    features=[
        sw.Feature("fees", sw.sum("fee"), windows=["1h", "1d"]),
        sw.Feature("terminals", sw.sum("terminal"), windows=["1h", "1d"]),
        sw.Feature("farthest", sw.max("terminal"), windows=["1d"]),
        sw.Feature("days", sw.distinct_count("born"), windows=["1h"]),
        sw.Feature("eldest", sw.min("born"), windows=["1d"]),
        sw.Feature("births", sw.last_k("born", k=2), windows=["1d"]),
        sw.Feature("tagged", sw.count("tags"), windows=["1d"]),
        sw.Feature("tags", sw.count_by("tags"), windows=["1h", "1d"]),
        sw.Feature(
            "spent_by_tag",
            sw.bucketed(sw.sum("amount", where="accepted"), by="tags"),
            windows=["1d"],
        ),
    ],
)

by_card_and_shop = sw.FeatureView(
    "by_card_and_shop",
    source=payments,
    entity=["shop", "card"],
    slice="10s",
    where="amount > 0",
    features=[
        sw.Feature("payments", sw.count(), windows=["1h", "1d", sw.hopping("6h", every="10s")]),
        sw.Feature("spent", sw.sum("amount"), windows=["1h", "1d", sw.hopping("6h", every="10s")]),
    ],
    emit="by_card_and_shop.windows",
)

by_shop = sw.sql(
    """
    CREATE FEATURE VIEW by_shop AS
    SELECT shop,
           count(*)                          OVER hour AS payments_1h,
           avg(amount)                       OVER hour AS basket_1h,
           sum(items) FILTER (WHERE accepted) OVER hour AS items_1h,
           max_by(card, amount)              OVER day  AS dearest_card_1d
    FROM payments
    WINDOW hour AS (base RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW),
           day  AS (base RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW),
           base AS (PARTITION BY shop ORDER BY SLICE(paid_at))
    """,
    sources=[payments],
)

everything = sw.FeatureView(
    "everything",
    source=payments,
    entity=[],
    features=[
        sw.Feature("payments", sw.count(), windows=["10m", "1h", "1d"]),
        sw.Feature("turnover", sw.sum("amount"), windows=["10m", "1h", "1d"]),
    ],
)

EVER: list[sw.Window | str] = ["1h", "lifetime", sw.lifetime(offset="2h")]

ever_by_card = sw.FeatureView(
    "ever_by_card",
    source=payments,
    entity=["card"],
    where="amount > 0",
    features=[
        sw.Feature("payments", sw.count(), windows=EVER),
        sw.Feature("spent", sw.sum("amount"), windows=EVER),
        sw.Feature("dearest", sw.top_k("shop", by="amount", k=3), windows=EVER),
        sw.Feature("shops", sw.distinct_count("shop"), windows=EVER),
        sw.Feature("first_shop", sw.first("shop"), windows=["lifetime"]),
    ],
)

everything_ever = sw.FeatureView(
    "everything_ever",
    source=payments,
    entity=[],
    features=[sw.Feature("turnover", sw.sum("amount"), windows=["lifetime"])],
)

EXACT: list[sw.Window | str] = [
    sw.exact_range("40m"),
    sw.exact_range("3h", closed="left"),
    sw.exact_range("90m", closed="right"),
    sw.rows(1),
    sw.rows(20),
]

exactly_by_card = sw.FeatureView(
    "exactly_by_card",
    source=payments,
    entity=["card"],
    columns={"dear": "amount >= 100", "per_item": per_item},
    features=[
        sw.Feature("payments", sw.count(), windows=EXACT),
        sw.Feature("item_costs", sw.sum("per_item"), windows=EXACT),
        sw.Feature("spent", sw.sum("amount"), windows=EXACT),
        sw.Feature("basket", sw.mean("amount"), windows=EXACT),
        sw.Feature("items", sw.sum("items"), windows=EXACT),
        sw.Feature("dearest_shop", sw.argmax("shop", by="amount"), windows=EXACT),
        sw.Feature("last_shops", sw.last_k("shop", k=3), windows=EXACT),
        sw.Feature("shops", sw.distinct_count("shop"), windows=EXACT),
        sw.Feature("any_dear", sw.bool_or("dear"), windows=EXACT),
        sw.Feature("tags", sw.count_by("tags"), windows=EXACT),
    ],
)

exactly_by_shop_and_card = sw.FeatureView(
    "exactly_by_shop_and_card",
    source=payments,
    entity=["shop", "card"],
    features=[sw.Feature("spent", sw.sum("amount"), windows=[sw.rows(3), sw.exact_range("1h")])],
)

sharing_its_list = sw.FeatureView(
    "sharing_its_list",
    source=payments,
    entity=["shop", "card"],
    features=[sw.Feature("most", sw.max("amount"), windows=[sw.rows(7)])],
)

everything_exactly = sw.FeatureView(
    "everything_exactly",
    source=payments,
    entity=[],
    capacity=100_000,
    features=[
        sw.Feature(
            "amounts", sw.last_k("amount", k=5), windows=[sw.rows(50), sw.exact_range("10m")]
        )
    ],
)

risk = sw.FeatureSet(
    "risk",
    features=[
        "by_card:payments_1h",
        "by_card:spent_1d",
        "by_card:any_dear_1d",
        "everything:payments_10m",
    ],
)
