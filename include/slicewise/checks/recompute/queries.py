"""The SQL of the recomputation: every aggregate by Spark's own means, with its own total order of
events.

It reads what a feature's definition says (kind, columns, k) and shares nothing with the code that
accumulates. Tables: `check_rows` holds the rows of each question's window, with columns `w`,
`bits`, `seq`, `t`, `topic_id`, `p`, `o` and `v_<column>`; a bit of `bits` says that the window is
asked by an aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.checks.judges.exact import HALF
from slicewise.checks.row_functions import function_name
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.rowlogic.functions.dialects import to_spark
from slicewise.features.schema.types import DOUBLE, LONG, STRING, TIMESTAMP
from slicewise.windows.durations import HOUR_US

ROWS = "check_rows"
EVENT_ID = "event_id_"
"""Column of ids, in rows of a source whose events count once by theirs."""
RANKED = frozenset(["argmin", "argmax", "top_k", "bottom_k", "last_k"])
SIMPLE = frozenset(["count", "sum", "mean", "min", "max", "bool_and", "bool_or"])
BY_SQL = RANKED | SIMPLE | {"distinct_count"}
"""Kinds that Spark SQL recomputes; a judge says the others' values."""
ORDER = "t, topic_id, p, o"
NEWEST = "t DESC, topic_id DESC, p DESC, o DESC"
MAX_DOUBLE = "1.7976931348623157E308D"


@dataclass(frozen=True)
class Aggregated:
    """An aggregate as its definition says it: `key` tells equal ones, whatever their windows."""

    key: str
    kind: str
    parameters: Mapping[str, Any]
    inputs: tuple[str, ...] = ()
    """Columns that it reads; a judge is given these."""

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]


def aggregated(spec: Mapping[str, Any], inputs: Sequence[str] = ()) -> Aggregated:
    """From an aggregate's own description of kind and parameters."""
    key = ", ".join(f"{name}={spec[name]!r}" for name in sorted(spec))
    return Aggregated(key, str(spec["kind"]), spec, tuple(inputs))


def kinds_of(unit: StorageUnit, source: Source) -> dict[str, str]:
    """Type of every column that row logic or the source gives this unit."""
    row_logic = {name: expression.kind for name, expression in unit.columns}
    return (
        dict(source.columns)
        | row_logic
        | {name: function.kind for name, function in unit.functions}
    )


def archived(table: str, source: Source, start_us: int, end_us: int) -> str:
    """Good events with time in [start, end): identity, seq, t, kafka_t, and the source's columns as
    c_."""
    return (
        f"{_good(table, source)} "
        f"AND hour BETWEEN {start_us // HOUR_US} AND {end_us // HOUR_US} "
        f"AND event_time >= timestamp_micros({start_us}) AND event_time < timestamp_micros({end_us})"
    )


def archived_since(table: str, source: Source, kafka_us: int) -> str:
    """The same of all good events whose Kafka time is this or later."""
    return f"{_good(table, source)} AND kafka_time >= timestamp_micros({kafka_us})"


def _good(table: str, source: Source) -> str:
    columns = ", ".join(
        f"unix_micros(`{name}`) AS `c_{name}`" if kind == TIMESTAMP else f"`{name}` AS `c_{name}`"
        for name, kind in source.columns
    )
    return (
        f"SELECT topic_id, partition AS p, offset AS o, archive_seq AS seq, unix_micros(event_time) AS t, "
        f"unix_micros(kafka_time) AS kafka_t, {columns} FROM {table} WHERE kind = 'good'"
    )


def viewed(unit: StorageUnit, source: Source, events: str) -> str:
    """The rows that the view takes of `events`: entity columns e_, and what aggregates read as v_.

    Row logic's text is the definition, and shared; a double's negative zero is zero. A computed
    double that is not finite leaves the row out, whether or not an aggregate of this unit reads it.
    """
    computed = dict(unit.columns)
    kinds = kinds_of(unit, source)
    values = {}
    doubles = {name for name in computed if kinds[name] == DOUBLE}
    for name in sorted({name for name, _ in unit.given_types} | doubles):
        text = f"({to_spark(computed[name].tree, _column)})" if name in computed else _column(name)
        values[name] = (
            f"CASE WHEN {text} = 0 THEN 0D ELSE {text} END" if kinds[name] == DOUBLE else text
        )
    entity = [f"{_column(name)} AS `e_{name}`" for name, _ in unit.entity]
    selected = ", ".join([*entity, *(f"{text} AS `v_{name}`" for name, text in values.items())])
    # the events are named: Spark reads `(…) WHERE (a_column)` as a name WHERE with a list of
    # columns
    where = (
        f"AS archived WHERE ({to_spark(unit.where.tree, _column)})"
        if unit.where is not None
        else ""
    )
    finite = [
        f"coalesce(`v_{name}` BETWEEN -{MAX_DOUBLE} AND {MAX_DOUBLE}, TRUE)"
        for name in sorted(doubles)
    ]
    not_null = [f"`e_{name}` IS NOT NULL" for name, _ in unit.entity]
    kept = " AND ".join([*finite, *not_null]) or "TRUE"
    event_id = "" if unit.dedupe is None else f", {_column(unit.dedupe.column)} AS {EVENT_ID}"
    head = f"SELECT topic_id, p, o, seq, t, kafka_t{event_id}" + (
        f", {selected}" if selected else ""
    )
    query = f"SELECT * FROM ({head} FROM ({events}) {where}) WHERE {kept}"
    for number, (name, function) in enumerate(unit.functions):
        arguments = ", ".join(f"`v_{column}`" for column in function.reads)
        query = f"SELECT *, {function_name(number)}({arguments}) AS f_{number} FROM ({query})"
        query = f"SELECT *, f_{number}.value AS `v_{name}` FROM ({query}) WHERE f_{number}.there"
    return query


def last_rows(joined: str) -> str:
    """Selects the rows of windows that count: the latest `most` of a window, all where that is
    0."""
    ranked = f"SELECT *, row_number() OVER (PARTITION BY w ORDER BY {NEWEST}) AS from_end FROM ({joined})"
    return f"SELECT * FROM ({ranked}) WHERE most = 0 OR from_end <= most"


INSIDE = "(k.t >= i.start_us AND k.t < i.end_us)"
"""Condition by which a row `k` lies in a window `i`."""
ADDED = "(i.times > 1 AND (i.to_us <= i.start_us OR i.from_us >= i.end_us))"
"""Condition by which a window has a part from outside beside its own events."""
THERE = (
    "(k.t >= i.from_us AND k.t < i.to_us AND (i.of_p IS NULL OR (k.p = i.of_p AND k.topic_id = i.of_topic)) "
    "AND (i.first_o IS NULL OR k.o >= i.first_o) AND (i.last_o IS NULL OR k.o <= i.last_o) "
    "AND (i.after_seq IS NULL OR k.seq > i.after_seq) AND (i.to_seq IS NULL OR k.seq <= i.to_seq) "
    "AND NOT (i.late AND k.in_time))"
)
"""Condition by which a row belongs to the window's part."""


def partly(joined: str) -> str:
    """Repeats the rows of a window's part as many times as it says."""
    times = "CASE WHEN there AND inside THEN times WHEN there THEN times - 1 ELSE 1 END"
    return f"SELECT *, explode(sequence(1, {times})) AS nth FROM ({joined}) WHERE NOT there OR times > 0"


STORED_COLUMNS = ("number", "topic_id", "p", "seq", "late", "offsets", "n")
MOST_STORED, MOST_OFFSETS = 5_000, 1_000


def stored_slices(slice_us: int) -> str:
    """The events of each window by slice, partition, archive and whether they were late: how many,
    and their offsets."""
    of = f"w, t DIV {slice_us} AS number, topic_id, p, seq, NOT in_time AS late"
    offsets = f"slice(array_sort(collect_list(o)), 1, {MOST_OFFSETS}) AS offsets"
    groups = f"SELECT {of}, {offsets}, count(*) AS n FROM {ROWS} GROUP BY ALL"
    numbered = (
        "row_number() OVER (PARTITION BY w ORDER BY number DESC, topic_id, p, seq, late) AS place"
    )
    return f"SELECT * FROM (SELECT *, {numbered} FROM ({groups})) WHERE place <= {MOST_STORED} ORDER BY w, place"


def _column(name: str) -> str:
    return f"`c_{name}`"


def sampled(unit: StorageUnit, viewed_rows: str, run: str, limit: int, recent_us: int) -> str:
    """`limit` entities by the hash of run and key: most of them with events since `recent_us`."""
    columns = ", ".join(f"`e_{name}`" for name, _ in unit.entity)
    text = ", ".join(f"cast(`e_{name}` AS string)" for name, _ in unit.entity)
    digest = f"sha2(concat_ws(char(31), '{run}', {text}), 256)"
    grouped = f"SELECT {columns}, {digest} AS digest, max(t) AS newest FROM ({viewed_rows}) GROUP BY {columns}"
    some = max(1, limit // 10)
    recent = f"SELECT * FROM ({grouped}) WHERE newest >= {recent_us} ORDER BY digest LIMIT {max(1, limit - some)}"
    anyone = f"SELECT * FROM ({grouped}) ORDER BY reverse(digest) LIMIT {some}"
    return f"SELECT DISTINCT {columns} FROM (({recent}) UNION ALL ({anyone}))"


def question_values(viewed_rows: str, column: str, run: str, limit: int) -> str:
    """`limit` values of a column, by the hash of run and value."""
    digest = f"sha2(concat_ws(char(31), '{run}', cast(value AS string)), 256)"
    values = (
        f"SELECT DISTINCT `v_{column}` AS value FROM ({viewed_rows}) WHERE `v_{column}` IS NOT NULL"
    )
    return f"SELECT value FROM ({values}) ORDER BY {digest} LIMIT {limit}"


def sum_in_python(aggregate: Aggregated, kinds: Mapping[str, str]) -> bool:
    """Tells whether it is an exact sum or mean that SQL has no means for: of doubles and
    decimals."""
    return aggregate.kind in ("sum", "mean") and kinds[aggregate["column"]] != LONG


def simple(
    aggregates: Iterable[Aggregated], kinds: Mapping[str, str]
) -> tuple[str, dict[str, str]] | None:
    """One query of all aggregates that need no order and no distinct; and its column per key.

    A sum or mean of longs has its halves and number of values as `_upper`, `_lower` and `_n` of its
    column; of a sum of doubles `_plain` and `_n` are the ordinary sum and the number of values.
    """
    expressions: list[str] = []
    names: dict[str, str] = {}
    for number, aggregate in enumerate(aggregates):
        texts = _simple(aggregate, kinds)
        if texts:
            names[aggregate.key] = f"a{number}"
            expressions += [f"{text} AS a{number}{name}" for name, text in texts.items()]
    if not expressions:
        return None
    return f"SELECT w, {', '.join(expressions)} FROM {ROWS} GROUP BY w", names


def _simple(aggregate: Aggregated, kinds: Mapping[str, str]) -> dict[str, str]:
    if aggregate.kind == "count":
        return {
            "": "count(*)" if aggregate["column"] is None else f"count(`v_{aggregate['column']}`)"
        }
    if aggregate.kind not in SIMPLE:
        return {}
    value = f"`v_{aggregate['column']}`"
    if aggregate.kind not in ("sum", "mean"):
        return {"": f"{aggregate.kind}({value})"}
    if kinds[aggregate["column"]] == LONG:
        halves = {
            "_upper": f"shiftright({value}, {HALF})",
            "_lower": f"{value} & {(1 << HALF) - 1}L",
        }
        return {name: f"sum({half})" for name, half in halves.items()} | {"_n": f"count({value})"}
    if aggregate.kind == "sum" and kinds[aggregate["column"]] == DOUBLE:
        return {"_plain": f"sum({value})", "_n": f"count({value})"}
    return {}


def distinct(aggregate: Aggregated, kinds: Mapping[str, str], bit: int) -> str:
    """Counts distinct values, and the bytes of their texts together, of windows with this bit of
    `bits`."""
    value = f"`v_{aggregate['column']}`"
    size = f"octet_length({value})" if kinds[aggregate["column"]] == STRING else "0"
    values = (
        f"SELECT DISTINCT w, {value} FROM {ROWS} WHERE {_with_bit(bit)} AND {value} IS NOT NULL"
    )
    return f"SELECT w, count(*) AS n, sum({size}) AS bytes FROM ({values}) GROUP BY w"


def _with_bit(bit: int) -> str:
    return f"(bits & {bit}L) <> 0"


def sessions(gap_us: int) -> str:
    """First and last event time of every session of each group: `first_t`, `last_t`."""
    apart = "t - lag(t) OVER (PARTITION BY w ORDER BY t)"
    opens = f"SELECT w, t, CASE WHEN {apart} < {gap_us} THEN 0 ELSE 1 END AS opens FROM {ROWS}"
    nth = "sum(opens) OVER (PARTITION BY w ORDER BY t ROWS UNBOUNDED PRECEDING)"
    numbered = f"SELECT w, t, {nth} AS nth FROM ({opens})"
    return f"SELECT w, nth, min(t) AS first_t, max(t) AS last_t FROM ({numbered}) GROUP BY w, nth"


def ranked(aggregate: Aggregated, bit: int) -> str:
    """The chosen rows in their order, of windows with this bit of `bits`: `place` from 1,
    `rank_by`, `payload`."""
    if aggregate.kind == "last_k":
        value = f"`v_{aggregate['column']}`"
        rank, payload, order, present = "NULL", value, NEWEST, f"{value} IS NOT NULL"
    else:
        rank, payload = f"`v_{aggregate['by']}`", f"`v_{aggregate['payload']}`"
        direction = "DESC" if aggregate.kind in ("argmax", "top_k") else "ASC"
        order, present = f"{rank} {direction}, {ORDER}", f"{rank} IS NOT NULL"
    k = aggregate.parameters.get("k", 1)
    numbered = f"row_number() OVER (PARTITION BY w ORDER BY {order})"
    rows = f"SELECT * FROM {ROWS} WHERE {_with_bit(bit)} AND {present}"
    if aggregate.kind in ("argmin", "argmax"):
        # only those of the best rank are put in order
        best = f"SELECT w AS best_w, {aggregate.kind[3:]}({rank}) AS best FROM ({rows}) GROUP BY w"
        rows = f"SELECT /*+ BROADCAST(b) */ r.* FROM ({rows}) r JOIN ({best}) b ON w = best_w AND {rank} = best"
    placed = f"SELECT w, {rank} AS rank_by, {payload} AS payload, {numbered} AS place FROM ({rows})"
    return f"SELECT * FROM ({placed}) WHERE place <= {k} ORDER BY w, place"


def raw(aggregate: Aggregated, ws: Iterable[int]) -> str:
    """Columns that the engine's own recomputation of an approximate aggregate needs, of these
    windows."""
    columns = ", ".join(
        ("w", "t", "topic_id", "p", "o", *(f"`v_{name}`" for name in aggregate.inputs))
    )
    return f"SELECT {columns} FROM {ROWS} WHERE w IN ({', '.join(map(str, ws))})"


def whole(columns: Iterable[str], bit: int) -> str:
    """These columns of the rows of windows with this bit of `bits`, all of a window together."""
    return f"SELECT {', '.join(('w', *columns))} FROM {ROWS} WHERE {_with_bit(bit)} DISTRIBUTE BY w SORT BY w"
