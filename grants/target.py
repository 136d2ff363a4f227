"""The request target: read in exactly one way or not at all, and written in its canonical form.

The path is split on "/" first, then each segment is percent-decoded once as UTF-8 (RFC 3986, 2.4). A segment that
another reader could take for more than one, or for none, is refused: empty, `.`, `..`, with a decoded `/`, `\\`, `%`,
`;` or control character. `/`, `;` and `%` alone do not refuse here: a segment with one is marked `special`, and only an
exact path value may match it. The query is cut off and left raw: it is read after the route has matched.
Source: "Target" in docs/reference/matching.md.
"""

import re
from typing import final
from urllib.parse import quote, unquote_to_bytes

from .canonical import parse_authority
from .decision import Deny, Reason, Rule
from .immutable import immutable
from .message import Authority

_NO_POSITIONS: frozenset[int] = frozenset()

_VISIBLE = re.compile(rb"[\x21-\x7e]+")
_ORIGIN_FORM = re.compile(rb"/[\x21\x22\x24-\x7e]*")
_PLAIN = re.compile(rb"(?:/[^%;\\/]+)+")
_SEGMENT = re.compile(rb"(?:[^%]|%[0-9A-Fa-f]{2})+")
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_SPECIAL = re.compile(r"[/;%]")
_CANONICAL = re.compile(r"[A-Za-z0-9._~:@/-]*")


@final
@immutable
class RequestTarget:
    """A request target as it was asked for.

    Attributes:
        segments: the path's segments, decoded once. `/` has none.
        special: positions of segments that hold `/`, `;` or `%`.
        query: the raw bytes after the `?`, or None when there is no `?`.
    """

    segments: tuple[str, ...]
    special: frozenset[int]
    query: bytes | None

    def below(self, prefix: tuple[str, ...]) -> "RequestTarget":
        """The same target under `prefix`, the path of the upstream's own URL."""
        if not prefix:
            return self
        special = frozenset(position + len(prefix) for position in self.special)
        return RequestTarget(segments=prefix + self.segments, special=special, query=self.query)


@final
@immutable
class Target:
    """A target that was authorized: what goes upstream is made from this, never from the client's bytes.

    Attributes:
        segments: the whole path, decoded.
        query: names and values in the client's order, decoded.
    """

    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()

    @property
    def wire(self) -> bytes:
        """Origin form (RFC 9112, 3.2.1): each segment, name and value percent-encoded in one way."""
        path = encode_path(self.segments)
        return path + b"?" + encode_query(self.query) if self.query else path


def parse_target(raw: bytes, *, authority: Authority | None, scheme: str = "https") -> RequestTarget | Deny:
    """Read a request target in origin form, or in absolute form for the connection's own `scheme` and `authority`.

    Without an `authority` no absolute form is read. Total: never raises.
    """
    if not _ORIGIN_FORM.fullmatch(raw):
        rest = _after_authority(raw, authority, scheme)
        if isinstance(rest, Deny):
            return rest
        raw = rest
    path, mark, query = raw.partition(b"?")
    return parse_path(path, query if mark else None)


def parse_path(path: bytes, query: bytes | None) -> RequestTarget | Deny:
    """Read an absolute path of visible ASCII (RFC 3986, 3.3). Total: never raises."""
    if path == b"/":
        return RequestTarget(segments=(), special=_NO_POSITIONS, query=query)
    if _PLAIN.fullmatch(path):
        segments = tuple(path.decode("ascii")[1:].split("/"))
        if "." in segments or ".." in segments:
            return _segment("the path has a `.` or `..` segment; send the path that is meant")
        return RequestTarget(segments=segments, special=_NO_POSITIONS, query=query)
    decoded: list[str] = []
    special: set[int] = set()
    for position, part in enumerate(path[1:].split(b"/")):
        segment = _decode(part)
        if isinstance(segment, Deny):
            return segment
        if _SPECIAL.search(segment):
            special.add(position)
        decoded.append(segment)
    return RequestTarget(segments=tuple(decoded), special=frozenset(special), query=query)


def encode_path(segments: tuple[str, ...]) -> bytes:
    """The path of `segments`: unreserved characters, `:` and `@` stay, the rest is `%XX` in upper case."""
    joined = "/" + "/".join(segments)
    if joined.count("/") == len(segments) and _CANONICAL.fullmatch(joined):
        return joined.encode("ascii")
    return ("/" + "/".join([quote(segment, safe=":@") for segment in segments])).encode("ascii")


def encode_query(pairs: tuple[tuple[str, str], ...]) -> bytes:
    """The query of `pairs`: unreserved characters stay, the rest is `%XX` in upper case."""
    return "&".join([f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs]).encode("ascii")


def _after_authority(raw: bytes, authority: Authority | None, scheme: str) -> bytes | Deny:
    """What follows the authority of an absolute form (RFC 9112, 3.2.2), in origin form; an empty path is `/`."""
    if not _VISIBLE.fullmatch(raw):
        if raw.isascii():
            return _unreadable("the request target is empty or holds a space or a control character")
        return _encoding("the request target holds a byte that is not ASCII; percent-encode it")
    if b"#" in raw:
        return _unreadable("the request target has a fragment; leave it out")
    start = f"{scheme}://".encode("ascii")
    if authority is None or raw[: len(start)].lower() != start:
        return _unreadable("the request target is not an absolute path; send `/path?query`")
    rest = raw[len(start) :]
    end = next((at for at, byte in enumerate(rest) if byte in b"/?"), len(rest))
    if parse_authority(rest[:end], scheme=scheme) != authority:
        return _unreadable("the request target names another host than the connection; send `/path?query`")
    rest = rest[end:]
    return rest if rest.startswith(b"/") else b"/" + rest


def _decode(part: bytes) -> str | Deny:
    if not part:
        return _segment("the path has an empty segment or a trailing `/`; send the path that is meant")
    if not _SEGMENT.fullmatch(part):
        return _encoding("the path has a `%` that is not followed by two hexadecimal digits; send `%25` for it")
    try:
        segment = unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        return _encoding("the path is not percent-encoded UTF-8")
    if segment in {".", ".."}:
        return _segment("the path has a `.` or `..` segment; send the path that is meant")
    if _REFUSED.search(segment):
        return _segment("a path segment holds a backslash or a control character")
    return segment


def _unreadable(detail: str) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=Reason.TARGET_UNREADABLE, detail=detail)


def _encoding(detail: str) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=Reason.PATH_ENCODING, detail=detail)


def _segment(detail: str) -> Deny:
    return Deny(rule=Rule.REQUEST, reason=Reason.PATH_SEGMENT, detail=detail)
