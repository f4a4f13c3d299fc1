"""The page of all aggregates and windows, made from their docstrings, their types and their real
output.

    python docs/reference.py            rewrite docs/reference/aggregates.md
    python docs/reference.py --check    fail where the page is not what this makes of today's code

An aggregate's docstring says what it means and ends with a line `Example: CODE`; the code runs on
the events that the page shows. Types come from what the aggregate accepts, sizes from the codec.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import slicewise as sw
from slicewise import aggregates as agg
from slicewise.aggregates.sketches.membership import answer_type, membership_of
from slicewise.codec import Layout
from slicewise.errors import DefinitionError
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.durations import format_duration
from slicewise.windows.periodic import Periodic
from slicewise.windows.session import Session
from slicewise.windows.sliding import Sliding
from slicewise.windows.window import Window

PAGE = Path(__file__).parent / "reference" / "aggregates.md"
SCHEMA = {
    "user": "string",
    "song": "string",
    "seconds": "double",
    "stars": "int64",
    "price": "decimal(8,2)",
    "liked": "boolean",
    "played": "timestamp_us",
}
EVENTS = [
    ("u1", "aria", 210.5, 4, Decimal("0.99"), True, "10:01"),
    ("u1", "blues", 95.0, 2, Decimal("1.29"), False, "10:02"),
    ("u1", "aria", 0.1, None, None, None, "10:04"),
    ("u1", "canon", 180.2, 5, Decimal("0.99"), True, "10:05"),
    ("u1", "dirge", 0.2, 3, Decimal("2.50"), False, "10:07"),
    ("u1", "aria", 240.0, 5, Decimal("0.99"), True, "10:08"),
]
DAY = "2026-03-02T"
COLUMN_TYPES = {
    "integer": pa.int64(),
    "double": pa.float64(),
    "decimal": pa.decimal128(8, 2),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "instant": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}
QUESTIONS = ["aria", "ballad"]
SEVERAL = 3
SIZES = (1, 100, 10_000)
WINDOWS = (
    sw.sliding("10m"),
    sw.sliding("1h", offset="1d"),
    sw.tumbling("1h"),
    sw.tumbling("1h", open=True),
    sw.hopping("1h", every="15m"),
    sw.hopping("1h", every="15m", open=True),
    sw.session("30m", max_length="2h"),
    sw.lifetime(),
    sw.lifetime(offset="1d"),
)
T = datetime(2026, 3, 2, 10, 20, 30, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nothing() -> Any:
    return (None, 0)


def rise(state: Any, event: Any) -> Any:
    last, n = state
    now = event["stars"]
    if now is None:
        return state
    return (now, n + 1 if last is not None and now > last else n)


def rises(state: Any) -> Any:
    return state[1]


ORDERED: dict[str, Callable[..., Any]] = {"nothing": nothing, "rise": rise, "rises": rises}
"""The functions of the ordered fold's example: how often the stars rose."""


def page() -> str:
    """The whole page."""
    functions = dict(makers())
    parts = [
        "# Aggregates and windows",
        (
            "Written by `python docs/reference.py` from docstrings, types and output; a test "
            "holds it to be current."
        ),
        "## Events of the examples",
        _events(),
        "Every example answers `sw.evaluate` at 10:10 over these events, with a window of an hour.",
        "## Aggregates",
        (
            "Every aggregate takes a condition of row logic; events for which it is not true take "
            "no part:"
        ),
        _shown('sw.mean("seconds", where="liked and stars > 4")'),
        *(_aggregate(name, maker) for name, maker in sorted(functions.items())),
        "### class Name(sw.Aggregate)",
        "An aggregate of one's own: [own_aggregates.md](../guides/own_aggregates.md).",
        "## Windows",
        _windows(),
    ]
    return "\n\n".join(_wrapped(part) for part in parts) + "\n"


def _wrapped(part: str) -> str:
    """A part of the page whose prose ends at 100 columns; tables, headings and code are as they
    were."""
    made, prose, is_code = list[str](), list[str](), False
    for line in [*part.split("\n"), ""]:
        is_fence, is_kept = line.startswith("```"), not line or line[0] in "|#"
        if prose and (is_code or is_fence or is_kept or line.startswith("- ")):
            indent = "  " if prose[0].startswith("- ") else ""
            text = " ".join(prose)
            made += textwrap.wrap(
                text, 100, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
            )
            prose = []
        if is_code or is_fence or is_kept:
            made.append(line)
        else:
            prose.append(line.strip())
        is_code ^= is_fence
    return "\n".join(made[:-1])


def makers() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of the algebra that make an aggregate, by name."""
    for name in agg.__all__:
        maker = getattr(agg, name)
        if inspect.isfunction(maker) and "Example: " in (maker.__doc__ or ""):
            yield name, maker


def undocumented() -> list[str]:
    """Functions that make an aggregate, as their annotation says, but show no example."""
    shown = dict(makers())
    missing = []
    for name in agg.__all__:
        maker = getattr(agg, name)
        if inspect.isfunction(maker) and name not in shown:
            returned = getattr(agg, str(inspect.signature(maker).return_annotation), None)
            if (
                name != "from_spec"
                and isinstance(returned, type)
                and issubclass(returned, agg.Aggregate)
            ):
                missing.append(name)
    return missing


def _events() -> str:
    head = [name for name in SCHEMA if name != "user"]
    rows = [[_cell(value) for value in event[1:]] for event in EVENTS]
    return _table(head, rows)


def _aggregate(name: str, maker: Callable[..., Any]) -> str:
    text, code = _docstring(maker)
    made = _made(code)
    whole = inspect.getdoc(type(made)) or ""
    texts = [whole] if whole.startswith(text.rstrip(".")) else [text, whole]
    about = _table(["", ""], [*_reads(made), *_partial(made)])
    return "\n\n".join(
        [f"### sw.{name}{_signature(maker)}", *filter(None, texts), about, _shown(code)]
    )


def example(maker: Callable[..., Any]) -> agg.Aggregate:
    """The aggregate of its example."""
    return _made(_docstring(maker)[1])


def _docstring(maker: Callable[..., Any]) -> tuple[str, str]:
    """The text of its docstring, and the code of its example."""
    text, _, code = str(inspect.getdoc(maker)).partition("Example: ")
    return text.strip(), code.strip().strip("`")


def _made(code: str) -> agg.Aggregate:
    aggregate: agg.Aggregate = eval(code, {"sw": sw, **ORDERED})
    return aggregate


def _shown(code: str) -> str:
    functions = "".join(
        f"{inspect.getsource(function)}\n\n"
        for name, function in ORDERED.items()
        if f"{name}," in code
    )
    return f"```python\n{functions}>>> {code}\n{_answer(_made(code))}\n```"


def _signature(maker: Callable[..., Any]) -> str:
    parameters = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in inspect.signature(maker).parameters.values()
    ]
    return str(inspect.Signature(parameters))


def _reads(made: agg.Aggregate) -> list[list[str]]:
    """Rows on what each of its columns may be, and what it answers for each type of the first."""
    rows = [
        [
            f"reads `{column}`",
            ", ".join(
                name for name, kind in COLUMN_TYPES.items() if made.accepts(column, kind) is None
            ),
        ]
        for column in made.inputs
    ]
    answers: dict[str, list[str]] = {}
    types = _types()
    if not made.inputs:
        answers[str(answer_type(made.bind({})))] = []
    for name, kind in COLUMN_TYPES.items():
        if made.inputs and made.accepts(made.inputs[0], kind) is None:
            try:
                bound = made.bind({**types, made.inputs[0]: kind})
            except DefinitionError:
                continue
            answers.setdefault(str(answer_type(bound)), []).append(name)
    kinds = [
        f"`{kind}`" + (f" of {', '.join(names)}" if names else "")
        for kind, names in answers.items()
    ]
    if len(kinds) > SEVERAL:
        kinds = [kinds[0], "likewise of the others"]
    return [*rows, ["answers", "; ".join(kinds)]]


def _partial(made: agg.Aggregate) -> list[list[str]]:
    bound = made.bind(_types())
    layout = Layout.of([bound])
    sizes = []
    for n in SIZES:
        columns = layout.partials[0].accumulate_columns(_many(n), np.zeros(n, np.int64), 1)
        sizes.append(
            f"{len(layout.encode_rows([columns])[0]):,} after {n:,} event{'s' if n > 1 else ''}"
        )
    stored = ", ".join(f"`{field.name}`" for field in bound.fields)
    undone = "yes" if isinstance(bound, agg.Invertible) else "no"
    return [
        ["partial", stored],
        ["bytes of a partial", "; ".join(sizes)],
        ["can be deducted", undone],
    ]


def _types() -> dict[str, pa.DataType]:
    types = {
        "string": pa.string(),
        "double": pa.float64(),
        "int64": pa.int64(),
        "boolean": pa.bool_(),
    }
    types |= {"timestamp_us": pa.timestamp("us", "UTC"), "decimal(8,2)": pa.decimal128(8, 2)}
    return {name: types[kind] for name, kind in SCHEMA.items()}


def _many(n: int) -> agg.Rows:
    """n events with as many different values as events have in practice."""
    numbers = np.arange(n)
    random = np.random.default_rng(n)
    times = pa.array(numbers * 1_000_000).cast(pa.timestamp("us", "UTC"))
    columns = {
        "user": pa.array(["u1"] * n),
        "song": pa.array([f"song-{integer}" for integer in random.integers(0, 5_000, n)]),
        "seconds": pa.array(random.normal(180, 60, n)),
        "stars": pa.array(random.integers(1, 6, n)),
        "price": pa.array(random.integers(50, 500, n))
        .cast(pa.decimal128(21, 2))
        .cast(pa.decimal128(8, 2)),
        "liked": pa.array(random.random(n) < 0.5),
        "played": times,
    }
    zero = np.zeros(n, np.uint64)
    return agg.Rows(numbers * 1_000_000, zero, zero, np.zeros(n, np.int32), numbers, columns)


def _answer(made: agg.Aggregate) -> str:
    source = sw.KafkaSource("plays", schema=SCHEMA, timestamp="played", max_lateness="2d")
    view = sw.FeatureView(
        "example",
        source=source,
        entity=["user"],
        features=[sw.Feature("value", made, windows=["1h"])],
    )
    events = [dict(zip(SCHEMA, [*event[:-1], _at(event[-1])], strict=True)) for event in EVENTS]
    query = {"user": "u1", "at": datetime.fromisoformat(f"{DAY}10:10:00+00:00")}
    table = sw.evaluate(view, events, [query | _question(made)])
    return _printed(table["value_1h"].to_pylist()[0])


def _question(made: agg.Aggregate) -> dict[str, list[str]]:
    """The question that the example's reader asks a filter."""
    membership = membership_of(made)
    return {} if membership is None else {membership.question: QUESTIONS}


def _at(clock: object) -> int:
    return (datetime.fromisoformat(f"{DAY}{clock}:00+00:00") - EPOCH) // timedelta(microseconds=1)


def _printed(value: Any) -> str:
    text = repr(value)
    if len(text) <= 110 or not isinstance(value, list | Mapping):
        return text
    return json.dumps(value, indent=1, default=str, ensure_ascii=False)


def _windows() -> str:
    t_us = (T - EPOCH) // timedelta(microseconds=1)
    rows = []
    for window in WINDOWS:
        slice_us = 60_000_000
        cells = [
            _interval(*window.bounds(mode, t_us, slice_us)) for mode in ("live", "at", "event_time")
        ]
        rows.append([f"`<feature>_{window.column_suffix()}`", _meaning(window), *cells])
    head = ["column", "", "live", "at", "event_time"]
    kinds: list[Callable[..., Window]] = [
        sw.sliding,
        sw.tumbling,
        sw.hopping,
        sw.session,
        sw.lifetime,
    ]
    kinds += [sw.exact_range, sw.rows]
    lines = [
        f"- `sw.{kind.__name__}{_signature(kind)}`: {' '.join(str(inspect.getdoc(kind)).split())}"
        for kind in kinds
    ]
    shown = (
        f"What they contain when they are read at {T:%H:%M:%S}, with slices of "
        f"{format_duration(60_000_000)}:"
    )
    return "\n\n".join(["\n".join(lines), shown, _table(head, rows)])


def _line(maker: Callable[..., Any]) -> str:
    return " ".join(str(inspect.getdoc(maker)).split())


def _meaning(window: Window) -> str:
    if window.unbounded:
        return "all events" + (
            f" up to {format_duration(window.offset_us)} ago" if window.offset_us else ""
        )
    length = format_duration(window.length_us)
    if isinstance(window, Sliding):
        return f"the last {length}" + (
            f", {format_duration(window.offset_us)} ago" if window.offset_us else ""
        )
    if isinstance(window, Session):
        return (
            f"the session of the latest event, with gaps under {format_duration(window.gap_us)}, "
            "looked for here"
        )
    assert isinstance(window, Periodic)
    which = "the one that is filling" if window.open else "the last complete one"
    return f"{which} of {length} every {format_duration(window.hop_us)}"


def _interval(start: int, end: int) -> str:
    def shown(us: int) -> str:
        if us == EARLIEST_US:
            return "the first event"
        when = EPOCH + timedelta(microseconds=us)
        text = f"{when:%H:%M:%S}" if when.second else f"{when:%H:%M}"
        return text if when.date() == T.date() else f"{text} on {when:%d %B}"

    return f"[{shown(start)}, {shown(end)})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _cell(value: object) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    made = page()
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") != made:
            print(
                f"{PAGE.name} is not what the code says now: python docs/reference.py",
                file=sys.stderr,
            )
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    print(f"{PAGE.name}: {made.count(chr(10) + '### ')} aggregates", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
