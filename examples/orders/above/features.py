"""Orders of a shop: what is paid counts from ten on, a version beside the live one."""

import slicewise as sw

orders = sw.KafkaSource(
    "orders",
    schema={
        "customer": "string",
        "status": "string",
        "price": "decimal(6,2)",
        "note": "string",
        "ordered_at": "timestamp_rfc3339",
    },
    timestamp="ordered_at",
    required=["customer"],
    max_lateness="7d",
)

by_customer = sw.FeatureView(
    "by_customer",
    source=orders,
    entity=["customer"],
    features=[
        sw.Feature("orders", sw.count(), windows=["1d", "30d"]),
        sw.Feature("by_status", sw.count_by("status", max_categories=20), windows=["1d"]),
    ],
)

paid = sw.FeatureView(
    "paid",
    source=orders,
    entity=["customer"],
    where="price >= 10",
    features=[sw.Feature("paid", sw.sum("price"), windows=["1d", "30d"])],
)
