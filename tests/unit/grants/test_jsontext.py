"""Strict JSON: what must parse, what must not, and that a refusal shows nothing of the text."""

import math

import pytest

from grants.jsontext import MAX_LEVELS, JsonInvalid, JsonValue, parse_json

ACCEPTED = [
    pytest.param(b"{}", {}, id="empty object"),
    pytest.param(b"[]", [], id="empty array"),
    pytest.param(b"null", None, id="null at the top"),
    pytest.param(b"true", True, id="true at the top"),
    pytest.param(b"false", False, id="false at the top"),
    pytest.param(b'"a"', "a", id="string at the top"),
    pytest.param(b'""', "", id="empty string"),
    pytest.param(b'{"":0}', {"": 0}, id="empty key"),
    pytest.param(b" \t\r\n[ 1 ,\n2 ] \r\n", [1, 2], id="white space around everything"),
    pytest.param(b"0", 0, id="zero"),
    pytest.param(b"-0", 0, id="minus zero is an integer"),
    pytest.param(b"-0.0", -0.0, id="minus zero with a fraction"),
    pytest.param(b"-12", -12, id="negative"),
    pytest.param(b"1.0", 1.0, id="fraction"),
    pytest.param(b"1e2", 100.0, id="exponent"),
    pytest.param(b"1E+2", 100.0, id="exponent with plus"),
    pytest.param(b"1e-2", 0.01, id="exponent with minus"),
    pytest.param(b"1e-999", 0.0, id="underflow is zero"),
    pytest.param(b"0e999", 0.0, id="zero to any exponent"),
    pytest.param(b"1e308", 1e308, id="near the largest double"),
    pytest.param(b"-1.7976931348623157e+308", -1.7976931348623157e308, id="the smallest double"),
    pytest.param(b"0." + b"1" * 5000, float("0." + "1" * 5000), id="5000 digits of a fraction"),
    pytest.param(b"1" * 308, int("1" * 308), id="308 digits"),
    pytest.param(b"[" + b"1" * 309 + b"e-300]", [float("1" * 309 + "e-300")], id="309 digits scaled down"),
    pytest.param(b"9007199254740993", 2**53 + 1, id="beyond a double's precision stays exact"),
    pytest.param(b'"\\u0061\\n\\/\\\\\\"\\b\\f\\r\\t"', 'a\n/\\"\b\f\r\t', id="each escape"),
    pytest.param(b'"\\ud83d\\ude00"', "\U0001f600", id="surrogate pair"),
    pytest.param('"\U0001f600é\u2028"'.encode(), "\U0001f600é\u2028", id="UTF-8 of each length"),
    pytest.param(b'"\\u0000"', "\0", id="escaped NUL"),
    pytest.param(b'"\x7f"', "\x7f", id="DEL is allowed in a string"),
    pytest.param(b'"\\uffff\\ufdd0"', "\uffff\ufdd0", id="noncharacters"),
    pytest.param(b'{"a":{"a":{"a":1}}}', {"a": {"a": {"a": 1}}}, id="a key again at another depth"),
    pytest.param(b'[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}], id="a key again in another object"),
    pytest.param(b'{"a":1,"A":2}', {"a": 1, "A": 2}, id="keys differ in case"),
    pytest.param('{"é":1,"e\u0301":2}'.encode(), {"é": 1, "e\u0301": 2}, id="keys differ in normal form"),
    pytest.param(b'"0e999 ' + b"9" * 400 + b'"', "0e999 " + "9" * 400, id="a string that looks like large numbers"),
    pytest.param(b'{"sha":"3e45678","n":[1.5,2]}', {"sha": "3e45678", "n": [1.5, 2]}, id="a hash that looks like one"),
]


@pytest.mark.parametrize(("text", "value"), ACCEPTED)
def test_strict_json_is_read(text: bytes, value: JsonValue) -> None:
    """One JSON value in UTF-8 is read, numbers exactly and with their own type (RFC 8259)."""
    parsed = parse_json(text)
    assert parsed == value
    assert type(parsed) is type(value)


TWICE = "an object has the same key twice"
LARGE = "a number is too large"
NOT_JSON = "it is not one JSON value"
EARLY = "it ends too early"
AFTER = "something follows the value"
UTF8 = "it is not UTF-8"
HALF = "a string holds half of a surrogate pair"
CONTROL = "a string holds a control character"
DEEP = "it is more than 200 levels deep"

REFUSED = [
    # more or less than one value
    pytest.param(b"", EARLY, id="empty"),
    pytest.param(b" \n", EARLY, id="only white space"),
    pytest.param(b"1 2", AFTER, id="two values"),
    pytest.param(b"1,2", AFTER, id="two values with a comma"),
    pytest.param(b"1,", AFTER, id="comma after the value"),
    pytest.param(b"1],[2", AFTER, id="brackets that would fit into an array"),
    pytest.param(b"]", NOT_JSON, id="only a closing bracket"),
    pytest.param(b"{}}", AFTER, id="one brace too many"),
    pytest.param(b"{}\x00", AFTER, id="NUL after the value"),
    pytest.param(b"{}#", AFTER, id="comment after the value"),
    pytest.param(b"// x\n1", NOT_JSON, id="comment before the value"),
    pytest.param(b"[1,/**/2]", NOT_JSON, id="comment inside"),
    # encodings
    pytest.param(b"\xef\xbb\xbf{}", "it starts with a byte order mark", id="byte order mark"),
    pytest.param("{}".encode("utf-16"), NOT_JSON, id="UTF-16 with a mark"),
    pytest.param('{"a":1}'.encode("utf-16-le"), NOT_JSON, id="UTF-16 little-endian"),
    pytest.param('"a"'.encode("utf-32-be"), NOT_JSON, id="UTF-32"),
    pytest.param(b'"\xff"', UTF8, id="a byte that is never UTF-8"),
    pytest.param(b'"\xc0\xaf"', UTF8, id="overlong"),
    pytest.param(b'"\xed\xa0\x80"', UTF8, id="surrogate in UTF-8"),
    pytest.param(b'"\xf4\x90\x80\x80"', UTF8, id="beyond Unicode"),
    pytest.param(b'"\xe2\x82"', UTF8, id="cut sequence"),
    pytest.param(b'{"\xe9":1}', UTF8, id="Latin-1 key"),
    pytest.param(b"\xc2\xa01", NOT_JSON, id="no-break space is not white space"),
    pytest.param(b"\x0c1", NOT_JSON, id="form feed is not white space"),
    # keys
    pytest.param(b'{"a":1,"a":1}', TWICE, id="key twice"),
    pytest.param(b'{"x":[{"a":1,"b":2,"a":3}]}', TWICE, id="key twice in depth"),
    pytest.param(b'{"\\u0061":1,"a":2}', TWICE, id="key twice by escape"),
    pytest.param(b'{"":1,"":2}', TWICE, id="empty key twice"),
    pytest.param(b'{"a at line 9 column 9":1,"a at line 9 column 9":2}', TWICE, id="key that looks like a position"),
    pytest.param(b"{a:1}", NOT_JSON, id="bare key"),
    pytest.param(b"{'a':1}", NOT_JSON, id="single quotes"),
    pytest.param(b"{1:1}", NOT_JSON, id="number as key"),
    pytest.param(b'{"a"}', NOT_JSON, id="key alone"),
    pytest.param(b'{"a":1,}', NOT_JSON, id="comma before a closing brace"),
    pytest.param(b"[1,]", NOT_JSON, id="comma before a closing bracket"),
    pytest.param(b"[,1]", NOT_JSON, id="comma after an opening bracket"),
    pytest.param(b"[1 2]", NOT_JSON, id="no comma"),
    pytest.param(b"[1}", NOT_JSON, id="brackets that do not match"),
    # numbers
    pytest.param(b"NaN", NOT_JSON, id="NaN"),
    pytest.param(b"[NaN]", NOT_JSON, id="NaN inside"),
    pytest.param(b"Infinity", NOT_JSON, id="Infinity"),
    pytest.param(b"[-Infinity]", NOT_JSON, id="minus Infinity"),
    pytest.param(b"1e999", LARGE, id="overflow"),
    pytest.param(b"-1E+999", LARGE, id="overflow with plus"),
    pytest.param(b"1e0309", LARGE, id="overflow with a zero in the exponent"),
    pytest.param(b"1.8e308", LARGE, id="just over the largest double"),
    pytest.param(b"1e99999999999999999999", LARGE, id="huge exponent"),
    pytest.param(b'{"a":[0,{"b":-2e400}]}', LARGE, id="overflow in depth"),
    pytest.param(b"9" * 309 + b".0", LARGE, id="overflow without an exponent"),
    pytest.param(b"9" * 230 + b"e99", LARGE, id="overflow by digits and a short exponent"),
    pytest.param(b"[" + b"9" * 309 + b"]", LARGE, id="whole number beyond a double"),
    pytest.param(b"-" + b"9" * 309, LARGE, id="whole number below a double"),
    pytest.param(b"9" * 5000, LARGE, id="5000 digits"),
    pytest.param(b"01", NOT_JSON, id="leading zero"),
    pytest.param(b"-01", NOT_JSON, id="leading zero after minus"),
    pytest.param(b"+1", NOT_JSON, id="plus"),
    pytest.param(b"-", EARLY, id="minus alone"),
    pytest.param(b".1", NOT_JSON, id="no digit before the point"),
    pytest.param(b"[1.]", NOT_JSON, id="no digit after the point"),
    pytest.param(b"[1e]", NOT_JSON, id="no digit in the exponent"),
    pytest.param(b"0x1", AFTER, id="hexadecimal"),
    pytest.param(b"1_0", AFTER, id="underscore"),
    pytest.param("\uff11".encode(), NOT_JSON, id="full-width digit"),
    # strings and literals
    pytest.param(b'"a', EARLY, id="string without an end"),
    pytest.param(b'"\\x61"', NOT_JSON, id="unknown escape"),
    pytest.param(b'"\\u00g1"', NOT_JSON, id="escape that is not hexadecimal"),
    pytest.param(b'"\\', EARLY, id="escape without an end"),
    pytest.param(b'"\x01"', CONTROL, id="control character"),
    pytest.param(b'"a\nb"', CONTROL, id="line break in a string"),
    pytest.param(b'"\t"', CONTROL, id="tab in a string"),
    pytest.param(b'"\x00"', CONTROL, id="NUL in a string"),
    pytest.param(b'"\\ud800"', HALF, id="lone high surrogate"),
    pytest.param(b'"\\udc00"', HALF, id="lone low surrogate"),
    pytest.param(b'"\\ud83d\\u0041"', HALF, id="high surrogate before a letter"),
    pytest.param(b'{"\\udc00\\ud800":1}', HALF, id="surrogates in the wrong order, in a key"),
    pytest.param(b"True", NOT_JSON, id="True"),
    pytest.param(b"nul", EARLY, id="cut literal"),
    pytest.param(b"undefined", NOT_JSON, id="undefined"),
    # depth
    pytest.param(b"[" * 201 + b"]" * 201, DEEP, id="201 arrays"),
    pytest.param(b"[" * 201 + b"1" + b"]" * 201, DEEP, id="201 arrays around a number"),
    pytest.param(b'{"a":' * 200 + b"{}" + b"}" * 200, DEEP, id="201 objects"),
    pytest.param(b'{"a":' * 201 + b"1" + b"}" * 201, DEEP, id="201 objects around a number"),
    pytest.param(b"[1," * 200 + b"{}" + b"]" * 200, DEEP, id="an empty object at level 201"),
    pytest.param(b"[" * 100_000, DEEP, id="100,000 brackets"),
    pytest.param(b'{"a":' * 100_000, DEEP, id="100,000 braces"),
    pytest.param(b"[" * 100_000 + b"]" * 100_000, DEEP, id="100,000 arrays"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_anything_else_is_refused(text: bytes, message: str) -> None:
    """What is not one strict JSON value is refused in words that hold nothing of it."""
    with pytest.raises(JsonInvalid) as refusal:
        parse_json(text)
    assert str(refusal.value) == message
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * 200 + b"]" * 200, id="arrays"),
        pytest.param(b"[" * 200 + b"1" + b"]" * 200, id="arrays around a number"),
        pytest.param(b'{"a":' * 200 + b"1" + b"}" * 200, id="objects around a number"),
        pytest.param(b"[{}," * 199 + b"[1]" + b"]" * 199, id="arrays with company"),
        pytest.param(b"[" + b"[[]]," * 300 + b"{}]", id="many brackets, few levels"),
        pytest.param(b'"' + b"[" * 1000 + b'"', id="brackets in a string"),
    ],
)
def test_two_hundred_levels_are_allowed(text: bytes) -> None:
    """At most 200 containers stand one inside the other; what the innermost holds does not count."""
    assert parse_json(text) is not None
    assert MAX_LEVELS == 200


def test_the_position_is_told_apart() -> None:
    """Where the text goes wrong is not part of the message, so that it can be left out."""
    with pytest.raises(JsonInvalid) as refusal:
        parse_json(b'{"key":1,\n "key":2}')
    assert refusal.value.position == "line 2, column 8"
    with pytest.raises(JsonInvalid) as refusal:
        parse_json(b"1e999")
    assert refusal.value.position == ""


def test_no_infinity_comes_out() -> None:
    """A number that overflows is an infinity, whatever way it is written: it is refused at each length of its parts."""
    for whole in (1, 150, 199, 200, 250, 308, 309):
        for exponent in (0, 1, 9, 10, 58, 99, 100, 109, 308, 309, 400):
            text = b"9" * whole + b"e%d" % exponent
            if math.isinf(float(text)):
                with pytest.raises(JsonInvalid, match="too large"):
                    parse_json(text)
            else:
                assert parse_json(text) == float(text)
