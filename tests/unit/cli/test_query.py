"""`slicewise sql` shows the rows of a query over a file, by the code that builds training sets."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.cli.define._query import Session
from slicewise.settings import Settings

EXAMPLE = Path(__file__).parents[3] / "examples" / "purchases"
EVENTS = EXAMPLE / "purchases.csv"
SLIDING = "OVER (PARTITION BY user_id ORDER BY SLICE(bought_at) RANGE INTERVAL '{}' PRECEDING)"
HOUR = SLIDING.format("1 hour")
SUM = f"SELECT sum(price) {HOUR} FROM purchases"


@pytest.fixture(autouse=True)
def in_the_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(EXAMPLE)


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """The command's output for programs; it must succeed."""
    code = main(["sql", *arguments, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return [json.loads(line) for line in captured.out.splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sql", *arguments]) == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


def test_a_row_per_event_counts_the_event_itself_and_its_peers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "e.jsonl"
    times = ["08:00:00", "08:30:00", "08:30:00", "09:10:00"]
    file.write_text(
        "".join(
            json.dumps({"user_id": "a", "price": 1, "bought_at": f"2026-11-20T{t}Z"}) + "\n"
            for t in times
        )
    )
    (answer,) = rows(capsys, f"SELECT count(*) {HOUR} AS n_1h FROM purchases", "--over", str(file))
    #  08:00   08:30 (two events)   09:10
    #  |-------*****----------------|         the window of 09:10 begins at 08:10: its bounds lie on slices of 5 minutes
    assert [(row["bought_at"][11:16], row["n_1h"]) for row in answer["rows"]] == [
        ("08:00", 1),
        ("08:30", 3),
        ("08:30", 3),
        ("09:10", 3),
    ]


def test_a_row_per_window_that_ends(capsys: pytest.CaptureFixture[str]) -> None:
    query = """SELECT user_id, sum(price) AS spent_hopping_2h_1h FROM purchases WHERE user_id = 'bob'
               GROUP BY user_id, HOP(bought_at, INTERVAL '1' HOUR, INTERVAL '2' HOUR)"""
    (answer,) = rows(capsys, query, "--over", str(EVENTS))
    #  events: 08:20 30.00, 09:10 12.50, 12:00 28.00
    assert [(row["window_end"][11:16], row["spent_hopping_2h_1h"]) for row in answer["rows"]] == [
        ("09:00", 30.0),
        ("10:00", 42.5),
        ("11:00", 12.5),
        ("13:00", 28.0),
        ("14:00", 28.0),
    ]


def test_an_event_at_the_edge_is_in_the_window_that_begins_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    query = (
        "SELECT count(*) AS n_tumbling_1h FROM purchases GROUP BY user_id, TUMBLE(bought_at, "
        "INTERVAL '1' HOUR)"
    )
    (answer,) = rows(capsys, query, "--over", str(EVENTS), "--start", "2026-11-20T12:00:00Z")
    assert answer["rows"] == [
        {"user_id": "bob", "window_end": "2026-11-20T13:00:00Z", "n_tumbling_1h": 1},
    ]
    (answer,) = rows(capsys, query, "--over", str(EVENTS), "--end", "2026-11-20T09:00:00Z")
    assert [row["user_id"] for row in answer["rows"]] == ["ann", "bob"]


def test_the_rows_are_those_of_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    """Every value of a query's rows, against `sw.evaluate` of the same view just after, or exactly
    at, each event."""
    answers = rows(capsys, "views.sql", "--over", str(EVENTS))
    views = sw.sql_views((EXAMPLE / "views.sql").read_text())
    events = [
        dict(zip(("user_id", "item", "price", "bought_at"), line.split(","), strict=True))
        for line in EVENTS.read_text().splitlines()[1:]
    ]
    typed = [event | {"price": float(event["price"])} for event in events]
    compared = 0
    for view, answer in zip(views, answers, strict=True):
        # its windows hold their end
        later = 1 if answer["time"] == "bought_at" and view.name != "latest" else 0
        ats = [
            datetime.fromisoformat(row[answer["time"]]).replace(microsecond=later)
            for row in answer["rows"]
        ]
        queries = [
            {"user_id": row["user_id"], "at": at}
            for row, at in zip(answer["rows"], ats, strict=True)
        ]
        table = sw.evaluate(view, typed, queries)
        for column in (c for feature in view.features for c in feature.columns()):
            assert table[column].to_pylist() == [row[column] for row in answer["rows"]]
            compared += table.num_rows
    assert compared == 3 * 7 + 2 * 5 + 2 * 8 + 2 * 8


def test_a_lifetime_holds_all_events_up_to_each_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    over = "(PARTITION BY user_id ORDER BY SLICE(bought_at) RANGE BETWEEN UNBOUNDED PRECEDING AND"
    query = f"""SELECT count(*) OVER {over} CURRENT ROW) AS n_lifetime,
                       sum(price) OVER {over} INTERVAL '1' HOUR PRECEDING) AS spent_lifetime_offset_1h
                FROM purchases WHERE user_id = 'bob'"""
    (answer,) = rows(capsys, query, "--over", str(EVENTS), "--start", "2026-11-20T09:00:00Z")
    #  events: 08:20 30.00, 09:10 12.50, 12:00 28.00; rows from 09:00 on
    assert [(row["n_lifetime"], row["spent_lifetime_offset_1h"]) for row in answer["rows"]] == [
        (2, None),
        (3, 42.5),
    ]


GLOBAL = """CREATE FEATURE VIEW everything WITH (global = TRUE) AS
            SELECT count(*) OVER (ORDER BY SLICE(bought_at) RANGE INTERVAL '1 hour' PRECEDING) AS n_1h,
                   sum(price) OVER (ORDER BY bought_at RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)
                     AS spent_exact_1h
            FROM purchases"""
"""All events together: no column says whose a row is."""


def test_a_global_view_has_a_row_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    #  events: 08:05, 08:20, 08:40, 08:41 (for nothing), 09:10, 11:30, 11:45, 12:00
    expected = [
        ("08:05", 1, 4.5),
        ("08:20", 2, 34.5),
        ("08:40", 3, 44.4),
        ("08:41", 4, 44.4),
        ("09:10", 4, 52.4),
        ("11:30", 1, 24.0),
        ("11:45", 2, 28.5),
        ("12:00", 3, 56.5),
    ]
    (answer,) = rows(capsys, GLOBAL, "--over", str(EVENTS))
    assert [
        (row["bought_at"][11:16], row["n_1h"], row["spent_exact_1h"]) for row in answer["rows"]
    ] == expected
    assert list(answer["rows"][0]) == ["bought_at", "n_1h", "spent_exact_1h"]
    assert main(["sql", GLOBAL, "--over", str(EVENTS)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["bought_at", "n_1h", "spent_exact_1h"]
    assert shown[1].split() == ["2026-11-20T08:05:00Z", "1", "4.5"]
    assert shown[-1] == "8 rows"
    assert (
        rows(capsys, GLOBAL, "--over", str(EVENTS), "--start", "2030-01-01T00:00:00Z")[0]["rows"]
        == []
    )


def test_a_decay_ages_to_the_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    times = ["08:00:00", "08:00:01", "08:00:03"]
    file.write_text(
        "".join(
            json.dumps({"user_id": "a", "price": 1, "bought_at": f"2026-11-20T{t}Z"}) + "\n"
            for t in times
        )
    )
    for order in ("SLICE(bought_at)", "bought_at"):
        over = (
            f"(PARTITION BY user_id ORDER BY {order} RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING "
            "AND CURRENT ROW)"
        )
        query = f"SELECT decay_sum(price, half_life => '1s') OVER {over} FROM purchases"
        (answer,) = rows(capsys, query, "--over", str(file))
        (column,) = set(answer["rows"][0]) - {"user_id", "bought_at"}
        #  08:00:00 1   08:00:01 1 + 1/2   08:00:03 1 + 1/4 + 1/8
        assert [row[column] for row in answer["rows"]] == [1.0, 1.5, 1.375]


def test_at_an_instant_there_is_a_row_per_entity(capsys: pytest.CaptureFixture[str]) -> None:
    query = f"SELECT count(*) {SLIDING.format('1 day')} AS n_1d FROM purchases"
    (answer,) = rows(capsys, query, "--over", str(EVENTS), "--at", "2026-11-20T09:00:00Z")
    assert [(row["user_id"], row["n_1d"]) for row in answer["rows"]] == [("ann", 3), ("bob", 1)]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".json", ".jsonl", ".ndjson"])
@pytest.mark.parametrize("declared", [True, False])
def test_files_of_each_kind_give_equal_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, declared: bool
) -> None:
    file = tmp_path / f"events{suffix}"
    at = [datetime(2026, 11, 20, 8, minute, tzinfo=UTC) for minute in (5, 20, 40)]
    texts = [f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in at]
    users, prices = ["ann", "bob", "ann"], [4.5, 30.0, None]
    if suffix == ".parquet":
        given = at if not declared else texts
        pq.write_table(
            pa.table({"user_id": users, "price": prices, "bought_at": given, "odd": [b"x"] * 3}),
            file,
        )
    elif suffix == ".csv":
        lines = (
            f"{u},{'' if p is None else p},{t},1"
            for u, p, t in zip(users, prices, texts, strict=True)
        )
        file.write_text("user_id,price,bought_at,odd\n" + "\n".join(lines) + "\n")
    else:
        lines = (
            json.dumps({"user_id": u, "price": p, "bought_at": t, "odd": {"a": 1}})
            for u, p, t in zip(users, prices, texts, strict=True)
        )
        file.write_text("\n".join(lines))
    source = "purchases" if declared else "something"
    (answer,) = rows(
        capsys, f"SELECT user_id, sum(price) {HOUR} AS s_1h FROM {source}", "--over", str(file)
    )
    assert [(row["user_id"], row["bought_at"], row["s_1h"]) for row in answer["rows"]] == [
        ("ann", "2026-11-20T08:05:00Z", 4.5),
        ("bob", "2026-11-20T08:20:00Z", 30.0),
        ("ann", "2026-11-20T08:40:00Z", 4.5),
    ]


def test_times_without_a_zone_are_taken_for_utc_and_a_note_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "e.csv"
    file.write_text("k,t\na,2026-11-20 08:05:00\n")
    query = (
        "SELECT count(*) OVER (PARTITION BY k ORDER BY SLICE(t) RANGE INTERVAL '1' HOUR "
        "PRECEDING) AS n_1h FROM x"
    )
    (answer,) = rows(capsys, query, "--over", str(file))
    assert answer["rows"] == [{"k": "a", "t": "2026-11-20T08:05:00Z", "n_1h": 1}]
    assert "UTC" in answer["notes"][0]


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text(
        "user_id,item,price,bought_at\n,tea,1,2026-11-20T08:05:00Z\nann,tea,1,2026-11-20T08:05:00Z\n"
    )
    assert main(["sql", f"SELECT count(*) {HOUR} AS n_1h FROM purchases", "--over", str(file)]) == 0
    out = capsys.readouterr().out
    assert "1 row\n" in out
    assert "left out: 1 missing_required:user_id" in out


def test_an_event_without_its_key_is_said_although_its_column_may_be_null(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "e.csv"
    file.write_text(
        "k,x,t\n,1,2026-11-20T08:05:00Z\na,0,2026-11-20T08:05:00Z\na,1,2026-11-20T08:05:00Z\n"
    )
    source = "CREATE SOURCE e (k STRING, x BIGINT, t TIMESTAMP_RFC3339) WITH (timestamp = 't');"
    hour = "OVER (PARTITION BY k ORDER BY SLICE(t) RANGE INTERVAL '1' HOUR PRECEDING)"
    text = f"{source} SELECT k, count(*) {hour} AS n_1h, sum(1e308 * 10 / x) {hour} AS s_1h FROM e"
    (answer,) = rows(capsys, text, "--over", str(file))
    assert [row["k"] for row in answer["rows"]] == ["a"]
    assert answer["left_out"]["null_entity"] == 1
    assert sum(answer["left_out"].values()) == 2, "the other one's computed column is infinite"


@pytest.mark.parametrize(
    ("of", "counts"),
    [
        (
            "n_tumbling_1h_open FROM e GROUP BY k, TUMBLE(t, INTERVAL '1' HOUR, open => TRUE)",
            [1, 2, 1, 2],
        ),
        ((
            "n_hopping_1h_30m_open FROM e GROUP BY k, HOP(t, INTERVAL '30' MINUTE, INTERVAL '1' "
            "HOUR, open => TRUE)"
        ),
         [1, 2, 2, 3]),
    ],
)  # fmt: skip
def test_an_event_of_the_last_microsecond_is_in_its_own_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, of: str, counts: list[int]
) -> None:
    # 08:10  09:00 - 1 us |  09:29:59.999998  09:30 - 1 us
    file = tmp_path / "e.csv"
    times = ["08:10:00", "08:59:59.999999", "09:29:59.999998", "09:29:59.999999"]
    file.write_text("k,t\n" + "".join(f"a,2026-11-20T{time}Z\n" for time in times))
    (answer,) = rows(capsys, f"SELECT k, count(*) AS {of}", "--over", str(file))
    assert [row["k"] for row in answer["rows"]] == ["a"] * 4
    assert [row[of.split()[0]] for row in answer["rows"]] == counts


def test_a_sliding_row_begins_where_its_own_slice_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # Slices of 5 m: the rows of 09:34:59.999998 and of the next microsecond both begin at 08:30.
    file = tmp_path / "e.csv"
    times = ["08:30:00", "09:34:59.999998", "09:34:59.999999", "09:35:00"]
    file.write_text("k,t\n" + "".join(f"a,2026-11-20T{time}Z\n" for time in times))
    hour = "OVER (PARTITION BY k ORDER BY SLICE(t) RANGE INTERVAL '1' HOUR PRECEDING)"
    (answer,) = rows(capsys, f"SELECT k, count(*) {hour} AS n_1h FROM e", "--over", str(file))
    assert [row["n_1h"] for row in answer["rows"]] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    ("header", "message"),
    [("k,k,t", "two columns named 'k'"), ("K,k,t", "columns 'K' and 'k' differ in case only")],
)
def test_a_file_whose_columns_are_not_told_apart_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, header: str, message: str
) -> None:
    file = tmp_path / "e.csv"
    file.write_text(f"{header}\na,b,2026-11-20T08:05:00Z\n")
    hour = "OVER (PARTITION BY k ORDER BY SLICE(t) RANGE INTERVAL '1' HOUR PRECEDING)"
    error = refused(capsys, f"SELECT count(*) {hour} AS n_1h FROM e", "--over", str(file))
    assert message in error
    assert str(file) in error


def test_a_count_of_distinct_values_says_from_where_it_estimates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (answer,) = rows(
        capsys,
        f"SELECT count(DISTINCT item) {HOUR} AS items_1h FROM purchases",
        "--over",
        str(EVENTS),
    )
    assert "exact up to 256 distinct values" in answer["notes"][0]


def test_rows_beyond_the_limit_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    query = f"SELECT count(*) {HOUR} AS n_1h FROM purchases"
    assert main(["sql", query, "--over", str(EVENTS), "--limit", "3"]) == 0
    assert "8 rows, 5 more than shown" in capsys.readouterr().out
    (answer,) = rows(capsys, query, "--over", str(EVENTS), "--limit", "0")
    assert len(answer["rows"]) == answer["count"] == 8


def test_no_event_is_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    grouped = "GROUP BY item, TUMBLE(bought_at, INTERVAL 1 HOUR)"
    for query in (
        f"SELECT count(*) {HOUR} AS n_1h FROM purchases WHERE price > 99",
        f"SELECT max(price) AS x_tumbling_1h FROM purchases WHERE price > 99 {grouped}",
    ):
        (answer,) = rows(capsys, query, "--over", str(EVENTS))
        assert answer["rows"] == []


def test_the_definition_is_python_and_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "views.sql", "--definition"]) == 0
    out = capsys.readouterr().out
    assert 'sw.Feature("basket", sw.mean("price"), windows=["3h"])' in out
    assert "entity at most" in out
    first, *_ = rows(capsys, "views.sql", "--definition")
    assert first["units"][0]["view"] == "baskets"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SUM, "--at", "2026-11-20T08:05:00Z", "--start", "2026-11-20T08:05:00Z"), "one instant"),
        (
            (SUM.replace("purchases", "x").replace("bought_at", "price"), "--over", str(EVENTS)),
            "no column of instants",
        ),
        ((f"SELECT summ(price) {HOUR} FROM purchases", "--over", str(EVENTS)), "^^^^"),
        ((SUM, "--over", "nowhere.csv"), "cannot be read"),
        ((SUM, "--over", "views.sql"), "of no kind that is read"),
        (("nowhere.sql",), "No such file"),
        (
            (SUM.replace("sum(price)", "bloom(item, capacity => 9)"), "--over", str(EVENTS)),
            "rows ask nothing",
        ),
        ((SUM, "--at", "tomorrow"), "is no instant"),
        ((f"SELECT sum(price) {HOUR} FROM nothing",), "unknown source 'nothing'"),
        (
            (
                f"SELECT sum(price) {HOUR.replace('bought_at', 'item')} FROM nothing",
                "--over",
                str(EVENTS),
            ),
            "zone",
        ),
    ],
)
def test_what_is_wrong_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize("name", ["at", "event time"])
def test_a_time_that_has_no_name_for_a_column_is_refused_for_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    file = tmp_path / "x.csv"
    file.write_text(f"item,{name},other\na,2026-11-21T08:00:00Z,2026-11-21T09:00:00Z\n")
    query = f"SELECT count(*) {HOUR} AS n_1h FROM x".replace("bought_at", f'"{name}"').replace(
        "user_id", "item"
    )
    error = refused(capsys, query, "--over", str(file))
    assert "rename it" in error
    wrong = query.replace(f'"{name}"', "item")
    assert f"one of {name}" not in refused(capsys, wrong, "--over", str(file))


@pytest.mark.parametrize(
    "ids", [("007", "7"), ("-07", "-7"), ("9223372036854775808", "9223372036854775809"), ("7", "0")]
)
def test_digits_that_no_number_keeps_are_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ids: tuple[str, str]
) -> None:
    file = tmp_path / "x.csv"
    file.write_text(
        "user_id,bought_at\n" + "".join(f"{ident},2026-11-21T08:00:00Z\n" for ident in ids)
    )
    (answer,) = rows(capsys, f"SELECT user_id, count(*) {HOUR} AS n_1h FROM x", "--over", str(file))
    is_noted = any("read as text" in note for note in answer["notes"])
    assert is_noted == (ids != ("7", "0"))
    assert [row["n_1h"] for row in answer["rows"]] == [1, 1]
    assert {str(row["user_id"]) for row in answer["rows"]} == {*ids}


def test_standard_input_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"SELECT count(*) {HOUR} AS n_1h FROM purchases;"))
    (answer,) = rows(capsys, "--over", str(EVENTS))
    assert answer["count"] == 8


def typed(*lines: str) -> Iterator[str]:
    yield from lines


def test_a_prompt_answers_statement_by_statement_and_goes_on_after_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = typed(
        "\\d",
        (
            "CREATE SOURCE p (user_id STRING, price DOUBLE, bought_at TIMESTAMP_RFC3339) WITH "
            "(timestamp = 'bought_at');"
        ),
        "SELECT summ(price)",
        f"  {HOUR} AS s_1h FROM p;",
        f"SELECT sum(price) {HOUR} AS s_1h FROM p;",
        "\\q",
    )
    prompts: list[str] = []

    def read_line(prompt: str) -> str:
        prompts.append(prompt)
        return next(lines)

    arguments = Namespace(
        over=EVENTS,
        project=None,
        at=None,
        start=None,
        end=None,
        limit=2,
        definition=False,
        json=False,
    )
    assert Session.of(arguments, Settings.load()).prompt(read_line) == 0
    captured = capsys.readouterr()
    assert prompts == ["sql> ", "sql> ", "sql> ", "...> ", "sql> ", "sql> "]
    assert "purchases (user_id string" in captured.out
    assert "declared: p" in captured.out
    assert "unknown function 'summ'" in captured.err
    assert "8 rows, 6 more" in captured.out


def test_the_example_is_a_project_in_sql_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [view["view"] for view in report["views"]] == ["baskets", "hourly", "latest", "visits"]


@pytest.mark.parametrize(
    ("query", "what", "instead"),
    [
        (
            (
                "SELECT user_id, count(*) FROM purchases WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY "
                "user_id EMIT CHANGES"
            ),
            "this is no SQL",
            "GROUP BY key, TUMBLE(ts, INTERVAL '1' HOUR)",
        ),
        (
            (
                "SELECT user_id, count(*) FROM purchases WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY "
                "10 MINUTES) "
                "GROUP BY user_id"
            ),
            "this is no SQL",
            "GROUP BY key, HOP(",
        ),
        (
            (
                "SELECT user_id, sum(price) FROM TABLE(TUMBLE(TABLE purchases, "
                "DESCRIPTOR(bought_at), INTERVAL '1' HOUR"
                ")) GROUP BY user_id"
            ),
            "FROM is no function here",
            "GROUP BY …, TUMBLE(",
        ),
        (
            (
                "SELECT user_id, sum(price) OVER (PARTITION BY user_id ORDER BY bought_at ROWS 5 "
                "PRECEDING) "
                "FROM (SELECT * FROM purchases)"
            ),
            "FROM",
            "row logic goes into WHERE",
        ),
        (
            "CREATE STREAM s (user_id VARCHAR) WITH (kafka_topic='x')",
            "CREATE STREAM is no definition",
            "CREATE SOURCE",
        ),
    ],
)
def test_sql_of_other_systems_is_answered_with_ours(
    capsys: pytest.CaptureFixture[str], query: str, what: str, instead: str
) -> None:
    folder = Path(__file__).parents[3] / "examples" / "purchases"
    assert (
        main(["sql", query, "--over", str(folder / "purchases.csv"), "--project", str(folder)]) == 1
    )
    output = capsys.readouterr().err
    assert what in output
    assert "where: " in output
    assert "expected: " in output
    assert instead in output.partition("next step: ")[2]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("avg()", "avg lacks column"),
        ("top_k(item, 3)", "top_k is given 2 arguments without a name, and takes 1"),
        ("top_k(item, by => price)", "top_k lacks k"),
        ("avg(price, 2)", "AVG takes 1 argument here"),
    ],
)
def test_a_wrong_call_is_told_in_our_words(
    capsys: pytest.CaptureFixture[str], call: str, what: str
) -> None:
    folder = Path(__file__).parents[3] / "examples" / "purchases"
    window = (
        "OVER (PARTITION BY user_id ORDER BY SLICE(bought_at) RANGE INTERVAL '1' HOUR PRECEDING)"
    )
    assert (
        main(["sql", f"SELECT user_id, {call} {window} FROM purchases", "--project", str(folder)])
        == 1
    )
    output = capsys.readouterr().err
    assert f"slicewise sql: {what}\n" in output
    assert "expected: " in output
    assert "next step: " in output
