"""A view that can be written in both forms has the fingerprints of its Python in its SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates import Aggregate
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.sql.python_form import python_form
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US, SECOND_US, format_duration
from slicewise.windows.kinds import as_window

SOURCE = sw.KafkaSource(
    "events",
    schema={
        "user": "string",
        "shop": "long",
        "song": "string",
        "seconds": "double",
        "stars": "long",
        "liked": "boolean",
        "price": "decimal(12,2)",
        "ts": "timestamp_ms",
    },
    timestamp="ts",
)
UNITS = {"SECOND": SECOND_US, "MINUTE": MINUTE_US, "HOUR": HOUR_US, "DAY": DAY_US}
CONDITIONS = (
    "liked",
    "stars >= 4 AND liked",
    "song IN ('a', 'b') OR seconds < 1e3",
    "NOT (price > 3.5)",
)


@dataclass(frozen=True)
class Both:
    """An aggregate in both forms."""

    python: Aggregate
    sql: str


def both() -> st.SearchStrategy[Both]:
    numbers, texts = (
        st.sampled_from(["seconds", "stars", "price"]),
        st.sampled_from(["song", "shop", "stars"]),
    )
    anything, k = st.sampled_from(["song", "seconds", "stars", "price"]), st.integers(1, 9)
    where = st.sampled_from(CONDITIONS)
    return st.one_of(
        st.just(Both(sw.count(), "count(*)")),
        anything.map(lambda c: Both(sw.count(c), f"COUNT({c})")),
        numbers.map(lambda c: Both(sw.sum(c), f"sum({c})")),
        numbers.map(lambda c: Both(sw.mean(c), f"AVG({c})")),
        anything.map(lambda c: Both(sw.min(c), f"min({c})")),
        anything.map(lambda c: Both(sw.max(c), f"max({c})")),
        st.tuples(anything, numbers).map(
            lambda p: Both(sw.argmax(p[0], by=p[1]), f"max_by({p[0]}, {p[1]})")
        ),
        st.tuples(anything, numbers).map(
            lambda p: Both(sw.argmin(p[0], by=p[1]), f"argmin({p[0]}, by => {p[1]})")
        ),
        st.tuples(anything, numbers, k).map(
            lambda p: Both(
                sw.top_k(p[0], by=p[1], k=p[2]), f"top_k({p[0]}, k => {p[2]}, by => {p[1]})"
            )
        ),
        st.tuples(anything, k).map(
            lambda p: Both(sw.last_k(p[0], k=p[1]), f"last_k({p[0]}, k => {p[1]})")
        ),
        texts.map(lambda c: Both(sw.distinct_count(c), f"count(DISTINCT {c})")),
        anything.map(lambda c: Both(sw.first(c), f"first_value({c} IGNORE NULLS)")),
        st.just(Both(sw.bool_or("liked"), "logical_or(liked)")),
        where.map(lambda w: Both(sw.count(where=w), f"count(*) FILTER (WHERE {w})")),
        st.tuples(numbers, where).map(
            lambda p: Both(sw.sum(p[0], where=p[1]), f"sum({p[0]}) FILTER (WHERE {p[1]})")
        ),
        st.just(
            Both(sw.bucketed(sw.sum("seconds"), by="song"), "bucketed(sum(seconds), by => song)")
        ),
    )


def lengths() -> st.SearchStrategy[tuple[int, str]]:
    """(microseconds, INTERVAL …)."""
    counts = {"SECOND": 600, "MINUTE": 600, "HOUR": 100, "DAY": 40}
    return st.sampled_from(sorted(counts)).flatmap(
        lambda unit: st.integers(1, counts[unit]).map(
            lambda n: (n * UNITS[unit], f"INTERVAL '{n}' {unit}")
        )
    )


@st.composite
def views(draw: st.DrawFn) -> tuple[str, sw.FeatureView]:
    """A view as SQL and as Python."""
    entity = draw(st.lists(st.sampled_from(["user", "shop"]), unique=True, min_size=1))
    where = draw(st.none() | st.sampled_from(CONDITIONS))
    kind = draw(st.sampled_from(["sliding", "sliding", "tumbling", "hopping"]))
    wanted = draw(st.lists(both(), min_size=1, max_size=4))
    if kind == "sliding":
        items, features, rest = draw(_sliding(wanted, entity))
    else:
        items, features, rest = draw(_grouped(wanted, entity, kind))
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["owner"] = draw(st.sampled_from(["music", "it''s".replace("''", "")]))
    if draw(st.booleans()):
        options["spread"] = True
    given_ = ", ".join(
        f"{name} = " + ("TRUE" if value is True else f"'{value}'")
        for name, value in options.items()
    )
    text = (
        f"CREATE FEATURE VIEW v {f'WITH ({given_}) ' if given_ else ''}AS\n"
        f"SELECT {', '.join([*entity, *items])}\nFROM events\n"
        f"{f'WHERE {where} ' if where else ''}{rest}"
    )
    python = sw.FeatureView(
        "v", source=SOURCE, entity=entity, where=where, features=features, **options
    )
    return text, python


@st.composite
def _sliding(
    draw: st.DrawFn, wanted: list[Both], entity: list[str]
) -> tuple[list[str], list[sw.Feature], str]:
    chosen = draw(st.lists(lengths(), min_size=1, max_size=3, unique_by=lambda pair: pair[0]))
    named = draw(st.booleans())
    base = f"PARTITION BY {', '.join(draw(st.permutations(entity)))} ORDER BY SLICE(ts)"
    items = [
        (
            f"{item.sql} OVER ({f'w {_frame(sql)}' if named else f'{base} {_frame(sql)}'}) AS "
            f"f{i}_{format_duration(us)}"
        )
        for i, item in enumerate(wanted)
        for us, sql in chosen
    ]
    windows = [format_duration(us) for us, _ in chosen]
    features = [sw.Feature(f"f{i}", item.python, windows) for i, item in enumerate(wanted)]
    return draw(st.permutations(items)), features, f"WINDOW w AS ({base})" if named else ""


def _frame(interval: str) -> str:
    return f"RANGE BETWEEN {interval} PRECEDING AND CURRENT ROW"


@st.composite
def _grouped(
    draw: st.DrawFn, wanted: list[Both], entity: list[str], kind: str
) -> tuple[list[str], list[sw.Feature], str]:
    opened = draw(st.booleans())
    us, sql = draw(lengths())
    times = draw(st.integers(1, 4))
    if kind == "tumbling":
        window, call = sw.tumbling(format_duration(us), open=opened), f"TUMBLE(ts, {sql}"
    else:
        long = f"INTERVAL '{us * times // SECOND_US}' SECOND"
        window = sw.hopping(format_duration(us * times), every=format_duration(us), open=opened)
        call = f"HOP(ts, {sql}, {long}"
    call += ", open => TRUE)" if opened else ")"
    items = [f"{item.sql} AS f{i}_{window.column_suffix()}" for i, item in enumerate(wanted)]
    features = [sw.Feature(f"f{i}", item.python, [window]) for i, item in enumerate(wanted)]
    return items, features, f"GROUP BY {', '.join(draw(st.permutations([*entity, call])))}"


def fingerprints(view: sw.FeatureView) -> list[tuple[str, str]]:
    units = plan(Project.of("project", [view])).units
    return sorted((unit.storage_fingerprint, unit.definition_fingerprint) for unit in units)


@settings(max_examples=40, deadline=None)
@given(views())
def test_sql_and_python_are_one_definition(pair: tuple[str, sw.FeatureView]) -> None:
    text, python = pair
    made = sw.sql(text, sources=[SOURCE])
    assert fingerprints(made) == fingerprints(python), text
    for own, theirs in zip(
        sorted(made.features, key=lambda f: f.name),
        sorted(python.features, key=lambda f: f.name),
        strict=True,
    ):
        assert {as_window(w) for w in own.windows} == {as_window(w) for w in theirs.windows}
    scope: dict[str, Any] = {"sw": sw}
    exec(python_form(made), scope)
    (again,) = (value for value in scope.values() if isinstance(value, sw.FeatureView))
    assert fingerprints(again) == fingerprints(python), python_form(made)
