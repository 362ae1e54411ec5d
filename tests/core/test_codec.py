import ast
import dataclasses
import datetime
import enum
import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackline.core.codec import CustomSerde, Json, Msgpack, decode, encode, serde_from
from ackline.core.errors import InvalidPayload, PayloadTooLarge

LIMIT = 1024
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Mail(msgspec.Struct):
    to: str
    size: float | None = None


@dataclasses.dataclass
class Note:
    weight: float
    text: str | None = None


@given(json_values)
@pytest.mark.parametrize("serde", [Json(), Msgpack()], ids=lambda serde: serde.name)
def test_values_come_back_as_they_were(serde, value):
    data = encode("payload", value, serde, 2**20)

    assert decode("payload", data, serde, Any) == value


def as_enum(bad):
    class Known(enum.Enum):
        BAD = bad

    return Known.BAD


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda bad: bad,
        lambda bad: [1, bad],
        lambda bad: {"a": {"b": (bad,)}},
        lambda bad: Mail("a", bad),
        Note,
        lambda bad: [None, {"x": [bad]}],
        lambda bad: [as_enum(bad)],
    ],
)
def test_json_refuses_what_it_cannot_say(bad, wrap):
    with pytest.raises(InvalidPayload, match="NaN"):
        encode("payload", wrap(bad), Json(), LIMIT)


def test_the_message_says_where_the_nan_is():
    with pytest.raises(InvalidPayload, match=r"\$\.a\[1\]"):
        encode("payload", {"a": [None, math.nan]}, Json(), LIMIT)


@pytest.mark.parametrize("value", [None, [None], {"null": "null"}, "null", {"a": None, "b": 1.5}])
def test_null_itself_is_no_nan(value):
    assert decode("payload", encode("payload", value, Json(), LIMIT), Json(), Any) == value


@pytest.mark.parametrize("serde", [Json(), Msgpack()], ids=lambda serde: serde.name)
@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a\ud83d"]])
def test_lone_surrogates_are_refused(serde, value):
    with pytest.raises(InvalidPayload):
        encode("payload", value, serde, LIMIT)


@pytest.mark.parametrize("value", [object(), {1, object()}, lambda: None, 1j])
def test_what_is_no_data_is_refused(value):
    with pytest.raises(InvalidPayload, match="json"):
        encode("payload", value, Json(), LIMIT)


def test_a_value_within_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(InvalidPayload):
        encode("payload", loop, Json(), LIMIT)


def test_too_large_says_how_large():
    with pytest.raises(PayloadTooLarge) as e:
        encode("result", "x" * LIMIT, Json(), LIMIT)

    assert (e.value.size, e.value.limit) == (1026, 1024)


def test_exactly_the_limit_is_accepted():
    assert len(encode("payload", "x" * (LIMIT - 2), Json(), LIMIT)) == LIMIT


@pytest.mark.parametrize("serde", [Json(), Msgpack()], ids=lambda serde: serde.name)
def test_a_declared_type_is_decoded(serde):
    data = encode("payload", Mail("a@example.com", 1.5), serde, LIMIT)

    assert decode("payload", data, serde, Mail) == Mail("a@example.com", 1.5)


@pytest.mark.parametrize("serde", [Json(), Msgpack()], ids=lambda serde: serde.name)
def test_a_payload_of_another_type_is_refused(serde):
    data = encode("payload", {"to": 5}, serde, LIMIT)

    with pytest.raises(InvalidPayload, match="payload"):
        decode("payload", data, serde, Mail)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"to": "a"} x'])
def test_broken_data_is_refused(data):
    with pytest.raises(InvalidPayload):
        decode("payload", data, Json(), Any)


def test_msgpack_keeps_bytes_and_nan():
    value = decode(
        "payload", encode("payload", [b"\x00\xff", math.nan], Msgpack(), 99), Msgpack(), Any
    )

    assert value[0] == b"\x00\xff"
    assert math.isnan(value[1])


def test_dates_are_written_and_read_by_their_type():
    moment = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    data = encode("payload", moment, Json(), LIMIT)

    assert decode("payload", data, Json(), datetime.datetime) == moment


class Upside:
    def dumps(self, value: Any) -> bytes:
        return json.dumps(value).encode()[::-1]

    def loads(self, data: bytes) -> Any:
        return json.loads(data[::-1])


def test_any_object_that_dumps_and_loads_is_a_serde():
    serde = serde_from(Upside())

    data = encode("payload", {"to": "a"}, serde, LIMIT)

    assert serde.name == "Upside"
    assert data == b'}"a" :"ot"{'
    assert decode("payload", data, serde, Any) == {"to": "a"}
    assert decode("payload", data, serde, Mail) == Mail("a")


def test_a_serde_that_makes_no_bytes_is_refused():
    with pytest.raises(InvalidPayload, match="bytes"):
        encode("payload", 1, serde_from(json), LIMIT)  # type: ignore[arg-type]


def test_serdes_by_name():
    assert isinstance(serde_from(None), Json)
    assert isinstance(serde_from("json"), Json)
    assert isinstance(serde_from("msgpack"), Msgpack)
    custom = CustomSerde(Upside(), name="up")
    assert serde_from(custom) is custom


def test_an_unknown_serde_is_refused():
    with pytest.raises(InvalidPayload, match="serde"):
        serde_from("pickle")


class Named:
    """A serde of a user's own, as the protocol has it."""

    name = "mine"

    def __init__(self) -> None:
        self.asked: list[object] = []

    def dumps(self, value: Any) -> bytes:
        return repr(value).encode()

    def loads(self, data: bytes, type: Any = Any) -> Any:
        self.asked.append(type)
        return ast.literal_eval(data.decode())


def test_a_serde_of_ones_own_is_used_as_it_is():
    mine = Named()

    serde = serde_from(mine)

    assert serde.name == "mine"
    assert decode("payload", encode("payload", [1], serde, 100), serde, list[int]) == [1]
    assert mine.asked == [list[int]]


def test_a_plain_pair_of_functions_keeps_the_name_it_has():
    class Plain:
        name = "plain"

        def dumps(self, value: Any) -> bytes:
            return b"1"

        def loads(self, data: bytes) -> Any:
            return 1

    serde = serde_from(Plain())

    assert serde.name == "plain"
    assert serde.loads(b"1", int) == 1
