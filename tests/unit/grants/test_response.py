"""Answers against the contract of their operation: what is refused, for what reason, and what is relayed."""

import base64
import gzip
import zlib
from collections.abc import Mapping

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from grants.decision import Deny, Reason, Rule
from grants.message import Fields, Relay, Response
from grants.model import Disclosure, Effect, JsonObject, JsonRule, Operation, ResponseRule, Route
from grants.response import MAX_INTERMEDIATE_BYTES, check_response, scan_intermediate
from grants.schema import Schema
from grants.secret import Secret

KEY = b"sk-api/0123456789"
STORED = b"of-another-operation"
BASIC = base64.b64encode(b"x-access-token:" + KEY)
NEEDLES = (Secret(KEY), Secret(STORED), Secret(BASIC))
LIMIT = 4096

JSON = (b"Content-Type", b"application/json")
PLAIN = b'{"id":1}'
WITH_KEY = b'{"id":1,"note":"' + KEY + b'"}'


def operation(**changes: object) -> Operation:
    rule: dict[str, object] = {
        "statuses": frozenset({200, 202, 204, 205, 304}),
        "content_types": frozenset({"application/json"}),
        "max_bytes": LIMIT,
        "disclosure": Disclosure.DENY_EXACT,
        "json": JsonRule(
            object=JsonObject(
                properties={"id": "integer", "note": "string"}, required=frozenset({"id"}), additional=False
            )
        ),
    }
    response = ResponseRule(**(rule | changes))  # type: ignore[arg-type]
    route = Route(template="/info", segments=("info",))
    return Operation(name="info", effect=Effect.READ, method="GET", route=route, response=response)


INFO = operation()


def answer(
    body: bytes = PLAIN,
    *fields: tuple[bytes, bytes],
    status: int = 200,
    reason: bytes = b"OK",
    content_type: bytes | None = b"application/json",
    trailers: Fields = (),
) -> Response:
    typed = () if content_type is None else ((b"Content-Type", content_type),)
    return Response(status=status, reason=reason, fields=(*typed, *fields), body=body, trailers=trailers)


def coded(coding: bytes, body: bytes) -> Response:
    return answer(body, (b"Content-Encoding", coding))


def padded(size: int, end: bytes = b"") -> bytes:
    """An answer of `size` bytes that ends with `end` and then a quote and a brace."""
    start = b'{"id":1,"note":"'
    return start + b"x" * (size - len(start) - len(end) - 2) + end + b'"}'


SIZE = (Rule.RESPONSE_SIZE, Reason.RESPONSE_TOO_LARGE, f"the answer's body is over its limit of {LIMIT} bytes")
HEAD_SIZE = (
    Rule.RESPONSE_SIZE,
    Reason.RESPONSE_HEAD_TOO_LARGE,
    "the answer's header is over 256 fields or 65536 bytes",
)
CREDENTIAL = (Rule.RESPONSE_CREDENTIAL, Reason.CREDENTIAL, "the answer holds a credential of this endpoint")
STATUS = (
    Rule.RESPONSE_STATUS,
    Reason.STATUS,
    "the answer's status is not one of those granted: 200, 202, 204, 205, 304",
)
MEDIA_TYPE = (
    Rule.RESPONSE_SCHEMA,
    Reason.MEDIA_TYPE,
    "the answer's content type is not one of those granted: application/json, in UTF-8",
)
EMPTY = (Rule.RESPONSE_SCHEMA, Reason.RESPONSE_EMPTY, "the answer is empty; granted is one of application/json")
MALFORMED = (Rule.UPSTREAM_ERROR, Reason.MALFORMED, "the upstream's answer has a field that is not well formed")
NOT_A_STREAM = (
    Rule.UPSTREAM_ERROR,
    Reason.RESPONSE_CODING,
    "the answer's body is not one complete stream of its content coding",
)
CODING = (
    Rule.UPSTREAM_ERROR,
    Reason.RESPONSE_CODING,
    "the answer's content coding is not at most 2 of gzip, deflate, br, zstd",
)


def not_json(text: str) -> tuple[Rule, Reason, str]:
    return Rule.RESPONSE_SCHEMA, Reason.RESPONSE_JSON, f"the answer's body: not strict JSON: {text}"


def not_the_shape(text: str) -> tuple[Rule, Reason, str]:
    return Rule.RESPONSE_SCHEMA, Reason.RESPONSE_SCHEMA, f"the answer's body: {text}"


REFUSED = [
    # size
    pytest.param(answer(padded(LIMIT + 1)), SIZE, id="over the limit by one byte"),
    pytest.param(coded(b"gzip", gzip.compress(padded(LIMIT + 1))), SIZE, id="over the limit by one byte, decoded"),
    pytest.param(coded(b"gzip", gzip.compress(bytes(1 << 24))), SIZE, id="gzip that unfolds"),
    pytest.param(coded(b"deflate", zlib.compress(bytes(1 << 24))), SIZE, id="deflate that unfolds"),
    pytest.param(coded(b"br", brotli.compress(bytes(1 << 24), quality=1)), SIZE, id="br that unfolds"),
    pytest.param(coded(b"zstd", zstandard.compress(bytes(1 << 24))), SIZE, id="zstd that unfolds"),
    pytest.param(answer(PLAIN, *[(b"X-N", b"1")] * 300), HEAD_SIZE, id="300 fields"),
    pytest.param(answer(PLAIN, (b"X-Long", b"x" * 65536)), HEAD_SIZE, id="64 KiB of header"),
    pytest.param(answer(PLAIN, (b"X", b"a\r\nb")), MALFORMED, id="line break in a value"),
    pytest.param(coded(b"gzip", PLAIN), NOT_A_STREAM, id="gzip that is none"),
    pytest.param(coded(b"gzip", gzip.compress(PLAIN)[:-1]), NOT_A_STREAM, id="gzip cut short"),
    pytest.param(coded(b"br", brotli.compress(PLAIN) + b"x"), NOT_A_STREAM, id="bytes after br"),
    pytest.param(coded(b"compress", PLAIN), CODING, id="unknown coding"),
    pytest.param(coded(b"gzip, gzip, gzip", PLAIN), CODING, id="three codings"),
    # credential
    pytest.param(answer(reason=KEY), CREDENTIAL, id="in the reason phrase"),
    pytest.param(answer(PLAIN, (b"X-sk-api", b"1"), (b"X", KEY)), CREDENTIAL, id="in a field value"),
    pytest.param(answer(PLAIN, (b"x-" + STORED, b"1")), CREDENTIAL, id="in a field name"),
    pytest.param(answer(PLAIN, (b"Location", b"/?k=" + KEY)), CREDENTIAL, id="in Location"),
    pytest.param(answer(PLAIN, (b"Set-Cookie", b"k=" + KEY)), CREDENTIAL, id="in a field that is not relayed"),
    pytest.param(answer(trailers=((b"X-Sum", KEY),)), CREDENTIAL, id="in a trailer"),
    pytest.param(answer(WITH_KEY), CREDENTIAL, id="in a value"),
    pytest.param(answer(b'{"' + KEY + b'":1}'), CREDENTIAL, id="in a key"),
    pytest.param(answer(padded(LIMIT, KEY)), CREDENTIAL, id="at the end of the limit"),
    pytest.param(answer(b'"' + b"x" * (LIMIT - 1 - len(KEY)) + KEY), CREDENTIAL, id="at the last byte of the limit"),
    pytest.param(coded(b"gzip", gzip.compress(WITH_KEY)), CREDENTIAL, id="in gzip"),
    pytest.param(coded(b"br", brotli.compress(WITH_KEY)), CREDENTIAL, id="in br"),
    pytest.param(coded(b"zstd", zstandard.compress(WITH_KEY)), CREDENTIAL, id="in zstd"),
    pytest.param(coded(b"deflate", zlib.compress(WITH_KEY)), CREDENTIAL, id="in deflate"),
    pytest.param(coded(b"br, gzip", gzip.compress(brotli.compress(WITH_KEY))), CREDENTIAL, id="in br in gzip"),
    pytest.param(
        coded(b"gzip", b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + KEY + b"\0" + gzip.compress(PLAIN)[10:]),
        CREDENTIAL,
        id="in the file name of gzip",
    ),
    pytest.param(coded(b"deflate, gzip", gzip.compress(zlib.compress(WITH_KEY, level=0))), CREDENTIAL, id="in a layer"),
    pytest.param(answer(rb'{"id":1,"note":"\u0073k-api/0123456789"}'), CREDENTIAL, id="escaped letter in a value"),
    pytest.param(answer(rb'{"id":1,"note":"sk-api\/0123456789"}'), CREDENTIAL, id="escaped slash in a value"),
    pytest.param(answer(rb'{"id":1,"sk-api\/0123456789":1}'), CREDENTIAL, id="escaped slash in a key"),
    pytest.param(answer(rb'{"id":1,"\u0073k-api/0123456789":1}'), CREDENTIAL, id="escaped letter in a key"),
    pytest.param(answer(rb'{"id":1,"id":"sk-api\/0123456789"}'), CREDENTIAL, id="escaped, in JSON with a key twice"),
    pytest.param(
        coded(b"gzip", gzip.compress(rb'{"id":1,"note":"sk-api\/0123456789"}')), CREDENTIAL, id="escaped in gzip"
    ),
    pytest.param(answer(b'{"id":1,"note":"' + BASIC + b'"}'), CREDENTIAL, id="encoded Basic credentials"),
    pytest.param(answer(b'{"id":1,"note":"' + STORED + b'"}'), CREDENTIAL, id="of another operation"),
    pytest.param(answer((KEY[:-1] + b"_ ") * 50 + KEY), CREDENTIAL, id="after fifty that look like it"),
    pytest.param(answer(WITH_KEY, status=500), CREDENTIAL, id="with a status that is not granted"),
    pytest.param(answer(WITH_KEY, content_type=b"text/html"), CREDENTIAL, id="with another content type"),
    pytest.param(answer(b"", (b"X", KEY), status=204), CREDENTIAL, id="in an answer without content"),
    # status
    pytest.param(answer(status=201), STATUS, id="201 for 200"),
    pytest.param(answer(status=404), STATUS, id="404"),
    pytest.param(answer(status=500, content_type=b"text/html"), STATUS, id="500 with another content type"),
    pytest.param(answer(b"", status=302), STATUS, id="302"),
    pytest.param(answer(status=101), STATUS, id="101"),
    # content type
    pytest.param(answer(content_type=b"text/html"), MEDIA_TYPE, id="text/html"),
    pytest.param(answer(content_type=b"text/json"), MEDIA_TYPE, id="text/json"),
    pytest.param(answer(content_type=b"application/problem+json"), MEDIA_TYPE, id="a suffix that is not listed"),
    pytest.param(answer(content_type=None), MEDIA_TYPE, id="no content type"),
    pytest.param(answer(content_type=b""), MEDIA_TYPE, id="empty content type"),
    pytest.param(answer(content_type=b"application/json; charset=latin-1"), MEDIA_TYPE, id="Latin-1"),
    pytest.param(answer(content_type=b"application/json; charset=utf-16"), MEDIA_TYPE, id="UTF-16"),
    pytest.param(answer(content_type=b"application/json, text/html"), MEDIA_TYPE, id="two in one field"),
    pytest.param(answer(PLAIN, JSON), MEDIA_TYPE, id="two fields"),
    pytest.param(answer(b"<html>", content_type=b"text/html"), MEDIA_TYPE, id="HTML as such"),
    # schema
    pytest.param(answer(b""), EMPTY, id="an empty 200"),
    pytest.param(answer(b"", content_type=None), EMPTY, id="an empty 200 without a content type"),
    pytest.param(answer(b"", status=205, content_type=None), EMPTY, id="an empty 205"),
    pytest.param(coded(b"gzip", gzip.compress(b"")), EMPTY, id="empty once decoded"),
    pytest.param(answer(b"<html>"), not_json("it is not one JSON value"), id="HTML called JSON"),
    pytest.param(answer(b'{"id":1,"id":2}'), not_json("an object has the same key twice"), id="key twice"),
    pytest.param(answer(b'{"id":1'), not_json("it ends too early"), id="cut short"),
    pytest.param(answer('{"id":1}'.encode("utf-16")), not_json("it is not one JSON value"), id="in UTF-16"),
    pytest.param(answer(b"[1]"), not_the_shape("not a JSON object"), id="array at the top"),
    pytest.param(
        answer(b'{"id":1,"plan":2}'),
        not_the_shape("a property is not declared; declared: id, note"),
        id="undeclared property",
    ),
    pytest.param(answer(b'{"note":""}'), not_the_shape('required property "id" is missing'), id="missing property"),
    pytest.param(answer(b'{"id":1.0}'), not_the_shape('property "id" is not an integer'), id="wrong type"),
]


def refusal(denial: Relay | Deny | None) -> tuple[Rule, Reason, str]:
    assert isinstance(denial, Deny)
    assert denial.status == 502
    return denial.rule, denial.reason, denial.detail


@pytest.mark.parametrize(("response", "expected"), REFUSED)
def test_an_answer_that_is_refused(response: Response, expected: tuple[Rule, Reason, str]) -> None:
    """Size, credential, status, content type and schema are checked in this order; a refusal shows nothing."""
    denial = check_response(INFO, method=b"GET", response=response, needles=NEEDLES)
    assert refusal(denial) == expected
    assert isinstance(denial, Deny)
    assert denial.operation == "info"


PASSING = [
    pytest.param(answer(), PLAIN, id="plain"),
    pytest.param(answer(status=202), PLAIN, id="another status"),
    pytest.param(answer(padded(LIMIT)), padded(LIMIT), id="at the limit"),
    pytest.param(coded(b"gzip", gzip.compress(padded(LIMIT))), padded(LIMIT), id="at the limit, decoded"),
    pytest.param(coded(b"gzip", gzip.compress(PLAIN)), PLAIN, id="gzip"),
    pytest.param(coded(b"br", brotli.compress(PLAIN)), PLAIN, id="br"),
    pytest.param(coded(b"zstd", zstandard.compress(PLAIN)), PLAIN, id="zstd"),
    pytest.param(coded(b"deflate", zlib.compress(PLAIN)), PLAIN, id="deflate"),
    pytest.param(coded(b"br, gzip", gzip.compress(brotli.compress(PLAIN))), PLAIN, id="two codings"),
    pytest.param(coded(b"identity", PLAIN), PLAIN, id="identity"),
    pytest.param(answer(content_type=b"Application/JSON"), PLAIN, id="content type in other case"),
    pytest.param(answer(content_type=b"application/json; charset=utf-8"), PLAIN, id="charset"),
    pytest.param(answer(content_type=b'application/json;charset="UTF-8"'), PLAIN, id="quoted charset"),
    pytest.param(answer(content_type=b"application/json; profile=x"), PLAIN, id="another parameter"),
    pytest.param(answer(b' {"id":1}\n'), b' {"id":1}\n', id="white space stays"),
    pytest.param(answer(rb'{"id":1,"note":"\u0073k-\/"}'), rb'{"id":1,"note":"\u0073k-\/"}', id="escapes stay"),
    pytest.param(answer(trailers=((b"X-Sum", b"1"),)), PLAIN, id="with a trailer"),
]


@pytest.mark.parametrize(("response", "body"), PASSING)
def test_an_answer_that_passes(response: Response, body: bytes) -> None:
    """What is relayed is the checked body without its coding, its exact length, and the end-to-end fields."""
    relay = check_response(INFO, method=b"GET", response=response, needles=NEEDLES)
    types = tuple(field for field in response.fields if field[0] == b"Content-Type")
    assert relay == Relay(status=response.status, fields=types, body=body, length=len(body))


def test_the_fields_that_are_relayed() -> None:
    """End-to-end fields go on as they came; the rest, and cookies, stay here."""
    fields = (
        (b"Date", b"Tue, 01 Jul 2025 00:00:00 GMT"),
        (b"Connection", b"X-Hop"),
        (b"X-Hop", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Set-Cookie", b"s=1"),
        (b"Link", b"</x>; rel=next"),
        (b"ETag", b'"1"'),
    )
    relay = check_response(INFO, method=b"GET", response=answer(PLAIN, *fields), needles=NEEDLES)
    assert isinstance(relay, Relay)
    assert relay.fields == (JSON, fields[0], fields[5], fields[6])
    chosen = operation(headers=frozenset({"set-cookie", "etag"}))
    relay = check_response(chosen, method=b"GET", response=answer(PLAIN, *fields), needles=NEEDLES)
    assert isinstance(relay, Relay)
    assert relay.fields == (fields[4], fields[6])


LENGTH = (b"Content-Length", b"812")

WITHOUT_CONTENT = [
    pytest.param(b"HEAD", answer(b"", LENGTH), 812, id="HEAD"),
    pytest.param(b"HEAD", answer(b"", content_type=None), None, id="HEAD without a length"),
    pytest.param(b"HEAD", answer(b"", LENGTH, content_type=b"text/html"), 812, id="HEAD of another type"),
    pytest.param(b"HEAD", answer(b"", LENGTH, (b"Content-Encoding", b"gzip")), None, id="HEAD of a coded body"),
    pytest.param(b"HEAD", answer(b"", LENGTH, (b"Content-Encoding", b"odd")), None, id="HEAD of an unknown coding"),
    pytest.param(b"HEAD", answer(b"", LENGTH, (b"Content-Encoding", b"identity")), 812, id="HEAD of identity"),
    pytest.param(b"HEAD", answer(b"", (b"Content-Length", b"99999999")), 99999999, id="HEAD of a large body"),
    pytest.param(b"HEAD", answer(b"", (b"Content-Length", b"x")), None, id="HEAD with a bad length"),
    pytest.param(b"HEAD", answer(b"", LENGTH, status=304), 812, id="HEAD and 304"),
    pytest.param(b"HEAD", answer(b"", LENGTH, status=204), None, id="HEAD and 204"),
    pytest.param(b"GET", answer(b"", LENGTH, status=304, content_type=None), 812, id="304 keeps its length"),
    pytest.param(b"GET", answer(b"", status=304, content_type=None), None, id="304 without a length"),
    pytest.param(b"GET", answer(b"", LENGTH, (b"Content-Encoding", b"br"), status=304), None, id="304 of a coded body"),
    pytest.param(b"GET", answer(b"", status=204, content_type=None), None, id="204"),
    pytest.param(b"DELETE", answer(b"", LENGTH, status=204), None, id="204 with a length"),
]


@pytest.mark.parametrize(("method", "response", "length"), WITHOUT_CONTENT)
def test_an_answer_that_never_has_a_body(method: bytes, response: Response, length: int | None) -> None:
    """HEAD, 204 and 304 need no content type and no JSON, and keep the length unless a coding was taken off."""
    relay = check_response(INFO, method=method, response=response, needles=NEEDLES)
    assert isinstance(relay, Relay)
    assert (relay.status, relay.body, relay.length) == (response.status, b"", length)
    assert not {name.lower() for name, _ in relay.fields} & {b"content-length", b"content-encoding"}


@pytest.mark.parametrize(
    ("method", "response", "expected"),
    [
        pytest.param(b"HEAD", answer(b"", status=500), STATUS, id="HEAD with a status that is not granted"),
        pytest.param(b"HEAD", answer(b"", (b"X", KEY)), CREDENTIAL, id="HEAD with a credential"),
        pytest.param(b"head", answer(b""), EMPTY, id="a method that only looks like HEAD"),
        pytest.param(
            b"HEAD",
            answer(),
            (
                Rule.UPSTREAM_ERROR,
                Reason.RESPONSE_NOT_EMPTY,
                "the upstream's answer has a body where none may be",
            ),
            id="HEAD with a body",
        ),
        pytest.param(
            b"GET",
            answer(status=204),
            (
                Rule.UPSTREAM_ERROR,
                Reason.RESPONSE_NOT_EMPTY,
                "the upstream's answer has a body where none may be",
            ),
            id="204 with a body",
        ),
    ],
)
def test_an_answer_that_never_has_a_body_is_held_to_the_rest(
    method: bytes, response: Response, expected: tuple[Rule, Reason, str]
) -> None:
    """Size, credential and status count for HEAD, 204 and 304 too, and the body is empty."""
    assert refusal(check_response(INFO, method=method, response=response, needles=NEEDLES)) == expected


def test_without_content_needs_its_status_granted() -> None:
    """204 and 304 pass only where they are granted."""
    only = operation(statuses=frozenset({200}))
    for status in (204, 304):
        denial = check_response(only, method=b"GET", response=answer(b"", status=status), needles=())
        assert refusal(denial)[1] is Reason.STATUS


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(answer(b""), id="with a content type"),
        pytest.param(answer(b"", content_type=b"text/html"), id="with another content type"),
        pytest.param(answer(b"", content_type=None, status=202), id="without a content type"),
        pytest.param(coded(b"gzip", b""), id="with a coding of nothing"),
        pytest.param(coded(b"gzip", gzip.compress(b"")), id="empty once decoded"),
    ],
)
def test_an_empty_answer_may_be_granted(response: Response) -> None:
    """With `empty: true` an answer without a body passes for any granted status, whatever its content type."""
    relay = check_response(operation(empty=True), method=b"GET", response=response, needles=NEEDLES)
    assert isinstance(relay, Relay)
    assert (relay.body, relay.length) == (b"", 0)


def test_an_answer_that_may_be_empty_and_is_not() -> None:
    """With `empty: true` an answer with a body is held to content type and schema."""
    may = operation(empty=True)
    assert isinstance(check_response(may, method=b"GET", response=answer(), needles=()), Relay)
    for response, reason in (
        (answer(content_type=None), Reason.MEDIA_TYPE),
        (answer(b"{}"), Reason.RESPONSE_SCHEMA),
        (answer(b" "), Reason.RESPONSE_JSON),
        (answer(b"", status=201), Reason.STATUS),
    ):
        assert refusal(check_response(may, method=b"GET", response=response, needles=()))[1] is reason


def test_a_full_schema_and_several_types() -> None:
    """An answer may be held to a full schema, and have one of several JSON types."""
    rule: Mapping[str, object] = {
        "json": JsonRule(schema=Schema({"type": "array", "maxItems": 2})),
        "content_types": frozenset({"application/json", "application/hal+json"}),
    }
    full = operation(**rule)
    hal = answer(b"[1,2]", content_type=b"application/HAL+json")
    assert isinstance(check_response(full, method=b"GET", response=hal, needles=()), Relay)
    denial = check_response(full, method=b"GET", response=answer(b"[1,2,3]"), needles=())
    assert refusal(denial)[:2] == (Rule.RESPONSE_SCHEMA, Reason.RESPONSE_SCHEMA)


INTERMEDIATE_SIZE = (
    Rule.RESPONSE_SIZE,
    Reason.RESPONSE_TOO_LARGE,
    f"the answer's body is over its limit of {MAX_INTERMEDIATE_BYTES} bytes",
)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param(answer(b"", status=302), None, id="empty"),
        pytest.param(answer(b"<html>" + bytes(1000), content_type=b"text/html", status=301), None, id="HTML"),
        pytest.param(answer(b"x" * 65536, content_type=None, status=302), None, id="64 KiB"),
        pytest.param(coded(b"gzip", gzip.compress(bytes(65536))), None, id="64 KiB decoded"),
        pytest.param(answer(b"x" * 65537, status=302), INTERMEDIATE_SIZE, id="over 64 KiB"),
        pytest.param(coded(b"gzip", gzip.compress(bytes(65537))), INTERMEDIATE_SIZE, id="over 64 KiB decoded"),
        pytest.param(
            coded(b"gzip", gzip.compress(b"") * 3300), INTERMEDIATE_SIZE, id="over 64 KiB as received, small decoded"
        ),
        pytest.param(coded(b"gzip", b"x"), NOT_A_STREAM, id="not to be decoded"),
        pytest.param(answer(b"", *[(b"X", b"1")] * 300), HEAD_SIZE, id="300 fields"),
        pytest.param(answer(b"", (b"Location", b"/?k=" + KEY), status=302), CREDENTIAL, id="credential in Location"),
        pytest.param(answer(b"", (b"Set-Cookie", b"s=" + KEY), status=302), CREDENTIAL, id="credential in a cookie"),
        pytest.param(answer(b"<a href='" + KEY + b"'>", status=302), CREDENTIAL, id="credential in the body"),
        pytest.param(coded(b"br", brotli.compress(KEY)), CREDENTIAL, id="credential in a coded body"),
        pytest.param(answer(rb"'sk-api\/0123456789'", status=302), CREDENTIAL, id="credential escaped"),
        pytest.param(answer(b"", reason=KEY, status=302), CREDENTIAL, id="credential in the reason phrase"),
    ],
)
def test_an_answer_on_the_way(response: Response, expected: tuple[Rule, Reason, str] | None) -> None:
    """The answer of a redirect is read up to 64 KiB and scanned for credentials; what else it is does not matter."""
    denial = scan_intermediate(response, NEEDLES, operation="info")
    assert (None if denial is None else refusal(denial)) == expected
    assert denial is None or denial.operation == "info"


def test_an_answer_on_the_way_without_an_operation() -> None:
    """The operation's name may be added by whoever knows it."""
    denial = scan_intermediate(answer(KEY), NEEDLES)
    assert denial is not None
    assert denial.operation is None


def test_a_refusal_shows_nothing_of_the_answer() -> None:
    """No text of a refusal has a byte of the refused answer."""
    mark = b"zzmarkzz"
    for response in (
        answer(b'{"id":1,"%s":"%s"}' % (mark, mark)),
        answer(b'{"%s":1,"%s":1}' % (mark, mark)),
        answer(b'{"id":"%s"}' % mark),
        answer(mark),
        answer(content_type=b"text/" + mark),
        answer(mark, status=500, reason=mark),
        answer(PLAIN, (b"Content-Encoding", mark)),
        answer(PLAIN, (mark + b" ", mark)),
    ):
        denial = check_response(INFO, method=b"GET", response=response, needles=NEEDLES)
        assert isinstance(denial, Deny)
        assert "zz" not in repr(denial)
