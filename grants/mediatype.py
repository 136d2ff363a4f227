"""Media types as this project reads them: type and subtype in lower case, and whether the charset is UTF-8.

Source: RFC 9110, 8.3.1 (media type) and 5.6.6 (parameters). Parameters are read strictly, since
what follows a lenient reader's cut could name another charset.
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
    return name
