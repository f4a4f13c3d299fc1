"""Delays of New York's flights: by carrier, by route, and for the whole city.

The events are the flights of 2013, the year compressed into a day: an hour of these windows is
fifteen days of 2013. An event's time is the scheduled departure; it is logged when the flight
arrives (a cancelled one: when it should have left), so events are truly out of order.
"""

import slicewise as sw

flights = sw.KafkaSource(
    "flights",
    schema={
        "number": "int64",
        "scheduled": "timestamp_us",
        "carrier": "string",
        "flight": "int64",
        "tailnum": "string",
        "origin": "string",
        "dest": "string",
        "distance": "int64",
        "dep_delay": "int64",  # minutes; null for a cancelled flight
        "arr_delay": "int64",
        "air_time": "int64",
        "cancelled": "boolean",
    },
    timestamp="scheduled",
    max_lateness="15m",  # the latest flight of 2013 arrived 32 hours late, here five minutes
    required=["carrier", "cancelled"],
    owner="operations",
    description="Flights that left New York in 2013, each as it arrived or was cancelled.",
    tags=["public"],
)


def flight(
    at: int, carrier: str = "UA", delay: int | None = 0, **more: object
) -> dict[str, object]:
    """An event for the tests below: `at` in seconds after the epoch."""
    event = {
        "scheduled": at * 1_000_000,
        "carrier": carrier,
        "flight": 1,
        "tailnum": "N1",
        "origin": "EWR",
        "dest": "IAH",
        "distance": 1400,
        "dep_delay": delay,
        "arr_delay": delay,
        "air_time": None if delay is None else 200,
        "cancelled": delay is None,
    }
    return {**event, **more}


carrier = sw.FeatureView(
    "carrier",
    source=flights,
    entity=["carrier"],
    columns={
        "late": "dep_delay > 15",
        "route": "CONCAT(origin, '-', dest)",
        "made_up": "dep_delay - arr_delay",
    },
    features=[
        sw.Feature(
            "flights",
            sw.count(),
            # the last: the hour (fifteen days of 2013) before the last one, to compare with
            windows=["10m", "1h", "6h", "1d", sw.tumbling("1h"), sw.sliding("1h", offset="1h")],
        ),
        sw.Feature(
            "departed",
            sw.count("dep_delay"),
            windows=["10m", "1h", "1d"],
            description="Flights that left; flights_… counts cancelled ones too.",
        ),
        sw.Feature("delay_total", sw.sum("dep_delay"), windows=["1h", "1d"]),
        sw.Feature(
            "delay",
            sw.mean("dep_delay"),
            windows=["10m", "1h", "6h", "1d", sw.hopping("1h", every="10m")],
        ),
        sw.Feature("delay_least", sw.min("dep_delay"), windows=["1h", "1d"]),
        sw.Feature("delay_most", sw.max("dep_delay"), windows=["1h", "1d"]),
        sw.Feature("worst_route", sw.argmax("route", by="dep_delay"), windows=["1h", "1d"]),
        sw.Feature("best_route", sw.argmin("route", by="dep_delay"), windows=["1h"]),
        sw.Feature("last_delays", sw.last_k("dep_delay", k=5), windows=["1h"]),
        sw.Feature("planes", sw.distinct_count("tailnum"), windows=["1h", "1d"]),
        sw.Feature("any_late", sw.bool_or("late"), windows=["10m", "1h"]),
        sw.Feature("all_late", sw.bool_and("late"), windows=["10m"]),
        sw.Feature(
            "made_up",
            sw.mean("made_up"),
            windows=["1d"],
            description="Minutes by which a flight was less late on arrival than on departure.",
        ),
        sw.Feature("very_late", sw.count(where="dep_delay >= 120"), windows=["10m", "1h"]),
        sw.Feature("delay_shares", sw.quantiles("dep_delay", q=[0.5, 0.95]), windows=["1h"]),
        # a minute of delay weighs half as much ten minutes (2.5 days of 2013) later
        sw.Feature("delay_lately", sw.decay_sum("dep_delay", half_life="10m"), windows=["1h"]),
        sw.Feature("delay_from", sw.bucketed(sw.mean("dep_delay"), by="origin"), windows=["1h"]),
    ],
    owner="operations",
    description="Delays of an airline's departures, in minutes.",
    tags=["delay"],
    tests=[
        sw.case(
            name="a cancelled flight counts, but has no delay",
            events=[flight(600), flight(660, delay=30), flight(720, delay=None)],
            entity={"carrier": "UA"},
            at="1970-01-01T00:13:00Z",
            expect={"flights_10m": 3, "departed_10m": 2, "delay_10m": 15.0, "any_late_10m": True},
        ),
        sw.case(
            name="an event at the very moment of the question is not in the answer",
            events=[flight(600), flight(780)],
            entity={"carrier": "UA"},
            at="1970-01-01T00:13:00Z",
            expect={"flights_1h": 1},
        ),
        sw.case(
            name="a carrier without flights has counts of zero and no delay",
            events=[flight(600)],
            entity={"carrier": "ZZ"},
            at="1970-01-01T00:13:00Z",
            expect={"flights_1d": 0, "delay_1d": None},
        ),
        sw.case(
            name="of two in three flights, half are below 20 minutes; each airport has its own mean",
            events=[
                flight(600, delay=10),
                flight(601, delay=20, origin="JFK"),
                flight(602, delay=180, origin="JFK"),
            ],
            entity={"carrier": "UA"},
            at="1970-01-01T00:30:00Z",
            expect={
                "delay_shares_1h": [20.0, 180.0],
                "delay_from_1h": [{"key": "EWR", "value": 10.0}, {"key": "JFK", "value": 100.0}],
                "very_late_1h": 1,
                "very_late_10m": 0,
            },
        ),
        sw.case(
            name="the hour before the last one",
            events=[flight(600), flight(601), flight(4200)],
            entity={"carrier": "UA"},
            at="1970-01-01T02:00:00Z",
            expect={"flights_1h": 1, "flights_1h_offset_1h": 2},
        ),
        sw.case(
            name="ten minutes halve a delay",
            events=[flight(600, delay=32)],
            entity={"carrier": "UA"},
            at="1970-01-01T00:20:00Z",
            expect={"delay_lately_1h": 16.0},
        ),
    ],
)

route = sw.FeatureView(
    "route",
    source=flights,
    entity=["origin", "dest"],
    # of flights that arrived: both are null for others, and division by zero is null too
    columns={"miles_per_hour": "distance * 60 / air_time"},
    features=[
        sw.Feature("flights", sw.count(), windows=["1h", "1d"]),
        sw.Feature("delay", sw.mean("arr_delay"), windows=["1h", "6h", "1d"]),
        sw.Feature("speed", sw.mean("miles_per_hour"), windows=["6h", "1d"]),
        sw.Feature("speed_total", sw.sum("miles_per_hour"), windows=["1d"]),
        sw.Feature("fastest_carrier", sw.argmax("carrier", by="miles_per_hour"), windows=["1d"]),
        sw.Feature("carriers", sw.distinct_count("carrier"), windows=["1d", sw.tumbling("6h")]),
    ],
    owner="operations",
    description="Delays and speed between two airports.",
    tags=["delay"],
    tests=[
        sw.case(
            name="a route is its two airports",
            events=[flight(600, delay=10), flight(601, delay=20, dest="MIA")],
            entity={"origin": "EWR", "dest": "MIA"},
            at="1970-01-01T00:30:00Z",
            expect={"flights_1h": 1, "delay_1h": 20.0, "speed_6h": 420.0},
        )
    ],
)

long_haul = sw.FeatureView(
    "long_haul",
    source=flights,
    entity=["carrier"],
    where="distance >= 1500 AND NOT cancelled",
    features=[
        sw.Feature("flights", sw.count(), windows=["1h", "1d"]),
        sw.Feature("miles", sw.sum("distance"), windows=["1d"]),
        sw.Feature("all_made_it", sw.bool_and("arrived"), windows=["1d"]),
    ],
    columns={"arrived": "arr_delay IS NOT NULL"},
    owner="operations",
    description="Flights of 1,500 miles and more that were not cancelled.",
    tests=[
        sw.case(
            name=(
                "short and cancelled flights are none of these; one that was diverted did not "
                "make it"
            ),
            events=[
                flight(600, distance=1600),
                flight(601, distance=1600, arr_delay=None),
                flight(602, distance=1600, delay=None),
                flight(603),
            ],
            entity={"carrier": "UA"},
            at="1970-01-01T00:30:00Z",
            expect={"flights_1h": 2, "miles_1d": 3200, "all_made_it_1d": False},
        )
    ],
)

cancellations = sw.FeatureView(
    "cancellations",
    source=flights,
    entity=["carrier"],
    where="cancelled",
    features=[
        # windows that are exact to the microsecond: answered from the events themselves, so for few
        # of them
        sw.Feature("flights", sw.count(), windows=[sw.exact_range("10m"), sw.exact_range("1h")]),
        sw.Feature("airports", sw.count_by("origin"), windows=[sw.rows(20)]),
    ],
    owner="operations",
    description="Flights of an airline that were cancelled.",
    tests=[
        sw.case(
            name="a range is closed at both ends, and none but cancelled flights are in it",
            events=[
                flight(600, delay=None),
                flight(601, delay=5),
                flight(1200, delay=None, origin="LGA"),
            ],
            entity={"carrier": "UA"},
            at="1970-01-01T00:20:00Z",
            expect={
                "flights_exact_10m": 2,
                "airports_rows_20": [{"key": "EWR", "value": 1}, {"key": "LGA", "value": 1}],
            },
        )
    ],
)

new_york = sw.FeatureView(
    "new_york",
    source=flights,
    entity=[],  # one entity: everything
    columns={"flight_name": "CONCAT(carrier, CAST(flight AS STRING))"},
    features=[
        sw.Feature("flights", sw.count(), windows=["10m", "1h", sw.hopping("1h", every="10m")]),
        sw.Feature("cancelled", sw.bool_or("cancelled"), windows=["10m"]),
        sw.Feature("delay", sw.mean("dep_delay"), windows=["10m", "1h", sw.tumbling("1h")]),
        sw.Feature("worst", sw.top_k("flight_name", by="dep_delay", k=3), windows=["10m", "1h"]),
        sw.Feature("destinations", sw.distinct_count("dest"), windows=["1h"]),
        sw.Feature("busiest", sw.top_k_frequent("dest", k=5), windows=["1h"]),
    ],
    owner="operations",
    description="The whole city as one entity.",
    tags=["delay"],
    tests=[
        sw.case(
            name="where most flights go, the number of flights beside each",
            events=[flight(600), flight(601, dest="MIA"), flight(602, dest="MIA")],
            at="1970-01-01T00:30:00Z",
            expect={
                "busiest_1h": {
                    "items": [{"value": "MIA", "count": 2}, {"value": "IAH", "count": 1}],
                    "error": 0,
                    "miss": 0.0,
                }
            },
        )
    ],
)

delay_risk = sw.FeatureSet(
    "delay_risk",
    features=[
        "carrier:delay_10m",
        "carrier:delay_1h",
        "carrier:flights_1h",
        "carrier:departed_1h",
        "carrier:worst_route_1h",
        "route:delay_6h",
        "route:flights_1d",
        "new_york:delay_10m",
        "new_york:worst_10m",
    ],
    defaults={"carrier:delay_10m": 0.0, "route:delay_6h": 0.0},
    owner="operations",
    description="What a model reads that predicts how late a flight will leave.",
    tags=["delay", "model"],
)
