"""The scan for credentials: every place and every spelling in which a reader would see one."""

import json
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grants import disclosure
from grants.disclosure import Scanner
from grants.message import Fields, Response
from grants.secret import Secret

KEY = b"sk-api/0123456789"
NEEDLES = (Secret(b"another-value"), Secret(KEY))


def answer(*, reason: bytes = b"OK", fields: Fields = (), body: bytes = b"{}", trailers: Fields = ()) -> Response:
    return Response(status=200, reason=reason, fields=fields, body=body, trailers=trailers)


PLACES = [
    pytest.param(answer(reason=KEY), id="reason phrase"),
    pytest.param(answer(reason=b"No " + KEY + b" here"), id="inside the reason phrase"),
    pytest.param(answer(fields=((b"X-A", b"1"), (b"X-Key", KEY))), id="field value"),
    pytest.param(answer(fields=((b"Location", b"https://x.example/?k=" + KEY + b"&x=1"),)), id="Location"),
    pytest.param(answer(fields=((b"X-" + KEY, b"1"),)), id="field name"),
    pytest.param(answer(fields=((b"X-" + KEY.upper(), b"1"),)), id="field name in other case"),
    pytest.param(answer(trailers=((b"X-Sum", KEY),)), id="trailer value"),
    pytest.param(answer(trailers=((KEY, b"1"),)), id="trailer name"),
    pytest.param(answer(body=b'{"a":"' + KEY + b'"}'), id="body"),
    pytest.param(answer(body=KEY), id="whole body"),
    pytest.param(answer(body=b"\xff\x00" + KEY), id="body that is no text"),
]


@pytest.mark.parametrize("response", PLACES)
def test_each_place_is_searched(response: Response) -> None:
    """The reason phrase, all names and values, the trailers and the body are searched for each exact value."""
    assert Scanner(NEEDLES).in_response(response, (response.body,))
    assert not Scanner(NEEDLES[:1]).in_response(response, (response.body,))
    assert not Scanner(()).in_response(response, (response.body,))


def test_each_layer_of_the_body_is_searched() -> None:
    """The body is searched as received, after each coding taken off, and decoded."""
    for place in range(3):
        layers = [b"one", b"two", b"three"]
        assert not Scanner(NEEDLES).in_response(answer(), layers)
        layers[place] = KEY
        assert Scanner(NEEDLES).in_response(answer(), layers)


CLEAN = [
    pytest.param(answer(), id="nothing"),
    pytest.param(answer(body=KEY[:-1]), id="all but the last byte"),
    pytest.param(answer(body=KEY[1:]), id="all but the first byte"),
    pytest.param(answer(body=KEY.upper()), id="other case in the body"),
    pytest.param(answer(fields=((b"X-A", KEY.upper()),)), id="other case in a value"),
    pytest.param(answer(fields=((b"X-A", KEY[:8]), (b"X-B", KEY[8:]))), id="half in each of two values"),
    pytest.param(answer(reason=KEY[:8], fields=((b"X-B", KEY[8:]),)), id="half in the reason phrase"),
    pytest.param(answer(fields=((KEY[:8], b"1"), (KEY[8:], b"2"))), id="half in each of two names"),
    pytest.param(answer(fields=((b"X-A", KEY[:8]),), body=KEY[8:]), id="half in a value, half in the body"),
    pytest.param(answer(body=(KEY[:-1] + b" ") * 50), id="fifty that are nearly it"),
]


@pytest.mark.parametrize("response", CLEAN)
def test_only_an_exact_value_counts(response: Response) -> None:
    """A part of a value, or one in two places, is not the value."""
    assert not Scanner(NEEDLES).in_response(response, (response.body,))


def test_one_after_many_that_look_like_it() -> None:
    """What comes before a value does not hide it."""
    assert Scanner(NEEDLES).in_bytes((KEY[:-1] + b" ") * 50 + KEY)
    assert Scanner(NEEDLES).in_bytes(KEY[:5] * 50 + KEY)


ODD = b'pa"ss\\word/u0041 end'

ESCAPED = [
    pytest.param(KEY, rb'{"a":"\u0073k-api/0123456789"}', id="first letter"),
    pytest.param(KEY, rb'{"a":"sk-api/012345678\u0039"}', id="last digit"),
    pytest.param(KEY, rb'{"a":"sk-api\/0123456789"}', id="slash"),
    pytest.param(KEY, rb'{"a":"sk-api\u002f0123456789"}', id="slash by number"),
    pytest.param(KEY, rb'{"a":"sk-api\u002F0123456789"}', id="slash by number in upper case"),
    pytest.param(KEY, rb'{"\u0073\u006b\u002dapi\/0123456789":1}', id="key"),
    pytest.param(KEY, b'{"a":"' + b"".join(b"\\u%04x" % byte for byte in KEY) + b'"}', id="every byte"),
    pytest.param(KEY, rb'{"a":[{"b":"x\n\u0073k-api/0123456789"}]}', id="in depth, after a line break"),
    pytest.param(KEY, rb'{"a":"\\\u0073k-api/0123456789"}', id="after an escaped backslash"),
    pytest.param(KEY, rb'{"a":"\ud83d\ude00\u0073k-api/0123456789"}', id="after a surrogate pair"),
    pytest.param(KEY, rb'{"a":1,"a":"\u0073k-api/0123456789"', id="in a text that is no JSON"),
    pytest.param(KEY, rb"<p>\u0073k-api/0123456789", id="in a text of another kind"),
    pytest.param(KEY, rb'{"a":"{\"b\":\"\\u0073k-api\\/0123456789\"}"}', id="JSON within JSON"),
    pytest.param(KEY, rb'{"a":"\\u0073k-api/0123456789"}', id="escaped twice"),
    pytest.param(KEY, rb'{"a":"\u005cu0073k-api/0123456789"}', id="escaped twice by number"),
    pytest.param(b'pa"ssword', rb'{"a":"pa\"ssword"}', id="quote and nothing else"),
    pytest.param(ODD, rb'{"a":"pa\"ss\\word/u0041 end"}', id="quote and backslash"),
    pytest.param(ODD, rb'{"a":"pa\u0022ss\u005Cword\/u0041\u0020end"}', id="quote, backslash and space by number"),
    pytest.param(rb"pass\u0041word", rb'{"a":"pass\\u0041word"}', id="a value that looks like an escape"),
    pytest.param(rb"pass\\word", rb'{"a":"pass\\\\word"}', id="a value with two backslashes"),
    pytest.param(rb"pass\nword", rb'{"a":"pass\\nword"}', id="a value that looks like a line break"),
]


@pytest.mark.parametrize(("value", "body"), ESCAPED)
def test_escapes_are_undone(value: bytes, body: bytes) -> None:
    """Where a body holds a backslash, each of its keys and strings is searched as its reader sees it."""
    scanner = Scanner((Secret(value),))
    assert not scanner.in_bytes(body)
    assert scanner.in_json(body)
    assert scanner.in_json(b" " * disclosure._SMALL + body)
    assert scanner.in_response(answer(body=body), (body,))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\\", id="one backslash"),
        pytest.param(b"\\u00", id="half an escape"),
        pytest.param(rb'{"a":"x\ny"}', id="only a line break"),
        pytest.param(rb'{"a":"\u00e9\u2028"}', id="only other characters"),
        pytest.param(rb'{"a":"\u0073k-api/012345678"}', id="part of it"),
        pytest.param(rb'{"a":"\U0073k-api/0123456789"}', id="not an escape of JSON"),
        pytest.param(rb'{"a":"\x73k-api/0123456789"}', id="an escape of JavaScript"),
        pytest.param(rb'{"a":"\u0173k-api/0123456789"}', id="another letter"),
        pytest.param(rb'{"a":"\\\\u0073k-api/0123456789"}', id="escaped three times"),
        pytest.param(b"\\" * 100_000, id="many backslashes"),
        pytest.param(b"\\u0041" * 10_000, id="many escapes"),
        pytest.param(b"\\/" * 10_000, id="many slashes"),
        pytest.param(b'\\"' * 10_000, id="many quotes"),
    ],
)
def test_what_is_not_in_a_text_is_not_found(body: bytes) -> None:
    """Undoing escapes makes no value of what is none, and takes any bytes."""
    assert not Scanner(NEEDLES).in_json(body)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(b64encode(b"x:" + KEY), id="as sent"),
        pytest.param(b64encode(b"x:" + KEY).rstrip(b"="), id="without padding"),
        pytest.param(b64encode(b"xy:" + KEY).rstrip(b"="), id="another user name"),
        pytest.param(b64encode(b"a-user-of-another-request:" + KEY), id="a long user name"),
        pytest.param(b64encode(b"\xc3\xa9:" + KEY), id="a user name beyond ASCII"),
        pytest.param(b64encode(KEY + b":"), id="as the user name"),
        pytest.param(b64encode(b"x:a" + KEY + b"b"), id="with more around it"),
        pytest.param(b64encode(KEY), id="alone"),
    ],
)
def test_the_encoded_form_is_searched(shown: bytes) -> None:
    """Of Basic credentials the encoded form too, padding and user name left aside, whoever sent them."""
    for body in (shown, b'{"a":"Basic ' + shown + b'"}', b'{"a":"' + shown.replace(b"/", b"\\/") + b'"}'):
        assert Scanner(NEEDLES).in_response(answer(body=body), (body,))
        assert not Scanner(NEEDLES[:1]).in_response(answer(body=body), (body,))
    escaped = json.dumps(shown.decode()).replace("a", "\\u0061").encode()
    assert Scanner(NEEDLES).in_response(answer(body=escaped), (escaped,))
    assert Scanner(NEEDLES).in_response(answer(fields=((b"X-A", b"Basic " + shown),)), (b"",))


def test_the_encoded_form_of_another_value_is_not_it() -> None:
    """Base64 is not read: only the value's own counts."""
    body = b64encode(b"x:" + KEY[:-2] + b"zz")
    assert not Scanner(NEEDLES).in_response(answer(body=body), (body,))


LARGE = 2 * 1024 * 1024


@pytest.mark.parametrize("many", [1, 300], ids=["few values", "many values"])
@pytest.mark.parametrize(
    ("filler", "shown"),
    [
        pytest.param(b"x", KEY, id="as it is"),
        pytest.param(b"x", b64encode(b"user:" + KEY), id="encoded"),
        pytest.param(KEY[-16:], KEY, id="after ends of it"),
        pytest.param(b"\\\\", rb"\u0073k-api\/0123456789", id="after pairs"),
        pytest.param(b"\\u0041", rb"\u0073k-api\/0123456789", id="after escapes"),
        pytest.param(b"\\\\u0041", rb"\\u0073k-api\\\/0123456789", id="escaped twice"),
        pytest.param(b"=\r\n", rb"\u0073k-api\/0123456789", id="after what quoted-printable would undo"),
    ],
)
def test_large_texts_are_searched_as_small_ones_are(filler: bytes, shown: bytes, many: int) -> None:
    """Nothing changes with the size of a body and the number of values."""
    values = [Secret(b"value-number-%d" % number) for number in range(many)]
    body = filler * (LARGE // len(filler))
    for place in (0, LARGE // 2, LARGE):
        cut = place - place % len(filler)
        whole = body[:cut] + shown + body[cut:]
        assert Scanner([*values, Secret(KEY)]).in_response(answer(), (whole,))
        assert not Scanner(values).in_response(answer(), (whole,))


def escaped(text: str, choices: list[int]) -> str:
    """`text` as it may stand in a JSON string: of each character one of its spellings, by `choices` in turn."""
    made = []
    for place, char in enumerate(text):
        spellings = [f"\\u{ord(char):04x}", f"\\u{ord(char):04X}"]
        spellings += [f"\\{char}"] if char in '/"\\' else []
        spellings += [char] * 3 if char not in '"\\' else []
        made.append(spellings[choices[place % len(choices)] % len(spellings)])
    return "".join(made)


VISIBLE = st.text(st.sampled_from('abz09/"\\u=-_+ '), min_size=8, max_size=20).map(lambda text: f"<{text}>")
CHOICES = st.lists(st.integers(0, 5), min_size=1, max_size=30)


@settings(deadline=None, max_examples=300)
@given(VISIBLE, st.text(st.sampled_from('a\\"/=\r\u0001\u00e9'), max_size=30), CHOICES, CHOICES, st.integers(6, 40))
@pytest.mark.parametrize("small", [0, 4096], ids=["by RE2", "by Python"])
def test_every_spelling_is_found(
    small: int, value: str, before: str, once: list[int], twice: list[int], chunk: int
) -> None:
    """Any spelling of any value, escaped once or twice, wherever the text is cut into parts, whoever searches it."""
    scanner = Scanner([Secret(value.encode())])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disclosure, "_SMALL", small)
        patch.setattr(disclosure, "_CHUNK_BYTES", chunk)
        text = escaped(before + value, once)
        assert json.loads(f'"{text}"', strict=False) == before + value
        found = scanner.in_bytes(text.encode()) or scanner.in_json(text.encode())
        assert found
        text = escaped(text, twice)
        assert scanner.in_bytes(text.encode()) or scanner.in_json(text.encode())


@pytest.mark.parametrize("strays", range(1, 6))
@pytest.mark.parametrize("stray", [r"\u00", r"\u0", r"\u", r"\a", "=", r"=\u00", r"\u00="])
@pytest.mark.parametrize("value", ["<value/of=secret>", "=value-of-secret="])
def test_half_an_escape_hides_nothing(value: str, stray: str, strays: int) -> None:
    """The text is no JSON then, and a lenient reader may pass over what it does not know (RFC 8259, 9)."""
    text = stray * strays + "".join(f"\\u{ord(char):04x}" for char in value)
    assert Scanner([Secret(value.encode())]).in_json(text.encode())


@settings(deadline=None, max_examples=300)
@given(st.text(st.sampled_from('a\\u0041/=\n"')), st.integers(6, 40))
def test_a_text_in_parts_is_the_whole(text: str, chunk: int) -> None:
    """The parts are bounded and no escape is in two of them: undone one by one they give what the whole gives."""
    data = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disclosure, "_CHUNK_BYTES", chunk)
        parts = list(disclosure._chunks(data))
    assert b"".join(parts) == data
    assert all(0 < len(part) <= chunk for part in parts[:-1])
    well_formed = not data.replace(b"\\\\", b"").replace(b"\\u0041", b"").count(b"\\u")
    if well_formed:
        assert b"".join(map(disclosure.unescaped, parts)) == disclosure.unescaped(data)


def test_a_scanner_shows_nothing() -> None:
    """No text about a scanner holds a value."""
    assert "sk-api" not in repr(Scanner(NEEDLES)) + str(Scanner(NEEDLES))
