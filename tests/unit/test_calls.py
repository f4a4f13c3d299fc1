"""A definition that is called wrongly is answered with what, where, what was expected and what to
write instead."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import slicewise as sw
from slicewise import hints
from slicewise.errors import DefinitionError, UnknownAttribute, WrongCall
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.sql.names import SPELLINGS

SCHEMA = {
    "user_id": "string",
    "song": "string",
    "seconds": "double",
    "n": "int64",
    "ts": "timestamp_us",
}
ANY: Any = sw  # mistakes are made through it, which type checkers would refuse


def source(**changes: Any) -> Any:
    return ANY.KafkaSource(**{"name": "plays", "schema": SCHEMA, "timestamp": "ts", **changes})


def view(**changes: Any) -> Any:
    features = [sw.Feature("plays", sw.count(), windows=["10m"])]
    return ANY.FeatureView(
        **{"name": "v", "source": source(), "entity": ["user_id"], "features": features, **changes}
    )


# ---- names


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("avg", 'sw.mean("column")'),
        ("average", 'sw.mean("column")'),
        ("stddev_samp", 'sw.stddev("column")'),
        ("var_pop", "population=True"),
        ("count_distinct", "sw.distinct_count"),
        ("approx_distinct", "sw.distinct_count"),
        ("approx_count_distinct", "sw.distinct_count"),
        ("nunique", "sw.distinct_count"),
        ("collect_list", "sw.last_k("),
        ("collect_set", "sw.last_k_distinct("),
        ("median", "sw.quantiles("),
        ("topk", "sw.top_k_frequent("),
        ("max_by", "sw.argmax("),
        ("TumblingWindow", "sw.tumbling("),
        ("FeatureService", "sw.FeatureSet("),
        ("Avg", "sw.mean"),
        ("meen", "did you mean sw.mean"),
        ("featureview", "did you mean sw.FeatureView"),
    ],
)
def test_another_systems_name_is_answered_with_ours(name: str, instead: str) -> None:
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(AttributeError) as caught:
        getattr(ANY, name)
    error = caught.value
    assert isinstance(error, UnknownAttribute)
    assert isinstance(error, sw.SlicewiseError)
    assert f"no attribute {name!r}" in error.what
    assert f"{__file__}:{line}" in str(error.where)
    assert error.expected
    assert instead in str(error.next_step)


def test_what_is_looked_for_and_not_there_is_told_as_python_expects() -> None:
    assert not hasattr(sw, "avg")
    assert getattr(ANY, "avg", None) is None
    with pytest.raises(ImportError):
        from slicewise import avg  # noqa: F401


def test_every_hint_names_what_there_is() -> None:
    ours = set(dir(sw))
    for name, text in hints.ATTRIBUTES.items():
        assert name not in ours, f"sw.{name} is there"
        named = [
            part.split("(")[0].split(")")[0].split(",")[0].split(" ")[0]
            for part in text.split("sw.")[1:]
        ]
        assert named
        assert {hint_name.split(".")[0] for hint_name in named} <= ours, text


def test_sql_and_python_answer_a_name_of_the_field_alike() -> None:
    for name, spelling in SPELLINGS.items():
        if name not in dir(sw):
            assert f"sw.{spelling.function}(" in hints.ATTRIBUTES[name], name


def test_every_parameter_of_the_hints_exists() -> None:
    functions: tuple[Callable[..., Any], ...] = (
        sw.evaluate,
        sw.training_set,
        sw.snapshot,
        sw.Client,
    )
    parameters = {
        name
        for made in (*(function for _, function in makers()), *functions)
        for name in inspect.signature(made).parameters
    }
    assert set(hints.PARAMETERS) <= parameters
    assert set(hints.EXAMPLES) <= parameters


def test_dir_holds_what_users_use_and_nothing_else() -> None:
    code = (
        "import slicewise as sw; print(*dir(sw)); sw.count; sw.FeatureView; sw.evaluate; "
        "print(*dir(sw))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = done.stdout.splitlines()
    assert before == after, "also once names are loaded"
    names = set(before.split())
    assert {
        "FeatureView",
        "KafkaSource",
        "count",
        "tumbling",
        "evaluate",
        "Client",
        "SlicewiseError",
        "sql",
    } <= names
    assert not names & {
        "annotations",
        "importlib",
        "sys",
        "Any",
        "TYPE_CHECKING",
        "errors",
        "features",
    }
    assert all(name == "__version__" or not name.startswith("_") for name in names)


# ---- arguments
WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "a source without its event time": (
        lambda: ANY.KafkaSource("plays", schema=SCHEMA),
        "sw.KafkaSource lacks timestamp",
        'add timestamp="played_at"',
    ),
    "another word for the event time": (
        lambda: ANY.KafkaSource("plays", schema=SCHEMA, event_time="ts"),
        "no parameter 'event_time'",
        "write timestamp=",
    ),
    "a filter": (
        lambda: ANY.sum("seconds", filter="n > 1"),
        "sw.sum has no parameter 'filter'",
        "write where=",
    ),
    "a filter of a view": (
        lambda: view(filter="n > 1"),
        "sw.FeatureView has no parameter 'filter'",
        "write where=",
    ),
    "a misspelt parameter": (
        lambda: view(entitiy=["user_id"]),
        "no parameter 'entitiy'",
        "leave entitiy= out",
    ),
    "one window": (
        lambda: ANY.Feature("f", sw.count(), window="1h"),
        "no parameter 'window'",
        "write windows=",
    ),
    "features of a view by another word": (
        lambda: ANY.FeatureView("v", source=source(), entity=[], aggregations=[]),
        "no parameter 'aggregations'",
        "write features=",
    ),
    "a parameter of no likeness": (lambda: source(zzz=1), "no parameter 'zzz'", "leave zzz= out"),
    "an aggregate without its column": (lambda: ANY.sum(), "sw.sum lacks column", "the column"),
    "a ranking without its number": (lambda: ANY.top_k("song", by="n"), "sw.top_k lacks k", "k=5"),
    "a condition without its name": (
        lambda: ANY.sum("seconds", "n > 1"),
        "given 2 arguments without a name, and takes 1",
        "where=…",
    ),
    "a hop without its name": (
        lambda: ANY.hopping("1h", "10m"),
        "given 2 arguments without a name",
        "every=…",
    ),
    "a misspelt parameter of a window": (
        lambda: ANY.tumbling("1h", opne=True),
        "no parameter 'opne'",
        "write open=",
    ),
    "a column twice": (
        lambda: ANY.sum("seconds", column="n"),
        "is given column twice",
        "leave column= out",
    ),
    "a leaderboard without a feature": (
        lambda: ANY.Leaderboard("b", view="v"),
        "sw.Leaderboard lacks by",
        "by=",
    ),
    "a set without features": (
        lambda: ANY.FeatureSet("s"),
        "sw.FeatureSet lacks features",
        "features=",
    ),
    "a case of nothing": (lambda: ANY.case(), "sw.case lacks events, at and expect", "expect="),
    "a topic that is missing": (lambda: ANY.Emit(), "sw.Emit lacks topic", "topic"),
    "ids of nothing": (lambda: ANY.dedupe(), "sw.dedupe lacks column", "column"),
    "an aggregate's function instead of its call": (
        lambda: ANY.Feature("f", sw.count, windows=["1h"]),
        "sw.count, without its parentheses, is no aggregate",
        "sw.count()",
    ),
    "a function that takes a column": (
        lambda: ANY.Feature("f", sw.sum, windows=["1h"]),
        "sw.sum, without its parentheses,",
        "sw.sum(…)",
    ),
    "an aggregate's name": (
        lambda: ANY.Feature("f", "avg", windows=["1h"]),
        "'avg' is no aggregate",
        "sw.mean",
    ),
    "windows as a text": (
        lambda: ANY.Feature("f", sw.count(), windows="10m"),
        "windows are '10m'",
        'windows=["10m"]',
    ),
    "one feature": (
        lambda: view(features=sw.Feature("f", sw.count(), windows=["1h"])),
        "features are no list",
        "in [ ]: features=[",
    ),
    "an entity as text": (
        lambda: view(entity="user_id"),
        "entity is 'user_id'",
        "entity=['user_id']",
    ),
    "columns as a list": (lambda: view(columns=["n"]), "columns is ['n']", 'columns={"minutes"'),
    "a number as condition": (lambda: view(where=5), "where is 5", "in quotes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_answered_with_its_place_and_what_to_write(name: str) -> None:
    make, what, instead = WRONG[name]
    with pytest.raises(DefinitionError) as caught:
        make()
    error = caught.value
    assert what in error.what
    line = make.__code__.co_firstlineno
    lines = range(line, line + 4)
    helpers = [f.__code__.co_firstlineno + n for f in (view, source) for n in (1, 2)]
    lines_of_ours = [f"{__file__}:{text}" for text in (*lines, *helpers)]
    assert any(line_of_ours in str(error.where) for line_of_ours in lines_of_ours), error.where
    assert error.expected
    assert instead in str(error.next_step)


def test_a_wrong_call_is_what_python_calls_one_and_crosses_processes() -> None:
    with pytest.raises(TypeError) as caught:
        ANY.sum()
    assert isinstance(caught.value, WrongCall)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (WrongCall, str(caught.value))


def test_an_error_from_inside_a_call_stays_what_it_is() -> None:
    class Broken:
        def __bool__(self) -> bool:
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        ANY.Feature("f", sw.count(), windows=_Windows(Broken()))


class _Windows(list[Any]):
    def __init__(self, of: object) -> None:
        super().__init__(["1h"])
        self._of = of

    def __bool__(self) -> bool:
        return bool(self._of)


# ---- whatever is given
def odd() -> list[object]:
    """Values that stand where something else belongs."""
    texts = ["", "x", "1h", "seconds", "ä ö", "a:b", "'"]
    numbers = [0, -1, 5, 1 << 70, 0.5, float("nan"), float("inf"), True, None, 1j]
    groups: list[object] = [
        [],
        ["seconds"],
        [None],
        [[1]],
        {},
        {"a": "b"},
        {"a": 1},
        {1: 2},
        {"seconds"},
        (),
        (1, 2),
    ]
    return [
        *texts,
        *numbers,
        *groups,
        b"x",
        object(),
        sw.count,
        sw.count(),
        sw.Window,
        sw.tumbling("1h"),
        iter("ab"),
    ]


def makers() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Makers of which a definition is made."""
    left_out = {
        *("evaluate", "training_set", "snapshot"),
        *("Client", "HttpClient", "AsyncHttpClient", "Retry"),
        "SlicewiseError",
        "Aggregate",
        "Window",
        "__version__",
    }
    for name in dir(sw):
        if name not in left_out:
            yield name, getattr(sw, name)


GOOD: dict[str, Any] = {
    "name": "x",
    "schema": SCHEMA,
    "timestamp": "ts",
    "entity": ["user_id"],
    "source": None,
    "view": "v",
    "by": "n",
    "column": "seconds",
    "payload": "song",
    "x": "n",
    "y": "seconds",
    "k": 3,
    "q": [0.5],
    "half_life": "1h",
    "aggregate": None,
    "capacity": 100,
    "edges": [1, 2],
    "category": "song",
    "length": "1h",
    "every": "10m",
    "gap": "10m",
    "max_length": "1h",
    "count": 3,
    "topic": "t",
    "events": [],
    "at": 0,
    "expect": {"a": 1},
    "windows": ["1h"],
    "features": None,
    "columns": ["n"],
    "output": "long",
    "text": "SELECT",
    "bare": None,
}


def good(maker: str, parameter: str) -> Any:
    if parameter == "aggregate":
        return sw.count()
    if parameter == "source":
        return source()
    if parameter == "features":
        return (
            ["v:x_1h"] if maker == "FeatureSet" else [sw.Feature("x", sw.count(), windows=["1h"])]
        )
    if parameter in ("init", "step", "finish"):
        return {"init": nothing, "step": add, "finish": itself}[parameter]
    return GOOD[parameter]


def nothing() -> Any:
    return 0


def add(state: Any, event: Any) -> Any:
    assert event is None or event
    return state


def itself(state: Any) -> Any:
    return state


def planned(made: object) -> None:
    """Plans what was made, as a part of a view where it is one."""
    from slicewise.aggregates import Aggregate

    if isinstance(made, Aggregate):
        made = view(features=[sw.Feature("f", made, windows=["1h"])])
    elif isinstance(made, sw.Window):
        made = view(features=[sw.Feature("f", sw.count(), windows=[made])])
    elif isinstance(made, sw.Feature):
        made = view(features=[made])
    elif isinstance(made, sw.KafkaSource):
        made = view(source=made)
    elif isinstance(made, sw.Emit):
        made = view(emit=made)
    plan(Project.of("p", [made, *([] if isinstance(made, sw.FeatureView) else [view()])]))


@pytest.mark.parametrize("name", [name for name, _ in makers()])
def test_no_value_in_any_parameter_ends_in_a_bare_python_error(name: str) -> None:
    make = getattr(sw, name)
    parameters = [
        parameter
        for parameter in inspect.signature(make).parameters.values()
        if parameter.name != "location" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    for changed in parameters:
        for value in odd():
            given = {
                parameter.name: good(name, parameter.name)
                for parameter in needed
                if parameter.kind is not parameter.POSITIONAL_ONLY
            }
            try:
                made = (
                    make(value)
                    if changed.kind is changed.POSITIONAL_ONLY
                    else make(**given | {changed.name: value})
                )
                planned(made)
            except DefinitionError as error:
                if not (error.where and error.next_step):
                    raise AssertionError(
                        f"sw.{name}({changed.name}={value!r}) is not placed: {error}"
                    ) from error
            except Exception as error:
                raise AssertionError(f"sw.{name}({changed.name}={value!r}): {error!r}") from error


# ---- what asks a definition

WRONG_CALLS: dict[str, tuple[Callable[[], object], str, str]] = {
    "nothing to evaluate": (lambda: ANY.evaluate(), "sw.evaluate lacks view, events and queries", "queries=[{"),
    "a view's capacity": (
        lambda: ANY.evaluate(view(), [], [], capacity=5), "sw.evaluate has no parameter 'capacity'", "to the view",
    ),
    "the mode of all queries": (
        lambda: ANY.evaluate(view(), [], [], mode="live"), "sw.evaluate has no parameter 'mode'", "in each query",
    ),
    "no training set": (
        lambda: ANY.training_set(), "sw.training_set lacks spine and features", 'features="churn_v1"',
    ),
    "a training set of another system": (
        lambda: ANY.training_set(entity_df=[], features="x"), "sw.training_set has no parameter 'entity_df'", "spine",
    ),
    "a snapshot": (lambda: ANY.snapshot("churn", "now"), "sw.snapshot is given 2 arguments", "at=…"),
    "a client": (lambda: ANY.Client(url="redis://"), "sw.Client has no parameter 'url'", "redis_url="),
    "a condition of a feature": (
        lambda: ANY.Feature("n", sw.count(), ["1h"], where="n > 1"), "has no parameter 'where'", "sw.count(where=",
    ),
    "a column of a feature": (
        lambda: ANY.Feature("n", column="n", aggregate="sum", windows=["1h"]), "no parameter 'column'", "sw.sum(",
    ),
    "a default of a feature": (
        lambda: ANY.Feature("n", sw.count(), ["1h"], default=0), "no parameter 'default'", "defaults={",
    ),
    "a time to live": (lambda: view(ttl="1d"), "sw.FeatureView has no parameter 'ttl'", "the longest window"),
    "brokers": (lambda: source(bootstrap_servers="b"), "no parameter 'bootstrap_servers'", "SLICEWISE_KAFKA_BOOTSTRAP"),
    "a share that decays": (lambda: ANY.decay_sum("n", alpha=0.5), "no parameter 'alpha'", "half_life="),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_what_asks_is_refused_as_what_defines(name: str) -> None:
    call, what, instead = WRONG_CALLS[name]
    with pytest.raises(WrongCall) as caught:
        call()
    assert what in caught.value.what
    assert __file__ in str(caught.value.where)
    assert caught.value.expected
    assert instead in str(caught.value.next_step)


def test_a_parameter_that_belongs_elsewhere_is_none_of_the_function() -> None:
    for function, name in (*hints.ELSEWHERE, *hints.EXAMPLES_OF):
        takes = name in inspect.signature(getattr(sw, function)).parameters
        assert takes == ((function, name) in hints.EXAMPLES_OF), (function, name)


def some(n: int) -> int:
    return n


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: view(source=view()), "source is sw.FeatureView 'v'"),
        (lambda: view(source=ANY.KafkaSource), "source is the class KafkaSource"),
        (lambda: view(where=lambda row: row), "where is a lambda"),
        (lambda: view(columns={"x": some}), "the computed column 'x' is the function some"),
        (lambda: source(schema={"user_id": str}), "the class str is no column type"),
        (lambda: source(schema=[("user_id", "string")]), "schema is [('user_id', 'string')]"),
        (lambda: source(schema={}), "a source has no columns"),
        (lambda: view(owner=object()), "owner is an instance of object"),
        (
            lambda: ANY.Feature("n", sw.count(), [sw.tumbling]),
            "sw.tumbling, without its parentheses, is no window",
        ),
        (lambda: ANY.FeatureSet("s", [view()] * 50), "features is [FeatureView("),
        (lambda: ANY.sql("SELECT 1", sources=source()), "sources is sw.KafkaSource 'plays'"),
        (lambda: ANY.sql_views("views.sql"), "the SQL is 'views.sql', the name of a file"),
        (lambda: ANY.Client(5), "redis_url is 5"),
        (lambda: ANY.Feature("n", len, ["1h"]), "the built-in function len is no aggregate"),
    ],
)
def test_what_stands_there_is_shown_in_a_line(make: Callable[[], object], what: str) -> None:
    with pytest.raises(sw.SlicewiseError) as caught:
        make()
    assert what in caught.value.what
    assert len(caught.value.what) < 200
    assert " at 0x" not in str(caught.value)
    assert "sw.Client" not in str(caught.value.next_step)
    assert caught.value.next_step
