"""Media types as this project reads them: type and subtype in lower case, and whether the charset is UTF-8.

Parameters are read strictly, and the word `charset` may stand nowhere but as the name of the one parameter: a lenient
reader that looks for it inside a quoted value, or takes `charset*`, would read the body in another charset.
Source: RFC 9110, 8.3.1 (media type) and 5.6.6 (parameters).
"""

import re

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TYPE = re.compile(rb"(" + _TOKEN + rb"/" + _TOKEN + rb")")
_PARAMETER = re.compile(
    rb"[ \t]*;[ \t]*(?:("
    + _TOKEN
    + rb")=(?:("
    + _TOKEN
    + rb')|"((?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*)"))?'
)
_ESCAPE = re.compile(rb"\\(.)")


def parse_media_type(value: bytes) -> str | None:
    """`type/subtype` in lower case, or None when it is not a media type, or its charset is not UTF-8 alone.

    A `charset` may be absent or `utf-8`, quoted or not, in any case, once. Other parameters are passed over.
    Total: never raises.
    """
    match = _TYPE.match(value)
    if match is None:
        return None
    name = match[1].decode("ascii").lower()
    at = match.end()
    charsets = 0
    while at < len(value):
        parameter = _PARAMETER.match(value, at)
        if parameter is None:
            return None
        at = parameter.end()
        key, token, quoted = parameter.groups()
        if key is not None and key.lower() == b"charset":
            text = token if token is not None else _ESCAPE.sub(rb"\1", quoted)
            charsets += 1
            if charsets > 1 or text.lower() != b"utf-8":
                return None
    return name if value.lower().count(b"charset") == charsets else None
