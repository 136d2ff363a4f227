"""The search of a streamed body: every spelling in which an ordinary writer would send a value on."""

import json
import re

import pytest

from addons.broker.screen import BodyScreen
from addons.relay_rules import Withheld
from grants.decision import Deny, Reason, Rule

VALUE = "sk/live+abc\"<x>&'=1"
DENIAL = Deny(rule=Rule.RESPONSE_CREDENTIAL, reason=Reason.CREDENTIAL, detail="held")


def everything(text: str, form: str) -> str:
    """Each character as `\\u00XX`."""
    return "".join(form % ord(char) for char in text)


SPELLED = [
    pytest.param(json.dumps(VALUE), id="what must be escaped"),
    pytest.param(json.dumps(VALUE).replace("/", "\\/"), id="and the slash"),
    pytest.param(
        '"' + re.sub(r"[\"&'+<>]", lambda c: f"\\u{ord(c[0]):04X}", VALUE) + '"', id="and what is special in HTML"
    ),
    pytest.param('"' + re.sub(r"[^A-Za-z0-9]", lambda c: f"\\u{ord(c[0]):04x}", VALUE) + '"', id="and every sign"),
    pytest.param(f'"{everything(VALUE, "\\u%04x")}"', id="everything"),
    pytest.param(f'"{everything(VALUE, "\\u%04X")}"', id="everything, in capitals"),
]


@pytest.mark.parametrize("text", SPELLED)
@pytest.mark.parametrize("piece", [1000, 7])
def test_a_value_in_json_is_found_as_writers_escape_it(text: str, piece: int) -> None:
    """No answer to the box carries a secret's value: also not in the escapes that its reader undoes."""
    assert json.loads(text) == VALUE
    screen = BodyScreen([VALUE.encode()], DENIAL)
    body = b'{"k":' + text.encode() + b"}"

    def feed() -> bytes:
        parts = [body[start : start + piece] for start in range(0, len(body), piece)]
        return b"".join(out for part in parts for out in screen.feed(part)) + b"".join(screen.finish())

    with pytest.raises(Withheld):
        feed()


def test_percent_encoding_is_found_in_either_case() -> None:
    """`%2f` is `%2F`."""
    for text in (b"sk%2Flive%2Babc%22%3Cx%3E%26%27%3D1", b"sk%2flive%2babc%22%3cx%3e%26%27%3d1"):
        screen = BodyScreen([VALUE.encode()], DENIAL)
        with pytest.raises(Withheld):
            b"".join((*screen.feed(text), *screen.finish()))
