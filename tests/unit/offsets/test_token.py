"""Tokens: one answer has one text, a changed text is refused, and the golden vectors hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.errors import BadRequest
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector, TopicPartition

GOLDEN = Path(__file__).parents[1] / "golden" / "tokens.json"
TOPIC = "00112233445566778899aabbccddeeff"
TOPIC_PARTITIONS = st.tuples(st.sampled_from([TOPIC, "f" * 32]), st.integers(0, 40))
OFFSET_VECTORS = st.dictionaries(TOPIC_PARTITIONS, st.integers(0, 2**53), max_size=5).map(
    OffsetVector
)
FINGERPRINTS = st.binary(min_size=8, max_size=8).map(bytes.hex)
TOKENS = st.builds(
    tokens.Token,
    unit=FINGERPRINTS,
    definition=FINGERPRINTS,
    mode=st.sampled_from(tokens.MODES),
    base=OFFSET_VECTORS,
    compacted_beyond=st.dictionaries(st.integers(0, 600_000), OFFSET_VECTORS, max_size=4),
    bounds=st.dictionaries(
        st.text(max_size=12), st.tuples(st.integers(0, 2**51), st.integers(0, 2**51)), max_size=5
    ),
)


def encoded(token: tokens.Token) -> str:
    return tokens.encode(
        token.unit, token.definition, token.base, token.compacted_beyond, token.mode, token.bounds
    )


@settings(deadline=None)
@given(TOKENS)
def test_a_token_comes_back_as_it_was(token: tokens.Token) -> None:
    assert tokens.decode(encoded(token)) == token


@settings(deadline=None)
@given(TOKENS)
def test_equal_values_have_equal_texts_whatever_the_order_they_were_gathered_in(
    token: tokens.Token,
) -> None:
    def turned(values: Mapping[object, object]) -> dict[object, object]:
        return dict(reversed(list(values.items())))

    again = tokens.Token(
        token.unit,
        token.definition,
        token.mode,
        OffsetVector(turned(token.base.offsets)),  # type: ignore[arg-type]
        turned(token.compacted_beyond),  # type: ignore[arg-type]
        turned(token.bounds),  # type: ignore[arg-type]
    )
    assert encoded(again) == encoded(token)


@settings(deadline=None)
@given(TOKENS, st.data())
def test_a_changed_character_is_refused(token: tokens.Token, data: st.DataObject) -> None:
    text = encoded(token)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("ABCDwxyz0189-_=.é ").filter(lambda c: c != text[at]))
    with pytest.raises(BadRequest):
        tokens.decode(text[:at] + other + text[at + 1 :])


@settings(deadline=None)
@given(TOKENS, st.data())
def test_a_cut_token_is_refused(token: tokens.Token, data: st.DataObject) -> None:
    text = encoded(token)
    with pytest.raises(BadRequest):
        tokens.decode(text[: data.draw(st.integers(0, len(text) - 1))])


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_other_text_is_refused_as_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        tokens.decode(text)


def sealed(values: object) -> str:
    """A well-sealed token of values that may make no sense."""
    body = b"\x98" + b"".join(msgpack.packb(value) for value in values)  # type: ignore[attr-defined]
    import zlib

    whole = body + b"\xc4\x04" + zlib.crc32(body).to_bytes(4, "little")
    return base64.urlsafe_b64encode(whole).rstrip(b"=").decode()


FINE = [1, b"\0" * 8, b"\1" * 8, 0, {TOPIC: {0: 5}}, {}, [[0, 60, ["n_1m"]]]]


def test_the_sealed_values_of_the_next_tests_are_a_token_when_fine() -> None:
    assert tokens.decode(sealed(FINE)).base == OffsetVector({(TOPIC, 0): 5})


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (0, 2, "a later version"),
        (0, True, "a boolean version"),
        (1, b"\0" * 7, "a short fingerprint"),
        (1, "0" * 8, "a fingerprint as text"),
        (3, 3, "an unknown mode"),
        (3, True, "a mode that is no integer"),
        (4, {TOPIC: {0: 0}}, "a zero that a canonical offset vector leaves out"),
        (4, {TOPIC: {0: -1}}, "a negative offset"),
        (4, {TOPIC: {0: 1.5}}, "a fractional offset"),
        (4, {"zz" * 16: {0: 1}}, "a topic that is not hex"),
        (4, [1], "an offset vector that is no map"),
        (5, {"5": {}}, "an hour as text"),
        (5, [], "no map of hours"),
        (6, [[0, 60, ["b", "a"]]], "columns out of order"),
        (6, [[0, 60, ["a"]], [0, 60, ["b"]]], "equal bounds apart"),
        (6, [[60, 61, ["a"]], [0, 60, ["b"]]], "bounds out of order"),
        (6, [[0, 60]], "bounds without columns"),
        (6, [[0, 60, [7]]], "a column that is no text"),
    ],
)
def test_sealed_nonsense_and_second_forms_are_refused(at: int, value: object, why: str) -> None:
    values: list[object] = list(FINE)
    values[at] = value
    with pytest.raises(BadRequest):
        tokens.decode(sealed(values))
    assert why


def test_an_overlong_text_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(BadRequest, match="characters"):
        tokens.decode("A" * (tokens.MAX_TEXT + 1))
    with pytest.raises(BadRequest, match="characters"):
        tokens.decode_all("A" * (tokens.MAX_TEXT + 1))


@settings(deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=4))
def test_the_tokens_of_several_units_travel_as_one_text(parts: list[tokens.Token]) -> None:
    assert tokens.decode_all(tokens.join(encoded(part) for part in parts)) == tuple(parts)


@settings(deadline=None)
@given(TOKENS, st.integers(0, 600_000), TOPIC_PARTITIONS, st.integers(0, 2**53))
def test_an_event_is_contained_below_the_larger_of_base_and_the_hours_offset_vector(
    token: tokens.Token, hour: int, topic_partition: TopicPartition, offset: int
) -> None:
    below_base = offset < token.base.offsets.get(topic_partition, 0)
    below_hour = hour in token.compacted_beyond and offset < token.compacted_beyond[
        hour
    ].offsets.get(topic_partition, 0)
    assert token.contains(hour, topic_partition, offset) == (below_base or below_hour)


P0, P1 = (TOPIC, 0), (TOPIC, 1)


@pytest.mark.parametrize(
    ("base", "compacted_beyond", "missing"),
    [
        ({P0: 10, P1: 5}, {7: {P0: 20}}, ()),  # the same
        ({P0: 20, P1: 5}, {}, ()),  # the base has caught up with the hour's offset vector
        ({P0: 10, P1: 5}, {}, (P0,)),  # the hour's offset vector is not there
        ({P0: 9, P1: 9}, {7: {P0: 20}}, (P0,)),  # another hour's events of P0 are missing
        ({P0: 10}, {7: {P0: 20}}, (P1,)),
        ({P0: 10, P1: 5}, {7: {P0: 19}}, (P0,)),
        ({P0: 10, P1: 5}, {8: {P0: 99}}, (P0,)),  # compacted beyond in another hour does not help
    ],
)
def test_an_answer_is_behind_a_token_where_it_lacks_an_event_of_it(
    base: dict[TopicPartition, int],
    compacted_beyond: dict[int, dict[TopicPartition, int]],
    missing: tuple[TopicPartition, ...],
) -> None:
    wanted = tokens.Token(
        "0" * 16, "1" * 16, "live", OffsetVector({P0: 10, P1: 5}), {7: OffsetVector({P0: 20})}, {}
    )
    beyond = {hour: OffsetVector(offsets) for hour, offsets in compacted_beyond.items()}
    assert tokens.missing_partitions(wanted, OffsetVector(base), beyond, (0, 100)) == missing


def test_an_hour_that_the_answer_does_not_reach_is_not_waited_for() -> None:
    wanted = tokens.Token(
        "0" * 16, "1" * 16, "live", OffsetVector({P0: 10}), {7: OffsetVector({P0: 20})}, {}
    )
    assert tokens.missing_partitions(wanted, OffsetVector({P0: 10}), {}, (8, 9)) == ()
    assert tokens.missing_partitions(wanted, OffsetVector({P0: 10}), {}, (7, 8)) == (P0,)


def test_golden_vectors_hold() -> None:
    vectors = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(vectors) >= 3
    for vector in vectors:
        given_values = vector["token"]
        token = tokens.Token(
            given_values["unit"],
            given_values["definition"],
            given_values["mode"],
            OffsetVector({(t, p): o for t, p, o in given_values["base"]}),
            {h: OffsetVector({(t, p): o for t, p, o in c}) for h, c in given_values["ahead"]},
            {column: (start, end) for column, start, end in given_values["bounds"]},
        )
        assert encoded(token) == vector["text"], vector["name"]
        assert tokens.decode(vector["text"]) == token, vector["name"]
        padded = vector["text"] + "=" * (-len(vector["text"]) % 4)
        assert base64.urlsafe_b64decode(padded).hex() == vector["bytes"], vector["name"]
