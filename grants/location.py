"""A `Location` resolved against the URL that it answers, strictly (RFC 3986, 5.2; RFC 9110, 10.2.2).

The result is an origin and a path and query in the one form in which a request's own target is read, or nothing. Dot
segments are resolved where resolution needs them: in a relative path, literally written, and never past the root. In
an absolute path they stay, so that the target's own rule refuses them. A reference to the same document (a fragment
alone, or nothing) leads nowhere and is refused.
"""

import re
from dataclasses import dataclass
from typing import final

from .canonical import parse_authority
from .decision import Deny
from .message import Origin
from .target import RequestTarget, Target, encode_path, parse_path

_VISIBLE = re.compile(rb"[\x21-\x5b\x5d-\x7e]+")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.\-]*:")
_HTTPS = b"https:"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a `Location` leads."""

    origin: Origin
    target: RequestTarget


def resolve(location: bytes, *, origin: Origin, target: Target) -> Place | None:
    """Resolve a field value against the URL of `origin` and `target`, or None when it cannot be read in one way.

    Refused: anything but visible ASCII, a backslash, a scheme other than https, a scheme without `//`, userinfo, a
    host, port or path that is not canonical, a reference to the same document. A fragment is dropped. Total: never
    raises.
    """
    reference = location.partition(b"#")[0]
    if not _VISIBLE.fullmatch(location) or not reference:
        return None
    if _SCHEME.match(reference):
        if reference[: len(_HTTPS)].lower() != _HTTPS or not reference.startswith(b"//", len(_HTTPS)):
            return None
        reference = reference[len(_HTTPS) :]
    rest, mark, query = reference.partition(b"?")
    if rest.startswith(b"//"):
        host, slash, path = rest[2:].partition(b"/")
        authority = parse_authority(host)
        if authority is None:
            return None
        origin = Origin(scheme="https", host=authority.host, port=authority.port)
        rest = slash + path or b"/"
    path_sent = _absolute(rest, target)
    if path_sent is None:
        return None
    parsed = parse_path(path_sent, query if mark else None)
    return None if isinstance(parsed, Deny) else Place(origin=origin, target=parsed)


def _absolute(path: bytes, target: Target) -> bytes | None:
    """The absolute path of a reference's path: merged with the current one where it is relative (RFC 3986, 5.2.3)."""
    if path.startswith(b"/"):
        return path
    if not path:
        return encode_path(target.segments)
    merged = encode_path(target.segments[:-1]).split(b"/")[1:] if len(target.segments) > 1 else []
    parts = path.split(b"/")
    for part in parts:
        if part == b"..":
            if not merged:
                return None
            merged.pop()
        elif part != b".":
            merged.append(part)
    if parts[-1] in {b".", b".."}:
        merged.append(b"")
    return b"/" + b"/".join(merged)
