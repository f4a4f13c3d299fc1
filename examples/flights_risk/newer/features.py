"""The definitions of the folder above, changed: delays of the last twenty seconds count as well.

Twenty seconds are six hours of 2013: the weather and the queues of this very day. A window of
twenty seconds needs finer slices than the live views store, so `carrier` and `new_york` become
versions of their own.
"""

import slicewise as sw

flights = sw.KafkaSource(
    "flights",
    schema={
        "number": "int64",
        "scheduled": "timestamp_us",
        "carrier": "string",
        "origin": "string",
        "dest": "string",
        "dep_delay": "int64",  # minutes; null for a cancelled flight
        "arr_delay": "int64",
        "cancelled": "boolean",
    },
    timestamp="scheduled",
    max_lateness="15m",
    required=["carrier", "cancelled"],
    owner="operations",
    description="Flights that left New York in 2013, each as it arrived or was cancelled.",
)

carrier = sw.FeatureView(
    "carrier",
    source=flights,
    entity=["carrier"],
    features=[
        sw.Feature("flights", sw.count(), windows=["1h"]),
        sw.Feature("departed", sw.count("dep_delay"), windows=["20s", "1h"]),
        sw.Feature("delay", sw.mean("dep_delay"), windows=["20s", "10m", "1h"]),
    ],
    owner="operations",
    description="Delays of an airline's departures, in minutes.",
)

route = sw.FeatureView(
    "route",
    source=flights,
    entity=["origin", "dest"],
    features=[
        sw.Feature("flights", sw.count(), windows=["1d"]),
        sw.Feature("delay", sw.mean("arr_delay"), windows=["6h"]),
    ],
    owner="operations",
    description="Delays between two airports.",
)

new_york = sw.FeatureView(
    "new_york",
    source=flights,
    entity=[],
    features=[
        sw.Feature("departed", sw.count("dep_delay"), windows=["20s"]),
        sw.Feature("delay", sw.mean("dep_delay"), windows=["20s", "10m"]),
    ],
    owner="operations",
    description="The whole city as one entity.",
)

requests = sw.request_log()
predictions = sw.prediction_log()
labels = sw.label_log()
by_set = sw.request_view(requests)
by_model = sw.prediction_view(predictions)
matured = sw.label_view(labels)

delay_risk = sw.FeatureSet(
    "delay_risk",
    features=[
        "carrier:delay_10m",
        "carrier:delay_1h",
        "carrier:flights_1h",
        "carrier:departed_1h",
        "route:delay_6h",
        "route:flights_1d",
        "new_york:delay_10m",
        "carrier:delay_20s",
        "carrier:departed_20s",
        "new_york:delay_20s",
        "new_york:departed_20s",
    ],
    log=requests,
    owner="operations",
    description="Numbers that the models of models.toml read.",
    tags=["delay", "model"],
)
