"""Will a flight leave more than 15 minutes late? Features of a model, and a log of its answers.

The events are those of examples/flights, the year 2013 compressed into eight hours: ten minutes of
these windows are 7.6 days of 2013. An event comes when the flight arrives; its time is the
scheduled departure.
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
        sw.Feature("departed", sw.count("dep_delay"), windows=["1h"]),
        sw.Feature("delay", sw.mean("dep_delay"), windows=["10m", "1h"]),
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
    features=[sw.Feature("delay", sw.mean("dep_delay"), windows=["10m"])],
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
    ],
    log=requests,
    owner="operations",
    description="Numbers that the models of models.toml read.",
    tags=["delay", "model"],
)
