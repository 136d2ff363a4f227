"""What a request needs: from its method and path to a capability, the words of it, and the path upstream.

The raw path is compared, so that there is one spelling of each route. Where a path goes on into an API of its own
(egress, what the settings add), it is refused when another reader could take it for another path: dot segments, also
percent-encoded, and, where a word depends on it, empty segments and encoded slashes. Fountain's paths have a grammar
of their own. What is in no row of the table is a 404.
Source: "Routes" in the specification.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, final
from urllib.parse import unquote_to_bytes

from grants.jsontext import JsonValue

from .extra import Extra, extra_words
from .fountain.path import read_path, scope_words

DECLARATION_PATH: Final = b"/api/box/declaration"
DECIDE_PATH: Final = b"/decide/v1/systemone"
FEEDBACK_PATH: Final = b"/api/feedback"
INFERENCE_PREFIX: Final = b"/llm/anthropic"
EGRESS_PREFIX: Final = b"/egress"
FOUNTAIN_PREFIX: Final = b"/fountain"

INFERENCE: Final = "inference"
EGRESS: Final = "egress"
FEEDBACK: Final = "feedback"
FOUNTAIN: Final = "fountain"
STANDARD: Final = frozenset({INFERENCE, EGRESS, FEEDBACK, FOUNTAIN})

_SECRET_NAME: Final = re.compile(rb"[A-Z][A-Z0-9_]{0,39}")
_MODEL: Final = re.compile(rb"/v1/models(?:/(?!\.{1,2}$)[A-Za-z0-9_.-]+)?")
_DECODED: Final = 3
_LEFT_OUT: Final = bytes(range(0x21)) + b"\x7f"
_POST_ONLY: Final[Mapping[bytes, str | None]] = {
    DECLARATION_PATH: None,
    DECIDE_PATH: INFERENCE,
    FEEDBACK_PATH: FEEDBACK,
}


class Route(StrEnum):
    """Which part of the broker answers."""

    DECLARATION = "declaration"
    HELLO = "hello"
    INFERENCE = "inference"
    DECIDE = "decide"
    EGRESS = "egress"
    FEEDBACK = "feedback"
    FOUNTAIN = "fountain"
    EXTRA = "extra"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """A request that a route answers.

    Attributes:
        route: which one.
        capability: what the rule is asked about; None for the report itself.
        words: the scope words that it needs, all of them. Empty where it needs none. For feedback they depend on the
            body: None, and `feedback_words` tells.
        upstream: the path that goes upstream, in the client's spelling; empty where the broker answers itself.
        name: the secret's name, of an egress request; else empty.
        token: a box's token has to be shown.
    """

    route: Route
    capability: str | None
    words: tuple[str, ...] | None = ()
    upstream: bytes = b""
    name: str = ""
    token: bool = True


@final
@dataclass(frozen=True, slots=True)
class NotFound:
    """No route answers this: a 404 that reaches nothing."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MethodNotAllowed:
    """The path has a route, the method does not: a 405. `allow` is the value of `Allow` (RFC 9110, 15.5.6)."""

    allow: bytes


type Found = Needs | NotFound | MethodNotAllowed


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What this broker serves. The routes of anything else are a 404.

    Attributes:
        standard: of the specification's own capabilities.
        extras: those that the settings add; theirs are asked about last.
    """

    standard: frozenset[str] = STANDARD
    extras: tuple[Extra, ...] = field(default=())


def find(method: bytes, path: bytes, served: Served) -> Found:
    """What a request needs. Total: never raises.

    Args:
        method: as it came.
        path: as it came, from the broker's base URL, without `?` and query.
        served: what this broker serves.
    """
    if path in _POST_ONLY:
        return _post_only(method, path, served)
    for prefix, capability, route in (
        (INFERENCE_PREFIX, INFERENCE, _inference),
        (EGRESS_PREFIX, EGRESS, _egress),
        (FOUNTAIN_PREFIX, FOUNTAIN, _fountain),
    ):
        if capability in served.standard and (rest := under(path, prefix)) is not None:
            return route(method, rest)
    return _extra(method, path, served.extras)


def feedback_words(body: JsonValue) -> tuple[str, ...]:
    """The words that a feedback batch needs: `agent` for entries, `passive` for counts. None of them: a 400."""
    batch = body if isinstance(body, dict) else {}
    entries, counts = batch.get("entries"), batch.get("counts")
    words = ("agent",) if isinstance(entries, list) and entries else ()
    return (*words, "passive") if isinstance(counts, dict) and counts else words


def is_secret_name(name: bytes) -> bool:
    """Whether `name` is `[A-Z][A-Z0-9_]{0,39}`."""
    return _SECRET_NAME.fullmatch(name) is not None


def under(path: bytes, prefix: bytes) -> bytes | None:
    """What follows `prefix` in `path`, from its slash on (`/` when nothing does); None when it is not under it."""
    if path == prefix:
        return b"/"
    return path[len(prefix) :] if path.startswith(prefix + b"/") else None


def has_dot_segment(path: bytes) -> bool:
    """Whether a reader could climb in `path`: a segment `.` or `..`, also percent-encoded, up to three times over,
    behind a backslash, before a path parameter (`..;x`), or with control characters or spaces, which some leave out.
    """
    for _ in range(_DECODED + 1):
        parts = re.split(rb"[/\\]", path.translate(None, _LEFT_OUT))
        if any(part.partition(b";")[0] in {b".", b".."} for part in parts):
            return True
        path = unquote_to_bytes(path)
    return False


def is_plain(path: bytes) -> bool:
    """Whether every reader splits `path` into the same segments. One slash at its end is taken."""
    segments = path.removesuffix(b"/").split(b"/")[1:]
    if has_dot_segment(path) or not all(segments):
        return False
    return not any(mark in unquote_to_bytes(segment) for segment in segments for mark in (b"/", b"\\", b";", b"\0"))


def _post_only(method: bytes, path: bytes, served: Served) -> Found:
    capability = _POST_ONLY[path]
    if capability is not None and capability not in served.standard:
        return NotFound()
    if method != b"POST":
        return MethodNotAllowed(allow=b"POST")
    if capability is None:
        return Needs(route=Route.DECLARATION, capability=None)
    if capability == INFERENCE:
        return Needs(route=Route.DECIDE, capability=INFERENCE, words=("decide",))
    return Needs(route=Route.FEEDBACK, capability=FEEDBACK, words=None)


def _inference(method: bytes, rest: bytes) -> Found:
    if rest == b"/api/hello" and method in {b"GET", b"HEAD"}:
        return Needs(route=Route.HELLO, capability=INFERENCE, token=False)
    posted = method == b"POST" and rest in {b"/v1/messages", b"/v1/messages/count_tokens"}
    if posted or (method == b"GET" and _MODEL.fullmatch(rest) is not None):
        return Needs(route=Route.INFERENCE, capability=INFERENCE, words=("agent",), upstream=rest)
    return NotFound()


def _egress(method: bytes, rest: bytes) -> Found:
    name, _, path = rest[1:].partition(b"/")
    if not is_secret_name(name) or has_dot_segment(path):
        return NotFound()
    word = name.decode("ascii")
    return Needs(route=Route.EGRESS, capability=EGRESS, words=(word,), upstream=b"/" + path, name=word)


def _fountain(method: bytes, rest: bytes) -> Found:
    path = read_path(rest)
    words = None if path is None else scope_words(method, path)
    if words is None:
        return NotFound()
    return Needs(route=Route.FOUNTAIN, capability=FOUNTAIN, words=words, upstream=rest)


def _extra(method: bytes, path: bytes, extras: tuple[Extra, ...]) -> Found:
    for extra in extras:
        for prefix in extra.routes:
            rest = under(path, prefix)
            if rest is None:
                continue
            words = extra_words(extra, method, path) if is_plain(rest) else None
            if words is None:
                return NotFound()
            return Needs(route=Route.EXTRA, capability=extra.name, words=words, upstream=rest)
    return NotFound()
