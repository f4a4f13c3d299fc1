"""A user's own aggregate is deployed only after it has obeyed the algebra's laws on events made to
break it.

Events are drawn by a seed that never changes, from the edges of the columns' own types; the first
that break a law are cut down to the fewest that still do, and told as a story. What holds of these
need not hold of all events: a law that is broken here is a proof, one that is not is none.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Aggregate, Event, Failed, Invertible, Rows, from_spec
from slicewise.aggregates.custom.own import Own
from slicewise.aggregates.kernel.values import ValueType
from slicewise.codec import Layout
from slicewise.errors import DefinitionError
from slicewise.features.plan.deployment import Deployment

HISTORIES = 160
MOST_EVENTS = 9
SECONDS = 60
DOUBLES = (
    0.0,
    1.0,
    -1.0,
    0.1,
    -0.1,
    0.3,
    5e-324,
    -5e-324,
    2.0**-1022,
    1e308,
    -1e308,
    1.7976931348623157e308,
    2.0**53,
)
LONGS = (0, 1, -1, 2, 3, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**62)
TEXTS = ("", "a", "b", "ab", "\x00", "a\x00", "é", "e\u0301", "日本", "😀", "\uffff", "x" * 10_000)
INSTANTS = (0, 1, -1, 1_357_000_000_000_000, 1_357_000_000_000_001)
DAYS = (0, 1, -1, 15_706, 15_707)

Broken = str
"""Findings, in a sentence or two."""
Law = Callable[[Own, Sequence[Event], Random], Broken | None]


@dataclass(frozen=True)
class LawCheck:
    """An aggregate that was tried: the histories that it passed."""

    aggregate: Own
    histories: int


def own_aggregates(deployment: Deployment) -> list[Own]:
    """Every aggregate of a user's own, each once."""
    by_form: dict[str, Own] = {}
    for unit in deployment.units:
        for feature in unit.features:
            aggregate: Aggregate | None = feature.aggregate
            while aggregate is not None:
                if isinstance(aggregate, Own):
                    by_form.setdefault(
                        json.dumps([aggregate.spec(), aggregate.partial_id()], sort_keys=True),
                        aggregate,
                    )
                aggregate = getattr(aggregate, "aggregate", None)
    return list(by_form.values())


def check_laws(aggregate: Own) -> LawCheck:
    """Raises DefinitionError, with the events that show it, where the aggregate breaks a law."""
    histories = [drawn(aggregate, Random(seed)) for seed in range(HISTORIES)]
    for name, law in LAWS.items():  # a law that all obey comes before those that build on it
        for seed, events in enumerate(histories):
            if _broken(aggregate, law, events, seed) is not None:
                raise _refusal(aggregate, name, *_smallest(aggregate, law, events, seed))
    _in_another_process(aggregate)
    return LawCheck(aggregate, HISTORIES)


def drawn(aggregate: Own, random: Random) -> list[Event]:
    """Events in any order, from a few values each: ties and edges come often."""
    pools = {}
    for name in aggregate.inputs:
        edges = _edges(aggregate.type_of(name))
        pools[name] = [random.choice(edges) for _ in range(random.randint(1, 6))]
        if random.random() < 0.2:
            pools[name].append(None)
    n = random.choice((0, 1, 2, 3, 3, MOST_EVENTS))
    return [
        Event(
            random.randrange(3),
            0,
            random.randrange(2),
            0,
            i,
            {name: random.choice(p) for name, p in pools.items()},
        )
        for i in random.sample(range(n), n)
    ]


def _edges(kind: pa.DataType) -> Sequence[Any]:
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return [Decimal(n).scaleb(-kind.scale) if kind.precision < 28 else _exact(n, kind.scale)
                for n in (0, 1, -1, 5, -5, 15, most, -most)]  # fmt: skip
    if pa.types.is_boolean(kind):
        return (True, False)
    if pa.types.is_string(kind):
        return TEXTS
    if pa.types.is_date32(kind):
        return DAYS
    if pa.types.is_timestamp(kind):
        return INSTANTS
    return DOUBLES if pa.types.is_floating(kind) else LONGS


def _exact(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


# ---- the laws


def _counting(own: Own, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The input of the class: events without a null, values in their one form."""
    values = {name: ValueType(own.type_of(name)) for name in own.inputs}
    whole = [e for e in events if all(e.columns[name] is not None for name in own.inputs)]
    return [
        {
            role: values[name].load_one(values[name].store_one(e.columns[name]))
            for role, name in zip(own.own.columns, own.columns, strict=True)
        }
        for e in whole
    ]


def _made(own: Own) -> Any:
    return own.own.made(own.parameters)


def _accumulated(own: Own, events: Sequence[Event]) -> Any:
    """The state of the events, each accumulated to what came back from the bytes of the one
    before."""
    made = _made(own)
    state = made.empty()
    for event in _counting(own, events):
        state = _back(own, made.accumulate(state, event))
    return _back(own, state)


def _back(own: Own, state: Any) -> Any:
    """The state as methods are given it, come back from its bytes: lists as tuples, doubles as
    floats."""
    form = own.form_of(state)
    return state if form is None else own.read_back(form)


def _combining(own: Own) -> Callable[[Any, Any], Any]:
    combine = _made(own).combine
    return lambda a, b: _back(own, combine(a, b))


def _same(own: Own, a: Any, b: Any) -> bool:
    return repr(own.form_of(a)) == repr(own.form_of(b))


def _fields(own: Own, events: Sequence[Event], random: Random) -> Broken | None:  # noqa: ARG001
    kinds = own.own.fields
    made = _made(own)
    state = made.empty()
    if own.form_of(state) is None:
        return f"empty() is {_show(state)}, and the fields are {kinds}"
    given = _counting(own, events)
    for event in given:
        state = made.accumulate(state, event)
        if own.form_of(state) is None:
            return (
                f"accumulate gave {_show(state)}, and the fields are {kinds}"
                + (": a long is of 64 bits, an integer of any size" if "long" in kinds.values() else "")
            )  # fmt: skip
        state = _back(own, state)
    if not given:
        return None  # it is not asked how it finishes no events
    answer = made.finish(state)
    if isinstance(own.answered(answer), Failed):
        return f"finish({_show(state)}) is {answer!r}, and output is {own.own.output}"
    return None


def _empty(own: Own, events: Sequence[Event], random: Random) -> Broken | None:  # noqa: ARG001
    combine, empty, state = _made(own).combine, _accumulated(own, ()), _accumulated(own, events)
    for text, combined in (
        ("combine(empty(), state)", combine(empty, state)),
        ("combine(state, empty())", combine(state, empty)),
    ):
        if not _same(own, combined, state):
            return f"{text} is {_show(combined)} where the state is {_show(state)}"
    return None


def _order(own: Own, events: Sequence[Event], random: Random) -> Broken | None:
    other = random.sample(events, len(events))
    one, two = _accumulated(own, events), _accumulated(own, other)
    if _same(own, one, two):
        return None
    return (
        f"in this order the state is {_show(one)}; in the order {_numbers(events, other)} it is "
        f"{_show(two)}"
    )


def _split(own: Own, events: Sequence[Event], random: Random) -> Broken | None:
    at = random.randint(0, len(events))
    whole, a, b = (
        _accumulated(own, events),
        _accumulated(own, events[:at]),
        _accumulated(own, events[at:]),
    )
    combined = _made(own).combine(a, b)
    if _same(own, combined, whole):
        return None
    return (
        f"one after the other they come to {_show(whole)}; the first {at} come to {_show(a)}, the "
        "others to "
        f"{_show(b)}, and both combined to {_show(combined)}"
    )


def _tree(own: Own, events: Sequence[Event], random: Random) -> Broken | None:
    parts: list[list[Event]] = [[], [], []]
    for event in events:
        parts[random.randrange(3)].append(event)
    a, b, c = (_accumulated(own, part) for part in parts)
    combine = _combining(own)
    if not _same(own, combine(a, b), combine(b, a)):
        return f"a = {_show(a)} and b = {_show(b)}: combine(a, b) is {_show(combine(a, b))}, combine(b, a) is {_show(combine(b, a))}"
    left, right = combine(combine(a, b), c), combine(a, combine(b, c))
    if _same(own, left, right):
        return None
    return (
        f"a = {_show(a)}, b = {_show(b)}, c = {_show(c)}: combine(combine(a, b), c) is "
        f"{_show(left)}, "
        f"combine(a, combine(b, c)) is {_show(right)}"
    )


def _pure(own: Own, events: Sequence[Event], random: Random) -> Broken | None:  # noqa: ARG001
    made, state = _made(own), _accumulated(own, events)
    given = _counting(own, events)
    calls: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("combine", made.combine, (state, copy.deepcopy(state))),
        *(
            [("finish", made.finish, (state,)), ("accumulate", made.accumulate, (state, given[0]))]
            if given
            else []
        ),
    ]
    for name, method, arguments in calls:
        before = repr(arguments)
        first = repr(method(*arguments))
        if repr(arguments) != before:
            return f"{name} changed what it was given: from {before} to {arguments!r}"
        if repr(method(*arguments)) != first:
            return f"{name}{before} is {first} once, and something else the second time"
    return None


def _codec(own: Own, events: Sequence[Event], random: Random) -> Broken | None:  # noqa: ARG001
    form = own.form_of(_accumulated(own, events))
    assert form is not None
    back = own.read_back(form)
    partial = own.to_columns([_rows(own, events)])
    layout = Layout((own,))
    decoded = layout.decode_blocks([layout.encode_block([partial])], [1])[0]
    if not _same(own, back, _accumulated(own, events)) or repr(own.from_columns(decoded)) != repr(
        own.from_columns(partial)
    ):
        return f"the state {_show(_accumulated(own, events))} comes back from its bytes as {_show(back)}"
    return None


def _columns(own: Own, events: Sequence[Event], random: Random) -> Broken | None:
    if "accumulate_columns" not in own.own.methods or not events:
        return None
    groups = np.array([random.randrange(3) for _ in events], np.int64)
    values, kept = own.chosen(
        Rows.from_events(events, {name: own.type_of(name) for name in own.inputs}), groups
    )
    wanted = [
        _rows(own, [e for e, g in zip(events, groups, strict=True) if g == i]) for i in range(3)
    ]
    accumulated = own.accumulated(values, kept, 3)
    joined = None if accumulated is None else own.combined(accumulated, np.zeros(3, np.int64), 1)
    if accumulated is None or joined is None:
        name = "accumulate_columns" if accumulated is None else "combine_columns"
        return (
            f"{name} raised, or gave other arrays than one of each field, of its type and of "
            "length n"
        )
    if repr(own.from_columns(accumulated)) != repr(wanted):
        return (
            f"in groups {groups.tolist()} accumulate_columns gave "
            f"{own.from_columns(accumulated)}, row by row {wanted}"
        )
    if repr(own.from_columns(joined)) != repr([_rows(own, events)]):
        return (
            f"combine_columns of {wanted} gave {own.from_columns(joined)}, row by row "
            f"{[_rows(own, events)]}"
        )
    return None


def _deduct(own: Own, events: Sequence[Event], random: Random) -> Broken | None:
    if not isinstance(own, Invertible):
        return None
    at = random.randint(0, len(events))
    whole, part, rest = (
        _accumulated(own, events),
        _accumulated(own, events[:at]),
        _accumulated(own, events[at:]),
    )
    deducted = _made(own).deduct(whole, part)
    if _same(own, deducted, rest):
        return None
    return (
        f"deduct({_show(whole)}, {_show(part)}) is {_show(deducted)}; the others alone come to "
        f"{_show(rest)}"
    )


LAWS: Mapping[str, Law] = {
    "every state is of the declared fields": _fields,
    "empty() changes nothing": _empty,
    "the order of events does not matter": _order,
    "how events are split does not matter": _split,
    "the tree in which partials merge does not matter": _tree,
    "a method changes nothing and gives the same twice": _pure,
    "a state comes back from its bytes": _codec,
    "whole columns give what rows give": _columns,
    "deduct undoes combine": _deduct,
}


# ---- the story


def _broken(aggregate: Own, law: Law, events: Sequence[Event], seed: int) -> Broken | None:
    try:
        return law(aggregate, events, Random(seed))
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"


def _smallest(own: Own, law: Law, events: list[Event], seed: int) -> tuple[list[Event], Broken]:
    """The fewest of the events that still break the law, of the plainest values, by whatever split
    or order does."""

    def still(some: list[Event]) -> Broken | None:
        return next(
            (broken for s in range(24) if (broken := _broken(own, law, some, s)) is not None), None
        )

    breakage = _broken(own, law, events, seed)
    assert breakage is not None
    at = 0
    while at < len(events):
        fewer = [*events[:at], *events[at + 1 :]]
        if (broken := still(fewer)) is None:
            at += 1
        else:
            events, breakage, at = fewer, broken, 0
    for at, name in product(range(len(events)), own.inputs):
        edges = _edges(own.type_of(name))
        topic_partition = (
            edges.index(events[at].columns[name])
            if events[at].columns[name] in edges
            else len(edges)
        )
        for plainer in edges[:topic_partition]:
            event = replace(events[at], columns={**events[at].columns, name: plainer})
            plain = [*events[:at], event, *events[at + 1 :]]
            if (broken := still(plain)) is not None:
                events, breakage = plain, broken
                break
    return events, breakage


def _refusal(own: Own, law: str, events: Sequence[Event], broken: Broken) -> DefinitionError:
    rows = [
        "  " + f"{i}. " + ", ".join(f"{name} = {_show(e.columns[name])}" for name in own.inputs)
        for i, e in enumerate(events, 1)
    ]
    hint = "write it so that the law holds of these events, too"
    if any(kind in ("double", "list<double>") for kind in own.own.fields.values()):
        hint += "; sums of doubles depend on their order: add integers, as in round(x * 100)"
    return DefinitionError(
        f"{own.describe()} breaks a law: {law}\n"
        + "\n".join(["of these events" if rows else "of no events", *rows])
        + f"\n{broken}",
        where=f"class {own.own.name}",
        expected=(
            "the same result of the same events, in whatever order, parts and process they are "
            "taken"
        ),
        next_step=hint,
    )


def _numbers(events: Sequence[Event], other: Sequence[Event]) -> str:
    return ", ".join(str(events.index(event) + 1) for event in other)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:90]}… ({len(text):,} characters)"


# ---- another process


def digest_of(aggregate: Own) -> str:
    """The results of all histories, as one text."""
    digest = hashlib.sha256()
    for seed in range(HISTORIES):
        state = _rows(aggregate, drawn(aggregate, Random(seed)))
        digest.update(repr((state, aggregate.finish(state))).encode())
    return digest.hexdigest()


def _in_another_process(aggregate: Own) -> None:
    """The same histories under another seed of Python's hashes, as another machine's process has
    it."""
    types = {name: str(aggregate.type_of(name)) for name in aggregate.inputs}
    request = json.dumps([aggregate.spec(), types])
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=request,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode or done.stdout.strip() != digest_of(aggregate):
        raise DefinitionError(
            (
                f"{aggregate.describe()} breaks a law: every process gives the same\nanother one "
                "gave other values"
            )
            + (
                f": {done.stderr.strip().splitlines()[-1]}"
                if done.returncode and done.stderr.strip()
                else ""
            ),
            where=f"class {aggregate.own.name}",
            expected="the same result of the same events in every process",
            next_step=(
                "leave out what differs between processes: the order of a set, identities of "
                "objects"
            ),
        )


def _rows(own: Own, events: Sequence[Event]) -> tuple[Any, ...]:
    state = own.empty()
    for event in events:
        state = own.accumulate(state, event)
    return state


def main() -> None:
    """Prints the digest of the aggregate that standard input describes."""
    spec, types = json.loads(sys.stdin.read())
    made = from_spec(spec).bind({name: _type(text) for name, text in types.items()})
    assert isinstance(made, Own)
    sys.stdout.write(digest_of(made))


def _type(text: str) -> pa.DataType:
    if text.startswith("decimal128("):
        precision, scale = text[len("decimal128(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if text.startswith("timestamp"):
        return pa.timestamp("us", "UTC" if "UTC" in text else None)
    return pa.type_for_alias(text.partition("[")[0])


if __name__ == "__main__":
    main()
