"""What holds for every answer: no bytes raise, no credential gets through, no text reads in two ways."""

import contextlib
import gzip
import json
import math
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from grants.coding import CodingError, decode
from grants.decision import Deny, Reason
from grants.disclosure import Scanner
from grants.jsontext import JsonInvalid, JsonValue, parse_json
from grants.message import Relay, Response
from grants.model import Disclosure, Effect, JsonObject, JsonRule, Operation, ResponseRule, Route
from grants.response import check_response, scan_intermediate
from grants.secret import Secret

OPERATION = Operation(
    name="any",
    effect=Effect.READ,
    method="GET",
    route=Route(template="/", segments=()),
    response=ResponseRule(
        statuses=frozenset({200, 204}),
        content_types=frozenset({"application/json"}),
        max_bytes=512,
        disclosure=Disclosure.DENY_EXACT,
        json=JsonRule(object=JsonObject(properties={"a": "string"}, required=frozenset(), additional=True)),
        empty=True,
    ),
)

CODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstandard.compress,
}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
documents = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
structure = ["{", "}", "[", "]", ",", ":", " ", "\n", '"', "\\", '"a"', '"\\u0061"', '"b"', '"\\ud800"', "true", "null"]
numbers = ["0", "-1", "1.5", "1e5", "2E+400", "9e-400", "01", ".", "e", "+", "NaN", "-Infinity"]
pieces = st.sampled_from([*structure, *numbers, "\x0c", "\ufeff", "é", "\x00"])
near_json = st.lists(pieces, max_size=12).map(lambda parts: "".join(parts).encode())
values = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=40)
names = st.sampled_from([b"Content-Type", b"Content-Encoding", b"Connection", b"Content-Length", b"X-A", b"Location"])
texts = st.sampled_from([b"application/json", b"gzip", b"br, gzip", b"zstd", b"deflate", b"x-a", b"7", b"identity"])
fields = st.lists(st.tuples(names | st.binary(), texts | st.binary()), max_size=6).map(tuple)


def fast(examples: int) -> settings:
    return settings(deadline=None, max_examples=examples)


@given(
    st.builds(
        Response,
        status=st.sampled_from([200, 204, 304]) | st.integers(),
        reason=st.binary(max_size=20),
        fields=fields,
        body=st.binary(max_size=600) | near_json | documents.map(lambda value: json.dumps(value).encode()),
        trailers=fields,
    ),
    st.sampled_from([b"GET", b"HEAD"]) | st.binary(),
    st.lists(values, max_size=3),
)
@fast(300)
def test_every_answer_is_relayed_or_refused(response: Response, method: bytes, held: list[str]) -> None:
    """A check is total: it returns an answer or a refusal, whatever the bytes, and what it relays is within bounds."""
    needles = [Secret(value.encode()) for value in held]
    outcome = check_response(OPERATION, method=method, response=response, needles=needles)
    scan_intermediate(response, needles)
    if isinstance(outcome, Deny):
        assert outcome.status == 502
        return
    assert len(outcome.body) <= 512
    shown = [outcome.body, *[part for field in outcome.fields for part in field]]
    assert not any(needle.reveal() in part for needle in needles for part in shown)


def spelled(text: str, how: list[int]) -> str:
    """`text` within a JSON string, each character written as it is or as one of its escapes."""
    out = []
    for at, char in enumerate(text):
        way = how[at % len(how)]
        if way == 1 or (way == 0 and char in '"\\'):
            out.append({"/": "\\/", '"': '\\"', "\\": "\\\\"}.get(char, char))
        elif way == 2:
            out.append(f"\\u{ord(char):04x}")
        elif way == 3:
            out.append(f"\\u{ord(char):04X}")
        else:
            out.append(char)
    return "".join(out)


@given(
    values,
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.text(max_size=10),
    st.text(max_size=10),
    st.booleans(),
    st.lists(st.sampled_from(sorted(CODINGS)), max_size=2),
)
@fast(300)
def test_no_spelling_hides_a_credential(
    value: str, how: list[int], before: str, after: str, as_key: bool, codings: list[bytes]
) -> None:
    """A credential in a key or a string is found however the string is escaped and the body coded."""
    string = f'"{json.dumps(before)[1:-1]}{spelled(value, how)}{json.dumps(after)[1:-1]}"'
    assert value in json.loads(string)
    body = (f'{{"b":[{{{string}:1}}]}}' if as_key else f'{{"b":[{string}]}}').encode()
    for coding in codings:
        body = CODINGS[coding](body)
    response = Response(
        status=200,
        reason=b"OK",
        fields=((b"Content-Type", b"application/json"), (b"Content-Encoding", b", ".join(codings))),
        body=body,
    )
    outcome = check_response(OPERATION, method=b"GET", response=response, needles=[Secret(value.encode())])
    assert isinstance(outcome, Deny)
    assert outcome.reason in {Reason.CREDENTIAL, Reason.RESPONSE_TOO_LARGE}


@given(values, documents)
@fast(200)
def test_a_value_is_found_only_where_it_stands(value: str, document: JsonValue) -> None:
    """The scan of a JSON text agrees with a look at its decoded keys and strings."""
    text = json.dumps(document).encode()
    strings: list[str] = []
    stack = [document]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            strings.append(item)
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            strings.extend(item)
            stack.extend(item.values())
    if Scanner([Secret(value.encode())]).in_json(text):
        assert any(value in string for string in strings)


@given(documents, st.booleans())
@fast(200)
def test_what_was_written_is_read(document: JsonValue, ascii_only: bool) -> None:
    """Every JSON value comes back as it was written, integers as integers."""
    text = json.dumps(document, ensure_ascii=ascii_only)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return
    if any(0xD800 <= ord(char) <= 0xDFFF for char in json.dumps(document, ensure_ascii=False)):
        return
    parsed = parse_json(encoded)
    assert parsed == document
    assert json.dumps(parsed) == json.dumps(document)


def unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError
    return result


def no_constant(name: str) -> float:
    raise ValueError


def finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError
    return number


def reference(data: bytes) -> JsonValue:
    """The standard library's reading, made as strict."""
    text = data.decode()
    value: JsonValue = json.loads(
        text,
        object_pairs_hook=unique,
        parse_constant=no_constant,
        parse_float=finite,
        parse_int=lambda t: finite(t) and int(t),
    )
    json.dumps(value, ensure_ascii=False).encode()
    return value


@given(near_json)
@fast(500)
def test_two_readers_agree(data: bytes) -> None:
    """A text is accepted exactly when the standard library, made as strict, accepts it, and means the same."""
    try:
        expected = reference(data)
    except ValueError:
        with pytest.raises(JsonInvalid):
            parse_json(data)
    else:
        assert parse_json(data) == expected


@given(st.binary(max_size=300), st.lists(st.sampled_from(sorted(CODINGS)), max_size=2), st.integers(0, 400))
@fast(200)
def test_a_coding_comes_off_as_it_went_on(data: bytes, codings: list[bytes], limit: int) -> None:
    """What was encoded is decoded within the limit, or refused."""
    coded = [data]
    for coding in codings:
        coded.append(CODINGS[coding](coded[-1]))
    if codings and any(len(layer) > limit for layer in coded[:-1]):
        with pytest.raises(CodingError, match="too-large"):
            decode(codings, coded[-1], limit=limit)
    else:
        assert decode(codings, coded[-1], limit=limit) == tuple(reversed(coded))


@given(st.binary(max_size=200), st.lists(st.sampled_from([*CODINGS, b"x-gzip", b"odd"]), max_size=3))
@fast(300)
def test_no_bytes_break_a_decoder(body: bytes, codings: list[bytes]) -> None:
    """Any bytes decode, or are refused with the one error type."""
    with contextlib.suppress(CodingError):
        assert decode(codings, body, limit=1000)[0] == body


@given(st.sampled_from(sorted(CODINGS)), st.binary(min_size=1, max_size=100), st.data())
@fast(200)
def test_a_changed_stream_is_never_over_the_limit(coding: bytes, data: bytes, draw: st.DataObject) -> None:
    """A stream with one byte changed decodes within the limit, or is refused."""
    stream = bytearray(CODINGS[coding](data))
    stream[draw.draw(st.integers(0, len(stream) - 1))] = draw.draw(st.integers(0, 255))
    try:
        layers = decode([coding], bytes(stream), limit=200)
    except CodingError:
        return
    assert len(layers[-1]) <= 200


def test_a_relay_has_an_exact_length() -> None:
    """What passes has the length of its body."""
    response = Response(status=200, reason=b"", fields=((b"Content-Type", b"application/json"),), body=b"{}")
    outcome = check_response(OPERATION, method=b"GET", response=response, needles=())
    assert isinstance(outcome, Relay)
    assert outcome.length == 2
